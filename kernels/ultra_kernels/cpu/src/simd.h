// Eight floats at a time in the compiler's own vectors, and half precision. Included into one level only.
#pragma once
#include <cstdint>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ultra {
namespace ULTRA_LEVEL {

typedef float v8 __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef int8_t v8b __attribute__((vector_size(8)));

static inline v8 load8(const float* p) { v8 v; memcpy(&v, p, sizeof v); return v; }
static inline void store8(float* p, v8 v) { memcpy(p, &v, sizeof v); }
static inline v8 fill8(float x) { return v8{x, x, x, x, x, x, x, x}; }
static inline v8 max8(v8 a, v8 b) { return a > b ? a : b; }
static inline v8 abs8(v8 a) { return (v8)((v8i)a & 0x7fffffff); }

static inline v8 fma8(v8 a, v8 b, v8 c) {
#ifdef __FMA__
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline float sum8(v8 v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

static inline uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float float_of(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

static inline float half_to_float(uint16_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 0) return float_of(sign | bits_of(static_cast<float>(mantissa) * 0x1p-24f));
    if (exponent == 31) return float_of(sign | 0x7f800000u | mantissa << 13);
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline float load_half(const uint8_t* p) { uint16_t h; memcpy(&h, p, 2); return half_to_float(h); }

// Nearest, ties to even.
static inline uint16_t float_to_half(float f) {
    uint32_t x = bits_of(f);
    const uint32_t sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    if (x > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (x >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
    // The last bit of a float at 0.5 is the last bit of a subnormal half.
    if (x < 0x38800000) return static_cast<uint16_t>(sign | (bits_of(float_of(x) + 0.5f) - 0x3f000000));
    x += 0xc8000fff + (x >> 13 & 1);
    return static_cast<uint16_t>(sign | x >> 13);
}

static inline v8 load_half8(const uint16_t* p) {
#ifdef __F16C__
    return (v8)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
    v8 v;
    for (int i = 0; i < 8; i++) v[i] = half_to_float(p[i]);
    return v;
#endif
}

static inline v8i round8(v8 x) {  // nearest even, |x| < 2^22
    const v8 magic = fill8(12582912.0f);
    return (v8i)(x + magic) - (v8i)magic;
}

// e^x to about 2 units in the last place; 0 below -87.3, NaN stays NaN.
static inline v8 exp8(v8 x) {
    const v8 low = fill8(-87.3f), high = fill8(88.3f);
    const v8 clamped = x < low ? low : (x > high ? high : x);
    const v8i n = round8(clamped * fill8(1.44269504f));
    const v8 turns = __builtin_convertvector(n, v8);
    v8 r = fma8(turns, fill8(-0.693359375f), clamped);
    r = fma8(turns, fill8(2.12194440e-4f), r);
    v8 p = fill8(1.9875691500e-4f);
    p = fma8(p, r, fill8(1.3981999507e-3f));
    p = fma8(p, r, fill8(8.3334519073e-3f));
    p = fma8(p, r, fill8(4.1665795894e-2f));
    p = fma8(p, r, fill8(1.6666665459e-1f));
    p = fma8(p, r, fill8(5.0000001201e-1f));
    p = fma8(p, r * r, r) + fill8(1.0f);
    const v8 power = (v8)((n + 127) << 23);
    return x < low ? fill8(0.0f) : p * power;
}

static inline float exp1(float x) { return exp8(fill8(x))[0]; }

}  // namespace ULTRA_LEVEL
}  // namespace ultra
