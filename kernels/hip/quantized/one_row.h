// Weights times one row of activations, in one launch: what the decoding of a language model consists of.
// Every block makes the activations bytes for itself, in shared memory, and walks over the rows of weights; blocks are large and as
// few as fill the device, so that the same work is not done too often. On GPUs that copy to shared memory by themselves the
// weights pass through it: no register waits for memory, and a block of any alignment is read at no extra cost.
#pragma once

constexpr u32 ONE_ROW_LONGEST = 16384; // activations at most
constexpr u32 ONE_ROW_THREADS = 512;
SHARE(ONE_ROW_LONGEST)
SHARE(ONE_ROW_THREADS)

// Rows that a team takes together: they share the work of reading activations, and a copy of more rows moves faster. As measured
// on an H200.
template <typename F> constexpr u32 TEAM_ROWS_STAGED = F::ELEMENTS == 256 && F::BYTES < 128 ? 4 : 2;
template <typename F> constexpr u32 TEAM_ROWS_LOADED = F::ZERO == 16 || (F::ZERO == 0 && !F::HAS_OFFSET) ? 1 : 2;
#if defined(STAGED_ROWS)
template <typename F> constexpr u32 ONE_ROW_ROWS = TEAM_ROWS_STAGED<F>;
#else
template <typename F> constexpr u32 ONE_ROW_ROWS = TEAM_ROWS_LOADED<F>;
#endif

// Several weights of one format that are multiplied with one row: a launch of its own costs as much as a small product. Each has blocks of
// its own, behind those of the one before.
struct OneRowProduct {
    const u8 *weights;
    Output out;
    u32 rows;
    u32 blocks;
};
constexpr u32 ONE_ROW_PRODUCTS = 3;
struct OneRowProducts {
    OneRowProduct part[ONE_ROW_PRODUCTS];
};
SHARE(ONE_ROW_PRODUCTS)
SHARE_LAYOUT(OneRowProduct, weights, out, rows, blocks)

// The product that a block works on, and which of its blocks this one is. By comparisons: an index would put the list into memory.
struct OwnProduct {
    const u8 *weights;
    Output out;
    u32 rows, block, blocks;
    MEMBER OwnProduct(const OneRowProducts &all) {
        weights = all.part[0].weights, out = all.part[0].out, rows = all.part[0].rows;
        block = block_x(), blocks = all.part[0].blocks;
        UNROLL
        for (u32 p = 1; p < ONE_ROW_PRODUCTS; p++) {
            if (block >= blocks) {
                block -= blocks;
                weights = all.part[p].weights, out = all.part[p].out, rows = all.part[p].rows, blocks = all.part[p].blocks;
            }
        }
    }
};

// How the activations lie: a record for every 32 units of the weights' format, made of lines of 16 bytes for each unit. First a
// line for every piece of the unit, its bytes; then marks, two to a line, one for every scale of the unit. Neighbouring
// threads take neighbouring units, so that each line is read without a conflict, at a distance that is known beforehand.
template <typename F> struct Record {
    static constexpr u32 UNITS = 32, LINE = 16 * UNITS;
    static constexpr u32 SCALES = F::UNIT / F::MERGE, LINES = F::UNIT + (SCALES + 1) / 2, BYTES = LINES * LINE;
    static constexpr u32 MOST = ONE_ROW_LONGEST / PIECE / F::UNIT / UNITS * BYTES;
    static constexpr u32 IN_BLOCK = F::ELEMENTS / PIECE / F::UNIT; // units of a block of weights

    static MEMBER u32 place(u32 unit) { return unit / UNITS * BYTES + unit % UNITS * 16; }
};

// Takes a block of activations into the records.
template <typename F> struct IntoRecords {
    u8 *records;
    u32 block;
    bool inside; // false for threads past the end

    // The line of a piece of the row.
    struct Line {
        u8 *record;
        u32 index;
    };
    MEMBER Line line(u32 piece) const {
        constexpr u32 PIECES = F::ELEMENTS / PIECE;
        const Place place = F::place(piece % PIECES);
        return Line{records + Record<F>::place(piece / PIECES * Record<F>::IN_BLOCK + place.unit), place.index};
    }
    MEMBER void words(u32 at, Vec<u32, 2> words) const {
        const Line own = line(2 * block + at / 2);
        if (inside) store<2>((u32 *)(own.record + own.index * Record<F>::LINE + 8 * (at % 2)), words);
    }
    // A mark: the step, and what belongs to a weight's offset or zero. Dot products come out lifted; steps undo that.
    MEMBER void mark(Line own, f32 step, i32 sum) const {
        const u32 scale = own.index / F::MERGE, last = own.index + F::MERGE - 1;
        Vec<u32, 2> mark;
        mark[0] = bit_cast<u32>(step * (1.0f / (f32)lift_of<F>(last)));
        mark[1] = F::HAS_OFFSET ? bit_cast<u32>(step * (f32)sum) : (u32)(-(i32)(F::ZERO * lift_of<F>(own.index)) * sum);
        store<2>((u32 *)(own.record + (F::UNIT + scale / 2) * Record<F>::LINE + 8 * (scale % 2)), mark);
    }
    MEMBER void step(f32 step, i32 low, i32 high) const {
        if (!inside) return;
        if (F::MERGE == 2) {
            mark(line(2 * block), step, low + high);
        } else {
            mark(line(2 * block), step, low);
            mark(line(2 * block + 1), step, high);
        }
    }
};

// All threads of the block take part, and must meet before they read.
template <typename F> DEVICE void fill_records(const ActivationRow &row, u32 k, u8 *records) {
    const u32 blocks = k / ACTIVATION_BLOCK;
    NO_UNROLL
    for (u32 base = 0; base < blocks; base += ONE_ROW_THREADS / QUANTIZE_LANES) {
        const u32 index = base + thread_x() / QUANTIZE_LANES;
        const bool inside = index < blocks;
        const u32 block = inside ? index : blocks - 1;
        quantize_block<QUANTIZE_LANES>([&](u32 i) { return row.quad(ACTIVATION_BLOCK / 4 * block + i); },
                                       IntoRecords<F>{records, block, inside});
    }
}

// A unit of each row, times the activations of its record. Where scales are in parts, integers multiply the dot products, and
// the scale of the block comes last.
template <typename F, u32 ROWS>
DEVICE void multiply_record(const Unit<F, ROWS> &weights, const u8 *record, DotFloats (&sum)[ROWS][1]) {
    DotFloats part[ROWS] = {};
    f32 less[ROWS] = {};
    Vec<u32, 4> marks;
    UNROLL
    for (u32 i = 0; i < F::UNIT; i += F::MERGE) {
        const u32 scale = i / F::MERGE;
        if (scale % 2 == 0) marks = load<4>((const u32 *)(record + (F::UNIT + scale / 2) * Record<F>::LINE));
        const f32 step = bit_cast<f32>(marks[2 * (scale % 2)]);
        const u32 extra = marks[2 * (scale % 2) + 1];
        Words<4> bytes[F::MERGE];
        UNROLL
        for (u32 m = 0; m < F::MERGE; m++) bytes[m] = words<4, 16>(record + (i + m) * Record<F>::LINE);
        UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            DotInts dot = dot_from(F::ZERO ? (i32)extra : 0);
            UNROLL
            for (u32 m = 0; m < F::MERGE; m++) {
                if (m > 0) dot *= (i32)(lift_of<F>(i + m) / lift_of<F>(i));
                dot = dot16<F::LIFTS>(lifted_quads<F>(weights.raw[r], i + m), bytes[m], dot);
            }
            if constexpr (F::IN_PARTS) {
                part[r] += step * dot_floats(dot * F::integer_part(weights.head[r], i));
            } else {
                part[r] += step * dot_floats(dot);
            }
            if (F::HAS_OFFSET) less[r] += F::part(weights.head[r], i).offset * bit_cast<f32>(extra);
        }
    }
    UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        if constexpr (F::IN_PARTS) {
            const Scale whole = F::whole(weights.head[r]);
            sum[r][0] += whole.scale * part[r];
            if (F::HAS_OFFSET) sum[r][0] = dot_plus(sum[r][0], whole.offset * less[r]);
        } else {
            sum[r][0] += F::scale(weights.head[r], 0).scale * part[r];
            if (F::HAS_OFFSET) sum[r][0] = dot_plus(sum[r][0], less[r]);
        }
    }
}

#if defined(STAGED_ROWS)
constexpr u32 STAGE_TEAMS = ONE_ROW_THREADS / STAGE_TEAM;
constexpr u32 STAGE_AHEAD = 10; // teams that ask for weights before any have come: 50 KB of a compute unit, as measured on an H200

// A team's place in shared memory for ROWS rows, or for a chunk of each, and the barrier that knows when they have arrived.
struct Stage {
    u8 *at;
    u32 address, barrier, bytes, parity;

    // `from` is where the records end, `bytes` the size of a place.
    MEMBER Stage(u8 *from, u32 bytes, u32 copies) : bytes(bytes), parity(0) {
        const u32 team = thread_x() / STAGE_TEAM;
        at = from + 8 * STAGE_TEAMS + team * bytes;
        address = shared_address(at);
        barrier = shared_address(from + 8 * team);
        if (thread_x() % STAGE_TEAM == 0) {
            expect_arrivals(barrier, copies);
            arrivals_are_expected();
        }
        meet();
    }
    // What the threads of the team did before comes before what they do next.
    static MEMBER void meet() { __syncwarp(); }
    // Asks for `count` bytes, which come to `offset` of the place of the team `later` after this one; one of the copies.
    MEMBER void fetch(u32 later, const u8 *from, u32 count, u32 offset) const {
        fetch_bytes(address + later * bytes + offset, from, count, barrier + 8 * later);
    }
    // Until all copies are there.
    MEMBER void wait() {
        wait_for_arrivals(barrier, parity);
        parity ^= 1;
    }
};

// Sums of a team for the rows from `first` on, added up and stored. While there are several, each half of the threads passes
// on those that the other half goes on with.
template <u32 ROWS>
DEVICE void put_rows(const DotFloats (&running)[ROWS][1], const Output &out, u32 first, u32 rows) {
    const u32 lane = thread_x() % STAGE_TEAM;
    f32 sum[ROWS];
    UNROLL
    for (u32 r = 0; r < ROWS; r++) sum[r] = running[r][0];
    UNROLL
    for (u32 mask = STAGE_TEAM / 2; mask > 0; mask /= 2) {
        const u32 left = ROWS * mask / STAGE_TEAM; // rows after this step, 0 for one of them
        if (left == 0) sum[0] += shuffle_xor(sum[0], mask);
        UNROLL
        for (u32 r = 0; r < left; r++) {
            const bool upper = lane & mask;
            sum[r] = (upper ? sum[r + left] : sum[r]) + shuffle_xor(upper ? sum[r] : sum[r + left], mask);
        }
    }
    constexpr u32 EACH = STAGE_TEAM / ROWS;
    const u32 row = first + lane / EACH;
    if (lane % EACH == 0 && row < rows) out.put(row, sum[0]);
}

// Groups of ROWS rows go round the blocks, so that each has as many of them as the others. `chunk` units of a row come at a time, a
// multiple of 32, which is a multiple of 16 bytes in every format. Where that is all of a row, the group comes in one copy:
// memory is the faster the more a copy asks of it. In the beginning only the first teams ask, and each of them asks for
// another one when its own weights are there: if all asked at once, all would wait for nearly all.
template <typename F>
DEVICE void mat_vec_one_row(const OwnProduct &own, const ActivationRow &activation, u32 k, u32 chunk, u32) {
    const u8 *RESTRICT weights = own.weights;
    const u32 rows = own.rows;
    constexpr u32 ROWS = ONE_ROW_ROWS<F>, IN_BLOCK = Record<F>::IN_BLOCK;
    u8 *records = (u8 *)staged_bytes;
    const u32 units = k / (PIECE * F::UNIT), row_bytes = k / F::ELEMENTS * F::BYTES, chunk_bytes = chunk / IN_BLOCK * F::BYTES;
    const bool whole = chunk >= units;
    const u32 pitch = whole ? row_bytes : chunk_bytes + 16;
    const u32 lane = thread_x() % STAGE_TEAM, team = thread_x() / STAGE_TEAM, stride = own.blocks * ROWS;
    Stage stage(records + ceil_div(units, Record<F>::UNITS) * Record<F>::BYTES, ROWS * (chunk_bytes + 16), whole ? 1 : ROWS);
    const auto fetch = [&](u32 later, u32 first, u32 offset) {
        if (first >= rows) return;
        if (whole) {
            if (lane == 0) stage.fetch(later, weights + (u64)first * row_bytes, min_of(ROWS, rows - first) * row_bytes, 0);
        } else if (lane < ROWS) {
            const u64 from = (u64)min_of(first + lane, rows - 1) * row_bytes + offset;
            stage.fetch(later, weights + from, min_of(chunk_bytes, row_bytes - offset), lane * pitch);
        }
    };
    u32 first = team * stride + own.block * ROWS;
    bool another = team + STAGE_AHEAD < STAGE_TEAMS;
    if (team < STAGE_AHEAD) fetch(0, first, 0);
    fill_records<F>(activation, k, records);
    barrier();
    NO_UNROLL
    for (; first < rows; first += STAGE_TEAMS * stride) {
        DotFloats sum[ROWS][1] = {};
        const u8 *record = records + 16 * lane;
        u32 at = lane, offset = 0;
        NO_UNROLL
        do {
            stage.wait();
            if (another) {
                fetch(STAGE_AHEAD, first + STAGE_AHEAD * stride, 0);
                another = false;
            }
            const u8 *block[ROWS];
            UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                const u32 skew = F::ALIGN == 16 ? 0 : (whole ? first : min_of(first + r, rows - 1)) * row_bytes & 15;
                block[r] = stage.at + (r * pitch + skew + lane / IN_BLOCK * F::BYTES);
            }
            const u32 end = min_of(at - lane + chunk, units);
            NO_UNROLL
            for (; at < end; at += STAGE_TEAM) {
                Unit<F, ROWS> unit;
                unit.load_from(block, lane % IN_BLOCK);
                multiply_record<F, ROWS>(unit, record, sum);
                record += Record<F>::BYTES;
                UNROLL
                for (u32 r = 0; r < ROWS; r++) block[r] += STAGE_TEAM / IN_BLOCK * F::BYTES;
            }
            stage.meet(); // all have read what the next copy takes the place of
            offset += chunk_bytes;
            const bool more = offset < row_bytes;
            fetch(0, more ? first : first + STAGE_TEAMS * stride, more ? offset : 0);
        } while (offset < row_bytes);
        put_rows<ROWS>(sum, own.out, first, rows);
    }
}
#else
// Teams of 1 << team_log2 threads take groups of ROWS rows, which go round the blocks, so that each has as many as the others.
template <typename F> DEVICE void mat_vec_one_row(const OwnProduct &own, const ActivationRow &activation, u32 k, u32, u32 team_log2) {
    constexpr u32 ROWS = ONE_ROW_ROWS<F>;
    __shared__ Vec<u32, 4> memory[Record<F>::MOST / 16];
    u8 *records = (u8 *)memory;
    const u32 team = 1u << team_log2, teams = ONE_ROW_THREADS >> team_log2, units = k / (PIECE * F::UNIT);
    fill_records<F>(activation, k, records);
    barrier();
    NO_UNROLL
    for (u32 base = own.block; base * ROWS < own.rows; base += own.blocks * teams) {
        const u32 first = (base + (thread_x() >> team_log2) * own.blocks) * ROWS;
        const u8 *row[ROWS];
        find_rows<F, ROWS>(own.weights, first, own.rows, k, row);
        DotFloats sum[ROWS][1] = {};
        NO_UNROLL
        for (u32 at = thread_x() & (team - 1); at < units; at += team) {
            Unit<F, ROWS> unit;
            unit.load(row, at);
            multiply_record<F, ROWS>(unit, records + Record<F>::place(at), sum);
        }
        finish_rows<ROWS, 1, ONE_ROW_THREADS>(sum, PlainColumns{0, 1}, own.out, first, own.rows, team_log2);
    }
}
#endif
