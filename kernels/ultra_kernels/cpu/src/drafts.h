// Drafts without a model, and how many of them are worth it: ../../drafting.py and ../../policy.py in C++, to the
// same numbers.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ultra {

constexpr int KINDS = 6;

// Drafted tokens, and the chance that each is right if those before it are.
struct Offer {
    std::vector<int32_t> tokens;
    double chance = 0;
    int kind = 0;
};

// What the drafts of a stream come from; abi.py has the same.
struct Drafting {
    const int32_t* texts;  // other texts, a GAP behind each, then the text so far
    int64_t length;
    int32_t most, unused;  // drafts of a block
};

// The drafter of one stream.
class Suffix {
public:
    explicit Suffix(const Drafting& drafting);
    void append(int32_t token);
    void offer(int most, Offer& out);
    void learn(const Offer& offer, int right, int seen);

private:
    void put(int32_t token);
    void follow(int32_t token);
    int64_t match(int* length) const;
    int common(int64_t a, int64_t b) const;

    std::vector<int32_t> tokens_;
    std::unordered_map<uint64_t, int64_t> latest_;  // two tokens -> the last place that they ended at
    std::vector<int64_t> before_;
    int64_t at_ = -1;
    int missed_ = 0;
    bool held_ = false;
    double right_[KINDS], tried_[KINDS];
};

// Seconds of a step by its rows, in memory of the host: 0 where none was timed.
class StepTimes {
public:
    StepTimes(double* seconds, int rows, bool fixed) : seconds_(seconds), rows_(rows), fixed_(fixed) {}
    void note(int rows, double seconds);
    double of(int rows) const;

private:
    double* seconds_;  // [rows + 1]
    int rows_;
    bool fixed_;
};

// How many tokens of each offer go into a step of at most `rows` rows.
void plan(const std::vector<Offer>& offers, const StepTimes& times, int rows, std::vector<int>& counts);

}  // namespace ultra
