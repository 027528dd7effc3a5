// Attention of one query, all heads: softmax(q Kᵀ scale) V (Vaswani et al. 2017, section 3.2.1). Head sizes are
// multiples of 16, because the caller pads the weights with zeros, which doesn't change results.
#pragma once

#include "packed_gemm.h"

namespace headwise {

struct Heads {
    int heads, shared;  // query heads; key and value heads, each of which serves heads / shared query heads
    int key, value;     // size of one head (d_k, d_v)
    float scale;        // 1 / √d_k

    int queries() const { return heads * key; }
    int keys() const { return shared * key; }
    int values() const { return shared * value; }
    int kept() const { return keys() + values(); }  // cached values of one position: its keys, then its values
    int result() const { return heads * value; }
};

template <class T>
inline float dot(const float* q, const T* k, int size) {
    Floats total = load(q) * load(k);
    for (int i = LANES; i < size; i += LANES) total += load(q + i) * load(k + i);
    return sum(total);
}

// Replace scores (count) by e^(score - maximum), zero-padded to a whole vector; returns the reciprocal of their sum.
inline float softmax(float* scores, int count) {
    const int padded = round_up(count, LANES);
    for (int p = count; p < padded; ++p) scores[p] = -INFINITY;
    Floats most = load(scores);
    for (int p = LANES; p < padded; p += LANES) most = larger(most, load(scores + p));
    const float top = largest(most);
    Floats total{};
    for (int p = 0; p < padded; p += LANES) {
        const Floats e = exponential(load(scores + p) - top);
        write(scores + p, e);
        total += e;
    }
    for (int p = count; p < padded; ++p) scores[p] = 0;
    return 1 / sum(total);
}

template <int VECTORS, class T, class At>
inline void weigh(const float* weights, float factor, int count, const At& at, float* to) {
    Floats sums[VECTORS] = {};
    for (int p = 0; p < count; ++p) {
        const T* value = at(p);
        for (int v = 0; v < VECTORS; ++v) sums[v] += load(value + v * LANES) * weights[p];
    }
    for (int v = 0; v < VECTORS; ++v) write(to + v * LANES, sums[v] * factor);
}

// What is added to attention, or read from it: nothing. `score` may change the scores of a head before the softmax;
// `weighed` gets their exponentials with the factor that makes these weights, and may change the head's result.
struct Plain {
    void score(int, const float*, float*) const {}
    void weighed(int, const float*, float, float*) const {}
};

// Appends the weights of each head to `to`.
struct Recorded {
    std::vector<float>& to;
    int count;

    void score(int, const float*, float*) const {}
    void weighed(int, const float* weights, float factor, float*) const {
        for (int p = 0; p < count; ++p) to.push_back(weights[p] * factor);
    }
};

// Attend from q (heads x key) to positions 0 … count - 1; `at(position)` points to the cached keys and values of one.
// `scores` is a buffer of `count` floats, rounded up to whole vectors.
template <class T, class At, class Part = Plain>
void attend(const Heads& shape, const float* q, int count, const At& at, float* scores, float* to,
            const Part& part = {}) {
    const int group = shape.heads / shape.shared;
    for (int h = 0; h < shape.heads; ++h) {
        const int keys = h / group * shape.key;
        const int values = shape.keys() + h / group * shape.value;
        for (int p = 0; p < count; ++p)
            scores[p] = dot(q + h * shape.key, at(p) + keys, shape.key) * shape.scale;
        part.score(h, q + h * shape.key, scores);
        const float factor = softmax(scores, count);
        float* result = to + h * shape.value;
        int done = 0;
        for (; shape.value - done >= 4 * LANES; done += 4 * LANES)
            weigh<4, T>(scores, factor, count, [&](int p) { return at(p) + values + done; }, result + done);
        for (; shape.value - done >= 2 * LANES; done += 2 * LANES)
            weigh<2, T>(scores, factor, count, [&](int p) { return at(p) + values + done; }, result + done);
        for (; shape.value - done >= LANES; done += LANES)
            weigh<1, T>(scores, factor, count, [&](int p) { return at(p) + values + done; }, result + done);
        part.weighed(h, scores, factor, result);
    }
}

}  // namespace headwise
