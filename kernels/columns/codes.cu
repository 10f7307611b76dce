// Computes the code of each value: offset + #(borders < x), and 0 for a missing value (src/core/quantize/codes.rs).

#include <cstdint>

extern __shared__ uint4 shared_memory[];

// The number of borders below x, by bisection; borders ascend.
template <typename F>
__device__ __forceinline__ uint32_t count_below(const F* borders, uint32_t n, F x) {
    uint32_t count = 0;
    while (n > 0) {
        uint32_t half = (n + 1) / 2;
        if (borders[count + half - 1] < x) count += half;
        n -= half;
    }
    return count;
}

// out[row * stride] = the code of the row. `missing` becomes 1 where there is a missing value. The borders are
// f32, rounded down, for f32 values and f64 for all others; `in_shared`: there is shared memory for them.
template <typename T, typename F, typename C>
__device__ __forceinline__ void code(const T* values, const uint32_t* validity, uint64_t rows, const F* borders, uint32_t n,
                                     uint32_t in_shared, uint32_t offset, C* out, uint64_t stride, uint32_t* missing) {
    if (in_shared) {
        F* copy = reinterpret_cast<F*>(shared_memory);
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) copy[i] = borders[i];
        borders = copy;
        __syncthreads();
    }
    bool any = false;
    const uint64_t step = gridDim.x * static_cast<uint64_t>(blockDim.x);
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows; row += step) {
        F x = static_cast<F>(values[row]);
        bool is_missing = x != x || (validity != nullptr && (validity[row / 32] >> (row % 32) & 1) == 0);
        any |= is_missing;
        out[row * stride] = static_cast<C>(is_missing ? 0 : offset + count_below(borders, n, x));
    }
    if (__syncthreads_or(any) && threadIdx.x == 0) *missing = 1;
}

#define CODES_OF(name, T, F, bits, C)                                                                                   \
    extern "C" __global__ void __launch_bounds__(512)                                                                   \
        codes_##name##_u##bits(const T* values, const uint32_t* validity, uint64_t rows, const F* borders, uint32_t n,  \
                               uint32_t in_shared, uint32_t offset, C* out, uint64_t first, uint64_t stride,            \
                               uint32_t* missing) {                                                                     \
        code<T, F, C>(values, validity, rows, borders, n, in_shared, offset, out + first, stride, missing);             \
    }

#define CODES(name, T, F)                                                                                               \
    CODES_OF(name, T, F, 8, uint8_t)                                                                                    \
    CODES_OF(name, T, F, 16, uint16_t)

CODES(f32, float, float)
CODES(f64, double, double)
CODES(i8, int8_t, double)
CODES(i16, int16_t, double)
CODES(i32, int32_t, double)
CODES(i64, int64_t, double)
CODES(u8, uint8_t, double)
CODES(u16, uint16_t, double)
CODES(u32, uint32_t, double)
CODES(u64, uint64_t, double)

// Codes that are there already: out[first + row * stride] = codes[row].
extern "C" __global__ void __launch_bounds__(512)
    place_u8(const uint8_t* codes, uint64_t rows, uint8_t* out, uint64_t first, uint64_t stride) {
    const uint64_t step = gridDim.x * static_cast<uint64_t>(blockDim.x);
    for (uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; row < rows; row += step) {
        out[first + row * stride] = codes[row];
    }
}
