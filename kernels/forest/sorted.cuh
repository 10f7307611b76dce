// Searches nodes by sorting their rows by code: every kind of target, criterion and splitter.
//
// A node of few rows is searched and partitioned by one block, which sorts in shared memory. Those of many rows are sorted together
// (by CUB), a segment for each node and feature:
//
//   forest_features ─► forest_keys ─► radix sort ─► forest_walk ─► forest_choose ─► partition_large ─► children_large
//                      (splitter="random": forest_random alone)

#pragma once

#include "partition.cuh"
#include "random_splits.cuh"
#include "evaluate_splits.cuh"

namespace {

// A feature that a node with many rows is searched by.
struct FeatureSegment {  // shared with the host
    uint64_t offset;    // of its rows among those that are sorted together
    uint32_t at;        // of its node in the list
    uint32_t feature;
    uint32_t order;     // of categories: by which class's share
    uint32_t ranks;     // of categories: which table of ranks; else NONE
};

// Sorts `n` keys, a power of two.
__device__ void sort_keys(uint64_t* keys, uint32_t n) {
    for (uint32_t size = 2; size <= n; size *= 2) {
        for (uint32_t step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t pair = threadIdx.x; pair < n / 2; pair += blockDim.x) {
                uint32_t i = 2 * pair - (pair & (step - 1)), j = i + step;
                uint64_t a = keys[i], b = keys[j];
                if ((a > b) == ((i & size) == 0)) {
                    keys[i] = b;
                    keys[j] = a;
                }
            }
        }
    }
    __syncthreads();
}

// The order of a node's categories: `ranks[code]`, 255 for those that are not there. `memory`: 512 words. By a block.
template <int KIND>
__device__ void rank_categories(
    const ForestFit& fit, const DrawnRow* entries, uint64_t begin, uint64_t end, uint32_t feature, uint32_t order, uint64_t* memory, uint8_t* ranks) {
    unsigned long long *sums = reinterpret_cast<unsigned long long*>(memory), *weights = sums + BINS;
    const uint32_t cls = fit.class_count == 2 ? 1 : order;
    __syncthreads();
    for (uint32_t code = threadIdx.x; code < 2 * BINS; code += blockDim.x) {
        sums[code] = 0;
    }
    __syncthreads();
    for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const DrawnRow entry = entries[i];
        const uint32_t code = code_of(fit, feature, entry.row);
        const Item item = item_of<KIND>(fit, entry);
        const uint64_t own = KIND != CLASSES ? static_cast<uint64_t>(item.sums.sum) : item.cls == cls ? item.sums.weight : 0;
        atomicAdd(weights + code, static_cast<unsigned long long>(item.sums.weight));
        if (own != 0) {
            atomicAdd(sums + code, static_cast<unsigned long long>(own));
        }
    }
    __syncthreads();
    // Means as integers of the same order, -0.0 before 0.0.
    for (uint32_t code = threadIdx.x; code < BINS; code += blockDim.x) {
        double sum = KIND == NUMBERS ? static_cast<double>(static_cast<int64_t>(sums[code])) : static_cast<double>(sums[code]);
        uint64_t bits = taiga::bits_of(sum / static_cast<double>(weights[code]));
        sums[code] = bits >> 63 ? ~bits : bits | 1ull << 63;
    }
    __syncthreads();
    for (uint32_t code = threadIdx.x; code < BINS; code += blockDim.x) {
        uint32_t rank = 0;
        for (uint32_t other = 0; other < BINS; other++) {
            rank += weights[other] != 0 && (sums[other] < sums[code] || (sums[other] == sums[code] && other < code));
        }
        ranks[code] = weights[code] != 0 ? rank : 0xff;
    }
    __syncthreads();
}

// How many ways there are to put the categories of a feature in order; 1 for numeric ones.
template <int KIND>
__device__ __forceinline__ uint32_t orders_of(const ForestFit& fit, uint32_t feature) {
    return KIND == CLASSES && fit.class_count > 2 && is_categorical(fit, feature) ? fit.class_count : 1;
}

// Searches and partitions a node; there are keys for `room` rows in shared memory.
template <int KIND, bool RANDOM>
__device__ void grow_sorted(const ForestFit& fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, uint32_t room) {
    const uint32_t classes = KIND == CLASSES ? fit.class_count : 0;
    uint64_t* keys = shared;
    Lanes lanes(keys + room, classes);
    uint64_t* groups = lanes.carry + (blockDim.x / LANES) * classes;
    uint8_t* ranks = reinterpret_cast<uint8_t*>(groups + (fit.sets != nullptr ? 2 * BINS : 0));
    uint8_t* best_ranks = ranks + (fit.sets != nullptr ? BINS : 0);
    uint16_t* places = reinterpret_cast<uint16_t*>(best_ranks + (fit.sets != nullptr ? BINS : 0));
    __shared__ uint32_t drawn, more, taken, is_split;
    const uint32_t id = list[blockIdx.x];
    const GrowingNode& node = fit.nodes[id];
    const uint64_t begin = node.begin, end = begin + node.rows, key = node.key;
    const NodeSums total = node.total;
    const uint32_t n = end - begin;
    if (KIND == NUMBERS && __syncthreads_or(levels_differ(fit, from, begin, begin, end)) == 0) {
        return;
    }
    lanes.load<KIND>(fit, id);
    Draws draws{places, places + fit.features, 0};
    uint32_t padded = 2;
    while (padded < n) {
        padded *= 2;
    }
    // Thread 0 has the block's.
    BestSplit best = no_split();
    uint32_t best_feature = 0;
    for (uint32_t done = 1;; done++) {
        if (threadIdx.x == 0) {
            drawn = draws.next(key, fit.features);
        }
        __syncthreads();
        // What thread 0 may draw anew while other warps still are in this turn.
        const uint32_t feature = drawn, orders = orders_of<KIND>(fit, feature);
        const bool categories = !RANDOM && is_categorical(fit, feature);
        for (uint32_t order = 0; order < orders; order++) {
            BestSplit found;
            if (RANDOM) {
                found = search_random<KIND>(fit, from, begin, end, key, feature, total, lanes);
            } else {
                if (categories) {
                    rank_categories<KIND>(fit, from, begin, end, feature, order, groups, ranks);
                }
                for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) {
                    uint64_t code = i < n ? code_of(fit, feature, from[begin + i].row) : NONE;
                    keys[i] = (i < n && categories ? ranks[code] : code) << 32 | i;
                }
                sort_keys(keys, padded);
                found = walk<KIND>(fit, SharedRows<KIND>{keys, from + begin}, n, has_missing(fit, feature), total, lanes);
            }
            if (threadIdx.x == 0) {
                uint32_t varies = best.varies | found.varies;
                taken = found.score > best.score;
                if (taken) {
                    best = found;
                    best_feature = feature;
                }
                best.varies = varies;
                more = done < fit.features && (done < fit.drawn || varies == 0);
            }
            __syncthreads();
            for (uint32_t code = threadIdx.x; categories && taken && code < BINS; code += blockDim.x) {
                best_ranks[code] = ranks[code];
            }
            __syncthreads();
        }
        if (more == 0) {
            break;
        }
    }
    __shared__ BestSplit chosen;
    if (threadIdx.x == 0) {
        is_split = decide<KIND>(fit, id, best, best_feature);
        chosen = best;
    }
    __syncthreads();
    if (is_split == 0) {
        return;
    }
    if (fit.sets != nullptr && is_categorical(fit, node.feature)) {
        write_set(fit, id, chosen, best_ranks);
        __syncthreads();
    }
    partition<KIND>(fit, id, from, to);
}

}  // namespace

#define GROW_SORTED(name, kind, random)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256) forest_grow_sorted_##name(                                                     \
        ForestFit fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, uint32_t room) {                                        \
        grow_sorted<kind, random>(fit, list, from, to, room);                                                                   \
    }

GROW_SORTED(two, TWO, false)
GROW_SORTED(classes, CLASSES, false)
GROW_SORTED(numbers, NUMBERS, false)
GROW_SORTED(two_random, TWO, true)
GROW_SORTED(classes_random, CLASSES, true)
GROW_SORTED(numbers_random, NUMBERS, true)
