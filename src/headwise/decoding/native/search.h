// Greedy and beam search over many sentences, as defined in src/headwise/decoding/search.py. A finished sentence is
// replaced by the next one immediately, so that the batch stays full. Each sentence has its own length, and no result
// depends on the other sentences of the batch.
#pragma once

#include <functional>

#include "scan.h"
#include "transformer.h"
#include "workers.h"

namespace headwise {

struct Options {
    int32_t beam, n_best, min_length;
    float alpha;
    double patience;

    void check() const {
        expect_within(beam, 1, MOST_BEAMS, "a beam");
        expect_within(n_best, 1, beam, "outputs of a sentence");
        expect(min_length >= 0, "expected a shortest length of at least 0");
        expect(alpha >= 0 && patience >= 1, "expected alpha of at least 0 and patience of at least 1");
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
    void start(int number, int limit) {
        number_ = number, limit_ = limit, step_ = 0, finished_ = 0;
        totals_.assign(1, 0.0f);
        history_.clear();
        best_.clear();
        outputs_.clear();
    }

    int number() const { return number_; }
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

    int number_ = 0, limit_ = 0, step_ = 0, width_ = 1;
    long finished_ = 0;
    std::vector<float> totals_, best_;
    std::vector<int32_t> parents_;
    std::vector<Past> history_;  // (steps, width)
    std::vector<Candidate> candidates_;
    std::vector<Output> outputs_;
};

class Engine;

// Sentences to search, taken in order by one or more threads.
struct Job {
    const Engine* engine = nullptr;
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets;  // of each sentence in `ids`, and the total
    std::vector<int32_t> limits;   // maximum of |Y| for each sentence, the end symbol included
    std::vector<int32_t> listed;    // concatenated shortlists: allowed tokens of each sentence's outputs, ascending
    std::vector<int64_t> lists;     // offsets of each shortlist in `listed`, and the total; empty: all tokens
    Options options;
    Symbols symbols;
    std::atomic<int> next{0};
    std::atomic<bool> stopped{false};  // checked at every step; set by the waiting thread or a failed thread
    std::vector<std::vector<Output>> outputs;
    Workers workers;  // the last member, so that it is destroyed first: other members must outlive the threads

    ~Job() { stopped = true; }

    // Whether the job was started and all threads ended without a stop or failure.
    bool whole() { return workers.started() && workers.wait(0) && !stopped; }

    // Validate all members against the shape of the model.
    void check(const Shape& shape) const {
        options.check();
        expect_ids(ids.data(), int64_t(ids.size()), shape.source_size, "a source id");
        for (int s = 0; s < count(); ++s) {
            expect_within(length(s), 1, shape.positions ? shape.positions : MOST_ROWS, "tokens of a sentence");
            expect(limits[s] > symbols.given_count, "expected a longest output of at least 1 after what is given");
        }
        expect_within(symbols.bos, 0, shape.target_size - 1, "the start symbol");
        expect_within(symbols.eos, 0, shape.target_size - 1, "the end symbol");
        expect_within(symbols.banned_count, 0, 3, "banned symbols");
        expect_within(symbols.given_count, 0, 1, "given symbols");
        expect_ids(&symbols.given, symbols.given_count, shape.target_size, "a given symbol");
        expect_ids(listed.data(), int64_t(listed.size()), shape.target_size, "a listed id");
        for (int s = 0; has_lists() && s < count(); ++s) {
            const auto begin = listed.begin() + lists[s], end = listed.begin() + lists[s + 1];
            expect(std::adjacent_find(begin, end, std::greater_equal<int32_t>()) == end, "expected listed ids in order");
            expect(std::binary_search(begin, end, symbols.eos), "expected the end symbol in every list");
        }
    }

    int count() const { return int(limits.size()); }
    int length(int number) const { return int(offsets[number + 1] - offsets[number]); }
    bool has_lists() const { return !lists.empty(); }
};

template <class P>
class Search {
  public:
    Search(const Transformer<P>& model, Job& job, int places)
        : model_(model), job_(job), scan_(job.symbols), places_(places) {
        for (Place& place : places_) free_.push_back(&place);
        work_.stopped = &job.stopped;
    }

    // Search until the job has no sentences left or is stopped.
    void run() {
        const Options& options = job_.options;
        while (true) {
            if (free_.size() * 4 >= places_.size()) refill();
            if (active_.empty() || job_.stopped) return;
            rows_.clear();
            owners_.clear();
            for (Place* place : active_)
                for (int b = 0; b < place->beam.live(); ++b) {
                    rows_.push_back({&place->sentence, b, place->started ? place->beam.token(b) : job_.symbols.bos});
                    owners_.push_back(place);
                }
            model_.step(rows_.data(), int(rows_.size()), work_);
            const auto may_end = [&](int row) { return owners_[row]->beam.may_end(options); };
            const auto scan = [&](const Linear<P>& vocabulary, const int32_t* tokens, int first, int rows) {
                return scan_(vocabulary, tokens, work_.inputs, first, rows, 2 * options.beam, may_end);
            };
            const Best* best = job_.has_lists() ? nullptr : scan(model_.vocabulary, nullptr, 0, int(rows_.size()));
            size_t kept = 0;
            int first = 0;
            for (Place* place : active_) {
                const int live = place->beam.live();
                const bool given = !place->started && job_.symbols.given_count;
                place->started = true;
                if (job_.has_lists()) best = scan(place->vocabulary, place->tokens, first, live);
                first += live;
                if (given) place->beam.begin(job_.symbols.given, options);
                if (given || place->beam.advance(best, options, job_.symbols.eos)) {
                    if (options.beam > 1) place->sentence.reorder(place->beam.parents(), place->beam.live());
                    active_[kept++] = place;
                } else {
                    job_.outputs[place->beam.number()] = place->beam.outputs(options.n_best);
                    free_.push_back(place);
                }
                best += live;
            }
            active_.resize(kept);
        }
    }

  private:
    struct Place {
        Sentence<P> sentence;
        Beam beam;
        bool started = false;
        Linear<P> vocabulary;  // projection to the sentence's shortlist, and its token ids
        const int32_t* tokens = nullptr;
    };

    // Encode the next sentences together and assign them to the free places.
    void refill() {
        std::vector<int> lengths;
        std::vector<int32_t> ids;
        std::vector<Place*> taken;
        while (!free_.empty()) {
            const int number = job_.next.fetch_add(1);
            if (number >= job_.count()) break;
            Place* place = free_.back();
            free_.pop_back();
            place->beam.start(number, job_.limits[number]);
            place->started = false;
            place->sentence.start(model_.shape.decoder_layers, job_.options.beam);
            if (job_.has_lists()) {
                place->tokens = job_.listed.data() + job_.lists[number];
                const int count = int(job_.lists[number + 1] - job_.lists[number]);
                place->vocabulary.select(model_.vocabulary, place->tokens, count, NEVER);
            }
            lengths.push_back(job_.length(number));
            const int32_t* first = job_.ids.data() + job_.offsets[number];
            ids.insert(ids.end(), first, first + lengths.back());
            taken.push_back(place);
        }
        if (taken.empty()) return;
        model_.encode(ids.data(), lengths.data(), int(lengths.size()), work_);
        const Rows states = work_.x;
        int first = 0;
        for (size_t s = 0; s < taken.size(); ++s) {
            model_.remember(states.from(first), lengths[s], taken[s]->sentence, work_);
            first += lengths[s];
            active_.push_back(taken[s]);
        }
    }

    const Transformer<P>& model_;
    Job& job_;
    Scan<P> scan_;
    std::vector<Place> places_;
    std::vector<Place*> free_, active_;
    std::vector<Row<P>> rows_;
    std::vector<Place*> owners_;
    Workspace<P> work_;
};

}  // namespace headwise
