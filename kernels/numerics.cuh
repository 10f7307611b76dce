// The elementwise functions that CPU and GPU compute alike, bit for bit (docs/numerics.md).
//
// Each file is the twin of a Rust file and has its names, its constants and its order of operations:
//
//   numerics/math.cuh         src/engine/numerics/math.rs              exp, ln, sigmoid
//   numerics/random.cuh       src/engine/numerics/random.rs            counter-based random numbers
//   numerics/statistics.cuh   src/engine/backend/cpu/statistics.rs     stochastic rounding
//   numerics/loss.cuh         src/engine/boosting/loss/*.rs            derivatives of the losses
//
// Plain + - * / on IEEE numbers, comparisons and integers only. Compile with -fmad=false (build.rs
// does), or nvcc contracts a * b + c to one rounding. tests/numerics.rs holds the two sides equal.

#pragma once

#include "numerics/loss.cuh"
#include "numerics/math.cuh"
#include "numerics/random.cuh"
#include "numerics/statistics.cuh"
