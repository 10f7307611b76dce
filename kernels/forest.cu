// Random forests: the trees of src/engine/forest on the GPU, level by level, many trees at a time.
//
//   codes     [block of 32 features][row][32]     a row of a block is one 32-byte sector
//   entries   {row, packed counts}                the rows of each node next to one another, in one of two buffers; their
//                                                 order is no matter, as all sums are integers
//   nodes     all nodes of all trees, a level behind the other, in no order inside a level
//
// A node of few rows is searched and divided by one block; one of many rows by blocks that take tiles of its rows:
//
//   draw_large ─► sum_large ─► grow (searches) ─► divide_large ─► children_large
//
// Two classes, counted; see src/engine/backend/cuda/forest.rs for the host's side of the tables.

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

struct Node {
    uint64_t key;
    uint64_t begin, rows;
    // Rows drawn, and those of the second class, in 32 bits each; the tree's rows drawn.
    uint64_t total;
    double score;
    uint32_t tree, feature, left_code, right_code, missing_left, children;
};

struct Entry {
    uint32_t row, packed;
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
    const uint64_t* tree_totals;
    uint32_t features, drawn, few, many;
    uint32_t deeper;  // whether children may be split
    uint32_t unused;
};

__device__ __forceinline__ uint64_t expand(uint32_t packed) {
    return static_cast<uint64_t>(packed >> 16) << 32 | (packed & 0xffff);
}

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
    uint64_t left;
    uint32_t order, left_code, right_code, missing_left;  // 2: there is none missing
    uint32_t varies;
};

__device__ __forceinline__ double score_of(uint64_t left, uint64_t total) {
    double n = static_cast<double>(total >> 32), c = static_cast<double>(total & 0xffffffff);
    double nl = static_cast<double>(left >> 32), cl = static_cast<double>(left & 0xffffffff);
    double d = cl * n - c * nl;
    return 2.0 * (d * d) / (nl * (n - nl));
}

__device__ __forceinline__ void consider(
    Best& best, const Fit& fit, uint64_t left, uint64_t total, uint32_t order, uint32_t a, uint32_t b, uint32_t missing_left) {
    uint64_t count = left >> 32;
    if (fit.min_data > 1 && (count < fit.min_data || (total >> 32) - count < fit.min_data)) {
        return;
    }
    double score = score_of(left, total);
    if (best.order == NONE || score > best.score) {
        best = {score, left, order, a, b, missing_left, 0};
    }
}

// The best split by one feature, by a warp: `bin(code)` are the sums of a code.
template <class Bin>
__device__ Best search(const Fit& fit, uint32_t feature, uint64_t total, Bin bin) {
    const uint32_t lane = threadIdx.x % LANES, all = 0xffffffff;
    const uint32_t bins = fit.bins[feature], first = fit.first[feature];
    const uint64_t missing = first == 1 ? bin(0) : 0;
    Best best{0.0, 0, NONE, 0, 0, 0, 0};
    uint64_t carry = 0;
    uint32_t last = NONE, seen = 0;
    for (uint32_t from = 0; from < bins; from += LANES) {
        uint32_t code = from + lane;
        uint64_t own = code >= first && code < bins ? bin(code) : 0;
        uint64_t sum = own;
        for (uint32_t step = 1; step < LANES; step *= 2) {
            uint64_t other = __shfl_up_sync(all, sum, step);
            sum += lane >= step ? other : 0;
        }
        uint32_t present = __ballot_sync(all, own != 0);
        uint32_t below = present & ((1u << lane) - 1);
        uint64_t left = carry + sum - own;
        if (own != 0 && left != 0) {
            uint32_t before = below != 0 ? from + 31 - __clz(below) : last;
            if (missing != 0) {
                consider(best, fit, left + missing, total, code * 2, before, code, 1);
                consider(best, fit, left, total, code * 2 + 1, before, code, 0);
            } else {
                consider(best, fit, left, total, code * 2, before, code, 2);
            }
        }
        last = present != 0 ? from + 31 - __clz(present) : last;
        seen += __popc(present);
        carry += __shfl_sync(all, sum, LANES - 1);
    }
    if (missing != 0 && last != NONE && lane == 0) {
        consider(best, fit, carry, total, 2 * BINS, last, NONE, 0);
    }
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        Best other;
        other.score = __shfl_down_sync(all, best.score, step);
        other.left = __shfl_down_sync(all, best.left, step);
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
    best.varies = seen > 1 || (missing != 0 && seen > 0);
    return best;
}

// Adds the rows of a node (or of a tile of it) to the bins of some features in shared memory.
__device__ void sum_rows(
    const Fit& fit, const Entry* entries, uint64_t begin, uint64_t end, const uint32_t* features, uint32_t count, uint32_t* bins) {
    for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        Entry entry = entries[i];
        uint32_t n = entry.packed >> 16, ones = entry.packed & 0xffff;
        for (uint32_t f = 0; f < count; f++) {
            uint32_t* at = bins + (f * BINS + code_of(fit, features[f], entry.row)) * 2;
            atomicAdd(at, n);
            if (ones != 0) {
                atomicAdd(at + 1, ones);
            }
        }
    }
}

__device__ __forceinline__ bool goes_right(const Fit& fit, const Node& node, uint32_t row) {
    uint32_t shift = fit.first[node.feature] == 1 && node.missing_left == 0;
    return code_of(fit, node.feature, row) - shift > node.left_code - shift;
}

// Adds a child to the nodes, and to the list of its kind where it may be split.
__device__ void add_child(const Fit& fit, const Node& parent, uint32_t id, uint32_t side, uint64_t begin, uint64_t rows, uint64_t total) {
    uint64_t key = mix64(parent.key ^ ((side + 1ull) * 0xD1B54A32D192ED03ull));
    fit.nodes[id] = {key, begin, rows, total, 0.0, parent.tree, NONE, 0, 0, 0, NONE};
    uint64_t count = total >> 32, ones = total & 0xffffffff;
    if (fit.deeper == 0 || rows < 2 || count < 2 * fit.min_data || ones == 0 || ones == count) {
        return;
    }
    uint32_t list = rows <= fit.few ? 0 : rows <= fit.many ? 1 : 2;
    fit.lists[list][atomicAdd(fit.counts + list, 1)] = id;
}

__device__ void add_children(const Fit& fit, Node& node, uint64_t left_rows, uint64_t left_total) {
    uint32_t id = atomicAdd(fit.next_node, 2);
    node.children = id;
    add_child(fit, node, id, 0, node.begin, left_rows, left_total);
    add_child(fit, node, id + 1, 1, node.begin + left_rows, node.rows - left_rows, node.total - left_total);
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
// are, and the packed sums of all.
extern "C" __global__ void forest_entries(
    uint32_t rows,
    const uint32_t* counts,
    const uint32_t* classes,
    uint64_t begin,
    uint64_t room,
    Entry* entries,
    unsigned long long* tally) {
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % LANES;
    uint32_t count = row >= rows ? 0 : counts == nullptr ? 1 : min(counts[row], 0xffffu);
    uint32_t packed = count == 0 ? 0 : count << 16 | count * classes[row];
    uint32_t drawn = __ballot_sync(0xffffffff, count != 0);
    uint64_t sum = expand(packed);
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, step);
    }
    unsigned long long first = 0;
    if (lane == 0 && drawn != 0) {
        first = atomicAdd(tally, static_cast<unsigned long long>(__popc(drawn)));
        atomicAdd(tally + 1, static_cast<unsigned long long>(sum));
    }
    first = __shfl_sync(0xffffffff, first, 0);
    uint64_t at = first + __popc(drawn & ((1u << lane) - 1));
    if (count != 0 && at < room) {
        entries[begin + at] = {row, packed};
    }
}

// Searches a node and, where its rows are few, divides them. `sums`: of nodes with many rows, the sums of the first
// features drawn, [node][feature][bin], and then the rows are left to others. One block a node.
extern "C" __global__ void __launch_bounds__(256) forest_grow(
    Fit fit, const uint32_t* list, const Entry* from, Entry* to, const unsigned long long* sums) {
    // Draws and bins; what the warps find.
    uint16_t *places = reinterpret_cast<uint16_t*>(shared), *values = places + fit.features;
    uint32_t* bins = shared + fit.features;
    __shared__ uint32_t features[PASS];
    __shared__ Best found[PASS];
    __shared__ Best best;
    __shared__ uint32_t best_feature, count, more, is_split;
    __shared__ unsigned long long lefts, rights;
    const uint32_t warp = threadIdx.x / LANES, warps = blockDim.x / LANES, lane = threadIdx.x % LANES;
    Node& node = fit.nodes[list[blockIdx.x]];
    const uint64_t begin = node.begin, end = begin + node.rows, total = node.total, key = node.key;
    const bool large = sums != nullptr;
    Draws draws{places, values, 0};
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
            for (uint32_t i = threadIdx.x; i < count * BINS * 2; i += blockDim.x) {
                bins[i] = 0;
            }
            __syncthreads();
            sum_rows(fit, from, begin, end, features, count, bins);
            __syncthreads();
        }
        for (uint32_t f = warp; f < count; f += warps) {
            Best result;
            if (summed) {
                const unsigned long long* at = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done + f) * BINS;
                result = search(fit, features[f], total, [&](uint32_t code) { return static_cast<uint64_t>(at[code]); });
            } else {
                const uint32_t* at = bins + f * BINS * 2;
                result = search(fit, features[f], total, [&](uint32_t code) {
                    return static_cast<uint64_t>(at[code * 2]) << 32 | at[code * 2 + 1];
                });
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
            double n = static_cast<double>(total >> 32);
            double gain = best.score / n / static_cast<double>(fit.tree_totals[node.tree] >> 32);
            if (gain >= fit.min_gain) {
                is_split = 1;
                node.score = best.score;
                node.feature = best_feature;
                node.left_code = best.left_code;
                node.right_code = best.right_code;
                node.missing_left = best.missing_left == 2 ? (best.left >> 32) * 2 >= (total >> 32) : best.missing_left;
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
        add_children(fit, node, lefts, best.left);
    }
}

// The sums of nodes with many rows: blocks (node, share of its tiles).
extern "C" __global__ void __launch_bounds__(512) forest_sum_large(Fit fit, const uint32_t* list, const Entry* from, unsigned long long* sums) {
    uint16_t *places = reinterpret_cast<uint16_t*>(shared), *values = places + fit.features;
    uint32_t* bins = shared + fit.features;
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
        for (uint32_t i = threadIdx.x; i < count * BINS * 2; i += blockDim.x) {
            bins[i] = 0;
        }
        __syncthreads();
        for (uint64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
            uint64_t begin = node.begin + tile * TILE, end = min(begin + TILE, node.begin + node.rows);
            sum_rows(fit, from, begin, end, features, count, bins);
        }
        __syncthreads();
        unsigned long long* out = sums + (static_cast<uint64_t>(blockIdx.x) * fit.drawn + done) * BINS;
        for (uint32_t i = threadIdx.x; i < count * BINS; i += blockDim.x) {
            if (bins[i * 2] != 0) {
                atomicAdd(out + i, static_cast<unsigned long long>(bins[i * 2]) << 32 | bins[i * 2 + 1]);
            }
        }
    }
}

// Divides nodes with many rows: blocks (node, share of its tiles). `tally`: of each node the rows that went left, those
// that went right, and the packed sums of those on the left; zero before.
extern "C" __global__ void __launch_bounds__(256) forest_divide_large(
    Fit fit, const uint32_t* list, const Entry* from, Entry* to, unsigned long long* tally) {
    __shared__ uint32_t lefts[8], rights[8];
    __shared__ unsigned long long first_left, first_right, sum_left;
    const Node& node = fit.nodes[list[blockIdx.x]];
    if (node.feature == NONE) {
        return;
    }
    unsigned long long* own = tally + blockIdx.x * 3;
    const uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, lower = (1u << lane) - 1;
    const uint64_t end = node.begin + node.rows, step = static_cast<uint64_t>(gridDim.y) * blockDim.x;
    for (uint64_t i = node.begin + blockIdx.y * static_cast<uint64_t>(blockDim.x); i < end; i += step) {
        uint64_t at = i + threadIdx.x;
        bool is = at < end;
        Entry entry = is ? from[at] : Entry{0, 0};
        bool right = is && goes_right(fit, node, entry.row), left = is && !right;
        uint32_t of_left = __ballot_sync(0xffffffff, left), of_right = __ballot_sync(0xffffffff, right);
        uint64_t sum = left ? expand(entry.packed) : 0;
        for (uint32_t s = LANES / 2; s > 0; s /= 2) {
            sum += __shfl_down_sync(0xffffffff, sum, s);
        }
        if (threadIdx.x == 0) {
            sum_left = 0;
        }
        __syncthreads();
        if (lane == 0) {
            lefts[warp] = __popc(of_left);
            rights[warp] = __popc(of_right);
            atomicAdd(&sum_left, static_cast<unsigned long long>(sum));
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
            atomicAdd(own + 2, sum_left);
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
        add_children(fit, fit.nodes[list[i]], tally[i * 3], tally[i * 3 + 2]);
    }
}
