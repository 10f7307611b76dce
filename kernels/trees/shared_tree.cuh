// Trees that several outputs share: what there is of each output, and what is done with the derivatives of all. Twin of what concerns such
// trees in src/cpu/trees/lanes.rs and shard.rs.
//
// Each output has packed gradients of its own, and a histogram of its own in each node; those of a node stand side by side.

#pragma once

#include "gradient_quantizer.cuh"
#include "split_scores.cuh"

namespace taiga {

typedef __int128 int128_t;

// What an output counts in the splits of a tree (core/learners/boosting/steps.rs: OutputRules).
struct SharedOutput {  // shared with the host
    double l1, l2, importance;
    // Of divisions by categories: what is added to the hessians that categories are sorted by, and to `l2`.
    double smooth, category_l2;
    // By how many bits its hessians' unit is larger than the smallest one (core/learners/boosting/several.rs: HessianUnits).
    uint32_t shift, unused;
};

struct SharedOutputs {  // shared with the host
    const SharedOutput* outputs;
    const GradientQuantizer* quantizers;
    // Numbers from an output's histogram of a node to the next one's.
    uint64_t stride;
    uint32_t count;
    // Whether all outputs have the same hessians, those of rows that count 1, and the same `l2`.
    uint32_t unit;
    // What one of the mean hessian is worth.
    double unit_hessian;
};

// The histograms of an output.
__device__ __forceinline__ Histograms of_output(const SplitSearch& a, const SharedOutputs& t, uint32_t output) {
    Histograms h = a.histograms;
    h.slots += output * t.stride;
    return h;
}

// The mean of hessians that were added up with each output's shift.
__device__ __forceinline__ int64_t mean_hessian(const SharedOutputs& t, int128_t sum) {
    constexpr int64_t MOST = INT64_MAX / 4;
    const int128_t mean = sum / static_cast<int128_t>(t.count);
    return mean < MOST ? static_cast<int64_t>(mean) : MOST;
}

// Makes the statistics of all outputs wide where those of one are. By one block.
extern "C" __global__ void __launch_bounds__(256) tree_share_quantizers(GradientQuantizer* each, uint32_t outputs) {
    bool wide = false;
    for (uint32_t k = threadIdx.x; k < outputs; k += blockDim.x) wide |= each[k].wide != 0;
    if (!__syncthreads_or(wide)) return;
    for (uint32_t k = threadIdx.x; k < outputs; k += blockDim.x) {
        if (!each[k].wide) set_factors(each[k], true, each[k].unit);
    }
}

// Adds an output's squared derivatives, times what it counts, to those of the outputs before it in `sums`, by row; behind the last one
// writes the roots, which rows are drawn by.
extern "C" __global__ void __launch_bounds__(256)
    tree_add_squares(const __grid_constant__ LossRows r, double importance, double2* sums, uint32_t begins, uint32_t ends, float* gradient, float* hessian) {
    const float* scores = r.scores + r.output * r.rows;
    auto root = [](double sum) {
        const double found = __dsqrt_rn(sum), most = 3.4028234663852886e38;
        return static_cast<float>(found < most ? found : most);
    };
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        const Derivatives d = derive(r, row, scores[row], r.target[row]);
        double2 sum = begins ? make_double2(0.0, 0.0) : sums[row];
        sum.x = sum.x + importance * (static_cast<double>(d.gradient) * static_cast<double>(d.gradient));
        sum.y = sum.y + importance * (static_cast<double>(d.hessian) * static_cast<double>(d.hessian));
        if (!ends) {
            sums[row] = sum;
            continue;
        }
        gradient[row] = root(sum.x);
        hessian[row] = root(sum.y);
    }
}

}  // namespace taiga
