"""The cases of `candle-rocm bench` with PyTorch eager, printed as the same JSON: `python3 benches/pytorch.py > pytorch.json`,
then `candle-rocm bench --against pytorch.json`. Names must be those of src/bench/cases; cases that PyTorch has no operation for
(quantized products, whole models) are left out."""

import datetime
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

device = "cuda"
f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
NAMES = {f16: "f16", bf16: "bf16", f32: "f32", torch.int32: "u32", torch.uint8: "u8"}
ROUNDS, ROUND, WARM_UP, MOST_TURNS = 9, 0.015, 0.02, 1000
M = 1 << 20
results = []


def random(dtype, *dims):
    if dtype.is_floating_point:
        return torch.randn(dims, device=device, dtype=f32).to(dtype)
    return torch.randint(0, 100, dims, device=device).to(dtype)


def amount(count):
    if count >= M and count % M == 0:
        return f"{count // M}M"
    if count >= 1 << 15 and count % 1024 == 0:
        return f"{count // 1024}K"
    return str(count)


def label(dtype, *dims):
    return f"{NAMES[dtype]} {'x'.join(map(amount, dims))}"


def case(family, name, setup, timing="stream", bytes=0, flops=0):
    """`setup` returns what is timed; `timing` is one of stream, submit, alone, as in src/bench/case.rs."""
    entry = {"family": family, "name": name}
    try:
        turn = setup()
        turn()
        torch.cuda.synchronize()
        start, warm = time.perf_counter(), 0
        while warm == 0 or (time.perf_counter() - start < WARM_UP and warm < MOST_TURNS):
            turn()
            warm += 1
            if warm % 16 == 0:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        once = (time.perf_counter() - start) / warm
        turns = int(min(max(ROUND / once, 1), MOST_TURNS))
        rounds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(turns):
                turn()
            submitted = time.perf_counter() - start
            torch.cuda.synchronize()
            all_of_it = submitted if timing == "submit" else time.perf_counter() - start
            rounds.append(all_of_it * 1e6 / turns)
        entry.update(us=statistics.median(rounds), low=min(rounds), high=max(rounds))
    except Exception as error:  # a case that PyTorch refuses stays in the file with its reason
        entry["error"] = str(error).splitlines()[0]
    entry.update(bytes=bytes, flops=flops)
    results.append(entry)
    torch.cuda.empty_cache()


def of(function, *operands):
    """A setup: operands are made once, as (dtype, dims...) tuples."""

    def setup():
        made = [random(*operand) for operand in operands]
        return lambda: function(*made)

    return setup


def elementwise():
    case("copy", "copy f32 256M", of(torch.clone, (f32, 256 * M)), bytes=8 * 256 * M)
    for dtype in (bf16, f32):
        case("elementwise", f"add {label(dtype, 64 * M)}", of(torch.add, (dtype, 64 * M), (dtype, 64 * M)))
    case("elementwise", "mul f16 16M", of(torch.mul, (f16, 16 * M), (f16, 16 * M)))
    case("elementwise", "gelu bf16 16M", of(lambda x: F.gelu(x, approximate="tanh"), (bf16, 16 * M)))
    case("elementwise", "silu f16 16M", of(F.silu, (f16, 16 * M)))
    case("elementwise", "exp f32 64M", of(torch.exp, (f32, 64 * M)))
    # No affine in PyTorch: one pass with a scalar product, the nearest thing.
    case("elementwise", "affine bf16 16M", of(lambda x: torch.add(1.0, x, alpha=2.0), (bf16, 16 * M)))
    for start, end, count in (
        (f32, f16, 16 * M), (f16, f32, 64 * M), (bf16, f32, 16 * M), (f32, bf16, 64 * M),
        (torch.int32, f32, 16 * M), (f32, torch.uint8, 16 * M),
    ):
        case("cast", f"cast {label(start, count)} to {NAMES[end]}", of(lambda x, end=end: x.to(end), (start, count)))
    case("choice", "lt f16 16M", of(torch.lt, (f16, 16 * M), (f16, 16 * M)))
    case("choice", "eq u32 16M", of(torch.eq, (torch.int32, 16 * M), (torch.int32, 16 * M)))
    for dtype, dims in ((f16, (4096, 4096)), (f32, (64 * M,))):
        def setup(dtype=dtype, dims=dims):
            condition, yes, no = random(f32, *dims) > 0, random(dtype, *dims), random(dtype, *dims)
            return lambda: torch.where(condition, yes, no)
        case("choice", f"where_cond {label(dtype, *dims)}", setup)


def strided():
    side = 4096
    case("strided", "row broadcast add f32 4096x4096", of(torch.add, (f32, side, side), (f32, side)))
    case("strided", "column broadcast add f32 4096x4096", of(torch.add, (f32, side, side), (f32, side, 1)))
    for dtype in (f16, f32):
        name = label(dtype, side, side)
        case("strided", f"add of a transposed {name}", of(lambda a, b: a + b.t(), (dtype, side, side), (dtype, side, side)))
        case("strided", f"contiguous of a transposed {name}", of(lambda x: x.t().contiguous(), (dtype, side, side)))
    half = lambda a, b: a[:, side // 2 : side // 2 + side] + b
    case("strided", "add of half the columns of f16 4096x4096", of(half, (f16, side, 2 * side), (f16, side, side)))
    case("strided", "contiguous of a transposed(1,2) f16 1x32x4096x128",
         of(lambda x: x.transpose(1, 2).contiguous(), (f16, 1, 32, 4096, 128)))
    for order, dtype in (((3, 1, 0, 2), f32), ((0, 2, 3, 1), f16)):
        name = f"contiguous of a permuted({','.join(map(str, order))}) {label(dtype, 64, 64, 64, 64)}"
        case("strided", name, of(lambda x, order=order: x.permute(order).contiguous(), (dtype, 64, 64, 64, 64)))


def rows():
    square, few, many, vocabulary = (4096, 4096), (8, 8 * M), (M, 32), (32, 128256)
    for what, dtype, dims, function in (
        ("sum of rows", f32, square, lambda x: x.sum(-1)),
        ("sum of rows", bf16, square, lambda x: x.sum(-1)),
        ("sum of rows", f16, few, lambda x: x.sum(-1)),
        ("sum of rows", f32, many, lambda x: x.sum(-1)),
        ("sum of columns", f32, square, lambda x: x.sum(0)),
        ("sum of columns", f16, many, lambda x: x.sum(0)),
        ("max of rows", bf16, square, lambda x: x.amax(-1)),
        ("argmax of rows", f32, vocabulary, lambda x: x.argmax(-1)),
        ("sum of all", f32, few, torch.sum),
    ):
        case("reduce", f"{what} {label(dtype, *dims)}", of(function, (dtype, *dims)))
    for dtype, dims in ((f16, square), (f32, square), (f32, vocabulary), (f16, few), (f32, many)):
        case("softmax and norms", f"softmax {label(dtype, *dims)}", of(lambda x: F.softmax(x, -1), (dtype, *dims)))
    for dtype, dims in ((bf16, square), (f32, square), (f16, (1 << 18, 128)), (f16, (64, 1 << 18))):
        width = dims[1]
        case("softmax and norms", f"rms_norm {label(dtype, *dims)}",
             of(lambda x, a, width=width: F.rms_norm(x, (width,), a, 1e-5), (dtype, *dims), (dtype, width)))
        case("softmax and norms", f"layer_norm {label(dtype, *dims)}",
             of(lambda x, a, b, width=width: F.layer_norm(x, (width,), a, b, 1e-5),
                (dtype, *dims), (dtype, width), (dtype, width)))


def indexing():
    ids = lambda bound, *dims: torch.randint(0, bound, dims, device=device)

    def setup():
        table, at = random(f16, 128256, 4096), ids(128256, 2048)
        return lambda: table.index_select(0, at)
    case("indexing", "index_select f16 128256x4096, 2048 rows", setup)

    def setup():
        x, at, source = random(f32, 8192, 4096), ids(8192, 2048), random(f32, 2048, 4096)
        return lambda: x.index_add(0, at, source)
    case("indexing", "index_add f32 8192x4096, 2048 rows", setup)

    def setup():
        x, at = random(f32, 4096, 4096), ids(4096, 4096, 1024)
        return lambda: x.gather(1, at)
    case("indexing", "gather f32 4096x4096, 4096x1024 ids, dim 1", setup)

    def setup():
        x, at, source = random(f32, 4096, 4096), ids(4096, 4096, 1024), random(f32, 4096, 1024)
        return lambda: x.scatter_add(1, at, source)
    case("indexing", "scatter_add f32 4096x4096, 4096x1024 ids, dim 1", setup)

    for dtype, dims in ((f32, (32, 8192)), (f32, (32, 128256)), (f16, (4096, 1024)), (torch.int32, (1 << 16, 64))):
        case("sort", f"arg_sort {label(dtype, *dims)}", of(lambda x: torch.argsort(x, -1), (dtype, *dims)))


def pieces():
    for dim in (0, 1):
        case("pieces", f"cat of two f16 4096x4096, dim {dim}",
             of(lambda a, b, dim=dim: torch.cat((a, b), dim), (f16, 4096, 4096), (f16, 4096, 4096)))

    def setup():
        to, source = random(f16, 4, 8, 4096, 128), random(f16, 4, 8, 2048, 128)
        return lambda: to[:, :, 1024 : 1024 + 2048].copy_(source)
    case("pieces", "slice_set of half of f16 4x8x4096x128, dim 2", setup)
    case("pieces", "repeat_kv x4 f16 4x8x4096x128", of(lambda x: x.repeat_interleave(4, 1), (f16, 4, 8, 4096, 128)))

    def rope(x, cos, sin):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)
    case("pieces", "rope f16 4x8x4096x128", of(rope, (f16, 4, 8, 4096, 128), (f16, 4096, 64), (f16, 4096, 64)))


def products():
    for dtype, batch, (m, k, n), transposed in (
        (f32, 1, (4096, 4096, 4096), False), (f16, 1, (4096, 4096, 4096), False), (bf16, 1, (4096, 4096, 4096), False),
        (f16, 1, (512, 4096, 14336), True), (f16, 1, (1, 4096, 14336), True), (f32, 1, (1, 4096, 14336), True),
        (f16, 32, (2048, 128, 2048), True), (f16, 32, (2048, 2048, 128), False),
    ):
        def setup(dtype=dtype, batch=batch, m=m, k=k, n=n, transposed=transposed):
            left = random(dtype, batch, m, k)
            right = random(dtype, batch, n, k).transpose(1, 2) if transposed else random(dtype, batch, k, n)
            if batch == 1:
                left, right = left[0], right[0]
            return lambda: left @ right
        batches = "" if batch == 1 else f"{batch} of "
        case("matmul", f"matmul {batches}{label(dtype, m, k)} by {k}x{n}{'t' if transposed else ''}", setup,
             flops=2 * batch * m * k * n)


def images():
    for dtype in (f32, f16, bf16):
        case("conv", f"conv2d 3x3 {label(dtype, 1, 128, 128, 128)} to 128",
             of(lambda x, w: F.conv2d(x, w, padding=1), (dtype, 1, 128, 128, 128), (dtype, 128, 128, 3, 3)))
    for dtype in (f32, f16):
        case("conv", f"conv2d 3x3 stride 2 {label(dtype, 8, 64, 128, 128)} to 128",
             of(lambda x, w: F.conv2d(x, w, padding=1, stride=2), (dtype, 8, 64, 128, 128), (dtype, 128, 64, 3, 3)))
    for dtype in (f32, f16):
        case("conv", f"conv1d k3 {label(dtype, 1, 384, 3000)} to 384",
             of(lambda x, w: F.conv1d(x, w, padding=1), (dtype, 1, 384, 3000), (dtype, 384, 384, 3)))
    for dtype in (f32, f16):
        case("conv", f"conv_transpose2d k4s2 {label(dtype, 1, 128, 64, 64)} to 128",
             of(lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (dtype, 1, 128, 64, 64), (dtype, 128, 128, 4, 4)))
    large, small = (8, 64, 256, 256), (8, 64, 128, 128)
    for dtype in (f16, f32):
        case("pool and resample", f"max_pool2d k2 {label(dtype, *large)}", of(lambda x: F.max_pool2d(x, 2), (dtype, *large)))
    case("pool and resample", f"avg_pool2d k2 {label(f16, *large)}", of(lambda x: F.avg_pool2d(x, 2), (f16, *large)))
    for dtype in (f16, f32):
        case("pool and resample", f"upsample_nearest2d x2 {label(dtype, *small)}",
             of(lambda x: F.interpolate(x, scale_factor=2), (dtype, *small)))
    case("pool and resample", f"upsample_bilinear2d x2 {label(f16, *small)}",
         of(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (f16, *small)))


def launches():
    for timing, what in (("stream", "chain of 1000"), ("submit", "submit")):
        case("launch", f"one tiny contiguous add ({what})", of(torch.add, (f32, 8, 16), (f32, 8, 16)), timing)
        case("launch", f"one tiny transposed add ({what})", of(lambda a, b: a + b.t(), (f32, 8, 16), (f32, 16, 8)), timing)
        case("launch", f"one tiny broadcast add ({what})", of(torch.add, (f32, 8, 16), (f32, 16)), timing)
    count = 16 * M
    host = torch.arange(count, dtype=f32)
    case("transfer", "64 MB to the device", lambda: lambda: (host.to(device), torch.cuda.synchronize()), "alone", bytes=4 * count)
    case("transfer", "64 MB back (to_vec1)", of(lambda x: x.cpu(), (f32, count)), "alone", bytes=4 * count)
    few = torch.ones(1024)
    case("transfer", "4 KB to the device", lambda: lambda: (few.to(device), torch.cuda.synchronize()), "alone", bytes=4096)
    case("transfer", "one number back", of(lambda x: x.item(), (f32, 1)), "alone", bytes=4)


for family in (elementwise, strided, rows, indexing, pieces, products, images, launches):
    family()
json.dump(
    {
        "title": "PyTorch",
        "device": f"{torch.cuda.get_device_name()} (CUDA {torch.version.cuda})",
        "date": datetime.date.today().isoformat(),
        "method": f"PyTorch {torch.__version__} eager; median of {ROUNDS} rounds of about {ROUND * 1e3:.0f} ms after a warm-up of "
        f"{WARM_UP * 1e3:.0f} ms; a round is up to {MOST_TURNS} turns between two synchronisations, timed by the host's clock",
        "results": results,
    },
    sys.stdout,
    indent=1,
)
