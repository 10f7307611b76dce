// Brings the scores of rows that lie on several GPUs to each of them, before derivatives that depend on other rows' scores are found.

#pragma once

#include "all_reduce.cuh"

namespace taiga {

// Rows `from .. to` of the table, whose scores a GPU is to have.
struct ScoreGather {  // shared with the host
    DeviceGroup group;
    uint64_t scores[16];  // of each GPU, where the scores of its rows are
    uint64_t first[16];   // and the first of its rows
    uint64_t from, to;
    float* out;           // [row - from]
};

__device__ __forceinline__ float load_score(uint64_t at) {
    float score;
    asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(score) : "l"(at) : "memory");
    return score;
}

// A GPU changes its scores only behind a later barrier, which all come to when they have read them.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) tree_gather_scores(const __grid_constant__ ScoreGather a) {
    const DeviceGroup& g = a.group;
    const uint32_t step = steps(g) + 1;
    if (!meet(g, step, blockIdx.x == 0)) return;
    const uint64_t stride = gridDim.x * static_cast<uint64_t>(REDUCE_THREADS);
    for (uint32_t k = 0; k < g.count; k++) {
        // This GPU's first, then those of the next, so that not all read the same one.
        const uint32_t other = g.rank + k < g.count ? g.rank + k : g.rank + k - g.count;
        const uint64_t first = a.first[other], end = other + 1 < g.count && a.first[other + 1] < a.to ? a.first[other + 1] : a.to;
        for (uint64_t row = (first < a.from ? a.from : first) + blockIdx.x * REDUCE_THREADS + threadIdx.x; row < end; row += stride) {
            a.out[row - a.from] = load_score(a.scores[other] + 4 * (row - first));
        }
    }
    if (last_block(signals_of(g, g.rank) + ARRIVED, gridDim.x) && threadIdx.x == 0) signals_of(g, g.rank)[STEPS] = step;
}

}  // namespace taiga
