// Finds the split of a whole level: the one of the largest gain summed over its nodes.

#pragma once

#include "evaluate_splits.cuh"

namespace taiga {

// What the candidates of a feature score in each node of a level, to be added up in their order.
struct LevelScores {  // shared with the host
    double* scores;    // [column][side][node][bin]; of `nodes` nodes at a time
    Sums* lefts;       // [column][node][bin]: the sums up to a bin, where they are to be kept
    uint8_t* missing;  // [column][node]: whether the node has missing values there
    double* sums;      // [column][side][bin]
    double* parent;    // Σ the nodes' own scores
    uint8_t* any;      // [column]
    uint32_t nodes;
    uint32_t unused;
};

// The sums left of a split of a column in a node, from those that are kept.
__device__ __forceinline__ Sums kept_left(const LevelScores& level, uint32_t column, uint32_t node, uint32_t first, const FeatureSplit& best) {
    const long long* kept = reinterpret_cast<const long long*>(level.lefts + (static_cast<uint64_t>(column) * level.nodes + node) * BINS);
    auto upto = [&](uint32_t bin) { return Sums{__ldcg(kept + 3 * bin), __ldcg(kept + 3 * bin + 1), __ldcg(kept + 3 * bin + 2)}; };
    const Sums left = upto(first + best.border), missing = first ? upto(0) : Sums{0, 0, 0};
    return best.side == MISSING_RIGHT ? left - missing : left;
}

// What is known of up to BINS nodes before they are scored.
struct Known {
    double parents[BINS];  // what they score unsplit
    bool searched[BINS];
};

// By a thread a node; all threads know it behind the next barrier.
__device__ __forceinline__ void know_nodes(const SplitSearch& a, const SplitInput* split_inputs, uint32_t nodes, Known& known) {
    if (threadIdx.x >= nodes) return;
    const SplitInput input = split_inputs[threadIdx.x];
    const bool searched = input.state & SEARCHED;
    known.searched[threadIdx.x] = searched;
    if (searched) known.parents[threadIdx.x] = node_score(a.rules, *a.quantizer, input);
}

// What a candidate of a column scores in a node, from the sums up to its code; `node` among those of this time, which
// scores `parent` unsplit.
__device__ __forceinline__ void score_code(const SplitSearch& a, const LevelScores& level, const SplitInput& input, const FeatureInfo& feature, uint32_t column,
                                           uint32_t node, uint32_t code, Sums left, Sums missing, double parent) {
    const GradientQuantizer& e = *a.quantizer;
    const uint32_t border = code - feature.first;
    const bool any = any_of(missing);
    if (code == 0) level.missing[static_cast<uint64_t>(column) * level.nodes + node] = any;
    if (level.lefts && code < feature.borders + 1 + feature.first) {
        level.lefts[(static_cast<uint64_t>(column) * level.nodes + node) * BINS + code] = left;
    }
    if (border > feature.borders) return;
    double* out = level.scores + ((static_cast<uint64_t>(column) * 2) * level.nodes + node) * BINS + code;
    // A node that a candidate would leave a child too small in counts as not split; so behind the
    // last border.
    out[0] = score(a.rules, e, input, feature.monotone, left, parent);
    if (any) out[static_cast<uint64_t>(level.nodes) * BINS] = score(a.rules, e, input, feature.monotone, left - missing, parent);
}

// The scores of a feature's candidates in a node, by a block. `parent`: what the node scores unsplit, in shared memory,
// which is there behind the next barrier. A node that is not searched counts for nothing.
__device__ __forceinline__ void score_node(const SplitSearch& a, const LevelScores& level, uint32_t inside, uint32_t node, const double& parent) {
    __shared__ int64_t parts[3][8];
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED)) return;
    const FeatureInfo feature = a.features[a.first_feature + inside];
    Sums own[1], missing;
    take_bins(a, input, feature, threadIdx.x, 1, own);
    const Sums left = sums_upto_codes(a, input, feature, own[0], parts, missing);
    score_code(a, level, input, feature, a.first_column + inside, node, threadIdx.x, left, missing, parent);
}

// The same by `WIDTH` lanes; by all lanes of a block.
template <uint32_t WIDTH, uint32_t EACH>
__device__ __forceinline__ void score_lanes(const SplitSearch& a, const LevelScores& level, uint32_t node) {
    const uint32_t inside = (blockIdx.x * blockDim.x + threadIdx.x) / WIDTH;
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED)) return;
    const bool there = inside < a.features_here;
    const FeatureInfo feature = a.features[a.first_feature + (there ? inside : 0)];
    const Lanes<WIDTH, EACH> codes(a, input, feature, there);
    if (!there) return;
    const double parent = node_score(a.rules, *a.quantizer, input);
    codes.each_code([&](uint32_t code, Sums left, bool) {
        score_code(a, level, input, feature, a.first_column + inside, node, code, left, codes.missing, parent);
    });
}

// The same of many codes by a warp: of codes that no row of the node has the score is that of the code before.
__device__ __forceinline__ void score_steps(const SplitSearch& a, const LevelScores& level, uint32_t node) {
    __shared__ Steps::Scratch scratch[STEP_THREADS / 32];
    const uint32_t inside = blockIdx.x * (STEP_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED) || inside >= a.features_here) return;
    const GradientQuantizer& e = *a.quantizer;
    const FeatureInfo feature = a.features[a.first_feature + inside];
    const Steps steps(a, input, feature, scratch[threadIdx.x / 32]);
    const double parent = node_score(a.rules, e, input);
    const bool any = any_of(steps.missing);
    for (uint32_t i = lane; i < steps.count; i += 32) {
        const Sums left = steps.left(a, i);
        const uint32_t at = Steps::place(i);
        const double with = score(a.rules, e, input, feature.monotone, left, parent);
        const double without = any ? score(a.rules, e, input, feature.monotone, left - steps.missing, parent) : 0.0;
        steps.kept.gradients[at] = __double_as_longlong(with);
        steps.kept.hessians[at] = __double_as_longlong(without);
    }
    __syncwarp();
    const uint64_t column = a.first_column + inside;
    if (lane == 0) level.missing[column * level.nodes + node] = any;
    double* out = level.scores + (column * 2 * level.nodes + node) * BINS;
    const uint32_t end = feature.first + feature.borders + 1;
    for (uint32_t base = 0; base < end; base += 32) {
        const uint32_t code = base + lane, owner = code / steps.each;
        const uint32_t mask = __shfl_sync(~0u, steps.mask, owner), before = __shfl_sync(~0u, steps.before, owner);
        if (code < feature.first || code >= end) continue;
        const uint32_t at = Steps::place(before + __popc(mask & ((2u << (code - owner * steps.each)) - 1)) - 1);
        out[code] = __longlong_as_double(steps.kept.gradients[at]);
        if (any) out[static_cast<uint64_t>(level.nodes) * BINS + code] = __longlong_as_double(steps.kept.hessians[at]);
    }
}

// Adds up the scores of `nodes` more nodes in a column, by a block; behind the last ones picks the column's
// best. What other blocks of this launch may have written is read past the first-level cache. `known`: room for
// what is known of BINS nodes at a time, or `is_known` of all of them. `RANKED`: whether there may be noise or weights.
template <bool RANKED>
__device__ __forceinline__ void sum_scores(const SplitSearch& a, const LevelScores& level, const uint32_t* numbers, uint32_t column, uint32_t nodes,
                                           bool begins, bool ends, Known& known, bool is_known) {
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
    const FeatureInfo feature = a.features[numbers[column]];
    const bool inside = threadIdx.x - feature.first <= feature.borders;
    for (uint32_t from = 0; from < nodes; from += BINS) {
        const uint32_t here = nodes - from < BINS ? nodes - from : BINS;
        if (!is_known) {
            __syncthreads();
            know_nodes(a, a.split_inputs + from, here, known);
            __syncthreads();
        }
        const bool lacks = threadIdx.x < here && known.searched[threadIdx.x] && __ldcg(missing + from + threadIdx.x);
        const double before = sums[1];
        // As if no node had missing values; many scores are on the way at a time.
#pragma unroll 8
        for (uint32_t k = 0; k < here; k++) {
            const bool searched = known.searched[k];
            const double left = inside && searched ? __ldcg(scores + static_cast<uint64_t>(from + k) * BINS) : 0.0;
            if (!searched) continue;
            parent = parent + known.parents[k];
            found = true;
            sums[0] = sums[0] + left;
            sums[1] = sums[1] + left;
        }
        __shared__ bool lacking[BINS];
        lacking[threadIdx.x] = lacks;
        if (!__syncthreads_or(lacks)) continue;
        any = true;
        sums[1] = before;
#pragma unroll 4
        for (uint32_t k = 0; k < here; k++) {
            const bool read = inside && known.searched[k];
            const uint64_t at = lacking[k] ? level.nodes + from + k : from + k;
            const double right = read ? __ldcg(scores + at * BINS) : 0.0;
            if (known.searched[k]) sums[1] = sums[1] + right;
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
    FeatureSplit* best = a.best + column;
    if (!may_split(a, a.split_inputs[0], numbers[column])) {
        if (threadIdx.x == 0) *best = FeatureSplit{};
        return;
    }
    const bool open = is_open(drawn_border(a, a.split_inputs[0], numbers[column]), border);
    const double with = open && border < feature.borders && found ? sums[0] : -INFINITE64;
    const auto without = [&] { return top_of_block(open && border <= feature.borders ? sums[1] : -INFINITE64, tops); };
    const Ranking ranking = ranking_of<RANKED>(a, a.split_inputs[0], column);
    const Picked picked = pick_side(a.rules.min_gain, parent, ranking, top_of_block(with, tops), any, without);
    if (threadIdx.x == picked.place) *best = FeatureSplit{picked.rank, border, picked.side, {0, 0, 0}, picked.gain};
}

// blockIdx.x: the feature inside the group; blockIdx.y: the node among those of this time.
extern "C" __global__ void __launch_bounds__(BINS) tree_level_scores(const __grid_constant__ SplitSearch a, const __grid_constant__ LevelScores level) {
    __shared__ double parent;
    const SplitInput& input = a.split_inputs[blockIdx.y];
    if (threadIdx.x == 0 && (input.state & SEARCHED)) parent = node_score(a.rules, *a.quantizer, input);
    score_node(a, level, blockIdx.x, blockIdx.y, parent);
}

// The same where all features have at most so many codes and none is of categories.
#define TAIGA_LEVEL_SCORES(name, width, each)                                                                                              \
    extern "C" __global__ void __launch_bounds__(LANE_THREADS) name(const __grid_constant__ SplitSearch a, const __grid_constant__ LevelScores level) { \
        score_lanes<width, each>(a, level, blockIdx.y);                                                                                    \
    }

TAIGA_LEVEL_SCORES(tree_level_scores_4, 4, 1)
TAIGA_LEVEL_SCORES(tree_level_scores_32, 32, 1)

extern "C" __global__ void __launch_bounds__(STEP_THREADS)
    tree_level_scores_256(const __grid_constant__ SplitSearch a, const __grid_constant__ LevelScores level) {
    score_steps(a, level, blockIdx.y);
}

// A block a column.
extern "C" __global__ void __launch_bounds__(BINS)
    tree_level_sum(const __grid_constant__ SplitSearch a, const __grid_constant__ LevelScores level, const uint32_t* numbers, uint32_t nodes, uint32_t begins,
                   uint32_t ends) {
    __shared__ Known known;
    sum_scores<true>(a, level, numbers, blockIdx.x, nodes, begins, ends, known, false);
}

// The sums left of a split in a node's histogram, by a warp. All bins are on their way before the first is
// added: those behind the split are read too, for the first bin's address, and count nothing.
__device__ __forceinline__ Sums left_sums(const SplitSearch& a, uint32_t slot, uint32_t inside, uint32_t first, uint32_t border, uint32_t side) {
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
        for (uint32_t k = 0; k < EACH; k++) parts[k] = counted_sums(read_written(at(k), THREE), a.counted);
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

// The same of a feature whose codes may not all be stored. Past the first-level cache: other blocks of this launch may have
// written them.
__device__ __forceinline__ Sums left_of_split(const SplitSearch& a, const SplitInput& input, const FeatureInfo& f, const FeatureSplit& best) {
    if (f.usual == ALL_STORED) return left_sums(a, input.slot, f.column, f.first, best.border, best.side);
    const uint32_t from = best.side == MISSING_LEFT ? 0 : f.first, end = f.first + best.border + 1;
    // Where the usual code goes left, what is not left is summed.
    const bool other = f.usual >= from && f.usual < end;
    Sums s = {0, 0, 0};
    for (uint32_t bin = threadIdx.x & 31; bin < f.borders + 1 + f.first; bin += 32) {
        const uint32_t place = stored_at(f, bin);
        if (place == NOWHERE || (bin >= from && bin < end) == other) continue;
        s = s + counted_sums(read_written(bin_of(a.histograms, input.slot, f.column, place), kept_as(a.histograms, f.column)), a.counted);
    }
    for (int o = 16; o; o >>= 1) {
        s = s + Sums{__shfl_xor_sync(~0u, s.gradient, o), __shfl_xor_sync(~0u, s.hessian, o), __shfl_xor_sync(~0u, s.count, o)};
    }
    return other ? input.sums - s : s;
}

// The split of a level, and each node's left sums under it: for the features of one group, which may
// have it or not. A block a node.
extern "C" __global__ void __launch_bounds__(256)
    tree_level_pick(const __grid_constant__ SplitSearch a, const uint32_t* numbers, NodeSplit* found) {
    uint32_t c = best_column_of_block(a.best, a.columns);
    NodeSplit* out = found + blockIdx.x;
    if (c == NOWHERE) {
        if (threadIdx.x == 0) *out = NodeSplit{};
        return;
    }
    if (threadIdx.x >= 32) return;
    const FeatureSplit b = a.best[c];
    const uint32_t f = numbers[c];
    if (f < a.first_feature || f >= a.first_feature + a.features_here) return;
    const SplitInput input = a.split_inputs[blockIdx.x];
    if (!(input.state & SEARCHED)) return;
    const Sums left = left_of_split(a, input, a.features[f], b);
    if (threadIdx.x == 0) {
        *out = NodeSplit{};
        out->gain = b.gain;
        out->feature = f;
        out->border = b.border;
        out->side = b.side;
        out->left = left;
    }
}

}  // namespace taiga
