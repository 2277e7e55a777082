// Several rounds in one call: the tokens of one are the rows of the next. rounds.py has the same in plain words.
#pragma once
#include <vector>

#include "machine.h"

namespace ultra {

// Where the host keeps a step's inputs; the first step is in them.
struct Inputs {
    int32_t *tokens, *positions, *sequences, *out_rows;
};

// What Python says of one stream; abi.py has the same.
struct Stream {
    Draw draw;
    const int32_t* ends;
    int32_t end_count, tokens;
    int32_t remembers, unused;  // whether the draws depend on what was drawn before
};

class Rounds {
public:
    // `ring` gets a row of `streams` tokens for each round, `done` the number of rows that are there.
    Rounds(Machine& machine, const Inputs& inputs, const Stream* streams, int count, const int32_t* drawn,
           int32_t* ring, int32_t* done);

    // Until every stream has ended. `poll` is asked as in Machine::finish and after every round, while the next
    // one is running already.
    Status run(int rows, int table_width, Poll poll);

private:
    void draws();
    void take();
    void remember(size_t stream, int32_t token);

    Machine& machine_;
    const Inputs inputs_;
    std::vector<Stream> streams_;
    std::vector<std::vector<Touched>> touched_;
    std::vector<size_t> going_;  // the stream of each output row
    std::vector<Draw> draws_;
    std::vector<int32_t> positions_, sequences_;
    const int32_t* drawn_;
    int32_t *ring_, *done_;
};

}  // namespace ultra
