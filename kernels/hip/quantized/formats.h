// GGML's block formats, each written down once: where its bits lie, and what they stand for.
// A block is cut into units: 16 bytes of fields, say, and whatever belongs to them. A unit holds a few pieces, 16 consecutive
// weights with one scale each. A kernel loads a unit's bytes (`raw`) and its scales (`head`) once and takes the pieces out of
// them: `quad` gives four integers of piece i as the bytes of a word, `scale` what the piece's integers mean:
//     weight = scale * (integer - ZERO) + offset          (offset only where HAS_OFFSET)
// Scales and integers have so few bits that scale * integer is exact in f32: dequantizing gives the same bits
// as Candle on the CPU, whether or not the compiler fuses the multiplication and the addition.
#pragma once

constexpr u32 PIECE = 16; // weights that share a scale in every format

struct Scale {
    f32 scale, offset;
};
DEVICE Scale product(const Scale &a, const Scale &b) { return Scale{a.scale * b.scale, a.offset * b.offset}; }

// Which unit of a block, and which piece of the unit.
struct Place {
    u32 unit, index;
};

// What a format declares:
//   ELEMENTS, BYTES, ALIGN   of a block
//   ZERO, HAS_OFFSET         see above
//   MERGE                    neighbouring pieces of a unit with one scale between them: 1 or 2
//   UNIT                     pieces of a unit
//   MMA_BLOCKS             blocks that a compute unit should have room for in the product on matrix units: 7 are all there are for
//                            14336 rows on an H200, 5 leave more registers for what several planes take; as measured
//   piece(unit, i), place(piece)   where piece i of a unit lies in the block, and back
//   Head, head(block, unit), scale(head, i)
//   IN_PARTS, whole(head), part(head, i)   a scale is the block's own, `whole`, times a small integer, `part`, where IN_PARTS
//   HalfHead, half_head(block, half), half_whole(head), half_part(head, i)   the same for all pieces of half a block, where MERGE is 1
//                            and scales do not fold
//   FOLDS, FOLDED_ZERO       where FOLDS, such an integer times the centred integers of a piece, and FOLDED_ZERO, is an unsigned byte
//   folding(raw, i), FOLDED_LIFT   the integers of `quad` for that, those of odd pieces FOLDED_LIFT times as large
//   minimums(head)           the offsets of `part` for the four pieces of a unit, in the order 0, 2, 1, 3, where FOLDS
//   minimum(block, lane, four)   the same for merged pieces 4 * four + lane of a block, where not
//   integer_part(head, i)    the scale of `part` as an integer, where IN_PARTS
//   Raw<N>, raw<N>(block, unit, first), quad(raw, w, i)   words first .. first + N of every piece; word w of those of piece i
//   LIFTS, lifted(raw, w, i), lift(i)   where LIFTS, the integers of `quad` as unsigned bytes and lift(i) times as large: left
//                            where they lie in the word, which saves a shift
//   PAIRS_LIFT, pair_lifted(raw, w, i), pair_lift(pair)   the same, where all of a pair of pieces is as much larger
//   raw_of<N>(block, place, first), scale_of(block, place)   the same for whoever wants one piece only, with fewer loads

constexpr u32 NIBBLES = 0x0f0f0f0fu;

// The formats of 32 weights: one unit, two pieces, one scale.
template <u32 BYTES_, u32 ZERO_, bool HAS_OFFSET_> struct SmallFormat {
    static constexpr u32 ELEMENTS = 32, BYTES = BYTES_, ALIGN = BYTES_ % 4 == 0 ? 4 : 2;
    static constexpr u32 ZERO = ZERO_, MERGE = 2, UNIT = 2;
    static constexpr u32 MMA_BLOCKS = BYTES > 32 ? 5 : 7;
    static constexpr bool HAS_OFFSET = HAS_OFFSET_, IN_PARTS = false, FOLDS = false, LIFTS = false, PAIRS_LIFT = false;
    typedef Scale Head;

    static MEMBER u32 piece(u32, u32 i) { return i; }
    static MEMBER Place place(u32 piece) { return Place{0, piece}; }
    static MEMBER Head head(const u8 *block, u32) {
        return Scale{half_at(block), HAS_OFFSET ? half_at(block + 2) : 0.0f};
    }
    static MEMBER Scale whole(const Head &) { return Scale{1.0f, 1.0f}; }
    static MEMBER Scale part(const Head &head, u32) { return head; }
    static MEMBER Scale scale(const Head &head, u32) { return head; }
    static MEMBER Scale scale_of(const u8 *block, Place) { return head(block, 0); }
};

// Q4_0: d. Q4_1: d, m. Then 16 bytes: low nibbles, then high nibbles.
template <typename Base, u32 FROM> struct NibbleFormat : Base {
    static constexpr bool LIFTS = MIXED_DOT;
    template <u32 N> struct Raw {
        Words<N> nibbles;
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32, u32 first) {
        return Raw<N>{words<N, Base::ALIGN>(block + FROM + 4 * first)};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place, u32 first) { return raw<N>(block, 0, first); }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) { return (raw.nibbles[w] >> (4 * i)) & NIBBLES; }
    static MEMBER u32 lifted(const Raw<4> &raw, u32 w, u32 i) { return raw.nibbles[w] & (NIBBLES << (4 * i)); }
    static MEMBER u32 lift(u32 i) { return 1u << (4 * i); }
};
typedef NibbleFormat<SmallFormat<18, 8, false>, 2> Q4_0;
typedef NibbleFormat<SmallFormat<20, 0, true>, 4> Q4_1;

// Q5_0: d. Q5_1: d, m. Then a word of fifth bits, bit i for weight i, then nibbles as in Q4_0.
template <typename Base, u32 FROM> struct FifthFormat : Base {
    template <u32 N> struct Raw {
        Words<N> nibbles;
        u32 fifths;
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32, u32 first) {
        const u32 fifths = words<1, Base::ALIGN>(block + FROM)[0];
        return Raw<N>{words<N, Base::ALIGN>(block + FROM + 4 + 4 * first), fifths >> (4 * first)};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place, u32 first) { return raw<N>(block, 0, first); }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        // The multiplication puts four neighbouring bits into the fifth bits of four bytes.
        const u32 four = (raw.fifths >> (PIECE * i + 4 * w)) & 15;
        return ((raw.nibbles[w] >> (4 * i)) & NIBBLES) | ((four * 0x02040810u) & 0x10101010u);
    }
};
typedef FifthFormat<SmallFormat<22, 16, false>, 2> Q5_0;
typedef FifthFormat<SmallFormat<24, 0, true>, 4> Q5_1;

// Signed bytes. Q8_0: d before them. Q8_1: d, d * their sum. Q8K: an f32 before them, 16 sums of 16 after them.
template <typename Base, u32 FROM> struct ByteFormat : Base {
    template <u32 N> struct Raw {
        Words<N> bytes[2];
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        const u8 *at = block + FROM + 2 * PIECE * unit + 4 * first;
        return Raw<N>{{words<N, Base::ALIGN>(at), words<N, Base::ALIGN>(at + PIECE)}};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        const Words<N> own = words<N, Base::ALIGN>(block + FROM + 2 * PIECE * place.unit + PIECE * place.index + 4 * first);
        return Raw<N>{{own, own}};
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) { return i ? raw.bytes[1][w] : raw.bytes[0][w]; }
};
typedef ByteFormat<SmallFormat<34, 0, false>, 2> Q8_0;
typedef ByteFormat<SmallFormat<36, 0, false>, 4> Q8_1;

struct LargeBytes {
    static constexpr u32 ELEMENTS = 256, BYTES = 292, ALIGN = 4, ZERO = 0, MERGE = 2, UNIT = 2;
    static constexpr u32 MMA_BLOCKS = 5;
    static constexpr bool HAS_OFFSET = false, IN_PARTS = false, FOLDS = false, LIFTS = false, PAIRS_LIFT = false;
    typedef Scale Head;

    static MEMBER u32 piece(u32 unit, u32 i) { return 2 * unit + i; }
    static MEMBER Place place(u32 piece) { return Place{piece / 2, piece % 2}; }
    static MEMBER Head head(const u8 *block, u32) { return Scale{*(const f32 *)block, 0.0f}; }
    static MEMBER Scale whole(const Head &) { return Scale{1.0f, 1.0f}; }
    static MEMBER Scale part(const Head &head, u32) { return head; }
    static MEMBER Scale scale(const Head &head, u32) { return head; }
    static MEMBER Scale scale_of(const u8 *block, Place) { return head(block, 0); }
};
typedef ByteFormat<LargeBytes, 4> Q8K;

// Q2K, Q3K and Q6K: half a block of 128 weights is eight pieces; piece 2 * i + h of them lies in the h-th 16 bytes of a
// plane, in its i-th bit field. A unit, 2 * half + h, is the four pieces with the same h.
template <u32 BYTES_, u32 ALIGN_, u32 ZERO_, bool HAS_OFFSET_> struct PlaneFormat {
    static constexpr u32 ELEMENTS = 256, BYTES = BYTES_, ALIGN = ALIGN_;
    static constexpr u32 ZERO = ZERO_, MERGE = 1, UNIT = 4;
    static constexpr u32 MMA_BLOCKS = 5;
    static constexpr bool HAS_OFFSET = HAS_OFFSET_, IN_PARTS = true, LIFTS = false, PAIRS_LIFT = false;

    static MEMBER u32 piece(u32 unit, u32 i) { return 8 * (unit / 2) + 2 * i + unit % 2; }
    static MEMBER Place place(u32 piece) { return Place{2 * (piece / 8) + piece % 2, piece / 2 % 4}; }
};

// One byte for each of a unit's four pieces, in the even bytes of two words.
struct FourBytes {
    u32 pair[2];
    MEMBER u32 word(u32 i) const { return i & 2 ? pair[1] : pair[0]; }
    MEMBER u32 operator[](u32 i) const { return (word(i) >> (16 * (i & 1))) & 0xff; }
    MEMBER f32 value(u32 i) const { return byte_at(word(i), 2 * (i & 1)); }
    MEMBER f32 signed_value(u32 i) const { return signed_byte_at(word(i), 2 * (i & 1)); }
};

// The same for all eight pieces of half a block, one after the other in the bytes of two words: what a tile takes together.
struct EightBytes {
    u32 word[2];
    MEMBER f32 signed_value(u32 i) const { return signed_byte_at(word[i / 4], i % 4); }
};

struct Q2K : PlaneFormat<84, 4, 0, true> { // 16 bytes of scale and minimum, 64 bytes of two-bit fields, d, dmin
    static constexpr bool FOLDS = true, LIFTS = MIXED_DOT;
    static constexpr u32 FOLDED_ZERO = 0, FOLDED_LIFT = 4; // 4 * 3 * 15 is a byte
    struct Head {
        FourBytes scales, minimums;
        f32 d, dmin;
    };
    static MEMBER Head head(const u8 *block, u32 unit) {
        const Words<2> both = words<2, ALIGN>(block + 8 * (unit / 2));
        const u32 shift = 8 * (unit % 2), low = both[0] >> shift, high = both[1] >> shift;
        return Head{{low & 0x000f000fu, high & 0x000f000fu},
                    {(low >> 4) & 0x000f000fu, (high >> 4) & 0x000f000fu},
                    half_at(block + 80),
                    half_at(block + 82)};
    }
    static MEMBER Scale whole(const Head &head) { return Scale{head.d, -head.dmin}; }
    static MEMBER Scale part(const Head &head, u32 i) { return Scale{head.scales.value(i), head.minimums.value(i)}; }
    static MEMBER i32 integer_part(const Head &head, u32 i) { return (i32)head.scales[i]; }
    static MEMBER u32 minimums(const Head &head) { return head.minimums.pair[0] | head.minimums.pair[1] << 8; }
    static MEMBER Scale scale(const Head &head, u32 i) { return product(whole(head), part(head, i)); }
    static MEMBER Scale scale_of(const u8 *block, Place place) {
        const u32 both = block[piece(place.unit, place.index)];
        return Scale{half_at(block + 80) * (f32)(both & 15), -half_at(block + 82) * (f32)(both >> 4)};
    }
    template <u32 N> struct Raw {
        Words<N> fields;
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        return Raw<N>{words<N, ALIGN>(block + 16 + 16 * unit + 4 * first)};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        return raw<N>(block, place.unit, first);
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        return (raw.fields[w] >> (2 * i)) & 0x03030303u;
    }
    static MEMBER u32 lifted(const Raw<4> &raw, u32 w, u32 i) { return raw.fields[w] & (0x03030303u << (2 * i)); }
    static MEMBER u32 lift(u32 i) { return 1u << (2 * i); }
    static MEMBER u32 folding(const Raw<1> &raw, u32 i) {
        return (raw.fields[0] >> (4 * (i / 2))) & (0x03030303u << (2 * (i % 2)));
    }
};

// Bits that stand in a field above another: moved to the left for i < MIDDLE, to the right beyond.
template <u32 MIDDLE, u32 STEP> DEVICE u32 aligned_field(u32 word, u32 i) {
    return i <= MIDDLE ? word << (STEP * (MIDDLE - i)) : word >> (STEP * (i - MIDDLE));
}

struct Q3K : PlaneFormat<110, 2, 4, false> { // 32 bytes of third bits, 64 bytes of two-bit fields, 12 of scales, d
    static constexpr bool FOLDS = true, LIFTS = MIXED_DOT;
    struct Head {
        FourBytes scales;
        f32 d;
    };
    static MEMBER Head head(const u8 *block, u32 unit) {
        // Six bits a piece: four in the nibbles of eight bytes, two in the fields of four more.
        const Words<3> bits = words<3, ALIGN>(block + 96, 8 * (unit % 2) + 4 * (unit / 2));
        return Head{{(bits[0] & 0x000f000fu) | ((bits[2] << 4) & 0x00300030u),
                     (bits[1] & 0x000f000fu) | ((bits[2] << 2) & 0x00300030u)},
                    half_at(block + 108)};
    }
    static MEMBER Scale whole(const Head &head) { return Scale{FOLDED_SIGN * head.d, 0.0f}; }
    static MEMBER Scale part(const Head &head, u32 i) { return Scale{FOLDED_SIGN * (head.scales.value(i) - 32.0f), 0.0f}; }
    static MEMBER i32 integer_part(const Head &head, u32 i) { return 32 - (i32)head.scales[i]; }
    // The opposite of the product, which lies between -128 and 124 where the product itself may be 128. 128 more, which keeps
    // borrows away from the bytes, is (integer - 4) * (32 - scale) + 128.
    static constexpr f32 FOLDED_SIGN = -1.0f;
    static constexpr u32 FOLDED_ZERO = 128, FOLDED_LIFT = 1;
    static MEMBER Scale scale(const Head &head, u32 i) { return product(whole(head), part(head, i)); }
    static MEMBER Scale scale_of(const u8 *block, Place place) {
        const u32 own = piece(place.unit, place.index);
        const u32 low = (block[96 + own % 8] >> (4 * (own / 8))) & 15, high = (block[104 + own % 4] >> (2 * (own / 4))) & 3;
        return Scale{half_at(block + 108) * (f32)((i32)(low | high << 4) - 32), 0.0f};
    }
    template <u32 N> struct Raw {
        Words<N> fields, thirds;
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        return Raw<N>{words<N, ALIGN>(block + 32 + 16 * unit + 4 * first),
                      words<N, ALIGN>(block + 16 * (unit % 2) + 4 * first, 4 * (unit / 2))};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        return raw<N>(block, place.unit, first);
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        return ((raw.fields[w] >> (2 * i)) & 0x03030303u) | (aligned_field<2, 1>(raw.thirds[w], i) & 0x04040404u);
    }
    // Two fields are four bits apart. So come their third bits, by a multiplication that takes each of them two ways: where both
    // meet, and where that carries, is nobody's bit.
    static MEMBER u32 folding(const Raw<1> &raw, u32 i) {
        const u32 thirds = i % 2 ? (raw.thirds[0] & 0x0a0a0a0au) * 10 : (raw.thirds[0] & 0x05050505u) * 20;
        const u32 both = chosen(0x33333333u, i % 2 ? raw.fields[0] >> 2 : raw.fields[0], thirds);
        return (i / 2 ? both >> 4 : both) & 0x07070707u;
    }
    // The last has no room for a third bit above it and moves by two.
    static MEMBER u32 lifted(const Raw<4> &raw, u32 w, u32 i) {
        const u32 up = 2 * (i < 3 ? i : 2), fields = i < 3 ? raw.fields[w] : raw.fields[w] >> 2;
        return (fields & (0x03030303u << up)) | ((raw.thirds[w] << (up + 2 - i)) & (0x04040404u << up));
    }
    static MEMBER u32 lift(u32 i) { return i < 3 ? 1u << (2 * i) : 16; }
};

struct Q6K : PlaneFormat<210, 2, 32, false> { // 128 bytes of nibbles, 64 bytes of two-bit fields, 16 scales, d
    static constexpr bool FOLDS = false;
    struct Head {
        FourBytes scales;
        f32 d;
    };
    static MEMBER Head head(const u8 *block, u32 unit) {
        const u8 *scales = block + 192 + 8 * (unit / 2);
        const u32 shift = 8 * (unit % 2);
        return Head{{words<1, ALIGN>(scales)[0] >> shift, words<1, ALIGN>(scales + 4)[0] >> shift}, half_at(block + 208)};
    }
    struct HalfHead {
        EightBytes scales;
        f32 d;
    };
    static MEMBER HalfHead half_head(const u8 *block, u32 half) {
        const u8 *scales = block + 192 + 8 * half;
        return HalfHead{{words<1, ALIGN>(scales)[0], words<1, ALIGN>(scales + 4)[0]}, half_at(block + 208)};
    }
    static MEMBER Scale half_whole(const HalfHead &head) { return Scale{head.d, 0.0f}; }
    static MEMBER Scale half_part(const HalfHead &head, u32 i) { return Scale{head.scales.signed_value(i), 0.0f}; }
    static MEMBER Scale whole(const Head &head) { return Scale{head.d, 0.0f}; }
    static MEMBER Scale part(const Head &head, u32 i) { return Scale{head.scales.signed_value(i), 0.0f}; }
    static MEMBER i32 integer_part(const Head &head, u32 i) { return (i8)head.scales[i]; }
    static MEMBER Scale scale(const Head &head, u32 i) { return product(whole(head), part(head, i)); }
    static MEMBER Scale scale_of(const u8 *block, Place place) {
        return Scale{half_at(block + 208) * (f32)(i8)block[192 + piece(place.unit, place.index)], 0.0f};
    }
    template <u32 N> struct Raw {
        Words<N> nibbles[2], fields;
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        const u8 *nibbles = block + 64 * (unit / 2) + 16 * (unit % 2) + 4 * first;
        return Raw<N>{{words<N, ALIGN>(nibbles), words<N, ALIGN>(nibbles + 32)},
                      words<N, ALIGN>(block + 128 + 16 * unit + 4 * first)};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        const u8 *at = block + 64 * (place.unit / 2) + 16 * (place.unit % 2) + 32 * (place.index % 2) + 4 * first;
        const Words<N> own = words<N, ALIGN>(at);
        return Raw<N>{{own, own}, words<N, ALIGN>(block + 128 + 16 * place.unit + 4 * first)};
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        const u32 nibbles = i & 1 ? raw.nibbles[1][w] : raw.nibbles[0][w];
        return ((nibbles >> (4 * (i / 2))) & NIBBLES) | (aligned_field<2, 2>(raw.fields[w], i) & 0x30303030u);
    }
};

// Q4K and Q5K: d, dmin, 12 bytes of scales and minimums (six bits each, for 32 weights); 64 weights are the low and then
// the high nibbles of 32 bytes. A unit is such a quarter of the block.
template <u32 BYTES_> struct QuarterFormat {
    static constexpr u32 ELEMENTS = 256, BYTES = BYTES_, ALIGN = 16, ZERO = 0, MERGE = 2, UNIT = 4;
    static constexpr u32 MMA_BLOCKS = BYTES == 144 ? 7 : 5;
    static constexpr bool HAS_OFFSET = true, IN_PARTS = true, FOLDS = false, LIFTS = false, PAIRS_LIFT = false;

    static MEMBER u32 piece(u32 unit, u32 i) { return 4 * unit + i; }
    static MEMBER Place place(u32 piece) { return Place{piece / 4, piece % 4}; }

    struct Head {
        u32 scales, minimums; // a byte for either half of the unit
        f32 d, dmin;
    };
    static MEMBER Head head(const u8 *block, u32 unit) {
        const Words<4> head = words<4, 16>(block);
        const u32 shift = 16 * (unit % 2);
        const u32 a = head[1] >> shift, b = head[2] >> shift, c = head[3] >> shift;
        const bool early = unit < 2;
        return Head{early ? a & 0x3f3fu : (c & 0x0f0fu) | ((a >> 2) & 0x3030u),
                    early ? b & 0x3f3fu : ((c >> 4) & 0x0f0fu) | ((b >> 2) & 0x3030u),
                    f16_to_f32(f16{(u16)head[0]}), f16_to_f32(f16{(u16)(head[0] >> 16)})};
    }
    static MEMBER Scale whole(const Head &head) { return Scale{head.d, -head.dmin}; }
    static MEMBER Scale part(const Head &head, u32 i) {
        return Scale{byte_at(head.scales, i / 2), byte_at(head.minimums, i / 2)};
    }
    static MEMBER i32 integer_part(const Head &head, u32 i) { return (i32)(i / 2 ? head.scales >> 8 : head.scales & 0xff); }
    static MEMBER f32 minimum(const u8 *block, u32 lane, u32 four) {
        const u32 low = block[8 + lane], high = block[12 + lane];
        return byte_at(four ? (high >> 4) | ((low >> 2) & 0x30) : low & 0x3f, 0);
    }
    static MEMBER Scale scale(const Head &head, u32 i) { return product(whole(head), part(head, i)); }
    static MEMBER Scale scale_of(const u8 *block, Place place) { return scale(head(block, place.unit), place.index); }
};

struct Q4K : QuarterFormat<144> {
    static constexpr bool LIFTS = MIXED_DOT, PAIRS_LIFT = true;
    template <u32 N> struct Raw {
        Words<N> nibbles[2];
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        const u8 *at = block + 16 + 32 * unit + 4 * first;
        return Raw<N>{{words<N, N == 4 ? 16 : 4>(at), words<N, N == 4 ? 16 : 4>(at + 16)}};
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        const Words<N> own = words<N, N == 4 ? 16 : 4>(block + 16 + 32 * place.unit + 16 * (place.index % 2) + 4 * first);
        return Raw<N>{{own, own}};
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        return ((i & 1 ? raw.nibbles[1][w] : raw.nibbles[0][w]) >> (4 * (i / 2))) & NIBBLES;
    }
    template <u32 N> static MEMBER u32 pair_lifted(const Raw<N> &raw, u32 w, u32 i) {
        return (i & 1 ? raw.nibbles[1][w] : raw.nibbles[0][w]) & (NIBBLES << (4 * (i / 2)));
    }
    static MEMBER u32 pair_lift(u32 pair) { return 1u << (4 * pair); }
    static MEMBER u32 lifted(const Raw<4> &raw, u32 w, u32 i) { return pair_lifted(raw, w, i); }
    static MEMBER u32 lift(u32 i) { return pair_lift(i / 2); }
};

struct Q5K : QuarterFormat<176> { // as Q4K, with 32 bytes of fifth bits before the nibbles: bit u of byte l for weight 32 * u + l
    template <u32 N> struct Raw {
        Words<N> nibbles[2], fifths[2];
    };
    template <u32 N> static MEMBER Raw<N> raw(const u8 *block, u32 unit, u32 first) {
        constexpr u32 ALIGNED = N == 4 ? 16 : 4;
        const u8 *low = block + 48 + 32 * unit + 4 * first, *high = block + 16 + 4 * first;
        Raw<N> raw = {{words<N, ALIGNED>(low), words<N, ALIGNED>(low + 16)},
                      {words<N, ALIGNED>(high), words<N, ALIGNED>(high + 16)}};
        UNROLL
        for (u32 w = 0; w < N; w++) {
            raw.fifths[0][w] >>= 2 * unit;
            raw.fifths[1][w] >>= 2 * unit;
        }
        return raw;
    }
    template <u32 N> static MEMBER Raw<N> raw_of(const u8 *block, Place place, u32 first) {
        constexpr u32 ALIGNED = N == 4 ? 16 : 4;
        const u8 *at = block + 16 * (place.index % 2) + 4 * first;
        const Words<N> low = words<N, ALIGNED>(at + 48 + 32 * place.unit);
        Words<N> high = words<N, ALIGNED>(at + 16);
        UNROLL
        for (u32 w = 0; w < N; w++) high[w] >>= 2 * place.unit;
        return Raw<N>{{low, low}, {high, high}};
    }
    template <u32 N> static MEMBER u32 quad(const Raw<N> &raw, u32 w, u32 i) {
        const u32 nibbles = i & 1 ? raw.nibbles[1][w] : raw.nibbles[0][w];
        const u32 fifths = i & 1 ? raw.fifths[1][w] : raw.fifths[0][w];
        return ((nibbles >> (4 * (i / 2))) & NIBBLES) | ((fifths << (4 - i / 2)) & 0x10101010u);
    }
};

// Four words of piece i of a unit that has been loaded.
template <typename F> DEVICE Words<4> quads(const typename F::template Raw<4> &raw, u32 i) {
    Words<4> out;
    UNROLL
    for (u32 w = 0; w < 4; w++) out[w] = F::quad(raw, w, i);
    return out;
}

// The same, lifted where the format does that, and by how much.
template <typename F> DEVICE Words<4> lifted_quads(const typename F::template Raw<4> &raw, u32 i) {
    Words<4> out;
    UNROLL
    for (u32 w = 0; w < 4; w++) {
        if constexpr (F::LIFTS) {
            out[w] = F::lifted(raw, w, i);
        } else {
            out[w] = F::quad(raw, w, i);
        }
    }
    return out;
}
template <typename F> DEVICE u32 lift_of(u32 i) {
    if constexpr (F::LIFTS) return F::lift(i);
    return 1;
}

// The formats by the name their kernels carry.
#define FOR_QUANTIZED(X, ...)                                                                                          \
    X(q4_0, Q4_0, ##__VA_ARGS__) X(q4_1, Q4_1, ##__VA_ARGS__) X(q5_0, Q5_0, ##__VA_ARGS__)                             \
    X(q5_1, Q5_1, ##__VA_ARGS__) X(q8_0, Q8_0, ##__VA_ARGS__) X(q8_1, Q8_1, ##__VA_ARGS__)                             \
    X(q2k, Q2K, ##__VA_ARGS__) X(q3k, Q3K, ##__VA_ARGS__) X(q4k, Q4K, ##__VA_ARGS__)                                   \
    X(q5k, Q5K, ##__VA_ARGS__) X(q6k, Q6K, ##__VA_ARGS__) X(q8k, Q8K, ##__VA_ARGS__)
