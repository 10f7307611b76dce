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
//   block 1  │ cell 1  │ cell 3  │ …        an entry: row and feature in their strips, 16 bits each, with nobody behind each block
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

// A 64-bit sum is 32 bits of shared memory, and 16 beside those of its neighbour that count how often they ran over. They begin in the
// middle of their range so that small sums seldom do. The lower neighbour's count borrows from the higher one's.
constexpr uint32_t MIDDLE = 0x80000000u;

// From this many times on a sum's count is passed on at once. Far below 2^15, as all threads may come at a time.
constexpr int32_t OFTEN = 1 << 13;

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
// when a strip is left, `pass_on(at, sum)` large parts of them before.
template <bool GRADIENT, typename Flush, typename PassOn>
__device__ __forceinline__ void work_cells(const Cells& cells, const int32_t* from, Flush flush, PassOn pass_on) {
    extern __shared__ __align__(16) char memory[];
    const uint32_t t = threadIdx.x;
    const uint32_t inner = GRADIENT ? cells.blocks : cells.tiles;  // steps of a strip
    const uint32_t numbers = GRADIENT ? cells.height : cells.width, own = GRADIENT ? cells.width : cells.height;
    const uint32_t sums = BESIDE * (own + NOBODIES);
    uint32_t* const low = reinterpret_cast<uint32_t*>(memory);
    int32_t* const high = reinterpret_cast<int32_t*>(low + sums);
    int32_t* const tables = high + sums / 2;
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
    for (uint32_t i = t; i < sums; i += CELL_THREADS) low[i] = MIDDLE;
    for (uint32_t i = t; i < sums / 2; i += CELL_THREADS) high[i] = 0;
    if (t < 2 * NOBODIES) tables[t / NOBODIES * (numbers + NOBODIES) + numbers + t % NOBODIES] = 0;
    auto index_of = [&](uint32_t strip, uint32_t at) {
        return (strip * BESIDE + at / (own + NOBODIES)) * static_cast<uint64_t>(own) + at % (own + NOBODIES);
    };
    while (true) {
        const uint32_t strip = c / inner;
        // Passes on a count that is large; only one of many who see that does.
        auto check = [&](uint32_t at, int32_t both) {
            while (true) {
                const int32_t count = at & 1 ? both >> 16 : static_cast<int16_t>(both);
                if (count < OFTEN && count > -OFTEN) return;
                const uint32_t rest = static_cast<uint32_t>(both) - (static_cast<uint32_t>(count) << (at & 1) * 16);
                const int32_t is = atomicCAS(high + at / 2, both, static_cast<int32_t>(rest));
                if (is == both) return pass_on(index_of(strip, at), static_cast<int64_t>(count) << 32);
                both = is;
            }
        };
        // Indices count from the first one in the strip.
        const int32_t* const table = tables + (c & 1) * (numbers + NOBODIES) - c % inner % BESIDE * (numbers + NOBODIES);
        auto four = [&](const uint4& quad) {
            const uint32_t entry[4] = {quad.x, quad.y, quad.z, quad.w};
            int32_t q[4], over[4];
            uint32_t before[4];
#pragma unroll
            for (int j = 0; j < 4; j++) q[j] = table[GRADIENT ? entry[j] >> 16 : entry[j] & 0xffff];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                before[j] = atomicAdd(low + (GRADIENT ? entry[j] & 0xffff : entry[j] >> 16), static_cast<uint32_t>(q[j]));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) over[j] = (q[j] >> 31) + (before[j] + static_cast<uint32_t>(q[j]) < before[j] ? 1 : 0);
            if ((over[0] | over[1]) | (over[2] | over[3])) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (!over[j]) continue;
                    const uint32_t to = GRADIENT ? entry[j] & 0xffff : entry[j] >> 16, shift = (to & 1) * 16;
                    const int32_t was = atomicAdd(high + to / 2, static_cast<int32_t>(static_cast<uint32_t>(over[j]) << shift));
                    if (GRADIENT) check(to, was);
                }
            }
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
            for (uint32_t i = t; i < sums / 2; i += CELL_THREADS) {
                const int32_t both = high[i], counts[2] = {static_cast<int16_t>(both), (both - static_cast<int16_t>(both)) >> 16};
                high[i] = 0;
#pragma unroll
                for (uint32_t k = 0; k < 2; k++) {
                    const uint32_t at = 2 * i + k, inside = at % (own + NOBODIES);
                    const int64_t sum = static_cast<int64_t>(low[at]) - MIDDLE + (static_cast<int64_t>(counts[k]) << 32);
                    low[at] = MIDDLE;
                    if (inside < own) flush(index_of(strip, at), sum);
                }
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
    }, [](uint64_t, int64_t) {});
}

// sums[feature * outputs + output] += the integers of its rows.
extern "C" __global__ void __launch_bounds__(CELL_THREADS, 1) linear_cells_gradient(Cells cells, const int32_t* whole, int64_t* sums) {
    auto flush = [&](uint64_t feature, int64_t sum) {
        if (sum != 0) add(sums + feature * cells.outputs + cells.output, sum);
    };
    work_cells<true>(cells, whole, flush, flush);
}

// One of several outputs: to[i] = from[i * outputs + output].
extern "C" __global__ void __launch_bounds__(256) linear_output(uint64_t n, uint32_t outputs, uint32_t output, const int32_t* from, int32_t* to) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) to[i] = from[i * outputs + output];
}
