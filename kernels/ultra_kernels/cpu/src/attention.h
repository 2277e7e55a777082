// Attention over the paged KV. Keys come in pieces of PIECE positions; pieces with the same remainder modulo SPLITS
// are gone through together, one KV block after another, with a running maximum; then the remainders are merged in
// order. All of that is fixed by positions alone, so a row's bits depend on nothing else.
#pragma once
#include <cmath>

#include "layout.h"
#include "simd.h"

namespace ultra {
namespace ULTRA_LEVEL {

constexpr int PIECE = 256, SPLITS = 8;  // program.py has them too
constexpr int TOGETHER = KV_BLOCK;      // rows that share what is loaded

struct Pages {  // keys or values of one sequence and one head
    const uint16_t* data;
    const int32_t* blocks;
    int64_t position;  // halves from one position to the next
    int dim;

    // The positions of one block, widened: [KV_BLOCK][dim].
    void widen(int block, float* to) const {
        const uint16_t* from = data + static_cast<int64_t>(blocks[block]) * KV_BLOCK * position;
        for (int slot = 0; slot < KV_BLOCK; slot++, from += position, to += dim) {
            int i = 0;
            for (; i + 8 <= dim; i += 8) store8(to + i, load_half8(from + i));
            for (; i < dim; i++) to[i] = half_to_float(from[i]);
        }
    }
};

// What a row sees: positions [first, last], in pieces [from, to].
struct View {
    int first, last, from, to;
    View(int position, int window)
        : first(window && position >= window ? position - window + 1 : 0),
          last(position),
          from(first / PIECE),
          to(last / PIECE) {}
    bool whole() const { return from == to; }
    // The first piece with this remainder; behind the last if there is none.
    int piece(int remainder) const { return from + (remainder - from % SPLITS + SPLITS) % SPLITS; }
};

// The remainder that tile unit `split` takes of a row: they rotate, so that every unit has rows to do.
static inline int remainder_of(int split, int position) { return (split + position / TOGETHER) % SPLITS; }

// The running state of one row and one query head is dim + 2 floats: the mix of the values seen, weighted with
// e^(score - most); `most`, the largest score; the sum of the weights.
static inline void begin(float* state, int dim) {
    memset(state, 0, sizeof(float) * static_cast<size_t>(dim + 2));
    state[dim] = -INFINITY;
}

// q times four keys that lie `dim` apart.
static inline void four_dots(const float* q, const float* keys, int dim, float* out) {
    v8 sums[4] = {};
    float rest[4] = {};
    int i = 0;
    for (; i + 8 <= dim; i += 8) {
        const v8 x = load8(q + i);
        for (int k = 0; k < 4; k++) sums[k] = fma8(x, load8(keys + k * dim + i), sums[k]);
    }
    for (; i < dim; i++)
        for (int k = 0; k < 4; k++) rest[k] += q[i] * keys[k * dim + i];
    const v8 ab = __builtin_shufflevector(sums[0], sums[1], 0, 8, 2, 10, 4, 12, 6, 14) +
                  __builtin_shufflevector(sums[0], sums[1], 1, 9, 3, 11, 5, 13, 7, 15);
    const v8 cd = __builtin_shufflevector(sums[2], sums[3], 0, 8, 2, 10, 4, 12, 6, 14) +
                  __builtin_shufflevector(sums[2], sums[3], 1, 9, 3, 11, 5, 13, 7, 15);
    const v8 all = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                   __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    for (int k = 0; k < 4; k++) out[k] = all[k] + all[4 + k] + rest[k];
}

// Columns [i, i + 8 * COUNT) of mix_in.
template <int COUNT>
static inline void mix_columns(float* mix, float shrink, const float* values, const float* weights, int from,
                               int to, int n) {
    v8 sums[COUNT];
    for (int k = 0; k < COUNT; k++) sums[k] = load8(mix + 8 * k) * fill8(shrink);
    for (int slot = from; slot < to; slot++) {
        const v8 weight = fill8(weights[slot]);
        for (int k = 0; k < COUNT; k++) sums[k] = fma8(weight, load8(values + slot * n + 8 * k), sums[k]);
    }
    for (int k = 0; k < COUNT; k++) store8(mix + 8 * k, sums[k]);
}

// mix = mix * shrink + the weighted values of slots [from, to), which lie `n` floats apart.
static inline void mix_in(float* mix, float shrink, const float* values, const float* weights, int from, int to,
                          int n) {
    int i = 0;
    for (; i + 64 <= n; i += 64) mix_columns<8>(mix + i, shrink, values + i, weights, from, to, n);
    for (; i + 8 <= n; i += 8) mix_columns<1>(mix + i, shrink, values + i, weights, from, to, n);
    for (; i < n; i++) {
        float sum = mix[i] * shrink;
        for (int slot = from; slot < to; slot++) sum += weights[slot] * values[slot * n + i];
        mix[i] = sum;
    }
}

static inline float max_of(v8 v) {
    v = max8(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = max8(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = max8(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
    return v[0];
}

// Scores of 16 keys become weights; the running maximum and sum follow. Returns what older sums shrink by.
static inline float soften(float* scores, float* most, float* sum) {
    v8 a = load8(scores), b = load8(scores + 8);
    const float top = max_of(max8(a, b)), peak = top > *most ? top : *most;
    a = exp8(a - fill8(peak));
    b = exp8(b - fill8(peak));
    store8(scores, a);
    store8(scores + 8, b);
    const float shrink = exp1(*most - peak);
    *sum = *sum * shrink + sum8(a + b);
    *most = peak;
    return shrink;
}

// One KV block, widened, joins the state of a row and a query head; slots [from, to) are seen.
static inline void see(const float* q, const float* keys, const float* values, const Node& n, int from, int to,
                       float* state) {
    float scores[KV_BLOCK];
    for (int slot = 0; slot < KV_BLOCK; slot += 4) four_dots(q, keys + slot * n.head_dim, n.head_dim, scores + slot);
    for (int slot = 0; slot < KV_BLOCK; slot++)
        scores[slot] = slot >= from && slot < to ? scores[slot] * n.scale : -INFINITY;
    const float shrink = soften(scores, state + n.value_dim, state + n.value_dim + 1);
    mix_in(state, shrink, values, scores, from, to, n.value_dim);
}

// The states of one row and head, `count` of them, to the mix of values. A sink takes its share of the weights.
static inline void merge(const float* const* states, int count, const float* sink, int dim, float* out) {
    float most = sink ? *sink : -INFINITY;
    for (int i = 0; i < count; i++) most = states[i][dim] > most ? states[i][dim] : most;
    float sum = sink ? exp1(*sink - most) : 0.0f, factors[SPLITS];
    for (int i = 0; i < count; i++) {
        factors[i] = exp1(states[i][dim] - most);
        sum += states[i][dim + 1] * factors[i];
    }
    for (int i = 0; i < count; i++) factors[i] /= sum;
    for (int k = 0; k < dim; k++) {
        float mixed = 0.0f;
        for (int i = 0; i < count; i++) mixed += states[i][k] * factors[i];
        out[k] = mixed;
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
