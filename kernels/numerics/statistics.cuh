// Twin of src/core/numerics/fixed.rs and of the packing in src/cpu/trees/gradient_quantizer.rs:
// from a row's derivatives to integers.

#pragma once

#include <cstdint>

#include "math.cuh"
#include "random.cuh"

namespace taiga {

// round(x) for |x| < 2^22, as the low bits of a float beyond which there are no fractions.
__device__ __forceinline__ int32_t round32(float x) {
    return static_cast<int32_t>(__float_as_uint(x + 12582912.0f) - 0x4B400000u);
}

// round(x) for |x| < 2^51, likewise.
__device__ __forceinline__ int64_t round64(double x) {
    return static_cast<int64_t>(bits_of(x + 6755399441055744.0) - 0x4338000000000000ull);
}

// A random number inside (-1/2, 1/2) from 16 bits: what is a whole number already stays as it is.
__device__ __forceinline__ float dither(uint32_t bits) {
    return (static_cast<float>(bits & 0xffffu) + 0.5f) * (1.0f / 65536.0f) - 0.5f;
}

// round(x + dither), the dither added to the fraction alone.
__device__ __forceinline__ int32_t round_with(float x, float dither) {
    float whole = (x + 12582912.0f) - 12582912.0f;
    return round32(whole) + round32((x - whole) + dither);
}

// Gradient (16 bits, signed) above hessian (16 bits).
__device__ __forceinline__ uint32_t pack_both(float gradient, float hessian, float gradient_factor, float hessian_factor,
                                              Random random, uint32_t row) {
    uint32_t bits = random.u32(row);
    int32_t g = round_with(gradient * gradient_factor, dither(bits));
    int32_t h = round_with(hessian * hessian_factor, dither(bits >> 16));
    return (static_cast<uint32_t>(g) << 16) | (static_cast<uint32_t>(h) & 0xffffu);
}

// Gradient above 1, or above 0 where the row counts for nothing.
__device__ __forceinline__ uint32_t pack_unit(float gradient, float hessian, float factor, Random random, uint32_t row) {
    int32_t g = round_with(gradient * factor, dither(random.u32(row)));
    return (static_cast<uint32_t>(g) << 16) | (hessian != 0.0f ? 1u : 0u);
}

// A 32-bit value, two limbs; `shift` is 0 for gradients and 16 for hessians.
__device__ __forceinline__ uint32_t pack_wide(float value, double factor, Random random, uint32_t row, uint32_t shift) {
    uint32_t bits = random.u32(row) >> shift;
    return static_cast<uint32_t>(round64(static_cast<double>(value) * factor + static_cast<double>(dither(bits))));
}

// The 64-bit fixed point of the leaves' sums; too large values saturate. Not for NaN, which Rust
// makes 0 and this does not; derivatives are finite.
__device__ __forceinline__ int64_t to_fixed(float value, double factor) {
    return __double2ll_rz(static_cast<double>(value) * factor);
}

}  // namespace taiga
