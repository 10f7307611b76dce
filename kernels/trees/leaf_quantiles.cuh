// Finds the quantiles of the residuals of each leaf's rows, for leaves that are refitted (numerics/reduce.rs): rows are sorted by
// (leaf, residual, weight), and a leaf's weights are added in that order.

#pragma once

#include "layouts.cuh"

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

// Whether sums of a leaf's weights are exact, and so the same in any order: all are multiples of a power of two, and their sum is
// below 2^53 of it. By a warp.
__device__ __forceinline__ bool any_order(const float* weights, uint32_t from, uint32_t end) {
    int32_t lowest = 1 << 20, highest = -(1 << 20);
    for (uint32_t i = from + (threadIdx.x & 31); i < end; i += 32) {
        const uint32_t bits = __float_as_uint(weights[i]), exponent = bits >> 23;
        const uint32_t digits = exponent ? (bits & 0x7fffffu) | 0x800000u : bits;
        const int32_t unit = static_cast<int32_t>(exponent ? exponent : 1) - 150, low = unit + __ffs(static_cast<int>(digits)) - 1;
        lowest = low < lowest ? low : lowest;
        highest = unit + 24 > highest ? unit + 24 : highest;
    }
    for (int o = 16; o; o >>= 1) {
        const int32_t low = __shfl_xor_sync(~0u, lowest, o), high = __shfl_xor_sync(~0u, highest, o);
        lowest = low < lowest ? low : lowest;
        highest = high > highest ? high : highest;
    }
    return end > from && highest + 32 - __clz(static_cast<int>(end - from)) <= lowest + 53;
}

// Rows that a warp adds at a time where their order does not matter.
constexpr uint32_t TILE = 1024;

// The sum of a tile's weights, in whatever order.
__device__ __forceinline__ double sum_of_tile(const float* weights, uint32_t base, uint32_t end) {
    double sum = 0.0;
#pragma unroll 8
    for (uint32_t i = base + (threadIdx.x & 31); i < base + TILE; i += 32) sum += i < end ? static_cast<double>(weights[i]) : 0.0;
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    return sum;
}

// Adds weights from `base` on to `sum`, one after the other, up to the 32 rows with which `goal` is reached; `base` is then
// their first.
__device__ __forceinline__ double add_in_order(const float* weights, uint32_t& base, uint32_t end, double sum, double goal) {
    const uint32_t lane = threadIdx.x & 31;
    auto weight = [&](uint32_t at) { return at < end && lane < end - at ? weights[at + lane] : 0.0f; };
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
}

// As `tree_quantiles`, by the sorted rows' weights, whose sums are those of the CPU, which adds one after the other. A warp a leaf.
extern "C" __global__ void __launch_bounds__(256)
    tree_weighted_quantiles(const unsigned long long* keys, const float* weights, uint32_t rows, uint32_t leaves, double level, float* out) {
    const uint32_t leaf = blockIdx.x * 8 + threadIdx.x / 32;
    if (leaf >= leaves) return;
    const uint32_t from = first_key(keys, rows, leaf), end = first_key(keys, rows, leaf + 1);
    const bool exact = any_order(weights, from, end);
    double total = 0.0, reached = 0.0;
    uint32_t base = from;
    if (exact) {
        for (; base < end; base += TILE) total += sum_of_tile(weights, base, end);
    } else {
        total = add_in_order(weights, base, end, 0.0, INFINITE64);
    }
    const double goal = level * total;
    base = from;
    while (exact && base < end) {
        const double upto = reached + sum_of_tile(weights, base, end);
        if (upto >= goal) break;
        reached = upto;
        base += TILE;
    }
    reached = add_in_order(weights, base, end, reached, goal);
    if (threadIdx.x & 31) return;
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
