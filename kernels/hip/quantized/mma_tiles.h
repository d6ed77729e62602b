// Weights times eight activations, or a few times eight, on matrix units: a tile is 16 rows of weights.
// A team of 32 threads multiplies the integers of a tile, 32 of each row, with the bytes of eight activations in one
// instruction; where there is no such instruction, dot products of four bytes give the same sums. The weights pass through shared
// memory, where unaligned blocks cost nothing and the next ones arrive while these are multiplied: mma_tiles_loaded.h and
// mma_tiles_staged.h have two ways to do that, this file what becomes of a chunk, and mma_tiles_folded.h the same for small scales.
#pragma once

constexpr u32 MMA_ROWS = 16;
constexpr u32 MMA_COLUMNS = 8;
constexpr u32 MMA_TEAM = 32;
constexpr u32 CHUNK = 256; // weights of a row that pass through shared memory together
SHARE(MMA_ROWS)
SHARE(MMA_COLUMNS)
SHARE(CHUNK)

#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 800
#define MATRIX_UNITS 1
#endif

// Words of a piece that a thread takes out of its bytes: one, where the matrix unit collects the others from its neighbours.
#if defined(MATRIX_UNITS)
constexpr u32 MMA_WORDS = 1;
constexpr bool MATRIX_OFFSETS = true; // offsets of scales in parts are the unit's work, too
#else
constexpr u32 MMA_WORDS = 4;
constexpr bool MATRIX_OFFSETS = false;
#endif

// Sums of products begin with these bits, an f32 with room for 22 bits and a sign: what is added to them as integers is added to
// the number they stand for, and no conversion is needed.
constexpr u32 RAISED_BITS = 0x4b400000u;
constexpr f32 RAISED = 12582912.0f;

// Eight activations as the teams read them. The bytes of a block of 32 lie in the order [column][word of a piece][piece]; beside
// them are marks: [kind][column] with the step, and what belongs to a weight's zero or offset. That is, for the sum of all bytes
// and of either half, step * sum where the format has an offset, and otherwise RAISED + ZERO * sum, to be taken away.
enum Mark : u32 { MARK_STEP = 0, MARK_TOTAL = 1, MARK_HALVES = 2, MARKS = 4 };
SHARE(MARKS)
constexpr u32 MMA_BLOCK_WORDS = MMA_COLUMNS * ACTIVATION_BLOCK / 4;
constexpr u32 MMA_BLOCK_MARKS = MMA_COLUMNS * MARKS;

// How they are laid out.
struct MmaRows {
    u32 *words;
    f32 *marks;
    Divider blocks_per_row;
    u32 block_count; // of whole groups of eight
    u32 count;       // activations
    f32 zero;
    u32 has_offset;
};
SHARE_LAYOUT(MmaRows, words, marks, blocks_per_row, block_count, count, zero, has_offset)

// Takes the bytes and sums of one block of one activation.
struct IntoMmaTile {
    u32 *places;
    f32 *marks;
    const MmaRows &rows;
    bool inside;

    MEMBER f32 mark(f32 step, i32 sum) const { return rows.has_offset ? step * (f32)sum : RAISED + rows.zero * (f32)sum; }
    MEMBER void words(u32 at, Vec<u32, 2> two) const {
        if (!inside) return;
        UNROLL
        for (u32 i = 0; i < 2; i++) places[2 * (2 * (at % 2) + i) + at / 2] = two[i];
    }
    MEMBER void step(f32 step, i32 low, i32 high) const {
        if (!inside) return;
        marks[MMA_COLUMNS * MARK_STEP] = step;
        marks[MMA_COLUMNS * MARK_TOTAL] = mark(step, low + high);
        marks[MMA_COLUMNS * MARK_HALVES] = mark(step, low);
        marks[MMA_COLUMNS * (MARK_HALVES + 1)] = mark(step, high);
    }
};

// Which block of which activation a team of `lanes` threads takes.
struct MmaPlace {
    u32 row, column, block; // of the source, of a group of eight, of the row
    u64 index;              // of the block in groups of eight
    bool inside;

    MEMBER MmaPlace(const MmaRows &to, u32 lanes) {
        const u32 team = (block_x() * QUANTIZE_THREADS + thread_x()) / lanes;
        inside = team < to.block_count;
        const Division split = divide(inside ? team : to.block_count - 1, to.blocks_per_row);
        // The places past the end repeat the last activation; what comes of them is not stored.
        row = min_of(split.quotient, to.count - 1), column = split.quotient % MMA_COLUMNS, block = split.remainder;
        index = (u64)(split.quotient / MMA_COLUMNS) * to.blocks_per_row.divisor + block;
    }
};

// `rows` finds the start of an activation, whose elements lie `stride` apart.
template <typename T>
DEVICE void quantize_mma(const T *RESTRICT source, const Layout &rows, u64 stride, const MmaRows &to) {
    call_successor();
    const MmaPlace place(to, QUANTIZE_LANES);
    const T *at = source + rows.offset(place.row) + (u64)place.block * ACTIVATION_BLOCK * stride;
    quantize_block<QUANTIZE_LANES>([&](u32 i) { return four_values(at + 4 * i * stride, stride); },
                      IntoMmaTile{to.words + (place.index * MMA_BLOCK_WORDS + 8 * place.column),
                                to.marks + (place.index * MMA_BLOCK_MARKS + place.column), to, place.inside});
}

// Where scales fold (mma_tiles_folded.h), a chunk of eight activations is five loads of a team.
constexpr u32 FOLDED_WORDS = 4 * MMA_TEAM, FOLDED_CHUNK = 5 * FOLDED_WORDS;

// Words of an activation.
template <typename F> DEVICE u32 column_words(u32 k) { return F::FOLDS ? k / CHUNK * (FOLDED_CHUNK / MMA_COLUMNS) : k / 4; }

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

// Whether the integers of a pair stay where they lie in a word: where the unit takes unsigned bytes.
template <typename F> constexpr bool MMA_LIFTS = MMA_WORDS == 1 && F::PAIRS_LIFT;
template <typename F> DEVICE f32 mma_lift(u32 pair) {
    if constexpr (MMA_LIFTS<F>) return (f32)F::pair_lift(pair);
    return 1.0f;
}

// The scales of a group: of one unit, or of the two that share bytes.
template <typename F, u32 MERGE = F::MERGE> struct MmaHead {
    typedef typename F::Head Type;
    static MEMBER Type of(const u8 *block, u32 group) { return F::head(block, group); }
    static MEMBER Scale whole(const Type &head) { return F::whole(head); }
    static MEMBER Scale part(const Type &head, u32 i) { return F::part(head, i); }
};
template <typename F> struct MmaHead<F, 1> {
    typedef typename F::HalfHead Type;
    static MEMBER Type of(const u8 *block, u32 group) { return F::half_head(block, group); }
    static MEMBER Scale whole(const Type &head) { return F::half_whole(head); }
    static MEMBER Scale part(const Type &head, u32 i) { return F::half_part(head, i); }
};

// What a thread takes of one of its two rows: the integers and the scales of a group.
template <typename F> struct MmaRow {
    typename F::template Raw<MMA_WORDS> raw[Chunk<F>::UNITS];
    typename MmaHead<F>::Type head;

    MEMBER void take(const u8 *block, u32 group, u32 first) {
        UNROLL_ON_GPU
        for (u32 u = 0; u < Chunk<F>::UNITS; u++) raw[u] = F::template raw<MMA_WORDS>(block, Chunk<F>::UNITS * group + u, first);
        head = MmaHead<F>::of(block, group);
    }
    // Either piece of a pair.
    MEMBER Words<MMA_WORDS> piece(u32 pair, u32 half) const {
        Words<MMA_WORDS> out;
        UNROLL_ON_GPU
        for (u32 w = 0; w < MMA_WORDS; w++) {
            const auto &own = raw[F::MERGE == 2 ? 0 : half];
            const u32 i = F::MERGE == 2 ? 2 * pair + half : pair;
            if constexpr (MMA_LIFTS<F>) {
                out[w] = F::pair_lifted(own, w, i);
            } else {
                out[w] = F::quad(own, w, i);
            }
        }
        return out;
    }
    // Its scale and offset before those of the block.
    MEMBER Scale part(u32 pair, u32 half) const {
        return MmaHead<F>::part(head, 2 * pair + half);
    }
};

// A chunk of the activations of GROUPS groups of columns.
template <u32 GROUPS> struct MmaChunk {
    const u32 *words;
    const f32 *marks;
    u32 k;     // of a row
    u32 index; // of the chunk

    MEMBER const u32 *block_words(u32 group, u32 block) const {
        return words + index * (CHUNK / ACTIVATION_BLOCK * MMA_BLOCK_WORDS) + ((u64)group * (2 * k) + block * MMA_BLOCK_WORDS);
    }
    MEMBER const f32 *block_marks(u32 group, u32 block) const {
        return marks + index * (CHUNK / ACTIVATION_BLOCK * MMA_BLOCK_MARKS) + ((u64)group * k + block * MMA_BLOCK_MARKS);
    }
    MEMBER const u32 *folded(u32 group) const { return words + index * FOLDED_CHUNK + (u64)group * (k / CHUNK * FOLDED_CHUNK); }
};

// Raised dot products of two rows (thread / 4 and that + 8) with two activations (thread % 4 * 2 and the next): of both halves of
// a block together, or, where SPLIT, of either.
template <bool SPLIT, bool UNSIGNED>
DEVICE void mma_dots(const Words<MMA_WORDS> (&weights)[2][2], const u32 *block, u32 lane, u32 (&dots)[SPLIT ? 2 : 1][4]) {
#if defined(MATRIX_UNITS)
    const Vec<u32, 2> bytes = load<2>(block + 2 * lane);
    if constexpr (SPLIT) {
        UNROLL_ON_GPU
        for (u32 half = 0; half < 2; half++) {
            asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                : "=r"(dots[half][0]), "=r"(dots[half][1]), "=r"(dots[half][2]), "=r"(dots[half][3])
                : "r"(weights[0][half][0]), "r"(weights[1][half][0]), "r"(bytes[half]), "r"(RAISED_BITS));
        }
    } else {
#define MMA_PRODUCT(type)                                                                                              \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"\
        : "=r"(dots[0][0]), "=r"(dots[0][1]), "=r"(dots[0][2]), "=r"(dots[0][3])                                       \
        : "r"(weights[0][0][0]), "r"(weights[1][0][0]), "r"(weights[0][1][0]), "r"(weights[1][1][0]), "r"(bytes[0]),   \
          "r"(bytes[1]), "r"(RAISED_BITS))
        if constexpr (UNSIGNED) {
            MMA_PRODUCT("u8");
        } else {
            MMA_PRODUCT("s8");
        }
#undef MMA_PRODUCT
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
template <u32 GROUPS> struct MmaSums {
    f32 at[GROUPS][4];
};

// A pair of pieces of either row, times a block of each activation. What belongs to offsets goes to `less`.
template <typename F, u32 GROUPS>
DEVICE void multiply_pair(const MmaRow<F> (&row)[2], u32 pair, const MmaChunk<GROUPS> &chunk, u32 block, u32 lane,
                          MmaSums<GROUPS> &sum, MmaSums<GROUPS> &less) {
    constexpr bool SPLIT = F::MERGE == 1;
    constexpr bool OFFSETS = F::HAS_OFFSET && !(MATRIX_OFFSETS && F::IN_PARTS);
    Words<MMA_WORDS> weights[2][2];
    Scale part[2][2];
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4; i++) {
        weights[i / 2][i % 2] = row[i / 2].piece(pair, i % 2);
        part[i / 2][i % 2] = row[i / 2].part(pair, i % 2);
    }
    UNROLL_ON_GPU
    for (u32 g = 0; g < GROUPS; g++) {
        const f32 *marks = chunk.block_marks(g, block) + 2 * (lane % 4);
        const auto marked = [&](u32 kind) { return load<2>(marks + MMA_COLUMNS * kind); };
        u32 dots[SPLIT ? 2 : 1][4];
        mma_dots<SPLIT, MMA_LIFTS<F>>(weights, chunk.block_words(g, block), lane, dots);
        Vec<f32, 2> step = marked(MARK_STEP);
        UNROLL_ON_GPU
        for (u32 c = 0; c < 2; c++) step[c] *= 1.0f / mma_lift<F>(pair);
        Vec<f32, 2> extra[2];
        if (SPLIT) {
            extra[0] = marked(MARK_HALVES), extra[1] = marked(MARK_HALVES + 1);
        } else if (OFFSETS || F::ZERO) {
            extra[0] = marked(MARK_TOTAL);
        }
        UNROLL_ON_GPU
        for (u32 i = 0; i < 4; i++) {
            const u32 r = i / 2, c = i % 2;
            f32 value = bit_cast<f32>(dots[0][i]) - (F::ZERO ? extra[0][c] : RAISED);
            if constexpr (SPLIT) {
                value = part[r][0].scale * value;
                value += part[r][1].scale * (bit_cast<f32>(dots[1][i]) - (F::ZERO ? extra[1][c] : RAISED));
                sum.at[g][i] += step[c] * value;
            } else {
                sum.at[g][i] += step[c] * part[r][0].scale * value;
            }
            if (OFFSETS) less.at[g][i] += part[r][0].offset * extra[0][c];
        }
    }
}

#if defined(MATRIX_UNITS)
// The eight minimums of a chunk, times what its offsets are multiplied with: floats of 11 bits, which the minimums have, and the others
// have in two parts.
template <typename F, u32 GROUPS>
DEVICE void multiply_minimums(const u8 *const (&from)[2], const MmaChunk<GROUPS> &chunk, u32 lane, MmaSums<GROUPS> &less) {
    constexpr u32 BITS = 0xffffe000u;
    const u32 own = lane / 4 + MMA_BLOCK_MARKS * (lane % 4) + MMA_COLUMNS * MARK_TOTAL;
    f32 minimum[4];
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4; i++) minimum[i] = F::minimum(from[i % 2], lane % 4, i / 2);
    UNROLL_ON_GPU
    for (u32 g = 0; g < GROUPS; g++) {
        u32 part[2][2];
        UNROLL_ON_GPU
        for (u32 i = 0; i < 2; i++) {
            const f32 all = chunk.block_marks(g, 4 * i)[own];
            part[0][i] = bit_cast<u32>(all) & BITS;
            part[1][i] = bit_cast<u32>(all - bit_cast<f32>(part[0][i])) & BITS;
        }
        f32(&sum)[4] = less.at[g];
        UNROLL_ON_GPU
        for (u32 i = 0; i < 2; i++) {
            asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                : "r"(bit_cast<u32>(minimum[0])), "r"(bit_cast<u32>(minimum[1])), "r"(bit_cast<u32>(minimum[2])),
                  "r"(bit_cast<u32>(minimum[3])), "r"(part[i][0]), "r"(part[i][1]));
        }
    }
}
#endif

// A group of the two rows whose chunks begin at `from`.
template <typename F, u32 GROUPS>
DEVICE void multiply_group(const u8 *const (&from)[2], u32 group, const MmaChunk<GROUPS> &chunk, u32 lane, MmaSums<GROUPS> &sum,
                           MmaSums<GROUPS> &less, Scale (&whole)[2]) {
    typedef Chunk<F> C;
    MmaRow<F> row[2];
    UNROLL_ON_GPU
    for (u32 r = 0; r < 2; r++) {
        row[r].take(from[r] + group / C::BLOCK_GROUPS * F::BYTES, group % C::BLOCK_GROUPS, MMA_WORDS == 1 ? lane % 4 : 0);
        whole[r] = MmaHead<F>::whole(row[r].head);
    }
    UNROLL_ON_GPU
    for (u32 p = 0; p < C::PAIRS; p++) multiply_pair<F>(row, p, chunk, group * C::PAIRS + p, lane, sum, less);
}

// A chunk of the two rows, or its first `groups` groups. Where scales are in parts, those of the block come last.
template <typename F, u32 GROUPS>
DEVICE void multiply_in_parts(const u8 *const (&from)[2], u32 groups, const MmaChunk<GROUPS> &chunk, u32 lane,
                              MmaSums<GROUPS> &sum) {
    typedef Chunk<F> C;
    MmaSums<GROUPS> part = {}, less = {};
    Scale whole[2];
#if defined(MATRIX_UNITS)
    if constexpr (F::HAS_OFFSET && F::IN_PARTS) multiply_minimums<F>(from, chunk, lane, less);
#endif
    const auto group = [&](u32 g) {
        multiply_group<F>(from, g, chunk, lane, F::IN_PARTS ? part : sum, F::IN_PARTS ? less : sum, whole);
    };
    if (FAST_PATHS && (C::BLOCKS == 1 || groups == C::GROUPS)) {
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
