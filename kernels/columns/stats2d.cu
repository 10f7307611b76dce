// Finds the extremes of two columns over the rows that have both, and the counts and weights of the cells of their bins
// (src/core/stats/histogram2d.rs).

#include "stats/cells2d.cuh"
#include "stats/counters.cuh"
#include "stats/extremes.cuh"
#include "stats/values.cuh"

using namespace taiga;

// visit(row) for every row, dealt to the threads of the grid.
template <typename Visit>
__device__ __forceinline__ void for_each_row(uint64_t rows, Visit visit) {
    const uint64_t stride = gridDim.x * static_cast<uint64_t>(blockDim.x);
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows; row += stride) visit(row);
}

constexpr int EXTREMES_THREADS = 512;

// out[4 * block] and those behind it: smallest and largest x, smallest and largest y, of the rows that the block saw and
// that have both.
extern "C" __global__ void __launch_bounds__(EXTREMES_THREADS) extremes_2d(FloatColumn x, FloatColumn y, uint64_t rows, double* out) {
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
extern "C" __global__ void __launch_bounds__(1024) count_2d(Cells2d cells, uint64_t rows, uint32_t shift, unsigned long long* totals) {
    count_by(reinterpret_cast<uint32_t*>(shared_memory), cells.size(), shift, totals, [&](auto counters) {
        for_each_row(rows, [&](uint64_t row) {
            const uint32_t cell = cells.locate(row);
            if (cell < cells.size()) counters.add(cell);
        });
    });
}

// sums[block][cell] = the weights of the rows of that cell, added in row order.
extern "C" __global__ void __launch_bounds__(32) weigh_2d(Cells2d cells, const double* weights, uint64_t rows, uint64_t first_block,
                                                          uint32_t sums_in_shared, double* sums) {
    weigh_by(cells.size(), weights, rows, first_block, sums_in_shared, sums, [&](uint64_t row) { return cells.locate(row); });
}

#include "layouts.cuh"
