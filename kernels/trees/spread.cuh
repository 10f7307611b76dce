// How far the derivatives of a tree lie apart, which noise on its scores is in units of. Twin of Shard::squares in src/cpu/trees/shard.rs.

#pragma once

#include "gradient_quantizer.cuh"

namespace taiga {

// Batches of a block, each added up by a lane; and the rows of each that are on their way at a time.
constexpr uint32_t SPREAD_BATCHES = 32, SPREAD_ROWS = 32;

// The sums of the squared gradients and of the hessians of each batch's rows, row after row, those drawn as they count.
extern "C" __global__ void __launch_bounds__(256) tree_spread(const __grid_constant__ LossRows r, double2* sums) {
    // Padded: lanes that each read another batch's row meet in no bank.
    __shared__ float gradients[SPREAD_BATCHES][SPREAD_ROWS + 1], hessians[SPREAD_BATCHES][SPREAD_ROWS + 1];
    const float* scores = r.scores + r.output * r.rows;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(SPREAD_BATCHES);
    double sum = 0.0;
    for (uint32_t from = 0; from < BATCH; from += SPREAD_ROWS) {
        for (uint32_t batch = warp; batch < SPREAD_BATCHES; batch += 8) {
            const uint64_t row = (first + batch) * BATCH + from + lane;
            Derivatives d = {0.0f, 0.0f};
            if (row < r.rows) d = derive_drawn(r, row, scores[row], r.target[row]);
            gradients[batch][lane] = d.gradient;
            hessians[batch][lane] = d.hessian;
        }
        __syncthreads();
        // The first warp has the gradients, the second one the hessians. Rows that are not there add nothing.
        for (uint32_t row = 0; row < SPREAD_ROWS && warp < 2; row++) {
            const double gradient = static_cast<double>(gradients[lane][row]), hessian = static_cast<double>(hessians[lane][row]);
            sum = sum + (warp == 0 ? gradient * gradient : hessian);
        }
        __syncthreads();
    }
    if ((first + lane) * BATCH >= r.rows) return;
    if (warp == 0) sums[first + lane].x = sum;
    if (warp == 1) sums[first + lane].y = sum;
}

}  // namespace taiga
