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

// Row `row` of activations of `columns` in blocks of `block`.
static inline Quantised at_row(const Quantised& a, int64_t row, int64_t columns, int block) {
    return {a.q + row * columns, a.scale + row * (columns / block), a.sum16 + row * (columns / 16),
            a.sum32 + row * (columns / 32)};
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

static void quantise_row(const float* x, int columns, int block, const Quantised& to) {
    for (int start = 0; start < columns; start += block) {
        float inverse;
        to.scale[start / block] = block_scale(x + start, block, &inverse);
        const v8 factor = fill8(inverse);
        for (int k = start; k < start + block; k += 16) {
            int sum = 0;
            for (int half = 0; half < 16; half += 8) {
                const v8 scaled = load8(x + k + half) * factor;
                const v8i q = inverse == 0.0f ? v8i{} : round8(scaled);
                const v8b bytes = __builtin_convertvector(q, v8b);
                memcpy(to.q + k + half, &bytes, 8);
                for (int i = 0; i < 8; i++) sum += q[i];
            }
            to.sum16[k / 16] = static_cast<int16_t>(sum);
        }
        for (int k = start / 32; k < (start + block) / 32; k++)
            to.sum32[k] = static_cast<int16_t>(to.sum16[2 * k] + to.sum16[2 * k + 1]);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
