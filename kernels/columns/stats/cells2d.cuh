// The cells of a histogram of two columns: the twin of src/core/stats/histogram2d.rs.
#pragma once

#include <cstdint>

#include "bins.cuh"

namespace taiga {

// A column of floats of either width, a missing one NaN.
struct FloatColumn {  // shared with the host
    const void* values;
    uint64_t single;

    __device__ __forceinline__ double at(uint64_t row) const {
        return single ? static_cast<double>(static_cast<const float*>(values)[row]) : static_cast<const double*>(values)[row];
    }
};

// The bins of one of the two columns: of equal width, or any.
struct AxisBins {  // shared with the host
    Uniform<double> uniform;
    uint64_t any;

    __device__ __forceinline__ uint32_t locate(double x) const {
        return any ? Edges{uniform.edges, uniform.first, uniform.last, uniform.bins}.locate(x) : uniform.locate(x);
    }
};

// Cell i * (bins of y) + j for bin i of x and bin j of y.
struct Cells2d {  // shared with the host
    FloatColumn x, y;
    AxisBins x_bins, y_bins;

    __device__ __forceinline__ uint32_t size() const { return x_bins.uniform.bins * y_bins.uniform.bins; }

    // The number of cells where none holds the row.
    __device__ __forceinline__ uint32_t locate(uint64_t row) const {
        const uint32_t i = x_bins.locate(x.at(row)), j = y_bins.locate(y.at(row));
        return i < x_bins.uniform.bins && j < y_bins.uniform.bins ? i * y_bins.uniform.bins + j : size();
    }
};

}  // namespace taiga
