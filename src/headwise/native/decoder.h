// One model in one thread of a search: it encodes sources, decodes steps and projects to the vocabulary. The interface
// is independent of the precision, so that a search knows one model or several of any precisions.
#pragma once

#include <functional>
#include <memory>

#include "queue.h"
#include "scan.h"
#include "transformer.h"

namespace headwise {

// What a decoder keeps of one sentence.
class State {
  public:
    virtual ~State() = default;
    virtual void reorder(const int32_t* parents, int rows) = 0;
    virtual int length() const = 0;  // tokens that were decoded
    virtual size_t bytes() const = 0;
    virtual void append_weights(std::vector<float>& to) const = 0;  // of cross-attention: (layers, length, heads, source)
};

// A sentence whose search begins, and the place of its state, which is null or that of another sentence before.
struct Beginning {
    const Request* request;
    std::unique_ptr<State>* state;
};

// A live hypothesis and its last token.
struct Live {
    State* state;
    int32_t place, token;
};

using WantedOf = std::function<Wanted(int row)>;
using Fill = std::function<void(int first, int rows, Rows to)>;

class Decoder {
  public:
    virtual ~Decoder() = default;

    // Encode sentences together. With `listed`, a state projects to the shortlist of its sentence.
    virtual void begin(const std::vector<Beginning>& sentences, bool listed) = 0;

    // Decode one step; what follows is about its rows.
    virtual void step(const std::vector<Live>& rows) = 0;

    // Find the tokens of `rows` rows from `first`; `state`, if there is one, projects to its shortlist `list`.
    virtual const Best* scan(const State* state, const std::vector<int32_t>* list, int first, int rows,
                             const WantedOf& wanted) = 0;

    // The same from logits of `columns` tokens that `fill` writes.
    virtual const Best* scan_filled(const std::vector<int32_t>* list, int columns, int first, int rows,
                                    const WantedOf& wanted, const Fill& fill) = 0;

    // Write the logits of rows; `state`, if there is one, projects to its shortlist.
    virtual void logits(const State* state, int first, int rows, Rows to) const = 0;

    // Free the memory between steps.
    virtual void clear() = 0;
};

template <class P>
class DecoderOf : public Decoder {
  public:
    DecoderOf(const Transformer<P>& model, const Symbols& symbols, const std::atomic<bool>* stopped)
        : model_(model), symbols_(symbols), stopped_(stopped), scan_(symbols) {
        work_.stopped = stopped;
    }

    void begin(const std::vector<Beginning>& sentences, bool listed) override {
        std::vector<int> lengths;
        std::vector<int32_t> ids;
        std::vector<Kept*> states;
        for (const auto& [request, place] : sentences) {
            if (!*place) *place = std::make_unique<Kept>();
            Kept& state = static_cast<Kept&>(**place);
            states.push_back(&state);
            state.sentence.start(model_.shape.decoder_layers, request->options.beam, request->options.recorded());
            if (listed && request->has_list)
                state.vocabulary.select(model_.vocabulary, request->list.data(), int(request->list.size()), NEVER);
            const size_t dropped = model_.shape.source_end || request->ids.size() == 1 ? 0 : 1;  // the end symbol
            lengths.push_back(int(request->ids.size() - dropped));
            ids.insert(ids.end(), request->ids.begin(), request->ids.end() - dropped);
        }
        model_.encode(ids.data(), lengths.data(), int(lengths.size()), work_);
        const Rows encoded = work_.x;
        for (size_t s = 0, first = 0; s < states.size(); first += lengths[s++])
            model_.remember(encoded.from(int(first)), lengths[s], states[s]->sentence, work_);
    }

    void step(const std::vector<Live>& rows) override {
        rows_.clear();
        for (const Live& row : rows) rows_.push_back({&static_cast<Kept*>(row.state)->sentence, row.place, row.token});
        model_.step(rows_.data(), int(rows_.size()), work_);
    }

    const Best* scan(const State* state, const std::vector<int32_t>* list, int first, int rows,
                     const WantedOf& wanted) override {
        return scan_(vocabulary(state), list ? list->data() : nullptr, work_.inputs, first, rows, wanted);
    }

    const Best* scan_filled(const std::vector<int32_t>* list, int columns, int first, int rows, const WantedOf& wanted,
                            const Fill& fill) override {
        return scan_.filled(list ? list->data() : nullptr, columns, first, rows, wanted, fill);
    }

    void logits(const State* state, int first, int rows, Rows to) const override {
        vocabulary(state)(work_.inputs, first, rows, [&](int row, int column, const Floats* values) {
            std::memcpy(to.row(row - first) + column, values, PANEL * sizeof(float));
        });
    }

    void clear() override {
        work_ = Workspace<P>();
        work_.stopped = stopped_;
        scan_ = Scan<P>(symbols_);
    }

  private:
    struct Kept : State {
        Sentence<P> sentence;
        Linear<P> vocabulary;  // projection to the sentence's shortlist

        void reorder(const int32_t* parents, int rows) override { sentence.reorder(parents, rows); }
        int length() const override { return sentence.length; }
        size_t bytes() const override { return sentence.bytes() + vocabulary.bytes(); }
        void append_weights(std::vector<float>& to) const override {
            for (const auto& layer : sentence.weights) to.insert(to.end(), layer.begin(), layer.end());
        }
    };

    const Linear<P>& vocabulary(const State* state) const {
        return state ? static_cast<const Kept*>(state)->vocabulary : model_.vocabulary;
    }

    const Transformer<P>& model_;
    const Symbols symbols_;
    const std::atomic<bool>* stopped_;
    Workspace<P> work_;
    Scan<P> scan_;
    std::vector<Row<P>> rows_;
};

}  // namespace headwise
