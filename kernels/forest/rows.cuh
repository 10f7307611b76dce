// Draws the rows of each tree, and lays out their codes as trees read them.

#pragma once

#include "layouts.cuh"

// codes[block][row][32] from codes[feature][row].
extern "C" __global__ void forest_interleave(uint64_t rows, uint32_t features, const uint8_t* in, uint8_t* out) {
    uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) {
        return;
    }
    for (uint32_t block = 0; block * LANES < features; block++) {
        for (uint32_t f = 0; f < LANES; f++) {
            uint32_t feature = block * LANES + f;
            out[(block * rows + row) * LANES + f] = feature < features ? in[feature * rows + row] : 0;
        }
    }
}

// How often each row is drawn.
extern "C" __global__ void forest_draw(uint64_t key, uint64_t draws, uint32_t rows, uint32_t* counts) {
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < draws; i += step) {
        uint64_t bits = mix64(key + i * GOLDEN);
        atomicAdd(counts + static_cast<uint32_t>(((bits >> 32) * rows) >> 32), 1);
    }
}

namespace {

// The rows that are drawn and weigh something, behind `begin`, where there is `room`; `counts` none: every row once.
// `tally`: how many they are, and their sums; `lanes`: the weights of their classes.
template <int KIND>
__device__ void list_rows(
    const ForestFit& fit, const uint32_t* counts, uint64_t begin, uint64_t room, DrawnRow* entries, unsigned long long* tally, uint64_t* lanes) {
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % LANES;
    uint32_t count = row >= fit.rows ? 0 : counts == nullptr ? 1 : min(counts[row], 0xffffu);
    count = count != 0 && fit.weights != nullptr && fit.weights[row] == 0 ? 0 : count;
    uint32_t drawn = __ballot_sync(ALL, count != 0);
    DrawnRow entry{row, count};
    NodeSums own = count == 0 ? NodeSums{0, 0, 0} : sums_of<KIND>(fit, entry);
    NodeSums sum = sum_of_warp(own);
    unsigned long long first = 0;
    if (lane == 0 && drawn != 0) {
        first = atomicAdd(tally, static_cast<unsigned long long>(__popc(drawn)));
        atomicAdd(tally + 1, static_cast<unsigned long long>(sum.sum));
        atomicAdd(tally + 2, static_cast<unsigned long long>(sum.weight));
        atomicAdd(tally + 3, static_cast<unsigned long long>(sum.count));
    }
    first = __shfl_sync(ALL, first, 0);
    uint64_t at = first + __popc(drawn & ((1u << lane) - 1));
    if (count != 0 && at < room) {
        entries[begin + at] = entry;
    }
    if (KIND == CLASSES) {
        add_by_class(lanes, count != 0, count != 0 ? fit.classes[row] : 0, own.weight);
    }
}

}  // namespace

extern "C" __global__ void forest_entries(
    ForestFit fit, const uint32_t* counts, uint64_t begin, uint64_t room, DrawnRow* entries, unsigned long long* tally, uint64_t* lanes) {
    if (fit.kind == TWO) {
        list_rows<TWO>(fit, counts, begin, room, entries, tally, lanes);
    } else if (fit.kind == CLASSES) {
        list_rows<CLASSES>(fit, counts, begin, room, entries, tally, lanes);
    } else {
        list_rows<NUMBERS>(fit, counts, begin, room, entries, tally, lanes);
    }
}
