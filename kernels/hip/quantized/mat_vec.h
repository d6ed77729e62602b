// Weights times a few activations: bound by how fast the weights can be read.
// A team of neighbouring threads shares ROWS rows of weights. Each thread takes whole units of the format (the pieces that
// come out of the same bytes), multiplies them with COLUMNS activations, and the team adds up at the very end. With a
// team of one thread, as the embedded device prefers, there is no exchange between threads at all.
#pragma once

constexpr u32 MAT_VEC_THREADS = 128;
SHARE(MAT_VEC_THREADS)

// An entry point of which so many blocks should fit into a compute unit. NVIDIA's compiler is told: left alone it saves registers
// where there is no need to, and loads wait for each other.
#if defined(TARGET_NVIDIA)
#define SHARING_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#else
#define SHARING_KERNEL(threads, blocks) KERNEL(threads)
#endif

// Threads of a block. The embedded device launches small blocks, one thread for a few rows, to keep all its cores busy.
DEVICE u32 mat_vec_threads() {
#if defined(TARGET_HOST)
    return blockDim.x;
#else
    return MAT_VEC_THREADS;
#endif
}

struct Output {
    void *at;
    u32 code; // FloatType

    MEMBER void put(u64 index, f32 value) const {
        if (code == FLOAT_F32) {
            ((f32 *)at)[index] = value;
        } else if (code == FLOAT_F16) {
            ((f16 *)at)[index] = f32_to_f16(value);
        } else {
            ((bf16 *)at)[index] = f32_to_bf16(value);
        }
    }
};
SHARE_LAYOUT(Output, at, code)

// How a mixture of experts sends activations to weights. Pair i of (activation, expert) is output slot
// `slots[i]` (or i), uses expert `experts[i]`, reads activation slot / share and multiplies the result by weights[slot].
struct Route {
    const u32 *experts;
    const u32 *slots;   // null: slot i for pair i
    const f32 *weights; // null: 1
    FaultWord *fault;
    u64 expert_bytes;
    Divider share;
    u32 pairs, expert_count;
};
SHARE_LAYOUT(Route, experts, slots, weights, fault, expert_bytes, share, pairs, expert_count)

// Which activations a call works on, and what becomes of the results. Asked for when they are needed and not before: eight
// columns' worth of addresses would not fit into the scalar registers of a wave.
struct PlainColumns {
    u32 base, count;

    MEMBER u32 source(u32 c) const { return min_of(base + c, count - 1); }
    MEMBER u32 target(u32 c) const { return base + c; }
    MEMBER bool valid(u32 c) const { return base + c < count; }
    MEMBER f32 finish(u32, f32 sum) const { return sum; }
};

// `run` neighbouring pairs of a route with one expert, from `pair` on.
struct RoutedColumns {
    const Route &route;
    u32 pair, run;
    bool known; // the expert exists; otherwise the results are zero

    MEMBER u32 slot(u32 c) const {
        const u32 at = pair + min_of(c, run - 1);
        return route.slots ? route.slots[at] : at;
    }
    MEMBER u32 source(u32 c) const { return route.share.quotient(min_of(slot(c), route.pairs - 1)); }
    MEMBER u32 target(u32 c) const { return slot(c); }
    MEMBER bool valid(u32 c) const { return c < run && slot(c) < route.pairs; }
    MEMBER f32 finish(u32 c, f32 sum) const {
        return !known ? 0.0f : route.weights ? sum * route.weights[slot(c)] : sum;
    }
};

// The same unit of ROWS rows, as it lies in memory.
template <typename F, u32 ROWS> struct Unit {
    static constexpr u32 IN_BLOCK = F::ELEMENTS / PIECE / F::UNIT;
    typename F::Head head[ROWS];
    typename F::template Raw<4> raw[ROWS];

    MEMBER void load(const u8 *const (&row)[ROWS], u32 at) {
        const u8 *block[ROWS];
        UNROLL
        for (u32 r = 0; r < ROWS; r++) block[r] = row[r] + (u64)(at / IN_BLOCK) * F::BYTES;
        load_from(block, at % IN_BLOCK);
    }
    MEMBER void load_from(const u8 *const (&block)[ROWS], u32 unit) {
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            head[r] = F::head(block[r], unit);
            raw[r] = F::template raw<4>(block[r], unit, 0);
        }
    }
};

// Unit `at` of each row, times COLUMNS activations.
template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void multiply_unit(const Unit<F, ROWS> &weights, u32 at, const Activations &activations, const u32 (&column)[COLUMNS], u32 k,
                          DotFloats (&sum)[ROWS][COLUMNS]) {
    const u32 block = at / Unit<F, ROWS>::IN_BLOCK, unit = at % Unit<F, ROWS>::IN_BLOCK;
    UNROLL
    for (u32 i = 0; i < F::UNIT; i += F::MERGE) {
        // The pieces i .. i + MERGE have one scale.
        Words<4> integers[ROWS][F::MERGE];
        Scale scale[ROWS];
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            scale[r] = F::scale(weights.head[r], i);
            UNROLL
            for (u32 m = 0; m < F::MERGE; m++) integers[r][m] = quads<F>(weights.raw[r], i + m);
        }
        const u32 piece = block * (F::ELEMENTS / PIECE) + F::piece(unit, i), place = arranged<F::UNIT>(at, i);
        UNROLL
        for (u32 c = 0; c < COLUMNS; c++) {
            const Step step = activations.step(column[c], k, piece);
            Words<4> bytes[F::MERGE];
            UNROLL
            for (u32 m = 0; m < F::MERGE; m++) bytes[m] = activations.piece(column[c], place + NEIGHBOURS * m);
            const i32 total = F::MERGE == 2 ? step.sum[0] + step.sum[1] : step.half(piece % 2);
            UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                DotInts dot = dot_from(F::ZERO ? -(i32)F::ZERO * total : 0);
                UNROLL
                for (u32 m = 0; m < F::MERGE; m++) dot = dot16(integers[r][m], bytes[m], dot);
                DotFloats part = scale[r].scale * dot_floats(dot);
                if (F::HAS_OFFSET) part = dot_plus(part, scale[r].offset * (f32)total);
                sum[r][c] += step.step * part;
            }
        }
    }
}

// The rows from `first` on. Past the end the last one is repeated, and not stored.
template <typename F, u32 ROWS>
DEVICE void find_rows(const u8 *weights, u32 first, u32 rows, u32 k, const u8 *(&row)[ROWS]) {
    const u64 row_bytes = (u64)(k / F::ELEMENTS) * F::BYTES;
    UNROLL
    for (u32 r = 0; r < ROWS; r++) row[r] = weights + min_of(first + r, rows - 1) * row_bytes;
}

// What the threads of a team have summed up of the rows from `first` on, added up and stored. All threads of the block take part.
template <u32 ROWS, u32 COLUMNS, u32 THREADS, typename Columns>
DEVICE void finish_rows(const DotFloats (&running)[ROWS][COLUMNS], const Columns &columns, const Output &out, u32 first, u32 rows,
                        u32 team_log2) {
    const u32 team = 1u << team_log2, lane = thread_x() & (team - 1);
    f32 sum[ROWS][COLUMNS];
    UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        UNROLL
        for (u32 c = 0; c < COLUMNS; c++) sum[r][c] = dot_total(running[r][c]);
    }

    const u32 wave = wave_size();
    if (team > 1) {
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            UNROLL
            for (u32 c = 0; c < COLUMNS; c++) sum[r][c] = group_reduce(sum[r][c], min_of(team, wave), Sum());
        }
    }
    if (team > wave) {
        __shared__ f32 partial[THREADS / 32][ROWS * COLUMNS];
        barrier(); // an earlier use of `partial` has been read by all
        if (lane_index() == 0) {
            UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                UNROLL
                for (u32 c = 0; c < COLUMNS; c++) partial[wave_index()][r * COLUMNS + c] = sum[r][c];
            }
        }
        barrier();
        const u32 waves = team / wave, from = (thread_x() >> team_log2) * waves;
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            UNROLL
            for (u32 c = 0; c < COLUMNS; c++) {
                sum[r][c] = partial[from][r * COLUMNS + c];
                for (u32 w = 1; w < waves; w++) sum[r][c] += partial[from + w][r * COLUMNS + c];
            }
        }
    }
    // Each result has a lane of its own where the team is large enough. The lane finds out by itself where its result goes:
    // for all results at once that would take more scalar registers than there are.
    NO_UNROLL
    for (u32 mine = lane; mine < ROWS * COLUMNS; mine += team) {
        const u32 c = mine / ROWS, r = mine % ROWS;
        f32 value = 0.0f;
        UNROLL
        for (u32 i = 0; i < ROWS * COLUMNS; i++) value = mine == i ? sum[i % ROWS][i / ROWS] : value;
        if (first + r < rows && columns.valid(c)) {
            out.put((u64)columns.target(c) * rows + first + r, columns.finish(c, value));
        }
    }
}

// The rows from `first` on against COLUMNS activations. All threads of the block take part.
template <typename F, u32 ROWS, u32 COLUMNS, u32 THREADS, typename Columns>
DEVICE void mat_vec(const u8 *weights, const Activations &activations, const Columns &columns, const Output &out, u32 first,
                    u32 rows, u32 k, u32 team_log2) {
    const u32 team = 1u << team_log2, units = k / (PIECE * F::UNIT);
    const u8 *row[ROWS];
    u32 column[COLUMNS];
    DotFloats sum[ROWS][COLUMNS] = {};
    find_rows<F, ROWS>(weights, first, rows, k, row);
    UNROLL
    for (u32 c = 0; c < COLUMNS; c++) column[c] = columns.source(c);
    NO_UNROLL
    for (u32 at = thread_x() & (team - 1); at < units; at += team) {
        Unit<F, ROWS> unit;
        unit.load(row, at);
        multiply_unit<F, ROWS, COLUMNS>(unit, at, activations, column, k, sum);
    }
    finish_rows<ROWS, COLUMNS, THREADS>(sum, columns, out, first, rows, team_log2);
}

// The first row of this thread's team in a launch that has a team for all rows.
template <u32 ROWS> DEVICE u32 first_row(u32 team_log2) {
    return (block_x() * (mat_vec_threads() >> team_log2) + (thread_x() >> team_log2)) * ROWS;
}

template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void mat_vec_plain(const u8 *RESTRICT weights, const Activations &activations, const Output &out, u32 rows, u32 k,
                          u32 columns, u32 team_log2) {
    mat_vec<F, ROWS, COLUMNS, MAT_VEC_THREADS>(weights, activations, PlainColumns{block_y() * COLUMNS, columns}, out,
                                               first_row<ROWS>(team_log2), rows, k, team_log2);
}

// Pairs block_y() * COLUMNS .. of a route. Neighbouring pairs with the same expert share a pass over its weights, so a
// route sorted by expert reads them once for COLUMNS pairs.
template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void mat_vec_routed(const u8 *RESTRICT weights, const Activations &activations, const Route &route,
                           const Output &out, u32 rows, u32 k, u32 team_log2) {
    const bool reporter = block_x() == 0 && thread_x() == 0;
    const u32 end = min_of((block_y() + 1) * COLUMNS, route.pairs);
    for (u32 pair = block_y() * COLUMNS; pair < end;) {
        const u32 expert = route.experts[pair];
        u32 run = 1;
        while (pair + run < end && route.experts[pair + run] == expert) run++;
        const bool known = expert < route.expert_count;
        if (!known && reporter) report(route.fault, FAULT_EXPERT, (i64)expert, route.expert_count);
        for (u32 at = pair; route.slots && reporter && at < pair + run; at++) {
            const u32 slot = route.slots[at];
            if (slot >= route.pairs) report(route.fault, FAULT_ROUTE, (i64)slot, route.pairs);
        }
        const u8 *own = weights + (known ? expert : 0) * route.expert_bytes;
        team_log2 = forgotten(team_log2);
        mat_vec<F, ROWS, COLUMNS, MAT_VEC_THREADS>(own, activations, RoutedColumns{route, pair, run, known}, out,
                                                   first_row<ROWS>(team_log2), rows, k, team_log2);
        pair += run;
    }
}
