// Finds the smallest and the largest value of a column and counts the rows of the bins of equal width between them, in one launch.
#include "stats/bins.cuh"
#include "stats/counters.cuh"
#include "stats/extremes.cuh"
#include "stats/values.cuh"

namespace taiga {

__device__ __forceinline__ float next_up(float x) { return __int_as_float(__float_as_int(x) + 1); }
__device__ __forceinline__ double next_up(double x) { return __longlong_as_double(__double_as_longlong(x) + 1); }
__device__ __forceinline__ float before(float x) {
    const int bits = __float_as_int(x);
    return x == 0.0f ? __int_as_float(0x80000001) : __int_as_float(bits < 0 ? bits + 1 : bits - 1);
}
__device__ __forceinline__ double before(double x) {
    const long long bits = __double_as_longlong(x);
    return x == 0.0 ? __longlong_as_double(0x8000000000000001) : __longlong_as_double(bits < 0 ? bits + 1 : bits - 1);
}

// Scales that estimates are tried with: another one by a hair is often right everywhere.
constexpr int SCALES = 3;

// What the threads of a block find out together about bins of equal width.
struct Trial {
    // A bit for each scale that is wrong somewhere, and FAILED.
    uint32_t flags, margin[SCALES];
};
constexpr uint32_t FAILED = 1 << SCALES;

// Edges from `first` to `last` in steps of `E`; false where there are none.
template <typename E, typename F>
__device__ __forceinline__ bool make_edges(E first, E last, uint32_t bins, F* edges) {
    const E width = last - first, step = width / static_cast<E>(bins);
    for (uint32_t i = threadIdx.x; i <= bins; i += blockDim.x) {
        edges[i] = static_cast<F>(i == bins ? last : static_cast<E>(i) * step + first);
    }
    // Comparisons that NaN and infinities fail.
    return width * E(0) == E(0) && step > E(0);
}

// Writes the edges of `bins` bins from `low` to `high` as src/core/stats/bins.rs does (equal ends are moved apart), and
// what locates values among them, as locate.rs finds it: of the scales the one whose estimates are sure farthest from a
// bin's middle. False where these bins are not for an estimate, or are none: there the host has the word.
template <typename F>
__device__ __forceinline__ bool make_bins(F low, F high, uint32_t bins, F* edges, Trial* trial, Uniform<F>* found) {
    const double middle = static_cast<double>(low);
    bool fine = low == high ? make_edges<double>(middle - 1.0, middle + 1.0, bins, edges) : make_edges<F>(low, high, bins, edges);
    if (threadIdx.x == 0) *trial = Trial{};
    __syncthreads();
    const F first = edges[0], last = edges[bins];
    const F scale = static_cast<F>(static_cast<double>(bins) / (static_cast<double>(last) - static_cast<double>(first)));
    const F scales[SCALES] = {scale, next_up(scale), before(scale)};
    fine = fine && first < last && scale > F(0) && (last - first) * scales[1] < static_cast<F>(bins + 1);
    float margins[SCALES] = {};
    uint32_t flags = 0;
    for (uint32_t i = 1 + threadIdx.x; i <= bins; i += blockDim.x) {
        const F edge = edges[i], place = static_cast<F>(i);
        fine = fine && edges[i - 1] < edge;
        if (i == bins) continue;
        for (int k = 0; k < SCALES; k++) {
            const F at = (edge - first) * scales[k], below = (before(edge) - first) * scales[k];
            if (round_down(at) < place || round_down(below) >= place) flags |= 1u << k;
            const F far = absolute(at - place) > absolute(below - place) ? absolute(at - place) : absolute(below - place);
            const float rounded = __double2float_ru(static_cast<double>(far));
            margins[k] = rounded > margins[k] ? rounded : margins[k];
        }
    }
    if (!fine) flags |= FAILED;
    if (flags != 0) atomicOr(&trial->flags, flags);
    for (int k = 0; k < SCALES; k++) {
        for (int half = 16; half > 0; half /= 2) {
            const float other = __shfl_xor_sync(~0u, margins[k], half);
            margins[k] = other > margins[k] ? other : margins[k];
        }
        // Of numbers that are not negative the bits have their order.
        if (threadIdx.x % 32 == 0) atomicMax(trial->margin + k, __float_as_uint(margins[k]));
    }
    __syncthreads();
    float best = -1.0f;
    for (int k = 0; k < SCALES; k++) {
        // Less by more than the roundings are.
        const float margin = __uint_as_float(trial->margin[k]);
        const float sure = (trial->flags >> k & 1) ? 0.5f - margin - 1e-6f : __int_as_float(0x7f800000);
        if (margin < 0.9f && sure > best) {
            best = sure;
            *found = Uniform<F>{edges, first, last, scales[k], static_cast<F>(sure), bins};
        }
    }
    return (trial->flags & FAILED) == 0 && best > -1.0f;
}

// Waits until all blocks of the grid, which are on the GPU together, have come here; `arrived` is zero before.
__device__ __forceinline__ void wait_for_all_blocks(uint32_t* arrived) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile uint32_t*>(arrived) < gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();
}

// for_each_value, twice, so that the one without nulls keeps all it needs in registers.
template <Pass PASS, typename T, typename Visit>
__device__ __forceinline__ void visit_values(const T* values, const uint32_t* validity, uint64_t rows, Visit visit) {
    if (validity == nullptr) {
        for_each_value<PASS>(values, nullptr, rows, visit);
    } else {
        for_each_value<PASS>(values, validity, rows, visit);
    }
}

// What the host is told: words of 64 bits, the totals behind them. `counted`: 1 where the totals are counted.
template <typename T>
struct alignas(8) Found {
    uint32_t arrived, counted;
    T low, high;
};
constexpr int TOTALS_AT = 3;

// One launch, whose blocks are on the GPU together: the extremes of the values (low above high where there are none);
// the bins between them; their rows. `partial` has two places for each block; shared memory has room for the edges
// and 2^shift counters a bin, and for two values a thread.
template <int THREADS, typename T, typename F>
__device__ __forceinline__ void count_by_range(T largest, T smallest, const T* values, const uint32_t* validity, uint64_t rows,
                                               uint32_t bins, uint32_t shift, T* partial, unsigned long long* out) {
    Found<T>* found = reinterpret_cast<Found<T>*>(out);
    T* lows = reinterpret_cast<T*>(shared_memory);
    T* highs = lows + THREADS;
    T low = largest, high = smallest;
    visit_values<Pass::FIRST>(values, validity, rows, [&](T x) {
        low = x < low ? x : low;
        high = x > high ? x : high;
    });
    reduce_extremes<THREADS>(low, high, lows, highs);
    if (threadIdx.x == 0) {
        partial[2 * blockIdx.x] = lows[0];
        partial[2 * blockIdx.x + 1] = highs[0];
    }
    wait_for_all_blocks(&found->arrived);
    low = largest, high = smallest;
    for (uint32_t block = threadIdx.x; block < gridDim.x; block += THREADS) {
        const volatile T* of = partial + 2 * block;
        const T x = of[0], y = of[1];
        low = x < low ? x : low;
        high = y > high ? y : high;
    }
    reduce_extremes<THREADS>(low, high, lows, highs);
    low = lows[0], high = highs[0];
    __syncthreads();
    __shared__ Trial trial;
    Uniform<F> uniform;
    F* edges = reinterpret_cast<F*>(shared_memory);
    // A zero without sign.
    const bool fine = make_bins(static_cast<F>(low) + F(0), static_cast<F>(high) + F(0), bins, edges, &trial, &uniform) && low <= high;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        found->counted = fine;
        found->low = low;
        found->high = high;
    }
    if (!fine) return;
    uint32_t* counters_at = reinterpret_cast<uint32_t*>(edges + bins + 1);
    if (low == high) {
        // One value is in one bin, mostly on an edge of it, which takes longest to decide.
        const uint32_t own = uniform.locate(static_cast<F>(low));
        count_shared(counters_at, bins, shift, out + TOTALS_AT, [&](auto counters) {
            visit_values<Pass::AGAIN>(values, validity, rows, [&](T x) {
                if (x == x) counters.add(own);
            });
        });
        return;
    }
    count_shared(counters_at, bins, shift, out + TOTALS_AT, [&](auto counters) {
        visit_values<Pass::AGAIN>(values, validity, rows, [&](T x) {
            const uint32_t bin = uniform.locate(static_cast<F>(x));
            if (bin < bins) counters.add(bin);
        });
    });
}

}  // namespace taiga

using namespace taiga;

#define RANGE(name, T, F, blocks, largest, smallest)                                                                    \
    extern "C" __global__ void __launch_bounds__(COUNT_THREADS, blocks)                                                 \
        range_##name(const T* values, const uint32_t* validity, uint64_t rows, uint32_t bins, uint32_t shift,           \
                     T* partial, unsigned long long* out) {                                                             \
        count_by_range<COUNT_THREADS, T, F>(largest, smallest, values, validity, rows, bins, shift, partial, out);      \
    }

RANGE(f32, float, float, TWO_BLOCKS, __int_as_float(0x7f800000), __int_as_float(0xff800000))
RANGE(f64, double, double, 1, __longlong_as_double(0x7ff0000000000000), __longlong_as_double(0xfff0000000000000))
RANGE(i8, int8_t, double, 1, INT8_MAX, INT8_MIN)
RANGE(i16, int16_t, double, 1, INT16_MAX, INT16_MIN)
RANGE(i32, int32_t, double, 1, INT32_MAX, INT32_MIN)
RANGE(i64, int64_t, double, 1, INT64_MAX, INT64_MIN)
RANGE(u8, uint8_t, double, 1, UINT8_MAX, 0)
RANGE(u16, uint16_t, double, 1, UINT16_MAX, 0)
RANGE(u32, uint32_t, double, 1, UINT32_MAX, 0)
RANGE(u64, uint64_t, double, 1, UINT64_MAX, 0)
