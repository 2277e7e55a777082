// No instruction set in particular: bytes become int16, their products are summed in int32. SSE2, which every
// x86-64 has, does that two products at a time.
#pragma once
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ultra {
namespace ULTRA_LEVEL {

constexpr bool NARROW = false;
constexpr int BIAS = 0;    // SIGNED weights are multiplied as they are
constexpr int TILE = 2;      // activation rows that are multiplied at once
constexpr int GROUPS = 1;    // groups of weight rows that are
constexpr int UNROLL = 1;  // the compiler has too much to do as it is

static inline vf fma_lanes(vf a, vf b, vf c) { return a * b + c; }

static inline vi dot_pairs(vi a, vi b) {
#if defined(__SSE2__)
    vi sum;
    for (size_t i = 0; i < sizeof(vi) / 16; i++) {
        __m128i x, y;
        memcpy(&x, reinterpret_cast<const char*>(&a) + 16 * i, 16);
        memcpy(&y, reinterpret_cast<const char*>(&b) + 16 * i, 16);
        x = _mm_madd_epi16(x, y);
        memcpy(reinterpret_cast<char*>(&sum) + 16 * i, &x, 16);
    }
    return sum;
#else
    return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

// No weight is above 127, so that a byte may always be read with its sign.
template <bool>
static inline vi multiply(vi w, vi x) {
    const vi w_even = (vi)((vs)(w << 8) >> 8), w_odd = (vi)((vs)w >> 8);
    const vi x_even = (vi)((vs)(x << 8) >> 8), x_odd = (vi)((vs)x >> 8);
    return dot_pairs(w_even, x_even) + dot_pairs(w_odd, x_odd);
}

// sums += products with the four bytes at x.
template <bool SIGNED>
static inline void accumulate(vi& sum, vi w, const int8_t* x) {
    sum += multiply<SIGNED>(w, four(x));
}

static inline vi factor(vi scale) { return scale; }
static inline vi fold(vi products, vi factor) { return products * factor; }
// The table's entry of every byte, all of which are below 16.
static inline vi look_up(const uint8_t* table, vi bytes) {
    uint8_t all[sizeof(vi)];
    memcpy(all, &bytes, sizeof all);
    for (uint8_t& byte : all) byte = table[byte & 15];
    return load_lanes(all);
}

static inline void prefetch(const uint8_t* p) { __builtin_prefetch(p); }

}  // namespace ULTRA_LEVEL
}  // namespace ultra
