// Features that have one code in most rows and exclude no others: what is stored are their other codes, as lists of sparse bins by
// row; a sparse bin is a code of a feature. Twin of src/cpu/trees/sparse_features.rs.
//
//   starts  | 0 2 2 5 …          entries  | 7 19 | | 7 8 40 | …     ascending in a row
//
// A histogram has a bin for each of them, behind the bins of all columns; the code that is not stored is searched as what the
// others leave of a node. Where no feature has more than 65,536 entries, narrow statistics of both components share one
// number: the gradient has its upper half, the hessian the lower one.

#pragma once

#include "histogram.cuh"

namespace taiga {

struct SparseRows {  // shared with the host
    const uint32_t* starts;  // [row + 1]
    const uint32_t* bins;
};

// Where a sparse feature's codes are, in place of an address of codes: its first bin, how many it has, and the code that is not
// stored.
//
//   bits 0-31 first    32-39 bins     40-47 usual    60 SPARSE
constexpr uint64_t SPARSE = 1ull << 60;

// The codes of some rows, which are looked for side by side.
template <int N>
__device__ __forceinline__ void sparse_codes(const SparseRows& e, uint64_t where, const uint32_t (&rows)[N], uint32_t (&codes)[N]) {
    const uint32_t first = static_cast<uint32_t>(where), count = static_cast<uint32_t>(where >> 32) & 255, usual = static_cast<uint32_t>(where >> 40) & 255;
    uint32_t low[N], high[N], end[N], most = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint64_t row = rows[i];
        low[i] = e.starts[row];
        high[i] = end[i] = e.starts[row + 1];
        most = end[i] - low[i] > most ? end[i] - low[i] : most;
    }
    for (; most; most /= 2) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (low[i] >= high[i]) continue;
            const uint32_t middle = low[i] + (high[i] - low[i]) / 2;
            if (e.bins[middle] < first) {
                low[i] = middle + 1;
            } else {
                high[i] = middle;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint32_t bin = low[i] < end[i] ? e.bins[low[i]] - first : count;
        codes[i] = bin < count ? bin + (bin >= usual) : usual;
    }
}

// The code of a row, stored either way.
__device__ __forceinline__ uint32_t code_at(const SparseRows& e, uint64_t where, uint32_t row) {
    if (!(where & SPARSE)) return reinterpret_cast<const uint8_t*>(where)[static_cast<uint64_t>(row) * LANES];
    const uint32_t rows[1] = {row};
    uint32_t codes[1];
    sparse_codes(e, where, rows, codes);
    return codes[0];
}

// Rows of a lane whose bins are read at a time.
constexpr uint32_t ROWS_READ = 4;

// How rows are added to the bins of their entries.
struct SparseSumParams {  // shared with the host
    SparseRows entries;
    // Lanes that take a row.
    uint32_t lanes;
    // The bins, where shared memory has room for the sums of all of them, or 0; and the entries of a row, about.
    uint32_t near, mean;
    uint32_t unused;
};

// Adds the rows of whole nodes to the bins of their entries: in global memory, or where a block has entries enough for
// that, in shared memory first. Where a plane has two components that are not packed, two neighbouring lanes add them, so that
// they reach memory as one.
template <uint32_t PLANE, bool PACKED>
__device__ __forceinline__ void sum_sparse(const Histograms& h, const SparseSumParams& a, const RowLists& l, const uint32_t* packed_gradients, const NodeRows* nodes,
                                           const HistogramJob* summed, const uint32_t* starts, uint32_t count, const LaunchRows* plan) {
    constexpr uint32_t PARTS = PLANE == BOTH && !PACKED ? 2 : 1;
    Share share(starts, count, plan);
    if (share.at >= share.to) return;
    const SparseRows& e = a.entries;
    const uint32_t lanes = a.lanes, lane = threadIdx.x & 31, at_once = 32 / lanes, part = lane % PARTS, own = lane % lanes / PARTS;
    const uint32_t step = lanes / PARTS;
    const uint64_t stride = PACKED ? 1 : h.components;
    // For each sparse bin the upper components' sum, then the lower ones'.
    uint32_t* shared = reinterpret_cast<uint32_t*>(memory);
    for (uint32_t i = threadIdx.x; i < 2 * a.near; i += blockDim.x) shared[i] = 0;
    uint32_t from = 0;
    while (uint32_t rows = share.next(starts, count, from)) {
        const HistogramJob s = summed[share.which];
        const NodeRows n = nodes[s.node];
        const uint2* list = l.lists[n.list & 1];
        int64_t* bins = h.slots + s.slot * h.slot_size + h.first_sparse_bin * h.components;
        const bool near = a.near && static_cast<uint64_t>(rows) * a.mean > a.near;
        from += n.start;
        const uint32_t to = from + rows;
        const auto add_at = [&](uint32_t place, uint32_t packed_gradient) {
            const int32_t upper = static_cast<int32_t>(upper_of(packed_gradient));
            const uint32_t lower = lower_of(packed_gradient);
            if (near) {
                uint32_t* bin = shared + 2 * place;
                if (PLANE == ONES) {
                    atomicAdd(bin, 1u);
                } else if (PARTS == 2) {
                    atomicAdd(bin + part, part ? lower : static_cast<uint32_t>(upper));
                } else {
                    atomicAdd(bin, static_cast<uint32_t>(upper));
                    atomicAdd(bin + 1, lower);
                }
            } else if (PLANE == BOTH) {
                const int64_t both = static_cast<int64_t>(upper) * (1ll << 32) + lower;
                add(bins + place * stride + part, PACKED ? both : part ? static_cast<int64_t>(lower) : static_cast<int64_t>(upper));
            } else {
                add(bins + place * stride + h.component, PLANE == ONES ? 1 : static_cast<int64_t>(static_cast<int32_t>(packed_gradient)));
            }
        };
        if (near) __syncthreads();
        for (uint32_t base = from + (threadIdx.x & ~31u); base < to; base += blockDim.x) {
            const uint32_t i = base + lane, here = to - base < 32 ? to - base : 32;
            uint2 entry = make_uint2(0, 0);
            uint32_t begin = 0, end = 0;
            if (i < to) {
                entry = n.list == IN_ORDER ? make_uint2(i, 0) : list[i];
                if (PLANE != ONES && (packed_gradients || n.list == IN_ORDER)) entry.y = (packed_gradients ? packed_gradients : l.packed_gradients)[entry.x];
                begin = e.starts[entry.x];
                end = e.starts[entry.x + 1];
            }
            // Rows behind the last one have no entries.
            for (uint32_t k = 0; k < here; k += ROWS_READ * at_once) {
                uint32_t at[ROWS_READ], stop[ROWS_READ], packed_gradient[ROWS_READ], read[ROWS_READ];
#pragma unroll
                for (uint32_t r = 0; r < ROWS_READ; r++) {
                    const uint32_t row = k + r * at_once + lane / lanes;
                    packed_gradient[r] = __shfl_sync(~0u, entry.y, row);
                    at[r] = __shfl_sync(~0u, begin, row) + own;
                    stop[r] = __shfl_sync(~0u, end, row);
                    // Lanes go round.
                    if (row >= 32) stop[r] = 0;
                    if (at[r] < stop[r]) read[r] = e.bins[at[r]];
                }
#pragma unroll
                for (uint32_t r = 0; r < ROWS_READ; r++) {
                    if (at[r] < stop[r]) add_at(read[r], packed_gradient[r]);
                    for (at[r] += step; at[r] < stop[r]; at[r] += step) add_at(e.bins[at[r]], packed_gradient[r]);
                }
            }
        }
        if (!near) continue;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < a.near; i += blockDim.x) {
            const int64_t upper = static_cast<int32_t>(shared[2 * i]), lower = shared[2 * i + 1];
            shared[2 * i] = shared[2 * i + 1] = 0;
            if (!(upper | lower)) continue;
            int64_t* bin = bins + i * stride;
            if (PLANE == BOTH && PACKED) {
                add(bin, upper * (1ll << 32) + lower);
            } else if (PLANE == BOTH) {
                add(bin, upper);
                add(bin + 1, lower);
            } else {
                add(bin + h.component, PLANE == LIMBS ? upper * 65536 + lower : upper);
            }
        }
        __syncthreads();
    }
}

#define TAIGA_SUM_SPARSE(name, plane, packed)                                                                           \
    extern "C" __global__ void __launch_bounds__(1024)                                                                  \
        name(const __grid_constant__ Histograms h, const __grid_constant__ SparseSumParams a, const __grid_constant__ RowLists l,   \
             const uint32_t* packed_gradients, const NodeRows* nodes, const HistogramJob* summed, const uint32_t* starts, uint32_t count,    \
             const LaunchRows* plan) {                                                                                        \
        sum_sparse<plane, packed>(h, a, l, packed_gradients, nodes, summed, starts, count, plan);                                  \
    }

TAIGA_SUM_SPARSE(tree_sum_sparse_packed, BOTH, true)
TAIGA_SUM_SPARSE(tree_sum_sparse_both, BOTH, false)
TAIGA_SUM_SPARSE(tree_sum_sparse_limbs, LIMBS, false)
TAIGA_SUM_SPARSE(tree_sum_sparse_ones, ONES, false)

// How lists are made, from codes in blocks of 32 columns as a group has them. `usual`: of each column the code that is not
// stored; `first`: its first bin, or `NOT_SPARSE`. A lane has half a row of a block at a time, a warp 16 rows.
constexpr uint32_t NOT_SPARSE = ~0u;

// Rows that a warp counts before it asks for their places.
constexpr uint32_t SPARSE_ROWS_AT_ONCE = 256;

// The columns of a lane's half-rows, a byte each: the usual codes, and 0xff where a column counts.
struct HalfRow {
    uint32_t usual[4], counts[4];

    template <typename Counts>
    __device__ __forceinline__ HalfRow(const uint8_t* codes, uint32_t column, uint32_t columns, Counts counts_column) {
#pragma unroll
        for (uint32_t w = 0; w < 4; w++) {
            usual[w] = counts[w] = 0;
#pragma unroll
            for (uint32_t b = 0; b < 4; b++) {
                const uint32_t c = column + 4 * w + b;
                if (c >= columns) continue;
                usual[w] |= static_cast<uint32_t>(codes[c]) << 8 * b;
                counts[w] |= counts_column(c) ? 0xffu << 8 * b : 0;
            }
        }
    }

    __device__ __forceinline__ uint4 of_usual() const {
        return make_uint4(usual[0], usual[1], usual[2], usual[3]);
    }

    // 0xff for each column that counts and has another code than the usual one.
    __device__ __forceinline__ uint32_t others(uint32_t word, uint32_t codes) const {
        return __vcmpne4(codes, usual[word]) & counts[word];
    }
};

__device__ __forceinline__ uint32_t word_of(uint4 codes, uint32_t word) {
    return word == 0 ? codes.x : word == 1 ? codes.y : word == 2 ? codes.z : codes.w;
}

// How many rows have another code than the usual one: blockIdx.y is the block of columns.
extern "C" __global__ void __launch_bounds__(256)
    tree_count_sparse(const uint8_t* codes, uint64_t rows, const uint8_t* usual, uint32_t columns, unsigned long long* counts) {
    const uint32_t lane = threadIdx.x & 31, column = blockIdx.y * LANES + lane % 2 * 16;
    const uint4* half_rows = reinterpret_cast<const uint4*>(codes + blockIdx.y * rows * LANES);
    const HalfRow own(usual, column, columns, [](uint32_t) { return true; });
    // Rows that a lane reads at a time, and that a byte counts.
    constexpr uint32_t AT_A_TIME = 4, MOST = 252;
    const uint64_t step = gridDim.x * 8ull * 16;
    for (uint64_t from = (blockIdx.x * 8ull + threadIdx.x / 32) * 16; from < rows; from += step * MOST) {
        uint32_t n[4] = {0, 0, 0, 0};
        for (uint32_t k = 0; k < MOST && from + k * step < rows; k += AT_A_TIME) {
            uint4 halves[AT_A_TIME];
#pragma unroll
            for (uint32_t i = 0; i < AT_A_TIME; i++) {
                const uint64_t row = from + (k + i) * step + lane / 2;
                halves[i] = row < rows ? half_rows[row * 2 + lane % 2] : own.of_usual();
            }
#pragma unroll
            for (uint32_t i = 0; i < AT_A_TIME; i++) {
#pragma unroll
                for (uint32_t w = 0; w < 4; w++) n[w] = __vsub4(n[w], own.others(w, word_of(halves[i], w)));
            }
        }
#pragma unroll
        for (uint32_t c = 0; c < 16; c++) {
            uint32_t sum = n[c / 4] >> c % 4 * 8 & 255;
            for (int o = 2; o < 32; o <<= 1) sum += __shfl_xor_sync(~0u, sum, o);
            if (lane < 2 && sum && column + c < columns) atomicAdd(counts + column + c, static_cast<unsigned long long>(sum));
        }
    }
}

// Appends the entries of all columns: (row, sparse bin), the bin in the lower `bits` bits, in whatever order.
extern "C" __global__ void __launch_bounds__(256)
    tree_list_sparse(const uint8_t* codes, uint64_t rows, const uint8_t* usual, const uint32_t* first, uint32_t columns, uint32_t bits,
              unsigned long long* count, uint64_t* keys) {
    const uint32_t lane = threadIdx.x & 31, column = blockIdx.y * LANES + lane % 2 * 16;
    const uint4* half_rows = reinterpret_cast<const uint4*>(codes + blockIdx.y * rows * LANES);
    const HalfRow own(usual, column, columns, [&](uint32_t c) { return first[c] != NOT_SPARSE; });
    for (uint64_t from = (blockIdx.x * 8ull + threadIdx.x / 32) * SPARSE_ROWS_AT_ONCE; from < rows; from += gridDim.x * 8ull * SPARSE_ROWS_AT_ONCE) {
        const uint64_t to = rows - from < SPARSE_ROWS_AT_ONCE ? rows : from + SPARSE_ROWS_AT_ONCE;
        uint32_t mine = 0;
#pragma unroll 4
        for (uint64_t row = from + lane / 2; row < to; row += 16) {
            const uint4 half = half_rows[row * 2 + lane % 2];
#pragma unroll
            for (uint32_t w = 0; w < 4; w++) mine += __popc(own.others(w, word_of(half, w))) / 8;
        }
        uint32_t upto = mine;
        for (int o = 1; o < 32; o <<= 1) {
            const uint32_t before = __shfl_up_sync(~0u, upto, o);
            if (lane >= o) upto += before;
        }
        unsigned long long start = 0;
        if (lane == 31) start = atomicAdd(count, static_cast<unsigned long long>(upto));
        uint64_t* out = keys + __shfl_sync(~0u, start, 31) + upto - mine;
        for (uint64_t row = from + lane / 2; row < to; row += 16) {
            const uint4 half = half_rows[row * 2 + lane % 2];
#pragma unroll
            for (uint32_t w = 0; w < 4; w++) {
                const uint32_t four = word_of(half, w);
                for (uint32_t others = own.others(w, four); others;) {
                    const uint32_t shift = (__ffs(others) - 1) & ~7u;
                    others &= ~(0xffu << shift);
                    const uint32_t code = four >> shift & 255, most = own.usual[w] >> shift & 255;
                    *out++ = row << bits | (first[column + 4 * w + shift / 8] + code - (code > most));
                }
            }
        }
    }
}

// From sorted entries: where each row's begin, and their bins.
extern "C" __global__ void __launch_bounds__(256)
    tree_sparse_rows(const uint64_t* keys, uint32_t entries, uint64_t rows, uint32_t bits, uint32_t* starts, uint32_t* bins) {
    const uint64_t threads = gridDim.x * 256ull, own = blockIdx.x * 256ull + threadIdx.x;
    for (uint64_t i = own; i < entries; i += threads) bins[i] = static_cast<uint32_t>(keys[i] & ((1ull << bits) - 1));
    for (uint64_t row = own; row <= rows; row += threads) {
        uint32_t low = 0, high = entries;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (keys[middle] >> bits < row) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        starts[row] = low;
    }
}

}  // namespace taiga
