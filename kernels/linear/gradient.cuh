// The gradient: sums of sparse features from lists, and block sums of dense columns.

#pragma once

#include "common.cuh"

// sums[feature * outputs + k] += residual * value in units, as integers.
extern "C" __global__ void __launch_bounds__(256)
    linear_add_wide(Lists lists, const double* residuals, double scale, Units units, int64_t* sums) {
    const Part part(lists);
    if (part.row >= lists.rows) return;
    const double r = residuals[(lists.first + part.row) * lists.outputs + part.output] * scale;
    const int64_t q = round64(r);
    for (uint32_t e = part.begin; e < part.end; e += part.step) {
        const uint32_t key = lists.keys[e];
        const int64_t x = lists.values ? round64(r * (static_cast<double>(lists.values[e]) * units.of(key))) : q;
        if (x != 0) add(sums + key * static_cast<uint64_t>(lists.outputs) + part.output, x);
    }
}

// sums[feature * outputs + k] += the row's integer.
extern "C" __global__ void __launch_bounds__(256) linear_add_whole(Lists lists, const int32_t* whole, int64_t* sums) {
    const Part part(lists);
    if (part.row >= lists.rows) return;
    const int64_t q = whole[(lists.first + part.row) * lists.outputs + part.output];
    if (q == 0) return;
#pragma unroll 4
    for (uint32_t e = part.begin; e < part.end; e += part.step) {
        add(sums + lists.keys[e] * static_cast<uint64_t>(lists.outputs) + part.output, q);
    }
}

// sums[feature * outputs] += weight * (value in units)^2.
extern "C" __global__ void __launch_bounds__(256)
    linear_squares(Lists lists, const float* weight, double scale, Units units, int64_t* sums) {
    const uint64_t thread = thread_number(), row = thread / 8;
    if (row >= lists.rows) return;
    const double w = (weight ? static_cast<double>(weight[lists.first + row]) : 1.0) * scale;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double x = (lists.values ? static_cast<double>(lists.values[e]) : 1.0) * units.of(key);
        const int64_t q = round64(w * (x * x));
        if (q != 0) add(sums + key * static_cast<uint64_t>(lists.outputs), q);
    }
}

// Block sums of each dense column and of ones: of residuals (of each output), or of weights by squares where there are none.
// out[(block * (columns + 1) + column) * outputs + k]; a block of threads for each.
extern "C" __global__ void __launch_bounds__(256) linear_columns(Rows rows, const double* residuals, double* out) {
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
