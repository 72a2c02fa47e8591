// Single numbers, and many side by side: their bits, bf16, and e^x.

#pragma once

#include <cstdint>
#include <cstring>

namespace {

template <class To, class From> inline To bits_of(From from) { To to; std::memcpy(&to, &from, sizeof to); return to; }

inline uint16_t to_bf16(float x) {  // rounds to nearest, ties to even; NaN stays NaN
    uint32_t bits = bits_of<uint32_t>(x);
    return uint16_t(x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// e^x of one number or of many, from -87.3 to 88.3, to 2 units in the last place (Cephes' polynomial). NaN stays NaN.
template <class Number, class Whole> inline Number exponential_within(Number x) {
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

}  // namespace
