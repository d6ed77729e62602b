// What passes through shared memory without passing through registers, weights of products and rows of softmaxes: copies that run
// by themselves, and barriers that know when they have arrived. NVIDIA has had both since Hopper (`STAGED_ROWS`). Who asks for
// what, and when, is the business of those.
#pragma once

// The first statement of a kernel that is launched only right behind one of ours. What is older than that one is over, and may be
// read; the kernel enters when it needs the other's results, and that other may call it early.
DEVICE void enter_later() {}
DEVICE void call_successor() {
#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

constexpr u32 STAGE_TEAM = 32; // threads that go on together when their weights are there
SHARE(STAGE_TEAM)

#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 900
#define STAGED_ROWS 1

extern __shared__ Vec<u32, 4> staged_bytes[];

// A number, or an address of the GPU's memory, that stays in a register. The compiler would rather compute it again wherever it is
// wanted, in loops too.
DEVICE u32 kept(u32 x) {
    asm("" : "+r"(x));
    return x;
}
template <typename T> DEVICE const T *kept(const T *x) {
    asm("" : "+l"(x));
    __builtin_assume(__isGlobal(x));
    return x;
}

DEVICE u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }

// Makes the eight bytes at `barrier` wait for `count` arrivals, again and again.
DEVICE void expect_arrivals(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// After the last of them, and before copies name them.
DEVICE void arrivals_are_expected() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// An arrival of what the thread did before.
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); }

// True for one thread of a team, all of which are here.
DEVICE bool elected() {
    u32 yes;
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "elect.sync _|yes, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, yes;\n"
                 "}" : "=r"(yes));
    return yes;
}

// How many bytes come for `count` from an address on: whole 16, of which the last may reach past the end of the weights, but not
// past a page.
DEVICE u32 copied_bytes(const u8 *from, u32 count) { return (count + ((u32)(u64)from & 15) + 15) & ~15u; }

// Copies `size` bytes, both addresses and the size being multiples of 16.
DEVICE void start_copy(u32 to, const u8 *from, u32 size, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(size), "r"(barrier)
                 : "memory");
}

// An arrival, after which so many bytes have to come. A whole team calls this, and the next.
DEVICE void expect_bytes(u32 barrier, u32 bytes) {
    if (elected()) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Copies `count` bytes, from the last multiple of 16 before them on, to a multiple of 16.
DEVICE void copy_bytes(u32 to, const u8 *from, u32 count, u32 barrier) {
    if (elected()) start_copy(to, from - ((u64)from & 15), copied_bytes(from, count), barrier);
}

// The same by a single thread, and an arrival.
DEVICE void fetch_bytes(u32 to, const u8 *from, u32 count, u32 barrier) {
    const u32 size = copied_bytes(from, count);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(size) : "memory");
    start_copy(to, from - ((u64)from & 15), size, barrier);
}

// Until all arrivals of a turn are there; `parity` is that of the turn.
DEVICE void wait_for_arrivals(u32 barrier, u32 parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again%=;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
#endif
