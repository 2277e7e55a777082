// Eight weight rows against one activation row, straight from the file's layout (`one_*`), and against many:
// the eight rows are unpacked once into a panel of interleaved bytes, then multiplied with four rows at a time.
#pragma once
#include "quantise.h"
#include "tiles_avx2.h"

namespace ultra {
namespace ULTRA_LEVEL {

template <class F>
static void one_32(const uint8_t* const* rows, const Quantised& x, int columns, float* out, int64_t ahead) {
    __m256 sum = _mm256_setzero_ps();
    for (int b = 0; b < columns / 32; b++) {
        const int64_t at = static_cast<int64_t>(b) * F::BYTES;
        const __m256i values = load32(x.q + 32 * b);
        __m256i v[8];
        for (int r = 0; r < 8; r++) {
            const uint8_t* p = rows[r] + at;
            prefetch(p + ahead, 1);
            v[r] = _mm256_madd_epi16(byte_products<F::SIGNED>(F::quants(p), values), _mm256_set1_epi16(1));
        }
        const __m256 least = F::AFFINE ? halves(rows, at + 2) : _mm256_setzero_ps();
        sum = finish_32<F>(sum, reduce8(v), scales_32<F>(rows, at), least, x.sum32[b], x.scale[b]);
    }
    _mm256_storeu_ps(out, sum);
}

struct Next {  // weights that are wanted soon: `step` bytes are fetched with every block
    const uint8_t* bytes;
    int step;
};

struct Panel32 {  // 32 columns of eight rows
    uint8_t q[256];
    float d[8], least[8];
};

template <class F>
static void pack_32(const uint8_t* const* rows, int blocks, Panel32* out) {
    for (int b = 0; b < blocks; b++, out++) {
        const int64_t at = static_cast<int64_t>(b) * F::BYTES;
        __m256i v[8];
        for (int r = 0; r < 8; r++) v[r] = F::quants(rows[r] + at);
        transpose8(v);
        for (int i = 0; i < 8; i++) store32(out->q + 32 * i, v[i]);
        _mm256_storeu_ps(out->d, scales_32<F>(rows, at));
        _mm256_storeu_ps(out->least, F::AFFINE ? halves(rows, at + 2) : _mm256_setzero_ps());
    }
}

template <class F, int M>
static void tile_32(const Panel32* panel, const Quantised& x, int columns, float* out, Next next) {
    const int blocks = columns / 32;
    const int64_t stride = columns;
    __m256 sums[M];
    for (int m = 0; m < M; m++) sums[m] = _mm256_setzero_ps();
    for (int b = 0; b < blocks; b++, panel++) {
        prefetch(next.bytes + b * next.step, next.step);
        __m256i dots[M];
        for (int m = 0; m < M; m++) dots[m] = _mm256_setzero_si256();
        for (int first = 0; first < 8; first += F::TERMS) {
            __m256i part[M];
            const int8_t* values = x.q + 32 * b + 4 * first;
#pragma GCC unroll 8
            for (int i = 0; i < F::TERMS; i++) {
                const __m256i w = load32(panel->q + 32 * (first + i));
#pragma GCC unroll 4
                for (int m = 0; m < M; m++) {
                    const __m256i p = byte_products<F::SIGNED>(w, broadcast4(values + m * stride + 4 * i));
                    part[m] = i == 0 ? p : _mm256_add_epi16(part[m], p);
                    keep(part[m]);
                }
            }
            for (int m = 0; m < M; m++)
                dots[m] = _mm256_add_epi32(dots[m], _mm256_madd_epi16(part[m], _mm256_set1_epi16(1)));
        }
        const __m256 d = _mm256_loadu_ps(panel->d), least = _mm256_loadu_ps(panel->least);
        for (int m = 0; m < M; m++)
            sums[m] = finish_32<F>(sums[m], dots[m], d, least, x.sum32[m * blocks + b], x.scale[m * blocks + b]);
    }
    for (int m = 0; m < M; m++) _mm256_storeu_ps(out + 8 * m, sums[m]);
}

struct Panel256 {  // 256 columns of eight rows; scales and minima as pairs of int16, one pair a lane
    uint8_t q[2048];
    int32_t scale[16][8], other[8][8];
    float d[8], e[8];
};

// Byte pattern that repeats the int16 number `part` of each half.
static inline __m256i repeat16(int part) {
    return _mm256_set1_epi16(static_cast<int16_t>((2 * part + 1) << 8 | 2 * part));
}

template <class F>
static inline void one_block_k(const uint8_t* p, const int8_t* x, const int16_t* sum16, const int16_t* sum32,
                               __m256i* dot, __m256i* other) {
    const __m256i all = F::scales(p);
    __m256i spread;  // in each half, the scales of that half of the parts
    if constexpr (F::GROUP == 16) {
        const __m256i even_odd = _mm256_shuffle_epi8(
            all, _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2,
                                  3, 6, 7, 10, 11, 14, 15));
        spread = _mm256_permute4x64_epi64(even_odd, 0xd8);
        *other = _mm256_madd_epi16(all, load32(sum16));
    } else {
        spread = _mm256_permute4x64_epi64(all, 0x44);
        const __m128i totals = _mm_loadu_si128(reinterpret_cast<const __m128i*>(sum32));
        *other = _mm256_zextsi128_si256(_mm_madd_epi16(_mm256_extracti128_si256(all, 1), totals));
    }
    const auto load = [p](int offset) { return load32(p + offset); };
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int part = 0; part < 8; part++) {
        const __m256i products = _mm256_maddubs_epi16(F::quants(load, part), load32(x + 32 * part));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_shuffle_epi8(spread, repeat16(part))));
    }
    *dot = sum;
}

template <class F>
static void one_256(const uint8_t* const* rows, const Quantised& x, int columns, float* out, int64_t ahead) {
    __m256 sum = _mm256_setzero_ps();
    for (int b = 0; b < columns / 256; b++) {
        const int64_t at = static_cast<int64_t>(b) * F::BYTES;
        __m256i dots[8], others[8];
        for (int r = 0; r < 8; r++) {
            prefetch(rows[r] + at + ahead, F::BYTES);
            one_block_k<F>(rows[r] + at, x.q + 256 * b, x.sum16 + 16 * b, x.sum32 + 8 * b, dots + r, others + r);
        }
        const __m256 e = F::OFFSET ? _mm256_setzero_ps() : halves(rows, at + 2);
        sum = finish_k<F>(sum, reduce8(dots), reduce8(others), halves(rows, at + F::D), e, x.scale[b]);
    }
    _mm256_storeu_ps(out, sum);
}

// Scales of eight blocks, one block a vector, to scales of eight rows, each twice in its lane.
template <class F>
static inline void pack_scales(const __m256i* scales, Panel256* out) {
    __m256i v[8];
    for (int r = 0; r < 8; r++) v[r] = scales[r];
    transpose8(v);  // pairs of int16
    const __m256i low = _mm256_set1_epi32(0xffff);
    constexpr int GROUPS = 256 / F::GROUP, FIRST = F::GROUP == 32 ? 4 : 0;
    for (int pair = 0; pair < GROUPS / 2; pair++) {
        const __m256i even = _mm256_and_si256(v[pair], low), odd = _mm256_srli_epi32(v[pair], 16);
        store32(out->scale[2 * pair], _mm256_or_si256(even, _mm256_slli_epi32(even, 16)));
        store32(out->scale[2 * pair + 1], _mm256_or_si256(odd, _mm256_slli_epi32(odd, 16)));
        store32(out->other[pair], v[FIRST + pair]);
    }
}

template <class F>
static void pack_256(const uint8_t* const* rows, int blocks, Panel256* out) {
    for (int b = 0; b < blocks; b++, out++) {
        const int64_t at = static_cast<int64_t>(b) * F::BYTES;
        __m256i v[8];
        for (int r = 0; r < 8; r++) v[r] = F::scales(rows[r] + at);
        pack_scales<F>(v, out);
        __m256i chunks[F::CHUNKS][8];
        for (int c = 0; c < F::CHUNKS; c++) {
            for (int r = 0; r < 8; r++) chunks[c][r] = load32(rows[r] + at + F::RAW + 32 * c);
            transpose8(chunks[c]);
        }
#pragma GCC unroll 8
        for (int part = 0; part < 8; part++)
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                const auto load = [&chunks, i](int offset) { return chunks[(offset - F::RAW) / 32][i]; };
                store32(out->q + 256 * part + 32 * i, F::quants(load, part));
            }
        _mm256_storeu_ps(out->d, halves(rows, at + F::D));
        _mm256_storeu_ps(out->e, F::OFFSET ? _mm256_setzero_ps() : halves(rows, at + 2));
    }
}

template <class F, int M>
static void tile_256(const Panel256* panel, const Quantised& x, int columns, float* out, Next next) {
    const int blocks = columns / 256;
    const int64_t stride = columns;
    const int16_t* totals = F::GROUP == 16 ? x.sum16 : x.sum32;
    __m256 sums[M];
    for (int m = 0; m < M; m++) sums[m] = _mm256_setzero_ps();
    for (int b = 0; b < blocks; b++, panel++) {
        prefetch(next.bytes + b * next.step, next.step);
        __m256i dots[M], others[M];
        for (int m = 0; m < M; m++) dots[m] = others[m] = _mm256_setzero_si256();
        for (int first = 0; first < 64; first += F::TERMS) {
            __m256i part[M];
            const int8_t* values = x.q + 256 * b + 4 * first;
#pragma GCC unroll 8
            for (int i = 0; i < F::TERMS; i++) {
                const __m256i w = load32(panel->q + 32 * (first + i));
#pragma GCC unroll 4
                for (int m = 0; m < M; m++) {
                    const __m256i p = _mm256_maddubs_epi16(w, broadcast4(values + m * stride + 4 * i));
                    part[m] = i == 0 ? p : _mm256_add_epi16(part[m], p);
                    keep(part[m]);
                }
            }
            const __m256i scale = load32(panel->scale[4 * first / F::GROUP]);
            for (int m = 0; m < M; m++) dots[m] = _mm256_add_epi32(dots[m], _mm256_madd_epi16(part[m], scale));
        }
        for (int pair = 0; pair < 128 / F::GROUP; pair++)
            for (int m = 0; m < M; m++) {
                const int64_t k = static_cast<int64_t>(m) * (columns / F::GROUP) + 256 / F::GROUP * b + 2 * pair;
                const __m256i products = _mm256_madd_epi16(load32(panel->other[pair]), broadcast4(totals + k));
                others[m] = _mm256_add_epi32(others[m], products);
            }
        const __m256 d = _mm256_loadu_ps(panel->d), e = _mm256_loadu_ps(panel->e);
        for (int m = 0; m < M; m++)
            sums[m] = finish_k<F>(sums[m], dots[m], others[m], d, e, x.scale[m * blocks + b]);
    }
    for (int m = 0; m < M; m++) _mm256_storeu_ps(out + 8 * m, sums[m]);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
