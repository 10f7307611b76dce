// Sums over the rows of a category, and the value made of them: twins of src/core/encoding/statistic.rs
// and of the smoothing in group.rs, operation by operation.
#pragma once

#include <cstdint>

namespace taiga {

typedef __int128 int128_t;
typedef unsigned __int128 uint128_t;

// A number of at most 1 in absolute value as an integer of 2^-92, what is below that cut off.
__device__ __forceinline__ int128_t fixed92(double x) {
    const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x));
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    const uint64_t mantissa = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int shift = exponent - 1023 - 52 + 92;
    int128_t size;
    if (shift >= 0) {
        size = static_cast<int128_t>(mantissa) << shift;
    } else {
        size = static_cast<int128_t>(mantissa >> (-shift < 63 ? -shift : 63));
    }
    return bits >> 63 ? -size : size;
}

// The nearest double, ties to even, as Rust's `as f64`.
__device__ __forceinline__ double to_double(int128_t x) {
    const uint128_t size = x < 0 ? -static_cast<uint128_t>(x) : static_cast<uint128_t>(x);
    const uint64_t high = static_cast<uint64_t>(size >> 64), low = static_cast<uint64_t>(size);
    double out;
    if (high == 0) {
        out = __ull2double_rn(low);
    } else {
        // The upper 64 bits, the lowest of them saying whether anything is below.
        const int shift = 64 - __clzll(high);
        uint64_t top = static_cast<uint64_t>(size >> shift);
        top |= (size & ((static_cast<uint128_t>(1) << shift) - 1)) != 0;
        out = __ull2double_rn(top) * __longlong_as_double(static_cast<long long>(1023 + shift) << 52);
    }
    return x < 0 ? -out : out;
}

__device__ __forceinline__ double from_fixed92(int128_t sum) {
    return to_double(sum) * __longlong_as_double((1023ll - 92) << 52);
}

// Sums as floats, in units of the statistic.
struct Moments {
    double weight, target, squares;
};

// What rows bring; null where there is none of it.
struct TargetColumns {  // shared with the host
    const uint8_t* flags;
    const uint32_t* numbers;
    const double* values;
    const double* weight;
    double scale, weight_scale, centre, distance_scale;
};

// A statistic: `of` what a row adds, `read` its sums. Rows come as 32 bits, which `row` gives the number of.

// Flags whose rows are fewer than 2^31 and carry their flag in the uppermost bit. Rows in the lower half of a
// sum, flags in the upper one: neither overflows.
struct PackedFlags {
    using Sum = uint64_t;
    TargetColumns columns;
    __device__ __forceinline__ static uint32_t row(uint32_t packed) { return packed & 0x7fffffff; }
    __device__ __forceinline__ Sum of(uint32_t packed) const { return 1ull | static_cast<uint64_t>(packed >> 31) << 32; }
    __device__ __forceinline__ Moments read(Sum sum) const {
        return {static_cast<double>(static_cast<uint32_t>(sum)), static_cast<double>(sum >> 32), 0.0};
    }
};

// Whole numbers, whatever they come as.
struct Whole {
    struct Sum {  // shared with the host as WholeSum
        int64_t target, rows;
        __host__ __device__ __forceinline__ Sum operator+(const Sum& o) const { return {target + o.target, rows + o.rows}; }
        __host__ __device__ __forceinline__ Sum operator-(const Sum& o) const { return {target - o.target, rows - o.rows}; }
    };
    TargetColumns columns;
    __device__ __forceinline__ static uint32_t row(uint32_t row) { return row; }
    __device__ __forceinline__ Sum of(uint32_t row) const {
        const int64_t y = columns.flags != nullptr     ? columns.flags[row]
                          : columns.numbers != nullptr ? columns.numbers[row]
                                                       : static_cast<int64_t>(columns.values[row]);
        return {y, 1};
    }
    __device__ __forceinline__ Moments read(const Sum& sum) const {
        return {static_cast<double>(sum.rows), static_cast<double>(sum.target), 0.0};
    }
};

// Any finite numbers.
struct Real {
    struct Sum {  // shared with the host as RealSum
        int128_t target;
        int64_t rows, padding;
        __host__ __device__ __forceinline__ Sum operator+(const Sum& o) const { return {target + o.target, rows + o.rows, 0}; }
        __host__ __device__ __forceinline__ Sum operator-(const Sum& o) const { return {target - o.target, rows - o.rows, 0}; }
    };
    TargetColumns columns;
    __device__ __forceinline__ static uint32_t row(uint32_t row) { return row; }
    __device__ __forceinline__ Sum of(uint32_t row) const { return {fixed92(columns.values[row] * columns.scale), 1, 0}; }
    __device__ __forceinline__ Moments read(const Sum& sum) const {
        return {static_cast<double>(sum.rows), from_fixed92(sum.target), 0.0};
    }
};

// Any finite numbers with weights, and with squares of distances from the centre.
struct Full {
    struct Sum {  // shared with the host as FullSum
        int128_t weight, target, squares;
        __host__ __device__ __forceinline__ Sum operator+(const Sum& o) const {
            return {weight + o.weight, target + o.target, squares + o.squares};
        }
        __host__ __device__ __forceinline__ Sum operator-(const Sum& o) const {
            return {weight - o.weight, target - o.target, squares - o.squares};
        }
    };
    TargetColumns columns;
    __device__ __forceinline__ static uint32_t row(uint32_t row) { return row; }
    __device__ __forceinline__ Sum of(uint32_t row) const {
        const double y = columns.values[row] * columns.scale;
        const double w = columns.weight != nullptr ? columns.weight[row] * columns.weight_scale : 1.0;
        const double d = (y - columns.centre) * columns.distance_scale;
        return {fixed92(w), fixed92(w * y), fixed92(w * (d * d))};
    }
    __device__ __forceinline__ Moments read(const Sum& sum) const {
        const double distance = 1.0 / columns.distance_scale;
        return {from_fixed92(sum.weight), from_fixed92(sum.target), from_fixed92(sum.squares) * distance * distance};
    }
};

// How much of the prior goes into a value, and the prior.
struct Smoothing {  // shared with the host as DeviceSmoothing
    double weight, prior, variance, centre, scale, weight_scale;
    // The weight by empirical Bayes rather than `weight`.
    uint64_t automatic;

    __device__ __forceinline__ static double variance_of(const Moments& m, double centre) {
        const double noise = 1.0 / 70368744177664.0;  // 2^-46
        const double offset = m.target / m.weight - centre;
        const double square = m.squares / m.weight;
        const double variance = square - offset * offset;
        return variance > square * noise ? variance : 0.0;
    }

    __device__ __forceinline__ double value(const Moments& m) const {
        double value;
        if (m.weight <= 0.0) {
            value = prior;
        } else if (!automatic) {
            value = (m.target + prior * weight) / (m.weight + weight);
        } else {
            const double mean = m.target / m.weight;
            const double within = variance_of(m, centre);
            const double between = variance * m.weight / weight_scale;
            if (between + within == 0.0) {
                value = prior;
            } else {
                const double lambda = between / (between + within);
                value = lambda * mean + (1.0 - lambda) * prior;
            }
        }
        return value / scale + 0.0;
    }
};

}  // namespace taiga
