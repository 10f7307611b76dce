// Quantiles of the residuals of each leaf's rows, for leaves that are refitted (numerics/reduce.rs): rows are sorted by
// (leaf, residual, weight), and a leaf's weights are added in that order.

#pragma once

#include "common.cuh"

namespace taiga {

// What a row is sorted by: its leaf, and its residual in the order of f32::total_cmp.
__device__ __forceinline__ unsigned long long residual_key(uint32_t leaf, float residual) {
    const uint32_t bits = __float_as_uint(residual);
    return static_cast<unsigned long long>(leaf) << 32 | (bits ^ (bits >> 31 ? ~0u : 1u << 31));
}

__device__ __forceinline__ float residual_of(unsigned long long key) {
    const uint32_t bits = static_cast<uint32_t>(key);
    return __uint_as_float(bits ^ (bits >> 31 ? 1u << 31 : ~0u));
}

// The first key of a leaf or of one behind it.
__device__ __forceinline__ uint32_t first_key(const unsigned long long* keys, uint32_t rows, uint32_t leaf) {
    uint32_t low = 0, high = rows;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (keys[middle] >> 32 < leaf) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(256)
    tree_residuals(const float* target, const float* scores, const uint16_t* leaf, uint64_t rows, unsigned long long* keys, uint32_t* numbers) {
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < rows; row += gridDim.x * 256ull) {
        keys[row] = residual_key(leaf[row], target[row] - scores[row]);
        numbers[row] = static_cast<uint32_t>(row);
    }
}

// Each leaf's quantile from the sorted keys, where all rows count alike: the two residuals that it lies between, and
// whether the leaf has rows. A thread a leaf.
extern "C" __global__ void __launch_bounds__(256)
    tree_quantiles(const unsigned long long* keys, uint32_t rows, uint32_t leaves, double level, float* out) {
    const uint32_t leaf = blockIdx.x * 256 + threadIdx.x;
    if (leaf >= leaves) return;
    const uint32_t from = first_key(keys, rows, leaf), count = first_key(keys, rows, leaf + 1) - from;
    float* own = out + 3 * leaf;
    own[0] = own[1] = 0.0f;
    own[2] = count > 0 ? 1.0f : 0.0f;
    if (count == 0) return;
    const double goal = level * static_cast<double>(count), up = ceil(goal);
    const uint32_t rank = up < 1.0 ? 1 : up > static_cast<double>(count) ? count : static_cast<uint32_t>(up);
    own[0] = residual_of(keys[from + rank - 1]);
    own[1] = static_cast<double>(rank) == goal && rank < count ? residual_of(keys[from + rank]) : own[0];
}

// What rows weigh, as bits, which ascend as weights do; 0 for those that don't count. `weight` and `bag`: or none.
extern "C" __global__ void __launch_bounds__(256)
    tree_weights(const float* weight, const float* bag, uint64_t rows, uint32_t* bits, uint32_t* numbers) {
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < rows; row += gridDim.x * 256ull) {
        const float counts = (weight ? weight[row] : 1.0f) * (bag ? bag[row] : 1.0f);
        bits[row] = counts > 0.0f ? __float_as_uint(counts) : 0;
        numbers[row] = static_cast<uint32_t>(row);
    }
}

// The keys of rows that are sorted by what they weigh; those that weigh nothing go behind the last leaf.
extern "C" __global__ void __launch_bounds__(256)
    tree_weighted_residuals(const float* target, const float* scores, const uint16_t* leaf, const uint32_t* bits, const uint32_t* numbers,
                            uint64_t rows, uint32_t leaves, unsigned long long* keys) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < rows; i += gridDim.x * 256ull) {
        const uint32_t row = numbers[i];
        keys[i] = residual_key(bits[i] ? leaf[row] : leaves, target[row] - scores[row]);
    }
}

// As `tree_quantiles`, by the sorted rows' weights, which are added one after the other as the CPU adds them. A warp a leaf.
extern "C" __global__ void __launch_bounds__(256)
    tree_weighted_quantiles(const unsigned long long* keys, const float* weights, uint32_t rows, uint32_t leaves, double level, float* out) {
    const uint32_t leaf = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (leaf >= leaves) return;
    const uint32_t from = first_key(keys, rows, leaf), end = first_key(keys, rows, leaf + 1);
    auto weight = [&](uint32_t base) { return base < end && lane < end - base ? weights[base + lane] : 0.0f; };
    // The sum of all, or up to the 32 rows with which `goal` is reached: `base` is then their first.
    auto add = [&](double goal, uint32_t& base) {
        double sum = 0.0;
        float next = weight(base);
        while (base < end) {
            const float own = next;
            double upto = sum;
            next = weight(base + 32);
            // Behind the last row zeros are added, which changes nothing.
#pragma unroll
            for (int k = 0; k < 32; k++) upto = upto + static_cast<double>(__shfl_sync(~0u, own, k));
            if (upto >= goal) return sum;
            sum = upto;
            base += 32;
        }
        return sum;
    };
    uint32_t base = from;
    const double goal = level * add(INFINITE64, base);
    base = from;
    double reached = add(goal, base);
    if (lane) return;
    float* own = out + 3 * leaf;
    own[0] = own[1] = 0.0f;
    own[2] = end > from ? 1.0f : 0.0f;
    for (uint32_t i = base; i < end; i++) {
        reached = reached + static_cast<double>(weights[i]);
        if (reached < goal) continue;
        own[0] = residual_of(keys[i]);
        own[1] = reached == goal && i + 1 < end ? residual_of(keys[i + 1]) : own[0];
        break;
    }
}

}  // namespace taiga
