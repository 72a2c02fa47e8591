// Scalar and vector arithmetic, with vectors as wide as this processor's registers, for the training kernels and the
// decoder.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace {

template <class To, class From> inline To bits_of(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }

inline uint16_t to_bf16(float x) {  // rounds to nearest, ties to even; NaN stays NaN
    uint32_t bits = bits_of<uint32_t>(x);
    return uint16_t(x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline int64_t rounded_up(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

// Number of 32-bit numbers in a register.
#if defined(__AVX512BW__)
constexpr int64_t LANES = 16;
#elif defined(__AVX2__)
constexpr int64_t LANES = 8;
#else
constexpr int64_t LANES = 4;
#endif

#define VECTOR(number) number __attribute__((vector_size(LANES * 4), aligned(4), may_alias))
typedef VECTOR(float) Lanes;
typedef VECTOR(int32_t) Wholes;
typedef VECTOR(uint32_t) Bits;
typedef VECTOR(int16_t) Halves;
#undef VECTOR
typedef uint32_t Word __attribute__((may_alias));  // of memory that holds numbers of any type

inline Lanes lanes(const float *x) { return *(const Lanes *)x; }
inline void keep(float *x, Lanes y) { *(Lanes *)x = y; }

// x in all lanes. `Lanes{} + x` would remain an addition, because it changes -0.
inline Lanes all(float x) { return (Lanes)(Bits{} + bits_of<uint32_t>(x)); }

// a b + c, rounded once if the processor supports it. Otherwise compilers would decide this for every loop, and the
// bits of a row would depend on the number of rows.
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512BW__)
    return (Lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (Lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FMA__)
    return (Lanes)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (Lanes)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}
inline Lanes fused(float a, Lanes b, Lanes c) { return fused(all(a), b, c); }

inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

inline Lanes ascending() {
    Lanes index;
    for (int i = 0; i < LANES; ++i) index[i] = float(i);
    return index;
}

// The first `left` lanes at x, with `otherwise` in the remaining lanes.
inline Lanes first_lanes(const float *x, int64_t left, float otherwise) {
    return ascending() < float(left) ? lanes(x) : Lanes{} + otherwise;
}

// The sum and the maximum of all lanes, and true if a comparison holds in any lane.
#if defined(__AVX512BW__)
inline float sum_of(Lanes x) { return _mm512_reduce_add_ps((__m512)x); }
inline float most_of(Lanes x) { return _mm512_reduce_max_ps((__m512)x); }
inline bool any(Wholes x) { return _mm512_test_epi32_mask((__m512i)x, (__m512i)x); }
#elif defined(__AVX2__)
template <class Fold> inline float folded(Lanes x, Fold fold) {
    __m128 four = fold(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = fold(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(fold(two, _mm_movehdup_ps(two)));
}
inline float sum_of(Lanes x) {
    return folded(x, [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
}
inline float most_of(Lanes x) {
    return folded(x, [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}
inline bool any(Wholes x) { return !_mm256_testz_si256((__m256i)x, (__m256i)x); }
#else
template <class Vector, class Fold> inline auto folded(Vector x, Fold fold) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x[i] = fold(x[i], x[i + half]);
    return x[0];
}
inline float sum_of(Lanes x) {
    return folded(x, [](float a, float b) { return a + b; });
}
inline float most_of(Lanes x) {
    return folded(x, [](float a, float b) { return a > b ? a : b; });
}
inline bool any(Wholes x) {
    return folded(x, [](int32_t a, int32_t b) { return a | b; });
}
#endif

// e^x of a scalar or vector, for x up to 0, accurate to 2 units in the last place (Cephes' polynomial). Below -87 it is
// e^-87, because 2^whole would leave the range of float32. NaN stays NaN.
template <class Number, class Whole> inline Number exponential_below_one(Number x) {
    x = x < -87.0f ? Number{} - 87.0f : x;
    Number shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to a whole number
    Number whole = shifted - 12582912.0f;
    Number rest = x - whole * 0.693359375f - whole * -2.12194440e-4f;
    Number y = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * rest * rest + rest + 1.0f;
    return y * bits_of<Number>((bits_of<Whole>(shifted) - 0x4B400000 + 127) << 23);
}
inline Lanes exponential_below_one(Lanes x) { return exponential_below_one<Lanes, Wholes>(x); }

// The maximum of some numbers, and the sum of e^(x - largest). The exponentials are stored in `kept` unless it is null,
// in whole vectors, with zeros after the last.
struct Exponentials {
    float largest, sum;
};

inline Exponentials exponentials(const float *x, int64_t count, float *kept = nullptr) {
    const float least = -__builtin_inff();
    const int64_t whole = count / LANES * LANES;  // only the last vector needs a mask
    const Lanes last = whole < count ? first_lanes(x + whole, count - whole, least) : Lanes{} + least;
    Lanes most = last, other = last, sums{};
    int64_t i = 0;
    for (; i + 2 * LANES <= whole; i += 2 * LANES) {
        most = larger(most, lanes(x + i)), other = larger(other, lanes(x + i + LANES));
    }
    if (i < whole) most = larger(most, lanes(x + i));
    const float largest = most_of(larger(most, other));
    for (i = 0; i < whole; i += LANES) {
        const Lanes y = exponential_below_one(lanes(x + i) - largest);
        sums += y;
        if (kept) keep(kept + i, y);
    }
    if (whole < count) {
        const Lanes y = ascending() < float(count - whole) ? exponential_below_one(last - largest) : Lanes{};
        sums += y;
        if (kept) keep(kept + whole, y);
    }
    return {largest, sum_of(sums)};
}

// A softmax over `count` scores, with zeros up to a whole vector. NaN stays NaN.
inline void softmax(float *scores, int64_t count) {
    const float share = 1.0f / exponentials(scores, count, scores).sum;
    for (int64_t i = 0; i < count; i += LANES) keep(scores + i, lanes(scores + i) * share);
}

// Adds to each lane's sum the products of the lane's pair of bf16 with the pair of `row`.
inline Lanes add_bf16(Lanes sum, uint32_t row, Bits weights) {
#ifdef __AVX512BF16__
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(int(row)), (__m512bh)weights);
#else
    sum = fused(bits_of<float>(row & 0xffff0000u), (Lanes)(weights & 0xffff0000u), sum);
    return fused(bits_of<float>(row << 16), (Lanes)(weights << 16), sum);
#endif
}

// Adds to each lane's sum the products of the lane's four bytes, from -127 to 127, with those of `row`. Sums are exact.
// VNNI's instruction needs unsigned bytes on one side, so the bytes of `row` are increased by ROW_OFFSET.
#if defined(__AVX512VNNI__)
constexpr int32_t ROW_OFFSET = 128;
inline Wholes add_int8(Wholes sum, uint32_t row, Bits weights) {
    return (Wholes)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(int(row)), (__m512i)weights);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512BW__)
constexpr int32_t ROW_OFFSET = 128;
inline Wholes add_int8(Wholes sum, uint32_t row, Bits weights) {
    return (Wholes)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32(int(row)), (__m256i)weights);
}
#elif defined(__AVX2__) && !defined(__AVX512BW__)
constexpr int32_t ROW_OFFSET = 0;
inline Wholes add_int8(Wholes sum, uint32_t row, Bits weights) {
    const __m256i signs = _mm256_set1_epi32(int(row)), sizes = _mm256_abs_epi8(signs);
    // Two products of at most 127 * 127 fit into 16 bits.
    const __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8((__m256i)weights, signs));
    return sum + (Wholes)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#elif defined(__SSE2__)
constexpr int32_t ROW_OFFSET = 0;
inline Wholes sum_pairs(Halves a, Halves b) {
#ifdef __AVX512BW__
    return (Wholes)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#else
    return (Wholes)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}
inline Wholes add_int8(Wholes sum, uint32_t row, Bits weights) {
    auto odd = [](Bits bytes) { return (Halves)bytes >> 8; };
    auto even = [](Bits bytes) { return (Halves)(bytes << 8) >> 8; };
    const Bits all = Bits{} + row;
    return sum + (sum_pairs(odd(all), odd(weights)) + sum_pairs(even(all), even(weights)));
}
#else
constexpr int32_t ROW_OFFSET = 0;
inline Wholes add_int8(Wholes sum, uint32_t row, Bits weights) {
    for (int shift = 0; shift < 32; shift += 8)
        sum += int32_t(int8_t(row >> shift)) * ((Wholes)(weights << (24 - shift)) >> 24);
    return sum;
}
#endif

}  // namespace
