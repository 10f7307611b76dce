// Computes scores of rows and gradients of features, as integers, from entries in tiles.

#pragma once

#include "layouts.cuh"

// Threads of a block that works on tiles; what stands behind the numbers of a tile's side: nobody, once a bank.
constexpr uint32_t TILE_THREADS = 1024, NOBODIES = 32;

// Rows cut into blocks of `height`, features into spans of `width`, both multiples of 32: tiles of entries. Sums are kept of `BESIDE`
// blocks (a strip), or of so many spans.
//
//              span 0    span 1    …        tiles lie strip after strip, in it span after span, in it block after block
//   block 0  │ tile 0  │ tile 2  │
//   block 1  │ tile 1  │ tile 3  │ …        an entry: row << 17 | feature << 2, both in their strips, with nobody behind each block
//   block 2  │ …                            and each span
struct Tiles {  // shared with the host as TileParams
    const uint4* entries;
    const struct TileStep* steps;  // in the order that they are taken
    const uint32_t* ranges;    // of each block of threads: its steps; one more than blocks
    uint32_t height, width;
    uint64_t rows;
    uint32_t outputs, output;  // how many numbers rows and features have, and which one it is
};

// What has the same numbers, or a part of it that the registers hold.
struct __align__(16) TileStep {  // shared with the host
    uint32_t first, first_size, second, size;  // its fours: first_size of them from `first` on, then from `second` on, which counts from 0
    uint32_t numbers;                          // the block or span that they are of
    uint32_t strip;                            // whose sums they are added to
    uint32_t buffer;                           // where its numbers stand: 0 or 1
    uint32_t fresh;                            // whether they have to come
};

constexpr uint32_t BESIDE = 2;

// An entry, and its row and feature as offsets of 4-byte numbers.
__device__ __forceinline__ uint32_t entry_of(uint32_t row, uint32_t feature) { return row << 17 | feature << 2; }
__device__ __forceinline__ uint32_t row_of(uint32_t entry) { return entry >> 15 & 0x1fffc; }
__device__ __forceinline__ uint32_t feature_of(uint32_t entry) { return entry & 0x1fffc; }

// A 64-bit sum is two words of shared memory: an add to the high one only where the low one runs over, which begins in the
// middle of its range so that small sums seldom do.
constexpr uint32_t MIDDLE = 0x80000000u;

// Counts, in the high word at `at`, that an add of `q` to a low one that was `before` ran over. One lane or more of most warps does, so
// this asks entry by entry; a loop over those of a lane takes twice the time of a whole pass.
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

// Adds from[one side of an entry] to the sum of its other side. GRADIENT: from rows to features, a strip of spans from block to block;
// else from features to rows, a strip of blocks from span to span. A step is what has the same numbers: they stand in shared
// memory, those of the next step come there meanwhile, and its entries to registers. `flush(at, sum)` gets the sums
// when a strip is left.
template <bool GRADIENT, typename Flush>
__device__ __forceinline__ void work_tiles(const Tiles& tiles, const int32_t* from, Flush flush) {
    extern __shared__ __align__(16) char memory[];
    const uint32_t t = threadIdx.x;
    const uint32_t numbers = GRADIENT ? tiles.height : tiles.width, own = GRADIENT ? tiles.width : tiles.height;
    const uint32_t sums = BESIDE * (own + NOBODIES);
    uint32_t* const low = reinterpret_cast<uint32_t*>(memory);
    int32_t* const high = reinterpret_cast<int32_t*>(low + sums);
    int32_t* const tables = high + sums;
    const uint32_t counts = static_cast<uint32_t>(__cvta_generic_to_shared(high));
    uint32_t c = tiles.ranges[blockIdx.x];
    const uint32_t last = tiles.ranges[blockIdx.x + 1];
    if (c >= last) return;
    auto fetch_numbers = [&](const TileStep& step) {
        const int4* source = reinterpret_cast<const int4*>(from + static_cast<uint64_t>(step.numbers) * numbers);
        int4* to = reinterpret_cast<int4*>(tables + step.buffer * (numbers + NOBODIES));
#pragma unroll 1
        for (uint32_t p = t; p < numbers / 4; p += TILE_THREADS) copy16(to + p, source + p);
    };
    // A step that is asked for one step ahead is there when it is needed.
    TileStep now = tiles.steps[c], upcoming = tiles.steps[c + 1 < last ? c + 1 : c];
    uint4 next[4];
    auto fetch = [&](int k) {
        const uint32_t p = k * TILE_THREADS + t;
        if (p < now.size) next[k] = __ldcs(tiles.entries + (GRADIENT && p >= now.first_size ? now.second + p : now.first + p));
    };
    fetch_numbers(now);
#pragma unroll
    for (int k = 0; k < 4; k++) fetch(k);
    for (uint32_t i = t; i < sums; i += TILE_THREADS) low[i] = MIDDLE, high[i] = 0;
    if (t < 2 * NOBODIES) tables[t / NOBODIES * (numbers + NOBODIES) + numbers + t % NOBODIES] = 0;
    while (true) {
        const uint32_t strip = now.strip, size = now.size;
        // Places count from the first one in the strip.
        const char* const table =
            reinterpret_cast<const char*>(tables + now.buffer * (numbers + NOBODIES) - now.numbers % BESIDE * (numbers + NOBODIES));
        auto four = [&](const uint4& quad) {
            const uint32_t entry[4] = {quad.x, quad.y, quad.z, quad.w};
            int32_t q[4];
#pragma unroll
            for (int j = 0; j < 4; j++) q[j] = *reinterpret_cast<const int32_t*>(table + (GRADIENT ? row_of(entry[j]) : feature_of(entry[j])));
            uint32_t before[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t* const sum = reinterpret_cast<uint32_t*>(memory + (GRADIENT ? feature_of(entry[j]) : row_of(entry[j])));
                before[j] = atomicAdd(sum, static_cast<uint32_t>(q[j]));
            }
#pragma unroll
            for (int j = 0; j < 4; j++) count_over(before[j], q[j], counts + (GRADIENT ? feature_of(entry[j]) : row_of(entry[j])));
        };
        arrived();
        __syncthreads();
        const bool more = ++c < last;
        if (more) {
            now = upcoming;
            if (now.fresh) fetch_numbers(now);
            upcoming = tiles.steps[c + 1 < last ? c + 1 : c];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint4 quad = next[k];
            if (more) fetch(k);
            if (k * TILE_THREADS + t < size) four(quad);
        }
        if (!more || now.strip != strip) {
            __syncthreads();
            for (uint32_t side = 0; side < BESIDE; side++) {
                for (uint32_t inside = t; inside < own; inside += TILE_THREADS) {
                    const uint32_t i = side * (own + NOBODIES) + inside;
                    const int64_t sum = static_cast<int64_t>(low[i]) - MIDDLE + (static_cast<int64_t>(high[i]) << 32);
                    low[i] = MIDDLE, high[i] = 0;
                    flush((strip * BESIDE + side) * static_cast<uint64_t>(own) + inside, sum);
                }
            }
        }
        if (!more) return;
    }
}

// out[row * outputs + output] = intercept + the row's entries, from coefficients that are integers; without an intercept they are
// added to what stands there. A block's rows are all of one block of threads.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 1)
    linear_tile_scores(Tiles tiles, const int32_t* vector, double scale, const double* intercept, double* out) {
    const double base = intercept ? intercept[tiles.output] : 0.0;
    work_tiles<false>(tiles, vector, [&](uint64_t row, int64_t sum) {
        if (row >= tiles.rows || (sum == 0 && !intercept)) return;
        double* const o = out + row * tiles.outputs + tiles.output;
        *o = (intercept ? base : *o) + (sum == 0 ? 0.0 : static_cast<double>(sum) / scale);
    });
}

// sums[feature * outputs + output] += the integers of its rows.
extern "C" __global__ void __launch_bounds__(TILE_THREADS, 1) linear_tile_gradient(Tiles tiles, const int32_t* whole, int64_t* sums) {
    work_tiles<true>(tiles, whole, [&](uint64_t feature, int64_t sum) {
        if (sum != 0) add(sums + feature * tiles.outputs + tiles.output, sum);
    });
}

// One of several outputs: to[i] = from[i * outputs + output].
extern "C" __global__ void __launch_bounds__(256) linear_output(uint64_t n, uint32_t outputs, uint32_t output, const int32_t* from, int32_t* to) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) to[i] = from[i * outputs + output];
}
