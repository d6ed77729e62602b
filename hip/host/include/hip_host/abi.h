// What a module and the run side say to each other; mirrored by src/module_abi.rs. Change both, and the number.
#pragma once

struct hip_host_dim {
    unsigned x, y, z;
};

struct hip_host_block {
    hip_host_dim block_idx, block_dim, grid_dim;
    unsigned warp_size;
    unsigned dynamic_shared_bytes;
    void *dynamic_shared;
};

struct hip_host_kernel {
    const char *name;
    unsigned arg_count, args_bytes;
    const unsigned *arg_offsets, *arg_sizes;
    void (*run)(const void *args, const hip_host_block *block, unsigned first, unsigned last);
};

struct hip_host_wave_result {
    unsigned long long active;
    unsigned long long value[64];
};

struct hip_host_runtime {
    unsigned abi;
    int (*barrier)(unsigned thread, int predicate, unsigned kind);
    const hip_host_wave_result *(*wave)(unsigned thread, unsigned site, unsigned long long value);
    void (*trap)(unsigned thread, unsigned kind, const char *message);
    void (*violation)(unsigned thread, unsigned kind, const void *address, unsigned bytes);
    unsigned long long (*clock_ns)(void);
    unsigned char *shadow;
    unsigned long long arena_base, arena_bytes;
};

struct hip_host_module_table {
    unsigned abi;
    unsigned checked;
    unsigned kernel_count;
    const hip_host_kernel *kernels;
    void (*bind)(const hip_host_runtime *);
};

enum { HIP_HOST_BARRIER_PLAIN, HIP_HOST_BARRIER_COUNT, HIP_HOST_BARRIER_AND, HIP_HOST_BARRIER_OR };
enum { HIP_HOST_TRAP_ASSERT, HIP_HOST_TRAP_ABORT };
enum { HIP_HOST_LOAD, HIP_HOST_STORE, HIP_HOST_ATOMIC };

namespace hip_host {

constexpr unsigned ABI = 1;

// The run side's services, filled in when the module is loaded.
static hip_host_runtime runtime;

// Where this OS thread is, which runs one block at a time. Scalars, each by itself: as soon as the compiler takes the
// address of one of them (to store two neighbours at once, say) it stops trusting that a kernel's stores leave it alone,
// and no kernel of the module is vectorised over threads any more.
// Fibers share these; what waits saves the thread's.
#ifdef HIP_HOST_CHECKED
// Up to date at every access, so that a forbidden one is reported for the right thread.
static thread_local volatile unsigned thread_x, thread_y, thread_z;
#else
static thread_local unsigned thread_x, thread_y, thread_z;
#endif
static thread_local unsigned block_x, block_y, block_z;
static thread_local unsigned width, height, depth;
static thread_local unsigned grid_x, grid_y, grid_z;
static thread_local unsigned wave_size;
static thread_local void *dynamic_shared;
// The current thread has waited for others.
static thread_local bool split;

HIP_HOST_INLINE uint3 thread_index() { return {thread_x, thread_y, thread_z}; }
HIP_HOST_INLINE uint3 block_index() { return {block_x, block_y, block_z}; }
HIP_HOST_INLINE uint3 block_size() { return {width, height, depth}; }
HIP_HOST_INLINE uint3 grid_size() { return {grid_x, grid_y, grid_z}; }
HIP_HOST_INLINE unsigned linear_thread() { return thread_x + width * (thread_y + height * thread_z); }

} // namespace hip_host

#define threadIdx hip_host::thread_index()
#define blockIdx hip_host::block_index()
#define blockDim hip_host::block_size()
#define gridDim hip_host::grid_size()
