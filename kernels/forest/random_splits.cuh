// Scores one border, drawn between the smallest and the largest value of a node (src/cpu/forest/evaluate_splits.rs, `random`).

#pragma once

#include "evaluate_splits.cuh"

namespace {

// A number from `low` up to and without `high`.
__device__ double between(double low, double high, double unit) {
    constexpr double LARGEST = 1.7976931348623157e308;
    double from = taiga::at_least(low, -LARGEST), to = taiga::at_most(high, LARGEST);
    double t = from * (1.0 - unit) + to * unit + 0.0;
    if (t >= high || !(t == t)) {
        return low;
    }
    return taiga::at_least(t, low);
}

// By a block; the result is thread 0's.
template <int KIND>
__device__ BestSplit search_random(
    const ForestFit& fit, const DrawnRow* entries, uint64_t begin, uint64_t end, uint64_t key, uint32_t feature, NodeSums total, const Lanes& lanes) {
    __shared__ uint32_t low, high, missing;
    __shared__ NodeSums parts[2][LANES];
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    uint64_t* left_lanes = lanes.carry;
    __syncthreads();
    if (threadIdx.x == 0) {
        low = NONE;
        high = 0;
        missing = 0;
    }
    for (uint32_t k = threadIdx.x; KIND == CLASSES && k < fit.class_count; k += blockDim.x) {
        lanes.missing[k] = 0;
        left_lanes[k] = 0;
    }
    __syncthreads();
    uint32_t own_low = NONE, own_high = 0, own_missing = 0;
    for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        uint32_t code = code_of(fit, feature, entries[i].row);
        own_missing |= code == 0;
        own_low = min(own_low, code == 0 ? NONE : code);
        own_high = max(own_high, code);
    }
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        own_low = min(own_low, __shfl_xor_sync(ALL, own_low, step));
        own_high = max(own_high, __shfl_xor_sync(ALL, own_high, step));
        own_missing |= __shfl_xor_sync(ALL, own_missing, step);
    }
    if (lane == 0) {
        atomicMin(&low, own_low);
        atomicMax(&high, own_high);
        atomicOr(&missing, own_missing);
    }
    __syncthreads();
    const uint32_t from = low, to = high;
    const bool some_missing = missing != 0;
    if (to == 0 || (from == to && !some_missing)) {
        return no_split();
    }
    uint32_t last = to;
    double threshold = 0.0;
    if (from < to) {
        const double* values = fit.distinct + fit.distinct_starts[feature];
        const uint64_t bits = mix64(key + ((1ull << 32) + feature) * GOLDEN);
        const double unit = static_cast<double>(bits >> 11) / 9007199254740992.0;
        threshold = between(values[from - 1], values[to - 1], unit);
        uint32_t above = to;
        last = from;
        while (above - last > 1) {
            uint32_t middle = last + (above - last) / 2;
            if (values[middle - 1] <= threshold) {
                last = middle;
            } else {
                above = middle;
            }
        }
    }
    NodeSums left{0, 0, 0}, with{0, 0, 0};
    for (uint64_t i = begin; i < end; i += blockDim.x) {
        const bool is = i + threadIdx.x < end;
        const DrawnRow entry = is ? entries[i + threadIdx.x] : DrawnRow{0, 0};
        const uint32_t code = is ? code_of(fit, feature, entry.row) : NONE;
        const bool is_left = is && code != 0 && code <= last, is_missing = is && code == 0;
        Item item{0, {0, 0, 0}};
        if (is_left || is_missing) {
            item = item_of<KIND>(fit, entry);
        }
        left = is_left ? left + item.sums : left;
        with = is_missing ? with + item.sums : with;
        if (KIND == CLASSES) {
            add_by_class(left_lanes, is_left, item.cls, item.sums.weight);
            add_by_class(lanes.missing, is_missing, item.cls, item.sums.weight);
        }
    }
    left = sum_of_warp(left);
    with = sum_of_warp(with);
    if (lane == 0) {
        parts[0][warp] = left;
        parts[1][warp] = with;
    }
    __syncthreads();
    BestSplit best = no_split();
    if (warp == 0) {
        left = {0, 0, 0};
        with = {0, 0, 0};
        for (uint32_t w = 0; w < warps; w++) {
            left = left + parts[0][w];
            with = with + parts[1][w];
        }
        with = with + left;
        const bool both = from < to && some_missing;
        const uint32_t right = from < to ? last + 1 : NONE;
        double inside = 0.0, inside_with = 0.0;
        if (KIND == CLASSES) {
            inside = inside_of_warp(fit, [&](uint32_t k) { return left_lanes[k]; }, lanes.total, left, total);
            if (both) {
                inside_with =
                    inside_of_warp(fit, [&](uint32_t k) { return left_lanes[k] + lanes.missing[k]; }, lanes.total, with, total);
            }
        }
        if (both) {
            consider<KIND>(best, fit, with, total, inside_with, 0, last, right, 1);
        }
        consider<KIND>(best, fit, left, total, inside, 1, last, right, some_missing ? 0 : 2);
        best.threshold = threshold;
    }
    best.varies = 1;
    __syncthreads();
    return best;
}

}  // namespace
