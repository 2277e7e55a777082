// ATTENTION and ATTENTION_MERGE: which rows, heads and positions meet when.
#pragma once
#include "attention.h"
#include "tile.h"

namespace ultra {
namespace ULTRA_LEVEL {

// Neighbouring rows [first, last) that share sequence, splits and memory.
struct Batch { int first, last; };

static Batch batch_from(const Tile& t, int first) {
    const int32_t *positions = t.integers(3), *sequences = t.integers(4);
    int last = first + 1;
    while (last < t.step.rows && last - first < TOGETHER && sequences[last] == sequences[first] &&
           positions[last] / TOGETHER == positions[first] / TOGETHER)
        last++;
    return {first, last};
}

// The state of one row, remainder and query head in the buffer of a slot.
static inline float* part_of(const Tile& t, int slot, int row, int remainder, int query) {
    const int64_t place = (static_cast<int64_t>(row) * SPLITS + remainder) * t.node.heads + query;
    return t.floats(slot) + place * (t.node.value_dim + 2);
}

// What is left of `split` for one KV head and a batch of rows: either the end result, or parts for the merge.
static void finish_split(const Tile& t, int head, int row, int remainder, const float* states) {
    const Node& n = t.node;
    const View view(t.integers(3)[row], n.window);
    const int queries = n.heads / n.kv_heads, dim = n.value_dim;
    for (int g = 0; g < queries; g++) {
        const int query = head * queries + g;
        if (view.whole()) {
            const float* only = states + g * (dim + 2);
            merge(&only, 1, t.has(6) ? t.floats(6) + query : nullptr, dim, t.floats(7, row) + query * dim);
        } else {
            memcpy(part_of(t, 8, row, remainder, query), states + g * (dim + 2),
                   sizeof(float) * static_cast<size_t>(dim + 2));
        }
    }
}

// One KV block for all rows of a batch that see some of it.
static void see_block(const Tile& t, int head, const Batch& batch, int block, const float* keys, const float* values,
                      float* states) {
    const Node& n = t.node;
    const int queries = n.heads / n.kv_heads, base = block * KV_BLOCK;
    for (int m = batch.first; m < batch.last; m++) {
        const View view(t.integers(3)[m], n.window);
        const int from = view.first > base ? view.first - base : 0;
        const int to = view.last - base + 1 < KV_BLOCK ? view.last - base + 1 : KV_BLOCK;
        if (from >= to) continue;
        for (int g = 0; g < queries; g++)
            see(t.floats(0, m) + (head * queries + g) * n.head_dim, keys, values, n, from, to,
                states + ((m - batch.first) * queries + g) * (n.value_dim + 2));
    }
}

static void attend(const Tile& t, int head, int split, const Batch& batch, Scratch& s) {
    const Node& n = t.node;
    const int queries = n.heads / n.kv_heads, count = (batch.last - batch.first) * queries;
    const int32_t* positions = t.integers(3) + batch.first;
    const View oldest(positions[0], n.window), newest(positions[batch.last - batch.first - 1], n.window);
    const int remainder = remainder_of(split, positions[0]);
    if (oldest.piece(remainder) > newest.to) return;
    const int size = n.value_dim + 2;
    float *states = s.heads, *keys = states + count * size, *values = keys + KV_BLOCK * n.head_dim;
    for (int i = 0; i < count; i++) begin(states + i * size, n.value_dim);
    const int32_t* blocks = t.integers(5) + t.integers(4)[batch.first] * static_cast<int64_t>(t.step.table_width);
    const auto pages = [&](int slot, int dim) {
        const uint16_t* data = static_cast<const uint16_t*>(t.buffer(slot).data) + static_cast<int64_t>(head) * dim;
        return Pages{data, blocks, static_cast<int64_t>(n.kv_heads) * dim, dim};
    };
    for (int piece = oldest.piece(remainder); piece <= newest.to; piece += SPLITS)
        for (int position = piece * PIECE; position < (piece + 1) * PIECE && position <= newest.last; position += KV_BLOCK) {
            if (position + KV_BLOCK <= oldest.first) continue;
            pages(1, n.head_dim).widen(position / KV_BLOCK, keys);
            pages(2, n.value_dim).widen(position / KV_BLOCK, values);
            see_block(t, head, batch, position / KV_BLOCK, keys, values, states);
        }
    for (int m = batch.first; m < batch.last; m++) {
        const View view(t.integers(3)[m], n.window);
        if (view.piece(remainder) <= view.to)
            finish_split(t, head, m, remainder, states + (m - batch.first) * queries * size);
    }
}

static void attention(const Tile& t, Scratch& s) {
    for (int unit = t.start; unit < t.end; unit++)
        for (Batch batch = {0, 0}; batch.last < t.step.rows;) {
            batch = batch_from(t, batch.last);
            attend(t, unit / SPLITS, unit % SPLITS, batch, s);
        }
}

static void attention_merge(const Tile& t, Scratch&) {
    const Node& n = t.node;
    const int dim = n.value_dim;
    for (int m = 0; m < t.step.rows; m++) {
        const View view(t.integers(1)[m], n.window);
        if (view.whole()) continue;
        for (int head = t.start; head < t.end; head++) {
            const float* states[SPLITS];
            int count = 0;
            for (int r = 0; r < SPLITS; r++)
                if (view.piece(r) <= view.to) states[count++] = part_of(t, 0, m, r, head);
            merge(states, count, t.has(2) ? t.floats(2) + head : nullptr, dim, t.floats(3, m) + head * dim);
        }
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
