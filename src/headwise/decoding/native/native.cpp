// The C interface of the native engine, called from src/headwise/decoding/native/library.py through ctypes.
//
// Pointers are to memory of the caller's; every function that can fail returns a message, or null where all went well.

#include "search.h"

namespace headwise {

// Sentences whose search the caller steers.
class State {
  public:
    virtual ~State() = default;
};

// The engine behind the interface, without its precision.
class Engine {
  public:
    virtual ~Engine() = default;
    virtual bool linear(const std::string& name, const float* weight, const float* bias, int outputs, int inputs) = 0;
    virtual bool vector(const std::string& name, const float* values, int size) = 0;
    virtual bool table(const std::string& name, const float* values, int rows) = 0;
    virtual void encode(const int32_t* ids, const int32_t* lengths, int count, float* states) const = 0;
    virtual State* start(const float* states, const int32_t* lengths, int count, int beams) const = 0;
    virtual void step(State* state, const int32_t* tokens, float* logits) const = 0;
    virtual void reorder(State* state, const int64_t* rows) const = 0;
    virtual void keep(State* state, const int64_t* sentences, int count) const = 0;
    virtual void run(Job& job, int places) const = 0;
};

template <class P>
class EngineOf : public Engine {
  public:
    explicit EngineOf(const Shape& shape) : model_(shape) {
        const auto attention = [&](const std::string& name, Attention<P>& part) {
            linears_[name + ".in"] = &part.in;
            linears_[name + ".memory"] = &part.memory;
            linears_[name + ".out"] = &part.out;
        };
        const auto norm = [&](const std::string& name, Norm& part) {
            vectors_[name + ".weight"] = &part.weight;
            vectors_[name + ".bias"] = &part.bias;
        };
        const auto layers = [&](const std::string& side, std::vector<Layer<P>>& stack) {
            for (size_t number = 0; number < stack.size(); ++number) {
                const std::string name = side + "." + std::to_string(number);
                Layer<P>& layer = stack[number];
                attention(name + ".self_attention", layer.self);
                attention(name + ".cross_attention", layer.cross);
                linears_[name + ".w1"] = &layer.w1;
                linears_[name + ".w2"] = &layer.w2;
                norm(name + ".around_self_attention", layer.around_self);
                norm(name + ".around_cross_attention", layer.around_cross);
                norm(name + ".around_feed_forward", layer.around_feed_forward);
            }
        };
        layers("encoder", model_.encoder);
        layers("decoder", model_.decoder);
        norm("encoder_norm", model_.encoder_norm);
        norm("decoder_norm", model_.decoder_norm);
        linears_["vocabulary"] = &model_.vocabulary;
    }

    bool linear(const std::string& name, const float* weight, const float* bias, int outputs, int inputs) override {
        const auto found = linears_.find(name);
        if (found == linears_.end()) return false;
        *found->second = Linear<P>(weight, bias, outputs, inputs, name == "vocabulary" ? NEVER : 0);
        return true;
    }

    bool vector(const std::string& name, const float* values, int size) override {
        const auto found = vectors_.find(name);
        if (found == vectors_.end()) return false;
        found->second->grow(round_up(size, LANES));
        std::memcpy(found->second->data(), values, size * sizeof(float));
        return true;
    }

    bool table(const std::string& name, const float* values, int rows) override {
        if (name == "source_embedding") model_.keep_table(model_.source_embedding, values, rows);
        else if (name == "target_embedding") model_.keep_table(model_.target_embedding, values, rows);
        else if (name == "positions") model_.keep_positions(values, rows);
        else return false;
        return true;
    }

    void encode(const int32_t* ids, const int32_t* lengths, int count, float* states) const override {
        Workspace<P> work;
        model_.encode(ids, lengths, count, work);
        int rows = 0;
        for (int s = 0; s < count; ++s) rows += lengths[s];
        for (int row = 0; row < rows; ++row)
            std::memcpy(states + size_t(row) * model_.shape.d_model, work.x.row(row),
                        model_.shape.d_model * sizeof(float));
    }

    State* start(const float* states, const int32_t* lengths, int count, int beams) const override {
        auto state = std::make_unique<Open>();
        state->beams = beams;
        Workspace<P>& work = state->work;
        for (int s = 0; s < count; ++s) {
            auto sentence = std::make_unique<Sentence<P>>();
            sentence->start(model_.shape.decoder_layers, beams);
            const Rows x = work.room(work.x_, lengths[s], model_.shape.d_model);
            for (int row = 0; row < lengths[s]; ++row, states += model_.shape.d_model)
                std::memcpy(x.row(row), states, model_.shape.d_model * sizeof(float));
            model_.remember(x, lengths[s], *sentence, work);
            state->sentences.push_back(std::move(sentence));
        }
        return state.release();
    }

    void step(State* given, const int32_t* tokens, float* logits) const override {
        Open& state = *static_cast<Open*>(given);
        std::vector<Row<P>> rows;
        for (auto& sentence : state.sentences)
            for (int b = 0; b < state.beams; ++b) rows.push_back({sentence.get(), b, tokens[rows.size()]});
        model_.step(rows.data(), int(rows.size()), state.work);
        const int size = model_.shape.target_size;
        model_.vocabulary(state.work.inputs, int(rows.size()), [&](int row, int column, const Floats* values) {
            std::memcpy(logits + size_t(row) * size + column, values,
                        std::min(PANEL, size - column) * sizeof(float));
        });
    }

    void reorder(State* given, const int64_t* rows) const override {
        Open& state = *static_cast<Open*>(given);
        std::vector<int32_t> parents(state.beams);
        for (auto& sentence : state.sentences) {
            for (int b = 0; b < state.beams; ++b) parents[b] = int32_t(rows[b] % state.beams);
            sentence->reorder(parents.data(), state.beams);
            rows += state.beams;
        }
    }

    void keep(State* given, const int64_t* sentences, int count) const override {
        Open& state = *static_cast<Open*>(given);
        std::vector<std::unique_ptr<Sentence<P>>> kept;
        for (int s = 0; s < count; ++s) kept.push_back(std::move(state.sentences[sentences[s]]));
        state.sentences.swap(kept);
    }

    void run(Job& job, int places) const override {
        Search<P>(model_, job, places).run();
    }

  private:
    struct Open : State {
        int beams = 1;
        std::vector<std::unique_ptr<Sentence<P>>> sentences;
        Workspace<P> work;
    };
    Transformer<P> model_;
    std::map<std::string, Linear<P>*> linears_;
    std::map<std::string, Buffer<float>*> vectors_;
};

template <class Work>
const char* guarded(const Work& work) noexcept {
    try {
        return work() ? nullptr : "there is no weight of this name";
    } catch (const std::bad_alloc&) {
        return "there is not enough memory";
    }
}

}  // namespace headwise

using namespace headwise;

extern "C" {

// Changes whenever a function below does.
int32_t headwise_version() { return 2; }

// Tell what this processor can run: 0 portable code only, 1 AVX2, 2 AVX-512 with VNNI, 3 with bfloat16 too.
int32_t headwise_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (!__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vnni"))
        return 1;
    return __builtin_cpu_supports("avx512bf16") ? 3 : 2;
#else
    return 0;
#endif
}

// precision: 0 float32, 1 bfloat16, 2 int8.
Engine* headwise_new(const Shape* shape, int32_t precision) {
    try {
        if (precision == 0) return new EngineOf<Float32>(*shape);
        if (precision == 1) return new EngineOf<BFloat16>(*shape);
        return new EngineOf<Int8>(*shape);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void headwise_free(Engine* engine) { delete engine; }

const char* headwise_linear(Engine* engine, const char* name, const float* weight, const float* bias, int32_t outputs,
                            int32_t inputs) {
    return guarded([&] { return engine->linear(name, weight, bias, outputs, inputs); });
}

const char* headwise_vector(Engine* engine, const char* name, const float* values, int32_t size) {
    return guarded([&] { return engine->vector(name, values, size); });
}

const char* headwise_table(Engine* engine, const char* name, const float* values, int32_t rows) {
    return guarded([&] { return engine->table(name, values, rows); });
}

const char* headwise_encode(const Engine* engine, const int32_t* ids, const int32_t* lengths, int32_t count,
                            float* states) {
    return guarded([&] { return engine->encode(ids, lengths, count, states), true; });
}

const char* headwise_start(const Engine* engine, const float* states, const int32_t* lengths, int32_t count,
                           int32_t beams, State** state) {
    return guarded([&] { return *state = engine->start(states, lengths, count, beams), true; });
}

const char* headwise_step(const Engine* engine, State* state, const int32_t* tokens, float* logits) {
    return guarded([&] { return engine->step(state, tokens, logits), true; });
}

const char* headwise_reorder(const Engine* engine, State* state, const int64_t* rows) {
    return guarded([&] { return engine->reorder(state, rows), true; });
}

const char* headwise_keep(const Engine* engine, State* state, const int64_t* sentences, int32_t count) {
    return guarded([&] { return engine->keep(state, sentences, count), true; });
}

void headwise_drop(State* state) { delete state; }

// A job of `count` sentences; `lists` says where in `listed` the only tokens of each one's output begin; null: any.
const char* headwise_job_new(const int32_t* ids, const int64_t* offsets, const int32_t* limits, int32_t count,
                             const Options* options, const Symbols* symbols, const int32_t* listed,
                             const int64_t* lists, Job** job) {
    return guarded([&] {
        auto made = std::make_unique<Job>();
        made->ids.assign(ids, ids + offsets[count]);
        made->offsets.assign(offsets, offsets + count + 1);
        made->limits.assign(limits, limits + count);
        if (lists) {
            made->listed.assign(listed, listed + lists[count]);
            made->lists.assign(lists, lists + count + 1);
        }
        made->options = *options;
        made->symbols = *symbols;
        made->outputs.resize(count);
        *job = made.release();
        return true;
    });
}

// Search with up to `places` sentences at once; several threads may run one job.
const char* headwise_job_run(const Engine* engine, Job* job, int32_t places) {
    return guarded([&] { return engine->run(*job, places), true; });
}

// Write the outputs of all sentences: lengths (count, n_best), |Y| or 0 for none; tokens and gains one after the other.
void headwise_job_outputs(const Job* job, int32_t* lengths, int32_t* tokens, float* gains) {
    for (const auto& outputs : job->outputs)
        for (int rank = 0; rank < job->options.n_best; ++rank) {
            if (rank >= int(outputs.size())) {
                *lengths++ = 0;
                continue;
            }
            const Output& output = outputs[rank];
            *lengths++ = int32_t(output.gains.size());
            tokens = std::copy(output.tokens.begin(), output.tokens.end(), tokens);
            *tokens++ = job->symbols.eos;
            gains = std::copy(output.gains.begin(), output.gains.end(), gains);
        }
}

// The total of the lengths that headwise_job_outputs will write.
int64_t headwise_job_size(const Job* job) {
    int64_t total = 0;
    for (const auto& outputs : job->outputs)
        for (const Output& output : outputs) total += int64_t(output.gains.size());
    return total;
}

void headwise_job_free(Job* job) { delete job; }
}
