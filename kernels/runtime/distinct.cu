// Sorts keys alone, and finds the distinct ones among sorted keys: CUB's algorithms behind a C interface (runtime.rs).

#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

// Keys go from one array to the other and back; `in_other` says where they are in the end.
#define SORT_KEYS(name, Key)                                                                                       \
    extern "C" int taiga_sort_keys_##name(void* temporary, size_t* bytes, Key* keys, Key* other, int* in_other,    \
                                          uint32_t n, int first_bit, int end_bit, void* stream) {                  \
        cub::DoubleBuffer<Key> both(keys, other);                                                                  \
        const cudaError_t code = cub::DeviceRadixSort::SortKeys(temporary, *bytes, both, n, first_bit, end_bit,    \
                                                                static_cast<cudaStream_t>(stream));                \
        *in_other = both.selector;                                                                                 \
        return code;                                                                                               \
    }

SORT_KEYS(u32, uint32_t)
SORT_KEYS(u64, uint64_t)

// Writes the key of each run of equal keys, and its first place in `sorted`; `count` of them.
#define DISTINCT_KEYS(name, Key)                                                                                   \
    extern "C" int taiga_distinct_##name(void* temporary, size_t* bytes, const Key* sorted, Key* distinct,         \
                                         uint32_t* first, uint32_t* count, uint32_t n, void* stream) {             \
        return cub::DeviceSelect::UniqueByKey(temporary, *bytes, sorted, thrust::make_counting_iterator(0u),       \
                                              distinct, first, count, n, static_cast<cudaStream_t>(stream));       \
    }

DISTINCT_KEYS(u32, uint32_t)
DISTINCT_KEYS(u64, uint64_t)
