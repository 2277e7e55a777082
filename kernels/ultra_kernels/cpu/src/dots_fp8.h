// LANES weight rows of e4m3 blocks (float32 scale, 128 codes) against float32 rows. A pair of rows has one chain
// of eight lanes inside a block, and one across blocks, however many rows are multiplied at once.
#pragma once
#include <cmath>

#include "decode.h"
#include "lanes.h"

namespace ultra {
namespace ULTRA_LEVEL {

typedef int8_t v32b __attribute__((vector_size(32)));

constexpr int FP8_COLUMNS = 128, FP8_BYTES = 132;

// Eight codes as floats, all 2^8 too small: the bits of an e4m3 number are those of a half precision one. NaN
// is left to `fp8_scale`.
static inline v8 load_e4m3(const uint8_t* p) {
#ifdef __F16C__
    const __m128i codes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m128i mask = _mm_set1_epi16(static_cast<int16_t>(0xbfff));
    return (v8)_mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(codes, 7), mask));
#else
    v8 v;
    for (int i = 0; i < 8; i++) v[i] = decode_e4m3(p[i]) * 0x1p-8f;
    return v;
#endif
}

// What a block's sum is to be multiplied with: NaN if a code is.
static inline float fp8_scale(const uint8_t* block) {
    v32b any = {};
    for (int k = 0; k < FP8_COLUMNS; k += 32) {
        v32b codes;
        memcpy(&codes, block + 4 + k, sizeof codes);
        any |= (codes & 0x7f) == 0x7f;
    }
    uint64_t words[4];
    memcpy(words, &any, sizeof words);
    const float scale = decode_float(F32, block) * 256.0f;
    return words[0] | words[1] | words[2] | words[3] ? NAN : scale;
}

// Weight rows r < R, activation rows m < M, R * M == 8; the bytes `ahead` of the weights are wanted next.
template <int R, int M>
static inline void dots_fp8(const uint8_t* const* rows, const float* x, int64_t stride, int blocks, float* out,
                            int64_t ahead) {
    v8 totals[R][M];
    for (int r = 0; r < R; r++)
        for (int m = 0; m < M; m++) totals[r][m] = fill8(0.0f);
    for (int b = 0; b < blocks; b++, x += FP8_COLUMNS) {
        const int64_t at = static_cast<int64_t>(b) * FP8_BYTES;
        v8 sums[R][M];
        for (int r = 0; r < R; r++)
            for (int m = 0; m < M; m++) sums[r][m] = fill8(0.0f);
        for (int r = 0; r < R; r++)
            for (int line = 0; line < FP8_BYTES; line += 64) __builtin_prefetch(rows[r] + at + ahead + line);
        for (int k = 0; k < FP8_COLUMNS; k += 8)
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                const v8 weights = load_e4m3(rows[r] + at + 4 + k);
#pragma GCC unroll 4
                for (int m = 0; m < M; m++) sums[r][m] = fma8(weights, load8(x + m * stride + k), sums[r][m]);
            }
        for (int r = 0; r < R; r++)
            for (int m = 0; m < M; m++)
                totals[r][m] = fma8(fill8(fp8_scale(rows[r] + at)), sums[r][m], totals[r][m]);
    }
    for (int r = 0; r < R; r++)
        for (int m = 0; m < M; m++) out[LANES * m + r] = sum8(totals[r][m]);
}

static void group_fp8(const uint8_t* const* rows, const float* x, int64_t stride, int columns, int count,
                      float* out) {
    const int blocks = columns / FP8_COLUMNS;
    const int64_t ahead = static_cast<int64_t>(blocks) * FP8_BYTES * LANES;
    int m = 0;
    for (; m + 4 <= count; m += 4)
        for (int r = 0; r < LANES; r += 2) dots_fp8<2, 4>(rows + r, x + m * stride, stride, blocks, out + LANES * m + r, ahead);
    for (; m + 2 <= count; m += 2)
        for (int r = 0; r < LANES; r += 4) dots_fp8<4, 2>(rows + r, x + m * stride, stride, blocks, out + LANES * m + r, ahead);
    if (m < count)
        for (int r = 0; r < LANES; r += 8) dots_fp8<8, 1>(rows + r, x + m * stride, stride, blocks, out + LANES * m + r, ahead);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
