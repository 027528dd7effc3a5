// Matrix products of training in float32: C = A B + bias, or C += A B, for matrices in any layout.
//
// The loops are those of Goto & van de Geijn (2008). B is packed into panels of PANEL columns, DEPTH rows at a time. A
// tile of TILE_ROWS x PANEL sums stays in registers while a panel is read. A is read in place if its rows are
// contiguous; otherwise BLOCK_ROWS of its rows at a time are packed, too. Each element of C is summed in an order that
// doesn't depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "checks.h"
#include "packed_gemm.h"
#include "vectors.h"
#include "workers.h"

namespace headwise {

// Element (row, column) is at data[row * row_step + column * column_step].
struct Matrix {
    const float* data;
    int64_t row_step, column_step;
    const float* at(int64_t row, int64_t column) const { return data + row * row_step + column * column_step; }
    Matrix from(int64_t row, int64_t column) const { return {at(row, column), row_step, column_step}; }
};

// A (rows, depth), B (depth, columns), C (rows, columns) with contiguous rows, bias (columns) or null.
struct Product {
    Matrix a, b;
    float* c;
    int64_t c_step;
    int rows, columns, depth;
    const float* bias;
    bool add;  // to C, in place of overwriting it

    void check() const {
        expect_within(rows, 0, MOST_ROWS, "rows of a product");
        expect_within(columns, 0, MOST, "columns of a product");
        expect_within(depth, 0, MOST_ROWS, "terms of a product");
        expect(c || !rows || !columns, "expected room for the product, found none");
        expect((a.data || !rows || !depth) && (b.data || !columns || !depth), "expected two factors, found none");
        expect(c_step >= columns, "expected rows of the product that don't overlap");
        expect(!(bias && add), "expected a bias or a sum, found both");
    }

    // The part of the product for some of its rows and columns.
    Product part(int first_row, int last_row, int first_column, int last_column) const {
        Product product = *this;
        product.a = a.from(first_row, 0);
        product.b = b.from(0, first_column);
        product.c += first_row * c_step + first_column;
        product.bias = bias ? bias + first_column : nullptr;
        product.rows = last_row - first_row;
        product.columns = last_column - first_column;
        return product;
    }
};

class Multiplication {
  public:
    explicit Multiplication(const Product& product)
        : p_(product), packs_(product.a.column_step != 1), depth_(std::min(product.depth, DEPTH)) {}

    void operator()() {
        if (!p_.depth) return clear();
        panels_.grow(size_t(round_up(std::min(p_.columns, WIDTH), PANEL)) * depth_);
        if (packs_) tiles_.grow(size_t(round_up(std::min(p_.rows, BLOCK_ROWS), TILE_ROWS)) * depth_);
        for (int column = 0; column < p_.columns; column += WIDTH)
            for (int k = 0; k < p_.depth; k += DEPTH) {
                const int depth = std::min(DEPTH, p_.depth - k), width = std::min(WIDTH, p_.columns - column);
                pack_panels(p_.b.from(k, column), depth, width);
                for (int row = 0; row < p_.rows; row += BLOCK_ROWS)
                    block(row, std::min(BLOCK_ROWS, p_.rows - row), column, width, k, depth);
            }
    }

  private:
    static constexpr int DEPTH = 256;                   // 16 kB of a panel in AVX2
    static constexpr int BLOCK_ROWS = 16 * TILE_ROWS;   // of A in the second-level cache
    static constexpr int WIDTH = 1024 / PANEL * PANEL;  // columns of B that are packed at once
    static constexpr int STRIP = 16;                    // elements of a cache line

    void clear() const {
        for (int row = 0; row < p_.rows && !p_.add; ++row)
            for (int n = 0; n < p_.columns; ++n) p_.c[row * p_.c_step + n] = p_.bias ? p_.bias[n] : 0;
    }

    // Pack B (depth, width): panel after panel, row by row, zeros beyond the last column.
    void pack_panels(Matrix b, int depth, int width) {
        const bool by_rows = b.column_step == 1;
        for (int strip = 0; strip < depth; strip += STRIP)
            for (int column = 0; column < width; column += PANEL) {
                const int count = std::min(PANEL, width - column), last = std::min(strip + STRIP, depth);
                float* to = panels_.data() + size_t(column) * depth;
                for (int k = strip; by_rows && k < last; ++k) {
                    float* place = to + size_t(k) * PANEL;
                    if (count == PANEL) {
                        std::memcpy(place, b.at(k, column), PANEL * sizeof(float));
                    } else {
                        std::memcpy(place, b.at(k, column), count * sizeof(float));
                        std::fill(place + count, place + PANEL, 0.0f);
                    }
                }
                for (int n = 0; !by_rows && n < PANEL; ++n)
                    for (int k = strip; k < last; ++k)
                        to[size_t(k) * PANEL + n] = n < count ? *b.at(k, column + n) : 0;
            }
    }

    // Pack A (rows, depth), whose columns are contiguous or nearly so: tile after tile, column by column.
    void pack_tiles(Matrix a, int rows, int depth) {
        for (int k = 0; k < depth; ++k) {
            float* to = tiles_.data() + size_t(k) * TILE_ROWS;
            for (int row = 0; row < rows; row += TILE_ROWS, to += size_t(depth) * TILE_ROWS) {
                if (a.row_step == 1 && row + TILE_ROWS <= rows) {
                    std::memcpy(to, a.at(row, k), TILE_ROWS * sizeof(float));
                    continue;
                }
                for (int r = 0; r < TILE_ROWS; ++r) to[r] = row + r < rows ? *a.at(row + r, k) : 0;
            }
        }
    }

    void block(int row, int rows, int column, int width, int k, int depth) {
        if (packs_) pack_tiles(p_.a.from(row, k), rows, depth);
        for (int n = 0; n < width; n += PANEL)
            for (int r = 0; r < rows; r += TILE_ROWS) {
                const float* panel = panels_.data() + size_t(n) * depth;
                const int count = std::min(TILE_ROWS, rows - r), place = column + n;
                if (packs_)
                    tiles<TILE_ROWS, true>(count, tiles_.data() + size_t(r) * depth, panel, row + r, place, k, depth);
                else
                    tiles<TILE_ROWS, false>(count, p_.a.at(row + r, k), panel, row + r, place, k, depth);
            }
    }

    template <int ROWS, bool PACKED>
    void tiles(int rows, const float* a, const float* panel, int row, int column, int k, int depth) const {
        if constexpr (ROWS > 0) {
            if (rows == ROWS)
                tile<ROWS, PACKED>(a, panel, row, column, k, depth);
            else
                tiles<ROWS - 1, PACKED>(rows, a, panel, row, column, k, depth);
        }
    }

    template <int ROWS, bool PACKED>
    void tile(const float* a, const float* panel, int row, int column, int k, int depth) const {
        Floats sums[ROWS][PANEL_VECTORS] = {};
        const float* inputs[ROWS];
        for (int r = 0; r < ROWS; ++r) {
            inputs[r] = PACKED ? a + r : a + r * p_.a.row_step;
            const float* to = p_.c + (row + r) * p_.c_step + column;
            for (int n = 0; n < PANEL; n += STRIP) __builtin_prefetch(to + n, 1);
        }
        for (int64_t i = 0; i < depth; ++i) {
            Floats weights[PANEL_VECTORS];
#pragma GCC unroll 8
            for (int v = 0; v < PANEL_VECTORS; ++v) weights[v] = load(panel + i * PANEL + v * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; ++r) {
                const float input = PACKED ? a[i * TILE_ROWS + r] : inputs[r][i];
#pragma GCC unroll 8
                for (int v = 0; v < PANEL_VECTORS; ++v) sums[r][v] += weights[v] * input;
            }
        }
        const int count = std::min(PANEL, p_.columns - column);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r) {
            float* to = p_.c + (row + r) * p_.c_step + column;
            const float* other = k || p_.add ? to : p_.bias ? p_.bias + column : nullptr;
            float values[PANEL];
#pragma GCC unroll 8
            for (int v = 0; v < PANEL_VECTORS; ++v) {
                if (count < PANEL)
                    store(values + v * LANES, sums[r][v]);
                else
                    store(to + v * LANES, other ? sums[r][v] + load(other + v * LANES) : sums[r][v]);
            }
            for (int n = 0; count < PANEL && n < count; ++n) to[n] = values[n] + (other ? other[n] : 0);
        }
    }

    const Product p_;
    const bool packs_;
    const int depth_;
    Buffer<float> panels_, tiles_;
};

// Compute a product in `threads` threads; each computes some of the rows, or of the columns where these are more.
inline void multiply(const Product& product, int threads) {
    const bool by_rows = product.rows / TILE_ROWS >= product.columns / PANEL;
    const int unit = by_rows ? TILE_ROWS : PANEL, size = by_rows ? product.rows : product.columns;
    const int units = (size + unit - 1) / unit, parts = std::max(1, std::min(threads, units));
    std::atomic<int> next{0};
    const auto work = [&] {
        const int part = next++;
        const int first = int(int64_t(units) * part / parts) * unit;
        const int last = std::min(int(int64_t(units) * (part + 1) / parts) * unit, size);
        Multiplication(by_rows ? product.part(first, last, 0, product.columns)
                               : product.part(0, product.rows, first, last))();
    };
    std::mutex mutex;
    std::condition_variable ended;
    Workers workers(mutex, ended);
    if (parts > 1) workers.start(parts - 1, work, [] {});
    work();
    workers.join();
    expect(!workers.failure(), workers.failure());
}

}  // namespace headwise
