// The search for the split of a whole level: the largest gain summed over its nodes.

#pragma once

#include "search.cuh"

namespace taiga {

// What the candidates of a feature score in each node of a level, to be added up in their order.
struct Level {
    double* scores;    // [column][side][node][bin]; of `nodes` nodes at a time
    uint8_t* missing;  // [column][node]: whether the node has missing values there
    double* parents;   // [node]
    double* sums;      // [column][side][bin]
    double* parent;    // Σ parents
    uint8_t* any;      // [column]
    uint32_t nodes;
    uint32_t unused;
};

// The scores of a feature's candidates in a node, by a block; `node` among those of this time.
__device__ __forceinline__ void score_node(const Search& a, const Level& level, uint32_t inside, uint32_t node) {
    __shared__ int64_t parts[3][8];
    __shared__ Sums missing_sums;
    const Item item = a.items[node];
    const Encoding& e = *a.encoding;
    const uint32_t column = a.first_column + inside;
    const Feature feature = a.features[a.first_feature + inside];
    const bool searched = item.state & SEARCHED;
    // A node that is not searched counts for nothing. Every column's blocks write the same here.
    double parent = searched ? node_score(a.rules, e, item) : 0.0;
    if (threadIdx.x == 0) level.parents[node] = parent;
    uint8_t* flag = level.missing + static_cast<uint64_t>(column) * level.nodes + node;
    double* out = level.scores + ((static_cast<uint64_t>(column) * 2) * level.nodes + node) * BINS + threadIdx.x;
    if (!searched) {
        if (threadIdx.x == 0) *flag = 2;
        return;
    }
    const uint32_t bins = feature.borders + 1 + feature.first;
    Sums own = take_bin(a, item, inside, bins);
    if (threadIdx.x == 0) missing_sums = feature.first ? own : Sums{0, 0, 0};
    Sums left = sums_upto(own, a.counted != NOT, parts);
    const Sums missing = missing_sums;
    const uint32_t border = threadIdx.x - feature.first;
    const bool any = missing.gradient | missing.hessian | missing.count;
    if (threadIdx.x == 0) *flag = any;
    if (border > feature.borders) return;
    // A node that a candidate would leave a child too small in counts as not split; so behind the
    // last border.
    out[0] = score(a.rules, e, item, feature.monotone, left, parent);
    if (any) out[static_cast<uint64_t>(level.nodes) * BINS] = score(a.rules, e, item, feature.monotone, left - missing, parent);
}

// Adds up the scores of `nodes` more nodes in a column, by a block; behind the last ones picks the column's
// best. What other blocks of this launch may have written is read past the first-level cache.
__device__ __forceinline__ void sum_scores(const Search& a, const Level& level, const uint32_t* numbers, uint32_t column, uint32_t nodes,
                                           bool begins, bool ends) {
    __shared__ Top tops[8];
    const uint64_t own = static_cast<uint64_t>(column) * 2 * BINS + threadIdx.x;
    double sums[2] = {0.0, 0.0}, parent = 0.0;
    // Whether a node has missing values, and whether there is a node at all.
    bool any = false, found = false;
    if (!begins) {
        sums[0] = level.sums[own];
        sums[1] = level.sums[own + BINS];
        parent = level.parent[column];
        any = level.any[column] & 1;
        found = level.any[column] & 2;
    }
    const double* scores = level.scores + static_cast<uint64_t>(column) * 2 * level.nodes * BINS + threadIdx.x;
    const uint8_t* missing = level.missing + static_cast<uint64_t>(column) * level.nodes;
    const Feature feature = a.features[numbers[column]];
    const bool inside = threadIdx.x - feature.first <= feature.borders;
    // What is known of the nodes comes first, so that many of their scores are on the way at a time.
    __shared__ uint8_t flags[BINS];
    __shared__ double parents[BINS];
    for (uint32_t from = 0; from < nodes; from += BINS) {
        const uint32_t here = nodes - from < BINS ? nodes - from : BINS;
        __syncthreads();
        if (threadIdx.x < here) {
            flags[threadIdx.x] = __ldcg(missing + from + threadIdx.x);
            parents[threadIdx.x] = __ldcg(level.parents + from + threadIdx.x);
        }
        __syncthreads();
#pragma unroll 8
        for (uint32_t k = 0; k < here; k++) {
            const uint8_t flag = flags[k];
            const bool read = inside && flag != 2;
            const double left = read ? __ldcg(scores + static_cast<uint64_t>(from + k) * BINS) : 0.0;
            const double right = read && flag == 1 ? __ldcg(scores + static_cast<uint64_t>(level.nodes + from + k) * BINS) : left;
            if (flag == 2) continue;
            parent = parent + parents[k];
            any |= flag == 1;
            found = true;
            sums[0] = sums[0] + left;
            sums[1] = sums[1] + right;
        }
    }
    if (!ends) {
        level.sums[own] = sums[0];
        level.sums[own + BINS] = sums[1];
        if (threadIdx.x == 0) {
            level.parent[column] = parent;
            level.any[column] = any | found << 1;
        }
        return;
    }
    const uint32_t border = threadIdx.x - feature.first;
    Best* best = a.best + column;
    if (!may_split(a, a.items[0], numbers[column])) {
        if (threadIdx.x == 0) *best = Best{};
        return;
    }
    Top top = top_of_block(border < feature.borders && found ? sums[0] : -INFINITE64, tops);
    double gain = top.value - parent;
    uint32_t side = gain > a.rules.min_gain ? MISSING_LEFT : NO_SIDE;
    if (any) {
        Top other = top_of_block(border <= feature.borders ? sums[1] : -INFINITE64, tops);
        double other_gain = other.value - parent;
        bool better = other_gain > gain || (other_gain == gain && other.place < top.place);
        if (other_gain > a.rules.min_gain && (side == NO_SIDE || better)) {
            gain = other_gain;
            top = other;
            side = MISSING_RIGHT;
        }
    }
    if (threadIdx.x == top.place) *best = Best{gain, border, side, {0, 0, 0}, 0};
}

// blockIdx.x: the feature inside the group; blockIdx.y: the node among those of this time.
extern "C" __global__ void __launch_bounds__(BINS) tree_level_scores(const __grid_constant__ Search a, const __grid_constant__ Level level) {
    score_node(a, level, blockIdx.x, blockIdx.y);
}

// A block a column.
extern "C" __global__ void __launch_bounds__(BINS)
    tree_level_sum(const __grid_constant__ Search a, const __grid_constant__ Level level, const uint32_t* numbers, uint32_t nodes, uint32_t begins,
                   uint32_t ends) {
    sum_scores(a, level, numbers, blockIdx.x, nodes, begins, ends);
}

// The sums left of a split in a node's histogram, by a warp. All bins are on their way before the first is
// added: those behind the split are read too, for the first bin's address, and count nothing.
__device__ __forceinline__ Sums left_sums(const Search& a, uint32_t slot, uint32_t inside, uint32_t first, uint32_t border, uint32_t side) {
    constexpr uint32_t EACH = BINS / 32;
    const uint32_t from = (side == MISSING_LEFT ? 0 : first) + (threadIdx.x & 31), end = first + border + 1;
    Sums s = {0, 0, 0}, parts[EACH];
    auto at = [&](uint32_t k) { return bin_of(a.histograms, slot, inside, from + 32 * k < end ? from + 32 * k : 0); };
    if (a.histograms.components == 2) {
        longlong2 read[EACH];
#pragma unroll
        for (uint32_t k = 0; k < EACH; k++) read[k] = __ldcg(reinterpret_cast<const longlong2*>(at(k)));
#pragma unroll
        for (uint32_t k = 0; k < EACH; k++) parts[k] = Sums{read[k].x, read[k].y, a.counted == BY_HESSIAN ? read[k].y : 0};
    } else {
#pragma unroll
        for (uint32_t k = 0; k < EACH; k++) parts[k] = read_bin(at(k), a.counted);
    }
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        if (from + 32 * k < end) s = s + parts[k];
    }
    for (int o = 16; o; o >>= 1) {
        s = s + Sums{__shfl_xor_sync(~0u, s.gradient, o), __shfl_xor_sync(~0u, s.hessian, o), __shfl_xor_sync(~0u, s.count, o)};
    }
    return s;
}

// The split of a level, and each node's left sums under it: for the features of one group, which may
// have it or not. A warp a node.
extern "C" __global__ void __launch_bounds__(32)
    tree_level_pick(const __grid_constant__ Search a, const uint32_t* numbers, Found* found) {
    uint32_t c = best_column(a.best, a.columns);
    Found* out = found + blockIdx.x;
    if (c == ~0u) {
        if (threadIdx.x == 0) *out = Found{};
        return;
    }
    const Best b = a.best[c];
    const uint32_t f = numbers[c];
    if (f < a.first_feature || f >= a.first_feature + a.histograms.features) return;
    const Item item = a.items[blockIdx.x];
    if (!(item.state & SEARCHED)) return;
    Sums left = left_sums(a, item.slot, f - a.first_feature, a.features[f].first, b.border, b.side);
    if (threadIdx.x == 0) {
        *out = Found{};
        out->gain = b.gain;
        out->feature = f;
        out->border = b.border;
        out->side = b.side;
        out->left = left;
    }
}

}  // namespace taiga
