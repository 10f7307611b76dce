// Finds the best split by one feature, from a node's rows in the order of their codes.
//
//   rows      missing │ 3 3 5 │ 5 8 8 │ 9 …        each warp takes neighbouring rows, with the sums of all before them;
//   gaps                  ^       ^     ^          every gap between two codes is scored

#pragma once

#include "impurity.cuh"

namespace {

// A row: its class, and what it adds.
struct Item {
    uint32_t cls;
    NodeSums sums;
};

template <int KIND>
__device__ __forceinline__ Item item_of(const ForestFit& fit, DrawnRow entry) {
    return {KIND == CLASSES ? fit.classes[entry.row] : 0, sums_of<KIND>(fit, entry)};
}

// Rows sorted in shared memory: code, then place in the node, 32 bits each.
template <int KIND>
struct SharedRows {
    const uint64_t* keys;
    const DrawnRow* entries;
    __device__ __forceinline__ uint32_t code(uint32_t i) const { return keys[i] >> 32; }
    __device__ __forceinline__ Item item(const ForestFit& fit, uint32_t i) const {
        return item_of<KIND>(fit, entries[static_cast<uint32_t>(keys[i])]);
    }
};

// Rows sorted in global memory. Of rows of classes without weights there is the row itself beside the key: its class and how
// often it was drawn, 16 bits each; else its place in the node.
template <int KIND>
struct SortedRows {
    const uint64_t* keys;
    const uint32_t* values;
    const DrawnRow* entries;
    uint64_t mask;
    __device__ __forceinline__ uint32_t code(uint32_t i) const { return keys[i] & mask; }
    __device__ __forceinline__ Item item(const ForestFit& fit, uint32_t i) const {
        if (KIND != NUMBERS && fit.weights == nullptr) {
            uint32_t cls = values[i] >> 16, count = values[i] & 0xffff;
            return {cls, {KIND == TWO ? static_cast<int64_t>(cls * count) : 0, count, count}};
        }
        return item_of<KIND>(fit, entries[values[i]]);
    }
};

// The weights of classes: of a node, of its missing rows, and of the rows before a warp's.
struct Lanes {
    uint64_t *total, *missing, *carry;

    // In `memory`, of so many classes.
    __device__ Lanes(uint64_t* memory, uint32_t classes) : total(memory), missing(memory + classes), carry(memory + 2 * classes) {}

    template <int KIND>
    __device__ void load(const ForestFit& fit, uint64_t id) const {
        for (uint32_t k = threadIdx.x; KIND == CLASSES && k < fit.class_count; k += blockDim.x) {
            total[k] = fit.lanes[id * fit.class_count + k];
        }
    }
};

// What classes come to, in their order; `left(k)`: the weight on the left. By a warp.
template <class Left>
__device__ double inside_of_warp(const ForestFit& fit, Left left, const uint64_t* total, NodeSums sums, NodeSums all) {
    const uint32_t lane = threadIdx.x % LANES;
    double inside = 0.0, nl = static_cast<double>(sums.weight), n = static_cast<double>(all.weight);
    for (uint32_t base = 0; base < fit.class_count; base += LANES) {
        uint32_t k = base + lane;
        double term = k < fit.class_count ? inside_of(fit, left(k), total[k], nl, n) : 0.0;
        for (uint32_t j = 0; j < min(LANES, fit.class_count - base); j++) {
            inside += __shfl_sync(ALL, term, j);
        }
    }
    return inside;
}

// By a block; the result is thread 0's. `missing_first`: whether code 0 stands for missing values.
template <int KIND, class Rows>
__device__ BestSplit walk(const ForestFit& fit, const Rows& rows, uint32_t n, bool missing_first, NodeSums total, const Lanes& lanes) {
    __shared__ NodeSums parts[LANES], missing_parts[LANES];
    __shared__ BestSplit found[LANES];
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const uint32_t classes = fit.class_count;
    const uint32_t last_code = rows.code(n - 1);
    if (rows.code(0) == last_code) {
        return no_split();
    }
    uint32_t first = 0;
    if (missing_first) {
        for (uint32_t end = n; first < end;) {
            uint32_t middle = first + (end - first) / 2;
            if (rows.code(middle) == 0) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
    }
    [[maybe_unused]] uint64_t* own_carry = lanes.carry + warp * classes;
    if constexpr (KIND == CLASSES) {
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            lanes.missing[k] = 0;
        }
        for (uint32_t k = threadIdx.x; k < classes * warps; k += blockDim.x) {
            lanes.carry[k] = 0;
        }
        __syncthreads();
    }

    NodeSums sum{0, 0, 0};
    for (uint32_t base = warp * LANES; base < first; base += warps * LANES) {
        bool is = base + lane < first;
        Item item = is ? rows.item(fit, base + lane) : Item{0, {0, 0, 0}};
        sum = sum + item.sums;
        if (KIND == CLASSES) {
            add_by_class(lanes.missing, is, item.cls, item.sums.weight);
        }
    }
    sum = sum_of_warp(sum);
    if (lane == 0) {
        missing_parts[warp] = sum;
    }
    const uint32_t share = (n - first + warps * LANES - 1) / (warps * LANES) * LANES;
    const uint32_t begin = min(n, first + warp * share), end = min(n, begin + share);
    sum = {0, 0, 0};
    for (uint32_t base = begin; base < end && warp + 1 < warps; base += LANES) {
        bool is = base + lane < end;
        Item item = is ? rows.item(fit, base + lane) : Item{0, {0, 0, 0}};
        sum = sum + item.sums;
        if (KIND == CLASSES) {
            add_by_class(own_carry, is, item.cls, item.sums.weight);
        }
    }
    sum = sum_of_warp(sum);
    if (lane == 0) {
        parts[warp] = sum;
    }
    __syncthreads();
    if constexpr (KIND == CLASSES) {
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            uint64_t before = 0;
            for (uint32_t w = 0; w < warps; w++) {
                uint64_t own = lanes.carry[w * classes + k];
                lanes.carry[w * classes + k] = before;
                before += own;
            }
        }
        __syncthreads();
    }
    NodeSums missing{0, 0, 0}, carry{0, 0, 0};
    for (uint32_t w = 0; w < warps; w++) {
        missing = missing + missing_parts[w];
        carry = w < warp ? carry + parts[w] : carry;
    }

    BestSplit best = no_split();
    const double weight = static_cast<double>(total.weight);
    for (uint32_t base = begin; base < end; base += LANES) {
        const uint32_t i = base + lane;
        const bool is = i < end;
        const Item item = is ? rows.item(fit, i) : Item{0, {0, 0, 0}};
        const uint32_t code = is ? rows.code(i) : 0, before = is && i > first ? rows.code(i - 1) : code;
        const bool edge = before != code;
        [[maybe_unused]] const bool any = __any_sync(ALL, edge);
        const NodeSums up_to = sum_up_to(item.sums);
        const NodeSums left = carry + up_to - item.sums, with = left + missing;
        double inside = 0.0, inside_with = 0.0;
        if constexpr (KIND == CLASSES) {
            if (any) {
                const double nl = static_cast<double>(left.weight), nw = static_cast<double>(with.weight);
                for (uint32_t k = 0; k < classes; k++) {
                    const uint64_t own = is && item.cls == k ? item.sums.weight : 0, far = own_carry[k];
                    uint64_t side = far;
                    if (__any_sync(ALL, own != 0)) {
                        const uint64_t near = sum_up_to(own);
                        side = far + near - own;
                        __syncwarp();
                        if (lane == LANES - 1) {
                            own_carry[k] = far + near;
                        }
                    }
                    inside += inside_of(fit, side, lanes.total[k], nl, weight);
                    if (first > 0) {
                        inside_with += inside_of(fit, side + lanes.missing[k], lanes.total[k], nw, weight);
                    }
                }
            } else {
                add_by_class(own_carry, is, item.cls, item.sums.weight);
            }
            __syncwarp();
        }
        if (edge && first > 0) {
            consider<KIND>(best, fit, with, total, inside_with, 2 * i, before, code, 1);
            consider<KIND>(best, fit, left, total, inside, 2 * i + 1, before, code, 0);
        } else if (edge) {
            consider<KIND>(best, fit, left, total, inside, 2 * i, before, code, 2);
        }
        carry = carry + of_lane(up_to, LANES - 1);
    }
    // All values to the left, and those missing to the right.
    if (first > 0 && warp == 0) {
        const NodeSums left = total - missing;
        double inside = 0.0;
        if (KIND == CLASSES) {
            inside = inside_of_warp(fit, [&](uint32_t k) { return lanes.total[k] - lanes.missing[k]; }, lanes.total, left, total);
        }
        if (lane == 0) {
            consider<KIND>(best, fit, left, total, inside, NONE - 1, last_code, NONE, 0);
        }
    }
    best = best_of_warp(best);
    if (lane == 0) {
        found[warp] = best;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t w = 1; w < warps; w++) {
            const BestSplit& other = found[w];
            if (other.score > best.score || (other.score == best.score && other.order < best.order)) {
                best = other;
            }
        }
    }
    best.varies = 1;
    __syncthreads();
    return best;
}

}  // namespace
