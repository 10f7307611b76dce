// Scores splits by their impurity: twin of src/core/learners/forest/impurity.rs, the same operations in the same order.

#pragma once

#include "layouts.cuh"

namespace {

__device__ __noinline__ double compute_x_log_x(uint64_t whole) {
    double x = static_cast<double>(whole);
    return x > 0.0 ? x * (taiga::ln64(x) * 1.44269504088896340735992468100189214) : 0.0;
}

__device__ __forceinline__ double x_log_x(const ForestFit& fit, uint64_t x) { return x < fit.log_count ? fit.logs[x] : compute_x_log_x(x); }

// Minus the entropy of two classes times their weight.
__device__ __forceinline__ double entropy_of_two(const ForestFit& fit, NodeSums side) {
    uint64_t ones = static_cast<uint64_t>(side.sum);
    return x_log_x(fit, side.count - ones) + x_log_x(fit, ones) - x_log_x(fit, side.count);
}

// The part of a score that is summed over classes: what class by class is added to `inside`.
__device__ __forceinline__ double inside_of(const ForestFit& fit, uint64_t left, uint64_t total, double left_weight, double weight) {
    if (fit.criterion == ENTROPY) {
        return x_log_x(fit, left) + x_log_x(fit, total - left);
    }
    double d = static_cast<double>(left) * weight - static_cast<double>(total) * left_weight;
    return d * d;
}

// Rare, and long: out of the way of what is not.
__device__ __noinline__ double poisson_score(double cl, double nl, double cr, double nr) {
    return cl > 0.0 && cr > 0.0 ? cl * taiga::ln64(cl / nl) + cr * taiga::ln64(cr / nr) : -taiga::INFINITE64;
}

// The score of kind CLASSES, with what classes come to `inside`.
template <int KIND>
__device__ __forceinline__ double score_of(const ForestFit& fit, NodeSums left, NodeSums total, double inside) {
    if (KIND == TWO && fit.criterion == ENTROPY) {
        return entropy_of_two(fit, left) + entropy_of_two(fit, total - left);
    }
    if (KIND == CLASSES && fit.criterion == ENTROPY) {
        return inside - (x_log_x(fit, left.weight) + x_log_x(fit, total.weight - left.weight));
    }
    double n = static_cast<double>(total.weight), nl = static_cast<double>(left.weight);
    if (KIND == CLASSES) {
        return inside / (nl * (n - nl));
    }
    double c = static_cast<double>(total.sum), cl = static_cast<double>(left.sum);
    if (KIND == NUMBERS && fit.criterion == POISSON) {
        return poisson_score(cl, nl, static_cast<double>(total.sum - left.sum), n - nl);
    }
    double d = cl * n - c * nl;
    return (KIND == TWO ? 2.0 * (d * d) : d * d) / (nl * (n - nl));
}

// By how much a split lowers the node's impurity, times its weight.
template <int KIND>
__device__ double gain_of(const ForestFit& fit, double score, NodeSums total, const uint64_t* lanes) {
    if (KIND == TWO) {
        return fit.criterion == ENTROPY ? score - entropy_of_two(fit, total) : score / static_cast<double>(total.count);
    }
    double n = static_cast<double>(total.weight);
    if (KIND == CLASSES) {
        if (fit.criterion != ENTROPY) {
            return score / n;
        }
        double inside = 0.0;
        for (uint32_t k = 0; k < fit.class_count; k++) {
            inside += x_log_x(fit, lanes[k]);
        }
        return score - (inside - x_log_x(fit, total.weight));
    }
    double s = static_cast<double>(total.sum);
    return fit.criterion == POISSON ? (score - s * taiga::ln64(s / n)) * fit.unit : score / n * fit.unit;
}

template <int KIND>
__device__ __forceinline__ void consider(
    BestSplit& best, const ForestFit& fit, NodeSums left, NodeSums total, double inside, uint32_t order, uint32_t a, uint32_t b, uint32_t missing_left) {
    if (fit.min_data > 1 && (left.count < fit.min_data || total.count - left.count < fit.min_data)) {
        return;
    }
    double score = score_of<KIND>(fit, left, total, inside);
    if (score > best.score) {
        best.score = score;
        best.left = left;
        best.order = order;
        best.left_code = a;
        best.right_code = b;
        best.missing_left = missing_left;
    }
}

}  // namespace

// x log2 x of the first whole numbers.
extern "C" __global__ void forest_logs(uint32_t count, double* out) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        out[i] = compute_x_log_x(i);
    }
}
