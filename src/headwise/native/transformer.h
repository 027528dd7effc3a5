// Inference of the Transformer (Vaswani et al. 2017), equal to src/headwise/models/transformer.py but without padding:
// the rows of a batch are the concatenated real tokens of its sentences.
#pragma once

#include <algorithm>
#include <atomic>
#include <string>

#include "positions.h"

namespace headwise {

struct Norm {
    Buffer<float> weight, bias;
};

template <class P>
struct Attention {
    Linear<P> in, memory, out;  // in: queries, and in self-attention keys and values; memory: the source's keys, values
};

template <class P>
struct Layer {
    Attention<P> self, cross;
    Linear<P> w1, gate, w2;
    Norm around_self, around_cross, around_feed_forward;
    Buffer<float> distance_keys, distance_values;  // (tables, distances, key and value), or empty
};

// Decoding state of one sentence. A reordered beam doesn't move cached keys and values: `ancestors` records for each
// hypothesis and position the row of the beam that wrote them.
template <class P>
struct Sentence {
    using T = typename P::Kept;
    int source = 0, length = 0, beams = 1;
    std::vector<std::vector<T>> memory;     // source keys and values, for each layer (source, kept)
    std::vector<std::vector<T>> cache;      // target keys and values, for each layer (length, beams, kept)
    std::vector<std::vector<int32_t>> ancestors;  // for each row of the beam (length)
    bool recorded = false;                        // whether the weights of cross-attention are kept, of one row
    std::vector<std::vector<float>> weights;      // for each layer (length, heads, source)

    void start(int layers, int rows, bool records) {
        length = 0;
        beams = rows;
        recorded = records;
        weights.assign(records ? layers : 0, {});
        memory.resize(layers);
        cache.resize(layers);
        ancestors.assign(rows, {});
    }

    size_t bytes() const {
        size_t total = 0;
        for (const auto& layers : {&memory, &cache})
            for (const auto& layer : *layers) total += layer.capacity() * sizeof(T);
        return total;
    }

    // Let row r of the beam continue the hypothesis of row parents[r].
    void reorder(const int32_t* parents, int rows) {
        std::vector<std::vector<int32_t>> moved(beams);
        for (int row = 0; row < rows; ++row) moved[row] = ancestors[parents[row]];
        ancestors.swap(moved);
    }
};

template <class P>
struct Row {
    Sentence<P>* sentence;
    int32_t beam, token;
};

// Buffers of one thread's computation.
template <class P>
struct Workspace {
    Buffer<float> x_, normal_, wide_, context_, hidden_, scores_, distances_;
    Inputs<P> inputs;
    Rows x{}, normal{}, wide{}, context{}, hidden{};
    const std::atomic<bool>* stopped = nullptr;  // once true, the results are discarded

    static Rows room(Buffer<float>& memory, int rows, int columns) {
        const int stride = round_up(columns, PANEL);
        memory.grow(size_t(rows) * stride);
        return {memory.data(), stride};
    }
};

template <class P>
class Transformer {
  public:
    using T = typename P::Kept;
    Shape shape;
    Heads heads;
    std::vector<Layer<P>> encoder, decoder;
    Norm encoder_norm, decoder_norm;
    Linear<P> vocabulary;
    Buffer<T> source_embedding, target_embedding;
    Buffer<float> positions, rotations;            // (longest, d_model) and (longest, key), or empty
    Buffer<float> encoder_biases, decoder_biases;  // (heads, distances), or empty

    explicit Transformer(const Shape& given)
        : shape(given),
          heads{given.heads, given.shared_heads, given.key_size, given.value_size, given.key_scale},
          encoder(given.encoder_layers),
          decoder(given.decoder_layers) {
        width_ = round_up(shape.d_model, 16);
        // The number of rows for which the feed-forward layer's activations fit the second-level cache.
        block_ = std::max(1, (600 << 10) / (4 * shape.d_ff) / (4 * TILE_ROWS)) * 4 * TILE_ROWS;
    }

    void keep_table(Buffer<T>& table, const float* values, int rows) const {
        table.grow(size_t(rows) * width_);
        for (int row = 0; row < rows; ++row)
            for (int i = 0; i < shape.d_model; ++i) {
                const float value = values[size_t(row) * shape.d_model + i];
                if constexpr (P::PER_WORD == 1)
                    table[size_t(row) * width_ + i] = value;
                else
                    table[size_t(row) * width_ + i] = bfloat16(value);
            }
    }

    // Encode sentences of the given lengths, their ids concatenated; the result is in work.x (tokens, d_model).
    void encode(const int32_t* ids, const int* lengths, int count, Workspace<P>& work) const {
        int total = 0, longest = 0;
        for (int s = 0; s < count; ++s) total += lengths[s], longest = std::max(longest, lengths[s]);
        make_room(work, total, longest);
        const int columns = heads.queries() + heads.kept();
        work.wide = work.room(work.wide_, total, columns);
        std::vector<int> begins(total), ends(total);
        for (int s = 0, row = 0; s < count; ++s)
            for (int begin = row, p = 0; p < lengths[s]; ++p, ++row) {
                begins[row] = begin, ends[row] = begin + lengths[s];
                embed(source_embedding, ids[row], p, work.x.row(row));
            }
        for (const Layer<P>& layer : encoder) {
            if (work.stopped && *work.stopped) return;
            in_blocks(total, [&](int first, int rows) {
                ready(layer.around_self, work, work.x.from(first), rows);
                layer.self.in.store(work.inputs, rows, work.wide.from(first));
                for (int r = first; r < first + rows; ++r) turn(work.wide.row(r), r - begins[r]);
            });
            in_blocks(total, [&](int first, int rows) {
                for (int r = 0; r < rows; ++r) {
                    const int begin = begins[first + r], keys = heads.queries();
                    const auto at = [&](int p) { return work.wide.row(begin + p) + keys; };
                    attend_with_positions<float>(layer, encoder_biases, work.wide.row(first + r), first + r - begin,
                                                 ends[first + r] - begin, at, work, work.context.row(r));
                }
                add(layer.self.out, layer.around_self, work, work.context, work.x.from(first), rows);
                feed_forward(layer, work, work.x.from(first), rows);
            });
        }
        if (shape.final_norm) normalize(encoder_norm, work.x, work.x, total);
    }

    // Compute and cache the cross-attention's keys and values of encoder states (source, d_model).
    void remember(Rows states, int source, Sentence<P>& sentence, Workspace<P>& work) const {
        sentence.source = source;
        work.wide = work.room(work.wide_, std::min(source, block_), heads.kept());
        for (size_t l = 0; l < decoder.size(); ++l) sentence.memory[l].resize(size_t(source) * heads.kept());
        in_blocks(source, [&](int first, int rows) {
            work.inputs.set(states.from(first), rows, shape.d_model);
            for (size_t l = 0; l < decoder.size(); ++l) {
                decoder[l].cross.memory.store(work.inputs, rows, work.wide);
                for (int r = 0; r < rows; ++r)
                    keep(work.wide.row(r), &sentence.memory[l][size_t(first + r) * heads.kept()]);
            }
        });
    }

    // Decode one step: one token for each row, at most one row for each hypothesis; sets work.inputs for `vocabulary`.
    void step(const Row<P>* rows, int count, Workspace<P>& work) const {
        int longest = 1;
        for (int r = 0; r < count; ++r)
            longest = std::max({longest, rows[r].sentence->source, rows[r].sentence->length + 1});
        if (shape.longest) expect(longest <= shape.longest, "expected no more tokens than there are positions");
        make_room(work, count, longest);
        work.wide = work.room(work.wide_, std::min(count, block_), heads.queries() + heads.kept());
        for (int r = 0; r < count; ++r) {
            Sentence<P>& sentence = *rows[r].sentence;
            embed(target_embedding, rows[r].token, sentence.length, work.x.row(r));
            sentence.ancestors[rows[r].beam].push_back(rows[r].beam);
            const size_t room = size_t(sentence.length + 1) * sentence.beams * heads.kept();
            for (auto& layer : sentence.cache)
                if (layer.size() < room) layer.resize(room + 15 * size_t(sentence.beams) * heads.kept());
        }
        for (size_t l = 0; l < decoder.size(); ++l)
            in_blocks(count, [&](int first, int size) {
                const Rows x = work.x.from(first);
                attend_self(l, rows + first, size, x, work);
                attend_source(l, rows + first, size, x, work);
                feed_forward(decoder[l], work, x, size);
            });
        for (int r = 0; r < count; ++r) {
            Sentence<P>& sentence = *rows[r].sentence;
            sentence.length = int(sentence.ancestors[rows[r].beam].size());
        }
        if (shape.final_norm) normalize(decoder_norm, work.x, work.normal, count);
        work.inputs.set(shape.final_norm ? work.normal : work.x, count, shape.d_model);
    }

  private:
    int width_ = 0, block_ = 0;

    template <class Block>
    void in_blocks(int rows, const Block& block) const {
        for (int first = 0; first < rows; first += block_) block(first, std::min(block_, rows - first));
    }

    void make_room(Workspace<P>& work, int rows, int longest) const {
        work.x = work.room(work.x_, rows, shape.d_model);
        work.normal = work.room(work.normal_, rows, shape.d_model);
        work.context = work.room(work.context_, std::min(rows, block_), heads.result());
        work.hidden = work.room(work.hidden_, std::min(rows, block_), shape.d_ff);
        work.scores_.grow(round_up(longest, LANES));
        if (shape.reach) work.distances_.grow(shape.distances());
    }

    void embed(const Buffer<T>& table, int32_t token, int position, float* to) const {
        const T* row = table.data() + size_t(token) * width_;
        const float scale = std::sqrt(float(shape.d_model));
        for (int i = 0; i < width_; i += LANES) {
            Floats value = load(row + i) * scale;
            if (positions.data()) value += load(&positions[size_t(position) * width_ + i]);
            write(to + i, value);
        }
    }

    void keep(const float* from, T* to) const {
        for (int i = 0; i < heads.kept(); i += LANES) store(to + i, load(from + i));
    }

    // Rotate the queries and keys of a position; `wide` has the queries of all heads, then the keys.
    void turn(float* wide, int position) const {
        if (!shape.rotated) return;
        for (int head = 0; head < heads.heads + heads.shared; ++head)
            rotate(wide + head * heads.key, heads.key, &rotations[size_t(position) * heads.key]);
    }

    template <class Cached, class At>
    void attend_with_positions(const Layer<P>& layer, const Buffer<float>& biases, const float* q, int position,
                               int count, const At& at, Workspace<P>& work, float* to) const {
        if (!shape.reach) return attend<Cached>(heads, q, count, at, work.scores_.data(), to);
        const ByDistance by_distance{shape, biases.data(), layer.distance_keys.data(), layer.distance_values.data(),
                                     position, count, work.distances_.data()};
        attend<Cached>(heads, q, count, at, work.scores_.data(), to, by_distance);
    }

    void attend_self(size_t l, const Row<P>* rows, int count, Rows x, Workspace<P>& work) const {
        const Layer<P>& layer = decoder[l];
        const size_t size = heads.kept();
        ready(layer.around_self, work, x, count);
        layer.self.in.store(work.inputs, count, work.wide);
        for (int r = 0; r < count; ++r) {
            Sentence<P>& sentence = *rows[r].sentence;
            const std::vector<int32_t>& from = sentence.ancestors[rows[r].beam];
            const int length = int(from.size());
            T* cache = sentence.cache[l].data();
            turn(work.wide.row(r), length - 1);
            keep(work.wide.row(r) + heads.queries(),
                 cache + (size_t(length - 1) * sentence.beams + rows[r].beam) * size);
            const auto at = [&](int p) { return cache + (size_t(p) * sentence.beams + from[p]) * size; };
            attend_with_positions<T>(layer, decoder_biases, work.wide.row(r), length - 1, length, at, work,
                                     work.context.row(r));
        }
        add(layer.self.out, layer.around_self, work, work.context, x, count);
    }

    void attend_source(size_t l, const Row<P>* rows, int count, Rows x, Workspace<P>& work) const {
        const Layer<P>& layer = decoder[l];
        const size_t size = heads.kept();
        ready(layer.around_cross, work, x, count);
        layer.cross.in.store(work.inputs, count, work.wide);
        for (int r = 0; r < count; ++r) {
            Sentence<P>& sentence = *rows[r].sentence;
            const T* memory = sentence.memory[l].data();
            const auto at = [&](int p) { return memory + p * size; };
            const float* q = work.wide.row(r);
            float *scores = work.scores_.data(), *to = work.context.row(r);
            if (sentence.recorded)
                attend<T>(heads, q, sentence.source, at, scores, to, Recorded{sentence.weights[l], sentence.source});
            else
                attend<T>(heads, q, sentence.source, at, scores, to);
        }
        add(layer.cross.out, layer.around_cross, work, work.context, x, count);
    }

    void feed_forward(const Layer<P>& layer, Workspace<P>& work, Rows x, int count) const {
        ready(layer.around_feed_forward, work, x, count);
        const bool relu = shape.activation == Activation::relu;
        layer.w1(work.inputs, count, [&](int row, int column, const Floats* values) {
            float* to = work.hidden.row(row) + column;
            if (relu)
                for (int v = 0; v < PANEL_VECTORS; ++v) write(to + v * LANES, values[v] < 0.0f ? Floats{} : values[v]);
            else
                for (int v = 0; v < PANEL_VECTORS; ++v) write(to + v * LANES, values[v]);
        });
        if (!relu)
            for (int row = 0; row < count; ++row) activate(work.hidden.row(row));
        if (shape.gated)
            layer.gate(work.inputs, count, [&](int row, int column, const Floats* values) {
                float* to = work.hidden.row(row) + column;
                for (int v = 0; v < PANEL_VECTORS; ++v) write(to + v * LANES, load(to + v * LANES) * values[v]);
            });
        add(layer.w2, layer.around_feed_forward, work, work.hidden, x, count, relu && !shape.gated);
    }

    // Apply GELU, its approximation by tanh, or SiLU. Separate from the product, because the calls in here would spill its sums from registers.
    void activate(float* x) const {
        for (int i = 0; i < shape.d_ff; i += LANES) {
            Floats v = load(x + i);
            if (shape.activation == Activation::silu) {
                v = larger(all(-87.0f), v);  // SiLU is 0 there in float32, and -1e38 / e^87 would not be
                v /= exponential(-v) + 1;
            } else if (shape.activation == Activation::gelu_tanh) {  // (1 + tanh u) / 2 = 1 / (1 + e^(-2u))
                v = larger(all(-12.0f), v);  // it is 0 there, and v / e^(-2u) would not be
                const Floats exponent = (v + v * v * v * 0.044715f) * float(-2 * M_2_SQRTPI * M_SQRT1_2);
                v /= exponential(exponent > 87.0f ? all(87.0f) : exponent) + 1;
            } else {
                for (int lane = 0; lane < LANES; ++lane) v[lane] *= 0.5f * (1 + std::erf(v[lane] * float(M_SQRT1_2)));
            }
            write(x + i, v);
        }
    }

    // The two halves of a residual connection: `ready` prepares the sub-layer's input, `add` adds its output to x.
    void ready(const Norm& norm, Workspace<P>& work, Rows x, int count) const {
        if (shape.pre_norm) normalize(norm, x, work.normal, count);
        work.inputs.set(shape.pre_norm ? work.normal : x, count, shape.d_model);
    }

    void add(const Linear<P>& out, const Norm& norm, Workspace<P>& work, Rows result, Rows x, int count,
             bool positive = false) const {
        work.inputs.set(result, count, out.inputs(), positive);
        out.add(work.inputs, count, x);
        if (!shape.pre_norm) normalize(norm, x, x, count);
    }

    float mean_of(const float* x) const {
        const int size = shape.d_model, whole = size / LANES * LANES;
        Floats total{};
        for (int i = 0; i < whole; i += LANES) total += load(x + i);
        float mean = sum(total);
        for (int i = whole; i < size; ++i) mean += x[i];
        return mean / size;
    }

    // Layer normalization, or RMSNorm, whose mean and bias are 0.
    void normalize(const Norm& norm, Rows from, Rows to, int count) const {
        const int size = shape.d_model, whole = size / LANES * LANES;
        for (int r = 0; r < count; ++r) {
            const float* x = from.row(r);
            float* y = to.row(r);
            const float mean = shape.rms ? 0 : mean_of(x);
            Floats squares{};
            for (int i = 0; i < whole; i += LANES) {
                const Floats d = load(x + i) - mean;
                squares += d * d;
            }
            float variance = sum(squares);
            for (int i = whole; i < size; ++i) variance += (x[i] - mean) * (x[i] - mean);
            // A variance that overflows gives NaN, as in PyTorch; its reciprocal alone would give zeros.
            const float factor = 1 / std::sqrt(variance / size + shape.epsilon) + (variance - variance);
            for (int i = 0; i < whole; i += LANES)
                write(y + i, (load(x + i) - mean) * factor * load(&norm.weight[i]) + load(&norm.bias[i]));
            for (int i = whole; i < size; ++i) y[i] = (x[i] - mean) * factor * norm.weight[i] + norm.bias[i];
        }
    }
};

}  // namespace headwise
