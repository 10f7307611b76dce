// The elementwise functions that CPU and GPU compute alike, bit for bit (docs/numerics.md).
//
// Each file is the twin of a Rust file and has its names, its constants and its order of operations:
//
//   numerics/math.cuh         src/core/numerics/math.rs              exp, ln, sigmoid
//   numerics/random.cuh       src/core/numerics/random.rs            counter-based random numbers
//   numerics/statistics.cuh   src/cpu/trees/gradient_quantizer.rs     stochastic rounding
//   numerics/loss.cuh         src/core/losses/*.rs            derivatives of the losses
//   numerics/program.cuh      src/core/symbolic/run.rs        derivatives of losses of one's own
//
// Plain + - * / on IEEE numbers, comparisons and integers only. Compile with -fmad=false (build.rs
// does), or nvcc contracts a * b + c to one rounding. tests/numerics.rs holds the two sides equal.

#pragma once

#include "numerics/loss.cuh"
#include "numerics/math.cuh"
#include "numerics/program.cuh"
#include "numerics/random.cuh"
#include "numerics/statistics.cuh"
