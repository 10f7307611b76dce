// Adds the values of leaves to the scores of all rows, and gathers scores of some.

#pragma once

#include "layouts.cuh"

namespace taiga {

// Adds the values of the last tree's leaves to the scores of one output.
extern "C" __global__ void __launch_bounds__(256) tree_update(float* scores, const uint16_t* leaf, const float* values, uint64_t rows) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < rows; i += gridDim.x * 256ull) scores[i] = scores[i] + values[leaf[i]];
}

// Values at some rows.
extern "C" __global__ void __launch_bounds__(256) tree_gather(const float* values, const uint32_t* rows, uint64_t count, float* out) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < count; i += gridDim.x * 256ull) out[i] = values[rows[i]];
}

}  // namespace taiga
