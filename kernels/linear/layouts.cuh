// The structs that the kernels of linear models share with the host, rows of entries and rows of other numbers; and sums over both.

#pragma once

#include "../numerics.cuh"

// Rows of a block of sums (numerics/reduce.rs), and of a tile of it.
constexpr uint32_t BLOCK = 4096, TILE = 1024;

// Rows of entries.
struct CsrRows {  // shared with the host
    const uint32_t* starts;  // of each row, counted from the first one's; one more than rows
    const uint32_t* keys;
    const float* values;  // null: 1 each
    uint64_t first;       // the number of the first row
    uint32_t rows, outputs;
};

// Dense columns and what the rows are.
struct DenseRows {  // shared with the host
    const double* const* dense;
    const uint32_t* codes;
    const float* weight;  // null: 1 each
    uint64_t rows;
    uint32_t columns, outputs;
};

// The integers of a pass: `unit` is one over the unit of all features where they have none of their own.
struct FeatureScale {  // shared with the host
    const double* inverse;
    double common;

    __device__ __forceinline__ double of(uint32_t feature) const { return inverse ? inverse[feature] : common; }
};

// `round64` of numerics/fixed.rs.
__device__ __forceinline__ int64_t round64(double x) {
    return static_cast<int64_t>(taiga::bits_of(x + 6755399441055744.0) - 0x4338000000000000ull);
}

__device__ __forceinline__ void add(int64_t* sum, int64_t q) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(q));
}

__device__ __forceinline__ uint64_t thread_number() { return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; }

// A thread's part of the entries `begin, begin + step .. end` of a row. One output: eight lanes a row; more: a thread for each.
struct EntryShare {
    uint64_t row, output;
    uint32_t begin, end, step;

    __device__ __forceinline__ explicit EntryShare(const CsrRows& lists) {
        const uint64_t thread = thread_number();
        const bool one = lists.outputs == 1;
        row = one ? thread / 8 : thread / lists.outputs;
        output = one ? 0 : thread % lists.outputs;
        step = one ? 8 : 1;
        begin = end = 0;
        if (row >= lists.rows || !lists.keys) return;
        begin = lists.starts[row] + (one ? threadIdx.x % 8 : 0);
        end = lists.starts[row + 1];
    }
};

// The sum over the eight lanes of a row, as `lanes` in linear/vectors.rs adds them.
template <typename T>
__device__ __forceinline__ T over_lanes(T sum) {
    const uint32_t mask = 0xffu << (threadIdx.x & 24);
#pragma unroll
    for (int step = 1; step < 8; step <<= 1) sum += __shfl_xor_sync(mask, sum, step);
    return sum;
}

// SUMS sums of what `value(i, out)` gives for 0..n, as `lanes` adds them, to `out` by thread 0. All threads of the block.
template <int SUMS, typename Value>
__device__ void sum_lanes(uint32_t n, Value value, double* out) {
    __shared__ double tile[SUMS][TILE];
    double sum = 0.0;
    const uint32_t s = threadIdx.x / 8, lane = threadIdx.x % 8;
    for (uint32_t start = 0; start < n; start += TILE) {
        const uint32_t len = n - start < TILE ? n - start : TILE;
        for (uint32_t i = threadIdx.x; i < len; i += blockDim.x) {
            double found[SUMS];
            value(start + i, found);
#pragma unroll
            for (int k = 0; k < SUMS; k++) tile[k][i] = found[k];
        }
        __syncthreads();
        if (s < SUMS) {
#pragma unroll 8
            for (uint32_t i = lane; i < len; i += 8) sum += tile[s][i];
        }
        __syncthreads();
    }
    if (s < SUMS) {
        sum = over_lanes(sum);
        if (lane == 0) out[s] = sum;
    }
}
