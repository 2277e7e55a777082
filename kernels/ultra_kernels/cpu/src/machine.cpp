#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

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

void pin(std::thread& thread, int cpu) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a processor that has gone: no pinning
#else
    (void)thread, (void)cpu;  // refused before it comes to this
#endif
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
                  get<int16_t>(rows * (wide / 32 + 2)), get<int32_t>(rows * (wide / 16 + 1))};
        scratch.heads = get<float>(static_cast<size_t>(sizes.head_floats));
        scratch.angles = get<float>(static_cast<size_t>(sizes.angle_floats));
        const size_t picked = static_cast<size_t>(sizes.picked_floats);
        scratch.picked = get<float>(picked);
        for (Quantised* q : {&scratch.picked32, &scratch.picked256})
            *q = {get<int8_t>(picked), get<float>(picked / 32), get<int16_t>(picked / 32 + rows),
                  get<int32_t>(picked / 16)};
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
    Sampler sampler;
    std::vector<void*> blocks;
    Cost costs[OPS] = {};  // in ticks
};

Machine::Machine(const Level& level, const Node* nodes, const Task* tasks, int task_count,
                 const Buffer* buffers, int semaphores, const Sizes& sizes, int threads,
                 const std::vector<int>& cpus)
    : level_(level),
      tasks_(tasks),
      task_count_(static_cast<uint64_t>(task_count)),
      context_{nodes, buffers, {}},
      semaphores_(new std::atomic<uint64_t>[static_cast<size_t>(semaphores)]()) {
    ticket_ = task_count_;  // step 0 has no tasks left
    fault_.reserve(200);
    for (int i = 0; i < threads; i++) memory_.push_back(std::make_unique<Memory>(sizes, level.lanes));
    threads_.reserve(static_cast<size_t>(threads));
    try {
        for (int i = 1; i < threads; i++) {
            threads_.emplace_back(&Machine::reside, this, i);
            if (!cpus.empty()) pin(threads_.back(), cpus[static_cast<size_t>(i) % cpus.size()]);
        }
    } catch (const std::exception&) {
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

void Machine::begin(int rows, int outputs, int table_width, const Draw* draws) {
    const uint64_t step = (ticket_.load() >> 32) + 1;
    context_.step = {rows, outputs, table_width, static_cast<uint32_t>(step)};
    draws_ = draws;
    status_ = DONE;
    stopped_ = false;
    asked_ = now();
    ticket_ = step << 32;
    if (sleepers_.load() > 0) {
        { std::lock_guard<std::mutex> lock(mutex_); }
        wake_.notify_all();
    }
}

Status Machine::finish(Poll poll) {
    work(*memory_[0], poll);
    const uint64_t all = (ticket_.load() >> 32) * task_count_;
    Patience patience;
    while (finished_.load(std::memory_order_acquire) < all) {
        if (!patience.once()) std::this_thread::sleep_for(NAP);
        ask(poll);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    return status_ == DONE && stopped_ ? STOPPED : status_;
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
        if (!stopped_.load(std::memory_order_relaxed)) attempt(task, memory);
        Cost& cost = memory.costs[task.op < OPS ? task.op : 0];
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

// Whatever a task throws ends the step, not the process, and reaches the caller as the step's Status.
void Machine::attempt(const Task& task, Memory& memory) {
    try {
        execute(task, memory);
    } catch (const std::bad_alloc&) {
        fail(NO_MEMORY, "");
    } catch (const std::exception& error) {
        fail(FAULTY, error.what());
    }
}

void Machine::execute(const Task& task, Memory& memory) {
    if (task.op == SAMPLE) return sample(task, memory.sampler);
    if (task.op != FAULT) return level_.execute(context_, task, memory.scratch);
    if (task.start == 0) throw std::bad_alloc();
    throw std::runtime_error("a fault on purpose");
}

void Machine::sample(const Task& task, Sampler& sampler) const {
    if (!draws_) return;
    const Node& node = context_.nodes[task.node];
    const Buffer &logits = context_.buffers[node.operands[0]], &drawn = context_.buffers[node.operands[2]];
    const int64_t rows = context_.step.outputs, end = (task.start + task.count) * rows / node.extent;
    for (int64_t row = task.start * rows / node.extent; row < end; row++)
        static_cast<int32_t*>(drawn.data)[row] = sampler.draw(
            static_cast<const float*>(logits.data) + row * logits.columns, logits.columns, draws_[row]);
}

int32_t Machine::draw(const float* logits, int count, const Draw& how) {
    return memory_[0]->sampler.draw(logits, count, how);
}

void Machine::fail(Status status, const char* what) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (status_ == DONE) {
            status_ = status;
            fault_.assign(what, std::min(std::strlen(what), fault_.capacity()));  // no memory is asked for here
        }
    }
    stopped_ = true;
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
