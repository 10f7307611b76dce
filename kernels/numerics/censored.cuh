// Twin of src/core/numerics/censored.rs and of losses/aft.rs, where formulas and sources are told.

#pragma once

#include "loss.cuh"

namespace taiga {

// Distributions by number: Distribution::ALL.
enum : uint32_t { NORMAL, LOGISTIC, EXTREME };

constexpr double FAR_BOUND = 1e6;

struct Derivatives64 {
    double first, second;
};

__device__ __forceinline__ double clamp64(double x, double low, double high) {
    return at_most(at_least(x, low), high);
}

// Mills' ratio of a number that is not negative.
__device__ __forceinline__ double mills(double z) {
    constexpr double COEFFICIENTS[21] = {
        1.713040866951902e-8,   3.222751917909272e-8,   -1.4287029159813716e-7, -3.6873243687703373e-7, 5.908352423330579e-7,
        2.5263908747793027e-6,  -1.5064135376439968e-6, -1.4809383070516329e-5, 1.7593740328068227e-6,  8.807875966683055e-5,
        -4.77100200175052e-6,   -5.792639937993353e-4,  3.342420736631104e-4,   4.087854681239098e-3,   -8.722294966542102e-3,
        -1.890045075773466e-2,  1.5139176229353526e-1,  -4.6754096300334574e-1, 9.704095548680107e-1,   -1.52377091081991,
        1.8932190633084862,
    };
    double y = (z - 4.0) / (z + 4.0);
    double p = 0.0;
#pragma unroll
    for (int i = 0; i < 21; i++) p = p * y + COEFFICIENTS[i];
    return p / (z + 4.0);
}

// The standard normal density.
__device__ __forceinline__ double normal_density(double z) {
    return exp64(-0.5 * (z * z)) / 2.5066282746310007;
}

__device__ __forceinline__ Derivatives64 normal_derivatives(double lower, double upper) {
    lower = clamp64(lower, -FAR_BOUND, FAR_BOUND);
    upper = clamp64(upper, -FAR_BOUND, FAR_BOUND);
    const bool mirrored = lower + upper < 0.0;
    const double l = mirrored ? -upper : lower, u = mirrored ? -lower : upper;
    double mean, curvature;
    if (u - l < 1e-3) {
        mean = 0.5 * (l + u);
        curvature = 1.0;
    } else if (l >= 0.0) {
        const double ratio = exp64(-0.5 * ((u - l) * (u + l)));
        const double inside = mills(l) - ratio * mills(u);
        mean = (1.0 - ratio) / inside;
        curvature = mean * mean - (l - u * ratio) / inside;
    } else {
        const double low = normal_density(l), high = normal_density(u);
        const double inside = 1.0 - low * mills(-l) - high * mills(u);
        mean = (low - high) / inside;
        curvature = mean * mean - (l * low - u * high) / inside;
    }
    return {mirrored ? mean : -mean, curvature};
}

__device__ __forceinline__ Derivatives64 logistic_derivatives(double lower, double upper) {
    const double below = sigmoid64(lower), beyond = sigmoid64(-upper);
    return {beyond - below, below * sigmoid64(-lower) + beyond * sigmoid64(upper)};
}

__device__ __forceinline__ Derivatives64 extreme_derivatives(double lower, double upper) {
    const double hazard = exp64(clamp64(lower, -750.0, 80.0));
    const double more = exp64(clamp64(upper, -750.0, 80.0)) - hazard;
    const double d = upper > FAR_BOUND ? 700.0 : clamp64(more, 0.0, 700.0);
    const double s = d * d;
    const double series = s * (1.0 / 12.0 + s * (-1.0 / 720.0 + s * (1.0 / 30240.0 + s * (-1.0 / 1209600.0 + s * (1.0 / 47900160.0)))));
    const double e = exp64(-d);
    double ratio = d * e / (1.0 - e);
    const bool small = d < 1.0;
    ratio = small ? 1.0 - 0.5 * d + series : ratio;
    const double rest = small ? 0.5 * d + series : ratio + d - 1.0;
    return {ratio - hazard, hazard + ratio * rest};
}

// Accelerated failure time: of a time whose bounds have these logarithms.
struct Aft {
    float scale;
    uint32_t distribution;

    __device__ __forceinline__ Derivatives at(float score, float lower, float upper) const {
        constexpr double LARGEST_DERIVATIVE = 15.0;
        const double by = static_cast<double>(scale);
        const double l = (static_cast<double>(lower) - static_cast<double>(score)) / by;
        const double u = (static_cast<double>(upper) - static_cast<double>(score)) / by;
        Derivatives64 d;
        switch (distribution) {
            case NORMAL: d = normal_derivatives(l, u); break;
            case LOGISTIC: d = logistic_derivatives(l, u); break;
            default: d = extreme_derivatives(l, u); break;
        }
        const double size = fabs(d.first);
        const double below = l > 1.0 ? l : 1.0;
        const double apart = u < -1.0 ? -u : below;
        const double touching = size / apart;
        const double curvature = d.second < touching || size > LARGEST_DERIVATIVE ? touching : d.second;
        const double less = size > LARGEST_DERIVATIVE ? LARGEST_DERIVATIVE / size : 1.0;
        const double first = d.first * less;
        const double second = at_most(curvature * less, LARGEST_DERIVATIVE);
        return {finite(static_cast<float>(first / by)), clamp(static_cast<float>(second / (by * by)), SMALLEST_HESSIAN, LARGEST)};
    }
};

}  // namespace taiga
