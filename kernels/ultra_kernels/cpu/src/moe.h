// The mixture of experts. A pair is one choice of one row: pair p is slot p % top_k of row p / top_k.
// A tile is a range of columns for all experts, so that tiles are equal whatever the router says, and every
// expert's share of the weights is read once for all rows that chose it.
#pragma once
#include "pack.h"
#include "tile.h"

namespace ultra {
namespace ULTRA_LEVEL {

// The ids of the `count` highest choices, best first, the lower id first among equals; all within range.
template <class Choice>
static void highest(int experts, int count, Choice choice, int32_t* ids) {
    int have = 0;
    for (int e = 0; e < experts; e++) {
        if (have == count && !(choice(e) > choice(ids[have - 1]))) continue;
        int at = have < count ? have++ : have - 1;
        for (; at > 0 && choice(e) > choice(ids[at - 1]); at--) ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

// What the chosen weigh, from the logits (or their sigmoids) in `score`.
static void weigh(const Node& n, const float* score, const int32_t* ids, float* gates) {
    const float most = score[ids[0]];
    float sum = 0.0f;
    for (int k = 0; k < n.top_k; k++) gates[k] = n.scoring == SIGMOID ? score[ids[k]] : exp1(score[ids[k]] - most);
    if (n.scoring == SOFTMAX)
        for (int e = 0; e < n.experts; e++) sum += exp1(score[e] - most);
    if (n.scoring == CHOSEN)
        for (int k = 0; k < n.top_k; k++) sum += gates[k];
    if (n.scoring != SIGMOID)
        for (int k = 0; k < n.top_k; k++) gates[k] /= sum;
    float total = 1e-20f;
    for (int k = 0; k < n.top_k; k++) total += gates[k];
    for (int k = 0; k < n.top_k; k++) gates[k] = (n.normalise ? gates[k] / total : gates[k]) * n.scale;
}

static void choose(const Node& n, float* score, const float* correction, int32_t* ids, float* gates) {
    if (n.scoring == SIGMOID)
        for (int e = 0; e < n.experts; e++) score[e] = 1.0f / (1.0f + exp1(-score[e]));
    const auto choice = [=](int e) { return correction ? score[e] + correction[e] : score[e]; };
    highest(n.experts, n.top_k, choice, ids);
    weigh(n, score, ids, gates);
    bool sound = true;
    for (int e = 0; e < n.experts; e++) sound &= choice(e) == choice(e);
    for (int k = 0; k < n.top_k && !sound; k++) gates[k] = NAN;
}

static void route(const Tile& t, Scratch& s) {
    const Node& n = t.node;
    const int64_t rows = t.step.rows, stride = n.experts;
    const int from = static_cast<int>(t.start * rows / n.extent), to = static_cast<int>(t.end * rows / n.extent);
    const Inputs in = {s.normed, t.buffer(0).columns, to - from};
    s.node = -1;  // these rows are of no use to another share
    s.ready = 0;
    for (int m = from; m < to; m++)
        rms_norm(t.floats(0, m), t.floats(1), in.columns, n.eps,
                 s.normed + static_cast<int64_t>(m - from) * in.columns);
    const float* bias = t.has(3) ? t.floats(3) : nullptr;
    float* scores = s.heads;
    if (to > from)
        linear(t.buffer(2), 0, n.experts, in, s,
               [=](int m, int row, float y) { scores[m * stride + row] = bias ? y + bias[row] : y; });
    int32_t* ids = static_cast<int32_t*>(t.buffer(5).data);
    for (int m = from; m < to; m++)
        choose(n, scores + (m - from) * stride, t.has(4) ? t.floats(4) : nullptr,
               ids + static_cast<int64_t>(m) * n.top_k, t.floats(6, m));
}

struct Pairs {
    const int32_t *first, *order;  // expert e has order[first[e]] up to order[first[e + 1]]
    int count;
};

// The pairs by expert, in their own order within one; those whose id is no expert's come last.
static Pairs by_expert(const Tile& t, const int32_t* ids, Scratch& s) {
    const int experts = t.node.experts, count = t.step.rows * t.node.top_k;
    int32_t *first = s.pairs, *order = first + experts + 3;
    const auto bin = [=](int p) { return ids[p] >= 0 && ids[p] < experts ? ids[p] : experts; };
    memset(first, 0, sizeof(int32_t) * static_cast<size_t>(experts + 3));
    for (int p = 0; p < count; p++) first[bin(p) + 2]++;
    for (int e = 0; e <= experts; e++) first[e + 2] += first[e + 1];
    for (int p = 0; p < count; p++) order[first[bin(p) + 1]++] = p;
    return {first, order, count};
}

// run(e, from, count) for every expert that was chosen, with at most as many pairs at a time as there are rows:
// all of them, unless somebody chose an expert twice.
template <class Run>
static void each_expert(const Tile& t, const Pairs& pairs, Run run) {
    for (int e = 0; e < t.node.experts; e++)
        for (int from = pairs.first[e], end = pairs.first[e + 1]; from < end; from += t.step.rows)
            run(e, from, end - from < t.step.rows ? end - from : t.step.rows);
}

// store(m, column, product) for the tile's columns of one expert; weights in slot w, biases in slot b.
template <class Store>
static void expert_linear(const Tile& t, int w, int b, int expert, const Inputs& in, Scratch& s, float* bias,
                          Store store) {
    const int base = expert * t.node.extent, first = base + t.start;
    const bool biased = t.has(b);
    if (biased) unpack_row(t.buffer(b), expert, t.start, t.end - t.start, bias);
    linear(t.buffer(w), first, base + t.end, in, s, [=](int m, int row, float y) {
        store(m, row - first, biased ? y + bias[row - first] : y);
    });
}

// Quantise every row by itself for weights of `format`, unless this thread has done so for this node already.
static void prepare_rows(const Inputs& in, int32_t format, Scratch& s) {
    const int block = kind_of(format);
    const uint32_t bit = block == 0 ? 0 : block == 32 ? 1 : 2;
    if ((s.ready & bit) == bit) return;
    for (int m = 0; m < in.count; m++)
        quantise_row(in.x + static_cast<int64_t>(m) * in.columns, in.columns, block, 1,
                     at_row(block == 32 ? s.by32 : s.by256, m, in.columns, block));
    s.ready |= bit;
}

// Words that are `rows` words apart.
static inline void spread(const void* from, int words, int rows, void* to) {
    for (int i = 0; i < words; i++)
        memcpy(static_cast<uint8_t*>(to) + 4 * i * rows, static_cast<const uint8_t*>(from) + 4 * i, 4);
}

// Some rows that `prepare_rows` has seen, those of pairs[i] / of, as inputs of weights of `format`; `mine` says
// where they are. One row is taken where it is.
static Inputs pick(const Inputs& all, int32_t format, const int32_t* pairs, int count, int of, Scratch& mine) {
    const int block = kind_of(format);
    const int64_t columns = all.columns;
    Quantised& rows = block == 32 ? mine.by32 : mine.by256;
    const Quantised to = block == 32 ? mine.picked32 : mine.picked256;
    if (count == 1) {
        const int64_t row = pairs[0] / of;
        if (block) rows = at_row(rows, row, columns, block);
        return {all.x + row * columns, all.columns, 1};
    }
    for (int i = 0; i < count; i++) {
        const int64_t row = pairs[i] / of;
        if (block == 0) {
            memcpy(mine.picked + i * columns, all.x + row * columns, static_cast<size_t>(columns) * sizeof(float));
            continue;
        }
        const int first = i / TILE * TILE, n = i - first, some = count - first < TILE ? count - first : TILE;
        const Quantised one = at_row(rows, row, columns, block), tile = at_row(to, first, columns, block);
        spread(one.q, all.columns / 4, some, tile.q + 4 * n);
        spread(one.scale, all.columns / block, some, tile.scale + n);
        spread(one.sums, (all.columns / 32 + 1) / 2, some, tile.sums + 2 * n);
        spread(one.centre, all.columns / centred_columns(block), some, tile.centre + n);
    }
    if (block) rows = to;
    return {mine.picked, all.columns, count};
}

static inline v8 act8(const Node& n, v8 gate, v8 up) {
    const v8 one = fill8(1.0f), most = fill8(n.limit), least = -most;
    if (n.limit == 0.0f) return gate / (one + exp8(-gate)) * up;
    gate = gate > most ? most : gate;
    up = up > most ? most : up < least ? least : up;
    return (up + one) * gate / (one + exp8(fill8(-n.alpha) * gate));
}

// u, which holds the gates, becomes act(u, up).
static void act(const Node& n, float* u, const float* up, int count) {
    int i = 0;
    for (; i + 8 <= count; i += 8) store8(u + i, act8(n, load8(u + i), load8(up + i)));
    if (i == count) return;
    float rest[8] = {}, other[8] = {};
    const size_t bytes = sizeof(float) * static_cast<size_t>(count - i);
    memcpy(rest, u + i, bytes);
    memcpy(other, up + i, bytes);
    store8(rest, act8(n, load8(rest), load8(other)));
    memcpy(u + i, rest, bytes);
}

static void expert_gate_up(const Tile& t, Scratch& s) {
    const Buffer &gate = t.buffer(3), &up = t.buffer(4);
    const Inputs all = normed(t, 0, 1, nullptr, t.step.rows, s);
    prepare_rows(all, gate.format, s);
    prepare_rows(all, up.format, s);
    const Pairs pairs = by_expert(t, t.integers(2), s);
    const int width = t.end - t.start, top_k = t.node.top_k;
    const int64_t wide = t.node.extent;
    float *bias_g = s.heads, *bias_u = bias_g + width, *ups = bias_u + width, *u = t.floats(7) + t.start;
    each_expert(t, pairs, [&](int e, int from, int count) {
        const int32_t* chosen = pairs.order + from;
        Scratch mine = s;
        Inputs in = pick(all, gate.format, chosen, count, top_k, mine);
        expert_linear(t, 3, 5, e, in, mine, bias_g, [=](int i, int c, float y) { u[chosen[i] * wide + c] = y; });
        if (kind_of(up.format) != kind_of(gate.format)) in = pick(all, up.format, chosen, count, top_k, mine);
        expert_linear(t, 4, 6, e, in, mine, bias_u, [=](int i, int c, float y) { ups[i * width + c] = y; });
        for (int i = 0; i < count; i++) act(t.node, u + chosen[i] * wide, ups + i * width, width);
    });
    for (int i = pairs.first[t.node.experts]; i < pairs.count; i++)
        for (int c = 0; c < width; c++) u[pairs.order[i] * wide + c] = NAN;
}

// x += the products of every row by its gates, slot by slot.
static void add_slots(const Tile& t, const float* products) {
    const int top_k = t.node.top_k, width = t.end - t.start;
    for (int m = 0; m < t.step.rows; m++) {
        float* x = t.floats(5, m) + t.start;
        const float *gates = t.floats(2, m), *y = products + static_cast<int64_t>(m) * top_k * width;
        for (int c = 0; c < width; c++) {
            float sum = gates[0] * y[c];
            for (int k = 1; k < top_k; k++) sum += gates[k] * y[k * width + c];
            x[c] += sum;
        }
    }
}

static void expert_down_add(const Tile& t, Scratch& s) {
    const Buffer& w = t.buffer(3);
    const Inputs all = {t.floats(0), w.columns, t.step.rows * t.node.top_k};
    holds(t, s);
    prepare_rows(all, w.format, s);
    const Pairs pairs = by_expert(t, t.integers(1), s);
    const int64_t width = t.end - t.start;
    float *bias = s.heads, *products = bias + width;
    each_expert(t, pairs, [&](int e, int from, int count) {
        const int32_t* chosen = pairs.order + from;
        Scratch mine = s;
        const Inputs in = pick(all, w.format, chosen, count, 1, mine);
        expert_linear(t, 3, 4, e, in, mine, bias,
                      [=](int i, int c, float y) { products[chosen[i] * width + c] = y; });
    });
    for (int i = pairs.first[t.node.experts]; i < pairs.count; i++)
        for (int c = 0; c < width; c++) products[pairs.order[i] * width + c] = NAN;
    add_slots(t, products);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
