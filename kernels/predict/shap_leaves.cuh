// Shapley values of trees that have too many leaves for tables, leaf by leaf (src/core/shap/leaves.rs, contributions.rs): what one leaf gives to
// the players on its path follows from which of them a row's answers lead to it.

#pragma once

#include "shap.cuh"

// Leaves that are gone through together, and their players.
struct LeafGroup {  // shared with the host
    uint32_t first_leaf, leaves, first_player, players;
};

// A leaf: where its values begin, the players of its path, and what the rows of a background answer, where there is one.
struct ExplainedLeaf {  // shared with the host
    uint64_t first_value;
    uint32_t first_player, players, first_outcome, outcomes;
};

// A player of a leaf: the share of the training rows, its steps from `first_step` to before `end_step`, and its place among the group's.
struct LeafPlayer {  // shared with the host
    double share;
    uint32_t first_step, end_step, place, unused;
};

// What some rows of a background answer: bit `j` is set where player `j` leads to the leaf.
struct BackgroundOutcome {  // shared with the host
    uint64_t low, high;
    double share;
};

// A quadrature of up to 8 points.
struct QuadratureRule {  // shared with the host
    double points[8], weights[8];
};

// The most players of a path with shares (`MOST_PLAYERS` there).
constexpr uint32_t MOST_SHARING = 16;
typedef unsigned __int128 Outcome;

// A row: its answers[test * pitch], 1 where it goes right.
struct Answers {
    const uint8_t* answers;
    uint64_t pitch;
    __device__ __forceinline__ bool right(uint32_t test) const { return __ldg(answers + test * pitch) != 0; }
};

// Bit `j` is set where all answers of a leaf's player `j` lead to it. A step is twice its test, and one more where the way goes right.
__device__ __forceinline__ Outcome outcome_of(const ExplainedLeaf& leaf, const LeafPlayer* players, const uint32_t* steps, const Answers& row) {
    Outcome outcome = 0;
    for (uint32_t j = 0; j < leaf.players; j++) {
        const LeafPlayer& player = players[leaf.first_player + j];
        bool leads = true;
        for (uint32_t s = player.first_step; leads && s < player.end_step; s++) {
            const uint32_t step = __ldg(steps + s);
            leads = row.right(step >> 1) == (step & 1);
        }
        outcome |= static_cast<Outcome>(leads) << j;
    }
    return outcome;
}

// A row's sums over the leaves of a group, out[(output * terms + term) * pitch], and the leaf that is added to them.
struct GroupSums {
    double* out;
    uint64_t pitch;
    uint32_t players, terms, outputs;
    const LeafPlayer* path;
    const double* values;

    __device__ __forceinline__ void add(uint32_t term, double x) const {
        for (uint32_t k = 0; k < outputs; k++) out[(k * terms + term) * pitch] += __ldg(values + k) * x;
    }
    // Adds what a leaf of value 1 gives to a player of its path, and to a pair of them.
    __device__ __forceinline__ void add_player(uint32_t i, double x) const { add(path[i].place, x); }
    __device__ __forceinline__ void add_pair(uint32_t i, uint32_t j, double x) const {
        const uint32_t a = path[i].place, b = path[j].place;
        add(pair_of(players, min(a, b), max(a, b)), x);
    }
};

// Adds what a leaf gives by the shares of the training rows.
template <bool PAIRS>
__device__ __forceinline__ void add_shares(const QuadratureRule& rule, uint32_t count, uint32_t outcome, const GroupSums& group) {
    const LeafPlayer* players = group.path;
    constexpr uint32_t TERMS = PAIRS ? MOST_SHARING * (MOST_SHARING + 1) / 2 : MOST_SHARING;
    double sums[TERMS], factors[MOST_SHARING], behind[MOST_SHARING + 1];
    const uint32_t terms = PAIRS ? count * (count + 1) / 2 : count;
    for (uint32_t i = 0; i < terms; i++) sums[i] = 0.0;
    for (uint32_t p = 0; p < (count + 1) / 2; p++) {
        const double t = rule.points[p];
        behind[count] = 1.0;
        for (uint32_t j = count; j-- > 0;) {
            const double of_others = (1.0 - t) * players[j].share;
            factors[j] = outcome >> j & 1 ? t + of_others : of_others;
            behind[j] = behind[j + 1] * factors[j];
        }
        double before = rule.weights[p];
        for (uint32_t i = 0; i < count; i++) {
            sums[i] += before * behind[i + 1];
            if (PAIRS) {
                double between = before;
                for (uint32_t j = i + 1; j < count; j++) {
                    sums[pair_of(count, i, j)] += between * behind[j + 1];
                    between *= factors[j];
                }
            }
            before *= factors[i];
        }
    }
    // What its joining changes for a player.
    for (uint32_t j = 0; j < count; j++) factors[j] = (outcome >> j & 1 ? 1.0 : 0.0) - players[j].share;
    for (uint32_t i = 0; i < count; i++) group.add_player(i, sums[i] * factors[i]);
    for (uint32_t i = 0; PAIRS && i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) group.add_pair(i, j, sums[pair_of(count, i, j)] * (0.5 * factors[i] * factors[j]));
    }
}

__device__ __forceinline__ uint32_t bits_of(Outcome outcome) {
    return __popcll(static_cast<uint64_t>(outcome)) + __popcll(static_cast<uint64_t>(outcome >> 64));
}

// The chance of an order in which `a` given players come before one more, and `b` behind.
__device__ __forceinline__ double chance_of_order(uint32_t a, uint32_t b) {
    const uint32_t few = min(a, b), many = max(a, b);
    double binomial = 1.0;
    for (uint32_t i = 1; i <= few; i++) binomial = binomial * static_cast<double>(many + i) / static_cast<double>(i);
    return 1.0 / (static_cast<double>(a + b + 1) * binomial);
}

// Adds to out[term * pitch] what a leaf of value 1 gives against the rows of a background.
template <bool PAIRS>
__device__ __forceinline__ void add_background(const BackgroundOutcome* outcomes, uint32_t distinct, uint32_t count, Outcome outcome, double* out,
                                               uint64_t pitch) {
    const Outcome all = ~static_cast<Outcome>(0) >> (128 - count);
    for (uint32_t o = 0; o < distinct; o++) {
        const Outcome other = static_cast<Outcome>(outcomes[o].high) << 64 | outcomes[o].low;
        if ((other | outcome) != all) continue;
        const Outcome ours = outcome & ~other, theirs = other & ~outcome;
        const uint32_t a = bits_of(ours), b = bits_of(theirs);
        for (uint32_t i = 0; i < count; i++) {
            const bool is_ours = ours >> i & 1;
            if (!is_ours && !(theirs >> i & 1)) continue;
            const double sign = is_ours ? outcomes[o].share : -outcomes[o].share;
            const uint32_t a_i = a - is_ours, b_i = b - !is_ours;
            out[i * pitch] += sign * chance_of_order(a_i, b_i);
            for (uint32_t j = i + 1; PAIRS && j < count; j++) {
                const bool is_ours_too = ours >> j & 1;
                if (!is_ours_too && !(theirs >> j & 1)) continue;
                const double both = is_ours_too ? sign : -sign;
                out[pair_of(count, i, j) * pitch] += 0.5 * both * chance_of_order(a_i - is_ours_too, b_i - !is_ours_too);
            }
        }
    }
}

// A thread takes a row through `groups` groups: adds to sums[((first_output + output) * all_terms + place) * rows + row] what each group gives to
// the place of a term among those of `all` players. `scratch` has of each row `most_leaf_terms` numbers for a leaf of a background, and behind
// them those of the `outputs` outputs of a group.
template <bool PAIRS>
__device__ __forceinline__ void explain_leaves(uint64_t rows, uint64_t pitch, const uint8_t* answers, const LeafGroup* groups, uint32_t count,
                                               const uint32_t* group_players, const ExplainedLeaf* leaves, const LeafPlayer* players,
                                               const uint32_t* steps, const BackgroundOutcome* outcomes, const QuadratureRule* rules,
                                               const double* values, uint32_t first_output, uint32_t outputs, uint32_t all, uint32_t all_terms,
                                               uint32_t most_leaf_terms, double* scratch, double* sums) {
    const uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) return;
    const Answers own = {answers + row, pitch};
    double* of_leaf = scratch + row;
    double* of_group = of_leaf + most_leaf_terms * rows;
    for (uint32_t g = 0; g < count; g++) {
        const LeafGroup group = groups[g];
        const uint32_t terms = PAIRS ? group.players * (group.players + 1) / 2 : group.players;
        for (uint32_t i = 0; i < outputs * terms; i++) of_group[i * rows] = 0.0;
        for (uint32_t l = 0; l < group.leaves; l++) {
            const ExplainedLeaf leaf = leaves[group.first_leaf + l];
            const Outcome outcome = outcome_of(leaf, players, steps, own);
            const GroupSums into = {of_group, rows, group.players, terms, outputs, players + leaf.first_player, values + leaf.first_value};
            if (leaf.outcomes == 0) {
                add_shares<PAIRS>(rules[leaf.players], leaf.players, static_cast<uint32_t>(outcome), into);
                continue;
            }
            const uint32_t leaf_terms = PAIRS ? leaf.players * (leaf.players + 1) / 2 : leaf.players;
            for (uint32_t i = 0; i < leaf_terms; i++) of_leaf[i * rows] = 0.0;
            add_background<PAIRS>(outcomes + leaf.first_outcome, leaf.outcomes, leaf.players, outcome, of_leaf, rows);
            for (uint32_t i = 0; i < leaf.players; i++) {
                into.add_player(i, of_leaf[i * rows]);
                for (uint32_t j = i + 1; PAIRS && j < leaf.players; j++) into.add_pair(i, j, of_leaf[pair_of(leaf.players, i, j) * rows]);
            }
        }
        const uint32_t* own_players = group_players + group.first_player;
        for (uint32_t k = 0; k < outputs; k++) {
            double* out = sums + static_cast<uint64_t>(first_output + k) * all_terms * rows + row;
            const double* found = of_group + static_cast<uint64_t>(k) * terms * rows;
            for (uint32_t i = 0; i < group.players; i++) {
                const uint32_t a = own_players[i];
                out[a * rows] += found[i * rows];
                for (uint32_t j = i + 1; PAIRS && j < group.players; j++) {
                    const uint32_t b = own_players[j];
                    out[pair_of(all, min(a, b), max(a, b)) * rows] += found[pair_of(group.players, i, j) * rows];
                }
            }
        }
    }
}

#define EXPLAIN_LEAVES(NAME, PAIRS)                                                                                                              \
    extern "C" __global__ void __launch_bounds__(128)                                                                                            \
        NAME(uint64_t rows, uint64_t pitch, const uint8_t* answers, const LeafGroup* groups, uint32_t count, const uint32_t* group_players,      \
             const ExplainedLeaf* leaves, const LeafPlayer* players, const uint32_t* steps, const BackgroundOutcome* outcomes,                   \
             const QuadratureRule* rules, const double* values, uint32_t first_output, uint32_t outputs, uint32_t all, uint32_t all_terms,       \
             uint32_t most_leaf_terms, double* scratch, double* sums) {                                                                          \
        explain_leaves<PAIRS>(rows, pitch, answers, groups, count, group_players, leaves, players, steps, outcomes, rules, values, first_output, \
                              outputs, all, all_terms, most_leaf_terms, scratch, sums);                                                          \
    }
EXPLAIN_LEAVES(explain_leaves_values, false)
EXPLAIN_LEAVES(explain_leaves_pairs, true)
#undef EXPLAIN_LEAVES
