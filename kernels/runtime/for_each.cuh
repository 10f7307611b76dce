// Deals numbers to the threads of a grid.
#pragma once

#include <cstdint>

// i runs over 0..n, dealt to the threads of the grid.
#define FOR_EACH(i, n)                                                                                                  \
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < (n);                            \
         i += gridDim.x * static_cast<uint64_t>(blockDim.x))
