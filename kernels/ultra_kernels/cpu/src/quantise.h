// Activations to int8: one scale for every 32 (or 256) values, the largest becoming 127, and sums for the
// formats whose weights have an offset or a minimum.
#pragma once
#include <cmath>

#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

static inline int kind_of(int32_t format) {  // block of the activations; 0: they stay float32
    if (format == MXFP4) return 32;
    return format <= BF16 || format == FP8_BLOCK ? 0 : format <= Q5_1 ? 32 : 256;
}

// Columns that share a word of `centre`, and the middle of the quants of weights that are CENTRED (formats.h).
static inline int centred_columns(int block) { return block == 32 ? 32 : 16; }
static inline int middle_of(int block) { return block == 32 ? 16 : 32; }

// What sums of products begin with for weights that lie around `middle`, so that they end as if it were zero:
// `even` and `odd` are the sums of the first two columns of every word and of the last two.
static inline int32_t centre_of(int middle, int even, int odd) {
    if (!NARROW) return -middle * (even + odd);
    return static_cast<int32_t>((static_cast<uint32_t>(-middle * even) & 0xffff) |
                                static_cast<uint32_t>(-middle * odd) << 16);
}

// The rows from `row` on, the first of those that are multiplied together.
static inline Quantised at_row(const Quantised& a, int64_t row, int64_t columns, int block) {
    return {a.q + row * columns, a.scale + row * (columns / block), a.sums + row * ((columns / 32 + 1) / 2 * 2),
            a.centre + row * (columns / centred_columns(block))};
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

struct Pair { int even, odd; };  // sums of the first two columns of every word, and of the last two

// 16 columns to words that are `rows` words apart.
static inline Pair quantise_16(const float* x, float inverse, int rows, int8_t* to) {
    v8i sums = {};
    for (int half = 0; half < 2; half++) {
        const v8i q = inverse == 0.0f ? v8i{} : round8(load8(x + 8 * half) * fill8(inverse));
        const v8b bytes = __builtin_convertvector(q, v8b);
        int8_t both[8];
        memcpy(both, &bytes, 8);
        memcpy(to + 8 * half * rows, both, 4);
        memcpy(to + (8 * half + 4) * rows, both + 4, 4);
        sums += q;
    }
    return {sums[0] + sums[1] + sums[4] + sums[5], sums[2] + sums[3] + sums[6] + sums[7]};
}

// One of `rows` rows that are multiplied together; `to` is at its first words.
static void quantise_row(const float* x, int columns, int block, int rows, const Quantised& to) {
    for (int b = 0; b < columns / block; b++) {
        float inverse;
        to.scale[b * rows] = block_scale(x + b * block, block, &inverse);
        for (int k = b * block; k < (b + 1) * block; k += 32) {
            const Pair a = quantise_16(x + k, inverse, rows, to.q + k * rows);
            const Pair z = quantise_16(x + k + 16, inverse, rows, to.q + (k + 16) * rows);
            const int n = k / 32, middle = middle_of(block);
            const Pair both = {a.even + z.even, a.odd + z.odd};
            to.sums[n / 2 * 2 * rows + n % 2] = static_cast<int16_t>(both.even + both.odd);
            if (block == 32) {
                to.centre[n * rows] = centre_of(middle, both.even, both.odd);
            } else {
                to.centre[2 * n * rows] = centre_of(middle, a.even, a.odd);
                to.centre[(2 * n + 1) * rows] = centre_of(middle, z.even, z.odd);
            }
        }
    }
}

// Row m of `count`, which are multiplied `tile` at a time.
static inline void quantise_in_tile(const float* x, int columns, int block, int m, int count, int tile,
                                    const Quantised& all) {
    const int first = m / tile * tile, rows = count - first < tile ? count - first : tile;
    const Quantised to = at_row(all, first, columns, block);
    const int i = m - first;
    quantise_row(x, columns, block, rows, {to.q + 4 * i, to.scale + i, to.sums + 2 * i, to.centre + i});
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
