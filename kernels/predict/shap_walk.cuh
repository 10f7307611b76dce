// Shapley values of trees whose paths meet too many players for tables, by a walk over all edges (src/core/shap/walk.rs). Four threads take a
// row, one the first of every four points of the quadrature, the next the second of them, and so on.

#pragma once

#include "shap.cuh"

// What a step of a walk is: down an edge, back up over it, or at a leaf.
enum WalkKind : uint32_t { DOWN, UP, LEAF };

// A step: an edge, or a leaf (`at`). `above`: the depth of the nearest edge above that asks the same player, 0 where there is none. `end`: the
// step behind the last one below an edge.
struct ShapStep {  // shared with the host
    double own_share, share, share_above;
    uint32_t kind, at, right, player, above, depth, end, unused;
};

// The shape of a walk: its steps, groups of four points, depths (one more than the longest path has edges), players, and the outputs of the
// tree, from `first_output` of the model's on.
struct ShapWalkShape {  // shared with the host
    uint32_t steps, width, depths, players, outputs, first_output;
};

constexpr uint32_t LANES = 4, NOBODY = ~0u;

// What a thread has of the walk down to where it is: numbers[(depth * width + group) * threads], its own of all threads'.
struct WalkState {
    double *products, *inverses, *sums;
    uint8_t* leads;
    uint64_t threads;
    uint32_t width, outputs;
    __device__ __forceinline__ uint64_t at(uint32_t depth, uint32_t group) const { return (depth * width + group) * threads; }
    __device__ __forceinline__ uint64_t sum_at(uint32_t depth, uint32_t output, uint32_t group) const {
        return ((depth * outputs + output) * width + group) * threads;
    }
};

// What its joining changes for a player.
__device__ __forceinline__ double gain_of(double share, bool leads) { return (leads ? 1.0 : 0.0) - share; }

// Goes down an edge, which the row's answers take or do not; false where no set of players leads there. A player whose answer is given is in
// every set or in none.
__device__ __forceinline__ bool go_down(const ShapStep& edge, const WalkState& state, const double* points, bool taken, uint32_t given,
                                        bool in_set) {
    if (edge.player == given) {
        const double chance = in_set ? static_cast<double>(taken) : edge.own_share;
        for (uint32_t g = 0; g < state.width; g++) state.products[state.at(edge.depth, g)] = state.products[state.at(edge.depth - 1, g)] * chance;
        return chance > 0.0;
    }
    const bool leads = taken && (edge.above == 0 || state.leads[edge.above * state.threads]);
    state.leads[edge.depth * state.threads] = leads;
    if (!leads && edge.share == 0.0) return false;
    for (uint32_t g = 0; g < state.width; g++) {
        const double t = points[g * LANES];
        const double before = edge.above == 0 ? 1.0 : state.inverses[state.at(edge.above, g)];
        const double factor = (leads ? t : 0.0) + (1.0 - t) * edge.share;
        state.products[state.at(edge.depth, g)] = state.products[state.at(edge.depth - 1, g)] * before * factor;
        state.inverses[state.at(edge.depth, g)] = 1.0 / factor;
    }
    return true;
}

// What an edge credits its player with: its factor's gain, instead of the one that the factor above had. All four threads of a row get it.
__device__ __forceinline__ double credit_of(const ShapStep& edge, const WalkState& state, const double* weights, uint32_t output, uint32_t mask) {
    const double own = gain_of(edge.share, state.leads[edge.depth * state.threads]);
    const double before = edge.above == 0 ? 0.0 : gain_of(edge.share_above, state.leads[edge.above * state.threads]);
    double sum = 0.0;
    for (uint32_t g = 0; g < state.width; g++) {
        const double h = state.sums[state.sum_at(edge.depth, output, g)], inverse = state.inverses[state.at(edge.depth, g)];
        const double credit = edge.above == 0 ? own * inverse : own * inverse - before * state.inverses[state.at(edge.above, g)];
        sum += weights[g * LANES] * h * credit;
    }
    sum += __shfl_xor_sync(mask, sum, 1);
    return sum + __shfl_xor_sync(mask, sum, 2);
}

// found[(output * players + player) * rows + row]: the values of all players of a tree but `given`, whose answer is. `scratch` has room for the
// products, inverses and sums of all threads, `leads` for a byte of each depth.
extern "C" __global__ void __launch_bounds__(128)
    explain_walk(uint64_t rows, uint64_t pitch, const uint8_t* answers, ShapWalkShape shape, const ShapStep* steps, const double* points,
                 const double* weights, const double* values, uint32_t given, uint32_t in_set, double* scratch, uint8_t* leads, double* found) {
    const uint64_t thread = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x, threads = gridDim.x * static_cast<uint64_t>(blockDim.x);
    const uint64_t row = thread / LANES;
    const uint32_t lane = thread % LANES, mask = 0xfu << (threadIdx.x % 32 / LANES * LANES);
    if (row >= rows) return;
    const uint64_t size = static_cast<uint64_t>(shape.depths) * shape.width * threads;
    const WalkState state = {scratch + thread, scratch + size + thread, scratch + 2 * size + thread, leads + thread, threads, shape.width,
                             shape.outputs};
    for (uint32_t g = 0; g < shape.width; g++) state.products[state.at(0, g)] = 1.0;
    for (uint64_t i = 0; i < static_cast<uint64_t>(shape.depths) * shape.outputs * shape.width; i++) state.sums[i * threads] = 0.0;
    double* out = found + row;
    for (uint32_t i = lane; i < shape.players * shape.outputs; i += LANES) out[i * rows] = 0.0;
    __syncwarp(mask);
    uint32_t depth = 0;
    for (uint32_t s = 0; s < shape.steps;) {
        const ShapStep step = steps[s++];
        if (step.kind == DOWN) {
            depth = step.depth;
            const bool right = __ldg(answers + step.at * pitch + row) != 0;
            if (!go_down(step, state, points + lane, right == (step.right != 0), given, in_set != 0)) {
                // Nothing below counts: whoever the set holds, nobody comes here.
                s = step.end;
                depth--;
            }
        } else if (step.kind == LEAF) {
            for (uint32_t output = 0; output < shape.outputs; output++) {
                const double value = __ldg(values + static_cast<uint64_t>(step.at) * shape.outputs + output);
                for (uint32_t g = 0; g < shape.width; g++) state.sums[state.sum_at(depth, output, g)] += value * state.products[state.at(depth, g)];
            }
        } else {
            for (uint32_t output = 0; output < shape.outputs; output++) {
                if (step.player != given) {
                    const double credit = credit_of(step, state, weights + lane, output, mask);
                    if (lane == 0) out[(static_cast<uint64_t>(output) * shape.players + step.player) * rows] += credit;
                }
                for (uint32_t g = 0; g < shape.width; g++) {
                    double& below = state.sums[state.sum_at(depth, output, g)];
                    state.sums[state.sum_at(depth - 1, output, g)] += below;
                    below = 0.0;
                }
            }
            depth--;
        }
    }
}

// Adds the values of a tree's players to sums[((first_output + output) * all_terms + player) * rows + row]. A thread takes a row, a row of the
// grid some players.
extern "C" __global__ void __launch_bounds__(256)
    add_walked(uint64_t rows, ShapWalkShape shape, const uint32_t* players, uint32_t all_terms, const double* found, double* sums) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) return;
    for (uint32_t i = blockIdx.y; i < shape.players * shape.outputs; i += gridDim.y) {
        const uint32_t output = shape.first_output + i / shape.players;
        sums[(static_cast<uint64_t>(output) * all_terms + players[i % shape.players]) * rows + row] += found[i * rows + row];
    }
}

// Adds half of what the presence of player `given` of a tree changes for each player behind it to the sums of their pairs.
extern "C" __global__ void __launch_bounds__(256)
    add_walked_pairs(uint64_t rows, ShapWalkShape shape, const uint32_t* players, uint32_t given, uint32_t all, uint32_t all_terms, const double* with,
                     const double* without, double* sums) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) return;
    const uint32_t behind = shape.players - given - 1;
    for (uint32_t i = blockIdx.y; i < behind * shape.outputs; i += gridDim.y) {
        const uint32_t output = i / behind, other = given + 1 + i % behind;
        const uint64_t at = (static_cast<uint64_t>(output) * shape.players + other) * rows + row;
        const uint32_t a = players[given], b = players[other], place = pair_of(all, min(a, b), max(a, b));
        sums[(static_cast<uint64_t>(shape.first_output + output) * all_terms + place) * rows + row] += 0.5 * (with[at] - without[at]);
    }
}
