//! Compiles real sources with the system's compiler and runs what comes out, with services that do as little as
//! a single thread needs; barriers and waves with real fibers are tested with the whole device.

use super::*;
use crate::image::Image;
use crate::module_abi::{shadow, Block, Dim, Runtime, WaveResult, ABI};
use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::Mutex;

/// One at a time: the services below keep their records in statics.
static RECORD: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn barrier(_: u32, predicate: c_int, kind: u32) -> c_int {
    if kind == 1 {
        c_int::from(predicate != 0)
    } else {
        predicate
    }
}
unsafe extern "C" fn wave(thread: u32, _: u32, value: u64) -> *const WaveResult {
    let lane = thread % 32;
    let mut result = WaveResult { active: 1 << lane, value: [0; 64] };
    result.value[lane as usize] = value;
    Box::leak(Box::new(result))
}
unsafe extern "C" fn trap(_: u32, _: u32, _: *const c_char) {
    std::process::abort();
}
unsafe extern "C" fn violation(thread: u32, kind: u32, address: *const c_void, bytes: u32) {
    // Comes back, which the real one does not, so that the access happens; the tests keep it harmless.
    let text = format!("thread {thread} kind {kind} address {} bytes {bytes}", address as usize);
    RECORD.lock().unwrap_or_else(|e| e.into_inner()).push(text);
}
unsafe extern "C" fn clock_ns() -> u64 {
    1000
}

fn services() -> Runtime {
    Runtime {
        abi: ABI,
        barrier,
        wave,
        trap,
        violation,
        clock_ns,
        shadow: std::ptr::null_mut(),
        arena_base: 0,
        arena_bytes: 0,
    }
}

fn request(source: &str) -> CompileRequest<'_> {
    CompileRequest { name: "test.hip", source, ..Default::default() }
}

fn load(source: &str) -> Image {
    let object = compile(&request(source)).expect("the source compiles");
    Image::from_bytes(&object.image, &services()).expect("the object loads")
}

fn block(threads: u32, index: u32) -> Block {
    Block {
        block_idx: Dim { x: index, y: 0, z: 0 },
        block_dim: Dim { x: threads, y: 1, z: 1 },
        grid_dim: Dim { x: index + 1, y: 1, z: 1 },
        warp_size: 32,
        dynamic_shared_bytes: 0,
        dynamic_shared: std::ptr::null_mut(),
    }
}

/// Runs all threads of one block.
fn run<A>(image: &Image, name: &str, args: &A, block: &Block) {
    let name = CString::new(name).expect("no zero bytes");
    let kernel = image.kernel(&name).expect("the kernel is there");
    assert_eq!((kernel.args_bytes as usize).next_multiple_of(std::mem::align_of::<A>()), std::mem::size_of::<A>());
    let threads = block.block_dim.x * block.block_dim.y * block.block_dim.z;
    let mut next = 0;
    while next < threads {
        // SAFETY: the arguments have the layout of the kernel's parameters, checked by size above.
        unsafe { (kernel.run)(std::ptr::from_ref(args).cast(), block, next, threads) };
        next += 1;
        if name.to_bytes() != b"waits" {
            break;
        }
    }
}

const SAXPY: &str = r#"extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}"#;

#[repr(C)]
struct Saxpy(c_int, f32, *const f32, *mut f32);

#[test]
fn a_kernel_runs_over_its_block_and_no_further() {
    let image = load(SAXPY);
    let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let mut y = vec![1.0; 300];
    for index in 0..2 {
        run(&image, "saxpy", &Saxpy(290, 2.0, x.as_ptr(), y.as_mut_ptr()), &block(256, index));
    }
    for (i, value) in y.iter().enumerate() {
        assert_eq!(*value, if i < 290 { 2.0 * i as f32 + 1.0 } else { 1.0 }, "element {i}");
    }
}

#[test]
fn indices_of_huge_grids_wrap_as_written() {
    let image = load(
        r#"extern "C" __global__ void where(unsigned long long *at, unsigned *low) {
            at[threadIdx.x] = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
            low[threadIdx.x] = blockIdx.x * blockDim.x + threadIdx.x;
        }"#,
    );
    let (mut at, mut low) = ([0u64; 64], [0u32; 64]);
    run(&image, "where", &(at.as_mut_ptr(), low.as_mut_ptr()), &block(64, 0x7fff_fff0));
    assert_eq!((at[3], low[3]), (0x7fff_fff0 * 64 + 3, 0x7fff_fff0u32.wrapping_mul(64) + 3));
}

#[test]
fn blocks_of_three_dimensions_count_in_rows() {
    let image = load(
        r#"__global__ void ids(unsigned *out) {
            unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            out[t] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
        }"#,
    );
    let mut out = [u32::MAX; 105];
    let block = Block { block_dim: Dim { x: 7, y: 5, z: 3 }, ..block(7, 0) };
    run(&image, "ids", &(out.as_mut_ptr()), &block);
    for (t, value) in out.iter().enumerate() {
        assert_eq!(*value as usize, (t % 7) | ((t / 7 % 5) << 8) | ((t / 35) << 16), "thread {t}");
    }
}

#[test]
fn arguments_are_packed_as_c_packs_them() {
    let image = load(
        r#"struct Big { char tag; double values[9]; };
        extern "C" __global__ void take(char a, Big big, short b, double *out) {
            out[0] = a + b + big.tag + big.values[threadIdx.x];
        }
        extern "C" __global__ void writes(Big big, double *out) { big.values[0] += 1; out[threadIdx.x] = big.values[0]; }
        extern "C" __global__ void none() {}"#,
    );
    #[repr(C)]
    struct Big(c_char, [f64; 9]);
    #[repr(C)]
    struct Take(c_char, Big, i16, *mut f64);
    #[repr(C)]
    struct Writes(Big, *mut f64);
    let mut out = [0.0; 4];
    run(&image, "take", &Take(1, Big(2, [10.0; 9]), 3, out.as_mut_ptr()), &block(1, 0));
    assert_eq!(out[0], 16.0);
    // A parameter is a copy of each thread's own.
    run(&image, "writes", &Writes(Big(0, [5.0; 9]), out.as_mut_ptr()), &block(4, 0));
    assert_eq!(out, [6.0; 4]);
    let take = image.kernel(c"take").expect("there");
    // SAFETY: both tables have as many entries as the kernel has arguments.
    let offsets = unsafe { std::slice::from_raw_parts(take.arg_offsets, take.arg_count as usize) };
    assert_eq!(offsets, [0, 8, 88, 96]);
    assert_eq!(image.kernel(c"none").expect("there").arg_count, 0);
}

#[test]
fn a_thread_that_waited_ends_the_loop() {
    let image = load("__global__ void waits(int *out) { __syncthreads(); out[threadIdx.x]++; }");
    let mut out = [0; 8];
    run(&image, "waits", &(out.as_mut_ptr()), &block(8, 0));
    assert_eq!(out, [1; 8]);
}

#[test]
fn two_loads_are_two_instances() {
    let object = compile(&request(
        "__constant__ int base = 5; __device__ long also[2]; __global__ void read(int *out) { *out = base + also[1]; }",
    ));
    let object = object.expect("compiles");
    let images: Vec<Image> = (0..2).map(|_| Image::from_bytes(&object.image, &services()).expect("loads")).collect();
    let (address, bytes) = images[0].global(c"base").expect("the constant is found");
    assert_eq!((bytes, images[0].global(c"also").map(|(_, bytes)| bytes)), (4, Some(16)));
    // SAFETY: the module's own variable of that size.
    unsafe { address.cast::<i32>().write(7) };
    let mut out = [0, 0];
    for (image, out) in images.iter().zip(&mut out) {
        run(image, "read", &(std::ptr::from_mut(out)), &block(1, 0));
    }
    assert_eq!(out, [7, 5]);
    assert!(images[0].global(c"hip_host_kernels").is_none() && images[0].global(c"nothing").is_none());
}

#[test]
fn name_expressions_make_entries_of_templates() {
    let source = "namespace a { template <typename T, int N> __global__ void fill(T *out) { out[threadIdx.x] = N; } }
                  __global__ void plain(int *out) { *out = 1; }";
    let object = compile(&CompileRequest {
        name_expressions: &["a::fill<float, 3>", "& a::fill< unsigned int ,4>", "plain"],
        ..request(source)
    });
    let object = object.expect("compiles");
    assert_eq!(object.kernels, ["plain", "a::fill<float,3>", "a::fill<unsigned int,4>"]);
    assert_eq!(object.lowered[1], ("& a::fill< unsigned int ,4>".to_owned(), "a::fill<unsigned int,4>".to_owned()));
    assert_eq!(object.lowered[2].1, "plain");
    let image = Image::from_bytes(&object.image, &services()).expect("loads");
    let mut out = [0.0f32; 4];
    run(&image, "a::fill<float,3>", &(out.as_mut_ptr()), &block(4, 0));
    assert_eq!(out, [3.0; 4]);
    let wrong =
        compile(&CompileRequest { name_expressions: &["a::fill<float>"], ..request(source) }).expect_err("too few");
    assert!(wrong.log.contains("name expression a::fill<float>:1"), "{wrong}");
}

#[test]
fn diagnostics_point_into_the_text_as_given() {
    let error = compile(&request("// one\n\n__global__ void f(int *x) { y = 3; }\n")).expect_err("no y");
    assert!(error.log.contains("test.hip:3:"), "{error}");
    assert_eq!(error.reason, CompileFailure::Source);
    let headers = [("inner/part.h", "\n#error stop here\n")];
    let error =
        compile(&CompileRequest { headers: &headers, ..request("#include \"inner/part.h\"\n") }).expect_err("stops");
    assert!(error.log.contains("inner/part.h:2:") && !error.log.contains("headers/"), "{error}");
    let headers = [("inner/part.h", "\ninline void g() { z; }\n")];
    let error =
        compile(&CompileRequest { headers: &headers, ..request("#include \"inner/part.h\"\n") }).expect_err("no z");
    assert!(error.log.contains("inner/part.h:2:") && !error.log.contains("headers/"), "{error}");
}

#[test]
fn options_are_taken_noted_or_refused() {
    let source = "#if N != 3 || defined(M) || !defined(A)\n#error options\n#endif\n__global__ void f() {}";
    let options =
        ["-DN=3", "-D", "A", "-UM", "--offload-arch=gfx1100", "-mcumode", "-std=c++14", "-O1", "-ffast-math", "-Wall"];
    let object = compile(&CompileRequest { options: &options, ..request(source) }).expect("compiles");
    assert!(object.log.contains("-mcumode") && !object.log.contains("gfx1100"), "{}", object.log);
    for wrong in ["nonsense", "-D", "-std=fortran"] {
        let error = compile(&CompileRequest { options: &[wrong], ..request(source) }).expect_err("refused");
        assert_eq!(error.reason, CompileFailure::Request, "{error}");
    }
    let error = compile(&CompileRequest { headers: &[("../x.h", "")], ..request("") }).expect_err("refused");
    assert!(error.message.contains("../x.h"), "{error}");
}

#[test]
fn checked_objects_test_every_access() {
    let source = r#"extern "C" __global__ void copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }
        extern "C" __global__ void add(int *at) { atomicAdd(at, 1); }
        extern "C" __global__ void bare(int *at) { __atomic_fetch_add(at, 1, __ATOMIC_RELAXED); }
        extern "C" __global__ void move(const char *from, char *to, int n) { memcpy(to, from, n); }"#;
    let object = compile(&CompileRequest { checked: true, ..request(source) }).expect("compiles");
    // Eight written numbers, eight fresh ones, and a shadow of them all.
    let mut memory = vec![7i32; 16];
    let mut states = [shadow::WRITTEN; 64];
    states[32..].fill(shadow::FRESH);
    states[60..].fill(shadow::FREED);
    let base = memory.as_mut_ptr() as u64;
    let runtime = Runtime { shadow: states.as_mut_ptr(), arena_base: base, arena_bytes: 64, ..services() };
    let image = Image::from_bytes(&object.image, &runtime).expect("loads");
    assert!(image.checked());
    let at = |index: u64| base + 4 * index;
    let take = || std::mem::take(&mut *RECORD.lock().unwrap_or_else(|e| e.into_inner()));
    take();

    run(&image, "copy", &(at(0), at(8)), &block(4, 0));
    assert_eq!((take(), states[32..48] == [shadow::WRITTEN; 16]), (vec![], true), "written by the stores");
    run(&image, "copy", &(at(11), at(0)), &block(3, 0));
    let fresh = |thread: u64| format!("thread {thread} kind 0 address {} bytes 4", at(11 + thread));
    assert_eq!(take(), [4; 2].iter().enumerate().flat_map(|(i, n)| vec![fresh(i as u64 + 1); *n]).collect::<Vec<_>>());
    run(&image, "copy", &(at(0), at(15)), &block(1, 0));
    assert!(take().iter().all(|text| text.contains("kind 1")), "freed memory is not written");
    run(&image, "add", &(at(0)), &block(1, 0));
    assert_eq!(take(), Vec::<String>::new());
    states[52..56].fill(shadow::FRESH);
    run(&image, "add", &(at(13)), &block(1, 0));
    assert!(take()[0].contains("kind 2"), "an update reads");
    states[52..56].fill(shadow::FRESH);
    run(&image, "bare", &(at(13)), &block(1, 0));
    assert!(take()[0].contains("kind 2"), "however it is spelt");
    #[repr(C)]
    struct Move(u64, u64, c_int);
    states[56..60].fill(shadow::FRESH);
    run(&image, "move", &Move(at(14), at(0), 3), &block(1, 0));
    assert!(take()[0].contains("kind 0"), "a block copy reads");
    let stack = [1, 2, 3, 4];
    run(&image, "copy", &(stack.as_ptr(), at(0)), &block(4, 0));
    assert_eq!(take(), Vec::<String>::new(), "other memory has no shadow");
}

#[test]
fn the_loop_over_threads_is_vectorised() {
    let compiler = Compiler::find().expect("a compiler");
    let options = Options::parse(&["-march=x86-64-v3"], false).expect("good options");
    let workspace = Workspace::new().expect("a folder");
    workspace.device_headers(DEVICE).expect("headers");
    // A kernel with a barrier beside it must not spoil the other.
    workspace
        .write("source.hip", &format!("{SAXPY}\n__global__ void waits(int *x) {{ __syncthreads(); *x = 1; }}"))
        .expect("written");
    let mut command = compiler.command(workspace.path());
    command.args(options.flags(&compiler)).args([
        "-E",
        "-x",
        "c++",
        "-Idevice",
        "-include",
        "hip_host.h",
        "source.hip",
    ]);
    let text = command.output().expect("preprocessed").stdout;
    let rules = Rules { gcc: compiler.family == Family::Gcc, by_reference: true, header_folder: HEADERS };
    let mut scanned = scan(&String::from_utf8_lossy(&text), rules);
    entries(&mut scanned, &request(""), None);
    workspace.write("kernels.ii", &scanned.text).expect("written");
    let report = match compiler.family {
        Family::Gcc => "-fopt-info-vec-optimized",
        Family::Clang => "-Rpass=loop-vectorize",
    };
    let mut command = compiler.command(workspace.path());
    command.args(options.flags(&compiler)).args([
        report,
        "-c",
        "-x",
        "c++-cpp-output",
        "kernels.ii",
        "-o",
        "kernels.o",
    ]);
    let said = String::from_utf8_lossy(&command.output().expect("compiled").stderr).into_owned();
    let vectorised =
        said.lines().any(|line| line.contains("entry.h") && line.contains("vectorized") && line.contains("loop"));
    assert!(vectorised || !cfg!(target_arch = "x86_64"), "{said}");
}

#[test]
fn damaged_images_are_refused_with_a_sentence() {
    let object = compile(&request("__global__ void f() {}")).expect("compiles");
    let refuse = |bytes: &[u8]| match Image::from_bytes(bytes, &services()) {
        Ok(_) => panic!("loaded"),
        Err(why) => why,
    };
    assert!(refuse(b"no object at all").contains("cannot load"));
    let mut foreign = object.image.clone();
    foreign[18] = 224;
    // SAFETY: a whole ELF file.
    let why = unsafe { Image::load(foreign.as_ptr().cast(), &services()) }.err().expect("an AMD object");
    assert!(why.contains("AMD GPU"), "{why}");
    // SAFETY: the first byte is not ELF's.
    let why = unsafe { Image::load(c"".as_ptr().cast(), &services()) }.err().expect("no object");
    assert!(why.contains("not an ELF file"), "{why}");
    // SAFETY: a whole object, of which the size is found.
    assert!(unsafe { Image::load(object.image.as_ptr().cast(), &services()) }.is_ok());
}

#[test]
fn an_object_for_a_better_processor_is_refused() {
    let options = ["-march=x86-64-v2"];
    let object = compile(&CompileRequest { options: &options, ..request("__global__ void f() {}") }).expect("compiles");
    let mut image = object.image;
    let at = image.windows(10).position(|bytes| bytes == b"x86-64-v2\0").expect("the level is written into the object");
    image[at + 8] = b'9';
    let why = Image::from_bytes(&image, &services()).err().expect("no such processor");
    assert!(why.contains("x86-64-v9") && why.contains("HIP_HOST_MARCH"), "{why}");
}

#[test]
fn a_compiler_that_is_missing_is_a_sentence() {
    let variable = |name: &str| (name == "CXX").then(|| "no-such-compiler --fast".to_owned());
    let error = Compiler::find_among(variable, &["c++"]).expect_err("the variable is believed");
    assert!(error.message.contains("CXX") && error.message.contains("no-such-compiler --fast"), "{error}");
    let error = Compiler::find_among(|_| None, &["no-such-compiler", "nor-this-one"]).expect_err("none");
    assert!(
        error.message.contains("no-such-compiler, nor-this-one") && error.message.contains("HIP_HOST_CXX"),
        "{error}"
    );
    assert_eq!(error.reason, CompileFailure::Compiler);
}

#[test]
fn a_workspace_is_private_and_goes_away() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new().expect("a folder");
    let path = workspace.path().to_owned();
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
    workspace.header("headers", "a/b/c.h", "").expect("written");
    drop(workspace);
    assert!(!path.exists());
}
