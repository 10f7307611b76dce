// The kernels of boosted trees: see trees/layouts.cuh for the structs they share.
//
//   tree_run_program (losses of one's own)                                             once a tree
//   tree_group_* (derivatives of losses by group), tree_position_*                     once a tree
//   tree_risk_* (of Cox's likelihood), tree_bounds (of accelerated failure time)       once a tree
//   tree_find_quantizer ─► tree_root (or tree_round, then tree_sum_*)                  once a tree
//   tree_search ─► tree_pick ─► tree_plan_jobs ─► tree_partition_sum                   once a level
//   (tree_partition ─► tree_plan_sums ─► tree_sum_*, tree_sum_sparse_* where there are more than 32 columns or sparse features)
//   tree_leaves, and while the next tree's quantizer is found the scores' update       once a tree
//   tree_share_quantizers, tree_shared_* (where several outputs share the tree)        instead of the above
//   tree_spread (where there is noise on scores)                                       once a tree
//   tree_keep, tree_add_kept (where trees are left out for a while)                    twice a round
//   tree_linear_measure ─► tree_linear_sums ─► tree_linear_values (where leaves are functions of rows), then tree_update_rows    once a tree
//
// and without asking the host:
//
//   tree_root_guess ─► tree_root (sums again where the guess was wrong; starts the tree)
//   tree_search_grow, or tree_level_grow ─► tree_partition_root_records, tree_partition_records    once a level
//   tree_leaves_heap
//
// all trees of many tables of few rows, in one launch: tree_grow_small
//
// with the rows on several GPUs besides: tree_gather_scores (where rows depend on each other), tree_complete_quantizer, tree_all_reduce once a level, tree_complete_leaves

#include "trees/resident.cuh"
#include "trees/partition.cuh"
#include "trees/leaf_sums.cuh"
#include "trees/evaluate_level.cuh"
#include "trees/partition_records.cuh"
#include "trees/leaf_quantiles.cuh"
#include "trees/loss_program.cuh"
#include "trees/root_histogram.cuh"
#include "trees/all_reduce.cuh"
#include "trees/gathered_rows.cuh"
#include "trees/gradient_quantizer.cuh"
#include "trees/row_sampler.cuh"
#include "trees/bounds.cuh"
#include "trees/group_derivatives.cuh"
#include "trees/position_factors.cuh"
#include "trees/risk_sets.cuh"
#include "trees/rows.cuh"
#include "trees/evaluate_splits.cuh"
#include "trees/evaluate_shared.cuh"
#include "trees/spread.cuh"
#include "trees/dropouts.cuh"
#include "trees/linear_leaves.cuh"
#include "trees/small_tables.cuh"

#include <cstddef>
namespace taiga {
#include "asserted/trees.cuh"
}
