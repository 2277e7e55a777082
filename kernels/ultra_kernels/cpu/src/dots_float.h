// LANES weight rows of float32, float16 or bfloat16 against float32 rows.
#pragma once
#include "decode.h"
#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

template <int FORMAT>
static inline v8 load_weights8(const uint8_t* p) {
    if constexpr (FORMAT == F32) return load8(reinterpret_cast<const float*>(p));
    if constexpr (FORMAT == F16) {
        uint16_t h[8];
        memcpy(h, p, 16);
        return load_half8(h);
    }
    typedef uint16_t v8h __attribute__((vector_size(16)));
    v8h h;
    memcpy(&h, p, 16);
    return (v8)(__builtin_convertvector(h, v8i) << 16);
}

// One weight row, M rows of activations; every pair has four chains of its own, so M changes nothing.
template <int FORMAT, int M>
static inline void dots_float(const uint8_t* w, const float* x, int64_t stride, int columns, float* out) {
    const int bytes = FORMAT == F32 ? 4 : 2, whole = columns / 32 * 32;
    v8 sums[M][4];
    for (int m = 0; m < M; m++)
        for (int i = 0; i < 4; i++) sums[m][i] = fill8(0.0f);
    for (int k = 0; k < whole; k += 32)
        for (int i = 0; i < 4; i++) {
            const v8 weights = load_weights8<FORMAT>(w + static_cast<int64_t>(k + 8 * i) * bytes);
            for (int m = 0; m < M; m++)
                sums[m][i] = fma8(weights, load8(x + m * stride + k + 8 * i), sums[m][i]);
        }
    for (int m = 0; m < M; m++) {
        float rest = 0.0f;
        for (int k = whole; k < columns; k++)
            rest += decode_float(FORMAT, w + static_cast<int64_t>(k) * bytes) * x[m * stride + k];
        out[LANES * m] = sum8((sums[m][0] + sums[m][1]) + (sums[m][2] + sums[m][3])) + rest;
    }
}

template <int FORMAT>
static void group_of_float(const uint8_t* const* rows, const float* x, int64_t stride, int columns, int count,
                        float* out) {
    for (int r = 0; r < LANES; r++) {
        int m = 0;
        for (; m + 2 <= count; m += 2)
            dots_float<FORMAT, 2>(rows[r], x + m * stride, stride, columns, out + LANES * m + r);
        if (m < count) dots_float<FORMAT, 1>(rows[r], x + m * stride, stride, columns, out + LANES * m + r);
    }
}

static void group_float(int32_t format, const uint8_t* const* rows, const float* x, int64_t stride, int columns,
                        int count, float* out) {
    switch (format) {
        case F32: return group_of_float<F32>(rows, x, stride, columns, count, out);
        case F16: return group_of_float<F16>(rows, x, stride, columns, count, out);
        default: return group_of_float<BF16>(rows, x, stride, columns, count, out);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
