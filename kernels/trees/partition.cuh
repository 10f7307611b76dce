// Sends the rows of nodes to their children, and sums the smaller children's histograms on the way.

#pragma once

#include "sparse_features.cuh"

namespace taiga {

// Warps that ask for places together: a node's rows are counted in one place, which takes a split test in
// 1.4 ns.
constexpr uint32_t GROUP = 4;

struct Group {
    uint32_t number, warp, warps;

    __device__ __forceinline__ Group() {
        number = threadIdx.x / (32 * GROUP);
        warp = threadIdx.x / 32 % GROUP;
        const uint32_t left = blockDim.x / 32 - number * GROUP;
        warps = left < GROUP ? left : GROUP;
    }

    // Until all of its warps have come here.
    __device__ __forceinline__ void meet() const {
        __syncwarp();
        __barrier_sync_count(number + 1, warps * 32);
    }
};

// Where rows go: those to the left from the start of their node's place in the other list on, the
// others from its end, in whatever order.
struct Places {
    uint32_t left, right;
    unsigned long long gone;

    struct Shared {
        uint32_t counts[1024 / 32];
        unsigned long long gone[1024 / 32 / GROUP];
    };

    // Asks for the places of a warp's rows, `lefts` and `rights` of them, which is to be done by all warps of a
    // group. The answer comes with `take`.
    __device__ __forceinline__ void ask(Shared& shared, const Group& group, NodeRows* node, uint32_t lefts, uint32_t rights) {
        uint32_t* counts = shared.counts + group.number * GROUP;
        if ((threadIdx.x & 31) == 0) counts[group.warp] = lefts | rights << 16;
        group.meet();
        uint32_t before = 0, total = 0;
        for (uint32_t w = 0; w < group.warps; w++) {
            before += w < group.warp ? counts[w] : 0;
            total += counts[w];
        }
        left = before & 0xffff;
        right = before >> 16;
        if (group.warp == 0 && (threadIdx.x & 31) == 0) {
            gone = atomicAdd(&node->gone, static_cast<unsigned long long>(total & 0xffff) | static_cast<unsigned long long>(total >> 16) << 32);
        }
    }

    __device__ __forceinline__ void take(Shared& shared, const Group& group, uint32_t start, uint32_t last) {
        if (group.warp == 0 && (threadIdx.x & 31) == 0) shared.gone[group.number] = gone;
        group.meet();
        const unsigned long long before = shared.gone[group.number];
        left = start + static_cast<uint32_t>(before) + left;
        right = last - static_cast<uint32_t>(before >> 32) - right;
    }

    // Of the lanes' rows in a turn, those in `goes` to the right.
    __device__ __forceinline__ uint32_t next(unsigned goes) {
        uint32_t lane = threadIdx.x & 31, before = __popc(goes & ((1u << lane) - 1));
        uint32_t place = goes >> lane & 1 ? right - before : left + lane - before;
        right -= __popc(goes);
        left += 32 - __popc(goes);
        return place;
    }
};

// A share's part of a node.
struct Part {
    NodeRows* node;
    uint32_t start, last, from, to, in_list;
    const uint2* list;
    uint2* out;

    __device__ __forceinline__ Part(const RowLists& l, NodeRows* nodes, const PartitionJob& job, uint32_t first, uint32_t rows) {
        node = nodes + job.node;
        start = node->start;
        last = start + node->len - 1;
        in_list = node->list;
        from = start + first;
        to = from + rows;
        list = l.lists[in_list & 1];
        out = l.lists[in_list == 0 ? 1 : 0];
    }

    // Rows from `base` on, `most` at most.
    __device__ __forceinline__ uint32_t rows_from(uint32_t base, uint32_t most) const {
        return base >= to ? 0 : to - base < most ? to - base : most;
    }

    __device__ __forceinline__ uint2 entry(const RowLists& l, uint32_t i) const {
        return i >= to ? make_uint2(0, 0) : in_list == IN_ORDER ? make_uint2(i, l.packed_gradients[i]) : list[i];
    }
};

// What sends rows to the right.
struct Test {
    uint32_t last;
    bool zero_right;
    const uint32_t* set;  // or none

    __device__ __forceinline__ explicit Test(const PartitionJob& job)
        : last(job.last), zero_right(job.zero_right), set(job.is_set ? job.set : nullptr) {}

    __device__ __forceinline__ bool right(uint32_t code) const {
        if (set) return set[code >> 5] >> (code & 31) & 1;
        return code > last || (zero_right && code == 0);
    }
};

// Sends the rows of nodes to their children; `ANY`: by codes stored either way, else by those of columns.
template <bool ANY>
__device__ __forceinline__ void divide_rows(const RowLists& l, const SparseRows& sparse, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts, uint32_t count,
                                            const LaunchRows* plan) {
    constexpr int TURNS = 3;
    __shared__ Places::Shared asked;
    const Group group;
    Share share(starts, count, plan);
    const uint32_t lane = threadIdx.x & 31;
    uint32_t first = 0;
    while (uint32_t rows = share.next(starts, count, first)) {
        const PartitionJob& job = jobs[share.which];
        const Part part(l, nodes, job, first, rows);
        const Test test(job);
        const uint64_t codes = job.codes;
        for (uint32_t all = part.from + group.number * (32 * GROUP * TURNS); all < part.to; all += blockDim.x * TURNS) {
            const uint32_t base = all + group.warp * (32 * TURNS);
            uint2 entry[TURNS];
            unsigned right[TURNS];
#pragma unroll
            for (int t = 0; t < TURNS; t++) entry[t] = part.entry(l, base + t * 32 + lane);
            uint32_t rights = 0, here = part.rows_from(base, 32 * TURNS), code[TURNS];
            if (ANY && (codes & SPARSE)) {
                uint32_t rows[TURNS];
#pragma unroll
                for (int t = 0; t < TURNS; t++) rows[t] = entry[t].x;
                sparse_codes(sparse, codes, rows, code);
            } else {
#pragma unroll
                for (int t = 0; t < TURNS; t++) code[t] = reinterpret_cast<const uint8_t*>(codes)[static_cast<uint64_t>(entry[t].x) * LANES];
            }
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                bool goes = t * 32 + lane < here && test.right(code[t]);
                right[t] = __ballot_sync(~0u, goes);
                rights += __popc(right[t]);
            }
            Places places;
            places.ask(asked, group, part.node, here - rights, rights);
            places.take(asked, group, part.start, part.last);
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                uint32_t place = places.next(right[t]);
                if (t * 32 + lane < here) part.out[place] = entry[t];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(768, resident(768, 2))
    tree_partition(const __grid_constant__ RowLists l, const __grid_constant__ SparseRows sparse, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts,
                uint32_t count, const LaunchRows* plan) {
    divide_rows<false>(l, sparse, nodes, jobs, starts, count, plan);
}

extern "C" __global__ void __launch_bounds__(768, resident(768, 1))
    tree_partition_any(const __grid_constant__ RowLists l, const __grid_constant__ SparseRows sparse, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts,
                    uint32_t count, const LaunchRows* plan) {
    divide_rows<true>(l, sparse, nodes, jobs, starts, count, plan);
}

// The same, and the rows of the smaller children are added to their histograms on the way, for
// features of one block: a lane reads a row's codes whole, as one sector, and those that count are
// queued in shared memory, so that a warp always has a full turn to add. `moves`: whether anybody
// will read the children's rows.
extern "C" __global__ void __launch_bounds__(SUM_THREADS, 1)
    tree_partition_sum(const __grid_constant__ Histograms h, const __grid_constant__ RowLists l, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts,
                    uint32_t count, const LaunchRows* plan, uint32_t moves) {
    __shared__ Places::Shared asked;
    const Group group;
    Share share(starts, count, plan);
    if (share.at >= share.to) return;
    uint32_t* shared = reinterpret_cast<uint32_t*>(memory);
    // The queues too: what is added with a packed gradient of 0 must have codes that are some feature's.
    for (uint32_t i = threadIdx.x; i < h.bins * 16 + blockDim.x / 32 * (sizeof(Queue) / 16); i += blockDim.x) memory[i] = make_uint4(0, 0, 0, 0);
    Queue& queue = reinterpret_cast<Queue*>(shared + 2 * h.bins * LANES)[threadIdx.x / 32];
    const uint32_t lane = threadIdx.x & 31;
    const uint8_t* own_codes = queued_codes(queue, lane);
    const uint4* rows_of_codes = reinterpret_cast<const uint4*>(h.codes);
    uint32_t first = 0;
    while (uint32_t rows = share.next(starts, count, first)) {
        // The bins are empty.
        __syncthreads();
        const PartitionJob& job = jobs[share.which];
        const Part part(l, nodes, job, first, rows);
        const Test test(job);
        const bool right_is_smaller = job.right_is_smaller;
        const uint32_t feature = static_cast<uint32_t>(job.codes - reinterpret_cast<uint64_t>(h.codes));
        int queued = 0;
        const uint32_t begin = part.from + group.number * (32 * GROUP * TURNS), own = group.warp * (32 * TURNS);
        uint2 next[TURNS];
#pragma unroll
        for (int t = 0; t < TURNS; t++) next[t] = part.entry(l, begin + own + t * 32 + lane);
        for (uint32_t all = begin; all < part.to; all += blockDim.x * TURNS) {
            const uint32_t base = all + own;
            uint2 entry[TURNS];
            unsigned right[TURNS];
            Codes codes[TURNS];
#pragma unroll
            for (int t = 0; t < TURNS; t++) entry[t] = next[t];
#pragma unroll
            for (int t = 0; t < TURNS; t++) codes[t].read(rows_of_codes, entry[t].x);
            uint32_t rights = 0, here = part.rows_from(base, 32 * TURNS);
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                uint32_t code = codes[t].of(feature);
                bool goes = t * 32 + lane < here && test.right(code);
                right[t] = __ballot_sync(~0u, goes);
                rights += __popc(right[t]);
                unsigned summed = right_is_smaller ? right[t] : ~right[t];
                if (t * 32 + 32 > here) summed &= here > t * 32 ? (1u << (here - t * 32)) - 1 : 0;
                codes[t].queue_in(queue, queued, summed);
                if (summed >> lane & 1) queue.put(queued + __popc(summed & ((1u << lane) - 1)), entry[t].y);
                queued += __popc(summed);
            }
            // While the places are on their way, and the next rows, the queue is added.
            Places places;
            if (moves) places.ask(asked, group, part.node, here - rights, rights);
#pragma unroll
            for (int t = 0; t < TURNS; t++) next[t] = part.entry(l, base + blockDim.x * TURNS + t * 32 + lane);
            // Entries behind the last one add nothing.
            if (lane < 4) queue.put(queued + lane, 0);
            __syncwarp();
            while (queued >= 32) {
                queued = (queued - 29) & ~3;
                add_queued<BOTH>(shared, lane, own_codes, queue, queued);
            }
            __syncwarp();
            if (!moves) continue;
            places.take(asked, group, part.start, part.last);
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                uint32_t place = places.next(right[t]);
                if (t * 32 + lane < here) part.out[place] = entry[t];
            }
        }
        if (static_cast<int>(lane) >= queued) queue.put(lane, 0);
        __syncwarp();
        add_queued<BOTH>(shared, lane, own_codes, queue, 0);
        __syncthreads();
        flush_bins<BOTH>(shared, h, job.slot, 0);
    }
}

}  // namespace taiga
