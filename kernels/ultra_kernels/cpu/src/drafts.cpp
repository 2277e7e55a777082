#include "drafts.h"

#include <algorithm>

namespace ultra {
namespace {

constexpr int32_t GAP = -1;
constexpr int CANDIDATES = 32, LONGEST = 32, CERTAIN = 4, AHEAD = 8, PATIENCE = 8, ALIGNED = 5;
constexpr double PRIORS[KINDS] = {0.3, 0.45, 0.65, 0.8, 0.9, 0.4}, PRIOR_WEIGHT = 4.0, MEMORY = 0.9;
constexpr double FIRST_SLOPE = 0.14, SLOPE = 0.29, NEW = 0.25;
constexpr int FLAT_ROWS = 4;

uint64_t key_of(int32_t first, int32_t second) {
    return static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32 | static_cast<uint32_t>(second);
}

int kind_of(int length) { return (length >= 3) + (length >= 4) + (length >= 8) + (length >= 16); }

double guess(int rows) {
    const int flat = std::min(rows, FLAT_ROWS);
    return 1.0 + FIRST_SLOPE * (flat - 1) + SLOPE * (rows - flat);
}

}  // namespace

Suffix::Suffix(const Drafting& drafting) {
    for (int i = 0; i < KINDS; i++) {
        right_[i] = PRIORS[i] * PRIOR_WEIGHT;
        tried_[i] = PRIOR_WEIGHT;
    }
    tokens_.reserve(static_cast<size_t>(drafting.length) + 256);
    before_.reserve(static_cast<size_t>(drafting.length) + 256);
    for (int64_t i = 0; i < drafting.length; i++) put(drafting.texts[i]);
}

void Suffix::append(int32_t token) {
    if (at_ >= 0) follow(token);
    put(token);
}

void Suffix::put(int32_t token) {
    const int32_t last = tokens_.empty() ? GAP : tokens_.back();
    int64_t before = -1;
    if (token != GAP && last != GAP) {
        const int64_t place = static_cast<int64_t>(tokens_.size());
        const auto [entry, added] = latest_.try_emplace(key_of(last, token), place);
        if (!added) {
            before = entry->second;
            entry->second = place;
        }
    }
    before_.push_back(before);
    tokens_.push_back(token);
}

// Move along the source; a token that it has a little later was found again, another one replaced.
void Suffix::follow(int32_t token) {
    const int64_t size = static_cast<int64_t>(tokens_.size()), end = std::min(at_ + 1 + AHEAD, size);
    int64_t found = at_;
    while (found < end && tokens_[static_cast<size_t>(found)] != token) found++;
    missed_ = found < end ? 0 : missed_ + 1;
    at_ = (found < end ? found : at_) + 1;
    if (missed_ > PATIENCE || at_ >= size) at_ = -1;
}

void Suffix::offer(int most, Offer& out) {
    int length = 0;
    const int64_t start = match(&length);
    const bool aligned = held_ && at_ >= 0 && length < CERTAIN && start != at_;
    if (!aligned) {
        at_ = start;
        missed_ = 0;
        held_ = length >= CERTAIN;
    }
    out.tokens.clear();
    out.chance = 0;
    out.kind = 0;
    if (at_ < 0) return;
    out.kind = aligned ? ALIGNED : kind_of(length);
    out.chance = right_[out.kind] / tried_[out.kind];
    const int64_t size = static_cast<int64_t>(tokens_.size());
    while (static_cast<int>(out.tokens.size()) < most) {
        const int64_t where = at_ + static_cast<int64_t>(out.tokens.size());
        const int32_t token = where < size ? tokens_[static_cast<size_t>(where)] : out.tokens[static_cast<size_t>(where - size)];
        if (token == GAP) break;
        out.tokens.push_back(token);
    }
}

void Suffix::learn(const Offer& offer, int right, int seen) {
    if (!seen) return;
    right_[offer.kind] = right_[offer.kind] * MEMORY + right;
    tried_[offer.kind] = tried_[offer.kind] * MEMORY + right + (right < seen ? 1 : 0);
}

int64_t Suffix::match(int* length) const {
    const int64_t end = static_cast<int64_t>(tokens_.size()) - 1;
    int64_t place = end >= 0 ? before_[static_cast<size_t>(end)] : -1, best = -1;
    for (int i = 0; i < CANDIDATES && place >= 0 && *length < LONGEST; i++) {
        const int found = common(place, end);
        if (found > *length) {
            *length = found;
            best = place + 1;
        }
        place = before_[static_cast<size_t>(place)];
    }
    return best;
}

int Suffix::common(int64_t a, int64_t b) const {
    int length = 0;
    for (; length < LONGEST && a >= length; length++) {
        const int32_t token = tokens_[static_cast<size_t>(a - length)];
        if (token == GAP || token != tokens_[static_cast<size_t>(b - length)]) break;
    }
    return length;
}

void StepTimes::note(int rows, double seconds) {
    if (fixed_ || rows > rows_) return;
    double& old = seconds_[rows];
    old = old > 0 ? old + NEW * (std::min(seconds, 2 * old) - old) : seconds;
}

double StepTimes::of(int rows) const {
    for (int distance = 0; distance <= rows_; distance++)
        for (const int near : {rows - distance, rows + distance})
            if (0 < near && near <= rows_ && seconds_[near] > 0) return seconds_[near] * (guess(rows) / guess(near));
    return guess(rows);
}

void plan(const std::vector<Offer>& offers, const StepTimes& times, int rows, std::vector<int>& counts) {
    const size_t streams = offers.size();
    std::vector<int> taken(streams, 0);
    std::vector<double> chances;
    for (const Offer& offer : offers) chances.push_back(offer.chance);
    counts = taken;
    double value = static_cast<double>(streams), rate = value / times.of(static_cast<int>(streams));
    for (int all = static_cast<int>(streams) + 1; all <= rows; all++) {
        size_t stream = streams;
        for (size_t i = 0; i < streams; i++)
            if (taken[i] < static_cast<int>(offers[i].tokens.size()) && (stream == streams || chances[i] > chances[stream]))
                stream = i;
        if (stream == streams) break;
        value += chances[stream];
        chances[stream] *= offers[stream].chance;
        taken[stream]++;
        if (value / times.of(all) > rate) {
            rate = value / times.of(all);
            counts = taken;
        }
    }
}

}  // namespace ultra
