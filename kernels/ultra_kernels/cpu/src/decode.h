// One block of any format as plain integers and scales: what embedding rows and the portable kernels use.
// weight = (d * scale[k / group]) * q[k] - e * minimum[k / group], as formats.py has it.
#pragma once
#include "layout.h"
#include "simd.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Decoded {
    int8_t q[256];
    int32_t scale[16], minimum[16];
    float d, e;
    int size, group;
};

struct Shape { int block, bytes; };

static inline Shape shape_of(int32_t format) {
    static const Shape shapes[] = {{1, 4},   {1, 2},   {1, 2},   {32, 34},   {32, 18},  {32, 20},
                                   {32, 22}, {32, 24}, {256, 144}, {256, 176}, {256, 210}, {32, 17}, {128, 132}};
    return shapes[format];
}

// The 6-bit scales and minima of q4_k and q5_k: 12 bytes -> 8 scales, 8 minima.
static inline void k_scales(const uint8_t* packed, uint8_t* out) {
    uint32_t w[3], r[4];
    memcpy(w, packed, 12);
    r[0] = w[0] & 0x3f3f3f3f;
    r[1] = (w[2] & 0x0f0f0f0f) | (w[0] >> 6 & 0x03030303) << 4;
    r[2] = w[1] & 0x3f3f3f3f;
    r[3] = (w[2] >> 4 & 0x0f0f0f0f) | (w[1] >> 6 & 0x03030303) << 4;
    memcpy(out, r, 16);
}

static inline void decode_32(int32_t format, const uint8_t* p, Decoded& out) {
    out.size = out.group = 32;
    out.scale[0] = out.minimum[0] = 1;
    out.d = load_half(p);
    out.e = 0.0f;
    if (format == Q8_0) {
        memcpy(out.q, p + 2, 32);
        return;
    }
    const bool affine = format == Q4_1 || format == Q5_1, five = format >= Q5_0;
    p += 2;
    if (affine) {
        out.e = -load_half(p);
        p += 2;
    }
    uint32_t high = 0;
    if (five) {
        memcpy(&high, p, 4);
        p += 4;
    }
    const int offset = affine ? 0 : five ? 16 : 8;
    for (int i = 0; i < 32; i++) {
        const int low = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
        out.q[i] = static_cast<int8_t>((low | (high >> i & 1) << 4) - offset);
    }
}

static inline void decode_k(int32_t format, const uint8_t* p, Decoded& out) {
    uint8_t s[16];
    const uint8_t *high = p + 16, *low = format == Q5_K ? p + 48 : p + 16;
    out.size = 256;
    out.group = 32;
    out.d = load_half(p);
    out.e = load_half(p + 2);
    k_scales(p + 4, s);
    for (int j = 0; j < 8; j++) {
        out.scale[j] = s[j];
        out.minimum[j] = s[8 + j];
        for (int i = 0; i < 32; i++) {
            const int nibble = low[32 * (j / 2) + i] >> (j % 2 ? 4 : 0) & 15;
            const int fifth = format == Q5_K ? high[i] >> j & 1 : 0;
            out.q[32 * j + i] = static_cast<int8_t>(nibble | fifth << 4);
        }
    }
}

static inline void decode_6k(const uint8_t* p, Decoded& out) {
    out.size = 256;
    out.group = 16;
    out.d = load_half(p + 208);
    out.e = 0.0f;
    for (int g = 0; g < 16; g++) {
        out.scale[g] = static_cast<int8_t>(p[192 + g]);
        out.minimum[g] = 0;
    }
    for (int k = 0; k < 256; k++) {
        const int half = k / 128, part = k / 32 % 4, i = k % 32;
        const int low = p[64 * half + 32 * (part & 1) + i] >> (part & 2 ? 4 : 0) & 15;
        const int high = p[128 + 32 * half + i] >> 2 * part & 3;
        out.q[k] = static_cast<int8_t>((low | high << 4) - 32);
    }
}

// Half of 2^(e - 127): the table of values is doubled. 255 is NaN.
static inline float e8m0_half(uint8_t e) {
    if (e == 255) return float_of(0x7fc00000u);
    return float_of(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

static inline void decode_mxfp4(const uint8_t* p, Decoded& out) {
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    out.size = out.group = 32;
    out.scale[0] = out.minimum[0] = 1;
    out.d = e8m0_half(p[0]);
    out.e = 0.0f;
    for (int i = 0; i < 16; i++) {
        out.q[i] = doubled[p[1 + i] & 15];
        out.q[16 + i] = doubled[p[1 + i] >> 4];
    }
}

static inline void decode(int32_t format, const uint8_t* block, Decoded& out) {
    if (format == MXFP4) decode_mxfp4(block, out);
    else if (format == Q6_K) decode_6k(block, out);
    else if (format >= Q4_K) decode_k(format, block, out);
    else decode_32(format, block, out);
}

static inline float decode_float(int32_t format, const uint8_t* p) {
    uint32_t u = 0;
    if (format == F16) return load_half(p);
    memcpy(format == BF16 ? reinterpret_cast<uint8_t*>(&u) + 2 : reinterpret_cast<uint8_t*>(&u), p,
           format == BF16 ? 2 : 4);
    return float_of(u);
}

static inline float decode_e4m3(uint8_t code) {
    const uint32_t sign = (code & 0x80u) << 24, rest = code & 0x7fu;
    const float size = rest == 0x7f ? float_of(0x7fc00000u) : float_of(rest << 20) * 0x1p120f;
    return float_of(bits_of(size) | sign);
}

static inline void unpack_fp8(const uint8_t* row, int start, int count, float* out) {
    for (int k = start; k < start + count; k++) {
        const uint8_t* block = row + static_cast<int64_t>(k / 128) * 132;
        out[k - start] = decode_e4m3(block[4 + k % 128]) * decode_float(F32, block);
    }
}

// Columns [start, start + count) of a packed row, exactly.
static inline void unpack(int32_t format, const uint8_t* row, int start, int count, float* out) {
    if (format == FP8_BLOCK) return unpack_fp8(row, start, count, out);
    const Shape shape = shape_of(format);
    Decoded block = {};
    int have = -1;
    for (int k = start; k < start + count; k++) {
        if (shape.block == 1) {
            out[k - start] = decode_float(format, row + static_cast<int64_t>(k) * shape.bytes);
            continue;
        }
        if (k / shape.block != have) {
            have = k / shape.block;
            decode(format, row + static_cast<int64_t>(have) * shape.bytes, block);
        }
        const int i = k % shape.block, g = i / block.group;
        const float scaled = block.d * static_cast<float>(block.scale[g]) * static_cast<float>(block.q[i]);
        out[k - start] = scaled - block.e * static_cast<float>(block.minimum[g]);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
