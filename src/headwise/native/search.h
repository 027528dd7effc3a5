// Greedy and beam search over many sentences, as defined in src/headwise/decoding/search.py. A finished sentence is
// replaced by the next one immediately, so that the batch stays full. Each sentence has its own options and length, and
// no result depends on the other sentences of the batch.
#pragma once

#include <memory>

#include "job.h"
#include "scan.h"
#include "transformer.h"

namespace headwise {

// The search of one thread of a job.
template <class P>
class Search {
  public:
    Search(const Transformer<P>& model, Job& job) : model_(model), job_(job), scan_(job.symbols) {
        work_.stopped = &job.stopped;
    }

    // Search until the job ends. Where memory runs out, the sentences of this thread fail and their memory is freed.
    void run() {
        while (true) {
            try {
                if (!refill()) return;
                step();
            } catch (...) {
                if (active_.empty() && taken_.empty()) throw;
                fail_all();
            }
        }
    }

  private:
    struct Place {
        Request* request = nullptr;
        Sentence<P> sentence;
        Beam beam;
        bool started = false, continues = true;
        Linear<P> vocabulary;  // projection to the sentence's shortlist

        size_t bytes() const { return sentence.bytes() + vocabulary.bytes(); }
    };

    static constexpr size_t POOL = size_t(128) << 20;  // bytes of memory kept for the next sentences

    // Drop cancelled sentences and add the next ones; returns false when the search ends.
    bool refill() {
        keep_where([](const Place& place) { return !place.request->cancelled; });
        if (!job_.take(taken_, active_.size(), used_)) return false;
        if (!taken_.empty()) {
            encode(place_taken());
            const auto all_tokens = [](const auto& place) { return !place->request->has_list; };
            std::partition(active_.begin(), active_.end(), all_tokens);  // they share the projection to the vocabulary
        }
        return !job_.stopped;
    }

    // Assign the sentences of `taken_` to places; returns the number of places before.
    size_t place_taken() {
        const size_t before = active_.size();
        const size_t all = before + taken_.size();
        active_.reserve(all);
        idle_.reserve(all + idle_.size());  // no later call needs memory to hand a sentence back
        taken_.reserve(all);
        for (; !taken_.empty(); taken_.pop_back()) {
            std::unique_ptr<Place> place = idle_.empty() ? std::make_unique<Place>() : std::move(idle_.back());
            if (!idle_.empty()) idle_.pop_back(), pooled_ -= place->bytes();
            place->request = taken_.back();
            used_ += place->request->tokens();
            active_.push_back(std::move(place));
        }
        std::reverse(active_.begin() + before, active_.end());
        return before;
    }

    // Encode the sentences of the places from `begin` together.
    void encode(size_t begin) {
        std::vector<int> lengths;
        std::vector<int32_t> ids;
        for (size_t p = begin; p < active_.size(); ++p) {
            Place& place = *active_[p];
            const Request& request = *place.request;
            place.beam.start(request.limit, request.terms, job_.continuing);
            place.started = false, place.continues = true;
            place.sentence.start(model_.shape.decoder_layers, request.options.beam);
            if (request.has_list)
                place.vocabulary.select(model_.vocabulary, request.list.data(), int(request.list.size()), NEVER);
            lengths.push_back(int(request.ids.size()));
            ids.insert(ids.end(), request.ids.begin(), request.ids.end());
        }
        model_.encode(ids.data(), lengths.data(), int(lengths.size()), work_);
        const Rows states = work_.x;
        int first = 0;
        for (size_t s = 0; s < lengths.size(); first += lengths[s++])
            model_.remember(states.from(first), lengths[s], active_[begin + s]->sentence, work_);
    }

    // Decode one step of all sentences, and hand back those that are finished.
    void step() {
        rows_.clear();
        owners_.clear();
        for (const auto& place : active_)
            for (int b = 0; b < place->beam.live(); ++b) {
                rows_.push_back({&place->sentence, b, place->started ? place->beam.token(b) : job_.symbols.bos});
                owners_.push_back(place.get());
            }
        model_.step(rows_.data(), int(rows_.size()), work_);
        int row = 0;
        for (size_t first = 0; first < active_.size();) {
            size_t last = first + 1;  // the end of the places that share a projection to the vocabulary
            if (!active_[first]->request->has_list)
                while (last < active_.size() && !active_[last]->request->has_list) ++last;
            int rows = 0;
            for (size_t p = first; p < last; ++p) rows += active_[p]->beam.live();
            const Best* best = scan(*active_[first], row, rows);
            for (; first < last; ++first) best = advance(*active_[first], best);
            row += rows;
        }
        keep_where([](const Place& place) { return place.continues; });
    }

    // Find the best tokens of rows that share the projection of `place`.
    const Best* scan(const Place& place, int first, int rows) {
        const auto wanted = [&](int row) {
            const Place& owner = *owners_[row];
            return owner.beam.wanted(rows_[row].beam, owner.request->options);
        };
        const Request& request = *place.request;
        if (!request.has_list) return scan_(model_.vocabulary, nullptr, work_.inputs, first, rows, wanted);
        return scan_(place.vocabulary, request.list.data(), work_.inputs, first, rows, wanted);
    }

    // Continue a sentence by the best tokens of its rows; returns those of the next sentence.
    const Best* advance(Place& place, const Best* best) {
        Request& request = *place.request;
        const int live = place.beam.live(), positions = model_.shape.longest;
        if (!place.started && job_.symbols.given_count) {
            place.beam.begin(job_.symbols.given, request.options);
        } else {
            place.continues = place.beam.advance(best, request.options, job_.symbols.eos);
        }
        place.started = true;
        if (!place.continues) {
            request.outputs = place.beam.outputs(request.options.n_best);
        } else if (positions && place.sentence.length >= positions) {
            request.failure = "expected no more tokens than there are positions";
            place.continues = false;
        } else if (request.options.beam > 1) {
            place.sentence.reorder(place.beam.parents(), place.beam.live());
        }
        return best + live;
    }

    // Hand back the sentences for which the condition is false, and remove them from the batch.
    template <class Condition>
    void keep_where(const Condition& condition) {
        size_t kept = 0;
        for (auto& place : active_) {
            if (condition(*place)) {
                std::swap(active_[kept++], place);
                continue;
            }
            used_ -= place->request->tokens();
            job_.finish(*place->request);
            if (pooled_ + place->bytes() > POOL) continue;
            pooled_ += place->bytes();
            idle_.push_back(std::move(place));
        }
        active_.resize(kept);
    }

    // End all sentences of this thread with the exception that is being handled, and free the memory.
    void fail_all() {
        std::string text;
        const char* message = reason(text);
        for (auto& place : active_) taken_.push_back(place->request);
        active_.clear();
        idle_.clear();
        used_ = 0, pooled_ = 0;
        work_ = Workspace<P>();
        work_.stopped = &job_.stopped;
        scan_ = Scan<P>(job_.symbols);
        for (; !taken_.empty(); taken_.pop_back()) {
            Request& request = *taken_.back();
            request.text = text;
            request.failure = message == text.c_str() ? request.text.c_str() : message;
            job_.finish(request);
        }
    }

    const Transformer<P>& model_;
    Job& job_;
    Scan<P> scan_;
    std::vector<Request*> taken_;  // sentences without a place yet
    std::vector<std::unique_ptr<Place>> active_, idle_;
    int64_t used_ = 0;  // batch tokens of the active sentences
    size_t pooled_ = 0;  // bytes of the idle places
    std::vector<Row<P>> rows_;
    std::vector<Place*> owners_;
    Workspace<P> work_;
};

}  // namespace headwise
