// Finds how the derivatives of a tree become integers, and rounds those of all rows. Twin of src/cpu/trees/gradient_quantizer.rs.

#pragma once

#include "layouts.cuh"

namespace taiga {

// The rows whose absolute derivatives are added in order; so are then the batches' sums.
constexpr uint32_t BATCH = 1024;
constexpr uint32_t BATCH_LANES = 16;

// Beyond this ratio of the largest to the mean absolute value statistics become wide.
constexpr double WIDE_RATIO = 1024.0;

// 2^n for n in -1022..=1023.
__device__ __forceinline__ double power(int32_t n) {
    return from_bits(static_cast<uint64_t>(n + 1023) << 52);
}

// numerics/fixed.rs: the largest power of two by which a float of these bits stays below 2^bits.
__device__ __forceinline__ double factor(uint32_t largest, int32_t bits) {
    double value = static_cast<double>(__uint_as_float(largest));
    if (value == 0.0) return 1.0;
    int32_t exponent = static_cast<int32_t>(bits_of(value) >> 52) - 1023 + 1;
    int32_t p = bits - exponent;
    return power(value * power(p) > power(bits) - 2.0 ? p - 1 : p);
}

__device__ __forceinline__ double single(double factor) {
    return at_most(at_least(factor, power(-126)), power(126));
}

// Exact maxima of absolute derivatives, and their sums in whatever order.
struct Magnitudes {
    uint32_t gradient = 0, hessian = 0;
    double gradients = 0.0, hessians = 0.0;

    __device__ __forceinline__ void add(Derivatives d) {
        const uint32_t g = __float_as_uint(d.gradient) & 0x7fffffffu, h = __float_as_uint(d.hessian) & 0x7fffffffu;
        gradient = g > gradient ? g : gradient;
        hessian = h > hessian ? h : hessian;
        gradients += static_cast<double>(__uint_as_float(g));
        hessians += static_cast<double>(__uint_as_float(h));
    }

    // Those of a block, from its threads' own: the maxima to `largest`, the sums to `sum`.
    __device__ __forceinline__ void finish(uint32_t* largest, double2* sum) {
        __shared__ double2 parts[32];
        for (int offset = 16; offset; offset >>= 1) {
            const uint32_t g = __shfl_xor_sync(~0u, gradient, offset), h = __shfl_xor_sync(~0u, hessian, offset);
            gradient = g > gradient ? g : gradient;
            hessian = h > hessian ? h : hessian;
            gradients += __shfl_xor_sync(~0u, gradients, offset);
            hessians += __shfl_xor_sync(~0u, hessians, offset);
        }
        if ((threadIdx.x & 31) == 0) {
            atomicMax(largest, gradient);
            atomicMax(largest + 1, hessian);
            parts[threadIdx.x / 32] = make_double2(gradients, hessians);
        }
        __syncthreads();
        if (threadIdx.x) return;
        double2 total = make_double2(0.0, 0.0);
        for (uint32_t i = 0; i < blockDim.x / 32; i++) total = make_double2(total.x + parts[i].x, total.y + parts[i].y);
        *sum = total;
    }
};

// The sums of each batch as the CPU adds them: sixteen lanes, each taking every sixteenth row of the
// batch, and then the lanes. By one block.
__device__ __noinline__ void ordered_sums(const LossRows& r, double2* sums) {
    const float* scores = r.scores + r.output * r.rows;
    for (uint64_t first = threadIdx.x * static_cast<uint64_t>(BATCH); first < r.rows; first += blockDim.x * static_cast<uint64_t>(BATCH)) {
        const uint64_t end = r.rows - first < BATCH ? r.rows : first + BATCH;
        double2 total = make_double2(0.0, 0.0);
        for (uint32_t lane = 0; lane < BATCH_LANES; lane++) {
            double2 sum = make_double2(0.0, 0.0);
            for (uint64_t row = first + lane; row < end; row += BATCH_LANES) {
                const Derivatives d = derive_drawn(r, row, __ldcg(scores + row), r.target[row]);
                sum.x = sum.x + static_cast<double>(fabsf(d.gradient));
                sum.y = sum.y + static_cast<double>(fabsf(d.hessian));
            }
            total = make_double2(total.x + sum.x, total.y + sum.y);
        }
        sums[first / BATCH] = total;
    }
    __syncthreads();
}

// Sets what derivatives are multiplied by before rounding, by the largest ones. `unit`: each row's hessian is 1.
__device__ __forceinline__ void set_factors(GradientQuantizer& e, bool wide, uint32_t unit) {
    const double gradient = single(factor(e.largest_gradient, wide ? 31 : 15));
    const double hessian = unit ? 1.0 : single(factor(e.largest_hessian, wide ? 31 : 16));
    e.gradient = gradient;
    e.hessian = hessian;
    e.gradient32 = static_cast<float>(gradient);
    e.hessian32 = static_cast<float>(hessian);
    e.unit_gradient = 1.0 / gradient;
    e.unit_hessian = 1.0 / hessian;
    e.wide = wide;
    e.unit = unit;
}

// Whether the largest derivatives of so many rows leave typical ones too few steps of 16 bits.
struct Widths {
    double most_gradient, most_hessian;

    __device__ __forceinline__ Widths(uint64_t rows, uint32_t top_gradient, uint32_t top_hessian) {
        const double n = static_cast<double>(rows);
        most_gradient = static_cast<double>(__uint_as_float(top_gradient)) * n;
        most_hessian = static_cast<double>(__uint_as_float(top_hessian)) * n;
    }

    // Whether the order decides in which the absolute values were added to these sums.
    __device__ __forceinline__ bool are_close(double g, double h) const {
        auto close = [](double most, double sum) { return fabs(most - WIDE_RATIO * sum) <= 1e-9 * most; };
        return close(most_gradient, g) || close(most_hessian, h);
    }

    __device__ __forceinline__ bool are_wide(double g, double h, uint32_t unit) const {
        return (most_gradient > WIDE_RATIO * g && g > 0.0) || (!unit && most_hessian > WIDE_RATIO * h && h > 0.0);
    }
};

// Sets all of a tree's quantizer.
__device__ __forceinline__ void set_quantizer(GradientQuantizer& e, uint64_t rows, uint32_t top_gradient, uint32_t top_hessian, bool wide, uint32_t unit) {
    const int32_t leaf_bits = 62 - (64 - __clzll(static_cast<long long>(rows)));
    e.leaf_gradient = factor(top_gradient, leaf_bits);
    e.leaf_hessian = factor(top_hessian, leaf_bits);
    e.largest_gradient = top_gradient;
    e.largest_hessian = top_hessian;
    set_factors(e, wide, unit);
}

// What a shard of the rows knows, of which several make the quantizer (all_reduce.cuh).
struct ShardMagnitudes {  // shared with the host
    double gradients, hessians;  // the sums of absolute values, in whatever order
    uint32_t largest_gradient, largest_hessian;
};

// The quantizer of a tree from the magnitudes, by the last block; of a shard of the rows its `ShardMagnitudes`. `sums`: room for the batches' sums, and
// behind it what each block's rows come to, in whatever order. `unit`: each row's hessian is 1. Apart, so
// that the rows' loops keep their registers.
__device__ __noinline__ void make_quantizer(const LossRows& r, double2* sums, uint32_t unit, uint32_t* largest, GradientQuantizer* out) {
    __shared__ double2 parts[32];
    const uint64_t batches = (r.rows + BATCH - 1) / BATCH;
    const double2* blocks = sums + batches;
    double g = 0.0, h = 0.0;
    for (uint32_t i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        const double2 sum = __ldcg(blocks + i);
        g += sum.x;
        h += sum.y;
    }
    for (int offset = 16; offset; offset >>= 1) {
        g += __shfl_xor_sync(~0u, g, offset);
        h += __shfl_xor_sync(~0u, h, offset);
    }
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = make_double2(g, h);
    __syncthreads();
    g = h = 0.0;
    for (uint32_t i = 0; i < blockDim.x / 32; i++) {
        g += parts[i].x;
        h += parts[i].y;
    }
    const uint32_t top_gradient = __ldcg(largest), top_hessian = __ldcg(largest + 1);
    if (r.is_shard) {
        if (threadIdx.x) return;
        largest[0] = largest[1] = 0;
        *reinterpret_cast<ShardMagnitudes*>(out) = {g, h, top_gradient, top_hessian};
        return;
    }
    const Widths widths(r.rows, top_gradient, top_hessian);
    // The order of the sums matters only where the comparison is this close: then they are added as
    // the CPU adds them. Every thread finds the same.
    const bool ordered = widths.are_close(g, h);
    if (ordered) ordered_sums(r, sums);
    if (threadIdx.x) return;
    largest[0] = largest[1] = 0;
    if (ordered) {
        g = h = 0.0;
        for (uint64_t i = 0; i < batches; i++) {
            g = g + sums[i].x;
            h = h + sums[i].y;
        }
    }
    set_quantizer(*out, r.rows, top_gradient, top_hessian, widths.are_wide(g, h, unit), unit);
}

// Exact maxima of the derivatives of the rows drawn, and their sums; from these the tree's quantizer.
// Where `leaf` is given, the last tree's values are added to the scores first. `largest` is zero before
// and after. `sums`, `out`: see `make_quantizer`.
extern "C" __global__ void __launch_bounds__(256, resident(256, 5))
    tree_find_quantizer(const __grid_constant__ LossRows r, const uint16_t* leaf, const float* values, double2* sums, uint32_t* largest, uint32_t unit,
                uint32_t* arrived, GradientQuantizer* out) {
    // Rows that a thread has on their way.
    constexpr uint32_t TURNS = 4;
    const uint64_t batches = (r.rows + BATCH - 1) / BATCH;
    float* scores = r.scores + r.output * r.rows;
    Magnitudes found;
    for (uint64_t base = blockIdx.x * (256ull * TURNS) + threadIdx.x; base < r.rows; base += gridDim.x * (256ull * TURNS)) {
        float score[TURNS], target[TURNS];
#pragma unroll
        for (uint32_t k = 0; k < TURNS; k++) {
            const uint64_t row = base + k * 256;
            if (row < r.rows) {
                score[k] = scores[row];
                target[k] = r.target[row];
                if (leaf) score[k] = score[k] + values[leaf[row]];
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < TURNS; k++) {
            const uint64_t row = base + k * 256;
            if (row < r.rows) {
                if (leaf) scores[row] = score[k];
                found.add(derive_drawn(r, row, score[k], target[k]));
            }
        }
    }
    found.finish(largest, sums + batches + blockIdx.x);
    if (last_block(arrived, gridDim.x)) make_quantizer(r, sums, unit, largest, out);
}

// Packs a row's derivatives for the first plane.
__device__ __forceinline__ uint32_t first_plane(const GradientQuantizer& e, Derivatives d, Random random, uint32_t row) {
    if (e.wide) return pack_wide(d.gradient, e.gradient, random, row, 0);
    if (e.unit) return pack_unit(d.gradient, d.hessian, e.gradient32, random, row);
    return pack_both(d.gradient, d.hessian, e.gradient32, e.hessian32, random, row);
}

// Rounds the derivatives of all rows: `packed_gradients`, and where they are wide `hessians`, by row. Where
// rows were drawn, those drawn become the root's list, where there is one, in whatever order.
extern "C" __global__ void __launch_bounds__(256)
    tree_round(const __grid_constant__ LossRows r, const GradientQuantizer* quantizer, uint64_t tree, uint32_t* packed_gradients,
               uint32_t* hessians, uint2* list, NodeRows* root) {
    const GradientQuantizer e = *quantizer;
    const Random random = Random::rounding(tree);
    const float* scores = r.scores + r.output * r.rows;
    for (uint64_t base = blockIdx.x * 256ull; base < r.rows; base += gridDim.x * 256ull) {
        uint64_t row = base + threadIdx.x;
        bool drawn = false;
        uint32_t packed_gradient = 0;
        if (row < r.rows) {
            Derivatives d = derive_drawn(r, row, scores[row], r.target[row]);
            const uint32_t number = static_cast<uint32_t>(r.first + row);
            packed_gradient = first_plane(e, d, random, number);
            packed_gradients[row] = packed_gradient;
            if (hessians) hessians[row] = pack_wide(d.hessian, e.hessian, random, number, 16);
            drawn = r.bag && r.bag[row] != 0.0f;
        }
        if (r.bag && list) {
            __shared__ uint32_t counts[8], start;
            unsigned mask = __ballot_sync(~0u, drawn);
            uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31;
            if (lane == 0) counts[warp] = __popc(mask);
            __syncthreads();
            if (threadIdx.x == 0) {
                uint32_t total = 0;
                for (int i = 0; i < 8; i++) {
                    uint32_t n = counts[i];
                    counts[i] = total;
                    total += n;
                }
                start = atomicAdd(&root->len, total);
            }
            __syncthreads();
            if (drawn) list[start + counts[warp] + __popc(mask & ((1u << lane) - 1))] = make_uint2(static_cast<uint32_t>(row), packed_gradient);
            __syncthreads();
        }
    }
}

}  // namespace taiga
