// Loads that come later are not begun earlier: the compiler for AMD would load as much ahead as there is, into more registers than there are.
#pragma once

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
