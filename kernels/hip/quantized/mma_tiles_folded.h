// Tiles of formats whose scales fold into bytes (Q2K, Q3K): a small scale times an integer still fits into one. With a single step
// for the activations of a whole chunk, as in Candle's products on the CPU, all of a chunk adds up as integers, and what there is to
// do with floats is done once. A thread has a unit of the weights to itself, so that nobody takes its scales out of their bits again.
#pragma once

// The words of a chunk of eight activations lie in the order [turn][column][unit][piece]: all that a thread wants in a turn is one
// load. Turn by turn it takes one word of every piece of its unit, and begins with another than its neighbours, who would otherwise
// want the same banks of shared memory. Even pieces come before odd ones.
constexpr u32 FOLDED_TURNS = PIECE / 4;
DEVICE u32 folded_word(u32 unit, u32 turn) { return (turn + unit) % FOLDED_TURNS; }
DEVICE u32 folded_turn(u32 unit, u32 word) { return (word - unit) % FOLDED_TURNS; }
DEVICE u32 folded_place(u32 piece) { return 2 * (piece % 2) + piece / 2; }

// Behind them are four marks for every thread. The last two are the steps of its columns. The others are what their sums begin with
// where the bytes of weights have got a zero, or, where the format has minimums, the sums of the four pieces' bytes, which are
// low + 16 * high: a minimum and sixteen times it are bytes as well.
constexpr u32 FOLDED_MARKS = FOLDED_TURNS * FOLDED_WORDS, FOLDED_STEP = 2;

// Takes the bytes and sums of a chunk of one activation.
struct IntoFolded {
    u32 *places;
    u32 column;
    const MmaRows &rows;
    bool inside;

    MEMBER void words(u32 at, Vec<u32, 2> two) const {
        const i32 sum = group_reduce(dot4(two[1], 0x01010101u, dot4(two[0], 0x01010101u, 0)), 2, Sum());
        if (!inside) return;
        const u32 piece = at / 2, unit = 2 * (piece / 8) + piece % 2, place = folded_place(piece / 2 % 4);
        u32 *own = places + 4 * (4 * column + unit);
        UNROLL
        for (u32 i = 0; i < 2; i++) own[FOLDED_WORDS * folded_turn(unit, 2 * (at % 2) + i) + place] = two[i];
        u8 *sums = (u8 *)(own + FOLDED_MARKS) + place;
        if (rows.has_offset && at % 2 == 0) sums[0] = (u8)(sum & 15), sums[4] = (u8)(sum >> 4);
    }
    MEMBER void step(f32 step, i32 low, i32 high) const {
        if (!inside) return;
        u32 *marks = places + FOLDED_MARKS + 4 * (column / 2) + column % 2;
        NO_UNROLL
        for (u32 i = 0; i < MMA_COLUMNS; i++) {
            marks[16 * i + FOLDED_STEP] = bit_cast<u32>(step);
            if (!rows.has_offset) marks[16 * i] = (u32)(-(i32)rows.zero * (low + high));
        }
    }
};

// As quantize_mma, a chunk by a team.
template <typename T>
DEVICE void quantize_folded(const T *RESTRICT source, const Layout &rows, u64 stride, const MmaRows &to) {
    call_successor();
    const MmaPlace place(to, MMA_TEAM);
    const T *at = source + rows.offset(place.row) + (u64)place.block * CHUNK * stride;
    quantize_block<MMA_TEAM, CHUNK>([&](u32 i) { return four_values(at + 4 * i * stride, stride); },
                                      IntoFolded{to.words + place.index * FOLDED_CHUNK, place.column, to, place.inside});
}

// Adds the products of two rows (thread / 4 and that + 8), two words of each, with two columns (thread % 4 * 2 and the next) to their
// sums: those of all units, where the matrix unit collects them, and otherwise of one.
DEVICE void add_products(const u32 (&rows)[2][2], const u32 *columns, u32 first, u32 unit, u32 lane, i32 (&sums)[4]) {
#if defined(MATRIX_UNITS)
    const Vec<u32, 4> own = load<4>(columns + 4 * lane);
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(rows[0][0]), "r"(rows[1][0]), "r"(rows[0][1]), "r"(rows[1][1]), "r"(own[first]), "r"(own[first + 1]));
#else
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4; i++) {
        const u32 *own = columns + 4 * (4 * (lane % 4 * 2 + i % 2) + unit) + first;
        sums[i] = dot4_mixed(rows[i / 2][1], own[1], dot4_mixed(rows[i / 2][0], own[0], sums[i]));
    }
#endif
}

// A unit of one row, whose integers become (integer - ZERO) * scale + FOLDED_ZERO.
template <typename F> struct FoldedUnit {
    typename F::Head head;
    u32 scale[4], zero[4];

    MEMBER void take(const u8 *block, u32 unit) {
        head = F::head(block, unit);
        UNROLL_ON_GPU
        for (u32 i = 0; i < 4; i++) {
            scale[i] = (u32)F::integer_part(head, i);
            zero[i] = F::ZERO ? multiplied(scale[i], F::ZERO * -0x01010101u, F::FOLDED_ZERO * 0x01010101u) : 0;
        }
    }
    MEMBER u32 word(const typename F::template Raw<1> &raw, u32 i) const { return F::folding(raw, i) * scale[i] + zero[i]; }
};

// A chunk of the two rows that begin at `from`. It is a block.
template <typename F, u32 GROUPS>
DEVICE void multiply_folded(const u8 *const (&from)[2], const MmaChunk<GROUPS> &chunk, u32 lane, MmaSums<GROUPS> &sum) {
    constexpr u32 UNITS = CHUNK / PIECE / F::UNIT, LIFT = F::FOLDED_LIFT, LIFTED = LIFT > 1 ? 1 : 0;
    const auto mark = [&](u32 g, u32 i) { return chunk.folded(g)[FOLDED_MARKS + 4 * lane + i]; };
    i32 dots[GROUPS][1 + LIFTED][4] = {}, less[GROUPS][4] = {};
    UNROLL_ON_GPU
    for (u32 i = 0; F::FOLDED_ZERO && i < 4 * GROUPS; i++) dots[i / 4][0][i % 4] = (i32)mark(i / 4, i % 2);
    FoldedUnit<F> row[2];
    const auto multiply_unit = [&](u32 unit) {
        UNROLL_ON_GPU
        for (u32 r = 0; r < 2; r++) row[r].take(from[r], unit);
        UNROLL_ON_GPU
        for (u32 turn = 0; turn < FOLDED_TURNS; turn++) {
            typename F::template Raw<1> raw[2];
            UNROLL_ON_GPU
            for (u32 r = 0; r < 2; r++) raw[r] = F::template raw<1>(from[r], unit, folded_word(unit, turn));
            UNROLL_ON_GPU
            for (u32 odd = 0; odd < 2; odd++) {
                u32 words[2][2];
                UNROLL_ON_GPU
                for (u32 i = 0; i < 4; i++) words[i / 2][i % 2] = row[i / 2].word(raw[i / 2], 2 * (i % 2) + odd);
                UNROLL_ON_GPU
                for (u32 g = 0; g < GROUPS; g++) {
                    add_products(words, chunk.folded(g) + FOLDED_WORDS * turn, 2 * odd, unit, lane, dots[g][LIFTED * odd]);
                }
            }
        }
        if constexpr (F::HAS_OFFSET) {
            u32 minimums[2][2];
            UNROLL_ON_GPU
            for (u32 i = 0; i < 4; i++) minimums[i / 2][i % 2] = F::minimums(row[i / 2].head) << (4 * (i % 2));
            UNROLL_ON_GPU
            for (u32 g = 0; g < GROUPS; g++) add_products(minimums, chunk.folded(g) + FOLDED_MARKS, 0, unit, lane, less[g]);
        }
    };
#if defined(MATRIX_UNITS)
    multiply_unit(lane % UNITS);
#else
    NO_UNROLL
    for (u32 unit = 0; unit < UNITS; unit++) multiply_unit(unit);
#endif
    UNROLL_ON_GPU
    for (u32 i = 0; i < 4 * GROUPS; i++) {
        const u32 g = i / 4, at = i % 4;
        const Scale whole = F::whole(row[at / 2].head);
        const i32 dot = LIFTED ? (i32)LIFT * dots[g][0][at] + dots[g][LIFTED][at] : dots[g][0][at];
        f32 value = whole.scale / (f32)LIFT * (f32)dot;
        if (F::HAS_OFFSET) value += whole.offset * (f32)less[g][at];
        sum.at[g][at] += bit_cast<f32>(mark(g, FOLDED_STEP + i % 2)) * value;
    }
}

// A chunk of any format, or its first `groups` groups.
template <typename F, u32 GROUPS>
DEVICE void multiply_chunk(const u8 *const (&from)[2], u32 groups, const MmaChunk<GROUPS> &chunk, u32 lane,
                           MmaSums<GROUPS> &sum) {
    if constexpr (F::FOLDS) {
        multiply_folded<F>(from, chunk, lane, sum);
    } else {
        multiply_in_parts<F>(from, groups, chunk, lane, sum);
    }
}
