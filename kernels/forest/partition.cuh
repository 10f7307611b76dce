// Decides a node's split, partitions its rows and adds its children.

#pragma once

#include "impurity.cuh"

namespace {

// The split of a node, where its gain is enough: by one thread.
template <int KIND>
__device__ bool decide(const ForestFit& fit, uint32_t id, const BestSplit& best, uint32_t feature) {
    GrowingNode& node = fit.nodes[id];
    if (best.order == NONE) {
        return false;
    }
    const uint64_t* lanes = KIND == CLASSES ? fit.lanes + static_cast<uint64_t>(id) * fit.class_count : nullptr;
    double gain = gain_of<KIND>(fit, best.score, node.total, lanes) / static_cast<double>(fit.tree_weights[node.tree]);
    gain = gain > 0.0 ? gain : 0.0;
    if (!(gain >= fit.min_gain)) {
        return false;
    }
    node.score = best.score;
    node.threshold = best.threshold;
    node.feature = feature;
    node.left_code = best.left_code;
    node.right_code = best.right_code;
    node.left = best.left;
    node.missing_left = best.missing_left == 2 ? best.left.count * 2 >= node.total.count : best.missing_left;
    node.children = atomicAdd(fit.next_node, 2);
    return true;
}

// The categories that go right: those of larger ranks than the left ones', and where most rows do those that are not there
// (rank 255). By a block; `ranks` of 256 codes.
__device__ void write_set(const ForestFit& fit, uint32_t id, const BestSplit& best, const uint8_t* ranks) {
    const GrowingNode& node = fit.nodes[id];
    const bool absent = best.left.count * 2 < node.total.count;
    for (uint32_t code = threadIdx.x; code < BINS; code += blockDim.x) {
        bool right = ranks[code] == 0xff ? absent : ranks[code] > best.left_code;
        uint32_t word = __ballot_sync(ALL, right);
        if (code % LANES == 0) {
            reinterpret_cast<uint32_t*>(fit.sets)[static_cast<uint64_t>(id) * 8 + code / LANES] = word;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint64_t missing = fit.sets[static_cast<uint64_t>(id) * 4] & 1;
        fit.nodes[id].missing_left = missing == 0;
    }
}

// The sums of the left child's classes, to be added to.
__device__ __forceinline__ uint64_t* left_lanes(const ForestFit& fit, const GrowingNode& node) {
    return fit.lanes + static_cast<uint64_t>(node.children) * fit.class_count;
}

__device__ __forceinline__ bool goes_right(const ForestFit& fit, const GrowingNode& node, uint64_t id, uint32_t row) {
    uint32_t code = code_of(fit, node.feature, row);
    if (is_categorical(fit, node.feature)) {
        return (fit.sets[id * 4 + code / 64] >> (code % 64) & 1) != 0;
    }
    uint32_t shift = has_missing(fit, node.feature) && node.missing_left == 0;
    return code - shift > node.left_code - shift;
}

// Adds a child to the nodes, and to the list of its kind where it may be split. By a warp.
__device__ void add_child(const ForestFit& fit, const GrowingNode& parent, uint32_t id, uint32_t side, uint64_t begin, uint64_t rows, NodeSums total) {
    const uint32_t lane = threadIdx.x % LANES;
    bool pure = fit.kind == TWO && (total.sum == 0 || static_cast<uint64_t>(total.sum) == total.count);
    if (fit.kind == CLASSES) {
        const uint64_t* lanes = fit.lanes + static_cast<uint64_t>(id) * fit.class_count;
        for (uint32_t k = lane; k < fit.class_count; k += LANES) {
            pure |= lanes[k] == total.weight;
        }
        pure = __any_sync(ALL, pure);
    }
    if (lane == 0) {
        uint64_t key = mix64(parent.key ^ ((side + 1ull) * 0xD1B54A32D192ED03ull));
        fit.nodes[id] = {key, begin, rows, total, {0, 0, 0}, 0.0, 0.0, parent.tree, NONE, 0, 0, 0, NONE};
        if (fit.deeper != 0 && rows >= 2 && total.count >= 2 * fit.min_data && !pure) {
            uint32_t list = rows <= fit.warp_rows ? 0 : rows <= fit.block_rows ? 1 : 2;
            fit.lists[list][atomicAdd(fit.counts + list, 1)] = id;
        }
    }
}

// Both children, by a warp.
__device__ void add_children(const ForestFit& fit, const GrowingNode& node, uint64_t id, uint64_t left_rows) {
    uint32_t child = node.children;
    if (fit.kind == CLASSES) {
        const uint64_t* all = fit.lanes + id * fit.class_count;
        volatile uint64_t* left = left_lanes(fit, node);
        for (uint32_t k = threadIdx.x % LANES; k < fit.class_count; k += LANES) {
            left[fit.class_count + k] = all[k] - left[k];
        }
        __syncwarp();
    }
    add_child(fit, node, child, 0, node.begin, left_rows, node.left);
    add_child(fit, node, child + 1, 1, node.begin + left_rows, node.rows - left_rows, node.total - node.left);
}

// Partitions a node's rows and adds its children, by one block.
template <int KIND>
__device__ void partition(const ForestFit& fit, uint32_t id, const DrawnRow* from, DrawnRow* to) {
    __shared__ unsigned long long lefts, rights;
    const GrowingNode& node = fit.nodes[id];
    const uint64_t begin = node.begin, end = begin + node.rows;
    const uint32_t lane = threadIdx.x % LANES, lower = (1u << lane) - 1;
    uint64_t* lanes = KIND == CLASSES ? left_lanes(fit, node) : nullptr;
    if (threadIdx.x == 0) {
        lefts = 0;
        rights = 0;
    }
    for (uint32_t k = threadIdx.x; KIND == CLASSES && k < fit.class_count; k += blockDim.x) {
        lanes[k] = 0;
    }
    __syncthreads();
    for (uint64_t i = begin; i < end; i += blockDim.x) {
        uint64_t at = i + threadIdx.x;
        bool is = at < end;
        DrawnRow entry = is ? from[at] : DrawnRow{0, 0};
        bool right = is && goes_right(fit, node, id, entry.row), left = is && !right;
        uint32_t of_left = __ballot_sync(ALL, left), of_right = __ballot_sync(ALL, right);
        unsigned long long first = 0, last = 0;
        if (lane == 0) {
            first = atomicAdd(&lefts, static_cast<unsigned long long>(__popc(of_left)));
            last = atomicAdd(&rights, static_cast<unsigned long long>(__popc(of_right)));
        }
        first = __shfl_sync(ALL, first, 0);
        last = __shfl_sync(ALL, last, 0);
        if (left) {
            to[begin + first + __popc(of_left & lower)] = entry;
        }
        if (right) {
            to[end - 1 - last - __popc(of_right & lower)] = entry;
        }
        if (KIND == CLASSES) {
            add_by_class(lanes, left, left ? fit.classes[entry.row] : 0, left ? weight_of(fit, entry) : 0);
        }
    }
    __syncthreads();
    if (threadIdx.x < LANES) {
        add_children(fit, node, id, lefts);
    }
}

// Partitions nodes with many rows: blocks (node, share of its tiles). `tally`: of each node the rows that went left, and those
// that went right; zero before.
__device__ void partition_large(const ForestFit& fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, unsigned long long* tally) {
    __shared__ uint32_t lefts[8], rights[8];
    __shared__ unsigned long long first_left, first_right;
    const uint64_t id = list[blockIdx.x];
    const GrowingNode& node = fit.nodes[id];
    if (node.feature == NONE) {
        return;
    }
    unsigned long long* own = tally + blockIdx.x * 2;
    const uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, lower = (1u << lane) - 1;
    const uint64_t end = node.begin + node.rows, step = static_cast<uint64_t>(gridDim.y) * blockDim.x;
    for (uint64_t i = node.begin + blockIdx.y * static_cast<uint64_t>(blockDim.x); i < end; i += step) {
        uint64_t at = i + threadIdx.x;
        bool is = at < end;
        DrawnRow entry = is ? from[at] : DrawnRow{0, 0};
        bool right = is && goes_right(fit, node, id, entry.row), left = is && !right;
        uint32_t of_left = __ballot_sync(ALL, left), of_right = __ballot_sync(ALL, right);
        if (lane == 0) {
            lefts[warp] = __popc(of_left);
            rights[warp] = __popc(of_right);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t l = 0, r = 0;
            for (uint32_t w = 0; w < blockDim.x / LANES; w++) {
                uint32_t more_left = lefts[w], more_right = rights[w];
                lefts[w] = l;
                rights[w] = r;
                l += more_left;
                r += more_right;
            }
            first_left = atomicAdd(own, static_cast<unsigned long long>(l));
            first_right = atomicAdd(own + 1, static_cast<unsigned long long>(r));
        }
        __syncthreads();
        if (left) {
            to[node.begin + first_left + lefts[warp] + __popc(of_left & lower)] = entry;
        }
        if (right) {
            to[end - 1 - first_right - rights[warp] - __popc(of_right & lower)] = entry;
        }
        if (fit.kind == CLASSES) {
            add_by_class(left_lanes(fit, node), left, left ? fit.classes[entry.row] : 0, left ? weight_of(fit, entry) : 0);
        }
        __syncthreads();
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) forest_partition_large(
    ForestFit fit, const uint32_t* list, const DrawnRow* from, DrawnRow* to, unsigned long long* tally) {
    partition_large(fit, list, from, to, tally);
}

// The children of nodes with many rows: a warp each.
extern "C" __global__ void forest_children_large(ForestFit fit, const uint32_t* list, uint32_t count, const unsigned long long* tally) {
    uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (i < count && fit.nodes[list[i]].feature != NONE) {
        add_children(fit, fit.nodes[list[i]], list[i], tally[i * 2]);
    }
}

// The rows of each node of a list.
extern "C" __global__ void forest_sizes(const uint32_t* list, uint32_t count, const GrowingNode* nodes, uint64_t* sizes) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        sizes[i] = nodes[list[i]].rows;
    }
}
