// Reduces to the smallest and the largest what the threads of a block bring.
#pragma once

namespace taiga {

// The smallest of what the threads bring in lows[0], the largest in highs[0]: arrays of a place for each thread, of
// which there are THREADS, a power of two.
template <int THREADS, typename T>
__device__ __forceinline__ void reduce_extremes(T low, T high, T* lows, T* highs) {
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            T x = lows[threadIdx.x + half], y = highs[threadIdx.x + half];
            if (x < lows[threadIdx.x]) lows[threadIdx.x] = x;
            if (y > highs[threadIdx.x]) highs[threadIdx.x] = y;
        }
    }
    __syncthreads();
}

}  // namespace taiga
