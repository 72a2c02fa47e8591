// Shared parts of all kernels: two data types, threads, and the hash for dropout.

#pragma once

#include <algorithm>
#include <new>
#include <vector>

#include "vectors.h"

namespace {

struct bf16 { uint16_t bits; };

using T = ELEMENT;  // float or bf16; the file is compiled once for each of them

inline float load(float x) { return x; }
inline float load(bf16 x) { return bits_of<float>(uint32_t(x.bits) << 16); }
inline void store(float &to, float x) { to = x; }
inline void store(bf16 &to, float x) { to.bits = to_bf16(x); }

// Returns the thread's scratch space for `width` float32. It starts at a cache line, so that no vector spans two.
inline float *scratch(int64_t width) {
    struct alignas(64) Line { float values[16]; };
    thread_local std::vector<Line> buffer;
    size_t lines = size_t(width + 15) / 16;
    if (buffer.size() < lines) buffer.resize(lines);
    return buffer.data()->values;
}

constexpr int64_t WORTH_SHARING = 1 << 14;  // elements; fewer are processed before a second thread wakes up

// Runs `work`; returns false if memory runs out. An exception that leaves an OpenMP thread or C++ ends the process.
template <class Work> inline bool succeeds(Work &&work) {
    try {
        work();
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

// The loops below return false if memory runs out. Each thread has a copy of `work`: the pointers of a shared one would
// be read again for every element, which takes three times longer.
template <class Work> bool for_rows(int64_t rows, int64_t width, Work work) {
    bool done = true;
#pragma omp parallel for schedule(static) firstprivate(work) reduction(&& : done) if (rows * width > WORTH_SHARING)
    for (int64_t row = 0; row < rows; ++row) done = done && succeeds([&] { work(row); });
    return done;
}

// Sums `width` columns over rows, in BLOCKS parts that are added in a fixed order for any number of threads.
constexpr int64_t BLOCKS = 32;

template <class Work> bool sum_rows(int64_t rows, int64_t width, float *total, Work work) {
    std::vector<float> parts;
    if (!succeeds([&] { parts.resize(BLOCKS * width); })) return false;
#pragma omp parallel for schedule(static) firstprivate(work) if (rows * width > WORTH_SHARING)
    for (int64_t block = 0; block < BLOCKS; ++block)
        for (int64_t row = rows * block / BLOCKS; row < rows * (block + 1) / BLOCKS; ++row)
            work(row, &parts[block * width]);
    std::fill(total, total + width, 0.0f);
    for (int64_t block = 0; block < BLOCKS; ++block)
        for (int64_t i = 0; i < width; ++i) total[i] += parts[block * width + i];
    return true;
}

// `_row_hash` and `_keep` of model/dropout.py

inline uint32_t row_hash(uint32_t key, int64_t token) {
    uint32_t x = (uint32_t(token) + key) * 0xC2B2AE35u;
    x ^= uint32_t(int32_t(x) >> 15);
    x *= 0x85EBCA6Bu;
    x ^= uint32_t(int32_t(x) >> 13);
    return x * 0x9E3779B1u;
}

// Returns 1 or 0 as a number, because a condition around the load of x would prevent vectorisation.
inline float keeps(uint32_t row, uint32_t feature, int32_t threshold) {
    uint32_t x = (row ^ (feature * 0x9E3779B1u)) * 0x85EBCA6Bu;
    x ^= uint32_t(int32_t(x) >> 13);
    return int32_t(x * 0xC2B2AE35u) >= threshold ? 1.0f : 0.0f;
}

}  // namespace
