// Makes the root's pass, where all rows count and statistics are narrow: derivatives, their rounding and the
// histogram of the first block of features.

#pragma once

#include "evaluate_level.cuh"
#include "gradient_quantizer.cuh"

namespace taiga {

// What a root's pass does beside summing, where it runs before the tree's quantizer is known: it adds the last
// tree's values to the scores, rounds by the quantizer that the last tree had, and finds the one that is
// right. Scales are powers of two, so from one tree to the next they rarely differ.
struct RootGuess {  // shared with the host
    const GradientQuantizer* last;
    const uint16_t* leaf;  // or none, where scores are up to date
    const float* values;
    double2* sums;  // see `make_quantizer`
    uint32_t* largest;
    uint32_t* arrived;
    GradientQuantizer* out;
    // Set where the guess was wrong: the slot is then empty again, and the pass is to be made once more.
    uint32_t* wrong;
    uint32_t unit, unused;
};

// What a tree begins with once its root's histogram is there.
struct TreeStart {  // shared with the host
    SplitSearch search;
    uint32_t slot, bins;
    Sums* total;    // or none: nothing begins
    SplitInput* split_inputs;    // the first one to be searched becomes the root; or none
    NodeRows* root;     // becomes all rows in order; or none
    int64_t* sums;  // of leaves, and what else is to be zero behind them
    uint32_t numbers, unused;
};

// The root's sums from the bins of the first column, and what else a tree begins with: by a block. Apart, so that the
// rows' loops keep their registers.
__device__ __noinline__ void begin_tree(const TreeStart& b) {
    for (uint32_t i = threadIdx.x; i < b.numbers; i += blockDim.x) b.sums[i] = 0;
    if (threadIdx.x >= 32) return;
    const SplitSearch& a = b.search;
    const Sums s = left_sums(a, b.slot, 0, 0, b.bins - 1, MISSING_LEFT);
    if (threadIdx.x) return;
    *b.total = s;
    if (b.root) *b.root = NodeRows{0, static_cast<uint32_t>(a.histograms.rows), 0, IN_ORDER, -1, 0, 0};
    if (b.split_inputs) {
        b.split_inputs[0] = SplitInput{s, -INFINITE64, INFINITE64, b.slot, -1, ~0u, EXISTS | (is_searched(a.rules, *a.quantizer, s) ? SEARCHED : 0)};
    }
}

extern "C" __global__ void __launch_bounds__(256) tree_start(const __grid_constant__ TreeStart begin) {
    begin_tree(begin);
}

// Two such blocks a multiprocessor have the registers they need.
constexpr uint32_t ROOT_THREADS = 640;

// Block b takes rows b * piece on; its bins are empty before.
template <bool GUESS>
__device__ __forceinline__ void sum_root(const LossRows& r, const Histograms& h, const GradientQuantizer& e, const RootGuess& guess, uint64_t tree,
                                         uint32_t* packed_gradients, uint32_t slot, uint32_t piece) {
    // The components of the packed gradients of each warp's rows.
    __shared__ uint4 uppers[ROOT_THREADS / 32][8], lowers[ROOT_THREADS / 32][8];
    uint32_t* own_upper = reinterpret_cast<uint32_t*>(uppers[threadIdx.x / 32]);
    uint32_t* own_lower = reinterpret_cast<uint32_t*>(lowers[threadIdx.x / 32]);
    uint32_t* shared = reinterpret_cast<uint32_t*>(memory);
    const Random random = Random::rounding(tree);
    float* scores = r.scores + r.output * r.rows;
    const bool unit = GUESS ? guess.unit : e.unit;
    const float gradient = e.gradient32, hessian = e.hessian32;
    Magnitudes found;
    uint32_t lane = threadIdx.x & 31;
    uint64_t from = static_cast<uint64_t>(blockIdx.x) * piece, to = from + piece < r.rows ? from + piece : r.rows;
    const uint8_t* codes = h.codes + lane;
    for (uint64_t base = from + (threadIdx.x & ~31u); base < to; base += blockDim.x) {
        uint64_t row = base + lane;
        uint32_t packed_gradient = 0;
        if (row < to) {
            float score = scores[row];
            if (GUESS && guess.leaf) {
                score = score + guess.values[guess.leaf[row]];
                scores[row] = score;
            }
            Derivatives d = derive(r, row, score, r.target[row]);
            if (GUESS) found.add(d);
            const uint32_t number = static_cast<uint32_t>(r.first + row);
            packed_gradient = unit ? pack_unit(d.gradient, d.hessian, gradient, random, number)
                        : pack_both(d.gradient, d.hessian, gradient, hessian, random, number);
            packed_gradients[row] = packed_gradient;
        }
        __syncwarp();
        own_upper[lane] = upper_of(packed_gradient);
        own_lower[lane] = lower_of(packed_gradient);
        __syncwarp();
        if (to - base >= 32) {
#pragma unroll 4
            for (int k = 0; k < 32; k += 4) {
                const uint4 u = *reinterpret_cast<const uint4*>(own_upper + k), l = *reinterpret_cast<const uint4*>(own_lower + k);
                uint32_t c[4];
#pragma unroll
                for (int i = 0; i < 4; i++) c[i] = codes[(base + k + i) * LANES];
                add_row<BOTH>(shared, lane, c[0], u.x, l.x);
                add_row<BOTH>(shared, lane, c[1], u.y, l.y);
                add_row<BOTH>(shared, lane, c[2], u.z, l.z);
                add_row<BOTH>(shared, lane, c[3], u.w, l.w);
            }
        } else {
            for (int k = 0; k < static_cast<int>(to - base); k++) {
                add_row<BOTH>(shared, lane, codes[(base + k) * LANES], own_upper[k], own_lower[k]);
            }
        }
    }
    __syncthreads();
    flush_bins<BOTH>(shared, h, slot, 0);
    if (!GUESS) return;
    const uint64_t batches = (r.rows + BATCH - 1) / BATCH;
    found.finish(guess.largest, guess.sums + batches + blockIdx.x);
    if (!last_block(guess.arrived, gridDim.x)) return;
    make_quantizer(r, guess.sums, guess.unit, guess.largest, guess.out);
    // Of a shard, whether the guess was right is known once the others' magnitudes are (all_reduce.cuh).
    if (r.is_shard) return;
    __shared__ bool wrong;
    if (threadIdx.x == 0) {
        const GradientQuantizer& right = *guess.out;
        wrong = right.gradient != e.gradient || right.hessian != e.hessian || right.wide || e.wide;
        *guess.wrong = wrong;
    }
    __syncthreads();
    if (!wrong) return;
    for (uint64_t i = threadIdx.x; i < h.slot_size; i += blockDim.x) h.slots[slot * h.slot_size + i] = 0;
}

// `wrong`: none, or a flag that is set where there is anything to sum. Behind the sums the tree begins, where it is
// told to; `arrived` is zero before and after.
extern "C" __global__ void __launch_bounds__(ROOT_THREADS, resident(ROOT_THREADS, 2))
    tree_root(const __grid_constant__ LossRows r, const __grid_constant__ Histograms h, const GradientQuantizer* quantizer, uint64_t tree,
              uint32_t* packed_gradients, uint32_t slot, uint32_t piece, const uint32_t* wrong, const __grid_constant__ TreeStart begin, uint32_t* arrived) {
    follow_on();
    if (wrong && !*wrong) {
        if (blockIdx.x == 0 && begin.total) begin_tree(begin);
        return;
    }
    clear_bins<BOTH>(reinterpret_cast<uint32_t*>(memory), h.bins);
    __syncthreads();
    sum_root<false>(r, h, *quantizer, RootGuess{}, tree, packed_gradients, slot, piece);
    if (begin.total && last_block(arrived, gridDim.x)) begin_tree(begin);
}

extern "C" __global__ void __launch_bounds__(ROOT_THREADS, resident(ROOT_THREADS, 2))
    tree_root_guess(const __grid_constant__ LossRows r, const __grid_constant__ Histograms h, const __grid_constant__ RootGuess guess, uint64_t tree,
                    uint32_t* packed_gradients, uint32_t slot, uint32_t piece) {
    clear_bins<BOTH>(reinterpret_cast<uint32_t*>(memory), h.bins);
    follow_on();
    __syncthreads();
    sum_root<true>(r, h, *guess.last, guess, tree, packed_gradients, slot, piece);
}

}  // namespace taiga
