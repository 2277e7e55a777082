// A level is there only if every bit that it needs is.
#include "processor.h"

using ultra::bit;
using ultra::Features;
using ultra::has_avx2;
using ultra::has_avx512;

constexpr Features all = {~0u, ~0u, ~0u, ~0ull};
static_assert(has_avx2(all) && has_avx512(all), "");
static_assert(!has_avx2({0, 0, 0, 0}) && !has_avx512({0, 0, 0, 0}), "");

// Exactly what is needed is enough.
constexpr uint32_t one = bit(12) | bit(27) | bit(28) | bit(29), seven = bit(5) | bit(16) | bit(30) | bit(31);
static_assert(has_avx2({one, bit(5), 0, 0x06}) && has_avx512({one, seven, bit(11), 0xe6}), "");

constexpr bool without_one(int n) { return has_avx2({one & ~bit(n), ~0u, ~0u, ~0ull}); }
constexpr bool without_seven(int n) { return has_avx512({~0u, seven & ~bit(n), ~0u, ~0ull}); }
static_assert(!without_one(12) && !without_one(27) && !without_one(28) && !without_one(29), "");
static_assert(!without_seven(5) && !without_seven(16) && !without_seven(30) && !without_seven(31), "");
static_assert(!has_avx512({~0u, ~0u, ~bit(11), ~0ull}), "VNNI");

// The system keeps fewer registers than the processor has.
static_assert(!has_avx2({~0u, ~0u, ~0u, 0x02}) && !has_avx512({~0u, ~0u, ~0u, 0x06}), "");
static_assert(!has_avx512({~0u, ~0u, ~0u, 0xa6}) && !has_avx512({~0u, ~0u, ~0u, 0x66}), "");
static_assert(!has_avx512({~0u, ~0u, ~0u, 0xc6}) && !has_avx512({~0u, ~0u, ~0u, 0xe4}), "");
