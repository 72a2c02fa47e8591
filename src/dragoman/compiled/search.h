// The usual step of a search: every row writes a token, and nothing ends. `decoding/batched_beam.py` is its definition,
// and does what is left.

#pragma once

#include "arithmetic.h"

namespace {

// `_Search` of decoding/compiled_stepper.py: the arrays of `Outputs`, and B requests of W rows each.
struct Written {
    int64_t *tokens;     // (R, room)
    float *log_probs;    // (R, room)
    int64_t *lengths;    // (R)
    double *totals;      // (R); minus infinity for an empty place
    int64_t *last;       // (R)
    const int64_t *limits;  // (B)
    int64_t room, requests, width, end;
};

// One continuation of a row.
struct Candidate {
    double total;
    int64_t row, token;
    float log_prob;
};

// The best W continuations of every request, in order. Returns false if one of them ends its hypothesis, or there is
// none, or a number is NaN, or the request has reached its limit.
inline bool choose_all(const Written &of, const float *logits, const float *norms, int64_t vocabulary,
                       std::vector<Candidate> &chosen) {
    const int64_t width = of.width;
    std::vector<float> values(width);
    std::vector<int64_t> tokens(width);
    std::vector<Candidate> found;
    chosen.clear();
    for (int64_t request = 0; request < of.requests; ++request) {
        const int64_t first = request * width;
        if (of.lengths[first] + 1 >= of.limits[request]) return false;
        found.clear();
        for (int64_t row = first; row < first + width; ++row) {
            if (norms[row] != norms[row]) return false;
            if (of.totals[row] == -__builtin_inf()) continue;
            const int64_t count = std::min(width, vocabulary);
            best_of(logits + row * vocabulary, vocabulary, count, values.data(), tokens.data());
            for (int64_t i = 0; i < count; ++i) {
                const float log_prob = values[i] - norms[row];
                found.push_back({of.totals[row] + double(log_prob), row, tokens[i], log_prob});
            }
        }
        if (int64_t(found.size()) < width) return false;
        // Exact ties go to the earlier hypothesis, then to the likelier token, then to the lower id.
        std::stable_sort(found.begin(), found.end(), [](auto &a, auto &b) { return a.total > b.total; });
        for (int64_t i = 0; i < width; ++i) {
            if (found[i].token == of.end || !(found[i].total > -__builtin_inf())) return false;
            chosen.push_back(found[i]);
        }
    }
    return true;
}

// Writes what was chosen. A row goes on from the row that its candidate names.
inline void write_all(const Written &of, const std::vector<Candidate> &chosen) {
    std::vector<int64_t> tokens;
    std::vector<float> log_probs;
    if (of.width > 1)  // memory may end only before a write
        tokens.reserve(of.width * of.room), log_probs.reserve(of.width * of.room);
    for (int64_t first = 0; first < int64_t(chosen.size()); first += of.width) {
        const int64_t length = of.lengths[first];
        if (of.width > 1) {
            tokens.assign(of.tokens + first * of.room, of.tokens + (first + of.width) * of.room);
            log_probs.assign(of.log_probs + first * of.room, of.log_probs + (first + of.width) * of.room);
        }
        for (int64_t row = first; row < first + of.width; ++row) {
            const Candidate &each = chosen[row];
            if (each.row != row) {
                const int64_t from = (each.row - first) * of.room;
                std::copy_n(tokens.begin() + from, length, of.tokens + row * of.room);
                std::copy_n(log_probs.begin() + from, length, of.log_probs + row * of.room);
            }
            of.tokens[row * of.room + length] = of.last[row] = each.token;
            of.log_probs[row * of.room + length] = each.log_prob;
            of.totals[row] = each.total;
            of.lengths[row] = length + 1;
        }
    }
}

}  // namespace
