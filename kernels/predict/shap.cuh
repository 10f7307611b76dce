// Shapley values of boosted trees by look-ups (src/core/shap/tables.rs): a row's answers to the tests of a part of a tree are the bits of
// a pattern, and a table has what each term (a player, a pair of players) gets under it.

#pragma once

#include "trees.cuh"

// How a test changes a row's pattern. `change` 0: the bit is set where the row goes right. 2, 3: the bit, set at first, is cleared where
// the row does not go left, right.
struct PatternStep {  // shared with the host
    uint32_t slot;
    uint8_t shift, above, bit, change;
};

// A table, values[first_value + term << bits + pattern], the steps to a row's pattern in it, and the places of its terms.
struct ShapLookUp {  // shared with the host
    uint64_t first_value;
    uint32_t first_step, steps, first_pattern, bits, first_place, terms;
};

// A part of a column's value: what the player gets, divided by its number of columns.
struct ShapPart {  // shared with the host
    uint32_t player, columns;
};

// The pattern of a row.
__device__ __forceinline__ uint32_t pattern_of(const ShapLookUp& lookup, const PatternStep* steps, const uint8_t* codes, uint64_t stride,
                                               uint64_t row) {
    uint32_t pattern = lookup.first_pattern;
    for (uint32_t s = 0; s < lookup.steps; s++) {
        const uint2 bits = __ldg(reinterpret_cast<const uint2*>(steps + lookup.first_step) + s);
        PatternStep step;
        *reinterpret_cast<uint2*>(&step) = bits;
        const uint32_t right = ((__ldg(codes + step.slot * stride + row) - step.shift) & 0xff) > step.above;
        if (step.change) {
            pattern &= ~((right ^ (step.change & 1)) << step.bit);
        } else {
            pattern |= right << step.bit;
        }
    }
    return pattern;
}

// Adds what a row finds, look-up after look-up, to sums[term * pitch].
__device__ __forceinline__ void look_up(const ShapLookUp* lookups, uint32_t from, uint32_t to, const PatternStep* steps, const uint32_t* places,
                                        const double* values, const uint8_t* codes, uint64_t stride, uint64_t row, double* sums,
                                        uint64_t pitch) {
    for (uint32_t l = from; l < to; l++) {
        const ShapLookUp lookup = lookups[l];
        const double* found = values + lookup.first_value + pattern_of(lookup, steps, codes, stride, row);
#pragma unroll 4
        for (uint32_t term = 0; term < lookup.terms; term++) {
            sums[__ldg(places + lookup.first_place + term) * pitch] += __ldg(found + (static_cast<uint64_t>(term) << lookup.bits));
        }
    }
}

// A thread takes the row `first_row + k` of `rows`, a row of the grid an output, whose look-ups are first_lookup[output] and those before
// first_lookup[output + 1]. Sums stand in shared memory where `in_shared`, else in `out`.
//
// With `columns`, out[(output * columns + column) * rows + k] = scale * (the sum of the column's parts, which are those from
// first_part[column] on). Without, out[(output * terms + term) * rows + k] = the sum of the term; then sums do not stand in shared memory.
extern "C" __global__ void __launch_bounds__(256)
    explain_trees(uint64_t rows, uint64_t first_row, uint64_t stride, const uint8_t* codes, const ShapLookUp* lookups, const uint32_t* first_lookup,
                  const PatternStep* steps, const uint32_t* places, const double* values, uint32_t terms, uint32_t columns,
                  const uint32_t* first_part, const ShapPart* parts, double scale, double* out) {
    extern __shared__ double shared[];
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) return;
    const uint32_t output = blockIdx.y;
    const uint32_t from = first_lookup[output], to = first_lookup[output + 1];
    if (!columns) {
        double* sums = out + static_cast<uint64_t>(output) * terms * rows + k;
        for (uint32_t term = 0; term < terms; term++) sums[term * rows] = 0.0;
        look_up(lookups, from, to, steps, places, values, codes, stride, first_row + k, sums, rows);
        return;
    }
    double* sums = shared + threadIdx.x;
    for (uint32_t term = 0; term < terms; term++) sums[term * blockDim.x] = 0.0;
    look_up(lookups, from, to, steps, places, values, codes, stride, first_row + k, sums, blockDim.x);
    for (uint32_t column = 0; column < columns; column++) {
        double sum = 0.0;
        for (uint32_t p = first_part[column]; p < first_part[column + 1]; p++) {
            sum += sums[parts[p].player * blockDim.x] / static_cast<double>(parts[p].columns);
        }
        out[(static_cast<uint64_t>(output) * columns + column) * rows + k] = sum * scale;
    }
}
