// Small pieces of the AVX2 kernels. Lanes are the eight weight rows of a group: integer sums are exact in
// any order, and the float steps below are the same for one row and for many.
#pragma once
#include "formats_avx2.h"

namespace ultra {
namespace ULTRA_LEVEL {

// Lane r of the result is the sum of v[r].
static inline __m256i reduce8(const __m256i* v) {
    const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

// Out: vector i has the i-th int32 of every v[r].
static inline void transpose8(__m256i* v) {
    __m256i t[8], u[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x20);
        v[4 + i] = _mm256_permute2x128_si256(u[i], u[4 + i], 0x31);
    }
}

// The float16 at the same byte of eight blocks.
static inline __m256 halves(const uint8_t* const* rows, int64_t at) {
    uint16_t h[8];
    for (int r = 0; r < 8; r++) memcpy(h + r, rows[r] + at, 2);
    return _mm256_cvtph_ps(_mm_set_epi16(
        static_cast<int16_t>(h[7]), static_cast<int16_t>(h[6]), static_cast<int16_t>(h[5]),
        static_cast<int16_t>(h[4]), static_cast<int16_t>(h[3]), static_cast<int16_t>(h[2]),
        static_cast<int16_t>(h[1]), static_cast<int16_t>(h[0])));
}

// The scales of eight blocks.
template <class F>
static inline __m256 scales_32(const uint8_t* const* rows, int64_t at) {
    return halves(rows, at);
}

// e8m0_half of eight bytes.
template <>
inline __m256 scales_32<FormatMXFP4>(const uint8_t* const* rows, int64_t at) {
    __m128i v[8];
    for (int r = 0; r < 8; r++) {
        int32_t word;
        memcpy(&word, rows[r] + at, 4);
        v[r] = _mm_cvtsi32_si128(word);
    }
    for (int r = 0; r < 8; r += 2) v[r] = _mm_unpacklo_epi8(v[r], v[r + 1]);
    for (int r = 0; r < 8; r += 4) v[r] = _mm_unpacklo_epi16(v[r], v[r + 2]);
    const __m256i e = _mm256_cvtepu8_epi32(_mm_unpacklo_epi32(v[0], v[4]));
    const __m256i one = _mm256_set1_epi32(1), nan = _mm256_set1_epi32(0x7fc00000);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i bits = _mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one));
    return _mm256_castsi256_ps(
        _mm256_or_si256(bits, _mm256_and_si256(_mm256_cmpeq_epi32(e, _mm256_set1_epi32(255)), nan)));
}

static inline __m256i broadcast4(const void* p) {
    int32_t word;
    memcpy(&word, p, 4);
    return _mm256_set1_epi32(word);
}

// Have the compiler finish `v` here: it would rather make all products first and spill them.
static inline void keep(__m256i& v) { asm("" : "+x"(v)); }

// Pairs of byte products, in int16.
template <bool SIGNED>
static inline __m256i byte_products(__m256i w, __m256i x) {
    if constexpr (SIGNED) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

// sum += x scale * (d * (dot - OFFSET * total) + least * total)
template <class F>
static inline __m256 finish_32(__m256 sum, __m256i dot, __m256 d, __m256 least, int total, float scale) {
    const __m256i exact = F::OFFSET ? _mm256_sub_epi32(dot, _mm256_set1_epi32(F::OFFSET * total)) : dot;
    __m256 t = _mm256_mul_ps(d, _mm256_cvtepi32_ps(exact));
    if constexpr (F::AFFINE) t = _mm256_fmadd_ps(least, _mm256_set1_ps(static_cast<float>(total)), t);
    return _mm256_fmadd_ps(_mm256_set1_ps(scale), t, sum);
}

// `other` is the sum of scales times totals where there is an OFFSET, of minima times totals otherwise.
template <class F>
static inline __m256 finish_k(__m256 sum, __m256i dot, __m256i other, __m256 d, __m256 e, float scale) {
    __m256 t;
    if constexpr (F::OFFSET) {
        t = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_sub_epi32(dot, _mm256_slli_epi32(other, 5))));
    } else {
        t = _mm256_fmsub_ps(d, _mm256_cvtepi32_ps(dot), _mm256_mul_ps(e, _mm256_cvtepi32_ps(other)));
    }
    return _mm256_fmadd_ps(_mm256_set1_ps(scale), t, sum);
}

static inline void prefetch(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
