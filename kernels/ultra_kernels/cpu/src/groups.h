// Which kernel multiplies groups of LANES weight rows, and in which order: some columns of the weights, that
// stay in the first cache, with all rows; then the next columns.
#pragma once
#include "tiles.h"

namespace ultra {
namespace ULTRA_LEVEL {

constexpr int CHUNK = 2048;  // columns

using Kernel = void (*)(const Work&);

// Kernels of one format for G groups and 1 to TILE rows.
template <class F, int G, int M>
static inline Kernel kernel_of(int rows) {
    if constexpr (M > 1)
        if (rows < M) return kernel_of<F, G, M - 1>(rows);
    if constexpr (F::BLOCK == 256) return tile_256<F, G, M>;
    else return tile_32<F, G, M>;
}

// out[(g * count + m) * LANES + r] = weight row r of packed group g times row m, g < G.
template <class F, int G>
static void groups_of(const uint8_t* weights, const Quantised& x, int columns, int count, float* out) {
    constexpr int BLOCK = F::BLOCK, BYTES = F::BYTES * LANES;
    memset(out, 0, sizeof(float) * LANES * static_cast<size_t>(G * count));
    const int tiles = (count + TILE - 1) / TILE;
    const int64_t distance = static_cast<int64_t>(columns / BLOCK) * BYTES, across = LANES * static_cast<int64_t>(count);
    for (int first = 0; first < columns; first += CHUNK) {
        const int end = first + CHUNK < columns ? first + CHUNK : columns;
        const int bytes = (end - first) / BLOCK * BYTES;
        const uint8_t* chunk = weights + static_cast<int64_t>(first / BLOCK) * BYTES;
        // The chunk behind this one is fetched little by little while this one is multiplied.
        for (int m = 0, tile = 0; m < count; m += TILE, tile++) {
            const Next next = {chunk + bytes + bytes / tiles * tile, distance, BYTES / tiles};
            kernel_of<F, G, TILE>(count - m)({chunk, distance, first / BLOCK, end / BLOCK, at_row(x, m, columns, BLOCK),
                                              out + LANES * m, across, next});
        }
    }
}

// Groups that are multiplied at once. For two with 256 columns a block there are too few registers.
static inline int groups_at_once(int32_t format) { return kind_of(format) == 32 ? GROUPS : 1; }

template <class F>
static void groups_of(int groups, const uint8_t* weights, const Quantised& x, int columns, int count, float* out) {
    if constexpr (F::BLOCK == 32 && GROUPS == 2)
        if (groups == 2) return groups_of<F, 2>(weights, x, columns, count, out);
    groups_of<F, 1>(weights, x, columns, count, out);
}

// So many groups of rows of a packed matrix: 1, or groups_at_once.
static void groups_integer(int32_t format, int groups, const uint8_t* weights, const Quantised& x, int columns, int count,
                          float* out) {
    switch (format) {
        case Q8_0: return groups_of<FormatQ8_0>(groups, weights, x, columns, count, out);
        case Q4_0: return groups_of<FormatQ4_0>(groups, weights, x, columns, count, out);
        case Q4_1: return groups_of<FormatQ4_1>(groups, weights, x, columns, count, out);
        case Q5_0: return groups_of<FormatQ5_0>(groups, weights, x, columns, count, out);
        case Q5_1: return groups_of<FormatQ5_1>(groups, weights, x, columns, count, out);
        case Q4_K: return groups_of<FormatQ4_K>(groups, weights, x, columns, count, out);
        case Q5_K: return groups_of<FormatQ5_K>(groups, weights, x, columns, count, out);
        case MXFP4: return groups_of<FormatMXFP4>(groups, weights, x, columns, count, out);
        default: return groups_of<FormatQ6_K>(groups, weights, x, columns, count, out);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
