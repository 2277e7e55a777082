// NORM_QKV: projections, RoPE, and the way into the KV cache.
#pragma once
#include "tile.h"

namespace ultra {
namespace ULTRA_LEVEL {

// RoPE angles of every row, [rows][rope_dims]: cosines, then sines. They are the same for all layers with the
// same frequencies.
static const float* angles_of(const Tile& t, Scratch& s) {
    const float* frequencies = t.floats(10);
    if (s.angles_of == frequencies && s.angles_epoch == t.step.epoch) return s.angles;
    const int half = t.node.rope_dims / 2;
    for (int m = 0; m < t.step.rows; m++)
        for (int i = 0; i < half; i++) {
            const float angle = static_cast<float>(t.integers(11)[m]) * frequencies[i];
            s.angles[m * 2 * half + i] = cosf(angle);
            s.angles[m * 2 * half + half + i] = sinf(angle);
        }
    s.angles_of = frequencies;
    s.angles_epoch = t.step.epoch;
    return s.angles;
}

static void rotate(const Node& n, const float* cosines, const float* sines, float* head) {
    const int half = n.rope_dims / 2;
    for (int i = 0; i < half; i++) {
        float &a = head[n.interleaved ? 2 * i : i], &b = head[n.interleaved ? 2 * i + 1 : i + half];
        const float x = a, y = b;
        a = x * cosines[i] - y * sines[i];
        b = y * cosines[i] + x * sines[i];
    }
}

// Heads [start, end) of q, k or v (slots w, b, norm) to out, rows `stride` apart; head `start` comes first.
static void project(const Tile& t, int which, int start, int end, int dim, const Inputs& in, float* out,
                    int64_t stride, Scratch& s) {
    const int first = start * dim, norm = 8 + which;
    const float* bias = t.has(5 + which) ? t.floats(5 + which) : nullptr;
    linear(t.buffer(2 + which), first, end * dim, in, s, [=](int m, int row, float y) {
        out[m * stride + row - first] = bias ? y + bias[row] : y;
    });
    if (which == 2 || !t.has(norm)) return;
    for (int m = 0; m < in.count; m++)
        for (int head = 0; head < end - start; head++) {
            float* at = out + m * stride + head * dim;
            rms_norm(at, t.floats(norm), dim, t.node.eps, at);
        }
}

// One head of k or v to the cache, at every row's position.
static void cache(const Tile& t, int slot, int head, int dim, const float* from) {
    uint16_t* data = static_cast<uint16_t*>(t.buffer(slot).data);
    for (int m = 0; m < t.step.rows; m++, from += dim) {
        const int32_t position = t.integers(11)[m];
        const int32_t* blocks = t.integers(13) + t.integers(12)[m] * static_cast<int64_t>(t.step.table_width);
        const int64_t place = static_cast<int64_t>(blocks[position / KV_BLOCK]) * KV_BLOCK + position % KV_BLOCK;
        uint16_t* to = data + (place * t.node.kv_heads + head) * dim;
        for (int i = 0; i < dim; i++) to[i] = float_to_half(from[i]);
    }
}

// `count` heads of every row, rows `stride` apart, turned to the row's position.
static void rotate_rows(const Tile& t, float* heads, int count, int64_t stride, Scratch& s) {
    const float* angles = angles_of(t, s);
    const int dims = t.node.rope_dims;
    for (int m = 0; m < t.step.rows; m++, angles += dims)
        for (int h = 0; h < count; h++)
            rotate(t.node, angles, angles + dims / 2, heads + m * stride + h * t.node.head_dim);
}

// Tile units are the heads of q, then those of k, then those of v.
static void norm_qkv(const Tile& t, Scratch& s) {
    const Node& n = t.node;
    const int dim = n.head_dim, rows = t.step.rows, keys = n.heads, values = n.heads + n.kv_heads;
    const Inputs in = normed(t, 0, 1, nullptr, rows, s);
    float* kv = s.heads;
    const int last = t.end < keys ? t.end : keys;
    if (t.start < last) {
        const int64_t stride = static_cast<int64_t>(n.heads) * dim;
        float* q = t.floats(14) + static_cast<int64_t>(t.start) * dim;
        project(t, 0, t.start, last, dim, in, q, stride, s);
        rotate_rows(t, q, last - t.start, stride, s);
    }
    for (int unit = t.start < keys ? keys : t.start; unit < t.end; unit++) {
        const int head = unit < values ? unit - keys : unit - values;
        if (unit < values) {
            project(t, 1, head, head + 1, dim, in, kv, dim, s);
            rotate_rows(t, kv, 1, dim, s);
            cache(t, 15, head, dim, kv);
        } else {
            project(t, 2, head, head + 1, n.value_dim, in, kv, n.value_dim, s);
            if (n.value_scale != 1.0f)
                for (int64_t i = 0; i < static_cast<int64_t>(rows) * n.value_dim; i++) kv[i] *= n.value_scale;
            cache(t, 16, head, n.value_dim, kv);
        }
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
