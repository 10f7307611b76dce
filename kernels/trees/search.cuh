// The search for splits: the arithmetic of src/engine/tree/split.rs and backend/cpu/{search,scores,
// subset}.rs, in their order, from the integer sums. Ties: the lower feature, the lower border,
// missing values to the left.

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

// A bin's sums, of a slot of a group.
__device__ __forceinline__ int64_t* bin_of(const Histograms& h, uint32_t slot, uint32_t column, uint32_t bin) {
    uint64_t at = (static_cast<uint64_t>(column / LANES) * h.bins + bin) * LANES + column % LANES;
    return h.slots + slot * h.slot_size + at * h.components;
}

// A bin of three components, past the first-level cache: other blocks of this launch may have written it.
__device__ __forceinline__ Sums read_bin(const int64_t* at, uint32_t counted) {
    const long long* numbers = reinterpret_cast<const long long*>(at);
    const int64_t g = __ldcg(numbers), h = __ldcg(numbers + 1), c = __ldcg(numbers + 2);
    return {g, h, counted == APART ? c : counted == BY_HESSIAN ? h : 0};
}

// The sums of a code in a node, as far as it is stored. A node whose histogram is what its sibling leaves of its
// parent's gets it written down here.
__device__ __forceinline__ Sums take_bin(const Search& a, const Item& item, const Feature& feature, uint32_t code) {
    const Histograms& h = a.histograms;
    const uint32_t place = code < feature.borders + 1 + feature.first ? stored_at(feature, code) : NOWHERE;
    if (place == NOWHERE) return {0, 0, 0};
    int64_t* at = bin_of(h, item.slot, feature.column, place);
    const bool thirds = h.components == 3, rest = item.minus >= 0;
    const int64_t* other = rest ? bin_of(h, item.minus, feature.column, place) : at;
    // All is read before anything is written, so that reads go together.
    Sums s, minus = {0, 0, 0};
    if (thirds) {
        s = {at[0], at[1], at[2]};
        if (rest) minus = {other[0], other[1], other[2]};
    } else {
        const longlong2 own = *reinterpret_cast<const longlong2*>(at);
        s = {own.x, own.y, 0};
        if (rest) {
            const longlong2 taken = *reinterpret_cast<const longlong2*>(other);
            minus = {taken.x, taken.y, 0};
        }
    }
    s = s - minus;
    if (rest) {
        if (thirds) {
            at[0] = s.gradient;
            at[1] = s.hessian;
            at[2] = s.count;
        } else {
            *reinterpret_cast<longlong2*>(at) = make_longlong2(s.gradient, s.hessian);
        }
    }
    s.count = a.counted == APART ? s.count : a.counted == BY_HESSIAN ? s.hessian : 0;
    return s;
}

// Sums over the lanes of a warp up to each.
__device__ __forceinline__ Sums sums_of_lanes(Sums s, bool counts) {
    const uint32_t lane = threadIdx.x & 31;
    for (int o = 1; o < 32; o <<= 1) {
        int64_t g = __shfl_up_sync(~0u, s.gradient, o), h = __shfl_up_sync(~0u, s.hessian, o);
        int64_t c = counts ? __shfl_up_sync(~0u, s.count, o) : 0;
        if (lane >= o) s = s + Sums{g, h, c};
    }
    return s;
}

// Sums over the threads up to each, and those of all warps before.
__device__ __forceinline__ Sums sums_upto(Sums s, bool counts, int64_t (*parts)[8]) {
    uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    s = sums_of_lanes(s, counts);
    if (lane == 31) {
        parts[0][warp] = s.gradient;
        parts[1][warp] = s.hessian;
        parts[2][warp] = s.count;
    }
    __syncthreads();
    for (uint32_t w = 0; w < warp; w++) s = s + Sums{parts[0][w], parts[1][w], parts[2][w]};
    return s;
}

// Adds the sums of the code that is not stored.
__device__ __forceinline__ void add_usual(const Feature& feature, Sums rest, uint32_t code, Sums& left, Sums& missing) {
    if (code >= feature.usual) left = left + rest;
    if (feature.first && feature.usual == 0) missing = rest;
}

// The sums up to each code of a feature, and those of its missing values, from what is stored: the code that is not is what
// the others leave of the node.
__device__ __forceinline__ Sums sums_upto_codes(const Search& a, const Item& item, const Feature& feature, Sums own, int64_t (*parts)[8],
                                                Sums& missing) {
    __shared__ Sums lowest;
    if (threadIdx.x == 0) lowest = own;
    Sums left = sums_upto(own, a.counted != NOT, parts);
    missing = feature.first ? lowest : Sums{0, 0, 0};
    if (feature.usual != ALL_STORED) {
        Sums stored = {0, 0, 0};
        for (uint32_t w = 0; w < 8; w++) stored = stored + Sums{parts[0][w], parts[1][w], parts[2][w]};
        add_usual(feature, item.sums - stored, threadIdx.x, left, missing);
    }
    return left;
}

// The same of a feature of at most 32 codes, by a warp.
__device__ __forceinline__ Sums sums_upto_few(const Search& a, const Item& item, const Feature& feature, Sums own, Sums& missing) {
    Sums left = sums_of_lanes(own, a.counted != NOT);
    auto of_lane = [](Sums s, int lane) {
        return Sums{__shfl_sync(~0u, s.gradient, lane), __shfl_sync(~0u, s.hessian, lane), __shfl_sync(~0u, s.count, lane)};
    };
    const Sums lowest = of_lane(own, 0), stored = of_lane(left, 31);
    missing = feature.first ? lowest : Sums{0, 0, 0};
    if (feature.usual != ALL_STORED) add_usual(feature, item.sums - stored, threadIdx.x & 31, left, missing);
    return left;
}

// The largest value and the lowest place that has it, over a block of 256; known to all threads.
struct Top {
    double value;
    uint32_t place;
};

__device__ __forceinline__ Top larger(Top a, Top b) {
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}

// Those of a warp, by the lanes' places.
__device__ __forceinline__ Top top_of_warp(double value, uint32_t place) {
    // Not a number is larger than nothing.
    Top top = {value == value ? value : -INFINITE64, place};
    for (int o = 16; o; o >>= 1) {
        top = larger(top, {__shfl_xor_sync(~0u, top.value, o), __shfl_xor_sync(~0u, top.place, o)});
    }
    return top;
}

__device__ __forceinline__ Top top_of_block(double value, Top* tops) {
    Top top = top_of_warp(value, threadIdx.x);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    top = tops[0];
    for (int w = 1; w < 8; w++) top = larger(top, tops[w]);
    return top;
}

__device__ __forceinline__ bool may_split(const Search& a, const Item& item, uint32_t feature) {
    return item.features == ~0u || (a.allowed[item.features + feature / 32] >> (feature & 31) & 1);
}

// subset.rs: the subset of categories that gains most when it goes right. A thread is a category.
__device__ __forceinline__ void best_subset(const Search& a, const Encoding& e, const Item& item, Sums own, uint32_t count, Best* best,
                                            uint32_t* set) {
    __shared__ double keys[BINS];
    __shared__ Sums sorted[BINS];
    __shared__ uint8_t codes[BINS];
    __shared__ Top tops[8];
    __shared__ int64_t parts[3][8];
    uint32_t code = threadIdx.x;
    bool counts = code >= 1 && code < count && own.hessian > 0;
    Values v = values(e, own);
    double key = v.gradient / (v.hessian + a.rules.smooth);
    // In the order of f64::total_cmp.
    int64_t bits = static_cast<int64_t>(bits_of(key));
    int64_t order = bits ^ static_cast<int64_t>(static_cast<uint64_t>(bits >> 63) >> 1);
    int64_t* orders = reinterpret_cast<int64_t*>(keys);
    orders[code] = order;
    uint32_t n = __syncthreads_count(counts);
    __shared__ uint32_t members[8];
    unsigned mask = __ballot_sync(~0u, counts);
    if ((code & 31) == 0) members[code / 32] = mask;
    __syncthreads();
    if (counts) {
        uint32_t rank = 0;
        for (uint32_t other = 1; other < count; other++) {
            bool in = members[other / 32] >> (other & 31) & 1;
            rank += in && (orders[other] < order || (orders[other] == order && other < code));
        }
        sorted[rank] = own;
        codes[rank] = static_cast<uint8_t>(code);
    }
    __syncthreads();
    uint32_t half = (n + 1) / 2, most = a.rules.most_categories < half ? a.rules.most_categories : half;
    double parent = node_score(a.rules, e, item);
    Top found[2];
    Sums outside_of[2];
    for (int reversed = 0; reversed < 2; reversed++) {
        bool inside_range = code < most;
        Sums mine = inside_range ? sorted[reversed ? n - 1 - code : code] : Sums{0, 0, 0};
        __syncthreads();
        Sums inside = sums_upto(mine, true, parts);
        Sums outside = item.sums - inside;
        Values in = values(e, inside), out = values(e, outside);
        double gain = -INFINITE64;
        if (inside_range && large_enough(a.rules, inside, in) && large_enough(a.rules, outside, out)) {
            auto side = [&](Values v) {
                double t = soft_threshold(v.gradient, a.rules.l1);
                return t * t / (v.hessian + a.rules.l2 + a.rules.category_l2);
            };
            gain = side(in) + side(out) - parent;
        }
        found[reversed] = top_of_block(gain, tops);
        outside_of[reversed] = outside;
        __syncthreads();
    }
    int reversed = found[1].value > found[0].value;
    Top top = found[reversed];
    bool any = top.value > a.rules.min_gain;
    if (code == top.place) *best = Best{top.value, 0, any ? SUBSET : NO_SIDE, reversed ? outside_of[1] : outside_of[0], 0};
    __shared__ uint32_t bits_of_set[8];
    if (code < 8) bits_of_set[code] = 0;
    __syncthreads();
    if (any && code <= top.place) {
        uint32_t c = codes[reversed ? n - 1 - code : code];
        atomicOr(bits_of_set + c / 32, 1u << (c & 31));
    }
    __syncthreads();
    if (code < 8) set[code] = bits_of_set[code];
}

// The best of all codes' splits, with missing values on the better side.
struct Picked {
    double gain;
    uint32_t side, place;
};

// `with`, `without`: what the split behind this code is worth with missing values on the left, on the right; `any`: whether
// there are any; `top_of`: the largest value of all codes'.
template <typename Without, typename TopOf>
__device__ __forceinline__ Picked pick_side(double min_gain, double parent, double with, bool any, Without without, TopOf top_of) {
    Top top = top_of(with);
    double gain = top.value - parent;
    uint32_t side = gain > min_gain ? MISSING_LEFT : NO_SIDE;
    if (any) {
        Top other = top_of(without());
        double other_gain = other.value - parent;
        bool better = other_gain > gain || (other_gain == gain && other.place < top.place);
        if (other_gain > min_gain && (side == NO_SIDE || better)) {
            gain = other_gain;
            top = other;
            side = MISSING_RIGHT;
        }
    }
    return {gain, side, top.place};
}

// The best split of a node by a feature, from the sums up to each code; `top_of`: the largest value of all codes'.
template <typename TopOf>
__device__ __forceinline__ void pick_border(const Search& a, const Item& item, const Feature& feature, uint32_t code, Sums left, Sums missing, Best* best,
                                            TopOf top_of) {
    const Encoding& e = *a.encoding;
    const uint32_t border = code - feature.first;  // wraps below the first value
    const double with = border < feature.borders ? score(a.rules, e, item, feature.monotone, left, -INFINITE64) : -INFINITE64;
    const auto without = [&] {
        return border <= feature.borders ? score(a.rules, e, item, feature.monotone, left - missing, -INFINITE64) : -INFINITE64;
    };
    const bool any = missing.gradient | missing.hessian | missing.count;
    const Picked picked = pick_side(a.rules.min_gain, node_score(a.rules, e, item), with, any, without, top_of);
    if (code == picked.place) *best = Best{picked.gain, border, picked.side, picked.side == MISSING_RIGHT ? left - missing : left, 0};
}

// The best split of a node by a feature of the group, by a block.
__device__ __forceinline__ void search_node(const Search& a, uint32_t inside, uint32_t node) {
    __shared__ int64_t parts[3][8];
    __shared__ Top tops[8];
    const Item item = a.items[node];
    if (!(item.state & SEARCHED)) return;
    const uint32_t f = a.first_feature + inside;
    const Feature feature = a.features[f];
    Best* best = a.best + static_cast<uint64_t>(node) * a.columns + a.first_column + inside;
    const Sums own = take_bin(a, item, feature, threadIdx.x);
    if (!may_split(a, item, f)) {
        if (threadIdx.x == 0) *best = Best{};
        return;
    }
    if (feature.categories) {
        best_subset(a, *a.encoding, item, own, feature.borders + 1, best, a.sets + (best - a.best) * 8);
        return;
    }
    Sums missing;
    const Sums left = sums_upto_codes(a, item, feature, own, parts, missing);
    pick_border(a, item, feature, threadIdx.x, left, missing, best, [&](double value) { return top_of_block(value, tops); });
}

// The same by a warp, of a feature of at most 32 codes.
__device__ __forceinline__ void search_few(const Search& a, uint32_t inside, uint32_t node) {
    const Item item = a.items[node];
    if (!(item.state & SEARCHED)) return;
    const uint32_t f = a.first_feature + inside, code = threadIdx.x & 31;
    const Feature feature = a.features[f];
    Best* best = a.best + static_cast<uint64_t>(node) * a.columns + a.first_column + inside;
    const Sums own = take_bin(a, item, feature, code);
    if (!may_split(a, item, f)) {
        if (code == 0) *best = Best{};
        return;
    }
    Sums missing;
    const Sums left = sums_upto_few(a, item, feature, own, missing);
    pick_border(a, item, feature, code, left, missing, best, [&](double value) { return top_of_warp(value, code); });
}

// The best split of each node by each feature: blockIdx.x the feature inside the group, blockIdx.y
// the node.
extern "C" __global__ void __launch_bounds__(BINS) tree_search(const __grid_constant__ Search a) {
    search_node(a, blockIdx.x, blockIdx.y);
}

// The same where all features have at most 32 codes: eight features a block.
extern "C" __global__ void __launch_bounds__(256) tree_search_few(const __grid_constant__ Search a) {
    const uint32_t inside = blockIdx.x * 8 + threadIdx.x / 32;
    if (inside < a.features_here) search_few(a, inside, blockIdx.y);
}

// What a feature offers, past the first-level cache: other blocks of this launch may have written it.
__device__ __forceinline__ Best read_best(const Best* best) {
    const ulonglong2* words = reinterpret_cast<const ulonglong2*>(best);
    const ulonglong2 head = __ldcg(words), sums = __ldcg(words + 1), rest = __ldcg(words + 2);
    return {__longlong_as_double(static_cast<long long>(head.x)), static_cast<uint32_t>(head.y), static_cast<uint32_t>(head.y >> 32),
            {static_cast<int64_t>(sums.x), static_cast<int64_t>(sums.y), static_cast<int64_t>(rest.x)}};
}

// The best of a node's columns, by a warp; `columns` are numbered in order of their features.
__device__ __forceinline__ uint32_t best_column(const Best* best, uint32_t columns) {
    double gain = -INFINITE64;
    uint32_t at = ~0u;
    for (uint32_t c = threadIdx.x & 31; c < columns; c += 32) {
        const Best b = read_best(best + c);
        if (b.side != NO_SIDE && (b.gain > gain || at == ~0u)) {
            gain = b.gain;
            at = c;
        }
    }
    for (int o = 16; o; o >>= 1) {
        double other = __shfl_xor_sync(~0u, gain, o);
        uint32_t place = __shfl_xor_sync(~0u, at, o);
        if (place != ~0u && (at == ~0u || other > gain || (other == gain && place < at))) {
            gain = other;
            at = place;
        }
    }
    return at;
}

// `numbers`: the feature of each column. A warp a node.
extern "C" __global__ void __launch_bounds__(32)
    tree_pick(const Best* best, const uint32_t* sets, const uint32_t* numbers, uint32_t columns, Found* found) {
    uint64_t first = static_cast<uint64_t>(blockIdx.x) * columns;
    uint32_t c = best_column(best + first, columns);
    Found* out = found + blockIdx.x;
    if (c == ~0u) {
        if (threadIdx.x == 0) *out = Found{};
        return;
    }
    const Best b = best[first + c];
    if (threadIdx.x == 0) {
        out->unused = 0;
        out->gain = b.gain;
        out->feature = numbers[c];
        out->border = b.border;
        out->side = b.side;
        out->left = b.left;
    }
    if (threadIdx.x < 8) out->set[threadIdx.x] = b.side == SUBSET ? sets[(first + c) * 8 + threadIdx.x] : 0;
}

}  // namespace taiga
