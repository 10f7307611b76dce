// The end of a tree: every row's leaf, and the leaves' sums from the unrounded derivatives.

#pragma once

#include "common.cuh"

namespace taiga {

// A node of a tree as rows walk it: a question, or a leaf.
struct Walk {
    const uint8_t* codes;  // that of row r is `codes[r * 32]`
    uint32_t last, set;    // set: its number
    uint32_t left, right;
    uint32_t leaf;
    uint32_t kind;
};

constexpr uint32_t DIVIDED = 1, ZERO_RIGHT = 2, BY_SET = 4;

__device__ __forceinline__ uint32_t leaf_of(const Walk* walk, const uint32_t* sets, uint64_t row) {
    uint32_t at = 0;
    while (walk[at].kind & DIVIDED) {
        const Walk& w = walk[at];
        uint32_t code = w.codes[row * LANES];
        bool right = w.kind & BY_SET ? sets[w.set * 8 + (code >> 5)] >> (code & 31) & 1 : code > w.last || ((w.kind & ZERO_RIGHT) && code == 0);
        at = right ? w.right : w.left;
    }
    return walk[at].leaf;
}

// Bits of a limb of a 64-bit sum: up to 4,096 of them are added in 32 bits.
constexpr int LIMB = 20;

struct Leaves {
    const Walk* walk;
    const uint32_t* sets;
    uint16_t* leaf;   // [row]
    int64_t* sums;    // [leaf][gradient, hessian, count]
    uint32_t walks;   // nodes that fit in shared memory; 0: none do
    uint32_t leaves;
    // The sums of a block are kept as 32-bit limbs, in `copies` copies, so that the lanes of a warp
    // do not meet where most rows have one leaf. 0: no room, rows are added to the totals at once.
    uint32_t copies, limbs;
    uint32_t piece;  // rows between flushes
    uint32_t unused;
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

extern "C" __global__ void __launch_bounds__(512, 2)
    tree_leaves(const __grid_constant__ Rows r, const __grid_constant__ Leaves l, const Encoding* encoding) {
    Walk* walk_here = reinterpret_cast<Walk*>(memory);
    uint32_t* cells = reinterpret_cast<uint32_t*>(walk_here + l.walks);
    const uint32_t per_leaf = 2 * l.limbs + 1, n = l.leaves * per_leaf * l.copies;
    for (uint32_t i = threadIdx.x; i < l.walks * (sizeof(Walk) / 4); i += blockDim.x) {
        reinterpret_cast<uint32_t*>(walk_here)[i] = reinterpret_cast<const uint32_t*>(l.walk)[i];
    }
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) cells[i] = 0;
    __syncthreads();
    const Walk* walk = l.walks ? walk_here : l.walk;
    const double gradient = encoding->leaf_gradient, hessian = encoding->leaf_hessian;
    const float* scores = r.scores + r.output * r.rows;
    const uint32_t copy = threadIdx.x & (l.copies - 1);
    for (uint64_t from = static_cast<uint64_t>(blockIdx.x) * l.piece; from < r.rows; from += static_cast<uint64_t>(gridDim.x) * l.piece) {
        uint64_t to = from + l.piece < r.rows ? from + l.piece : r.rows;
        for (uint64_t row = from + threadIdx.x; row < to; row += blockDim.x) {
            uint32_t leaf = leaf_of(walk, l.sets, row);
            Derivatives d = derive_drawn(r, row, scores[row], r.target[row]);
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
        for (uint32_t i = threadIdx.x; i < l.leaves * 3; i += blockDim.x) {
            uint32_t leaf = i / 3, what = i % 3;
            uint32_t* cell = cells + (leaf * per_leaf + what * l.limbs) * l.copies;
            uint32_t limbs = what == 2 ? 1 : l.limbs;
            int64_t total = 0;
            for (uint32_t k = 0; k < limbs; k++) {
                // The last limb of a signed number is signed.
                bool is_signed = what < 2 && k + 1 == limbs;
                int64_t part = 0;
                for (uint32_t c = 0; c < l.copies; c++) {
                    uint32_t x = cell[k * l.copies + c];
                    part += is_signed ? static_cast<int64_t>(static_cast<int32_t>(x)) : static_cast<int64_t>(x);
                    cell[k * l.copies + c] = 0;
                }
                total += part * (1ll << (LIMB * k));
            }
            if (total) add(l.sums + leaf * 3 + what, total);
        }
        __syncthreads();
    }
}

}  // namespace taiga
