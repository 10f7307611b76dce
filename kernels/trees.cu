// The kernels of boosted trees: see trees/layouts.cuh for the tables they share.
//
//   tree_encode ─► tree_root (or tree_round, then tree_sum_*)                          once a tree
//   tree_search ─► tree_pick ─► tree_plan_jobs ─► tree_divide_sum                      once a level
//   (tree_divide ─► tree_plan_sums ─► tree_sum_*, tree_sum_listed_* where there are more than 32 columns or listed features)
//   tree_leaves, and with the next tree's quantizer the scores' update                  once a tree
//
// and ahead of the host:
//
//   tree_root_guess ─► tree_root (sums again where the guess was wrong; begins the tree)
//   tree_search_grow, or tree_level_grow ─► tree_move_root, tree_move_rows             once a level
//   tree_leaves_heap

#include "trees/resident.cuh"
#include "trees/partition.cuh"
#include "trees/leaf_sums.cuh"
#include "trees/evaluate_level.cuh"
#include "trees/partition_records.cuh"
#include "trees/leaf_quantiles.cuh"
#include "trees/root_histogram.cuh"
#include "trees/gradient_quantizer.cuh"
#include "trees/evaluate_splits.cuh"

#include "runtime/assert_layouts.cuh"
namespace taiga {
#include "trees/layouts.def"
}
