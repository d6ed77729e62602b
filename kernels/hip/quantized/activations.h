// Activations on their way into an integer dot product: blocks of 32 values become signed bytes and one f32 step.
// This is GGML's q8_1 in spirit, laid out for wide loads: all bytes first, in pieces of 16 and in the order in which the
// threads of a wave will want them, then the steps. The step is f32, so that neither large nor tiny activations leave its
// range, and the two sums are integers, so that the part of a dot product that belongs to a weight's offset is exact.
#pragma once

constexpr u32 ACTIVATION_BLOCK = 32;
constexpr u32 QUANTIZE_THREADS = 256;
SHARE(ACTIVATION_BLOCK)
SHARE(QUANTIZE_THREADS)

struct Step {
    f32 step;   // value = step * byte
    i16 sum[2]; // of the first and of the last 16 bytes

    // A choice and not an index: an index that is known only at run time would put the structure into memory.
    MEMBER i32 half(u32 which) const { return which ? sum[1] : sum[0]; }
};
SHARE_AS(Step_size, "Step", sizeof(Step))

// The order of a row's pieces. In a mat-vec, neighbouring threads take neighbouring units of the weights' format, and each
// of them the pieces of its unit one after the other. The same piece of eight units therefore lies side by side: eight
// threads read 128 bytes in a row, which is what a cache line holds. Tiles take pieces as they come.
enum Arrangement : u32 { ARRANGED_LINEAR = 0, ARRANGED_PAIRS = 1, ARRANGED_QUARTERS = 2, ARRANGED_PLANES = 3 };
SHARE(ARRANGED_LINEAR)
SHARE(ARRANGED_PAIRS)
SHARE(ARRANGED_QUARTERS)
SHARE(ARRANGED_PLANES)

constexpr u32 NEIGHBOURS = 8;
SHARE(NEIGHBOURS)

// Where piece i of unit `unit` lies, counted in pieces from the start of the row.
template <u32 UNIT> DEVICE u32 arranged(u32 unit, u32 i) {
    return (unit / NEIGHBOURS) * (NEIGHBOURS * UNIT) + NEIGHBOURS * i + unit % NEIGHBOURS;
}

// Where a piece of a row lies.
DEVICE u32 arranged_piece(u32 arrangement, u32 piece) {
    switch (arrangement) {
    case ARRANGED_PAIRS: return arranged<2>(piece / 2, piece % 2);
    case ARRANGED_QUARTERS: return arranged<4>(piece / 4, piece % 4);
    case ARRANGED_PLANES: return arranged<4>(4 * (piece / 16) + 2 * (piece / 8 % 2) + piece % 2, piece / 2 % 4);
    default: return piece;
    }
}

// Where quantized activations lie: rows of `pitch` bytes, and their steps. All offsets fit into 32 bits, which the launch
// layer sees to: one base address and small offsets leave registers for the weights.
struct Activations {
    const u8 *bytes;
    const Step *steps;
    u32 pitch;

    // The piece that lies at `place` of a row.
    MEMBER Words<4> piece(u32 column, u32 place) const { return words<4, 16>(bytes + (column * pitch + PIECE * place)); }
    // The step of a piece of a row of k.
    MEMBER Step step(u32 column, u32 k, u32 piece) const {
        return steps[column * (k / ACTIVATION_BLOCK) + piece / 2];
    }
};
SHARE_LAYOUT(Activations, bytes, steps, pitch)

// Four neighbouring values; `at` may be anything that T allows.
template <typename T> DEVICE Vec<f32, 4> four_values(const T *at, u64 stride) {
    Vec<f32, 4> out;
    if (stride == 1 && (u64)at % (4 * sizeof(T)) == 0) {
        const Vec<T, 4> v = load<4>(at);
        UNROLL
        for (u32 i = 0; i < 4; i++) out[i] = widen(v[i]);
    } else {
        UNROLL
        for (u32 i = 0; i < 4; i++) out[i] = widen(at[i * stride]);
    }
    return out;
}

// Bits of |x|: ordered as integers the way the values are, with NaN above infinity, so that a NaN among the
// activations reaches the step and from there the result.
DEVICE u32 magnitude_bits(f32 x) { return bit_cast<u32>(x) & 0x7fffffffu; }

// 127 / x for x above 1e-36. On NVIDIA the quick reciprocal has 23 good bits, and results below the normal numbers.
DEVICE f32 steps_in(f32 x) {
#if defined(TARGET_NVIDIA)
    f32 inverse;
    asm("rcp.approx.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return 127.0f * inverse;
#else
    return 127.0f / x;
#endif
}

// The low bytes of four words in one.
DEVICE u32 low_bytes(const u32 (&word)[4]) {
#if defined(TARGET_NVIDIA)
    return __byte_perm(__byte_perm(word[0], word[1], 0x0040), __byte_perm(word[2], word[3], 0x0040), 0x5410);
#else
    return (word[0] & 0xff) | (word[1] & 0xff) << 8 | (word[2] & 0xff) << 16 | word[3] << 24;
#endif
}

constexpr u32 QUANTIZE_LANES = 4;
SHARE(QUANTIZE_LANES)

// One block by a team of LANES neighbouring threads: one, or as many as have eight values each. `quad(i)` gives four values of it;
// `to` takes eight bytes at a time, and from one of the threads the step and the sums of either half.
template <u32 LANES, u32 BLOCK = ACTIVATION_BLOCK, typename Quad, typename To>
DEVICE void quantize_block(Quad quad, const To &to) {
    constexpr u32 PAIRS = BLOCK / 8 / LANES;
    const u32 lane = thread_x() % LANES;
    Vec<f32, 4> value[PAIRS][2];
    u32 largest = 0;
    UNROLL
    for (u32 p = 0; p < 2 * PAIRS; p++) {
        value[p / 2][p % 2] = quad(2 * lane * PAIRS + p);
        UNROLL
        for (u32 i = 0; i < 4; i++) largest = max_of(largest, magnitude_bits(value[p / 2][p % 2][i]));
    }
    if constexpr (LANES > 1) largest = group_reduce(largest, LANES, Greater());
    const f32 limit = bit_cast<f32>(largest);
    const f32 inverse = limit > 1e-36f ? steps_in(limit) : 0.0f; // below, 127 / limit would overflow
    i32 sum[2] = {0, 0};
    UNROLL
    for (u32 p = 0; p < PAIRS; p++) {
        Vec<u32, 2> word;
        UNROLL
        for (u32 q = 0; q < 2; q++) {
            u32 bits[4];
            // Adding 1.5 * 2^23 leaves the nearest integer in the low bits, whatever the value: no conversion that
            // a NaN could make undefined.
            UNROLL
            for (u32 i = 0; i < 4; i++) bits[i] = bit_cast<u32>(value[p][q][i] * inverse + 12582912.0f);
            word[q] = low_bytes(bits);
            i32 &half = sum[LANES == 1 ? p / 2 : 0];
            half = dot4(word[q], 0x01010101u, half);
        }
        to.words(lane * PAIRS + p, word);
    }
    if constexpr (LANES > 1) {
        // The first half of the threads has the first half of the block.
        sum[0] = group_reduce(sum[0], LANES / 2, Sum());
        sum[1] = shuffle_xor(sum[0], LANES / 2);
    }
    if (lane == 0) to.step(limit * (1.0f / 127.0f), sum[0], sum[1]);
}

// Takes a block's two pieces of bytes, which lie apart, and its step.
struct IntoPieces {
    u8 *first, *second;
    Step *steps;
    bool inside; // false for threads past the end

    MEMBER void words(u32 at, Vec<u32, 2> words) const {
        if (inside) store<2>((u32 *)((at < 2 ? first : second) + 8 * (at % 2)), words);
    }
    MEMBER void step(f32 step, i32 low, i32 high) const {
        if (inside) *steps = Step{step, {(i16)low, (i16)high}};
    }
};

// How the result is laid out.
struct QuantizedRows {
    u8 *bytes;
    Step *steps;
    Divider blocks_per_row;
    u32 block_count;
    u32 pitch;
    u32 arrangement;
    u32 wide; // QUANTIZE_LANES threads a block
    u32 unused;
};
SHARE_LAYOUT(QuantizedRows, bytes, steps, blocks_per_row, block_count, pitch, arrangement, wide)

// `rows` finds the start of a row of activations, whose elements lie `stride` apart.
template <typename T>
DEVICE void quantize_activations(const T *RESTRICT source, const Layout &rows, u64 stride, const QuantizedRows &to) {
    const u32 thread = block_x() * QUANTIZE_THREADS + thread_x();
    const u32 index = to.wide ? thread / QUANTIZE_LANES : thread;
    const bool inside = index < to.block_count;
    const u32 block = inside ? index : to.block_count - 1;
    const Division split = divide(block, to.blocks_per_row);
    const T *at = source + rows.offset(split.quotient) + (u64)split.remainder * ACTIVATION_BLOCK * stride;
    u8 *row = to.bytes + split.quotient * to.pitch;
    u8 *first = row + PIECE * arranged_piece(to.arrangement, 2 * split.remainder);
    u8 *second = row + PIECE * arranged_piece(to.arrangement, 2 * split.remainder + 1);
    const auto quad = [&](u32 i) { return four_values(at + 4 * i * stride, stride); };
    if (to.wide) {
        quantize_block<QUANTIZE_LANES>(quad, IntoPieces{first, second, to.steps + block, inside});
    } else {
        quantize_block<1>(quad, IntoPieces{first, second, to.steps + block, inside});
    }
}

// The float dtypes by number.
enum FloatType : u32 { FLOAT_F32 = 0, FLOAT_F16 = 1, FLOAT_BF16 = 2 };
SHARE(FLOAT_F32)
SHARE(FLOAT_F16)
SHARE(FLOAT_BF16)

// One row of activations, of any float dtype.
struct ActivationRow {
    const void *at;
    u64 stride;
    u32 code; // FloatType

    // Values 4 * i ..
    MEMBER Vec<f32, 4> quad(u32 i) const {
        const u64 from = 4 * (u64)i * stride;
        return code == FLOAT_F32   ? four_values((const f32 *)at + from, stride)
               : code == FLOAT_F16 ? four_values((const f16 *)at + from, stride)
                                   : four_values((const bf16 *)at + from, stride);
    }
};
SHARE_LAYOUT(ActivationRow, at, stride, code)
