// The resident threads: started once, they walk the program's tasks, step after step.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "layout.h"
#include "sample.h"

namespace ultra {

struct Sizes {
    int32_t rows, widest, head_floats;      // most rows; widest input of a product; floats of Scratch::heads
    int32_t picked_floats, pair_integers;  // of Scratch::picked and Scratch::pairs
    int32_t angle_floats;                  // of Scratch::angles
};

// What one op cost since the machine began, all threads together.
struct Cost {
    int64_t tasks, busy, waited;  // tasks; nanoseconds of computing; nanoseconds of waiting for others' tasks
};

using Poll = int32_t (*)();  // asked now and then by the calling thread: nonzero stops the step

// Counts ticks of the processor, the cheapest clock there is, and knows how long one is.
class Clock {
public:
    Clock();
    static int64_t ticks();
    int64_t nanoseconds(int64_t ticks) const;

private:
    int64_t ticks_, time_;  // when it was made
};
enum Status : int32_t { STOPPED, DONE, FAULTY, NO_MEMORY };  // how a step ended

class Machine {
public:
    // The arrays are the caller's and outlive the machine. `threads` counts the calling one. The others are
    // pinned to `cpus`, one after another, if there are any.
    Machine(const Level& level, const Node* nodes, const Task* tasks, int task_count, const Buffer* buffers,
            int semaphores, const Sizes& sizes, int threads, const std::vector<int>& cpus);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    // One step: begin and finish. `draws` has one for each output, or is null: then no tokens are drawn.
    // However it ends, the semaphores are where a whole step leaves them, and the next may begin.
    void begin(int rows, int outputs, int table_width, const Draw* draws);
    Status finish(Poll poll);

    // One token outside of a step, on the calling thread. Throws std::bad_alloc.
    int32_t draw(const float* logits, int count, const Draw& how);

    // The step that has begun shall end soon.
    void stop() { stopped_ = true; }
    // What was wrong when a step was FAULTY.
    const char* fault() const { return fault_.c_str(); }

    // Not while a step runs. `out` has OPS entries, opcode by opcode.
    void costs(Cost* out) const;

private:
    struct Memory;

    void reside(int index);
    bool sleep_until_work(uint64_t seen);
    void work(Memory& memory, Poll poll);
    void attempt(const Task& task, Memory& memory);
    void execute(const Task& task, Memory& memory);
    void sample(const Task& task, Sampler& sampler) const;
    void fail(Status status, const char* what);
    bool take(uint64_t* step, int* index);
    void wait_for(const Task& task, uint64_t step, Poll poll);
    void ask(Poll poll);

    const Level& level_;
    const Task* tasks_;
    const uint64_t task_count_;
    Context context_;
    const Draw* draws_ = nullptr;
    std::vector<std::unique_ptr<Memory>> memory_;
    std::unique_ptr<std::atomic<uint64_t>[]> semaphores_;
    std::atomic<uint64_t> ticket_{0};    // step << 32 | next task
    std::atomic<uint64_t> finished_{0};  // tasks done in all steps
    std::atomic<bool> stopped_{false}, quit_{false};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    Clock clock_;
    Status status_ = DONE;  // under mutex_: the first fault of the step
    std::string fault_;
    int64_t asked_ = 0;  // when `poll` was last called
    std::vector<std::thread> threads_;
};

}  // namespace ultra
