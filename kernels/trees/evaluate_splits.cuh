// Finds the best split of each node by itself: twin of src/cpu/trees/evaluate_splits.rs. Ties: the lower feature, the lower border, missing values to the
// left.
//
// Few features of few nodes are searched by a block each, a thread a code; else by a few lanes each. Of many codes only those are
// scored that some row of the node has: deep in a tree, and of sparse features, they are few.

#pragma once

#include "category_subsets.cuh"

namespace taiga {

// The sums up to each code of a feature, and those of its missing values, from what is stored, by a block: the code that is not
// is what the others leave of the node.
__device__ __forceinline__ Sums sums_upto_codes(const SplitSearch& a, const SplitInput& input, const FeatureInfo& feature, Sums own, int64_t (*parts)[8],
                                                Sums& missing) {
    __shared__ Sums lowest;
    if (threadIdx.x == 0) lowest = own;
    Sums left = sums_upto(own, a.counted != NOT, parts);
    missing = feature.first ? lowest : Sums{0, 0, 0};
    if (feature.usual != ALL_STORED) {
        Sums stored = {0, 0, 0};
        for (uint32_t w = 0; w < 8; w++) stored = stored + Sums{parts[0][w], parts[1][w], parts[2][w]};
        const Sums rest = input.sums - stored;
        if (threadIdx.x >= feature.usual) left = left + rest;
        if (feature.first && feature.usual == 0) missing = rest;
    }
    return left;
}

// A feature's codes by `WIDTH` neighbouring lanes, at most `EACH` a lane, in order; added up as `S` (`take_bins`).
template <uint32_t WIDTH, uint32_t EACH, typename S = Sums>
struct Lanes {
    S own[EACH];
    // Of all lanes before this one.
    S before;
    // Of the code that is not stored, of missing values.
    Sums rest, missing;
    uint32_t first, each, usual, counted;

    // By all lanes of a warp; without a feature nothing is read.
    __device__ __forceinline__ Lanes(const SplitSearch& a, const SplitInput& input, const FeatureInfo& feature, bool there) {
        const uint32_t codes = feature.borders + 1 + feature.first;
        each = EACH == 1 ? 1 : (codes + WIDTH - 1) / WIDTH;
        first = threadIdx.x % WIDTH * each;
        usual = feature.usual;
        counted = a.counted;
        take_bins(a, input, feature, first, there ? each : 0, own);
        S total = own[0];
#pragma unroll
        for (uint32_t k = 1; k < EACH; k++) total = total + own[k];
        const S upto = sums_of_lanes<WIDTH>(total, counted != NOT);
        before = upto - total;
        const Sums lowest = sums_of(of_lane(own[0], 0), counted), stored = sums_of(of_lane(upto, WIDTH - 1), counted);
        missing = feature.first ? lowest : Sums{0, 0, 0};
        rest = usual == ALL_STORED ? Sums{0, 0, 0} : input.sums - stored;
        if (usual == 0 && feature.first) missing = rest;
    }

    static __device__ __forceinline__ Sums of_lane(Sums s, int lane) {
        return {__shfl_sync(~0u, s.gradient, lane, WIDTH), __shfl_sync(~0u, s.hessian, lane, WIDTH), __shfl_sync(~0u, s.count, lane, WIDTH)};
    }

    static __device__ __forceinline__ Packed of_lane(Packed p, int lane) {
        return {__shfl_sync(~0u, p.both, lane, WIDTH)};
    }

    // Calls `visit` with each code of the lane, the sums up to it, and whether they are those up to the code before it.
    template <typename Visit>
    __device__ __forceinline__ void each_code(Visit visit) const {
        S upto = before;
#pragma unroll
        for (uint32_t k = 0; k < EACH; k++) {
            if (k >= each) break;
            const uint32_t code = first + k;
            upto = upto + own[k];
            const Sums stored = sums_of(upto, counted);
            visit(code, code < usual ? stored : stored + rest, code != usual && !any_of(own[k]));
        }
    }
};

// The best of all codes' splits, with missing values on the better side.
struct Picked {
    double gain, rank;
    uint32_t side, place;
};

// `with`: the largest that a split is worth with missing values on the left; `any`: whether there are any; `without`: finds
// the largest with them on the right; `ranking`: of the feature.
template <typename Without>
__device__ __forceinline__ Picked pick_side(double min_gain, double parent, Ranking ranking, Top with, bool any, Without without) {
    Top top = with;
    double gain = top.value - parent, rank = rank_of(ranking, parent, gain);
    uint32_t side = gain > min_gain ? MISSING_LEFT : NO_SIDE;
    if (any) {
        Top other = without();
        double other_gain = other.value - parent;
        const double other_rank = rank_of(ranking, parent, other_gain);
        bool better = other_rank > rank || (other_rank == rank && other.place < top.place);
        if (other_gain > min_gain && (side == NO_SIDE || better)) {
            gain = other_gain;
            rank = other_rank;
            top = other;
            side = MISSING_RIGHT;
        }
    }
    return {gain, rank, side, top.place};
}

// The best split of a node by a feature of the group, by a block. `RANKED`: whether there may be noise or weights.
template <bool RANKED>
__device__ __forceinline__ void search_node(const SplitSearch& a, uint32_t inside, uint32_t node) {
    __shared__ int64_t parts[3][8];
    __shared__ Top tops[8];
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED)) return;
    const uint32_t f = a.first_feature + inside, code = threadIdx.x;
    const FeatureInfo feature = a.features[f];
    FeatureSplit* best = a.best + static_cast<uint64_t>(node) * a.columns + a.first_column + inside;
    Sums own[1];
    take_bins(a, input, feature, code, 1, own);
    if (!may_split(a, input, f)) {
        if (code == 0) *best = FeatureSplit{};
        return;
    }
    const GradientQuantizer& e = *a.quantizer;
    const Ranking ranking = ranking_of<RANKED>(a, input, a.first_column + inside);
    if (feature.categories) {
        best_subset(a, e, input, own[0], feature.borders + 1, drawn_border(a, input, f), ranking, best, a.sets + (best - a.best) * 8);
        return;
    }
    Sums missing;
    const Sums left = sums_upto_codes(a, input, feature, own[0], parts, missing);
    const uint32_t border = code - feature.first;  // wraps below the first value
    const bool open = is_open(drawn_border(a, input, f), border);
    const double with = open && border < feature.borders ? score(a.rules, e, input, feature.monotone, left, -INFINITE64) : -INFINITE64;
    const auto without = [&] {
        return top_of_block(open && border <= feature.borders ? score(a.rules, e, input, feature.monotone, left - missing, -INFINITE64) : -INFINITE64, tops);
    };
    const Picked picked = pick_side(a.rules.min_gain, node_score(a.rules, e, input), ranking, top_of_block(with, tops), any_of(missing), without);
    if (code == picked.place) {
        *best = FeatureSplit{picked.rank, border, picked.side, picked.side == MISSING_RIGHT ? left - missing : left, picked.gain};
    }
}

// The same by `WIDTH` lanes, of a feature without categories; by all lanes of a block.
template <uint32_t WIDTH, uint32_t EACH, bool RANKED>
__device__ __forceinline__ void search_lanes(const SplitSearch& a, uint32_t node) {
    const uint32_t inside = (blockIdx.x * blockDim.x + threadIdx.x) / WIDTH;
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED)) return;
    const bool there = inside < a.features_here;
    const uint32_t f = a.first_feature + (there ? inside : 0);
    const FeatureInfo feature = a.features[f];
    const Lanes<WIDTH, EACH> codes(a, input, feature, there);
    const bool may = there && may_split(a, input, f), any = any_of(codes.missing);
    const GradientQuantizer& e = *a.quantizer;
    Top with = {-INFINITE64, codes.first}, without = with;
    if (may) {
        const uint32_t drawn = drawn_border(a, input, f);
        codes.each_code([&](uint32_t code, Sums left, bool same) {
            const uint32_t border = code - feature.first;  // wraps below the first value
            // Where nothing has this code the split is that of the border before, which comes first.
            if (border > feature.borders || (drawn == NOWHERE ? same && border > 0 : border != drawn)) return;
            // Not a number is larger than nothing.
            if (border < feature.borders) {
                const double value = score(a.rules, e, input, feature.monotone, left, -INFINITE64);
                if (value > with.value) with = {value, code};
            }
            if (any) {
                const double value = score(a.rules, e, input, feature.monotone, left - codes.missing, -INFINITE64);
                if (value > without.value) without = {value, code};
            }
        });
    }
    with = top_of_lanes<WIDTH>(with);
    without = top_of_lanes<WIDTH>(without);
    if (!there) return;
    FeatureSplit* best = a.best + static_cast<uint64_t>(node) * a.columns + a.first_column + inside;
    if (!may) {
        if (codes.first == 0) *best = FeatureSplit{};
        return;
    }
    const Ranking ranking = ranking_of<RANKED>(a, input, a.first_column + inside);
    const Picked picked = pick_side(a.rules.min_gain, node_score(a.rules, e, input), ranking, with, any, [&] { return without; });
    if (picked.place - codes.first >= codes.each) return;
    codes.each_code([&](uint32_t code, Sums left, bool) {
        if (code != picked.place) return;
        const Sums on_left = picked.side == MISSING_RIGHT ? left - codes.missing : left;
        *best = FeatureSplit{picked.rank, code - feature.first, picked.side, on_left, picked.gain};
    });
}

// The codes of a feature that a split may end at, but for those that no row of the node has: there the split is that of the
// border before. By a warp, in shared memory.
struct Steps {
    struct Scratch {
        // Padded: neighbouring lanes write eight apart.
        int64_t gradients[BINS + BINS / 8], hessians[BINS + BINS / 8], counts[BINS + BINS / 8];
        uint8_t codes[BINS];
    };

    Scratch& kept;
    Sums missing;
    // How many there are. Of the lane's `each` codes, from `first` on: those that are steps, and the steps before them.
    uint32_t count, first, each, mask, before;

    // `always`: a border that is a step in any case.
    __device__ __forceinline__ Steps(const SplitSearch& a, const SplitInput& input, const FeatureInfo& feature, Scratch& scratch, uint32_t always = NOWHERE)
        : kept(scratch) {
        if (kept_as(a.histograms, feature.column) == PACKED) {
            keep(a, feature, Lanes<32, 8, Packed>(a, input, feature, true), always);
        } else {
            keep(a, feature, Lanes<32, 8>(a, input, feature, true), always);
        }
    }

    template <typename Codes>
    __device__ __forceinline__ void keep(const SplitSearch& a, const FeatureInfo& feature, const Codes& codes, uint32_t always) {
        missing = codes.missing;
        first = codes.first;
        each = codes.each;
        mask = 0;
        codes.each_code([&](uint32_t code, Sums, bool empty) {
            const uint32_t border = code - feature.first;  // wraps below the first value
            if (border <= feature.borders && (border == 0 || border == always || !empty)) mask |= 1u << (code - first);
        });
        const uint32_t lane = threadIdx.x & 31, own = __popc(mask);
        before = own;
        for (int o = 1; o < 32; o <<= 1) {
            const uint32_t upto = __shfl_up_sync(~0u, before, o);
            if (lane >= o) before += upto;
        }
        count = __shfl_sync(~0u, before, 31);
        before -= own;
        uint32_t next = before;
        codes.each_code([&](uint32_t code, Sums left, bool) {
            if (!(mask >> (code - first) & 1)) return;
            const uint32_t at = place(next);
            kept.gradients[at] = left.gradient;
            kept.hessians[at] = left.hessian;
            if (a.counted != NOT) kept.counts[at] = left.count;
            kept.codes[next++] = static_cast<uint8_t>(code);
        });
        __syncwarp();
    }

    static __device__ __forceinline__ uint32_t place(uint32_t step) {
        return step + step / 8;
    }

    __device__ __forceinline__ Sums left(const SplitSearch& a, uint32_t step) const {
        const uint32_t at = place(step);
        return {kept.gradients[at], kept.hessians[at], a.counted == NOT ? 0 : kept.counts[at]};
    }
};

// Threads of a block whose features have a few lanes each, and of one whose features have a warp and its scratch.
constexpr uint32_t LANE_THREADS = 256, STEP_THREADS = 128;

// The best split of a node by a feature, by a warp, of a feature without categories; by all lanes of a block.
template <bool RANKED>
__device__ __forceinline__ void search_steps(const SplitSearch& a, uint32_t node) {
    __shared__ Steps::Scratch scratch[STEP_THREADS / 32];
    const uint32_t inside = blockIdx.x * (STEP_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    const SplitInput input = a.split_inputs[node];
    if (!(input.state & SEARCHED) || inside >= a.features_here) return;
    const uint32_t f = a.first_feature + inside;
    const FeatureInfo feature = a.features[f];
    const uint32_t drawn = drawn_border(a, input, f);
    const Steps steps(a, input, feature, scratch[threadIdx.x / 32], drawn);
    FeatureSplit* best = a.best + static_cast<uint64_t>(node) * a.columns + a.first_column + inside;
    if (!may_split(a, input, f)) {
        if (lane == 0) *best = FeatureSplit{};
        return;
    }
    const GradientQuantizer& e = *a.quantizer;
    const bool any = any_of(steps.missing);
    // By steps, which are in the order of codes.
    Top with = {-INFINITE64, lane}, without = with;
    for (uint32_t i = lane; i < steps.count; i += 32) {
        if (!is_open(drawn, steps.kept.codes[i] - feature.first)) continue;
        const Sums left = steps.left(a, i);
        if (steps.kept.codes[i] - feature.first < feature.borders) {
            const double value = score(a.rules, e, input, feature.monotone, left, -INFINITE64);
            if (value > with.value) with = {value, i};
        }
        if (any) {
            const double value = score(a.rules, e, input, feature.monotone, left - steps.missing, -INFINITE64);
            if (value > without.value) without = {value, i};
        }
    }
    with = top_of_lanes<32>(with);
    without = top_of_lanes<32>(without);
    const Ranking ranking = ranking_of<RANKED>(a, input, a.first_column + inside);
    const Picked picked = pick_side(a.rules.min_gain, node_score(a.rules, e, input), ranking, with, any, [&] { return without; });
    if (lane) return;
    if (picked.side == NO_SIDE) {
        *best = FeatureSplit{};
        return;
    }
    const Sums left = steps.left(a, picked.place);
    const Sums on_left = picked.side == MISSING_RIGHT ? left - steps.missing : left;
    *best = FeatureSplit{picked.rank, steps.kept.codes[picked.place] - feature.first, picked.side, on_left, picked.gain};
}

// The best split of each node by each feature: blockIdx.x the feature inside the group, blockIdx.y
// the node.
extern "C" __global__ void __launch_bounds__(BINS) tree_search(const __grid_constant__ SplitSearch a) {
    search_node<true>(a, blockIdx.x, blockIdx.y);
}

// The same where all features have at most so many codes and none is of categories.
#define TAIGA_SEARCH(name, width, each)                                                                                 \
    extern "C" __global__ void __launch_bounds__(LANE_THREADS) name(const __grid_constant__ SplitSearch a) {                 \
        search_lanes<width, each, true>(a, blockIdx.y);                                                                 \
    }

TAIGA_SEARCH(tree_search_4, 4, 1)
TAIGA_SEARCH(tree_search_32, 32, 1)

extern "C" __global__ void __launch_bounds__(STEP_THREADS) tree_search_256(const __grid_constant__ SplitSearch a) {
    search_steps<true>(a, blockIdx.y);
}

// What a feature offers, past the first-level cache: other blocks of this launch may have written it.
__device__ __forceinline__ FeatureSplit read_best(const FeatureSplit* best) {
    const ulonglong2* words = reinterpret_cast<const ulonglong2*>(best);
    const ulonglong2 head = __ldcg(words), sums = __ldcg(words + 1), rest = __ldcg(words + 2);
    return {__longlong_as_double(static_cast<long long>(head.x)), static_cast<uint32_t>(head.y), static_cast<uint32_t>(head.y >> 32),
            {static_cast<int64_t>(sums.x), static_cast<int64_t>(sums.y), static_cast<int64_t>(rest.x)},
            __longlong_as_double(static_cast<long long>(rest.y))};
}

// A column that ranks first, or none: `NOWHERE`.
struct Offer {
    double rank;
    uint32_t column;
};

__device__ __forceinline__ Offer better(Offer a, Offer b) {
    if (b.column == NOWHERE) return a;
    return a.column == NOWHERE || b.rank > a.rank || (b.rank == a.rank && b.column < a.column) ? b : a;
}

// The best of every `stride`-th of a node's columns, by a warp; `columns` are numbered in the order in which their groups were opened.
__device__ __forceinline__ Offer best_offer(const FeatureSplit* best, uint32_t columns, uint32_t first, uint32_t stride) {
    Offer top = {-INFINITE64, NOWHERE};
#pragma unroll 8
    for (uint32_t c = first; c < columns; c += stride) {
        const ulonglong2 head = __ldcg(reinterpret_cast<const ulonglong2*>(best + c));
        const uint32_t side = static_cast<uint32_t>(head.y >> 32);
        if (side != NO_SIDE) top = better(top, {__longlong_as_double(static_cast<long long>(head.x)), c});
    }
    for (int o = 16; o; o >>= 1) top = better(top, {__shfl_xor_sync(~0u, top.rank, o), __shfl_xor_sync(~0u, top.column, o)});
    return top;
}

// The best of a node's columns, by a warp.
__device__ __forceinline__ uint32_t best_column(const FeatureSplit* best, uint32_t columns) {
    return best_offer(best, columns, threadIdx.x & 31, 32).column;
}

// The same by a block, all of whose threads know it then.
__device__ __forceinline__ uint32_t best_column_of_block(const FeatureSplit* best, uint32_t columns) {
    __shared__ Offer offers[32];
    const Offer own = best_offer(best, columns, threadIdx.x, blockDim.x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) offers[threadIdx.x / 32] = own;
    __syncthreads();
    Offer top = offers[0];
    for (uint32_t w = 1; w < blockDim.x / 32; w++) top = better(top, offers[w]);
    return top.column;
}

// `numbers`: the feature of each column. A block a node.
extern "C" __global__ void __launch_bounds__(256)
    tree_pick(const FeatureSplit* best, const uint32_t* sets, const uint32_t* numbers, uint32_t columns, NodeSplit* found) {
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * columns;
    uint32_t c = best_column_of_block(best + first, columns);
    NodeSplit* out = found + blockIdx.x;
    if (c == NOWHERE) {
        if (threadIdx.x == 0) *out = NodeSplit{};
        return;
    }
    const FeatureSplit b = best[first + c];
    if (threadIdx.x == 0) {
        out->unused = 0;
        out->gain = b.gain;
        out->feature = numbers[c];
        out->border = b.border;
        out->side = b.side;
        out->left = b.left;
    }
    if (threadIdx.x < 8) out->set[threadIdx.x] = b.side == SUBSET ? sets[(first + c) * 8 + threadIdx.x] : 0;
}

}  // namespace taiga
