// What a split is worth: the tables of a search, and the arithmetic of src/engine/tree/split.rs and backend/cpu/scores.rs
// in their order.

#pragma once

#include "sums.cuh"

namespace taiga {

// A block has a thread for each bin.
constexpr uint32_t BINS = 256;

struct Feature {
    uint32_t borders, first;  // first: 1 where code 0 is kept for missing values
    uint32_t categories;
    int32_t monotone;
    // Its column, counted in the group. Where it shares that with other features: the code that is not stored there, the
    // lowest one that is, and what stands there for that one (backend/cpu/plan.rs).
    uint32_t column, usual, low, start;
};

constexpr uint32_t ALL_STORED = ~0u, NOWHERE = ~0u;

// The bin of a feature's code in its column, where it is stored.
__device__ __forceinline__ uint32_t stored_at(const Feature& f, uint32_t code) {
    if (f.usual == ALL_STORED) return code;
    if (code == f.usual || code < f.low) return NOWHERE;
    return f.start + code - f.low - (f.usual >= f.low && f.usual < code);
}

// What makes a split good, and what makes it allowed.
struct Rules {
    double l1, l2, min_child_weight, min_gain;
    int64_t min_data_in_leaf;
    double smooth, category_l2;
    uint32_t most_categories, constrained;
};

// How rows are counted: not, in a component of their own, or by hessians that are 1.
enum : uint32_t { NOT, APART, BY_HESSIAN };

// A node to be searched, or not.
struct Item {
    Sums sums;
    double low, high;  // bounds of its value
    uint32_t slot;
    // The slot of its sibling, which is taken from its parent's histogram, which its slot still
    // holds; none for a node whose own rows were summed.
    int32_t minus;
    uint32_t features;  // the first word of the bits of those that may split it; ~0: all may
    uint32_t state;
};

constexpr uint32_t EXISTS = 1, SEARCHED = 2;

// What a feature offers a node; nothing at `NO_SIDE`.
struct alignas(16) Best {
    double gain;
    uint32_t border, side;
    Sums left;
    uint64_t unused;
};

enum : uint32_t { NO_SIDE, MISSING_LEFT, MISSING_RIGHT, SUBSET };

struct Found {
    double gain;
    uint32_t feature, border, side, unused;
    Sums left;
    uint32_t set[8];
};

struct Search {
    Histograms histograms;
    const Feature* features;  // of all groups
    uint32_t first_feature;   // of the group
    uint32_t first_column;    // where its features stand among those that are open
    uint32_t columns;         // all that are open
    uint32_t counted;
    uint32_t features_here;   // of the group
    uint32_t unused;
    const Item* items;
    const uint32_t* allowed;  // bits
    const Encoding* encoding;
    Best* best;      // [item][column]
    uint32_t* sets;  // [item][column][8]; where there are categories
    Rules rules;
};

struct Values {
    double gradient, hessian;
};

__device__ __forceinline__ Values values(const Encoding& e, Sums s) {
    return {static_cast<double>(s.gradient) * e.unit_gradient, static_cast<double>(s.hessian) * e.unit_hessian};
}

__device__ __forceinline__ double soft_threshold(double gradient, double l1) {
    double lowered = fabs(gradient) - l1;
    lowered = lowered > 0.0 ? lowered : 0.0;
    return gradient < 0.0 ? -lowered : lowered;
}

__device__ __forceinline__ double leaf_value(const Rules& r, Values v, double low, double high) {
    double divisor = v.hessian + r.l2;
    double value = divisor > 0.0 ? -soft_threshold(v.gradient, r.l1) / divisor : 0.0;
    return at_most(at_least(value, low), high);
}

__device__ __forceinline__ double leaf_score(const Rules& r, Values v, double value) {
    return -(2.0 * (v.gradient * value + r.l1 * fabs(value)) + (v.hessian + r.l2) * value * value);
}

__device__ __forceinline__ double node_score(const Rules& r, const Encoding& e, const Item& item) {
    Values v = values(e, item.sums);
    if (r.constrained) return leaf_score(r, v, leaf_value(r, v, item.low, item.high));
    double t = soft_threshold(v.gradient, r.l1), divisor = v.hessian + r.l2;
    return divisor > 0.0 ? t * t / divisor : 0.0;
}

__device__ __forceinline__ bool large_enough(const Rules& r, Sums s, Values v) {
    return s.hessian > 0 && v.hessian >= r.min_child_weight && (r.min_data_in_leaf == 0 || s.count >= r.min_data_in_leaf);
}

__device__ __forceinline__ bool divisible(const Rules& r, const Encoding& e, Sums s) {
    double h = static_cast<double>(s.hessian) * e.unit_hessian;
    return s.hessian >= 2 && h >= 2.0 * r.min_child_weight && (r.min_data_in_leaf == 0 || s.count >= 2 * r.min_data_in_leaf);
}

// scores.rs: what both children of a candidate score.
__device__ __forceinline__ double score(const Rules& r, const Encoding& e, const Item& item, int32_t direction, Sums left, double too_small) {
    Sums right = item.sums - left;
    Values l = values(e, left), g = values(e, right);
    if (!large_enough(r, left, l) || !large_enough(r, right, g)) return too_small;
    if (!r.constrained) {
        double tl = soft_threshold(l.gradient, r.l1), tr = soft_threshold(g.gradient, r.l1);
        double dl = l.hessian + r.l2, dr = g.hessian + r.l2;
        return (tl * tl * dr + tr * tr * dl) / (dl * dr);
    }
    double wl = leaf_value(r, l, item.low, item.high), wr = leaf_value(r, g, item.low, item.high);
    if ((wr - wl) * static_cast<double>(direction) < 0.0) return -INFINITE64;
    return leaf_score(r, l, wl) + leaf_score(r, g, wr);
}

}  // namespace taiga
