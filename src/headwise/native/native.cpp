// The C interface of the native engine, called from src/headwise/native/library.py through ctypes.
//
// Pointers are to memory of the caller, each with its number of elements. Every function that can fail returns an error
// message, or null on success, and validates all arguments before it uses them. The text of a message is valid until
// the thread's next call.

#include <utility>

#include "engine.h"
#include "gemm.h"

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
int32_t headwise_version() { return 10; }

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
        expect_lengths(lengths, count, tokens, shape.longest);
        expect_ids(ids, tokens, shape.source_size, "a source id");
        expect(states || !tokens, "expected room for the states, found none");
        engine->encode(ids, lengths, count, states);
    });
}

// Create a decoding state with `beams` rows per sentence; states (tokens, d_model) are the result of headwise_encode.
const char* headwise_start(const Engine* engine, const float* states, int64_t tokens, const int32_t* lengths,
                           int32_t count, int32_t beams, State** state) {
    return guarded([&] {
        expect_lengths(lengths, count, tokens, ready(engine).shape().longest);
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

// Create an open job, a search that sentences are added to. `continuing` tells of each of `size` target tokens whether it
// continues a word; a size of 0: none does.
const char* headwise_job_new(const Engine* engine, const Symbols* symbols, const uint8_t* continuing, int64_t size,
                             Job** job) {
    return guarded([&] {
        expect(symbols && job, "expected symbols and a place for the job, found none");
        symbols->check(ready(engine).shape().target_size);
        if (size) expect_equal(size, engine->shape().target_size, "bytes about the target tokens");
        expect(continuing || !size, "expected bytes about the target tokens, found none");
        *job = new Job(engine, *symbols, Continuing(continuing, continuing + size));
    });
}

// Add `count` sentences of one client with equal options: `offsets` (count + 1) are those of each source in ids
// (tokens), `limits` (count) the maximum of |Y|, `lists` (count + 1) the offsets of each shortlist in listed
// (listed_count); null: all tokens. `terms` (count) are those of each sentence; null: none. `first` is set to the number of the first sentence, which the others follow.
const char* headwise_job_add(Job* job, const int32_t* ids, int64_t tokens, const int64_t* offsets,
                             const int32_t* limits, int32_t count, const Options* options, const int32_t* listed,
                             int64_t listed_count, const int64_t* lists, const TermArrays* terms, int64_t client,
                             int64_t* first) {
    return guarded([&] {
        expect_within(count, 0, MOST_ROWS, "sentences");
        expect_offsets(offsets, count, tokens);
        expect((ids || !tokens) && (limits || !count), "expected ids and longest outputs, found none");
        expect(job && options && first, "expected a job, options and a place for the number, found none");
        if (lists) {
            expect_offsets(lists, count, listed_count);
            expect(listed || !listed_count, "expected listed ids, found none");
        }
        Requests sentences;
        for (int32_t s = 0; s < count; ++s) {
            Request& sentence = sentences.emplace_back();
            sentence.client = client;
            sentence.ids.assign(ids + offsets[s], ids + offsets[s + 1]);
            sentence.limit = limits[s];
            sentence.options = *options;
            sentence.has_list = lists;
            if (lists) sentence.list.assign(listed + lists[s], listed + lists[s + 1]);
            if (terms) sentence.terms.assign(terms[s], job->engine->shape().target_size, job->symbols.eos);
            sentence.check(job->engine->shape(), job->symbols);
        }
        *first = job->add(client, sentences);
    });
}

// Start the search of a job, once: in `workers` threads, each with up to `places` sentences at once, whose source tokens
// times hypotheses sum to at most `tokens`; a longer sentence is searched alone.
const char* headwise_job_start(Job* job, int32_t places, int64_t tokens, int32_t workers) {
    return guarded([&] {
        expect(job, "expected a job, found none");
        expect_within(places, 1, MOST, "sentences at once");
        expect_within(tokens, 1, MOST_ROWS, "tokens at once");
        expect_within(workers, 1, MOST_WORKERS, "workers");
        job->start(places, tokens, workers, [=] { job->engine->run(*job); });
    });
}

// Add no more sentences: the threads end when all are searched.
void headwise_job_close(Job* job) {
    if (job) job->close();
}

// Give a sentence up; a search drops it before its next step.
void headwise_job_cancel(Job* job, int64_t number) {
    if (job) job->cancel(number);
}

// Wait until `least` sentences are finished, one has failed, or all threads have ended, for at most `milliseconds`;
// `progress` is set to what can be collected. After all have ended, returns the error message of the first failed thread,
// which stopped all others.
const char* headwise_job_wait(Job* job, int32_t milliseconds, int64_t least, Progress* progress) {
    const char* failure = nullptr;
    const char* refused = guarded([&] {
        expect(job && progress, "expected a job and a place for the answer, found none");
        *progress = job->wait(milliseconds, least);
        failure = job->failure();
    });
    return refused ? refused : failure;
}

// Write the first sentences that have finished; see `Collected`.
const char* headwise_job_collect(Job* job, const Collected* to) {
    return guarded([&] {
        expect(job && to, "expected a job and arrays, found none");
        expect((to->numbers && to->counts && to->failures) || !to->sentences, "expected room, found none");
        expect((to->lengths || !to->outputs) && ((to->ids && to->gains) || !to->tokens), "expected room, found none");
        job->collect(*to);
    });
}

// Set `load` to what the job has to do.
void headwise_job_load(Job* job, Load* load) {
    if (job && load) *load = job->load();
}

// Tell the threads to end before their next step.
void headwise_job_stop(Job* job) {
    if (job) job->stop();
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
