// Attention over the paged KV: for every row one pass over its keys, 16 positions at a time (blocks are fixed
// by position, so the order of every sum is too), with a running maximum.
#pragma once
#include <cmath>

#include "layout.h"
#include "simd.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Pages {  // the KV of one sequence, one head
    const int32_t* blocks;
    int64_t position, head;  // distance of two positions; offset of the head; in halves
    const uint16_t* at(const Buffer& cache, int slot) const {
        const int64_t place = static_cast<int64_t>(blocks[slot / KV_BLOCK]) * KV_BLOCK + slot % KV_BLOCK;
        return static_cast<const uint16_t*>(cache.data) + place * position + head;
    }
};

static inline void widen(const uint16_t* from, int dim, float* to) {
    int i = 0;
    for (; i + 8 <= dim; i += 8) store8(to + i, load_half8(from + i));
    for (; i < dim; i++) to[i] = half_to_float(from[i]);
}

static inline float dot_float(const float* a, const float* b, int n) {
    v8 even = fill8(0.0f), odd = fill8(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        even = fma8(load8(a + i), load8(b + i), even);
        odd = fma8(load8(a + i + 8), load8(b + i + 8), odd);
    }
    float rest = 0.0f;
    for (; i < n; i++) rest += a[i] * b[i];
    return sum8(even + odd) + rest;
}

// mix = mix * shrink + the weighted values of slots [from, to), which lie `n` floats apart.
static inline void mix_in(float* mix, float shrink, const float* values, const float* weights, int from, int to,
                          int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        v8 sum = load8(mix + i) * fill8(shrink);
        for (int slot = from; slot < to; slot++) sum = fma8(fill8(weights[slot]), load8(values + slot * n + i), sum);
        store8(mix + i, sum);
    }
    for (; i < n; i++) {
        float sum = mix[i] * shrink;
        for (int slot = from; slot < to; slot++) sum += weights[slot] * values[slot * n + i];
        mix[i] = sum;
    }
}

// Scores of 16 keys become weights; the running maximum and sum follow. Returns what older sums shrink by.
static inline float soften(float* scores, float* most, float* sum) {
    v8 a = load8(scores), b = load8(scores + 8);
    const v8 top = max8(a, b);
    float peak = *most;
    for (int i = 0; i < 8; i++) peak = top[i] > peak ? top[i] : peak;
    a = exp8(a - fill8(peak));
    b = exp8(b - fill8(peak));
    store8(scores, a);
    store8(scores + 8, b);
    const float shrink = exp8(fill8(*most - peak))[0];
    *sum = *sum * shrink + sum8(a + b);
    *most = peak;
    return shrink;
}

// One row, one KV head: `queries` query heads of `dim` from q, the mix of values to out.
// `memory` has room for (dim + 18) * queries + 16 * dim floats.
static void attend(const Node& n, const Buffer& keys, const Buffer& values, const Pages& pages, int position,
                   const float* q, float* out, float* memory) {
    const int dim = n.head_dim, queries = n.heads / n.kv_heads;
    float *scores = memory, *most = scores + KV_BLOCK * queries, *sums = most + queries;
    float *mix = sums + queries, *wide = mix + static_cast<int64_t>(queries) * dim;
    for (int g = 0; g < queries; g++) most[g] = -INFINITY, sums[g] = 0.0f;
    memset(mix, 0, sizeof(float) * static_cast<size_t>(queries * dim));
    const int first = n.window && position >= n.window ? position - n.window + 1 : 0;
    for (int base = first / KV_BLOCK * KV_BLOCK; base <= position; base += KV_BLOCK) {
        const int from = base > first ? 0 : first - base;
        const int to = base + KV_BLOCK <= position ? KV_BLOCK : position + 1 - base;
        for (int i = 0; i < KV_BLOCK * queries; i++) scores[i] = -INFINITY;
        for (int slot = from; slot < to; slot++) {
            widen(pages.at(keys, base + slot), dim, wide);
            for (int g = 0; g < queries; g++)
                scores[KV_BLOCK * g + slot] = dot_float(q + g * dim, wide, dim) * n.scale;
        }
        for (int slot = from; slot < to; slot++) widen(pages.at(values, base + slot), dim, wide + slot * dim);
        for (int g = 0; g < queries; g++) {
            const float shrink = soften(scores + KV_BLOCK * g, most + g, sums + g);
            mix_in(mix + g * dim, shrink, wide, scores + KV_BLOCK * g, from, to, dim);
        }
    }
    for (int g = 0; g < queries; g++)
        for (int i = 0; i < dim; i++) out[g * dim + i] = mix[g * dim + i] / sums[g];
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
