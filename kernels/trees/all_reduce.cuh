// Adds up what the GPUs of a fit have summed, each over its rows: every GPU reads the others' memory and writes to it, and waits for
// them at barriers of its own, so that the host has no part in it. Integers, so in any order; two sums of doubles in the GPUs' order.
//
//   signals of a GPU   16 words that the others write, how often each has come; then its own: steps taken, abort, blocks that have come

#pragma once

#include "leaf_sums.cuh"
#include "root_histogram.cuh"

namespace taiga {

// The most GPUs of a fit, and the words behind their signals.
constexpr uint32_t MOST_DEVICES = 16;
enum : uint32_t { STEPS = MOST_DEVICES, ABORTED, ARRIVED };

// The GPUs of a fit, as one of them sees them.
struct DeviceGroup {  // shared with the host
    uint64_t signals[16];  // of each GPU, where its signals are
    uint32_t rank, count;
    uint32_t apart, unused;  // whether each shard of the rows has a GPU of its own
};

// A GPU that waits for so many nanoseconds takes the others to be lost.
constexpr uint64_t MOST_WAIT = 120ull * 1000 * 1000 * 1000;

__device__ __forceinline__ uint32_t* signals_of(const DeviceGroup& g, uint32_t rank) {
    return reinterpret_cast<uint32_t*>(g.signals[rank]);
}

__device__ __forceinline__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Waits until a signal of another GPU says `step` or more; gives whether it does, and not the host that the fit is over.
__device__ __forceinline__ bool wait_for(const uint32_t* signal, uint32_t step, const uint32_t* aborted) {
    const uint64_t start = nanoseconds();
    for (uint32_t turn = 0;; turn++) {
        uint32_t seen;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(signal) : "memory");
        if (static_cast<int32_t>(seen - step) >= 0) return true;
        if (*reinterpret_cast<const volatile uint32_t*>(aborted)) return false;
        if (turn % 1024 == 1023 && nanoseconds() - start > MOST_WAIT) __trap();
    }
}

// Waits until all GPUs have come here, the `step`-th time; by a whole block. `tells`: tells the others that this one has. Gives whether
// the fit goes on.
__device__ __forceinline__ bool meet(const DeviceGroup& g, uint32_t step, bool tells) {
    __syncthreads();
    bool there = true;
    if (threadIdx.x < g.count) {
        uint32_t* own = signals_of(g, g.rank);
        if (tells) {
            asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(signals_of(g, threadIdx.x) + g.rank), "r"(step) : "memory");
        }
        there = wait_for(own + threadIdx.x, step, own + ABORTED);
    }
    return __syncthreads_and(there);
}

// The barriers that this GPU has passed.
__device__ __forceinline__ uint32_t steps(const DeviceGroup& g) {
    return *reinterpret_cast<const volatile uint32_t*>(signals_of(g, g.rank) + STEPS);
}

// The one barrier of a launch of one block, after which it may read what other GPUs had before.
__device__ __forceinline__ bool meet_once(const DeviceGroup& g) {
    const uint32_t step = steps(g) + 1;
    const bool goes_on = meet(g, step, true);
    if (threadIdx.x == 0) signals_of(g, g.rank)[STEPS] = step;
    return goes_on;
}

// `follow_on`, but that the next launch's blocks come early only where shards are apart: blocks that wait would take the room of those
// that another shard on the same GPU waits for.
__device__ __forceinline__ void follow_group(const DeviceGroup& g) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (g.apart) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Numbers of a GPU's memory, past the caches that know nothing of other GPUs.
__device__ __forceinline__ longlong2 load_pair(uint64_t at) {
    longlong2 pair;
    asm volatile("ld.relaxed.sys.global.v2.s64 {%0, %1}, [%2];" : "=l"(pair.x), "=l"(pair.y) : "l"(at) : "memory");
    return pair;
}

__device__ __forceinline__ void store_pair(uint64_t at, longlong2 pair) {
    asm volatile("st.relaxed.sys.global.v2.s64 [%0], {%1, %2};" ::"l"(at), "l"(pair.x), "l"(pair.y) : "memory");
}

__device__ __forceinline__ int64_t load_number(uint64_t at) {
    int64_t number;
    asm volatile("ld.relaxed.sys.global.s64 %0, [%1];" : "=l"(number) : "l"(at) : "memory");
    return number;
}

// Numbers that every GPU has, and whose sums all are to have.
struct AllReduce {  // shared with the host
    DeviceGroup group;
    uint64_t numbers[16];  // where they are on each GPU, at multiples of 16 bytes
    uint64_t sums[16];     // and where the sums go: where the numbers are, if each adds a share
    uint64_t count;        // of int64; even
    // Whether each GPU adds a share of the numbers and tells the sums to all: less goes from GPU to GPU where there are many of them, but
    // they meet once more. Else each adds all for itself, and the numbers stay until it comes to a barrier again.
    uint32_t shares, unused;
};

constexpr uint32_t REDUCE_THREADS = 512;

// The sums of a pair of numbers over all GPUs, this one's first.
__device__ __forceinline__ longlong2 sum_pair(const AllReduce& a, uint64_t i) {
    const DeviceGroup& g = a.group;
    longlong2 sum = load_pair(a.numbers[g.rank] + 16 * i);
#pragma unroll 4
    for (uint32_t k = 1; k < g.count; k++) {
        const uint32_t other = g.rank + k < g.count ? g.rank + k : g.rank + k - g.count;
        const longlong2 pair = load_pair(a.numbers[other] + 16 * i);
        sum.x += pair.x;
        sum.y += pair.y;
    }
    return sum;
}

// Adds the numbers of all GPUs. Behind the sums a tree begins, where it is told to.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) tree_all_reduce(const __grid_constant__ AllReduce a, const __grid_constant__ TreeStart begin) {
    follow_group(a.group);
    const DeviceGroup& g = a.group;
    const uint32_t step = steps(g);
    if (!meet(g, step + 1, blockIdx.x == 0)) return;
    const uint64_t pairs = a.count / 2, first = blockIdx.x * REDUCE_THREADS + threadIdx.x, stride = gridDim.x * static_cast<uint64_t>(REDUCE_THREADS);
    if (a.shares) {
        const uint64_t share = (pairs + g.count - 1) / g.count, from = g.rank * share, to = from + share < pairs ? from + share : pairs;
        for (uint64_t i = from + first; i < to; i += stride) {
            const longlong2 sum = sum_pair(a, i);
            for (uint32_t k = 0; k < g.count; k++) store_pair(a.sums[k] + 16 * i, sum);
        }
        __threadfence_system();
    } else {
        longlong2* sums = reinterpret_cast<longlong2*>(a.sums[g.rank]);
        for (uint64_t i = first; i < pairs; i += stride) sums[i] = sum_pair(a, i);
    }
    if (!last_block(signals_of(g, g.rank) + ARRIVED, gridDim.x)) return;
    const uint32_t taken = step + 1 + a.shares;
    if (threadIdx.x == 0) signals_of(g, g.rank)[STEPS] = taken;
    if (a.shares && !meet(g, taken, true)) return;
    if (begin.total) begin_tree(begin);
}

// Makes the quantizer of a tree from what each GPU has found of its rows.
struct QuantizerReduce {  // shared with the host
    DeviceGroup group;
    uint64_t magnitudes[16];  // of each GPU, where its `ShardMagnitudes` are
    uint64_t rows;            // of all GPUs
    GradientQuantizer* out;
    // Where a root was summed by a guess: by which quantizer, whether it was wrong, and the histogram that then is to be empty again.
    const GradientQuantizer* last;  // or none
    uint32_t* wrong;
    uint4* cleared;
    uint64_t clears;
    uint32_t unit, unused;
};

// By one block. Where only the order of the sums decides whether statistics are wide, they are said to be, so that the host looks closer.
extern "C" __global__ void __launch_bounds__(256) tree_complete_quantizer(const __grid_constant__ QuantizerReduce a) {
    follow_group(a.group);
    if (!meet_once(a.group)) return;
    __shared__ bool wrong;
    if (threadIdx.x == 0) {
        double g = 0.0, h = 0.0;
        uint32_t top_gradient = 0, top_hessian = 0;
        for (uint32_t k = 0; k < a.group.count; k++) {
            const volatile ShardMagnitudes& own = *reinterpret_cast<const volatile ShardMagnitudes*>(a.magnitudes[k]);
            g += own.gradients;
            h += own.hessians;
            const uint32_t gradient = own.largest_gradient, hessian = own.largest_hessian;
            top_gradient = gradient > top_gradient ? gradient : top_gradient;
            top_hessian = hessian > top_hessian ? hessian : top_hessian;
        }
        const Widths widths(a.rows, top_gradient, top_hessian);
        set_quantizer(*a.out, a.rows, top_gradient, top_hessian, widths.are_close(g, h) || widths.are_wide(g, h, a.unit), a.unit);
        wrong = a.last && (a.out->gradient != a.last->gradient || a.out->hessian != a.last->hessian || a.out->wide || a.last->wide);
        if (a.last) *a.wrong = wrong;
    }
    __syncthreads();
    if (!wrong) return;
    for (uint64_t i = threadIdx.x; i < a.clears; i += 256) a.cleared[i] = make_uint4(0, 0, 0, 0);
}

// The sums of the leaves of a tree that has grown whole.
struct LeafReduce {  // shared with the host
    DeviceGroup group;
    uint64_t sums[16];  // of each GPU, where those of its rows are
    int64_t* out;
    uint32_t leaves;
    uint32_t numbers;  // of `out`: what stands behind the sums is to be zero
};

// By one block; `v`: the leaves' values, where they are to have any.
extern "C" __global__ void __launch_bounds__(512)
    tree_complete_leaves(const __grid_constant__ LeafReduce a, const GradientQuantizer* quantizer, const __grid_constant__ LeafValues v) {
    follow_group(a.group);
    if (!meet_once(a.group)) return;
    for (uint32_t i = threadIdx.x; i < a.numbers; i += 512) {
        int64_t sum = 0;
        for (uint32_t k = 0; k < a.group.count && i < 3 * a.leaves; k++) sum += load_number(a.sums[k] + 8ull * i);
        a.out[i] = sum;
    }
    __syncthreads();
    if (v.values) value_leaves(v, *quantizer, a.out, a.leaves);
}

// The sums of a shard's batches, in the order in which the CPU adds them. By one block.
extern "C" __global__ void __launch_bounds__(256) tree_ordered_sums(const __grid_constant__ LossRows r, double2* sums) {
    ordered_sums(r, sums);
}

}  // namespace taiga
