// The elementwise arithmetic of a training step, each in one pass over memory.
//
// torch does each of these in several calls, every one of which reads and writes the whole tensor. Everything here has
// a plain twin in PyTorch, in the file named above it, that is the definition; what stands here is only faster. Sums
// are taken in float32. Rows are shared out among threads; what is summed over rows is summed in a fixed order, so that
// any number of threads gives the same bits.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

struct bf16 { uint16_t bits; };

using T = ELEMENT;  // float or bf16: the file is compiled once for each

template <class To, class From> inline To bits_of(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }

inline float load(float x) { return x; }
inline float load(bf16 x) { return bits_of<float>(uint32_t(x.bits) << 16); }
inline void store(float &to, float x) { to = x; }
inline void store(bf16 &to, float x) {  // to the nearest, ties to even; a NaN stays one
    uint32_t bits = bits_of<uint32_t>(x);
    to.bits = uint16_t(x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// e^x to 2 units in the last place (Cephes' polynomial); 0 below -87, infinite above 88.7, NaN for NaN.
inline float exponential(float x) {
    float bounded = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
    float shifted = bounded * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to a whole number
    float whole = shifted - 12582912.0f;
    float rest = bounded - whole * 0.693359375f - whole * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * rest + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * rest * rest + rest + 1.0f;
    float power = bits_of<float>((bits_of<int32_t>(shifted) - 0x4B400000 + 127) << 23);
    float result = y * power;
    return x < -87.3f ? 0.0f : x > 88.7f ? __builtin_inff() : result;
}

// Room for one row of float32, of each thread its own.
inline float *scratch(int64_t width) {
    thread_local std::vector<float> room;
    if (int64_t(room.size()) < width) room.resize(width);
    return room.data();
}

constexpr int64_t WORTH_SHARING = 1 << 14;  // elements; fewer are done before a second thread wakes up

// `work` is each thread's own: shared, its pointers would be read again for every element, and loops take thrice as long.
template <class Work> void for_rows(int64_t rows, int64_t width, Work work) {
#pragma omp parallel for schedule(static) firstprivate(work) if (rows * width > WORTH_SHARING)
    for (int64_t row = 0; row < rows; ++row) work(row);
}

// Sums `width` columns over rows, in BLOCKS parts that are added in order, whatever the number of threads.
constexpr int64_t BLOCKS = 32;

template <class Work> void sum_rows(int64_t rows, int64_t width, float *total, Work work) {
    std::vector<float> parts(BLOCKS * width, 0.0f);
#pragma omp parallel for schedule(static) firstprivate(work) if (rows * width > WORTH_SHARING)
    for (int64_t block = 0; block < BLOCKS; ++block)
        for (int64_t row = rows * block / BLOCKS; row < rows * (block + 1) / BLOCKS; ++row)
            work(row, &parts[block * width]);
    std::fill(total, total + width, 0.0f);
    for (int64_t block = 0; block < BLOCKS; ++block)
        for (int64_t i = 0; i < width; ++i) total[i] += parts[block * width + i];
}

// dropout.py: _row_hash and _keep

inline uint32_t row_hash(uint32_t key, int64_t token) {
    uint32_t x = (uint32_t(token) + key) * 0xC2B2AE35u;
    x ^= uint32_t(int32_t(x) >> 15);
    x *= 0x85EBCA6Bu;
    x ^= uint32_t(int32_t(x) >> 13);
    return x * 0x9E3779B1u;
}

// 1 or 0, as a number: a condition around the load of x would keep the loop from being vectorised.
inline float keeps(uint32_t row, uint32_t feature, int32_t threshold) {
    uint32_t x = (row ^ (feature * 0x9E3779B1u)) * 0x85EBCA6Bu;
    x ^= uint32_t(int32_t(x) >> 13);
    return int32_t(x * 0xC2B2AE35u) >= threshold ? 1.0f : 0.0f;
}

// positions.py: rotate
inline void turn(const T *x, T *to, const T *cosine, const T *sine, int64_t half, float sign) {
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
        float a = load(x[i]), b = load(x[i + half]), along = load(cosine[i]), across = sign * load(sine[i]);
        store(to[i], a * along - b * across);
        store(to[i + half], b * along + a * across);
    }
}

}  // namespace

extern "C" {

// dropout.py: drop. Where `base` is not null, the result is added to it.

void drop(const T *x, const T *base, T *out, const int64_t *tokens, int64_t rows, int64_t width, uint32_t key,
          int32_t threshold, float scale) {
    for_rows(rows, width, [=](int64_t row) {
        uint32_t hash = row_hash(key, tokens[row]);
        const T *from = x + row * width, *under = base ? base + row * width : nullptr;
        T *to = out + row * width;
        if (under) {
#pragma omp simd
            for (int64_t i = 0; i < width; ++i)
                store(to[i], load(under[i]) + load(from[i]) * scale * keeps(hash, uint32_t(i), threshold));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; ++i)
                store(to[i], load(from[i]) * scale * keeps(hash, uint32_t(i), threshold));
        }
    });
}

// layers.py: RMSNorm

void rms_norm(const T *x, const T *weight, T *out, float *inverse, int64_t rows, int64_t width, float epsilon) {
    for_rows(rows, width, [=](int64_t row) {
        const T *from = x + row * width;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; ++i) sum += load(from[i]) * load(from[i]);
        float scale = 1.0f / __builtin_sqrtf(sum / float(width) + epsilon);
        inverse[row] = scale;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store(out[row * width + i], load(from[i]) * scale * load(weight[i]));
    });
}

void rms_norm_back(const T *gradient, const T *x, const T *weight, const float *inverse, T *of_x, float *of_weight,
                   int64_t rows, int64_t width) {
    sum_rows(rows, width, of_weight, [=](int64_t row, float *sums) {
        const T *from = x + row * width, *given = gradient + row * width;
        float scale = inverse[row], along = 0.0f;
#pragma omp simd reduction(+ : along)
        for (int64_t i = 0; i < width; ++i) along += load(given[i]) * load(weight[i]) * load(from[i]);
        along *= scale * scale / float(width);
#pragma omp simd
        for (int64_t i = 0; i < width; ++i)
            store(of_x[row * width + i], scale * (load(given[i]) * load(weight[i]) - load(from[i]) * along));
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) sums[i] += load(given[i]) * load(from[i]) * scale;
    });
}

// attention.py: masked_softmax. A row of `scores` is one query of one head; `visible` repeats over heads, and over
// sentences or queries where its stride is 0.

void masked_softmax(const T *scores, const bool *visible, T *out, int64_t sentences, int64_t heads, int64_t queries,
                    int64_t keys, int64_t sentence_stride, int64_t query_stride, float scale) {
    int64_t whole = (keys + 15) / 16 * 16;  // exponentials in full vectors only: rows are short, and their rests dear
    for_rows(sentences * heads * queries, keys, [=](int64_t row) {
        const T *from = scores + row * keys;
        const bool *seen = visible + row / (heads * queries) * sentence_stride + row % queries * query_stride;
        float *shares = scratch(whole), highest = -__builtin_inff(), sum = 0.0f;
        std::fill(shares + keys, shares + whole, -__builtin_inff());
#pragma omp simd reduction(max : highest)
        for (int64_t i = 0; i < keys; ++i) {
            float score = load(from[i]) * scale;
            shares[i] = seen[i] ? score : -__builtin_inff();
            highest = std::max(highest, shares[i]);
        }
        highest = std::max(highest, -1e30f);  // a query that sees nothing gets zeros
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < whole; ++i) {
            shares[i] = exponential(shares[i] - highest);
            sum += shares[i];
        }
        float each = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma omp simd
        for (int64_t i = 0; i < keys; ++i) {
            float weight = shares[i] * each;
            store(out[row * keys + i], seen[i] ? weight : 0.0f);  // a NaN stands on visible keys
        }
    });
}

void masked_softmax_back(const T *gradient, const T *weights, T *out, int64_t rows, int64_t keys, float scale) {
    for_rows(rows, keys, [=](int64_t row) {
        const T *given = gradient + row * keys, *share = weights + row * keys;
        float mean = 0.0f;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < keys; ++i) mean += load(given[i]) * load(share[i]);
#pragma omp simd
        for (int64_t i = 0; i < keys; ++i) store(out[row * keys + i], scale * load(share[i]) * (load(given[i]) - mean));
    });
}

// loss.py: logits become the gradient of the smoothed loss; both losses of each row are left in `losses` (rows, 2).

void smoothed_loss(T *logits, const int64_t *labels, float *losses, int64_t rows, int64_t width, float smoothing) {
    for_rows(rows, width, [=](int64_t row) {
        T *row_of = logits + row * width;
        float *shares = scratch(width), highest = -__builtin_inff(), sum = 0.0f, total = 0.0f;
#pragma omp simd reduction(max : highest) reduction(+ : total)
        for (int64_t i = 0; i < width; ++i) {
            float x = load(row_of[i]);
            highest = std::max(highest, x);
            total += x;
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; ++i) {
            shares[i] = exponential(load(row_of[i]) - highest);
            sum += shares[i];
        }
        int64_t label = labels[row];
        float norm = highest + __builtin_logf(sum), picked = load(row_of[label]), each = smoothing / float(width);
        losses[2 * row] = norm - (1.0f - smoothing) * picked - smoothing * (total / float(width));
        losses[2 * row + 1] = norm - picked;
        float share = 1.0f / sum;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store(row_of[i], shares[i] * share - each);
        store(row_of[label], shares[label] * share - each - (1.0f - smoothing));
    });
}

// heads.py: rows (N, heads, K) to padded (B, heads, T, K), with zeros where there is no token, and back. With sines, rows
// are turned by position on the way, and turned back on the way back.

void to_heads(T *rows, const int64_t *lengths, T *padded, const T *cosine, const T *sine, int64_t sentences,
              int64_t longest, int64_t heads, int64_t width, int64_t row_stride, bool back) {
    std::vector<int64_t> firsts(sentences + 1, 0);
    for (int64_t i = 0; i < sentences; ++i) firsts[i + 1] = firsts[i] + lengths[i];
    for_rows(sentences * heads, longest * width, [=, &firsts](int64_t one) {
        int64_t sentence = one / heads, head = one % heads, length = lengths[sentence];
        for (int64_t i = 0; i < length; ++i) {
            int64_t token = firsts[sentence] + i;
            T *row = rows + token * row_stride + head * width, *place = padded + (one * longest + i) * width;
            const T *from = back ? place : row;
            T *to = back ? row : place;
            if (sine) turn(from, to, cosine + token * width, sine + token * width, width / 2, back ? -1.0f : 1.0f);
            else std::memcpy(to, from, width * sizeof(T));
        }
        if (!back) std::memset(padded + (one * longest + length) * width, 0, (longest - length) * width * sizeof(T));
    });
}

}  // extern "C"
