// Products of weights and rows: what the ops that multiply are made of.
#pragma once
#include "dots_float.h"
#include "dots_fp8.h"
#include "layout.h"
#include "quantise.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Inputs {  // rows of activations in every form that was asked for
    const float* x;
    int columns, count;
};

// Quantise the inputs for weights of `format`, unless this thread has done so for this node already.
static void prepare(const Inputs& in, int32_t format, Scratch& s) {
    const int block = kind_of(format);
    const uint32_t bit = block == 0 ? 0 : block == 32 ? 1 : 2;
    if ((s.ready & bit) == bit) return;
    const Quantised& to = block == 32 ? s.by32 : s.by256;
    for (int m = 0; m < in.count; m++)
        quantise_row(in.x + static_cast<int64_t>(m) * in.columns, in.columns, block,
                     at_row(to, m, in.columns, block));
    s.ready |= bit;
}

static void group(const Buffer& w, const uint8_t* const* rows, const Inputs& in, float* out, Scratch& s) {
    switch (w.format) {
        case F32: return group_float<F32>(rows, in.x, in.columns, in.columns, in.count, out);
        case F16: return group_float<F16>(rows, in.x, in.columns, in.columns, in.count, out);
        case BF16: return group_float<BF16>(rows, in.x, in.columns, in.columns, in.count, out);
        case FP8_BLOCK: return group_fp8(rows, in.x, in.columns, in.columns, in.count, out);
        default: break;
    }
    const Quantised& x = kind_of(w.format) == 32 ? s.by32 : s.by256;
    group_integer(w.format, rows, x, in.columns, in.count, out, s.panel, 8 * w.row_bytes);
}

// Weight rows [first, first + 8) of which those from `end` on do not count: they repeat the last one.
static inline void rows_of(const Buffer& w, int first, int end, const uint8_t** rows) {
    for (int r = 0; r < 8; r++) {
        const int row = first + r < end ? first + r : end - 1;
        rows[r] = static_cast<const uint8_t*>(w.data) + row * w.row_bytes;
    }
}

// For weight rows [start, end): store(m, row, product) for every input row m.
template <class Store>
static void linear(const Buffer& w, int start, int end, const Inputs& in, Scratch& s, Store store) {
    prepare(in, w.format, s);
    for (int first = start; first < end; first += 8) {
        const uint8_t* rows[8];
        rows_of(w, first, end, rows);
        group(w, rows, in, s.tile, s);
        const int valid = end - first < 8 ? end - first : 8;
        for (int m = 0; m < in.count; m++)
            for (int r = 0; r < valid; r++) store(m, first + r, s.tile[8 * m + r]);
    }
}

static inline float mean_square(const float* x, int n) {
    v8 sum = fill8(0.0f);
    int i = 0;
    for (; i + 8 <= n; i += 8) sum = fma8(load8(x + i), load8(x + i), sum);
    float rest = 0.0f;
    for (; i < n; i++) rest += x[i] * x[i];
    return (sum8(sum) + rest) / static_cast<float>(n);
}

static inline void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
    const float factor = 1.0f / sqrtf(mean_square(x, n) + eps);
    for (int i = 0; i < n; i++) out[i] = x[i] * factor * weight[i];
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
