// A thread among the threads of its block: barriers, fences, clocks, traps, and what `extern __shared__` names.
//
// Every call that lets other threads run overwrites the thread's id, so that is put back afterwards, and `split` is set: the
// loop over threads in entry.h has then been left behind by the others and must end with the current thread.
#pragma once

namespace hip_host {

HIP_HOST_INLINE int barrier(int predicate, unsigned kind) {
    const unsigned x = thread_x, y = thread_y, z = thread_z;
    const int combined = runtime.barrier(linear_thread(), predicate, kind);
    thread_x = x;
    thread_y = y;
    thread_z = z;
    split = true;
    return combined;
}

__attribute__((noreturn, cold, noinline, unused)) static void trap(unsigned kind, const char *message) {
    runtime.trap(linear_thread(), kind, message);
    for (;;) {} // the run side does not come back
}

} // namespace hip_host

HIP_HOST_INLINE void __syncthreads() { hip_host::barrier(0, HIP_HOST_BARRIER_PLAIN); }
HIP_HOST_INLINE int __syncthreads_count(int predicate) { return hip_host::barrier(predicate, HIP_HOST_BARRIER_COUNT); }
HIP_HOST_INLINE int __syncthreads_and(int predicate) { return hip_host::barrier(predicate, HIP_HOST_BARRIER_AND); }
HIP_HOST_INLINE int __syncthreads_or(int predicate) { return hip_host::barrier(predicate, HIP_HOST_BARRIER_OR); }

HIP_HOST_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
HIP_HOST_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
HIP_HOST_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Nanoseconds: the embedded device has a clock of 1 GHz. wall_clock64 counts at 100 MHz, as on AMD's GPUs.
HIP_HOST_INLINE long long clock64() { return (long long)hip_host::runtime.clock_ns(); }
HIP_HOST_INLINE long long __clock64() { return clock64(); }
HIP_HOST_INLINE long long wall_clock64() { return (long long)(hip_host::runtime.clock_ns() / 10); }

// `abort` and `__assert_fail` are defined here, for this module alone (-Bsymbolic), so that what a standard header does
// with them ends the grid and not the process.
extern "C" {
__attribute__((unused)) inline long clock(void) noexcept { return (long)clock64(); }
__attribute__((noreturn, used)) inline void abort(void) noexcept {
    hip_host::trap(HIP_HOST_TRAP_ABORT, "abort() was called");
}
__attribute__((noreturn, used)) inline void __assert_fail(const char *condition, const char *file,
                                                                               unsigned line, const char *) noexcept {
    char message[512];
    snprintf(message, sizeof(message), "%s:%u: %s", file, line, condition);
    hip_host::trap(HIP_HOST_TRAP_ASSERT, message);
}
}
#define __builtin_trap() hip_host::trap(HIP_HOST_TRAP_ABORT, "the kernel trapped")
#define __trap() hip_host::trap(HIP_HOST_TRAP_ABORT, "the kernel trapped")

// Hints, most of which mean something on a GPU only. Clang knows the first three everywhere.
#if !defined(__clang__)
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define __builtin_nontemporal_load(address) (*(address))
#define __builtin_nontemporal_store(value, address) ((void)(*(address) = (value)))
#endif
template <typename T> HIP_HOST_INLINE T __ldg(const T *address) { return *address; }
#define __builtin_amdgcn_s_sleep(cycles) ((void)0)
