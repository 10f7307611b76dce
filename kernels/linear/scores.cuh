// Computes the scores of rows: intercept, dense columns, and the entries of each row.

#pragma once

#include "layouts.cuh"

// out[row * outputs + k] = intercept + dense columns in their order. `tail`: coefficients of those columns, then intercepts.
extern "C" __global__ void __launch_bounds__(256) linear_base(DenseRows rows, const double* tail, double* out) {
    for (uint64_t at = thread_number(); at < rows.rows * rows.outputs; at += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint64_t row = at / rows.outputs, k = at % rows.outputs;
        double o = tail[rows.columns * static_cast<uint64_t>(rows.outputs) + k];
        for (uint32_t c = 0; c < rows.columns; c++) o += tail[c * static_cast<uint64_t>(rows.outputs) + k] * rows.dense[c][row];
        out[at] = o;
    }
}

// out += the row's entries. Of several outputs a thread adds the entries in their order.
extern "C" __global__ void __launch_bounds__(256) linear_scores_wide(CsrRows lists, const double* vector, double* out) {
    const EntryShare share(lists);
    if (share.row >= lists.rows) return;
    const uint64_t at = (lists.first + share.row) * lists.outputs + share.output;
    if (lists.outputs == 1) {
        double sum = 0.0;
        if (lists.values) {
#pragma unroll 4
            for (uint32_t e = share.begin; e < share.end; e += 8) sum += vector[lists.keys[e]] * static_cast<double>(lists.values[e]);
        } else {
#pragma unroll 4
            for (uint32_t e = share.begin; e < share.end; e += 8) sum += vector[lists.keys[e]];
        }
        sum = over_lanes(sum);
        if (threadIdx.x % 8 == 0) out[at] += sum;
        return;
    }
    double o = out[at];
    for (uint32_t e = share.begin; e < share.end; e++) {
        const double x = lists.values ? static_cast<double>(lists.values[e]) : 1.0;
        o += vector[lists.keys[e] * static_cast<uint64_t>(lists.outputs) + share.output] * x;
    }
    out[at] = o;
}

// The same from coefficients that are integers, `scale` times what they stand for.
extern "C" __global__ void __launch_bounds__(256)
    linear_scores_whole(CsrRows lists, const int32_t* vector, double scale, double* out) {
    const EntryShare share(lists);
    if (share.row >= lists.rows) return;
    int64_t sum = 0;
#pragma unroll 4
    for (uint32_t e = share.begin; e < share.end; e += share.step) {
        sum += vector[lists.keys[e] * static_cast<uint64_t>(lists.outputs) + share.output];
    }
    if (lists.outputs == 1) sum = over_lanes(sum);
    if (sum == 0 || (lists.outputs == 1 && threadIdx.x % 8 != 0)) return;
    out[(lists.first + share.row) * lists.outputs + share.output] += static_cast<double>(sum) / scale;
}
