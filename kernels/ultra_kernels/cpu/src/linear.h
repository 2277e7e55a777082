// Products of weights and rows: what the ops that multiply are made of.
#pragma once
#include "dots_float.h"
#include "dots_fp8.h"
#include "groups.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Inputs {  // rows of activations in every form that was asked for
    const float* x;
    int columns, count;
};

// Quantise the inputs for weights of `format`.
static void prepare_at(const Inputs& in, int32_t format, const Quantised& by32, const Quantised& by256) {
    const int block = kind_of(format);
    if (!block) return;
    for (int m = 0; m < in.count; m++)
        quantise_in_tile(in.x + static_cast<int64_t>(m) * in.columns, in.columns, block, m, in.count, TILE,
                         block == 32 ? by32 : by256);
}

// The same, unless this thread has done so for this node already.
static void prepare(const Inputs& in, int32_t format, Scratch& s) {
    const int block = kind_of(format);
    const uint32_t bit = block == 0 ? 0 : block == 32 ? 1 : 2;
    if ((s.ready & bit) == bit) return;
    prepare_at(in, format, s.by32, s.by256);
    s.ready |= bit;
}

// out[(i * count + m) * LANES + r] = row r of group g + i of the weights times row m, i < groups; rows from `end`
// on do not count.
static void group(const Buffer& w, int g, int groups, int end, const Inputs& in, float* out, Scratch& s) {
    const uint8_t* data = static_cast<const uint8_t*>(w.data);
    if (w.packed) {
        const Quantised& x = kind_of(w.format) == 32 ? s.by32 : s.by256;
        return groups_integer(w.format, groups, data + g * LANES * w.row_bytes, x, in.columns, in.count, out);
    }
    for (int i = 0; i < groups; i++, out += LANES * static_cast<int64_t>(in.count)) {
        const uint8_t* rows[LANES];
        for (int r = 0; r < LANES; r++) {
            const int row = (g + i) * LANES + r < end ? (g + i) * LANES + r : end - 1;
            rows[r] = data + row * w.row_bytes;
        }
        if (w.format == FP8_BLOCK) group_fp8(rows, in.x, in.columns, in.columns, in.count, out);
        else group_float(w.format, rows, in.x, in.columns, in.columns, in.count, out);
    }
}

// The part of a task that one group of weight rows is.
struct Part {
    int group, first, last;
    Part(int group, int start, int end)
        : group(group),
          first(group * LANES < start ? start : group * LANES),
          last((group + 1) * LANES < end ? (group + 1) * LANES : end) {}
};

// How many groups from `g` on are to be multiplied at once for rows up to `end`.
static inline int some_groups(const Buffer& w, int g, int end) {
    const int most = w.packed ? groups_at_once(w.format) : 1;
    return (g + most - 1) * LANES < end ? most : 1;
}

// For weight rows [start, end): store(m, row, product) for every input row m.
template <class Store>
static void linear(const Buffer& w, int start, int end, const Inputs& in, Scratch& s, Store store) {
    prepare(in, w.format, s);
    for (int g = start / LANES, groups; g * LANES < end; g += groups) {
        groups = some_groups(w, g, end);
        group(w, g, groups, end, in, s.tile, s);
        const float* from = s.tile;
        for (int i = 0; i < groups; i++) {
            const Part part(g + i, start, end);
            for (int m = 0; m < in.count; m++, from += LANES)
                for (int row = part.first; row < part.last; row++) store(m, row, from[row - part.group * LANES]);
        }
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
