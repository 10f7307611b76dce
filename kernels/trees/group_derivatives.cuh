// Derivatives of losses by group, for all rows before a tree. Twins of src/core/losses/{ranked_pairs,xendcg,yetirank}.rs, where the formulas and
// their sources are told; sums are added in the same order.

#pragma once

#include "../numerics/random.cuh"
#include "layouts.cuh"

namespace taiga {

// Lanes that sums over a group's rows are added in: by_group.rs.
constexpr uint32_t GROUP_LANES = 16;

// The rows of a fit by group. A place is a row's index among all rows, group after group.
struct GroupRows {  // shared with the host
    uint64_t rows;
    uint32_t groups, unused;
    const uint32_t* row;        // [place]
    const uint32_t* group;      // [place]
    const uint32_t* starts;     // [group], and the end of the last one
    const float* target;        // [place]
    const float* numbers;       // [group] what the targets alone decide
    const float* places;        // [rank] the discount of a rank; or what the pair behind it counts
    const float* scores;        // [row]
    const float* weight;        // [row], or none
    uint64_t* keys;             // [place] sorted, they are by group and by score from the highest on
    uint32_t* order;            // [rank of all groups] the place of the row there
    float* ranked_score;        // [rank of all groups]
    float* ranked_gain;
    float* ranked_gradient;
    float* ranked_hessian;
    float* ranked_total;
    float* factors;             // [group]
    float* gradient;            // [row]
    float* hessian;
};

// A group's bounds in the order of places, which its ranks have as well.
struct GroupBounds {
    uint32_t start, end;
};

__device__ __forceinline__ GroupBounds bounds(const GroupRows& g, uint32_t group) {
    return {g.starts[group], g.starts[group + 1]};
}

// by_group.rs: the gain of a grade.
__device__ __forceinline__ float gain_of(float grade) {
    return static_cast<float>((1ull << static_cast<uint32_t>(clamp(grade, 0.0f, 30.0f))) - 1);
}

// xendcg.rs: the number from [0, 1) that a row draws.
__device__ __forceinline__ float unit_of(Random random, uint32_t row) {
    return static_cast<float>(random.u32(row) >> 8) * (1.0f / 16777216.0f);
}

__device__ __forceinline__ void write_derivatives(const GroupRows& g, uint32_t row, float gradient, float hessian) {
    hessian = finite(hessian);
    Derivatives d = {finite(gradient), hessian < SMALLEST_HESSIAN ? SMALLEST_HESSIAN : hessian};
    if (g.weight) d = weigh(d, g.weight[row]);
    g.gradient[row] = d.gradient;
    g.hessian[row] = d.hessian;
}

// The keys that rows are sorted by, and their places. `noise`: scores get the noise of yetirank, from the random numbers of key `key`.
extern "C" __global__ void __launch_bounds__(256) tree_group_keys(const __grid_constant__ GroupRows g, uint32_t noise, uint64_t key) {
    Random random(0, 0, 0);
    random.key = key;
    for (uint64_t place = blockIdx.x * 256ull + threadIdx.x; place < g.rows; place += gridDim.x * 256ull) {
        const uint32_t row = g.row[place];
        float score = g.scores[row];
        if (noise) {
            const float u = clamp(unit_of(random, row), 1e-6f, 0.999999f);
            score = score + ln(u / (1.0f - u));
        }
        const uint32_t bits = __float_as_uint(score + 0.0f);
        const uint32_t ascending = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
        g.keys[place] = static_cast<uint64_t>(g.group[place]) << 32 | ~ascending;
        g.order[place] = static_cast<uint32_t>(place);
    }
}

// Scores and gains by rank; `graded`: targets are grades.
extern "C" __global__ void __launch_bounds__(256) tree_group_ranks(const __grid_constant__ GroupRows g, uint32_t graded) {
    for (uint64_t rank = blockIdx.x * 256ull + threadIdx.x; rank < g.rows; rank += gridDim.x * 256ull) {
        const uint32_t place = g.order[rank];
        const float target = g.target[place];
        g.ranked_score[rank] = g.scores[g.row[place]];
        g.ranked_gain[rank] = graded ? gain_of(target) : target;
    }
}

struct PairOfRanks {
    // The gradient of the row below, and without its sign; the hessian of both.
    float down, push, hessian;
};

// Of the row at rank `i` of its group and one at a lower rank `j`, which has another gain.
__device__ __forceinline__ PairOfRanks pair_of(const GroupRows& g, uint32_t start, uint32_t i, uint32_t j, bool of_ndcg, float inverse, bool by_distance) {
    const float gap = g.ranked_gain[start + i] - g.ranked_gain[start + j];
    if (gap == 0.0f) return {0.0f, 0.0f, 0.0f};
    const float apart = g.ranked_score[start + i] - g.ranked_score[start + j];
    float change = 1.0f;
    if (of_ndcg) {
        change = fabsf(gap) * fabsf(g.places[i] - g.places[j]) * inverse;
        if (by_distance) change = change / (0.01f + apart);
    }
    const Pair p = sigmoid_pair(apart);
    const float push = change * (gap > 0.0f ? p.low : p.high);
    return {gap > 0.0f ? push : -push, push, change * (p.low * p.high)};
}

// What each row has from its pairs, by rank: first from the rows above it, then from those below.
extern "C" __global__ void __launch_bounds__(128)
    tree_group_pairs(const __grid_constant__ GroupRows g, uint32_t of_ndcg, uint32_t normalize, uint32_t truncation) {
    for (uint64_t rank = blockIdx.x * 128ull + threadIdx.x; rank < g.rows; rank += gridDim.x * 128ull) {
        const uint32_t group = g.group[g.order[rank]];
        const GroupBounds b = bounds(g, group);
        const uint32_t n = b.end - b.start, own = static_cast<uint32_t>(rank) - b.start;
        const float inverse = g.numbers[group];
        const bool by_distance = of_ndcg && normalize && g.ranked_score[b.start] != g.ranked_score[b.end - 1];
        float gradient = 0.0f, hessian = 0.0f, total = 0.0f;
        const uint32_t above = own < truncation ? own : truncation;
        for (uint32_t i = 0; i < above; i++) {
            const PairOfRanks p = pair_of(g, b.start, i, own, of_ndcg, inverse, by_distance);
            gradient = gradient + p.down;
            hessian = hessian + p.hessian;
        }
        if (own < truncation) {
            float gradients[GROUP_LANES], hessians[GROUP_LANES], totals[GROUP_LANES];
#pragma unroll
            for (uint32_t lane = 0; lane < GROUP_LANES; lane++) gradients[lane] = hessians[lane] = totals[lane] = 0.0f;
            for (uint32_t first = own / GROUP_LANES * GROUP_LANES; first < n; first += GROUP_LANES) {
#pragma unroll
                for (uint32_t lane = 0; lane < GROUP_LANES; lane++) {
                    const uint32_t j = first + lane;
                    if (j > own && j < n) {
                        const PairOfRanks p = pair_of(g, b.start, own, j, of_ndcg, inverse, by_distance);
                        gradients[lane] = gradients[lane] - p.down;
                        hessians[lane] = hessians[lane] + p.hessian;
                        totals[lane] = totals[lane] + p.push;
                    }
                }
            }
            float below = 0.0f, below_hessian = 0.0f;
#pragma unroll
            for (uint32_t lane = 0; lane < GROUP_LANES; lane++) {
                below = below + gradients[lane];
                below_hessian = below_hessian + hessians[lane];
                total = total + totals[lane];
            }
            gradient = gradient + below;
            hessian = hessian + below_hessian;
        }
        g.ranked_gradient[rank] = gradient;
        g.ranked_hessian[rank] = hessian;
        g.ranked_total[rank] = total;
    }
}

// What the derivatives of each group are multiplied by.
extern "C" __global__ void __launch_bounds__(256) tree_group_factors(const __grid_constant__ GroupRows g, uint32_t truncation) {
    constexpr float LOG2_E = 1.44269504088896340736f;
    for (uint32_t group = blockIdx.x * 256 + threadIdx.x; group < g.groups; group += gridDim.x * 256) {
        const GroupBounds b = bounds(g, group);
        const uint32_t ranks = b.end - b.start < truncation ? b.end - b.start : truncation;
        float total = 0.0f;
        for (uint32_t i = 0; i < ranks; i++) total = total + g.ranked_total[b.start + i];
        const float x = 2.0f * total;
        float factor = 1.0f;
        if (x > 0.0f) {
            factor = x < 1e-3f ? LOG2_E * (1.0f - 0.5f * x + (x * x) * 0.33333334f) : LOG2_E * ln(1.0f + x) / x;
        }
        g.factors[group] = factor;
    }
}

// From ranks to rows, times the groups' factors where they have some.
extern "C" __global__ void __launch_bounds__(256) tree_group_finish(const __grid_constant__ GroupRows g, uint32_t normalize) {
    for (uint64_t rank = blockIdx.x * 256ull + threadIdx.x; rank < g.rows; rank += gridDim.x * 256ull) {
        const uint32_t place = g.order[rank];
        const float factor = normalize ? g.factors[g.group[place]] : 1.0f;
        write_derivatives(g, g.row[place], g.ranked_gradient[rank] * factor, g.ranked_hessian[rank] * factor);
    }
}

// yetirank.rs: the gradient of the first of two neighbours, and the hessian of both.
__device__ __forceinline__ Derivatives neighbours(float weight, float score, float target, float other, float other_target) {
    const float gap = target - other_target;
    const Pair p = sigmoid_pair(score - other);
    const bool is_better = gap > 0.0f;
    const float wrong = (score >= other) == is_better ? p.low : p.high;
    const float change = weight * fabsf(gap);
    const float push = change * wrong;
    return {is_better ? -push : push, change * (p.low * p.high)};
}

// Adds what rows have from their neighbours in one order to their sums, which are by place; the first order begins them.
extern "C" __global__ void __launch_bounds__(256) tree_group_neighbours(const __grid_constant__ GroupRows g, uint32_t begins) {
    for (uint64_t rank = blockIdx.x * 256ull + threadIdx.x; rank < g.rows; rank += gridDim.x * 256ull) {
        const uint32_t place = g.order[rank];
        const GroupBounds b = bounds(g, g.group[place]);
        const uint32_t own = static_cast<uint32_t>(rank) - b.start;
        const float score = g.scores[g.row[place]], target = g.target[place];
        float gradient = begins ? 0.0f : g.ranked_gradient[place], hessian = begins ? 0.0f : g.ranked_hessian[place];
        if (own > 0) {
            const uint32_t before = g.order[rank - 1];
            const Derivatives d = neighbours(g.places[own - 1], g.scores[g.row[before]], g.target[before], score, target);
            gradient = gradient - d.gradient;
            hessian = hessian + d.hessian;
        }
        if (rank + 1 < b.end) {
            const uint32_t behind = g.order[rank + 1];
            const Derivatives d = neighbours(g.places[own], score, target, g.scores[g.row[behind]], g.target[behind]);
            gradient = gradient + d.gradient;
            hessian = hessian + d.hessian;
        }
        g.ranked_gradient[place] = gradient;
        g.ranked_hessian[place] = hessian;
    }
}

// From places to rows.
extern "C" __global__ void __launch_bounds__(256) tree_group_places(const __grid_constant__ GroupRows g) {
    for (uint64_t place = blockIdx.x * 256ull + threadIdx.x; place < g.rows; place += gridDim.x * 256ull) {
        write_derivatives(g, g.row[place], g.ranked_gradient[place], g.ranked_hessian[place]);
    }
}

// The sum over the lanes of half a warp, from the first to the last; every thread gets it.
__device__ __forceinline__ float add_lanes(float lane) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < static_cast<int>(GROUP_LANES); i++) total = total + __shfl_sync(~0u, lane, i, GROUP_LANES);
    return total;
}

__device__ __forceinline__ float largest_lane(float lane) {
#pragma unroll
    for (int offset = GROUP_LANES / 2; offset; offset >>= 1) {
        const float other = __shfl_xor_sync(~0u, lane, offset, GROUP_LANES);
        lane = other > lane ? other : lane;
    }
    return lane;
}

// The softmax's cross entropy with the grades: half a warp a group. `ranked_score` holds shares, `ranked_gain` what is left of 1,
// `ranked_total` what the grades say, `ranked_gradient` the terms; all by place.
extern "C" __global__ void __launch_bounds__(256) tree_group_xendcg(const __grid_constant__ GroupRows g, uint64_t key) {
    constexpr float SMALLEST_REST = 1e-10f;
    Random random(0, 0, 0);
    random.key = key;
    const uint32_t lane = threadIdx.x % GROUP_LANES, here = 256 / GROUP_LANES;
    // Whole warps stay together, so that every lane takes part in what they exchange.
    const uint32_t turns = (g.groups + here * gridDim.x - 1) / (here * gridDim.x);
    for (uint32_t turn = 0; turn < turns; turn++) {
        const uint32_t group = (turn * gridDim.x + blockIdx.x) * here + threadIdx.x / GROUP_LANES;
        const bool there = group < g.groups;
        const GroupBounds b = there ? bounds(g, group) : GroupBounds{0, 0};
        float top = -INFINITE;
        for (uint32_t place = b.start + lane; place < b.end; place += GROUP_LANES) {
            const float score = g.scores[g.row[place]];
            top = score > top ? score : top;
        }
        top = largest_lane(top);
        float sum = 0.0f, wanted = 0.0f;
        for (uint32_t place = b.start + lane; place < b.end; place += GROUP_LANES) {
            const uint32_t row = g.row[place];
            const float e = exp32(g.scores[row] - top);
            const float w = gain_of(g.target[place]) + 1.0f - unit_of(random, row);
            g.ranked_score[place] = e;
            g.ranked_total[place] = w;
            sum = sum + e;
            wanted = wanted + w;
        }
        const float total = add_lanes(sum);
        wanted = add_lanes(wanted);
        wanted = wanted < SMALLEST_REST ? SMALLEST_REST : wanted;
        float first = 0.0f;
        for (uint32_t place = b.start + lane; place < b.end; place += GROUP_LANES) {
            const float e = g.ranked_score[place], others = (total - e) / total;
            const float rest = others < SMALLEST_REST ? SMALLEST_REST : others, share = e / total;
            const float term = share - g.ranked_total[place] / wanted, w = term / rest;
            g.ranked_score[place] = share;
            g.ranked_gain[place] = rest;
            g.ranked_gradient[place] = term;
            g.ranked_total[place] = w;
            first = first + w;
        }
        first = add_lanes(first);
        float second = 0.0f;
        for (uint32_t place = b.start + lane; place < b.end; place += GROUP_LANES) {
            const float term = g.ranked_score[place] * (first - g.ranked_total[place]), w = term / g.ranked_gain[place];
            g.ranked_gradient[place] = g.ranked_gradient[place] + term;
            g.ranked_total[place] = w;
            second = second + w;
        }
        second = add_lanes(second);
        for (uint32_t place = b.start + lane; place < b.end; place += GROUP_LANES) {
            const float share = g.ranked_score[place];
            const float gradient = g.ranked_gradient[place] + share * (second - g.ranked_total[place]);
            const bool alone = b.end - b.start < 2;
            write_derivatives(g, g.row[place], alone ? 0.0f : gradient, alone ? SMALLEST_HESSIAN : share * g.ranked_gain[place]);
        }
    }
}

}  // namespace taiga
