// Scores and gradient from cells.

#pragma once

#include "common.cuh"

// Threads of a block that works on cells; what stands behind the numbers of a cell's side: nobody, once a bank.
constexpr uint32_t CELL_THREADS = 1024, NOBODIES = 32;

// Rows cut into blocks of `height`, features into tiles of `width`, both multiples of 32: cells of entries. Sums are kept of `BESIDE`
// blocks (a strip), or of so many tiles. Twin of `Raw` in backend/cuda/linear/cells.rs.
//
//              tile 0    tile 1    …        cells lie strip after strip, in it tile after tile, in it block after block
//   block 0  │ cell 0  │ cell 2  │
//   block 1  │ cell 1  │ cell 3  │ …        an entry: row << 17 | feature << 2, both in their strips, with nobody behind each block
//   block 2  │ …                            and each tile
struct Cells {
    const uint4* entries;
    const uint32_t* quads;   // where each cell begins, in fours; one more than cells
    const uint32_t* ranges;  // of each block of threads: its steps, in the order that it takes them; one more than blocks
    uint32_t blocks, tiles, height, width;
    uint64_t rows;
    uint32_t outputs, output;  // how many numbers rows and features have, and which one it is
};

constexpr uint32_t BESIDE = 2;

// An entry, and its row and feature as offsets of 4-byte numbers.
__device__ __forceinline__ uint32_t entry_of(uint32_t row, uint32_t feature) { return row << 17 | feature << 2; }
__device__ __forceinline__ uint32_t row_of(uint32_t entry) { return entry >> 15 & 0x1fffc; }
__device__ __forceinline__ uint32_t feature_of(uint32_t entry) { return entry & 0x1fffc; }

// A 64-bit sum is two words of shared memory: an add to the high one only where the low one runs over, which begins in the
// middle of its range so that small sums seldom do.
constexpr uint32_t MIDDLE = 0x80000000u;

// Counts, in the high word at `at`, that an add of `q` to a low one that was `before` ran over. No branch: in most warps some lane does.
__device__ __forceinline__ void count_over(uint32_t before, int32_t q, uint32_t at) {
    asm volatile(
        "{ .reg .u32 sum; .reg .s32 over; .reg .pred some;\n"
        "add.cc.u32 sum, %0, %1;\n"
        "addc.s32 over, %2, 0;\n"
        "setp.ne.s32 some, over, 0;\n"
        "@some red.shared.add.s32 [%3], over; }" ::"r"(before), "r"(q), "r"(q >> 31), "r"(at)
        : "memory");
}

// Copies 16 bytes from global to shared memory, to be there after `arrived`.
__device__ __forceinline__ void copy16(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
#else
    *static_cast<int4*>(to) = *static_cast<const int4*>(from);
#endif
}

__device__ __forceinline__ void arrived() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Adds from[one side of an entry] to the sum of its other side. GRADIENT: from rows to features, a strip of tiles from block to block;
// else from features to rows, a strip of blocks from tile to tile. A step is what has the same numbers: they stand in shared
// memory, those of the next step come there meanwhile, and its entries to registers. `flush(at, sum)` gets the sums
// when a strip is left.
template <bool GRADIENT, typename Flush>
__device__ __forceinline__ void work_cells(const Cells& cells, const int32_t* from, Flush flush) {
    extern __shared__ __align__(16) char memory[];
    const uint32_t t = threadIdx.x;
    const uint32_t inner = GRADIENT ? cells.blocks : cells.tiles;  // steps of a strip
    const uint32_t numbers = GRADIENT ? cells.height : cells.width, own = GRADIENT ? cells.width : cells.height;
    const uint32_t sums = BESIDE * (own + NOBODIES);
    uint32_t* const low = reinterpret_cast<uint32_t*>(memory);
    int32_t* const high = reinterpret_cast<int32_t*>(low + sums);
    int32_t* const tables = high + sums;
    const uint32_t counts = static_cast<uint32_t>(__cvta_generic_to_shared(high));
    uint32_t c = cells.ranges[blockIdx.x];
    const uint32_t last = cells.ranges[blockIdx.x + 1];
    if (c >= last) return;
    // The fours of a step lie in one place, or in two.
    struct Place {
        uint32_t first, first_size, second, size;

        __device__ __forceinline__ uint32_t at(uint32_t p) const { return p < first_size ? first + p : second + p; }
    };
    auto place_of = [&](uint32_t step) {
        if (step >= last) return Place{0, 0, 0, 0};
        if (!GRADIENT) {
            const uint32_t a = cells.quads[step * BESIDE], b = cells.quads[(step + 1) * BESIDE];
            return Place{a, b - a, 0, b - a};
        }
        const uint32_t strip = step / inner, block = step - strip * inner;
        const uint32_t id = (block / BESIDE * cells.tiles + strip * BESIDE) * BESIDE + block % BESIDE;
        const uint32_t a = cells.quads[id], b = cells.quads[id + 1], d = cells.quads[id + BESIDE], e = cells.quads[id + BESIDE + 1];
        return Place{a, b - a, d - (b - a), b - a + (e - d)};
    };
    auto fetch_numbers = [&](uint32_t step) {
        const int4* source = reinterpret_cast<const int4*>(from + static_cast<uint64_t>(step % inner) * numbers);
        int4* to = reinterpret_cast<int4*>(tables + (step & 1) * (numbers + NOBODIES));
        for (uint32_t p = t; p < numbers / 4; p += CELL_THREADS) copy16(to + p, source + p);
    };
    Place now = place_of(c), ahead = place_of(c + 1);
    uint4 next[4];
    auto fetch = [&](const Place& place, uint32_t p, int k) {
        p += k * CELL_THREADS + t;
        if (p < place.size) next[k] = __ldcs(cells.entries + place.at(p));
    };
    fetch_numbers(c);
#pragma unroll
    for (int k = 0; k < 4; k++) fetch(now, 0, k);
    for (uint32_t i = t; i < sums; i += CELL_THREADS) low[i] = MIDDLE, high[i] = 0;
    if (t < 2 * NOBODIES) tables[t / NOBODIES * (numbers + NOBODIES) + numbers + t % NOBODIES] = 0;
    while (true) {
        const uint32_t strip = c / inner;
        // Places count from the first one in the strip.
        const char* const table = reinterpret_cast<const char*>(tables + (c & 1) * (numbers + NOBODIES) - c % inner % BESIDE * (numbers + NOBODIES));
        auto four = [&](const uint4& quad) {
            const uint32_t entry[4] = {quad.x, quad.y, quad.z, quad.w};
            int32_t q[4];
#pragma unroll
            for (int j = 0; j < 4; j++) q[j] = *reinterpret_cast<const int32_t*>(table + (GRADIENT ? row_of(entry[j]) : feature_of(entry[j])));
            uint32_t before[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                before[j] = atomicAdd(reinterpret_cast<uint32_t*>(memory + (GRADIENT ? feature_of(entry[j]) : row_of(entry[j]))), static_cast<uint32_t>(q[j]));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) count_over(before[j], q[j], counts + (GRADIENT ? feature_of(entry[j]) : row_of(entry[j])));
        };
        arrived();
        __syncthreads();
        const Place was = now;
        const bool more = ++c < last;
        if (more) {
            fetch_numbers(c);
            now = ahead;
            ahead = place_of(c + 1);
        }
        for (uint32_t p = 0; p == 0 || p < was.size; p += 4 * CELL_THREADS) {
            // What the registers get next is of this step, or the first of the next one.
            const bool here = p + 4 * CELL_THREADS < was.size;
            const Place place = {here ? was.first : now.first, here ? was.first_size : now.first_size, here ? was.second : now.second,
                                 here ? was.size : now.size};
            const uint32_t then = here ? p + 4 * CELL_THREADS : 0;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const uint4 quad = next[k];
                if (here || more) fetch(place, then, k);
                if (p + k * CELL_THREADS + t < was.size) four(quad);
            }
        }
        if (!more || c / inner != strip) {
            __syncthreads();
            for (uint32_t i = t; i < sums; i += CELL_THREADS) {
                const int64_t sum = static_cast<int64_t>(low[i]) - MIDDLE + (static_cast<int64_t>(high[i]) << 32);
                low[i] = MIDDLE, high[i] = 0;
                const uint32_t side = i / (own + NOBODIES), inside = i % (own + NOBODIES);
                if (inside < own) flush((strip * BESIDE + side) * static_cast<uint64_t>(own) + inside, sum);
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
