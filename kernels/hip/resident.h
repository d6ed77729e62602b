// Long rows that are read once: the blocks of a group share a row and keep it in shared memory, where copies go there by themselves
// (`STAGED_ROWS`), until they have told each other what they gathered. What comes next is on its way meanwhile. Teams of a block
// work in pairs: one gathers tiles as they come, the other maps them when the row is known; a last team exchanges states.
//
// Nothing promises that the blocks of a group run at the same time, so none waits for ever: a block that has waited in vain leaves
// its tiles of the row to the last block of the launch, which finds all states there. Which rows go this way is decided
// in src/resident.rs.
#pragma once

// The rows of a launch.
struct Residents {
    u64 *states;   // of every block of every row; zero before and after, as are the next two
    u32 *left;     // which of them were left
    u32 *counts;   // of blocks that have departed, and of what they left
    u32 rows;
    u32 columns;   // multiples of 16 bytes
    u32 patience;  // how often a team looks for states that have not come
    Divider group; // blocks that share a row; the launch has whole groups
};
SHARE_LAYOUT(Residents, states, left, counts, rows, columns, patience, group)

// On an H200 small tiles are mapped soonest, and 15 pairs have 64 registers a thread.
constexpr u32 RESIDENT_PAIRS = 15;
constexpr u32 RESIDENT_STAGED_THREADS = (2 * RESIDENT_PAIRS + 1) * STAGE_TEAM;
constexpr u32 RESIDENT_PLACES = 28; // tiles of a pair in shared memory
constexpr u32 RESIDENT_HELD = 8;    // and in the registers of the team that maps: they make room while the states are exchanged
constexpr u32 RESIDENT_TILE = 16 * STAGE_TEAM; // bytes
SHARE(RESIDENT_PAIRS)
SHARE(RESIDENT_STAGED_THREADS)
SHARE(RESIDENT_PLACES)
SHARE(RESIDENT_HELD)
SHARE(RESIDENT_TILE)

#if defined(STAGED_ROWS)

constexpr u32 RESIDENT_THREADS = RESIDENT_STAGED_THREADS;

// Rows whose states a block has in shared memory, taken in turn.
constexpr u32 RESIDENT_TURNS = 2;
struct ResidentTurn {
    u32 index, parity;
    MEMBER void advance() {
        if (++index == RESIDENT_TURNS) index = 0, parity ^= 1;
    }
};

// What the teams of a block tell each other.
template <typename State> struct ResidentStage {
    u64 arrived[RESIDENT_PAIRS][RESIDENT_PLACES], taken[RESIDENT_PAIRS][RESIDENT_PLACES]; // tiles, and by the team that gathers
    u64 gathered[RESIDENT_TURNS], settled[RESIDENT_TURNS], seen[RESIDENT_TURNS];
    State parts[RESIDENT_TURNS][RESIDENT_PAIRS], whole[RESIDENT_TURNS];
    bool met[RESIDENT_TURNS]; // whether all blocks of the row have sent their state

    MEMBER void begin() {
        for (u32 i = thread_x(); i < RESIDENT_PAIRS * RESIDENT_PLACES; i += RESIDENT_THREADS) {
            expect_arrivals(shared_address(arrived) + 8 * i, 1);
            expect_arrivals(shared_address(taken) + 8 * i, 1);
        }
        if (thread_x() < RESIDENT_TURNS) {
            expect_arrivals(shared_address(&gathered[thread_x()]), RESIDENT_PAIRS);
            expect_arrivals(shared_address(&settled[thread_x()]), 1);
            expect_arrivals(shared_address(&seen[thread_x()]), RESIDENT_PAIRS);
        }
        arrivals_are_expected();
        barrier();
    }
};

// The tiles that a pair has of each row of its group: neighbouring tiles belong to neighbouring blocks, so that all blocks together
// read one stretch of memory after the other.
template <typename T> struct ResidentSlice {
    static constexpr u32 N = Lanes<T>::count, TILE = STAGE_TEAM * N;
    u32 pair, lane, first, apart, count; // of tiles
    u32 row, rows_apart;
    u32 place, parity;

    MEMBER ResidentSlice(u32 team, const Residents &shape) {
        const Division block = divide(block_x(), shape.group);
        const u32 tiles = ceil_div(shape.columns, TILE), group = shape.group.divisor;
        pair = team % RESIDENT_PAIRS, lane = thread_x() % STAGE_TEAM;
        first = pair * group + block.remainder, apart = RESIDENT_PAIRS * group;
        count = first < tiles ? (tiles - 1 - first) / apart + 1 : 0;
        row = block.quotient, rows_apart = grid_x() / group;
        place = 0, parity = 0;
    }
    MEMBER u32 column(u32 tile) const { return (first + tile * apart) * TILE; }
    MEMBER T *at(u32 place) const { return (T *)((u8 *)staged_bytes + (pair * RESIDENT_PLACES + place) * RESIDENT_TILE); }
    MEMBER Vec<T, N> vector() const { return load<N>(at(place) + lane * N); }
    MEMBER void advance() {
        if (++place == RESIDENT_PLACES) place = 0, parity ^= 1;
    }
};

template <typename Map, typename T>
DEVICE void gather_resident(const T *src, u32 team, ResidentStage<typename Map::State> &stage, const Residents &shape, Map &map) {
    constexpr u32 N = Lanes<T>::count;
    ResidentSlice<T> slice(team, shape);
    ResidentTurn turn = {0, 0};
    NO_UNROLL
    for (u32 row = slice.row, done = 0; row < shape.rows; row += slice.rows_apart, done++, turn.advance()) {
        map.begin(src + u64(row) * shape.columns, shape.columns);
        typename Map::State state = map.empty();
        NO_UNROLL
        for (u32 j = 0; j < slice.count; j++, slice.advance()) {
            wait_for_arrivals(shared_address(&stage.arrived[slice.pair][slice.place]), slice.parity);
            Vec<T, N> tile[1] = {slice.vector()};
            __syncwarp();
            if (slice.lane == 0) arrive(shared_address(&stage.taken[slice.pair][slice.place]));
            if (slice.column(j) + slice.lane * N >= shape.columns) {
                UNROLL
                for (u32 i = 0; i < N; i++) tile[0][i] = map.blank();
            }
            map.take(state, tile);
        }
        state = merge_team(state, Team{STAGE_TEAM, slice.lane, 0, 1}, map);
        // The parts of the row that was here before have been read.
        if (done >= RESIDENT_TURNS) wait_for_arrivals(shared_address(&stage.settled[turn.index]), turn.parity ^ 1);
        if (slice.lane == 0) {
            stage.parts[turn.index][slice.pair] = state;
            arrive(shared_address(&stage.gathered[turn.index]));
        }
    }
}

template <typename Map, typename T>
DEVICE void map_tiles(const T *src, T *dst, u32 team, ResidentStage<typename Map::State> &stage, const Residents &shape, Map &map) {
    constexpr u32 N = Lanes<T>::count, TILE = ResidentSlice<T>::TILE;
    ResidentSlice<T> slice(team, shape);
    ResidentTurn turn = {0, 0};
    u32 asked_row = slice.count > 0 ? slice.row : shape.rows, asked = 0, asked_place = 0;
    // The next tile is on its way to the next place, if there is one.
    const auto ask = [&]() {
        if (asked_row >= shape.rows) return;
        const u32 column = slice.column(asked), bytes = min_of(TILE, shape.columns - column) * (u32)sizeof(T);
        if (slice.lane == 0) {
            fetch_bytes(shared_address(slice.at(asked_place)), (const u8 *)(src + u64(asked_row) * shape.columns + column), bytes,
                        shared_address(&stage.arrived[slice.pair][asked_place]));
        }
        if (++asked_place == RESIDENT_PLACES) asked_place = 0;
        if (++asked == slice.count) asked = 0, asked_row += slice.rows_apart;
    };
    NO_UNROLL
    for (u32 i = 0; i < RESIDENT_PLACES; i++) ask();
    NO_UNROLL
    for (u32 row = slice.row; row < shape.rows; row += slice.rows_apart, turn.advance()) {
        T *out = dst + u64(row) * shape.columns;
        map.begin(src + u64(row) * shape.columns, shape.columns);
        Vec<T, N> held[RESIDENT_HELD];
        UNROLL
        for (u32 j = 0; j < RESIDENT_HELD; j++) {
            if (j >= slice.count) break;
            wait_for_arrivals(shared_address(&stage.arrived[slice.pair][slice.place]), slice.parity);
            held[j] = slice.vector();
            wait_for_arrivals(shared_address(&stage.taken[slice.pair][slice.place]), slice.parity);
            __syncwarp();
            ask();
            slice.advance();
        }
        wait_for_arrivals(shared_address(&stage.settled[turn.index]), turn.parity);
        map.settle(stage.whole[turn.index], shape.columns);
        const u32 columns = stage.met[turn.index] ? shape.columns : 0;
        __syncwarp();
        if (slice.lane == 0) arrive(shared_address(&stage.seen[turn.index]));
        const auto put = [&](u32 j, const Vec<T, N> &v) {
            const u32 column = slice.column(j) + slice.lane * N;
            if (column < columns) store_passing<N>(out + column, map.apply(v, map.template weights<N>(column)));
        };
        UNROLL
        for (u32 j = 0; j < RESIDENT_HELD; j++) {
            if (j >= slice.count) break;
            put(j, held[j]);
        }
        NO_UNROLL
        for (u32 j = RESIDENT_HELD; j < slice.count; j++) {
            const Vec<T, N> v = slice.vector(); // the team that gathers has taken it, or the row were not known
            __syncwarp();
            ask();
            slice.advance();
            put(j, v);
        }
    }
}

// States travel as words that say by themselves whether they have come: they are not zero. One that is, is sent as minus zero.
template <typename State> DEVICE u64 sealed(State state) {
    const u64 bits = bit_cast<u64>(state);
    return bits ? bits : 1ull << 63;
}
DEVICE void put_word(u64 *at, u64 word) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory"); }
DEVICE u64 see_word(const u64 *at) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

// What the blocks of a group have sent, merged by a team; false where some of it has not come after so many looks.
template <typename Map> DEVICE bool merge_group(typename Map::State &state, const u64 *states, u32 group, u32 looks, Map &map) {
    constexpr u32 ONCE = 5; // words that a thread asks for together: on an H200 all of a row
    const u32 lane = thread_x() % STAGE_TEAM;
    bool met = true;
    state = map.empty();
    NO_UNROLL
    for (u32 from = lane; from - lane < group; from += ONCE * STAGE_TEAM) {
        u64 words[ONCE];
        for (u32 look = 0; ; look++) {
            bool all = true;
            UNROLL
            for (u32 k = 0; k < ONCE; k++) {
                const u32 i = from + k * STAGE_TEAM;
                words[k] = i < group ? see_word(states + i) : sealed(map.empty());
                all = all && words[k] != 0;
            }
            if (wave_ballot(!all) == 0) break;
            if (look >= looks) {
                met = false; // and stays so, whatever the words that follow
                break;
            }
        }
        UNROLL
        for (u32 k = 0; k < ONCE; k++) state = map.merge(state, bit_cast<typename Map::State>(words[k]));
    }
    state = merge_team(state, Team{STAGE_TEAM, lane, 0, 1}, map);
    return met;
}

template <typename Map, typename T>
DEVICE void exchange_states(const T *src, ResidentStage<typename Map::State> &stage, const Residents &shape, Map &map) {
    typedef typename Map::State State;
    const Division block = divide(block_x(), shape.group);
    const u32 lane = thread_x() % STAGE_TEAM, group = shape.group.divisor;
    u32 patience = shape.patience;
    ResidentTurn turn = {0, 0};
    NO_UNROLL
    for (u32 row = block.quotient, done = 0; row < shape.rows; row += grid_x() / group, done++, turn.advance()) {
        map.begin(src + u64(row) * shape.columns, shape.columns);
        wait_for_arrivals(shared_address(&stage.gathered[turn.index]), turn.parity);
        State state = lane < RESIDENT_PAIRS ? stage.parts[turn.index][lane] : map.empty();
        state = merge_team(state, Team{STAGE_TEAM, lane, 0, 1}, map);
        const u64 first = u64(row) * group;
        if (lane == 0) put_word(shape.states + first + block.remainder, sealed(state));
        const bool met = merge_group(state, shape.states + first, group, patience, map);
        if (!met) patience = 0; // who is not here now may be long in coming
        // The state of the row that was here before has been read.
        if (done >= RESIDENT_TURNS) wait_for_arrivals(shared_address(&stage.seen[turn.index]), turn.parity ^ 1);
        if (lane == 0) {
            if (!met) shape.left[first + block.remainder] = 1, atomic_next(shape.counts + 1);
            stage.whole[turn.index] = state;
            stage.met[turn.index] = met;
            arrive(shared_address(&stage.settled[turn.index]));
        }
    }
}

// By the last block, which may read what all others wrote.
template <typename Map, typename T> DEVICE void map_left(const T *src, T *dst, const Residents &shape, Map &map) {
    constexpr u32 N = Lanes<T>::count, TILE = ResidentSlice<T>::TILE;
    const u32 group = shape.group.divisor, lane = thread_x() % STAGE_TEAM, team = thread_x() / STAGE_TEAM;
    NO_UNROLL
    for (u32 i = 0; i < shape.rows * group; i++) {
        if (!shape.left[i]) continue;
        const Division part = divide(i, shape.group);
        const u64 at = u64(part.quotient) * shape.columns;
        typename Map::State state;
        map.begin(src + at, shape.columns);
        merge_group(state, shape.states + u64(part.quotient) * group, group, 0, map);
        map.settle(state, shape.columns);
        for (u64 column = (u64(part.remainder) + team * group) * TILE + lane * N; column < shape.columns;
             column += u64(RESIDENT_THREADS / STAGE_TEAM) * group * TILE) {
            const Vec<T, N> v = load<N>(src + at + column);
            store<N>(dst + at + column, map.apply(v, map.template weights<N>((u32)column)));
        }
    }
}

template <typename Map, typename T> DEVICE void map_residents(const T *src, T *dst, const Residents &shape, Map map) {
    __shared__ ResidentStage<typename Map::State> stage;
    __shared__ u32 order;
    stage.begin();
    const u32 team = thread_x() / STAGE_TEAM;
    if (team < RESIDENT_PAIRS) gather_resident(src, team, stage, shape, map);
    else if (team < 2 * RESIDENT_PAIRS) map_tiles(src, dst, team, stage, shape, map);
    else exchange_states(src, stage, shape, map);

    barrier();
    if (thread_x() == 0) {
        device_fence();
        order = atomic_next(shape.counts);
    }
    barrier();
    if (order + 1 != grid_x()) return;
    device_fence();
    const bool some = shape.counts[1] > 0;
    if (some) map_left(src, dst, shape, map);
    barrier();
    for (u32 i = thread_x(); i < shape.rows * shape.group.divisor; i += RESIDENT_THREADS) {
        shape.states[i] = 0;
        if (some) shape.left[i] = 0;
    }
    if (thread_x() < 2) shape.counts[thread_x()] = 0;
}

#else

// A thread for a row: nothing is planned this way for such a device, but in tests.
constexpr u32 RESIDENT_THREADS = ROW_THREADS;
template <typename Map, typename T> DEVICE void map_residents(const T *src, T *dst, const Residents &shape, Map map) {
    NO_UNROLL
    for (u32 row = block_x() * ROW_THREADS + thread_x(); row < shape.rows; row += grid_x() * ROW_THREADS) {
        const u64 at = u64(row) * shape.columns;
        map_long<Lanes<T>::count>(src + at, dst + at, shape.columns, Team{1, 0, 0, 1}, map);
    }
}

#endif
