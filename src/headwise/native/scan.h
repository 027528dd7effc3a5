// Projection to the vocabulary, log-softmax and selection of the best tokens in one pass: a tile of logits at a time, all
// of which are never in memory.
#pragma once

#include <algorithm>
#include <cfloat>

#include "checks.h"
#include "packed_gemm.h"
#include "sampling.h"

namespace headwise {

struct Choice {
    float logit;
    int32_t token;
};

constexpr int MOST_BANNED = 3;

// The start and end symbols.
struct Symbols {
    int32_t bos, eos;

    void check(int size) const {
        expect_within(bos, 0, size - 1, "the start symbol");
        expect_within(eos, 0, size - 1, "the end symbol");
    }
};

// Symbols that no output of a sentence may contain.
struct Banned {
    int32_t ids[MOST_BANNED];
    int32_t count;

    bool has(int32_t token) const { return std::find(ids, ids + count, token) != ids + count; }
};

// What is looked for in one row: so many of the best tokens, without those of `repeats`, which ascend; the end symbol
// only where it is allowed; and the logits of `named` tokens, ascending. With `draws`, tokens are drawn in place of the
// best ones. With `only`, a byte for each token, those whose byte is 0 may not follow.
struct Wanted {
    int count;
    bool may_end;
    const Banned* banned;
    const std::vector<int32_t>* repeats;
    const int32_t* tokens;
    int named;
    const Draws* draws = nullptr;
    const uint8_t* only = nullptr;

    bool may_follow(int32_t token) const {
        return !banned->has(token) && (!only || only[token]) && !std::binary_search(repeats->begin(), repeats->end(), token);
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
    Choice* choices;  // best first; ties by lower token; or as drawn
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
        prepare(tokens, vocabulary.outputs(), first, rows, wanted);
        vocabulary(inputs, first, rows, [&](int row, int column, const Floats* logits) {
            take(best_[row - first], column, logits);
        });
        return best_.data();
    }

    // The same for logits that fill(first, rows, to) writes, some rows at a time, of `columns` tokens.
    template <class WantedOf, class Fill>
    const Best* filled(const int32_t* tokens, int columns, int first, int rows, const WantedOf& wanted,
                       const Fill& fill) {
        prepare(tokens, columns, first, rows, wanted);
        const int stride = round_up(columns, PANEL), most = std::max(1, AT_ONCE / stride);
        for (int done = 0; done < rows; done += most) {
            const int some = std::min(most, rows - done);
            logits_.grow(size_t(some) * stride);
            const Rows to{logits_.data(), stride};
            fill(first + done, some, to);
            for (int row = 0; row < some; ++row) {
                Best& best = best_[done + row];
                for (int column = 0; column < stride; column += PANEL) {
                    Floats panel[PANEL_VECTORS];
                    for (int v = 0; v < PANEL_VECTORS; ++v) panel[v] = load(to.row(row) + column + v * LANES);
                    take(best, column, panel);
                }
                if (best.wanted.draws) draw(best, to.row(row));
            }
        }
        return best_.data();
    }

  private:
    static constexpr int AT_ONCE = 1 << 20;  // logits that are filled at once

    template <class WantedOf>
    void prepare(const int32_t* tokens, int columns, int first, int rows, const WantedOf& wanted) {
        tokens_ = tokens;
        end_ = tokens ? int(std::lower_bound(tokens, tokens + columns, symbols_.eos) - tokens) : symbols_.eos;
        columns_ = columns;
        best_.grow(rows);
        size_t choices = 0, named = 0;
        for (int row = 0; row < rows; ++row) {
            best_[row] = Best{NEVER, -FLT_MAX, Floats{}, wanted(first + row), 0, 0, nullptr, nullptr};
            choices += room(best_[row].wanted);
            named += best_[row].wanted.named;
        }
        choices_.resize(choices);
        named_.assign(named, NEVER);
        choices = named = 0;
        for (int row = 0; row < rows; ++row) {
            best_[row].choices = choices_.data() + choices;
            best_[row].named = named_.data() + named;
            choices += room(best_[row].wanted);
            named += best_[row].wanted.named;
        }
    }

    static int room(const Wanted& wanted) {
        return wanted.draws ? std::max(wanted.count, wanted.draws->count) : wanted.count;
    }

    // Draw from the tokens that may follow; these logits are all that is left of the others.
    void draw(Best& best, float* logits) {
        const Wanted& wanted = best.wanted;
        const float most = best.count ? best.choices[0].logit : NEVER;
        const auto forbid = [&](int32_t token) {
            const int32_t* found = std::lower_bound(tokens_, tokens_ ? tokens_ + columns_ : nullptr, token);
            if (!tokens_) logits[token] = NEVER;
            else if (found != tokens_ + columns_ && *found == token) logits[found - tokens_] = NEVER;
        };
        std::for_each(wanted.banned->ids, wanted.banned->ids + wanted.banned->count, forbid);
        std::for_each(wanted.repeats->begin(), wanted.repeats->end(), forbid);
        if (!wanted.may_end) forbid(symbols_.eos);
        for (int column = 0; wanted.only && column < columns_; ++column)
            if (!wanted.only[tokens_ ? tokens_[column] : column]) logits[column] = NEVER;
        best.count = distribution_.set(logits, columns_, most, *wanted.draws) ? wanted.draws->count : 0;
        for (int n = 0; n < best.count; ++n) {
            const int column = distribution_.draw(wanted.draws->numbers[n * wanted.draws->stride]);
            best.choices[n] = {logits[column], tokens_ ? tokens_[column] : column};
        }
    }

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
    Buffer<float> logits_;
    Distribution distribution_;
};

}  // namespace headwise
