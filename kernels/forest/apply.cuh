// A forest applied (src/core/learners/forest/apply.rs): the mean of the trees' leaves, added in their order.

#pragma once

#include <cstdint>

namespace {

enum Way : uint32_t { CODE, VALUE, SET };

// A node of a tree. Of codes `(code - shift) mod 256 > above` goes right; of values `x > border`, or missing with `shift`; of
// categories those whose code is in set `above`.
struct Question {
    double border;
    uint32_t slot, way, shift, above;
    uint32_t children[2];  // from the tree's number of nodes on, leaves
};

// Where a tree's nodes and values begin, and how many nodes it has.
struct Planted {
    uint64_t first_node, first_value;
    uint32_t nodes, unused;
};

}  // namespace

// Predictions `out[output][row]`; or, where there is room for them, `leaves[row][tree]`. codes[slot][row], values[slot][row].
extern "C" __global__ void __launch_bounds__(256) forest_apply(
    uint64_t rows,
    const uint8_t* codes,
    const double* values,
    const Planted* trees,
    uint32_t tree_count,
    const Question* questions,
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
        const Planted tree = trees[t];
        uint32_t at = 0;
        while (at < tree.nodes) {
            const Question& question = questions[tree.first_node + at];
            const uint64_t place = question.slot * rows + row;
            bool right;
            if (question.way == CODE) {
                right = ((codes[place] - question.shift) & 0xff) > question.above;
            } else if (question.way == VALUE) {
                const double x = values[place];
                right = x > question.border || (!(x == x) && question.shift != 0);
            } else {
                const uint32_t code = codes[place];
                right = (sets[question.above * 4ull + code / 64] >> (code % 64) & 1) != 0;
            }
            at = question.children[right];
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
