// Activations to int8: one scale for every 32 (or 256) values, the largest becoming 127, and sums for the
// formats whose weights have an offset or a minimum.
#pragma once
#include <cmath>

#include "layout.h"
#include "simd.h"

namespace ultra {
namespace ULTRA_LEVEL {

static inline int kind_of(int32_t format) {  // block of the activations; 0: they stay float32
    if (format == MXFP4) return 32;
    return format <= BF16 || format == FP8_BLOCK ? 0 : format <= Q5_1 ? 32 : 256;
}

// The rows from `row` on, the first of those that are multiplied together.
static inline Quantised at_row(const Quantised& a, int64_t row, int64_t columns, int block) {
    return {a.q + row * columns, a.scale + row * (columns / block), a.sum16 + row * (columns / 16),
            a.sum32 + row * ((columns / 32 + 1) / 2 * 2)};
}

// The scale of a block. NaN and infinity make it NaN: a wrong input must not look right.
static inline float block_scale(const float* x, int block, float* inverse) {
    v8 top = fill8(0.0f), poison = fill8(0.0f);
    for (int i = 0; i < block; i += 8) {
        const v8 v = load8(x + i);
        top = max8(abs8(v), top);
        poison += v * fill8(0.0f);
    }
    float most = 0.0f;
    for (int i = 0; i < 8; i++) most = top[i] > most ? top[i] : most;
    const float clean = sum8(poison);
    *inverse = most > 0.0f && clean == 0.0f ? 127.0f / most : 0.0f;
    if (!(*inverse < 1e38f)) *inverse = 0.0f;  // a block of denormals is a block of zeros
    return clean == 0.0f ? most / 127.0f : clean;
}

// 16 columns to words that are `rows` words apart; their sum.
static inline int16_t quantise_16(const float* x, float inverse, int rows, int8_t* to) {
    int sum = 0;
    for (int half = 0; half < 2; half++) {
        const v8i q = inverse == 0.0f ? v8i{} : round8(load8(x + 8 * half) * fill8(inverse));
        const v8b bytes = __builtin_convertvector(q, v8b);
        int8_t both[8];
        memcpy(both, &bytes, 8);
        memcpy(to + 8 * half * rows, both, 4);
        memcpy(to + (8 * half + 4) * rows, both + 4, 4);
        for (int i = 0; i < 8; i++) sum += q[i];
    }
    return static_cast<int16_t>(sum);
}

// One of `rows` rows that are multiplied together; `to` is at its first words.
static void quantise_row(const float* x, int columns, int block, int rows, const Quantised& to) {
    for (int b = 0; b < columns / block; b++) {
        float inverse;
        to.scale[b * rows] = block_scale(x + b * block, block, &inverse);
        for (int k = b * block; k < (b + 1) * block; k += 32) {
            const int16_t first = quantise_16(x + k, inverse, rows, to.q + k * rows);
            const int16_t second = quantise_16(x + k + 16, inverse, rows, to.q + (k + 16) * rows);
            const int n = k / 32;
            to.sum16[2 * n * rows] = first;
            to.sum16[2 * n * rows + 1] = second;
            to.sum32[n / 2 * 2 * rows + n % 2] = static_cast<int16_t>(first + second);
        }
    }
}

// Row m of `count`, which are multiplied `tile` at a time.
static inline void quantise_in_tile(const float* x, int columns, int block, int m, int count, int tile,
                                    const Quantised& all) {
    const int first = m / tile * tile, rows = count - first < tile ? count - first : tile;
    const Quantised to = at_row(all, first, columns, block);
    const int i = m - first;
    quantise_row(x, columns, block, rows, {to.q + 4 * i, to.scale + i, to.sum16 + 2 * i, to.sum32 + 2 * i});
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
