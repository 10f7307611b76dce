// Grows whole trees without asking the host: under policies by level, where every open feature may
// split every node, the device decides as the grower would (src/core/tree/grow.rs), level after
// level, and the host reads afterwards what was decided. Nodes are counted as in a heap: the
// children of node i are 2i + 1 and 2i + 2.

#pragma once

#include "leaf_sums.cuh"
#include "evaluate_level.cuh"

namespace taiga {

struct ResidentLevel {  // shared with the host
    SplitSearch search;            // of the first open group; `split_inputs` is the level's
    const uint32_t* numbers;  // of each column: its feature
    const uint64_t* codes;    // and where its codes are (`PartitionJob::codes`)
    // Heaps.
    NodeRows* nodes;
    SplitInput* split_inputs;
    NodeSplit* found;
    uint64_t* split_tests;
    uint32_t* sets;  // [entry][8]; where features share columns
    // One a node of the level.
    PartitionJob* jobs;
    HistogramJob* summed;
    uint32_t* starts;
    LaunchRows* plan;
    uint32_t* arrived;
    uint32_t level, depth;
};

// The root's rows, and that its histogram is the first to be summed.
extern "C" __global__ void __launch_bounds__(32) tree_seed(NodeRows* root, uint32_t rows, uint32_t list, HistogramJob* summed) {
    if (threadIdx.x) return;
    *root = NodeRows{0, rows, 0, list, -1, 0, 0};
    *summed = HistogramJob{0, 0};
}

// The bits of a word of a set that stand for codes below `end`.
__device__ __forceinline__ uint32_t bits_below(uint32_t word, uint32_t end) {
    return end >= 32 * word + 32 ? ~0u : end <= 32 * word ? 0 : (1u << (end - 32 * word)) - 1;
}

// The codes of a column that a feature shares that a split sends to the right: Bundles::right in
// src/cuda/trees/bundling.rs. Apart, so that the searches keep their registers.
__device__ __noinline__ void set_of_shared(const FeatureInfo* feature, uint32_t last, bool zero_right, uint32_t* set) {
    const FeatureInfo f = *feature;
    const uint32_t above = stored_from(f, last + 1 > f.low ? last + 1 : f.low), end = stored_from(f, f.borders + 1 + f.first);
    const bool zero = zero_right && f.low == 0 && f.usual != 0, others = f.usual > last || (zero_right && f.usual == 0);
    for (uint32_t w = 0; w < 8; w++) {
        const uint32_t from_start = ~bits_below(w, f.start), own = bits_below(w, end) & from_start;
        set[w] = (own & ~bits_below(w, above)) | (zero ? bits_below(w, f.start + 1) & from_start : 0) | (others ? ~own : 0);
    }
}

// Writes what becomes of a node, and its children: by one thread.
__device__ __forceinline__ void grow_node(const ResidentLevel& a, uint32_t place, uint32_t column, const FeatureSplit& best, Sums left, bool searched) {
    const uint32_t nodes = 1u << a.level, at = nodes - 1 + place;
    const SplitInput input = a.split_inputs[at];
    const bool exists = input.state & EXISTS, divided = exists && column != NOWHERE, last = a.level + 1 == a.depth;
    NodeSplit* found = a.found + at;
    *found = NodeSplit{};
    found->side = divided ? best.side : NO_SIDE;
    PartitionJob* job = a.jobs + place;
    *job = PartitionJob{};
    job->node = at;
    a.summed[place] = {~0u, 0};
    if (!divided) {
        a.split_tests[at] = LEAF | place << (a.depth - a.level);
        if (!last) a.split_inputs[2 * at + 1] = a.split_inputs[2 * at + 2] = SplitInput{{0, 0, 0}, 0.0, 0.0, 0, -1, ~0u, 0};
        return;
    }
    const FeatureInfo feature = a.search.features[a.numbers[column]];
    found->gain = best.gain;
    found->feature = a.numbers[column];
    found->border = best.border;
    found->left = left;
    const uint32_t last_left = feature.first + best.border;
    const bool zero_right = feature.first && best.side == MISSING_RIGHT;
    const bool shared = feature.usual != ALL_STORED && feature.column != SPARSE_COLUMN;
    uint32_t* set = a.sets + 8 * at;
    if (shared) set_of_shared(a.search.features + a.numbers[column], last_left, zero_right, set);
    a.split_tests[at] = shared ? split_test(a.codes[column], 0, false) | BY_SET : split_test(a.codes[column], last_left, zero_right);
    if (last) return;
    // A node that was too small to be searched goes along; its children are too small too.
    Sums right = searched ? input.sums - left : input.sums;
    const GradientQuantizer& e = *a.search.quantizer;
    const bool left_open = is_searched(a.search.rules, e, left), right_open = is_searched(a.search.rules, e, right);
    SplitInput l = {left, input.low, input.high, input.slot, -1, ~0u, EXISTS}, r = {right, input.low, input.high, input.slot, -1, ~0u, EXISTS};
    if (searched && (left_open || right_open)) {
        const bool right_is_smaller = !(left.hessian <= right.hessian);
        const uint32_t slot = nodes + place;
        SplitInput& smaller = right_is_smaller ? r : l;
        SplitInput& larger = right_is_smaller ? l : r;
        smaller.slot = slot;
        larger.minus = static_cast<int32_t>(slot);
        l.state |= left_open ? SEARCHED : 0;
        r.state |= right_open ? SEARCHED : 0;
        job->codes = a.codes[column];
        job->last = last_left;
        job->zero_right = zero_right;
        job->is_set = shared;
        for (uint32_t w = 0; shared && w < 8; w++) job->set[w] = set[w];
        job->right_is_smaller = right_is_smaller;
        job->slot = slot;
        job->moves = 1;
        a.summed[place] = {2 * at + 1 + right_is_smaller, slot};
        a.nodes[2 * at + 1] = NodeRows{0, 0, 0, 0, static_cast<int32_t>(at), 0, 0};
        a.nodes[2 * at + 2] = NodeRows{0, 0, 0, 0, static_cast<int32_t>(at), 1, 0};
    }
    a.split_inputs[2 * at + 1] = l;
    a.split_inputs[2 * at + 2] = r;
}

__device__ __forceinline__ void plan_level(const ResidentLevel& a) {
    if (a.level + 1 == a.depth) return;
    if (gridDim.x == 1) __syncthreads();
    if (gridDim.x == 1 || last_block(a.arrived, gridDim.x)) make_plan(a.nodes, 1u << a.level, a.starts, a.plan, a.jobs);
}

// More columns than a warp looks through.
constexpr uint32_t MANY_COLUMNS = 256;

// Every node of a level by its own split. A warp a node, or a block, one after the other, where there are many columns.
extern "C" __global__ void __launch_bounds__(256) tree_grow(const __grid_constant__ ResidentLevel a) {
    const bool many = a.search.columns > MANY_COLUMNS;
    for (uint32_t w = many ? 0 : threadIdx.x / 32; w < 8; w += many ? 1 : 8) {
        const uint32_t place = blockIdx.x * 8 + w;
        if (place >= 1u << a.level) break;
        const FeatureSplit* best = a.search.best + static_cast<uint64_t>(place) * a.search.columns;
        const bool searched = a.split_inputs[(1u << a.level) - 1 + place].state & SEARCHED;
        const uint32_t column = !searched ? NOWHERE : many ? best_column_of_block(best, a.search.columns) : best_column(best, a.search.columns);
        if (threadIdx.x == 32 * w) {
            FeatureSplit b = column == NOWHERE ? FeatureSplit{} : read_best(best + column);
            grow_node(a, place, column, b, b.left, true);
        }
    }
    plan_level(a);
}

// All nodes of a level by one split. A warp a node.
extern "C" __global__ void __launch_bounds__(256) tree_grow_level(const __grid_constant__ ResidentLevel a) {
    const uint32_t place = blockIdx.x * 8 + threadIdx.x / 32, at = (1u << a.level) - 1 + place;
    const uint32_t column = best_column_of_block(a.search.best, a.search.columns);
    if (place < 1u << a.level) {
        const SplitInput input = a.split_inputs[at];
        Sums left = input.sums;
        FeatureSplit b = {};
        if (column != NOWHERE) {
            b = read_best(a.search.best + column);
            if (input.state & SEARCHED) left = left_of_split(a.search, input, a.search.features[a.numbers[column]], b);
        }
        if ((threadIdx.x & 31) == 0) grow_node(a, place, column, b, left, input.state & SEARCHED);
    }
    plan_level(a);
}

// So many nodes, at most, are searched and grown in one launch.
constexpr uint32_t FUSED_NODES = 63;

// What comes behind the searches of few nodes in the same launch: the last block of a node to arrive decides its split, and the
// last node's plans the next level.
__device__ __forceinline__ void grow_searched(const ResidentLevel& a) {
    const uint32_t place = blockIdx.y;
    if (!last_block(a.arrived + 1 + place, gridDim.x)) return;
    const FeatureSplit* best = a.search.best + static_cast<uint64_t>(place) * a.search.columns;
    const bool searched = a.search.split_inputs[place].state & SEARCHED;
    const uint32_t column = searched ? best_column_of_block(best, a.search.columns) : NOWHERE;
    if (threadIdx.x == 0) {
        const FeatureSplit b = column == NOWHERE ? FeatureSplit{} : read_best(best + column);
        grow_node(a, place, column, b, b.left, true);
    }
    if (a.level + 1 == a.depth || !last_block(a.arrived, gridDim.y)) return;
    make_plan(a.nodes, 1u << a.level, a.starts, a.plan, a.jobs);
}

// Few nodes are searched and grown in one launch. blockIdx.x: the feature; blockIdx.y: the node.
extern "C" __global__ void __launch_bounds__(BINS) tree_search_grow(const __grid_constant__ ResidentLevel a) {
    follow_on();
    search_node<false>(a.search, blockIdx.x, blockIdx.y);
    grow_searched(a);
}

// The same where all features have at most so many codes.
#define TAIGA_SEARCH_GROW(name, width, each)                                                                            \
    extern "C" __global__ void __launch_bounds__(LANE_THREADS) name(const __grid_constant__ ResidentLevel a) {                  \
        follow_on();                                                                                                    \
        search_lanes<width, each, false>(a.search, blockIdx.y);                                                         \
        grow_searched(a);                                                                                               \
    }

TAIGA_SEARCH_GROW(tree_search_grow_4, 4, 1)
TAIGA_SEARCH_GROW(tree_search_grow_32, 32, 1)

extern "C" __global__ void __launch_bounds__(STEP_THREADS) tree_search_grow_256(const __grid_constant__ ResidentLevel a) {
    follow_on();
    search_steps<false>(a.search, blockIdx.y);
    grow_searched(a);
}

// The same under one split for all nodes: the last block of a column to arrive adds up its scores, the last
// column's grows all nodes.
extern "C" __global__ void __launch_bounds__(BINS) tree_level_grow(const __grid_constant__ ResidentLevel a, const __grid_constant__ LevelScores level) {
    follow_on();
    __shared__ Known known;
    const uint32_t nodes = 1u << a.level;
    know_nodes(a.search, a.search.split_inputs, nodes, known);
    score_node(a.search, level, blockIdx.x, blockIdx.y, known.parents[blockIdx.y]);
    if (!last_block(a.arrived + 1 + blockIdx.x, gridDim.y)) return;
    sum_scores<false>(a.search, level, a.numbers, blockIdx.x, nodes, true, true, known, true);
    if (!last_block(a.arrived, gridDim.x)) return;
    const uint32_t column = best_column_of_block(a.search.best, a.search.columns);
    const FeatureSplit b = column == NOWHERE ? FeatureSplit{} : read_best(a.search.best + column);
    if (threadIdx.x < nodes) {
        const bool searched = known.searched[threadIdx.x];
        Sums left;
        if (column != NOWHERE && searched) {
            left = kept_left(level, column, threadIdx.x, a.search.features[a.numbers[column]].first, b);
        } else {
            left = a.split_inputs[nodes - 1 + threadIdx.x].sums;
        }
        grow_node(a, threadIdx.x, column, b, left, searched);
    }
    if (a.level + 1 == a.depth) return;
    __syncthreads();
    make_plan(a.nodes, nodes, a.starts, a.plan, a.jobs);
}

}  // namespace taiga
