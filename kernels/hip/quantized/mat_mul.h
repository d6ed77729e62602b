// Weights times many activations: a block computes a tile of 64 weight rows by 64 activations.
// Both operands pass through shared memory as signed bytes, 32 of the inner dimension at a time, so that a weight is
// unpacked once for 64 activations; the next step's operands are on their way to registers while this one's are multiplied.
#pragma once

constexpr u32 TILE = 64;
constexpr u32 TILE_THREADS = 256;
SHARE_AS(TILE, "quantized TILE", TILE)
SHARE(TILE_THREADS)
constexpr u32 TILE_SIDE = 16;                 // threads along either side of the tile
constexpr u32 TILE_SPOTS = TILE / TILE_SIDE;  // results of a thread along either side
constexpr u32 TILE_PITCH = 12;                // words: 8 of data, and 4 so that 16-byte reads of 8 lanes miss no bank

struct TileStep {
    alignas(16) u32 weights[TILE][TILE_PITCH]; // four words are read at once, of these and the next
    u32 bytes[TILE][TILE_PITCH];
    f32 scale[2][TILE];
    f32 offset[2][TILE];
    f32 step[TILE];
    i16 sum[2][TILE];
};

// What one thread carries from global to shared memory in a step: half of the block a piece of weights each, the other
// half a piece of activations each.
struct TileCargo {
    Words<4> words;
    Scale scale;
    Step step;
};

// Integers minus ZERO, byte by byte. Both are below 128, so setting and flipping the top bit keeps bytes apart.
template <u32 ZERO> DEVICE u32 centred(u32 word) {
    if (ZERO == 0) return word;
    return ((word | 0x80808080u) - ZERO * 0x01010101u) ^ 0x80808080u;
}

DEVICE Words<4> shared_words(const u32 *at) {
    const Vec<u32, 4> v = load<4>(at);
    return Words<4>{v[0], v[1], v[2], v[3]};
}

template <typename F>
DEVICE TileCargo fetch_cargo(const u8 *RESTRICT weights, const Activations &activations, u32 first_row, u32 first_column,
                             u32 rows, u32 columns, u32 k, u32 step) {
    const u32 index = thread_x() % (2 * TILE), line = index / 2, piece = 2 * step + index % 2;
    TileCargo cargo;
    if (thread_x() < 2 * TILE) {
        const u32 row = min_of(first_row + line, rows - 1);
        constexpr u32 PIECES = F::ELEMENTS / PIECE;
        const u8 *block = weights + ((u64)row * (k / F::ELEMENTS) + piece / PIECES) * F::BYTES;
        const Place place = F::place(piece % PIECES);
        cargo.words = quads<F>(F::template raw_of<4>(block, place, 0), place.index);
        cargo.scale = F::scale_of(block, place);
    } else {
        const u32 column = min_of(first_column + line, columns - 1);
        cargo.words = activations.piece(column, piece);
        cargo.step = activations.step(column, k, piece);
    }
    return cargo;
}

template <typename F> DEVICE void drop_cargo(const TileCargo &cargo, TileStep &tile) {
    const u32 index = thread_x() % (2 * TILE), line = index / 2, half = index % 2;
    Vec<u32, 4> words;
    if (thread_x() < 2 * TILE) {
        UNROLL
        for (u32 i = 0; i < 4; i++) words[i] = centred<F::ZERO>(cargo.words[i]);
        store<4>(&tile.weights[line][4 * half], words);
        tile.scale[half][line] = cargo.scale.scale;
        if (F::HAS_OFFSET) tile.offset[half][line] = cargo.scale.offset;
    } else {
        UNROLL
        for (u32 i = 0; i < 4; i++) words[i] = cargo.words[i];
        store<4>(&tile.bytes[line][4 * half], words);
        tile.sum[half][line] = (i16)cargo.step.half(half);
        if (half == 0) tile.step[line] = cargo.step.step;
    }
}

template <typename F>
DEVICE void multiply_step(const TileStep &tile, u32 x, u32 y, f32 (&sum)[TILE_SPOTS][TILE_SPOTS]) {
    DotInts dot[TILE_SPOTS][TILE_SPOTS];
    f32 part[TILE_SPOTS][TILE_SPOTS];
    UNROLL
    for (u32 half = 0; half < 2; half++) {
        Words<4> weights[TILE_SPOTS];
        UNROLL
        for (u32 i = 0; i < TILE_SPOTS; i++) weights[i] = shared_words(&tile.weights[y + TILE_SIDE * i][4 * half]);
        UNROLL
        for (u32 j = 0; j < TILE_SPOTS; j++) {
            const Words<4> bytes = shared_words(&tile.bytes[x + TILE_SIDE * j][4 * half]);
            UNROLL
            for (u32 i = 0; i < TILE_SPOTS; i++) {
                const bool fresh = half == 0 || F::MERGE == 1;
                dot[i][j] = dot16(weights[i], bytes, fresh ? dot_from(0) : dot[i][j]);
                if (F::MERGE == 1) {
                    const f32 scaled = tile.scale[half][y + TILE_SIDE * i] * dot_total(dot_floats(dot[i][j]));
                    part[i][j] = half == 0 ? scaled : part[i][j] + scaled;
                } else {
                    if (half == 1) part[i][j] = dot_total(dot_floats(dot[i][j]));
                }
            }
        }
    }
    UNROLL
    for (u32 j = 0; j < TILE_SPOTS; j++) {
        const u32 column = x + TILE_SIDE * j;
        const f32 step = tile.step[column];
        const i32 low = tile.sum[0][column], high = tile.sum[1][column];
        UNROLL
        for (u32 i = 0; i < TILE_SPOTS; i++) {
            const u32 row = y + TILE_SIDE * i;
            f32 value = F::MERGE == 2 ? tile.scale[0][row] * part[i][j] : part[i][j];
            if (F::HAS_OFFSET && F::MERGE == 2) value += tile.offset[0][row] * (f32)(low + high);
            if (F::HAS_OFFSET && F::MERGE == 1) {
                value += tile.offset[0][row] * (f32)low + tile.offset[1][row] * (f32)high;
            }
            sum[i][j] += step * value;
        }
    }
}

template <typename F>
DEVICE void mat_mul(const u8 *RESTRICT weights, const Activations &activations, const Output &out, u32 rows, u32 k,
                    u32 columns) {
    __shared__ TileStep tile[2];
    const u32 first_row = block_x() * TILE;
    const u32 x = thread_x() % TILE_SIDE, y = thread_x() / TILE_SIDE;
    const u32 steps = k / ACTIVATION_BLOCK;
    for (u32 first_column = block_y() * TILE; first_column < columns; first_column += grid_y() * TILE) {
        f32 sum[TILE_SPOTS][TILE_SPOTS] = {};
        drop_cargo<F>(fetch_cargo<F>(weights, activations, first_row, first_column, rows, columns, k, 0), tile[0]);
        barrier();
        for (u32 step = 0; step < steps; step++) {
            TileCargo next;
            if (step + 1 < steps) {
                next = fetch_cargo<F>(weights, activations, first_row, first_column, rows, columns, k, step + 1);
            }
            multiply_step<F>(tile[step % 2], x, y, sum);
            // The other buffer was last read a step ago, before the barrier that began this one.
            if (step + 1 < steps) drop_cargo<F>(next, tile[(step + 1) % 2]);
            barrier();
        }
        UNROLL
        for (u32 j = 0; j < TILE_SPOTS; j++) {
            UNROLL
            for (u32 i = 0; i < TILE_SPOTS; i++) {
                const u32 row = first_row + y + TILE_SIDE * i, column = first_column + x + TILE_SIDE * j;
                if (row < rows && column < columns) out.put((u64)column * rows + row, sum[i][j]);
            }
        }
    }
}
