// The shape of a model: what src/headwise/engine/native/packing.py tells of its configuration.
#pragma once

#include <algorithm>

#include "checks.h"

namespace headwise {

enum class Activation : int32_t { relu, gelu, silu, gelu_tanh };

struct Shape {
    int32_t d_model, d_ff, encoder_layers, decoder_layers, source_size, target_size;
    int32_t longest;                                    // tokens of a sequence; 0: any number
    int32_t heads, shared_heads, key_size, value_size;  // sizes of a head, padded
    int32_t added, rotated;                             // whether there are tables of `longest` positions
    int32_t reach;                                      // the largest distance in tables of distances; 0: no tables
    int32_t biased, key_tables, value_tables;           // these tables: one for each stack; 0, 1 or `heads` in each layer
    int32_t pre_norm, final_norm, rms, gated;
    int32_t source_end;  // whether the encoder reads the end symbol
    Activation activation;
    float key_scale, epsilon;

    int distances() const { return 2 * reach + 1; }

    void check() const {
        for (const int32_t size : {d_model, d_ff, source_size, target_size, heads, shared_heads, key_size, value_size})
            expect_within(size, 1, MOST, "a size of the model");
        expect_within(encoder_layers, 1, MOST_LAYERS, "encoder layers");
        expect_within(decoder_layers, 1, MOST_LAYERS, "decoder layers");
        expect_within(longest, 0, MOST, "positions");
        expect(longest || !(added || rotated), "expected a number of positions, found none");
        expect(heads % shared_heads == 0, "expected heads that are a multiple of those of keys and values");
        expect(key_size % 16 == 0 && value_size % 16 == 0, "expected sizes of heads that are multiples of 16");
        expect(key_size % 32 == 0 || !rotated, "expected a size of rotated heads that is a multiple of 32");
        expect_within(int64_t(heads) * std::max(key_size, value_size), 1, MOST, "a size of all heads");
        expect_within(reach, 0, MOST, "a distance");
        expect(reach || !(biased || key_tables || value_tables), "expected a distance, found none");
        for (const int32_t tables : {key_tables, value_tables})
            expect(tables == 0 || tables == 1 || tables == heads, "expected a table of distances, or one for each head");
        const int64_t widest = std::max({heads, key_tables * key_size, value_tables * value_size});
        expect_within(widest * distances(), 1, MOST_TABLE, "numbers in a table of distances");
        expect_within(int32_t(activation), 0, int32_t(Activation::gelu_tanh), "an activation");
        expect(std::isfinite(key_scale) && epsilon > 0, "expected a finite scale and a positive epsilon");
    }
};

}  // namespace headwise
