// Brings the entries of rows to their tiles and orders them, once in a fit.

#pragma once

#include "tiles.cuh"

constexpr uint32_t EVERYONE = 0xffffffffu;

// The bucket of each entry, and what it is in tiles. A bucket is a tile (counted from the first strip of these rows) and the banks of
// shared memory of row and feature: tile << 10 | row's << 5 | feature's.
extern "C" __global__ void __launch_bounds__(256)
    linear_place(CsrRows lists, uint32_t spans, uint32_t width, uint32_t height, uint32_t* buckets, uint32_t* places) {
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    const uint32_t block = static_cast<uint32_t>(row) / height, inside = static_cast<uint32_t>(row) % height;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e], span = key / width, feature = key - span * width;
        const uint32_t tile = (block / BESIDE * spans + span) * BESIDE + block % BESIDE;
        buckets[e] = tile << 10 | (inside & 31) << 5 | (feature & 31);
        places[e] = entry_of(block % BESIDE * (height + NOBODIES) + inside, span % BESIDE * (width + NOBODIES) + feature);
    }
}

// starts[b] = how many of the n sorted buckets are below b, for b up to `count`.
extern "C" __global__ void __launch_bounds__(256) linear_bounds(uint32_t n, const uint32_t* buckets, uint32_t count, uint32_t* starts) {
    for (uint64_t i = thread_number(); i <= n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint32_t from = i == 0 ? 0 : buckets[i - 1] + 1, to = i == n ? count : buckets[i];
        for (uint32_t b = from; b <= to; b++) starts[b] = static_cast<uint32_t>(i);
    }
}

// The bits that any lane has.
__device__ __forceinline__ uint32_t any_of(uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(EVERYONE, bits);
#else
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) bits |= __shfl_xor_sync(EVERYONE, bits, step);
    return bits;
#endif
}

// The first bit of `bits` from bit `from` on, around; there is one.
__device__ __forceinline__ uint32_t first_from(uint32_t bits, uint32_t from) {
    return (__ffs(__funnelshift_r(bits, bits, from)) - 1 + from) & 31;
}

// Orders the entries of tiles, so that the 32 that a warp works on together have rows of 32 banks and features of 32 banks: a
// step of them is a matching of rows' banks and features' banks, made as a crossbar switch makes it (each row's bank asks for
// one of the features' banks that it has entries of, each of those takes one that asks, and the others ask again: Anderson et al., "High
// speed switch scheduling for local area networks", 1993). Lanes that get none have an entry of nobody. Where steps are no longer
// full, as in the end the fuller banks are left, the rest follows as it is.
//
// Four steps are 32 fours, of which a lane reads one. A warp for each tile; without `entries` only the sizes are counted, in fours.
extern "C" __global__ void __launch_bounds__(256)
    linear_arrange(uint32_t count, uint32_t spans, uint32_t width, uint32_t height, const uint32_t* starts, const uint32_t* places,
                   const uint32_t* quads, uint32_t* sizes, uint4* entries) {
    constexpr int ASK = 4;
    constexpr uint32_t FULL = 96;  // entries of four steps, of 128
    __shared__ uint32_t left_of_warps[8][1024];
    const uint32_t lane = threadIdx.x % 32, below = (1u << lane) - 1;
    uint32_t* const left = left_of_warps[threadIdx.x / 32];
    for (uint32_t c = blockIdx.x * 8 + threadIdx.x / 32; c < count; c += gridDim.x * 8) {
        const uint32_t* const from = starts + c * 1024;
        uint4* const to = entries ? entries + quads[c] : nullptr;
        const uint32_t rows_nobody = c % BESIDE * (height + NOBODIES) + height;
        const uint32_t features_nobody = c / BESIDE % spans % BESIDE * (width + NOBODIES) + width;
        auto nobody = [&](uint32_t row, uint32_t feature) { return entry_of(rows_nobody + row, features_nobody + feature); };
        for (uint32_t b = lane; b < 1024; b += 32) left[b] = from[b + 1] - from[b];
        __syncwarp();
        // Features' banks that the lane's bank of rows has entries of.
        uint32_t some = 0;
        for (uint32_t i = 0; i < 32; i++) {
            const uint32_t j = (i + lane) & 31;
            some |= (left[lane * 32 + j] > 0 ? 1u : 0u) << j;
        }
        const uint32_t all = from[1024] - from[0];
        uint32_t rest = all, holes = 0, size = 0, step = 0, got = 128;
        while (rest > 0 && got >= FULL && holes <= all / 8) {
            uint32_t four[4];
            got = 0;
#pragma unroll
            for (int s = 0; s < 4; s++, step++) {
                uint32_t open = EVERYONE, mine = 32;
                for (int ask = 0; ask < ASK; ask++) {
                    const uint32_t wanted = mine < 32 ? 0 : some & open;
                    const uint32_t turn = ((step * 4 + ask) * 0x9e3779b9u + lane * 0x85ebca6bu) >> 27;
                    const uint32_t j = wanted ? first_from(wanted, turn) : 32 + lane;
                    const uint32_t asking = __match_any_sync(EVERYONE, j);
                    if (wanted && first_from(asking, step & 31) == lane) mine = j;
                    open = ~any_of(mine < 32 ? 1u << mine : 0);
                }
                const uint32_t missing = __ballot_sync(EVERYONE, mine == 32);
                got += 32 - __popc(missing);
                if (mine < 32) {
                    const uint32_t bucket = lane * 32 + mine, more = --left[bucket];
                    if (more == 0) some &= ~(1u << mine);
                    if (to) four[s] = places[from[bucket] + more];
                } else {
                    for (uint32_t before = __popc(missing & below); before > 0; before--) open &= open - 1;
                    four[s] = nobody(lane, __ffs(open) - 1);
                }
            }
            rest -= got;
            holes += 128 - got;
            if (to) to[size + lane] = {four[0], four[1], four[2], four[3]};
            size += 32;
        }
        if (rest > 0) {
            // How many are left in the buckets before each one.
            __syncwarp();
            for (uint32_t i = 0, before = 0; i < 32; i++) {
                const uint32_t n = left[i * 32 + lane];
                uint32_t sum = n;
#pragma unroll
                for (int step = 1; step < 32; step <<= 1) {
                    const uint32_t other = __shfl_up_sync(EVERYONE, sum, step);
                    if (lane >= step) sum += other;
                }
                left[i * 32 + lane] = before + sum - n;
                before += __shfl_sync(EVERYONE, sum, 31);
            }
            __syncwarp();
            const uint32_t of_lane = (rest + 31) / 32;
            for (uint32_t first = 0; first < of_lane; first += 4) {
                uint32_t four[4];
#pragma unroll
                for (uint32_t s = 0; s < 4; s++) {
                    const uint32_t k = lane * of_lane + first + s;
                    four[s] = nobody(lane, lane);
                    if (!to || first + s >= of_lane || k >= rest) continue;
                    uint32_t bucket = 0;
#pragma unroll
                    for (uint32_t half = 512; half > 0; half >>= 1) bucket += left[bucket + half] <= k ? half : 0;
                    four[s] = places[from[bucket] + k - left[bucket]];
                }
                if (to) to[size + lane] = {four[0], four[1], four[2], four[3]};
                size += 32;
            }
        }
        if (lane == 0) sizes[c] = size;
        __syncwarp();
    }
}
