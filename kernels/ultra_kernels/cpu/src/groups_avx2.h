// Which AVX2 kernel multiplies a group of eight weight rows.
#pragma once
#include "dots_avx2.h"

namespace ultra {
namespace ULTRA_LEVEL {

// The next group of rows is fetched little by little while this one is multiplied with `count` rows.
static inline Next share(const uint8_t* next, int64_t bytes, int blocks, int count) {
    return {next, static_cast<int>(bytes / (static_cast<int64_t>(blocks) * ((count + 3) / 4))) + 1};
}

template <class F>
static void group_32(const uint8_t* const* rows, const Quantised& x, int columns, int count, float* out,
                     uint8_t* memory, int64_t ahead) {
    if (count == 1) return one_32<F>(rows, x, columns, out, ahead);
    Panel32* panel = reinterpret_cast<Panel32*>(memory);
    pack_32<F>(rows, columns / 32, panel);
    Next next = share(rows[0] + ahead, ahead, columns / 32, count);
    for (int m = 0; m < count; m += 4, next.bytes += columns / 32 * next.step) {
        const Quantised some = at_row(x, m, columns, 32);
        switch (count - m) {
            case 1: tile_32<F, 1>(panel, some, columns, out + 8 * m, next); break;
            case 2: tile_32<F, 2>(panel, some, columns, out + 8 * m, next); break;
            case 3: tile_32<F, 3>(panel, some, columns, out + 8 * m, next); break;
            default: tile_32<F, 4>(panel, some, columns, out + 8 * m, next);
        }
    }
}

template <class F>
static void group_256(const uint8_t* const* rows, const Quantised& x, int columns, int count, float* out,
                      uint8_t* memory, int64_t ahead) {
    if (count == 1) return one_256<F>(rows, x, columns, out, ahead);
    Panel256* panel = reinterpret_cast<Panel256*>(memory);
    pack_256<F>(rows, columns / 256, panel);
    Next next = share(rows[0] + ahead, ahead, columns / 256, count);
    for (int m = 0; m < count; m += 4, next.bytes += columns / 256 * next.step) {
        const Quantised some = at_row(x, m, columns, 256);
        switch (count - m) {
            case 1: tile_256<F, 1>(panel, some, columns, out + 8 * m, next); break;
            case 2: tile_256<F, 2>(panel, some, columns, out + 8 * m, next); break;
            case 3: tile_256<F, 3>(panel, some, columns, out + 8 * m, next); break;
            default: tile_256<F, 4>(panel, some, columns, out + 8 * m, next);
        }
    }
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
        case MXFP4: return group_32<FormatMXFP4>(rows, x, columns, count, out, panel, ahead);
        case Q4_K: return group_256<FormatQ4_K>(rows, x, columns, count, out, panel, ahead);
        case Q5_K: return group_256<FormatQ5_K>(rows, x, columns, count, out, panel, ahead);
        default: return group_256<FormatQ6_K>(rows, x, columns, count, out, panel, ahead);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
