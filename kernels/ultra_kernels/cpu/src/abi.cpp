// The C functions that Python calls; abi.py declares them.
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "processor.h"
#include "rounds.h"

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

struct PackJob {  // one matrix; `to` has room for rows up to a whole number of groups
    int64_t rows, row_bytes;
    const uint8_t* from;
    uint8_t* to;
    int32_t format, unused;
};

// part(i) for every i < threads, each on a thread of its own if the system gives as many.
template <class Part>
void parallel(int64_t threads, Part part) {
    std::vector<std::thread> others;
    int64_t started = 1;
    try {
        for (; started < threads; started++) others.emplace_back(part, started);
    } catch (const std::system_error&) {
        // The rest is done here.
    }
    part(0);
    for (int64_t i = started; i < threads; i++) part(i);
    for (std::thread& thread : others) thread.join();
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

// Quantised matrices to the layout of pack.h.
ULTRA_EXPORT void ultra_cpu_pack(const char* level, const PackJob* jobs, int32_t count, int32_t threads) {
    const ultra::Level* at = find(level);
    parallel(threads, [=](int64_t i) {
        for (const PackJob* job = jobs; job < jobs + count; job++) {
            const int64_t groups = (job->rows + at->lanes - 1) / at->lanes;
            at->pack(job->format, job->rows, job->row_bytes, groups * i / threads, groups * (i + 1) / threads,
                     job->from, job->to);
        }
    });
}

// The sum of the words of some memory: how fast `threads` threads can read it. `bytes` is a multiple of 64.
ULTRA_EXPORT uint64_t ultra_cpu_read(const uint64_t* words, int64_t bytes, int32_t threads) {
    std::vector<uint64_t> sums(static_cast<size_t>(threads));
    parallel(threads, [&](int64_t i) {
        const int64_t lines = bytes / 64, first = lines * i / threads * 8, end = lines * (i + 1) / threads * 8;
        uint64_t sum[8] = {};
        for (int64_t at = first; at < end; at += 8) {
            __builtin_prefetch(words + at + 128);
            for (int k = 0; k < 8; k++) sum[k] += words[at + k];
        }
        for (const uint64_t part : sum) sums[static_cast<size_t>(i)] += part;
    });
    uint64_t all = 0;
    for (const uint64_t sum : sums) all += sum;
    return all;
}

// Null where memory or threads are short.
ULTRA_EXPORT void* ultra_cpu_create(const char* level, const ultra::Node* nodes, const ultra::Task* tasks,
                                    int32_t task_count, const ultra::Buffer* buffers, int32_t semaphores,
                                    const ultra::Sizes* sizes, int32_t threads, const int32_t* cpus,
                                    int32_t cpu_count) {
    try {
        return new ultra::Machine(*find(level), nodes, tasks, task_count, buffers, semaphores, *sizes, threads,
                                  std::vector<int>(cpus, cpus + cpu_count));
    } catch (const std::exception&) {
        return nullptr;
    }
}

// One step without draws; a Status.
ULTRA_EXPORT int32_t ultra_cpu_run(void* machine, int32_t rows, int32_t outputs, int32_t table_width,
                                   ultra::Poll poll) {
    ultra::Machine& m = *static_cast<ultra::Machine*>(machine);
    m.begin(rows, outputs, table_width, nullptr);
    return m.finish(poll);
}

// What every op cost since the machine began: `out` has room for ultra_cpu_ops() records.
ULTRA_EXPORT void ultra_cpu_costs(const void* machine, ultra::Cost* out) {
    static_cast<const ultra::Machine*>(machine)->costs(out);
}

ULTRA_EXPORT int32_t ultra_cpu_ops() { return ultra::OPS; }
// The step that the inputs hold and what follows from it; a Status. See rounds.h.
ULTRA_EXPORT int32_t ultra_cpu_generate(void* machine, const ultra::Inputs* inputs, const ultra::Stream* streams,
                                        int32_t count, int32_t rows, int32_t table_width, const int32_t* drawn,
                                        double* seconds, int32_t fixed, const ultra::Log* log, ultra::Poll poll) {
    try {
        ultra::Machine& m = *static_cast<ultra::Machine*>(machine);
        const ultra::StepTimes times(seconds, inputs->timed_rows, fixed);
        return ultra::Rounds(m, *inputs, streams, count, drawn, times, *log).run(rows, table_width, poll);
    } catch (const std::bad_alloc&) {  // between two steps
        return ultra::NO_MEMORY;
    }
}

// One token outside of a step; a Status.
ULTRA_EXPORT int32_t ultra_cpu_draw(void* machine, const float* logits, int32_t count, const ultra::Draw* how,
                                    int32_t* token) {
    try {
        *token = static_cast<ultra::Machine*>(machine)->draw(logits, count, *how);
        return ultra::DONE;
    } catch (const std::bad_alloc&) {
        return ultra::NO_MEMORY;
    }
}

// What was wrong in the step that was FAULTY.
ULTRA_EXPORT const char* ultra_cpu_fault(void* machine) { return static_cast<ultra::Machine*>(machine)->fault(); }

ULTRA_EXPORT void ultra_cpu_destroy(void* machine) { delete static_cast<ultra::Machine*>(machine); }
