// Sums over the rows of each category before each row, by CUB's segmented scan over rows that are sorted by
// category: what is made of them is written from inside the scan.

#include <cstdint>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "statistic.cuh"

using namespace taiga;

namespace {

// What becomes of the sums.
enum Mode : uint32_t {
    VALUES,  // values[place] = the value that the rows before make of the row at this place
    TOTALS,  // sums[key] = the sum of all rows of the key
    BEFORE,  // rows_before[row] and target_before[row]: the sums themselves, of whole numbers; and TOTALS
};

struct Output {
    Smoothing smoothing;
    double* values;
    void* sums;
    uint32_t* rows_before;
    uint64_t* target_before;
    Mode mode;
};

// The category at a place, of keys of 32 bits or in the upper half of 64.
struct KeyAt {
    const uint32_t* narrow;
    const uint64_t* wide;
    __device__ __forceinline__ uint32_t operator()(uint32_t i) const {
        return wide != nullptr ? static_cast<uint32_t>(wide[i] >> 32) : narrow[i];
    }
};

template <typename S>
struct Of {
    S statistic;
    const uint32_t* rows;
    __device__ __forceinline__ typename S::Sum operator()(uint32_t i) const { return statistic.of(rows[i]); }
};

struct Plus {
    template <typename Sum>
    __host__ __device__ __forceinline__ Sum operator()(const Sum& a, const Sum& b) const {
        return a + b;
    }
};

template <typename S>
struct Write {
    S statistic;
    KeyAt key;
    const uint32_t* rows;
    uint32_t n;
    Output out;

    __device__ __forceinline__ void operator()(uint32_t i, typename S::Sum before) const {
        if (out.mode == VALUES) {
            out.values[i] = out.smoothing.value(statistic.read(before));
        } else {
            const uint32_t packed = rows[i];
            if constexpr (std::is_same_v<S, Whole>) {
                if (out.mode == BEFORE) {
                    const uint32_t row = S::row(packed);
                    out.rows_before[row] = static_cast<uint32_t>(before.rows);
                    out.target_before[row] = static_cast<uint64_t>(before.target);
                }
            }
            const uint32_t own = key(i);
            if (i + 1 == n || key(i + 1) != own) static_cast<typename S::Sum*>(out.sums)[own] = before + statistic.of(packed);
        }
    }
};

template <typename S>
cudaError_t scan(void* temporary, size_t& bytes, KeyAt key, const uint32_t* rows, uint32_t n, const TargetColumns& columns,
                 const Output& out, cudaStream_t stream) {
    const S statistic{columns};
    const auto places = thrust::make_counting_iterator(0u);
    const auto keys = thrust::make_transform_iterator(places, key);
    const auto addends = thrust::make_transform_iterator(places, Of<S>{statistic, rows});
    const auto written = thrust::make_tabulate_output_iterator(Write<S>{statistic, key, rows, n, out});
    return cub::DeviceScan::ExclusiveScanByKey(temporary, bytes, keys, addends, written, Plus{}, typename S::Sum{}, n,
                                               cuda::std::equal_to<>{}, stream);
}

}  // namespace

// `kind`: 0 PackedFlags, 1 Whole, 2 Real, 3 Full. One of `narrow` and `wide` is null.
extern "C" int taiga_scan_categories(void* temporary, size_t* bytes, uint32_t kind, const uint32_t* narrow, const uint64_t* wide,
                                     const uint32_t* rows, uint32_t n, const TargetColumns* columns, const Smoothing* smoothing,
                                     uint32_t mode, double* values, void* sums, uint32_t* rows_before,
                                     uint64_t* target_before, void* stream) {
    const KeyAt key{narrow, wide};
    const Output out{*smoothing, values, sums, rows_before, target_before, static_cast<Mode>(mode)};
    const auto on = static_cast<cudaStream_t>(stream);
    switch (kind) {
        case 0: return scan<PackedFlags>(temporary, *bytes, key, rows, n, *columns, out, on);
        case 1: return scan<Whole>(temporary, *bytes, key, rows, n, *columns, out, on);
        case 2: return scan<Real>(temporary, *bytes, key, rows, n, *columns, out, on);
        default: return scan<Full>(temporary, *bytes, key, rows, n, *columns, out, on);
    }
}
