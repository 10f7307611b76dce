// Finds the smallest and the largest value of a column, and the counts and weights of its bins.

#include "stats/bins.cuh"
#include "stats/counters.cuh"
#include "stats/extremes.cuh"
#include "stats/values.cuh"

using namespace taiga;

// ---- the smallest and the largest value

constexpr int EXTREMES_THREADS = 512;

// extremes[2 * block] and the one behind it: of the values that the block saw; `low` above `high` where it
// saw none. NaN is neither smaller nor larger than anything.
template <typename T>
__device__ void extremes(const T* values, const uint32_t* validity, uint64_t rows, T largest, T smallest, T* out) {
    T low = largest, high = smallest;
    for_each_value(values, validity, rows, [&](T x) {
        low = x < low ? x : low;
        high = x > high ? x : high;
    });
    __shared__ T lows[EXTREMES_THREADS], highs[EXTREMES_THREADS];
    reduce_extremes<EXTREMES_THREADS>(low, high, lows, highs);
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = lows[0];
        out[2 * blockIdx.x + 1] = highs[0];
    }
}

// ---- counts and weights

// Edges in shared memory too, where `edges_in_shared` says that there is room.
template <typename F>
__device__ __forceinline__ const F* shared_edges(const F* edges, uint32_t bins, uint32_t edges_in_shared, uint32_t** behind) {
    F* copy = reinterpret_cast<F*>(shared_memory);
    if (!edges_in_shared) {
        *behind = reinterpret_cast<uint32_t*>(shared_memory);
        return edges;
    }
    for (uint32_t i = threadIdx.x; i <= bins; i += blockDim.x) copy[i] = edges[i];
    *behind = reinterpret_cast<uint32_t*>(copy + bins + 1);
    return copy;
}

// totals[bin] += the values of that bin. `shift` of 32: no counters in shared memory.
template <typename T, typename Bins>
__device__ void count(Bins bins, const T* values, const uint32_t* validity, uint64_t rows, uint32_t shift,
                      uint32_t edges_in_shared, unsigned long long* totals) {
    uint32_t* counters;
    bins.edges = shared_edges(bins.edges, bins.bins, edges_in_shared, &counters);
    count_by(counters, bins.bins, shift, totals, [&](auto counters) {
        for_each_value(values, validity, rows, [&](T x) {
            const uint32_t bin = bins.locate(static_cast<typename Bins::Float>(x));
            if (bin < bins.bins) counters.add(bin);
        });
    });
}

// sums[block][bin] = the weights of the rows of that bin, added in row order.
template <typename T, typename Bins>
__device__ void weigh(Bins bins, const T* values, const uint32_t* validity, const double* weights, uint64_t rows,
                      uint64_t first_block, uint32_t sums_in_shared, double* out) {
    weigh_by(bins.bins, weights, rows, first_block, sums_in_shared, out, [&](uint64_t row) {
        return is_valid(validity, row) ? bins.locate(static_cast<typename Bins::Float>(values[row])) : bins.bins;
    });
}

// totals[bin] += sums[block][bin], block after block.
extern "C" __global__ void add_blocks(const double* sums, uint64_t blocks, uint32_t bins, double* totals) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    double total = totals[bin];
    for (uint64_t block = 0; block < blocks; block++) total += sums[block * bins + bin];
    totals[bin] = total;
}

#define EXTREMES(name, T, largest, smallest)                                                                            \
    extern "C" __global__ void __launch_bounds__(EXTREMES_THREADS)                                                      \
        extremes_##name(const T* values, const uint32_t* validity, uint64_t rows, T* out) {                             \
        extremes<T>(values, validity, rows, largest, smallest, out);                                                    \
    }

#define BINS(kind, name, T, Bins, blocks)                                                                               \
    extern "C" __global__ void __launch_bounds__(COUNT_THREADS, blocks)                                                 \
        count_##kind##_##name(Bins bins, const T* values, const uint32_t* validity, uint64_t rows, uint32_t shift,      \
                              uint32_t edges_in_shared, unsigned long long* totals) {                                   \
        count<T, Bins>(bins, values, validity, rows, shift, edges_in_shared, totals);                                   \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(32)                                                                    \
        weigh_##kind##_##name(Bins bins, const T* values, const uint32_t* validity, const double* weights,              \
                              uint64_t rows, uint64_t first_block, uint32_t sums_in_shared, double* sums) {             \
        weigh<T, Bins>(bins, values, validity, weights, rows, first_block, sums_in_shared, sums);                       \
    }

// All kernels of a type, whose bins are computed in f64.
#define NUMERIC(name, T, largest, smallest)                                                                             \
    EXTREMES(name, T, largest, smallest)                                                                                \
    BINS(uniform64, name, T, Uniform<double>, 1)                                                                        \
    BINS(edges, name, T, Edges, 1)

typedef __int128 int128_t;
typedef unsigned __int128 uint128_t;

BINS(uniform32, f32, float, Uniform<float>, TWO_BLOCKS)
NUMERIC(f32, float, __int_as_float(0x7f800000), __int_as_float(0xff800000))
NUMERIC(f64, double, __longlong_as_double(0x7ff0000000000000), __longlong_as_double(0xfff0000000000000))
NUMERIC(i8, int8_t, INT8_MAX, INT8_MIN)
NUMERIC(i16, int16_t, INT16_MAX, INT16_MIN)
NUMERIC(i32, int32_t, INT32_MAX, INT32_MIN)
NUMERIC(i64, int64_t, INT64_MAX, INT64_MIN)
NUMERIC(u8, uint8_t, UINT8_MAX, 0)
NUMERIC(u16, uint16_t, UINT16_MAX, 0)
NUMERIC(u32, uint32_t, UINT32_MAX, 0)
NUMERIC(u64, uint64_t, UINT64_MAX, 0)
EXTREMES(i128, int128_t, static_cast<int128_t>(~static_cast<uint128_t>(0) >> 1), -static_cast<int128_t>(~static_cast<uint128_t>(0) >> 1) - 1)
EXTREMES(u128, uint128_t, ~static_cast<uint128_t>(0), 0)

#include "layouts.cuh"
