// Applies a forest to rows: the mean of the trees' leaves, added in their order (src/core/learners/forest/apply.rs).

#pragma once

#include <cstdint>

namespace {

// How a node tells rows left from right.
enum SplitBy : uint32_t { CODE, VALUE, SET };

// A node of a tree. Of codes `(code - shift) mod 256 > above` goes right; of values `x > border`, or missing with `shift`; of
// categories those whose code is in set `above`.
struct ForestNode {  // shared with the host
    double border;
    uint32_t slot, split_by, shift, above;
    uint32_t children[2];  // from the tree's number of nodes on, leaves
};

// Where a tree's nodes and values begin, and how many nodes it has.
struct ForestTree {  // shared with the host
    uint64_t first_node, first_value;
    uint32_t nodes, unused;
};

// Does the row go right? codes[slot * stride + row], values[slot * stride + row].
__device__ __forceinline__ bool goes_right(const ForestNode& node, const uint8_t* codes, const double* values, const uint64_t* sets,
                                           uint64_t stride, uint64_t row) {
    const uint64_t at = node.slot * stride + row;
    if (node.split_by == CODE) {
        return ((codes[at] - node.shift) & 0xff) > node.above;
    }
    if (node.split_by == VALUE) {
        const double x = values[at];
        return x > node.border || (!(x == x) && node.shift != 0);
    }
    const uint32_t code = codes[at];
    return (sets[node.above * 4ull + code / 64] >> (code % 64) & 1) != 0;
}

}  // namespace

// answers[node * pitch + k]: whether the row `first_row + k` of all goes right at a node of those from `first_node` on. A thread takes a row,
// a row of the grid some nodes.
extern "C" __global__ void __launch_bounds__(256) answer_nodes(
    uint64_t rows,
    uint64_t first_row,
    uint64_t stride,
    const uint8_t* codes,
    const double* values,
    const ForestNode* nodes,
    const uint64_t* sets,
    uint64_t first_node,
    uint32_t count,
    uint64_t pitch,
    uint8_t* answers) {
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) {
        return;
    }
    for (uint32_t node = blockIdx.y; node < count; node += gridDim.y) {
        answers[node * pitch + k] = goes_right(nodes[first_node + node], codes, values, sets, stride, first_row + k);
    }
}

// Predictions `out[output][row]`; or, where there is room for them, `leaves[row][tree]`. codes[slot][row], values[slot][row].
extern "C" __global__ void __launch_bounds__(256) predict_forest(
    uint64_t rows,
    const uint8_t* codes,
    const double* values,
    const ForestTree* trees,
    uint32_t tree_count,
    const ForestNode* nodes,
    const uint64_t* sets,
    const double* leaf_values,
    uint32_t outputs,
    double* out,
    uint32_t* leaves) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) {
        return;
    }
    for (uint32_t k = 0; leaves == nullptr && k < outputs; k++) {
        out[k * rows + row] = 0.0;
    }
    for (uint32_t t = 0; t < tree_count; t++) {
        const ForestTree tree = trees[t];
        uint32_t at = 0;
        while (at < tree.nodes) {
            const ForestNode& node = nodes[tree.first_node + at];
            const bool right = goes_right(node, codes, values, sets, rows, row);
            at = node.children[right];
        }
        const uint32_t leaf = at - tree.nodes;
        if (leaves != nullptr) {
            leaves[row * tree_count + t] = leaf;
            continue;
        }
        for (uint32_t k = 0; k < outputs; k++) {
            out[k * rows + row] += leaf_values[tree.first_value + static_cast<uint64_t>(leaf) * outputs + k];
        }
    }
    for (uint32_t k = 0; leaves == nullptr && k < outputs; k++) {
        out[k * rows + row] /= static_cast<double>(tree_count);
    }
}
