// Shapley values of trees by look-ups (src/core/shap/program.rs): a row's answers to the tests of a part of a tree are the bits of a pattern,
// and a table has what each term (a player, a pair of players) gets under it. `codes` are those of columns, or answers that are there
// already: codes of 0 and 1.

#pragma once

#include "trees.cuh"

// How a test changes a row's pattern. `change` 0: the bit is set where the row goes right. 2, 3: the bit, set at first, is cleared where
// the row does not go left, right.
struct PatternStep {  // shared with the host
    uint32_t slot;
    uint8_t shift, above, bit, change;
};

// A table, values[first_value + pattern * pitch + term], the steps to a row's pattern in it, and the places of its terms. `pitch` is even.
struct ShapLookUp {  // shared with the host
    uint64_t first_value;
    uint32_t first_step, steps, first_pattern, pitch, first_place, terms;
};

// A part of what a column or a pair of columns is credited with: so many halves of a term, divided by the number of those who share it.
struct ShapPart {  // shared with the host
    uint32_t term, divisor, halves;
};

// The number of the pair i < j of players, counted behind the players themselves.
__device__ __forceinline__ uint32_t pair_of(uint32_t players, uint32_t i, uint32_t j) {
    return players + i * players - i * (i + 1) / 2 + j - i - 1;
}

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
        const uint64_t pattern = pattern_of(lookup, steps, codes, stride, row);
        const double2* found = reinterpret_cast<const double2*>(values + lookup.first_value + pattern * lookup.pitch);
        const uint32_t* place = places + lookup.first_place;
#pragma unroll 4
        for (uint32_t term = 0; term < lookup.terms; term += 2) {
            const double2 two = __ldg(found + term / 2);
            sums[__ldg(place + term) * pitch] += two.x;
            if (term + 1 < lookup.terms) sums[__ldg(place + term + 1) * pitch] += two.y;
        }
    }
}

// What a place is credited with, of a row's sums[term * pitch]. With `alone` a term of a player is what it has by itself, without what it
// shares with each of the other `players`.
__device__ __forceinline__ double credit(const double* sums, uint64_t pitch, const ShapPart* parts, uint32_t from, uint32_t to, bool alone,
                                         uint32_t players) {
    double sum = 0.0;
    for (uint32_t p = from; p < to; p++) {
        const ShapPart part = parts[p];
        double x = sums[part.term * pitch];
        if (alone && part.term < players) {
            for (uint32_t other = 0; other < players; other++) {
                if (other == part.term) continue;
                x -= sums[pair_of(players, min(part.term, other), max(part.term, other)) * pitch];
            }
        }
        sum += static_cast<double>(part.halves) * x / static_cast<double>(part.divisor);
    }
    return sum;
}

// A thread takes the row `first_row + k` of `rows`, a row of the grid an output, whose look-ups are first_lookup[output] and those before
// first_lookup[output + 1], and sums in shared memory: out[(output * columns + column) * rows + k] = scale * (the sum of the column's parts,
// which are those from first_part[column] on).
extern "C" __global__ void __launch_bounds__(256)
    explain_values(uint64_t rows, uint64_t first_row, uint64_t stride, const uint8_t* codes, const ShapLookUp* lookups, const uint32_t* first_lookup,
                   const PatternStep* steps, const uint32_t* places, const double* values, uint32_t terms, uint32_t columns,
                   const uint32_t* first_part, const ShapPart* parts, double scale, double* out) {
    extern __shared__ double shared[];
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) return;
    const uint32_t output = blockIdx.y;
    double* sums = shared + threadIdx.x;
    for (uint32_t term = 0; term < terms; term++) sums[term * blockDim.x] = 0.0;
    look_up(lookups, first_lookup[output], first_lookup[output + 1], steps, places, values, codes, stride, first_row + k, sums, blockDim.x);
    for (uint32_t column = 0; column < columns; column++) {
        const double sum = credit(sums, blockDim.x, parts, first_part[column], first_part[column + 1], false, 0);
        out[(static_cast<uint64_t>(output) * columns + column) * rows + k] = sum * scale;
    }
}

// The same for terms that have no room in shared memory, and for trees that lie between others: added to sums[(output * terms + term) * rows + k],
// which `credit_terms` credits.
extern "C" __global__ void __launch_bounds__(256)
    explain_terms(uint64_t rows, uint64_t first_row, uint64_t stride, const uint8_t* codes, const ShapLookUp* lookups, const uint32_t* first_lookup,
                  const PatternStep* steps, const uint32_t* places, const double* values, uint32_t terms, double* sums) {
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) return;
    const uint32_t output = blockIdx.y;
    double* own = sums + static_cast<uint64_t>(output) * terms * rows + k;
    look_up(lookups, first_lookup[output], first_lookup[output + 1], steps, places, values, codes, stride, first_row + k, own, rows);
}

// out[(output * count + place) * rows + k] = scale * (the sum of the place's parts). A thread takes a row, a row of the grid an output, a layer
// CREDITED places.
constexpr uint32_t CREDITED = 16;
extern "C" __global__ void __launch_bounds__(256)
    credit_terms(uint64_t rows, const double* sums, uint32_t terms, uint32_t players, uint32_t alone, uint32_t count, const uint32_t* first_part,
                 const ShapPart* parts, double scale, double* out) {
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) return;
    const double* own = sums + static_cast<uint64_t>(blockIdx.y) * terms * rows + k;
    const uint32_t end = min(count, (blockIdx.z + 1) * CREDITED);
    for (uint32_t place = blockIdx.z * CREDITED; place < end; place++) {
        const double sum = credit(own, rows, parts, first_part[place], first_part[place + 1], alone, players);
        out[(static_cast<uint64_t>(blockIdx.y) * count + place) * rows + k] = sum * scale;
    }
}
