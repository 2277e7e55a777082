// AVX-512 without a processor that has it: SIMDe's functions under the intrinsics' names. Included before all
// else (-include) into the level that is built for it. Not inlined: a compiler takes minutes over that.
#pragma once
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/madd.h>
#include <simde/x86/avx512/shuffle.h>

#define ULTRA_CALLED static __attribute__((noinline, unused))

ULTRA_CALLED simde__m512i emulated_dpbusd(simde__m512i sum, simde__m512i a, simde__m512i b) {
    return simde_mm512_dpbusd_epi32(sum, a, b);
}
ULTRA_CALLED simde__m512i emulated_madd(simde__m512i a, simde__m512i b) { return simde_mm512_madd_epi16(a, b); }
ULTRA_CALLED simde__m512 emulated_fmadd(simde__m512 a, simde__m512 b, simde__m512 c) {
    return simde_mm512_fmadd_ps(a, b, c);
}
ULTRA_CALLED simde__m512i emulated_shuffle(simde__m512i a, simde__m512i b) {
    return simde_mm512_shuffle_epi8(a, b);
}

#define __m512 simde__m512
#define __m512i simde__m512i
#define _mm512_dpbusd_epi32 emulated_dpbusd
#define _mm512_madd_epi16 emulated_madd
#define _mm512_shuffle_epi8 emulated_shuffle
#define _mm512_broadcast_i32x4 simde_mm512_broadcast_i32x4
#define _mm512_fmadd_ps emulated_fmadd
