// Positions inside self-attention, equal to src/headwise/nn/attention_positions.py: rotations of queries and keys (Su et
// al. 2021), biases of the scores (Press et al. 2022, Raffel et al. 2020), and vectors added to keys and values (Shaw et
// al. 2018), which depend on the distance j - p of key j and query p, clipped to -reach … reach.
#pragma once

#include "attention.h"
#include "shape.h"

namespace headwise {

// Rotate each pair (x[i], x[i + size / 2]) of a head's query or key; `table` has all cosines, then all sines.
inline void rotate(float* x, int size, const float* table) {
    const int half = size / 2;
    for (int i = 0; i < half; i += LANES) {
        const Floats first = load(x + i), second = load(x + half + i);
        const Floats cosine = load(table + i), sine = load(table + half + i);
        write(x + i, first * cosine - second * sine);
        write(x + half + i, first * sine + second * cosine);
    }
}

// The terms of one query by distance, a part of `attend`. Tables have a row for each head or distance.
struct ByDistance {
    const Shape& shape;
    const float *biases, *keys, *values;  // (heads, distances), (tables, distances, key and value); null: none
    int position, count;                  // of the query and of the keys
    float* sums;                          // room for a number of each distance

    void score(int head, const float* q, float* scores) const {
        if (biases) {
            const float* row = biases + size_t(head) * round_up(shape.distances(), 16);
            for (int j = 0; j < count; ++j) scores[j] += row[place(j)];
        }
        if (keys) {
            const float* table = keys + start(head, shape.key_tables) * shape.key_size;
            for (int d = place(0); d <= place(count - 1); ++d)
                sums[d] = dot(q, table + size_t(d) * shape.key_size, shape.key_size) * shape.key_scale;
            for (int j = 0; j < count; ++j) scores[j] += sums[place(j)];
        }
    }

    void weighed(int head, const float* weights, float factor, float* to) const {
        if (!values) return;
        const float* table = values + start(head, shape.value_tables) * shape.value_size;
        const int first = place(0), last = place(count - 1);
        std::fill(sums + first, sums + last + 1, 0.0f);
        for (int j = 0; j < count; ++j) sums[place(j)] += weights[j];
        for (int d = first; d <= last; ++d)
            for (int i = 0; i < shape.value_size; i += LANES)
                write(to + i, load(to + i) + load(table + size_t(d) * shape.value_size + i) * (sums[d] * factor));
    }

  private:
    int place(int j) const { return std::clamp(j - position, -shape.reach, shape.reach) + shape.reach; }
    size_t start(int head, int tables) const { return tables == 1 ? 0 : size_t(head) * shape.distances(); }
};

}  // namespace headwise
