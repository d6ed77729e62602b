// Products that are rounded by themselves, where the compiler would make one instruction of the product and what comes after it.
#pragma once
#include "portable.h"

// Rounded to f32 before anything is added to it or taken from it, as on the CPU.
DEVICE f32 rounded_product(f32 a, f32 b) {
#if defined(TARGET_NVIDIA)
    return __fmul_rn(a, b);
#elif defined(TARGET_AMD)
#pragma clang fp contract(off)
    return a * b;
#else
    volatile f32 product = a * b;
    return product;
#endif
}

// Rounded to f32 before it is rounded to f16. LLVM makes one instruction of the two on AMD GPUs, v_fma_mixlo_f16 with an addend of 0,
// which turns a negative zero into a positive one; a value that it cannot see through keeps it from doing so.
DEVICE f32 product_alone(f32 product) {
#if defined(TARGET_AMD)
    asm("" : "+v"(product));
#endif
    return product;
}
