// Statistics of a column: the smallest and the largest value, counts and weights of bins.

#include "stats/bins.cuh"
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
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    for (int half = EXTREMES_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            T x = lows[threadIdx.x + half], y = highs[threadIdx.x + half];
            if (x < lows[threadIdx.x]) lows[threadIdx.x] = x;
            if (y > highs[threadIdx.x]) highs[threadIdx.x] = y;
        }
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = lows[0];
        out[2 * blockIdx.x + 1] = highs[0];
    }
}

#define EXTREMES(name, T, largest, smallest)                                                                            \
    extern "C" __global__ void __launch_bounds__(EXTREMES_THREADS)                                                      \
        extremes_##name(const T* values, const uint32_t* validity, uint64_t rows, T* out) {                             \
        extremes<T>(values, validity, rows, largest, smallest, out);                                                    \
    }

typedef __int128 int128_t;
typedef unsigned __int128 uint128_t;

EXTREMES(f32, float, __int_as_float(0x7f800000), __int_as_float(0xff800000))
EXTREMES(f64, double, __longlong_as_double(0x7ff0000000000000), __longlong_as_double(0xfff0000000000000))
EXTREMES(i8, int8_t, INT8_MAX, INT8_MIN)
EXTREMES(i16, int16_t, INT16_MAX, INT16_MIN)
EXTREMES(i32, int32_t, INT32_MAX, INT32_MIN)
EXTREMES(i64, int64_t, INT64_MAX, INT64_MIN)
EXTREMES(i128, int128_t, static_cast<int128_t>(~static_cast<uint128_t>(0) >> 1), -static_cast<int128_t>(~static_cast<uint128_t>(0) >> 1) - 1)
EXTREMES(u8, uint8_t, UINT8_MAX, 0)
EXTREMES(u16, uint16_t, UINT16_MAX, 0)
EXTREMES(u32, uint32_t, UINT32_MAX, 0)
EXTREMES(u64, uint64_t, UINT64_MAX, 0)
EXTREMES(u128, uint128_t, ~static_cast<uint128_t>(0), 0)

// ---- counts

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

template <typename T, typename Bins, typename Counters>
__device__ __forceinline__ void count_all(const Bins& bins, const Counters& counters, const T* values, const uint32_t* validity,
                                          uint64_t rows) {
    for_each_value(values, validity, rows, [&](T x) {
        uint32_t bin = bins.locate(static_cast<typename Bins::Float>(x));
        if (bin < bins.bins) counters.add(bin);
    });
}

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
    if (shift == 32) {
        __syncthreads();
        count_all(bins, GlobalCounters{totals}, values, validity, rows);
        return;
    }
    for (uint32_t i = threadIdx.x; i < bins.bins << shift; i += blockDim.x) counters[i] = 0;
    __syncthreads();
    count_all(bins, SharedCounters{counters, shift, threadIdx.x & ((1u << shift) - 1)}, values, validity, rows);
    __syncthreads();
    const uint32_t copies = 1u << shift;
    for (uint32_t bin = threadIdx.x; bin < bins.bins; bin += blockDim.x) {
        unsigned long long total = 0;
        // Each thread begins with another copy, so that they don't meet in a bank.
        for (uint32_t c = 0; c < copies; c++) total += counters[bin << shift | ((c + bin) & (copies - 1))];
        if (total != 0) atomicAdd(totals + bin, total);
    }
}

// ---- weights

// Rows whose weights are added in their order; blocks of them are added in theirs (src/engine/stats/histogram.rs).
constexpr uint64_t ROWS_OF_BLOCK = 65536;

// sums[block][bin] = the weights of the rows of that bin, added in row order. A warp takes 32 rows at a time
// and those of one bin one after another.
template <typename T, typename Bins>
__device__ void weigh(Bins bins, const T* values, const uint32_t* validity, const double* weights, uint64_t rows,
                      uint64_t first_block, uint32_t sums_in_shared, double* out) {
    const uint32_t lane = threadIdx.x, all = ~0u;
    double* own = out + blockIdx.x * static_cast<uint64_t>(bins.bins);
    double* sums = sums_in_shared ? reinterpret_cast<double*>(shared_memory) : own;
    for (uint32_t bin = lane; bin < bins.bins; bin += 32) sums[bin] = 0.0;
    __syncwarp();
    const uint64_t start = (first_block + blockIdx.x) * ROWS_OF_BLOCK;
    const uint64_t end = start + ROWS_OF_BLOCK < rows ? start + ROWS_OF_BLOCK : rows;
    for (uint64_t base = start; base < end; base += 32) {
        const uint64_t row = base + lane;
        uint32_t bin = bins.bins;
        double weight = 0.0;
        if (row < end && is_valid(validity, row)) {
            bin = bins.locate(static_cast<typename Bins::Float>(values[row]));
            weight = weights[row];
        }
        const uint32_t same = __match_any_sync(all, bin);
        const int rank = bin < bins.bins ? __popc(same & ((1u << lane) - 1)) : -1;
        for (int turn = 0; __any_sync(all, rank >= turn); turn++) {
            if (rank == turn) sums[bin] += weight;
            __syncwarp();
        }
    }
    if (sums_in_shared) {
        for (uint32_t bin = lane; bin < bins.bins; bin += 32) own[bin] = sums[bin];
    }
}

// totals[bin] += sums[block][bin], block after block.
extern "C" __global__ void add_blocks(const double* sums, uint64_t blocks, uint32_t bins, double* totals) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    double total = totals[bin];
    for (uint64_t block = 0; block < blocks; block++) total += sums[block * bins + bin];
    totals[bin] = total;
}

// Two blocks a multiprocessor, where it takes as many threads and the registers suffice, have more loads on
// their way than one: f32 gain 4 %.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
#define TWO_BLOCKS 2
#else
#define TWO_BLOCKS 1
#endif

#define BINS(kind, name, T, Bins, blocks)                                                                               \
    extern "C" __global__ void __launch_bounds__(1024, blocks)                                                               \
        count_##kind##_##name(Bins bins, const T* values, const uint32_t* validity, uint64_t rows, uint32_t shift,      \
                              uint32_t edges_in_shared, unsigned long long* totals) {                                   \
        count<T, Bins>(bins, values, validity, rows, shift, edges_in_shared, totals);                                   \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(32)                                                                    \
        weigh_##kind##_##name(Bins bins, const T* values, const uint32_t* validity, const double* weights,              \
                              uint64_t rows, uint64_t first_block, uint32_t sums_in_shared, double* sums) {             \
        weigh<T, Bins>(bins, values, validity, weights, rows, first_block, sums_in_shared, sums);                       \
    }

#define BOTH(name, T)                                                                                                   \
    BINS(uniform64, name, T, Uniform<double>, 1)                                                                        \
    BINS(edges, name, T, Edges, 1)

BINS(uniform32, f32, float, Uniform<float>, TWO_BLOCKS)
BOTH(f32, float)
BOTH(f64, double)
BOTH(i8, int8_t)
BOTH(i16, int16_t)
BOTH(i32, int32_t)
BOTH(i64, int64_t)
BOTH(u8, uint8_t)
BOTH(u16, uint16_t)
BOTH(u32, uint32_t)
BOTH(u64, uint64_t)
