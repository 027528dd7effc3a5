// Argument checks of the C interface, made before any memory is read or written. The first invalid argument is thrown
// as `Refused`; native.cpp returns its message to the caller.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace headwise {

struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Upper bounds that keep every size, and every product of two sizes that is computed in 32 bits, far below 2^31.
constexpr int MOST = 1 << 24;         // of widths, vocabularies and positions
constexpr int MOST_TABLE = 1 << 28;   // numbers in a table of distances
constexpr int MOST_LAYERS = 1 << 12;  // of the encoder or the decoder
constexpr int MOST_BEAMS = 1 << 20;   // and samples of a sentence
constexpr int MOST_ROWS = 1 << 28;    // of a batch
constexpr int MOST_WORKERS = 1 << 12;

inline void expect(bool good, const char* sentence) {
    if (!good) throw Refused(sentence);
}

inline void expect_equal(int64_t found, int64_t wanted, const std::string& what) {
    if (found != wanted)
        throw Refused("expected " + std::to_string(wanted) + " " + what + ", found " + std::to_string(found));
}

inline void expect_within(int64_t found, int64_t least, int64_t most, const char* what) {
    if (found < least || found > most)
        throw Refused(std::string("expected ") + what + " from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", found " + std::to_string(found));
}

inline void expect_ids(const int32_t* ids, int64_t count, int size, const char* what) {
    expect(ids || !count, "expected ids, found none");
    for (int64_t i = 0; i < count; ++i) expect_within(ids[i], 0, size - 1, what);
}

// Check offsets (count + 1) of `count` rows in an array of `total` elements: ascending, from 0 to `total`.
template <class Offset>
void expect_offsets(const Offset* offsets, int32_t count, int64_t total) {
    expect(offsets, "expected offsets, found none");
    expect_equal(offsets[0], 0, "as the first offset");
    for (int32_t s = 0; s < count; ++s) expect(offsets[s] <= offsets[s + 1], "expected offsets in order");
    expect_equal(offsets[count], total, "as the last offset");
}

}  // namespace headwise
