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

// Copies of the rows of some pairs, and a scratch that multiplies them.
static Scratch pick(const Inputs& all, const int32_t* pairs, int count, int top_k, const Scratch& s) {
    for (int i = 0; i < count; i++)
        memcpy(s.picked + static_cast<int64_t>(i) * all.columns, all.x + static_cast<int64_t>(pairs[i] / top_k) * all.columns,
               sizeof(float) * static_cast<size_t>(all.columns));
    Scratch mine = s;
    mine.by32 = s.picked32;
    mine.by256 = s.picked256;
    mine.ready = 0;
    return mine;
}

static inline v8 act8(const Node& n, v8 gate, v8 up) {
    const v8 one = fill8(1.0f), most = fill8(n.limit), least = -most;
    if (n.limit == 0.0f) return gate / (one + exp8(-gate)) * up;
    gate = gate > most ? most : gate;
    up = up > most ? most : up < least ? least : up;
    return (up + one) * gate / (one + exp8(fill8(-n.alpha) * gate));
}

// u, which holds the gates, becomes act(u, up).
static void activate(const Node& n, float* u, const float* up, int count) {
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
    if (all.count == 1) {  // one row needs no picking
        prepare(all, gate.format, s);
        prepare(all, up.format, s);
    }
    const Pairs pairs = by_expert(t, t.integers(2), s);
    const int width = t.end - t.start;
    const int64_t wide = t.node.extent;
    float *bias_g = s.heads, *bias_u = bias_g + width, *ups = bias_u + width, *u = t.floats(7) + t.start;
    each_expert(t, pairs, [&](int e, int from, int count) {
        const int32_t* chosen = pairs.order + from;
        Scratch mine = all.count == 1 ? s : pick(all, chosen, count, t.node.top_k, s);
        const Inputs in = all.count == 1 ? all : Inputs{s.picked, all.columns, count};
        expert_linear(t, 3, 5, e, in, mine, bias_g, [=](int i, int c, float y) { u[chosen[i] * wide + c] = y; });
        expert_linear(t, 4, 6, e, in, mine, bias_u, [=](int i, int c, float y) { ups[i * width + c] = y; });
        for (int i = 0; i < count; i++) activate(t.node, u + chosen[i] * wide, ups + i * width, width);
    });
    for (int i = pairs.first[t.node.experts]; i < pairs.count; i++)
        for (int c = 0; c < width; c++) u[pairs.order[i] * wide + c] = NAN;
}

static void expert_down_add(const Tile& t, Scratch& s) {
    const Pairs pairs = by_expert(t, t.integers(1), s);
    const int top_k = t.node.top_k, columns = t.buffer(3).columns, width = t.end - t.start;
    const int32_t format = t.buffer(3).format;
    const int64_t size = columns;
    float *bias = s.heads, *products = bias + width;
    if (!holds(t, s)) {  // all inputs, in the order of `pairs`; those of one expert are multiplied together
        for (int i = 0; i < pairs.count; i++)
            memcpy(s.normed + i * size, t.floats(0) + pairs.order[i] * size, sizeof(float) * static_cast<size_t>(size));
        each_expert(t, pairs, [&](int, int from, int count) {
            prepare_at({s.normed + from * size, columns, count}, format, at_row(s.by32, from, columns, 32),
                       at_row(s.by256, from, columns, 256));
        });
    }
    each_expert(t, pairs, [&](int e, int from, int count) {
        const int32_t* chosen = pairs.order + from;
        const Inputs in = {s.normed + from * size, columns, count};
        Scratch mine = s;
        mine.by32 = at_row(s.by32, from, columns, 32);
        mine.by256 = at_row(s.by256, from, columns, 256);
        mine.ready = ~0u;
        expert_linear(t, 3, 4, e, in, mine, bias, [=](int i, int c, float y) {
            products[static_cast<int64_t>(chosen[i]) * width + c] = y;
        });
    });
    for (int i = pairs.first[t.node.experts]; i < pairs.count; i++)
        for (int c = 0; c < width; c++) products[static_cast<int64_t>(pairs.order[i]) * width + c] = NAN;
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

}  // namespace ULTRA_LEVEL
}  // namespace ultra
