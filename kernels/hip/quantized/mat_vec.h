// Weights times a few activations: bound by how fast the weights can be read.
// A team of neighbouring threads shares ROWS rows of weights. Each thread takes whole units of the format (the pieces that
// come out of the same bytes), multiplies them with COLUMNS activations, and the team adds up at the very end. With a
// team of one thread, as the embedded device prefers, there is no exchange between threads at all.
#pragma once

constexpr u32 MAT_VEC_THREADS = 128;

// dtypes a result may have; numbers shared with src/ops/quantized.rs.
enum OutputType : u32 { OUTPUT_F32 = 0, OUTPUT_F16 = 1, OUTPUT_BF16 = 2 };

struct Output {
    void *at;
    u32 type;

    MEMBER void put(u64 index, f32 value) const {
        if (type == OUTPUT_F32) {
            ((f32 *)at)[index] = value;
        } else if (type == OUTPUT_F16) {
            ((f16 *)at)[index] = f32_to_f16(value);
        } else {
            ((bf16 *)at)[index] = f32_to_bf16(value);
        }
    }
};

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

template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void accumulate(const u8 *const (&row)[ROWS], const Activations &activations, const u32 (&column)[COLUMNS],
                       u32 k, u32 lane, u32 team, f32 (&sum)[ROWS][COLUMNS]) {
    constexpr u32 UNITS = F::ELEMENTS / PIECE / F::UNIT; // in a block
    const u32 units = k / (PIECE * F::UNIT);
    for (u32 at = lane; at < units; at += team) {
        const u32 block = at / UNITS, unit = at % UNITS;
        UNROLL
        for (u32 i = 0; i < F::UNIT; i += F::MERGE) {
            // The pieces i .. i + MERGE have one scale.
            Words<4> quads[ROWS][F::MERGE];
            Scale scale[ROWS];
            UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                const u8 *from = row[r] + (u64)block * F::BYTES;
                scale[r] = F::scale(from, F::piece(unit, i));
                UNROLL
                for (u32 m = 0; m < F::MERGE; m++) quads[r][m] = F::template quads<4>(from, F::piece(unit, i + m), 0);
            }
            const u32 piece = block * (F::ELEMENTS / PIECE) + F::piece(unit, i);
            UNROLL
            for (u32 c = 0; c < COLUMNS; c++) {
                const Step step = activations.step(column[c], k, piece);
                Words<4> bytes[F::MERGE];
                UNROLL
                for (u32 m = 0; m < F::MERGE; m++) bytes[m] = activations.piece(column[c], k, piece + m);
                const i32 total = F::MERGE == 2 ? step.sum[0] + step.sum[1] : step.sum[piece % 2];
                UNROLL
                for (u32 r = 0; r < ROWS; r++) {
                    i32 dot = F::ZERO ? -(i32)F::ZERO * total : 0;
                    UNROLL
                    for (u32 m = 0; m < F::MERGE; m++) dot = dot16(quads[r][m], bytes[m], dot);
                    f32 part = scale[r].scale * (f32)dot;
                    if (F::HAS_OFFSET) part += scale[r].offset * (f32)total;
                    sum[r][c] += step.step * part;
                }
            }
        }
    }
}

// The rows of this team against COLUMNS activations, added up and stored: result (c, r) goes to out[to[c] + r] where
// c < columns. All threads of the block take part.
template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void mat_vec(const u8 *weights, const Activations &activations, const u32 (&column)[COLUMNS],
                    const f32 (&factor)[COLUMNS], const u64 (&to)[COLUMNS], u32 columns, const Output &out, u32 rows, u32 k,
                    u32 team_log2) {
    const u32 team = 1u << team_log2, lane = thread_x() & (team - 1);
    const u32 first = (block_x() * (MAT_VEC_THREADS >> team_log2) + (thread_x() >> team_log2)) * ROWS;
    const u64 row_bytes = (u64)(k / F::ELEMENTS) * F::BYTES;
    const u8 *row[ROWS];
    f32 sum[ROWS][COLUMNS];
    UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        // Rows past the end repeat the last one and are not stored.
        row[r] = weights + min_of(first + r, rows - 1) * row_bytes;
        UNROLL
        for (u32 c = 0; c < COLUMNS; c++) sum[r][c] = 0.0f;
    }
    accumulate<F, ROWS, COLUMNS>(row, activations, column, k, lane, team, sum);

    const u32 wave = wave_size();
    if (team > 1) {
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            UNROLL
            for (u32 c = 0; c < COLUMNS; c++) sum[r][c] = group_reduce(sum[r][c], min_of(team, wave), Sum());
        }
    }
    if (team > wave) {
        __shared__ f32 partial[MAT_VEC_THREADS / 32][ROWS * COLUMNS];
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
    UNROLL
    for (u32 c = 0; c < COLUMNS; c++) {
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // Each result has a lane of its own where the team is large enough.
            const bool mine = lane == ((c * ROWS + r) & (team - 1));
            if (mine && c < columns && first + r < rows) out.put(to[c] + first + r, sum[r][c] * factor[c]);
        }
    }
}

template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void mat_vec_plain(const u8 *RESTRICT weights, const Activations &activations, const Output &out, u32 rows, u32 k,
                          u32 columns, u32 team_log2) {
    for (u32 base = block_y() * COLUMNS; base < columns; base += grid_y() * COLUMNS) {
        u32 column[COLUMNS];
        f32 factor[COLUMNS];
        u64 to[COLUMNS];
        UNROLL
        for (u32 c = 0; c < COLUMNS; c++) {
            column[c] = min_of(base + c, columns - 1);
            factor[c] = 1.0f;
            to[c] = (u64)column[c] * rows;
        }
        mat_vec<F, ROWS, COLUMNS>(weights, activations, column, factor, to, columns - base, out, rows, k, team_log2);
    }
}

// Pairs block_y() * COLUMNS .. of a route. Neighbouring pairs with the same expert share a pass over its weights, so a
// route sorted by expert reads them once for COLUMNS pairs.
template <typename F, u32 ROWS, u32 COLUMNS>
DEVICE void mat_vec_routed(const u8 *RESTRICT weights, const Activations &activations, const Route &route,
                           const Output &out, u32 rows, u32 k, u32 team_log2) {
    for (u32 base = block_y() * COLUMNS; base < route.pairs; base += grid_y() * COLUMNS) {
        const u32 end = min_of(base + COLUMNS, route.pairs);
        for (u32 pair = base; pair < end;) {
            const u32 expert = route.experts[pair];
            u32 run = 1;
            while (pair + run < end && route.experts[pair + run] == expert) run++;
            const bool known = expert < route.expert_count;
            if (!known && block_x() == 0 && thread_x() == 0) {
                report(route.fault, FAULT_EXPERT, (i64)expert, route.expert_count);
            }
            u32 column[COLUMNS];
            f32 factor[COLUMNS];
            u64 to[COLUMNS];
            u32 valid = run;
            UNROLL
            for (u32 c = 0; c < COLUMNS; c++) {
                const u32 at = pair + min_of(c, run - 1);
                u32 slot = route.slots ? route.slots[at] : at;
                if (slot >= route.pairs) {
                    if (block_x() == 0 && thread_x() == 0) report(route.fault, FAULT_ROUTE, (i64)slot, route.pairs);
                    slot = 0;
                    valid = min_of(valid, c);
                }
                column[c] = route.share.quotient(slot);
                factor[c] = !known ? 0.0f : route.weights ? route.weights[slot] : 1.0f;
                to[c] = (u64)slot * rows;
            }
            const u8 *own = weights + (known ? expert : 0) * route.expert_bytes;
            mat_vec<F, ROWS, COLUMNS>(own, activations, column, factor, to, valid, out, rows, k, team_log2);
            pair += run;
        }
    }
}
