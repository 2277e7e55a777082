// From logits to a token, as ultra_kernels/sampling.py defines it: the same steps in double, so that the token
// is the same one, without sorting the vocabulary.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ultra {

constexpr int32_t NOT_NUMBERS = -2;  // in place of a token, as in step.py

// A token whose logit is changed before the draw.
struct Touched {
    int32_t token, count;  // how often it was put out
    int32_t seen, unused;  // in the prompt or the output
    double bias;
};

struct Draw {
    uint64_t seed;
    int64_t position;
    double temperature, top_p, min_p, repetition, presence, frequency;
    int32_t top_k, touched_count;
    const Touched* touched;  // ascending tokens
};

// Draws tokens; owns the memory that this takes. One thread uses it at a time.
class Sampler {
public:
    // The token, or NOT_NUMBERS. Throws std::bad_alloc.
    int32_t draw(const float* logits, int count, const Draw& how);

private:
    struct Pick {
        double score;
        uint64_t mass;
        int32_t token;
        bool operator<(const Pick& other) const {  // the likelier comes first
            return score != other.score ? score > other.score : token < other.token;
        }
    };

    double process(const float* logits, int count, const Draw& how);
    void filter(int count, const Draw& how);
    void likeliest(int count, size_t top_k);
    void heaviest(int count, double top_p);
    void by_class(int count, uint64_t need);
    void gather(int count, double above);
    void shorten(uint64_t need);
    int32_t race(int count, const Draw& how, bool all) const;

    std::vector<double> scores_;  // processed logits, then log probabilities less that of the likeliest
    std::vector<Pick> kept_;
};

}  // namespace ultra
