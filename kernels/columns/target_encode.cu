// Computes target encodings: keys to sort rows by, totals of categories and folds, values (src/core/encoding/target.rs).

#include "../numerics/random.cuh"
#include "../runtime/for_each.cuh"
#include "target_encode/statistic.cuh"

using namespace taiga;

constexpr int THREADS = 256;

__device__ __forceinline__ uint32_t packed(uint64_t row, const uint8_t* flags) {
    return static_cast<uint32_t>(row) | (flags != nullptr ? static_cast<uint32_t>(flags[row] != 0) << 31 : 0);
}

// The category above the row's place in an order: its hash under the random numbers of `key`, or what `places`
// says. With `flags` rows carry their flag.
extern "C" __global__ void order_keys(uint64_t n, const uint32_t* codes, uint64_t key, const uint32_t* places,
                                      const uint8_t* flags, uint64_t* keys, uint32_t* rows) {
    FOR_EACH(row, n) {
        const uint64_t place = places != nullptr ? places[row] : mix64(key + row * GOLDEN) >> 32;
        keys[row] = static_cast<uint64_t>(codes[row]) << 32 | place;
        rows[row] = packed(row, flags);
    }
}

// The cell of each row: its category, or with folds its category's cell for its fold.
extern "C" __global__ void cell_keys(uint64_t n, const uint32_t* codes, const uint32_t* folds, uint32_t count,
                                     const uint8_t* flags, uint32_t* keys, uint32_t* rows) {
    FOR_EACH(row, n) {
        keys[row] = folds != nullptr ? codes[row] * count + folds[row] : codes[row];
        rows[row] = packed(row, flags);
    }
}

// The folds of `n` rows from `first` on in a random order (`RandomFolds` in src/core/encoding/permutation.rs): of those that begin in
// the bucket of a row's hash as many as begin with it or before it, and all of the buckets before.
extern "C" __global__ void random_folds(uint64_t first, uint64_t n, uint64_t key, const uint64_t* begins, const uint32_t* before,
                                        uint32_t bits, uint32_t* folds) {
    FOR_EACH(i, n) {
        const uint64_t row = first + i;
        const uint64_t hash = mix64(key + row * GOLDEN) >> 32, pair = hash << 32 | row;
        const uint64_t bucket = hash >> (32 - bits);
        uint32_t fold = before[bucket], count = before[bucket + 1] - fold;
        while (count > 0) {
            const uint32_t half = count / 2;
            const bool behind = begins[fold + half] <= pair;
            fold = behind ? fold + half + 1 : fold;
            count = behind ? count - half - 1 : half;
        }
        folds[i] = fold;
    }
}

// Rows and values that are dealt to windows of WINDOW rows go to their places. A random store into global memory
// costs as much as 48 bytes in order, so the last step of that way is taken in shared memory.
constexpr uint32_t WINDOW_BITS = 12, WINDOW = 1 << WINDOW_BITS;

extern "C" __global__ void __launch_bounds__(512)
    place_values(uint64_t n, const uint32_t* rows, const double* values, uint32_t add, double* out) {
    __shared__ double window[WINDOW];
    const uint64_t start = blockIdx.x * static_cast<uint64_t>(WINDOW);
    const uint32_t size = n - start < WINDOW ? static_cast<uint32_t>(n - start) : WINDOW;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) window[rows[start + i] % WINDOW] = values[start + i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        out[start + i] = add ? out[start + i] + window[i] : window[i];
    }
}

// The sum of what each thread brings, in out[0]; for any block of up to THREADS threads, a power of two.
template <typename Sum>
__device__ void block_sum(Sum sum, Sum* out) {
    __shared__ Sum sums[THREADS];
    sums[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *out = sums[0];
}

// out[block] = the sum over the rows that the block saw.
template <typename S>
__device__ void total(const S& statistic, uint64_t n, const uint8_t* flags, typename S::Sum* out) {
    typename S::Sum sum{};
    FOR_EACH(row, n) sum = sum + statistic.of(packed(row, flags));
    block_sum(sum, out + blockIdx.x);
}

// out[fold * blocks + block] = the sum over a share of the categories; a grid of (blocks, folds).
template <typename S>
__device__ void fold_totals(const typename S::Sum* cells, uint64_t categories, uint32_t folds, typename S::Sum* out) {
    typename S::Sum sum{};
    FOR_EACH(category, categories) sum = sum + cells[category * folds + blockIdx.y];
    block_sum(sum, out + blockIdx.y * static_cast<uint64_t>(gridDim.x) + blockIdx.x);
}

// Adds the sums that another GPU's rows have in the same cells.
template <typename S>
__device__ void add_sums(uint64_t cells, const typename S::Sum* more, typename S::Sum* sums) {
    FOR_EACH(cell, cells) sums[cell] = sums[cell] + more[cell];
}

// The value of each category from all of its rows.
template <typename S>
__device__ void category_values(const S& statistic, const typename S::Sum* sums, uint64_t categories, const Smoothing& smoothing,
                                double* values) {
    FOR_EACH(category, categories) values[category] = smoothing.value(statistic.read(sums[category]));
}

// The value of each cell from the rows of its category in other folds; `smoothings` has one for each fold.
template <typename S>
__device__ void fold_values(const S& statistic, const typename S::Sum* cells, uint64_t categories, uint32_t folds,
                            const Smoothing* smoothings, double* values) {
    FOR_EACH(category, categories) {
        const typename S::Sum* own = cells + category * folds;
        typename S::Sum all{};
        for (uint32_t fold = 0; fold < folds; fold++) all = all + own[fold];
        for (uint32_t fold = 0; fold < folds; fold++) {
            values[category * folds + fold] = smoothings[fold].value(statistic.read(all - own[fold]));
        }
    }
}

// The value of each row from the other rows of its category.
template <typename S>
__device__ void loo_values(const S& statistic, const typename S::Sum* sums, uint64_t n, const uint32_t* codes,
                           const uint8_t* flags, const Smoothing& smoothing, double* values) {
    FOR_EACH(row, n) {
        values[row] = smoothing.value(statistic.read(sums[codes[row]] - statistic.of(packed(row, flags))));
    }
}

#define STATISTIC(name, S)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
        total_##name(TargetColumns columns, uint64_t n, const uint8_t* flags, S::Sum* out) {                                  \
        total(S{columns}, n, flags, out);                                                                               \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
        fold_totals_##name(const S::Sum* cells, uint64_t categories, uint32_t folds, S::Sum* out) {                     \
        fold_totals<S>(cells, categories, folds, out);                                                                  \
    }                                                                                                                   \
    extern "C" __global__ void add_sums_##name(uint64_t cells, const S::Sum* more, S::Sum* sums) {                      \
        add_sums<S>(cells, more, sums);                                                                                 \
    }                                                                                                                   \
    extern "C" __global__ void category_values_##name(TargetColumns columns, const S::Sum* sums, uint64_t categories,         \
                                                      Smoothing smoothing, double* values) {                            \
        category_values(S{columns}, sums, categories, smoothing, values);                                               \
    }                                                                                                                   \
    extern "C" __global__ void fold_values_##name(TargetColumns columns, const S::Sum* cells, uint64_t categories,            \
                                                  uint32_t folds, const Smoothing* smoothings, double* values) {        \
        fold_values(S{columns}, cells, categories, folds, smoothings, values);                                          \
    }                                                                                                                   \
    extern "C" __global__ void loo_values_##name(TargetColumns columns, const S::Sum* sums, uint64_t n, const uint32_t* codes, \
                                                 const uint8_t* flags, Smoothing smoothing, double* values) {           \
        loo_values(S{columns}, sums, n, codes, flags, smoothing, values);                                               \
    }

STATISTIC(flags, PackedFlags)
STATISTIC(whole, Whole)
STATISTIC(real, Real)
STATISTIC(full, Full)

// out[row] = the value of the row's cell.
extern "C" __global__ void look_up(uint64_t n, const double* values, const uint32_t* codes, const uint32_t* folds,
                                   uint32_t count, double* out) {
    FOR_EACH(row, n) out[row] = values[folds != nullptr ? codes[row] * count + folds[row] : codes[row]];
}

extern "C" __global__ void scale(uint64_t n, double factor, double* values) {
    FOR_EACH(i, n) values[i] *= factor;
}

#include "layouts.cuh"
