// Convolution as a tiled product whose right factor is never written down: its columns are gathered from the image while
// they are copied into shared memory. Rows of the tile are output channels, columns are places of the result.
#pragma once

// A source whose elements are computed one by one; each thread stays with one row of the tile and steps along the depth.
template <typename T, u32 EXTENT, u32 SLAB, u32 THREADS, typename Gather> struct GatherSource {
    static constexpr u32 each = EXTENT * SLAB / THREADS, apart = THREADS / EXTENT;
    static_assert(THREADS % EXTENT == 0 && EXTENT * SLAB % THREADS == 0, "threads share a slab evenly");
    Gather gather;
    u32 depth;
    T held[each];

    MEMBER void fetch(u32 start) {
        UNROLL
        for (u32 j = 0; j < each; j++) {
            const u32 k = start + thread_x() / EXTENT + j * apart;
            held[j] = k < depth ? gather(k) : T{};
        }
    }
    template <typename C> MEMBER void stage(Slab<C, EXTENT, SLAB> &slab) {
        UNROLL
        for (u32 j = 0; j < each; j++) slab.at[thread_x() / EXTENT + j * apart][thread_x() % EXTENT] = widen(held[j]);
    }
};

// Element k = (channel, tap) of the receptive field of one place.
template <typename T> struct FieldGather {
    const T *image; // this place's batch and group; null past the last place
    i32 top, left;
    const Window &w;

    MEMBER T operator()(u32 k) const {
        const Division channel = divide(k, w.kernel_area);
        const Division tap = divide(channel.remainder, w.kernel_width_by);
        const i32 y = top + i32(tap.quotient * w.spread_y), x = left + i32(tap.remainder * w.spread_x);
        if (!image || !inside(y, x, w)) return T{};
        return image[channel.quotient * w.channel_stride + u32(y) * w.row_stride + u32(x) * w.column_stride];
    }
};

// Writes G neighbouring places of one output channel; they may belong to different batches.
template <typename T, typename C, u32 G>
DEVICE void put_places(T *out, const Vec<C, G> &v, u32 channel, u32 place, u32 area, u32 channels, const Divider &by_area, u32 places) {
    UNROLL
    for (u32 g = 0; g < G; g++) {
        if (place + g < places) {
            const Division batch = divide(place + g, by_area);
            out[(u64(batch.quotient) * channels + channel) * area + batch.remainder] = cast<T>(v[g]);
        }
    }
}

// weights: (groups * out_channels, channels, kernel), contiguous. block_z() is the group.
template <typename S>
DEVICE void convolve_tile(const typename S::T *image, const typename S::T *weights, typename S::T *out, const Window &w,
                          const Divider &out_area, u32 weight_walk) {
    typedef typename S::T T;
    const u32 group = block_z(), out_channels = w.out_channels.divisor;
    const u32 channel = block_y() * S::rows, place = block_x() * S::columns;
    const u32 places = w.batches * out_area.divisor, depth = w.channels * w.kernel_area.divisor;
    MatrixSource<T, S::rows, S::slab, S::threads> left(weights + (u64(group) * out_channels + channel) * depth, depth, 1,
                                                         out_channels - channel, depth, Walk(weight_walk));
    const u32 mine = place + thread_x() % S::columns;
    const Division batch = divide(min_of(mine, places - 1), out_area);
    const Division at = divide(batch.remainder, w.out_width);
    const T *from = image + batch.quotient * w.batch_stride + u64(group) * w.channels * w.channel_stride;
    typedef FieldGather<T> Gather;
    GatherSource<T, S::columns, S::slab, S::threads, Gather> right = {
        Gather{mine < places ? from : nullptr, i32(at.quotient * w.step_y) - i32(w.padding_y),
               i32(at.remainder * w.step_x) - i32(w.padding_x), w}, depth, {}};
    multiply_tile<S>(depth, left, right, [&](u32 i, u32 j, const Vec<typename S::C, S::group> &v) {
        if (channel + i < out_channels) {
            put_places<T>(out, v, group * out_channels + channel + i, place + j, out_area.divisor,
                          w.groups * out_channels, out_area, places);
        }
    });
}

// The taps that reach the outputs of one phase, along one axis. Outputs `step` apart form a phase: all of them are
// reached by the same taps, first, first + stride, ..., from inputs that move along with them.
struct Phase {
    u32 first, stride, taps;
    u32 outputs; // of this phase
    i32 origin;  // input place that the first tap reads for the phase's first output
    i32 back;    // inputs one further tap goes back

    static MEMBER Phase of(u32 phase, u32 step, u32 padding, u32 spread, u32 kernel, u32 out_size) {
        u32 a = step, b = spread;
        while (b != 0) {
            const u32 rest = a % b;
            a = b, b = rest;
        }
        Phase p;
        p.stride = step / a;
        p.taps = 0, p.first = 0, p.origin = 0;
        p.back = i32(spread / a);
        p.outputs = phase < out_size ? (out_size - phase + step - 1) / step : 0;
        for (u32 tap = 0; tap < p.stride && tap < kernel; tap++) {
            const i32 ahead = i32(phase + padding) - i32(tap * spread);
            if (ahead % i32(step) != 0) continue;
            p.first = tap;
            p.origin = ahead / i32(step);
            p.taps = (kernel - tap + p.stride - 1) / p.stride;
            break;
        }
        return p;
    }
};

// Element k = (tap, channel) of what reaches one output of a phase.
template <typename T> struct ReachGather {
    const T *image;
    i32 y, x; // input place of the first tap
    u32 taps_x;
    Phase by_y, by_x;
    const Window &w;

    MEMBER T operator()(u32 k) const {
        const Division tap = divide(k, w.channels_by);
        const u32 tap_y = tap.quotient / taps_x, tap_x = tap.quotient - tap_y * taps_x;
        const i32 at_y = y - i32(tap_y) * by_y.back, at_x = x - i32(tap_x) * by_x.back;
        if (!image || !inside(at_y, at_x, w)) return T{};
        return image[tap.remainder * w.channel_stride + u32(at_y) * w.row_stride + u32(at_x) * w.column_stride];
    }
};
// The weight of the same element for one output channel; weights: (groups * channels, out_channels, kernel).
template <typename T> struct ReachWeights {
    const T *weights; // of this group and output channel; null past the last channel
    u64 channel_stride;
    u32 taps_x;
    Phase by_y, by_x;
    const Window &w;

    MEMBER T operator()(u32 k) const {
        if (!weights) return T{};
        const Division tap = divide(k, w.channels_by);
        const u32 tap_y = tap.quotient / taps_x, tap_x = tap.quotient - tap_y * taps_x;
        const u32 at = (by_y.first + tap_y * by_y.stride) * w.kernel_width + by_x.first + tap_x * by_x.stride;
        return weights[tap.remainder * channel_stride + at];
    }
};

// block_z() counts groups times phases; within a phase a transposed convolution is a product without zeros to skip.
template <typename S>
DEVICE void convolve_back_tile(const typename S::T *image, const typename S::T *weights, typename S::T *out,
                               const Window &w) {
    typedef typename S::T T;
    const u32 out_h = w.out_height.divisor, out_w = w.out_width.divisor, out_channels = w.out_channels.divisor;
    const u32 phases = w.step_y * w.step_x, group = block_z() / phases, phase = block_z() - group * phases;
    const u32 phase_y = phase / w.step_x, phase_x = phase - phase_y * w.step_x;
    const Phase by_y = Phase::of(phase_y, w.step_y, w.padding_y, w.spread_y, w.kernel_height, out_h);
    const Phase by_x = Phase::of(phase_x, w.step_x, w.padding_x, w.spread_x, w.kernel_width, out_w);
    const u32 area = by_y.outputs * by_x.outputs, places = w.batches * area;
    const u32 channel = block_y() * S::rows, place = block_x() * S::columns;
    if (place >= places) return; // the whole block: the grid is as large as the largest phase
    const u32 depth = by_y.taps * by_x.taps * w.channels, taps_x = max_of(by_x.taps, 1u);

    const u32 my_channel = channel + thread_x() % S::rows;
    const u64 kernel = w.kernel_area.divisor;
    const T *rows = weights + (u64(group) * w.channels * out_channels + my_channel) * kernel;
    typedef ReachWeights<T> Weights;
    GatherSource<T, S::rows, S::slab, S::threads, Weights> left = {
        Weights{my_channel < out_channels ? rows : nullptr, out_channels * kernel, taps_x, by_y, by_x, w}, depth, {}};

    const u32 mine = place + thread_x() % S::columns;
    const u32 in_batch = mine % area, y = in_batch / by_x.outputs, x = in_batch - y * by_x.outputs;
    const T *from = image + (mine / area) * w.batch_stride + u64(group) * w.channels * w.channel_stride;
    typedef ReachGather<T> Gather;
    GatherSource<T, S::columns, S::slab, S::threads, Gather> right = {
        Gather{mine < places ? from : nullptr, by_y.origin + i32(y), by_x.origin + i32(x), taps_x, by_y, by_x, w},
        depth, {}};
    multiply_tile<S>(depth, left, right, [&](u32 i, u32 j, const Vec<typename S::C, S::group> &v) {
        if (channel + i >= out_channels) return;
        UNROLL
        for (u32 g = 0; g < S::group; g++) {
            const u32 at = place + j + g;
            if (at >= places) continue;
            const u32 batch = at / area, rest = at - batch * area, row = rest / by_x.outputs;
            const u64 plane = u64(batch) * w.groups * out_channels + group * out_channels + channel + i;
            const u32 out_y = phase_y + row * w.step_y, out_x = phase_x + (rest - row * by_x.outputs) * w.step_x;
            out[(plane * out_h + out_y) * out_w + out_x] = cast<T>(v[g]);
        }
    });
}
