// Convolutions of three taps by Winograd's method: four neighbouring results along an axis from six products instead of
// twelve, in two dimensions sixteen from 36 instead of 144. An image is cut into tiles that overlap by two; each tile and
// each channel's taps become 6 (x 6) values, one for each plane; a product for each plane sums over the channels, and what it
// makes of a tile turns back into results. Here are the three ways between; the products are someone else's.
//
// A transposed convolution is one of three taps for each phase: results `step` apart, which see the same places of the image.
// All phases share the image's tiles; they are channels of the result, which come together when it is written.
//
// A tile of one axis is a polynomial that is multiplied at the points 0, +-NEAR, +-FAR and infinity. With the points that
// textbooks take, 1 and 2, errors are four to six times those of a plain sum; with these they are about twice (measured with
// 16 and 128 channels of normal numbers), and all constants of the image's and the result's transforms are exact.
#pragma once

constexpr u32 TILE = 4, TAPS = 3, POINTS = TILE + TAPS - 1;
SHARE_AS(TILE, "Winograd TILE", TILE)
SHARE_AS(TAPS, "Winograd TAPS", TAPS)
SHARE_AS(POINTS, "Winograd POINTS", POINTS)

// The image is the one that is read, or the result that is written.
struct Tiles {
    Divider across, down, places; // tiles along x, along y, and of all batches together
    Divider channels;             // of one phase
    u32 count;                    // channels of all phases times places
    u32 height, width;
    i32 padding;
    u32 step;    // of a transposed convolution; 1 otherwise
    u32 vectors; // rows of the result are whole tiles, aligned
    u64 batch_stride, channel_stride, row_stride, column_stride;
};
SHARE_LAYOUT(Tiles, across, down, places, channels, count, height, width, padding, step, vectors, batch_stride, channel_stride,
             row_stride, column_stride)

template <typename T> struct Points {
    static constexpr f64 NEAR = 11.0 / 16, FAR = 11.0 / 8;
    static constexpr T near1 = NEAR, near2 = NEAR * NEAR, near3 = NEAR * NEAR * NEAR;
    static constexpr T far1 = FAR, far2 = FAR * FAR, far3 = FAR * FAR * FAR;
    static constexpr T sum = NEAR * NEAR + FAR * FAR, product = NEAR * NEAR * FAR * FAR;

    // Six elements of an image into their tile. Points of both signs share their even and odd parts.
    static MEMBER void from_image(T (&d)[POINTS]) {
        const T even_near = d[4] - far2 * d[2], odd_near = near1 * (d[3] - far2 * d[1]);
        const T even_far = d[4] - near2 * d[2], odd_far = far1 * (d[3] - near2 * d[1]);
        d[0] = d[4] - sum * d[2] + product * d[0];
        d[5] = d[5] - sum * d[3] + product * d[1];
        d[1] = even_near + odd_near, d[2] = even_near - odd_near;
        d[3] = even_far + odd_far, d[4] = even_far - odd_far;
    }
    // Three taps, the first elements of `g`, into theirs.
    static MEMBER void from_taps(T (&g)[POINTS]) {
        constexpr T at_zero = 1 / (NEAR * NEAR * FAR * FAR);
        constexpr T at_near = 1 / (2 * NEAR * NEAR * (NEAR * NEAR - FAR * FAR));
        constexpr T at_far = 1 / (2 * FAR * FAR * (FAR * FAR - NEAR * NEAR));
        const T even_near = at_near * (g[0] + near2 * g[2]), odd_near = at_near * near1 * g[1];
        const T even_far = at_far * (g[0] + far2 * g[2]), odd_far = at_far * far1 * g[1];
        g[5] = g[2];
        g[0] = at_zero * g[0];
        g[1] = even_near + odd_near, g[2] = even_near - odd_near;
        g[3] = even_far + odd_far, g[4] = even_far - odd_far;
    }
    // A tile of products into four results, the first elements of `m`.
    static MEMBER void to_result(T (&m)[POINTS]) {
        const T even_near = m[1] + m[2], odd_near = m[1] - m[2], even_far = m[3] + m[4], odd_far = m[3] - m[4];
        m[0] = m[0] + even_near + even_far;
        m[1] = near1 * odd_near + far1 * odd_far;
        m[2] = near2 * even_near + far2 * even_far;
        m[3] = near3 * odd_near + far3 * odd_far + m[5];
    }
};

// `turn` along the rows that are filled in, then, if there are several, along all columns.
template <u32 ROWS, u32 FILLED_ROWS, u32 COLUMNS, typename T>
DEVICE void turn_both(T (&tile)[ROWS][POINTS], void (&turn)(T (&)[POINTS])) {
    UNROLL
    for (u32 y = 0; y < FILLED_ROWS; y++) turn(tile[y]);
    if constexpr (ROWS > 1) {
        UNROLL
        for (u32 x = 0; x < COLUMNS; x++) {
            T column[POINTS];
            UNROLL
            for (u32 y = 0; y < ROWS; y++) column[y] = tile[y][x];
            turn(column);
            UNROLL
            for (u32 y = 0; y < ROWS; y++) tile[y][x] = column[y];
        }
    }
}

// Writes each value of a tile into its plane; `to` is its place in the first.
template <u32 ROWS, typename T> DEVICE void put_tile(const T (&tile)[ROWS][POINTS], T *to, u32 plane) {
    UNROLL
    for (u32 y = 0; y < ROWS; y++) {
        UNROLL
        for (u32 x = 0; x < POINTS; x++) to[u64(y * POINTS + x) * plane] = tile[y][x];
    }
}

// Where tile `index` of (channel, batch, y, x) lies.
struct TilePlace {
    u32 channel, batch, y, x;
};
DEVICE TilePlace tile_place(u32 index, const Tiles &w) {
    const Division channel = divide(index, w.places);
    const Division x = divide(channel.remainder, w.across), y = divide(x.quotient, w.down);
    return TilePlace{channel.quotient, y.quotient, y.remainder * TILE, x.remainder * TILE};
}

// tiles[plane, channel, batch, tile] of an image; ROWS is 1 for a signal and 6 for an image of two dimensions.
template <u32 ROWS, typename T> DEVICE void image_to_tiles(const T *image, T *tiles, const Tiles &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const TilePlace at = tile_place(index, w);
    const T *plane = image + at.batch * w.batch_stride + at.channel * w.channel_stride;
    const i32 top = ROWS == 1 ? 0 : i32(at.y) - w.padding, left = i32(at.x) - w.padding;
    T tile[ROWS][POINTS];
    UNROLL
    for (u32 y = 0; y < ROWS; y++) {
        UNROLL
        for (u32 x = 0; x < POINTS; x++) {
            const u32 from_y = u32(top) + y, from_x = u32(left) + x; // past 2^31 before the first
            const bool inside = from_y < w.height && from_x < w.width;
            tile[y][x] = inside ? plane[from_y * w.row_stride + from_x * w.column_stride] : T(0);
        }
    }
    turn_both<ROWS, ROWS, POINTS>(tile, Points<T>::from_image);
    put_tile(tile, tiles + index, w.count);
}

// tiles[plane, out, channel] of weights (out, channel, taps), `count` of them.
template <u32 ROWS, typename T> DEVICE void weights_to_tiles(const T *weights, T *tiles, u32 count) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= count) return;
    constexpr u32 rows = ROWS == 1 ? 1 : TAPS;
    const T *taps = weights + u64(index) * (rows * TAPS);
    T tile[ROWS][POINTS];
    UNROLL
    for (u32 y = 0; y < rows; y++) {
        UNROLL
        for (u32 x = 0; x < TAPS; x++) tile[y][x] = taps[y * TAPS + x];
    }
    turn_both<ROWS, rows, POINTS>(tile, Points<T>::from_taps);
    put_tile(tile, tiles + index, count);
}

// The taps of a transposed convolution.
struct Phases {
    Divider channels, out;
    u32 count; // phases times `out` times `channels`
    u32 step, kernel;
    i32 last; // the tap of the first phase that sees the first place of its three
};
SHARE_LAYOUT(Phases, channels, out, count, step, kernel, last)
// tiles[plane, phase, out, channel] of weights (channel, out, kernel) of a transposed convolution. Where a phase has fewer
// than three taps, the others are zero.
template <u32 ROWS, typename T> DEVICE void phases_to_tiles(const T *weights, T *tiles, const Phases &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Division channel = divide(index, w.channels), out = divide(channel.quotient, w.out);
    constexpr u32 rows = ROWS == 1 ? 1 : TAPS;
    const u32 down = ROWS == 1 ? 1 : w.kernel, phase_y = ROWS == 1 ? 0 : out.quotient / w.step;
    const u32 phase_x = out.quotient - phase_y * w.step;
    const T *taps = weights + (u64(channel.remainder) * w.out.divisor + out.remainder) * (down * w.kernel);
    T tile[ROWS][POINTS];
    UNROLL
    for (u32 y = 0; y < rows; y++) {
        const u32 tap_y = ROWS == 1 ? 0 : u32(i32(phase_y) + w.last - i32(y * w.step));
        UNROLL
        for (u32 x = 0; x < TAPS; x++) {
            const u32 tap_x = u32(i32(phase_x) + w.last - i32(x * w.step));
            tile[y][x] = tap_y < down && tap_x < w.kernel ? taps[tap_y * w.kernel + tap_x] : T(0);
        }
    }
    turn_both<ROWS, rows, POINTS>(tile, Points<T>::from_taps);
    put_tile(tile, tiles + index, w.count);
}

// The result of tiles[plane, phase, out, batch, tile].
template <u32 ROWS, typename T> DEVICE void tiles_to_result(const T *tiles, T *out, const Tiles &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    T tile[ROWS][POINTS];
    UNROLL
    for (u32 y = 0; y < ROWS; y++) {
        UNROLL
        for (u32 x = 0; x < POINTS; x++) tile[y][x] = tiles[u64(y * POINTS + x) * w.count + index];
    }
    turn_both<ROWS, ROWS, TILE>(tile, Points<T>::to_result);
    const TilePlace at = tile_place(index, w);
    const Division phase = divide(at.channel, w.channels);
    const u32 phase_y = ROWS == 1 ? 0 : phase.quotient / w.step, phase_x = phase.quotient - phase_y * w.step;
    T *plane = out + at.batch * w.batch_stride + phase.remainder * w.channel_stride;
    UNROLL
    for (u32 y = 0; y < (ROWS == 1 ? 1 : TILE); y++) {
        const u32 to_y = ROWS == 1 ? 0 : (at.y + y) * w.step + phase_y;
        if (to_y >= w.height) break;
        T *row = plane + to_y * w.row_stride;
        if (w.vectors) {
            constexpr u32 N = Across<T>::count;
            UNROLL
            for (u32 x = 0; x < TILE; x += N) {
                Vec<T, N> some;
                UNROLL
                for (u32 j = 0; j < N; j++) some[j] = tile[y][x + j];
                store<N>(row + at.x + x, some);
            }
        } else {
            UNROLL
            for (u32 x = 0; x < TILE; x++) {
                const u32 to_x = (at.x + x) * w.step + phase_x;
                if (to_x < w.width) row[to_x] = tile[y][x];
            }
        }
    }
}
