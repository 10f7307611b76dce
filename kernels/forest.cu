// Random forests: the trees of src/engine/forest on the GPU, level by level, many trees at a time.
//
//   codes     [block of 32 features][row][32]     a row of a block is one 32-byte sector
//   entries   {row, count}                        the rows of each node next to one another, in one of two buffers; their
//                                                 order is no matter, as all sums are integers
//   nodes     all nodes of all trees, a level behind the other, in no order inside a level
//
// A node of few rows is searched and divided by one block; one of many rows by blocks that take tiles of its rows:
//
//   draw_large ─► sum_large ─► grow (searches) ─► divide_large ─► children_large
//
// Two classes or numbers: of rows their count is summed, and what they are (whether of the second class, or their target in
// fixed point). See src/engine/backend/cuda/forest.rs for the host's side of the tables.

#include <type_traits>

#include "numerics/random.cuh"

using taiga::GOLDEN;
using taiga::mix64;

namespace {

extern __shared__ uint32_t shared[];

constexpr uint32_t NONE = 0xffffffff;
constexpr uint32_t BINS = 256;
constexpr uint32_t LANES = 32;
// Features of a pass over a node's rows, PASS in the host's file.
constexpr uint32_t PASS = 8;
// Rows of a tile, TILE there.
constexpr uint32_t TILE = 8192;

// Rows drawn, and the sum of what they are.
struct Sums {
    int64_t sum;
    uint64_t count;
};

__device__ __forceinline__ Sums operator+(Sums a, Sums b) { return {a.sum + b.sum, a.count + b.count}; }
__device__ __forceinline__ Sums operator-(Sums a, Sums b) { return {a.sum - b.sum, a.count - b.count}; }

struct Node {
    uint64_t key;
    uint64_t begin, rows;
    Sums total, left;
    double score;
    uint32_t tree, feature, left_code, right_code, missing_left, children;
};

struct Entry {
    uint32_t row, count;
};

// What all launches of a fit share.
struct Fit {
    const uint8_t* codes;
    const uint16_t* bins;    // of each feature
    const uint8_t* first;    // its code of the smallest values
    Node* nodes;
    uint32_t* next_node;
    // Lists of nodes to be grown, of the next level: few rows, more, many; and how many there are.
    uint32_t* lists[3];
    uint32_t* counts;
    uint64_t rows;
    uint64_t min_data;
    double min_gain;
    const uint64_t* tree_counts;
    // Of each row its class; or its target, and a number that equal targets share.
    const uint32_t* classes;
    const int64_t* values;
    const uint32_t* levels;
    // Of the score: 2 for two classes, whose sums of squares are the same.
    double factor;
    // What a gain is multiplied by to be in units of the target; 1 for classes.
    double unit;
    uint32_t features, drawn, few, many;
    uint32_t deeper;  // whether children may be split
    uint32_t unused;
};

__device__ __forceinline__ uint32_t code_of(const Fit& fit, uint32_t feature, uint32_t row) {
    return fit.codes[(static_cast<uint64_t>(feature / LANES) * fit.rows + row) * LANES + feature % LANES];
}

// Draws without replacement, without a list of all features: what a place holds that was swapped.
struct Draws {
    uint16_t* places;
    uint16_t* values;
    uint32_t count;

    __device__ uint32_t at(uint32_t place) const {
        for (uint32_t i = count; i-- > 0;) {
            if (places[i] == place) {
                return values[i];
            }
        }
        return place;
    }

    __device__ uint32_t next(uint64_t key, uint32_t features) {
        uint64_t bits = mix64(key + count * GOLDEN);
        uint32_t j = count + static_cast<uint32_t>(((bits >> 32) * (features - count)) >> 32);
        uint32_t drawn = at(j), here = at(count);
        places[count] = j;
        values[count] = here;
        count += 1;
        return drawn;
    }
};

struct Best {
    double score;
    Sums left;
    uint32_t order, left_code, right_code, missing_left;  // 2: there is none missing
    uint32_t varies;
};

__device__ __forceinline__ double score_of(double factor, Sums left, Sums total) {
    double n = static_cast<double>(total.count), c = static_cast<double>(total.sum);
    double nl = static_cast<double>(left.count), cl = static_cast<double>(left.sum);
    double d = cl * n - c * nl;
    return factor * (d * d) / (nl * (n - nl));
}

__device__ __forceinline__ void consider(
    Best& best, const Fit& fit, Sums left, Sums total, uint32_t order, uint32_t a, uint32_t b, uint32_t missing_left) {
    if (fit.min_data > 1 && (left.count < fit.min_data || total.count - left.count < fit.min_data)) {
        return;
    }
    double score = score_of(fit.factor, left, total);
    if (best.order == NONE || score > best.score) {
        best = {score, left, order, a, b, missing_left, 0};
    }
}

// The best split by one feature, by a warp: `bin(code)` are the sums of a code.
template <class Bin>
__device__ Best search(const Fit& fit, uint32_t feature, Sums total, Bin bin) {
    const uint32_t lane = threadIdx.x % LANES, all = 0xffffffff;
    const uint32_t bins = fit.bins[feature], first = fit.first[feature];
    const Sums missing = first == 1 ? bin(0) : Sums{0, 0};
    Best best{0.0, {0, 0}, NONE, 0, 0, 0, 0};
    Sums carry{0, 0};
    uint32_t last = NONE, seen = 0;
    for (uint32_t from = 0; from < bins; from += LANES) {
        uint32_t code = from + lane;
        Sums own = code >= first && code < bins ? bin(code) : Sums{0, 0};
        Sums sum = own;
        for (uint32_t step = 1; step < LANES; step *= 2) {
            Sums other{__shfl_up_sync(all, sum.sum, step), __shfl_up_sync(all, sum.count, step)};
            sum = lane >= step ? sum + other : sum;
        }
        uint32_t present = __ballot_sync(all, own.count != 0);
        uint32_t below = present & ((1u << lane) - 1);
        Sums left = carry + sum - own;
        if (own.count != 0 && left.count != 0) {
            uint32_t before = below != 0 ? from + 31 - __clz(below) : last;
            if (missing.count != 0) {
                consider(best, fit, left + missing, total, code * 2, before, code, 1);
                consider(best, fit, left, total, code * 2 + 1, before, code, 0);
            } else {
                consider(best, fit, left, total, code * 2, before, code, 2);
            }
        }
        last = present != 0 ? from + 31 - __clz(present) : last;
        seen += __popc(present);
        carry = carry + Sums{__shfl_sync(all, sum.sum, LANES - 1), __shfl_sync(all, sum.count, LANES - 1)};
    }
    if (missing.count != 0 && last != NONE && lane == 0) {
        consider(best, fit, carry, total, 2 * BINS, last, NONE, 0);
    }
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        Best other;
        other.score = __shfl_down_sync(all, best.score, step);
        other.left = {__shfl_down_sync(all, best.left.sum, step), __shfl_down_sync(all, best.left.count, step)};
        other.order = __shfl_down_sync(all, best.order, step);
        other.left_code = __shfl_down_sync(all, best.left_code, step);
        other.right_code = __shfl_down_sync(all, best.right_code, step);
        other.missing_left = __shfl_down_sync(all, best.missing_left, step);
        other.varies = 0;
        bool better = other.order != NONE
            && (best.order == NONE || other.score > best.score || (other.score == best.score && other.order < best.order));
        if (better) {
            best = other;
        }
    }
    best.varies = seen > 1 || (missing.count != 0 && seen > 0);
    return best;
}

// The bins of a pass in shared memory: sums, of 32 bits for classes and of 64 for numbers, then counts.
template <bool NUMBERS>
struct Bins {
    using Word = typename std::conditional<NUMBERS, unsigned long long, uint32_t>::type;
    Word* sums;
    uint32_t* counts;

    __device__ Bins(uint32_t* memory, uint32_t features)
        : sums(reinterpret_cast<Word*>(memory)), counts(memory + features * BINS * sizeof(Word) / 4) {}

    __device__ void clear(uint32_t features) {
        for (uint32_t i = threadIdx.x; i < features * BINS; i += blockDim.x) {
            sums[i] = 0;
            counts[i] = 0;
        }
    }

    __device__ Sums at(uint32_t i) const { return {static_cast<int64_t>(sums[i]), counts[i]}; }

    // Adds the rows of a node, or of a tile of it.
    __device__ void add(const Fit& fit, const Entry* entries, uint64_t begin, uint64_t end, const uint32_t* features, uint32_t count) {
        for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
            Entry entry = entries[i];
            Word word;
            if (NUMBERS) {
                word = static_cast<Word>(fit.values[entry.row] * static_cast<int64_t>(entry.count));
            } else {
                word = fit.classes[entry.row] * entry.count;
            }
            for (uint32_t f = 0; f < count; f++) {
                uint32_t bin = f * BINS + code_of(fit, features[f], entry.row);
                atomicAdd(counts + bin, entry.count);
                if (word != 0) {
                    atomicAdd(sums + bin, word);
                }
            }
        }
    }
};

// Whether the targets of some rows differ from that of the first one.
__device__ __forceinline__ bool levels_differ(const Fit& fit, const Entry* entries, uint64_t first, uint64_t begin, uint64_t end) {
    uint32_t level = fit.levels[entries[first].row];
    bool differ = false;
    for (uint64_t i = begin + threadIdx.x; i < end && !differ; i += blockDim.x) {
        differ = fit.levels[entries[i].row] != level;
    }
    return differ;
}

__device__ __forceinline__ bool goes_right(const Fit& fit, const Node& node, uint32_t row) {
    uint32_t shift = fit.first[node.feature] == 1 && node.missing_left == 0;
    return code_of(fit, node.feature, row) - shift > node.left_code - shift;
}

// Adds a child to the nodes, and to the list of its kind where it may be split.
__device__ void add_child(const Fit& fit, const Node& parent, uint32_t id, uint32_t side, uint64_t begin, uint64_t rows, Sums total) {
    uint64_t key = mix64(parent.key ^ ((side + 1ull) * 0xD1B54A32D192ED03ull));
    fit.nodes[id] = {key, begin, rows, total, {0, 0}, 0.0, parent.tree, NONE, 0, 0, 0, NONE};
    bool pure = fit.levels == nullptr && (total.sum == 0 || static_cast<uint64_t>(total.sum) == total.count);
    if (fit.deeper == 0 || rows < 2 || total.count < 2 * fit.min_data || pure) {
        return;
    }
    uint32_t list = rows <= fit.few ? 0 : rows <= fit.many ? 1 : 2;
    fit.lists[list][atomicAdd(fit.counts + list, 1)] = id;
}

__device__ void add_children(const Fit& fit, Node& node, uint64_t left_rows) {
    uint32_t id = atomicAdd(fit.next_node, 2);
    node.children = id;
    add_child(fit, node, id, 0, node.begin, left_rows, node.left);
    add_child(fit, node, id + 1, 1, node.begin + left_rows, node.rows - left_rows, node.total - node.left);
}

}  // namespace

// codes[block][row][32] from codes[feature][row].
extern "C" __global__ void forest_interleave(uint64_t rows, uint32_t features, const uint8_t* in, uint8_t* out) {
    uint64_t row = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x;
    if (row >= rows) {
        return;
    }
    for (uint32_t block = 0; block * LANES < features; block++) {
        for (uint32_t f = 0; f < LANES; f++) {
            uint32_t feature = block * LANES + f;
            out[(block * rows + row) * LANES + f] = feature < features ? in[feature * rows + row] : 0;
        }
    }
}

// How often each row is drawn.
extern "C" __global__ void forest_draw(uint64_t key, uint64_t draws, uint32_t rows, uint32_t* counts) {
    uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < draws; i += step) {
        uint64_t bits = mix64(key + i * GOLDEN);
        atomicAdd(counts + static_cast<uint32_t>(((bits >> 32) * rows) >> 32), 1);
    }
}

// The rows that are drawn, behind `begin`, where there is `room`; `counts` none: every row once. `tally`: how many they
// are, and the sums of all.
extern "C" __global__ void forest_entries(
    uint32_t rows,
    const uint32_t* counts,
    const uint32_t* classes,
    const int64_t* values,
    uint64_t begin,
    uint64_t room,
    Entry* entries,
    unsigned long long* tally) {
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % LANES;
    uint32_t count = row >= rows ? 0 : counts == nullptr ? 1 : min(counts[row], 0xffffu);
    uint32_t drawn = __ballot_sync(0xffffffff, count != 0);
    Sums sum{count == 0 ? 0 : values != nullptr ? count * values[row] : static_cast<int64_t>(count * classes[row]), count};
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        sum = sum + Sums{__shfl_down_sync(0xffffffff, sum.sum, step), __shfl_down_sync(0xffffffff, sum.count, step)};
    }
    unsigned long long first = 0;
    if (lane == 0 && drawn != 0) {
        first = atomicAdd(tally, static_cast<unsigned long long>(__popc(drawn)));
        atomicAdd(tally + 1, static_cast<unsigned long long>(sum.sum));
        atomicAdd(tally + 2, static_cast<unsigned long long>(sum.count));
    }
    first = __shfl_sync(0xffffffff, first, 0);
    uint64_t at = first + __popc(drawn & ((1u << lane) - 1));
    if (count != 0 && at < room) {
        entries[begin + at] = {row, count};
    }
}

namespace {

// Searches a node and, where its rows are few, divides them. `sums`: of nodes with many rows, the sums of the first
// features drawn, [node][feature][bin], behind them whether their targets differ; and then the rows are left to others.
template <bool NUMBERS>
__device__ void grow(const Fit& fit, const uint32_t* list, const Entry* from, Entry* to, const long2* sums, const uint32_t* mixed) {
    // Bins and draws; what the warps find.
    const uint32_t pass = min(PASS, fit.drawn);
    Bins<NUMBERS> bins(shared, pass);
    uint16_t *places = reinterpret_cast<uint16_t*>(bins.counts + pass * BINS), *values = places + fit.features;
    __shared__ uint32_t features[PASS];
    __shared__ Best found[PASS];
    __shared__ Best best;
    __shared__ uint32_t best_feature, count, more, is_split;
    __shared__ unsigned long long lefts, rights;
    const uint32_t warp = threadIdx.x / LANES, warps = blockDim.x / LANES, lane = threadIdx.x % LANES;
    Node& node = fit.nodes[list[blockIdx.x]];
    const uint64_t begin = node.begin, end = begin + node.rows, key = node.key;
    const Sums total = node.total;
    const bool large = sums != nullptr;
    Draws draws{places, values, 0};
    if (NUMBERS) {
        bool differ = large ? mixed[blockIdx.x] != 0 : levels_differ(fit, from, begin, begin, end);
        if (__syncthreads_or(differ) == 0) {
            return;
        }
    }
    if (threadIdx.x == 0) {
        best.order = NONE;
        best.varies = 0;
        more = 1;
    }
    // Up to PASS features at a time: those to be drawn, then one by one while all were constant.
    for (uint32_t done = 0;;) {
        __syncthreads();
        if (more == 0) {
            break;
        }
        if (threadIdx.x == 0) {
            count = done < fit.drawn ? min(PASS, fit.drawn - done) : 1;
            for (uint32_t i = 0; i < count; i++) {
                features[i] = draws.next(key, fit.features);
            }
        }
        __syncthreads();
        bool summed = large && done < fit.drawn;
        if (!summed) {
            bins.clear(count);
            __syncthreads();
            bins.add(fit, from, begin, end, features, count);
            __syncthreads();
        }
        for (uint32_t f = warp; f < count; f += warps) {
            Best result;
            if (summed) {
                const long2* at = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done + f) * BINS;
                result = search(fit, features[f], total, [&](uint32_t code) {
                    return Sums{at[code].x, static_cast<uint64_t>(at[code].y)};
                });
            } else {
                result = search(fit, features[f], total, [&](uint32_t code) { return bins.at(f * BINS + code); });
            }
            if (lane == 0) {
                found[f] = result;
            }
        }
        __syncthreads();
        done += count;
        if (threadIdx.x == 0) {
            uint32_t varies = best.varies;
            for (uint32_t f = 0; f < count; f++) {
                const Best& other = found[f];
                varies |= other.varies;
                if (other.order != NONE && (best.order == NONE || other.score > best.score)) {
                    best = other;
                    best_feature = features[f];
                }
            }
            best.varies = varies;
            more = done < fit.features && (done < fit.drawn || varies == 0);
        }
    }
    if (threadIdx.x == 0) {
        lefts = 0;
        rights = 0;
        is_split = 0;
        if (best.order != NONE) {
            double n = static_cast<double>(total.count);
            double gain = best.score / n * fit.unit / static_cast<double>(fit.tree_counts[node.tree]);
            if (gain >= fit.min_gain) {
                is_split = 1;
                node.score = best.score;
                node.feature = best_feature;
                node.left_code = best.left_code;
                node.right_code = best.right_code;
                node.left = best.left;
                node.missing_left = best.missing_left == 2 ? best.left.count * 2 >= total.count : best.missing_left;
            }
        }
    }
    __syncthreads();
    if (is_split == 0 || large) {
        return;
    }
    for (uint64_t i = begin; i < end; i += blockDim.x) {
        uint64_t at = i + threadIdx.x;
        bool is = at < end;
        Entry entry = is ? from[at] : Entry{0, 0};
        bool right = is && goes_right(fit, node, entry.row), left = is && !right;
        uint32_t of_left = __ballot_sync(0xffffffff, left), of_right = __ballot_sync(0xffffffff, right);
        unsigned long long first = 0, last = 0;
        if (lane == 0) {
            first = atomicAdd(&lefts, static_cast<unsigned long long>(__popc(of_left)));
            last = atomicAdd(&rights, static_cast<unsigned long long>(__popc(of_right)));
        }
        first = __shfl_sync(0xffffffff, first, 0);
        last = __shfl_sync(0xffffffff, last, 0);
        uint32_t lower = (1u << lane) - 1;
        if (left) {
            to[begin + first + __popc(of_left & lower)] = entry;
        }
        if (right) {
            to[end - 1 - last - __popc(of_right & lower)] = entry;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        add_children(fit, node, lefts);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) forest_grow_classes(
    Fit fit, const uint32_t* list, const Entry* from, Entry* to, const long2* sums, const uint32_t* mixed) {
    grow<false>(fit, list, from, to, sums, mixed);
}

extern "C" __global__ void __launch_bounds__(256) forest_grow_numbers(
    Fit fit, const uint32_t* list, const Entry* from, Entry* to, const long2* sums, const uint32_t* mixed) {
    grow<true>(fit, list, from, to, sums, mixed);
}

namespace {

// The sums of nodes with many rows, and whether their targets differ: blocks (node, share of its tiles).
template <bool NUMBERS>
__device__ void sum_large(const Fit& fit, const uint32_t* list, const Entry* from, unsigned long long* sums, uint32_t* mixed) {
    const uint32_t pass = min(PASS, fit.drawn);
    Bins<NUMBERS> bins(shared, pass);
    uint16_t *places = reinterpret_cast<uint16_t*>(bins.counts + pass * BINS), *values = places + fit.features;
    __shared__ uint32_t features[PASS];
    const Node& node = fit.nodes[list[blockIdx.x]];
    const uint64_t tiles = (node.rows + TILE - 1) / TILE;
    if (blockIdx.y >= tiles) {
        return;
    }
    Draws draws{places, values, 0};
    for (uint32_t done = 0; done < fit.drawn; done += PASS) {
        const uint32_t count = min(PASS, fit.drawn - done);
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t i = 0; i < count; i++) {
                features[i] = draws.next(node.key, fit.features);
            }
        }
        bins.clear(count);
        __syncthreads();
        for (uint64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
            uint64_t begin = node.begin + tile * TILE, end = min(begin + TILE, node.begin + node.rows);
            bins.add(fit, from, begin, end, features, count);
            if (NUMBERS && done == 0 && levels_differ(fit, from, node.begin, begin, end)) {
                mixed[blockIdx.x] = 1;
            }
        }
        __syncthreads();
        unsigned long long* out = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done) * BINS * 2;
        for (uint32_t i = threadIdx.x; i < count * BINS; i += blockDim.x) {
            if (bins.counts[i] != 0) {
                atomicAdd(out + 2 * i, static_cast<unsigned long long>(bins.sums[i]));
                atomicAdd(out + 2 * i + 1, static_cast<unsigned long long>(bins.counts[i]));
            }
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512) forest_sum_classes(
    Fit fit, const uint32_t* list, const Entry* from, unsigned long long* sums, uint32_t* mixed) {
    sum_large<false>(fit, list, from, sums, mixed);
}

extern "C" __global__ void __launch_bounds__(512) forest_sum_numbers(
    Fit fit, const uint32_t* list, const Entry* from, unsigned long long* sums, uint32_t* mixed) {
    sum_large<true>(fit, list, from, sums, mixed);
}

// Divides nodes with many rows: blocks (node, share of its tiles). `tally`: of each node the rows that went left, and those
// that went right; zero before.
extern "C" __global__ void __launch_bounds__(256) forest_divide_large(
    Fit fit, const uint32_t* list, const Entry* from, Entry* to, unsigned long long* tally) {
    __shared__ uint32_t lefts[8], rights[8];
    __shared__ unsigned long long first_left, first_right;
    const Node& node = fit.nodes[list[blockIdx.x]];
    if (node.feature == NONE) {
        return;
    }
    unsigned long long* own = tally + blockIdx.x * 2;
    const uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, lower = (1u << lane) - 1;
    const uint64_t end = node.begin + node.rows, step = static_cast<uint64_t>(gridDim.y) * blockDim.x;
    for (uint64_t i = node.begin + blockIdx.y * static_cast<uint64_t>(blockDim.x); i < end; i += step) {
        uint64_t at = i + threadIdx.x;
        bool is = at < end;
        Entry entry = is ? from[at] : Entry{0, 0};
        bool right = is && goes_right(fit, node, entry.row), left = is && !right;
        uint32_t of_left = __ballot_sync(0xffffffff, left), of_right = __ballot_sync(0xffffffff, right);
        if (lane == 0) {
            lefts[warp] = __popc(of_left);
            rights[warp] = __popc(of_right);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t l = 0, r = 0;
            for (uint32_t w = 0; w < blockDim.x / LANES; w++) {
                uint32_t more_left = lefts[w], more_right = rights[w];
                lefts[w] = l;
                rights[w] = r;
                l += more_left;
                r += more_right;
            }
            first_left = atomicAdd(own, static_cast<unsigned long long>(l));
            first_right = atomicAdd(own + 1, static_cast<unsigned long long>(r));
        }
        __syncthreads();
        if (left) {
            to[node.begin + first_left + lefts[warp] + __popc(of_left & lower)] = entry;
        }
        if (right) {
            to[end - 1 - first_right - rights[warp] - __popc(of_right & lower)] = entry;
        }
        __syncthreads();
    }
}

// The children of nodes with many rows.
extern "C" __global__ void forest_children_large(Fit fit, const uint32_t* list, uint32_t count, const unsigned long long* tally) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && fit.nodes[list[i]].feature != NONE) {
        add_children(fit, fit.nodes[list[i]], tally[i * 2]);
    }
}
