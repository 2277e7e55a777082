// The ops, for one instruction-set level: compiled with -DULTRA_LEVEL=portable and, on x86-64, again as avx2
// and as avx512. Nothing with external linkage but the table at the end, and no templates of the
// standard library: the linker might keep the copy that another processor cannot run.
#include "layout.h"
#include "attention.h"
#include "linear.h"
#include "pack.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Tile {  // one task with its operands looked up
    const Context& context;
    const Node& node;
    const Step& step;
    int start, end;
    const Buffer& buffer(int slot) const { return context.buffers[node.operands[slot]]; }
    bool has(int slot) const { return node.operands[slot] >= 0; }
    float* floats(int slot, int64_t row = 0) const {
        const Buffer& b = buffer(slot);
        return static_cast<float*>(b.data) + row * b.columns;
    }
    const int32_t* integers(int slot) const { return static_cast<const int32_t*>(buffer(slot).data); }
};

// Forget what the scratch holds unless it belongs to this node and step. True if it does.
static bool holds(const Tile& t, Scratch& s) {
    const int32_t index = static_cast<int32_t>(&t.node - t.context.nodes);
    if (s.node == index && s.epoch == t.step.epoch) return true;
    s.node = index;
    s.epoch = t.step.epoch;
    s.ready = 0;
    return false;
}

// Rows of x, all or those listed, normalised by `weight`.
static Inputs normed(const Tile& t, int x, int weight, const int32_t* rows, int count, Scratch& s) {
    const int columns = t.buffer(x).columns;
    if (!holds(t, s))
        for (int m = 0; m < count; m++)
            rms_norm(t.floats(x, rows ? rows[m] : m), t.floats(weight), columns, t.node.eps,
                     s.normed + static_cast<int64_t>(m) * columns);
    return {s.normed, columns, count};
}

static void embed(const Tile& t, Scratch&) {
    for (int m = 0; m < t.step.rows; m++)
        unpack_row(t.buffer(0), t.integers(1)[m], t.start, t.end - t.start, t.floats(2, m) + t.start);
}

// RoPE angles of one position, [rope_dims / 2] cosines and as many sines.
static void rotation(const Tile& t, int position, float* cosines, float* sines) {
    for (int i = 0; i < t.node.rope_dims / 2; i++) {
        const float angle = static_cast<float>(position) * t.floats(10)[i];
        cosines[i] = cosf(angle);
        sines[i] = sinf(angle);
    }
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
static void project(const Tile& t, int which, int start, int end, const Inputs& in, float* out, int64_t stride,
                    Scratch& s) {
    const int dim = t.node.head_dim, first = start * dim, norm = 8 + which;
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

static void cache(const Tile& t, int slot, int head, int row, const float* from) {
    const Node& n = t.node;
    const int32_t position = t.integers(11)[row];
    const int32_t* blocks = t.integers(13) + t.integers(12)[row] * static_cast<int64_t>(t.step.table_width);
    const int64_t place = static_cast<int64_t>(blocks[position / KV_BLOCK]) * KV_BLOCK + position % KV_BLOCK;
    uint16_t* to = static_cast<uint16_t*>(t.buffer(slot).data) + (place * n.kv_heads + head) * n.head_dim;
    for (int i = 0; i < n.head_dim; i++) to[i] = float_to_half(from[i]);
}

static void norm_qkv(const Tile& t, Scratch& s) {
    const Node& n = t.node;
    const int dim = n.head_dim, queries = n.heads / n.kv_heads, rows = t.step.rows;
    const Inputs in = normed(t, 0, 1, nullptr, rows, s);
    const int64_t stride = static_cast<int64_t>(n.heads) * dim;
    float *kv = s.heads, *cosines = kv + static_cast<int64_t>(rows) * dim, *sines = cosines + dim;
    for (int head = t.start; head < t.end; head++) {
        float* q = t.floats(14) + static_cast<int64_t>(head) * queries * dim;
        project(t, 0, head * queries, (head + 1) * queries, in, q, stride, s);
        project(t, 1, head, head + 1, in, kv, dim, s);
        for (int m = 0; m < rows; m++) {
            rotation(t, t.integers(11)[m], cosines, sines);
            for (int g = 0; g < queries; g++) rotate(n, cosines, sines, q + m * stride + g * dim);
            rotate(n, cosines, sines, kv + static_cast<int64_t>(m) * dim);
            cache(t, 15, head, m, kv + static_cast<int64_t>(m) * dim);
        }
        project(t, 2, head, head + 1, in, kv, dim, s);
        for (int m = 0; m < rows; m++) cache(t, 16, head, m, kv + static_cast<int64_t>(m) * dim);
    }
}

static void attention(const Tile& t, Scratch& s) {
    const Node& n = t.node;
    const int wide = n.heads / n.kv_heads * n.head_dim;
    for (int head = t.start; head < t.end; head++)
        for (int m = 0; m < t.step.rows; m++) {
            const int32_t* blocks = t.integers(5) + t.integers(4)[m] * static_cast<int64_t>(t.step.table_width);
            const Pages pages = {blocks, static_cast<int64_t>(n.kv_heads) * n.head_dim,
                                 static_cast<int64_t>(head) * n.head_dim};
            attend(n, t.buffer(1), t.buffer(2), pages, t.integers(3)[m], t.floats(0, m) + head * wide,
                   t.floats(6, m) + head * wide, s.heads);
        }
}

static void linear_add(const Tile& t, Scratch& s) {
    holds(t, s);
    const Inputs in = {t.floats(0), t.buffer(0).columns, t.step.rows};
    const float* bias = t.has(2) ? t.floats(2) : nullptr;
    float* x = t.floats(3);
    const int64_t stride = t.buffer(3).columns;
    linear(t.buffer(1), t.start, t.end, in, s,
           [=](int m, int row, float y) { x[m * stride + row] += bias ? y + bias[row] : y; });
}

// Columns [part.first, part.last) of silu(g) * u; g and u hold the LANES of the part's group.
static inline void activate(const float* g, const float* u, const Part& part, float* out) {
    float both[LANES];
    for (int i = 0; i < LANES; i += 8) {
        const v8 x = load8(g + i);
        store8(both + i, x / (fill8(1.0f) + exp8(-x)) * load8(u + i));
    }
    memcpy(out + part.first, both + (part.first - part.group * LANES),
           sizeof(float) * static_cast<size_t>(part.last - part.first));
}

static void norm_gate_up(const Tile& t, Scratch& s) {
    const Inputs in = normed(t, 0, 1, nullptr, t.step.rows, s);
    const Buffer &gate = t.buffer(2), &up = t.buffer(3);
    prepare(in, gate.format, s);
    prepare(in, up.format, s);
    float *g = s.tile, *u = s.tile + GROUPS * LANES * static_cast<int64_t>(in.count);
    for (int n = t.start / LANES, groups; n * LANES < t.end; n += groups) {
        groups = gate.format == up.format ? some_groups(gate, n, t.end) : 1;
        group(gate, n, groups, t.end, in, g, s);
        group(up, n, groups, t.end, in, u, s);
        for (int i = 0; i < groups; i++) {
            const Part part(n + i, t.start, t.end);
            const int64_t at = i * LANES * static_cast<int64_t>(in.count);
            for (int m = 0; m < in.count; m++) activate(g + at + LANES * m, u + at + LANES * m, part, t.floats(4, m));
        }
    }
}

static void norm_head(const Tile& t, Scratch& s) {
    const Inputs in = normed(t, 0, 1, t.integers(3), t.step.outputs, s);
    float* logits = t.floats(4);
    const int64_t stride = t.buffer(4).columns;
    linear(t.buffer(2), t.start, t.end, in, s, [=](int m, int row, float y) { logits[m * stride + row] = y; });
}

static void execute(const Context& context, const Task& task, Scratch& s) {
    const Tile t = {context, context.nodes[task.node], context.step, task.start, task.start + task.count};
    switch (task.op) {
        case EMBED: return embed(t, s);
        case NORM_QKV: return norm_qkv(t, s);
        case ATTENTION: return attention(t, s);
        case LINEAR_ADD: return linear_add(t, s);
        case NORM_GATE_UP: return norm_gate_up(t, s);
        default: return norm_head(t, s);
    }
}

}  // namespace ULTRA_LEVEL

#define ULTRA_JOIN(a, b) a##b
#define ULTRA_TABLE(level) ULTRA_JOIN(level, _level)
#define ULTRA_QUOTE(x) #x
#define ULTRA_TEXT(x) ULTRA_QUOTE(x)
extern const Level ULTRA_TABLE(ULTRA_LEVEL) = {ULTRA_TEXT(ULTRA_LEVEL), ULTRA_LEVEL::LANES,
                                                ULTRA_LEVEL::execute, ULTRA_LEVEL::pack};

}  // namespace ultra
