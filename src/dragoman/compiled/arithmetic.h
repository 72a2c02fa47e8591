// Operations between matrix products: norms, activations, positions and attention, one row at a time, in float32.

#pragma once

#include "products.h"

namespace {

// e^x for any x; beyond e^87 it is e^87.
inline Lanes exponential(Lanes x) {
    Lanes y = exponential_below_one(x > 0.0f ? -x : x);
    return x > 0.0f ? 1.0f / y : y;
}

// The error function, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
inline Lanes error_function(Lanes x) {
    Lanes size = x < 0.0f ? -x : x, t = 1.0f / (size * 0.3275911f + 1.0f);
    Lanes y = t * 1.061405429f - 1.453152027f;
    y = y * t + 1.421413741f;
    y = y * t - 0.284496736f;
    y = (y * t + 0.254829592f) * t;
    y = 1.0f - y * exponential_below_one(-size * size);
    return x < 0.0f ? -y : y;
}

struct Norm {
    const float *weight, *bias;
};

// LayerNorm, or RMSNorm, which subtracts no mean.
inline void normalise(const float *x, float *to, int64_t width, Norm norm, bool rms, float epsilon) {
    float sum = 0.0f, squares = 0.0f;
    if (!rms) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; ++i) sum += x[i];
    }
    float mean = sum / float(width);
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / std::sqrt(squares / float(width) + epsilon);
    if (norm.bias) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) to[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) to[i] = (x[i] - mean) * scale * norm.weight[i];
    }
}

enum Activation : int64_t { RELU, GELU, SILU, SWIGLU, GEGLU };

inline Lanes gelu(Lanes x) { return x * 0.5f * (error_function(x * 0.70710678f) + 1.0f); }
inline Lanes silu(Lanes x) { return x / (exponential(-x) + 1.0f); }

// Activates the hidden row of a feed-forward network in place; a gated one holds the gate first, then the gated values.
inline void activate(float *x, int64_t width, Activation kind) {
    const float *inner = x + width;
    for (int64_t i = 0; i < width; i += PANEL) {
        Lanes y = lanes(x + i);
        switch (kind) {
        case RELU: y = y > 0.0f ? y : y != y ? y : Lanes{}; break;
        case GELU: y = gelu(y); break;
        case SILU: y = silu(y); break;
        case SWIGLU: y = silu(y) * lanes(inner + i); break;
        case GEGLU: y = gelu(y) * lanes(inner + i); break;
        }
        keep(x + i, y);
    }
}

// Cosines and sines of rotary positions, or sinusoids, for every position so far; grows by doubling.
class Angles {
    std::vector<float> table;
    int64_t width, known = 0;
    double base;
    bool rotary;

  public:
    Angles(int64_t width_, double base_, bool rotary_) : width(width_), base(base_), rotary(rotary_) {}
    // Rotary: width / 2 cosines, then width / 2 sines. Otherwise sines and cosines, interleaved.
    const float *at(int64_t position) const { return &table[position * width]; }
    void reach(int64_t positions) {
        if (positions <= known) return;
        positions = std::max(positions, 2 * known);
        table.resize(positions * width);
        for (int64_t i = 0; i < width / 2; ++i) {
            double step = std::pow(base, double(2 * i) / double(width));
            for (int64_t position = known; position < positions; ++position) {
                float angle = float(double(position) / step), *to = &table[position * width];
                to[rotary ? i : 2 * i + 1] = std::cos(angle);
                to[rotary ? i + width / 2 : 2 * i] = std::sin(angle);
            }
        }
        known = positions;
    }
};

// Rotates `heads` heads of a row by the angles of its position (Su et al. 2021).
inline void rotate(float *x, int64_t heads, int64_t width, const float *angles) {
    const int64_t half = width / 2;
    for (; heads > 0; --heads, x += width) {
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
            float a = x[i], b = x[i + half];
            x[i] = a * angles[i] - b * angles[i + half];
            x[i + half] = b * angles[i] + a * angles[i + half];
        }
    }
}

// Addresses of the keys of a row: `at[i] + offset` for i below `count`; the values follow the keys after `apart`.
struct Keys {
    const float *const *at;
    int64_t count, offset, apart;
};

inline void fetch(const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i += PANEL) __builtin_prefetch(x + i);
}

// Scaled dot-product attention of one row (Vaswani et al. 2017, eq. 1). `scores` has space for the scores of all heads,
// in whole panels. The loop goes over keys rather than heads, because the heads of a key are adjacent in memory. WIDTH
// is the width of a head, or 0 for any.
template <int64_t WIDTH>
inline void attend(const float *query, float *mixed, const Keys &keys, int64_t heads, int64_t key_heads, int64_t any,
                   float *scores) {
    const int64_t width = WIDTH ? WIDTH : any, padded = rounded_up(keys.count, PANEL), shared = heads / key_heads;
    const float scale = 1.0f / std::sqrt(float(width));
    for (int64_t i = 0; i < keys.count; ++i) {
        const float *k = keys.at[i] + keys.offset;
        fetch(k + keys.apart, key_heads * width);
        for (int64_t head = 0, left = shared; head < heads; ++head) {
            const float *a = query + head * width, *b = k;
            if (--left == 0) k += width, left = shared;
            float product = 0.0f;
            if (WIDTH) {
                Lanes sum = lanes(a) * lanes(b);
                for (int64_t j = PANEL; j < WIDTH; j += PANEL) sum = fused(lanes(a + j), lanes(b + j), sum);
                product = sum_of(sum);
            } else {
                for (int64_t j = 0; j < width; ++j) product += a[j] * b[j];
            }
            scores[head * padded + i] = product * scale;
        }
    }
    for (int64_t head = 0; head < heads; ++head) softmax(scores + head * padded, keys.count);
    std::fill(mixed, mixed + heads * width, 0.0f);
    for (int64_t i = 0; i < keys.count; ++i) {
        const float *v = keys.at[i] + keys.offset + keys.apart;
        for (int64_t head = 0, left = shared; head < heads; ++head) {
            float *to = mixed + head * width, share = scores[head * padded + i];
            const float *from = v;
            if (--left == 0) v += width, left = shared;
#pragma omp simd
            for (int64_t j = 0; j < width; ++j) to[j] += share * from[j];
        }
    }
}

inline void attend(const float *query, float *mixed, const Keys &keys, int64_t heads, int64_t key_heads, int64_t width,
                   float *scores) {
    switch (width) {
    case 32: return attend<32>(query, mixed, keys, heads, key_heads, width, scores);
    case 64: return attend<64>(query, mixed, keys, heads, key_heads, width, scores);
    default: return attend<0>(query, mixed, keys, heads, key_heads, width, scores);
    }
}

// A whole sequence that many queries attend to: its keys are interleaved (panels of PANEL tokens, width, PANEL), so
// that PANEL scores are summed at a time; its values (count, width) follow.
struct Sequence {
    const float *keys, *values;
    int64_t count, width;

    static int64_t size(int64_t count, int64_t width) { return (rounded_up(count, PANEL) + count) * width; }

    // Copies rows of keys, each followed by its values, to `memory`.
    Sequence(const float *rows, int64_t row, int64_t count_, int64_t width_, float *memory)
        : keys(memory), values(memory + rounded_up(count_, PANEL) * width_), count(count_), width(width_) {
        std::memset(memory, 0, rounded_up(count, PANEL) * width * sizeof(float));
        float *copies = memory + rounded_up(count, PANEL) * width;
        for (int64_t i = 0; i < count; ++i, rows += row, copies += width) {
            float *lane = memory + i / PANEL * PANEL * width + i % PANEL;
            for (int64_t j = 0; j < width; ++j) lane[j * PANEL] = rows[j];
            std::memcpy(copies, rows + width, width * sizeof(float));
        }
    }
};

// Rows of queries, and the addresses of their results.
struct Queries {
    const float *from;
    int64_t from_row;
    float *to;
    int64_t to_row;
};

#ifdef __AVX512BW__
constexpr int TOGETHER = 4;  // queries that attend to one sequence at a time
#else
constexpr int TOGETHER = 1;
#endif
constexpr int MOST_SCORES = 8;  // rows of scores that are held at a time

// Attention of HEADS heads of QUERIES rows, interleaved to hide the latency of dependent additions.
template <int64_t WIDTH, int QUERIES, int HEADS>
inline void attend(const Queries &rows, const Sequence &to, int64_t head, int64_t shared, int64_t any, float *scores) {
    static_assert(QUERIES * HEADS <= MOST_SCORES);
    const int64_t width = WIDTH ? WIDTH : any, padded = rounded_up(to.count, PANEL);
    const float scale = 1.0f / std::sqrt(float(width)), *query = rows.from + head * width;
    int64_t offset[HEADS];
    for (int h = 0; h < HEADS; ++h) offset[h] = (head + h) / shared * width;
    for (int64_t i = 0; i < to.count; i += PANEL) {
        Lanes sums[HEADS][QUERIES] = {};
        for (int64_t j = 0; j < width; ++j)
#pragma GCC unroll 8
            for (int h = 0; h < HEADS; ++h) {
                const Lanes key = lanes(to.keys + i * to.width + (offset[h] + j) * PANEL);
#pragma GCC unroll 8
                for (int q = 0; q < QUERIES; ++q)
                    sums[h][q] = fused(query[q * rows.from_row + h * width + j], key, sums[h][q]);
            }
#pragma GCC unroll 8
        for (int h = 0; h < HEADS; ++h)
#pragma GCC unroll 8
            for (int q = 0; q < QUERIES; ++q) keep(scores + (h * QUERIES + q) * padded + i, sums[h][q] * scale);
    }
    for (int n = 0; n < HEADS * QUERIES; ++n) softmax(scores + n * padded, to.count);
    float *mixed = rows.to + head * width;
    if constexpr (WIDTH != 0) {
        constexpr int VECTORS = WIDTH / PANEL;
        Lanes sums[HEADS][QUERIES][VECTORS] = {};
        for (int64_t i = 0; i < to.count; ++i)
#pragma GCC unroll 8
            for (int h = 0; h < HEADS; ++h)
#pragma GCC unroll 8
                for (int l = 0; l < VECTORS; ++l) {
                    const Lanes value = lanes(to.values + i * to.width + offset[h] + l * PANEL);
#pragma GCC unroll 8
                    for (int q = 0; q < QUERIES; ++q)
                        sums[h][q][l] = fused(scores[(h * QUERIES + q) * padded + i], value, sums[h][q][l]);
                }
#pragma GCC unroll 8
        for (int h = 0; h < HEADS; ++h)
#pragma GCC unroll 8
            for (int q = 0; q < QUERIES; ++q)
#pragma GCC unroll 8
                for (int l = 0; l < VECTORS; ++l) keep(mixed + q * rows.to_row + h * width + l * PANEL, sums[h][q][l]);
    } else {
        for (int h = 0; h < HEADS; ++h)
            for (int q = 0; q < QUERIES; ++q) {
                float *own = mixed + q * rows.to_row + h * width;
                std::fill(own, own + width, 0.0f);
                for (int64_t i = 0; i < to.count; ++i) {
                    const float share = scores[(h * QUERIES + q) * padded + i];
                    const float *from = to.values + i * to.width + offset[h];
#pragma omp simd
                    for (int64_t j = 0; j < width; ++j) own[j] += share * from[j];
                }
            }
    }
}

// Attention of QUERIES rows to a whole sequence. `scores` has space for MOST_SCORES rows, in whole panels. The result
// of a row does not depend on other rows.
template <int64_t WIDTH, int QUERIES>
inline void attend(const Queries &rows, const Sequence &to, int64_t heads, int64_t width, float *scores) {
    const int64_t shared = heads * width / to.width;
    int64_t head = 0;
    if constexpr (QUERIES == 1)
        for (; head + 4 <= heads; head += 4) attend<WIDTH, QUERIES, 4>(rows, to, head, shared, width, scores);
    if constexpr (QUERIES * WIDTH <= 128)
        for (; head + 2 <= heads; head += 2) attend<WIDTH, QUERIES, 2>(rows, to, head, shared, width, scores);
    for (; head < heads; ++head) attend<WIDTH, QUERIES, 1>(rows, to, head, shared, width, scores);
}

template <int QUERIES>
inline void attend(const Queries &rows, const Sequence &to, int64_t heads, int64_t width, float *scores) {
    switch (width) {
    case 32: return attend<32, QUERIES>(rows, to, heads, width, scores);
    case 64: return attend<64, QUERIES>(rows, to, heads, width, scores);
    default: return attend<0, QUERIES>(rows, to, heads, width, scores);
    }
}

// The logarithm of the sum of e^x, which is subtracted from logits to obtain log-probabilities.
inline float log_sum_exp(const float *x, int64_t count) {
    const Exponentials result = exponentials(x, count);
    return result.largest + std::log(result.sum);
}

// The best `count` of a row of logits in order, the lower id first among equals.
inline void best_of(const float *x, int64_t width, int64_t count, float *values, int64_t *tokens) {
    int64_t held = 0;
    float worst = -__builtin_inff();
    auto take = [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            if (held == count && !(x[i] > worst)) continue;
            int64_t place = held < count ? held++ : count - 1;
            for (; place > 0 && x[i] > values[place - 1]; --place)
                values[place] = values[place - 1], tokens[place] = tokens[place - 1];
            values[place] = x[i], tokens[place] = i;
            worst = values[held - 1];
        }
    };
    int64_t i = std::min(rounded_up(count, 4 * PANEL), width);
    take(0, i);
    for (; i + 4 * PANEL <= width; i += 4 * PANEL) {  // few blocks contain a better value
        Lanes first = larger(lanes(x + i), lanes(x + i + PANEL));
        Lanes second = larger(lanes(x + i + 2 * PANEL), lanes(x + i + 3 * PANEL));
        if (any(larger(first, second) > worst)) take(i, i + 4 * PANEL);
    }
    take(i, width);
}

}  // namespace
