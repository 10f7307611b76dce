// Scores splits: the arithmetic of src/core/tree/split.rs and cpu/trees/split_scores.rs, in their order, from the
// integer sums; and the tables of a search.

#pragma once

#include "histogram.cuh"

namespace taiga {

// A block has a thread for each bin.
constexpr uint32_t BINS = 256;

struct FeatureInfo {  // shared with the host
    uint32_t borders, first;  // first: 1 where code 0 is kept for missing values
    uint32_t categories;
    int32_t monotone;
    // Its column, counted in the group. Where it shares that with other features: the code that is not stored there, the
    // lowest one that is, and what stands there for that one (core/learners/boosting/layout.rs). So too where it is sparse (sparse_features.cuh).
    uint32_t column, usual, low, start;
};

constexpr uint32_t ALL_STORED = ~0u, NOWHERE = ~0u, SPARSE_COLUMN = ~0u;

// Where a feature of which one code is not stored has its first code from `code` on that is; from the lowest one on.
__device__ __forceinline__ uint32_t stored_from(const FeatureInfo& f, uint32_t code) {
    return f.start + code - f.low - (f.usual >= f.low && f.usual < code);
}

// The bin of a feature's code in its column, where it is stored.
__device__ __forceinline__ uint32_t stored_at(const FeatureInfo& f, uint32_t code) {
    if (f.usual == ALL_STORED) return code;
    return code == f.usual || code < f.low ? NOWHERE : stored_from(f, code);
}

// What makes a split good, and what makes it allowed.
struct Rules {  // shared with the host
    double l1, l2, min_child_weight, min_gain, max_delta_step, path_smooth;
    int64_t min_data_in_leaf;
    double smooth, category_l2;
    uint32_t most_categories;
    // Whether splits are scored by the values that leaves get, and whether it is more than monotone constraints that moves these.
    uint32_t constrained;
    uint32_t level_limits, moved;
};

// How rows are counted: not, in a component of their own, or by hessians that are 1.
enum : uint32_t { NOT, APART, BY_HESSIAN };

// A node to be searched, or not.
struct SplitInput {  // shared with the host
    Sums sums;
    double low, high;  // bounds of its value
    uint32_t slot;
    // The slot of its sibling, which is taken from its parent's histogram, which its slot still
    // holds; none for a node whose own rows were summed.
    int32_t minus;
    uint32_t features;  // the first word of the bits of those that may split it; ~0: all may
    uint32_t state;
    double value;  // its own, which smoothing draws its children's to
    uint32_t drawn;  // the word from which on the borders are, four a word, where one alone of each feature may divide it
    uint32_t noise;  // the row of `SplitSearch::noise`, where there is any
};

constexpr uint32_t EXISTS = 1, SEARCHED = 2;

// What a feature offers a node; nothing at `NO_SIDE`.
struct alignas(16) FeatureSplit {  // shared with the host
    double rank;  // what features are compared by: the gain, weighted where there are weights, or the root of the score with noise
    uint32_t border, side;
    Sums left;
    double gain;
};

enum : uint32_t { NO_SIDE, MISSING_LEFT, MISSING_RIGHT, SUBSET };

struct NodeSplit {  // shared with the host
    double gain;
    uint32_t feature, border, side, unused;
    Sums left;
    uint32_t set[8];
};

struct SplitSearch {  // shared with the host
    Histograms histograms;
    const FeatureInfo* features;  // of all groups
    uint32_t first_feature;   // of the group
    uint32_t first_column;    // where its features stand among those that are open
    uint32_t columns;         // all that are open
    uint32_t counted;
    uint32_t features_here;   // of the group
    uint32_t draws;           // whether a node may be divided at one border alone of each feature
    const SplitInput* split_inputs;
    const uint32_t* allowed;  // bits
    const GradientQuantizer* quantizer;
    FeatureSplit* best;      // [node][column]
    uint32_t* sets;  // [node][column][8]; where there are categories
    const double* noise;  // [row][column]: what is added to the roots of scores before features are compared; or none
    const double* weights;  // [column]: what gains are multiplied by before features are compared; or none
    Rules rules;
};

struct Values {
    double gradient, hessian;
};

__device__ __forceinline__ Values values(const GradientQuantizer& e, Sums s) {
    return {static_cast<double>(s.gradient) * e.unit_gradient, static_cast<double>(s.hessian) * e.unit_hessian};
}

__device__ __forceinline__ double soft_threshold(double gradient, double l1) {
    double lowered = fabs(gradient) - l1;
    lowered = lowered > 0.0 ? lowered : 0.0;
    return gradient < 0.0 ? -lowered : lowered;
}

__device__ __forceinline__ double own_value(const Rules& r, Values v) {
    double divisor = v.hessian + r.l2;
    double value = divisor > 0.0 ? -soft_threshold(v.gradient, r.l1) / divisor : 0.0;
    return at_most(at_least(value, -r.max_delta_step), r.max_delta_step);
}

// Of a child of the node `input`, of so many rows.
__device__ __forceinline__ double leaf_value(const Rules& r, Values v, int64_t rows, const SplitInput& input) {
    double value = own_value(r, v);
    if (r.path_smooth > 0.0) {
        double share = static_cast<double>(rows) / r.path_smooth;
        value = value * share / (share + 1.0) + input.value / (share + 1.0);
    }
    return at_most(at_least(value, input.low), input.high);
}

__device__ __forceinline__ double leaf_score(const Rules& r, Values v, double value) {
    return -(2.0 * (v.gradient * value + r.l1 * fabs(value)) + (v.hessian + r.l2) * value * value);
}

__device__ __forceinline__ double node_score(const Rules& r, const GradientQuantizer& e, const SplitInput& input) {
    Values v = values(e, input.sums);
    if (r.constrained) return leaf_score(r, v, leaf_value(r, v, input.sums.count, input));
    double t = soft_threshold(v.gradient, r.l1), divisor = v.hessian + r.l2;
    return divisor > 0.0 ? t * t / divisor : 0.0;
}

__device__ __forceinline__ bool large_enough(const Rules& r, Sums s, Values v) {
    return s.hessian > 0 && v.hessian >= r.min_child_weight && (r.min_data_in_leaf == 0 || s.count >= r.min_data_in_leaf);
}

__device__ __forceinline__ bool is_searched(const Rules& r, const GradientQuantizer& e, Sums s) {
    if (r.level_limits) return s.count > 0;
    double h = static_cast<double>(s.hessian) * e.unit_hessian;
    return s.hessian >= 2 && h >= 2.0 * r.min_child_weight && (r.min_data_in_leaf == 0 || s.count >= 2 * r.min_data_in_leaf);
}

// scores.rs: what both children of a candidate score.
__device__ __forceinline__ double score(const Rules& r, const GradientQuantizer& e, const SplitInput& input, int32_t direction, Sums left, double too_small) {
    Sums right = input.sums - left;
    Values l = values(e, left), g = values(e, right);
    // A node whose rows all go to one side is not split.
    if (!large_enough(r, left, l) || !large_enough(r, right, g)) {
        return r.level_limits && left.count > 0 && right.count > 0 ? -INFINITE64 : too_small;
    }
    if (!r.constrained) {
        double tl = soft_threshold(l.gradient, r.l1), tr = soft_threshold(g.gradient, r.l1);
        double dl = l.hessian + r.l2, dr = g.hessian + r.l2;
        return (tl * tl * dr + tr * tr * dl) / (dl * dr);
    }
    double wl = leaf_value(r, l, left.count, input), wr = leaf_value(r, g, right.count, input);
    if ((wr - wl) * static_cast<double>(direction) < 0.0) return -INFINITE64;
    return leaf_score(r, l, wl) + leaf_score(r, g, wr);
}

// Where that stands which a column is compared by beside its gain: none where it is compared by the gain alone.
struct Ranking {
    const double *weight, *noise;
};

// The ranking of a column, with the noise of a node or of the level that it is of. `RANKED`: whether there may be noise or weights.
template <bool RANKED>
__device__ __forceinline__ Ranking ranking_of(const SplitSearch& a, const SplitInput& input, uint32_t column) {
    if (!RANKED) return {nullptr, nullptr};
    return {a.weights ? a.weights + column : nullptr, a.noise ? a.noise + static_cast<uint64_t>(input.noise) * a.columns + column : nullptr};
}

// What a candidate is compared by with others of what scores `parent` unsplit (core/tree/steps.rs: Candidate::new).
__device__ __forceinline__ double rank_of(Ranking ranking, double parent, double gain) {
    const double weighted = ranking.weight ? gain * *ranking.weight : gain;
    if (!ranking.noise) return weighted;
    const double score = parent + weighted;
    return (score > 0.0 ? __dsqrt_rn(score) : 0.0) + *ranking.noise;
}

// How the sums of a bin are kept: as one number, or by components.
enum : uint32_t { PACKED = 1, TWO, THREE };

__device__ __forceinline__ uint32_t kept_as(const Histograms& h, uint32_t column) {
    return column == SPARSE_COLUMN && h.packed ? PACKED : h.components;
}

// A bin's sums, of a slot of a group; `column`: or `SPARSE_COLUMN`, and the bin is a sparse one.
__device__ __forceinline__ int64_t* bin_of(const Histograms& h, uint32_t slot, uint32_t column, uint32_t bin) {
    int64_t* first = h.slots + slot * h.slot_size;
    if (column == SPARSE_COLUMN) return first + h.first_sparse_bin * h.components + static_cast<uint64_t>(bin) * kept_as(h, column);
    const uint64_t at = (static_cast<uint64_t>(column / LANES) * h.bins + bin) * LANES + column % LANES;
    return first + at * h.components;
}

__device__ __forceinline__ Sums unpack(int64_t packed) {
    return {packed >> 32, static_cast<int64_t>(static_cast<uint32_t>(packed)), 0};
}

__device__ __forceinline__ Sums read_sums(const int64_t* at, uint32_t kept) {
    if (kept == PACKED) return unpack(*at);
    if (kept == THREE) return {at[0], at[1], at[2]};
    const longlong2 two = *reinterpret_cast<const longlong2*>(at);
    return {two.x, two.y, 0};
}

// The same past the first-level cache: other blocks of this launch may have written it.
__device__ __forceinline__ Sums read_written(const int64_t* at, uint32_t kept) {
    const long long* numbers = reinterpret_cast<const long long*>(at);
    const int64_t first = __ldcg(numbers);
    if (kept == PACKED) return unpack(first);
    return {first, __ldcg(numbers + 1), kept == THREE ? __ldcg(numbers + 2) : 0};
}

__device__ __forceinline__ void write_sums(int64_t* at, uint32_t kept, Sums s) {
    if (kept == PACKED) {
        *at = s.gradient * (1ll << 32) + s.hessian;
    } else if (kept == THREE) {
        at[0] = s.gradient;
        at[1] = s.hessian;
        at[2] = s.count;
    } else {
        *reinterpret_cast<longlong2*>(at) = make_longlong2(s.gradient, s.hessian);
    }
}

// With the rows that they count.
__device__ __forceinline__ Sums counted_sums(Sums s, uint32_t counted) {
    s.count = counted == APART ? s.count : counted == BY_HESSIAN ? s.hessian : 0;
    return s;
}

// Sums of some codes of a feature whose bins are packed: both components in one number, which has room for all of its entries.
struct Packed {
    int64_t both;
};

__device__ __forceinline__ Packed operator+(Packed a, Packed b) {
    return {a.both + b.both};
}

__device__ __forceinline__ Packed operator-(Packed a, Packed b) {
    return {a.both - b.both};
}

__device__ __forceinline__ Sums sums_of(Packed p, uint32_t counted) {
    return counted_sums(unpack(p.both), counted);
}

__device__ __forceinline__ Sums sums_of(Sums s, uint32_t) {
    return s;
}

__device__ __forceinline__ Packed counted_sums(Packed p, uint32_t) {
    return p;
}

__device__ __forceinline__ bool any_of(Packed p) {
    return p.both;
}

__device__ __forceinline__ bool any_of(Sums s) {
    return s.gradient | s.hessian | s.count;
}

// A bin's sums as they are added up, from one that is kept in whatever way, or packed.
__device__ __forceinline__ void read_bin(const int64_t* at, uint32_t kept, Sums& s) {
    s = read_sums(at, kept);
}

__device__ __forceinline__ void read_bin(const int64_t* at, uint32_t, Packed& p) {
    p.both = *at;
}

__device__ __forceinline__ void write_bin(int64_t* at, uint32_t kept, Sums s) {
    write_sums(at, kept, s);
}

__device__ __forceinline__ void write_bin(int64_t* at, uint32_t, Packed p) {
    *at = p.both;
}

// Where a code's sums are in a feature's column, or among the bins of sparse features.
__device__ __forceinline__ uint32_t place_of(const FeatureInfo& f, uint32_t code) {
    return code < f.borders + 1 + f.first ? stored_at(f, code) : NOWHERE;
}

// Codes whose sums are read at a time.
constexpr uint32_t AT_ONCE = 4;

// The sums of `each` codes in a node, from `code` on, as far as they are stored. A node whose histogram is what its sibling
// leaves of its parent's gets it written down here. `S`: `Sums`, or `Packed` where the feature's bins are.
template <uint32_t EACH, typename S>
__device__ __forceinline__ void take_bins(const Histograms& h, uint32_t counted, const SplitInput& input, const FeatureInfo& f, uint32_t code, uint32_t each,
                                          S (&own)[EACH]) {
    constexpr uint32_t STEP = EACH < AT_ONCE ? EACH : AT_ONCE;
    const uint32_t kept = kept_as(h, f.column);
    const bool rest = input.minus >= 0;
#pragma unroll
    for (uint32_t first = 0; first < EACH; first += STEP) {
        // All is read before anything is written, so that reads go together.
        S minus[STEP];
#pragma unroll
        for (uint32_t k = 0; k < STEP; k++) {
            own[first + k] = minus[k] = S{};
            const uint32_t place = first + k < each ? place_of(f, code + first + k) : NOWHERE;
            if (place == NOWHERE) continue;
            const int64_t *at = bin_of(h, input.slot, f.column, place), *other = rest ? bin_of(h, input.minus, f.column, place) : at;
            read_bin(at, kept, own[first + k]);
            if (rest) read_bin(other, kept, minus[k]);
        }
#pragma unroll
        for (uint32_t k = 0; k < STEP; k++) {
            S& s = own[first + k];
            s = s - minus[k];
            const uint32_t place = rest && first + k < each ? place_of(f, code + first + k) : NOWHERE;
            if (place != NOWHERE) write_bin(bin_of(h, input.slot, f.column, place), kept, s);
            s = counted_sums(s, counted);
        }
    }
}

template <uint32_t EACH, typename S>
__device__ __forceinline__ void take_bins(const SplitSearch& a, const SplitInput& input, const FeatureInfo& f, uint32_t code, uint32_t each, S (&own)[EACH]) {
    take_bins(a.histograms, a.counted, input, f, code, each, own);
}

}  // namespace taiga
