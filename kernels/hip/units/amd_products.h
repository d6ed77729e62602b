// AMD's matrix units (amd.h) as products use them. The columns of a tile are the left factor and its rows the right one, so a lane has
// neighbouring columns of one row of the result, and stores them at once.
#pragma once

#if defined(MATRIX_UNITS)
#define MATRIX_TILES 1

template <typename Data> struct ProductUnit {
    typedef Data T;
    // How many lanes work together, how deep a fragment is, and how many sums of 16 x 16 a lane has.
    static constexpr u32 wave = UNIT_WAVE, sums = UNIT_SUMS;
    typedef UnitSums Sums; // a vector to the compiler, so that its registers stay neighbours around a loop
    // What a lane has of 16 rows or columns, in pieces of 8 along the depth. RDNA 3 wants all 16 in either half of a wave, RDNA 4 a half of
    // them in each. CDNA wants quarters of 4: a lane takes 8 of 32 and multiplies them in two turns. Which of the depth meet in a turn does
    // not matter, as long as both factors have the same.
#if defined(__GFX11__)
    static constexpr u32 depth = 16, pieces = 2;
    static MEMBER u32 first_piece() { return 0; }
#elif defined(__GFX12__)
    static constexpr u32 depth = 16, pieces = 1;
    static MEMBER u32 first_piece() { return unit_part(); }
#else
    static constexpr u32 depth = 32, pieces = 1;
    static MEMBER u32 first_piece() { return unit_part(); }
#endif
    struct Fragment {
        Vec<u32, 4> piece[pieces];
    };

    // Where a lane finds its part of the fragment of the rows or columns from `first` on.
    template <typename Slab> static MEMBER u32 place(u32 first) { return Slab::place(first + unit_row(), first_piece()); }
    // The fragment `further` rows on, at the depth `step`.
    template <typename Slab> static MEMBER Fragment load(const Slab *slab, u32 place, u32 further, u32 step) {
        Fragment all;
        UNROLL
        for (u32 i = 0; i < pieces; i++) all.piece[i] = *Slab::piece(slab, Slab::moved(place, further, step * (depth / 8) + i));
        return all;
    }
    static MEMBER void multiply(Sums &all, const Fragment &rows, const Fragment &columns) {
        constexpr u32 turns = sizeof(Fragment) / sizeof(Vec<T, UNIT_EACH>);
        struct Turns {
            Vec<T, UNIT_EACH> at[turns];
        };
        const Turns right = bit_cast<Turns>(rows), left = bit_cast<Turns>(columns);
        UNROLL
        for (u32 i = 0; i < turns; i++) all = unit_product(T(), left.at[i], right.at[i], all);
    }
    // Calls put(row, first column, neighbours) within 16 x 16.
    template <typename Put> static MEMBER void results(const Sums &all, const Put &put) {
        put(unit_row(), sums * unit_part(), unit_neighbours(bit_cast<Vec<f32, sums>>(all)));
    }
};
#endif
