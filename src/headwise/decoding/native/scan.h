// Projection to the vocabulary, log-softmax and selection of the best tokens in one pass: logits are used while they are
// in registers and never stored in memory.
#pragma once

#include <algorithm>
#include <cfloat>

#include "checks.h"
#include "linear.h"

namespace headwise {

struct Choice {
    float logit;
    int32_t token;
};

constexpr int MOST_BANNED = 3;

// The start and end symbols, and the language code with which every output begins, where there is one.
struct Symbols {
    int32_t bos, eos;
    int32_t given, given_count;  // a count of 0 or 1

    void check(int size) const {
        expect_within(bos, 0, size - 1, "the start symbol");
        expect_within(eos, 0, size - 1, "the end symbol");
        expect_within(given_count, 0, 1, "given symbols");
        expect_ids(&given, given_count, size, "a given symbol");
    }
};

// Symbols that no output of a sentence may contain.
struct Banned {
    int32_t ids[MOST_BANNED];
    int32_t count;

    bool has(int32_t token) const { return std::find(ids, ids + count, token) != ids + count; }
};

// What is looked for in one row: so many of the best tokens, the end symbol only where it is allowed.
struct Wanted {
    int count;
    bool may_end;
    const Banned* banned;
};

// Running statistics of one row's logits: the best tokens and the log-softmax's sum.
struct Best {
    float threshold;  // the lowest logit of `choices` once these are complete; only higher logits are considered
    float most;       // the highest logit so far
    Floats total;     // Σ e^(logit - most), a partial sum in each lane
    Wanted wanted;
    int count;
    float end_logit;
    Choice* choices;  // best first; ties by lower token

    float log_total() const { return most + std::log(sum(total)); }
};

template <class P>
class Scan {
  public:
    explicit Scan(const Symbols& symbols) : symbols_(symbols) {}

    // Find the best tokens of `rows` rows from `first`; wanted(row) is what is looked for. `tokens` are the token ids of
    // the projection's columns, in ascending order; null: the column's index.
    template <class WantedOf>
    const Best* operator()(const Linear<P>& vocabulary, const int32_t* tokens, const Inputs<P>& inputs, int first,
                           int rows, const WantedOf& wanted) {
        tokens_ = tokens;
        end_ = tokens ? int(std::lower_bound(tokens, tokens + vocabulary.outputs(), symbols_.eos) - tokens)
                      : symbols_.eos;
        best_.grow(rows);
        size_t choices = 0;
        for (int row = 0; row < rows; ++row) {
            best_[row] = Best{NEVER, -FLT_MAX, Floats{}, wanted(first + row), 0, 0, nullptr};
            choices += best_[row].wanted.count;
        }
        choices_.resize(choices);
        for (int row = 0, place = 0; row < rows; place += best_[row++].wanted.count)
            best_[row].choices = choices_.data() + place;
        vocabulary(inputs, first, rows, [&](int row, int column, const Floats* logits) {
            take(best_[row - first], column, logits);
        });
        return best_.data();
    }

  private:
    void take(Best& best, int column, const Floats* logits) {
        const Floats threshold = all(best.threshold);
        uint64_t hits = 0;
        for (int v = 0; v < PANEL_VECTORS; ++v) hits |= uint64_t(where_larger(logits[v], threshold)) << (v * LANES);
        if (hits) consider(best, hits, column, logits);
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

    __attribute__((noinline)) void consider(Best& best, uint64_t hits, int column, const Floats* logits) {
        float values[PANEL];
        std::memcpy(values, logits, sizeof values);
        float most = best.most;
        for (; hits; hits &= hits - 1) {
            const int place = __builtin_ctzll(hits);
            const float logit = values[place];
            most = std::max(most, logit);
            const int32_t token = tokens_ ? tokens_[column + place] : column + place;
            if (logit > best.threshold && !best.wanted.banned->has(token) &&
                (token != symbols_.eos || best.wanted.may_end))
                insert(best, {logit, token});
        }
        if (most > best.most) {
            best.total *= exponential(all(best.most - most));
            best.most = most;
        }
    }

    static void insert(Best& best, Choice choice) {
        const int wanted = best.wanted.count;
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
