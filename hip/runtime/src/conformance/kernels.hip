// The kernels of the conformance suite: ordinary HIP, one behaviour each. They print nothing and check nothing; the
// cases in Rust know what must come out.

// Arguments and memory

extern "C" __global__ void scale(float* data, float factor, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] *= factor;
}

extern "C" __global__ void add_into(const float* a, const float* b, float* sum, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) sum[i] = a[i] + b[i];
}

struct Layout {
    unsigned dims[3];
    long long strides[3];
    unsigned char dim_count;
    float bias;
};

// Reads a strided array; its whole layout travels by value.
extern "C" __global__ void gather(const float* source, float* target, Layout layout, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned rest = i;
    long long at = 0;
    for (int d = layout.dim_count - 1; d >= 0; --d) {
        at += (rest % layout.dims[d]) * layout.strides[d];
        rest /= layout.dims[d];
    }
    target[i] = source[at] + layout.bias;
}

// Arguments of every size, in an order that needs padding between them.
extern "C" __global__ void echo(unsigned char a, short b, unsigned char c, int d, unsigned char e, long long f, float g, double h,
                                Layout i, double* out) {
    double values[] = {(double)a, (double)b, (double)c, (double)d, (double)e, (double)f, (double)g, h, (double)i.strides[2], (double)i.bias};
    for (int n = 0; n < 10; ++n) out[n] = values[n];
}

// Time

// clock64() has 20 bits on gfx11 and never gets as far as these kernels wait.
#if defined(__AMDGCN__) && __has_builtin(__builtin_readsteadycounter)
#define TICKS() ((long long)__builtin_readsteadycounter())
#else
#define TICKS() clock64()
#endif

extern "C" __global__ void sleep_then_write(int* target, int value, long long ticks) {
    long long start = TICKS();
    while (TICKS() - start < ticks) {
    }
    *target = value;
}

// Writes only when told to, by another stream. Atomics, because they see what others write while the kernel runs.
extern "C" __global__ void write_when_told(int* told, int* target, int value, long long patience) {
    long long start = TICKS();
    while (atomicAdd(told, 0) == 0 && TICKS() - start < patience) {
    }
    *target = value;
}

extern "C" __global__ void tell(int* told) { atomicExch(told, 1); }

extern "C" __global__ void copy_one(int* target, const int* source) { *target = *(const volatile int*)source; }

extern "C" __global__ void add_one(int* target) { *target += 1; }

// Variables of the module

__device__ int counters[4] = {1, 2, 3, 4};
__constant__ float factors[2] = {0.5f, 0.25f};

extern "C" __global__ void use_globals(float* target) {
    counters[threadIdx.x] += 10;
    target[threadIdx.x] = counters[threadIdx.x] * factors[threadIdx.x % 2];
}

// Geometry

extern "C" __global__ void linear_ids(unsigned* ids) {
    unsigned long long block = blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned long long threads = (unsigned long long)blockDim.x * blockDim.y * blockDim.z;
    unsigned long long id = block * threads + thread;
    ids[id] = (unsigned)id + 1;
}

extern "C" __global__ void mark_block(unsigned* marks) {
    if (threadIdx.x == 0) marks[blockIdx.x] = blockIdx.x ^ 0x5a5a5a5a;
}

// Shared memory and barriers

extern "C" __global__ void reverse_dynamic(const float* source, float* target) {
    extern __shared__ float tile[];
    unsigned t = threadIdx.x, n = blockDim.x;
    tile[t] = source[blockIdx.x * n + t];
    __syncthreads();
    target[blockIdx.x * n + t] = tile[n - 1 - t];
}

// Two arrays of different types in one piece of dynamic shared memory.
extern "C" __global__ void two_dynamic(unsigned* target) {
    extern __shared__ unsigned char raw[];
    double* doubles = (double*)raw;
    unsigned* words = (unsigned*)(raw + blockDim.x * sizeof(double));
    unsigned t = threadIdx.x, n = blockDim.x;
    doubles[t] = t * 0.5;
    words[t] = t * 3;
    __syncthreads();
    target[blockIdx.x * n + t] = (unsigned)(doubles[n - 1 - t] * 2) + words[(t + 1) % n];
}

extern "C" __global__ void block_sum(const unsigned* source, unsigned* sums) {
    __shared__ unsigned partial[1024];
    unsigned t = threadIdx.x;
    partial[t] = source[blockIdx.x * blockDim.x + t];
    __syncthreads();
    // Every thread goes through every barrier; only some of them work between two.
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) partial[t] += partial[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = partial[0];
}

// A loop whose length differs from block to block, with a barrier inside a branch that a whole block takes or leaves.
extern "C" __global__ void uneven_loops(unsigned* target) {
    __shared__ unsigned total;
    unsigned t = threadIdx.x;
    if (t == 0) total = 0;
    __syncthreads();
    for (unsigned round = 0; round < blockIdx.x % 7; ++round) {
        if (t == round % blockDim.x) total += round + 1;
        if (blockIdx.x % 2 == 0) {
            __syncthreads();
            if (t == (round + 1) % blockDim.x) total += 100;
        }
        __syncthreads();
    }
    target[blockIdx.x * blockDim.x + t] = total;
}

// Threads that return early do not hold up the barriers of the others.
extern "C" __global__ void early_exit(unsigned* target, unsigned active) {
    __shared__ unsigned partial[1024];
    unsigned t = threadIdx.x;
    if (t >= active) return;
    partial[t] = t + 1;
    __syncthreads();
    target[blockIdx.x * blockDim.x + t] = partial[active - 1 - t];
}

extern "C" __global__ void count_votes(const int* votes, int* counts) {
    unsigned t = threadIdx.x;
    int vote = votes[blockIdx.x * blockDim.x + t];
    int count = __syncthreads_count(vote), all = __syncthreads_and(vote), any = __syncthreads_or(vote);
    if (t == 0) {
        counts[blockIdx.x * 3] = count;
        counts[blockIdx.x * 3 + 1] = all != 0;
        counts[blockIdx.x * 3 + 2] = any != 0;
    }
}

// Waves. Eight results a thread.

extern "C" __global__ void shuffles(int* target) {
    int t = threadIdx.x, lane = t % warpSize, value = t * 10;
    int* mine = target + 8 * (blockIdx.x * blockDim.x + t);
    mine[0] = __shfl(value, 3);
    mine[1] = __shfl_up(value, 1);
    mine[2] = __shfl_down(value, 2);
    mine[3] = __shfl_xor(value, 5);
    mine[4] = __shfl(value, 1, 8);
    mine[5] = __shfl_xor(value, 2, 4);
    mine[6] = (int)(__shfl(value * 0.5, warpSize - 1) * 2);
    mine[7] = lane;
}

extern "C" __global__ void ballots(unsigned long long* target) {
    int lane = threadIdx.x % warpSize;
    unsigned long long* mine = target + 5 * threadIdx.x;
    mine[0] = __ballot(lane % 3 == 0);
    mine[1] = __any(lane == 7) != 0;
    mine[2] = __all(lane < 64) != 0;
    mine[3] = __all(lane < 5) != 0;
    // Only the lanes of a branch take part in what is voted there.
    if (lane % 2 == 1) {
        mine[4] = __ballot(1);
    } else {
        mine[4] = __ballot(lane >= 4);
    }
}

extern "C" __global__ void wave_sums(const float* source, float* sums, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = i < count ? source[i] : 0.0f;
    for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down(sum, offset);
    if (threadIdx.x % warpSize == 0) sums[i / warpSize] = sum;
}

extern "C" __global__ void wave_size(int* target) { *target = warpSize; }

// Atomics, with all threads of the grid on the same few words

extern "C" __global__ void contend(int* i32, unsigned* u32, unsigned long long* u64, float* f32, double* f64) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i32[0], 1);
    atomicSub(&i32[1], 2);
    atomicMin(&i32[2], -(int)i);
    atomicMax(&i32[3], (int)i);
    atomicOr(&u32[0], 1u << (i % 32));
    atomicAnd(&u32[1], ~(1u << (i % 31)));
    atomicXor(&u32[2], i);
    atomicInc(&u32[3], 9);
    atomicDec(&u32[4], 9);
    atomicExch(&u32[5], i | 0x80000000u);
    atomicAdd(&u64[0], 0x100000001ull);
    atomicMax(&u64[1], (unsigned long long)i << 33);
    // Read as an atomic too: a plain load would race with the others.
    unsigned long long seen = atomicCAS(&u64[2], 0ull, 0ull);
    for (;;) {
        unsigned long long found = atomicCAS(&u64[2], seen, seen + 3);
        if (found == seen) break;
        seen = found;
    }
    atomicAdd(&f32[0], 0.5f);
    atomicAdd(&f64[0], 0.25);
}

// A 16-bit counter in each half of a word, as HIP code does it on every GPU: compare and swap of the word around it.
extern "C" __global__ void contend_halves(unsigned short* counters) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned index = i % 4;
    unsigned* word = (unsigned*)counters + index / 2;
    unsigned shift = 16 * (index % 2), seen = atomicCAS(word, 0u, 0u);
    for (;;) {
        unsigned half = ((seen >> shift) + 1) & 0xffffu;
        unsigned found = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | (half << shift));
        if (found == seen) break;
        seen = found;
    }
}

extern "C" __global__ void contend_shared(unsigned* sums) {
    __shared__ unsigned sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
