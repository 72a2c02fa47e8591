// Elementwise operations of a training step, each in one pass over memory.
//
// torch needs several calls for each, and every call reads and writes the whole tensor. The definition of each function
// in PyTorch is in the file named above it. Sums are in float32. Threads share the rows, and sums over rows have a
// fixed order, so any number of threads computes the same bits. A kernel returns false if memory runs out.

#include "kernels.h"

extern "C" {

// `drop` of model/dropout.py. If `base` is not null, it is added to the result.

bool drop(const T *x, const T *base, T *out, const int64_t *tokens, int64_t rows, int64_t width, uint32_t key,
          int32_t threshold, float scale) {
    return for_rows(rows, width, [=](int64_t row) {
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

// `RMSNorm` of model/layers.py

bool rms_norm(const T *x, const T *weight, T *out, float *inverse, int64_t rows, int64_t width, float epsilon) {
    return for_rows(rows, width, [=](int64_t row) {
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

bool rms_norm_back(const T *gradient, const T *x, const T *weight, const float *inverse, T *x_gradient,
                   float *weight_gradient, int64_t rows, int64_t width) {
    return sum_rows(rows, width, weight_gradient, [=](int64_t row, float *sums) {
        const T *from = x + row * width, *g = gradient + row * width;
        // `along` is the gradient's component in the direction of x, which has no effect: a norm removes any scale of
        // x.
        float scale = inverse[row], along = 0.0f;
#pragma omp simd reduction(+ : along)
        for (int64_t i = 0; i < width; ++i) along += load(g[i]) * load(weight[i]) * load(from[i]);
        along *= scale * scale / float(width);
#pragma omp simd
        for (int64_t i = 0; i < width; ++i)
            store(x_gradient[row * width + i], scale * (load(g[i]) * load(weight[i]) - load(from[i]) * along));
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) sums[i] += load(g[i]) * load(from[i]) * scale;
    });
}

// `smoothed_cross_entropy` of training/loss.py. Logits are overwritten by the gradient of the smoothed loss; `losses`
// (rows, 2) receives the smoothed and the plain loss of each row. Rows with a negative label are ignored.

bool smoothed_loss(T *logits, const int64_t *labels, float *losses, int64_t rows, int64_t width, float smoothing) {
    return for_rows(rows, width, [=](int64_t row) {
        T *row_of = logits + row * width;
        int64_t label = labels[row];
        if (label < 0) {
            std::fill(row_of, row_of + width, T{});
            losses[2 * row] = losses[2 * row + 1] = 0.0f;
            return;
        }
        float *shares = scratch(width), highest = -__builtin_inff(), sum = 0.0f, total = 0.0f;
#pragma omp simd reduction(max : highest) reduction(+ : total)
        for (int64_t i = 0; i < width; ++i) {
            float x = load(row_of[i]);
            highest = std::max(highest, x);
            total += x;
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; ++i) {
            shares[i] = exponential_below_one<float, int32_t>(load(row_of[i]) - highest);
            sum += shares[i];
        }
        // A log-probability is a logit minus `norm`. `total` is the sum of all logits.
        float norm = highest + __builtin_logf(sum), picked = load(row_of[label]), uniform = smoothing / float(width);
        losses[2 * row] = norm - (1.0f - smoothing) * picked - smoothing * (total / float(width));
        losses[2 * row + 1] = norm - picked;
        float share = 1.0f / sum;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) store(row_of[i], shares[i] * share - uniform);
        store(row_of[label], shares[label] * share - uniform - (1.0f - smoothing));
    });
}

}  // extern "C"
