#include "machine.h"

#include <chrono>
#include <cstdlib>
#include <new>
#include <system_error>

namespace ultra {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int SPINS = 2000;                            // some ten microseconds
constexpr auto YIELDING = std::chrono::microseconds(2000);  // then a thread without work parks
constexpr auto NAP = std::chrono::microseconds(50);
constexpr int64_t ASK_EVERY = 10'000'000;              // nanoseconds between two calls of `poll`

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Steady::now().time_since_epoch()).count();
}

// Waiting that hurts nobody: spin as long as a hand-over takes, then let others run, then sleep in naps.
class Patience {
public:
    // False once the yielding is over.
    bool once() {
        if (spins_ < SPINS) {
            spins_++;
            relax();
            return true;
        }
        if (spins_ == SPINS) {
            spins_++;
            since_ = Steady::now();
        }
        std::this_thread::yield();
        return Steady::now() - since_ < YIELDING;
    }

private:
    int spins_ = 0;
    Steady::time_point since_;
};

}  // namespace

Clock::Clock() : ticks_(ticks()), time_(now()) {}

int64_t Clock::ticks() {
#if defined(__x86_64__)
    return static_cast<int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
    int64_t count;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return now();
#endif
}

int64_t Clock::nanoseconds(int64_t count) const {
    const double passed = static_cast<double>(ticks() - ticks_);
    return passed > 0 ? static_cast<int64_t>(static_cast<double>(count) * static_cast<double>(now() - time_) / passed) : 0;
}

struct Machine::Memory {
    Memory(const Sizes& sizes, int lanes) {
        const size_t rows = static_cast<size_t>(sizes.rows), wide = static_cast<size_t>(sizes.widest);
        scratch = {};
        scratch.node = -1;
        scratch.normed = get<float>(rows * wide);
        for (Quantised* q : {&scratch.by32, &scratch.by256})
            *q = {get<int8_t>(rows * wide), get<float>(rows * (wide / 32 + 1)),
                  get<int16_t>(rows * (wide / 16 + 1)), get<int16_t>(rows * (wide / 32 + 2))};
        scratch.heads = get<float>(static_cast<size_t>(sizes.head_floats));
        const size_t picked = static_cast<size_t>(sizes.picked_floats);
        scratch.picked = get<float>(picked);
        for (Quantised* q : {&scratch.picked32, &scratch.picked256})
            *q = {get<int8_t>(picked), get<float>(picked / 32), get<int16_t>(picked / 16),
                  get<int16_t>(picked / 32 + rows)};
        scratch.pairs = get<int32_t>(static_cast<size_t>(sizes.pair_integers));
        scratch.tile = get<float>(rows * 4 * static_cast<size_t>(lanes));
    }
    ~Memory() {
        for (void* block : blocks) std::free(block);
    }

    template <class T>
    T* get(size_t count) {
        void* block = std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64);
        if (!block) throw std::bad_alloc();
        blocks.push_back(block);
        return static_cast<T*>(block);
    }

    Scratch scratch;
    std::vector<void*> blocks;
    Cost costs[OPS] = {};  // in ticks
};

Machine::Machine(const Level& level, const Node* nodes, const Task* tasks, int task_count,
                 const Buffer* buffers, int semaphores, const Sizes& sizes, int threads)
    : level_(level),
      tasks_(tasks),
      task_count_(static_cast<uint64_t>(task_count)),
      context_{nodes, buffers, {}},
      semaphores_(new std::atomic<uint64_t>[static_cast<size_t>(semaphores)]()) {
    ticket_ = task_count_;  // step 0 has no tasks left
    for (int i = 0; i < threads; i++) memory_.push_back(std::make_unique<Memory>(sizes, level.lanes));
    try {
        for (int i = 1; i < threads; i++) threads_.emplace_back(&Machine::reside, this, i);
    } catch (const std::system_error&) {
        // The system gives no more threads: those that are there do all the work.
    }
}

Machine::~Machine() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        quit_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

bool Machine::run(int rows, int outputs, int table_width, Poll poll) {
    const uint64_t step = (ticket_.load() >> 32) + 1;
    context_.step = {rows, outputs, table_width, static_cast<uint32_t>(step)};
    stopped_ = false;
    asked_ = now();
    ticket_ = step << 32;
    if (sleepers_.load() > 0) {
        { std::lock_guard<std::mutex> lock(mutex_); }
        wake_.notify_all();
    }
    work(*memory_[0], poll);
    Patience patience;
    while (finished_.load(std::memory_order_acquire) < step * task_count_) {
        if (!patience.once()) std::this_thread::sleep_for(NAP);
        ask(poll);
    }
    return !stopped_;
}

void Machine::reside(int index) {
    while (!quit_.load(std::memory_order_relaxed)) {
        const uint64_t seen = ticket_.load();
        work(*memory_[static_cast<size_t>(index)], nullptr);
        if (!sleep_until_work(seen >> 32)) return;
    }
}

// Waits for a step after `seen`, or for tasks left in it; false when the machine ends.
bool Machine::sleep_until_work(uint64_t seen) {
    const auto ready = [&] {
        const uint64_t ticket = ticket_.load();
        return ticket >> 32 != seen || (ticket & 0xffffffff) < task_count_ || quit_.load();
    };
    Patience patience;
    while (!ready())
        if (!patience.once()) {
            std::unique_lock<std::mutex> lock(mutex_);
            sleepers_++;
            wake_.wait(lock, ready);
            sleepers_--;
        }
    return !quit_;
}

// The next task of the current step, if there is one.
bool Machine::take(uint64_t* step, int* index) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    do {
        if ((ticket & 0xffffffff) >= task_count_) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel));
    *step = ticket >> 32;
    *index = static_cast<int>(ticket & 0xffffffff);
    return true;
}

void Machine::work(Memory& memory, Poll poll) {
    uint64_t step;
    int index;
    while (take(&step, &index)) {
        const Task& task = tasks_[index];
        const int64_t taken = Clock::ticks();
        wait_for(task, step, poll);
        const int64_t begun = Clock::ticks();
        if (!stopped_.load(std::memory_order_relaxed)) level_.execute(context_, task, memory.scratch);
        Cost& cost = memory.costs[task.op];
        cost.tasks++;
        cost.busy += Clock::ticks() - begun;
        cost.waited += begun - taken;
        semaphores_[static_cast<size_t>(task.signal)].fetch_add(1, std::memory_order_release);
        finished_.fetch_add(1, std::memory_order_release);
        ask(poll);
    }
}

void Machine::costs(Cost* out) const {
    for (int op = 0; op < OPS; op++) {
        Cost sum = {};
        for (const auto& memory : memory_) {
            sum.tasks += memory->costs[op].tasks;
            sum.busy += memory->costs[op].busy;
            sum.waited += memory->costs[op].waited;
        }
        out[op] = {sum.tasks, clock_.nanoseconds(sum.busy), clock_.nanoseconds(sum.waited)};
    }
}

void Machine::wait_for(const Task& task, uint64_t step, Poll poll) {
    if (task.wait < 0) return;
    const std::atomic<uint64_t>& semaphore = semaphores_[static_cast<size_t>(task.wait)];
    const uint64_t target = step * static_cast<uint64_t>(task.need);
    Patience patience;
    while (semaphore.load(std::memory_order_acquire) < target && !stopped_.load(std::memory_order_relaxed)) {
        if (!patience.once()) std::this_thread::sleep_for(NAP);
        ask(poll);
    }
}

// Python is asked rarely: it has a lock to get first.
void Machine::ask(Poll poll) {
    if (!poll || stopped_.load(std::memory_order_relaxed)) return;
    const int64_t time = now();
    if (time - asked_ < ASK_EVERY) return;
    if (poll()) stopped_ = true;
    asked_ = now();
}

}  // namespace ultra
