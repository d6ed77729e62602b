// AMD's matrix units (units/amd.h) as attention uses them. On all of them a lane has one column of the results and several rows. So keys
// are the left factor and queries the right one, and a lane has one query: its softmax needs hardly an exchange, and weights nearly have
// the layout of a right factor. Both factors want their 16 columns or rows side by side in a lane, so values are transposed on their way to
// shared memory.
#pragma once

#if defined(MATRIX_UNITS) && !defined(__gfx908__)
#define MATRIX_FRAGMENTS 1

// Weights are never negative, and one that is NaN makes its whole row NaN: rounding needs no care for signs or payloads.
DEVICE u16 narrow_weight(f16, f32 x) { return bit_cast<u16>((_Float16)x); }
DEVICE u16 narrow_weight(bf16, f32 x) {
    const u32 bits = bit_cast<u32>(x);
    return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Keys on their way through registers.
template <typename T, u32 KEYS, u32 D, u32 PITCH> struct KeyStage {
    static constexpr u32 HELD = KEYS * D / 8 / ATTENTION_THREADS;
    Vec<T, 8> held[HELD];
    MEMBER void fetch(T (&)[KEYS][PITCH], const KeyRows<T> &rows, u32 key, u32 end, u32 length) {
        UNROLL
        for (u32 h = 0; h < HELD; h++) {
            const u32 i = thread_x() + h * ATTENTION_THREADS;
            held[h] = load_key_piece(rows, key + i / (D / 8), end, i % (D / 8) * 8, length);
        }
    }
    MEMBER void put(T (&to)[KEYS][PITCH]) {
        UNROLL
        for (u32 h = 0; h < HELD; h++) {
            const u32 i = thread_x() + h * ATTENTION_THREADS;
            store<8>(&to[i / (D / 8)][i % (D / 8) * 8], held[h]);
        }
    }
};

template <typename Data> struct Unit {
    typedef Data T;
    static constexpr u32 WAVE = UNIT_WAVE, SLOTS = 1, SUMS = UNIT_SUMS, EACH = UNIT_EACH;
    typedef Vec<T, EACH> Rows, Columns, Weights, ValueFragment;
    typedef Vec<f32, SUMS> Sums;
    static constexpr bool COPIES = false; // memory to shared memory past the registers

    static MEMBER u32 own_row() { return unit_row(); }
    static MEMBER u32 part() { return unit_part(); } // which of the elements or results of a row
    static MEMBER u32 row(u32) { return own_row(); }
    static constexpr MEMBER u32 slot(u32) { return 0; }
#if defined(__GFX11__)
    static MEMBER u32 column(u32 i) { return 2 * i + part(); }
    static MEMBER u32 first_element() { return 0; } // both halves of a wave have all
#else
    static MEMBER u32 column(u32 i) { return SUMS * part() + i; }
    static MEMBER u32 first_element() { return EACH * part(); }
#endif
    static MEMBER bool leads() { return lane_index() < 16; }
    template <typename Op> static MEMBER f32 across(f32 value, Op op) {
#if defined(__GFX11__) || defined(__GFX12__)
        return op(value, bit_cast<f32>(other_half(bit_cast<u32>(value))));
#else
        value = op(value, shuffle_xor(value, 16));
        return op(value, shuffle_xor(value, 32));
#endif
    }

    // EACH elements from a multiple of as many on; 16 bytes at a time are moved at most.
    static MEMBER Vec<T, EACH> elements(const T *at) {
        constexpr u32 N = EACH < 8 ? EACH : 8;
        Vec<T, EACH> all;
        UNROLL
        for (u32 i = 0; i < EACH; i += N) {
            const Vec<T, N> piece = load<N>(at + i);
            UNROLL
            for (u32 j = 0; j < N; j++) all[i + j] = piece[j];
        }
        return all;
    }
    static MEMBER Rows rows_of_memory(const T *row, u32 first, u32 length) {
        constexpr u32 N = EACH < 8 ? EACH : 8;
        Rows all = {};
        UNROLL
        for (u32 i = 0; i < EACH; i += N) {
            if (row != nullptr && first + first_element() + i < length) {
                const Vec<T, N> piece = load<N>(row + first + first_element() + i);
                UNROLL
                for (u32 j = 0; j < N; j++) all[i + j] = piece[j];
            }
        }
        return all;
    }
    static MEMBER Rows rows(const T *at, u32 pitch) { return elements(at + own_row() * pitch + first_element()); }
    static MEMBER Columns columns(const T *at, u32 pitch) { return rows(at, pitch); }
    static MEMBER void multiply(Sums &sums, const Rows &rows, const Columns &columns) {
        sums = bit_cast<Sums>(unit_product(T(), columns, rows, bit_cast<UnitSums>(sums)));
    }
    static MEMBER void accumulate(Sums &sums, const Weights &weights, const ValueFragment &values) {
        sums = bit_cast<Sums>(unit_product(T(), values, weights, bit_cast<UnitSums>(sums)));
    }

    static MEMBER Weights weights(const Sums &s) {
#if defined(__GFX11__)
        // Keys 2 i are in the lower half of a wave, keys 2 i + 1 in the upper one; both halves want all.
        Vec<u32, 8> words;
        const u32 order = part() ? 0x05040100u : 0x01000504u; // bytes 0 to 3 are the other's, 4 to 7 our own
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            const u32 own = narrow_weight(T(), s[2 * i]) | (u32)narrow_weight(T(), s[2 * i + 1]) << 16;
            const u32 other = other_half(own);
            words[2 * i] = __builtin_amdgcn_perm(own, other, order);
            words[2 * i + 1] = __builtin_amdgcn_perm(own, other, order + 0x02020202u);
        }
        return bit_cast<Weights>(words);
#else
        Weights all;
        UNROLL
        for (u32 i = 0; i < EACH; i++) all[i] = bit_cast<T>(narrow_weight(T(), s[i]));
        return all;
#endif
    }

    template <typename Put> static MEMBER void results(const Sums &s, const Put &put) {
        put(0, SUMS * part(), unit_neighbours(s));
    }

    // Values by element and key. Eighth elements are neighbours, so that lanes which write a piece of eight elements each, one element at a
    // time, meet different banks; and so do lanes that read neighbouring elements.
    template <u32 KEYS, u32 D> struct Values {
        static constexpr u32 PITCH = KEYS + 8, BLOCK = D / 8 * PITCH + 8;
        alignas(16) T at[8 * BLOCK];

        static MEMBER u32 place(u32 element, u32 key) { return element % 8 * BLOCK + element / 8 * PITCH + key; }

        // A thread brings TURNS keys of eight elements.
        struct Stage {
            static constexpr u32 ACROSS = D / 8, TURNS = KEYS * ACROSS / ATTENTION_THREADS;
            static_assert(TURNS == 4 || TURNS == 8, "the keys of a thread are a piece, or half of one");
            Vec<T, 8> held[TURNS];
            MEMBER void fetch(Values &, const KeyRows<T> &v, u32 key, u32 end, u32 length) {
                UNROLL
                for (u32 h = 0; h < TURNS; h++) {
                    held[h] = load_key_piece(v, key + thread_x() / ACROSS * TURNS + h, end, thread_x() % ACROSS * 8, length);
                }
            }
            MEMBER void put(Values &to) {
                UNROLL
                for (u32 j = 0; j < 8; j++) {
                    Vec<T, TURNS> column;
                    UNROLL
                    for (u32 h = 0; h < TURNS; h++) column[h] = held[h][j];
                    store<TURNS>(&to.at[place(thread_x() % ACROSS * 8 + j, thread_x() / ACROSS * TURNS)], column);
                }
            }
        };
        // Keys 16 j to 16 j + 15, elements 16 d to 16 d + 15.
        MEMBER ValueFragment fragment(u32 j, u32 d) const {
            return elements(&at[place(own_row(), first_element()) + place(d * 16, j * 16)]);
        }
    };
};
#endif
