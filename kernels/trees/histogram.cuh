// Sums the histograms of nodes, packed gradients by code: a root's, and those of nodes whose rows are listed.
//
// A warp takes a row at a time, a lane a feature, and the block's bins lie at `code * 32 + lane`: no
// two lanes ever meet in a bank of shared memory or in a bin, whatever the data. Blocks add their
// 32-bit sums over at most 65,536 rows to the 64-bit totals; integers, so in any order.

#pragma once

#include "layouts.cuh"

namespace taiga {

// What a plane's packed gradients are (cpu/trees/gradient_quantizer.rs: Plane).
enum : uint32_t { BOTH, LIMBS, ONES };

// Where a kernel's histograms go, of one group of features.
struct Histograms {  // shared with the host
    const uint8_t* codes;
    uint64_t rows;  // of the table
    int64_t* slots;
    uint64_t slot_size;  // numbers in a slot
    uint32_t features, bins, components;
    uint32_t component;   // of a plane of limbs or ones
    // The bin behind those of all columns, where bins of sparse features are; and whether such a bin is one number, with the
    // gradient in its upper half.
    uint64_t first_sparse_bin;
    uint32_t packed, unused;
};

// Numbers of a bin in shared memory, beside each other: those of the upper and of the lower component.
template <uint32_t PLANE>
constexpr uint32_t BIN = PLANE == ONES ? LANES : 2 * LANES;

// Adds a row's components to the bin of its code.
template <uint32_t PLANE>
__device__ __forceinline__ void add_row(uint32_t* shared, uint32_t lane, uint32_t code, uint32_t upper, uint32_t lower) {
    uint32_t* bin = shared + code * BIN<PLANE> + lane;
    if (PLANE == ONES) {
        atomicAdd(bin, 1u);
    } else {
        atomicAdd(bin, upper);
        atomicAdd(bin + LANES, lower);
    }
}

// The components of a packed gradient.
__device__ __forceinline__ uint32_t upper_of(uint32_t packed_gradient) {
    return static_cast<uint32_t>(static_cast<int32_t>(packed_gradient) >> 16);
}

__device__ __forceinline__ uint32_t lower_of(uint32_t packed_gradient) {
    return packed_gradient & 0xffffu;
}

template <uint32_t PLANE>
__device__ __forceinline__ void clear_bins(uint32_t* shared, uint32_t bins) {
    uint4* at = reinterpret_cast<uint4*>(shared);
    for (uint32_t i = threadIdx.x; i < bins * BIN<PLANE> / 4; i += blockDim.x) at[i] = make_uint4(0, 0, 0, 0);
}

// Adds a block's sums to a slot's block of features, and sets them to zero. Neighbouring threads take
// the components of a bin, so that a warp's additions fill whole sectors.
template <uint32_t PLANE>
__device__ __forceinline__ void flush_bins(uint32_t* shared, const Histograms& h, uint32_t slot, uint32_t block) {
    uint32_t lanes = h.features - block * LANES, n = h.bins * LANES;
    int64_t* out = h.slots + slot * h.slot_size + static_cast<uint64_t>(block) * n * h.components;
    for (uint32_t j = threadIdx.x; j < (PLANE == BOTH ? 2 * n : n); j += blockDim.x) {
        if (PLANE == BOTH) {
            uint32_t i = j >> 1, lower = j & 1, at = i / LANES * BIN<PLANE> + lower * LANES + i % LANES, x = shared[at];
            shared[at] = 0;
            if (x && (i & 31) < lanes) {
                add(out + static_cast<uint64_t>(i) * h.components + lower, lower ? static_cast<int64_t>(x) : static_cast<int32_t>(x));
            }
        } else {
            uint32_t at = j / LANES * BIN<PLANE> + j % LANES, upper = shared[at], lower = PLANE == LIMBS ? shared[at + LANES] : 0;
            shared[at] = 0;
            if (PLANE == LIMBS) shared[at + LANES] = 0;
            if (!(upper | lower) || (j & 31) >= lanes) continue;
            int64_t high = static_cast<int32_t>(upper);
            add(out + static_cast<uint64_t>(j) * h.components + h.component,
                PLANE == LIMBS ? high * 65536 + lower : static_cast<int64_t>(upper));
        }
    }
}

// What is summed: the rows of a node, into the slot of its histogram.
struct HistogramJob {  // shared with the host
    uint32_t node, slot;
};

// The node whose rows are read; none where none are.
__device__ __forceinline__ uint32_t node_of(const PartitionJob& job) {
    // Past the first-level cache: other blocks of this launch may have written it.
    return __ldcg(&job.moves) ? __ldcg(&job.node) : ~0u;
}

__device__ __forceinline__ uint32_t node_of(const HistogramJob& summed) {
    return summed.node;
}

// The rows of all nodes one after the other, by one block: `starts[k]` is where those of node k begin.
// Nodes get their rows' places from their parents. Those that are not read take none.
template <typename Of>
__device__ __forceinline__ void make_plan(NodeRows* nodes, uint32_t count, uint32_t* starts, LaunchRows* plan, const Of* of) {
    __shared__ uint32_t sums[32], carry;
    if (threadIdx.x == 0) carry = 0;
    uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (uint32_t base = 0; base < count; base += blockDim.x) {
        uint32_t k = base + threadIdx.x, own = 0;
        uint32_t id = k < count ? node_of(of[k]) : ~0u;
        if (id != ~0u) {
            NodeRows n = nodes[id];
            if (n.parent >= 0) {
                const NodeRows p = nodes[n.parent];
                uint32_t left = static_cast<uint32_t>(p.gone);
                n.start = n.right ? p.start + left : p.start;
                n.len = n.right ? p.len - left : left;
                n.list = p.list == 0 ? 1 : 0;
            }
            n.gone = 0;
            nodes[id] = n;
            own = n.len;
        }
        uint32_t upto = own;
        for (int o = 1; o < 32; o <<= 1) {
            uint32_t before = __shfl_up_sync(~0u, upto, o);
            if (lane >= o) upto += before;
        }
        if (lane == 31) sums[warp] = upto;
        __syncthreads();
        if (warp == 0) {
            uint32_t all = lane < blockDim.x / 32 ? sums[lane] : 0, sum = all;
            for (int o = 1; o < 32; o <<= 1) {
                uint32_t before = __shfl_up_sync(~0u, sum, o);
                if (lane >= o) sum += before;
            }
            sums[lane] = sum - all;
        }
        __syncthreads();
        uint32_t start = carry + sums[warp] + upto - own;
        if (k < count) starts[k] = start;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = start + own;
        __syncthreads();
    }
    if (threadIdx.x == 0) plan->rows = carry;
}

// Rows that are worth a block's histogram.
constexpr uint32_t LEAST_SHARE = 256;

// A block's share of the planned rows: as many for each block, but not too few.
struct Share {
    uint32_t at, to, which;

    __device__ __forceinline__ Share(const uint32_t* starts, uint32_t count, const LaunchRows* plan) {
        __shared__ uint32_t first;
        uint32_t rows = plan->rows, per = ((rows + gridDim.x - 1) / gridDim.x + 127) / 128 * 128;
        per = per < LEAST_SHARE ? LEAST_SHARE : per;
        at = blockIdx.x * per < rows ? blockIdx.x * per : rows;
        to = rows - at < per ? rows : at + per;
        if (at < to && threadIdx.x < 32) {
            uint32_t k = locate(starts, count, at);
            if (threadIdx.x == 0) first = k;
        }
        __syncthreads();
        which = at < to ? first : 0;
    }

    // Rows of one node, no more than 32-bit sums take: from `from` (counted inside the node) on. None left: 0.
    __device__ __forceinline__ uint32_t next(const uint32_t* starts, uint32_t count, uint32_t& from) {
        if (at >= to) return 0;
        while (which + 1 < count && starts[which + 1] <= at) which++;
        uint32_t end = which + 1 < count && starts[which + 1] < to ? starts[which + 1] : to;
        uint32_t n = end - at < MOST_ROWS ? end - at : MOST_ROWS;
        from = at - starts[which];
        at += n;
        return n;
    }
};

extern "C" __global__ void __launch_bounds__(1024)
    tree_plan_jobs(NodeRows* nodes, const PartitionJob* jobs, uint32_t count, uint32_t* starts, LaunchRows* plan) {
    make_plan(nodes, count, starts, plan, jobs);
}

extern "C" __global__ void __launch_bounds__(1024)
    tree_plan_sums(NodeRows* nodes, const HistogramJob* summed, uint32_t count, uint32_t* starts, LaunchRows* plan) {
    make_plan(nodes, count, starts, plan, summed);
}

// The most threads of the blocks that queue rows.
constexpr uint32_t SUM_THREADS = 640;

// The rows of nodes.
struct RowLists {  // shared with the host
    uint2* lists[2];
    const uint32_t* packed_gradients;  // by row
};

// Rows that a warp reads at a time, in turns of 32.
constexpr int TURNS = 3;

// Rows of a warp that wait to be added, with their codes: the first half of each row's, and the second
// ones, which lie in other banks; and the components of their packed gradients.
template <int TURNS>
struct QueueOf {
    static constexpr int QUEUED = (TURNS + 1) * 32;
    uint4 low[QUEUED], gap[4], high[QUEUED];
    uint32_t upper[QUEUED + 16], lower[QUEUED + 16];

    __device__ __forceinline__ void put(uint32_t at, uint32_t packed_gradient) {
        upper[at] = upper_of(packed_gradient);
        lower[at] = lower_of(packed_gradient);
    }
};

using Queue = QueueOf<TURNS>;

// The codes of a warp's 32 rows: lanes 2i and 2i + 1 have the halves of row i and of row i + 16, so
// that a load takes whole sectors.
struct Codes {
    uint4 half[2];

    __device__ __forceinline__ void read(const uint4* rows_of_codes, uint32_t row) {
        const uint32_t lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint64_t r = __shfl_sync(~0u, row, lane / 2 + 16 * i);
            half[i] = rows_of_codes[r * 2 + lane % 2];
        }
    }

    // The lane's own row's code of feature `f`.
    __device__ __forceinline__ uint32_t of(uint32_t f) const {
        const uint32_t lane = threadIdx.x & 31;
        uint32_t found[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t pair = f & 8 ? (f & 4 ? half[i].w : half[i].z) : (f & 4 ? half[i].y : half[i].x);
            found[i] = __shfl_sync(~0u, pair, (lane % 16) * 2 + f / 16);
        }
        return (lane < 16 ? found[0] : found[1]) >> (f % 4 * 8) & 0xff;
    }

    // Queues those of the rows in `taken` from entry `at` on.
    template <typename Queue>
    __device__ __forceinline__ void queue_in(Queue& queue, uint32_t at, unsigned taken) const {
        const uint32_t lane = threadIdx.x & 31;
        uint4* out = lane % 2 ? queue.high : queue.low;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t row = lane / 2 + 16 * i;
            if (taken >> row & 1) out[at + __popc(taken & ((1u << row) - 1))] = half[i];
        }
    }
};

// Adds 32 entries of a warp's queue, from a multiple of four on, to the bins. `codes`: the lane's byte
// of the first one.
template <uint32_t PLANE, typename Queue>
__device__ __forceinline__ void add_queued(uint32_t* shared, uint32_t lane, const uint8_t* codes, const Queue& queue, uint32_t from) {
    codes += from * 16;
#pragma unroll
    for (int k = 0; k < 32; k += 4) {
        uint4 u = make_uint4(1, 1, 1, 1), l = u;
        if (PLANE != ONES) {
            u = *reinterpret_cast<const uint4*>(queue.upper + from + k);
            l = *reinterpret_cast<const uint4*>(queue.lower + from + k);
        }
        uint32_t c[4];
#pragma unroll
        for (int i = 0; i < 4; i++) c[i] = codes[(k + i) * 16];
        add_row<PLANE>(shared, lane, c[0], u.x, l.x);
        add_row<PLANE>(shared, lane, c[1], u.y, l.y);
        add_row<PLANE>(shared, lane, c[2], u.z, l.z);
        add_row<PLANE>(shared, lane, c[3], u.w, l.w);
    }
}

// The lane's byte of a queue's first entry.
template <typename Queue>
__device__ __forceinline__ const uint8_t* queued_codes(const Queue& queue, uint32_t lane) {
    return reinterpret_cast<const uint8_t*>(lane < 16 ? queue.low : queue.high) + lane % 16;
}

// Sums plane `PLANE` of whole nodes; blockIdx.y: the block of features,
// the first `skip` left out. `packed_gradients`: by row, or none
// where those in the lists serve.
template <uint32_t PLANE>
__device__ __forceinline__ void sum_nodes(const Histograms& h, const RowLists& l, const uint32_t* packed_gradients, const NodeRows* nodes, const HistogramJob* summed,
                                          const uint32_t* starts, uint32_t count, const LaunchRows* plan, uint32_t skip) {
    uint32_t* shared = reinterpret_cast<uint32_t*>(memory);
    Share share(starts, count, plan);
    if (share.at >= share.to) return;
    clear_bins<PLANE>(shared, h.bins);
    Queue& queue = reinterpret_cast<Queue*>(shared + 2 * h.bins * LANES)[threadIdx.x / 32];
    const uint32_t block = blockIdx.y + skip, lane = threadIdx.x & 31;
    const uint8_t* own_codes = queued_codes(queue, lane);
    const uint4* rows_of_codes = reinterpret_cast<const uint4*>(h.codes + block * h.rows * LANES);
    uint32_t from = 0;
    while (uint32_t rows = share.next(starts, count, from)) {
        const HistogramJob s = summed[share.which];
        const NodeRows n = nodes[s.node];
        const uint2* list = l.lists[n.list & 1];
        from += n.start;
        const uint32_t to = from + rows;
        __syncthreads();
        for (uint32_t base = from + (threadIdx.x / 32) * (32 * TURNS); base < to; base += blockDim.x * TURNS) {
            const uint32_t here = to - base < 32 * TURNS ? to - base : 32 * TURNS;
            uint32_t row[TURNS], packed_gradient[TURNS];
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                uint32_t i = base + t * 32 + lane;
                row[t] = packed_gradient[t] = 0;
                if (i < to) {
                    uint2 entry = n.list == IN_ORDER ? make_uint2(i, 0) : list[i];
                    row[t] = entry.x;
                    packed_gradient[t] = entry.y;
                }
            }
            __syncwarp();
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                Codes codes;
                codes.read(rows_of_codes, row[t]);
                bool inside = t * 32 + lane < here;
                if (PLANE != ONES && inside && (packed_gradients || n.list == IN_ORDER)) packed_gradient[t] = (packed_gradients ? packed_gradients : l.packed_gradients)[row[t]];
                codes.queue_in(queue, t * 32, ~0u);
                queue.put(t * 32 + lane, packed_gradient[t]);
            }
            __syncwarp();
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                // Packed gradients of 0 add nothing, but ones are not asked for.
                if (PLANE != ONES || here >= t * 32 + 32) {
                    if (t * 32 < here) add_queued<PLANE>(shared, lane, own_codes, queue, t * 32);
                } else {
                    for (uint32_t k = t * 32; k < here; k++) add_row<PLANE>(shared, lane, own_codes[k * 16], 1, 1);
                }
            }
        }
        __syncthreads();
        flush_bins<PLANE>(shared, h, s.slot, block);
    }
}

#define TAIGA_SUM(name, plane)                                                                                          \
    extern "C" __global__ void __launch_bounds__(SUM_THREADS, 1)                                                        \
        name(const __grid_constant__ Histograms h, const __grid_constant__ RowLists l, const uint32_t* packed_gradients,              \
             const NodeRows* nodes, const HistogramJob* summed, const uint32_t* starts, uint32_t count, const LaunchRows* plan,         \
             uint32_t skip) {                                                                                           \
        sum_nodes<plane>(h, l, packed_gradients, nodes, summed, starts, count, plan, skip);                                        \
    }

// The same for features of more codes than shared memory holds the bins of: rows are added to the totals
// themselves, a lane a feature.
template <uint32_t PLANE>
__device__ __forceinline__ void sum_nodes_far(const Histograms& h, const RowLists& l, const uint32_t* packed_gradients, const NodeRows* nodes,
                                              const HistogramJob* summed, const uint32_t* starts, uint32_t count, const LaunchRows* plan, uint32_t skip) {
    Share share(starts, count, plan);
    const uint32_t block = blockIdx.y + skip, lane = threadIdx.x & 31;
    const bool is_feature = block * LANES + lane < h.features;
    const uint8_t* codes = h.codes + block * h.rows * LANES + lane;
    const uint64_t first_bin = (static_cast<uint64_t>(block) * h.bins * LANES + lane) * h.components;
    uint32_t from = 0;
    while (uint32_t rows = share.next(starts, count, from)) {
        const HistogramJob s = summed[share.which];
        const NodeRows n = nodes[s.node];
        const uint2* list = l.lists[n.list & 1];
        int64_t* bins = h.slots + s.slot * h.slot_size + first_bin;
        from += n.start;
        const uint32_t to = from + rows;
        for (uint32_t base = from + (threadIdx.x & ~31u); base < to; base += blockDim.x) {
            const uint32_t i = base + lane, here = to - base < 32 ? to - base : 32;
            uint2 entry = make_uint2(0, 0);
            if (i < to) {
                entry = n.list == IN_ORDER ? make_uint2(i, 0) : list[i];
                if (PLANE != ONES && (packed_gradients || n.list == IN_ORDER)) entry.y = (packed_gradients ? packed_gradients : l.packed_gradients)[entry.x];
            }
            for (uint32_t k = 0; k < here; k++) {
                const uint64_t row = __shfl_sync(~0u, entry.x, k);
                const uint32_t packed_gradient = __shfl_sync(~0u, entry.y, k);
                if (!is_feature) continue;
                int64_t* bin = bins + static_cast<uint64_t>(codes[row * LANES]) * LANES * h.components;
                if (PLANE == BOTH) {
                    add(bin, static_cast<int32_t>(upper_of(packed_gradient)));
                    add(bin + 1, lower_of(packed_gradient));
                } else {
                    add(bin + h.component, PLANE == LIMBS ? static_cast<int64_t>(static_cast<int32_t>(packed_gradient)) : 1);
                }
            }
        }
    }
}

#define TAIGA_SUM_FAR(name, plane)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                                   \
        name(const __grid_constant__ Histograms h, const __grid_constant__ RowLists l, const uint32_t* packed_gradients,              \
             const NodeRows* nodes, const HistogramJob* summed, const uint32_t* starts, uint32_t count, const LaunchRows* plan,         \
             uint32_t skip) {                                                                                           \
        sum_nodes_far<plane>(h, l, packed_gradients, nodes, summed, starts, count, plan, skip);                                    \
    }

TAIGA_SUM_FAR(tree_sum_far_both, BOTH)
TAIGA_SUM_FAR(tree_sum_far_limbs, LIMBS)
TAIGA_SUM_FAR(tree_sum_far_ones, ONES)

TAIGA_SUM(tree_sum_both, BOTH)
TAIGA_SUM(tree_sum_limbs, LIMBS)
TAIGA_SUM(tree_sum_ones, ONES)

}  // namespace taiga
