// The C interface of the native engine, called from src/headwise/native/library.py through ctypes.
//
// Pointers are to memory of the caller, each with its number of elements. Every function that can fail returns an error
// message, or null on success, and validates all arguments before it uses them. The text of a message is valid until
// the thread's next call.

#include <utility>

#include "gemm.h"
#include "search.h"

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
int32_t headwise_version() { return 12; }

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

// Create an open job, a search that sentences are added to, with the mean of the probabilities of `models` engines.
// `given` (given_count) are languages, whose probability as an output's first token is 1. `continuing` tells of each of
// `size` target tokens whether it continues a word; a size of 0: none does. `lettered` tells of each of `letters` target
// tokens whether it has a letter or a digit; a size of 0: no sentence needs one.
const char* headwise_job_new(const Engine* const* engines, int32_t models, const Symbols* symbols, const int32_t* given,
                             int64_t given_count, const uint8_t* continuing, int64_t size, const uint8_t* lettered,
                             int64_t letters, Job** job) {
    return guarded([&] {
        expect(engines && symbols && job, "expected engines, symbols and a place for the job, found none");
        expect_within(models, 1, MOST_LAYERS, "models");
        const Shape& shape = ready(engines[0]).shape();
        for (int32_t n = 0; n < models; ++n) {
            expect_equal(ready(engines[n]).shape().source_size, shape.source_size, "source subwords in every model");
            expect_equal(engines[n]->shape().target_size, shape.target_size, "target subwords in every model");
        }
        symbols->check(shape.target_size);
        expect_ids(given, given_count, shape.target_size, "a given symbol");
        for (const int64_t bytes : {size, letters})
            if (bytes) expect_equal(bytes, shape.target_size, "bytes about the target tokens");
        expect((continuing || !size) && (lettered || !letters), "expected bytes about the target tokens, found none");
        *job = new Job({engines, engines + models}, *symbols, {given, given + given_count},
                       {continuing, continuing + size}, {lettered, lettered + letters});
    });
}

// Add sentences of one client with equal options. `first` is set to the number of the first sentence, which the others
// follow.
const char* headwise_job_add(Job* job, const Sentences* from, const Options* options, int64_t client, int64_t* first) {
    return guarded([&] {
        expect(job && from && options && first, "expected a job, sentences, options and a place, found none");
        from->check();
        options->check();
        Requests sentences;
        const double* numbers = from->numbers;
        for (int32_t s = 0; s < from->count; ++s) {
            Request& sentence = sentences.emplace_back();
            sentence.client = client;
            sentence.options = *options;
            from->copy(s, sentence);
            const std::vector<int32_t>& prefix = sentence.prefix;
            sentence.given = !prefix.empty() && std::count(job->given.begin(), job->given.end(), prefix[0]);
            expect(!sentence.lettered || !job->lettered.empty(), "expected the tokens with letters, found none");
            if (from->terms)
                sentence.terms.assign(from->terms[s], job->engines[0]->shape().target_size, job->symbols.eos);
            for (const Engine* engine : job->engines) sentence.check(engine->shape(), job->symbols);
            if (!options->sampled) continue;
            const int64_t count = int64_t(options->beam) * sentence.limit;
            const int64_t left = from->numbers_count - (numbers - from->numbers);
            expect(count <= left, "expected a random number for each sample and step, found fewer");
            sentence.numbers.assign(numbers, numbers + count);
            numbers += count;
            sentence.check_numbers();
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
        job->start(places, tokens, workers, [=] { Search(*job).run(); });
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
        expect(to->weights || !to->weight_count, "expected room, found none");
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
