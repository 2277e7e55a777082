// Which instruction-set levels a processor has: its own word in cpuid, and the system's in xcr0, without which
// the wide registers are not kept.
#pragma once
#include <cstdint>

#if defined(ULTRA_X86)
#include <cpuid.h>
#endif

namespace ultra {

struct Features {
    uint32_t ecx1, ebx7, ecx7;  // cpuid: ecx of leaf 1, ebx and ecx of leaf 7
    uint64_t xcr0;              // registers that the system keeps
};

constexpr uint32_t bit(int n) { return uint32_t{1} << n; }

constexpr bool has_avx2(const Features& f) {
    constexpr uint32_t fma = bit(12), osxsave = bit(27), avx = bit(28), f16c = bit(29), one = fma | osxsave | avx | f16c;
    constexpr uint64_t kept = 0x06;  // xmm, ymm
    return (f.ecx1 & one) == one && (f.ebx7 & bit(5)) && (f.xcr0 & kept) == kept;
}

constexpr bool has_avx512(const Features& f) {
    constexpr uint32_t foundation = bit(16), bw = bit(30), vl = bit(31), vnni = bit(11), seven = foundation | bw | vl;
    constexpr uint64_t kept = 0xe6;  // also masks, the upper halves of zmm 0 to 15, and zmm 16 to 31
    return has_avx2(f) && (f.ebx7 & seven) == seven && (f.ecx7 & vnni) && (f.xcr0 & kept) == kept;
}

// Those of the processor that this runs on.
inline Features features() {
    Features f = {};
#if defined(ULTRA_X86)
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    f.ecx1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        f.ebx7 = b;
        f.ecx7 = c;
    }
    if (f.ecx1 & bit(27)) {  // the instruction that reads xcr0 is there
        uint32_t low, high;
        asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        f.xcr0 = uint64_t{high} << 32 | low;
    }
#endif
    return f;
}

}  // namespace ultra
