// Applies boosted trees to codes (src/core/learners/boosting/model/plan.rs): a code is 0 for a missing value, else 1 + #(borders < x).

#pragma once

#include <cstdint>

// Does the row go right? `(code - shift) mod 256 > above`.
struct CodeTest {  // shared with the host
    uint32_t slot;
    uint8_t shift, above;
    uint16_t padding;
};

// `tests` and `children` of a branching tree are its nodes; of a symmetric one the tests are its levels.
struct BoostedTree {  // shared with the host
    uint32_t symmetric, first_test, tests, first_value;
};

// The value of a leaf for a row: `constant` and its terms `first .. end` added up in their order, where that is finite.
struct LinearValue {  // shared with the host
    double constant;
    uint32_t first, end;
};

// A number times the row's value of a slot.
struct LinearTerm {  // shared with the host
    double coefficient;
    uint32_t slot, unused;
};

// No leaf of a tree is a linear function of the row's values.
constexpr uint32_t ALL_CONSTANT = 0xffffffffu;

// Neighbouring rows that a thread takes: their codes are one load.
constexpr int ROWS = 4;

__device__ __forceinline__ bool goes_right(const CodeTest& test, uint32_t code) {
    return ((code - test.shift) & 0xff) > test.above;
}

__device__ __forceinline__ CodeTest load(const CodeTest* tests, uint64_t i) {
    const uint2 bits = __ldg(reinterpret_cast<const uint2*>(tests) + i);
    CodeTest test;
    *reinterpret_cast<uint2*>(&test) = bits;
    return test;
}

// The leaves of ROWS rows from `row` on; codes[slot * stride + row].
__device__ __forceinline__ void find_leaves(const BoostedTree& tree, const CodeTest* tests, const uint2* children, const uint8_t* codes,
                                            uint64_t stride, uint64_t row, uint32_t* leaf) {
#pragma unroll
    for (int k = 0; k < ROWS; k++) leaf[k] = 0;
    if (tree.symmetric) {
#pragma unroll 4
        for (uint32_t t = 0; t < tree.tests; t++) {
            const CodeTest test = load(tests, tree.first_test + t);
            const uint32_t four = __ldg(reinterpret_cast<const uint32_t*>(codes + test.slot * stride + row));
#pragma unroll
            for (int k = 0; k < ROWS; k++) leaf[k] = leaf[k] << 1 | goes_right(test, four >> (8 * k) & 0xff);
        }
        return;
    }
    // Four walks side by side. A state below the number of nodes is a node, above it a leaf.
    bool any = true;
    while (any) {
        any = false;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (leaf[k] < tree.tests) {
                const uint32_t at = tree.first_test + leaf[k];
                const CodeTest test = load(tests, at);
                const uint2 next = __ldg(children + at);
                leaf[k] = goes_right(test, __ldg(codes + test.slot * stride + row + k)) ? next.y : next.x;
                any |= leaf[k] < tree.tests;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) leaf[k] -= tree.tests;
}

// The value that a row's leaf in a tree has: that of `leaf_values`, unless the leaf is a linear function that is finite there. trees[t]: the place
// of tree t's first leaf, or ALL_CONSTANT. values[slot * rows + row].
__device__ __forceinline__ double linear_value(const LinearValue* leaves, const LinearTerm* terms, const double* values, uint64_t rows,
                                               uint64_t row, uint64_t leaf, double plain) {
    const LinearValue own = leaves[leaf];
    double sum = own.constant;
    for (uint32_t i = own.first; i < own.end; i++) sum += terms[i].coefficient * values[terms[i].slot * rows + row];
    return isfinite(sum) ? sum : plain;
}

// out[output * rows + row] = start[output] + scale * the sum over the output's trees, added in their order. `stride` is
// a multiple of ROWS, and codes behind the last row may hold anything.
extern "C" __global__ void __launch_bounds__(256)
    predict_trees(uint64_t rows, uint64_t stride, const uint8_t* codes, const BoostedTree* trees, uint32_t tree_count, uint32_t outputs,
            const CodeTest* tests, const uint2* children, const double* values, const double* start, double scale, double* out) {
    const uint64_t row = (blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x) * ROWS;
    if (row >= rows) return;
    for (uint32_t output = 0; output < outputs; output++) {
        double sums[ROWS] = {};
        for (uint32_t t = output; t < tree_count; t += outputs) {
            const BoostedTree tree = trees[t];
            uint32_t leaf[ROWS];
            find_leaves(tree, tests, children, codes, stride, row, leaf);
#pragma unroll
            for (int k = 0; k < ROWS; k++) sums[k] += __ldg(values + tree.first_value + leaf[k]);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (row + k < rows) out[output * rows + row + k] = start[output] + scale * sums[k];
        }
    }
}

// The same after every round: out[(output * rows + row) * rounds + round].
extern "C" __global__ void __launch_bounds__(256)
    predict_staged(uint64_t rows, uint64_t stride, const uint8_t* codes, const BoostedTree* trees, uint32_t rounds, uint32_t outputs, const CodeTest* tests,
           const uint2* children, const double* values, const double* start, double scale, double* out) {
    const uint64_t row = (blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x) * ROWS;
    if (row >= rows) return;
    for (uint32_t output = 0; output < outputs; output++) {
        double sums[ROWS] = {};
        for (uint32_t round = 0; round < rounds; round++) {
            const BoostedTree tree = trees[round * outputs + output];
            uint32_t leaf[ROWS];
            find_leaves(tree, tests, children, codes, stride, row, leaf);
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                sums[k] += __ldg(values + tree.first_value + leaf[k]);
                if (row + k < rows) out[(output * rows + row + k) * rounds + round] = start[output] + scale * sums[k];
            }
        }
    }
}

// What `predict_trees` writes (rounds: 0), or `predict_staged` (the number of rounds), of trees some of whose leaves are linear functions.
extern "C" __global__ void __launch_bounds__(256)
    predict_linear_trees(uint64_t rows, uint64_t stride, const uint8_t* codes, const BoostedTree* trees, uint32_t tree_count, uint32_t outputs,
            const CodeTest* tests, const uint2* children, const double* leaf_values, const uint32_t* first_leaves, const LinearValue* leaves,
            const LinearTerm* terms, const double* values, const double* start, double scale, uint32_t rounds, double* out) {
    const uint64_t row = (blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x) * ROWS;
    if (row >= rows) return;
    for (uint32_t output = 0; output < outputs; output++) {
        double sums[ROWS] = {};
        for (uint32_t t = output; t < tree_count; t += outputs) {
            const BoostedTree tree = trees[t];
            const uint32_t first = first_leaves[t];
            uint32_t leaf[ROWS];
            find_leaves(tree, tests, children, codes, stride, row, leaf);
#pragma unroll
            for (int k = 0; k < ROWS; k++) {
                if (row + k >= rows) continue;
                const double plain = __ldg(leaf_values + tree.first_value + leaf[k]);
                sums[k] += first == ALL_CONSTANT
                               ? plain
                               : linear_value(leaves, terms, values, rows, row + k, static_cast<uint64_t>(first) + leaf[k], plain);
                if (rounds > 0) out[(output * rows + row + k) * rounds + t / outputs] = start[output] + scale * sums[k];
            }
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (rounds == 0 && row + k < rows) out[output * rows + row + k] = start[output] + scale * sums[k];
        }
    }
}

// out[row * tree_count + tree] = the leaf.
extern "C" __global__ void __launch_bounds__(256)
    predict_leaves(uint64_t rows, uint64_t stride, const uint8_t* codes, const BoostedTree* trees, uint32_t tree_count, const CodeTest* tests,
           const uint2* children, uint32_t* out) {
    const uint64_t row = (blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x) * ROWS;
    if (row >= rows) return;
    for (uint32_t t = 0; t < tree_count; t++) {
        uint32_t leaf[ROWS];
        find_leaves(trees[t], tests, children, codes, stride, row, leaf);
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (row + k < rows) out[(row + k) * tree_count + t] = leaf[k];
        }
    }
}

// answers[test * pitch + k]: whether the row `first_row + k` goes right at a test of those from `first_test` on. A thread takes a row, a row of
// the grid some tests.
extern "C" __global__ void __launch_bounds__(256)
    answer_tests(uint64_t rows, uint64_t first_row, uint64_t stride, const uint8_t* codes, const CodeTest* tests, uint64_t first_test,
                 uint32_t count, uint64_t pitch, uint8_t* answers) {
    const uint64_t k = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (k >= rows) return;
    for (uint32_t t = blockIdx.y; t < count; t += gridDim.y) {
        const CodeTest test = load(tests, first_test + t);
        answers[t * pitch + k] = goes_right(test, __ldg(codes + test.slot * stride + first_row + k));
    }
}

// The entry of each row's category: its code, `len` for what the table has not.
extern "C" __global__ void entries_of_one(uint64_t rows, const uint32_t* codes, uint32_t len, uint32_t* entries) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        entries[row] = codes[row] < len ? codes[row] : len;
    }
}

// One column more of the combinations' keys: keys[row] = keys[row] * cardinality + codes[row]; all bits set where a
// code is beyond its column's.
extern "C" __global__ void extend_keys(uint64_t rows, const uint32_t* codes, uint64_t cardinality, uint32_t is_first, uint64_t* keys) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint64_t before = is_first ? 0 : keys[row], code = codes[row];
        keys[row] = before == ~0ull || code >= cardinality ? ~0ull : before * cardinality + code;
    }
}

// The hash of a combination with one more part (src/core/learners/boosting/model/mod.rs, `extend_hash`).
__device__ __forceinline__ uint64_t extended_hash(uint64_t hash, uint64_t part) {
    constexpr uint64_t multiplier = 0x4906ba494954cb65ull;
    return multiplier * (hash + multiplier * part);
}

// One part more of the combinations' hashes: the codes of a column, which count as signed.
extern "C" __global__ void extend_hashes(uint64_t rows, const uint32_t* codes, uint32_t is_first, uint64_t* keys) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const int64_t part = static_cast<int32_t>(codes[row]);
        keys[row] = extended_hash(is_first ? 0 : keys[row], static_cast<uint64_t>(part));
    }
}

// The same by whether rows go right at a test of the codes of its slot.
extern "C" __global__ void extend_hashes_by_test(uint64_t rows, const uint8_t* codes, uint32_t shift, uint32_t above, uint32_t is_first,
                                                 uint64_t* keys) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint32_t right = ((codes[row] - shift) & 0xff) > above;
        keys[row] = extended_hash(is_first ? 0 : keys[row], right);
    }
}

// The place of each row's key among those of the table, which ascend; their number for what the table has not.
extern "C" __global__ void entries_of_keys(uint64_t rows, const uint64_t* keys, const uint64_t* table, uint32_t len, uint32_t* entries) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint64_t key = keys[row];
        uint32_t low = 0, n = len;
        while (n > 0) {
            const uint32_t half = n / 2;
            if (table[low + half] < key) {
                low += half + 1;
                n -= half + 1;
            } else {
                n = half;
            }
        }
        entries[row] = low < len && table[low] == key ? low : len;
    }
}

// codes[row] = the code of its entry.
extern "C" __global__ void codes_of_entries(uint64_t rows, const uint32_t* entries, const uint8_t* of_entry, uint8_t* codes) {
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows;
         row += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        codes[row] = of_entry[entries[row]];
    }
}
