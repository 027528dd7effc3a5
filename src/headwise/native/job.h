// A search job: sentences are added at any time, searched by the job's threads, and collected when they are finished.
// A job that is closed takes no more sentences, and its threads end when all are searched; an open job's threads sleep
// while there are none.
#pragma once

#include <algorithm>

#include "queue.h"
#include "workers.h"

namespace headwise {

class Engine;

// What can be collected: sentences, of which some failed, their outputs, the sum of |Y| and the number of their weights;
// and whether a thread runs.
struct Progress {
    int64_t sentences, outputs, tokens, weights, failed;
    int32_t running;
};

// What a job has to do: waiting sentences and their source tokens, running sentences and their hypotheses.
struct Load {
    int64_t waiting, waiting_tokens, running, rows;
};

// Arrays that receive collected sentences, with their sizes: a number, a count of outputs and a failure (null if there
// is none) for each sentence; |Y| for each output; the concatenated tokens, end symbols included, and their gains; and
// the weights of all outputs.
struct Collected {
    int64_t sentences, outputs, tokens, weight_count;
    int64_t* numbers;
    int32_t* counts;
    const char** failures;
    int32_t* lengths;
    int32_t* ids;
    float *gains, *weights;
};

class Job {
  public:
    const std::vector<const Engine*> engines;
    const Symbols symbols;
    const std::vector<int32_t> given;  // languages, whose probability as an output's first token is 1
    const PerToken continuing, lettered;
    std::atomic<bool> stopped{false};  // checked at every step; set by the caller or a failed thread

    Job(std::vector<const Engine*> engines, const Symbols& symbols, std::vector<int32_t> given, PerToken continuing,
        PerToken lettered)
        : engines(std::move(engines)),
          symbols(symbols),
          given(std::move(given)),
          continuing(std::move(continuing)),
          lettered(std::move(lettered)),
          workers_(mutex_, news_) {}
    ~Job() { stop(); }

    // Append checked sentences of one client; returns the number of the first, which the others follow.
    int64_t add(int64_t client, Requests& sentences) {
        const std::lock_guard<std::mutex> lock(mutex_);
        expect(!closed_, "expected a job that was not closed");
        const int64_t first = next_number_;
        try {
            for (auto sentence = sentences.begin(); sentence != sentences.end(); ++sentence) {
                sentence->number = next_number_;
                requests_.emplace(next_number_++, sentence);
            }
            const bool several = sentences.size() > 1;
            waiting_.add(client, sentences);
            if (several) work_.notify_all();
            else work_.notify_one();
        } catch (...) {
            while (next_number_ > first) requests_.erase(--next_number_);
            throw;
        }
        return first;
    }

    // Start `threads` threads with run(), once: each searches up to `sentences` sentences of `tokens` batch tokens in
    // sum at once, or one sentence that has more.
    template <class Run>
    void start(int sentences, int64_t tokens, int threads, const Run& run) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            expect(!threads_, "expected a job that was not started before");
            sentences_ = sentences, tokens_ = tokens, threads_ = threads;
        }
        workers_.start(threads, run, [this] { stop(); });
    }

    // Accept no more sentences.
    void close() {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
        work_.notify_all();
    }

    // Tell the threads to end before their next step.
    void stop() {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopped = true;
        work_.notify_all();
    }

    // Give a sentence up, if it isn't finished: it is never collected.
    void cancel(int64_t number) {
        Requests gone;  // destroyed after the lock is released
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto place = requests_.find(number);
        if (place == requests_.end()) return;
        const Requests::iterator sentence = place->second;
        sentence->cancelled = true;
        if (sentence->state != Request::State::waiting) return;
        requests_.erase(place);
        waiting_.move(sentence, gone);
    }

    // For a thread that has `count` sentences of `used` batch tokens: append the next that fit to `taken`. Sleeps where
    // the thread has none and none wait. Returns false once the job is stopped, or closed and nothing is left to do.
    bool take(std::vector<Request*>& taken, size_t count, int64_t used) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!count) work_.wait(lock, [&] { return stopped || closed_ || !waiting_.empty(); });
        if (stopped) return false;
        if (count * 4 > size_t(sentences_) * 3 || used * 4 > tokens_ * 3) return true;  // until a quarter is free
        const int64_t all = waiting_.count() + int64_t(running_.size());
        const size_t share = std::max<int64_t>(LEAST, (all + threads_ - 1) / threads_);
        for (const size_t most = std::min(size_t(sentences_), share); !waiting_.empty() && count < most; ++count) {
            Request& next = waiting_.next();
            if (count && used + next.tokens() > tokens_) break;
            taken.push_back(&next);
            waiting_.take_next(running_);
            next.state = Request::State::running;
            used += next.tokens();
            rows_ += next.options.beam;
        }
        return count > 0;
    }

    // Hand a running sentence back with its outputs or failure; one that was cancelled is dropped.
    void finish(Request& sentence) {
        Requests gone;
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto place = requests_.find(sentence.number);
        rows_ -= sentence.options.beam;
        if (sentence.cancelled) {
            gone.splice(gone.end(), running_, place->second);
            requests_.erase(place);
            return;
        }
        sentence.state = Request::State::finished;
        finished_.splice(finished_.end(), running_, place->second);
        count(sentence, 1);
        if (int64_t(finished_.size()) >= least_ || sentence.failure) news_.notify_all();
    }

    // Wait until `least` sentences are finished, one has failed, or all threads have ended, with a timeout. Returns what
    // can be collected. One thread at a time may wait and collect.
    Progress wait(int milliseconds, int64_t least) {
        std::unique_lock<std::mutex> lock(mutex_);
        expect(threads_, "expected a job that was started");
        least_ = least;
        news_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                       [&] { return int64_t(finished_.size()) >= least || failed_ || workers_.ended(); });
        return {int64_t(finished_.size()), outputs_, output_tokens_, weights_, failed_, !workers_.ended()};
    }

    // Return the message of the first failed thread once all have ended; null if there is none.
    const char* failure() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return workers_.ended() ? workers_.failure() : nullptr;
    }

    // Write the first sentences that have finished, in this order; sizes as `wait` returned them. The messages are valid
    // until the next call.
    void collect(const Collected& to) {
        const std::lock_guard<std::mutex> lock(mutex_);
        expect_within(to.sentences, 0, int64_t(finished_.size()), "finished sentences");
        const auto end = std::next(finished_.begin(), to.sentences);
        int64_t outputs = 0, tokens = 0, weights = 0;
        for (auto sentence = finished_.begin(); sentence != end; ++sentence)
            for (const Output& output : sentence->outputs)
                ++outputs, tokens += int64_t(output.gains.size()), weights += int64_t(output.weights.size());
        expect_equal(to.outputs, outputs, "outputs");
        expect_equal(to.tokens, tokens, "tokens");
        expect_equal(to.weight_count, weights, "weights");
        collected_.clear();
        collected_.splice(collected_.end(), finished_, finished_.begin(), end);
        int64_t place = 0;
        int32_t *lengths = to.lengths, *ids = to.ids;
        float *gains = to.gains, *all_weights = to.weights;
        for (const Request& sentence : collected_) {
            count(sentence, -1);
            requests_.erase(sentence.number);
            to.numbers[place] = sentence.number;
            to.counts[place] = int32_t(sentence.outputs.size());
            to.failures[place++] = sentence.failure;
            for (const Output& output : sentence.outputs) {
                *lengths++ = int32_t(output.gains.size());
                ids = std::copy(output.tokens.begin(), output.tokens.end(), ids);
                *ids++ = symbols.eos;
                gains = std::copy(output.gains.begin(), output.gains.end(), gains);
                all_weights = std::copy(output.weights.begin(), output.weights.end(), all_weights);
            }
        }
    }

    Load load() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return {waiting_.count(), waiting_.tokens(), int64_t(running_.size()), rows_};
    }

  private:
    static constexpr int64_t LEAST = 4;  // sentences: with fewer in each thread, reading the weights dominates

    // Add a finished sentence to the totals, or remove it.
    void count(const Request& sentence, int sign) {
        failed_ += sign * (sentence.failure != nullptr);
        outputs_ += sign * int64_t(sentence.outputs.size());
        for (const Output& output : sentence.outputs) {
            output_tokens_ += sign * int64_t(output.gains.size());
            weights_ += sign * int64_t(output.weights.size());
        }
    }

    std::mutex mutex_;  // protects all members below, and what threads don't own of the sentences
    std::condition_variable work_, news_;  // of the job's threads and of the waiting thread
    FairQueue waiting_;
    Requests running_, finished_, collected_;
    std::unordered_map<int64_t, Requests::iterator> requests_;  // by number, until they are collected
    int64_t next_number_ = 0, least_ = 0, rows_ = 0, outputs_ = 0, output_tokens_ = 0, weights_ = 0, failed_ = 0;
    int sentences_ = 0, threads_ = 0;
    int64_t tokens_ = 0;
    bool closed_ = false;
    Workers workers_;  // the last member, so that it is destroyed first: other members must outlive the threads
};

}  // namespace headwise
