// The fast path of a search step: every row writes a token, and no hypothesis ends. `decoding/batched_beam.py` is its
// definition, and handles all other steps.

#pragma once

#include "arithmetic.h"

namespace {

// `_SearchArrays` of decoding/compiled_stepper.py: the arrays of `Outputs`, for B requests of W rows each.
struct Written {
    int64_t *tokens;     // (R, capacity)
    float *log_probs;    // (R, capacity)
    int64_t *lengths;    // (R)
    double *totals;      // (R); minus infinity for an empty row
    int64_t *last;       // (R)
    const int64_t *limits;  // (B)
    int64_t capacity, requests, width, end;
};

// `_ForbiddenTokens` of decoding/compiled_stepper.py: the `RulesOfAllRows` of decoding/processors.py.
struct Rules {
    const int64_t *banned;  // (count)
    const bool *is_open;    // (V), or null
    int64_t count, until;
};

// Forbids tokens in all rows. Returns false if the output of a row may be blank, which only `NotBlank` can judge. The
// end needs no rule here, because no hypothesis ends in these steps.
inline bool forbid(const Rules &rules, const Written &outputs, float *logits, int64_t vocabulary) {
    for (int64_t row = 0; row < outputs.requests * outputs.width; ++row) {
        const int64_t *written = outputs.tokens + row * outputs.capacity, length = outputs.lengths[row];
        if (rules.is_open && length > 0 && length < rules.until) {
            if (std::all_of(written, written + length, [&](int64_t token) { return rules.is_open[token]; })) return false;
        }
        for (int64_t i = 0; i < rules.count; ++i) logits[row * vocabulary + rules.banned[i]] = -__builtin_inff();
    }
    return true;
}

// One continuation of a row.
struct Candidate {
    double total;
    int64_t row, token;
    float log_prob;
};

// Chooses the best W continuations of every request, in order. Returns false if one of them ends its hypothesis, or
// there are fewer, or a number is NaN, or the request has reached its limit.
inline bool choose_all(const Written &outputs, const float *logits, const float *norms, int64_t vocabulary,
                       std::vector<Candidate> &chosen) {
    const int64_t width = outputs.width;
    std::vector<float> values(width);
    std::vector<int64_t> tokens(width);
    std::vector<Candidate> candidates;
    chosen.clear();
    for (int64_t request = 0; request < outputs.requests; ++request) {
        const int64_t first = request * width;
        if (outputs.lengths[first] + 1 >= outputs.limits[request]) return false;
        candidates.clear();
        for (int64_t row = first; row < first + width; ++row) {
            if (norms[row] != norms[row]) return false;
            if (outputs.totals[row] == -__builtin_inf()) continue;
            const int64_t count = std::min(width, vocabulary);
            best_of(logits + row * vocabulary, vocabulary, count, values.data(), tokens.data());
            for (int64_t i = 0; i < count; ++i) {
                const float log_prob = values[i] - norms[row];
                candidates.push_back({outputs.totals[row] + double(log_prob), row, tokens[i], log_prob});
            }
        }
        if (int64_t(candidates.size()) < width) return false;
        // Exact ties go to the earlier hypothesis, then to the likelier token, then to the lower id.
        std::stable_sort(candidates.begin(), candidates.end(), [](auto &a, auto &b) { return a.total > b.total; });
        for (int64_t i = 0; i < width; ++i) {
            if (candidates[i].token == outputs.end || !(candidates[i].total > -__builtin_inf())) return false;
            chosen.push_back(candidates[i]);
        }
    }
    return true;
}

// Writes the chosen candidates. A row continues its candidate's row.
inline void write_all(const Written &outputs, const std::vector<Candidate> &chosen) {
    const int64_t width = outputs.width, capacity = outputs.capacity;
    std::vector<int64_t> tokens;
    std::vector<float> log_probs;
    if (width > 1) tokens.reserve(width * capacity), log_probs.reserve(width * capacity);  // throw before any write
    for (int64_t first = 0; first < int64_t(chosen.size()); first += width) {
        const int64_t length = outputs.lengths[first];
        if (width > 1) {
            tokens.assign(outputs.tokens + first * capacity, outputs.tokens + (first + width) * capacity);
            log_probs.assign(outputs.log_probs + first * capacity, outputs.log_probs + (first + width) * capacity);
        }
        for (int64_t row = first; row < first + width; ++row) {
            const Candidate &candidate = chosen[row];
            if (candidate.row != row) {
                const int64_t from = (candidate.row - first) * capacity;
                std::copy_n(tokens.begin() + from, length, outputs.tokens + row * capacity);
                std::copy_n(log_probs.begin() + from, length, outputs.log_probs + row * capacity);
            }
            outputs.tokens[row * capacity + length] = outputs.last[row] = candidate.token;
            outputs.log_probs[row * capacity + length] = candidate.log_prob;
            outputs.totals[row] = candidate.total;
            outputs.lengths[row] = length + 1;
        }
    }
}

}  // namespace
