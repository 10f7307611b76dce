// Searches nodes by the bins of their rows' codes in shared memory: two classes or numbers without weights, borders, numeric
// features.

#pragma once

#include <type_traits>

#include "partition.cuh"

namespace {

// Sums over rows without weights: of their targets, and how many were drawn.
struct Pair {
    int64_t sum;
    uint64_t count;
    __device__ __forceinline__ NodeSums sums() const { return {sum, count, count}; }
};

__device__ __forceinline__ Pair operator+(Pair a, Pair b) { return {a.sum + b.sum, a.count + b.count}; }
__device__ __forceinline__ Pair operator-(Pair a, Pair b) { return {a.sum - b.sum, a.count - b.count}; }

// The best split by one feature, by a warp: `bin(code)` are the sums of a code.
template <int KIND, class Bin>
__device__ BestSplit search(const ForestFit& fit, uint32_t feature, NodeSums total, Bin bin) {
    const uint32_t lane = threadIdx.x % LANES;
    const uint32_t bins = fit.bins[feature], first = fit.first[feature];
    const Pair missing = first == 1 ? bin(0) : Pair{0, 0};
    BestSplit best = no_split();
    Pair carry{0, 0};
    uint32_t last = NONE, seen = 0;
    for (uint32_t from = 0; from < bins; from += LANES) {
        uint32_t code = from + lane;
        Pair own = code >= first && code < bins ? bin(code) : Pair{0, 0};
        Pair sum = sum_up_to(own);
        uint32_t present = __ballot_sync(ALL, own.count != 0);
        uint32_t below = present & ((1u << lane) - 1);
        Pair left = carry + sum - own;
        if (own.count != 0 && left.count != 0) {
            uint32_t before = below != 0 ? from + 31 - __clz(below) : last;
            if (missing.count != 0) {
                consider<KIND>(best, fit, (left + missing).sums(), total, 0.0, code * 2, before, code, 1);
                consider<KIND>(best, fit, left.sums(), total, 0.0, code * 2 + 1, before, code, 0);
            } else {
                consider<KIND>(best, fit, left.sums(), total, 0.0, code * 2, before, code, 2);
            }
        }
        last = present != 0 ? from + 31 - __clz(present) : last;
        seen += __popc(present);
        carry = carry + of_lane(sum, LANES - 1);
    }
    if (missing.count != 0 && last != NONE && lane == 0) {
        consider<KIND>(best, fit, carry.sums(), total, 0.0, 2 * BINS, last, NONE, 0);
    }
    best = best_of_warp(best);
    best.varies = seen > 1 || (missing.count != 0 && seen > 0);
    return best;
}

// The bins of a pass in shared memory: sums, of 32 bits for classes and of 64 for numbers, then counts.
template <int KIND>
struct Bins {
    using Word = typename std::conditional<KIND == NUMBERS, unsigned long long, uint32_t>::type;
    Word* sums;
    uint32_t* counts;

    __device__ Bins(void* memory, uint32_t features)
        : sums(static_cast<Word*>(memory)), counts(reinterpret_cast<uint32_t*>(sums + features * BINS)) {}

    __device__ void clear(uint32_t features) {
        for (uint32_t i = threadIdx.x; i < features * BINS; i += blockDim.x) {
            sums[i] = 0;
            counts[i] = 0;
        }
    }

    __device__ Pair at(uint32_t i) const { return {static_cast<int64_t>(sums[i]), counts[i]}; }

    // Adds the rows of a node, or of a tile of it.
    __device__ void add(const ForestFit& fit, const DrawnRow* entries, uint64_t begin, uint64_t end, const uint32_t* features, uint32_t count) {
        for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
            DrawnRow entry = entries[i];
            Word word;
            if (KIND == NUMBERS) {
                word = static_cast<Word>(fit.values[entry.row] * static_cast<int64_t>(entry.count));
            } else {
                word = fit.classes[entry.row] * entry.count;
            }
            for (uint32_t f = 0; f < count; f++) {
                uint32_t bin = f * BINS + byte_of(fit, features[f], entry.row);
                atomicAdd(counts + bin, entry.count);
                if (word != 0) {
                    atomicAdd(sums + bin, word);
                }
            }
        }
    }
};

// Searches a node and, where its rows are few, partitions them. `sums`: of nodes with many rows, the sums of the first
// features drawn, [node][feature][bin], behind them whether their targets differ; and then the rows are left to others.
template <int KIND>
__device__ void grow(const ForestFit& fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, const long2* sums, const uint32_t* mixed) {
    // Bins and draws; what the warps find.
    const uint32_t pass = min(PASS, fit.drawn);
    Bins<KIND> bins(shared, pass);
    uint16_t *places = reinterpret_cast<uint16_t*>(bins.counts + pass * BINS), *values = places + fit.features;
    __shared__ uint32_t features[PASS];
    __shared__ BestSplit found[PASS];
    __shared__ uint32_t count, more, is_split;
    const uint32_t warp = threadIdx.x / LANES, warps = blockDim.x / LANES, lane = threadIdx.x % LANES;
    const uint32_t id = list[blockIdx.x];
    const GrowingNode& node = fit.nodes[id];
    const uint64_t begin = node.begin, end = begin + node.rows, key = node.key;
    const NodeSums total = node.total;
    const bool large = sums != nullptr;
    Draws draws{places, values, 0};
    if (KIND == NUMBERS) {
        bool differ = large ? mixed[blockIdx.x] != 0 : levels_differ(fit, from, begin, begin, end);
        if (__syncthreads_or(differ) == 0) {
            return;
        }
    }
    // Thread 0 has the block's.
    BestSplit best = no_split();
    uint32_t best_feature = 0;
    if (threadIdx.x == 0) {
        more = 1;
    }
    // Up to PASS features at a time: those to be drawn, then one by one while all were constant.
    for (uint32_t done = 0;;) {
        __syncthreads();
        if (more == 0) {
            break;
        }
        if (threadIdx.x == 0) {
            count = done < fit.drawn ? min(PASS, fit.drawn - done) : 1;
            for (uint32_t i = 0; i < count; i++) {
                features[i] = draws.next(key, fit.features);
            }
        }
        __syncthreads();
        bool summed = large && done < fit.drawn;
        if (!summed) {
            bins.clear(count);
            __syncthreads();
            bins.add(fit, from, begin, end, features, count);
            __syncthreads();
        }
        for (uint32_t f = warp; f < count; f += warps) {
            BestSplit result;
            if (summed) {
                const long2* at = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done + f) * BINS;
                result = search<KIND>(fit, features[f], total, [&](uint32_t code) {
                    return Pair{at[code].x, static_cast<uint64_t>(at[code].y)};
                });
            } else {
                result = search<KIND>(fit, features[f], total, [&](uint32_t code) { return bins.at(f * BINS + code); });
            }
            if (lane == 0) {
                found[f] = result;
            }
        }
        __syncthreads();
        done += count;
        if (threadIdx.x == 0) {
            uint32_t varies = best.varies;
            for (uint32_t f = 0; f < count; f++) {
                varies |= found[f].varies;
                if (found[f].score > best.score) {
                    best = found[f];
                    best_feature = features[f];
                }
            }
            best.varies = varies;
            more = done < fit.features && (done < fit.drawn || varies == 0);
        }
    }
    if (threadIdx.x == 0) {
        is_split = decide<KIND>(fit, id, best, best_feature);
    }
    __syncthreads();
    if (is_split != 0 && !large) {
        partition<KIND>(fit, id, from, to);
    }
}

// The sums of nodes with many rows, and whether their targets differ: blocks (node, share of its tiles).
template <int KIND>
__device__ void sum_large(const ForestFit& fit, const uint32_t* list, const DrawnRow* from, unsigned long long* sums, uint32_t* mixed) {
    const uint32_t pass = min(PASS, fit.drawn);
    Bins<KIND> bins(shared, pass);
    uint16_t *places = reinterpret_cast<uint16_t*>(bins.counts + pass * BINS), *values = places + fit.features;
    __shared__ uint32_t features[PASS];
    const GrowingNode& node = fit.nodes[list[blockIdx.x]];
    const uint64_t tiles = (node.rows + TILE - 1) / TILE;
    if (blockIdx.y >= tiles) {
        return;
    }
    Draws draws{places, values, 0};
    for (uint32_t done = 0; done < fit.drawn; done += PASS) {
        const uint32_t count = min(PASS, fit.drawn - done);
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t i = 0; i < count; i++) {
                features[i] = draws.next(node.key, fit.features);
            }
        }
        bins.clear(count);
        __syncthreads();
        for (uint64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
            uint64_t begin = node.begin + tile * TILE, end = min(begin + TILE, node.begin + node.rows);
            bins.add(fit, from, begin, end, features, count);
            if (KIND == NUMBERS && done == 0 && levels_differ(fit, from, node.begin, begin, end)) {
                mixed[blockIdx.x] = 1;
            }
        }
        __syncthreads();
        unsigned long long* out = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done) * BINS * 2;
        for (uint32_t i = threadIdx.x; i < count * BINS; i += blockDim.x) {
            if (bins.counts[i] != 0) {
                atomicAdd(out + 2 * i, static_cast<unsigned long long>(bins.sums[i]));
                atomicAdd(out + 2 * i + 1, static_cast<unsigned long long>(bins.counts[i]));
            }
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) forest_grow_two(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, const long2* sums, const uint32_t* mixed) {
    grow<TWO>(fit, list, from, to, sums, mixed);
}

extern "C" __global__ void __launch_bounds__(256) forest_grow_numbers(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, const long2* sums, const uint32_t* mixed) {
    grow<NUMBERS>(fit, list, from, to, sums, mixed);
}

extern "C" __global__ void __launch_bounds__(512) forest_sum_two(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, unsigned long long* sums, uint32_t* mixed) {
    sum_large<TWO>(fit, list, from, sums, mixed);
}

extern "C" __global__ void __launch_bounds__(512) forest_sum_numbers(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, unsigned long long* sums, uint32_t* mixed) {
    sum_large<NUMBERS>(fit, list, from, sums, mixed);
}
