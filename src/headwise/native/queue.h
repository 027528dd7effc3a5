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
    std::vector<int32_t> list;  // with `has_list`, the ids that its outputs may contain, ascending
    bool has_list = false;
    int32_t limit = 0;  // maximum of |Y|, the end symbol included
    Options options{};
    Terms terms;  // that its outputs must contain
    State state = State::waiting;
    std::atomic<bool> cancelled{false};  // a search drops it before its next step
    std::vector<Output> outputs;
    const char* failure = nullptr;
    std::string text;  // of a failure whose message isn't a constant

    // The part of a batch that it takes: source tokens times hypotheses.
    int64_t tokens() const { return int64_t(ids.size()) * options.beam; }

    // Validate against the shape of the model.
    void check(const Shape& shape, const Symbols& symbols) const {
        options.check();
        expect_ids(ids.data(), int64_t(ids.size()), shape.source_size, "a source id");
        expect_within(int64_t(ids.size()), 1, shape.longest ? shape.longest : MOST_ROWS, "tokens of a sentence");
        expect(limit > symbols.given_count, "expected a longest output of at least 1 after what is given");
        if (!terms.empty())
            expect(limit > symbols.given_count + terms.length(), "expected a longest output with room for the terms");
        if (!has_list) return;
        expect_ids(list.data(), int64_t(list.size()), shape.target_size, "a listed id");
        expect(std::adjacent_find(list.begin(), list.end(), std::greater_equal<int32_t>()) == list.end(),
               "expected listed ids in order");
        expect(std::binary_search(list.begin(), list.end(), symbols.eos), "expected the end symbol in every list");
    }
};

using Requests = std::list<Request>;

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
