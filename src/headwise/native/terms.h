// The terms that a sentence's outputs must contain, as defined in src/headwise/engine/terms.py.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "checks.h"

namespace headwise {

constexpr int MOST_TERMS = 64;    // of a sentence, repetitions included: a bit each
constexpr int MOST_NODES = 256;   // of their automaton

// Arrays of the caller, with their sizes; see engine/terms.py. Without nodes there are no terms.
struct TermArrays {
    int32_t nodes, terms, edges, ends;
    const int32_t *edge_offsets, *edge_tokens, *edge_nodes, *end_offsets, *ended, *distances;
    const uint64_t* masks;
};

// A byte for each target token: whether it continues a word, or has a letter; empty: none does.
using PerToken = std::vector<uint8_t>;

class Terms {
  public:
    // What a hypothesis contains: bits of the terms that were counted, and the node after its last token.
    struct State {
        uint64_t met = 0;
        int32_t node = 0;
    };

    bool empty() const { return edge_offsets_.empty(); }
    int length() const { return left(State()); }  // tokens that suffice for all terms

    // Copy the arrays, after they are checked; `size` is that of the vocabulary.
    void assign(const TermArrays& from, int size, int32_t eos) {
        if (!from.nodes) return;
        expect_within(from.nodes, 1, MOST_NODES, "nodes of terms");
        expect_within(from.terms, 1, MOST_TERMS, "terms");
        expect_within(from.edges, 0, MOST_NODES * MOST_NODES, "edges of terms");
        expect_within(from.ends, 0, MOST_NODES * MOST_TERMS, "ends of terms");
        expect(from.edge_tokens && from.edge_nodes && from.ended && from.distances && from.masks,
               "expected terms, found none");
        expect_offsets(from.edge_offsets, from.nodes, from.edges);
        expect_offsets(from.end_offsets, from.nodes, from.ends);
        expect_ids(from.edge_tokens, from.edges, size, "a token of a term");
        expect_ids(from.edge_nodes, from.edges, from.nodes, "a node of terms");
        expect_ids(from.ended, from.ends, from.terms, "a term");
        for (int32_t node = 0; node < from.nodes; ++node)
            for (int32_t e = from.edge_offsets[node]; e < from.edge_offsets[node + 1]; ++e) {
                expect(from.edge_tokens[e] != eos, "expected terms without the end symbol");
                expect(e == from.edge_offsets[node] || from.edge_tokens[e - 1] < from.edge_tokens[e],
                       "expected tokens of terms in order");
            }
        for (int32_t d = 0; d < from.nodes * from.terms; ++d)
            expect_within(from.distances[d], 1, MOST_NODES, "a distance of a term");
        for (int32_t t = 0; t < from.terms; ++t) expect(from.masks[t], "expected a bit for every term");
        terms_ = from.terms;
        edge_offsets_.assign(from.edge_offsets, from.edge_offsets + from.nodes + 1);
        end_offsets_.assign(from.end_offsets, from.end_offsets + from.nodes + 1);
        tokens_.assign(from.edge_tokens, from.edge_tokens + from.edges);
        nodes_.assign(from.edge_nodes, from.edge_nodes + from.edges);
        ended_.assign(from.ended, from.ended + from.ends);
        distances_.assign(from.distances, from.distances + size_t(from.nodes) * from.terms);
        masks_.assign(from.masks, from.masks + from.terms);
    }

    // The tokens with which a term begins or continues, ascending.
    const int32_t* tokens(State state) const { return tokens_.data() + edge_offsets_[state.node]; }
    int count(State state) const { return edge_offsets_[state.node + 1] - edge_offsets_[state.node]; }

    // The bits of the terms that a hypothesis contains if no token continues its last word.
    uint64_t settled(State state) const {
        uint64_t met = state.met;
        for (int32_t e = end_offsets_[state.node]; e < end_offsets_[state.node + 1]; ++e) {
            const uint64_t missing = masks_[ended_[e]] & ~met;
            met |= missing & -missing;  // the lowest bit, one occurrence
        }
        return met;
    }

    State next(State state, int32_t token, const PerToken& continuing) const {
        const bool continues = !continuing.empty() && continuing[token];
        const int32_t *first = tokens(state), *last = first + count(state);
        const int32_t* found = std::lower_bound(first, last, token);
        const bool known = found != last && *found == token;
        return {continues ? state.met : settled(state), known ? nodes_[found - tokens_.data()] : 0};
    }

    // How many tokens suffice to complete all terms.
    int left(State state) const {
        const uint64_t met = settled(state);
        const int32_t* distances = distances_.data() + size_t(state.node) * terms_;
        int sum = 0, saved = 0;
        for (int t = 0; t < terms_; ++t) {
            const int missing = __builtin_popcountll(masks_[t] & ~met);
            if (!missing) continue;
            sum += missing * distances_[t];
            saved = std::max(saved, distances_[t] - distances[t]);
        }
        return sum - saved;
    }

  private:
    int terms_ = 0;
    std::vector<int32_t> edge_offsets_, end_offsets_, tokens_, nodes_, ended_, distances_;
    std::vector<uint64_t> masks_;
};

}  // namespace headwise
