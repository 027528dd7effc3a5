// One model behind the C interface, in any precision. It knows the names and sizes of its weights, rejects others, and
// runs only after all weights have been set.
#pragma once

#include <map>
#include <set>

#include "decoder.h"

namespace headwise {

// The interface of an engine, independent of its precision.
class Engine {
  public:
    virtual ~Engine() = default;
    virtual const Shape& shape() const = 0;
    virtual void linear(const std::string& name, const float* weight, const float* bias, int outputs, int inputs) = 0;
    virtual void vector(const std::string& name, const float* values, int size) = 0;
    virtual void table(const std::string& name, const float* values, int rows, int columns) = 0;
    virtual void ready() const = 0;
    // `stopped` ends an encoding early, whose result is then discarded.
    virtual std::unique_ptr<Decoder> decoder(const Symbols& symbols, const std::atomic<bool>* stopped) const = 0;
};

template <class P>
class EngineOf : public Engine {
  public:
    explicit EngineOf(const Shape& shape) : model_(shape) {
        layers("encoder", model_.encoder, false);
        layers("decoder", model_.decoder, true);
        if (shape.final_norm) {
            norm("encoder_norm", model_.encoder_norm);
            norm("decoder_norm", model_.decoder_norm);
        }
        need(linears_, "vocabulary", {&model_.vocabulary, shape.target_size, shape.d_model});
        for (const char* name : {"source_embedding", "target_embedding"}) missing_.insert(name);
        if (shape.added) need(tables_, "positions", {&model_.positions, shape.longest, shape.d_model});
        if (shape.rotated) need(tables_, "rotations", {&model_.rotations, shape.longest, shape.key_size});
        if (!shape.biased) return;
        need(tables_, "encoder.biases", {&model_.encoder_biases, shape.heads, shape.distances()});
        need(tables_, "decoder.biases", {&model_.decoder_biases, shape.heads, shape.distances()});
    }

    const Shape& shape() const override { return model_.shape; }

    void linear(const std::string& name, const float* weight, const float* bias, int outputs, int inputs) override {
        const Product& product = find(linears_, name);
        expect(weight, "expected weights, found none");
        expect_equal(outputs, product.outputs, "outputs of " + name);
        expect_equal(inputs, product.inputs, "inputs of " + name);
        *product.to = Linear<P>(weight, bias, outputs, inputs, name == "vocabulary" ? NEVER : 0);
        missing_.erase(name);
    }

    void vector(const std::string& name, const float* values, int size) override {
        Buffer<float>& to = *find(vectors_, name);
        expect(values, "expected values, found none");
        expect_equal(size, model_.shape.d_model, "values of " + name);
        to.grow(round_up(size, LANES));
        std::memcpy(to.data(), values, size * sizeof(float));
        missing_.erase(name);
    }

    void table(const std::string& name, const float* values, int rows, int columns) override {
        const Shape& shape = model_.shape;
        const bool source = name == "source_embedding", embedding = source || name == "target_embedding";
        const Table other = embedding ? Table{} : find(tables_, name);
        expect(values, "expected values, found none");
        expect_equal(rows, source ? shape.source_size : embedding ? shape.target_size : other.rows, "rows of " + name);
        expect_equal(columns, embedding ? shape.d_model : other.columns, "columns of " + name);
        if (embedding) {
            model_.keep_table(source ? model_.source_embedding : model_.target_embedding, values, rows);
        } else {
            const int stride = round_up(columns, 16);
            other.to->grow(size_t(rows) * stride);
            for (size_t row = 0; row < size_t(rows); ++row)
                std::memcpy(other.to->data() + row * stride, values + row * columns, columns * sizeof(float));
        }
        missing_.erase(name);
    }

    void ready() const override {
        if (!missing_.empty()) throw Refused("expected the weight " + *missing_.begin() + ", found none");
    }

    std::unique_ptr<Decoder> decoder(const Symbols& symbols, const std::atomic<bool>* stopped) const override {
        return std::make_unique<DecoderOf<P>>(model_, symbols, stopped);
    }

  private:
    struct Product {
        Linear<P>* to;
        int outputs, inputs;
    };
    struct Table {
        Buffer<float>* to;
        int rows, columns;
    };

    template <class Parts>
    void need(Parts& parts, const std::string& name, const typename Parts::mapped_type& part) {
        parts[name] = part;
        missing_.insert(name);
    }

    template <class Parts>
    static const typename Parts::mapped_type& find(const Parts& parts, const std::string& name) {
        const auto found = parts.find(name);
        expect(found != parts.end(), "there is no weight of this name");
        return found->second;
    }

    void norm(const std::string& name, Norm& part) {
        need(vectors_, name + ".weight", &part.weight);
        if (model_.shape.rms) part.bias.grow(round_up(model_.shape.d_model, LANES));
        else need(vectors_, name + ".bias", &part.bias);
    }

    void distances(const std::string& name, Buffer<float>& part, int tables, int size) {
        if (tables) need(tables_, name, {&part, tables * model_.shape.distances(), size});
    }

    void layers(const std::string& side, std::vector<Layer<P>>& stack, bool crossed) {
        const Shape& shape = model_.shape;
        const Heads& heads = model_.heads;
        const int d_model = shape.d_model;
        for (size_t number = 0; number < stack.size(); ++number) {
            const std::string name = side + "." + std::to_string(number);
            Layer<P>& layer = stack[number];
            need(linears_, name + ".self_attention.in", {&layer.self.in, heads.queries() + heads.kept(), d_model});
            need(linears_, name + ".self_attention.out", {&layer.self.out, d_model, heads.result()});
            distances(name + ".distance_keys", layer.distance_keys, shape.key_tables, shape.key_size);
            distances(name + ".distance_values", layer.distance_values, shape.value_tables, shape.value_size);
            norm(name + ".around_self_attention", layer.around_self);
            if (crossed) {
                need(linears_, name + ".cross_attention.in", {&layer.cross.in, heads.queries(), d_model});
                need(linears_, name + ".cross_attention.memory", {&layer.cross.memory, heads.kept(), d_model});
                need(linears_, name + ".cross_attention.out", {&layer.cross.out, d_model, heads.result()});
                norm(name + ".around_cross_attention", layer.around_cross);
            }
            need(linears_, name + ".w1", {&layer.w1, shape.d_ff, d_model});
            if (shape.gated) need(linears_, name + ".gate", {&layer.gate, shape.d_ff, d_model});
            need(linears_, name + ".w2", {&layer.w2, d_model, shape.d_ff});
            norm(name + ".around_feed_forward", layer.around_feed_forward);
        }
    }

    Transformer<P> model_;
    std::map<std::string, Product> linears_;
    std::map<std::string, Buffer<float>*> vectors_;
    std::map<std::string, Table> tables_;
    std::set<std::string> missing_;
};

}  // namespace headwise
