// G groups of LANES weight rows against M activation rows, some blocks at a time. Integer sums are exact in
// any order, and the float steps are the same whatever M is and wherever the blocks are cut: a row's bits do
// not depend on its company.
#pragma once
#include "formats.h"
#include "quantise.h"

namespace ultra {
namespace ULTRA_LEVEL {

struct Next {  // weights that are wanted soon: `step` bytes of each group are fetched with every block
    const uint8_t* bytes;
    int64_t distance;
    int step;
    template <int G>
    inline void fetch(int block) const {
        for (int g = 0; g < G; g++)
            for (int i = 0; i < step; i += 64)
                prefetch(bytes + g * distance + static_cast<int64_t>(block) * step + i);
    }
};

// What a tile kernel does: blocks [first, end) of G neighbouring groups times M rows are added to the sums.
struct Work {
    const uint8_t* weights;  // at block `first` of the first group
    int64_t distance;        // bytes from one group to the next
    int first, end;
    Quantised x;
    float* sums;            // [groups][..][LANES]
    int64_t sums_distance;  // floats from one group to the next
    Next next;
};

// Products of TERMS words from `first` on are summed by themselves.
template <class F, int G, int M, int TERMS, class Quants>
static inline void products(Quants quants, const int8_t* x, int first, vi (*part)[M]) {
    for (int g = 0; g < G; g++)
        for (int m = 0; m < M; m++) part[g][m] = vi{};  // for the compiler's peace: it is overwritten
#pragma GCC unroll UNROLL
    for (int i = 0; i < TERMS; i++) {
        vi w[G];
        for (int g = 0; g < G; g++) w[g] = quants(g, first + i);
#pragma GCC unroll UNROLL
        for (int m = 0; m < M; m++) {
            const int8_t* values = x + 4 * ((first + i) * M + m);
            if (i == 0)
                for (int g = 0; g < G; g++) part[g][m] = multiply<F::SIGNED>(w[g], four(values));
            else if constexpr (G == 2)
                accumulate<F::SIGNED>(part[0][m], part[1][m], w[0], w[1], values);
            else
                accumulate<F::SIGNED>(part[0][m], w[0], values);
        }
    }
}

template <int G, int M>
struct Sums {
    vf at[G][M];
    inline void load(const Work& w) {
        for (int g = 0; g < G; g++)
            for (int m = 0; m < M; m++) at[g][m] = load_floats(w.sums + g * w.sums_distance + LANES * m);
    }
    inline void store(const Work& w) const {
        for (int g = 0; g < G; g++)
            for (int m = 0; m < M; m++) store_lanes(w.sums + g * w.sums_distance + LANES * m, at[g][m]);
    }
};

// sum += x scale * (d * (dot - OFFSET * total) + least * total)
template <class F, int M>
static inline void finish_32(const uint8_t* p, const vi* dots, const Quantised& x, int b, vf* sum) {
    constexpr int OFFSET = F::OFFSET + (F::SIGNED ? BIAS : 0);
    const vf d = F::scales(p), least = F::AFFINE ? load_halves(p + 2 * LANES) : vf{};
    for (int m = 0; m < M; m++) {
        const int total = x.sum32[(b / 2 * M + m) * 2 + b % 2];
        vf t = d * to_float(OFFSET ? dots[m] - OFFSET * total : dots[m]);
        if constexpr (F::AFFINE) t = fma_lanes(least, fill_floats(static_cast<float>(total)), t);
        sum[m] = fma_lanes(fill_floats(x.scale[b * M + m]), t, sum[m]);
    }
}

template <class F, int G, int M>
static void tile_32(const Work& w) {
    constexpr int TERMS = NARROW ? F::TERMS : 8;
    const vi one = factor(fill_lanes(1));
    const uint8_t* p = w.weights;
    Sums<G, M> sums;
    sums.load(w);
    for (int b = w.first; b < w.end; b++, p += F::BYTES * LANES) {
        w.next.fetch<G>(b - w.first);
        const auto quants = [&](int g, int i) { return F::quants(p + g * w.distance, i); };
        vi dots[G][M];
#pragma GCC unroll UNROLL
        for (int start = 0; start < 8; start += TERMS) {
            vi part[G][M];
            products<F, G, M, TERMS>(quants, w.x.q + 32 * M * b, start, part);
            for (int g = 0; g < G; g++)
                for (int m = 0; m < M; m++)
                    dots[g][m] = start == 0 ? fold(part[g][m], one) : dots[g][m] + fold(part[g][m], one);
        }
        for (int g = 0; g < G; g++) finish_32<F, M>(p + g * w.distance, dots[g], w.x, b, sums.at[g]);
    }
    sums.store(w);
}

// Scales times totals where there is an OFFSET, minima times totals otherwise, of one block.
template <class F, int M>
static inline void totals_of(const vi* s, const Quantised& x, int b, vi* out) {
    constexpr int COUNT = F::GROUP == 16 ? 4 : 2;  // vectors of four bytes a lane
    const int16_t* totals = F::GROUP == 16 ? x.sum16 : x.sum32;
    for (int m = 0; m < M; m++) out[m] = vi{};
    for (int i = 0; i < COUNT; i++) {
        const vi v = F::GROUP == 16 ? s[i] : s[2 + i];
        for (int k = 0; k < 4; k += 2) {
            const vi pair = F::GROUP == 16 ? pair_up(signed_byte_of(v, k), signed_byte_of(v, k + 1))
                                           : pair_up(byte_of(v, k), byte_of(v, k + 1));
            const int16_t* words = totals + (256 / F::GROUP * b + 4 * i + k) * M;
            for (int m = 0; m < M; m++) out[m] += dot_pairs(pair, four(words + 2 * m));
        }
    }
}

// sum += x scale * (d * dot - e * others), or d * (dot - OFFSET * others)
template <class F, int M>
static inline void finish_256(const uint8_t* p, const vi* s, const vi* dots, const Quantised& x, int b, vf* sum) {
    vi others[M];
    totals_of<F, M>(s, x, b, others);
    const vf d = load_halves(p + F::D * LANES), e = F::OFFSET ? vf{} : load_halves(p + 2 * LANES);
    for (int m = 0; m < M; m++) {
        const vf t = F::OFFSET ? d * to_float(dots[m] - F::OFFSET * others[m])
                               : fma_lanes(d, to_float(dots[m]), -(e * to_float(others[m])));
        sum[m] = fma_lanes(fill_floats(x.scale[b * M + m]), t, sum[m]);
    }
}

// The factors of the groups of columns of one block, in their order.
template <class F>
static inline void factors_of(const vi* s, vi* out) {
    for (int n = 0; n < 256 / F::GROUP; n++)
        out[n] = factor(F::GROUP == 16 ? signed_byte_of(s[n / 4], n % 4) : byte_of(s[n / 4], n % 4));
}

template <class F, int G, int M>
static void tile_256(const Work& w) {
    static_assert(!F::SIGNED, "nothing takes the bias of a level away");
    constexpr int WORDS = F::GROUP / 4, TERMS = NARROW && F::TERMS < WORDS ? F::TERMS : WORDS;
    const uint8_t* p = w.weights;
    Sums<G, M> sums;
    sums.load(w);
    for (int b = w.first; b < w.end; b++, p += F::BYTES * LANES) {
        w.next.fetch<G>(b - w.first);
        vi s[G][4], factors[G][256 / F::GROUP], dots[G][M];
        for (int g = 0; g < G; g++) {
            F::scales(p + g * w.distance, s[g]);
            factors_of<F>(s[g], factors[g]);
            for (int m = 0; m < M; m++) dots[g][m] = vi{};
        }
        const int8_t* x = w.x.q + 256 * b * M;
#pragma GCC unroll 1
        for (int turn = 0; turn < 8 / F::STEP; turn++)
#pragma GCC unroll UNROLL
            for (int part = 0; part < F::STEP; part++, x += 32 * M) {
                const uint8_t* at = p;
                asm("" : "+r"(at));  // what two parts share is loaded twice: keeping it would spill it
                const auto quants = [&](int g, int i) { return F::quants(at + g * w.distance, turn, part, i); };
#pragma GCC unroll UNROLL
                for (int start = 0; start < 8; start += TERMS) {
                    vi sub[G][M];
                    products<F, G, M, TERMS>(quants, x, start, sub);
                    const int n = (32 * (F::STEP * turn + part) + 4 * start) / F::GROUP;
                    for (int g = 0; g < G; g++)
                        for (int m = 0; m < M; m++) dots[g][m] += fold(sub[g][m], factors[g][n]);
                }
            }
        for (int g = 0; g < G; g++) finish_256<F, M>(p + g * w.distance, s[g], dots[g], w.x, b, sums.at[g]);
    }
    sums.store(w);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
