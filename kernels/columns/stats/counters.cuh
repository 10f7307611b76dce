// Counts the rows of bins, and sums their weights.
#pragma once

#include <cstdint>

// Two blocks a multiprocessor, where it takes as many threads and the registers suffice, have more loads on
// their way than one: f32 gain 4 %.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
#define TWO_BLOCKS 2
#else
#define TWO_BLOCKS 1
#endif

namespace taiga {

// Threads of a block that counts.
constexpr int COUNT_THREADS = 1024;

extern __shared__ uint4 shared_memory[];

// Counters in shared memory, 2^shift copies of each, side by side; a lane adds to its own copy:
//
//   counter = bin << shift | lane mod 2^shift
//
// With 32 copies no two lanes of a warp ever meet, in an address or in a bank, whatever the data; with 4
// at most eight do, and that is still hidden behind the loads.
struct SharedCounters {
    uint32_t* counters;
    uint32_t shift, own;

    __device__ __forceinline__ void add(uint32_t bin) const { atomicAdd(counters + (bin << shift | own), 1u); }
};

// Totals in global memory: lanes with the same bin send one of them.
struct GlobalCounters {
    unsigned long long* totals;

    __device__ __forceinline__ void add(uint32_t bin) const {
        uint32_t same = __match_any_sync(__activemask(), bin);
        uint32_t lane = threadIdx.x % 32;
        if (__ffs(same) - 1 == lane) atomicAdd(totals + bin, static_cast<unsigned long long>(__popc(same)));
    }
};

// totals[bin] += what count_all(counters) counts, with 2^shift counters for each bin.
template <typename CountAll>
__device__ __forceinline__ void count_shared(uint32_t* counters, uint32_t bins, uint32_t shift, unsigned long long* totals,
                                             CountAll count_all) {
    for (uint32_t i = threadIdx.x; i < bins << shift; i += blockDim.x) counters[i] = 0;
    __syncthreads();
    count_all(SharedCounters{counters, shift, threadIdx.x & ((1u << shift) - 1)});
    __syncthreads();
    const uint32_t copies = 1u << shift;
    for (uint32_t bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        unsigned long long total = 0;
        // Each thread begins with another copy, so that they don't meet in a bank.
        for (uint32_t c = 0; c < copies; c++) total += counters[bin << shift | ((c + bin) & (copies - 1))];
        if (total != 0) atomicAdd(totals + bin, total);
    }
}

// The same where `shift` of 32 says that there are no such counters: totals are counted in global memory.
template <typename CountAll>
__device__ __forceinline__ void count_by(uint32_t* counters, uint32_t bins, uint32_t shift, unsigned long long* totals, CountAll count_all) {
    if (shift == 32) {
        __syncthreads();
        count_all(GlobalCounters{totals});
    } else {
        count_shared(counters, bins, shift, totals, count_all);
    }
}

// Rows whose weights are added in their order; blocks of them are added in theirs (src/core/stats/histogram.rs).
constexpr uint64_t ROWS_OF_BLOCK = 65536;

// sums[block][bin] = the weights of the rows of that bin, added in row order; bin_of(row) is `bins` for none. A warp
// takes 32 rows at a time and those of one bin one after another.
template <typename BinOf>
__device__ __forceinline__ void weigh_by(uint32_t bins, const double* weights, uint64_t rows, uint64_t first_block,
                                         uint32_t sums_in_shared, double* out, BinOf bin_of) {
    const uint32_t lane = threadIdx.x, all = ~0u;
    double* own = out + blockIdx.x * static_cast<uint64_t>(bins);
    double* sums = sums_in_shared ? reinterpret_cast<double*>(shared_memory) : own;
    for (uint32_t bin = lane; bin < bins; bin += 32) sums[bin] = 0.0;
    __syncwarp();
    const uint64_t start = (first_block + blockIdx.x) * ROWS_OF_BLOCK;
    const uint64_t end = start + ROWS_OF_BLOCK < rows ? start + ROWS_OF_BLOCK : rows;
    for (uint64_t base = start; base < end; base += 32) {
        const uint64_t row = base + lane;
        uint32_t bin = bins;
        double weight = 0.0;
        if (row < end) {
            bin = bin_of(row);
            weight = weights[row];
        }
        const uint32_t same = __match_any_sync(all, bin);
        const int rank = bin < bins ? __popc(same & ((1u << lane) - 1)) : -1;
        for (int turn = 0; __any_sync(all, rank >= turn); turn++) {
            if (rank == turn) sums[bin] += weight;
            __syncwarp();
        }
    }
    if (sums_in_shared) {
        for (uint32_t bin = lane; bin < bins; bin += 32) own[bin] = sums[bin];
    }
}

}  // namespace taiga
