// Sparse logistic regression: passes over rows that are lists of features. Twin of src/cpu/linear/passes.rs, where
// what a pass computes is told; launched by src/cuda/linear/mod.rs.
//
//   linear_base, linear_scores_*, linear_cells_scores      scores
//   linear_residuals, linear_along, linear_advance         row by row
//   linear_round, linear_add_*, linear_cells_gradient      the gradient of sparse features, linear_columns of the others
//   linear_place, _bounds, _arrange                        rows to cells, once
//   linear_batch_*                                         batches (src/core/learners/linear/batches.rs, rule.rs)

#include "linear/batches.cuh"
#include "linear/tiles.cuh"
#include "linear/gradient.cuh"
#include "linear/layout.cuh"
#include "linear/rows.cuh"
#include "linear/scores.cuh"

// The host's structs are laid out as these.
#include <cstddef>
#define TABLE(type, size) static_assert(sizeof(type) == size, #type);
#define FIELD(type, field, at) static_assert(offsetof(type, field) == at, #type "." #field);
#include "linear/layouts.def"
#undef TABLE
#undef FIELD
