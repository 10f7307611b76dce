// Searches nodes of many rows by segments, a node and a feature each: see sorted.cuh.

#pragma once

#include "sorted.cuh"

// The features drawn for each node of a list; and of numbers whether their targets differ. A block a node.
extern "C" __global__ void forest_features(ForestFit fit, const uint32_t* list, const DrawnRow* from, uint32_t* features, uint32_t* mixed) {
    const GrowingNode& node = fit.nodes[list[blockIdx.x]];
    if (threadIdx.x == 0) {
        uint16_t* places = reinterpret_cast<uint16_t*>(shared);
        Draws draws{places, places + fit.features, 0};
        for (uint32_t i = 0; i < fit.drawn; i++) {
            features[static_cast<uint64_t>(blockIdx.x) * fit.drawn + i] = draws.next(node.key, fit.features);
        }
    }
    bool differ = fit.kind != NUMBERS || levels_differ(fit, from, node.begin, node.begin, node.begin + node.rows);
    differ = __syncthreads_or(differ) != 0;
    if (threadIdx.x == 0) {
        mixed[blockIdx.x] = differ;
    }
}

// The order of the categories of segments that have any; others are left alone.
extern "C" __global__ void forest_ranks(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, const FeatureSegment* segments, uint8_t* ranks) {
    __shared__ uint64_t memory[2 * BINS];
    const FeatureSegment segment = segments[blockIdx.x];
    if (segment.ranks == NONE) {
        return;
    }
    const GrowingNode& node = fit.nodes[list[segment.at]];
    const uint64_t begin = node.begin, end = begin + node.rows;
    uint8_t* out = ranks + static_cast<uint64_t>(segment.ranks) * BINS;
    if (fit.kind == TWO) {
        rank_categories<TWO>(fit, from, begin, end, segment.feature, segment.order, memory, out);
    } else if (fit.kind == CLASSES) {
        rank_categories<CLASSES>(fit, from, begin, end, segment.feature, segment.order, memory, out);
    } else {
        rank_categories<NUMBERS>(fit, from, begin, end, segment.feature, segment.order, memory, out);
    }
}

// The keys of segments, and what is sorted with them: blocks (segment, share of its rows). A key is the segment, then the
// code in `bits` bits.
extern "C" __global__ void forest_keys(
    ForestFit fit,
    const uint32_t* list,
    const DrawnRow* from,
    const FeatureSegment* segments,
    const uint8_t* ranks,
    uint32_t bits,
    uint64_t* keys,
    uint32_t* values) {
    const FeatureSegment segment = segments[blockIdx.x];
    const GrowingNode& node = fit.nodes[list[segment.at]];
    const uint64_t step = static_cast<uint64_t>(gridDim.y) * blockDim.x;
    for (uint64_t i = blockIdx.y * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < node.rows; i += step) {
        const DrawnRow entry = from[node.begin + i];
        uint32_t code = code_of(fit, segment.feature, entry.row);
        code = segment.ranks == NONE ? code : ranks[static_cast<uint64_t>(segment.ranks) * BINS + code];
        keys[segment.offset + i] = static_cast<uint64_t>(blockIdx.x) << bits | code;
        values[segment.offset + i] =
            fit.kind != NUMBERS && fit.weights == nullptr ? fit.classes[entry.row] << 16 | entry.count : static_cast<uint32_t>(i);
    }
}

namespace {

template <int KIND>
__device__ void walk_segment(
    const ForestFit& fit, const uint32_t* list, const DrawnRow* from, const FeatureSegment& segment, uint32_t bits, const uint64_t* keys,
    const uint32_t* values, BestSplit* found) {
    const uint32_t id = list[segment.at];
    const GrowingNode& node = fit.nodes[id];
    Lanes lanes(shared, fit.class_count);
    lanes.load<KIND>(fit, id);
    const SortedRows<KIND> rows{keys + segment.offset, values + segment.offset, from + node.begin, (1ull << bits) - 1};
    const bool missing_first = has_missing(fit, segment.feature);
    const BestSplit best = walk<KIND>(fit, rows, static_cast<uint32_t>(node.rows), missing_first, node.total, lanes);
    if (threadIdx.x == 0) {
        *found = best;
    }
}

template <int KIND>
__device__ void random_segment(const ForestFit& fit, const uint32_t* list, const DrawnRow* from, const FeatureSegment& segment, BestSplit* found) {
    const uint32_t id = list[segment.at];
    const GrowingNode& node = fit.nodes[id];
    Lanes lanes(shared, fit.class_count);
    lanes.load<KIND>(fit, id);
    const uint64_t begin = node.begin, end = begin + node.rows;
    const BestSplit best = search_random<KIND>(fit, from, begin, end, node.key, segment.feature, node.total, lanes);
    if (threadIdx.x == 0) {
        *found = best;
    }
}

// The best split of a node of many rows. `firsts`: of each node its first segment, and one more. Where all features drawn were
// constant, the first of the others that is not goes to `again`, (node, feature), to be searched and chosen once more, with
// `last`.
template <int KIND>
__device__ void choose(
    const ForestFit& fit, const uint32_t* list, const DrawnRow* from, const uint32_t* firsts, const FeatureSegment* segments, const BestSplit* found,
    const uint8_t* ranks, const uint32_t* mixed, uint32_t last, uint32_t* again, uint32_t* again_count) {
    __shared__ uint32_t feature, is_split, table;
    __shared__ BestSplit chosen;
    const uint32_t id = list[blockIdx.x];
    const GrowingNode& node = fit.nodes[id];
    if (mixed[blockIdx.x] == 0) {
        return;
    }
    bool varies = false;
    for (uint32_t s = firsts[blockIdx.x]; s < firsts[blockIdx.x + 1]; s++) {
        varies |= found[s].varies != 0;
    }
    if (!varies) {
        Draws draws{reinterpret_cast<uint16_t*>(shared), reinterpret_cast<uint16_t*>(shared) + fit.features, 0};
        for (uint32_t i = 0; i < fit.features && last == 0; i++) {
            if (threadIdx.x == 0) {
                feature = draws.next(node.key, fit.features);
            }
            __syncthreads();
            if (i >= fit.drawn) {
                const uint32_t first = code_of(fit, feature, from[node.begin].row);
                bool differ = false;
                for (uint64_t j = threadIdx.x; j < node.rows && !differ; j += blockDim.x) {
                    differ = code_of(fit, feature, from[node.begin + j].row) != first;
                }
                if (__syncthreads_or(differ) != 0) {
                    if (threadIdx.x == 0) {
                        uint32_t place = atomicAdd(again_count, 1);
                        again[2 * place] = id;
                        again[2 * place + 1] = feature;
                    }
                    return;
                }
            }
            __syncthreads();
        }
        return;
    }
    if (threadIdx.x == 0) {
        BestSplit best = no_split();
        for (uint32_t s = firsts[blockIdx.x]; s < firsts[blockIdx.x + 1]; s++) {
            if (found[s].score > best.score) {
                best = found[s];
                feature = segments[s].feature;
                table = segments[s].ranks;
            }
        }
        is_split = decide<KIND>(fit, id, best, feature);
        chosen = best;
    }
    __syncthreads();
    if (is_split == 0) {
        return;
    }
    if (table != NONE) {
        write_set(fit, id, chosen, ranks + static_cast<uint64_t>(table) * BINS);
    }
    for (uint32_t k = threadIdx.x; KIND == CLASSES && k < fit.class_count; k += blockDim.x) {
        left_lanes(fit, node)[k] = 0;
    }
}

}  // namespace

#define SEGMENTS(name, kind)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(512) forest_walk_##name(                                                    \
        ForestFit fit, const uint32_t* list, const DrawnRow* from, const FeatureSegment* segments, uint32_t bits, const uint64_t* keys,      \
        const uint32_t* values, BestSplit* found) {                                                                               \
        walk_segment<kind>(fit, list, from, segments[blockIdx.x], bits, keys, values, found + blockIdx.x);                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512) forest_random_##name(                                                  \
        ForestFit fit, const uint32_t* list, const DrawnRow* from, const FeatureSegment* segments, BestSplit* found) {                            \
        random_segment<kind>(fit, list, from, segments[blockIdx.x], found + blockIdx.x);                                     \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) forest_choose_##name(                                                  \
        ForestFit fit, const uint32_t* list, const DrawnRow* from, const uint32_t* firsts, const FeatureSegment* segments,                   \
        const BestSplit* found, const uint8_t* ranks, const uint32_t* mixed, uint32_t last, uint32_t* again,                      \
        uint32_t* again_count) {                                                                                             \
        choose<kind>(fit, list, from, firsts, segments, found, ranks, mixed, last, again, again_count);                      \
    }

SEGMENTS(two, TWO)
SEGMENTS(classes, CLASSES)
SEGMENTS(numbers, NUMBERS)
