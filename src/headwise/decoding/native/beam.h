// The options of a sentence's search, and its beam, as defined in src/headwise/decoding/search.py.
#pragma once

#include <functional>
#include <vector>

#include "checks.h"
#include "scan.h"

namespace headwise {

struct Options {
    int32_t beam, n_best, min_length;
    float alpha;
    double patience;
    Banned banned;

    void check() const {
        expect_within(beam, 1, MOST_BEAMS, "a beam");
        expect_within(n_best, 1, beam, "outputs of a sentence");
        expect(min_length >= 0, "expected a shortest length of at least 0");
        expect(alpha >= 0 && patience >= 1, "expected alpha of at least 0 and patience of at least 1");
        expect_within(banned.count, 0, MOST_BANNED, "banned symbols");
    }
};

struct Output {
    std::vector<int32_t> tokens;
    std::vector<float> gains;  // log-probabilities, one for each token and one for the end symbol
    double score;
};

inline float length_penalty(int length, float alpha) { return std::pow(float(5 + length) / 6, alpha); }

// The beam of one sentence: the live hypotheses of every step with their parents, and the finished hypotheses.
class Beam {
  public:
    void start(int limit) {
        limit_ = limit, step_ = 0, finished_ = 0;
        totals_.assign(1, 0.0f);
        history_.clear();
        best_.clear();
        outputs_.clear();
    }

    int live() const { return int(totals_.size()); }
    bool may_end(const Options& options) const { return step_ >= options.min_length; }
    int32_t token(int place) const { return history_[size_t(step_ - 1) * width_ + place].token; }
    const int32_t* parents() const { return parents_.data(); }

    // Begin with a token that is given, and therefore has a log-probability of 0.
    void begin(int32_t token, const Options& options) {
        width_ = options.beam;
        step_ = 1;
        history_.assign(width_, Past{0, token, 0.0f});
        parents_.assign(1, 0);
    }

    // Continue every live hypothesis by its best tokens; returns whether the search continues.
    bool advance(const Best* rows, const Options& options, int32_t eos) {
        width_ = options.beam;
        candidates_.clear();
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
        }
        const size_t wanted = std::min(candidates_.size(), size_t(2 * width_));
        std::partial_sort(candidates_.begin(), candidates_.begin() + wanted, candidates_.end(), before);
        ++step_;
        totals_.clear();
        parents_.clear();
        history_.resize(size_t(step_) * width_);
        for (size_t c = 0; c < wanted; ++c) {
            const Candidate& chosen = candidates_[c];
            if (chosen.token == eos) {
                if (c < size_t(width_)) finish(chosen, options);
            } else if (live() < width_) {
                history_[size_t(step_ - 1) * width_ + live()] = {chosen.parent, chosen.token, chosen.gain};
                totals_.push_back(chosen.total);
                parents_.push_back(chosen.parent);
            }
        }
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
    };
    struct Past {
        int32_t parent, token;
        float gain;
    };

    static bool before(const Candidate& a, const Candidate& b) {
        if (a.total != b.total) return a.total > b.total;
        return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
    }

    void finish(const Candidate& end, const Options& options) {
        ++finished_;
        best_.push_back(end.total / length_penalty(step_, options.alpha));
        std::sort(best_.begin(), best_.end(), std::greater<float>());
        if (best_.size() > size_t(options.n_best)) best_.pop_back();
        Output output{std::vector<int32_t>(step_ - 1), std::vector<float>(step_), 0};
        output.gains[step_ - 1] = end.gain;
        for (int step = step_ - 2, place = end.parent; step >= 0; --step) {
            const Past& past = history_[size_t(step) * width_ + place];
            output.tokens[step] = past.token;
            output.gains[step] = past.gain;
            place = past.parent;
        }
        double total = 0;
        for (float gain : output.gains) total += gain;
        output.score = total / std::pow((5.0 + step_) / 6, double(options.alpha));
        outputs_.push_back(std::move(output));
    }

    bool undecided(const Options& options) const {
        if (totals_.empty() || finished_ >= options.patience * options.beam) return false;
        if (best_.size() < size_t(options.n_best)) return true;
        const float ceiling = *std::max_element(totals_.begin(), totals_.end());
        return ceiling / length_penalty(limit_, options.alpha) > best_.back();
    }

    int limit_ = 0, step_ = 0, width_ = 1;
    long finished_ = 0;
    std::vector<float> totals_, best_;
    std::vector<int32_t> parents_;
    std::vector<Past> history_;  // (steps, width)
    std::vector<Candidate> candidates_;
    std::vector<Output> outputs_;
};

}  // namespace headwise
