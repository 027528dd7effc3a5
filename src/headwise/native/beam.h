// The options of a sentence's search, and its beam or samples, as defined in src/headwise/decoding/search.py, and with
// terms in src/headwise/decoding/term_placing.py.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "checks.h"
#include "scan.h"
#include "terms.h"

namespace headwise {

// What is done with prefixes: an output continues them, or is one, whose probability is sought, and with `weights` its
// cross-attention.
enum class Forced : int32_t { begins, all, weights };

struct Options {
    int32_t beam, n_best, min_length;  // the beam of a sampled sentence is the number of its samples
    float alpha;
    double patience;
    int32_t no_repeat_ngram;
    int32_t sampled, top_k;
    double temperature, top_p;
    Forced forced;
    Banned banned;

    bool recorded() const { return forced == Forced::weights; }

    void check() const {
        expect_within(beam, 1, MOST_BEAMS, "a beam");
        expect_within(n_best, 1, beam, "outputs of a sentence");
        expect(min_length >= 0, "expected a shortest length of at least 0");
        expect(alpha >= 0 && patience >= 1, "expected alpha of at least 0 and patience of at least 1");
        expect(no_repeat_ngram >= 0, "expected a size of n-grams of at least 0");
        expect(temperature > 0 && top_p > 0 && top_k >= 0, "expected temperature and top-p above 0, top-k of at least 0");
        expect_within(int32_t(forced), 0, int32_t(Forced::weights), "what is forced");
        expect(forced == Forced::begins || (beam == 1 && !sampled), "expected one hypothesis of a forced output");
        expect_within(banned.count, 0, MOST_BANNED, "banned symbols");
    }
};

struct Output {
    std::vector<int32_t> tokens;
    std::vector<float> gains;  // log-probabilities, one for each token and one for the end symbol
    double score;
    std::vector<float> weights{};  // of cross-attention (layers, |Y|, heads, source), of each model
};

// What a beam is made for; all that it points to must outlive the search.
struct Task {
    int limit;                           // of |Y|
    const std::vector<int32_t>* prefix;  // the tokens with which all outputs begin
    bool given;                          // whether the first of these has a log-probability of 0
    const Terms* terms;                  // placed; may be empty
    const PerToken* continuing;
    const PerToken* lettered;  // of which outputs must contain one; null: they need not
    const double* numbers;  // random numbers of each sample and step (samples, limit)
};

inline float length_penalty(int length, float alpha) { return std::pow(float(5 + length) / 6, alpha); }

// The beam of one sentence: the live hypotheses of every step with their parents, and the finished hypotheses.
class Beam {
  public:
    // Start with one empty hypothesis.
    void start(const Task& task) {
        task_ = task;
        limit_ = task.limit, step_ = 0, finished_ = 0;
        likeliest_ = -std::numeric_limits<float>::infinity();
        terms_ = task.terms, continuing_ = task.continuing;
        samples_.clear();
        states_.assign(1, Terms::State());
        lettered_.assign(1, 0);
        repeats_.assign(1, {});
        totals_.assign(1, 0.0f);
        history_.clear();
        best_.clear();
        outputs_.clear();
    }

    int live() const { return int(totals_.size()); }

    // What is looked for among the next tokens of a live hypothesis.
    Wanted wanted(int place, const Options& options) {
        const bool may_end = step_ >= options.min_length && !lacks_letter(place);
        const uint8_t* only = lacks_letter(place) && step_ + 2 >= limit_ ? task_.lettered->data() : nullptr;
        const std::vector<int32_t>* repeats = &repeats_[options.no_repeat_ngram ? place : 0];
        if (forced()) return {1, may_end, &options.banned, repeats, &(*task_.prefix)[step_], 1};
        if (options.sampled) return {1, may_end, &options.banned, repeats, nullptr, 0, draws(place, options), only};
        const int count = 2 * options.beam;
        if (terms_->empty()) return {count, may_end, &options.banned, repeats, nullptr, 0, nullptr, only};
        const Terms::State state = states_[place];
        return {count, may_end && !terms_->left(state), &options.banned, repeats, terms_->tokens(state),
                terms_->count(state), nullptr, only};
    }

    int32_t token(int place) const { return history_[size_t(step_ - 1) * width_ + place].token; }
    const int32_t* parents() const { return parents_.data(); }

    // Continue every live hypothesis by its best tokens; returns whether the search continues.
    bool advance(const Best* rows, const Options& options, int32_t eos) {
        width_ = options.beam;
        candidates_.clear();
        if (forced()) return follow(rows[0], options, eos);
        if (options.sampled) return draw(rows, options, eos);
        if (!terms_->empty()) return advance_with_terms(rows, options, eos);
        const bool last = step_ + 1 >= limit_;
        for (int place = 0; place < live(); ++place) {
            const Best& row = rows[place];
            const float log_total = row.log_total();
            const auto offer = [&](float logit, int32_t token) {
                const float gain = logit - log_total, total = totals_[place] + gain;
                if (std::isfinite(total)) candidates_.push_back({place, token, gain, total});
            };
            if (last)
                offer(row.end_logit, eos);
            else
                for (int c = 0; c < row.count; ++c) offer(row.choices[c].logit, row.choices[c].token);
            if (!last && !row.count && may_be_stuck(place, options)) offer(row.end_logit, eos);
        }
        const size_t wanted = std::min(candidates_.size(), size_t(2 * width_));
        std::partial_sort(candidates_.begin(), candidates_.begin() + wanted, candidates_.end(), before);
        begin_step();
        for (size_t c = 0; c < wanted; ++c) {
            const Candidate& chosen = candidates_[c];
            if (chosen.token == eos) {
                if (c < size_t(width_)) finish(chosen, options);
            } else if (live() < width_) {
                keep(chosen);
            }
        }
        find_repeats(options.no_repeat_ngram);
        return undecided(options);
    }

    // Return the `n_best` best outputs, best first; ties by the earlier finish.
    std::vector<Output> outputs(int n_best) {
        std::stable_sort(outputs_.begin(), outputs_.end(),
                         [](const Output& a, const Output& b) { return a.score > b.score; });
        if (outputs_.size() > size_t(n_best)) outputs_.resize(n_best);
        return std::move(outputs_);
    }

  private:
    struct Candidate {
        int32_t parent, token;
        float gain, total;
        Terms::State state{};  // these three for sentences with terms only; the rank of a sample is its number
        int left = 0, rank = 0;
    };
    struct Past {
        int32_t parent, token;
        float gain;
    };

    static bool before(const Candidate& a, const Candidate& b) {
        if (a.total != b.total) return a.total > b.total;
        return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
    }

    void begin_step() {
        ++step_;
        parents_lettered_.swap(lettered_);
        lettered_.clear();
        totals_.clear();
        parents_.clear();
        history_.resize(size_t(step_) * width_);
    }

    void keep(const Candidate& chosen) {
        history_[size_t(step_ - 1) * width_ + live()] = {chosen.parent, chosen.token, chosen.gain};
        lettered_.push_back(task_.lettered && (parents_lettered_[chosen.parent] || (*task_.lettered)[chosen.token]));
        totals_.push_back(chosen.total);
        parents_.push_back(chosen.parent);
    }

    bool forced() const { return size_t(step_) < task_.prefix->size(); }

    // Continue by the next token of the prefix. A language that is given has a log-probability of 0.
    bool follow(const Best& row, const Options& options, int32_t eos) {
        const int32_t token = (*task_.prefix)[step_];
        const float gain = task_.given && !step_ ? 0 : row.named[0] - row.log_total(), total = totals_[0] + gain;
        begin_step();
        if (!std::isfinite(total)) return false;
        if (token == eos && options.forced == Forced::begins) {
            for (int n = 0; n < (options.sampled ? width_ : 1); ++n) finish({0, token, gain, total}, options);
            return false;
        }
        keep({0, token, gain, total});
        if (!terms_->empty()) states_[0] = terms_->next(states_[0], token, *continuing_);
        find_repeats(options.no_repeat_ngram);
        return true;
    }

    // How tokens that continue a hypothesis are drawn: of all samples at first, because their beginnings are the same.
    const Draws* draws(int place, const Options& options) {
        const bool first = samples_.empty(), last = step_ + 1 >= limit_;
        draws_.resize(std::max(1, live()));
        const double* numbers = task_.numbers + size_t(first ? 0 : samples_[place]) * limit_ + step_;
        draws_[place] = {options.temperature, options.top_p, options.top_k, last ? 0 : first ? options.beam : 1, numbers,
                         size_t(limit_)};
        return &draws_[place];
    }

    // Continue every sample by the token that was drawn, or the end symbol where no other may follow.
    bool draw(const Best* rows, const Options& options, int32_t eos) {
        const bool first = samples_.empty(), last = step_ + 1 >= limit_;
        for (int n = 0, count = first ? width_ : live(); n < count; ++n) {
            const Best& row = rows[first ? 0 : n];
            Choice choice{row.end_logit, eos};
            if (!last && row.count) choice = row.choices[first ? n : 0];
            else if (!last && !may_be_stuck(first ? 0 : n, options)) continue;
            const float gain = choice.logit - row.log_total(), total = totals_[first ? 0 : n] + gain;
            if (!std::isfinite(total)) continue;
            candidates_.push_back({first ? 0 : n, choice.token, gain, total, {}, 0, first ? n : samples_[n]});
        }
        begin_step();
        samples_.clear();
        for (const Candidate& drawn : candidates_) {
            if (drawn.token == eos) {
                finish(drawn, options);
                outputs_.back().score = -drawn.rank;  // the order in which they are drawn
            } else {
                keep(drawn);
                samples_.push_back(drawn.rank);
            }
        }
        find_repeats(options.no_repeat_ngram);
        return live();
    }

    // Whether a live hypothesis can't end yet, because it lacks a letter or a digit.
    bool lacks_letter(int place) const { return task_.lettered && !lettered_[place]; }

    // Whether there may be no token that can follow a live hypothesis; it then ends.
    bool may_be_stuck(int place, const Options& options) const {
        return lacks_letter(place) || (options.no_repeat_ngram && step_ >= options.no_repeat_ngram);
    }

    // For every live hypothesis: the tokens that would complete an n-gram of `size` tokens that it already contains.
    void find_repeats(int size) {
        if (!size) return;
        repeats_.resize(std::max(1, live()));
        for (int place = 0; place < live(); ++place) {
            std::vector<int32_t>& repeats = repeats_[place];
            repeats.clear();
            if (step_ < size) continue;
            tokens_.resize(step_);
            walk_back(step_ - 1, place, [&](int step, const Past& past) { tokens_[step] = past.token; });
            const auto suffix = tokens_.end() - (size - 1);
            for (auto gram = tokens_.begin(); gram + size <= tokens_.end(); ++gram)
                if (std::equal(suffix, tokens_.end(), gram)) repeats.push_back(gram[size - 1]);
            std::sort(repeats.begin(), repeats.end());
        }
    }

    // Visit the steps of a hypothesis, of which the last one is at a place of `step`, from the last to the first.
    template <class Visit>
    void walk_back(int step, int place, const Visit& visit) const {
        for (; step >= 0; --step) {
            const Past& past = history_[size_t(step) * width_ + place];
            visit(step, past);
            place = past.parent;
        }
    }

    bool advance_with_terms(const Best* rows, const Options& options, int32_t eos) {
        for (int place = 0; place < live(); ++place) offer_with_terms(place, rows[place], options, eos);
        std::sort(candidates_.begin(), candidates_.end(), before);
        const std::vector<size_t> chosen = share_beam(eos);
        begin_step();
        finish_with_terms(chosen, options, eos);
        states_.clear();
        for (size_t c : chosen) {
            keep(candidates_[c]);
            states_.push_back(candidates_[c].state);
        }
        find_repeats(options.no_repeat_ngram);
        return undecided(options);
    }

    // Add the candidates of a live hypothesis: its best tokens, and those with which a term begins or continues. Where
    // the rest of the length is needed, only those after which less is missing.
    void offer_with_terms(int place, const Best& row, const Options& options, int32_t eos) {
        const float log_total = row.log_total();
        const Terms::State state = states_[place];
        const int left = terms_->left(state);
        const auto offer = [&](float logit, int32_t token) {
            const float gain = logit - log_total, total = totals_[place] + gain;
            if (!std::isfinite(total)) return;
            const Terms::State next = token == eos ? state : terms_->next(state, token, *continuing_);
            candidates_.push_back({place, token, gain, total, next, terms_->left(next)});
        };
        if (step_ + 1 >= limit_) return offer(row.end_logit, eos);
        const size_t first = candidates_.size();
        for (int n = 0; n < row.wanted.named; ++n)
            if (row.wanted.may_follow(row.wanted.tokens[n])) offer(row.named[n], row.wanted.tokens[n]);
        if (left && left >= limit_ - step_ - 1) {
            const auto stays = [&](const Candidate& one) { return one.left >= left; };
            const auto advancing = std::stable_partition(candidates_.begin() + first, candidates_.end(),
                                                         [&](const Candidate& one) { return !stays(one); });
            if (advancing != candidates_.begin() + first) return candidates_.resize(advancing - candidates_.begin());
        }
        const int32_t *named = row.wanted.tokens, *last = named + row.wanted.named;
        for (int c = 0; c < row.count; ++c)
            if (!std::binary_search(named, last, row.choices[c].token))
                offer(row.choices[c].logit, row.choices[c].token);
        const bool may_end = step_ >= options.min_length || may_be_stuck(place, options);
        if (candidates_.size() == first && may_end) offer(row.end_logit, eos);
    }

    // Return the places of the candidates that stay live, in order: one of every bank in each round.
    std::vector<size_t> share_beam(int32_t eos) {
        std::vector<size_t> chosen;
        ranks_.assign(ranks_.size(), 0);
        for (size_t c = 0; c < candidates_.size(); ++c) {
            Candidate& one = candidates_[c];
            if (one.token == eos) continue;
            if (size_t(one.left) >= ranks_.size()) ranks_.resize(one.left + 1, 0);
            one.rank = ranks_[one.left]++;
            chosen.push_back(c);
        }
        std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
            const Candidate &x = candidates_[a], &y = candidates_[b];
            return x.rank != y.rank ? x.rank < y.rank : x.left < y.left;
        });
        if (chosen.size() > size_t(width_)) chosen.resize(width_);
        std::sort(chosen.begin(), chosen.end());
        return chosen;
    }

    // Finish the candidates that end among the best of their bank, as many as it has live ones and the beam has empty
    // places; at the limit those with the fewest missing tokens.
    void finish_with_terms(const std::vector<size_t>& live, const Options& options, int32_t eos) {
        int fewest = candidates_.empty() ? 0 : candidates_[0].left, ends = 0;
        for (const Candidate& one : candidates_) fewest = std::min(fewest, one.left);
        const bool any_finished = finished_ > 0;
        for (size_t c = 0; c < candidates_.size() && ends < width_; ++c) {
            const Candidate& one = candidates_[c];
            if (one.token != eos || (one.left && any_finished)) continue;
            const auto of_bank = [&](size_t other) { return candidates_[other].left == one.left; };
            const auto share = std::count_if(live.begin(), live.end(), of_bank) + width_ - long(live.size());
            const auto rank = std::count_if(candidates_.begin(), candidates_.begin() + c,
                                            [&](const Candidate& other) { return other.left == one.left; });
            if (live.empty() ? one.left != fewest : rank >= std::max<long>(1, share)) continue;
            finish(one, options);
            ++ends;
        }
    }

    void finish(const Candidate& end, const Options& options) {
        ++finished_;
        likeliest_ = std::max(likeliest_, end.total);
        if (!options.sampled) {
            best_.push_back(end.total / length_penalty(step_, options.alpha));
            std::sort(best_.begin(), best_.end(), std::greater<float>());
            if (best_.size() > size_t(options.n_best)) best_.pop_back();
        }
        Output output{std::vector<int32_t>(step_ - 1), std::vector<float>(step_), 0};
        output.gains[step_ - 1] = end.gain;
        walk_back(step_ - 2, end.parent, [&](int step, const Past& past) {
            output.tokens[step] = past.token;
            output.gains[step] = past.gain;
        });
        double total = 0;
        for (float gain : output.gains) total += gain;
        output.score = total / std::pow((5.0 + step_) / 6, double(options.alpha));
        outputs_.push_back(std::move(output));
    }

    // Whether a live hypothesis may enter the best ones; once enough are finished, whether it is likelier than all of
    // them, too.
    bool undecided(const Options& options) const {
        const bool few = finished_ < options.patience * options.beam;
        for (int place = 0; place < live(); ++place) {
            if (!few && totals_[place] <= likeliest_) continue;
            if (best_.size() < size_t(options.n_best)) return true;
            if (totals_[place] / length_penalty(limit_, options.alpha) > best_.back()) return true;
        }
        return false;
    }

    Task task_{};
    int limit_ = 0, step_ = 0, width_ = 1;
    long finished_ = 0;
    float likeliest_ = 0;  // the log-probability of the likeliest finished hypothesis
    const Terms* terms_ = nullptr;
    const PerToken* continuing_ = nullptr;
    std::vector<Terms::State> states_;  // of the live hypotheses
    PerToken lettered_, parents_lettered_;  // whether these, and their parents, have a letter
    std::vector<int> ranks_;  // candidates of each bank
    std::vector<int32_t> samples_;  // the numbers of the live samples; empty until they begin to differ
    std::vector<Draws> draws_;
    std::vector<std::vector<int32_t>> repeats_;  // of the live hypotheses; one that is empty where none are banned
    std::vector<int32_t> tokens_;
    std::vector<float> totals_, best_;
    std::vector<int32_t> parents_;
    std::vector<Past> history_;  // (steps, width)
    std::vector<Candidate> candidates_;
    std::vector<Output> outputs_;
};

}  // namespace headwise
