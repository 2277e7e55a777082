// The ops, for one instruction-set level: compiled with -DULTRA_LEVEL=portable and, on x86-64, again as avx2
// and as avx512. Nothing with external linkage but the table at the end, and no templates of the
// standard library: the linker might keep the copy that another processor cannot run.
#include "layout.h"
#include "attend.h"
#include "moe.h"
#include "pack.h"
#include "project.h"

namespace ultra {
namespace ULTRA_LEVEL {

static void embed(const Tile& t, Scratch&) {
    for (int m = 0; m < t.step.rows; m++)
        unpack_row(t.buffer(0), t.integers(1)[m], t.start, t.end - t.start, t.floats(2, m) + t.start);
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
        case ATTENTION_MERGE: return attention_merge(t, s);
        case LINEAR_ADD: return linear_add(t, s);
        case NORM_GATE_UP: return norm_gate_up(t, s);
        case ROUTE: return route(t, s);
        case EXPERT_GATE_UP: return expert_gate_up(t, s);
        case EXPERT_DOWN_ADD: return expert_down_add(t, s);
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
