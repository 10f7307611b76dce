// The end of a tree: every row's leaf, and the leaves' sums from the unrounded derivatives.

#pragma once

#include "common.cuh"

namespace taiga {

// A question of a tree as rows walk it, in 64 bits: the address of the feature's codes, those up to
// `last` go left, and what else there is to know; or a leaf's number.
//
//   bits 0-48   address: the code of row r is at address + 32 r        0-31  the leaf
//   bits 49-56  last
//   bits 57-59  ZERO_RIGHT, BY_SET, LEAF
//
// Trees of levels are heaps, the children of entry i being 2i + 1 and 2i + 2; others name them.
constexpr uint64_t ADDRESS = (1ull << 49) - 1, ZERO_RIGHT = 1ull << 57, BY_SET = 1ull << 58, LEAF = 1ull << 59;

__device__ __forceinline__ uint64_t question(const uint8_t* codes, uint32_t last, bool zero_right) {
    return reinterpret_cast<uint64_t>(codes) | static_cast<uint64_t>(last < 255 ? last : 255) << 49 | (zero_right ? ZERO_RIGHT : 0);
}

struct Walk {
    const uint64_t* questions;
    const uint2* children;  // by entry; none: a heap
    const uint32_t* sets;   // [entry][8]; where there are some
    uint32_t entries;
    uint32_t depth;  // of a heap: its leaves are entry i's less 2^depth - 1
};

// A row's code of feature `f` out of its block's 32.
__device__ __forceinline__ uint32_t code_of(uint4 low, uint4 high, uint32_t f) {
    uint4 half = f & 16 ? high : low;
    uint32_t pair = f & 8 ? (f & 4 ? half.w : half.z) : (f & 4 ? half.y : half.x);
    return pair >> (f % 4 * 8) & 0xff;
}

// What is read of a row before it is walked.
struct Row {
    float score, target;
    uint4 low, high;  // its codes, where all questions are of one block of features

    template <bool ONE>
    __device__ __forceinline__ void read(const Rows& r, const float* scores, const uint8_t* codes, uint64_t row) {
        score = scores[row];
        target = r.target[row];
        if (ONE) {
            low = reinterpret_cast<const uint4*>(codes)[row * 2];
            high = reinterpret_cast<const uint4*>(codes)[row * 2 + 1];
        }
    }
};

// The leaf of a row. `ONE`: all questions are of one block of features, at `codes`.
template <bool ONE>
__device__ __forceinline__ uint32_t leaf_of(const Walk& w, const uint64_t* questions, const uint2* children, uint64_t row, const uint8_t* codes,
                                            uint4 low, uint4 high) {
    uint32_t at = 0;
    for (uint32_t level = 0;; level++) {
        if (!children && level == w.depth) return at - ((1u << w.depth) - 1);
        uint64_t q = questions[at];
        if (q & LEAF) return static_cast<uint32_t>(q);
        const uint8_t* feature = reinterpret_cast<const uint8_t*>(q & ADDRESS);
        uint32_t code = ONE ? code_of(low, high, static_cast<uint32_t>(feature - codes)) : feature[row * LANES];
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

// Bits of a limb of a 64-bit sum: up to 4,096 of them are added in 32 bits.
constexpr int LIMB = 20;

struct Leaves {
    Walk walk;
    uint16_t* leaf;   // [row]
    int64_t* sums;    // [leaf][gradient, hessian, count]
    uint32_t near;    // whether the questions fit in shared memory
    uint32_t leaves;
    // The sums of a block are kept as 32-bit limbs, in `copies` copies, so that the lanes of a warp
    // do not meet where most rows have one leaf. 0: no room, rows are added to the totals at once.
    uint32_t copies, limbs;
    uint32_t piece;  // rows between flushes
    uint32_t unused;
    const uint8_t* codes;  // of the one block of features that all questions are of
};

__device__ __forceinline__ void add_limbs(uint32_t* cell, uint32_t copies, uint32_t limbs, int64_t value) {
    atomicAdd(cell, static_cast<uint32_t>(value) & ((1u << LIMB) - 1));
    if (limbs == 3) {
        atomicAdd(cell + copies, static_cast<uint32_t>(value >> LIMB) & ((1u << LIMB) - 1));
        atomicAdd(cell + 2 * copies, static_cast<uint32_t>(value >> (2 * LIMB)));
    } else {
        atomicAdd(cell + copies, static_cast<uint32_t>(value >> LIMB));
    }
}

template <bool ONE>
__device__ __forceinline__ void sum_leaves(const Rows& r, const Leaves& l, const Encoding* encoding) {
    uint64_t* questions_here = reinterpret_cast<uint64_t*>(memory);
    const uint32_t entries = l.near ? l.walk.entries : 0;
    uint2* children_here = reinterpret_cast<uint2*>(questions_here + entries);
    const bool heap = !l.walk.children;
    uint32_t* cells = reinterpret_cast<uint32_t*>(children_here + (heap ? 0 : entries));
    const uint32_t per_leaf = 2 * l.limbs + 1, n = l.leaves * per_leaf * l.copies;
    for (uint32_t i = threadIdx.x; i < entries; i += blockDim.x) {
        questions_here[i] = l.walk.questions[i];
        if (!heap) children_here[i] = l.walk.children[i];
    }
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) cells[i] = 0;
    __syncthreads();
    const uint64_t* questions = l.near ? questions_here : l.walk.questions;
    const uint2* children = heap ? nullptr : l.near ? children_here : l.walk.children;
    const double gradient = encoding->leaf_gradient, hessian = encoding->leaf_hessian;
    const float* scores = r.scores + r.output * r.rows;
    const uint32_t copy = threadIdx.x & (l.copies - 1);
    for (uint64_t from = static_cast<uint64_t>(blockIdx.x) * l.piece; from < r.rows; from += static_cast<uint64_t>(gridDim.x) * l.piece) {
        uint64_t to = from + l.piece < r.rows ? from + l.piece : r.rows;
        // The next row is read while this one is walked.
        Row next;
        if (from + threadIdx.x < to) next.read<ONE>(r, scores, l.codes, from + threadIdx.x);
        for (uint64_t row = from + threadIdx.x; row < to; row += blockDim.x) {
            const Row own = next;
            if (row + blockDim.x < to) next.read<ONE>(r, scores, l.codes, row + blockDim.x);
            uint32_t leaf = leaf_of<ONE>(l.walk, questions, children, row, l.codes, own.low, own.high);
            Derivatives d = derive_drawn(r, row, own.score, own.target);
            l.leaf[row] = static_cast<uint16_t>(leaf);
            if (r.bag && r.bag[row] == 0.0f) continue;
            int64_t g = to_fixed(d.gradient, gradient), h = to_fixed(d.hessian, hessian);
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
        for (uint32_t i = threadIdx.x / 32; i < l.leaves * 3; i += blockDim.x / 32) {
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
}

extern "C" __global__ void __launch_bounds__(512, resident(512, 2))
    tree_leaves(const __grid_constant__ Rows r, const __grid_constant__ Leaves l, const Encoding* encoding) {
    sum_leaves<false>(r, l, encoding);
}

extern "C" __global__ void __launch_bounds__(512, resident(512, 2))
    tree_leaves_one(const __grid_constant__ Rows r, const __grid_constant__ Leaves l, const Encoding* encoding) {
    sum_leaves<true>(r, l, encoding);
}

}  // namespace taiga
