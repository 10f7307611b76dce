// Finds the derivatives of accelerated failure time before a tree, for the passes that read them by row.

#pragma once

#include "../numerics/censored.cuh"
#include "layouts.cuh"

namespace taiga {

// `columns`: [column][row], the logarithms of the least and of the largest time.
extern "C" __global__ void __launch_bounds__(256)
    tree_bounds(const __grid_constant__ LossRows r, const float* columns, float* gradient, float* hessian) {
    const float* scores = r.scores + r.output * r.rows;
    const Aft loss{r.a, r.classes};
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        Derivatives d = loss.at(scores[row], columns[row], columns[r.rows + row]);
        if (r.weight) d = weigh(d, r.weight[row]);
        gradient[row] = d.gradient;
        hessian[row] = d.hessian;
    }
}

}  // namespace taiga
