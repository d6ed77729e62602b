// What the compiler for AMD must not do early: it would load as much ahead as there is, and keep what it can compute before a loop, in more
// registers than there are.
#pragma once

// A number that all lanes have alike, of which the compiler knows nothing: what follows from it is computed here and not kept across a
// loop. Where waves have 64 lanes each condition that is kept takes two scalar registers.
DEVICE u32 forgotten(u32 x) {
#if defined(TARGET_AMD)
    asm volatile("" : "+s"(x));
#endif
    return x;
}

// Loads that come later are not begun earlier.
#if defined(TARGET_AMD)
DEVICE void keep_order() { asm volatile("" ::: "memory"); }
#else
DEVICE void keep_order() {}
#endif

// The same of all instructions: what comes later is not begun earlier.
#if defined(TARGET_AMD)
#if __has_builtin(__builtin_amdgcn_sched_barrier)
DEVICE void keep_all_order() { __builtin_amdgcn_sched_barrier(0); }
#else
DEVICE void keep_all_order() { keep_order(); }
#endif
#endif
