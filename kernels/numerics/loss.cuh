// Twins of src/core/losses: gradient and hessian of a row, one struct a loss, with the
// parameters as f32 as the Rust constructors derive them. Formulas and sources are told there.

#pragma once

#include <cstdint>

#include "math.cuh"

namespace taiga {

struct Derivatives {
    float gradient, hessian;
};

constexpr float LARGEST = 3.40282347e+38f;

// The smallest hessian of a row of weight 1.
constexpr float SMALLEST_HESSIAN = 1e-16f;

__device__ __forceinline__ float clamp(float x, float low, float high) {
    return at_most(at_least(x, low), high);
}

__device__ __forceinline__ float finite(float x) {
    return clamp(x, -LARGEST, LARGEST);
}

__device__ __forceinline__ Derivatives weigh(Derivatives d, float weight) {
    return {finite(d.gradient * weight), finite(d.hessian * weight)};
}

struct Rmse {
    __device__ __forceinline__ Derivatives at(float score, float target) const { return {finite(score - target), 1.0f}; }
};

// Logloss too: there the targets are 0 and 1.
struct CrossEntropy {
    __device__ __forceinline__ Derivatives at(float score, float target) const {
        Pair s = sigmoid_pair(score);
        float p = score < 0.0f ? s.low : s.high;
        float q = score < 0.0f ? s.high : s.low;
        // p - y without cancellation.
        return {(1.0f - target) * p - target * q, at_least(s.low * s.high, SMALLEST_HESSIAN)};
    }
};

// One class against all others.
struct OneVersusAll {
    float output;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        return CrossEntropy{}.at(score, target == output ? 1.0f : 0.0f);
    }
};

struct Mae {
    __device__ __forceinline__ Derivatives at(float score, float target) const {
        float above = score > target ? 1.0f : 0.0f;
        return {score < target ? -1.0f : above, 1.0f};
    }
};

struct Quantile {
    // -alpha and 1 - alpha.
    float below, above;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        float beyond = score > target ? above : 0.0f;
        return {score < target ? below : beyond, 1.0f};
    }
};

struct Huber {
    // In units of the scores.
    float delta;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        return {clamp(score - target, -delta, delta), 1.0f};
    }
};

// log_link.rs: exp(x), finite and not 0.
__device__ __forceinline__ float exp_finite(float x) {
    return exp32(clamp(x, -87.0f, 88.0f));
}

// log_link.rs: gradient b - a, hessian (a + b) / 2.
__device__ __forceinline__ Derivatives from_parts(float a, float b) {
    a = finite(a);
    b = finite(b);
    return {b - a, at_least(0.5f * a + 0.5f * b, SMALLEST_HESSIAN)};
}

struct Expectile {
    // What residuals count twice below and above the target: 2 alpha and 2 (1 - alpha).
    float below, above;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        float factor = score < target ? below : above;
        return {finite(factor * finite(score - target)), factor};
    }
};

// log_cosh.rs: tanh(r) / r.
__device__ __forceinline__ float tanh_ratio(float r) {
    float size = fabsf(r);
    float square = clamp(r * r, 0.0f, 1.0f);
    float near = tanh_near(square);
    float e = exp32(-2.0f * size);
    float far = (1.0f - e) / (1.0f + e) / clamp(size, 0.5f, LARGEST);
    return at_least(size < 0.625f ? near : far, SMALLEST_HESSIAN);
}

struct LogCosh {
    // What scores are in units of, and one divided by it.
    float unit, inverse;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        float r = finite(finite(score - target) * unit);
        float ratio = tanh_ratio(r);
        return {finite(clamp(r * ratio, -1.0f, 1.0f) * inverse), ratio};
    }
};

struct Focal {
    // The exponent; what class 1 counts, negative where there is no balance.
    float gamma, alpha;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        bool of_one = target > 0.5f;
        float z = clamp(of_one ? score : -score, -105.0f, 105.0f);
        Pair s = sigmoid_pair(z);
        float p = z < 0.0f ? s.low : s.high;
        float q = z < 0.0f ? s.high : s.low;
        // ln(1 + exp(-|z|)).
        float e = exp32(-fabsf(z));
        float u = 1.0f + e;
        float rest = ln(u) + (e - (u - 1.0f)) / u;
        // -ln p and -ln q.
        float cost = z < 0.0f ? rest - z : rest;
        float other = z < 0.0f ? rest : rest + z;
        float focus = exp32(-(gamma * other));
        float slope = focus * (q + gamma * (p * cost));
        float second = focus * p * (q * (1.0f + 2.0f * gamma) - gamma * cost * (q - gamma * p));
        float hessian = at_least(second, slope * p);
        float own = of_one ? alpha : 1.0f - alpha;
        float balance = alpha < 0.0f ? 1.0f : own;
        slope = balance * slope;
        return {of_one ? -slope : slope, at_least(balance * hessian, SMALLEST_HESSIAN)};
    }
};

struct Poisson {
    __device__ __forceinline__ Derivatives at(float score, float target) const { return from_parts(target, exp_finite(score)); }
};

struct Gamma {
    __device__ __forceinline__ Derivatives at(float score, float target) const {
        return from_parts(target * exp_finite(-score), 1.0f);
    }
};

struct Tweedie {
    // 1 - power and 2 - power.
    float one, two;

    __device__ __forceinline__ Derivatives at(float score, float target) const {
        return from_parts(target * exp_finite(one * score), exp_finite(two * score));
    }
};

struct Gaussian {
    // With respect to the mean or to the logarithm of the standard deviation, of a row whose scores are `stride` numbers apart.
    __device__ __forceinline__ Derivatives at(const float* scores, uint64_t stride, uint32_t output, float target) const {
        float mean = scores[0];
        if (output == 0) return {finite(mean - target), 1.0f};
        float r = finite(finite(target - mean) * exp_finite(-scores[stride]));
        Derivatives d = from_parts(finite(r * r), 1.0f);
        return {d.gradient, finite(2.0f * d.hessian)};
    }
};

struct Multiclass {
    uint32_t classes;
    // classes / (classes - 1).
    float factor;

    // With respect to score `output` of a row whose scores are `stride` numbers apart. The others'
    // exponentials are added from the first class to the last.
    __device__ __forceinline__ Derivatives at(const float* scores, uint64_t stride, uint32_t output, float target) const {
        float top = -INFINITE, others = 0.0f;
        for (uint32_t k = 0; k < classes; k++) {
            float s = scores[k * stride];
            top = s > top ? s : top;
        }
        for (uint32_t k = 0; k < classes; k++) {
            if (k != output) others += exp32(scores[k * stride] - top);
        }
        float own = exp32(scores[output * stride] - top);
        float scale = 1.0f / (own + others);
        float p = own * scale, rest = others * scale;
        float gradient = target == static_cast<float>(output) ? -rest : p;
        return {gradient, at_least(factor * (p * rest), SMALLEST_HESSIAN)};
    }
};

}  // namespace taiga
