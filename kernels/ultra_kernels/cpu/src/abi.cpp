// The C functions that Python calls; abi.py declares them.
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "machine.h"
#include "processor.h"

#ifndef ULTRA_RUNS_AVX512  // the tests have a build in which another level stands in
#define ULTRA_RUNS_AVX512 has_avx512
#endif

#define ULTRA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// The best level that this processor runs, or the one of that name; null if there is none.
const ultra::Level* find(const char* name) {
    const auto wanted = [=](const ultra::Level& level) { return !*name || !std::strcmp(name, level.name); };
#if defined(ULTRA_X86)
    const ultra::Features has = ultra::features();
    if (ULTRA_RUNS_AVX512(has) && wanted(ultra::avx512_level)) return &ultra::avx512_level;
    if (has_avx2(has) && wanted(ultra::avx2_level)) return &ultra::avx2_level;
#endif
    return wanted(ultra::portable_level) ? &ultra::portable_level : nullptr;
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

ULTRA_EXPORT void ultra_cpu_destroy(void* machine) { delete static_cast<ultra::Machine*>(machine); }
