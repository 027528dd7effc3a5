// Sentences that wait for a search, in a fair order: clients take turns, each with its sentences in order of arrival.
// src/headwise/engine/scheduling/fair.py defines the order in Python.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "beam.h"
#include "transformer.h"

namespace headwise {

// One sentence to search, and its result: outputs, or the message of the failure that ended its search.
struct Request {
    enum class State { waiting, running, finished };

    int64_t number = 0, client = 0;
    std::vector<int32_t> ids;
    std::vector<int32_t> prefix;  // ids with which its outputs begin, or the output whose probability is sought
    bool given = false;           // whether the first of these is a language that is given
    std::vector<int32_t> list;    // with `has_list`, the ids that its outputs may contain, ascending
    bool has_list = false;
    int32_t limit = 0;  // maximum of |Y|, the end symbol included
    Options options{};
    Terms terms;  // that its outputs must contain
    bool lettered = false;        // whether its outputs must contain a token with a letter
    std::vector<double> numbers;  // in [0, 1), from which its samples are drawn (samples, limit)
    State state = State::waiting;
    std::atomic<bool> cancelled{false};  // a search drops it before its next step
    std::vector<Output> outputs;
    const char* failure = nullptr;
    std::string text;  // of a failure whose message isn't a constant

    // The part of a batch that it takes: source tokens times hypotheses.
    int64_t tokens() const { return int64_t(ids.size()) * options.beam; }

    void check_numbers() const {
        for (const double number : numbers)
            expect(number >= 0 && number < 1, "expected random numbers from 0 to below 1");
    }

    // Validate against the shape of the model.
    void check(const Shape& shape, const Symbols& symbols) const {
        expect_ids(ids.data(), int64_t(ids.size()), shape.source_size, "a source id");
        expect_within(int64_t(ids.size()), 1, shape.longest ? shape.longest : MOST_ROWS, "tokens of a sentence");
        expect_ids(prefix.data(), int64_t(prefix.size()), shape.target_size, "an id of a prefix");
        const int64_t room = int64_t(limit) - int64_t(prefix.size());
        expect(room > 0, "expected a longest output of at least 1 after its prefix");
        if (!terms.empty()) expect(room > terms.length(), "expected a longest output with room for the terms");
        expect(terms.empty() || !options.sampled, "expected a beam search with terms, found samples");
        if (!has_list) return;
        expect_ids(list.data(), int64_t(list.size()), shape.target_size, "a listed id");
        expect(std::adjacent_find(list.begin(), list.end(), std::greater_equal<int32_t>()) == list.end(),
               "expected listed ids in order");
        expect(std::binary_search(list.begin(), list.end(), symbols.eos), "expected the end symbol in every list");
    }
};

using Requests = std::list<Request>;

// Arrays of the caller about `count` sentences, with the numbers of their elements. Offsets (count + 1) are those of each
// sentence in the array before them. Without `prefixes` there are none; without `lists`, a sentence's outputs may contain
// all tokens, otherwise those of its shortlist; without `terms` there are none. The limits (count) are maxima of |Y|.
// `lettered` (count) tells whether outputs must contain a token with a letter or a digit; without it none must. Sampled
// sentences have random numbers for each sample and step (samples, limit).
struct Sentences {
    int32_t count;
    int64_t ids_count, prefixes_count, lists_count, numbers_count;
    const int32_t* ids;
    const int64_t* offsets;
    const int32_t* prefixes;
    const int64_t* prefix_offsets;
    const int32_t* lists;
    const int64_t* list_offsets;
    const int32_t* limits;
    const TermArrays* terms;
    const uint8_t* lettered;
    const double* numbers;

    void check() const {
        expect_within(count, 0, MOST_ROWS, "sentences");
        expect_offsets(offsets, count, ids_count);
        expect((ids || !ids_count) && (limits || !count), "expected ids and longest outputs, found none");
        if (prefix_offsets) expect_offsets(prefix_offsets, count, prefixes_count);
        expect(prefixes || !prefix_offsets || !prefixes_count, "expected ids of prefixes, found none");
        if (list_offsets) expect_offsets(list_offsets, count, lists_count);
        expect(lists || !list_offsets || !lists_count, "expected listed ids, found none");
        expect(numbers_count >= 0 && (numbers || !numbers_count), "expected random numbers, found none");
    }

    // Copy a sentence, except for its terms and random numbers.
    void copy(int32_t s, Request& to) const {
        to.ids.assign(ids + offsets[s], ids + offsets[s + 1]);
        to.limit = limits[s];
        to.lettered = lettered && lettered[s];
        if (prefix_offsets) to.prefix.assign(prefixes + prefix_offsets[s], prefixes + prefix_offsets[s + 1]);
        to.has_list = list_offsets;
        if (list_offsets) to.list.assign(lists + list_offsets[s], lists + list_offsets[s + 1]);
    }
};

// Deficit round robin (Shreedhar and Varghese 1996, "Efficient fair queuing using deficit round-robin"). A client's turn
// lasts while its credit covers its next sentence; then TURN is added to the credit, and the next client has its turn.
class FairQueue {
  public:
    static constexpr int64_t TURN = 128;  // batch tokens: one or two sentences with a beam of 4

    bool empty() const { return !count_; }
    int64_t count() const { return count_; }
    int64_t tokens() const { return tokens_; }  // of all sources

    // Append sentences of one client; takes all elements of the list, or none where memory runs out.
    void add(int64_t client, Requests& sentences) {
        if (sentences.empty()) return;
        auto place = clients_.find(client);
        if (place == clients_.end()) {
            std::list<Client> fresh;
            fresh.push_back({client, TURN, {}});
            place = clients_.emplace(client, fresh.begin()).first;
            turns_.splice(turns_.end(), fresh);
        }
        for (const Request& sentence : sentences) ++count_, tokens_ += int64_t(sentence.ids.size());
        Requests& waiting = place->second->waiting;
        waiting.splice(waiting.end(), sentences);
    }

    // Return the sentence whose turn it is; there must be one.
    Request& next() {
        while (turns_.front().credit < turns_.front().waiting.front().tokens()) {
            turns_.front().credit += TURN;
            turns_.splice(turns_.end(), turns_, turns_.begin());
        }
        return turns_.front().waiting.front();
    }

    // Move the sentence whose turn it is to the end of `to`.
    void take_next(Requests& to) {
        const Request& sentence = next();
        turns_.front().credit -= sentence.tokens();
        move(turns_.front().waiting.begin(), to);
    }

    // Move any waiting sentence to the end of `to`.
    void move(Requests::iterator sentence, Requests& to) {
        const auto place = clients_.find(sentence->client);
        --count_, tokens_ -= int64_t(sentence->ids.size());
        to.splice(to.end(), place->second->waiting, sentence);
        if (!place->second->waiting.empty()) return;
        turns_.erase(place->second);
        clients_.erase(place);
    }

  private:
    struct Client {
        int64_t id, credit;
        Requests waiting;
    };

    int64_t count_ = 0, tokens_ = 0;
    std::list<Client> turns_;  // clients with waiting sentences, in the order of their turns
    std::unordered_map<int64_t, std::list<Client>::iterator> clients_;
};

}  // namespace headwise
