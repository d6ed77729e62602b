// The column forms of a convolution, for a matrix product of someone else's: im2col lays the receptive field of every
// place of the result into a row, col2im adds such rows up again into an image (the transposed convolution).
#pragma once

// columns[batch, place, channel * kernel_area + tap] = image[batch, channel, y, x], 0 outside.
// `count` counts places times channels, one thread for all taps of one channel: the decoding is shared by the taps.
template <typename T> DEVICE void image_to_columns(const T *image, T *columns, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Division channel = divide(index, w.channels_by);
    const Division x = divide(channel.quotient, w.out_width);
    const Division y = divide(x.quotient, w.out_height);
    const T *plane = image + y.quotient * w.batch_stride + channel.remainder * w.channel_stride;
    T *out = columns + u64(index) * w.kernel_area.divisor;
    const i32 top = i32(y.remainder * w.step_y) - i32(w.padding_y);
    const i32 left = i32(x.remainder * w.step_x) - i32(w.padding_x);
    for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
        const i32 at_y = top + i32(tap_y * w.spread_y);
        for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++) {
            const i32 at_x = left + i32(tap_x * w.spread_x);
            *out++ = inside(at_y, at_x, w) ? plane[u32(at_y) * w.row_stride + u32(at_x) * w.column_stride] : T{};
        }
    }
}

// image[batch, channel, y, x] = the sum of all columns[batch, place, channel, tap] that reach it. Each thread gathers for
// one element of the image, in a fixed order and without atomics. The window describes the columns' places as its image.
template <typename T> DEVICE void columns_to_image(const T *columns, T *image, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Place at = place_of(index, w);
    const u64 row = u64(w.out_channels.divisor) * w.kernel_area.divisor;
    const T *from = columns + at.batch * u64(w.height) * w.width * row + u64(at.channel) * w.kernel_area.divisor;
    SumType<T> sum = 0;
    for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
        u32 y, x;
        if (!reached_from(at.y, tap_y, w.step_y, w.padding_y, w.spread_y, w.height, y)) continue;
        for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++) {
            if (!reached_from(at.x, tap_x, w.step_x, w.padding_x, w.spread_x, w.width, x)) continue;
            sum += to_sum(from[(u64(y) * w.width + x) * row + tap_y * w.kernel_width + tap_x]);
        }
    }
    image[index] = from_sum<T>(sum);
}
