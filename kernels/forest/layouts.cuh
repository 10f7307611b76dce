// The structs that the kernels of forests share with the host, and the draws of features.

#pragma once

#include "../numerics/math.cuh"
#include "../numerics/random.cuh"

using taiga::GOLDEN;
using taiga::mix64;

namespace {

extern __shared__ uint64_t shared[];

constexpr uint32_t NONE = 0xffffffff;
constexpr uint32_t ALL = 0xffffffff;
constexpr uint32_t BINS = 256;
constexpr uint32_t LANES = 32;
// Features of a pass over a node's rows, PASS in the host's file.
constexpr uint32_t PASS = 8;
// Rows of a tile, TILE there.
constexpr uint32_t TILE = 8192;

// What targets are: two classes without weights, classes, numbers (src/core/learners/forest/impurity.rs).
enum TargetKind : uint32_t { TWO, CLASSES, NUMBERS };

enum Criterion : uint32_t { GINI, ENTROPY, SQUARED_ERROR, POISSON };

// Sums over some rows: the sum of their targets (how many are of the second class, of two classes; nothing, of more), their weight in
// units, and how many were drawn.
struct NodeSums {  // shared with the host
    int64_t sum;
    uint64_t weight, count;
};

__device__ __forceinline__ NodeSums operator+(NodeSums a, NodeSums b) { return {a.sum + b.sum, a.weight + b.weight, a.count + b.count}; }
__device__ __forceinline__ NodeSums operator-(NodeSums a, NodeSums b) { return {a.sum - b.sum, a.weight - b.weight, a.count - b.count}; }

struct GrowingNode {  // shared with the host
    uint64_t key;
    uint64_t begin, rows;
    NodeSums total, left;
    double score, threshold;
    uint32_t tree, feature, left_code, right_code, missing_left, children;
};

struct DrawnRow {
    uint32_t row, count;
};

// What all launches of a fit share.
struct ForestFit {  // shared with the host
    const uint8_t* codes;    // of one byte, in blocks of 32 features; or
    const uint32_t* ranks;   // of four, feature after feature
    const uint32_t* bins;    // of each feature
    const uint8_t* first;    // its code of the smallest values; with CATEGORICAL where it is one of categories
    GrowingNode* nodes;
    uint64_t* lanes;         // [node][class]: weights, of kind CLASSES
    uint64_t* sets;          // [node][4]: the categories that go right, where there are any
    uint32_t* next_node;
    // Lists of nodes to be grown, of the next level: few rows, more, many; and how many there are.
    uint32_t* lists[3];
    uint32_t* counts;
    uint64_t rows;
    uint64_t min_data;
    double min_gain;
    const uint64_t* tree_weights;
    // Of each row its class; or its target, and a number that equal targets share; and its weight, where there are any.
    const uint32_t* classes;
    const int64_t* values;
    const uint32_t* levels;
    const uint32_t* weights;
    // x log2 x of small x.
    const double* logs;
    uint64_t log_count;
    // Of the features whose codes are ranks their distinct values, and where each feature's begin.
    const double* distinct;
    const uint64_t* distinct_starts;
    // What a gain is multiplied by to be in the units that gains are told in; 1 for classes.
    double unit;
    uint32_t features, drawn, warp_rows, block_rows;
    uint32_t deeper;  // whether children may be split
    uint32_t class_count, criterion, kind;
};

constexpr uint32_t CATEGORICAL = 2;

__device__ __forceinline__ bool is_categorical(const ForestFit& fit, uint32_t feature) { return (fit.first[feature] & CATEGORICAL) != 0; }

// Whether code 0 stands for missing values.
__device__ __forceinline__ bool has_missing(const ForestFit& fit, uint32_t feature) { return fit.first[feature] == 1; }

__device__ __forceinline__ uint32_t byte_of(const ForestFit& fit, uint32_t feature, uint32_t row) {
    return fit.codes[(static_cast<uint64_t>(feature / LANES) * fit.rows + row) * LANES + feature % LANES];
}

__device__ __forceinline__ uint32_t code_of(const ForestFit& fit, uint32_t feature, uint32_t row) {
    return fit.ranks != nullptr ? fit.ranks[feature * fit.rows + row] : byte_of(fit, feature, row);
}

__device__ __forceinline__ uint64_t weight_of(const ForestFit& fit, DrawnRow entry) {
    return fit.weights != nullptr ? static_cast<uint64_t>(fit.weights[entry.row]) * entry.count : entry.count;
}

// What a row adds.
template <int KIND>
__device__ __forceinline__ NodeSums sums_of(const ForestFit& fit, DrawnRow entry) {
    if (KIND == TWO) {
        return {static_cast<int64_t>(fit.classes[entry.row] * entry.count), entry.count, entry.count};
    }
    int64_t sum = KIND == NUMBERS ? fit.values[entry.row] * static_cast<int64_t>(entry.count) : 0;
    return {sum, weight_of(fit, entry), entry.count};
}

// Another thread's value of any plain type.
template <class T, class Move>
__device__ __forceinline__ T moved(const T& value, Move move) {
    static_assert(sizeof(T) % 4 == 0, "whole words");
    constexpr int WORDS = sizeof(T) / 4;
    uint32_t words[WORDS];
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        words[i] = move(words[i]);
    }
    T out;
    memcpy(&out, words, sizeof(T));
    return out;
}

// The sum of the values of the lanes up to this one, and of all of them.
template <class T>
__device__ __forceinline__ T sum_up_to(T own) {
    const uint32_t lane = threadIdx.x % LANES;
    for (uint32_t step = 1; step < LANES; step *= 2) {
        T other = moved(own, [&](uint32_t word) { return __shfl_up_sync(ALL, word, step); });
        own = lane >= step ? own + other : own;
    }
    return own;
}

template <class T>
__device__ __forceinline__ T of_lane(T value, uint32_t lane) {
    return moved(value, [&](uint32_t word) { return __shfl_sync(ALL, word, lane); });
}

template <class T>
__device__ __forceinline__ T sum_of_warp(T own) {
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        own = own + moved(own, [&](uint32_t word) { return __shfl_xor_sync(ALL, word, step); });
    }
    return own;
}

// Adds the weights of a warp's rows to those of their classes; all of its lanes come here.
__device__ __forceinline__ void add_by_class(uint64_t* sums, bool is, uint32_t cls, uint64_t weight) {
    uint32_t rest = __ballot_sync(ALL, is);
    while (rest != 0) {
        const uint32_t leader = __ffs(rest) - 1;
        const uint32_t leading = __shfl_sync(ALL, cls, leader);
        const bool same = is && cls == leading;
        const uint64_t sum = sum_of_warp(same ? weight : 0);
        if (threadIdx.x % LANES == leader) {
            atomicAdd(reinterpret_cast<unsigned long long*>(sums + cls), static_cast<unsigned long long>(sum));
        }
        rest &= ~__ballot_sync(ALL, same);
    }
}

// Draws without replacement, without a list of all features: what a place holds that was swapped.
struct Draws {
    uint16_t* places;
    uint16_t* values;
    uint32_t count;

    __device__ uint32_t at(uint32_t place) const {
        for (uint32_t i = count; i-- > 0;) {
            if (places[i] == place) {
                return values[i];
            }
        }
        return place;
    }

    __device__ uint32_t next(uint64_t key, uint32_t features) {
        uint64_t bits = mix64(key + count * GOLDEN);
        uint32_t j = count + static_cast<uint32_t>(((bits >> 32) * (features - count)) >> 32);
        uint32_t drawn = at(j), here = at(count);
        places[count] = j;
        values[count] = here;
        count += 1;
        return drawn;
    }
};

// The best split found so far.
struct BestSplit {  // shared with the host
    double score, threshold;
    NodeSums left;
    uint32_t order;  // at a tie the smaller; NONE: there is no split
    uint32_t left_code, right_code, missing_left;  // 2: there is none missing
    uint32_t varies, unused;
};

__device__ __forceinline__ BestSplit no_split() {
    return {-taiga::INFINITE64, 0.0, {0, 0, 0}, NONE, 0, 0, 0, 0, 0};
}

// The best of a warp, in lane 0.
__device__ __forceinline__ BestSplit best_of_warp(BestSplit best) {
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        BestSplit other = moved(best, [&](uint32_t word) { return __shfl_down_sync(ALL, word, step); });
        if (other.order != NONE
            && (best.order == NONE || other.score > best.score || (other.score == best.score && other.order < best.order))) {
            best = other;
        }
    }
    return best;
}

// Whether the targets of some rows differ from that of the first one.
__device__ __forceinline__ bool levels_differ(const ForestFit& fit, const DrawnRow* entries, uint64_t first, uint64_t begin, uint64_t end) {
    uint32_t level = fit.levels[entries[first].row];
    bool differ = false;
    for (uint64_t i = begin + threadIdx.x; i < end && !differ; i += blockDim.x) {
        differ = fit.levels[entries[i].row] != level;
    }
    return differ;
}

}  // namespace
