// Moves the rows of nodes to their children, codes and all, and sums the smaller children's histograms on
// the way: for trees that grow without asking the host from all rows, of one block of at most 28 features. A row is
// then a record of one sector, and everything is read in order, where lists of row numbers would gather rows
// from all over the table:
//
//   record   28 codes | packed gradient
//
// The root's rows are not records yet: their codes are those of the table, their packed gradients lie apart.

#pragma once

#include "partition.cuh"

namespace taiga {

constexpr uint32_t RECORD_FEATURES = 28;

struct RowRecords {  // shared with the host
    const uint4* codes;  // of the table
    const uint32_t* packed_gradients;
    uint4* lists[2];
};

// Lanes 2i and 2i + 1 hold the halves of a row, and a warp 16 rows at a time; so masks have a row's bit at
// place 2i.
constexpr unsigned EVEN = 0x55555555u;

// The bits of the first `n` rows of 16.
__device__ __forceinline__ unsigned rows_mask(int n) {
    return n >= 16 ? EVEN : n > 0 ? EVEN & ((1u << (2 * n)) - 1) : 0;
}

// Half-rows on their way. A packed gradient that lies apart has a register of its own: to write it into the half-row it
// belongs to would mean to wait for that first.
template <bool ROOT, int HALVES>
struct Halves {
    uint4 rows[HALVES];
    uint32_t packed_gradients[ROOT ? HALVES : 1];

    __device__ __forceinline__ void read(const RowRecords& r, const uint4* source, uint32_t base, uint32_t to) {
        const uint32_t lane = threadIdx.x & 31;
#pragma unroll
        for (int k = 0; k < HALVES; k++) {
            const uint32_t i = base + k * 16 + lane / 2;
            rows[k] = make_uint4(0, 0, 0, 0);
            if (ROOT) packed_gradients[k] = 0;
            if (i < to) {
                // Read once.
                rows[k] = __ldcs(source + 2ull * i + lane % 2);
                if (ROOT) packed_gradients[k] = __ldcs(r.packed_gradients + i);
            }
        }
    }

    __device__ __forceinline__ uint4 take(int k) const {
        uint4 row = rows[k];
        if (ROOT && (threadIdx.x & 1)) row.w = packed_gradients[k];
        return row;
    }
};

// Threads of these blocks, at most, and rows that a warp reads at a time, in turns of 32.
constexpr uint32_t RECORD_THREADS = 768;
constexpr int MOVE_TURNS = 2;

// `moves`: whether anybody will read the children's rows.
template <bool ROOT>
__device__ __forceinline__ void move_sum(const Histograms& h, const RowRecords& r, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts, uint32_t count,
                                         const LaunchRows* plan, uint32_t moves) {
    constexpr int TURNS = MOVE_TURNS, HALVES = 2 * TURNS;
    using Queue = QueueOf<TURNS>;
    __shared__ Places::Shared asked;
    const Group group;
    uint32_t* shared = reinterpret_cast<uint32_t*>(memory);
    // The queues too: what is added with a packed gradient of 0 must have codes that are some feature's.
    for (uint32_t i = threadIdx.x; i < h.bins * 16 + blockDim.x / 32 * (sizeof(Queue) / 16); i += blockDim.x) memory[i] = make_uint4(0, 0, 0, 0);
    follow_on();
    Share share(starts, count, plan);
    if (share.at >= share.to) return;
    Queue& queue = reinterpret_cast<Queue*>(shared + 2 * h.bins * LANES)[threadIdx.x / 32];
    const uint32_t lane = threadIdx.x & 31, half = lane & 1, bit = lane & 30;
    const unsigned before = (1u << bit) - 1;
    const uint8_t* own_codes = queued_codes(queue, lane);
    uint4* own_queue = half ? queue.high : queue.low;
    const bool is_feature = lane < h.features;
    uint32_t first = 0;
    while (uint32_t rows = share.next(starts, count, first)) {
        // The bins are empty.
        __syncthreads();
        const PartitionJob& job = jobs[share.which];
        NodeRows* node = nodes + job.node;
        const uint32_t start = node->start, end = start + node->len - 1, in_list = node->list;
        const uint32_t from = start + first, to = from + rows;
        const uint4* source = ROOT ? r.codes : r.lists[in_list & 1];
        uint4* out = r.lists[in_list == 0 ? 1 : 0];
        const uint32_t feature = static_cast<uint32_t>(job.codes - reinterpret_cast<uint64_t>(r.codes));
        const uint32_t holder = feature / 16, shift = feature % 4 * 8, last = job.last;
        const bool zero_right = job.zero_right;
        // Those that count: the rows to the right, or the others.
        const unsigned others = job.right_is_smaller ? 0 : ~0u;
        int queued = 0;
        const uint32_t begin = from + group.number * (32 * GROUP * TURNS), own = group.warp * (32 * TURNS);
        Halves<ROOT, HALVES> next;
        next.read(r, source, begin + own, to);
        for (uint32_t all = begin; all < to; all += blockDim.x * TURNS) {
            const uint32_t base = all + own;
            uint4 row[HALVES];
            unsigned right[HALVES];
#pragma unroll
            for (int k = 0; k < HALVES; k++) row[k] = next.take(k);
            next.read(r, source, base + blockDim.x * TURNS, to);
            uint32_t rights = 0;
            const int here = base >= to ? 0 : to - base < 32 * TURNS ? to - base : 32 * TURNS;
#pragma unroll
            for (int k = 0; k < HALVES; k++) {
                const unsigned valid = rows_mask(here - 16 * k);
                const uint32_t four = feature & 8 ? (feature & 4 ? row[k].w : row[k].z) : (feature & 4 ? row[k].y : row[k].x);
                const uint32_t code = four >> shift & 0xff;
                right[k] = __ballot_sync(~0u, code > last || (zero_right && code == 0)) >> holder & valid;
                rights += __popc(right[k]);
                const unsigned summed = valid & (right[k] ^ others);
                if (summed >> bit & 1) {
                    const uint32_t at = queued + __popc(summed & before);
                    own_queue[at] = row[k];
                    if (half) queue.put(at, row[k].w);
                }
                queued += __popc(summed);
            }
            // While the places are on their way, and the next rows, the queue is added.
            Places places;
            if (moves) places.ask(asked, group, node, here - rights, rights);
            // Entries behind the last one add nothing.
            if (lane < 4) queue.put(queued + lane, 0);
            __syncwarp();
            while (queued >= 32) {
                queued = (queued - 29) & ~3;
                if (is_feature) add_queued<BOTH>(shared, lane, own_codes, queue, queued);
            }
            __syncwarp();
            if (!moves) continue;
            places.take(asked, group, start, end);
#pragma unroll
            for (int k = 0; k < HALVES; k++) {
                const uint32_t rank = __popc(right[k] & before);
                const uint32_t place = right[k] >> bit & 1 ? places.right - rank : places.left + bit / 2 - rank;
                if (16 * k + static_cast<int>(bit / 2) < here) out[2ull * place + half] = row[k];
                places.right -= __popc(right[k]);
                places.left += 16 - __popc(right[k]);
            }
        }
        if (static_cast<int>(lane) >= queued) queue.put(lane, 0);
        __syncwarp();
        if (is_feature) add_queued<BOTH>(shared, lane, own_codes, queue, 0);
        __syncthreads();
        flush_bins<BOTH>(shared, h, job.slot, 0);
    }
}

extern "C" __global__ void __launch_bounds__(RECORD_THREADS, 1)
    tree_partition_records(const __grid_constant__ Histograms h, const __grid_constant__ RowRecords r, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts,
              uint32_t count, const LaunchRows* plan, uint32_t moves) {
    move_sum<false>(h, r, nodes, jobs, starts, count, plan, moves);
}

// The root's one job.
extern "C" __global__ void __launch_bounds__(RECORD_THREADS, 1)
    tree_partition_root_records(const __grid_constant__ Histograms h, const __grid_constant__ RowRecords r, NodeRows* nodes, const PartitionJob* jobs, const uint32_t* starts,
                   uint32_t count, const LaunchRows* plan, uint32_t moves) {
    move_sum<true>(h, r, nodes, jobs, starts, count, plan, moves);
}

}  // namespace taiga
