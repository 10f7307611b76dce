// Trees that leave the scores for a while: each row's leaf in every tree is kept. Twin of src/cpu/trees/dropouts.rs.

#pragma once

#include "layouts.cuh"

namespace taiga {

// A tree as it is added to a score, or taken out.
struct KeptTree {  // shared with the host
    const void* leaves;  // by row: a byte, or two where the tree is `wide`
    uint32_t wide;
    uint32_t first;  // where its leaves' values begin
};

// Keeps the leaf of each row in a tree that has just grown.
extern "C" __global__ void __launch_bounds__(256) tree_keep(const uint16_t* leaf, void* kept, uint32_t wide, uint64_t rows) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < rows; i += gridDim.x * 256ull) {
        if (wide) {
            static_cast<uint16_t*>(kept)[i] = leaf[i];
        } else {
            static_cast<uint8_t*>(kept)[i] = static_cast<uint8_t>(leaf[i]);
        }
    }
}

// Adds the values of some trees' leaves, which are whole multiples of a step, to the rows' exact sums, and writes the scores: what they were
// before any tree, and the sum.
extern "C" __global__ void __launch_bounds__(256)
    tree_add_kept(const KeptTree* trees, uint32_t count, const double* values, const float* start, double* sums, float* scores, uint64_t rows) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < rows; i += gridDim.x * 256ull) {
        double sum = sums[i];
#pragma unroll 4
        for (uint32_t k = 0; k < count; k++) {
            const KeptTree t = trees[k];
            const uint32_t leaf = t.wide ? static_cast<const uint16_t*>(t.leaves)[i] : static_cast<const uint8_t*>(t.leaves)[i];
            sum = sum + values[t.first + leaf];
        }
        sums[i] = sum;
        scores[i] = static_cast<float>(static_cast<double>(start[i]) + sum);
    }
}

}  // namespace taiga
