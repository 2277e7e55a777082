// The quantised formats for the tile kernels, as pack.h lays them out: an offset of a file's block times LANES
// is where the field of all rows begins.
#pragma once
#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

static inline vi low_nibbles(vi v) { return v & 0x0f0f0f0f; }
static inline vi high_nibbles(vi v) { return (v >> 4) & 0x0f0f0f0f; }

// Word i of a block's quants that start at byte `at` of the block.
static inline vi word(const uint8_t* p, int at, int i) { return load_lanes(p + LANES * (at + 4 * i)); }

// Nibbles of 32 columns: word i has columns 4 i to 4 i + 3 low and 16 columns on high.
static inline vi nibbles_32(const uint8_t* p, int at, int i) {
    const vi v = word(p, at, i % 4);
    return i < 4 ? low_nibbles(v) : high_nibbles(v);
}

static inline vi fifth_bits(const uint8_t* p, int at, int i) {
    const vi bits = word(p, at, 0);
    return (i < 4 ? bits << (4 - i) : bits >> (i - 4)) & 0x10101010;
}

// Quants of CENTRED formats lie around the middle of quantise.h, from which the sums of their products are made
// to begin: in the end they fit int16 although the quants by themselves would go beyond.
constexpr int NEVER = 1 << 30;

// Formats of 32 columns a block. `quants` gives word i (columns 4 i to 4 i + 3) as bytes; TERMS products of
// pairs fit int16. From READY_FROM activation rows on it pays to take blocks apart once for all (panel.h).
struct FormatQ8_0 {
    static constexpr int BLOCK = 32, BYTES = 34, OFFSET = 0, TERMS = 1, READY_FROM = NEVER;
    static constexpr bool SIGNED = true, AFFINE = false, CENTRED = false;
    static inline vi quants(const uint8_t* p, int i) { return word(p, 2, i); }
    static inline vf scales(const uint8_t* p) { return load_halves(p); }
};

struct FormatQ4_0 {
    static constexpr int BLOCK = 32, BYTES = 18, OFFSET = 8, TERMS = 8, READY_FROM = 64;
    static constexpr bool SIGNED = false, AFFINE = false, CENTRED = false;
    static inline vi quants(const uint8_t* p, int i) { return nibbles_32(p, 2, i); }
    static inline vf scales(const uint8_t* p) { return load_halves(p); }
};

struct FormatQ4_1 {
    static constexpr int BLOCK = 32, BYTES = 20, OFFSET = 0, TERMS = 8, READY_FROM = 64;
    static constexpr bool SIGNED = false, AFFINE = true, CENTRED = false;
    static inline vi quants(const uint8_t* p, int i) { return nibbles_32(p, 4, i); }
    static inline vf scales(const uint8_t* p) { return load_halves(p); }
};

struct FormatQ5_0 {
    static constexpr int BLOCK = 32, BYTES = 22, OFFSET = 0, TERMS = 8, READY_FROM = 5;
    static constexpr bool SIGNED = false, AFFINE = false, CENTRED = true;
    static inline vi quants(const uint8_t* p, int i) { return nibbles_32(p, 6, i) | fifth_bits(p, 2, i); }
    static inline vf scales(const uint8_t* p) { return load_halves(p); }
};

struct FormatQ5_1 {
    static constexpr int BLOCK = 32, BYTES = 24, OFFSET = 0, TERMS = 4, READY_FROM = 5;
    static constexpr bool SIGNED = false, AFFINE = true, CENTRED = false;
    static inline vi quants(const uint8_t* p, int i) { return nibbles_32(p, 8, i) | fifth_bits(p, 4, i); }
    static inline vf scales(const uint8_t* p) { return load_halves(p); }
};

// Values doubled and, so that they have no sign, 16 more. A scale is half of 2^(e - 127); e of 255 is NaN.
struct FormatMXFP4 {
    static constexpr int BLOCK = 32, BYTES = 17, OFFSET = 0, TERMS = 8, READY_FROM = 5;
    static constexpr bool SIGNED = false, AFFINE = false, CENTRED = true;
    static inline vi quants(const uint8_t* p, int i) {
        static const uint8_t values[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
        return look_up(values, nibbles_32(p, 1, i));
    }
    static inline vf scales(const uint8_t* p) {
        uint8_t bytes[LANES];
        memcpy(bytes, p, LANES);
        vi e;
        for (int i = 0; i < LANES; i++) e[i] = bytes[i];
        const vi tiny = e < 2, nan = e == 255;
        const vi normal = (e - 1) << 23, small = fill_lanes(0x00200000) << (e & 1);
        return (vf)((small & tiny) | (normal & ~tiny) | (nan & 0x7fc00000));
    }
};

// Formats of 256 columns a block: 8 parts of 32, of which word i is columns 4 i to 4 i + 3. Their code repeats
// after STEP parts, TURN bytes on; `quants` gives one of these parts. Scales are for GROUP columns each, as bytes
// in the order of the columns; behind them are minima for every part, unless quants are CENTRED.
struct FormatQ4_K {
    static constexpr int BLOCK = 256, BYTES = 144, GROUP = 32, TERMS = 8, D = 0, STEP = 2, TURN = 32,
                         READY_FROM = 20;
    static constexpr bool SIGNED = false, CENTRED = false;
    static inline vi quants(const uint8_t* p, int part, int i) {
        const vi v = word(p, 16, i);
        return part ? high_nibbles(v) : low_nibbles(v);
    }
    // Eight scales of 6 bits in the bytes of s[0..1], as many minima in those of s[2..3].
    static inline void scales(const uint8_t* p, vi* s) {
        const vi a = word(p, 4, 0), b = word(p, 4, 1), c = word(p, 4, 2);
        s[0] = a & 0x3f3f3f3f;
        s[1] = low_nibbles(c) | ((a >> 2) & 0x30303030);
        s[2] = b & 0x3f3f3f3f;
        s[3] = high_nibbles(c) | ((b >> 2) & 0x30303030);
    }
};

struct FormatQ5_K {
    static constexpr int BLOCK = 256, BYTES = 176, GROUP = 32, TERMS = 4, D = 0, STEP = 8, TURN = 0,
                         READY_FROM = 5;
    static constexpr bool SIGNED = false, CENTRED = false;
    static inline vi quants(const uint8_t* p, int part, int i) {
        const vi v = word(p, 48 + 32 * (part / 2), i), bits = word(p, 16, i);
        const vi fifth = (part < 4 ? bits << (4 - part) : bits >> (part - 4)) & 0x10101010;
        return (part % 2 ? high_nibbles(v) : low_nibbles(v)) | fifth;
    }
    static inline void scales(const uint8_t* p, vi* s) { FormatQ4_K::scales(p, s); }
};

struct FormatQ6_K {
    static constexpr int BLOCK = 256, BYTES = 210, GROUP = 16, TERMS = 4, D = 208, STEP = 2,
                         TURN = 48, READY_FROM = 5;
    static constexpr bool SIGNED = false, CENTRED = true;
    static inline vi quants(const uint8_t* p, int part, int i) {
        const uint8_t* at = p + (24 * part + 12 * (i / 4)) * LANES;
        if (i % 4 < 3) return word(at, 0, i % 4) & 0x3f3f3f3f;
        const vi a = word(at, 0, 0), b = word(at, 0, 1), c = word(at, 0, 2);
        return ((a >> 6) & 0x03030303) | ((b >> 4) & 0x0c0c0c0c) | ((c >> 2) & 0x30303030);
    }
    // Sixteen signed scales in the bytes of s[0..3].
    static inline void scales(const uint8_t* p, vi* s) {
        for (int i = 0; i < 4; i++) s[i] = word(p, 192, i);
    }
};

}  // namespace ULTRA_LEVEL
}  // namespace ultra
