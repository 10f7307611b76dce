// Twin of src/core/numerics/random.rs: random numbers addressed by (seed, purpose, stream, index).

#pragma once

#include <cstdint>

namespace taiga {

constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15ull;

// SplitMix64's finalizer.
__device__ __forceinline__ uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// A stream of random numbers; its key is the same for a whole launch.
struct Random {
    uint64_t key;

    // `purpose` by its number in random.rs.
    __device__ __forceinline__ Random(uint64_t seed, uint64_t purpose, uint64_t stream)
        : key(mix64(mix64(mix64(seed + GOLDEN) ^ (purpose * GOLDEN)) ^ ((stream + 1) * GOLDEN))) {}

    // The numbers by which the derivatives of a tree's rows are rounded, whatever the fit's seed is.
    static __device__ __forceinline__ Random rounding(uint64_t tree) { return Random(0, 2, tree); }

    // 64 random bits.
    __device__ __forceinline__ uint64_t u64(uint64_t index) const { return mix64(key + index * GOLDEN); }

    // 32 random bits by 32-bit operations alone, for inner loops.
    __device__ __forceinline__ uint32_t u32(uint32_t index) const {
        uint32_t x = index * 0x9E3779B9u ^ static_cast<uint32_t>(key);
        x = (x ^ (x >> 16)) * 0x21F0AAADu + static_cast<uint32_t>(key >> 32);
        x = (x ^ (x >> 15)) * 0xD35A2D97u;
        return x ^ (x >> 15);
    }

    // A number in [0, 1) with 53 random bits.
    __device__ __forceinline__ double unit(uint64_t index) const {
        return static_cast<double>(u64(index) >> 11) / 9007199254740992.0;  // 2^53
    }
};

}  // namespace taiga
