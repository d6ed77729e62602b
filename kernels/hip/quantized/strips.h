// Weights times eight activations, or a few times eight, on matrix units: a strip is 16 rows of weights.
// A team of 32 threads multiplies the integers of a strip, 32 of each row, with the bytes of eight activations in one
// instruction. The weights pass through shared memory, where unaligned blocks cost nothing and the next ones arrive while
// these are multiplied. Where there is no such instruction, dot products of four bytes give the same sums.
#pragma once

constexpr u32 STRIP_ROWS = 16;
constexpr u32 STRIP_COLUMNS = 8;
constexpr u32 STRIP_TEAM = 32;
constexpr u32 STRIP_SPLITS = 4; // teams of a block: they share the rows of one strip, a chunk each in turn
constexpr u32 STRIP_THREADS = STRIP_SPLITS * STRIP_TEAM;
constexpr u32 STRIP_STAGES = 2;
constexpr u32 CHUNK = 256; // weights of a row that pass through shared memory together

#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 800
#define MATRIX_UNITS 1
#endif

// Words of a piece that a thread takes out of its bytes: one, where the matrix unit collects the others from its neighbours.
#if defined(MATRIX_UNITS)
constexpr u32 STRIP_WORDS = 1;
#else
constexpr u32 STRIP_WORDS = 4;
#endif

// Sums of products begin with these bits, an f32 with room for 22 bits and a sign: what is added to them as integers is added to
// the number they stand for, and no conversion is needed.
constexpr u32 RAISED_BITS = 0x4b400000u;
constexpr f32 RAISED = 12582912.0f;

// Eight activations as the teams read them. The bytes of a block of 32 lie in the order [column][word of a piece][piece]; beside
// them are marks: [kind][column] with the step, and what belongs to a weight's zero or offset. That is, for the sum of all bytes
// and of either half, step * sum where the format has an offset, and otherwise RAISED + ZERO * sum, to be taken away.
enum Mark : u32 { MARK_STEP = 0, MARK_TOTAL = 1, MARK_HALVES = 2, MARKS = 4 };
constexpr u32 STRIP_BLOCK_WORDS = STRIP_COLUMNS * ACTIVATION_BLOCK / 4;
constexpr u32 STRIP_BLOCK_MARKS = STRIP_COLUMNS * MARKS;

// How they are laid out; `src/quantized/strips.rs` has the same.
struct StripRows {
    u32 *words;
    f32 *marks;
    Divider blocks_per_row;
    u32 block_count; // of whole groups of eight
    u32 count;       // activations
    f32 zero;
    u32 has_offset;
};

// Takes the bytes and sums of one block of one activation.
struct IntoStrip {
    u32 *places;
    f32 *marks;
    const StripRows &rows;
    bool inside;

    MEMBER f32 mark(f32 step, i32 sum) const { return rows.has_offset ? step * (f32)sum : RAISED + rows.zero * (f32)sum; }
    MEMBER void words(u32 at, Vec<u32, 2> two) const {
        if (!inside) return;
        UNROLL
        for (u32 i = 0; i < 2; i++) places[2 * (2 * (at % 2) + i) + at / 2] = two[i];
    }
    MEMBER void step(f32 step, i32 low, i32 high) const {
        if (!inside) return;
        marks[STRIP_COLUMNS * MARK_STEP] = step;
        marks[STRIP_COLUMNS * MARK_TOTAL] = mark(step, low + high);
        marks[STRIP_COLUMNS * MARK_HALVES] = mark(step, low);
        marks[STRIP_COLUMNS * (MARK_HALVES + 1)] = mark(step, high);
    }
};

// `rows` finds the start of an activation, whose elements lie `stride` apart.
template <typename T>
DEVICE void quantize_strips(const T *RESTRICT source, const Layout &rows, u64 stride, const StripRows &to) {
    const u32 index = (block_x() * QUANTIZE_THREADS + thread_x()) / QUANTIZE_LANES;
    const bool inside = index < to.block_count;
    const Division split = divide(inside ? index : to.block_count - 1, to.blocks_per_row);
    // The places past the end repeat the last activation; what comes of them is not stored.
    const T *at = source + rows.offset(min_of(split.quotient, to.count - 1)) + (u64)split.remainder * ACTIVATION_BLOCK * stride;
    const u32 group = split.quotient / STRIP_COLUMNS, column = split.quotient % STRIP_COLUMNS;
    const u64 block = (u64)group * to.blocks_per_row.divisor + split.remainder;
    quantize_block<QUANTIZE_LANES>([&](u32 i) { return four_values(at + 4 * i * stride, stride); },
                      IntoStrip{to.words + (block * STRIP_BLOCK_WORDS + 8 * column),
                                to.marks + (block * STRIP_BLOCK_MARKS + column), to, inside});
}

// How a chunk of a row lies in shared memory: from a multiple of 16 bytes on, as it does in memory.
template <typename F> struct Chunk {
    static constexpr u32 BLOCKS = CHUNK / F::ELEMENTS, BYTES = BLOCKS * F::BYTES;
    static constexpr u32 SKEW = F::ALIGN == 16 ? 0 : 15; // mask of how far its beginning is from there
    static constexpr u32 PIECES = (BYTES + (F::ALIGN == 16 ? 0 : 16 - F::ALIGN) + 15) / 16;
    static constexpr u32 PITCH = 16 * (PIECES | 1); // odd, so that the eight rows that are read together miss no bank
    // A group is what comes out of the same bytes: PAIRS pairs of pieces, that is, of blocks of activations.
    static constexpr u32 UNITS = 2 / F::MERGE, PAIRS = UNITS * F::UNIT / 2;
    static constexpr u32 GROUPS = CHUNK / ACTIVATION_BLOCK / PAIRS, BLOCK_GROUPS = GROUPS / BLOCKS;
};

// Copies 16 bytes, or the first `count` of them, to shared memory. They may be on their way until copies_have_arrived().
DEVICE void copy_ahead(u8 *to, const u8 *from, u32 count) {
#if defined(MATRIX_UNITS)
    const u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(count) : "memory");
#else
    if (count == 16) {
        *(Vec<u32, 4> *)to = *(const Vec<u32, 4> *)from;
    } else {
        for (u32 i = 0; i < count; i++) to[i] = from[i];
    }
#endif
}

// The copies that a team began before are there, for all of its threads.
DEVICE void copies_have_arrived() {
#if defined(MATRIX_UNITS)
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
#else
    barrier();
#endif
}

// What a thread takes of one of its two rows: the integers and the scales of a group.
template <typename F> struct StripRow {
    typename F::template Raw<STRIP_WORDS> raw[Chunk<F>::UNITS];
    typename F::Head head[Chunk<F>::UNITS];

    MEMBER void take(const u8 *block, u32 group, u32 first) {
        UNROLL_ON_GPU
        for (u32 u = 0; u < Chunk<F>::UNITS; u++) {
            raw[u] = F::template raw<STRIP_WORDS>(block, Chunk<F>::UNITS * group + u, first);
            head[u] = F::head(block, Chunk<F>::UNITS * group + u);
        }
    }
    // Either piece of a pair.
    MEMBER Words<STRIP_WORDS> piece(u32 pair, u32 half) const {
        Words<STRIP_WORDS> out;
        UNROLL_ON_GPU
        for (u32 w = 0; w < STRIP_WORDS; w++) {
            if constexpr (F::MERGE == 2) {
                out[w] = F::quad(raw[0], w, 2 * pair + half);
            } else if constexpr (F::FOLDS) {
                out[w] = F::folded(F::quad(raw[half], w, pair), head[half], pair);
            } else {
                out[w] = F::quad(raw[half], w, pair);
            }
        }
        return out;
    }
    // Its scale and offset before those of the block.
    MEMBER Scale part(u32 pair, u32 half) const {
        if constexpr (F::MERGE == 2) return F::part(head[0], 2 * pair);
        return F::part(head[half % Chunk<F>::UNITS], pair);
    }
};

// Raised dot products of two rows (thread / 4 and that + 8) with two activations (thread % 4 * 2 and the next): of both halves of
// a block together, or, where SPLIT, of either.
template <bool SPLIT>
DEVICE void strip_dots(const Words<STRIP_WORDS> (&weights)[2][2], const u32 *block, u32 lane, u32 (&dots)[SPLIT ? 2 : 1][4]) {
#if defined(MATRIX_UNITS)
    const Vec<u32, 2> bytes = load<2>(block + 2 * lane);
    if constexpr (SPLIT) {
        UNROLL
        for (u32 half = 0; half < 2; half++) {
            asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                : "=r"(dots[half][0]), "=r"(dots[half][1]), "=r"(dots[half][2]), "=r"(dots[half][3])
                : "r"(weights[0][half][0]), "r"(weights[1][half][0]), "r"(bytes[half]), "r"(RAISED_BITS));
        }
    } else {
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
            : "=r"(dots[0][0]), "=r"(dots[0][1]), "=r"(dots[0][2]), "=r"(dots[0][3])
            : "r"(weights[0][0][0]), "r"(weights[1][0][0]), "r"(weights[0][1][0]), "r"(weights[1][1][0]), "r"(bytes[0]),
              "r"(bytes[1]), "r"(RAISED_BITS));
    }
#else
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4; i++) {
        const u32 *column = block + 8 * (lane % 4 * 2 + i % 2);
        UNROLL_ON_GPU
        for (u32 half = 0; half < 2; half++) {
            u32 &dot = dots[SPLIT ? half : 0][i];
            if (SPLIT || half == 0) dot = RAISED_BITS;
            UNROLL_ON_GPU
            for (u32 w = 0; w < 4; w++) dot = (u32)dot4(weights[i / 2][half][w], column[2 * w + half], (i32)dot);
        }
    }
#endif
}

// The sums of a thread: two rows by two columns, for each group of eight columns.
template <u32 GROUPS> struct StripSums {
    f32 at[GROUPS][4];
};

// A pair of pieces of either row, times a block of each activation. What belongs to offsets goes to `less`.
template <typename F, u32 GROUPS>
DEVICE void multiply_pair(const StripRow<F> (&row)[2], u32 pair, const u32 *block, const f32 *marks, u32 pitch, u32 lane,
                          StripSums<GROUPS> &sum, StripSums<GROUPS> &less) {
    constexpr bool SPLIT = F::MERGE == 1 && !F::FOLDS, OFFSETS = F::HAS_OFFSET, HALVES = F::MERGE == 1;
    Words<STRIP_WORDS> weights[2][2];
    Scale part[2][2];
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4; i++) {
        weights[i / 2][i % 2] = row[i / 2].piece(pair, i % 2);
        part[i / 2][i % 2] = row[i / 2].part(pair, i % 2);
    }
    UNROLL_ON_GPU
    for (u32 g = 0; g < GROUPS; g++) {
        const f32 *mark = marks + (u64)g * pitch;
        const auto marked = [&](u32 kind) { return load<2>(mark + STRIP_COLUMNS * kind); };
        u32 dots[SPLIT ? 2 : 1][4];
        strip_dots<SPLIT>(weights, block + (u64)g * (2 * pitch), lane, dots);
        const Vec<f32, 2> step = marked(MARK_STEP);
        Vec<f32, 2> extra[2];
        if (HALVES && (OFFSETS || SPLIT)) {
            extra[0] = marked(MARK_HALVES), extra[1] = marked(MARK_HALVES + 1);
        } else if (OFFSETS || F::ZERO) {
            extra[0] = marked(MARK_TOTAL);
        }
        UNROLL_ON_GPU
        for (u32 i = 0; i < 4; i++) {
            const u32 r = i / 2, c = i % 2;
            // Folded integers have no zero left.
            const bool zero = F::ZERO && !F::FOLDS;
            f32 value = bit_cast<f32>(dots[0][i]) - (zero ? extra[0][c] : RAISED);
            if constexpr (SPLIT) {
                value = part[r][0].scale * value;
                value += part[r][1].scale * (bit_cast<f32>(dots[1][i]) - (zero ? extra[1][c] : RAISED));
                sum.at[g][i] += step[c] * value;
            } else if constexpr (F::FOLDS) {
                sum.at[g][i] += step[c] * value;
            } else {
                sum.at[g][i] += step[c] * part[r][0].scale * value;
            }
            if (OFFSETS) less.at[g][i] += part[r][0].offset * extra[0][c];
            if (OFFSETS && HALVES) less.at[g][i] += part[r][1].offset * extra[1][c];
        }
    }
}

// A chunk of the two rows that begin at `from`, or its first `groups` groups. Where scales are in parts, those of the block come last.
template <typename F, u32 GROUPS>
DEVICE void multiply_chunk(const u8 *const (&from)[2], u32 groups, const u32 *words, const f32 *marks, u32 pitch, u32 lane,
                           StripSums<GROUPS> &sum) {
    typedef Chunk<F> C;
    StripSums<GROUPS> part = {}, less = {};
    Scale whole[2];
    const auto group = [&](u32 g) {
        StripRow<F> row[2];
        UNROLL_ON_GPU
        for (u32 r = 0; r < 2; r++) {
            row[r].take(from[r] + g / C::BLOCK_GROUPS * F::BYTES, g % C::BLOCK_GROUPS, STRIP_WORDS == 1 ? lane % 4 : 0);
            whole[r] = F::whole(row[r].head[0]);
        }
        UNROLL_ON_GPU
        for (u32 p = 0; p < C::PAIRS; p++) {
            const u32 at = g * C::PAIRS + p;
            multiply_pair<F, GROUPS>(row, p, words + at * STRIP_BLOCK_WORDS, marks + at * STRIP_BLOCK_MARKS, pitch, lane,
                                     F::IN_PARTS ? part : sum, F::IN_PARTS ? less : sum);
        }
    };
    if (ALL_WAYS && (C::BLOCKS == 1 || groups == C::GROUPS)) {
        UNROLL_ON_GPU
        for (u32 g = 0; g < C::GROUPS; g++) group(g);
    } else {
        NO_UNROLL
        for (u32 g = 0; g < groups; g++) group(g);
    }
    UNROLL_ON_GPU
    for (u32 i = 0; F::IN_PARTS && i < 4 * GROUPS; i++) {
        const u32 g = i / 4, at = i % 4;
        sum.at[g][at] += whole[at / 2].scale * part.at[g][at];
        if (F::HAS_OFFSET) sum.at[g][at] += whole[at / 2].offset * less.at[g][at];
    }
}

template <typename F, u32 GROUPS>
DEVICE void strips(const u8 *RESTRICT weights, const u32 *RESTRICT words, const f32 *RESTRICT marks, const Output &out, u32 rows,
                   u32 k, u32 columns) {
    typedef Chunk<F> C;
    constexpr u32 STAGE = STRIP_ROWS * C::PITCH;
    __shared__ Vec<u32, 4> ring[STRIP_SPLITS * STRIP_STAGES * STAGE / 16];
    const u32 lane = thread_x() % STRIP_TEAM, team = thread_x() / STRIP_TEAM;
    u8 *own = (u8 *)ring + team * (STRIP_STAGES * STAGE);
    const u32 first = block_x() * STRIP_ROWS, first_column = block_y() * (GROUPS * STRIP_COLUMNS);
    const u32 chunks = ceil_div(k, CHUNK);
    // Rows past the end repeat the last one and are not stored.
    const u32 last = min_of(STRIP_ROWS, rows - first) - 1, row_bytes = k / F::ELEMENTS * F::BYTES;
    const u8 *strip = weights + (u64)first * row_bytes;
    // Neighbouring threads copy neighbouring 16 bytes. Where those are in a row does not change from chunk to chunk if a chunk is a
    // multiple of 16 bytes.
    constexpr u32 COPIES = STRIP_ROWS * C::PIECES, TURNS = ceil_div(COPIES, STRIP_TEAM);
    constexpr bool STEADY = C::BYTES % 16 == 0;
    u32 source[TURNS], place[TURNS];
    UNROLL_ON_GPU
    for (u32 i = 0; i < TURNS; i++) {
        const u32 row = (lane + STRIP_TEAM * i) / C::PIECES, piece = (lane + STRIP_TEAM * i) % C::PIECES;
        source[i] = row * row_bytes;
        if (STEADY) source[i] = (source[i] & ~15u) + 16 * piece;
        place[i] = row * C::PITCH + 16 * piece;
    }
    const auto fetch = [&](u32 chunk, u32 stage) {
        if (chunk >= chunks) return;
        u8 *to = own + stage * STAGE;
        if (first + STRIP_ROWS < rows) {
            UNROLL_ON_GPU
            for (u32 i = 0; i < TURNS; i++) {
                if (COPIES % STRIP_TEAM != 0 && i + 1 == TURNS && lane + STRIP_TEAM * i >= COPIES) continue;
                u32 at = source[i] + chunk * C::BYTES;
                if (!STEADY) at = (at & ~15u) + 16 * ((lane + STRIP_TEAM * i) % C::PIECES);
                copy_ahead(to + place[i], strip + at, 16);
            }
            return;
        }
        // The last strip ends where the weights do: perhaps before its sixteenth row, and in the middle of 16 bytes.
        const u32 bytes = (last + 1) * row_bytes;
        NO_UNROLL
        for (u32 i = lane; i < COPIES; i += STRIP_TEAM) {
            const u32 row = i / C::PIECES, piece = i % C::PIECES;
            const u32 at = ((min_of(row, last) * row_bytes + chunk * C::BYTES) & ~15u) + 16 * piece;
            if (at < bytes) copy_ahead(to + row * C::PITCH + 16 * piece, strip + at, min_of(16u, bytes - at));
        }
    };
    const auto row_at = [&](u32 row) { return min_of(row, last) * row_bytes; };
    const u32 row[2] = {row_at(lane / 4), row_at(lane / 4 + 8)};
    words += (u64)first_column * (k / 4);
    marks += (u64)first_column * (k / STRIP_COLUMNS) + 2 * (lane % 4);
    StripSums<GROUPS> sum = {};
    fetch(team, 0);
    NO_UNROLL
    for (u32 turn = 0; turn * STRIP_SPLITS < chunks; turn++) {
        const u32 chunk = turn * STRIP_SPLITS + team, stage = turn % STRIP_STAGES;
        // Whoever has come here has also read the chunk before, whose place the next one takes.
        copies_have_arrived();
        fetch(chunk + STRIP_SPLITS, 1 - stage);
        if (chunk >= chunks) continue;
        const u8 *from[2];
        UNROLL_ON_GPU
        for (u32 r = 0; r < 2; r++) {
            from[r] = own + stage * STAGE + (lane / 4 + 8 * r) * C::PITCH + ((row[r] + chunk * C::BYTES) & C::SKEW);
        }
        const u32 groups = min_of(C::GROUPS, (k - chunk * CHUNK) / (ACTIVATION_BLOCK * C::PAIRS));
        multiply_chunk<F, GROUPS>(from, groups, words + chunk * (CHUNK / ACTIVATION_BLOCK * STRIP_BLOCK_WORDS),
                                  marks + chunk * (CHUNK / ACTIVATION_BLOCK * STRIP_BLOCK_MARKS), k, lane, sum);
    }
    // The teams add up, a group of columns at a time: [column][row] of each.
    constexpr u32 RESULTS = STRIP_ROWS * STRIP_COLUMNS, PITCH = RESULTS + 4;
    f32 *partial = (f32 *)ring;
    UNROLL_ON_GPU
    for (u32 g = 0; g < GROUPS; g++) {
        barrier();
        UNROLL_ON_GPU
        for (u32 i = 0; i < 4; i++) {
            partial[team * PITCH + (lane % 4 * 2 + i % 2) * STRIP_ROWS + lane / 4 + 8 * (i / 2)] = sum.at[g][i];
        }
        barrier();
        for (u32 at = thread_x(); at < RESULTS; at += STRIP_THREADS) {
            f32 total = 0.0f;
            UNROLL_ON_GPU
            for (u32 t = 0; t < STRIP_SPLITS; t++) total += partial[t * PITCH + at];
            const u32 r = first + at % STRIP_ROWS, c = first_column + STRIP_COLUMNS * g + at / STRIP_ROWS;
            if (r < rows && c < columns) out.put((u64)c * rows + r, total);
        }
    }
}
