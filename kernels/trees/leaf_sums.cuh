// Ends a tree: finds every row's leaf, and sums the unrounded derivatives of each leaf as integers.

#pragma once

#include "sparse_features.cuh"
#include "evaluate_splits.cuh"

namespace taiga {

// A split test of a tree as rows walk it, in 64 bits: the address of the feature's codes, those up to
// `last` go left, and what else there is to know; or a leaf's number.
//
//   bits 0-48   address: the code of row r is at address + 32 r        0-31  the leaf
//   bits 49-56  last
//   bits 57-60  ZERO_RIGHT, BY_SET, LEAF, SPARSE: then bits 0-47 are not an address, but see sparse_features.cuh
//
// Trees of levels are heaps, the children of entry i being 2i + 1 and 2i + 2; others name them.
constexpr uint64_t ADDRESS = (1ull << 49) - 1, ZERO_RIGHT = 1ull << 57, BY_SET = 1ull << 58, LEAF = 1ull << 59;

__device__ __forceinline__ uint64_t split_test(uint64_t codes, uint32_t last, bool zero_right) {
    return codes | static_cast<uint64_t>(last < 255 ? last : 255) << 49 | (zero_right ? ZERO_RIGHT : 0);
}

struct TreeWalk {  // shared with the host
    const uint64_t* split_tests;
    const uint2* children;  // by entry; none: a heap
    const uint32_t* sets;   // [entry][8]; where there are some
    uint32_t entries;
    uint32_t depth;  // of a heap: its leaves are entry i's less 2^depth - 1
    SparseRows sparse;
};

// The leaf of a row, by split tests of any features.
__device__ __forceinline__ uint32_t leaf_of(const TreeWalk& w, const uint64_t* split_tests, const uint2* children, uint64_t row) {
    uint32_t at = 0;
    for (uint32_t level = 0;; level++) {
        if (!children && level == w.depth) return at - ((1u << w.depth) - 1);
        uint64_t q = split_tests[at];
        if (q & LEAF) return static_cast<uint32_t>(q);
        uint32_t code = code_at(w.sparse, q & (ADDRESS | SPARSE), static_cast<uint32_t>(row));
        bool right = q & BY_SET ? w.sets[at * 8 + (code >> 5)] >> (code & 31) & 1
                                : code > (static_cast<uint32_t>(q >> 49) & 255) || ((q & ZERO_RIGHT) && code == 0);
        if (children) {
            uint2 c = children[at];
            at = right ? c.y : c.x;
        } else {
            at = 2 * at + 1 + right;
        }
    }
}

// Split tests of one block of features, in 32 bits: those of a heap that lies in shared memory.
//
//   bits 0-7  last    8-12  the feature in the block    13  ZERO_RIGHT    31  LEAF, and its number below
constexpr uint32_t SHORT_ZERO_RIGHT = 1u << 13, SHORT_LEAF = 1u << 31;

__device__ __forceinline__ uint32_t short_split_test(uint64_t q, const uint8_t* codes) {
    if (q & LEAF) return SHORT_LEAF | static_cast<uint32_t>(q);
    uint32_t feature = static_cast<uint32_t>(reinterpret_cast<const uint8_t*>(q & ADDRESS) - codes);
    return (static_cast<uint32_t>(q >> 49) & 255) | feature << 8 | (q & ZERO_RIGHT ? SHORT_ZERO_RIGHT : 0);
}

// The leaf of a row whose codes are `words[0]`, `words[stride]`, …: eight words of four.
__device__ __forceinline__ uint32_t short_leaf_of(uint32_t depth, const uint32_t* split_tests, const uint32_t* words, uint32_t stride) {
    uint32_t at = 0;
    for (uint32_t level = 0; level < depth; level++) {
        const uint32_t q = split_tests[at];
        if (q & SHORT_LEAF) return q & ~SHORT_LEAF;
        const uint32_t code = words[(q >> 10 & 7) * stride] >> (q >> 5 & 24) & 255;
        at = 2 * at + 1 + (code > (q & 255) || ((q & SHORT_ZERO_RIGHT) && code == 0));
    }
    return at - ((1u << depth) - 1);
}

// Bits of a limb of a 64-bit sum: up to 4,096 of them are added in 32 bits.
constexpr int LIMB = 20;

struct LeafSumParams {  // shared with the host
    TreeWalk walk;
    uint16_t* leaf;   // [row]
    int64_t* sums;    // [leaf][gradient, hessian, count]
    uint32_t near;    // whether the split tests fit in shared memory
    uint32_t leaves;
    // The sums of a block are kept as 32-bit limbs, in `copies` copies, so that the lanes of a warp
    // do not meet where most rows have one leaf. 0: no room, rows are added to the totals at once.
    uint32_t copies, limbs;
    uint32_t piece;  // rows between flushes
    uint32_t unused;
    const uint8_t* codes;  // of the one block of features that all split tests are of
    // Histograms that the next tree begins with, to be zero.
    uint4* cleared;
    uint64_t clears;
};

// What the last block makes of the sums: the values of the leaves of a tree that has grown whole on the device, as the host will find
// them (boosting/fit.rs). All zero where the tree is void, because its statistics ought to have been wide.
struct LeafValues {  // shared with the host
    Rules rules;
    double learning_rate;
    float* values;  // or none
    float* log;
    uint32_t* arrived;  // zero before and after
};

// Apart, so that the rows' loops keep their registers.
__device__ __noinline__ void value_leaves(const LeafValues& v, const GradientQuantizer& e, const int64_t* sums, uint32_t leaves) {
    for (uint32_t leaf = threadIdx.x; leaf < leaves; leaf += blockDim.x) {
        // Past the first-level cache: other blocks have written them.
        const int64_t g = __ldcg(reinterpret_cast<const long long*>(sums) + 3 * leaf), h = __ldcg(reinterpret_cast<const long long*>(sums) + 3 * leaf + 1);
        const Values of = {static_cast<double>(g) / e.leaf_gradient, static_cast<double>(h) / e.leaf_hessian};
        const double value = own_value(v.rules, of) * v.learning_rate;
        v.values[leaf] = v.log[leaf] = e.wide ? 0.0f : static_cast<float>(value);
    }
}

__device__ __forceinline__ void add_limbs(uint32_t* cell, uint32_t copies, uint32_t limbs, int64_t value) {
    atomicAdd(cell, static_cast<uint32_t>(value) & ((1u << LIMB) - 1));
    if (limbs == 3) {
        atomicAdd(cell + copies, static_cast<uint32_t>(value >> LIMB) & ((1u << LIMB) - 1));
        atomicAdd(cell + 2 * copies, static_cast<uint32_t>(value >> (2 * LIMB)));
    } else {
        atomicAdd(cell + copies, static_cast<uint32_t>(value >> LIMB));
    }
}

// Threads of the blocks that sum leaves.
constexpr uint32_t LEAF_THREADS = 512;

// `HEAP`: a heap of split tests of one block of features, which fits in shared memory.
template <bool HEAP>
__device__ __forceinline__ void sum_leaves(const LossRows& r, const LeafSumParams& l, const GradientQuantizer* quantizer, const LeafValues& v) {
    // In shared memory: the split tests, where they fit, their children, the threads' rows of codes under
    // HEAP, the sums.
    uint64_t* split_tests_here = reinterpret_cast<uint64_t*>(memory);
    uint32_t* short_split_tests = reinterpret_cast<uint32_t*>(memory);
    const uint32_t entries = l.near ? l.walk.entries : 0;
    uint2* children_here = reinterpret_cast<uint2*>(split_tests_here + entries);
    const bool heap = HEAP || !l.walk.children;
    uint32_t* words = reinterpret_cast<uint32_t*>(children_here + (heap ? 0 : entries)) + threadIdx.x;
    uint32_t* cells = words - threadIdx.x + (HEAP ? 8 * LEAF_THREADS : 0);
    const uint32_t per_leaf = 2 * l.limbs + 1, n = l.leaves * per_leaf * l.copies;
    for (uint32_t i = threadIdx.x; i < n; i += LEAF_THREADS) cells[i] = 0;
    follow_on();
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(LEAF_THREADS) + threadIdx.x; i < l.clears; i += gridDim.x * static_cast<uint64_t>(LEAF_THREADS)) {
        l.cleared[i] = make_uint4(0, 0, 0, 0);
    }
    for (uint32_t i = threadIdx.x; i < entries; i += LEAF_THREADS) {
        if (HEAP) {
            short_split_tests[i] = short_split_test(l.walk.split_tests[i], l.codes);
        } else {
            split_tests_here[i] = l.walk.split_tests[i];
            if (!heap) children_here[i] = l.walk.children[i];
        }
    }
    __syncthreads();
    const uint64_t* split_tests = l.near ? split_tests_here : l.walk.split_tests;
    const uint2* children = heap ? nullptr : l.near ? children_here : l.walk.children;
    const double gradient = quantizer->leaf_gradient, hessian = quantizer->leaf_hessian;
    const float* scores = r.scores + r.output * r.rows;
    const uint32_t copy = threadIdx.x & (l.copies - 1), rows = static_cast<uint32_t>(r.rows);
    const uint4* codes = reinterpret_cast<const uint4*>(l.codes);
    for (uint32_t from = blockIdx.x * l.piece; from < rows; from += gridDim.x * l.piece) {
        const uint32_t to = rows - from < l.piece ? rows : from + l.piece;
        for (uint32_t row = from + threadIdx.x; row < to; row += LEAF_THREADS) {
            const float score = scores[row], target = r.target[row];
            uint32_t leaf;
            if (HEAP) {
                const uint4 low = codes[row * 2ull], high = codes[row * 2ull + 1];
                words[0 * LEAF_THREADS] = low.x;
                words[1 * LEAF_THREADS] = low.y;
                words[2 * LEAF_THREADS] = low.z;
                words[3 * LEAF_THREADS] = low.w;
                words[4 * LEAF_THREADS] = high.x;
                words[5 * LEAF_THREADS] = high.y;
                words[6 * LEAF_THREADS] = high.z;
                words[7 * LEAF_THREADS] = high.w;
                leaf = short_leaf_of(l.walk.depth, short_split_tests, words, LEAF_THREADS);
            } else {
                leaf = leaf_of(l.walk, split_tests, children, row);
            }
            l.leaf[row] = static_cast<uint16_t>(leaf);
            Derivatives d = derive_drawn(r, row, score, target);
            if (r.bag && r.bag[row] == 0.0f) continue;
            const int64_t g = to_fixed(d.gradient, gradient), h = to_fixed(d.hessian, hessian);
            if (l.copies) {
                uint32_t* cell = cells + leaf * per_leaf * l.copies + copy;
                add_limbs(cell, l.copies, l.limbs, g);
                add_limbs(cell + l.limbs * l.copies, l.copies, l.limbs, h);
                atomicAdd(cell + 2 * l.limbs * l.copies, 1u);
            } else {
                add(l.sums + leaf * 3, g);
                add(l.sums + leaf * 3 + 1, h);
                add(l.sums + leaf * 3 + 2, 1);
            }
        }
        if (!l.copies) continue;
        __syncthreads();
        // A warp a leaf's sum, a lane a copy.
        const uint32_t lane = threadIdx.x & 31;
        for (uint32_t i = threadIdx.x / 32; i < l.leaves * 3; i += LEAF_THREADS / 32) {
            const uint32_t leaf = i / 3, what = i % 3, limbs = what == 2 ? 1 : l.limbs;
            uint32_t* cell = cells + (leaf * per_leaf + what * l.limbs) * l.copies + lane;
            int64_t total = 0;
            for (uint32_t k = 0; k < limbs && lane < l.copies; k++, cell += l.copies) {
                uint32_t x = *cell;
                *cell = 0;
                // The last limb of a signed number is signed.
                bool is_signed = what < 2 && k + 1 == limbs;
                int64_t part = is_signed ? static_cast<int64_t>(static_cast<int32_t>(x)) : static_cast<int64_t>(x);
                total += part * (1ll << (LIMB * k));
            }
            for (int o = 16; o; o >>= 1) total += __shfl_xor_sync(~0u, total, o);
            if (lane == 0 && total) add(l.sums + leaf * 3 + what, total);
        }
        __syncthreads();
    }
    if (v.values && last_block(v.arrived, gridDim.x)) value_leaves(v, *quantizer, l.sums, l.leaves);
}

extern "C" __global__ void __launch_bounds__(LEAF_THREADS, resident(LEAF_THREADS, 2))
    tree_leaves(const __grid_constant__ LossRows r, const __grid_constant__ LeafSumParams l, const GradientQuantizer* quantizer, const __grid_constant__ LeafValues v) {
    sum_leaves<false>(r, l, quantizer, v);
}

extern "C" __global__ void __launch_bounds__(LEAF_THREADS, resident(LEAF_THREADS, 2))
    tree_leaves_heap(const __grid_constant__ LossRows r, const __grid_constant__ LeafSumParams l, const GradientQuantizer* quantizer, const __grid_constant__ LeafValues v) {
    sum_leaves<true>(r, l, quantizer, v);
}

}  // namespace taiga
