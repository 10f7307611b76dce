// Sparse logistic regression: passes over rows that are lists of features. Twin of src/cpu/linear/passes.rs, where
// what a pass computes is told; launched by src/cuda/linear/passes.rs and batches.rs.
//
//   linear_base, linear_scores_*, linear_tile_scores       scores
//   linear_residuals, linear_along, linear_advance         row by row
//   linear_round, linear_add_*, linear_tile_gradient       the gradient of sparse features, linear_columns of the others
//   linear_place, _bounds, _arrange                        rows to tiles, once
//   linear_batch_*                                         batches (src/core/learners/linear/batches.rs, rule.rs)

#include "linear/batches.cuh"
#include "linear/tiles.cuh"
#include "linear/gradient.cuh"
#include "linear/arrange_tiles.cuh"
#include "linear/rows.cuh"
#include "linear/scores.cuh"

#include <cstddef>
#include "asserted/linear.cuh"
