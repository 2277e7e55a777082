// The layout of quantised matrices in memory: groups of LANES rows, a block of every row side by side. A block
// keeps its fields in the order of the file; a field's elements (numbers of `size` bytes) lie row after row, so
// that one vector load has the same element of all rows. No bit is lost, and no byte is added.
#pragma once
#include "decode.h"
#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Field {
    int8_t size;    // bytes of an element; 0 ends the list
    uint8_t count;  // elements
    bool spread;    // 32 bits, one a column: byte c gets the bits of columns c, 4 + c, 8 + c, ...
};

// q6_k's quants, 6 bits each, come as 192 bytes of nibbles and bit pairs. Here every 16 columns are three words:
// columns 0 to 11 in the low 6 bits of their bytes, and columns 12 to 15 in the high pairs, lowest pair first.
static inline void join_6k(const uint8_t* from, uint8_t* to) {
    Decoded block;
    decode_6k_quants(from, block.q);
    for (int g = 0; g < 16; g++)
        for (int i = 0; i < 12; i++) {
            const int last = block.q[16 * g + 12 + i % 4] + 32;
            to[12 * g + i] = static_cast<uint8_t>((block.q[16 * g + i] + 32) | (last >> 2 * (i / 4) & 3) << 6);
        }
}

static inline void split_6k(const uint8_t* from, uint8_t* to) {
    memset(to, 0, 192);
    for (int k = 0; k < 256; k++) {
        const uint8_t *words = from + 12 * (k / 16), i = k % 16;
        int q = i < 12 ? words[i] & 63 : 0;
        if (i >= 12)
            for (int j = 0; j < 3; j++) q |= (words[4 * j + i - 12] >> 6) << 2 * j;
        const int half = k / 128, part = k / 32 % 4, at = k % 32;
        to[64 * half + 32 * (part & 1) + at] |= static_cast<uint8_t>((q & 15) << (part & 2 ? 4 : 0));
        to[128 + 32 * half + at] |= static_cast<uint8_t>((q >> 4) << 2 * part);
    }
}

static inline const Field* fields_of(int32_t format) {
    static const Field q8_0[] = {{2, 1, false}, {4, 8, false}, {}};
    static const Field q4_0[] = {{2, 1, false}, {4, 4, false}, {}};
    static const Field q4_1[] = {{2, 2, false}, {4, 4, false}, {}};
    static const Field q5_0[] = {{2, 1, false}, {4, 1, true}, {4, 4, false}, {}};
    static const Field q5_1[] = {{2, 2, false}, {4, 1, true}, {4, 4, false}, {}};
    static const Field q4_k[] = {{2, 2, false}, {4, 35, false}, {}};
    static const Field q5_k[] = {{2, 2, false}, {4, 43, false}, {}};
    static const Field q6_k[] = {{4, 52, false}, {2, 1, false}, {}};
    static const Field* const all[] = {q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k};
    return all[format - Q8_0];
}

static inline uint32_t spread_bits(uint32_t bits) {
    uint32_t out = 0;
    for (int k = 0; k < 32; k++) out |= (bits >> k & 1) << (8 * (k % 4) + k / 4);
    return out;
}

static inline uint32_t gather_bits(uint32_t spread) {
    uint32_t out = 0;
    for (int k = 0; k < 32; k++) out |= (spread >> (8 * (k % 4) + k / 4) & 1) << k;
    return out;
}

template <class T>
static inline void interleave(const uint8_t* from, int count, int lane, uint8_t* to) {
    for (int i = 0; i < count; i++) memcpy(to + sizeof(T) * (i * LANES + lane), from + sizeof(T) * i, sizeof(T));
}

// One block of one row to its place in the packed block of its group.
static inline void pack_block(int32_t format, const uint8_t* from, int lane, uint8_t* to) {
    uint8_t joined[210];
    if (format == Q6_K) {
        join_6k(from, joined);
        memcpy(joined + 192, from + 192, 18);
        from = joined;
    }
    for (const Field* f = fields_of(format); f->size; f++) {
        if (f->spread) {
            uint32_t bits;
            memcpy(&bits, from, 4);
            bits = spread_bits(bits);
            memcpy(to + 4 * lane, &bits, 4);
        } else if (f->size == 4) {
            interleave<uint32_t>(from, f->count, lane, to);
        } else {
            interleave<uint16_t>(from, f->count, lane, to);
        }
        from += f->size * f->count;
        to += LANES * f->size * f->count;
    }
}

static inline void unpack_block(int32_t format, const uint8_t* from, int lane, uint8_t* to) {
    uint8_t* const block = to;
    for (const Field* f = fields_of(format); f->size; f++) {
        for (int i = 0; i < f->count; i++) memcpy(to + f->size * i, from + f->size * (i * LANES + lane), f->size);
        if (f->spread) {
            uint32_t bits;
            memcpy(&bits, to, 4);
            bits = gather_bits(bits);
            memcpy(to, &bits, 4);
        }
        to += f->size * f->count;
        from += LANES * f->size * f->count;
    }
    if (format == Q6_K) {
        uint8_t joined[192];
        memcpy(joined, block, 192);
        split_6k(joined, block);
    }
}

// Groups [first, end) of a matrix of `rows` rows, from the layout of the file. The last row fills its group.
static void pack(int32_t format, int64_t rows, int64_t row_bytes, int64_t first, int64_t end,
                 const uint8_t* from, uint8_t* to) {
    const int64_t bytes = shape_of(format).bytes;
    for (int64_t g = first; g < end; g++)
        for (int64_t b = 0; b < row_bytes / bytes; b++)
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t row = g * LANES + lane < rows ? g * LANES + lane : rows - 1;
                pack_block(format, from + row * row_bytes + b * bytes, lane,
                           to + (g * row_bytes + b * bytes) * LANES);
            }
}

// Columns [start, start + count) of one row of a matrix, packed or not, exactly.
static inline void unpack_row(const Buffer& w, int64_t row, int start, int count, float* out) {
    const uint8_t* data = static_cast<const uint8_t*>(w.data);
    const Shape shape = shape_of(w.format);
    if (!w.packed) return unpack(w.format, data + row * w.row_bytes, start, count, out);
    const uint8_t* group = data + row / LANES * LANES * w.row_bytes;
    const int lane = static_cast<int>(row % LANES);
    uint8_t block[256];
    for (int k = start; k < start + count;) {
        const int b = k / shape.block, from = k % shape.block;
        const int some = shape.block - from < start + count - k ? shape.block - from : start + count - k;
        unpack_block(w.format, group + static_cast<int64_t>(b) * shape.bytes * LANES, lane, block);
        unpack(w.format, block, from, some, out + (k - start));
        k += some;
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
