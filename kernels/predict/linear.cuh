// Applies and explains linear models, in the order of additions of src/core/learners/linear/predict.rs.

#pragma once

#include <cstdint>

namespace {

// Returns where the coefficients of a feature stand: at its number, of those below `known`; or at its place among the `known` ascending
// `numbers`. `known` for a feature that has none.
__device__ __forceinline__ uint64_t place_of(uint64_t number, const uint64_t* numbers, uint64_t known) {
    if (numbers == nullptr) {
        return number < known ? number : known;
    }
    uint64_t low = 0, high = known;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < known && numbers[low] == number ? low : known;
}

}  // namespace

// out[output * rows + row]: the intercept, and dense columns times their coefficients, added in their order. values[column * rows + row],
// weights[column * outputs + output]. A thread takes a row, a row of the grid some outputs.
extern "C" __global__ void __launch_bounds__(256) score_dense(
    uint64_t rows,
    uint32_t columns,
    const double* values,
    const double* weights,
    const double* intercepts,
    uint32_t outputs,
    double* out) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) {
        return;
    }
    for (uint32_t k = blockIdx.y; k < outputs; k += gridDim.y) {
        double score = intercepts[k];
        for (uint32_t c = 0; c < columns; c++) {
            score += weights[c * static_cast<uint64_t>(outputs) + k] * values[c * rows + row];
        }
        out[k * rows + row] = score;
    }
}

// out[(output * parts + first + column) * rows + row]: what a dense column gives to a row's score, less what it gives in the mean,
// means[output * parts + first + column].
extern "C" __global__ void __launch_bounds__(256) explain_dense(
    uint64_t rows,
    uint32_t columns,
    const double* values,
    const double* weights,
    const double* means,
    uint32_t outputs,
    uint32_t first,
    uint32_t parts,
    double* out) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) {
        return;
    }
    for (uint32_t k = blockIdx.y; k < outputs; k += gridDim.y) {
        for (uint32_t c = 0; c < columns; c++) {
            const uint64_t part = k * static_cast<uint64_t>(parts) + first + c;
            out[part * rows + row] = weights[c * static_cast<uint64_t>(outputs) + k] * values[c * rows + row] - means[part];
        }
    }
}

// Adds the entries of the rows from `first_row` on, starts[k] .. starts[k + 1] those of the k-th of them, to out[output * step + row]; or,
// where there are means[output * parts], writes their sum less the mean there. Numbers are of 32 bits or, where `keys` is null, of 64; an
// entry without a value counts 1. weights[place * outputs + output].
extern "C" __global__ void __launch_bounds__(256) add_entries(
    uint64_t rows,
    uint64_t first_row,
    const uint64_t* starts,
    const uint32_t* keys,
    const uint64_t* wide_keys,
    const float* values,
    const uint64_t* numbers,
    uint64_t known,
    const float* weights,
    uint32_t outputs,
    const double* means,
    uint32_t parts,
    uint64_t step,
    double* out) {
    const uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (i >= rows) {
        return;
    }
    for (uint32_t k = blockIdx.y; k < outputs; k += gridDim.y) {
        double* own = out + k * step + first_row + i;
        double score = means == nullptr ? *own : 0.0;
        for (uint64_t at = starts[i]; at < starts[i + 1]; at++) {
            const uint64_t place = place_of(keys == nullptr ? wide_keys[at] : keys[at], numbers, known);
            if (place < known) {
                const double weight = weights[place * outputs + k];
                score += weight * (values == nullptr ? 1.0 : static_cast<double>(values[at]));
            }
        }
        *own = means == nullptr ? score : score - means[k * static_cast<uint64_t>(parts)];
    }
}
