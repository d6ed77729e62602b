// Convolutions and transposed convolutions in one and two dimensions, their column forms, their tiles (winograd.h), pools and
// upsampling.
//
// `conv2d` is a tiled product that gathers its right factor from the image (implicit.h), with `_small` tiles for small
// results and a `_direct` variant, one thread an output, for groups of few channels, where a tile would stay empty.
// `conv_transpose2d` is the same for each phase of the step; `_direct` serves integers and f8e4m3 too.
// One-dimensional calls are images of height 1; `im2col1d`, `col2im1d` and `upsample_nearest1d` are kept as names.
//
// Limits: the tiled kernels are bound by arithmetic, read each image element from memory about once per 128 output
// channels, and write the result in its final layout; no column matrix is written. Pools, upsampling and the column forms
// are bound by memory: neighbouring threads make neighbouring elements, each element is decoded once with precomputed
// dividers, and overlapping reads come from the cache.
#include "portable.h"
#include "accumulate.h"
#include "tile.h"
#include "window.h"
#include "columns.h"
#include "implicit.h"
#include "image.h"
#include "winograd.h"

template <typename T> DEVICE void convolve_direct(const T *image, const T *weights, T *out, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Place at = place_of(index, w);
    const u32 group = w.out_channels.quotient(at.channel);
    const u64 depth = u64(w.channels) * w.kernel_area.divisor;
    const T *weight = weights + at.channel * depth;
    const T *plane = image + at.batch * w.batch_stride + u64(group) * w.channels * w.channel_stride;
    const i32 top = i32(at.y * w.step_y) - i32(w.padding_y), left = i32(at.x * w.step_x) - i32(w.padding_x);
    SumType<T> sum = 0;
    for (u32 channel = 0; channel < w.channels; channel++, plane += w.channel_stride) {
        for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
            const i32 y = top + i32(tap_y * w.spread_y);
            for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++, weight++) {
                const i32 x = left + i32(tap_x * w.spread_x);
                if (inside(y, x, w)) sum += to_sum(plane[u32(y) * w.row_stride + u32(x) * w.column_stride]) * to_sum(*weight);
            }
        }
    }
    out[index] = from_sum<T>(sum);
}

template <typename T> DEVICE void convolve_back_direct(const T *image, const T *weights, T *out, const Window &w) {
    const u32 index = block_x() * WINDOW_THREADS + thread_x();
    if (index >= w.count) return;
    const Place at = place_of(index, w);
    const Division group = divide(at.channel, w.out_channels);
    const u64 kernel = w.kernel_area.divisor, channel_weights = w.out_channels.divisor * kernel;
    const T *weight = weights + u64(group.quotient) * w.channels * channel_weights + group.remainder * kernel;
    const T *plane = image + at.batch * w.batch_stride + u64(group.quotient) * w.channels * w.channel_stride;
    SumType<T> sum = 0;
    for (u32 tap_y = 0; tap_y < w.kernel_height; tap_y++) {
        u32 y, x;
        if (!reached_from(at.y, tap_y, w.step_y, w.padding_y, w.spread_y, w.height, y)) continue;
        for (u32 tap_x = 0; tap_x < w.kernel_width; tap_x++) {
            if (!reached_from(at.x, tap_x, w.step_x, w.padding_x, w.spread_x, w.width, x)) continue;
            const T *pixel = plane + y * w.row_stride + x * w.column_stride;
            const T *tap = weight + tap_y * w.kernel_width + tap_x;
            for (u32 channel = 0; channel < w.channels; channel++) {
                sum += to_sum(pixel[channel * w.channel_stride]) * to_sum(tap[channel * channel_weights]);
            }
        }
    }
    out[index] = from_sum<T>(sum);
}

#define CONVOLVE(T)                                                                                \
    KERNEL(Large<T>::threads)                                                                      \
    conv2d_##T(const T *image, const T *weights, T *out, Window w, Divider out_area, u32 weight_walk) { enter(); \
        convolve_tile<Large<T>>(image, weights, out, w, out_area, weight_walk);                    \
    }                                                                                              \
    KERNEL(Small<T>::threads)                                                                      \
    conv2d_##T##_small(const T *image, const T *weights, T *out, Window w, Divider out_area, u32 weight_walk) { enter(); \
        convolve_tile<Small<T>>(image, weights, out, w, out_area, weight_walk);                    \
    }                                                                                              \
    KERNEL(WINDOW_THREADS) conv2d_##T##_direct(const T *image, const T *weights, T *out, Window w) { enter(); \
        convolve_direct(image, weights, out, w);                                                   \
    }                                                                                              \
    KERNEL(Small<T>::threads) conv_transpose2d_##T(const T *image, const T *weights, T *out, Window w) { enter(); \
        convolve_back_tile<Small<T>>(image, weights, out, w);                                      \
    }
CONVOLVE(bf16)
CONVOLVE(f16)
CONVOLVE(f32)
CONVOLVE(f64)

#define WINDOWS(T)                                                                                 \
    KERNEL(WINDOW_THREADS) conv_transpose2d_##T##_direct(const T *image, const T *weights, T *out, Window w) { enter(); \
        convolve_back_direct(image, weights, out, w);                                              \
    }                                                                                              \
    KERNEL(WINDOW_THREADS) im2col_##T(const T *image, T *columns, Window w) { enter(); image_to_columns(image, columns, w); } \
    KERNEL(WINDOW_THREADS) im2col1d_##T(const T *image, T *columns, Window w) { enter(); image_to_columns(image, columns, w); } \
    KERNEL(WINDOW_THREADS) col2im_##T(const T *columns, T *image, Window w) { enter(); columns_to_image(columns, image, w); } \
    KERNEL(WINDOW_THREADS) col2im1d_##T(const T *columns, T *image, Window w) { enter(); columns_to_image(columns, image, w); } \
    KERNEL(WINDOW_THREADS) avg_pool2d_##T(const T *image, T *out, Window w) { enter(); average_pool(image, out, w); } \
    KERNEL(WINDOW_THREADS) max_pool2d_##T(const T *image, T *out, Window w) { enter(); max_pool(image, out, w); } \
    KERNEL(WINDOW_THREADS)                                                                         \
    upsample_nearest1d_##T(const T *image, T *out, Window w, f64 scale_y, f64 scale_x) { enter();  \
        upsample_nearest(image, out, w, scale_y, scale_x);                                         \
    }                                                                                              \
    KERNEL(WINDOW_THREADS)                                                                         \
    upsample_nearest2d_##T(const T *image, T *out, Window w, f64 scale_y, f64 scale_x) { enter();  \
        upsample_nearest(image, out, w, scale_y, scale_x);                                         \
    }                                                                                              \
    KERNEL(WINDOW_THREADS)                                                                         \
    upsample_bilinear2d_##T(const T *image, T *out, Window w, f64 scale_y, f64 scale_x, u32 align_corners) { enter(); \
        upsample_bilinear(image, out, w, scale_y, scale_x, align_corners);                         \
    }
FOR_ALL_DTYPES(WINDOWS)

#define WINOGRAD(T)                                                                                \
    KERNEL(WINDOW_THREADS) winograd_image_##T(const T *image, T *tiles, Tiles w) { enter(); image_to_tiles<POINTS>(image, tiles, w); } \
    KERNEL(WINDOW_THREADS) winograd_image1d_##T(const T *image, T *tiles, Tiles w) { enter(); image_to_tiles<1>(image, tiles, w); } \
    KERNEL(WINDOW_THREADS) winograd_result_##T(const T *tiles, T *out, Tiles w) { enter(); tiles_to_result<POINTS>(tiles, out, w); } \
    KERNEL(WINDOW_THREADS) winograd_result1d_##T(const T *tiles, T *out, Tiles w) { enter(); tiles_to_result<1>(tiles, out, w); } \
    KERNEL(WINDOW_THREADS) winograd_weights_##T(const T *weights, T *tiles, u32 count) { enter();  \
        weights_to_tiles<POINTS>(weights, tiles, count);                                           \
    }                                                                                              \
    KERNEL(WINDOW_THREADS) winograd_weights1d_##T(const T *weights, T *tiles, u32 count) { enter(); \
        weights_to_tiles<1>(weights, tiles, count);                                                \
    }                                                                                              \
    KERNEL(WINDOW_THREADS) winograd_phases_##T(const T *weights, T *tiles, Phases w) { enter();    \
        phases_to_tiles<POINTS>(weights, tiles, w);                                                \
    }                                                                                              \
    KERNEL(WINDOW_THREADS) winograd_phases1d_##T(const T *weights, T *tiles, Phases w) { enter();  \
        phases_to_tiles<1>(weights, tiles, w);                                                     \
    }
WINOGRAD(f32)
WINOGRAD(f64)
