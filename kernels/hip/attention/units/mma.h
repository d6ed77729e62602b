// NVIDIA's mma.sync m16n8k16 for f16 and bf16, two for 16 columns. A thread has rows lane / 4 and lane / 4 + 8 of a fragment of results, and
// of either half of its columns the pair 2 (lane % 4). Results have the layout of a left factor, so weights stay in their thread.
#pragma once

#if defined(TARGET_NVIDIA) && __CUDA_ARCH__ >= 800
#define MATRIX_FRAGMENTS 1

DEVICE u32 shared_place(const void *at) { return (u32)__cvta_generic_to_shared(at); }
// 16 bytes from memory to shared memory, past the registers; zeros where `there` is false.
DEVICE void start_piece(void *to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
DEVICE void end_pieces() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <bool TRANSPOSED> DEVICE Vec<u32, 4> load_matrices(const void *at) {
    Vec<u32, 4> m;
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(shared_place(at)) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(shared_place(at)) : "memory");
    }
    return m;
}

template <typename T> struct MmaProduct;
#define MMA_PRODUCT(T, name)                                                                       \
    template <> struct MmaProduct<T> {                                                             \
        static MEMBER void add(f32 *sum, const Vec<u32, 4> &a, u32 b0, u32 b1) {                   \
            asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                           \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                   \
        }                                                                                          \
    };
MMA_PRODUCT(f16, "f16")
MMA_PRODUCT(bf16, "bf16")
DEVICE u32 narrow_pair(f16, f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
DEVICE u32 narrow_pair(bf16, f32 low, f32 high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Keys on their way: copies run by themselves, and `put` waits for them.
template <typename T, u32 KEYS, u32 D, u32 PITCH> struct KeyStage {
    MEMBER void fetch(T (&to)[KEYS][PITCH], const KeyRows<T> &rows, u32 key, u32 end, u32 length) {
        UNROLL
        for (u32 h = 0; h < KEYS * D / 8 / ATTENTION_THREADS; h++) {
            const u32 i = thread_x() + h * ATTENTION_THREADS, r = i / (D / 8), d = i % (D / 8) * 8;
            const bool there = key + r < end && d < length;
            start_piece(&to[r][d], there ? rows.at(key + r) + d : rows.base, there);
        }
    }
    MEMBER void put(T (&)[KEYS][PITCH]) { end_pieces(); }
};

template <typename Data> struct Unit {
    typedef Data T;
    static constexpr u32 WAVE = 32, SLOTS = 2, SUMS = 8;
    typedef Vec<u32, 4> Rows, Columns, Weights, ValueFragment;
    typedef Vec<f32, SUMS> Sums;
    static constexpr bool COPIES = true; // memory to shared memory past the registers

    static MEMBER u32 row(u32 slot) { return lane_index() / 4 + 8 * slot; }
    static constexpr MEMBER u32 slot(u32 i) { return i / 2 % 2; }
    static MEMBER u32 column(u32 i) { return i / 4 * 8 + lane_index() % 4 * 2 + i % 2; }
    static MEMBER bool leads() { return lane_index() % 4 == 0; }
    template <typename Op> static MEMBER f32 across(f32 value, Op op) { return group_reduce(value, 4, op); }

    static MEMBER Rows rows(const T *at, u32 pitch) {
        return load_matrices<false>(at + lane_index() % 16 * pitch + lane_index() / 16 * 8);
    }
    static MEMBER Columns columns(const T *at, u32 pitch) {
        return load_matrices<false>(at + (lane_index() / 16 * 8 + lane_index() % 8) * pitch + lane_index() / 8 % 2 * 8);
    }
    static MEMBER void multiply(Sums &sums, const Rows &rows, const Columns &columns) {
        MmaProduct<T>::add(&sums[0], rows, columns[0], columns[1]);
        MmaProduct<T>::add(&sums[4], rows, columns[2], columns[3]);
    }
    static MEMBER void accumulate(Sums &sums, const Weights &weights, const ValueFragment &values) { multiply(sums, weights, values); }
    static MEMBER Weights weights(const Sums &s) {
        Weights pairs;
        UNROLL
        for (u32 i = 0; i < 4; i++) pairs[i] = narrow_pair(T(), s[2 * i], s[2 * i + 1]);
        return pairs;
    }
    template <typename Put> static MEMBER void results(const Sums &s, const Put &put) {
        UNROLL
        for (u32 i = 0; i < 4; i++) put(i % 2, i / 2 * 8 + lane_index() % 4 * 2, Vec<f32, 2>{{s[2 * i], s[2 * i + 1]}});
    }

    // Values as they come; the load of a fragment transposes it.
    template <u32 KEYS, u32 D> struct Values {
        static constexpr u32 PITCH = D + 8;
        alignas(16) T at[KEYS][PITCH];
        struct Stage {
            KeyStage<T, KEYS, D, PITCH> rows;
            MEMBER void fetch(Values &to, const KeyRows<T> &v, u32 key, u32 end, u32 length) { rows.fetch(to.at, v, key, end, length); }
            MEMBER void put(Values &to) { rows.put(to.at); }
        };
        MEMBER ValueFragment fragment(u32 j, u32 d) const {
            return load_matrices<true>(&at[j * 16 + lane_index() % 16][d * 16 + lane_index() / 16 * 8]);
        }
    };
};
#endif
