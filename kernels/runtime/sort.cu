// Sorts pairs: CUB's device-wide radix sort behind a C interface (runtime.rs): with `temporary` null a call only
// says how many bytes it needs there.

#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

#define SORT_PAIRS(name, Key, Value)                                                                                    \
    extern "C" int taiga_sort_##name(void* temporary, size_t* bytes, const Key* keys, Key* sorted_keys,                 \
                                     const Value* values, Value* sorted_values, uint32_t n, int first_bit, int end_bit, \
                                     void* stream) {                                                                    \
        return cub::DeviceRadixSort::SortPairs(temporary, *bytes, keys, sorted_keys, values, sorted_values, n,          \
                                               first_bit, end_bit, static_cast<cudaStream_t>(stream));                  \
    }

SORT_PAIRS(u32_u32, uint32_t, uint32_t)
SORT_PAIRS(u32_u64, uint32_t, uint64_t)
SORT_PAIRS(u64_u32, uint64_t, uint32_t)
