// Greedy and beam search, sampling and forced decoding of many sentences, as defined in
// src/headwise/decoding/search.py. A finished sentence is replaced by the next one immediately, so that the batch stays
// full. Each sentence has its own options and length, and no result depends on the other sentences of the batch.
#pragma once

#include <memory>

#include "engine.h"
#include "ensemble.h"
#include "job.h"

namespace headwise {

// The search of one thread of a job, with one model or the mean of several.
class Search {
  public:
    explicit Search(Job& job) : job_(job) {
        for (const Engine* engine : job.engines) {
            decoders_.push_back(engine->decoder(job.symbols, &job.stopped));
            const int longest = engine->shape().longest;
            if (longest && (!longest_ || longest < longest_)) longest_ = longest;
        }
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
        std::vector<std::unique_ptr<State>> states;  // one for each model
        Beam beam;
        bool started = false, continues = true;

        size_t bytes() const {
            size_t total = 0;
            for (const auto& state : states) total += state ? state->bytes() : 0;
            return total;
        }
    };

    static constexpr size_t POOL = size_t(128) << 20;  // bytes of memory kept for the next sentences
    static constexpr int ROWS = 16;                    // of which the logits of several models are held at once

    // Sentences of the same number share a projection: to the vocabulary, whose logits are used while they are in
    // registers; or to logits in memory. One with a shortlist has its own.
    enum class Projection { direct, in_memory, own };

    Projection projection(const Request& request) const {
        if (request.has_list) return Projection::own;
        return in_memory(request) ? Projection::in_memory : Projection::direct;
    }

    bool in_memory(const Request& request) const { return decoders_.size() > 1 || request.options.sampled; }

    // Drop cancelled sentences and add the next ones; returns false when the search ends.
    bool refill() {
        keep_where([](const Place& place) { return !place.request->cancelled; });
        if (!job_.take(taken_, active_.size(), used_)) return false;
        if (!taken_.empty()) {
            encode(place_taken());
            auto first = active_.begin();
            for (const Projection shared : {Projection::direct, Projection::in_memory})
                first = std::partition(first, active_.end(),
                                       [&](const auto& place) { return projection(*place->request) == shared; });
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
        for (size_t p = begin; p < active_.size(); ++p) {
            Place& place = *active_[p];
            const Request& request = *place.request;
            place.beam.start({request.limit, &request.prefix, request.given, &request.terms, &job_.continuing,
                              request.lettered ? &job_.lettered : nullptr, request.numbers.data()});
            place.started = false, place.continues = true;
            place.states.resize(decoders_.size());
        }
        for (size_t d = 0; d < decoders_.size(); ++d) {
            std::vector<Beginning> sentences;
            for (size_t p = begin; p < active_.size(); ++p)
                sentences.push_back({active_[p]->request, &active_[p]->states[d]});
            decoders_[d]->begin(sentences, decoders_.size() == 1);
        }
    }

    // Decode one step of all sentences, and hand back those that are finished.
    void step() {
        owners_.clear();
        for (size_t d = 0; d < decoders_.size(); ++d) {
            rows_.clear();
            for (const auto& place : active_)
                for (int b = 0; b < place->beam.live(); ++b) {
                    const int32_t token = place->started ? place->beam.token(b) : job_.symbols.bos;
                    rows_.push_back({place->states[d].get(), b, token});
                    if (d == 0) owners_.push_back(place.get());
                }
            decoders_[d]->step(rows_);
        }
        int row = 0;
        for (size_t first = 0; first < active_.size();) {
            size_t last = first + 1;  // the end of the places that share a projection
            const Projection shared = projection(*active_[first]->request);
            if (shared != Projection::own)
                while (last < active_.size() && projection(*active_[last]->request) == shared) ++last;
            int rows = 0;
            for (size_t p = first; p < last; ++p) rows += active_[p]->beam.live();
            const Best* best = scan(*active_[first], row, rows);
            for (; first < last; ++first) best = advance(*active_[first], best);
            row += rows;
        }
        keep_where([](const Place& place) { return place.continues; });
    }

    // Find the best tokens of rows that share the projection of `place`, or draw tokens.
    const Best* scan(const Place& place, int first, int rows) {
        const WantedOf wanted = [&](int row) {
            Place& owner = *owners_[row];
            return owner.beam.wanted(rows_[row].place, owner.request->options);
        };
        const Request& request = *place.request;
        const State* state = request.has_list ? place.states[0].get() : nullptr;
        const std::vector<int32_t>* list = request.has_list ? &request.list : nullptr;
        Decoder& decoder = *decoders_[0];
        if (!in_memory(request)) return decoder.scan(state, list, first, rows, wanted);
        const int size = job_.engines[0]->shape().target_size, columns = list ? int(list->size()) : size;
        if (decoders_.size() == 1)
            return decoder.scan_filled(list, columns, first, rows, wanted, [&](int begin, int count, Rows to) {
                decoder.logits(state, begin, count, to);
            });
        return decoder.scan_filled(list, columns, first, rows, wanted, [&](int begin, int count, Rows to) {
            for (int done = 0; done < count; done += ROWS)
                average(list, size, begin + done, std::min(ROWS, count - done), to.from(done));
        });
    }

    // Write the logarithms of the mean probabilities of all models, of all tokens or those of a list.
    void average(const std::vector<int32_t>* list, int size, int first, int rows, Rows to) {
        const int stride = round_up(size, PANEL);
        const size_t models = decoders_.size();
        logits_.grow(models * rows * stride);
        std::vector<Rows> all;
        for (size_t d = 0; d < models; ++d) {
            all.push_back({logits_.data() + d * rows * stride, stride});
            decoders_[d]->logits(nullptr, first, rows, all[d]);
        }
        for (int row = 0; row < rows; ++row) {
            std::vector<const float*> of_models;
            for (const Rows& each : all) of_models.push_back(each.row(row));
            float* mean = list ? all[0].row(row) : to.row(row);
            log_mean(of_models, stride, mean);
            const int columns = list ? int(list->size()) : size;
            for (int n = 0; list && n < columns; ++n) to.row(row)[n] = mean[(*list)[n]];
            std::fill(to.row(row) + columns, to.row(row) + round_up(columns, PANEL), NEVER);
        }
    }

    // Continue a sentence by the tokens of its rows; returns those of the next sentence.
    const Best* advance(Place& place, const Best* best) {
        Request& request = *place.request;
        const int live = place.beam.live();
        place.continues = place.beam.advance(best, request.options, job_.symbols.eos);
        place.started = true;
        if (!place.continues) {
            request.outputs = place.beam.outputs(request.options.n_best);
            if (request.options.recorded() && !request.outputs.empty())
                for (const auto& state : place.states) state->append_weights(request.outputs[0].weights);
        } else if (longest_ && place.states[0]->length() >= longest_) {
            request.failure = "expected no more tokens than there are positions";
            place.continues = false;
        } else if (request.options.beam > 1) {
            for (const auto& state : place.states) state->reorder(place.beam.parents(), place.beam.live());
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
        logits_ = Buffer<float>();
        for (auto& decoder : decoders_) decoder->clear();
        for (; !taken_.empty(); taken_.pop_back()) {
            Request& request = *taken_.back();
            request.text = text;
            request.failure = message == text.c_str() ? request.text.c_str() : message;
            job_.finish(request);
        }
    }

    Job& job_;
    std::vector<std::unique_ptr<Decoder>> decoders_;  // of all models
    int longest_ = 0;                                 // tokens of a sequence; 0: any number
    std::vector<Request*> taken_;                     // sentences without a place yet
    std::vector<std::unique_ptr<Place>> active_, idle_;
    int64_t used_ = 0;   // batch tokens of the active sentences
    size_t pooled_ = 0;  // bytes of the idle places
    std::vector<Live> rows_;
    std::vector<Place*> owners_;
    Buffer<float> logits_;  // of several models
};

}  // namespace headwise
