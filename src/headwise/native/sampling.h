// The distribution from which the next token of a sample is drawn, as defined in src/headwise/decoding/sampling.py:
// temperature, then the likeliest `top_k`, then the fewest of these whose probabilities add up to `top_p`.
#pragma once

#include <algorithm>
#include <numeric>

#include "checks.h"
#include "vectors.h"

namespace headwise {

// How tokens are drawn: `count` times from a row, by numbers in [0, 1), each `stride` after the one before.
struct Draws {
    double temperature = 1, top_p = 1;
    int32_t top_k = 0;
    int count = 0;
    const double* numbers = nullptr;
    size_t stride = 0;
};

class Distribution {
  public:
    // Set the distribution of logits, in which NEVER is the logit of a token that isn't allowed, and the highest is
    // `most`. Returns whether there is one.
    bool set(const float* logits, int count, float most, const Draws& draws) {
        if (!std::isfinite(most)) return false;
        weights_.resize(round_up(count, LANES));
        const float factor = float(1 / draws.temperature);
        for (int i = 0; i < count; i += LANES) {
            const Floats power = (load(logits + i) - most) * factor;
            write(&weights_[i], power < -87.0f ? Floats{} : exponential(power));
        }
        order_.clear();
        const bool some = draws.top_k > 0;
        if (some || draws.top_p < 1)
            rank(logits, some ? std::min(draws.top_k, count) : count, some ? 1 : draws.top_p, count);
        size_ = order_.empty() ? count : int(order_.size());
        sums_.resize(size_);
        double sum = 0;
        for (int i = 0; i < size_; ++i) sums_[i] = sum += weights_[column(i)];
        if (some && draws.top_p < 1) {  // of the likeliest, renormalized
            const double enough = draws.top_p * sum;
            size_ = std::min(size_, int(std::lower_bound(sums_.begin(), sums_.end(), enough) - sums_.begin()) + 1);
        }
        return std::isfinite(sum) && sum > 0;
    }

    // Return the column that a number in [0, 1) draws.
    int draw(double number) const {
        const double total = sums_[size_ - 1], below = std::nextafter(total, 0.0);
        const auto end = sums_.begin() + size_;
        return column(int(std::upper_bound(sums_.begin(), end, std::min(number * total, below)) - sums_.begin()));
    }

  private:
    static constexpr int FEW = 64;  // likeliest tokens of the first attempt: most nuclei are small

    int column(int place) const { return order_.empty() ? place : order_[place]; }

    // Order the likeliest columns: `wanted` of them, or the fewest whose weights add up to `part` of all; of equally
    // likely ones the first.
    void rank(const float* logits, int wanted, double part, int count) {
        const auto likelier = [&](int a, int b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
        const double enough = part * std::accumulate(weights_.begin(), weights_.begin() + count, 0.0);
        order_.resize(count);
        std::iota(order_.begin(), order_.end(), 0);
        double sum = 0;
        for (int done = 0, next = part < 1 ? std::min(FEW, wanted) : wanted;; next = std::min(8 * next, wanted)) {
            std::partial_sort(order_.begin() + done, order_.begin() + next, order_.end(), likelier);
            for (; done < next; ++done) {
                if (part < 1 && sum >= enough) return order_.resize(done);
                sum += weights_[order_[done]];
            }
            if (next == wanted) return order_.resize(wanted);
        }
    }

    int size_ = 0;
    std::vector<float> weights_;
    std::vector<double> sums_;
    std::vector<int> order_;
};

}  // namespace headwise
