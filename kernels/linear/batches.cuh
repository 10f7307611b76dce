// Computes batches: scores, residuals, sums of features and steps of coefficients (src/core/learners/linear/batches.rs).

#pragma once

#include "layouts.cuh"
#include "rule.cuh"

// A fit by batches. Rows stand in the order in which they are dealt.
struct BatchFit {  // shared with the host
    DenseRows rows;
    FeatureScale feature_scale;
    Rule rule, free;        // of penalised coefficients, and of intercepts
    float* c;               // of sparse features, and what the rule remembers: n, and z or the rows up to which penalties are made up, as bits
    uint2* state;
    int64_t* sums;
    Cell* others;           // of dense columns and intercepts
    double* residuals;      // of a batch
    double mean_weight, scale;
    uint64_t coefficients, intercept;  // intercept: whether it moves
};

// A coefficient with what its rule remembers.
__device__ __forceinline__ Cell cell_of(const BatchFit& fit, uint64_t at) {
    const uint2 s = fit.state[at];
    const double z = fit.rule.optimizer == FTRL ? static_cast<double>(__uint_as_float(s.y)) : static_cast<double>(s.y);
    return {static_cast<double>(fit.c[at]), static_cast<double>(__uint_as_float(s.x)), z};
}

__device__ __forceinline__ const Rule& rule_of(const BatchFit& fit, uint64_t other) {
    return other < fit.rows.columns * static_cast<uint64_t>(fit.rows.outputs) ? fit.rule : fit.free;
}

// A row's residuals from its scores, weighted and scaled.
__device__ __forceinline__ void finish_row(const BatchFit& fit, uint64_t row, double* o) {
    const uint32_t code = fit.rows.codes[row], outputs = fit.rows.outputs;
    if (outputs == 1) {
        const double side = code == 0 ? 1.0 : -1.0;
        o[0] = taiga::sigmoid64(o[0] * side) * side;
    } else {
        taiga::softmax_in_place(o, outputs, 1);
        o[code] -= 1.0;
    }
    const double weight = (fit.rows.weight ? static_cast<double>(fit.rows.weight[row]) : 1.0) / fit.mean_weight;
    for (uint32_t k = 0; k < outputs; k++) o[k] *= weight * fit.scale;
}

// Scores of a batch, and where there is one output the residuals. Eight lanes a row, or a thread for each output.
extern "C" __global__ void __launch_bounds__(256) linear_batch_scores(BatchFit fit, CsrRows lists, double now) {
    const uint64_t thread = thread_number();
    const uint32_t outputs = lists.outputs;
    const bool one = outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / outputs, k = one ? 0 : thread % outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.keys ? lists.starts[row] : 0, end = lists.keys ? lists.starts[row + 1] : 0;
    double sum = 0.0;
    if (one) {
#pragma unroll 4
        for (uint32_t e = begin + threadIdx.x % 8; e < end; e += 8) {
            const double c = fit.rule.value(cell_of(fit, lists.keys[e]), now);
            sum += lists.values ? c * static_cast<double>(lists.values[e]) : c;
        }
        sum = over_lanes(sum);
        if (threadIdx.x % 8 != 0) return;
    }
    double o = fit.free.value(fit.others[fit.rows.columns * static_cast<uint64_t>(outputs) + k], now);
    for (uint32_t d = 0; d < fit.rows.columns; d++) {
        o += fit.rule.value(fit.others[d * static_cast<uint64_t>(outputs) + k], now) * fit.rows.dense[d][lists.first + row];
    }
    if (one) {
        if (lists.keys) o += sum;
        fit.residuals[row] = o;
        finish_row(fit, lists.first + row, fit.residuals + row);
        return;
    }
    for (uint32_t e = begin; e < end; e++) {
        const double x = lists.values ? static_cast<double>(lists.values[e]) : 1.0;
        o += fit.rule.value(cell_of(fit, lists.keys[e] * static_cast<uint64_t>(outputs) + k), now) * x;
    }
    fit.residuals[row * outputs + k] = o;
}

// Residuals of several outputs.
extern "C" __global__ void __launch_bounds__(256) linear_batch_residuals(BatchFit fit, CsrRows lists) {
    const uint64_t row = thread_number();
    if (row < lists.rows) finish_row(fit, lists.first + row, fit.residuals + row * lists.outputs);
}

// Sums of the batch's features.
extern "C" __global__ void __launch_bounds__(256) linear_batch_add(BatchFit fit, CsrRows lists) {
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double x = lists.values ? static_cast<double>(lists.values[e]) * fit.feature_scale.of(key) : 1.0;
        for (uint32_t k = 0; k < lists.outputs; k++) {
            const int64_t q = round64(fit.residuals[row * lists.outputs + k] * x);
            if (q != 0) add(fit.sums + key * static_cast<uint64_t>(lists.outputs) + k, q);
        }
    }
}

// Steps of the batch's features, the last block of threads those of dense columns and intercepts.
extern "C" __global__ void __launch_bounds__(256) linear_batch_step(BatchFit fit, CsrRows lists, double now) {
    const double rows = lists.rows;
    const uint32_t outputs = lists.outputs;
    if (blockIdx.x == gridDim.x - 1) {
        for (uint64_t i = threadIdx.x; i < (fit.rows.columns + 1ull) * outputs; i += blockDim.x) {
            const uint64_t column = i / outputs, k = i % outputs;
            if (column == fit.rows.columns && !fit.intercept) continue;
            const double* values = column < fit.rows.columns ? fit.rows.dense[column] + lists.first : nullptr;
            double g = 0.0;
#pragma unroll 16
            for (uint32_t row = 0; row < lists.rows; row++) {
                const double r = fit.residuals[static_cast<uint64_t>(row) * outputs + k];
                g += values ? r * values[row] : r;
            }
            Cell cell = fit.others[i];
            rule_of(fit, i).step(cell, g / fit.scale, now, rows);
            fit.others[i] = cell;
        }
        return;
    }
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double scale = fit.scale * fit.feature_scale.of(key);
        for (uint32_t k = 0; k < outputs; k++) {
            const uint64_t at = key * static_cast<uint64_t>(outputs) + k;
            // Of a feature that stands here more than once whoever comes first takes all.
            const int64_t sum = static_cast<int64_t>(atomicExch(reinterpret_cast<unsigned long long*>(fit.sums + at), 0ull));
            if (sum == 0) continue;
            Cell cell = cell_of(fit, at);
            fit.rule.step(cell, static_cast<double>(sum) / scale, now, rows);
            fit.c[at] = static_cast<float>(cell.c);
            const uint32_t z = fit.rule.optimizer == FTRL ? __float_as_uint(static_cast<float>(cell.z))
                                                          : static_cast<uint32_t>(cell.z);
            fit.state[at] = {__float_as_uint(static_cast<float>(cell.n)), z};
        }
    }
}

// Makes up all penalties at the end of an epoch.
extern "C" __global__ void __launch_bounds__(256) linear_batch_settle(BatchFit fit, double now) {
    const uint64_t others = (fit.rows.columns + 1ull) * fit.rows.outputs;
    for (uint64_t i = thread_number(); i < fit.coefficients + others; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        if (i < fit.coefficients) {
            const Cell cell = cell_of(fit, i);
            if (fit.rule.fades() && cell.c != 0.0) fit.c[i] = static_cast<float>(fit.rule.value(cell, now));
            fit.state[i].y = 0;
        } else {
            Cell cell = fit.others[i - fit.coefficients];
            cell.c = rule_of(fit, i - fit.coefficients).value(cell, now);
            cell.z = 0.0;
            fit.others[i - fit.coefficients] = cell;
        }
    }
}

// All coefficients at a time.
extern "C" __global__ void __launch_bounds__(256) linear_batch_vector(BatchFit fit, double now, double* out) {
    const uint64_t others = (fit.rows.columns + 1ull) * fit.rows.outputs;
    for (uint64_t i = thread_number(); i < fit.coefficients + others; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = i < fit.coefficients ? fit.rule.value(cell_of(fit, i), now)
                               : rule_of(fit, i - fit.coefficients).value(fit.others[i - fit.coefficients], now);
    }
}
