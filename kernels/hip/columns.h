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

// The taps that reach an element of a transposed result along one axis: `first`, then every `stride`-th, each from the
// input place `back` before the one of the tap before. One division instead of one a tap.
struct Taps {
    u32 first, stride;
    i32 from, back;
    static MEMBER Taps of(u32 out, u32 step, u32 padding, u32 spread) {
        const u32 at = out + padding;
        if (spread != 1) return Taps{0, 1, 0, 0};
        const u32 from = at / step;
        return Taps{at - from * step, step, i32(from), 1};
    }
};

// image[batch, channel, y, x] = the sum of all columns[batch, channel, tap, place] that reach it. Each thread gathers for
// one element of the image, in a fixed order and without atomics. The window describes the columns' places as its image.
template <typename T> DEVICE void columns_to_image(const T *columns, T *image, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Place at = place_of(index, w);
    const u64 places = u64(w.height) * w.width;
    const u64 plane = (u64(at.batch) * w.out_channels.divisor + at.channel) * w.kernel_area.divisor;
    const Taps by_y = Taps::of(at.y, w.step_y, w.padding_y, w.spread_y);
    const Taps by_x = Taps::of(at.x, w.step_x, w.padding_x, w.spread_x);
    SumType<T> sum = 0;
    u32 y = u32(by_y.from);
    for (u32 tap_y = by_y.first; tap_y < w.kernel_height; tap_y += by_y.stride, y -= u32(by_y.back)) {
        if (by_y.back == 0 && !reached_from(at.y, tap_y, w.step_y, w.padding_y, w.spread_y, w.height, y)) continue;
        if (y >= w.height) continue; // before the first place too: the difference wraps around
        u32 x = u32(by_x.from);
        for (u32 tap_x = by_x.first; tap_x < w.kernel_width; tap_x += by_x.stride, x -= u32(by_x.back)) {
            if (by_x.back == 0 && !reached_from(at.x, tap_x, w.step_x, w.padding_x, w.spread_x, w.width, x)) continue;
            if (x >= w.width) continue;
            const u64 tap = plane + tap_y * w.kernel_width + tap_x;
            sum += to_sum(columns[tap * places + u64(y) * w.width + x]);
        }
    }
    image[index] = from_sum<T>(sum);
}
