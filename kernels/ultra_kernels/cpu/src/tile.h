// A task as the ops see it, and the normalised rows that most of them begin with.
#pragma once
#include "linear.h"

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

}  // namespace ULTRA_LEVEL
}  // namespace ultra
