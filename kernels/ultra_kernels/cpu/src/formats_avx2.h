// The packed formats for AVX2: `quants` gives 32 values of a block in their natural order.
//   SIGNED  the values are int8; otherwise they are unsigned and OFFSET is to be taken off
//   TERMS   so many products of byte pairs add up in int16 without overflow (activations are within 127)
#pragma once
#include <immintrin.h>

#include "decode.h"

namespace ultra {
namespace ULTRA_LEVEL {

static inline __m128i load16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
static inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
static inline void store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// 16 bytes -> their low nibbles, then their high ones.
static inline __m256i nibbles(__m128i v) {
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

// 32 bits -> 32 bytes of 0 or 16.
static inline __m256i fifth_bits(const uint8_t* p) {
    int32_t bits;
    memcpy(&bits, p, 4);
    const __m256i spread = _mm256_shuffle_epi8(
        _mm256_set1_epi32(bits), _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask), _mm256_set1_epi8(16));
}

struct FormatQ8_0 {
    static constexpr int BYTES = 34, OFFSET = 0, TERMS = 1;
    static constexpr bool SIGNED = true, AFFINE = false;
    static inline __m256i quants(const uint8_t* p) { return load32(p + 2); }
};

struct FormatQ4_0 {
    static constexpr int BYTES = 18, OFFSET = 8, TERMS = 8;
    static constexpr bool SIGNED = false, AFFINE = false;
    static inline __m256i quants(const uint8_t* p) { return nibbles(load16(p + 2)); }
};

struct FormatQ4_1 {
    static constexpr int BYTES = 20, OFFSET = 0, TERMS = 8;
    static constexpr bool SIGNED = false, AFFINE = true;
    static inline __m256i quants(const uint8_t* p) { return nibbles(load16(p + 4)); }
};

struct FormatQ5_0 {
    static constexpr int BYTES = 22, OFFSET = 16, TERMS = 4;
    static constexpr bool SIGNED = false, AFFINE = false;
    static inline __m256i quants(const uint8_t* p) {
        return _mm256_or_si256(nibbles(load16(p + 6)), fifth_bits(p + 2));
    }
};

struct FormatQ5_1 {
    static constexpr int BYTES = 24, OFFSET = 0, TERMS = 4;
    static constexpr bool SIGNED = false, AFFINE = true;
    static inline __m256i quants(const uint8_t* p) {
        return _mm256_or_si256(nibbles(load16(p + 8)), fifth_bits(p + 4));
    }
};

struct FormatMXFP4 {
    static constexpr int BYTES = 17, OFFSET = 12, TERMS = 4;
    static constexpr bool SIGNED = false, AFFINE = false;
    static inline __m256i quants(const uint8_t* p) {  // doubled values, and the offset
        const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles(load16(p + 1)));
    }
};

// The K formats: 8 parts of 32, scales for every GROUP values as int16 (`scales`), and either minima for
// every part or an OFFSET of all values. `quants` works on single bytes: its `load` gives the 32 bytes at an
// offset of the block, or the same bytes of other blocks. They lie in CHUNKS times 32 bytes from RAW on.
struct FormatQ4_K {
    static constexpr int BYTES = 144, GROUP = 32, OFFSET = 0, TERMS = 8, D = 0, RAW = 16, CHUNKS = 4;
    template <class Load>
    static inline __m256i quants(Load load, int part) {
        const __m256i v = load(16 + 32 * (part / 2));
        return _mm256_and_si256(part % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
    }
    // Eight scales, then eight minima.
    static inline __m256i scales(const uint8_t* p) {
        uint8_t s[16];
        k_scales(p + 4, s);
        return _mm256_cvtepu8_epi16(load16(s));
    }
};

struct FormatQ5_K {
    static constexpr int BYTES = 176, GROUP = 32, OFFSET = 0, TERMS = 4, D = 0, RAW = 16, CHUNKS = 5;
    template <class Load>
    static inline __m256i quants(Load load, int part) {
        const __m256i v = load(48 + 32 * (part / 2)), one = _mm256_set1_epi8(1);
        const __m256i low = _mm256_and_si256(part % 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(load(16), part), one);
        return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
    }
    static inline __m256i scales(const uint8_t* p) { return FormatQ4_K::scales(p); }
};

struct FormatQ6_K {
    static constexpr int BYTES = 210, GROUP = 16, OFFSET = 32, TERMS = 2, D = 208, RAW = 0, CHUNKS = 6;
    template <class Load>
    static inline __m256i quants(Load load, int part) {
        const int half = part / 4, i = part % 4;
        const __m256i v = load(64 * half + 32 * (i & 1)), bits = load(128 + 32 * half);
        const __m256i low = _mm256_and_si256(i & 2 ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15));
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bits, 2 * i), _mm256_set1_epi8(3));
        return _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
    }
    // Sixteen scales.
    static inline __m256i scales(const uint8_t* p) { return _mm256_cvtepi8_epi16(load16(p + 192)); }
};

}  // namespace ULTRA_LEVEL
}  // namespace ultra
