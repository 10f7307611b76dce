// What the kernels of boosted trees share: the structs that the host and the kernels read, and the
// way rows are dealt to blocks.
//
//   codes      [block of 32 features][row][32]      a row of a block is one 32-byte sector
//   lists      [position] {row, packed gradient}               the rows of each node, next to one another
//   histogram  [slot][block][bin][32][component]    64-bit sums: gradient, hessian (, count)

#pragma once

#include <cstdint>

#include "../numerics/loss.cuh"
#include "../numerics/statistics.cuh"

namespace taiga {

// A block's dynamic shared memory.
extern __shared__ uint4 memory[];

// Features of a block of codes: a warp takes a row at a time, a lane a feature.
constexpr uint32_t LANES = 32;

// Threads that a multiprocessor holds.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr uint32_t RESIDENT_THREADS = 2048;
#elif __CUDA_ARCH__ == 750
constexpr uint32_t RESIDENT_THREADS = 1024;
#else
constexpr uint32_t RESIDENT_THREADS = 1536;
#endif

// Blocks of `threads` that registers are to suffice for at a time: `wanted`, or as many as there is room for.
constexpr uint32_t resident(uint32_t threads, uint32_t wanted) {
    return wanted * threads <= RESIDENT_THREADS ? wanted : RESIDENT_THREADS / threads;
}

// The most rows that 32-bit sums of 16-bit statistics can take.
constexpr uint32_t MOST_ROWS = 65536;

// Where a node's rows stand: in one of two lists, or all rows of the table in order.
constexpr uint32_t IN_ORDER = 2;

struct Sums {  // shared with the host as Total
    int64_t gradient, hessian, count;
};

__device__ __forceinline__ Sums operator+(Sums a, Sums b) {
    return {a.gradient + b.gradient, a.hessian + b.hessian, a.count + b.count};
}

__device__ __forceinline__ Sums operator-(Sums a, Sums b) {
    return {a.gradient - b.gradient, a.hessian - b.hessian, a.count - b.count};
}

// How the derivatives of one tree become integers (cpu/trees/gradient_quantizer.rs: GradientQuantizer).
struct GradientQuantizer {  // shared with the host
    // Before rounding, as f64 and as f32.
    double gradient, hessian;
    float gradient32, hessian32;
    // For the 64-bit sums of leaves.
    double leaf_gradient, leaf_hessian;
    // What a unit of the sums is worth.
    double unit_gradient, unit_hessian;
    // The largest absolute values, as bits.
    uint32_t largest_gradient, largest_hessian;
    uint32_t wide, unit;
};

// The rows of the table as the losses see them.
struct LossRows {  // shared with the host
    uint64_t rows;
    // The rows of the table before these.
    uint64_t first;
    const float* target;
    const float* weight;  // or none
    const float* bag;     // what a row counts in this tree; or none
    float* scores;        // [output][row]
    uint32_t output, loss;
    float a, b;  // the loss's parameters
    uint32_t classes;
    uint32_t is_shard;  // whether others have rows of the table, or might
    // The derivatives, weights included, where they are found before a tree.
    const float* gradient;
    const float* hessian;
};

// Losses by number: `Formula` in src/core/losses/mod.rs.
enum : uint32_t {
#define LOSS(formula, ...) LOSS_##formula,
#define LOSS_OF_SCORES(formula, ...) LOSS_##formula,
#define LOSS_FOUND_BEFORE(formula) LOSS_##formula,
#include "../numerics/losses.def"
#undef LOSS
#undef LOSS_OF_SCORES
#undef LOSS_FOUND_BEFORE
};

// A row's derivatives, its bag aside.
__device__ __forceinline__ Derivatives derive(const LossRows& r, uint64_t row, float score, float target) {
    const float a = r.a, b = r.b;
    const uint32_t classes = r.classes;
    Derivatives d = {0.0f, 0.0f};
    switch (r.loss) {
#define LOSS(formula, ...) \
    case LOSS_##formula: d = __VA_ARGS__.at(score, target); break;
#define LOSS_OF_SCORES(formula, ...) \
    case LOSS_##formula: d = __VA_ARGS__.at(r.scores + row, r.rows, r.output, target); break;
#define LOSS_FOUND_BEFORE(formula) \
    case LOSS_##formula: return {r.gradient[row], r.hessian[row]};
#include "../numerics/losses.def"
#undef LOSS
#undef LOSS_OF_SCORES
#undef LOSS_FOUND_BEFORE
    }
    return r.weight ? weigh(d, r.weight[row]) : d;
}

// The same with what the row counts in this tree.
__device__ __forceinline__ Derivatives derive_drawn(const LossRows& r, uint64_t row, float score, float target) {
    Derivatives d = derive(r, row, score, target);
    if (r.bag) {
        float bag = r.bag[row];
        d = {d.gradient * bag, d.hessian * bag};
    }
    return d;
}

// A node's rows.
struct NodeRows {  // shared with the host
    uint32_t start, len;
    // The rows that have gone left (lower half) and right (upper half) when it is partitioned.
    unsigned long long gone;
    uint32_t list;
    // Its parent and its side; no parent for a root.
    int32_t parent;
    uint32_t right, unused;
};

// A division: which codes go right, and whose histogram is summed.
struct PartitionJob {  // shared with the host
    // The codes of the feature: the address of row 0's, that of row r being 32 r behind it; or where a sparse one's are (sparse_features.cuh).
    uint64_t codes;
    uint32_t node;
    // Codes above `last` go right, and code 0 where `zero_right`.
    uint32_t last, zero_right;
    // Or the codes of a set.
    uint32_t is_set;
    uint32_t set[8];
    // Whether the right child is the smaller one, and the slot of its histogram.
    uint32_t right_is_smaller, slot;
    // Whether rows are moved at all.
    uint32_t moves, unused;
};

// The rows of a launch's nodes.
struct LaunchRows {  // shared with the host
    uint32_t rows, unused;
};

// A launch whose blocks may come while the launch before it still runs: waits for that one's end, and lets the next
// launch's blocks come as soon as there is room for them. Before it nothing may be read that another launch writes.
__device__ __forceinline__ void follow_on() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The largest k with starts[k] <= at, by a whole warp; starts ascend from 0.
__device__ __forceinline__ uint32_t locate(const uint32_t* starts, uint32_t count, uint32_t at) {
    uint32_t low = 0, high = count, lane = threadIdx.x & 31;
    while (high - low > 1) {
        uint32_t step = (high - low + 31) / 32, probe = low + lane * step;
        unsigned below = __ballot_sync(~0u, probe < high && starts[probe] <= at);
        low += (__popc(below) - 1) * step;
        high = low + step < high ? low + step : high;
    }
    return low;
}

// Adds to 64-bit totals in global memory.
__device__ __forceinline__ void add(int64_t* to, int64_t x) {
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x));
}

// Whether a launch is the last block to arrive; `arrived` is zero before, and again after.
__device__ __forceinline__ bool last_block(uint32_t* arrived, uint32_t blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == blocks - 1;
        if (last) *arrived = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

}  // namespace taiga
