// What Python hands over: the pointer table, the nodes, the tasks, and the numbers of one step.
// The Python side is in abi.py; both must be changed together.
#pragma once
#include <cstdint>

namespace ultra {

enum Format : int32_t { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, MXFP4, FP8_BLOCK };

enum Op : int32_t {
    EMBED = 1, NORM_QKV, ATTENTION, LINEAR_ADD, NORM_GATE_UP, NORM_HEAD, ROUTE, EXPERT_GATE_UP, EXPERT_DOWN_ADD,
    SAMPLE, ATTENTION_MERGE
};

constexpr int OPS = 16;  // more than the largest opcode
constexpr int32_t FAULT = 255;  // an op of the tests alone: its task throws; no program can have it

enum Scoring : int32_t { SOFTMAX, CHOSEN, SIGMOID };

constexpr int KV_BLOCK = 16;  // positions of one KV block

struct Buffer {
    void* data;
    int64_t row_bytes;  // distance of two rows
    int32_t columns;    // elements of one row
    int32_t format;     // of weights; everything else is float32, int32 inputs or float16 KV
    int32_t packed;     // weights in the layout of pack.h, not in that of the file
    int32_t unused;
};

struct Node {
    int32_t op, extent;
    int32_t operands[20];  // buffer ids in the order of program.OPERANDS, -1 where absent
    int32_t heads, kv_heads, head_dim, rope_dims, interleaved, window, value_dim;
    float eps, scale, value_scale;
    int32_t experts, top_k, scoring, normalise;
    float limit, alpha;
};

struct Task {
    int32_t op, node, rank, start, count, wait, need, signal;
};

struct Step {
    int32_t rows, outputs, table_width;
    uint32_t epoch;
};

// Activations as the integer kernels want them: int8 with one scale a block, and sums of the int8 values.
// Some rows that are multiplied together lie word by word: word w of row m is the (w * rows + m)th. A word is
// four columns of q, one scale, two sums, or one centre.
struct Quantised {
    int8_t* q;
    float* scale;     // of a block of 32 or 256
    int16_t* sums;    // of 32 columns
    int32_t* centre;  // of 16 columns in a block of 256, of 32 in one of 32: quantise.h says what
};

// Memory of one thread. `node`, `epoch` and `ready` say whose inputs it holds, so that the next tile of the
// same node finds them prepared.
struct Scratch {
    float* normed;        // [rows][widest input]
    Quantised by32, by256;
    float* heads;         // states of attention, or [rows][head_dim] of k or v; what moe.h keeps
    float* picked;        // rows that chose one expert
    Quantised picked32, picked256;
    int32_t* pairs;       // rows and slots by expert
    float* angles;        // [rows][rope_dims]: cosines and sines of `angles_of`, in step `angles_epoch`
    const void* angles_of;
    uint32_t angles_epoch;
    float* tile;          // [4][rows][lanes]: two groups of two matrices
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
    int32_t lanes;  // rows of a packed group
    void (*execute)(const Context&, const Task&, Scratch&);
    void (*pack)(int32_t format, int64_t rows, int64_t row_bytes, int64_t first, int64_t end, const uint8_t* from,
                 uint8_t* to);
};

extern const Level portable_level;
#ifdef ULTRA_X86
extern const Level avx2_level, avx512_level;
#endif

}  // namespace ultra
