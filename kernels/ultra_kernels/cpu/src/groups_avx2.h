// Which AVX2 kernel multiplies a group of eight weight rows.
#pragma once
#include "dots_avx2.h"

namespace ultra {
namespace ULTRA_LEVEL {

template <class F>
static void group_32(const uint8_t* const* rows, const Quantised& x, int columns, int count, float* out,
                     uint8_t* memory, int64_t ahead) {
    if (count == 1) return one_32<F>(rows, x, columns, out, ahead);
    Panel32* panel = reinterpret_cast<Panel32*>(memory);
    pack_32<F>(rows, columns / 32, panel, ahead);
    int m = 0;
    for (; m + 4 <= count; m += 4) tile_32<F, 4>(panel, at_row(x, m, columns, 32), columns, out + 8 * m);
    const Quantised rest = at_row(x, m, columns, 32);
    if (count - m == 3) tile_32<F, 3>(panel, rest, columns, out + 8 * m);
    if (count - m == 2) tile_32<F, 2>(panel, rest, columns, out + 8 * m);
    if (count - m == 1) tile_32<F, 1>(panel, rest, columns, out + 8 * m);
}

template <class F>
static void group_256(const uint8_t* const* rows, const Quantised& x, int columns, int count, float* out,
                      uint8_t* memory, int64_t ahead) {
    if (count == 1) return one_256<F>(rows, x, columns, out, ahead);
    Panel256* panel = reinterpret_cast<Panel256*>(memory);
    pack_256<F>(rows, columns / 256, panel, ahead);
    int m = 0;
    for (; m + 4 <= count; m += 4) tile_256<F, 4>(panel, at_row(x, m, columns, 256), columns, out + 8 * m);
    const Quantised rest = at_row(x, m, columns, 256);
    if (count - m == 3) tile_256<F, 3>(panel, rest, columns, out + 8 * m);
    if (count - m == 2) tile_256<F, 2>(panel, rest, columns, out + 8 * m);
    if (count - m == 1) tile_256<F, 1>(panel, rest, columns, out + 8 * m);
}

// out[m][r] = weight row r times row m, r < 8; the bytes `ahead` of the rows are wanted next.
static void group_integer(int32_t format, const uint8_t* const* rows, const Quantised& x, int columns,
                          int count, float* out, uint8_t* panel, int64_t ahead) {
    switch (format) {
        case Q8_0: return group_32<FormatQ8_0>(rows, x, columns, count, out, panel, ahead);
        case Q4_0: return group_32<FormatQ4_0>(rows, x, columns, count, out, panel, ahead);
        case Q4_1: return group_32<FormatQ4_1>(rows, x, columns, count, out, panel, ahead);
        case Q5_0: return group_32<FormatQ5_0>(rows, x, columns, count, out, panel, ahead);
        case Q5_1: return group_32<FormatQ5_1>(rows, x, columns, count, out, panel, ahead);
        case Q4_K: return group_256<FormatQ4_K>(rows, x, columns, count, out, panel, ahead);
        case Q5_K: return group_256<FormatQ5_K>(rows, x, columns, count, out, panel, ahead);
        default: return group_256<FormatQ6_K>(rows, x, columns, count, out, panel, ahead);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
