#include "rounds.h"

#include <algorithm>
#include <chrono>

namespace ultra {

Rounds::Rounds(Machine& machine, const Inputs& inputs, const Stream* streams, int count, const int32_t* drawn,
               const StepTimes& times, const Log& log)
    : machine_(machine), inputs_(inputs), count_(static_cast<size_t>(count)), drawn_(drawn), times_(times), log_(log) {
    for (size_t i = 0; i < count_; i++) {
        Going going;
        going.stream = streams[i];
        going.index = i;
        const Draw& draw = going.stream.draw;
        going.touched.assign(draw.touched, draw.touched + draw.touched_count);
        const int32_t row = inputs.out_rows[i];
        going.anchor = inputs.tokens[row];
        going.position = inputs.positions[row];
        going.sequence = inputs.sequences[row];
        if (going.stream.drafts && going.stream.tokens > 1) going.drafter.reset(new Suffix(going.stream.drafting));
        going_.push_back(std::move(going));
    }
    offers_.resize(count_);
}

Status Rounds::run(int rows, int table_width, Poll poll) {
    bool prompt = rows != static_cast<int>(count_);
    const auto drafts = [](const Going& going) { return going.drafter != nullptr; };
    if (!prompt && std::any_of(going_.begin(), going_.end(), drafts)) rows = begin();
    for (;; prompt = false) {
        draws();
        const auto start = std::chrono::steady_clock::now();
        machine_.begin(rows, static_cast<int>(draws_.size()), table_width, draws_.data());
        // The host makes text of the last round's tokens meanwhile.
        if (*log_.done && poll()) machine_.stop();
        if (const Status status = machine_.finish(poll); status != DONE) return status;
        if (!prompt) times_.note(rows, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        take();
        if (going_.empty()) return DONE;
        rows = begin();
    }
}

// The inputs of the next step: a block for each stream. Returns the rows.
int Rounds::begin() {
    offers_.resize(going_.size());
    for (size_t i = 0; i < going_.size(); i++) {
        Going& going = going_[i];
        offers_[i].tokens.clear();
        offers_[i].chance = 0;
        if (going.drafter) going.drafter->offer(std::min(going.stream.drafting.most, going.stream.tokens - 1), offers_[i]);
    }
    plan(offers_, times_, inputs_.most_rows, counts_);
    int row = 0;
    for (size_t i = 0; i < going_.size(); i++) {
        Going& going = going_[i];
        going.drafts = counts_[i];
        for (int slot = 0; slot <= going.drafts; slot++, row++) {
            inputs_.tokens[row] = slot ? offers_[i].tokens[static_cast<size_t>(slot) - 1] : going.anchor;
            inputs_.positions[row] = going.position + slot;
            inputs_.sequences[row] = going.sequence;
            inputs_.out_rows[row] = row;
        }
    }
    return row;
}

// How the output rows of the step are drawn: each as if the drafts before it were right.
void Rounds::draws() {
    draws_.clear();
    drafted_.clear();
    size_t slots = 0;
    for (const Going& going : going_) slots += static_cast<size_t>(going.drafts);
    drafted_.reserve(slots);  // draws point into it
    for (size_t i = 0; i < going_.size(); i++) {
        Going& going = going_[i];
        const std::vector<Touched>* touched = &going.touched;
        for (int slot = 0; slot <= going.drafts; slot++) {
            if (slot && going.stream.remembers) {
                drafted_.push_back(*touched);
                remember(drafted_.back(), offers_[i].tokens[static_cast<size_t>(slot) - 1]);
                touched = &drafted_.back();
            }
            Draw draw = going.stream.draw;
            draw.position += slot;
            draw.touched = touched->data();
            draw.touched_count = static_cast<int32_t>(touched->size());
            draws_.push_back(draw);
        }
    }
}

// Writes down what the step that is done brought, and moves the streams on.
void Rounds::take() {
    const int32_t* drawn = drawn_;
    size_t stream = 0;
    for (size_t i = 0; i < going_.size(); i++) {
        Going& going = going_[i];
        for (; stream < going.index; stream++) *log_.words++ = 0, *log_.words++ = 0;
        const int count = keep(going, offers_[i], drawn);
        *log_.words++ = going.drafts;
        *log_.words++ = count;
        log_.words = std::copy_n(drawn, count, log_.words);
        stream++;
        const int32_t* slots = drawn;
        drawn += going.drafts + 1;
        note(going, offers_[i], slots, count);
    }
    for (; stream < count_; stream++) *log_.words++ = 0, *log_.words++ = 0;
    going_.erase(std::remove_if(going_.begin(), going_.end(), [](const Going& going) { return going.over; }), going_.end());
    ++*log_.done;
}

// How many slots count: to the first that shows a draft to be wrong, or ends the stream.
int Rounds::keep(const Going& going, const Offer& offer, const int32_t* drawn) const {
    const int32_t* ends = going.stream.ends + going.stream.end_count;
    for (int slot = 0;; slot++) {
        const int32_t token = drawn[slot];
        const bool ended = token == NOT_NUMBERS || std::find(going.stream.ends, ends, token) != ends ||
                           slot + 1 == going.stream.tokens;
        if (ended || slot == going.drafts || token != offer.tokens[static_cast<size_t>(slot)]) return slot + 1;
    }
}

void Rounds::note(Going& going, const Offer& offer, const int32_t* tokens, int count) {
    Stream& stream = going.stream;
    if (going.drafter) {
        const int offered = static_cast<int>(offer.tokens.size());
        const int seen = std::min({offered, std::max(1, going.drafts), count});
        int right = 0;
        while (right < seen && tokens[right] == offer.tokens[static_cast<size_t>(right)]) right++;
        going.drafter->learn(offer, right, seen);
        for (int i = 0; i < count; i++) going.drafter->append(tokens[i]);
    }
    const int32_t last = tokens[count - 1], *ends = stream.ends + stream.end_count;
    going.anchor = last;
    going.position += count;
    stream.draw.position += count;
    stream.tokens -= count;
    going.over = last == NOT_NUMBERS || stream.tokens == 0 || std::find(stream.ends, ends, last) != ends;
    if (!going.over && stream.remembers)
        for (int i = 0; i < count; i++) remember(going.touched, tokens[i]);
}

void Rounds::remember(std::vector<Touched>& touched, int32_t token) {
    auto at = std::lower_bound(touched.begin(), touched.end(), token,
                               [](const Touched& t, int32_t wanted) { return t.token < wanted; });
    if (at == touched.end() || at->token != token) at = touched.insert(at, {token, 0, 0, 0, 0.0});
    at->count++;
    at->seen = 1;
}

}  // namespace ultra
