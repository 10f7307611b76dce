// Finds the derivatives of a loss of one's own before a tree, for the passes that read them by row.

#pragma once

#include "../numerics/program.cuh"
#include "layouts.cuh"

namespace taiga {

extern "C" __global__ void __launch_bounds__(128)
    tree_run_program(const __grid_constant__ LossRows r, const __grid_constant__ LossProgram program, float* gradient, float* hessian) {
    run_program(program, r.rows, r.target, r.scores + r.output * r.rows, memory, [&](uint64_t row, Derivatives d) {
        if (r.weight) d = weigh(d, r.weight[row]);
        gradient[row] = d.gradient;
        hessian[row] = d.hessian;
    });
}

}  // namespace taiga
