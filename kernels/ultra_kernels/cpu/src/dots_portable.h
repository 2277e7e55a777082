// Integer products without intrinsics: one weight block is decoded for all rows.
#pragma once
#include "decode.h"
#include "quantise.h"

namespace ultra {
namespace ULTRA_LEVEL {

static inline float dot_block(const Decoded& w, const int8_t* x, const int16_t* sum32, float scale) {
    int32_t total = 0, minima = 0;
    for (int g = 0; g < w.size / w.group; g++) {
        int32_t part = 0;
        for (int i = 0; i < w.group; i++) part += w.q[g * w.group + i] * x[g * w.group + i];
        total += w.scale[g] * part;
        if (w.group == 32) minima += w.minimum[g] * sum32[g];
    }
    return scale * (w.d * static_cast<float>(total) - w.e * static_cast<float>(minima));
}

// out[m][r] = weight row r times row m, r < 8.
static void group_integer(int32_t format, const uint8_t* const* rows, const Quantised& x, int columns,
                          int count, float* out, uint8_t*, int64_t) {
    const Shape shape = shape_of(format);
    memset(out, 0, sizeof(float) * 8 * static_cast<size_t>(count));
    Decoded block;
    for (int r = 0; r < 8; r++)
        for (int b = 0; b < columns / shape.block; b++) {
            decode(format, rows[r] + static_cast<int64_t>(b) * shape.bytes, block);
            for (int m = 0; m < count; m++) {
                const Quantised row = at_row(x, m, columns, shape.block);
                const int k = b * shape.block;
                out[8 * m + r] += dot_block(block, row.q + k, row.sum32 + k / 32, row.scale[b]);
            }
        }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
