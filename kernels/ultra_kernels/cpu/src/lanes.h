// Vectors of LANES 32-bit numbers, one lane for each weight row of a group, and what the levels do differently
// with them: multiplying bytes. A vector of bytes is a `vi` whose lanes hold four columns of their row.
#pragma once
#include "layout.h"
#include "simd.h"

namespace ultra {
namespace ULTRA_LEVEL {

#if defined(ULTRA_AVX512)
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef int16_t vs __attribute__((vector_size(4 * LANES)));

static inline vi load_lanes(const void* p) { vi v; memcpy(&v, p, sizeof v); return v; }
static inline vf load_floats(const void* p) { vf v; memcpy(&v, p, sizeof v); return v; }
static inline void store_lanes(void* p, vf v) { memcpy(p, &v, sizeof v); }
static inline vi fill_lanes(int32_t x) { return x - vi{}; }
static inline vf fill_floats(float x) { return x - vf{}; }
static inline vf to_float(vi v) { return __builtin_convertvector(v, vf); }

// The same four bytes for every lane: activations.
static inline vi four(const void* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return fill_lanes(word);
}

// One half for each lane.
static inline vf load_halves(const uint8_t* p) {
    uint16_t h[LANES];
    memcpy(h, p, sizeof h);
#if defined(ULTRA_AVX512)
    return __builtin_shufflevector(load_half8(h), load_half8(h + 8), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    return load_half8(h);
#endif
}

// Byte `i` of every lane, without and with sign.
static inline vi byte_of(vi v, int i) { return (v >> 8 * i) & 255; }
static inline vi signed_byte_of(vi v, int i) { return (v << (24 - 8 * i)) >> 24; }

// Two numbers of int16 in one lane.
static inline vi pair_up(vi low, vi high) { return (low & 0xffff) | (high << 16); }

}  // namespace ULTRA_LEVEL
}  // namespace ultra

#if defined(ULTRA_AVX512)
#include "lanes_avx512.h"
#elif defined(__AVX2__)
#include "lanes_avx2.h"
#else
#include "lanes_plain.h"
#endif
