// Finds the best split of each node, or of a level, of a tree that several outputs share: a split's score is the sum of the outputs' scores.
// Twin of src/cpu/trees/evaluate_shared.rs, and of its subsets of categories; numbers are added in its order.
//
// A block searches a feature of a node, a thread a code, output after output.

#pragma once

#include "evaluate_level.cuh"
#include "shared_tree.cuh"

namespace taiga {

// The score of a node of one output.
__device__ __forceinline__ double output_score(const SharedOutput& o, const GradientQuantizer& e, Sums s, double more_l2) {
    const double t = soft_threshold(static_cast<double>(s.gradient) * e.unit_gradient, o.l1);
    const double divisor = static_cast<double>(s.hessian) * e.unit_hessian + o.l2 + more_l2;
    return divisor > 0.0 ? o.importance * (t * t / divisor) : 0.0;
}

// Sums over a block of 256, again and again: by one barrier each, since turns take one of two places.
struct BlockSums {
    struct Shared {
        int64_t parts[2][3][8];
        Sums first[2];
    };

    // Up to a thread, of all threads, and of the first one.
    Sums upto, total, first;

    __device__ __forceinline__ BlockSums(Shared& shared, uint32_t turn, Sums own, bool counts) {
        const uint32_t warp = threadIdx.x / 32;
        int64_t(*parts)[8] = shared.parts[turn & 1];
        upto = sums_of_lanes(own, counts);
        if ((threadIdx.x & 31) == 31) {
            parts[0][warp] = upto.gradient;
            parts[1][warp] = upto.hessian;
            parts[2][warp] = upto.count;
        }
        if (threadIdx.x == 0) shared.first[turn & 1] = own;
        __syncthreads();
        total = Sums{0, 0, 0};
        for (uint32_t w = 0; w < 8; w++) {
            const Sums part = {parts[0][w], parts[1][w], parts[2][w]};
            if (w < warp) upto = upto + part;
            total = total + part;
        }
        first = shared.first[turn & 1];
    }
};

// What a candidate's two sides score, over the outputs so far.
struct SharedCandidate {
    // Where all hessians are 1, the sums of the squares of each side until `finish_unit`.
    double score = 0.0, right = 0.0;
    // The hessians on the left, and the rows.
    double left = 0.0;
    int64_t count = 0;

    __device__ __forceinline__ void add(const SharedOutputs& t, const SharedOutput& o, const GradientQuantizer& e, uint32_t output, Sums on_left, Sums total) {
        const Sums on_right = total - on_left;
        double gl = soft_threshold(static_cast<double>(on_left.gradient) * e.unit_gradient, o.l1);
        double gr = soft_threshold(static_cast<double>(on_right.gradient) * e.unit_gradient, o.l1);
        const double hl = static_cast<double>(on_left.hessian) * e.unit_hessian;
        // Rows are counted once for all outputs.
        if (output == 0) count = on_left.count;
        if (t.unit) {
            if (output == 0) left = hl;
            score = score + o.importance * (gl * gl);
            right = right + o.importance * (gr * gr);
            return;
        }
        left = left + hl;
        double dl = hl + o.l2, dr = static_cast<double>(on_right.hessian) * e.unit_hessian + o.l2;
        // A side without any curvature has no score.
        if (!(dl > 0.0)) gl = 0.0, dl = 1.0;
        if (!(dr > 0.0)) gr = 0.0, dr = 1.0;
        score = score + o.importance * ((gl * gl * dr + gr * gr * dl) / (dl * dr));
    }

    // Turns the sums of squares into the score, where each output has the same hessians, `total` in all: one division for all of them.
    __device__ __forceinline__ void finish_unit(const SharedOutputs& t, double total) {
        const double l2 = t.outputs[0].l2;
        double dl = left + l2, dr = total - left + l2, a = score, b = right;
        if (!(dl > 0.0)) a = 0.0, dl = 1.0;
        if (!(dr > 0.0)) b = 0.0, dr = 1.0;
        score = (a * dr + b * dl) / (dl * dr);
        left = left * static_cast<double>(t.count);
    }

    // The score; `too_small` where a child is too small, or none at all where limits forbid that. `hessians`, `rows`: of the node.
    __device__ __forceinline__ double within(const Rules& r, const SharedOutputs& t, double hessians, int64_t rows, double too_small) const {
        const double others = hessians - left, least = r.min_child_weight * static_cast<double>(t.count);
        const int64_t other_rows = rows - count;
        bool fits = left > 0.0 && others > 0.0 && left >= least && others >= least;
        if (r.min_data_in_leaf > 0 || r.level_limits) fits = fits && count >= r.min_data_in_leaf && other_rows >= r.min_data_in_leaf;
        if (fits) return score;
        return r.level_limits && count > 0 && other_rows > 0 ? -INFINITE64 : too_small;
    }
};

// What the candidate of a thread's code scores in a node, with missing values on the left and on the right.
struct SharedScores {
    double with, without;
    // What the node scores unsplit, and whether it has missing values.
    double parent;
    bool any;
};

// `of_level`: a node that a candidate would leave a child too small in counts as not split.
__device__ __forceinline__ SharedScores score_outputs(const SplitSearch& a, const SharedOutputs& t, const SplitInput& input, const FeatureInfo& feature, bool of_level) {
    __shared__ BlockSums::Shared shared;
    SharedCandidate with, without;
    double parent = 0.0, hessians = 0.0, of_first = 0.0;
    int64_t rows = 0;
    bool any = false;
    for (uint32_t k = 0; k < t.count; k++) {
        const SharedOutput& o = t.outputs[k];
        const GradientQuantizer& e = t.quantizers[k];
        Sums own[1];
        take_bins(of_output(a, t, k), a.counted, input, feature, threadIdx.x, 1, own);
        const BlockSums sums(shared, k, own[0], a.counted != NOT);
        const Sums missing = feature.first ? sums.first : Sums{0, 0, 0};
        any |= any_of(missing);
        parent = parent + output_score(o, e, sums.total, 0.0);
        const double hessian = static_cast<double>(sums.total.hessian) * e.unit_hessian;
        hessians = hessians + hessian;
        if (k == 0) {
            of_first = hessian;
            rows = sums.total.count;
        }
        with.add(t, o, e, k, sums.upto, sums.total);
        without.add(t, o, e, k, sums.upto - missing, sums.total);
    }
    if (t.unit) {
        with.finish_unit(t, of_first);
        without.finish_unit(t, of_first);
    }
    const double too_small = of_level ? parent : -INFINITE64;
    return {with.within(a.rules, t, hessians, rows, too_small), without.within(a.rules, t, hessians, rows, too_small), parent, any};
}

// The sums of an output's bin of a feature with a column of its own.
__device__ __forceinline__ Sums bin_of_output(const SplitSearch& a, const SharedOutputs& t, const SplitInput& input, const FeatureInfo& feature, uint32_t output,
                                              uint32_t bin) {
    return counted_sums(read_sums(bin_of(of_output(a, t, output), input.slot, feature.column, bin), a.histograms.components), a.counted);
}

// The output whose values differ most between the categories of a node. By a block.
__device__ __forceinline__ uint32_t widest_output(const SplitSearch& a, const SharedOutputs& t, const SplitInput& input, const FeatureInfo& feature, Top* tops) {
    Top widest = {-INFINITE64, ~0u};
    for (uint32_t k = threadIdx.x; k < t.count; k += BINS) {
        const SharedOutput& o = t.outputs[k];
        double spread = 0.0;
        for (uint32_t code = 1; code < feature.borders + 1; code++) {
            spread = spread + output_score(o, t.quantizers[k], bin_of_output(a, t, input, feature, k, code), o.smooth);
        }
        if (spread > widest.value) widest = {spread, k};
    }
    return top_of_block(widest, tops).place;
}

// The subset of categories that gains most when it goes right: categories are sorted by the output whose values differ most between them. By a
// block, a thread a category and then a length of the subset.
__device__ __forceinline__ void best_shared_subset(const SplitSearch& a, const SharedOutputs& t, const SplitInput& input, const FeatureInfo& feature, bool may, uint32_t drawn,
                                                   Ranking ranking, FeatureSplit* best, uint32_t* set) {
    __shared__ BlockSums::Shared shared;
    __shared__ int64_t orders[BINS];
    __shared__ uint8_t codes[BINS];
    __shared__ uint32_t members[8], bits_of_set[8];
    __shared__ Top tops[8];
    const uint32_t code = threadIdx.x, count = feature.borders + 1;
    double parent = 0.0;
    int128_t of_code = 0;
    uint32_t turn = 0;
    for (uint32_t k = 0; k < t.count; k++, turn++) {
        Sums own[1];
        take_bins(of_output(a, t, k), a.counted, input, feature, code, 1, own);
        const BlockSums sums(shared, turn, own[0], false);
        parent = parent + output_score(t.outputs[k], t.quantizers[k], sums.total, 0.0);
        of_code += static_cast<int128_t>(own[0].hessian) << t.outputs[k].shift;
    }
    if (!may) {
        if (code == 0) *best = FeatureSplit{};
        return;
    }
    // What other threads have written of histograms is there.
    __syncthreads();
    const uint32_t widest = widest_output(a, t, input, feature, tops);
    const bool counts = code >= 1 && code < count && mean_hessian(t, of_code) > 0;
    if (counts) {
        const GradientQuantizer& e = t.quantizers[widest];
        const Sums own = bin_of_output(a, t, input, feature, widest, code);
        const double value = static_cast<double>(own.gradient) * e.unit_gradient / (static_cast<double>(own.hessian) * e.unit_hessian + t.outputs[widest].smooth);
        orders[code] = total_order(value == value ? value : 0.0);
    }
    const unsigned mask = __ballot_sync(~0u, counts);
    if ((code & 31) == 0) members[code / 32] = mask;
    const uint32_t n = __syncthreads_count(counts);
    if (counts) {
        const int64_t order = orders[code];
        uint32_t rank = 0;
        for (uint32_t other = 1; other < count; other++) {
            const bool in = members[other / 32] >> (other & 31) & 1;
            rank += in && (orders[other] < order || (orders[other] == order && other < code));
        }
        codes[rank] = static_cast<uint8_t>(code);
    }
    __syncthreads();
    const uint32_t half = (n + 1) / 2, most = a.rules.most_categories < half ? a.rules.most_categories : half;
    auto large = [&](int64_t mean, int64_t rows) {
        return mean > 0 && static_cast<double>(mean) * t.unit_hessian >= a.rules.min_child_weight && (a.rules.min_data_in_leaf == 0 || rows >= a.rules.min_data_in_leaf);
    };
    Top found[2];
    Sums left_of[2];
    for (int reversed = 0; reversed < 2; reversed++) {
        const bool tried = code < most && is_open(drawn, code + 1, most), inside_range = code < most;
        const uint32_t added = inside_range ? codes[reversed ? n - 1 - code : code] : 0;
        int128_t inside = 0, outside = 0;
        int64_t rows_inside = 0, rows_outside = 0;
        double gain = -parent;
        for (uint32_t k = 0; k < t.count; k++, turn += 2) {
            const SharedOutput& o = t.outputs[k];
            const GradientQuantizer& e = t.quantizers[k];
            const Sums own = code < count ? bin_of_output(a, t, input, feature, k, code) : Sums{0, 0, 0};
            const Sums total = BlockSums(shared, turn, own, true).total;
            const Sums in = BlockSums(shared, turn + 1, inside_range ? bin_of_output(a, t, input, feature, k, added) : Sums{0, 0, 0}, true).upto;
            const Sums out = total - in;
            inside += static_cast<int128_t>(in.hessian) << o.shift;
            outside += static_cast<int128_t>(out.hessian) << o.shift;
            if (k == 0) rows_inside = in.count, rows_outside = out.count;
            gain = gain + output_score(o, e, in, o.category_l2) + output_score(o, e, out, o.category_l2);
        }
        left_of[reversed] = Sums{0, mean_hessian(t, outside), rows_outside};
        const bool fits = tried && large(mean_hessian(t, inside), rows_inside) && large(left_of[reversed].hessian, rows_outside);
        found[reversed] = top_of_block(fits ? gain : -INFINITE64, tops);
    }
    const int reversed = found[1].value > found[0].value;
    const Top top = found[reversed];
    const bool any = top.value > a.rules.min_gain;
    if (code == top.place) *best = FeatureSplit{rank_of(ranking, parent, top.value), 0, any ? SUBSET : NO_SIDE, left_of[reversed], top.value};
    if (code < 8) bits_of_set[code] = 0;
    __syncthreads();
    if (any && code <= top.place) {
        const uint32_t own = codes[reversed ? n - 1 - code : code];
        atomicOr(bits_of_set + own / 32, 1u << (own & 31));
    }
    __syncthreads();
    if (code < 8) set[code] = bits_of_set[code];
}

// The best split of each node by each feature: blockIdx.x the feature inside the group, blockIdx.y the node.
extern "C" __global__ void __launch_bounds__(BINS) tree_shared_search(const __grid_constant__ SplitSearch a, const __grid_constant__ SharedOutputs t) {
    __shared__ Top tops[8];
    const SplitInput input = a.split_inputs[blockIdx.y];
    const uint32_t f = a.first_feature + blockIdx.x;
    const FeatureInfo feature = a.features[f];
    FeatureSplit* best = a.best + static_cast<uint64_t>(blockIdx.y) * a.columns + a.first_column + blockIdx.x;
    const Ranking ranking = ranking_of<true>(a, input, a.first_column + blockIdx.x);
    if (feature.categories) {
        best_shared_subset(a, t, input, feature, may_split(a, input, f), drawn_border(a, input, f), ranking, best, a.sets + (best - a.best) * 8);
        return;
    }
    const SharedScores found = score_outputs(a, t, input, feature, false);
    if (!may_split(a, input, f)) {
        if (threadIdx.x == 0) *best = FeatureSplit{};
        return;
    }
    const uint32_t border = threadIdx.x - feature.first;  // wraps below the first value
    const bool open = is_open(drawn_border(a, input, f), border);
    const double with = open && border < feature.borders ? found.with : -INFINITE64;
    const auto without = [&] { return top_of_block(open && border <= feature.borders ? found.without : -INFINITE64, tops); };
    const Picked picked = pick_side(a.rules.min_gain, found.parent, ranking, top_of_block(with, tops), found.any, without);
    if (threadIdx.x == picked.place) *best = FeatureSplit{picked.rank, border, picked.side, {0, 0, 0}, picked.gain};
}

// The scores of a feature's candidates in each node of a level, as above; `parents`: what the nodes score unsplit.
extern "C" __global__ void __launch_bounds__(BINS)
    tree_shared_level_scores(const __grid_constant__ SplitSearch a, const __grid_constant__ SharedOutputs t, const __grid_constant__ LevelScores level,
                             double* parents) {
    const uint64_t column = a.first_column + blockIdx.x, node = blockIdx.y;
    const FeatureInfo feature = a.features[a.first_feature + blockIdx.x];
    const SharedScores found = score_outputs(a, t, a.split_inputs[node], feature, true);
    if (threadIdx.x == 0) level.missing[column * level.nodes + node] = found.any;
    if (threadIdx.x == 0 && column == 0) parents[node] = found.parent;
    if (threadIdx.x - feature.first > feature.borders) return;
    double* out = level.scores + (column * 2 * level.nodes + node) * BINS + threadIdx.x;
    out[0] = found.with;
    if (found.any) out[static_cast<uint64_t>(level.nodes) * BINS] = found.without;
}

// Adds up the scores of no more than BINS more nodes in a column, by a block; behind the last ones picks the column's best.
extern "C" __global__ void __launch_bounds__(BINS)
    tree_shared_level_sum(const __grid_constant__ SplitSearch a, const __grid_constant__ LevelScores level, const uint32_t* numbers, uint32_t nodes,
                          uint32_t begins, uint32_t ends, const double* parents) {
    __shared__ Known known;
    if (threadIdx.x < nodes) {
        known.searched[threadIdx.x] = true;
        known.parents[threadIdx.x] = parents[threadIdx.x];
    }
    __syncthreads();
    sum_scores<true>(a, level, numbers, blockIdx.x, nodes, begins, ends, known, true);
}

// The sums of the outputs together over a range of a column's bins: the mean of their hessians. By a block, known to its first thread.
__device__ __forceinline__ Sums sums_together(const SplitSearch& a, const SharedOutputs& t, uint32_t slot, uint32_t column, uint32_t from, uint32_t end) {
    __shared__ int128_t hessians[32];
    __shared__ int64_t rows;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
    int128_t sum = 0;
    for (uint32_t k = warp; k < t.count; k += warps) {
        const Histograms h = of_output(a, t, k);
        int64_t hessian = 0, count = 0;
        for (uint32_t bin = from + lane; bin < end; bin += 32) {
            const Sums s = counted_sums(read_sums(bin_of(h, slot, column, bin), h.components), a.counted);
            hessian += s.hessian;
            count += s.count;
        }
        for (int o = 16; o; o >>= 1) {
            hessian += __shfl_xor_sync(~0u, hessian, o);
            count += __shfl_xor_sync(~0u, count, o);
        }
        sum += static_cast<int128_t>(hessian) << t.outputs[k].shift;
        if (k == 0 && lane == 0) rows = count;
    }
    if (lane == 0) hessians[warp] = sum;
    __syncthreads();
    if (threadIdx.x) return {0, 0, 0};
    for (uint32_t w = 1; w < warps; w++) sum += hessians[w];
    return {0, mean_hessian(t, sum), rows};
}

// The root's sums, from the bins of the first column.
extern "C" __global__ void __launch_bounds__(256)
    tree_shared_total(const __grid_constant__ SplitSearch a, const __grid_constant__ SharedOutputs t, uint32_t bins, Sums* total) {
    const Sums s = sums_together(a, t, 0, 0, 0, bins);
    if (threadIdx.x == 0) *total = s;
}

// The best of all columns, of each node or of the level, with each node's left sums: for the features of one group, which may have it or
// not. A block a node.
extern "C" __global__ void __launch_bounds__(256)
    tree_shared_pick(const __grid_constant__ SplitSearch a, const __grid_constant__ SharedOutputs t, const uint32_t* numbers, uint32_t of_level, NodeSplit* found) {
    const uint64_t first = of_level ? 0 : static_cast<uint64_t>(blockIdx.x) * a.columns;
    const uint32_t c = best_column_of_block(a.best + first, a.columns);
    NodeSplit* out = found + blockIdx.x;
    if (c == NOWHERE) {
        if (threadIdx.x == 0) *out = NodeSplit{};
        return;
    }
    const FeatureSplit b = a.best[first + c];
    const uint32_t f = numbers[c];
    if (f < a.first_feature || f >= a.first_feature + a.features_here) return;
    const FeatureInfo feature = a.features[f];
    Sums left = b.left;
    if (b.side != SUBSET) {
        const uint32_t from = b.side == MISSING_LEFT ? 0 : feature.first;
        left = sums_together(a, t, a.split_inputs[blockIdx.x].slot, feature.column, from, feature.first + b.border + 1);
    }
    if (threadIdx.x == 0) {
        out->gain = b.gain;
        out->feature = f;
        out->border = b.border;
        out->side = b.side;
        out->unused = 0;
        out->left = left;
    }
    if (threadIdx.x < 8) out->set[threadIdx.x] = b.side == SUBSET ? a.sets[(first + c) * 8 + threadIdx.x] : 0;
}

}  // namespace taiga
