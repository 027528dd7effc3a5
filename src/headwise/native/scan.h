// Projection to the vocabulary, log-softmax and selection of the best tokens in one pass: logits are used while they are
// in registers and never stored in memory.
#pragma once

#include <algorithm>
#include <cfloat>

#include "checks.h"
#include "packed_gemm.h"

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

// What is looked for in one row: so many of the best tokens, without those of `repeats`, which ascend; the end symbol
// only where it is allowed; and the logits of `named` tokens, ascending.
struct Wanted {
    int count;
    bool may_end;
    const Banned* banned;
    const std::vector<int32_t>* repeats;
    const int32_t* tokens;
    int named;

    bool may_follow(int32_t token) const {
        return !banned->has(token) && !std::binary_search(repeats->begin(), repeats->end(), token);
    }
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
    float* named;     // logits of the named tokens; NEVER for one that isn't in the shortlist

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
        columns_ = vocabulary.outputs();
        best_.grow(rows);
        size_t choices = 0, named = 0;
        for (int row = 0; row < rows; ++row) {
            best_[row] = Best{NEVER, -FLT_MAX, Floats{}, wanted(first + row), 0, 0, nullptr, nullptr};
            choices += best_[row].wanted.count;
            named += best_[row].wanted.named;
        }
        choices_.resize(choices);
        named_.assign(named, NEVER);
        choices = named = 0;
        for (int row = 0; row < rows; ++row) {
            best_[row].choices = choices_.data() + choices;
            best_[row].named = named_.data() + named;
            choices += best_[row].wanted.count;
            named += best_[row].wanted.named;
        }
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
        if (best.wanted.named) name(best, column, logits);
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
            if (logit > best.threshold && best.wanted.may_follow(token) &&
                (token != symbols_.eos || best.wanted.may_end))
                insert(best, {logit, token});
        }
        if (most > best.most) {
            best.total *= exponential(all(best.most - most));
            best.most = most;
        }
    }

    // Keep the logits of the named tokens among these columns.
    __attribute__((noinline)) void name(Best& best, int column, const Floats* logits) {
        const int columns = std::min(PANEL, columns_ - column);
        if (columns <= 0) return;
        const int32_t least = tokens_ ? tokens_[column] : column;
        const int32_t most = tokens_ ? tokens_[column + columns - 1] : column + columns - 1;
        const int32_t *first = best.wanted.tokens, *last = first + best.wanted.named;
        for (const int32_t* token = std::lower_bound(first, last, least); token != last && *token <= most; ++token) {
            int place = *token - column;
            if (tokens_) {
                const int32_t* found = std::lower_bound(tokens_ + column, tokens_ + column + columns, *token);
                if (*found != *token) continue;
                place = int(found - tokens_) - column;
            }
            best.named[token - first] = at(logits, place);
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
    int end_ = 0, columns_ = 0;
    std::vector<Choice> choices_;
    std::vector<float> named_;
    Buffer<Best> best_;
};

}  // namespace headwise
