// Exponentials by the instruction for 2^x that every GPU has, for kernels where exp_ would be slower than memory: exp_ takes some
// thirty instructions, these a handful. The embedded device has no such instruction and takes exp_.
#pragma once

// at_least: the greater one, and NaN where x is. greater_of: the greater one, and the other where one is NaN.
#if defined(TARGET_NVIDIA)
// Results below the least normal number become 0.
DEVICE f32 fast_exp2(f32 x) {
    f32 result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
DEVICE f32 fast_rcp(f32 x) {
    f32 result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#if __CUDA_ARCH__ >= 800
DEVICE f32 at_least(f32 x, f32 least) {
    f32 result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(least));
    return result;
}
#else
DEVICE f32 at_least(f32 x, f32 least) { return x < least ? least : x; }
#endif
DEVICE f32 greater_of(f32 a, f32 b) { return fmaxf(a, b); }
#elif defined(TARGET_AMD)
#if __has_builtin(__builtin_amdgcn_exp2f)
DEVICE f32 fast_exp2(f32 x) { return __builtin_amdgcn_exp2f(x); }
#else
DEVICE f32 fast_exp2(f32 x) { return __builtin_exp2f(x); }
#endif
DEVICE f32 fast_rcp(f32 x) { return __builtin_amdgcn_rcpf(x); }
DEVICE f32 at_least(f32 x, f32 least) { return x < least ? least : x; }
DEVICE f32 greater_of(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
#endif

#if defined(TARGET_HOST)
DEVICE f32 greater_of(f32 a, f32 b) { return max_of(a, b); }
DEVICE f32 exp_rough(f32 x) { return exp_(x); }
DEVICE f32 over_one_plus(f32 x, f32 y) { return x / (1.0f + y); }
DEVICE f32 exp_below_zero(f32 x) { return exp_(x); }
#else
// e^x to about 1e-5 of itself: for results that are rounded to a short float.
DEVICE f32 exp_rough(f32 x) { return fast_exp2(x * 1.44269504f); }

// x / (1 + y) to about 1e-6 of itself, for y from 0 to infinity. Both are taken by four: the reciprocal of the greatest numbers
// would be below what the instruction can return.
DEVICE f32 over_one_plus(f32 x, f32 y) { return (x * 0.25f) * fast_rcp(fused(y, 0.25f, 0.25f)); }

// e^x to a few ulp, for x up to 0. The product x log2(e) is kept in two parts, because its rounding grows with x.
DEVICE f32 exp_below_zero(f32 x) {
    const f32 LOG2_E = 1.44269504f, LOG2_E_REST = 1.92596303e-8f, LN_2 = 0.693147181f;
    x = at_least(x, -150.0f); // 0 in f32 all the same, and keeps inf - inf out of the second part
    const f32 power = x * LOG2_E;
    const f32 lost = fused(x, LOG2_E_REST, fused(x, LOG2_E, -power));
    const f32 result = fast_exp2(power);
    return fused(result, lost * LN_2, result);
}
#endif
DEVICE f64 greater_of(f64 a, f64 b) { return max_of(a, b); }
DEVICE f64 exp_below_zero(f64 x) { return exp_(x); }

// e^x for x up to 0, as exactly as a result of the first argument's dtype shows.
DEVICE f32 exp_below_zero_as(f16, f32 x) { return exp_rough(x); }
DEVICE f32 exp_below_zero_as(bf16, f32 x) { return exp_rough(x); }
DEVICE f32 exp_below_zero_as(f32, f32 x) { return exp_below_zero(x); }
DEVICE f64 exp_below_zero_as(f64, f64 x) { return exp_below_zero(x); }
