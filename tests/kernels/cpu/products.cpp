// Products of packed matrices against their exact weights, for one level, without Python: it runs where another
// processor is emulated. Every buffer is as long as it must be, so that a sanitizer sees each byte too far.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "linear.h"
#include "pack.h"

using namespace ultra;
using namespace ultra::ULTRA_LEVEL;

namespace {

uint32_t seed = 1;
uint32_t random_bits() { return seed = seed * 1664525u + 1013904223u; }

template <class T>
struct Exact {  // memory from malloc, not rounded up
    explicit Exact(size_t count) : at(static_cast<T*>(std::malloc(count * sizeof(T)))) {}
    ~Exact() { std::free(at); }
    Exact(const Exact&) = delete;
    Exact& operator=(const Exact&) = delete;
    T* const at;
};

void fill_blocks(int32_t format, uint8_t* p, size_t size) {
    for (size_t i = 0; i < size; i++) p[i] = static_cast<uint8_t>(random_bits() >> 24);
    const Shape shape = shape_of(format);
    const uint16_t small = float_to_half(0.01f);
    for (size_t at = 0; at < size; at += static_cast<size_t>(shape.bytes)) {
        if (format == MXFP4) p[at] = static_cast<uint8_t>(110 + p[at] % 16);
        else memcpy(p + at + (format == Q6_K ? 208 : 0), &small, 2);
        if (format == Q4_1 || format == Q5_1 || format == Q4_K || format == Q5_K) memcpy(p + at + 2, &small, 2);
    }
}

// Whole numbers with 127 among each 32: their int8 form is exact.
void fill_inputs(float* x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = i % 32 ? static_cast<float>(static_cast<int>(random_bits() >> 24) - 128) : 127;
    for (size_t i = 0; i < count; i++) x[i] = x[i] < -127 ? -127 : x[i];
}

// The largest error of a product, as a part of the sum of its terms' sizes.
double error_of(const Buffer& packed, const uint8_t* file, int rows, const Inputs& in, Scratch& s) {
    std::vector<float> got(static_cast<size_t>(rows * in.count)), exact(static_cast<size_t>(in.columns)), again(exact);
    for (int start = 0; start < rows; start += 11)  // tasks that are no whole groups
        linear(packed, start, start + 11 < rows ? start + 11 : rows, in, s,
               [&](int m, int row, float y) { got[static_cast<size_t>(m * rows + row)] = y; });
    double worst = 0;
    for (int row = 0; row < rows; row++) {
        unpack(packed.format, file + row * packed.row_bytes, 0, in.columns, exact.data());
        unpack_row(packed, row, 0, in.columns, again.data());
        if (memcmp(exact.data(), again.data(), sizeof(float) * exact.size())) return INFINITY;
        for (int m = 0; m < in.count; m++) {
            double sum = 0, size = 0;
            for (int k = 0; k < in.columns; k++) {
                const double term = static_cast<double>(exact[static_cast<size_t>(k)]) * static_cast<double>(in.x[m * in.columns + k]);
                sum += term;
                size += std::fabs(term);
            }
            const double error = std::fabs(sum - static_cast<double>(got[static_cast<size_t>(m * rows + row)])) / size;
            worst = error > worst || std::isnan(error) ? error : worst;
        }
    }
    return worst;
}

double check(int32_t format, int rows, int columns, int count) {
    const Shape shape = shape_of(format);
    const int row_bytes = columns / shape.block * shape.bytes, whole = (rows + LANES - 1) / LANES * LANES;
    const size_t n = static_cast<size_t>(columns), m = static_cast<size_t>(count);
    Exact<uint8_t> file(static_cast<size_t>(rows) * static_cast<size_t>(row_bytes));
    Exact<uint8_t> packed(static_cast<size_t>(whole) * static_cast<size_t>(row_bytes));
    fill_blocks(format, file.at, static_cast<size_t>(rows * row_bytes));
    pack(format, rows, row_bytes, 0, whole / LANES, file.at, packed.at);
    Exact<float> x(n * m), scale(m * (n / 32)), tile(m * 4 * LANES);
    Exact<int8_t> q(n * m);
    Exact<int16_t> sums(m * (n / 32 + 1) / 2 * 2);
    Exact<int32_t> centre(m * (n / 16));
    fill_inputs(x.at, n * m);
    Scratch s = {};
    s.by32 = s.by256 = {q.at, scale.at, sums.at, centre.at};
    s.tile = tile.at;
    return error_of({packed.at, row_bytes, columns, format, 1, 0}, file.at, rows, {x.at, columns, count}, s);
}

}  // namespace

int main() {
    bool good = true;
    for (int32_t format : {Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, MXFP4})
        for (int rows : {1, 13, 2 * LANES, 40})
            for (int columns : {256, 2304})
                for (int count : {1, 2, 3, 4, 9, 67}) {
                    const double error = check(format, rows, columns, count);
                    if (error < 1e-6) continue;
                    std::printf("format %d, %d x %d, %d rows: error %g\n", format, rows, columns, count, error);
                    good = false;
                }
    std::printf(good ? "OK\n" : "WRONG\n");
    return good ? 0 : 1;
}
