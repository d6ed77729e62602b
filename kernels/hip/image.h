// Pools and upsampling: every element of the result looks at a few elements of one plane of an image.
#pragma once

template <typename T> DEVICE const T *plane_of(const T *image, const Place &at, const Window &w) {
    return image + at.batch * w.batch_stride + at.channel * w.channel_stride;
}

// The first element under a pool's window.
template <typename T> DEVICE const T *corner_of(const T *image, const Place &at, const Window &w) {
    return plane_of(image, at, w) + u64(at.y * w.step_y) * w.row_stride + u64(at.x * w.step_x) * w.column_stride;
}

// As on the CPU the sum is multiplied by the reciprocal of the area in the dtype itself: for integers that is 0 unless
// the window is a single element.
template <typename T> DEVICE void average_pool(const T *image, T *out, const Window &w) {
    make_places(out, w, [&](const Place &at) -> T {
        const T *corner = corner_of(image, at, w);
        SumType<T> sum = 0;
        for (u32 y = 0; y < w.kernel_height; y++) {
            for (u32 x = 0; x < w.kernel_width; x++) sum += to_sum(corner[y * w.row_stride + x * w.column_stride]);
        }
        if constexpr (IsFloat<T>::value) return from_sum<T>(sum * (SumType<T>(1) / SumType<T>(w.kernel_area.divisor)));
        else return w.kernel_area.divisor == 1 ? from_sum<T>(sum) : T(0);
    });
}

// Starts from the first element and takes only a greater one: a NaN in front stays, others are passed over, as on the CPU.
template <typename T> DEVICE void max_pool(const T *image, T *out, const Window &w) {
    make_places(out, w, [&](const Place &at) -> T {
        const T *corner = corner_of(image, at, w);
        T largest = corner[0];
        for (u32 y = 0; y < w.kernel_height; y++) {
            for (u32 x = 0; x < w.kernel_width; x++) {
                const T value = corner[y * w.row_stride + x * w.column_stride];
                if (widen(largest) < widen(value)) largest = value;
            }
        }
        return largest;
    });
}

// Which element an output stands on is decided in f64, as on the CPU: in f32 neighbours would be swapped here and there.
DEVICE u32 nearest_source(u32 out, f64 scale, u32 size) { return min_of(u32(f64(out) * scale), size - 1); }

template <typename T> DEVICE void upsample_nearest(const T *image, T *out, const Window &w, f64 scale_y, f64 scale_x) {
    make_places(out, w, [&](const Place &at) -> T {
        const u32 y = nearest_source(at.y, scale_y, w.height), x = nearest_source(at.x, scale_x, w.width);
        return plane_of(image, at, w)[y * w.row_stride + x * w.column_stride];
    });
}

// A product that no compiler fuses with the sum it goes into: integers drop their fraction afterwards, and a blend of 5 and
// 5 that came out as 4.999 would become 4. (The embedded device is compiled without contraction.)
DEVICE f32 apart(f32 a, f32 b) {
#if defined(TARGET_NVIDIA)
    return __fmul_rn(a, b);
#else
#if defined(TARGET_AMD)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}
DEVICE f64 apart(f64 a, f64 b) {
#if defined(TARGET_NVIDIA)
    return __dmul_rn(a, b);
#else
#if defined(TARGET_AMD)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

// The two elements an output lies between along one axis, and how far it is from the first.
struct Between {
    u32 low, high;
    f64 weight;
    static MEMBER Between of(u32 out, f64 scale, u32 size, bool align_corners) {
        f64 at = align_corners ? scale * f64(out) : apart(scale, f64(out) + 0.5) - 0.5;
        at = at > 0.0 ? at : 0.0;
        const u32 low = min_of(u32(at), size - 1);
        const f64 weight = at - f64(low);
        return Between{low, min_of(low + 1, size - 1), weight < 1.0 ? weight : 1.0};
    }
};

// Short floats and f32 are blended in f32, f64 and integers in f64 (integers then lose their fraction, as on the CPU).
template <typename T>
DEVICE void upsample_bilinear(const T *image, T *out, const Window &w, f64 scale_y, f64 scale_x, u32 align_corners) {
    typedef typename Choose<IsSame<SumType<T>, f32>::value, f32, f64>::type C;
    make_places(out, w, [&](const Place &at) -> T {
        const T *plane = plane_of(image, at, w);
        const Between y = Between::of(at.y, scale_y, w.height, align_corners);
        const Between x = Between::of(at.x, scale_x, w.width, align_corners);
        const u64 top = y.low * w.row_stride, bottom = y.high * w.row_stride;
        const u64 left = x.low * w.column_stride, right = x.high * w.column_stride;
        const C over = C(x.weight), down = C(y.weight), back = C(1.0 - x.weight), up = C(1.0 - y.weight);
        const C above = apart(C(widen(plane[top + left])), back) + apart(C(widen(plane[top + right])), over);
        const C below = apart(C(widen(plane[bottom + left])), back) + apart(C(widen(plane[bottom + right])), over);
        return cast<T>(C(apart(above, up) + apart(below, down)));
    });
}
