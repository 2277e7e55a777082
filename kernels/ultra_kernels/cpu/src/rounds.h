// Several rounds in one call: the tokens of one are the rows of the next, with drafts behind them. rounds.py has
// the same in plain words.
#pragma once
#include <memory>
#include <vector>

#include "drafts.h"
#include "machine.h"

namespace ultra {

// Where the host keeps a step's inputs; the first step is in them.
struct Inputs {
    int32_t *tokens, *positions, *sequences, *out_rows;
    int32_t most_rows, timed_rows;  // of a step; that there are times of
};

// What Python says of one stream; abi.py has the same.
struct Stream {
    Draw draw;
    Drafting drafting;
    const int32_t* ends;
    int32_t end_count, tokens;
    int32_t remembers, drafts;  // whether the draws depend on what was drawn before; whether there is `drafting`
};

// Where the host reads what the rounds brought: for each round, for each stream, how many tokens were drafted, how
// many it took, and these. `done` counts the rounds that are there.
struct Log {
    int32_t *words, *done;
};

class Rounds {
public:
    Rounds(Machine& machine, const Inputs& inputs, const Stream* streams, int count, const int32_t* drawn,
           const StepTimes& times, const Log& log);

    // Until every stream has ended. `poll` is asked as in Machine::finish and after every round, while the next
    // one is running already.
    Status run(int rows, int table_width, Poll poll);

private:
    struct Going {  // a stream that goes on
        Stream stream;
        size_t index;  // among all
        int32_t anchor, position, sequence;
        std::vector<Touched> touched;
        std::unique_ptr<Suffix> drafter;
        int drafts = 0;  // of its offer, in the step
        bool over = false;
    };

    int begin();
    void draws();
    void take();
    int keep(const Going& going, const Offer& offer, const int32_t* drawn) const;
    void note(Going& going, const Offer& offer, const int32_t* tokens, int count);
    static void remember(std::vector<Touched>& touched, int32_t token);

    Machine& machine_;
    const Inputs inputs_;
    const size_t count_;
    std::vector<Going> going_;
    std::vector<Offer> offers_;
    std::vector<int> counts_;
    std::vector<Draw> draws_;
    std::vector<std::vector<Touched>> drafted_;  // what slots behind drafts have touched
    const int32_t* drawn_;
    StepTimes times_;
    Log log_;
};

}  // namespace ultra
