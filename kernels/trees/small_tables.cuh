// Grows all trees of many tables of few rows in one launch: a block a table, which goes from round to round by itself. What it computes
// is what src/cpu/trees/presorted computes of one table, and so are the integers.
//
//   lists      [column][position]  the rows in the order of their codes in a column; those of a node next to each other, at the same positions in all columns
//   node_of    [position]          the node that the rows there are in; or SMALL_DONE and the number of their leaf
//
//   a tree     derivatives ─► quantizer ─► statistics ─► levels ─► leaves' sums and values ─► scores, log
//   a level    search: a warp a column: sums up to each position, the scores of the splits behind it
//              mark: which rows go right; what goes left of each node
//              number: children and leaves; part: the rows of each column's list

#pragma once

#include "gradient_quantizer.cuh"
#include "split_scores.cuh"

namespace taiga {

constexpr uint32_t SMALL_THREADS = 128, SMALL_WARPS = SMALL_THREADS / 32;

// Marks the number of a leaf where that of a node is looked for; and a position that is none.
constexpr uint32_t SMALL_DONE = 0x8000, SMALL_NOWHERE = 0xffff;

// Stands for the place of a tree in the log whose derivatives were not finite.
constexpr uint64_t SMALL_NOT_FINITE = ~0ull;

// One of the tables.
struct SmallTable {  // shared with the host
    const uint8_t* codes;      // [column][row]
    const uint32_t* columns;   // of each column: how many borders it has, and 2^16 where code 0 is kept for missing values
    const float* target;
    const float* weight;  // or none
    const float* scores;  // before the first tree
    uint16_t* order;      // room for [column][row]
    Rules rules;
    uint32_t rows, count;  // rows and columns
    float a, b;            // the loss's parameters
};

// All tables of a launch, and where things lie in a block's shared memory, in bytes.
struct SmallFit {  // shared with the host
    const SmallTable* tables;
    // For each tree a head (its splits and leaves, what a unit of its sums is worth), splits of two words, leaves of three; by table and tree where it is.
    uint64_t* log;
    uint64_t* places;  // [table][tree]
    unsigned long long* used;  // words of the log
    double learning_rate;
    uint32_t trees, depth, symmetric, loss;
    // Whether each row's hessian is 1 where rows have no weights.
    uint32_t unit;
    // Positions between the lists of two columns, the most nodes of a level, and the most leaves.
    uint32_t stride, nodes, leaves;
    uint32_t at_lists, at_codes, at_columns, at_scored, at_derivatives, at_statistics, at_scores, at_node_of, at_right, at_nodes, at_best, at_leaves, at_splits;
    uint32_t unused;
};

// A node of the level that grows.
struct SmallNode {  // shared with the host
    Sums sums, left;
    double score;  // as it is
    double gain;   // of its best split
    uint32_t key;  // which that is: NO_KEY for none
    uint32_t searched;
    uint16_t start, len, place, left_before, right_before;
    uint16_t child[2];  // the nodes, or SMALL_DONE and the leaves, that its rows go to
    uint16_t unused;
};

struct SmallLeaf {  // shared with the host
    int64_t gradient, hessian;
    uint32_t place, count;
    float value;
    uint32_t unused;
};

// A candidate: the lower key wins where gains are equal.
struct SmallBest {  // shared with the host
    double gain;
    uint32_t key, unused;
};

constexpr uint32_t NO_KEY = ~0u;

__device__ __forceinline__ uint32_t small_key(uint32_t column, uint32_t border, bool missing_right) {
    return column << 10 | border << 1 | static_cast<uint32_t>(missing_right);
}

__device__ __forceinline__ bool is_better(double gain, uint32_t key, double than, uint32_t than_key) {
    return gain > than || (gain == than && key < than_key);
}

// The first lane of the run of lanes that this one belongs to; `head`: whether a run begins at this lane.
__device__ __forceinline__ uint32_t run_start(bool head, uint32_t lane) {
    const unsigned heads = __ballot_sync(~0u, head) | 1u;
    return 31 - __clz(heads & (~0u >> (31 - lane)));
}

// Sums up to this lane, from the first one of its run.
template <typename S>
__device__ __forceinline__ S run_sum(S value, uint32_t lane, uint32_t first) {
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        const S before = __shfl_up_sync(~0u, value, step);
        if (lane >= first + step) value += before;
    }
    return value;
}

// A table in the block's shared memory.
struct SmallBlock {
    const SmallFit& fit;
    const SmallTable& table;
    uint32_t rows, count, warp, lane;
    uint16_t* lists;  // two, by turns
    uint8_t* codes;
    uint32_t* columns;
    double* scored;  // the warp's own
    float2* derivatives;
    int2* statistics;
    float* scores;
    uint16_t* nodes_of;  // two, by turns
    uint8_t* right;
    SmallNode* all_nodes;  // of two levels
    SmallBest* best;  // [warp][node]
    SmallLeaf* leaves;
    uint64_t* splits;  // [split][2]

    __device__ __forceinline__ SmallBlock(const SmallFit& fit, const SmallTable& table) : fit(fit), table(table) {
        uint8_t* base = reinterpret_cast<uint8_t*>(memory);
        rows = table.rows;
        count = table.count;
        warp = threadIdx.x / 32;
        lane = threadIdx.x & 31;
        lists = reinterpret_cast<uint16_t*>(base + fit.at_lists);
        codes = base + fit.at_codes;
        columns = reinterpret_cast<uint32_t*>(base + fit.at_columns);
        scored = reinterpret_cast<double*>(base + fit.at_scored) + warp * fit.stride;
        derivatives = reinterpret_cast<float2*>(base + fit.at_derivatives);
        statistics = reinterpret_cast<int2*>(base + fit.at_statistics);
        scores = reinterpret_cast<float*>(base + fit.at_scores);
        nodes_of = reinterpret_cast<uint16_t*>(base + fit.at_node_of);
        right = base + fit.at_right;
        all_nodes = reinterpret_cast<SmallNode*>(base + fit.at_nodes);
        best = reinterpret_cast<SmallBest*>(base + fit.at_best);
        leaves = reinterpret_cast<SmallLeaf*>(base + fit.at_leaves);
        splits = reinterpret_cast<uint64_t*>(base + fit.at_splits);
    }

    __device__ __forceinline__ uint16_t* list(uint32_t turn, uint32_t column) const {
        return lists + turn * ((fit.at_codes - fit.at_lists) / 4) + column * fit.stride;
    }

    __device__ __forceinline__ uint16_t* node_of(uint32_t turn) const { return nodes_of + turn * fit.stride; }

    __device__ __forceinline__ SmallNode* nodes(uint32_t turn) const { return all_nodes + turn * fit.nodes; }

    __device__ __forceinline__ uint32_t borders(uint32_t column) const { return columns[column] & 0xffff; }

    // 1 where code 0 is kept for missing values.
    __device__ __forceinline__ uint32_t first(uint32_t column) const { return columns[column] >> 16 & 1; }

    __device__ __forceinline__ bool any_missing(uint32_t column) const { return columns[column] >> 17; }

    // The first border that a row with this code is not beyond; a missing value counts as the lowest.
    __device__ __forceinline__ static uint32_t border_of(uint32_t code, uint32_t first) { return code < first ? 0 : code - first; }
};

// Sorts the rows by their codes in each column, once a table: a warp a column, counting in shared memory.
__device__ __forceinline__ void small_sort(SmallBlock& s, uint32_t* counters) {
    uint32_t* own = counters + s.warp * BINS;
    for (uint32_t column = s.warp; column < s.count; column += SMALL_WARPS) {
        const uint8_t* codes = s.codes + column * s.fit.stride;
        for (uint32_t i = s.lane; i < BINS; i += 32) own[i] = 0;
        __syncwarp();
        for (uint32_t row = s.lane; row < s.rows; row += 32) atomicAdd(own + codes[row], 1u);
        __syncwarp();
        if (s.lane == 0 && s.first(column) && own[0]) s.columns[column] |= 1u << 17;
        uint32_t before = 0;
        for (uint32_t i = s.lane; i < BINS; i += 32) {
            const uint32_t here = own[i], sum = run_sum(here, s.lane, 0);
            own[i] = before + sum - here;
            before += __shfl_sync(~0u, sum, 31);
        }
        __syncwarp();
        // In the order of the rows, so that it is always the same.
        uint16_t* order = s.table.order + column * s.fit.stride;
        for (uint32_t base = 0; base < s.rows; base += 32) {
            const uint32_t row = base + s.lane;
            const uint32_t code = row < s.rows ? codes[row] : BINS + s.lane;
            const unsigned same = __match_any_sync(~0u, code);
            const uint32_t rank = __popc(same & ((1u << s.lane) - 1));
            const uint32_t start = row < s.rows ? own[code] : 0;
            __syncwarp();
            if (row < s.rows) {
                order[start + rank] = static_cast<uint16_t>(row);
                if (rank == 0) own[code] = start + __popc(same);
            }
            __syncwarp();
        }
    }
}

// What is at a position of a column's list.
struct SmallEntry {
    uint32_t node;
    bool active;  // whether the node is searched
    bool head, last;
    uint32_t row, border;
    bool missing, ends;  // whether a row of another border, or none, comes behind it in the node
};

__device__ __forceinline__ SmallEntry small_entry(const SmallBlock& s, const uint16_t* list, const uint16_t* node_of, const SmallNode* nodes, uint32_t column, uint32_t at) {
    SmallEntry e;
    const bool inside = at < s.rows;
    e.node = inside ? node_of[at] : SMALL_NOWHERE;
    const uint32_t before = inside && at ? node_of[at - 1] : SMALL_NOWHERE, behind = at + 1 < s.rows ? node_of[at + 1] : SMALL_NOWHERE;
    e.head = e.node != before || at == 0;
    e.last = e.node != behind;
    e.active = !(e.node & SMALL_DONE) && nodes[e.node].searched;
    const uint8_t* codes = s.codes + column * s.fit.stride;
    const uint32_t first = s.first(column);
    e.row = inside ? list[at] : 0;
    const uint32_t code = codes[e.row];
    e.missing = inside && code < first;
    e.border = SmallBlock::border_of(code, first);
    uint32_t next = __shfl_down_sync(~0u, e.border, 1);
    if (s.lane == 31 && at + 1 < s.rows) next = SmallBlock::border_of(codes[list[at + 1]], first);
    e.ends = e.active && (e.last || next != e.border);
    return e;
}

// Searches a column for the best split of each node (where the nodes of a level do not share one), or scores each position for `small_level`
// with missing values on one `side`: 0 on the left, 1 on the right. `S`: what the sums of all rows fit.
template <bool SYMMETRIC, typename S>
__device__ __forceinline__ void small_search(const SmallBlock& s, const uint16_t* list, const uint16_t* node_of, const SmallNode* nodes, const GradientQuantizer& e,
                                             uint32_t column, uint32_t side) {
    S carried[4] = {0, 0, 0, 0};
    const bool any_missing = s.any_missing(column);
    SmallBest* best = s.best + s.warp * s.fit.nodes;
    for (uint32_t base = 0; base < s.rows; base += 32) {
        const uint32_t at = base + s.lane;
        const SmallEntry entry = small_entry(s, list, node_of, nodes, column, at);
        const uint32_t first = run_start(entry.head, s.lane);
        const bool begins = __shfl_sync(~0u, entry.head, 0), continues = first == 0 && !begins;
        const int2 own = at < s.rows ? s.statistics[entry.row] : make_int2(0, 0);
        // Gradients and hessians up to here; of those with a missing value, and how many these are.
        S sums[4] = {static_cast<S>(own.x), static_cast<S>(static_cast<uint32_t>(own.y)), 0, 0};
        S missing_count = 0;
        if (any_missing) {
            sums[2] = entry.missing ? sums[0] : static_cast<S>(0);
            sums[3] = entry.missing ? sums[1] : static_cast<S>(0);
        }
#pragma unroll
        for (uint32_t k = 0; k < 4; k++) {
            if (k >= 2 && !any_missing) break;
            sums[k] = run_sum(sums[k], s.lane, first);
            if (continues) sums[k] += carried[k];
            carried[k] = __shfl_sync(~0u, sums[k], 31);
        }
        double gain = -INFINITE64;
        uint32_t key = NO_KEY;
        if (any_missing && entry.active) {
            // Missing values stand before all others of the node.
            const SmallNode& node = nodes[entry.node];
            const uint8_t* codes = s.codes + column * s.fit.stride;
            uint32_t low = 0, high = node.len;
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (codes[list[node.start + middle]] < s.first(column)) low = middle + 1; else high = middle;
            }
            missing_count = static_cast<S>(low);
        }
        if (entry.ends) {
            const SmallNode& node = nodes[entry.node];
            SplitInput input = {};
            input.sums = node.sums;
            const int64_t count = at - node.start + 1;
            const Sums up_to = {sums[0], sums[1], count};
            const bool here = at - node.start >= static_cast<uint32_t>(missing_count);
            const Sums without = {up_to.gradient - sums[2], up_to.hessian - sums[3], here ? count - static_cast<int64_t>(missing_count) : 0};
            if (SYMMETRIC) {
                s.scored[at] = score(s.table.rules, e, input, 0, side ? without : up_to, node.score);
            } else {
                gain = score(s.table.rules, e, input, 0, up_to, -INFINITE64) - node.score;
                key = small_key(column, entry.border, false);
                if (missing_count > 0) {
                    const double other = score(s.table.rules, e, input, 0, without, -INFINITE64) - node.score;
                    if (other > gain) {
                        gain = other;
                        key = small_key(column, entry.border, true);
                    }
                }
                if (!(gain > s.table.rules.min_gain)) {
                    gain = -INFINITE64;
                    key = NO_KEY;
                }
            }
        }
        if constexpr (!SYMMETRIC) {
#pragma unroll
            for (uint32_t step = 1; step < 32; step *= 2) {
                const double before = __shfl_up_sync(~0u, gain, step);
                const uint32_t before_key = __shfl_up_sync(~0u, key, step);
                if (s.lane >= first + step && is_better(before, before_key, gain, key)) {
                    gain = before;
                    key = before_key;
                }
            }
            if (entry.active && (entry.last || s.lane == 31) && key != NO_KEY && is_better(gain, key, best[entry.node].gain, best[entry.node].key)) {
                best[entry.node] = {gain, key, 0};
            }
        }
        __syncwarp();
    }
}

// Searches a column for the split with the largest gain summed over the nodes: each lane some borders.
template <typename S>
__device__ __forceinline__ void small_level(const SmallBlock& s, const uint16_t* list, const uint16_t* node_of, const SmallNode* nodes, uint32_t node_count,
                                            const GradientQuantizer& e, uint32_t column, double parent, double& gain, uint32_t& key) {
    const uint8_t* codes = s.codes + column * s.fit.stride;
    const uint32_t first = s.first(column);
    for (uint32_t side = 0; side <= static_cast<uint32_t>(s.any_missing(column)); side++) {
        small_search<true, S>(s, list, node_of, nodes, e, column, side);
        __syncwarp();
        for (uint32_t border = s.lane; border < s.borders(column) + side; border += 32) {
            double sum = 0.0;
            for (uint32_t n = 0; n < node_count; n++) {
                const SmallNode& node = nodes[n];
                if (!node.searched) continue;
                // How many of its rows are not beyond the border.
                uint32_t low = 0, high = node.len;
                while (low < high) {
                    const uint32_t middle = (low + high) / 2;
                    if (SmallBlock::border_of(codes[list[node.start + middle]], first) <= border) low = middle + 1; else high = middle;
                }
                sum = sum + (low ? s.scored[node.start + low - 1] : node.score);
            }
            const double found = sum - parent;
            const uint32_t own = small_key(column, border, side);
            if (found > s.table.rules.min_gain && is_better(found, own, gain, key)) {
                gain = found;
                key = own;
            }
        }
        __syncwarp();
    }
}

// Whether a row goes right.
__device__ __forceinline__ bool small_goes_right(const SmallBlock& s, uint32_t key, uint32_t row) {
    const uint32_t column = key >> 10, border = key >> 1 & 511, first = s.first(column), code = s.codes[column * s.fit.stride + row];
    return code < first ? key & 1 : code - first > border;
}

// Adds the sums of runs of lanes to a place in shared memory, one addition a run.
__device__ __forceinline__ void add_run(int64_t* to, int64_t value, uint32_t lane, uint32_t first, bool last) {
    const int64_t sum = run_sum(value, lane, first);
    if (last && sum) atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(sum));
}

// Grows one tree; returns how many splits and leaves it has. The rows' leaves are in `node_of(turn)`, in the order of `list(turn, 0)`.
__device__ __forceinline__ void small_tree(SmallBlock& s, const GradientQuantizer& e, uint32_t& split_count, uint32_t& leaf_count, uint32_t& turn) {
    __shared__ uint32_t counts[4];  // nodes of the next level, splits, leaves, whether any was split
    __shared__ SmallBest level_best[SMALL_WARPS];
    const SmallFit& fit = s.fit;
    if (threadIdx.x == 0) counts[1] = counts[2] = 0;
    uint32_t node_count = 1;
    turn = 1;
    for (uint32_t i = threadIdx.x; i < s.rows; i += SMALL_THREADS) s.node_of(1)[i] = 0;
    __syncthreads();
    for (uint32_t depth = 0; depth < fit.depth && node_count; depth++) {
        // At the root the order of all rows, then the one list or the other.
        const uint32_t now = turn, next = 1 - turn;
        SmallNode* nodes = s.nodes(now);
        for (uint32_t n = threadIdx.x; n < node_count; n += SMALL_THREADS) {
            SmallNode& node = nodes[n];
            SplitInput input = {};
            input.sums = node.sums;
            node.score = node_score(s.table.rules, e, input);
            node.searched = is_searched(s.table.rules, e, node.sums);
            node.left = {0, 0, 0};
            node.gain = -INFINITE64;
            node.key = NO_KEY;
            for (uint32_t w = 0; w < SMALL_WARPS; w++) s.best[w * fit.nodes + n] = {-INFINITE64, NO_KEY, 0};
        }
        __syncthreads();
        double parent = 0.0;
        if (fit.symmetric) {
            for (uint32_t n = 0; n < node_count; n++) {
                if (nodes[n].searched) parent = parent + nodes[n].score;
            }
        }
        double gain = -INFINITE64;
        uint32_t key = NO_KEY;
        for (uint32_t column = s.warp; column < s.count; column += SMALL_WARPS) {
            const uint16_t* list = depth ? s.list(now, column) : s.table.order + column * fit.stride;
            if (fit.symmetric) {
                if (e.wide) small_level<int64_t>(s, list, s.node_of(now), nodes, node_count, e, column, parent, gain, key);
                else small_level<int32_t>(s, list, s.node_of(now), nodes, node_count, e, column, parent, gain, key);
            } else {
                if (e.wide) small_search<false, int64_t>(s, list, s.node_of(now), nodes, e, column, 0);
                else small_search<false, int32_t>(s, list, s.node_of(now), nodes, e, column, 0);
            }
        }
        if (fit.symmetric) {
            for (int offset = 16; offset; offset >>= 1) {
                const double other = __shfl_xor_sync(~0u, gain, offset);
                const uint32_t other_key = __shfl_xor_sync(~0u, key, offset);
                if (is_better(other, other_key, gain, key)) {
                    gain = other;
                    key = other_key;
                }
            }
            if (s.lane == 0) level_best[s.warp] = {gain, key, 0};
        }
        __syncthreads();
        for (uint32_t n = threadIdx.x; n < node_count; n += SMALL_THREADS) {
            for (uint32_t w = 0; w < SMALL_WARPS; w++) {
                const SmallBest& found = fit.symmetric ? level_best[w] : s.best[w * fit.nodes + n];
                if (is_better(found.gain, found.key, nodes[n].gain, nodes[n].key)) {
                    nodes[n].gain = found.gain;
                    nodes[n].key = found.key;
                }
            }
        }
        __syncthreads();
        // Which rows go right, and what goes left of each node.
        const uint16_t* first_list = depth ? s.list(now, 0) : s.table.order;
        for (uint32_t base = s.warp * 32; base < s.rows; base += SMALL_THREADS) {
            const uint32_t at = base + s.lane;
            const bool inside = at < s.rows;
            const uint32_t n = inside ? s.node_of(now)[at] : SMALL_NOWHERE;
            const uint32_t before = __shfl_up_sync(~0u, n, 1), behind = __shfl_down_sync(~0u, n, 1);
            const uint32_t first = run_start(s.lane == 0 || n != before, s.lane);
            const bool last = s.lane == 31 || n != behind;
            const bool divided = !(n & SMALL_DONE) && nodes[n].key != NO_KEY;
            const uint32_t row = inside ? first_list[at] : 0;
            const bool goes_right = divided && small_goes_right(s, nodes[n].key, row);
            if (inside) s.right[row] = goes_right;
            const bool left = divided && !goes_right;
            const int2 own = left ? s.statistics[row] : make_int2(0, 0);
            SmallNode* node = nodes + (divided ? n : 0);
            add_run(&node->left.gradient, own.x, s.lane, first, last && divided);
            add_run(&node->left.hessian, static_cast<uint32_t>(own.y), s.lane, first, last && divided);
            add_run(&node->left.count, left, s.lane, first, last && divided);
        }
        __syncthreads();
        // Children and leaves get their numbers, in order.
        const bool deepest = depth + 1 == fit.depth;
        if (s.warp == 0) {
            uint32_t next_count = 0, splits = counts[1], leaves = counts[2], left_before = 0, right_before = 0;
            if (fit.symmetric && nodes[0].key != NO_KEY) {
                if (s.lane == 0) {
                    s.splits[2 * splits] = static_cast<uint64_t>((1u << depth) - 1) << 32 | nodes[0].key;
                    s.splits[2 * splits + 1] = bits_of(nodes[0].gain);
                }
                splits++;
            }
            for (uint32_t base = 0; base < node_count; base += 32) {
                const uint32_t n = base + s.lane;
                const bool is = n < node_count;
                SmallNode& node = nodes[is ? n : 0];
                const bool divided = is && node.key != NO_KEY;
                const uint32_t left_rows = divided ? static_cast<uint32_t>(node.left.count) : 0, right_rows = divided ? node.len - left_rows : 0;
                const uint32_t lefts = run_sum(left_rows, s.lane, 0), rights = run_sum(right_rows, s.lane, 0);
                // Ends: the children that are not empty, or the node itself.
                const uint32_t ends = divided ? (left_rows > 0) + (right_rows > 0) : 0;
                const bool children_are_leaves = deepest;
                const uint32_t own_nodes = children_are_leaves ? 0 : ends, own_leaves = children_are_leaves ? ends + (is && !divided) : is && !divided;
                const uint32_t nodes_to = run_sum(own_nodes, s.lane, 0), leaves_to = run_sum(own_leaves, s.lane, 0);
                const unsigned mask = __ballot_sync(~0u, divided);
                if (is) {
                    uint32_t child = next_count + nodes_to - own_nodes, leaf = leaves + leaves_to - own_leaves;
                    node.left_before = static_cast<uint16_t>(left_before + lefts - left_rows);
                    node.right_before = static_cast<uint16_t>(right_before + rights - right_rows);
                    node.child[0] = node.child[1] = SMALL_NOWHERE;
                    if (!divided) {
                        s.leaves[leaf] = {0, 0, node.place, node.len, 0.0f, 0};
                        node.child[0] = static_cast<uint16_t>(SMALL_DONE | leaf);
                    } else {
                        if (!fit.symmetric) {
                            const uint32_t at = splits + __popc(mask & ((1u << s.lane) - 1));
                            s.splits[2 * at] = static_cast<uint64_t>(node.place) << 32 | node.key;
                            s.splits[2 * at + 1] = bits_of(node.gain);
                        }
                        for (uint32_t side = 0; side < 2; side++) {
                            const uint32_t len = side ? right_rows : left_rows;
                            if (!len) continue;
                            const uint16_t place = static_cast<uint16_t>(2 * node.place + 1 + side);
                            if (children_are_leaves) {
                                s.leaves[leaf] = {0, 0, place, len, 0.0f, 0};
                                node.child[side] = static_cast<uint16_t>(SMALL_DONE | leaf);
                                leaf++;
                            } else {
                                SmallNode& to = s.nodes(next)[child];
                                to.sums = side ? node.sums - node.left : node.left;
                                to.start = static_cast<uint16_t>(node.start + (side ? left_rows : 0));
                                to.len = static_cast<uint16_t>(len);
                                to.place = place;
                                node.child[side] = static_cast<uint16_t>(child);
                                child++;
                            }
                        }
                    }
                }
                next_count += __shfl_sync(~0u, nodes_to, 31);
                leaves += __shfl_sync(~0u, leaves_to, 31);
                left_before += __shfl_sync(~0u, lefts, 31);
                right_before += __shfl_sync(~0u, rights, 31);
                if (!fit.symmetric) splits += __popc(mask);
            }
            __syncwarp();
            if (s.lane == 0) {
                counts[0] = next_count;
                counts[1] = splits;
                counts[2] = leaves;
            }
        }
        __syncthreads();
        node_count = counts[0];
        // The rows of each column's list go to their places; of what is searched no more, those of the first alone.
        for (uint32_t column = s.warp; column < (node_count ? s.count : 1); column += SMALL_WARPS) {
            const uint16_t* from = depth ? s.list(now, column) : s.table.order + column * fit.stride;
            uint16_t* to = s.list(next, column);
            uint32_t lefts = 0, rights = 0;
            for (uint32_t base = 0; base < s.rows; base += 32) {
                const uint32_t at = base + s.lane;
                const bool inside = at < s.rows;
                const uint32_t n = inside ? s.node_of(now)[at] : SMALL_NOWHERE;
                const bool divided = !(n & SMALL_DONE) && nodes[n].key != NO_KEY;
                const uint32_t row = inside ? from[at] : 0;
                const bool goes_right = divided && s.right[row];
                const unsigned left_mask = __ballot_sync(~0u, divided && !goes_right), right_mask = __ballot_sync(~0u, goes_right);
                const unsigned below = (1u << s.lane) - 1;
                if (inside) {
                    uint32_t place = at, end = n;
                    if (divided) {
                        const SmallNode& node = nodes[n];
                        const uint32_t left_rows = static_cast<uint32_t>(node.left.count);
                        place = goes_right ? node.start + left_rows + rights + __popc(right_mask & below) - node.right_before
                                           : node.start + lefts + __popc(left_mask & below) - node.left_before;
                        end = node.child[goes_right];
                    } else if (!(n & SMALL_DONE)) {
                        end = nodes[n].child[0];
                    }
                    to[place] = static_cast<uint16_t>(row);
                    if (column == 0) s.node_of(next)[place] = static_cast<uint16_t>(end);
                }
                lefts += __popc(left_mask);
                rights += __popc(right_mask);
            }
        }
        __syncthreads();
        turn = next;
    }
    split_count = counts[1];
    leaf_count = counts[2];
}

extern "C" __global__ void __launch_bounds__(SMALL_THREADS) tree_grow_small(const __grid_constant__ SmallFit fit) {
    __shared__ GradientQuantizer quantizer;
    __shared__ uint32_t largest[2];
    __shared__ double parts[32];
    __shared__ unsigned long long place;
    __shared__ SmallTable table;
    static_assert(sizeof(SmallTable) % 4 == 0 && sizeof(SmallTable) / 4 <= SMALL_THREADS, "a thread a word");
    if (threadIdx.x < sizeof(SmallTable) / 4) {
        reinterpret_cast<uint32_t*>(&table)[threadIdx.x] = reinterpret_cast<const uint32_t*>(fit.tables + blockIdx.x)[threadIdx.x];
    }
    __syncthreads();
    SmallBlock s(fit, table);
    const uint32_t unit = fit.unit && !table.weight;
    for (uint32_t i = threadIdx.x; i < s.count; i += SMALL_THREADS) s.columns[i] = table.columns[i];
    for (uint32_t column = 0; column < s.count; column++) {
        for (uint32_t row = threadIdx.x; row < s.rows; row += SMALL_THREADS) s.codes[column * fit.stride + row] = table.codes[column * s.rows + row];
    }
    for (uint32_t row = threadIdx.x; row < s.rows; row += SMALL_THREADS) s.scores[row] = table.scores[row];
    __syncthreads();
    small_sort(s, reinterpret_cast<uint32_t*>(reinterpret_cast<uint8_t*>(memory) + fit.at_lists));
    LossRows loss = {};
    loss.rows = s.rows;
    loss.target = table.target;
    loss.weight = table.weight;
    loss.scores = s.scores;
    loss.loss = fit.loss;
    loss.a = table.a;
    loss.b = table.b;
    uint64_t* places = fit.places + static_cast<uint64_t>(blockIdx.x) * fit.trees;
    for (uint32_t tree = 0; tree < fit.trees; tree++) {
        if (threadIdx.x < 2) largest[threadIdx.x] = 0;
        __syncthreads();
        uint32_t top[2] = {0, 0};
        for (uint32_t row = threadIdx.x; row < s.rows; row += SMALL_THREADS) {
            const Derivatives d = derive(loss, row, s.scores[row], table.target[row]);
            s.derivatives[row] = make_float2(d.gradient, d.hessian);
            const uint32_t g = __float_as_uint(d.gradient) & 0x7fffffffu, h = __float_as_uint(d.hessian) & 0x7fffffffu;
            top[0] = g > top[0] ? g : top[0];
            top[1] = h > top[1] ? h : top[1];
        }
        for (uint32_t k = 0; k < 2; k++) {
            for (int offset = 16; offset; offset >>= 1) {
                const uint32_t other = __shfl_xor_sync(~0u, top[k], offset);
                top[k] = other > top[k] ? other : top[k];
            }
            if (s.lane == 0) atomicMax(largest + k, top[k]);
        }
        __syncthreads();
        // The sums as the CPU adds them: see `ordered_sums`. Half of a warp has the gradients, the other one the hessians.
        if (s.warp == 0) {
            const uint32_t part = s.lane & (BATCH_LANES - 1), which = s.lane / BATCH_LANES;
            double all = 0.0;
            for (uint32_t from = 0; from < s.rows; from += BATCH) {
                const uint32_t to = s.rows - from < BATCH ? s.rows : from + BATCH;
                double sum = 0.0;
                for (uint32_t row = from + part; row < to; row += BATCH_LANES) {
                    sum = sum + static_cast<double>(fabsf(which ? s.derivatives[row].y : s.derivatives[row].x));
                }
                parts[s.lane] = sum;
                __syncwarp();
                double total = 0.0;
                for (uint32_t i = 0; i < BATCH_LANES; i++) total = total + parts[which * BATCH_LANES + i];
                all = all + total;
                __syncwarp();
            }
            const double gradients = __shfl_sync(~0u, all, 0), hessians = __shfl_sync(~0u, all, BATCH_LANES);
            if (s.lane == 0) {
                const Widths widths(s.rows, largest[0], largest[1]);
                set_quantizer(quantizer, s.rows, largest[0], largest[1], widths.are_wide(gradients, hessians, unit), unit);
            }
        }
        if (threadIdx.x == 0) {
            SmallNode& root = s.nodes(1)[0];
            root.sums = {0, 0, s.rows};
            root.start = root.place = 0;
            root.len = static_cast<uint16_t>(s.rows);
        }
        __syncthreads();
        constexpr uint32_t INFINITE_BITS = 0x7f800000u;
        if (largest[0] >= INFINITE_BITS || largest[1] >= INFINITE_BITS) {
            for (uint32_t t = tree + threadIdx.x; t < fit.trees; t += SMALL_THREADS) places[t] = SMALL_NOT_FINITE;
            return;
        }
        const GradientQuantizer& e = quantizer;
        const Random random = Random::rounding(tree);
        int64_t sum_g = 0, sum_h = 0;
        for (uint32_t row = threadIdx.x; row < s.rows; row += SMALL_THREADS) {
            const Derivatives d = {s.derivatives[row].x, s.derivatives[row].y};
            const uint32_t packed = first_plane(e, d, random, row);
            int2 own = make_int2(static_cast<int32_t>(packed), 1);
            if (!e.wide) own = make_int2(static_cast<int32_t>(packed) >> 16, static_cast<int32_t>(packed & 0xffffu));
            else if (!e.unit) own.y = static_cast<int32_t>(pack_wide(d.hessian, e.hessian, random, row, 16));
            s.statistics[row] = own;
            sum_g += own.x;
            sum_h += static_cast<uint32_t>(own.y);
        }
        for (int offset = 16; offset; offset >>= 1) {
            sum_g += __shfl_xor_sync(~0u, sum_g, offset);
            sum_h += __shfl_xor_sync(~0u, sum_h, offset);
        }
        if (s.lane == 0) {
            add(&s.nodes(1)[0].sums.gradient, sum_g);
            add(&s.nodes(1)[0].sums.hessian, sum_h);
        }
        __syncthreads();
        uint32_t splits, leaves, turn;
        small_tree(s, e, splits, leaves, turn);
        const uint16_t* leaf_of = s.node_of(turn);
        const uint16_t* list = s.list(turn, 0);
        for (uint32_t base = s.warp * 32; base < s.rows; base += SMALL_THREADS) {
            const uint32_t at = base + s.lane;
            const bool inside = at < s.rows;
            const uint32_t n = inside ? leaf_of[at] : SMALL_NOWHERE;
            const uint32_t before = __shfl_up_sync(~0u, n, 1), behind = __shfl_down_sync(~0u, n, 1);
            const uint32_t first = run_start(s.lane == 0 || n != before, s.lane);
            const bool last = inside && (s.lane == 31 || n != behind);
            const float2 d = inside ? s.derivatives[list[at]] : make_float2(0.0f, 0.0f);
            SmallLeaf* leaf = s.leaves + (inside ? n & ~SMALL_DONE : 0);
            add_run(&leaf->gradient, to_fixed(d.x, e.leaf_gradient), s.lane, first, last);
            add_run(&leaf->hessian, to_fixed(d.y, e.leaf_hessian), s.lane, first, last);
        }
        const uint32_t words = 3 + 2 * splits + 3 * leaves;
        if (threadIdx.x == 0) {
            place = atomicAdd(fit.used, static_cast<unsigned long long>(words));
            places[tree] = place;
        }
        __syncthreads();
        uint64_t* out = fit.log + place;
        if (threadIdx.x == 0) {
            out[0] = static_cast<uint64_t>(leaves) << 32 | splits;
            out[1] = bits_of(e.unit_gradient);
            out[2] = bits_of(e.unit_hessian);
        }
        for (uint32_t i = threadIdx.x; i < 2 * splits; i += SMALL_THREADS) out[3 + i] = s.splits[i];
        for (uint32_t i = threadIdx.x; i < leaves; i += SMALL_THREADS) {
            SmallLeaf& leaf = s.leaves[i];
            const Values of = {static_cast<double>(leaf.gradient) / e.leaf_gradient, static_cast<double>(leaf.hessian) / e.leaf_hessian};
            leaf.value = static_cast<float>(own_value(table.rules, of) * fit.learning_rate);
            uint64_t* to = out + 3 + 2 * splits + 3 * i;
            to[0] = static_cast<uint64_t>(leaf.count) << 32 | leaf.place;
            to[1] = bits_of(of.gradient);
            to[2] = bits_of(of.hessian);
        }
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < s.rows; at += SMALL_THREADS) {
            const uint32_t row = list[at];
            s.scores[row] = s.scores[row] + s.leaves[leaf_of[at] & ~SMALL_DONE].value;
        }
        __syncthreads();
    }
}

}  // namespace taiga
