// Computes the gradient: sums of sparse features from rows of entries, and block sums of dense columns.

#pragma once

#include "layouts.cuh"

// sums[feature * outputs + k] += residual * value in units, as integers.
extern "C" __global__ void __launch_bounds__(256)
    linear_add_wide(CsrRows lists, const double* residuals, double scale, FeatureScale feature_scale, int64_t* sums) {
    const EntryShare share(lists);
    if (share.row >= lists.rows) return;
    const double r = residuals[(lists.first + share.row) * lists.outputs + share.output] * scale;
    const int64_t q = round64(r);
    for (uint32_t e = share.begin; e < share.end; e += share.step) {
        const uint32_t key = lists.keys[e];
        const int64_t x = lists.values ? round64(r * (static_cast<double>(lists.values[e]) * feature_scale.of(key))) : q;
        if (x != 0) add(sums + key * static_cast<uint64_t>(lists.outputs) + share.output, x);
    }
}

// sums[feature * outputs + k] += the row's integer.
extern "C" __global__ void __launch_bounds__(256) linear_add_whole(CsrRows lists, const int32_t* whole, int64_t* sums) {
    const EntryShare share(lists);
    if (share.row >= lists.rows) return;
    const int64_t q = whole[(lists.first + share.row) * lists.outputs + share.output];
    if (q == 0) return;
#pragma unroll 4
    for (uint32_t e = share.begin; e < share.end; e += share.step) {
        add(sums + lists.keys[e] * static_cast<uint64_t>(lists.outputs) + share.output, q);
    }
}

// sums[feature * outputs] += weight * (value in units)^2.
extern "C" __global__ void __launch_bounds__(256)
    linear_squares(CsrRows lists, const float* weight, double scale, FeatureScale feature_scale, int64_t* sums) {
    const uint64_t thread = thread_number(), row = thread / 8;
    if (row >= lists.rows) return;
    const double w = (weight ? static_cast<double>(weight[lists.first + row]) : 1.0) * scale;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double x = (lists.values ? static_cast<double>(lists.values[e]) : 1.0) * feature_scale.of(key);
        const int64_t q = round64(w * (x * x));
        if (q != 0) add(sums + key * static_cast<uint64_t>(lists.outputs), q);
    }
}

// Block sums of each dense column and of ones: of residuals (of each output), or of weights by squares where there are none.
// out[(block * (columns + 1) + column) * outputs + k]; a block of threads for each.
extern "C" __global__ void __launch_bounds__(256) linear_columns(DenseRows rows, const double* residuals, double* out) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = residuals ? rows.outputs : 1, column = blockIdx.y, k = blockIdx.z;
    const double* values = column < rows.columns ? rows.dense[column] : nullptr;
    auto row_of = [&](uint32_t i, double* found) {
        const uint64_t row = first + i;
        if (residuals) {
            const double r = residuals[row * outputs + k];
            *found = values ? r * values[row] : r;
        } else {
            const double w = rows.weight ? static_cast<double>(rows.weight[row]) : 1.0;
            *found = values ? w * (values[row] * values[row]) : w;
        }
    };
    sum_lanes<1>(n, row_of, out + (blockIdx.x * static_cast<uint64_t>(rows.columns + 1) + column) * outputs + k);
}
