// Predicts the rows that a tree was not grown on (src/core/learners/forest/oob.rs).

#pragma once

#include "partition.cuh"

namespace {

// A node as rows meet it.
struct WalkStep {  // shared with the host
    uint32_t feature;  // NONE: a leaf
    uint32_t shift, above;
    uint32_t children;
};

}  // namespace

// Nodes as rows meet them; `cuts`: of each the code that larger ones go right of, which may be larger than those on its left,
// and NONE of leaves.
extern "C" __global__ void forest_steps(ForestFit fit, uint32_t count, const uint32_t* cuts, WalkStep* steps) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    const GrowingNode& node = fit.nodes[i];
    if (cuts[i] == NONE) {
        steps[i] = {NONE, 0, 0, 0};
        return;
    }
    uint32_t shift = has_missing(fit, node.feature) && node.missing_left == 0;
    steps[i] = {node.feature, shift, cuts[i] - shift, node.children};
}

// What each node would add to a row's predictions, in fixed point: [node][output]. Of numbers a mean is `centre` and what a
// node's mean is worth by `unit`, less `middle`.
extern "C" __global__ void forest_values(
    ForestFit fit, uint32_t count, double scale, double centre, double unit, double middle, int64_t* values) {
    const uint32_t outputs = fit.kind == NUMBERS ? 1 : fit.class_count;
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < static_cast<uint64_t>(count) * outputs;
         i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
        const uint64_t id = i / outputs, k = i % outputs;
        const NodeSums total = fit.nodes[id].total;
        const double n = static_cast<double>(total.weight);
        double value;
        if (fit.kind == NUMBERS) {
            value = centre + static_cast<double>(total.sum) / n * unit - middle;
        } else {
            uint64_t ones = static_cast<uint64_t>(total.sum);
            uint64_t own = fit.kind == CLASSES ? fit.lanes[i] : k == 1 ? ones : total.weight - ones;
            value = static_cast<double>(own) / n;
        }
        values[i] = __double_as_longlong(value * scale + 6755399441055744.0) - 0x4338000000000000ll;
    }
}

// Rows that were not drawn walk from `root` to their leaf, and add its values: sums[row][output].
extern "C" __global__ void forest_walk_out(
    ForestFit fit, uint32_t root, const uint32_t* drawn, const WalkStep* steps, const int64_t* values, int64_t* sums, uint32_t* counts) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= fit.rows || drawn[row] != 0) {
        return;
    }
    const uint32_t outputs = fit.kind == NUMBERS ? 1 : fit.class_count;
    uint32_t at = root;
    for (WalkStep step = steps[at]; step.feature != NONE; step = steps[at]) {
        const uint32_t code = code_of(fit, step.feature, row);
        bool right = code - step.shift > step.above;
        if (is_categorical(fit, step.feature)) {
            right = (fit.sets[static_cast<uint64_t>(at) * 4 + code / 64] >> (code % 64) & 1) != 0;
        }
        at = step.children + right;
    }
    counts[row] += 1;
    for (uint32_t k = 0; k < outputs; k++) {
        sums[row * outputs + k] += values[static_cast<uint64_t>(at) * outputs + k];
    }
}
