// Finds the subset of categories that gains most (src/cpu/trees/category_subsets.rs), by a block; and what a block finds together:
// sums up to each of its threads, the largest value of all.

#pragma once

#include "split_scores.cuh"

namespace taiga {

// Sums over `WIDTH` neighbouring lanes up to each.
template <uint32_t WIDTH = 32>
__device__ __forceinline__ Sums sums_of_lanes(Sums s, bool counts) {
    const uint32_t lane = threadIdx.x % WIDTH;
    for (uint32_t o = 1; o < WIDTH; o <<= 1) {
        int64_t g = __shfl_up_sync(~0u, s.gradient, o, WIDTH), h = __shfl_up_sync(~0u, s.hessian, o, WIDTH);
        int64_t c = counts ? __shfl_up_sync(~0u, s.count, o, WIDTH) : 0;
        if (lane >= o) s = s + Sums{g, h, c};
    }
    return s;
}

template <uint32_t WIDTH = 32>
__device__ __forceinline__ Packed sums_of_lanes(Packed p, bool) {
    const uint32_t lane = threadIdx.x % WIDTH;
    for (uint32_t o = 1; o < WIDTH; o <<= 1) {
        const int64_t before = __shfl_up_sync(~0u, p.both, o, WIDTH);
        if (lane >= o) p.both += before;
    }
    return p;
}

// Sums over the threads up to each, and those of all warps before.
__device__ __forceinline__ Sums sums_upto(Sums s, bool counts, int64_t (*parts)[8]) {
    uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    s = sums_of_lanes(s, counts);
    if (lane == 31) {
        parts[0][warp] = s.gradient;
        parts[1][warp] = s.hessian;
        parts[2][warp] = s.count;
    }
    __syncthreads();
    for (uint32_t w = 0; w < warp; w++) s = s + Sums{parts[0][w], parts[1][w], parts[2][w]};
    return s;
}

// The largest value and the lowest place that has it, over a block of 256; known to all threads.
struct Top {
    double value;
    uint32_t place;
};

__device__ __forceinline__ Top larger(Top a, Top b) {
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}

// That of `WIDTH` neighbouring lanes, from their own; none is not a number.
template <uint32_t WIDTH>
__device__ __forceinline__ Top top_of_lanes(Top top) {
    for (uint32_t o = WIDTH / 2; o; o >>= 1) {
        top = larger(top, {__shfl_xor_sync(~0u, top.value, o), __shfl_xor_sync(~0u, top.place, o)});
    }
    return top;
}

__device__ __forceinline__ Top top_of_block(Top top, Top* tops) {
    top = top_of_lanes<32>(top);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    top = tops[0];
    for (int w = 1; w < 8; w++) top = larger(top, tops[w]);
    return top;
}

__device__ __forceinline__ Top top_of_block(double value, Top* tops) {
    // Not a number is larger than nothing.
    return top_of_block(Top{value == value ? value : -INFINITE64, threadIdx.x}, tops);
}

__device__ __forceinline__ bool may_split(const SplitSearch& a, const SplitInput& input, uint32_t feature) {
    return input.features == ~0u || (a.allowed[input.features + feature / 32] >> (feature & 31) & 1);
}

// The one border of a feature that may divide the node, or of a feature of categories the one length of a subset, in 256ths of the longest;
// NOWHERE: any may.
__device__ __forceinline__ uint32_t drawn_border(const SplitSearch& a, const SplitInput& input, uint32_t feature) {
    return a.draws ? a.allowed[input.drawn + feature / 4] >> (feature % 4 * 8) & 255 : NOWHERE;
}

__device__ __forceinline__ bool is_open(uint32_t drawn, uint32_t border) {
    return drawn == NOWHERE || border == drawn;
}

// Whether subsets of `n` categories are tried, of `most` at the most.
__device__ __forceinline__ bool is_open(uint32_t drawn, uint32_t n, uint32_t most) {
    return drawn == NOWHERE || n == 1 + (drawn * most >> 8);
}

// An integer by which numbers are in the order of f64::total_cmp.
__device__ __forceinline__ int64_t total_order(double x) {
    const int64_t bits = static_cast<int64_t>(bits_of(x));
    return bits ^ static_cast<int64_t>(static_cast<uint64_t>(bits >> 63) >> 1);
}

// subset.rs: the subset of categories that gains most when it goes right. A thread is a category.
__device__ __forceinline__ void best_subset(const SplitSearch& a, const GradientQuantizer& e, const SplitInput& input, Sums own, uint32_t count, uint32_t drawn, Ranking ranking,
                                            FeatureSplit* best, uint32_t* set) {
    __shared__ double keys[BINS];
    __shared__ Sums sorted[BINS];
    __shared__ uint8_t codes[BINS];
    __shared__ Top tops[8];
    __shared__ int64_t parts[3][8];
    uint32_t code = threadIdx.x;
    bool counts = code >= 1 && code < count && own.hessian > 0;
    Values v = values(e, own);
    double key = v.gradient / (v.hessian + a.rules.smooth);
    int64_t order = total_order(key);
    int64_t* orders = reinterpret_cast<int64_t*>(keys);
    orders[code] = order;
    uint32_t n = __syncthreads_count(counts);
    __shared__ uint32_t members[8];
    unsigned mask = __ballot_sync(~0u, counts);
    if ((code & 31) == 0) members[code / 32] = mask;
    __syncthreads();
    if (counts) {
        uint32_t rank = 0;
        for (uint32_t other = 1; other < count; other++) {
            bool in = members[other / 32] >> (other & 31) & 1;
            rank += in && (orders[other] < order || (orders[other] == order && other < code));
        }
        sorted[rank] = own;
        codes[rank] = static_cast<uint8_t>(code);
    }
    __syncthreads();
    uint32_t half = (n + 1) / 2, most = a.rules.most_categories < half ? a.rules.most_categories : half;
    double parent = node_score(a.rules, e, input);
    Top found[2];
    Sums outside_of[2];
    for (int reversed = 0; reversed < 2; reversed++) {
        bool inside_range = code < most;
        Sums mine = inside_range ? sorted[reversed ? n - 1 - code : code] : Sums{0, 0, 0};
        __syncthreads();
        Sums inside = sums_upto(mine, true, parts);
        Sums outside = input.sums - inside;
        Values in = values(e, inside), out = values(e, outside);
        double gain = -INFINITE64;
        if (inside_range && is_open(drawn, code + 1, most) && large_enough(a.rules, inside, in) && large_enough(a.rules, outside, out)) {
            auto side = [&](Values v, int64_t rows) {
                if (a.rules.moved) {
                    v.hessian = v.hessian + a.rules.category_l2;
                    return leaf_score(a.rules, v, leaf_value(a.rules, v, rows, input));
                }
                double t = soft_threshold(v.gradient, a.rules.l1);
                return t * t / (v.hessian + a.rules.l2 + a.rules.category_l2);
            };
            gain = side(in, inside.count) + side(out, outside.count) - parent;
        }
        found[reversed] = top_of_block(gain, tops);
        outside_of[reversed] = outside;
        __syncthreads();
    }
    int reversed = found[1].value > found[0].value;
    Top top = found[reversed];
    bool any = top.value > a.rules.min_gain;
    if (code == top.place) {
        *best = FeatureSplit{rank_of(ranking, parent, top.value), 0, any ? SUBSET : NO_SIDE, reversed ? outside_of[1] : outside_of[0], top.value};
    }
    __shared__ uint32_t bits_of_set[8];
    if (code < 8) bits_of_set[code] = 0;
    __syncthreads();
    if (any && code <= top.place) {
        uint32_t c = codes[reversed ? n - 1 - code : code];
        atomicOr(bits_of_set + c / 32, 1u << (c & 31));
    }
    __syncthreads();
    if (code < 8) set[code] = bits_of_set[code];
}

}  // namespace taiga
