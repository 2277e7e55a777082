// AVX-512 with VNNI: four byte products a lane are added to int32 in one instruction, which wants the weights
// without sign. Weights that have one are moved up by 128 (BIAS), and the sums of the activations moved down.
#pragma once

namespace ultra {
namespace ULTRA_LEVEL {

constexpr bool NARROW = false;
constexpr int BIAS = 128;    // what the dots of SIGNED weights have too much, times the sum of the activations
constexpr int TILE = 4;      // activation rows that are multiplied at once
constexpr int GROUPS = 2;    // groups of weight rows that are
constexpr int UNROLL = 8;

static inline vf fma_lanes(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }

// sums += products with the four bytes at x.
template <bool SIGNED>
static inline void accumulate(vi& sum, vi w, const int8_t* x) {
    const vi weights = SIGNED ? w ^ static_cast<int32_t>(0x80808080) : w;
    sum = (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)four(x));
}

template <bool SIGNED>
static inline void accumulate(vi& sum, vi& other_sum, vi w, vi other_w, const int8_t* x) {
    accumulate<SIGNED>(sum, w, x);
    accumulate<SIGNED>(other_sum, other_w, x);
}

// Products of four columns; weights are bytes without sign, or with.
template <bool SIGNED>
static inline vi multiply(vi w, vi x) {
    const vi weights = SIGNED ? w ^ static_cast<int32_t>(0x80808080) : w;
    return (vi)_mm512_dpbusd_epi32((__m512i)vi{}, (__m512i)weights, (__m512i)x);
}

static inline vi factor(vi scale) { return scale; }
static inline vi fold(vi products, vi factor) { return products * factor; }

// Two pairs of int16.
static inline vi dot_pairs(vi a, vi b) { return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b); }

// The table's entry of every byte, all of which are below 16.
static inline vi look_up(const uint8_t* table, vi bytes) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return (vi)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), (__m512i)bytes);
}

static inline void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace ULTRA_LEVEL
}  // namespace ultra
