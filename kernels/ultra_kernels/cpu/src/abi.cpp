// The C functions that Python calls; abi.py declares them.
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#if defined(ULTRA_X86)
#include <cpuid.h>
#endif

#include "machine.h"

#define ULTRA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

bool can_avx2() {
#if defined(ULTRA_X86)
    unsigned a, b, c = 0, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

// The best level that this processor runs, or the one of that name; null if there is none.
const ultra::Level* find(const char* name) {
#if defined(ULTRA_X86)
    if (can_avx2() && (!*name || !std::strcmp(name, "avx2"))) return &ultra::avx2_level;
#endif
    return !*name || !std::strcmp(name, "portable") ? &ultra::portable_level : nullptr;
}

}  // namespace

// A hash of the sources that this library was built from.
ULTRA_EXPORT const char* ultra_cpu_sources() { return ULTRA_SOURCES; }

ULTRA_EXPORT const char* ultra_cpu_level(const char* wanted) {
    const ultra::Level* level = find(wanted);
    return level ? level->name : nullptr;
}

// Rows of a packed group.
ULTRA_EXPORT int32_t ultra_cpu_lanes(const char* level) { return find(level)->lanes; }

// A quantised matrix to the layout of pack.h; `to` has room for rows up to a whole number of groups.
ULTRA_EXPORT void ultra_cpu_pack(const char* level, int32_t format, int64_t rows, int64_t row_bytes,
                                 const uint8_t* from, uint8_t* to, int32_t threads) {
    const ultra::Level* at = find(level);
    const int64_t groups = (rows + at->lanes - 1) / at->lanes;
    const auto part = [=](int64_t i) {
        at->pack(format, rows, row_bytes, groups * i / threads, groups * (i + 1) / threads, from, to);
    };
    std::vector<std::thread> others;
    int64_t started = 1;
    try {
        for (; started < threads; started++) others.emplace_back(part, started);
    } catch (const std::system_error&) {
        // The system gives no more threads: the rest is done here.
    }
    part(0);
    for (int64_t i = started; i < threads; i++) part(i);
    for (std::thread& thread : others) thread.join();
}

// Null where memory or threads are short.
ULTRA_EXPORT void* ultra_cpu_create(const char* level, const ultra::Node* nodes, const ultra::Task* tasks,
                                    int32_t task_count, const ultra::Buffer* buffers, int32_t semaphores,
                                    const ultra::Sizes* sizes, int32_t threads) {
    try {
        return new ultra::Machine(*find(level), nodes, tasks, task_count, buffers, semaphores, *sizes, threads);
    } catch (const std::exception&) {
        return nullptr;
    }
}

// 1, or 0 if the step was stopped.
ULTRA_EXPORT int32_t ultra_cpu_run(void* machine, int32_t rows, int32_t outputs, int32_t table_width,
                                   ultra::Poll poll) {
    return static_cast<ultra::Machine*>(machine)->run(rows, outputs, table_width, poll);
}

// What every op cost since the machine began: `out` has room for ultra_cpu_ops() records.
ULTRA_EXPORT void ultra_cpu_costs(const void* machine, ultra::Cost* out) {
    static_cast<const ultra::Machine*>(machine)->costs(out);
}

ULTRA_EXPORT int32_t ultra_cpu_ops() { return ultra::OPS; }

ULTRA_EXPORT void ultra_cpu_destroy(void* machine) { delete static_cast<ultra::Machine*>(machine); }
