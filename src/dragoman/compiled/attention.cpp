// `attend` of model/attention_backends.py, on packed rows of tokens, in float32. It works sentence by sentence and head
// by head, so nothing needs padding. Only a block of weights is in memory at a time; the backward pass recomputes them.

#include "kernels.h"

namespace {

constexpr int64_t BLOCK = 32;  // queries whose weights are in memory at a time

int64_t full(int64_t width) { return rounded_up(width, LANES); }

// Products of small matrices

struct Left { const float *start; int64_t row, step; };  // element (i, j) is start[i * row + j * step]

template <int ROWS, int VECTORS>
inline void multiply_tile(Left a, const float *b, int64_t b_row, float *c, int64_t c_row, int64_t inner, bool add) {
    Lanes sums[ROWS][VECTORS];
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j) sums[i][j] = add ? lanes(c + i * c_row + j * LANES) : Lanes{};
    for (int64_t k = 0; k < inner; ++k) {
        Lanes left[ROWS];
        for (int i = 0; i < ROWS; ++i) left[i] = all(a.start[i * a.row + k * a.step]);
        for (int j = 0; j < VECTORS; ++j) {
            Lanes right = lanes(b + k * b_row + j * LANES);
            for (int i = 0; i < ROWS; ++i) sums[i][j] = fused(left[i], right, sums[i][j]);
        }
    }
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < VECTORS; ++j) keep(c + i * c_row + j * LANES, sums[i][j]);
}

template <int VECTORS>
void multiply_columns(Left a, const float *b, int64_t b_row, float *c, int64_t c_row, int64_t rows, int64_t inner,
                      bool add) {
    int64_t i = 0;
    for (; i < rows - 3; i += 4, a.start += 4 * a.row)
        multiply_tile<4, VECTORS>(a, b, b_row, c + i * c_row, c_row, inner, add);
    if (rows - i == 3) multiply_tile<3, VECTORS>(a, b, b_row, c + i * c_row, c_row, inner, add);
    if (rows - i == 2) multiply_tile<2, VECTORS>(a, b, b_row, c + i * c_row, c_row, inner, add);
    if (rows - i == 1) multiply_tile<1, VECTORS>(a, b, b_row, c + i * c_row, c_row, inner, add);
}

// c (rows, columns) = a (rows, inner) b (inner, columns), or added to c. `columns` is a multiple of LANES.
void multiply(Left a, const float *b, int64_t b_row, float *c, int64_t c_row, int64_t rows, int64_t inner,
              int64_t columns, bool add = false) {
    constexpr int WIDE = LANES == 16 ? 4 : 2;  // AVX-512 has 32 registers for the sums; others would spill to memory
    int64_t j = 0;
    for (; j + WIDE * LANES <= columns; j += WIDE * LANES)
        multiply_columns<WIDE>(a, b + j, b_row, c + j, c_row, rows, inner, add);
    for (; j + 2 * LANES <= columns; j += 2 * LANES)
        multiply_columns<2>(a, b + j, b_row, c + j, c_row, rows, inner, add);
    for (; j < columns; j += LANES) multiply_columns<1>(a, b + j, b_row, c + j, c_row, rows, inner, add);
}

// Transposes a square of lanes by swapping halves at every power of two.
inline void transpose_square(Lanes *square) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
    for (int step = 1; step < LANES; step *= 2) {
        Wholes low{}, high{};
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i) {
            low[i] = i & step ? LANES + i - step : i;
            high[i] = i & step ? LANES + i : i + step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; ++i) {
            if (i & step) continue;
            Lanes a = square[i], b = square[i + step];
            square[i] = __builtin_shuffle(a, b, low);
            square[i + step] = __builtin_shuffle(a, b, high);
        }
    }
#else
    for (int i = 0; i < LANES; ++i)
        for (int j = 0; j < i; ++j) {
            float x = square[i][j];
            square[i][j] = square[j][i];
            square[j][i] = x;
        }
#endif
}

// Transposes (rows, columns) to (columns, rows), both padded to a multiple of LANES; the padding repeats the last row.
void transpose(const float *from, int64_t columns, float *to, int64_t to_row, int64_t rows) {
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j += LANES) {
            Lanes square[LANES];
            for (int k = 0; k < LANES; ++k) square[k] = lanes(from + std::min(i + k, rows - 1) * columns + j);
            transpose_square(square);
            for (int k = 0; k < LANES; ++k) keep(to + (j + k) * to_row + i, square[k]);
        }
}

struct Rope { const T *cosine, *sine; };  // of one row; null: no rotation

// Loads and rotates one head of a row. Prefetches the next head, because rows are too far apart for the processor's own
// prefetching.
inline void load_row(const T *from, float *to, int64_t width, float scale, Rope rope) {
    for (int64_t i = 0; i < width; i += 64 / sizeof(T)) __builtin_prefetch(from + width + i);
    if (rope.sine) {
        int64_t half = width / 2;
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
            float a = load(from[i]) * scale, b = load(from[i + half]) * scale;
            to[i] = a * load(rope.cosine[i]) - b * load(rope.sine[i]);
            to[i + half] = b * load(rope.cosine[i]) + a * load(rope.sine[i]);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) to[i] = load(from[i]) * scale;
    }
    for (int64_t i = width; i < full(width); ++i) to[i] = 0.0f;
}

// Stores one head of a row, rotated back: the gradient of `load_row`.
inline void store_row(const float *from, T *to, int64_t width, float scale, Rope rope) {
    if (rope.sine) {
        int64_t half = width / 2;
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
            float a = from[i] * scale, b = from[i + half] * scale;
            store(to[i], a * load(rope.cosine[i]) + b * load(rope.sine[i]));
            store(to[i + half], b * load(rope.cosine[i]) - a * load(rope.sine[i]));
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store(to[i], from[i] * scale);
    }
}

}  // namespace

// `_Layout` of model/attention_backends.py. Strides count elements. The keys of a sentence begin at its index times
// `key_sentence`, or, if that is 0, at the row of its first token. Values are laid out like keys.
struct Layout {
    const void *queries, *keys;  // of each sentence, int64
    const void *tokens;          // of each row of queries, int64; null: no dropout
    const void *cosine, *sine;   // of each row of queries and of keys; null: no rotation
    int64_t sentences, heads, key_heads, width, query_row, key_row, key_head, key_sentence;
    float scale, kept_scale;
    uint32_t noise;
    int32_t threshold;
    bool causal;  // a query sees the keys up to its own position; a sentence's last query is at its last key
};

namespace {

// One sentence and key head, with the query heads that it serves.
struct Part {
    const Layout &of;
    int64_t sentence, key_head, first_query, first_key, queries, keys;

    int64_t first_head() const { return key_head * (of.heads / of.key_heads); }
    int64_t last_head() const { return first_head() + of.heads / of.key_heads; }
    int64_t keys_offset() const {
        return (of.key_sentence ? sentence * of.key_sentence : first_key * of.key_row) + key_head * of.key_head;
    }
    int64_t seen(int64_t query) const { return of.causal ? std::max<int64_t>(0, keys - queries + query + 1) : keys; }
    Rope rope(int64_t row) const {
        return of.sine ? Rope{(const T *)of.cosine + row * of.width, (const T *)of.sine + row * of.width} : Rope{};
    }
};

// Runs `work` on every sentence and key head, shared among threads. Returns false if memory runs out.
template <class Work> bool for_parts(const Layout &of, Work work) {
    const int64_t *queries = (const int64_t *)of.queries, *keys = (const int64_t *)of.keys;
    std::vector<Part> parts;
    if (!succeeds([&] { parts.reserve(of.sentences * of.key_heads); })) return false;
    int64_t first_query = 0, first_key = 0;
    bool done = true;
    for (int64_t sentence = 0; sentence < of.sentences; ++sentence) {
        for (int64_t head = 0; head < of.key_heads; ++head)
            parts.push_back({of, sentence, head, first_query, first_key, queries[sentence], keys[sentence]});
        first_query += queries[sentence];
        first_key += keys[sentence];
    }
// Sentences differ in length, so threads take four parts at a time.
#pragma omp parallel for schedule(dynamic, 4) firstprivate(work) reduction(&& : done) \
    if (first_query * of.heads * of.width > WORTH_SHARING)
    for (size_t i = 0; i < parts.size(); ++i) done = done && succeeds([&] { work(parts[i]); });
    return done;
}

// Loads the keys or values of a part as float32.
void load_keys(const Part &part, const T *from, float *to, bool rotated) {
    from += part.keys_offset();
    for (int64_t i = 0; i < part.keys; ++i)
        load_row(from + i * part.of.key_row, to + i * full(part.of.width), part.of.width, 1.0f,
                 rotated ? part.rope(part.first_key + i) : Rope{});
}

// Loads some queries of a part, and computes their weights over its transposed keys.
void weigh(const Part &part, const T *query, int64_t head, int64_t first, int64_t count, const float *keys_across,
           float *rows, float *weights) {
    int64_t width = part.of.width, wide = full(width), padded = full(part.keys);
    for (int64_t i = 0; i < count; ++i) {
        int64_t row = part.first_query + first + i;
        load_row(query + row * part.of.query_row + head * width, rows + i * wide, width, part.of.scale, part.rope(row));
    }
    int64_t columns = full(part.seen(first + count - 1));
    multiply({rows, wide, 1}, keys_across, padded, weights, padded, count, width, columns);
    for (int64_t i = 0; i < count; ++i) {
        int64_t seen = part.seen(first + i);
        softmax(weights + i * padded, seen);
        std::fill(weights + i * padded + full(seen), weights + i * padded + columns, 0.0f);
    }
}

// `drop_weights` of model/dropout.py, and its `_FEATURE_STRIDE`
constexpr int64_t FEATURE_STRIDE = 65536;

void drop(const Part &part, int64_t head, int64_t first, int64_t count, const float *weights, float *dropped) {
    int64_t padded = full(part.keys), seen = part.seen(first + count - 1);
    for (int64_t i = 0; i < count; ++i) {
        uint32_t hash = row_hash(part.of.noise, ((const int64_t *)part.of.tokens)[part.first_query + first + i]);
#pragma omp simd
        for (int64_t j = 0; j < seen; ++j)
            dropped[i * padded + j] = weights[i * padded + j] * part.of.kept_scale *
                                    keeps(hash, uint32_t(head * FEATURE_STRIDE + j), part.of.threshold);
    }
}

// Allocates pieces of a thread's scratch space.
struct Scratch {
    float *next;
    explicit Scratch(int64_t floats) : next(scratch(floats)) {}
    float *take(int64_t floats) { return (next += floats) - floats; }
};

}  // namespace

extern "C" {

bool attention(const T *query, const T *key, const T *value, T *mixed, const Layout *of) {
    return for_parts(*of, [=](const Part &part) {
        int64_t width = of->width, wide = full(width), padded = full(part.keys), held = part.keys * wide;
        Scratch scratch(2 * held + wide * padded + BLOCK * (2 * wide + padded));
        float *keys = scratch.take(held), *values = scratch.take(held), *keys_across = scratch.take(wide * padded);
        float *rows = scratch.take(BLOCK * wide), *weights = scratch.take(BLOCK * padded);
        float *sums = scratch.take(BLOCK * wide);
        load_keys(part, key, keys, true);
        load_keys(part, value, values, false);
        transpose(keys, wide, keys_across, padded, part.keys);
        for (int64_t head = part.first_head(); head < part.last_head(); ++head)
            for (int64_t first = 0; first < part.queries; first += BLOCK) {
                int64_t count = std::min(BLOCK, part.queries - first), seen = part.seen(first + count - 1);
                weigh(part, query, head, first, count, keys_across, rows, weights);
                if (of->tokens) drop(part, head, first, count, weights, weights);
                multiply({weights, padded, 1}, values, wide, sums, wide, count, seen, wide);
                T *to = mixed + ((part.first_query + first) * of->heads + head) * width;
                for (int64_t i = 0; i < count; ++i)
                    store_row(sums + i * wide, to + i * of->heads * width, width, 1.0f, {});
            }
    });
}

// `gradient` has the layout of `mixed`. The gradients of queries, keys and values have separate row strides.
//
// With scores S = Q K^T, weights P = softmax(S) and the result O = P V, a gradient dO gives dV = P^T dO and dP = dO
// V^T; then dS = P (dP - the sum of P dP over a row), dQ = dS K and dK = dS^T Q. With dropout, dV uses the dropped
// weights, and dP is dropped with the same mask.
bool attention_back(const T *query, const T *key, const T *value, const T *gradient, T *d_query, T *d_key,
                    T *d_value, const Layout *of, int64_t d_query_row, int64_t d_key_row) {
    return for_parts(*of, [=](const Part &part) {
        int64_t width = of->width, wide = full(width), padded = full(part.keys), held = part.keys * wide;
        Scratch scratch(4 * held + 2 * wide * padded + BLOCK * (3 * wide + 3 * padded));
        float *keys = scratch.take(held), *values = scratch.take(held);
        float *d_keys = scratch.take(held), *d_values = scratch.take(held);
        float *keys_across = scratch.take(wide * padded), *values_across = scratch.take(wide * padded);
        float *rows = scratch.take(BLOCK * wide), *d_rows = scratch.take(BLOCK * wide);
        float *d_mixed = scratch.take(BLOCK * wide), *weights = scratch.take(BLOCK * padded);
        float *d_weights = scratch.take(BLOCK * padded), *dropped = scratch.take(BLOCK * padded);
        load_keys(part, key, keys, true);
        load_keys(part, value, values, false);
        transpose(keys, wide, keys_across, padded, part.keys);
        transpose(values, wide, values_across, padded, part.keys);
        std::fill(d_keys, d_keys + 2 * held, 0.0f);
        for (int64_t head = part.first_head(); head < part.last_head(); ++head)
            for (int64_t first = 0; first < part.queries; first += BLOCK) {
                int64_t count = std::min(BLOCK, part.queries - first), seen = part.seen(first + count - 1);
                weigh(part, query, head, first, count, keys_across, rows, weights);
                const T *from = gradient + ((part.first_query + first) * of->heads + head) * width;
                for (int64_t i = 0; i < count; ++i)
                    load_row(from + i * of->heads * width, d_mixed + i * wide, width, 1.0f, {});
                multiply({d_mixed, wide, 1}, values_across, padded, d_weights, padded, count, width, full(seen));  // dP
                if (of->tokens) {
                    drop(part, head, first, count, weights, dropped);
                    drop(part, head, first, count, d_weights, d_weights);
                }
                const float *mixing = of->tokens ? dropped : weights;
                multiply({mixing, 1, padded}, d_mixed, wide, d_values, wide, seen, count, wide, true);  // dV
                for (int64_t i = 0; i < count; ++i) {  // dS, in place of dP
                    float *share = weights + i * padded, *d_share = d_weights + i * padded, mean = 0.0f;
#pragma omp simd reduction(+ : mean)
                    for (int64_t j = 0; j < seen; ++j) mean += share[j] * d_share[j];
#pragma omp simd
                    for (int64_t j = 0; j < seen; ++j) d_share[j] = share[j] * (d_share[j] - mean);
                }
                multiply({d_weights, padded, 1}, keys, wide, d_rows, wide, count, seen, wide);  // dQ
                multiply({d_weights, 1, padded}, rows, wide, d_keys, wide, seen, count, wide, true);  // dK
                for (int64_t i = 0; i < count; ++i) {
                    int64_t row = part.first_query + first + i;
                    store_row(d_rows + i * wide, d_query + row * d_query_row + head * width, width, of->scale,
                              part.rope(row));
                }
            }
        for (int64_t i = 0; i < part.keys; ++i) {
            int64_t row = part.first_key + i, offset = row * d_key_row + part.key_head * width;
            store_row(d_keys + i * wide, d_key + offset, width, 1.0f, part.rope(row));
            store_row(d_values + i * wide, d_value + offset, width, 1.0f, {});
        }
    });
}

}  // extern "C"
