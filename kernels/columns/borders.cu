// Makes the keys that a column is sorted by, and looks up what the border methods ask of the distinct ones (src/core/quantize/borders).

#include <cstdint>

#include "../runtime/for_each.cuh"
#include "key_summary.cuh"
#include "stats/values.cuh"

using namespace taiga;

// `PAGE` of borders.rs.
constexpr uint32_t PAGE = 512;

// Unsigned integers that order as the values do, as `Key` of src/core/quantize/sort.rs makes them: 0.0 and -0.0 are one.
__device__ __forceinline__ uint32_t key_of(float x) {
    const uint32_t bits = __float_as_uint(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ uint64_t key_of(double x) {
    const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x + 0.0));
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}
// Integers of 64 bits are what they are as doubles; narrower ones count from the least.
__device__ __forceinline__ uint64_t key_of(int64_t x) { return key_of(static_cast<double>(x)); }
__device__ __forceinline__ uint64_t key_of(uint64_t x) { return key_of(static_cast<double>(x)); }
__device__ __forceinline__ uint32_t key_of(int8_t x) { return static_cast<uint32_t>(x + 128); }
__device__ __forceinline__ uint32_t key_of(int16_t x) { return static_cast<uint32_t>(x + 32768); }
__device__ __forceinline__ uint32_t key_of(int32_t x) { return static_cast<uint32_t>(x) ^ 1u << 31; }
__device__ __forceinline__ uint32_t key_of(uint8_t x) { return x; }
__device__ __forceinline__ uint32_t key_of(uint16_t x) { return x; }
__device__ __forceinline__ uint32_t key_of(uint32_t x) { return x; }

// The key of each value, or of those in the rows of `sample`; a missing one has `last`, which is no smaller than any other.
template <typename K, typename T>
__device__ __forceinline__ void write_keys(const T* values, const uint32_t* validity, const uint32_t* sample, uint64_t n, K last,
                                           K* keys, KeySummary* summary) {
    __shared__ KeySummary of_block;
    if (threadIdx.x == 0) of_block = {0, 0};
    __syncthreads();
    auto key_at = [&](uint64_t i, bool& is_missing) {
        const uint64_t row = sample == nullptr ? i : sample[i];
        const T x = values[row];
        is_missing = x != x || !is_valid(validity, row);
        return is_missing ? last : static_cast<K>(key_of(x));
    };
    bool is_missing;
    const K one = key_at(0, is_missing);
    K differ = 0;
    unsigned long long missing = 0;
    FOR_EACH(i, n) {
        const K key = key_at(i, is_missing);
        keys[i] = key;
        differ |= key ^ one;
        missing += is_missing;
    }
    if (differ != 0) atomicOr(&of_block.differ, static_cast<unsigned long long>(differ));
    if (missing != 0) atomicAdd(&of_block.missing, missing);
    __syncthreads();
    if (threadIdx.x == 0) {
        if (of_block.differ != 0) atomicOr(&summary->differ, of_block.differ);
        if (of_block.missing != 0) atomicAdd(&summary->missing, of_block.missing);
    }
}

#define KEYS(name, T, K)                                                                                                \
    extern "C" __global__ void keys_##name(const T* values, const uint32_t* validity, const uint32_t* sample, uint64_t n, \
                                           K last, K* keys, KeySummary* summary) {                                         \
        write_keys(values, validity, sample, n, last, keys, summary);                                                   \
    }

KEYS(f32, float, uint32_t)
KEYS(f64, double, uint64_t)
KEYS(i8, int8_t, uint32_t)
KEYS(i16, int16_t, uint32_t)
KEYS(i32, int32_t, uint32_t)
KEYS(i64, int64_t, uint64_t)
KEYS(u8, uint8_t, uint32_t)
KEYS(u16, uint16_t, uint32_t)
KEYS(u32, uint32_t, uint32_t)
KEYS(u64, uint64_t, uint64_t)

// heads[page] = the first number of each page of `first`, of n numbers.
extern "C" __global__ void heads_of_pages(uint64_t n, const uint32_t* first, uint32_t* heads) {
    FOR_EACH(page, (n + PAGE - 1) / PAGE) heads[page] = first[page * PAGE];
}

// Copies the pages that are wanted, a block each, to one behind the other.
extern "C" __global__ void copy_pages(uint64_t n, const uint32_t* first, const uint32_t* wanted, uint32_t* out) {
    const uint64_t from = wanted[blockIdx.x] * static_cast<uint64_t>(PAGE), to = blockIdx.x * static_cast<uint64_t>(PAGE);
    for (uint32_t i = threadIdx.x; i < PAGE; i += blockDim.x) out[to + i] = from + i < n ? first[from + i] : 0;
}

// Values that `least` rows have at least: found[0] of them, and in any order three numbers each: which one it is, the rows
// before it, its own. There is room for `most`.
extern "C" __global__ void heavy_values(uint64_t n, const uint32_t* first, uint64_t total, uint64_t least, uint32_t most,
                                        uint32_t* found) {
    FOR_EACH(i, n) {
        const uint64_t rows = (i + 1 < n ? first[i + 1] : total) - first[i];
        if (rows < least) continue;
        const uint32_t place = atomicAdd(found, 1u);
        if (place >= most) continue;
        uint32_t* out = found + 1 + 3 * static_cast<uint64_t>(place);
        out[0] = static_cast<uint32_t>(i);
        out[1] = first[i];
        out[2] = static_cast<uint32_t>(rows);
    }
}

template <typename K>
__device__ __forceinline__ void gather(uint64_t n, const K* keys, const uint32_t* indices, uint64_t* out) {
    FOR_EACH(i, n) out[i] = keys[indices[i]];
}
extern "C" __global__ void gather_u32(uint64_t n, const uint32_t* keys, const uint32_t* indices, uint64_t* out) {
    gather(n, keys, indices, out);
}
extern "C" __global__ void gather_u64(uint64_t n, const uint64_t* keys, const uint32_t* indices, uint64_t* out) {
    gather(n, keys, indices, out);
}

#include "layouts.cuh"
