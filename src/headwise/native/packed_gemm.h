// Linear maps with packed weights: y = x Wᵀ + b for a block of rows, in float32, bfloat16 or int8.
//
// A word is the 32 bits that one lane multiplies at once: one float32, two bfloat16 or four int8 inputs. W is divided
// into panels of PANEL outputs; a panel stores, word by word along the inputs, the words of its outputs side by side.
// A tile of TILE_ROWS x PANEL sums stays in registers while the panel is read once, and the three precisions differ
// only in the instruction that adds the product of two words to a sum.
//
// int8 (as in Jacob et al. 2018, section 2, symmetric): every output has a scale for its weights, and every row of
// inputs has a scale computed at run time: the largest magnitude over 127. Non-negative inputs (after a ReLU) also use
// the other half of the range: 127 is subtracted, and added back as 127 times the sum of each output's weights.
#pragma once

#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "vectors.h"

namespace headwise {

// Zero-initialized memory, aligned to a cache line.
template <class T>
class Buffer {
  public:
    // Make room for `count` elements; the contents are lost where that needs more memory.
    void grow(size_t count) {
        if (count <= size_) return;
        const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
        void* memory = ::operator new(bytes, LINE);
        std::memset(memory, 0, bytes);
        data_.reset(static_cast<T*>(memory));
        size_ = count;
    }
    T* data() const { return data_.get(); }
    size_t bytes() const { return size_ * sizeof(T); }
    T& operator[](size_t index) const { return data_.get()[index]; }

  private:
    static constexpr std::align_val_t LINE{64};
    struct Free {
        void operator()(T* memory) const { ::operator delete(memory, LINE); }
    };
    std::unique_ptr<T, Free> data_;
    size_t size_ = 0;
};

// Activations (rows, stride): the stride is a multiple of PANEL and the padding columns are zero.
struct Rows {
    float* data;
    int stride;
    float* row(int index) const { return data + size_t(index) * stride; }
    Rows from(int index) const { return {row(index), stride}; }
};

struct Float32 {
    static constexpr int PER_WORD = 1;
    using Sum = Floats;
    using Kept = float;  // storage type of keys, values and embeddings
    static constexpr int EXPONENTIAL = 6;
    static Sum add(Sum sum, Ints weights, int32_t inputs) {
        return sum + bits<Floats>(weights) * bits<float>(inputs);
    }
    static int32_t word(const float* weights, float) { return bits<int32_t>(weights[0]); }
    static float scale(const float*, int) { return 1; }
    static int32_t sum(const float*, int, float) { return 0; }
};

struct BFloat16 {
    static constexpr int PER_WORD = 2;
    using Sum = Floats;
    using Kept = uint16_t;
    static constexpr int EXPONENTIAL = 4;
    static Sum add(Sum sum, Ints weights, int32_t inputs) {
#if defined(__AVX512BF16__)
        const __m512bh pair = (__m512bh)_mm512_set1_epi32(inputs);
        return bits<Floats>(_mm512_dpbf16_ps(bits<__m512>(sum), (__m512bh)bits<__m512i>(weights), pair));
#else
        sum += bits<Floats>(weights << 16) * bits<float>(shifted(inputs, 16));
        return sum + bits<Floats>(weights & int32_t(0xFFFF0000)) * bits<float>(inputs & int32_t(0xFFFF0000));
#endif
    }
    static int32_t word(const float* weights, float) {
        return int32_t(uint32_t(bfloat16(weights[1])) << 16 | bfloat16(weights[0]));
    }
    static float scale(const float*, int) { return 1; }
    static int32_t sum(const float*, int, float) { return 0; }
};

// int8 rounds magnitudes up to this to 0, because float32 can't represent their scale or its reciprocal.
constexpr float VANISHING = 1e-30f;

struct Int8 {
    static constexpr int PER_WORD = 4;
    using Sum = Ints;
    using Kept = uint16_t;
    static constexpr int EXPONENTIAL = 4;
#if defined(__AVX512VNNI__)
    // The instruction requires one unsigned operand: weights are stored with 128 added; 128 times the sum of a row's
    // inputs is subtracted from the result.
    static constexpr int OFFSET = 128;
#else
    static constexpr int OFFSET = 0;
#endif
    static Sum add(Sum sum, Ints weights, int32_t inputs) {
#if defined(__AVX512VNNI__)
        return bits<Ints>(
            _mm512_dpbusd_epi32(bits<__m512i>(sum), bits<__m512i>(weights), _mm512_set1_epi32(inputs)));
#elif defined(__AVX2__)
        // With magnitudes up to 127 the sum of two products fits 16 bits.
        const __m256i w = bits<__m256i>(weights);
        const __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(inputs), w);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), x);
        return sum + bits<Ints>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
        for (int shift = 0; shift < 32; shift += 8)
            sum += (weights << (24 - shift) >> 24) * (shifted(inputs, 24 - shift) >> 24);
        return sum;
#endif
    }
    static int32_t word(const float* weights, float scale) {
        uint32_t word = 0;
        for (int byte = 0; byte < 4; ++byte)
            word |= uint32_t(uint8_t(rounded(weights[byte], scale) + OFFSET)) << (8 * byte);
        return int32_t(word);
    }
    static int rounded(float weight, float scale) { return int(std::nearbyint(weight / scale)); }
    static int32_t sum(const float* weights, int inputs, float scale) {
        int32_t total = 0;
        for (int k = 0; k < inputs; ++k) total += rounded(weights[k], scale);
        return total;
    }
    static float scale(const float* weights, int inputs) {
        float most = 0;
        for (int k = 0; k < inputs; ++k) most = std::fmax(most, std::fabs(weights[k]));
        return most > VANISHING ? most / 127 : 1;
    }
};

// Rows of inputs, converted to words; for int8 also each row's scale and 128 times its sum.
template <class P>
class Inputs {
  public:
    const int32_t* row(int index) const { return words_ + size_t(index) * stride_; }
    float scale(int index) const { return scales_[index]; }
    int32_t shift(int index) const { return shifts_[index]; }
    int32_t zero() const { return zero_; }

    // Convert `count` rows of `size` columns; `positive`: no input is negative.
    void set(Rows x, int count, int size, bool positive = false) {
        if constexpr (P::PER_WORD == 1) {
            words_ = reinterpret_cast<const int32_t*>(x.data);
            stride_ = x.stride;
            return;
        }
        const int columns = round_up(size, 16);
        stride_ = columns / P::PER_WORD;
        memory_.grow(size_t(count) * stride_);
        scales_.grow(count);
        shifts_.grow(count);
        words_ = memory_.data();
        zero_ = P::PER_WORD == 4 && positive ? 127 : 0;
        for (int index = 0; index < count; ++index) {
            void* to = memory_.data() + size_t(index) * stride_;
            if constexpr (P::PER_WORD == 2)
                halve(x.row(index), columns, static_cast<uint16_t*>(to));
            else
                quantize(x.row(index), columns, static_cast<int8_t*>(to), index);
        }
    }

  private:
    void halve(const float* x, int columns, uint16_t* to) {
        for (int k = 0; k < columns; k += LANES) store(to + k, load(x + k));
    }

    void quantize(const float* x, int columns, int8_t* to, int index) {
        Floats most{}, damage{};
        for (int k = 0; k < columns; k += LANES) {
            const Floats v = load(x + k);
            most = larger(most, larger(v, -v));
            damage += v - v;  // 0, or NaN for values that aren't finite
        }
        const float not_a_number = sum(damage);
        if (not_a_number != 0) {  // int8 has no NaN, so the scale propagates it
            std::memset(to, 0, columns);
            scales_[index] = not_a_number;
            shifts_[index] = 0;
            return;
        }
        const float top = largest(most);
        const float steps = zero_ ? 254 : 127;
        const float factor = top > VANISHING ? steps / top : 0;
        Ints total{};
        for (int k = 0; k < columns; k += LANES) {
            const Ints shifted = bits<Ints>(load(x + k) * factor + ROUNDING);
            const Ints rounded = shifted - (bits<int32_t>(ROUNDING) + zero_);
            total += rounded;
            write(to + k, __builtin_convertvector(rounded, Quarters));
        }
        scales_[index] = top / steps;
        int32_t whole = 0;
        for (int lane = 0; lane < LANES; ++lane) whole += total[lane];
        shifts_[index] = whole * Int8::OFFSET;
    }

    const int32_t* words_ = nullptr;
    size_t stride_ = 0;
    int32_t zero_ = 0;
    Buffer<int32_t> memory_, shifts_;
    Buffer<float> scales_;
};

constexpr float NEVER = -INFINITY;  // the logit of a padding column, which is no token

template <class P>
class Linear {
  public:
    Linear() = default;

    // Pack weight (outputs, inputs) and bias (outputs) or none. The results of the last panel's padding columns are
    // `beyond`.
    Linear(const float* weight, const float* bias, int outputs, int inputs, float beyond = 0) {
        make_room(outputs, inputs, beyond);
        std::vector<float> row(words_ * P::PER_WORD);
        for (int n = 0; n < outputs; ++n) {
            std::memcpy(row.data(), weight + size_t(n) * inputs, inputs * sizeof(float));
            const float scale = P::scale(row.data(), inputs);
            for (int g = 0; g < words_; ++g) *word(n, g) = P::word(row.data() + g * P::PER_WORD, scale);
            scales_[n] = scale;
            bias_[n] = bias ? bias[n] : 0;
            sums_[n] = P::sum(row.data(), inputs, scale);
        }
    }

    // Copy the given outputs of `whole`.
    void select(const Linear& whole, const int32_t* outputs, int count, float beyond = 0) {
        make_room(count, whole.inputs_, beyond);
        for (int n = 0; n < count; ++n) {
            for (int g = 0; g < words_; ++g) *word(n, g) = *whole.word(outputs[n], g);
            scales_[n] = whole.scales_[outputs[n]];
            bias_[n] = whole.bias_[outputs[n]];
            sums_[n] = whole.sums_[outputs[n]];
        }
    }

    int outputs() const { return outputs_; }
    int inputs() const { return inputs_; }
    size_t bytes() const { return packed_.bytes(); }

    // Call `take(row, column, Floats[PANEL_VECTORS])` with every panel of the result, for `rows` rows from `begin`.
    template <class Take>
    void operator()(const Inputs<P>& x, int begin, int rows, Take&& take) const {
        const int blocks = (rows + TILE_ROWS - 1) / TILE_ROWS;
        for (int column = 0; column < outputs_; column += PANEL)
            for (int block = 0; block < blocks; ++block) {
                const int first = int(int64_t(rows) * block / blocks), last = int(int64_t(rows) * (block + 1) / blocks);
                Tile tile;
                tiles<TILE_ROWS>(x, column, begin + first, last - first, tile);
                for (int row = first; row < last; ++row) take(begin + row, column, tile[row - first]);
            }
    }

    template <class Take>
    void operator()(const Inputs<P>& x, int rows, Take&& take) const {
        (*this)(x, 0, rows, take);
    }

    void store(const Inputs<P>& x, int rows, Rows to) const {
        (*this)(x, rows, [&](int row, int column, const Floats* values) {
            for (int v = 0; v < PANEL_VECTORS; ++v) write(to.row(row) + column + v * LANES, values[v]);
        });
    }

    void add(const Inputs<P>& x, int rows, Rows to) const {
        (*this)(x, rows, [&](int row, int column, const Floats* values) {
            float* place = to.row(row) + column;
            for (int v = 0; v < PANEL_VECTORS; ++v) write(place + v * LANES, load(place + v * LANES) + values[v]);
        });
    }

  private:
    using Tile = Floats[TILE_ROWS][PANEL_VECTORS];  // a panel of the result, for some rows

    void make_room(int outputs, int inputs, float beyond) {
        outputs_ = outputs, inputs_ = inputs, words_ = round_up(inputs, 16) / P::PER_WORD;
        const int columns = round_up(outputs, PANEL);
        packed_.grow(size_t(columns) * words_);
        scales_.grow(columns);
        bias_.grow(columns);
        sums_.grow(columns);
        for (int n = outputs; n < columns; ++n) bias_[n] = beyond;
    }

    int32_t* word(int output, int group) const {
        return packed_.data() + (size_t(output / PANEL) * words_ + group) * PANEL + output % PANEL;
    }

    template <int ROWS>
    void tiles(const Inputs<P>& x, int column, int first, int rows, Tile& to) const {
        if constexpr (ROWS > 0) {
            if (rows == ROWS)
                tile<ROWS>(x, column, first, to);
            else
                tiles<ROWS - 1>(x, column, first, rows, to);
        }
    }

    template <int ROWS>
    __attribute__((noinline)) void tile(const Inputs<P>& x, int column, int first, Tile& to) const {
        typename P::Sum sums[ROWS][PANEL_VECTORS] = {};
        const int32_t* inputs[ROWS];
        for (int r = 0; r < ROWS; ++r) inputs[r] = x.row(first + r);
        const int32_t* weights = packed_.data() + size_t(column) * words_;
        const int words = words_;
        for (int g = 0; g < words; ++g, weights += PANEL) {
            Ints panel[PANEL_VECTORS];
#pragma GCC unroll 8
            for (int v = 0; v < PANEL_VECTORS; ++v) panel[v] = read<Ints>(weights + v * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const int32_t word = inputs[r][g];
#pragma GCC unroll 8
                for (int v = 0; v < PANEL_VECTORS; ++v) sums[r][v] = P::add(sums[r][v], panel[v], word);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
            for (int v = 0; v < PANEL_VECTORS; ++v) {
                const int place = column + v * LANES;
                const Floats offset = load(bias_.data() + place);
                if constexpr (P::PER_WORD == 4) {
                    const Floats scale = load(scales_.data() + place) * x.scale(first + r);
                    Ints exact = sums[r][v] - x.shift(first + r);
                    if (x.zero()) exact += read<Ints>(sums_.data() + place) * x.zero();
                    to[r][v] = __builtin_convertvector(exact, Floats) * scale + offset;
                } else {
                    to[r][v] = sums[r][v] + offset;
                }
            }
        }
    }

    int outputs_ = 0, inputs_ = 0, words_ = 0;
    Buffer<int32_t> packed_;
    Buffer<float> scales_, bias_;
    Buffer<int32_t> sums_;  // sum of each output's weights, for int8
};

}  // namespace headwise
