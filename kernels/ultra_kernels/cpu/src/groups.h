// Which kernel multiplies groups of LANES weight rows, and in which order: some columns of the weights, that
// stay in the first cache, with all rows; then the next columns.
#pragma once
#include "tiles.h"

namespace ultra {
namespace ULTRA_LEVEL {

constexpr int CHUNK = 2048;  // columns

using Kernel = void (*)(const Work&);

// Kernels of one format for G groups and 1 to TILE rows.
template <class F, int G, int M, bool READY>
static inline Kernel kernel_of(int rows) {
    if constexpr (M > 1)
        if (rows < M) return kernel_of<F, G, M - 1, READY>(rows);
    if constexpr (F::BLOCK == 256) return tile_256<F, M, READY>;
    else return tile_32<F, G, M, READY>;
}

// Some blocks of G groups, made ready at `panel`, `distance` bytes from one group to the next.
template <class F, int G>
static void make_panel(const uint8_t* weights, int64_t across, int blocks, uint8_t* panel, int64_t distance) {
    for (int g = 0; g < G; g++)
        for (int b = 0; b < blocks; b++)
            make_ready<F>(weights + g * across + static_cast<int64_t>(b) * F::BYTES * LANES,
                          *reinterpret_cast<Ready<F>*>(panel + g * distance + b * sizeof(Ready<F>)));
}

// out[(g * count + m) * LANES + r] = weight row r of packed group g times row m, g < G. Weights that several
// tiles of rows meet are made READY before.
template <class F, int G, bool READY>
static void groups_of(const uint8_t* weights, const Quantised& x, int columns, int count, float* out) {
    constexpr int BLOCK = F::BLOCK, BYTES = F::BYTES * LANES;
    constexpr int SOME = READY ? PANEL / G / static_cast<int>(sizeof(Ready<F>)) : CHUNK / BLOCK;
    alignas(64) uint8_t panel[READY ? G * SOME * sizeof(Ready<F>) : 1];
    memset(out, 0, sizeof(float) * LANES * static_cast<size_t>(G * count));
    const int tiles = (count + TILE - 1) / TILE, blocks = columns / BLOCK;
    const int64_t across = static_cast<int64_t>(blocks) * BYTES, sums_across = LANES * static_cast<int64_t>(count);
    for (int first = 0; first < blocks; first += SOME) {
        const int end = first + SOME < blocks ? first + SOME : blocks, bytes = (end - first) * BYTES;
        const uint8_t* chunk = weights + static_cast<int64_t>(first) * BYTES;
        const int64_t distance = READY ? SOME * static_cast<int64_t>(sizeof(Ready<F>)) : across;
        if constexpr (READY) make_panel<F, G>(chunk, across, end - first, panel, distance);
        // The chunk behind this one is fetched little by little while this one is multiplied.
        for (int m = 0, tile = 0; m < count; m += TILE, tile++) {
            const Next next = {chunk + bytes + bytes / tiles * tile, across, BYTES / tiles};
            kernel_of<F, G, TILE, READY>(count - m)({READY ? panel : chunk, distance, first, end,
                                                     at_row(x, m, columns, BLOCK), out + LANES * m, sums_across, next});
        }
    }
}

// Groups that are multiplied at once. For two with 256 columns a block there are too few registers.
static inline int groups_at_once(int32_t format) { return kind_of(format) == 32 ? GROUPS : 1; }

template <class F, int G>
static void groups_of(const uint8_t* weights, const Quantised& x, int columns, int count, float* out) {
    if constexpr (F::READY_FROM < NEVER)
        if (count >= F::READY_FROM) return groups_of<F, G, true>(weights, x, columns, count, out);
    groups_of<F, G, false>(weights, x, columns, count, out);
}

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
