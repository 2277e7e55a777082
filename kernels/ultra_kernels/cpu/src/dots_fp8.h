// Eight weight rows of e4m3 blocks (float32 scale, 128 codes) against float32 rows. A pair of rows has one chain
// of eight lanes inside a block, and one across blocks, however many rows are multiplied at once.
#pragma once
#include "decode.h"

namespace ultra {
namespace ULTRA_LEVEL {

typedef int8_t v16b __attribute__((vector_size(16)));
typedef int16_t v16h __attribute__((vector_size(32)));

constexpr int FP8_COLUMNS = 128, FP8_BYTES = 132;

// Sixteen codes as floats, all 2^8 too small: the bits of an e4m3 number are those of a half precision one.
static inline void load_e4m3(const uint8_t* p, v8* low, v8* high) {
    v16b codes;
    memcpy(&codes, p, sizeof codes);
    const v16h bits = __builtin_convertvector(codes, v16h) << 7 & static_cast<int16_t>(0xbfff);
    const v16h nan = (bits & 0x3f80) == 0x3f80;
    const v16h halves = bits | (nan & 0x7e00);
    uint16_t h[16];
    memcpy(h, &halves, sizeof h);
    *low = load_half8(h);
    *high = load_half8(h + 8);
}

static inline float fp8_scale(const uint8_t* block) { return decode_float(F32, block) * 256.0f; }

// Weight rows r < R, activation rows m < M, R * M == 8.
template <int R, int M>
static inline void dots_fp8(const uint8_t* const* rows, const float* x, int64_t stride, int blocks, float* out) {
    v8 totals[R][M];
    for (int r = 0; r < R; r++)
        for (int m = 0; m < M; m++) totals[r][m] = fill8(0.0f);
    for (int b = 0; b < blocks; b++, x += FP8_COLUMNS) {
        const int64_t at = static_cast<int64_t>(b) * FP8_BYTES;
        v8 sums[R][M];
        for (int r = 0; r < R; r++)
            for (int m = 0; m < M; m++) sums[r][m] = fill8(0.0f);
        for (int k = 0; k < FP8_COLUMNS; k += 16)
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                v8 low, high;
                load_e4m3(rows[r] + at + 4 + k, &low, &high);
#pragma GCC unroll 4
                for (int m = 0; m < M; m++) {
                    sums[r][m] = fma8(low, load8(x + m * stride + k), sums[r][m]);
                    sums[r][m] = fma8(high, load8(x + m * stride + k + 8), sums[r][m]);
                }
            }
        for (int r = 0; r < R; r++)
            for (int m = 0; m < M; m++)
                totals[r][m] = fma8(fill8(fp8_scale(rows[r] + at)), sums[r][m], totals[r][m]);
    }
    for (int r = 0; r < R; r++)
        for (int m = 0; m < M; m++) out[8 * m + r] = sum8(totals[r][m]);
}

static void group_fp8(const uint8_t* const* rows, const float* x, int64_t stride, int columns, int count,
                      float* out) {
    const int blocks = columns / FP8_COLUMNS;
    int m = 0;
    for (; m + 4 <= count; m += 4)
        for (int r = 0; r < 8; r += 2) dots_fp8<2, 4>(rows + r, x + m * stride, stride, blocks, out + 8 * m + r);
    for (; m + 2 <= count; m += 2)
        for (int r = 0; r < 8; r += 4) dots_fp8<4, 2>(rows + r, x + m * stride, stride, blocks, out + 8 * m + r);
    if (m < count) dots_fp8<8, 1>(rows, x + m * stride, stride, blocks, out + 8 * m);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
