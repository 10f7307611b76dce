// Finds the bin of a value: the twin of src/core/stats/locate.rs, comparison by comparison.
#pragma once

#include <cstdint>

namespace taiga {

__device__ __forceinline__ float round_down(float x) { return floorf(x); }
__device__ __forceinline__ double round_down(double x) { return floor(x); }
__device__ __forceinline__ float absolute(float x) { return fabsf(x); }
__device__ __forceinline__ double absolute(double x) { return fabs(x); }

// Bins of equal width: estimated, and compared with the edges where the estimate may be wrong.
template <typename F>
struct Uniform {  // shared with the host
    using Float = F;
    const F* edges;
    F first, last, scale, sure;
    uint32_t bins;

    // The number of bins where none holds x, for NaN too.
    __device__ __forceinline__ uint32_t locate(F x) const {
        if (!(x >= first && x <= last)) return bins;
        F estimate = (x - first) * scale;
        F floor = round_down(estimate);
        uint32_t bin = static_cast<uint32_t>(floor);
        bin = bin < bins ? bin : bins - 1;
        if (absolute(estimate - floor - F(0.5)) > sure) {
            bool above = bin + 1 < bins && x >= edges[bin + 1];
            bool below = x < edges[bin];
            bin = bin + above - below;
        }
        return bin;
    }
};

// Any ascending edges: the last one that is at most x, by bisection.
struct Edges {  // shared with the host
    using Float = double;
    const double* edges;
    double first, last;
    uint32_t bins;

    __device__ __forceinline__ uint32_t locate(double x) const {
        if (!(x >= first && x <= last)) return bins;
        uint32_t bin = 0;
#pragma unroll 1
        for (uint32_t n = bins; n > 1;) {
            uint32_t half = n / 2;
            if (edges[bin + half] <= x) bin += half;
            n -= half;
        }
        return bin;
    }
};

}  // namespace taiga
