// G groups of LANES weight rows against M activation rows, some blocks at a time. Integer sums are exact in
// any order, and the float steps are the same whatever M is and wherever the blocks are cut: a row's bits do
// not depend on its company.
#pragma once
#include "panel.h"
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
    const uint8_t* weights;  // at block `first` of the first group: packed, or Ready
    int64_t distance;        // bytes from one group to the next
    int first, end;
    Quantised x;
    float* sums;            // [groups][..][LANES]
    int64_t sums_distance;  // floats from one group to the next
    Next next;
};

// Products of TERMS words from `first` on are summed by themselves, or on top of the words at `centre`.
template <class F, int G, int M, int TERMS, class Quants>
static inline void products(Quants quants, const int8_t* x, int first, const int32_t* centre, vi (*part)[M]) {
    for (int g = 0; g < G; g++)  // without a centre it is for the compiler's peace: all is overwritten
        for (int m = 0; m < M; m++) part[g][m] = F::CENTRED ? four(centre + m) : vi{};
#pragma GCC unroll UNROLL
    for (int i = 0; i < TERMS; i++) {
        vi w[G];
        for (int g = 0; g < G; g++) w[g] = quants(g, first + i);
#pragma GCC unroll UNROLL
        for (int m = 0; m < M; m++) {
            const int8_t* values = x + 4 * ((first + i) * M + m);
            if (i == 0 && !F::CENTRED)
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

// How a tile reads blocks: as they are packed, or Ready.
template <class F, bool READY>
struct Source {
    static constexpr int BYTES = F::BYTES * LANES;
    // The head is put in `room`, and read there.
    static inline const Head<F>& head(const uint8_t* p, Head<F>& room) {
        room.read(p);
        return room;
    }
    static inline vi quants(const uint8_t* p, int i) { return F::quants(p, i); }
    static inline vi quants(const uint8_t* p, int part, int i) { return F::quants(p, part, i); }
    static inline const uint8_t* turn(const uint8_t* p, int number) { return p + number * F::TURN * LANES; }
};

template <class F>
struct Source<F, true> {
    static constexpr int BYTES = sizeof(Ready<F>);
    static inline const Head<F>& head(const uint8_t* p, Head<F>&) { return *reinterpret_cast<const Head<F>*>(p); }
    static inline vi quants(const uint8_t* p, int i) { return load_lanes(p + sizeof(Head<F>) + sizeof(vi) * i); }
    static inline vi quants(const uint8_t* p, int part, int i) { return quants(p, 8 * part + i); }
    static inline const uint8_t* turn(const uint8_t* p, int number) { return p + number * F::STEP * 8 * sizeof(vi); }
};

// sum += x scale * (d * (dot - OFFSET * total) + least * total)
template <class F, int M>
static inline void finish_32(const Head<F>& head, const vi* dots, const Quantised& x, int b, vf* sum) {
    constexpr int OFFSET = F::OFFSET + (F::SIGNED ? BIAS : 0);
    for (int m = 0; m < M; m++) {
        const int total = x.sums[(b / 2 * M + m) * 2 + b % 2];
        vf t = head.d * to_float(OFFSET ? dots[m] - OFFSET * total : dots[m]);
        if constexpr (F::AFFINE) t = fma_lanes(head.least, fill_floats(static_cast<float>(total)), t);
        sum[m] = fma_lanes(fill_floats(x.scale[b * M + m]), t, sum[m]);
    }
}

template <class F, int G, int M, bool READY>
static void tile_32(const Work& w) {
    constexpr int TERMS = NARROW ? F::TERMS : 8;
    static_assert(!F::CENTRED || TERMS == 8, "there is one word of `centre` for each block");
    using From = Source<F, READY>;
    const vi one = factor(fill_lanes(1));
    const uint8_t* p = w.weights;
    Sums<G, M> sums;
    sums.load(w);
    for (int b = w.first; b < w.end; b++, p += From::BYTES) {
        w.next.fetch<G>(b - w.first);
        const auto quants = [&](int g, int i) { return From::quants(p + g * w.distance, i); };
        vi dots[G][M];
#pragma GCC unroll UNROLL
        for (int start = 0; start < 8; start += TERMS) {
            vi part[G][M];
            products<F, G, M, TERMS>(quants, w.x.q + 32 * M * b, start, w.x.centre + M * b, part);
            for (int g = 0; g < G; g++)
                for (int m = 0; m < M; m++)
                    dots[g][m] = start == 0 ? fold(part[g][m], one) : dots[g][m] + fold(part[g][m], one);
        }
        for (int g = 0; g < G; g++) {
            Head<F> room;
            finish_32<F, M>(From::head(p + g * w.distance, room), dots[g], w.x, b, sums.at[g]);
        }
    }
    sums.store(w);
}

// Minima times sums of one block.
template <class F, int M>
static inline void minima_of(const Head<F>& head, const Quantised& x, int b, vi* out) {
    const int16_t* sums = x.sums + 8 * b * M;
    for (int m = 0; m < M; m++) out[m] = vi{};
    for (int n = 0; n < 4; n++, sums += 2 * M)
        for (int m = 0; m < M; m++) out[m] += dot_pairs(head.minima[n], four(sums + 2 * m));
}

// sum += x scale * (d * dot - e * least)
template <class F, int M>
static inline void finish_256(const Head<F>& head, const vi* dots, const Quantised& x, int b, vf* sum) {
    vi least[M];
    if constexpr (!F::CENTRED) minima_of<F, M>(head, x, b, least);
    for (int m = 0; m < M; m++) {
        vf t = head.d * to_float(dots[m]);
        if constexpr (!F::CENTRED) t = fma_lanes(head.d, to_float(dots[m]), -(head.e * to_float(least[m])));
        sum[m] = fma_lanes(fill_floats(x.scale[b * M + m]), t, sum[m]);
    }
}

template <class F, int M, bool READY>
static void tile_256(const Work& w) {
    static_assert(!F::SIGNED, "nothing takes the bias of a level away");
    constexpr int TERMS = NARROW ? F::TERMS : F::GROUP / 4;
    static_assert(!F::CENTRED || 4 * TERMS == F::GROUP, "there is one word of `centre` for each group");
    using From = Source<F, READY>;
    const uint8_t* p = w.weights;
    Sums<1, M> sums;
    sums.load(w);
    for (int b = w.first; b < w.end; b++, p += From::BYTES) {
        w.next.fetch<1>(b - w.first);
        Head<F> room;
        const Head<F>& head = From::head(p, room);
        vi dots[M];
        for (int m = 0; m < M; m++) dots[m] = vi{};
        const int8_t* x = w.x.q + 256 * b * M;
#pragma GCC unroll 1
        for (int turn = 0; turn < 8 / F::STEP; turn++)
#pragma GCC unroll UNROLL
            for (int part = 0; part < F::STEP; part++, x += 32 * M) {
                const uint8_t* at = From::turn(p, turn);
                asm("" : "+r"(at));  // what two parts share is loaded twice: keeping it would spill it
                const auto quants = [&](int, int i) { return From::quants(at, part, i); };
#pragma GCC unroll UNROLL
                for (int start = 0; start < 8; start += TERMS) {
                    vi sub[1][M];
                    const int n = (32 * (F::STEP * turn + part) + 4 * start) / F::GROUP;
                    products<F, 1, M, TERMS>(quants, x, start, w.x.centre + (16 * b + n) * M, sub);
                    for (int m = 0; m < M; m++) dots[m] += fold(sub[0][m], head.factors[n]);
                }
            }
        finish_256<F, M>(head, dots, w.x, b, sums.at[0]);
    }
    sums.store(w);
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
