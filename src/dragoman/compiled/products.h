// Products of rows of activations with weight matrices that were packed once, in float32, bf16 or int8.
//
// Every element of a result is summed in the order of the inner axis. The bits of a row are therefore the same alone
// and in any batch, with any number of threads.

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "team.h"
#include "vectors.h"

namespace {

enum Format : int64_t { FLOAT32, BF16, INT8 };

// Number of outputs in a panel of weights: the lanes of a register.
constexpr int64_t PANEL = LANES;

// Rows of activations and panels of weights whose sums are held in registers at a time.
struct Tile {
    int rows, panels;
};

// There are 32 registers with AVX-512, else 16. NARROW_TILE is for bf16 and int8.
#if defined(__AVX512BW__)
constexpr Tile FLOAT32_TILE{8, 3}, NARROW_TILE{8, 3};
#elif defined(__AVX2__)
constexpr Tile FLOAT32_TILE{6, 2}, NARROW_TILE{4, 3};
#else
constexpr Tile FLOAT32_TILE{4, 3}, NARROW_TILE{4, 3};
#endif

// Allocates memory that starts at a cache line; large blocks use huge pages, which need fewer address translations.
inline void *aligned(size_t bytes) {
    constexpr int64_t LINE = 64, HUGE_PAGE = 1 << 21;
    const int64_t unit = int64_t(bytes) < HUGE_PAGE ? LINE : HUGE_PAGE;
    void *start = std::aligned_alloc(unit, rounded_up(int64_t(bytes), unit));
    if (start && unit == HUGE_PAGE) madvise(start, bytes, MADV_HUGEPAGE);
    return start;
}

// Memory that is allocated in pieces and freed as a whole.
class Arena {
    std::vector<std::unique_ptr<char, decltype(&std::free)>> blocks;
    char *next = nullptr;
    size_t left = 0;

  public:
    uint32_t *take(size_t count) {
        size_t bytes = rounded_up(int64_t(count * 4), 64);
        if (bytes > left) {
            left = std::max<size_t>(bytes, 1 << 24);
            next = (char *)aligned(left);
            if (!next) throw std::bad_alloc();
            blocks.emplace_back(next, &std::free);
        }
        left -= bytes;
        return (uint32_t *)((next += bytes) - bytes);
    }
};

// A buffer that grows and never shrinks. It starts at a cache line, and one more panel after its end may be read. Its
// contents are lost when it grows.
template <class Number> class Buffer {
    Number *start = nullptr;
    size_t size = 0;

  public:
    Buffer() = default;
    Buffer(Buffer &&other) noexcept { *this = std::move(other); }
    Buffer &operator=(Buffer &&other) noexcept {
        std::swap(start, other.start), std::swap(size, other.size);
        return *this;
    }
    ~Buffer() { std::free(start); }
    Number *take(size_t count) {
        if (count > size) {
            std::free(start);
            start = (Number *)aligned(count * sizeof(Number) + 64);
            size = start ? count : 0;
            if (!start) throw std::bad_alloc();
        }
        return start;
    }
};

// A 32-bit group of the inner axis: one float32, two bf16, or four 8-bit numbers. A product adds to each lane's sum the
// dot product of the row's group and the lane's group.
template <Format> struct Group;

template <> struct Group<FLOAT32> {
    using Sum = Lanes;
    static constexpr Tile TILE = FLOAT32_TILE;
    static Sum add(Sum sum, uint32_t row, Bits weights) { return fused(bits_of<float>(row), (Lanes)weights, sum); }
};

template <> struct Group<BF16> {
    using Sum = Lanes;
    static constexpr Tile TILE = NARROW_TILE;
    static Sum add(Sum sum, uint32_t row, Bits weights) { return add_bf16(sum, row, weights); }
};

template <> struct Group<INT8> {
    using Sum = Wholes;
    static constexpr Tile TILE = NARROW_TILE;
    static Sum add(Sum sum, uint32_t row, Bits weights) { return add_int8(sum, row, weights); }
};

// The largest absolute value of a row, or 1 if all are zero, divided by 127: the step of its 8-bit form. It is NaN if a
// value is NaN or infinite, so that every product of the row is NaN too.
inline float int8_step(const float *x, int64_t count) {
    const int32_t sizes = 0x7fffffff, infinity = 0x7f800000;  // as bits, absolute values have the order of whole numbers
    int32_t bits = 0;
#pragma omp simd reduction(max : bits)
    for (int64_t i = 0; i < count; ++i) bits = std::max(bits, bits_of<int32_t>(x[i]) & sizes);
    const float most = bits_of<float>(bits < infinity ? bits : infinity + 1);
    return (bits ? most : 1.0f) / 127.0f;
}

// The nearest whole number of steps, from -127 to 127, modulo 256. If the step is NaN, it may be any number.
inline uint8_t to_int8(float x, float per_step) { return uint8_t(int32_t(std::nearbyint(x * per_step))); }

// `_Weight` of decoding/compiled_stepper.py: unpacked weights, row by row; a vector has one row. Null if the model
// lacks them. They are float32, or 8-bit numbers with a scale for each row.
struct Weights {
    const void *data;
    const float *scales;
    int64_t outputs, inner;

    // Copies a row to `to` as float32.
    void read(int64_t row, float *to) const {
        const int8_t *whole = (const int8_t *)data + row * inner;
        if (!scales) std::memcpy(to, (const float *)data + row * inner, inner * sizeof(float));
        else
            for (int64_t i = 0; i < inner; ++i) to[i] = float(whole[i]) * scales[row];
    }
};

// A weight matrix (outputs, inner) in panels of PANEL outputs; within a panel, the groups of the inner axis follow each
// other.
class Matrix {
    uint32_t *packed = nullptr;
    std::vector<float> steps, bias;
    // ROW_OFFSET times the sum of an output's weights, which the offset of a row adds to its product; `finished`
    // subtracts it.
    std::vector<int32_t> excess;
    int64_t filled = 0;  // outputs that have weights

  public:
    Format format = FLOAT32;
    int64_t outputs = 0, inner = 0, groups = 0, panels = 0;

    const uint32_t *panel(int64_t number) const { return packed + number * groups * PANEL; }

    // Without weights; `append` adds them.
    Matrix(Arena &arena, Format format_, int64_t outputs_, int64_t inner_)
        : format(format_), outputs(outputs_), inner(inner_) {
        groups = rounded_up(inner, numbers()) / numbers(), panels = rounded_up(outputs, PANEL) / PANEL;
        std::memset(packed = arena.take(panels * groups * PANEL), 0, panels * groups * PANEL * 4);
        bias.assign(panels * PANEL, 0.0f), steps.assign(panels * PANEL, 1.0f), excess.assign(panels * PANEL, 0);
    }
    Matrix() = default;

    // Packs the next outputs. Rows that are in 8 bits keep their scales in int8.
    void append(const Weights &part) {
        std::vector<float> values(inner);
        for (int64_t row = 0; row < part.outputs; ++row, ++filled) {
            part.read(row, values.data());
            if (format == INT8) steps[filled] = part.scales ? part.scales[row] : int8_step(values.data(), inner);
            place(values.data(), filled);
        }
    }

    // Sets the biases of the last `count` outputs.
    void set_bias(const float *from, int64_t count) { std::copy(from, from + count, bias.begin() + filled - count); }

    // Unpacks the weights of an output.
    void unpack(int64_t output, float *to) const {
        const uint32_t *from = packed + output / PANEL * groups * PANEL + output % PANEL;
        for (int64_t i = 0; i < inner; ++i) {
            const uint32_t group = from[i / numbers() * PANEL];
            if (format == FLOAT32) to[i] = bits_of<float>(group);
            if (format == BF16) to[i] = bits_of<float>(group >> (16 * (i % 2)) << 16);
            if (format == INT8) to[i] = float(int8_t(group >> (8 * (i % 4)))) * steps[output];
        }
    }

    Lanes finished(Wholes sum, int64_t panel, float row_step) const {
        Wholes whole = sum - *(const Wholes *)&excess[panel * PANEL];
        const Lanes step = row_step * lanes(&steps[panel * PANEL]);
        return fused(__builtin_convertvector(whole, Lanes), step, lanes(&bias[panel * PANEL]));
    }
    Lanes finished(Lanes sum, int64_t panel, float) const { return sum + lanes(&bias[panel * PANEL]); }

  private:
    int64_t numbers() const { return format == FLOAT32 ? 1 : format == BF16 ? 2 : 4; }  // in a group

    void place(const float *from, int64_t output) {
        uint32_t *to = packed + output / PANEL * groups * PANEL + output % PANEL;
        for (int64_t i = 0; i < inner; ++i) {
            uint32_t &group = to[i / numbers() * PANEL];
            if (format == FLOAT32) group = bits_of<uint32_t>(from[i]);
            if (format == BF16) group |= uint32_t(to_bf16(from[i])) << (16 * (i % 2));
            if (format == INT8) {
                const uint8_t whole = to_int8(from[i], 1.0f / steps[output]);
                excess[output] += ROW_OFFSET * int8_t(whole);
                group |= uint32_t(whole) << (8 * (i % 4));
            }
        }
    }
};

// Rows of activations in the format of the matrix by which they are multiplied.
struct Left {
    const Word *groups;
    int64_t row;          // groups from one row to the next
    const float *steps;   // of each row, in int8
};

class Converter {
    Buffer<uint32_t> converted;
    Buffer<float> steps;

  public:
    Left operator()(const Matrix &matrix, const float *x, int64_t stride, int64_t rows) {
        if (matrix.format == FLOAT32) return {(const Word *)x, stride, nullptr};
        Word *to = converted.take(rows * matrix.groups);
        float *step = steps.take(rows);
        for (int64_t row = 0; row < rows; ++row) {
            const float *from = x + row * stride;
            to[(row + 1) * matrix.groups - 1] = 0;  // the last group may be partly filled
            if (matrix.format == BF16) {
                uint16_t *half = (uint16_t *)(to + row * matrix.groups);
#pragma omp simd
                for (int64_t i = 0; i < matrix.inner; ++i) half[i] = to_bf16(from[i]);
            } else {
                uint8_t *byte = (uint8_t *)(to + row * matrix.groups);
                step[row] = int8_step(from, matrix.inner);
                float per_step = 1.0f / step[row];
#pragma omp simd
                for (int64_t i = 0; i < matrix.inner; ++i) byte[i] = uint8_t(to_int8(from[i], per_step) + ROW_OFFSET);
            }
        }
        return {to, matrix.groups, step};
    }
};

template <Format format, int ROWS, int PANELS>
inline void multiply_tile(const Matrix &matrix, Left left, int64_t panel, float *out, int64_t out_row, bool add) {
    using G = Group<format>;
    typename G::Sum sums[ROWS][PANELS] = {};
    const uint32_t *weights = matrix.panel(panel);
    const int64_t groups = matrix.groups, apart = groups * PANEL;
    for (int64_t i = 0; i < groups; ++i) {
        Bits right[PANELS];
#pragma GCC unroll 8
        for (int j = 0; j < PANELS; ++j) right[j] = *(const Bits *)(weights + j * apart + i * PANEL);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int j = 0; j < PANELS; ++j) sums[r][j] = G::add(sums[r][j], left.groups[r * left.row + i], right[j]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
        for (int j = 0; j < PANELS; ++j) {
            float *to = out + r * out_row + j * PANEL;
            Lanes y = matrix.finished(sums[r][j], panel + j, left.steps ? left.steps[r] : 1.0f);
            keep(to, add ? lanes(to) + y : y);
        }
}

template <Format format, int PANELS>
void multiply_panels(const Matrix &matrix, Left left, int64_t panel, float *out, int64_t out_row, int64_t rows,
                     bool add) {
    auto tile = [&](auto height) {
        multiply_tile<format, decltype(height)::value, PANELS>(matrix, left, panel, out, out_row, add);
        left.groups += decltype(height)::value * left.row, out += decltype(height)::value * out_row;
        if (left.steps) left.steps += decltype(height)::value;
    };
    constexpr int most = Group<format>::TILE.rows;
    // Whole tiles, then the remaining rows in powers of two. More panels than a tile has are used for at most two rows.
    if constexpr (PANELS <= Group<format>::TILE.panels) {
        for (; rows >= most; rows -= most) tile(std::integral_constant<int, most>());
        if (rows & 4 && most > 4) tile(std::integral_constant<int, 4>());
    }
    if (rows & 2) tile(std::integral_constant<int, 2>());
    if (rows & 1) tile(std::integral_constant<int, 1>());
}

template <Format format>
void multiply_all(const Matrix &matrix, Left left, float *out, int64_t out_row, int64_t rows, bool add, Team &team) {
    // With few rows, more sums at a time hide the latency of loading the weights.
    const int64_t wide = rows <= 2 ? 4 : Group<format>::TILE.panels, blocks = (matrix.panels + wide - 1) / wide;
    const int64_t work = rows * matrix.outputs * matrix.groups;
    team.share(blocks, 1, work > WORTH_SHARING, [&](int64_t block, int) {
        int64_t panel = block * wide, last = std::min(panel + wide, matrix.panels);
        while (panel < last) {
            float *to = out + panel * PANEL;
            switch (last - panel) {
            case 1: multiply_panels<format, 1>(matrix, left, panel, to, out_row, rows, add); panel += 1; break;
            case 2: multiply_panels<format, 2>(matrix, left, panel, to, out_row, rows, add); panel += 2; break;
            case 3: multiply_panels<format, 3>(matrix, left, panel, to, out_row, rows, add); panel += 3; break;
            default: multiply_panels<format, 4>(matrix, left, panel, to, out_row, rows, add); panel += 4;
            }
        }
    });
}

// out (rows, outputs) = x (rows, inner) W^T + bias, or added to out. A row of `out` has space for whole panels.
inline void multiply(const Matrix &matrix, Left left, float *out, int64_t out_row, int64_t rows, bool add,
                     Team &team) {
    switch (matrix.format) {
    case FLOAT32: return multiply_all<FLOAT32>(matrix, left, out, out_row, rows, add, team);
    case BF16: return multiply_all<BF16>(matrix, left, out, out_row, rows, add, team);
    case INT8: return multiply_all<INT8>(matrix, left, out, out_row, rows, add, team);
    }
}

}  // namespace
