// SIMD vectors of 32-bit lanes as wide as the target's registers (GCC's and Clang's vector extensions), so that one
// source serves AVX-512, AVX2 and every other processor; intrinsics are used only for operations that these lack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headwise {

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64;
constexpr int PANEL_VECTORS = 4;  // vectors of output columns that a tile computes at once
constexpr int TILE_ROWS = 6;      // 6 x 4 sums, 4 weights and 1 input fill the 32 registers
#elif defined(__AVX2__)
constexpr int REGISTER_BYTES = 32;
constexpr int PANEL_VECTORS = 2;
constexpr int TILE_ROWS = 6;
#else
constexpr int REGISTER_BYTES = 16;
constexpr int PANEL_VECTORS = 4;
constexpr int TILE_ROWS = 4;
#endif

constexpr int LANES = REGISTER_BYTES / 4;
constexpr int PANEL = LANES * PANEL_VECTORS;

typedef float Floats __attribute__((vector_size(REGISTER_BYTES)));
typedef int32_t Ints __attribute__((vector_size(REGISTER_BYTES)));
typedef uint16_t Halves __attribute__((vector_size(REGISTER_BYTES / 2)));
typedef int8_t Quarters __attribute__((vector_size(REGISTER_BYTES / 4)));

constexpr int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

template <class To, class From>
inline To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// word << places, also for negative numbers, for which C++17 leaves it undefined.
inline int32_t shifted(int32_t word, int places) { return int32_t(uint32_t(word) << places); }

template <class Vector>
inline Vector read(const void* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}

template <class Vector>
inline void write(void* to, Vector vector) {
    std::memcpy(to, &vector, sizeof vector);
}

inline Floats all(float value) { return Floats{} + value; }
inline Ints all(int32_t value) { return Ints{} + value; }

// bfloat16 is the upper half of a float32.
inline Floats load(const float* from) { return read<Floats>(from); }
inline Floats load(const uint16_t* from) {
    return bits<Floats>(__builtin_convertvector(read<Halves>(from), Ints) << 16);
}

inline Ints rounded_to_bfloat16(Floats value) {  // to nearest, ties to even; the results are in the lower halves
    Ints word = bits<Ints>(value);
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16) & 0xFFFF;
}
inline uint16_t bfloat16(float value) {
    uint32_t word = bits<uint32_t>(value);
    return uint16_t((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}
inline void store(float* to, Floats value) { write(to, value); }
inline void store(uint16_t* to, Floats value) {
    write(to, __builtin_convertvector(rounded_to_bfloat16(value), Halves));
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

inline float sum(Floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps(bits<__m512>(v));
#else
    float total = 0;
    for (int lane = 0; lane < LANES; ++lane) total += v[lane];
    return total;
#endif
}

inline float largest(Floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps(bits<__m512>(v));
#else
    float found = v[0];
    for (int lane = 1; lane < LANES; ++lane) found = v[lane] > found ? v[lane] : found;
    return found;
#endif
}

// Return a bit mask of the lanes where a > b.
inline uint32_t where_larger(Floats a, Floats b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask(bits<__m512>(a), bits<__m512>(b), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(bits<__m256>(a), bits<__m256>(b), _CMP_GT_OQ)));
#else
    uint32_t mask = 0;
    for (int lane = 0; lane < LANES; ++lane) mask |= uint32_t(a[lane] > b[lane]) << lane;
    return mask;
#endif
}

// Adding this constant to a float of small magnitude rounds it to an integer, which is then in the lowest bits.
constexpr float ROUNDING = 3 << 22;
constexpr double LN2 = 0.693147180559945309417232121458;

// e^x as 2^n e^r with |r| <= ln 2 / 2 and a Taylor polynomial of the given degree: relative error below 2e-7 with 6,
// 5e-5 with 4. Below -87 the result is e^-87, which is negligible in float32 sums; NaN stays NaN.
template <int DEGREE = 6>
inline Floats exponential(Floats x) {
    x = x < -87.0f ? all(-87.0f) : x;
    const Floats shifted = x * float(1 / LN2) + ROUNDING;
    const Floats n = shifted - ROUNDING;
    // ln 2 in two parts: the first has few digits, so n times it is exact.
    constexpr float upper = 0.693359375f;
    const Floats r = (x - n * upper) - n * float(LN2 - double(upper));
    constexpr float one_over_factorial[] = {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720};
    Floats polynomial = all(one_over_factorial[DEGREE]);
    for (int power = DEGREE - 1; power >= 0; --power) polynomial = polynomial * r + one_over_factorial[power];
    return bits<Floats>(bits<Ints>(polynomial) + (bits<Ints>(shifted) << 23));
}

}  // namespace headwise
