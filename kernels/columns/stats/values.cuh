// Reads a column's values, 16 bytes at a time.
#pragma once

#include <cstdint>

namespace taiga {

template <typename T>
struct alignas(16) Vector {
    static constexpr int SIZE = 16 / sizeof(T);
    T values[SIZE];
};

// How a pass reads a column: once; first, and then it is read again; or again, from its end, of which the
// second-level cache still has what the first pass read last.
enum class Pass { ONCE, FIRST, AGAIN };

template <Pass PASS, typename T>
__device__ __forceinline__ Vector<T> load(const T* values, uint64_t i) {
    Vector<T> out;
    const uint4* from = reinterpret_cast<const uint4*>(values) + i;
    // What is not read again the caches need not keep.
    *reinterpret_cast<uint4*>(&out) = PASS == Pass::FIRST ? __ldcg(from) : __ldcs(from);
    return out;
}

// Bit `row` of a bitmap; all of a bitmap that is null are set.
__device__ __forceinline__ bool is_valid(const uint32_t* validity, uint64_t row) {
    return validity == nullptr || (validity[row / 32] >> (row % 32) & 1) != 0;
}

// visit(value) for every value that is not null, dealt to the threads of the grid. `values` is aligned to
// 16 bytes. Up to four loads are on their way at a time.
template <Pass PASS = Pass::ONCE, typename T, typename Visit>
__device__ __forceinline__ void for_each_value(const T* values, const uint32_t* validity, uint64_t rows, Visit visit) {
    // Vectors of many values are enough work each; more would only be more code.
    constexpr int SIZE = Vector<T>::SIZE, DEPTH = SIZE <= 4 ? 4 : SIZE <= 8 ? 2 : 1;
    const uint64_t stride = gridDim.x * static_cast<uint64_t>(blockDim.x);
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    const uint64_t vectors = rows / SIZE;
    // The place of the i-th vector that is read.
    auto place = [&](uint64_t i) { return PASS == Pass::AGAIN ? vectors - 1 - i : i; };
    auto visit_all = [&](const Vector<T>& vector, uint64_t at) {
        // The bits of a vector lie in one word.
        uint32_t valid = validity == nullptr ? ~0u : validity[at * SIZE / 32] >> (at * SIZE % 32);
#pragma unroll
        for (int k = 0; k < SIZE; k++) {
            if (valid >> k & 1) visit(vector.values[k]);
        }
    };
    uint64_t i = first;
    for (; i + (DEPTH - 1) * stride < vectors; i += DEPTH * stride) {
        Vector<T> ahead[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; d++) ahead[d] = load<PASS>(values, place(i + d * stride));
#pragma unroll
        for (int d = 0; d < DEPTH; d++) visit_all(ahead[d], place(i + d * stride));
    }
    for (; i < vectors; i += stride) visit_all(load<PASS>(values, place(i)), place(i));
    const uint64_t rest = vectors * SIZE + first;
    if (rest < rows && is_valid(validity, rest)) visit(values[rest]);
}

}  // namespace taiga
