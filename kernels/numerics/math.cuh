// Twin of src/core/numerics/math.rs, where methods, ranges and errors are told.

#pragma once

#include <cstdint>

namespace taiga {

// By comparisons: fminf and fmaxf leave the sign of zero open and drop NaN.
template <typename T>
__device__ __forceinline__ T at_least(T x, T low) {
    return x < low ? low : x;
}

template <typename T>
__device__ __forceinline__ T at_most(T x, T high) {
    return x > high ? high : x;
}

constexpr float INFINITE = __builtin_huge_valf();
constexpr double INFINITE64 = __builtin_huge_val();

// 2^n for n in -126..=127 (whatever bits for others, which only NaN leads to).
__device__ __forceinline__ float power_of_two(int32_t n) {
    return __uint_as_float((static_cast<uint32_t>(n) + 127u) << 23);
}

// e to the power of x; `exp` in math.rs. That name would meet CUDA's own exp, and bring other bits.
__device__ __forceinline__ float exp32(float x) {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    constexpr float MAGIC = 12582912.0f;
    constexpr float LOG2_E = 1.44269504088896340735992468100189214f;
    x = at_most(at_least(x, -105.0f), 90.0f);
    float shifted = x * LOG2_E + MAGIC;
    float whole = shifted - MAGIC;
    float r = (x - whole * 0.6933594f) - whole * -2.1219444e-4f;
    float p = 1.9875691e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.333452e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    float y = (p * (r * r) + r) + 1.0f;
    // 2^n in two factors: neither overflows where the product is subnormal or infinite, and the
    // first product is exact, so a subnormal result is rounded once.
    int32_t n = static_cast<int32_t>(__float_as_uint(shifted) - 0x4b400000u);
    int32_t half = n >> 1;
    return y * power_of_two(half) * power_of_two(n - half);
}

// The natural logarithm.
__device__ __forceinline__ float ln(float x) {
    // x = 2^k * m with m in [sqrt(1/2), sqrt(2)); a subnormal is made normal first.
    constexpr uint32_t ROOT = 0x3f3504f3u;
    bool small = x < 1.17549435e-38f;
    uint32_t bits = __float_as_uint(small ? x * 8388608.0f : x);
    bits += 0x3f800000u - ROOT;
    float k = static_cast<float>(static_cast<int32_t>(bits >> 23) - (small ? 127 + 23 : 127));
    float f = __uint_as_float((bits & 0x007fffffu) + ROOT) - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float w = z * z;
    float t = w * (0.40000972f + w * 0.24279079f) + z * (0.6666666f + w * 0.28498787f);
    float square = 0.5f * f * f;
    float y = s * (square + t) + k * 9.058001e-6f - square + f + k * 0.6931381f;
    y = x == 0.0f ? -INFINITE : y;
    y = x == INFINITE ? INFINITE : y;
    return x >= 0.0f ? y : __uint_as_float(0x7fc00000u);
}

// 1 / (1 + exp(-x)).
__device__ __forceinline__ float sigmoid(float x) {
    float e = exp32(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// The smaller and the larger of p and 1 - p.
struct Pair {
    float low, high;
};

__device__ __forceinline__ Pair sigmoid_pair(float x) {
    float e = exp32(-fabsf(x));
    float high = 1.0f / (1.0f + e);
    return {e * high, high};
}

// tanh(x) / x for |x| up to 0.625, by its square (Cephes).
__device__ __forceinline__ float tanh_near(float square) {
    float p = -5.7049887e-3f;
    p = p * square + 2.0639089e-2f;
    p = p * square + -5.3739716e-2f;
    p = p * square + 1.3331442e-1f;
    p = p * square + -3.3333282e-1f;
    return p * square + 1.0f;
}

__device__ __forceinline__ float tanh32(float x) {
    float size = fabsf(x);
    float near = x * tanh_near(at_most(x * x, 1.0f));
    float e = exp32(-2.0f * size);
    float far = (1.0f - e) / (1.0f + e);
    return size < 0.625f ? near : x < 0.0f ? -far : far;
}

constexpr double LN2_HIGH = 6.931471803691238e-1;
constexpr double LN2_LOW = 1.9082149292705877e-10;

__device__ __forceinline__ uint64_t bits_of(double x) {
    return static_cast<uint64_t>(__double_as_longlong(x));
}

__device__ __forceinline__ double from_bits(uint64_t bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}

// e to the power of x, in double precision.
__device__ __forceinline__ double exp64(double x) {
    constexpr double MAGIC = 6755399441055744.0;  // 1.5 * 2^52
    constexpr double LOG2_E = 1.44269504088896340735992468100189214;
    x = at_most(at_least(x, -750.0), 715.0);
    double shifted = x * LOG2_E + MAGIC;
    double n = shifted - MAGIC;
    double high = x - n * LN2_HIGH;
    double low = n * LN2_LOW;
    double r = high - low;
    double z = r * r;
    double p = 4.1381367970572385e-8;
    p = p * z + -1.6533902205465252e-6;
    p = p * z + 6.613756321437934e-5;
    p = p * z + -2.7777777777015593e-3;
    p = p * z + 1.6666666666666602e-1;
    double c = r - z * p;
    double y = 1.0 + ((r * c / (2.0 - c) - low) + high);
    double half = n * 0.5 + MAGIC;
    double rest = (n - (half - MAGIC)) + MAGIC;
    return y * from_bits((bits_of(half) + 1023) << 52) * from_bits((bits_of(rest) + 1023) << 52);
}

// The natural logarithm in double precision.
__device__ __forceinline__ double ln64(double x) {
    constexpr uint64_t ROOT = 0x3fe6a09eull << 32;
    bool small = x < 2.2250738585072014e-308;
    uint64_t bits = bits_of(small ? x * 18014398509481984.0 : x);  // 2^54
    bits += (0x3ff00000ull << 32) - ROOT;
    // The exponent becomes a float by its bits below those of 2^52.
    double k = from_bits((bits >> 52) | 0x4330000000000000ull) - 4503599627370496.0;
    k = k - (small ? 1023.0 + 54.0 : 1023.0);
    double f = from_bits((bits & 0x000fffffffffffffull) + ROOT) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double w = z * z;
    double even = w * (3.999999999940942e-1 + w * (2.2222198432149784e-1 + w * 1.5313837699209373e-1));
    double odd =
        z * (6.666666666666735e-1 + w * (2.857142874366239e-1 + w * (1.818357216161805e-1 + w * 1.4798198605116586e-1)));
    double square = 0.5 * f * f;
    double y = s * (square + (even + odd)) + k * LN2_LOW - square + f + k * LN2_HIGH;
    y = x == 0.0 ? -INFINITE64 : y;
    y = x == INFINITE64 ? INFINITE64 : y;
    return x >= 0.0 ? y : from_bits(0x7ff8000000000000ull);
}

// 1 / (1 + exp(-x)) in double precision.
__device__ __forceinline__ double sigmoid64(double x) {
    double e = exp64(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// ln(1 + exp(-|x|)).
__device__ __forceinline__ double softplus_rest64(double x) {
    double e = exp64(-fabs(x));
    // ln(1 + e): the logarithm of the rounded sum, and what the rounding left over (Kahan).
    double u = 1.0 + e;
    return ln64(u) + (e - (u - 1.0)) / u;
}

// ln(1 + exp(x)).
__device__ __forceinline__ double softplus64(double x) {
    double rest = softplus_rest64(x);
    return x > 0.0 ? x + rest : rest;
}

// One row's raw scores, `stride` numbers apart, become probabilities.
__device__ __forceinline__ void softmax_in_place(double* scores, uint32_t classes, uint64_t stride) {
    double top = -INFINITE64, total = 0.0;
    for (uint32_t k = 0; k < classes; k++) {
        double s = scores[k * stride];
        top = s > top ? s : top;
    }
    for (uint32_t k = 0; k < classes; k++) {
        double e = exp64(scores[k * stride] - top);
        scores[k * stride] = e;
        total += e;
    }
    for (uint32_t k = 0; k < classes; k++) {
        scores[k * stride] = scores[k * stride] / total;
    }
}

}  // namespace taiga
