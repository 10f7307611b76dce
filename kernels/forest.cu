// Random forests: the trees of src/core/learners/forest on the GPU, level by level, many trees at a time.
//
//   codes     [block of 32 features][row][32]     a row of a block is one 32-byte sector
//   ranks     [feature][row]                      instead, where every value is a candidate
//   entries   {row, count}                        the rows of each node next to one another, in one of two buffers; their
//                                                 order is no matter, as all sums are integers
//   nodes     all nodes of all trees, a level behind the other, in no order inside a level
//
// A node of few rows is searched and partitioned by one block; one of many rows by several launches. Two classes or numbers,
// without weights, by borders, are counted by code in shared memory (bins.cuh):
//
//   forest_sum_* ─► forest_grow_* (searches) ─► forest_partition_large ─► forest_children_large
//
// and everything else is sorted by code (sorted.cuh, segments.cuh). See src/cuda/forest for the host's side.

#include "forest/bins.cuh"
#include "forest/oob.cuh"
#include "forest/rows.cuh"
#include "forest/segments.cuh"

#include <cstddef>
#include "asserted/forest.cuh"
