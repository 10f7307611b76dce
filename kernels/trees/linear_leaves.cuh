// Leaves that are linear functions of their rows' values: their normal equations, and the values of rows. Twin of
// src/core/learners/boosting/linear_leaves/on_host.rs.

#pragma once

#include "layouts.cuh"

namespace taiga {

// The rows whose sums are added in f64, in their order, before they are rounded: RowShard::BLOCK.
constexpr uint32_t LINEAR_ROWS = 1024;

// The most columns of a leaf.
constexpr uint32_t LINEAR_COLUMNS = 16;

// A column of a leaf: its values of all rows, which are measured by (x - origin) * scale.
struct LinearColumn {  // shared with the host
    const void* values;
    double origin, scale;
    uint32_t single;  // whether the values are f32
    uint32_t unused;
};

// A leaf, by the number that its rows have: its columns and its sums among those of all leaves, its number in the tree, and what is added to the
// hessian of each row that counts.
struct LinearLeafColumns {  // shared with the host
    uint32_t first, columns;
    uint32_t sums;
    uint32_t leaf;
    double added;
};

__device__ __forceinline__ double linear_value(const void* values, bool single, uint64_t row) {
    return single ? static_cast<double>(static_cast<const float*>(values)[row]) : static_cast<const double*>(values)[row];
}

// Writes the derivatives of all rows, zeros for those that were not drawn, finds the largest ones, as bits, and of each leaf, by its number in
// the tree, the first row that counts and has finite values of all of its columns. `largest` are zeros before, and `first` the largest number.
extern "C" __global__ void __launch_bounds__(256)
    tree_linear_measure(const __grid_constant__ LossRows r, const uint16_t* leaf, const LinearLeafColumns* leaves, const LinearColumn* columns,
                        float* gradient, float* hessian, uint32_t* largest, uint32_t* first) {
    const float* scores = r.scores + r.output * r.rows;
    uint32_t largest_gradient = 0, largest_hessian = 0;
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        const Derivatives d = derive_drawn(r, row, scores[row], r.target[row]);
        gradient[row] = d.gradient;
        hessian[row] = d.hessian;
        largest_gradient = max(largest_gradient, __float_as_uint(fabsf(d.gradient)));
        largest_hessian = max(largest_hessian, __float_as_uint(fabsf(d.hessian)));
        const LinearLeafColumns own = leaves[leaf[row]];
        const uint32_t number = static_cast<uint32_t>(row);
        if (own.columns == 0 || !(d.hessian > 0.0f) || __ldcg(first + own.leaf) <= number) continue;
        bool has_all = true;
        for (uint32_t i = 0; i < own.columns && has_all; i++) {
            const LinearColumn& c = columns[own.first + i];
            has_all = isfinite(linear_value(c.values, c.single, row));
        }
        if (has_all) atomicMin(first + own.leaf, number);
    }
    for (int o = 16; o; o >>= 1) {
        largest_gradient = max(largest_gradient, __shfl_xor_sync(~0u, largest_gradient, o));
        largest_hessian = max(largest_hessian, __shfl_xor_sync(~0u, largest_hessian, o));
    }
    if ((threadIdx.x & 31) == 0) {
        atomicMax(largest, largest_gradient);
        atomicMax(largest + 1, largest_hessian);
    }
}

// How sums become whole numbers: the factor to coarse units, a coarse unit, and the factor to fine ones.
struct LinearRounding {  // shared with the host
    double coarse, unit, fine;
};

struct LinearSums {  // shared with the host
    uint64_t rows;
    const uint16_t* leaf;
    const float* gradient;
    const float* hessian;
    const LinearLeafColumns* leaves;
    const LinearColumn* columns;
    // By warp, zeros: the sums of a block of rows, and how many rows each leaf has of it; none where shared memory has room for them.
    double* sums;
    uint32_t* counts;
    // Coarse and fine units of each sum, and the rows of each leaf, by its number in the tree.
    int64_t* numbers;
    int64_t* totals;
    LinearRounding of_gradients, of_hessians;
    // The sums of all leaves, and the numbers that rows may have as leaves.
    uint32_t length, leaf_count;
};

// How many sums a leaf of so many columns has: of hessians and gradients, of both times each column, of hessians times each pair.
__device__ __forceinline__ uint32_t linear_sums_of(uint32_t columns) { return 2 + 2 * columns + columns * (columns + 1) / 2; }

// The pairs of columns that a lane adds: p is the pair a, b of a lower triangle, row by row, a above and b below the 16th bit.
constexpr uint32_t LINEAR_PAIRS = (LINEAR_COLUMNS * (LINEAR_COLUMNS + 1) / 2 + 31) / 32;

// Adds up the normal equations of all leaves. A warp takes a block of rows at a time, in their order, and a lane a sum; so each sum is that of
// the CPU's, bit for bit.
extern "C" __global__ void __launch_bounds__(256) tree_linear_sums(const __grid_constant__ LinearSums s) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const uint64_t number = blockIdx.x * static_cast<uint64_t>(warps) + warp, all = gridDim.x * static_cast<uint64_t>(warps);
    double* sums = s.sums ? s.sums + number * s.length : reinterpret_cast<double*>(memory) + warp * static_cast<uint64_t>(s.length);
    uint32_t* counts = s.sums ? s.counts + number * s.leaf_count
                              : reinterpret_cast<uint32_t*>(reinterpret_cast<double*>(memory) + warps * static_cast<uint64_t>(s.length)) + warp * s.leaf_count;
    if (!s.sums) {
        for (uint32_t i = lane; i < s.length; i += 32) sums[i] = 0.0;
        for (uint32_t i = lane; i < s.leaf_count; i += 32) counts[i] = 0;
    }
    uint32_t pairs[LINEAR_PAIRS];
#pragma unroll
    for (uint32_t m = 0; m < LINEAR_PAIRS; m++) {
        uint32_t a = 0, b = 32 * m + lane;
        while (b > a) b -= ++a;
        pairs[m] = a << 16 | b;
    }
    __syncwarp();
    for (uint64_t block = number; block * LINEAR_ROWS < s.rows; block += all) {
        for (uint64_t base = block * LINEAR_ROWS; base < (block + 1) * LINEAR_ROWS && base < s.rows; base += 32) {
            const uint64_t row = base + lane;
            uint32_t leaf = 0;
            float g = 0.0f, h = 0.0f;
            if (row < s.rows) {
                leaf = s.leaf[row];
                g = s.gradient[row];
                h = s.hessian[row];
            }
            uint32_t count = __ballot_sync(~0u, h > 0.0f);
            while (count) {
                const uint32_t next = __ffs(count) - 1;
                count &= count - 1;
                const uint32_t own_leaf = __shfl_sync(~0u, leaf, next);
                const LinearLeafColumns own = s.leaves[own_leaf];
                const double gradient = static_cast<double>(__shfl_sync(~0u, g, next));
                const double hessian = static_cast<double>(__shfl_sync(~0u, h, next)) + own.added;
                const uint32_t k = own.columns;
                if (k == 0) continue;
                double x = 0.0;
                bool has = true;
                if (lane < k) {
                    const LinearColumn& c = s.columns[own.first + lane];
                    x = (linear_value(c.values, c.single, base + next) - c.origin) * c.scale;
                    has = x >= -1.0 && x <= 1.0;
                }
                if (!__all_sync(~0u, has)) continue;
                double* own_sums = sums + own.sums;
                for (uint32_t first = 0; first < 2 + 2 * k; first += 32) {
                    const uint32_t i = first + lane;
                    const double xa = __shfl_sync(~0u, x, i >= 2 ? (i - 2) % k : 0);
                    if (i >= 2 + 2 * k) continue;
                    const double by = i == 0 || (i >= 2 && i < 2 + k) ? hessian : gradient;
                    own_sums[i] = own_sums[i] + (i < 2 ? by : by * xa);
                }
                double* of_pairs = own_sums + 2 + 2 * k;
                const uint32_t n = k * (k + 1) / 2;
#pragma unroll
                for (uint32_t m = 0; m < LINEAR_PAIRS; m++) {
                    if (32 * m >= n) break;
                    const double xa = __shfl_sync(~0u, x, pairs[m] >> 16), xb = __shfl_sync(~0u, x, pairs[m] & 0xffffu);
                    if (32 * m + lane < n) of_pairs[32 * m + lane] = of_pairs[32 * m + lane] + hessian * xa * xb;
                }
                if (lane == 0) counts[own_leaf]++;
                __syncwarp();
            }
        }
        for (uint32_t leaf = 0; leaf < s.leaf_count; leaf++) {
            const uint32_t rows = counts[leaf];
            if (rows == 0) continue;
            const LinearLeafColumns own = s.leaves[leaf];
            const uint32_t k = own.columns, n = linear_sums_of(k);
            for (uint32_t i = lane; i < n; i += 32) {
                const LinearRounding& to = i == 1 || (i >= 2 + k && i < 2 + 2 * k) ? s.of_gradients : s.of_hessians;
                const double sum = sums[own.sums + i];
                const int64_t whole = round64(sum * to.coarse);
                int64_t* numbers = s.numbers + 2 * (static_cast<uint64_t>(own.sums) + i);
                add(numbers, whole);
                add(numbers + 1, round64((sum - static_cast<double>(whole) * to.unit) * to.fine));
                sums[own.sums + i] = 0.0;
            }
            __syncwarp();
            if (lane == 0) {
                add(s.totals + own.leaf, static_cast<int64_t>(rows));
                counts[leaf] = 0;
            }
            __syncwarp();
        }
    }
}

// The function of a leaf, by the number that its rows have: terms from `first` up to `end`; none where it has none.
struct LinearFunction {  // shared with the host
    double constant;
    uint32_t first, end;
};

struct LinearCoefficient {  // shared with the host
    const void* values;
    double coefficient;
    uint32_t single;
    uint32_t unused;
};

// The value that each row gets: that of its leaf's function where it has one that is finite there, else that of the leaf.
extern "C" __global__ void __launch_bounds__(256)
    tree_linear_values(uint64_t rows, const uint16_t* leaf, const LinearFunction* functions, const LinearCoefficient* terms, const float* values,
                       float* out) {
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < rows; row += gridDim.x * 256ull) {
        const LinearFunction own = functions[leaf[row]];
        float value = values[leaf[row]];
        if (own.first < own.end) {
            double sum = own.constant;
            for (uint32_t i = own.first; i < own.end; i++) {
                sum = sum + terms[i].coefficient * linear_value(terms[i].values, terms[i].single, row);
            }
            // The nearest f32, which is finite.
            if (isfinite(sum)) {
                constexpr float most = 3.402823466e38f;
                const float nearest = static_cast<float>(sum);
                value = nearest > most ? most : nearest < -most ? -most : nearest;
            }
        }
        out[row] = value;
    }
}

// Adds values of rows to the scores of one output.
extern "C" __global__ void __launch_bounds__(256) tree_update_rows(float* scores, const float* values, uint64_t rows) {
    for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < rows; i += gridDim.x * 256ull) scores[i] = scores[i] + values[i];
}

}  // namespace taiga
