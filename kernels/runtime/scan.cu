// Scans 32-bit numbers: CUB's device-wide algorithms behind a C interface (runtime.rs).

#include <cstdint>
#include <cub/device/device_scan.cuh>

namespace {

struct Larger {
    __host__ __device__ __forceinline__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

}  // namespace

// out[i] = the sum of in[0 .. i).
extern "C" int taiga_sum_before(void* temporary, size_t* bytes, const uint32_t* in, uint32_t* out, uint32_t n, void* stream) {
    return cub::DeviceScan::ExclusiveSum(temporary, *bytes, in, out, n, static_cast<cudaStream_t>(stream));
}

// out[i] = the largest of in[0 ..= i].
extern "C" int taiga_largest_so_far(void* temporary, size_t* bytes, const uint32_t* in, uint32_t* out, uint32_t n, void* stream) {
    return cub::DeviceScan::InclusiveScan(temporary, *bytes, in, out, Larger{}, n, static_cast<cudaStream_t>(stream));
}
