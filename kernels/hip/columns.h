// The column forms of a convolution, for a matrix product of someone else's: im2col writes, for every channel and tap, what
// it sees at each place of the result; col2im adds such planes up again into an image (the transposed convolution).
// Places are innermost, so that neighbouring threads read and write neighbouring elements.
#pragma once

// columns[batch, channel, tap, place] = image[batch, channel, y, x], 0 outside.
// `count` counts batches times channels times places (or groups of N places along x), one thread for all taps: the decoding
// is shared by the taps.
template <u32 N, typename T> DEVICE void image_to_columns_by(const T *image, T *columns, const Window &w, u32 index) {
    const Division x = divide(index * N, w.out_width);
    const Division y = divide(x.quotient, w.out_height);
    const Division channel = divide(y.quotient, w.channels_by);
    const T *plane = image + channel.quotient * w.batch_stride + channel.remainder * w.channel_stride;
    const u32 places = w.out_width.divisor * w.out_height.divisor;
    T *out = columns + u64(y.quotient) * w.kernel_area.divisor * places + y.remainder * w.out_width.divisor + x.remainder;
    const i32 top = i32(y.remainder * w.step_y) - i32(w.padding_y);
    const i32 left = i32(x.remainder * w.step_x) - i32(w.padding_x);
    for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
        const i32 at_y = top + i32(tap_y * w.spread_y);
        for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++, out += places) {
            Vec<T, N> seen;
            UNROLL
            for (u32 j = 0; j < N; j++) {
                const i32 at_x = left + i32(j * w.step_x + tap_x * w.spread_x);
                seen[j] = inside(at_y, at_x, w) ? plane[u32(at_y) * w.row_stride + u32(at_x) * w.column_stride] : T{};
            }
            store<N>(out, seen);
        }
    }
}
template <typename T> DEVICE void image_to_columns(const T *image, T *columns, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    if (w.across == 1) image_to_columns_by<1>(image, columns, w, index);
    else image_to_columns_by<Across<T>::count>(image, columns, w, index);
}

// The taps that reach an element of a transposed result along one axis: `first`, then every `step`-th, each from the
// input place one before that of the tap before. Divides once; the next element's come by counting.
struct Taps {
    u32 first, from;
    static MEMBER Taps of(u32 out, u32 step, u32 padding) {
        const u32 at = out + padding, from = at / step;
        return Taps{at - from * step, from};
    }
    MEMBER Taps next(u32 step) const { return first + 1 == step ? Taps{0, from + 1} : Taps{first + 1, from}; }
};

// The sum of all columns that reach `N` neighbouring elements of an image along x; `plane` begins with the first tap's.
template <u32 N, typename T>
DEVICE Vec<T, N> reached_sums(const T *plane, const Place &at, const Window &w) {
    const u64 places = u64(w.height) * w.width;
    SumType<T> sums[N];
    UNROLL
    for (u32 j = 0; j < N; j++) sums[j] = 0;
    if (w.spread_y == 1 && w.spread_x == 1) {
        const Taps by_y = Taps::of(at.y, w.step_y, w.padding_y);
        Taps by_x[N];
        by_x[0] = Taps::of(at.x, w.step_x, w.padding_x);
        UNROLL
        for (u32 j = 1; j < N; j++) by_x[j] = by_x[j - 1].next(w.step_x);
        u32 y = by_y.from;
        for (u32 tap_y = by_y.first; tap_y < w.kernel_height; tap_y += w.step_y, y--) {
            if (y >= w.height) continue; // before the first place too: the difference wraps around
            const T *row = plane + u64(tap_y * w.kernel_width) * places + y * w.width;
            // All neighbours' loads of one round are on their way together.
            for (u32 round = 0, start = 0; start < w.kernel_width; round++, start += w.step_x) {
                SumType<T> seen[N];
                UNROLL
                for (u32 j = 0; j < N; j++) {
                    const u32 tap_x = by_x[j].first + start, x = by_x[j].from - round;
                    seen[j] = tap_x < w.kernel_width && x < w.width ? to_sum(row[tap_x * places + x]) : SumType<T>(0);
                }
                UNROLL
                for (u32 j = 0; j < N; j++) sums[j] += seen[j];
            }
        }
    } else {
        for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
            u32 y, x;
            if (!reached_from(at.y, tap_y, w.step_y, w.padding_y, w.spread_y, w.height, y)) continue;
            const T *row = plane + u64(tap_y * w.kernel_width) * places + y * w.width;
            for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++) {
                UNROLL
                for (u32 j = 0; j < N; j++) {
                    const bool reaches = reached_from(at.x + j, tap_x, w.step_x, w.padding_x, w.spread_x, w.width, x);
                    if (reaches) sums[j] += to_sum(row[tap_x * places + x]);
                }
            }
        }
    }
    Vec<T, N> made;
    UNROLL
    for (u32 j = 0; j < N; j++) made[j] = from_sum<T>(sums[j]);
    return made;
}

// image[batch, channel, y, x] = the sum of all columns[batch, channel, tap, place] that reach it. Each thread gathers for
// one element of the image or a few along x, in a fixed order and without atomics. The window describes the columns' places
// as its image.
template <u32 N, typename T> DEVICE void columns_to_image_by(const T *columns, T *image, const Window &w, u32 index) {
    const Place at = place_of(index * N, w);
    const u64 first = (u64(at.batch) * w.out_channels.divisor + at.channel) * w.kernel_area.divisor;
    const T *plane = columns + first * w.height * w.width;
    store<N>(image + u64(index) * N, reached_sums<N>(plane, at, w));
}
template <typename T> DEVICE void columns_to_image(const T *columns, T *image, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    if (w.across == 1) columns_to_image_by<1>(columns, image, w, index);
    else columns_to_image_by<Across<T>::count>(columns, image, w, index);
}
