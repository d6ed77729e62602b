// The geometry of everything that slides a window over an image: convolutions, pools and the column forms.
// One-dimensional operations are images of height 1.
#pragma once

constexpr u32 WINDOW_THREADS = 256;
SHARE(WINDOW_THREADS)

// Padding is on both sides; strides count elements.
struct Window {
    u32 batches, channels; // of the image that is read; `channels` of one group
    u32 height, width;
    u32 kernel_height, kernel_width;
    u32 step_y, step_x;
    u32 padding_y, padding_x;
    u32 spread_y, spread_x; // dilation
    u32 groups;
    u32 count;                                        // elements of the result, below 2^31; with `across`, of their groups
    Divider out_width, out_height, out_channels;      // of the result; `out_channels` of one group
    Divider kernel_width_by, kernel_area, channels_by; // the same sizes as above, to divide by
    u32 across, unused; // elements of the result a thread makes along x: 1, or Across<T>::count, which divides its width
    u64 batch_stride, channel_stride, row_stride, column_stride; // of the image that is read
};
SHARE_LAYOUT(Window, batches, channels, height, width, kernel_height, kernel_width, step_y, step_x, padding_y, padding_x, spread_y,
             spread_x, groups, count, out_width, out_height, out_channels, kernel_width_by, kernel_area, channels_by, across,
             batch_stride, channel_stride, row_stride, column_stride)

// Elements that a thread makes at once where it can: up to four, no more than 16 bytes.
template <typename T> struct Across { static constexpr u32 count = sizeof(T) == 8 ? 2 : 4; };
SHARE_AS(Across_f32, "Across<f32>", Across<f32>::count)
SHARE_AS(Across_f64, "Across<f64>", Across<f64>::count)

// An element of a result (batch, channel, y, x), row-major. The channel counts through all groups.
struct Place {
    u32 batch, channel, y, x;
};
DEVICE Place place_of(u32 index, const Window &w) {
    const Division x = divide(index, w.out_width);
    const Division y = divide(x.quotient, w.out_height);
    const u32 plane = y.quotient;
    const u32 channels = w.out_channels.divisor * w.groups;
    const u32 batch = w.groups == 1 ? w.out_channels.quotient(plane) : plane / channels;
    return Place{batch, plane - batch * channels, y.remainder, x.remainder};
}

// Makes every element of the result by `each(place)`, one a thread or `across` neighbours.
template <typename T, typename Each> DEVICE void make_places(T *out, const Window &w, Each each) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    if (w.across == 1) {
        out[index] = each(place_of(index, w));
        return;
    }
    constexpr u32 N = Across<T>::count;
    const Place first = place_of(index * N, w);
    Vec<T, N> made;
    UNROLL
    for (u32 j = 0; j < N; j++) made[j] = each(Place{first.batch, first.channel, first.y, first.x + j});
    store<N>(out + u64(index) * N, made);
}

// Where a tap of the window falls, or outside the image: the unsigned comparison catches negative places too.
DEVICE bool inside(i32 y, i32 x, const Window &w) { return u32(y) < w.height && u32(x) < w.width; }

// A transposed convolution reads the image backwards: tap k reaches output `out` from the input place
// (out + padding - k * spread) / step, if that is whole and inside.
DEVICE bool reached_from(u32 out, u32 tap, u32 step, u32 padding, u32 spread, u32 size, u32 &from) {
    const i32 ahead = i32(out + padding) - i32(tap * spread);
    if (ahead < 0) return false;
    from = u32(ahead) / step;
    return from * step == u32(ahead) && from < size;
}
