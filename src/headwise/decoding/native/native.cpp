// The C interface of the native engine, called from src/headwise/decoding/native/library.py through ctypes.
//
// Pointers are to memory of the caller, each with its number of elements. Every function that can fail returns an error
// message, or null on success, and validates all arguments before it uses them. The text of a message is valid until
// the thread's next call.

#include <utility>

#include "engine.h"
#include "products.h"

namespace headwise {

template <class Work>
const char* guarded(const Work& work) noexcept {
    thread_local std::string message;
    try {
        work();
        return nullptr;
    } catch (...) {
        return reason(message);
    }
}

inline const Engine& ready(const Engine* engine) {
    expect(engine, "expected an engine, found none");
    engine->ready();
    return *engine;
}

}  // namespace headwise

using namespace headwise;

extern "C" {

// The version of this interface; it changes with every change of a function below.
int32_t headwise_version() { return 6; }

// Return the level of this processor: 0 portable code only, 1 AVX2, 2 AVX-512 with VNNI, 3 with bfloat16 too.
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

// Create an engine without weights; precision: 0 float32, 1 bfloat16, 2 int8.
const char* headwise_new(const Shape* shape, int32_t precision, Engine** engine) {
    return guarded([&] {
        expect(shape && engine, "expected a shape and a place for the engine, found none");
        expect_within(precision, 0, 2, "a precision");
        shape->check();
        if (precision == 0) *engine = new EngineOf<Float32>(*shape);
        if (precision == 1) *engine = new EngineOf<BFloat16>(*shape);
        if (precision == 2) *engine = new EngineOf<Int8>(*shape);
    });
}

void headwise_free(Engine* engine) { delete engine; }

const char* headwise_linear(Engine* engine, const char* name, const float* weight, const float* bias, int32_t outputs,
                            int32_t inputs) {
    return guarded([&] {
        expect(engine && name, "expected an engine and a name, found none");
        engine->linear(name, weight, bias, outputs, inputs);
    });
}

const char* headwise_vector(Engine* engine, const char* name, const float* values, int32_t size) {
    return guarded([&] {
        expect(engine && name, "expected an engine and a name, found none");
        engine->vector(name, values, size);
    });
}

const char* headwise_table(Engine* engine, const char* name, const float* values, int32_t rows, int32_t columns) {
    return guarded([&] {
        expect(engine && name, "expected an engine and a name, found none");
        engine->table(name, values, rows, columns);
    });
}

// Encode `count` sentences of the given lengths, their concatenated ids (tokens), into states (tokens, d_model).
const char* headwise_encode(const Engine* engine, const int32_t* ids, int64_t tokens, const int32_t* lengths,
                            int32_t count, float* states) {
    return guarded([&] {
        const Shape& shape = ready(engine).shape();
        expect_lengths(lengths, count, tokens, shape.positions);
        expect_ids(ids, tokens, shape.source_size, "a source id");
        expect(states || !tokens, "expected room for the states, found none");
        engine->encode(ids, lengths, count, states);
    });
}

// Create a decoding state with `beams` rows per sentence; states (tokens, d_model) are the result of headwise_encode.
const char* headwise_start(const Engine* engine, const float* states, int64_t tokens, const int32_t* lengths,
                           int32_t count, int32_t beams, State** state) {
    return guarded([&] {
        expect_lengths(lengths, count, tokens, ready(engine).shape().positions);
        expect_within(beams, 1, MOST_BEAMS, "beams");
        expect_within(int64_t(count) * beams, 0, MOST_ROWS, "rows of a batch");
        expect(state && (states || !tokens), "expected states and a place for the state, found none");
        *state = engine->start(states, lengths, count, beams);
    });
}

// Decode one step: append one token to each of `rows` rows; writes logits (rows, target_size).
const char* headwise_step(const Engine* engine, State* state, const int32_t* tokens, int32_t rows, float* logits) {
    return guarded([&] {
        expect_ids(tokens, rows, ready(engine).shape().target_size, "a target id");
        expect(logits || !rows, "expected room for the logits, found none");
        engine->step(state, tokens, rows, logits);
    });
}

const char* headwise_reorder(const Engine* engine, State* state, const int64_t* rows, int32_t count) {
    return guarded([&] {
        expect(rows || !count, "expected rows, found none");
        ready(engine).reorder(state, rows, count);
    });
}

const char* headwise_keep(const Engine* engine, State* state, const int64_t* sentences, int32_t count) {
    return guarded([&] {
        expect_within(count, 0, MOST_ROWS, "sentences");
        expect(sentences || !count, "expected sentences, found none");
        ready(engine).keep(state, sentences, count);
    });
}

void headwise_drop(State* state) { delete state; }

// Create a job of `count` sentences: `offsets` (count + 1) are those of each source in ids (tokens), `limits` (count)
// the maximum of |Y|, `lists` (count + 1) the offsets of each shortlist in listed (listed_count); null: all tokens.
const char* headwise_job_new(const Engine* engine, const int32_t* ids, int64_t tokens, const int64_t* offsets,
                             const int32_t* limits, int32_t count, const Options* options, const Symbols* symbols,
                             const int32_t* listed, int64_t listed_count, const int64_t* lists, Job** job) {
    return guarded([&] {
        expect_within(count, 0, MOST_ROWS, "sentences");
        expect_offsets(offsets, count, tokens);
        expect((ids || !tokens) && (limits || !count), "expected ids and longest outputs, found none");
        expect(options && symbols && job, "expected options, symbols and a place for the job, found none");
        auto made = std::make_unique<Job>();
        made->ids.assign(ids, ids + tokens);
        made->offsets.assign(offsets, offsets + count + 1);
        made->limits.assign(limits, limits + count);
        if (lists) {
            expect_offsets(lists, count, listed_count);
            expect(listed || !listed_count, "expected listed ids, found none");
            made->listed.assign(listed, listed + listed_count);
            made->lists.assign(lists, lists + count + 1);
        }
        made->options = *options;
        made->symbols = *symbols;
        made->check(ready(engine).shape());
        made->outputs.resize(count);
        made->engine = engine;
        *job = made.release();
    });
}

// Start the search of a job, once: in `workers` threads, each with up to `places` sentences at once.
const char* headwise_job_start(Job* job, int32_t places, int32_t workers) {
    return guarded([&] {
        expect(job, "expected a job, found none");
        expect_within(places, 1, MOST_ROWS / job->options.beam, "sentences at once");
        expect_within(workers, 1, MOST_WORKERS, "workers");
        const int most = std::min(places, std::max(1, job->count()));
        job->workers.start(workers, [=] { job->engine->run(*job, most); }, [=] { job->stopped = true; });
    });
}

// Wait until all threads have ended, for at most `milliseconds`; `running` is set to whether any thread still runs.
// After all have ended, returns the error message of the first failed thread, which stopped all others.
const char* headwise_job_wait(Job* job, int32_t milliseconds, int32_t* running) {
    const char* failure = nullptr;
    const char* refused = guarded([&] {
        expect(job && running, "expected a job and a place for the answer, found none");
        *running = !job->workers.wait(milliseconds);
        failure = *running ? nullptr : job->workers.failure();
    });
    return refused ? refused : failure;
}

// Tell the threads to end before their next step.
void headwise_job_stop(Job* job) {
    if (job) job->stopped = true;
}

// Return the sum of the lengths that headwise_job_outputs writes; 0 before the job has completed.
int64_t headwise_job_size(Job* job) {
    int64_t total = 0;
    if (!job || !job->whole()) return total;
    for (const auto& outputs : job->outputs)
        for (const Output& output : outputs) total += int64_t(output.gains.size());
    return total;
}

// Write the outputs of all sentences: lengths (count, n_best), |Y| or 0 for none; concatenated tokens and gains (their
// log-probabilities), `total` of each, where `total` is headwise_job_size.
const char* headwise_job_outputs(Job* job, int32_t* lengths, int64_t rows, int32_t* tokens, float* gains,
                                 int64_t total) {
    return guarded([&] {
        expect(job && (lengths || !rows) && ((tokens && gains) || !total), "expected a job and room, found none");
        expect(job->whole(), "expected a job that was started and came to its end");
        expect_equal(rows, int64_t(job->count()) * job->options.n_best, "lengths");
        expect_equal(total, headwise_job_size(job), "tokens");
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
    });
}

// Stop the threads, wait until all have ended, free the job and set the pointer to null: in one call, so that an
// interrupted caller can call again.
void headwise_job_free(Job** job) {
    if (job) delete std::exchange(*job, nullptr);
}

// Compute C = A B + bias, or C += A B with `add` (without a bias): A (rows, depth) and B (depth, columns) in any layout,
// given by the distances of adjacent rows and of adjacent columns; C (rows, columns) with contiguous rows.
const char* headwise_product(const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,
                             int64_t b_column, const float* bias, float* c, int64_t c_row, int32_t rows,
                             int32_t columns, int32_t depth, int32_t add, int32_t threads) {
    return guarded([&] {
        expect_within(threads, 1, MOST_WORKERS, "threads");
        const Product product{{a, a_row, a_column}, {b, b_row, b_column}, c, c_row, rows, columns, depth, bias,
                              add != 0};
        product.check();
        multiply(product, threads);
    });
}
}
