#include "sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ultra {
namespace {

constexpr double GREEDY_BELOW = 1e-3, LN2 = 0.69314718055994530942, INF = std::numeric_limits<double>::infinity();
constexpr double NO_MASS = -32.0;    // scores below have a mass of zero
constexpr double FIRST_LOOK = -8.0;  // top-p seldom needs a score below this
constexpr int POWERS = 64, BLOCK = 4096;
constexpr size_t FEW = 64;
constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15;

typedef float v4 __attribute__((vector_size(16)));
typedef int32_t m4 __attribute__((vector_size(16)));

// The largest of count % 16 == 0 values; `bad` collects what is no number.
float largest(const float* x, int count, m4& bad) {
    v4 top[4];
    for (v4& lane : top) lane = v4{} - std::numeric_limits<float>::infinity();
    for (int i = 0; i < count; i += 16)
        for (int j = 0; j < 4; j++) {
            v4 value;
            std::memcpy(&value, x + i + 4 * j, sizeof value);
            bad |= value != value;
            top[j] = value > top[j] ? value : top[j];
        }
    float best = top[0][0];
    for (const v4& lane : top)
        for (int k = 0; k < 4; k++) best = std::max(best, lane[k]);
    return best;
}

// The index of the first largest value; -1 if there is a NaN.
int argmax(const float* x, int count) {
    m4 bad = {};
    float best = -std::numeric_limits<float>::infinity();
    int where = 0;
    for (int start = 0; start < count; start += BLOCK) {
        const int length = std::min(BLOCK, count - start), whole = length / 16 * 16;
        float top = largest(x + start, whole, bad);
        for (int i = start + whole; i < start + length; i++) {
            if (x[i] != x[i]) return -1;
            top = std::max(top, x[i]);
        }
        if (top > best) best = top, where = start;
    }
    if (bad[0] | bad[1] | bad[2] | bad[3]) return -1;
    while (x[where] != best) where++;
    return where;
}

inline uint64_t mix(uint64_t z) {  // SplitMix64's finaliser
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

struct Powers {
    Powers() {
        for (int i = 0; i < POWERS; i++) at[i] = std::exp2(i / double(POWERS));
    }
    double at[POWERS];
};
const Powers powers;

// exp(score) in units of 2^-43.
inline uint64_t mass(double score) {
    const double steps = std::max(score, NO_MASS) * (POWERS / LN2);
    const int whole = static_cast<int>(steps - 0.5);
    const double r = (steps - whole) * (LN2 / POWERS);
    const double series = 1 + r * (1 + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24))));
    const double units = powers.at[whole & (POWERS - 1)] * series * 0x1p43;
    return static_cast<uint64_t>(static_cast<int64_t>(units)) >> -(whole >> 6);
}

// A race of tokens: the largest score + Gumbel noise wins, of equal ones the lower token.
class Race {
public:
    Race(uint64_t seed, int64_t position)
        : key_(mix(mix(seed + GOLDEN) + (static_cast<uint64_t>(position) + 1) * GOLDEN)) {}

    void enter(double score, int32_t token) {
        const uint64_t bits = mix(key_ + (static_cast<uint64_t>(token) + 1) * GOLDEN);
        // Noise of u is below -log(1 - u), and n leading ones say that 1 - u is above 2^-(n + 1): nearly every
        // token has lost by that, without a logarithm.
        const int ones = ~bits ? __builtin_clzll(~bits) : 64;
        if (score + ((ones + 1) * LN2 + 1e-6) <= best_ && ones < 50) return;
        const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
        const double value = score - std::log(-std::log(uniform));
        if (value > best_ || (value == best_ && token < winner_)) best_ = value, winner_ = token;
    }
    int32_t winner() const { return winner_; }

private:
    uint64_t key_;
    double best_ = -INF;
    int32_t winner_ = -1;
};

}  // namespace

int32_t Sampler::draw(const float* logits, int count, const Draw& how) {
    const int first = argmax(logits, count);
    if (first < 0) return NOT_NUMBERS;
    const bool greedy = how.temperature < GREEDY_BELOW;
    double top = logits[first];
    if (how.touched_count) top = process(logits, count, how);
    if (!std::isfinite(top)) return NOT_NUMBERS;
    if (greedy && !how.touched_count) return first;
    if (greedy) return static_cast<int32_t>(std::find(scores_.begin(), scores_.end(), top) - scores_.begin());
    scores_.resize(static_cast<size_t>(count));
    double* scores = scores_.data();
    if (how.touched_count)
        for (int i = 0; i < count; i++) scores[i] = (scores[i] - top) / how.temperature;
    else
        for (int i = 0; i < count; i++) scores[i] = (static_cast<double>(logits[i]) - top) / how.temperature;
    const bool all = !how.top_k && how.top_p >= 1 && how.min_p == 0;
    if (!all) filter(count, how);
    return race(count, how, all);
}

// Penalties and bias; returns the largest of what becomes of the logits.
double Sampler::process(const float* logits, int count, const Draw& how) {
    scores_.assign(logits, logits + count);
    for (const Touched* t = how.touched; t != how.touched + how.touched_count; t++) {
        double& score = scores_[static_cast<size_t>(t->token)];
        if (t->seen) score = score > 0 ? score / how.repetition : score * how.repetition;
        if (t->count) score -= how.presence + how.frequency * t->count;
        score += t->bias;
    }
    return *std::max_element(scores_.begin(), scores_.end());
}

// What survives top-k, then top-p, then min-p, in no order.
void Sampler::filter(int count, const Draw& how) {
    const double least = how.min_p > 0 ? std::log(how.min_p) : -INF;
    if (how.top_k && how.top_k < count) {
        likeliest(count, static_cast<size_t>(how.top_k));
        if (how.top_p < 1) {
            uint64_t total = 0;
            for (Pick& pick : kept_) total += pick.mass = mass(pick.score);
            shorten(std::min(total, static_cast<uint64_t>(how.top_p * static_cast<double>(total))));
        }
    } else if (how.top_p < 1) {
        heaviest(count, how.top_p);
    } else {
        gather(count, std::max(least, -std::numeric_limits<double>::max()));
    }
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [=](const Pick& p) { return p.score < least; }),
                kept_.end());
}

void Sampler::likeliest(int count, size_t top_k) {
    kept_.clear();
    const auto cut = [&] {
        std::nth_element(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(top_k) - 1, kept_.end());
        kept_.resize(top_k);
        return kept_.back().score;
    };
    double edge = -INF;
    for (int i = 0; i < count; i++) {
        const double score = scores_[static_cast<size_t>(i)];
        if (!(score > edge)) continue;  // an equal one has a higher index: it comes later
        kept_.push_back({score, 0, i});
        if (kept_.size() == 2 * top_k + FEW) edge = cut();
    }
    if (kept_.size() > top_k) cut();
}

// Top-p of the whole vocabulary.
void Sampler::heaviest(int count, double top_p) {
    kept_.clear();
    uint64_t total = 0, found = 0;
    for (int i = 0; i < count; i++) {
        const double score = scores_[static_cast<size_t>(i)];
        const uint64_t weight = mass(score);
        total += weight;
        if (score < FIRST_LOOK) continue;
        kept_.push_back({score, weight, i});
        found += weight;
    }
    const uint64_t need = std::min(total, static_cast<uint64_t>(top_p * static_cast<double>(total)));
    if (found >= need) return shorten(need);
    by_class(count, need);
}

// Top-p where the likeliest tokens are many: by 256 classes of score, only one of which has to be ordered.
void Sampler::by_class(int count, uint64_t need) {
    const double lowest = std::max(NO_MASS, *std::min_element(scores_.begin(), scores_.end()));
    const double scale = lowest < 0 ? -255 / lowest : 0;
    const auto class_of = [=](double score) { return static_cast<int>(-std::max(score, lowest) * scale); };
    uint64_t masses[256] = {};
    for (const double score : scores_) masses[class_of(score)] += mass(score);
    int last = 0;
    while (masses[last] < need) need -= masses[last++];
    kept_.clear();
    for (int i = 0; i < count; i++) {
        const double score = scores_[static_cast<size_t>(i)];
        if (class_of(score) == last) kept_.push_back({score, mass(score), i});
    }
    shorten(need);
    for (int i = 0; i < count; i++) {
        const double score = scores_[static_cast<size_t>(i)];
        if (class_of(score) < last) kept_.push_back({score, 0, i});
    }
}

// The tokens of at least that score.
void Sampler::gather(int count, double least) {
    kept_.clear();
    for (int i = 0; i < count; i++) {
        const double score = scores_[static_cast<size_t>(i)];
        if (score >= least) kept_.push_back({score, mass(score), i});
    }
}

// Leaves the fewest likeliest tokens whose mass is `need`, at least one: halves are ordered, not the whole.
void Sampler::shorten(uint64_t need) {
    const auto at = [&](size_t index) { return kept_.begin() + static_cast<ptrdiff_t>(index); };
    size_t low = 0, high = kept_.size();  // what is before `low` is kept, what is from `high` on is not needed
    while (high - low > FEW) {
        const size_t middle = low + (high - low) / 2;
        std::nth_element(at(low), at(middle), at(high));
        uint64_t upper = 0;
        for (size_t i = low; i < middle; i++) upper += kept_[i].mass;
        if (upper >= need) {
            high = middle;
        } else {
            need -= upper;
            low = middle;
        }
    }
    std::sort(at(low), at(high));
    for (; low < high && need > kept_[low].mass; low++) need -= kept_[low].mass;
    kept_.resize(std::min(low + 1, kept_.size()));
}

int32_t Sampler::race(int count, const Draw& how, bool all) const {
    Race race(how.seed, how.position);
    if (all)
        for (int i = 0; i < count; i++) race.enter(scores_[static_cast<size_t>(i)], i);
    else
        for (const Pick& pick : kept_) race.enter(pick.score, pick.token);
    return race.winner();
}

}  // namespace ultra
