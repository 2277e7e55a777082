// What Python hands over: the pointer table, the nodes, the tasks, and the numbers of one step.
// The Python side is in abi.py; both must be changed together.
#pragma once
#include <cstdint>

namespace ultra {

enum Format : int32_t { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K };

enum Op : int32_t { EMBED = 1, NORM_QKV, ATTENTION, LINEAR_ADD, NORM_GATE_UP, NORM_HEAD, SAMPLE = 10 };

constexpr int32_t FAULT = 255;  // an op of the tests alone: its task throws; no program can have it

constexpr int KV_BLOCK = 16;  // positions of one KV block

struct Buffer {
    void* data;
    int64_t row_bytes;  // distance of two rows
    int32_t columns;    // elements of one row
    int32_t format;     // of weights; everything else is float32, int32 inputs or float16 KV
};

struct Node {
    int32_t op, extent;
    int32_t operands[20];  // buffer ids in the order of program.OPERANDS, -1 where absent
    int32_t heads, kv_heads, head_dim, rope_dims, interleaved, window;
    float eps, scale;
};

struct Task {
    int32_t op, node, rank, start, count, wait, need, signal;
};

struct Step {
    int32_t rows, outputs, table_width;
    uint32_t epoch;
};

// Activations as the integer kernels want them: int8 with one scale a block, and sums of the int8 values.
// One row follows another without gaps; `block` is 32 or 256.
struct Quantised {
    int8_t* q;
    float* scale;    // [columns / block]
    int16_t* sum16;  // [columns / 16]
    int16_t* sum32;  // [columns / 32]
};

// Memory of one thread. `node`, `epoch` and `ready` say whose inputs it holds, so that the next tile of the
// same node finds them prepared.
struct Scratch {
    float* normed;        // [rows][widest input]
    Quantised by32, by256;
    float* heads;         // one row of attention state, or [rows][head_dim] of k or v
    float* tile;          // [rows][8] twice
    uint8_t* panel;       // 8 weight rows, unpacked
    int32_t node;
    uint32_t epoch, ready;
};

struct Context {
    const Node* nodes;
    const Buffer* buffers;
    Step step;
};

// One instruction-set level: everything that computes, compiled with its own flags.
struct Level {
    const char* name;
    void (*execute)(const Context&, const Task&, Scratch&);
};

extern const Level portable_level;
#ifdef ULTRA_X86
extern const Level avx2_level;
#endif

}  // namespace ultra
