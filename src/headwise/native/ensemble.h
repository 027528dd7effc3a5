// The mean of several models' probabilities, as defined in src/headwise/decoding/ensemble.py.
#pragma once

#include <algorithm>
#include <vector>

#include "packed_gemm.h"

namespace headwise {

// Return log Σ e^logit of `columns` logits, a multiple of LANES.
inline float log_sum(const float* logits, int columns) {
    Floats most = load(logits), total{};
    for (int i = LANES; i < columns; i += LANES) most = larger(most, load(logits + i));
    const float top = largest(most);
    for (int i = 0; i < columns; i += LANES) {
        const Floats power = load(logits + i) - top;
        total += exponential(power);
    }
    return top + std::log(sum(total));
}

// Write log (1/n Σ softmax(logits_n)) of n rows (stride) to one, which may be one of them.
inline void log_mean(const std::vector<const float*>& rows, int stride, float* to) {
    std::vector<float> totals;
    for (const float* row : rows) totals.push_back(log_sum(row, stride));
    const float models = std::log(float(rows.size()));
    for (int i = 0; i < stride; i += LANES) {
        Floats most = load(rows[0] + i) - totals[0], sum{};
        for (size_t n = 1; n < rows.size(); ++n) most = larger(most, load(rows[n] + i) - totals[n]);
        for (size_t n = 0; n < rows.size(); ++n) sum += exponential(load(rows[n] + i) - totals[n] - most);
        for (int lane = 0; lane < LANES; ++lane) sum[lane] = std::log(sum[lane]);
        write(to + i, most + sum - models);
    }
}

}  // namespace headwise
