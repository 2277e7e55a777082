// The layout of quantised matrices in memory: groups of LANES rows, a block of every row side by side. A block
// keeps its fields in the order of the file; a field's elements (numbers of `size` bytes) lie row after row, so
// that one vector load has the same element of all rows. No bit is lost, and no byte is added.
#pragma once
#include "decode.h"
#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

enum class As : int8_t {
    plain,
    bits,  // q5_0 and q5_1: 32 bits, one a column. Here byte c has the bits of columns c, 4 + c, 8 + c, ...
    sixes  // q6_k: 192 bytes of nibbles and bit pairs. Here every 16 columns are three words: columns 0 to 11 in
           // the low 6 bits of their bytes, columns 12 to 15 in the high pairs, lowest pair first.
};

struct Field {
    int8_t size;    // bytes of an element; 0 ends the list
    uint8_t count;  // elements
    As as;
};

static inline const Field* fields_of(int32_t format) {
    static const Field q8_0[] = {{2, 1, As::plain}, {4, 8, As::plain}, {}};
    static const Field q4_0[] = {{2, 1, As::plain}, {4, 4, As::plain}, {}};
    static const Field q4_1[] = {{2, 2, As::plain}, {4, 4, As::plain}, {}};
    static const Field q5_0[] = {{2, 1, As::plain}, {4, 1, As::bits}, {4, 4, As::plain}, {}};
    static const Field q5_1[] = {{2, 2, As::plain}, {4, 1, As::bits}, {4, 4, As::plain}, {}};
    static const Field q4_k[] = {{2, 2, As::plain}, {4, 35, As::plain}, {}};
    static const Field q5_k[] = {{2, 2, As::plain}, {4, 43, As::plain}, {}};
    static const Field q6_k[] = {{4, 48, As::sixes}, {4, 4, As::plain}, {2, 1, As::plain}, {}};
    static const Field mxfp4[] = {{1, 1, As::plain}, {4, 4, As::plain}, {}};
    static const Field* const all[] = {q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k, mxfp4};
    return all[format - Q8_0];
}

// Every fourth bit of each lane, from `first` on, as one byte.
static inline vi every_fourth(vi v, int first) {
    v = (v >> first) & 0x11111111;
    v = (v | v >> 3) & 0x03030303;
    v = (v | v >> 6) & 0x000f000f;
    return (v | v >> 12) & 0xff;
}

static inline void pack_bits(uint8_t* words) {
    const vi v = load_lanes(words);
    vi out = {};
    for (int c = 0; c < 4; c++) out |= every_fourth(v, c) << (8 * c);
    memcpy(words, &out, sizeof out);
}

static inline void pack_sixes(const uint8_t* from, uint8_t* to) {
    for (int half = 0; half < 2; half++)
        for (int part = 0; part < 4; part++)
            for (int g = 0; g < 2; g++) {
                vi w[4];
                for (int i = 0; i < 4; i++) {
                    const vi low = load_lanes(from + 4 * LANES * (16 * half + 8 * (part & 1) + 4 * g + i));
                    const vi high = load_lanes(from + 4 * LANES * (32 + 8 * half + 4 * g + i));
                    w[i] = ((low >> (part & 2 ? 4 : 0)) & 0x0f0f0f0f) | ((high >> 2 * part) & 0x03030303) << 4;
                }
                for (int j = 0; j < 3; j++, to += 4 * LANES) {
                    const vi word = w[j] | ((w[3] >> 2 * j) & 0x03030303) << 6;
                    memcpy(to, &word, sizeof word);
                }
            }
}

template <class T>
static inline void interleave(const uint8_t* const* from, int at, int count, uint8_t* to) {
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < LANES; lane++, to += sizeof(T)) memcpy(to, from[lane] + at + sizeof(T) * i, sizeof(T));
}

// A block of LANES rows.
static inline void pack_block(const Field* fields, const uint8_t* const* from, uint8_t* to) {
    int at = 0;
    for (const Field* f = fields; f->size; f++) {
        uint8_t mixed[48 * 4 * LANES];
        uint8_t* const words = f->as == As::sixes ? mixed : to;
        if (f->size == 4) interleave<uint32_t>(from, at, f->count, words);
        else if (f->size == 2) interleave<uint16_t>(from, at, f->count, words);
        else interleave<uint8_t>(from, at, f->count, words);
        if (f->as == As::bits) pack_bits(words);
        if (f->as == As::sixes) pack_sixes(words, to);
        at += f->size * f->count;
        to += LANES * f->size * f->count;
    }
}

// Groups [first, end) of a matrix of `rows` rows, from the layout of the file. The last row fills its group.
static void pack(int32_t format, int64_t rows, int64_t row_bytes, int64_t first, int64_t end,
                 const uint8_t* from, uint8_t* to) {
    const Field* fields = fields_of(format);
    const int64_t bytes = shape_of(format).bytes;
    for (int64_t g = first; g < end; g++)
        for (int64_t at = 0; at < row_bytes; at += bytes) {
            const uint8_t* blocks[LANES];
            for (int lane = 0; lane < LANES; lane++)
                blocks[lane] = from + (g * LANES + lane < rows ? g * LANES + lane : rows - 1) * row_bytes + at;
            pack_block(fields, blocks, to + (g * row_bytes + at) * LANES);
        }
}

static inline void unpack_bits(uint8_t* word) {
    uint32_t bits = 0;
    for (int k = 0; k < 32; k++) bits |= static_cast<uint32_t>(word[k % 4] >> k / 4 & 1) << k;
    memcpy(word, &bits, 4);
}

static inline void unpack_sixes(uint8_t* quants) {
    uint8_t words[192];
    memcpy(words, quants, 192);
    memset(quants, 0, 192);
    for (int k = 0; k < 256; k++) {
        const uint8_t* three = words + 12 * (k / 16);
        const int i = k % 16, c = i % 4, half = k / 128, part = k / 32 % 4, at = k % 32;
        const int q = i < 12 ? three[i] & 63 : three[c] >> 6 | three[4 + c] >> 6 << 2 | three[8 + c] >> 6 << 4;
        quants[64 * half + 32 * (part & 1) + at] |= static_cast<uint8_t>((q & 15) << (part & 2 ? 4 : 0));
        quants[128 + 32 * half + at] |= static_cast<uint8_t>((q >> 4) << 2 * part);
    }
}

// The block of one row, as the file has it.
static inline void unpack_block(int32_t format, const uint8_t* from, int lane, uint8_t* to) {
    for (const Field* f = fields_of(format); f->size; f++) {
        for (int i = 0; i < f->count; i++) memcpy(to + f->size * i, from + f->size * (i * LANES + lane), f->size);
        if (f->as == As::bits) unpack_bits(to);
        if (f->as == As::sixes) unpack_sixes(to);
        to += f->size * f->count;
        from += LANES * f->size * f->count;
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
