// Projection to the vocabulary, log-softmax and selection of the best tokens in one pass: logits are used while they are
// in registers and never stored in memory.
#pragma once

#include <algorithm>
#include <cfloat>

#include "linear.h"

namespace headwise {

struct Choice {
    float logit;
    int32_t token;
};

// Running statistics of one row's logits: the best tokens and the log-softmax's sum.
struct Best {
    float threshold;  // the lowest logit of `choices` once these are complete; only higher logits are considered
    float most;       // the highest logit so far
    Floats total;     // Σ e^(logit - most), a partial sum in each lane
    int count;
    bool may_end;
    float end_logit;
    Choice* choices;  // best first; ties by lower token

    float log_total() const { return most + std::log(sum(total)); }
};

// Special symbols: the start and end symbols, the banned symbols, which no output may contain, and the language code
// with which every output begins, where there is one.
struct Symbols {
    int32_t bos, eos;
    int32_t banned[3];
    int32_t banned_count;
    int32_t given, given_count;  // a count of 0 or 1

    bool bans(int32_t token) const { return std::find(banned, banned + banned_count, token) != banned + banned_count; }
};

template <class P>
class Scan {
  public:
    explicit Scan(const Symbols& symbols) : symbols_(symbols) {}

    // Find the `wanted` best tokens of `rows` rows from `first`; may_end(row) is whether the end symbol is allowed.
    // `tokens` are the token ids of the projection's columns, in ascending order; null: the column's index.
    template <class MayEnd>
    const Best* operator()(const Linear<P>& vocabulary, const int32_t* tokens, const Inputs<P>& inputs, int first,
                           int rows, int wanted, const MayEnd& may_end) {
        tokens_ = tokens;
        end_ = tokens ? int(std::lower_bound(tokens, tokens + vocabulary.outputs(), symbols_.eos) - tokens)
                      : symbols_.eos;
        choices_.resize(size_t(rows) * wanted);
        best_.grow(rows);
        for (int row = 0; row < rows; ++row)
            best_[row] =
                Best{NEVER, -FLT_MAX, Floats{}, 0, may_end(first + row), 0, &choices_[size_t(row) * wanted]};
        vocabulary(inputs, first, rows, [&](int row, int column, const Floats* logits) {
            take(best_[row - first], column, logits, wanted);
        });
        return best_.data();
    }

  private:
    void take(Best& best, int column, const Floats* logits, int wanted) {
        const Floats threshold = all(best.threshold);
        uint64_t hits = 0;
        for (int v = 0; v < PANEL_VECTORS; ++v) hits |= uint64_t(where_larger(logits[v], threshold)) << (v * LANES);
        if (hits) consider(best, hits, column, logits, wanted);
        if (unsigned(end_ - column) < unsigned(PANEL)) best.end_logit = at(logits, end_ - column);
        Floats total = best.total;
        for (int v = 0; v < PANEL_VECTORS; ++v) total += exponential<P::EXPONENTIAL>(logits[v] - best.most);
        best.total = total;
    }

    static float at(const Floats* logits, int place) {
        float values[PANEL];
        std::memcpy(values, logits, sizeof values);
        return values[place];
    }

    __attribute__((noinline)) void consider(Best& best, uint64_t hits, int column, const Floats* logits, int wanted) {
        float values[PANEL];
        std::memcpy(values, logits, sizeof values);
        float most = best.most;
        for (; hits; hits &= hits - 1) {
            const int place = __builtin_ctzll(hits);
            const float logit = values[place];
            most = std::max(most, logit);
            const int32_t token = tokens_ ? tokens_[column + place] : column + place;
            if (logit > best.threshold && !symbols_.bans(token) && (token != symbols_.eos || best.may_end))
                insert(best, {logit, token}, wanted);
        }
        if (most > best.most) {
            best.total *= exponential(all(best.most - most));
            best.most = most;
        }
    }

    static void insert(Best& best, Choice choice, int wanted) {
        int place = best.count < wanted ? best.count++ : wanted - 1;
        for (; place > 0 && best.choices[place - 1].logit < choice.logit; --place)
            best.choices[place] = best.choices[place - 1];
        best.choices[place] = choice;
        if (best.count == wanted) best.threshold = best.choices[wanted - 1].logit;
    }

    Symbols symbols_;
    const int32_t* tokens_ = nullptr;
    int end_ = 0;
    std::vector<Choice> choices_;
    Buffer<Best> best_;
};

}  // namespace headwise
