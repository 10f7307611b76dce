// Combines two categorical columns into one, whose categories are numbered by first appearance (src/core/encoding/combine.rs).

#include "../runtime/for_each.cuh"

__device__ __forceinline__ uint64_t pair_key(const uint32_t* a, const uint32_t* b, uint64_t b_count, uint64_t row) {
    return a[row] * b_count + b[row];
}

// table[key] = the first row with that pair; `table` is filled with ones before.
extern "C" __global__ void first_by_table(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count, uint32_t* table) {
    FOR_EACH(row, n) {
        uint32_t* place = table + pair_key(a, b, b_count, row);
        // Rows come about in order, so that few of many equal pairs get past this.
        if (*static_cast<volatile uint32_t*>(place) > row) atomicMin(place, static_cast<uint32_t>(row));
    }
}

// first[row] = the first row with the row's pair.
extern "C" __global__ void look_up_first(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count,
                                         const uint32_t* table, uint32_t* first) {
    FOR_EACH(row, n) first[row] = table[pair_key(a, b, b_count, row)];
}

extern "C" __global__ void pair_keys(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count, uint64_t* keys,
                                     uint32_t* rows) {
    FOR_EACH(row, n) {
        keys[row] = pair_key(a, b, b_count, row);
        rows[row] = static_cast<uint32_t>(row);
    }
}

// heads[i] = i where a new key begins, else 0.
extern "C" __global__ void mark_heads(uint64_t n, const uint64_t* keys, uint32_t* heads) {
    FOR_EACH(i, n) heads[i] = i > 0 && keys[i] != keys[i - 1] ? static_cast<uint32_t>(i) : 0;
}

// first[rows[i]] = the row at the head of its key: rows with one key are in their order.
extern "C" __global__ void spread_first(uint64_t n, const uint32_t* rows, const uint32_t* heads, uint32_t* first) {
    FOR_EACH(i, n) first[rows[i]] = rows[heads[i]];
}

// flags[row] = 1 for the first row of a pair, or of another key (src/cuda/columns/categories.rs).
extern "C" __global__ void flag_first(uint64_t n, const uint32_t* first, uint32_t* flags) {
    FOR_EACH(row, n) flags[row] = first[row] == row;
}

// codes[row] = how many pairs or keys appeared before the row's own.
extern "C" __global__ void number_pairs(uint64_t n, const uint32_t* first, const uint32_t* before, uint32_t* codes) {
    FOR_EACH(row, n) codes[row] = before[first[row]];
}
