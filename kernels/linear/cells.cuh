// Scores and gradient from cells.

#pragma once

#include "common.cuh"

// Threads of a block that works on cells; numbers that it keeps for a cell's side, of which the last 32 are of nobody, one a bank.
constexpr uint32_t CELL_THREADS = 1024, SIDE = 16384, MOST = SIDE - 32;

// Rows cut into blocks of `height`, features into tiles of `width`: cells of entries, block after block, inside a block tile
// after tile. Twin of `Grid` in backend/cuda/linear/cells.rs.
struct Cells {
    const uint4* entries;
    const uint32_t* quads;   // where each cell begins, in fours; one more than cells
    const uint32_t* ranges;  // of each block of threads: its cells, in the order that it takes them; one more than blocks
    uint32_t blocks, tiles, height, width;
    uint64_t rows;
    uint32_t outputs, output;  // how many numbers rows and features have, and which one it is
};

// A 64-bit sum is two words of shared memory: an add to the high one only where the low one runs over, which begins in the
// middle of its range so that small sums seldom do.
constexpr uint32_t MIDDLE = 0x80000000u;

// Adds from[one side of an entry] to the sum of its other side. GRADIENT: from rows to features, a tile's blocks one after the
// other; else from features to rows, a block's tiles one after the other. A cell's numbers stand in shared memory, its sums too;
// the next cell's numbers and entries come to registers meanwhile. `flush(at, sum)` gets the sums when the other side is left.
template <bool GRADIENT, typename Flush>
__device__ __forceinline__ void work_cells(const Cells& cells, const int32_t* from, Flush flush) {
    extern __shared__ char memory[];
    constexpr uint32_t BYTES = SIDE * 4;
    uint32_t* const low = reinterpret_cast<uint32_t*>(memory);
    int32_t* const high = reinterpret_cast<int32_t*>(memory + BYTES);
    int32_t* const table = reinterpret_cast<int32_t*>(memory + 2 * BYTES);
    const uint32_t t = threadIdx.x;
    const uint32_t inner = GRADIENT ? cells.blocks : cells.tiles;  // cells in a line that share their sums
    const uint32_t numbers = (GRADIENT ? cells.height : cells.width) / 4, sums = GRADIENT ? cells.width : cells.height;
    uint32_t c = cells.ranges[blockIdx.x];
    const uint32_t last = cells.ranges[blockIdx.x + 1];
    if (c >= last) return;
    uint4 next[4];
    int4 number[4];
    // Of the cell whose entries are in `next`, and of the one behind it: an answer takes as long as a third of a cell.
    uint32_t begin, end, ahead_begin, ahead_end;
    auto look_ahead = [&](uint32_t cell) {
        if (cell >= last) return;
        const uint32_t id = GRADIENT ? cell % inner * cells.tiles + cell / inner : cell;
        ahead_begin = cells.quads[id];
        ahead_end = cells.quads[id + 1];
    };
    auto fetch_numbers = [&](uint32_t cell) {
        const int4* source = reinterpret_cast<const int4*>(from) + static_cast<uint64_t>(cell % inner) * numbers;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t p = k * CELL_THREADS + t;
            if (p < numbers) number[k] = source[p];
        }
    };
    auto fetch = [&](int k) {
        const uint32_t p = begin + k * CELL_THREADS + t;
        if (p < end) next[k] = __ldcs(cells.entries + p);
    };
    auto four = [&](const uint4& quad) {
        const uint32_t entry[4] = {quad.x, quad.y, quad.z, quad.w};
        int32_t q[4];
        uint32_t before[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t at = GRADIENT ? entry[j] >> 16 : entry[j] & 0xffff;
            q[j] = *reinterpret_cast<const int32_t*>(memory + 2 * BYTES + at);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t to = GRADIENT ? entry[j] & 0xffff : entry[j] >> 16;
            before[j] = atomicAdd(reinterpret_cast<uint32_t*>(memory + to), static_cast<uint32_t>(q[j]));
        }
        uint32_t over = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            // Up where a carry comes of a number that is not negative, down where none comes of one that is.
            if ((before[j] + static_cast<uint32_t>(q[j]) < before[j]) != (q[j] < 0)) over |= 1u << j;
        }
        // Few lanes run over, but in most warps one does: as many turns as one lane has at most, not one for each entry.
        while (over) {
            const uint32_t j = __ffs(over) - 1;
            over &= over - 1;
            const uint32_t of_j = j < 2 ? (j == 0 ? entry[0] : entry[1]) : (j == 2 ? entry[2] : entry[3]);
            const int32_t q_j = j < 2 ? (j == 0 ? q[0] : q[1]) : (j == 2 ? q[2] : q[3]);
            const uint32_t to = GRADIENT ? of_j & 0xffff : of_j >> 16;
            atomicAdd(reinterpret_cast<int32_t*>(memory + BYTES + to), q_j < 0 ? -1 : 1);
        }
    };
    for (uint32_t i = t; i < SIDE; i += CELL_THREADS) low[i] = MIDDLE, high[i] = 0;
    if (t < SIDE - MOST) table[MOST + t] = 0;
    look_ahead(c);
    begin = ahead_begin, end = ahead_end;
    look_ahead(c + 1);
    fetch_numbers(c);
#pragma unroll
    for (int k = 0; k < 4; k++) fetch(k);
    while (true) {
        const uint32_t a = begin, b = end, line = c / inner;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t p = k * CELL_THREADS + t;
            if (p < numbers) reinterpret_cast<int4*>(table)[p] = number[k];
        }
        __syncthreads();
        const bool more = ++c < last;
        if (more) {
            begin = ahead_begin, end = ahead_end;
            fetch_numbers(c);
            look_ahead(c + 1);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint4 quad = next[k];
            if (more) fetch(k);
            if (a + k * CELL_THREADS + t < b) four(quad);
        }
        // What a cell has beyond what the registers hold.
        for (uint32_t p = a + 4 * CELL_THREADS + t; p < b; p += CELL_THREADS) four(__ldcs(cells.entries + p));
        if (!more || c / inner != line) {
            __syncthreads();
            for (uint32_t i = t; i < sums; i += CELL_THREADS) {
                const int64_t sum = static_cast<int64_t>(low[i]) - MIDDLE + (static_cast<int64_t>(high[i]) << 32);
                low[i] = MIDDLE, high[i] = 0;
                flush(static_cast<uint64_t>(line) * sums + i, sum);
            }
        }
        if (!more) return;
    }
}

// out[row * outputs + output] = intercept + the row's entries, from coefficients that are integers; without an intercept they are
// added to what stands there. A block's rows are all of one block of threads.
extern "C" __global__ void __launch_bounds__(CELL_THREADS, 1)
    linear_cells_scores(Cells cells, const int32_t* vector, double scale, const double* intercept, double* out) {
    const double base = intercept ? intercept[cells.output] : 0.0;
    work_cells<false>(cells, vector, [&](uint64_t row, int64_t sum) {
        if (row >= cells.rows || (sum == 0 && !intercept)) return;
        double* const o = out + row * cells.outputs + cells.output;
        *o = (intercept ? base : *o) + (sum == 0 ? 0.0 : static_cast<double>(sum) / scale);
    });
}

// sums[feature * outputs + output] += the integers of its rows.
extern "C" __global__ void __launch_bounds__(CELL_THREADS, 1) linear_cells_gradient(Cells cells, const int32_t* whole, int64_t* sums) {
    work_cells<true>(cells, whole, [&](uint64_t feature, int64_t sum) {
        if (sum != 0) add(sums + feature * cells.outputs + cells.output, sum);
    });
}

// One of several outputs: to[i] = from[i * outputs + output].
extern "C" __global__ void __launch_bounds__(256) linear_output(uint64_t n, uint32_t outputs, uint32_t output, const int32_t* from, int32_t* to) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) to[i] = from[i * outputs + output];
}
