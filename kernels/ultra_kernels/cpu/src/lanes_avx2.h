// AVX2: byte products are summed in pairs of int16, as many as fit (TERMS of the format), then widened.
#pragma once

namespace ultra {
namespace ULTRA_LEVEL {

constexpr bool NARROW = true;  // sums of products are int16: a format's TERMS is how many fit
constexpr int BIAS = 0;      // SIGNED weights are multiplied as they are
constexpr int TILE = 4;      // activation rows that are multiplied at once
constexpr int GROUPS = 2;    // groups of weight rows that meet them at once, where registers last
constexpr int UNROLL = 8;    // of the loops over words and rows

static inline vf fma_lanes(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }

// Products of four columns; weights are bytes without sign, or with.
template <bool SIGNED>
static inline vi multiply(vi w, vi x) {
    if constexpr (SIGNED)
        return (vi)_mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)w), _mm256_sign_epi8((__m256i)x, (__m256i)w));
    return (vi)_mm256_maddubs_epi16((__m256i)w, (__m256i)x);
}

// sums += products with the four bytes at x. Each step in one piece, or the compiler makes all products first
// and spills them.
template <bool SIGNED>
static inline void accumulate(vi& sum, vi w, const int8_t* x) {
    if constexpr (SIGNED) {
        sum = (vi)_mm256_add_epi16((__m256i)sum, (__m256i)multiply<true>(w, four(x)));
    } else {
        vi t;
        asm("vpbroadcastd %3, %1\n\tvpmaddubsw %1, %2, %1\n\tvpaddw %1, %0, %0"
            : "+x"(sum), "=&x"(t)
            : "x"(w), "m"(*reinterpret_cast<const int32_t*>(x)));
    }
}

template <bool SIGNED>
static inline void accumulate(vi& sum, vi& other_sum, vi w, vi other_w, const int8_t* x) {
    if constexpr (SIGNED) {
        accumulate<true>(sum, w, x);
        accumulate<true>(other_sum, other_w, x);
    } else {
        vi t, u;
        asm("vpbroadcastd %6, %2\n\t"
            "vpmaddubsw %2, %4, %3\n\tvpaddw %3, %0, %0\n\t"
            "vpmaddubsw %2, %5, %2\n\tvpaddw %2, %1, %1"
            : "+x"(sum), "+x"(other_sum), "=&x"(t), "=&x"(u)
            : "x"(w), "x"(other_w), "m"(*reinterpret_cast<const int32_t*>(x)));
    }
}

// A factor for sums of products, and the sums times it, as int32.
static inline vi factor(vi scale) { return pair_up(scale, scale); }
static inline vi fold(vi products, vi factor) { return (vi)_mm256_madd_epi16((__m256i)products, (__m256i)factor); }

// Two pairs of int16.
static inline vi dot_pairs(vi a, vi b) { return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b); }

// The table's entry of every byte, all of which are below 16.
static inline vi look_up(const uint8_t* table, vi bytes) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return (vi)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), (__m256i)bytes);
}

static inline void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace ULTRA_LEVEL
}  // namespace ultra
