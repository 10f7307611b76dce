// Statistics of two columns: extremes over the rows that have both, counts and weights of cells
// (src/core/stats/histogram2d.rs).

#include "stats/range.cuh"

using namespace taiga;

// Floats of either width, a missing one NaN.
struct Reals {
    const void* values;
    uint64_t single;

    __device__ __forceinline__ double at(uint64_t row) const {
        return single ? static_cast<double>(static_cast<const float*>(values)[row]) : static_cast<const double*>(values)[row];
    }
};

// Bins of equal width, or any.
struct AnyBins {
    Uniform<double> uniform;
    uint64_t any;

    __device__ __forceinline__ uint32_t locate(double x) const {
        return any ? Edges{uniform.edges, uniform.first, uniform.last, uniform.bins}.locate(x) : uniform.locate(x);
    }
};

// Cell i * (bins of y) + j for bin i of x and bin j of y.
struct Cells {
    Reals x, y;
    AnyBins x_bins, y_bins;

    __device__ __forceinline__ uint32_t size() const { return x_bins.uniform.bins * y_bins.uniform.bins; }

    // The number of cells where none holds the row.
    __device__ __forceinline__ uint32_t locate(uint64_t row) const {
        const uint32_t i = x_bins.locate(x.at(row)), j = y_bins.locate(y.at(row));
        return i < x_bins.uniform.bins && j < y_bins.uniform.bins ? i * y_bins.uniform.bins + j : size();
    }
};

// visit(row) for every row, dealt to the threads of the grid.
template <typename Visit>
__device__ __forceinline__ void for_each_row(uint64_t rows, Visit visit) {
    const uint64_t stride = gridDim.x * static_cast<uint64_t>(blockDim.x);
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows; row += stride) visit(row);
}

constexpr int EXTREMES_THREADS = 512;

// out[4 * block] and those behind it: smallest and largest x, smallest and largest y, of the rows that the block saw and
// that have both.
extern "C" __global__ void __launch_bounds__(EXTREMES_THREADS) extremes_2d(Reals x, Reals y, uint64_t rows, double* out) {
    const double infinity = __longlong_as_double(0x7ff0000000000000);
    double low[2] = {infinity, infinity}, high[2] = {-infinity, -infinity};
    for_each_row(rows, [&](uint64_t row) {
        const double values[2] = {x.at(row), y.at(row)};
        if (values[0] != values[0] || values[1] != values[1]) return;
        for (int k = 0; k < 2; k++) {
            low[k] = values[k] < low[k] ? values[k] : low[k];
            high[k] = values[k] > high[k] ? values[k] : high[k];
        }
    });
    __shared__ double lows[EXTREMES_THREADS], highs[EXTREMES_THREADS];
    for (int k = 0; k < 2; k++) {
        reduce_extremes<EXTREMES_THREADS>(low[k], high[k], lows, highs);
        if (threadIdx.x == 0) {
            out[4 * blockIdx.x + 2 * k] = lows[0];
            out[4 * blockIdx.x + 2 * k + 1] = highs[0];
        }
        __syncthreads();
    }
}

// totals[cell] += the rows of that cell.
extern "C" __global__ void __launch_bounds__(1024) count_2d(Cells cells, uint64_t rows, uint32_t shift, unsigned long long* totals) {
    count_by(reinterpret_cast<uint32_t*>(shared_memory), cells.size(), shift, totals, [&](auto counters) {
        for_each_row(rows, [&](uint64_t row) {
            const uint32_t cell = cells.locate(row);
            if (cell < cells.size()) counters.add(cell);
        });
    });
}

// sums[block][cell] = the weights of the rows of that cell, added in row order.
extern "C" __global__ void __launch_bounds__(32) weigh_2d(Cells cells, const double* weights, uint64_t rows, uint64_t first_block,
                                                          uint32_t sums_in_shared, double* sums) {
    weigh_by(cells.size(), weights, rows, first_block, sums_in_shared, sums, [&](uint64_t row) { return cells.locate(row); });
}
