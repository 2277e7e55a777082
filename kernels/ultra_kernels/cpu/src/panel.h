// Blocks of LANES weight rows made ready once for many activation rows: every word as bytes, every scale as the
// tiles want it. What a format packs tightly is taken apart here, and nowhere else.
#pragma once
#include "formats.h"

namespace ultra {
namespace ULTRA_LEVEL {

constexpr int PANEL = 16384;  // bytes of blocks that are ready at once: they share the first cache with the rows

// Factors of the groups of columns in their order, the minima in pairs if there are any, and what both are
// multiplied with in the end.
template <class F, int BLOCK = F::BLOCK>
struct Head {
    static constexpr int GROUPS_OF = 256 / F::GROUP;
    vi factors[GROUPS_OF], minima[F::CENTRED ? 1 : 4];
    vf d, e;

    inline void read(const uint8_t* p) {
        vi s[4];
        F::scales(p, s);
        for (int n = 0; n < GROUPS_OF; n++)
            factors[n] = factor(F::CENTRED ? signed_byte_of(s[n / 4], n % 4) : byte_of(s[n / 4], n % 4));
        d = load_halves(p + F::D * LANES);
        if constexpr (!F::CENTRED) {
            for (int n = 0; n < 4; n++)
                minima[n] = pair_up(byte_of(s[2 + n / 2], n % 2 * 2), byte_of(s[2 + n / 2], n % 2 * 2 + 1));
            e = load_halves(p + 2 * LANES);
        }
    }
};

template <class F>
struct Head<F, 32> {
    vf d, least;

    inline void read(const uint8_t* p) {
        d = F::scales(p);
        least = F::AFFINE ? load_halves(p + 2 * LANES) : vf{};
    }
};

// A block that is ready.
template <class F>
struct Ready {
    Head<F> head;
    vi words[F::BLOCK / 4];
};

template <class F>
static inline void make_ready(const uint8_t* p, Ready<F>& to) {
    to.head.read(p);
    vi* word = to.words;
    if constexpr (F::BLOCK == 256) {
        for (int turn = 0; turn < 8 / F::STEP; turn++, p += F::TURN * LANES)
#pragma GCC unroll UNROLL
            for (int part = 0; part < F::STEP; part++)
#pragma GCC unroll UNROLL
                for (int i = 0; i < 8; i++) *word++ = F::quants(p, part, i);
    } else {
#pragma GCC unroll UNROLL
        for (int i = 0; i < 8; i++) *word++ = F::quants(p, i);
    }
}

}  // namespace ULTRA_LEVEL
}  // namespace ultra
