#include "rounds.h"

#include <algorithm>

namespace ultra {

Rounds::Rounds(Machine& machine, const Inputs& inputs, const Stream* streams, int count, const int32_t* drawn,
               int32_t* ring, int32_t* done)
    : machine_(machine), inputs_(inputs), streams_(streams, streams + count), drawn_(drawn), ring_(ring), done_(done) {
    for (size_t i = 0; i < streams_.size(); i++) {
        const Draw& draw = streams_[i].draw;
        touched_.emplace_back(draw.touched, draw.touched + draw.touched_count);
        going_.push_back(i);
    }
}

Status Rounds::run(int rows, int table_width, Poll poll) {
    for (;;) {
        draws();
        machine_.begin(rows, static_cast<int>(going_.size()), table_width, draws_.data());
        // The host makes text of the last round's tokens meanwhile.
        if (*done_ && poll()) machine_.stop();
        if (const Status status = machine_.finish(poll); status != DONE) return status;
        take();
        if (going_.empty()) return DONE;
        rows = static_cast<int>(going_.size());
    }
}

// How the output rows of the next step are drawn.
void Rounds::draws() {
    draws_.clear();
    for (const size_t stream : going_) {
        Draw& draw = streams_[stream].draw;
        draw.touched = touched_[stream].data();
        draw.touched_count = static_cast<int32_t>(touched_[stream].size());
        draws_.push_back(draw);
    }
}

// Notes the tokens of the step that is done, and writes the inputs of the next.
void Rounds::take() {
    int32_t* row = ring_ + *done_ * static_cast<int64_t>(streams_.size());
    std::fill_n(row, streams_.size(), ENDED);
    positions_.clear();
    sequences_.clear();
    size_t left = 0;
    for (size_t i = 0; i < going_.size(); i++) {
        const size_t index = going_[i];
        const int32_t token = row[index] = drawn_[i];
        Stream& stream = streams_[index];
        const int32_t* ends = stream.ends + stream.end_count;
        if (token == NOT_NUMBERS || std::find(stream.ends, ends, token) != ends || --stream.tokens == 0) continue;
        stream.draw.position++;
        if (stream.remembers) remember(index, token);
        positions_.push_back(inputs_.positions[inputs_.out_rows[i]] + 1);
        sequences_.push_back(inputs_.sequences[inputs_.out_rows[i]]);
        going_[left++] = index;
    }
    going_.resize(left);
    for (size_t i = 0; i < left; i++) {
        inputs_.tokens[i] = row[going_[i]];
        inputs_.positions[i] = positions_[i];
        inputs_.sequences[i] = sequences_[i];
        inputs_.out_rows[i] = static_cast<int32_t>(i);
    }
    ++*done_;
}

void Rounds::remember(size_t stream, int32_t token) {
    std::vector<Touched>& touched = touched_[stream];
    auto at = std::lower_bound(touched.begin(), touched.end(), token,
                               [](const Touched& t, int32_t wanted) { return t.token < wanted; });
    if (at == touched.end() || at->token != token) at = touched.insert(at, {token, 0, 0, 0, 0.0});
    at->count++;
    at->seen = 1;
}

}  // namespace ultra
