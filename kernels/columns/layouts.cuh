// Asserts the layouts of the structs of columns that host and kernels share: included at the end of each .cu that has some.
#pragma once

#include <cstddef>

#include "stats/bins.cuh"
#include "stats/cells2d.cuh"
#include "key_summary.cuh"
#include "target_encode/statistic.cuh"

namespace taiga {
#include "asserted/columns.cuh"
}
