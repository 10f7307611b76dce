// Computes row by row: residuals and losses, derivatives along a line, steps, and integers of numbers.

#pragma once

#include "layouts.cuh"

// Weighted residuals and losses of two classes or more; block sums of the losses, and the largest |residual| as bits.
extern "C" __global__ void __launch_bounds__(256)
    linear_residuals(DenseRows rows, const double* scores, double* out, double* losses, unsigned long long* largest) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = rows.outputs;
    double most = 0.0;
    auto row_of = [&](uint32_t i, double* loss) {
        const uint64_t row = first + i;
        const uint32_t code = rows.codes[row];
        const double* s = scores + row * outputs;
        double* o = out + row * outputs;
        if (outputs == 1) {
            const double side = code == 0 ? 1.0 : -1.0;
            const double z = s[0] * side;
            *loss = taiga::softplus64(z);
            o[0] = taiga::sigmoid64(z) * side;
        } else {
            double top = -taiga::INFINITE64, total = 0.0;
            for (uint32_t k = 0; k < outputs; k++) top = s[k] > top ? s[k] : top;
            for (uint32_t k = 0; k < outputs; k++) {
                const double e = taiga::exp64(s[k] - top);
                o[k] = e;
                total += e;
            }
            for (uint32_t k = 0; k < outputs; k++) o[k] = o[k] / total;
            *loss = taiga::ln64(total) + (top - s[code]);
            o[code] -= 1.0;
        }
        if (rows.weight) {
            const double w = rows.weight[row];
            *loss *= w;
            for (uint32_t k = 0; k < outputs; k++) o[k] *= w;
        }
        for (uint32_t k = 0; k < outputs; k++) {
            const double size = fabs(o[k]);
            if (size > most) most = size;
        }
    };
    sum_lanes<1>(n, row_of, losses + blockIdx.x);
    // Bits of floats that are not negative ascend as they do.
    unsigned long long bits = taiga::bits_of(most);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, bits, step);
        bits = other > bits ? other : bits;
    }
    if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(largest, bits);
}

// Block sums of the first and the second derivative of the loss at scores + step * direction: out[block * 2], out[block * 2 + 1].
extern "C" __global__ void __launch_bounds__(256)
    linear_along(DenseRows rows, const double* scores, const double* direction, double step, double* out) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = rows.outputs;
    auto row_of = [&](uint32_t i, double* found) {
        const uint64_t row = first + i;
        const uint32_t code = rows.codes[row];
        const double *s = scores + row * outputs, *d = direction + row * outputs;
        if (outputs == 1) {
            const double side = code == 0 ? 1.0 : -1.0;
            const double p = taiga::sigmoid64((s[0] + step * d[0]) * side);
            found[0] = p * side * d[0];
            found[1] = p * (1.0 - p) * (d[0] * d[0]);
        } else {
            double top = -taiga::INFINITE64, total = 0.0, mean = 0.0, square = 0.0;
            for (uint32_t k = 0; k < outputs; k++) {
                const double at = s[k] + step * d[k];
                top = at > top ? at : top;
            }
            for (uint32_t k = 0; k < outputs; k++) total += taiga::exp64((s[k] + step * d[k]) - top);
            for (uint32_t k = 0; k < outputs; k++) {
                const double p = taiga::exp64((s[k] + step * d[k]) - top) / total;
                mean += p * d[k];
                square += p * (d[k] * d[k]);
            }
            found[0] = mean - d[code];
            found[1] = square - mean * mean;
        }
        if (rows.weight) {
            const double w = rows.weight[row];
            found[0] = w * found[0];
            found[1] = w * found[1];
        }
    };
    sum_lanes<2>(n, row_of, out + 2 * static_cast<uint64_t>(blockIdx.x));
}

// out = from + step * out.
extern "C" __global__ void __launch_bounds__(256) linear_advance(uint64_t n, const double* from, double step, double* out) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) out[i] = from[i] + step * out[i];
}

// Residuals, or weights (null: 1 each), as integers.
extern "C" __global__ void __launch_bounds__(256) linear_round(uint64_t n, const double* values, double scale, int32_t* out) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = static_cast<int32_t>(round64(values[i] * scale));
    }
}

extern "C" __global__ void __launch_bounds__(256) linear_round_weight(DenseRows rows, double scale, int32_t* out) {
    for (uint64_t i = thread_number(); i < rows.rows; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = static_cast<int32_t>(round64((rows.weight ? static_cast<double>(rows.weight[i]) : 1.0) * scale));
    }
}
