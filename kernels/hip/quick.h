// Exponentials by the instruction for 2^x that every GPU has, for kernels where exp_ would be slower than memory: exp_ takes some
// thirty instructions, these a handful. The embedded device has no such instruction and takes exp_.
#pragma once

#if defined(TARGET_NVIDIA)
DEVICE f32 power_of_two_quick(f32 x) {
    f32 result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
DEVICE f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
#elif defined(TARGET_AMD)
DEVICE f32 power_of_two_quick(f32 x) { return __builtin_exp2f(x); }
DEVICE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
#endif

#if defined(TARGET_HOST)
DEVICE f32 exp_rough(f32 x) { return exp_(x); }
DEVICE f32 exp_below_zero(f32 x) { return exp_(x); }
#else
// e^x to about 1e-5 of itself: for results that are rounded to a short float.
DEVICE f32 exp_rough(f32 x) { return power_of_two_quick(x * 1.44269504f); }

// e^x to a few ulp, for x up to 0. The product x log2(e) is kept in two parts, because its rounding grows with x.
DEVICE f32 exp_below_zero(f32 x) {
    const f32 LOG2_E = 1.44269504f, LOG2_E_REST = 1.92596303e-8f, LN_2 = 0.693147181f;
    x = x > -150.0f ? x : (x == x ? -150.0f : x); // 0 in f32 all the same, and keeps inf - inf out of the second part
    const f32 power = x * LOG2_E;
    const f32 lost = fused(x, LOG2_E, -power) + x * LOG2_E_REST;
    const f32 result = power_of_two_quick(power);
    return result + result * (lost * LN_2);
}
#endif
DEVICE f64 exp_below_zero(f64 x) { return exp_(x); }
