// Target encoding and statistics of categories: keys to sort by, totals, values (src/core/encoding).

#include "encoding/statistic.cuh"
#include "numerics/random.cuh"

using namespace taiga;

constexpr int THREADS = 256;

// i runs over 0..n, dealt to the threads of the grid.
#define FOR_EACH(i, n)                                                                                                  \
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < (n);                            \
         i += gridDim.x * static_cast<uint64_t>(blockDim.x))

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

// The category of each of the rows of an order.
extern "C" __global__ void gather_codes(uint64_t n, const uint32_t* codes, const uint32_t* order, uint32_t* keys) {
    FOR_EACH(i, n) keys[i] = codes[order[i]];
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
        total_##name(Columns columns, uint64_t n, const uint8_t* flags, S::Sum* out) {                                  \
        total(S{columns}, n, flags, out);                                                                               \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                               \
        fold_totals_##name(const S::Sum* cells, uint64_t categories, uint32_t folds, S::Sum* out) {                     \
        fold_totals<S>(cells, categories, folds, out);                                                                  \
    }                                                                                                                   \
    extern "C" __global__ void category_values_##name(Columns columns, const S::Sum* sums, uint64_t categories,         \
                                                      Smoothing smoothing, double* values) {                            \
        category_values(S{columns}, sums, categories, smoothing, values);                                               \
    }                                                                                                                   \
    extern "C" __global__ void fold_values_##name(Columns columns, const S::Sum* cells, uint64_t categories,            \
                                                  uint32_t folds, const Smoothing* smoothings, double* values) {        \
        fold_values(S{columns}, cells, categories, folds, smoothings, values);                                          \
    }                                                                                                                   \
    extern "C" __global__ void loo_values_##name(Columns columns, const S::Sum* sums, uint64_t n, const uint32_t* codes, \
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

// ---- combinations of categories (src/core/encoding/combine.rs): numbers by first appearance

__device__ __forceinline__ uint64_t pair_key(const uint32_t* a, const uint32_t* b, uint64_t b_count, uint64_t row) {
    return a[row] * b_count + b[row];
}

// table[key] = the first row with that pair; `table` is filled with ones before.
extern "C" __global__ void first_by_table(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count, uint32_t* table) {
    FOR_EACH(row, n) {
        uint32_t* place = table + pair_key(a, b, b_count, row);
        // Rows come about in order, so that few of many equal pairs get past this.
        if (*static_cast<volatile uint32_t*>(place) > row) atomicMin(place, static_cast<uint32_t>(row));
    }
}

// first[row] = the first row with the row's pair.
extern "C" __global__ void look_up_first(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count,
                                         const uint32_t* table, uint32_t* first) {
    FOR_EACH(row, n) first[row] = table[pair_key(a, b, b_count, row)];
}

extern "C" __global__ void pair_keys(uint64_t n, const uint32_t* a, const uint32_t* b, uint64_t b_count, uint64_t* keys,
                                     uint32_t* rows) {
    FOR_EACH(row, n) {
        keys[row] = pair_key(a, b, b_count, row);
        rows[row] = static_cast<uint32_t>(row);
    }
}

// heads[i] = i where a new key begins, else 0.
extern "C" __global__ void mark_heads(uint64_t n, const uint64_t* keys, uint32_t* heads) {
    FOR_EACH(i, n) heads[i] = i > 0 && keys[i] != keys[i - 1] ? static_cast<uint32_t>(i) : 0;
}

// first[rows[i]] = the row at the head of its key: rows with one key are in their order.
extern "C" __global__ void spread_first(uint64_t n, const uint32_t* rows, const uint32_t* heads, uint32_t* first) {
    FOR_EACH(i, n) first[rows[i]] = rows[heads[i]];
}

// flags[row] = 1 for the first row of a pair.
extern "C" __global__ void flag_first(uint64_t n, const uint32_t* first, uint32_t* flags) {
    FOR_EACH(row, n) flags[row] = first[row] == row;
}

// codes[row] = how many pairs appeared before the row's own.
extern "C" __global__ void number_pairs(uint64_t n, const uint32_t* first, const uint32_t* before, uint32_t* codes) {
    FOR_EACH(row, n) codes[row] = before[first[row]];
}

// ---- statistics of categories inside the trees (src/core/encoding/ctr.rs)

// Rows that are not in the order have all rows of their category before them.
extern "C" __global__ void fill_others(uint64_t n, const uint32_t* codes, const Whole::Sum* sums, uint32_t* rows_before,
                                       uint64_t* target_before) {
    FOR_EACH(row, n) {
        if (rows_before[row] == 0xffffffffu) {
            rows_before[row] = static_cast<uint32_t>(sums[codes[row]].rows);
            target_before[row] = static_cast<uint64_t>(sums[codes[row]].target);
        }
    }
}

// rows_of[row] = the rows of the row's category.
extern "C" __global__ void rows_of_category(uint64_t n, const uint32_t* codes, const Whole::Sum* sums, uint32_t* rows_of) {
    FOR_EACH(row, n) rows_of[row] = static_cast<uint32_t>(sums[codes[row]].rows);
}

// most = the rows of the largest category; 0 before.
extern "C" __global__ void most_rows(uint64_t categories, const Whole::Sum* sums, uint32_t* most) {
    uint32_t own = 0;
    FOR_EACH(category, categories) {
        const uint32_t rows = static_cast<uint32_t>(sums[category].rows);
        own = rows > own ? rows : own;
    }
    if (own > 0) atomicMax(most, own);
}

// The sums at some rows.
extern "C" __global__ void gather_sums(uint64_t n, const uint32_t* rows, const uint32_t* rows_before,
                                       const uint64_t* target_before, uint32_t* n_out, uint64_t* s_out) {
    FOR_EACH(i, n) {
        n_out[i] = rows_before[rows[i]];
        s_out[i] = target_before != nullptr ? target_before[rows[i]] : 0;
    }
}

// codes[row * stride] = the borders below (s * unit + prior) / (n + 1), or for counters below (n + prior) / (most + 1);
// multiplied out, as on the CPU.
extern "C" __global__ void ctr_codes(uint64_t n, const uint32_t* rows_before, const uint64_t* target_before, double unit,
                                     double prior, uint32_t counter, uint32_t most, const double* borders, uint32_t count,
                                     uint8_t* codes, uint64_t first, uint64_t stride) {
    FOR_EACH(row, n) {
        double numerator, denominator;
        if (counter) {
            numerator = static_cast<double>(rows_before[row]) + prior;
            denominator = static_cast<double>(most) + 1.0;
        } else {
            numerator = static_cast<double>(target_before[row]) * unit + prior;
            denominator = static_cast<double>(rows_before[row]) + 1.0;
        }
        uint32_t below = 0;
        for (uint32_t b = 0; b < count; b++) below += numerator > borders[b] * denominator;
        codes[first + row * stride] = static_cast<uint8_t>(below);
    }
}
