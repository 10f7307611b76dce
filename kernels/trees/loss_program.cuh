// Finds the derivatives of a loss of one's own before a tree, for the passes that read them by row.

#pragma once

#include "../numerics/program.cuh"
#include "layouts.cuh"

namespace taiga {

extern "C" __global__ void __launch_bounds__(256)
    tree_run_program(const __grid_constant__ LossRows r, const __grid_constant__ LossProgram program, float* gradient, float* hessian) {
    const float* scores = r.scores + r.output * r.rows;
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        Derivatives d = run_program(program, r.rows, row, r.target[row], scores[row]);
        if (r.weight) d = weigh(d, r.weight[row]);
        gradient[row] = d.gradient;
        hessian[row] = d.hessian;
    }
}

}  // namespace taiga
