// The kernels of boosted trees: see trees/common.cuh for the tables they share.
//
//   tree_encode ─► tree_root (or tree_round, then tree_sum_*)                          once a tree
//   tree_search ─► tree_pick ─► tree_plan_jobs ─► tree_divide_sum                      once a level
//   (tree_divide ─► tree_plan_sums ─► tree_sum_*, tree_sum_listed_* where there are more than 32 columns or listed features)
//   tree_leaves, and with the next tree's encoding the scores' update                  once a tree
//
// and ahead of the host:
//
//   tree_root_guess ─► tree_root (sums again where the guess was wrong; begins the tree)
//   tree_search_grow, or tree_level_grow ─► tree_move_root, tree_move_rows             once a level
//   tree_leaves_heap

#include "trees/ahead.cuh"
#include "trees/divide.cuh"
#include "trees/leaves.cuh"
#include "trees/level.cuh"
#include "trees/move.cuh"
#include "trees/quantiles.cuh"
#include "trees/root.cuh"
#include "trees/rows.cuh"
#include "trees/search.cuh"
