// Factors of positions under losses by group: twins of src/core/losses/position_bias.rs, where what they are is told; sums are added in the
// same order.

#pragma once

#include "layouts.cuh"

namespace taiga {

// Lanes that sums over a block of a position's rows are added in: those of a warp.
constexpr uint32_t POSITION_LANES = 32;

struct PositionRows {  // shared with the host
    uint64_t rows;
    uint32_t positions, blocks;
    const uint32_t* position;  // [row]
    const uint32_t* trained;   // the training rows, position after position
    const uint2* ranges;       // [block] where its rows begin and end among those
    const uint32_t* starts;    // [position] where its blocks begin, and where the last one's end
    const double* weights;     // [position]
    const double* factors;     // [position] those of the tree
    double* next;              // [position] those after it
    double* sums;              // [block][gradient, hessian]
    const float* scores;       // [row]
    float* adjusted;           // [row]
    const float* gradient;     // [row] times its weight
    const float* hessian;
    double learning_rate, l2;
};

// Scores with the factors of their rows' positions.
extern "C" __global__ void __launch_bounds__(256) tree_position_adjust(const __grid_constant__ PositionRows p) {
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < p.rows; row += gridDim.x * 256ull) {
        p.adjusted[row] = p.scores[row] + static_cast<float>(p.factors[p.position[row]]);
    }
}

// The sums of each block's derivatives: a warp a block.
extern "C" __global__ void __launch_bounds__(256) tree_position_sums(const __grid_constant__ PositionRows p) {
    const uint32_t lane = threadIdx.x % POSITION_LANES, here = 256 / POSITION_LANES;
    for (uint32_t block = blockIdx.x * here + threadIdx.x / POSITION_LANES; block < p.blocks; block += gridDim.x * here) {
        const uint2 range = p.ranges[block];
        double gradient = 0.0, hessian = 0.0;
        for (uint32_t i = range.x + lane; i < range.y; i += POSITION_LANES) {
            const uint32_t row = p.trained[i];
            gradient = gradient + static_cast<double>(p.gradient[row]);
            hessian = hessian + static_cast<double>(p.hessian[row]);
        }
        double gradients = 0.0, hessians = 0.0;
        for (int from = 0; from < static_cast<int>(POSITION_LANES); from++) {
            gradients = gradients + __shfl_sync(~0u, gradient, from);
            hessians = hessians + __shfl_sync(~0u, hessian, from);
        }
        if (lane == 0) {
            p.sums[2 * block] = gradients;
            p.sums[2 * block + 1] = hessians;
        }
    }
}

// The step of each position's factor.
extern "C" __global__ void __launch_bounds__(256) tree_position_step(const __grid_constant__ PositionRows p) {
    constexpr double LEAST_CURVATURE = 0.001, LONGEST_STEP = 10.0;
    for (uint32_t position = blockIdx.x * 256 + threadIdx.x; position < p.positions; position += gridDim.x * 256) {
        double gradient = 0.0, hessian = 0.0;
        for (uint32_t block = p.starts[position]; block < p.starts[position + 1]; block++) {
            gradient = gradient + p.sums[2 * block];
            hessian = hessian + p.sums[2 * block + 1];
        }
        const double factor = p.factors[position], pull = p.l2 * p.weights[position];
        const double slope = -gradient - factor * pull;
        double newton = slope / (hessian + pull + LEAST_CURVATURE);
        newton = newton < -LONGEST_STEP ? -LONGEST_STEP : newton;
        newton = newton > LONGEST_STEP ? LONGEST_STEP : newton;
        p.next[position] = factor + p.learning_rate * newton;
    }
}

}  // namespace taiga
