// Sparse logistic regression: passes over rows that are lists of features. Twin of src/engine/linear/passes.rs, where
// what a pass computes is told; launched by src/engine/backend/cuda/linear.rs.
//
//   linear_base, linear_scores_*, linear_cells_scores      scores
//   linear_residuals, linear_along, linear_advance         row by row
//   linear_round, linear_add_*, linear_cells_gradient      the gradient of sparse features, linear_columns of the others
//   linear_place, _bounds, _turns, _pack                   rows to cells, once
//   linear_batch_*                                         batches (src/engine/linear/batches.rs, rule.rs)

#include "numerics.cuh"

// Rows of a block of sums (numerics/reduce.rs), and of a tile of it.
constexpr uint32_t BLOCK = 4096, TILE = 1024;
// Threads of a block that works on cells; numbers that it keeps for a cell's side, of which the last four are of nobody.
constexpr uint32_t CELL_THREADS = 1024, SIDE = 16384;

// Rows of entries. Twin of `Lists` in backend/cuda/linear/lists.rs.
struct Lists {
    const uint32_t* starts;  // of each row, counted from the first one's; one more than rows
    const uint32_t* keys;
    const float* values;  // null: 1 each
    uint64_t first;       // the number of the first row
    uint32_t rows, outputs;
};

// Dense columns and what the rows are. Twin of `Rows` in backend/cuda/linear.rs.
struct Rows {
    const double* const* dense;
    const uint32_t* codes;
    const float* weight;  // null: 1 each
    uint64_t rows;
    uint32_t columns, outputs;
};

// The integers of a pass: `unit` is one over the unit of all features where they have none of their own.
struct Units {
    const double* inverse;
    double common;

    __device__ __forceinline__ double of(uint32_t feature) const { return inverse ? inverse[feature] : common; }
};

// `round64` of numerics/fixed.rs.
__device__ __forceinline__ int64_t round64(double x) {
    return static_cast<int64_t>(taiga::bits_of(x + 6755399441055744.0) - 0x4338000000000000ull);
}

__device__ __forceinline__ void add(int64_t* sum, int64_t q) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(q));
}

__device__ __forceinline__ uint64_t thread_number() { return blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; }

// The sum over the eight lanes of a row, as `lanes` in linear/vectors.rs adds them.
template <typename T>
__device__ __forceinline__ T over_lanes(T sum) {
    const uint32_t mask = 0xffu << (threadIdx.x & 24);
#pragma unroll
    for (int step = 1; step < 8; step <<= 1) sum += __shfl_xor_sync(mask, sum, step);
    return sum;
}

// SUMS sums of what `value(i, out)` gives for 0..n, as `lanes` adds them, to `out` by thread 0. All threads of the block.
template <int SUMS, typename Value>
__device__ void sum_lanes(uint32_t n, Value value, double* out) {
    __shared__ double tile[SUMS][TILE];
    double sum = 0.0;
    const uint32_t s = threadIdx.x / 8, lane = threadIdx.x % 8;
    for (uint32_t start = 0; start < n; start += TILE) {
        const uint32_t len = n - start < TILE ? n - start : TILE;
        for (uint32_t i = threadIdx.x; i < len; i += blockDim.x) {
            double found[SUMS];
            value(start + i, found);
#pragma unroll
            for (int k = 0; k < SUMS; k++) tile[k][i] = found[k];
        }
        __syncthreads();
        if (s < SUMS) {
#pragma unroll 8
            for (uint32_t i = lane; i < len; i += 8) sum += tile[s][i];
        }
        __syncthreads();
    }
    if (s < SUMS) {
        sum = over_lanes(sum);
        if (lane == 0) out[s] = sum;
    }
}

// out[row * outputs + k] = intercept + dense columns in their order. `tail`: coefficients of those columns, then intercepts.
extern "C" __global__ void __launch_bounds__(256) linear_base(Rows rows, const double* tail, double* out) {
    for (uint64_t at = thread_number(); at < rows.rows * rows.outputs; at += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint64_t row = at / rows.outputs, k = at % rows.outputs;
        double o = tail[rows.columns * static_cast<uint64_t>(rows.outputs) + k];
        for (uint32_t c = 0; c < rows.columns; c++) o += tail[c * static_cast<uint64_t>(rows.outputs) + k] * rows.dense[c][row];
        out[at] = o;
    }
}

// out += the row's entries. One output: eight lanes a row; more: a thread for each, entries in their order.
extern "C" __global__ void __launch_bounds__(256) linear_scores_wide(Lists lists, const double* vector, double* out) {
    const uint64_t thread = thread_number();
    const bool one = lists.outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / lists.outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.starts[row], end = lists.starts[row + 1];
    if (one) {
        double sum = 0.0;
        const uint32_t lane = threadIdx.x % 8;
        if (lists.values) {
#pragma unroll 4
            for (uint32_t e = begin + lane; e < end; e += 8) sum += vector[lists.keys[e]] * static_cast<double>(lists.values[e]);
        } else {
#pragma unroll 4
            for (uint32_t e = begin + lane; e < end; e += 8) sum += vector[lists.keys[e]];
        }
        sum = over_lanes(sum);
        if (lane == 0) out[lists.first + row] += sum;
        return;
    }
    const uint64_t k = thread % lists.outputs, at = (lists.first + row) * lists.outputs + k;
    double o = out[at];
    for (uint32_t e = begin; e < end; e++) {
        const double x = lists.values ? static_cast<double>(lists.values[e]) : 1.0;
        o += vector[lists.keys[e] * static_cast<uint64_t>(lists.outputs) + k] * x;
    }
    out[at] = o;
}

// The same from coefficients that are integers, `scale` times what they stand for.
extern "C" __global__ void __launch_bounds__(256)
    linear_scores_whole(Lists lists, const int32_t* vector, double scale, double* out) {
    const uint64_t thread = thread_number();
    const bool one = lists.outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / lists.outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.starts[row], end = lists.starts[row + 1];
    int64_t sum = 0;
    if (one) {
        const uint32_t lane = threadIdx.x % 8;
#pragma unroll 4
        for (uint32_t e = begin + lane; e < end; e += 8) sum += vector[lists.keys[e]];
        sum = over_lanes(sum);
        if (lane == 0 && sum != 0) out[lists.first + row] += static_cast<double>(sum) / scale;
        return;
    }
    const uint64_t k = thread % lists.outputs;
    for (uint32_t e = begin; e < end; e++) sum += vector[lists.keys[e] * static_cast<uint64_t>(lists.outputs) + k];
    if (sum != 0) out[(lists.first + row) * lists.outputs + k] += static_cast<double>(sum) / scale;
}

// Weighted residuals and losses of two classes or more; block sums of the losses, and the largest |residual| as bits.
extern "C" __global__ void __launch_bounds__(256)
    linear_residuals(Rows rows, const double* scores, double* out, double* losses, unsigned long long* largest) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = rows.outputs;
    double most = 0.0;
    auto row_of = [&](uint32_t i, double* loss) {
        const uint64_t row = first + i;
        const uint32_t code = rows.codes[row];
        const double* s = scores + row * outputs;
        double* o = out + row * outputs;
        if (outputs == 1) {
            const double side = code == 0 ? 1.0 : -1.0;
            const double z = s[0] * side;
            *loss = taiga::softplus64(z);
            o[0] = taiga::sigmoid64(z) * side;
        } else {
            double top = -taiga::INFINITE64, total = 0.0;
            for (uint32_t k = 0; k < outputs; k++) top = s[k] > top ? s[k] : top;
            for (uint32_t k = 0; k < outputs; k++) {
                const double e = taiga::exp64(s[k] - top);
                o[k] = e;
                total += e;
            }
            for (uint32_t k = 0; k < outputs; k++) o[k] = o[k] / total;
            *loss = taiga::ln64(total) + (top - s[code]);
            o[code] -= 1.0;
        }
        if (rows.weight) {
            const double w = rows.weight[row];
            *loss *= w;
            for (uint32_t k = 0; k < outputs; k++) o[k] *= w;
        }
        for (uint32_t k = 0; k < outputs; k++) {
            const double size = fabs(o[k]);
            if (size > most) most = size;
        }
    };
    sum_lanes<1>(n, row_of, losses + blockIdx.x);
    // Bits of floats that are not negative ascend as they do.
    unsigned long long bits = taiga::bits_of(most);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, bits, step);
        bits = other > bits ? other : bits;
    }
    if (threadIdx.x % 32 == 0 && bits > 0) atomicMax(largest, bits);
}

// Block sums of the first and the second derivative of the loss at scores + step * direction: out[block * 2], out[block * 2 + 1].
extern "C" __global__ void __launch_bounds__(256)
    linear_along(Rows rows, const double* scores, const double* direction, double step, double* out) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = rows.outputs;
    auto row_of = [&](uint32_t i, double* found) {
        const uint64_t row = first + i;
        const uint32_t code = rows.codes[row];
        const double *s = scores + row * outputs, *d = direction + row * outputs;
        if (outputs == 1) {
            const double side = code == 0 ? 1.0 : -1.0;
            const double p = taiga::sigmoid64((s[0] + step * d[0]) * side);
            found[0] = p * side * d[0];
            found[1] = p * (1.0 - p) * (d[0] * d[0]);
        } else {
            double top = -taiga::INFINITE64, total = 0.0, mean = 0.0, square = 0.0;
            for (uint32_t k = 0; k < outputs; k++) {
                const double at = s[k] + step * d[k];
                top = at > top ? at : top;
            }
            for (uint32_t k = 0; k < outputs; k++) total += taiga::exp64((s[k] + step * d[k]) - top);
            for (uint32_t k = 0; k < outputs; k++) {
                const double p = taiga::exp64((s[k] + step * d[k]) - top) / total;
                mean += p * d[k];
                square += p * (d[k] * d[k]);
            }
            found[0] = mean - d[code];
            found[1] = square - mean * mean;
        }
        if (rows.weight) {
            const double w = rows.weight[row];
            found[0] = w * found[0];
            found[1] = w * found[1];
        }
    };
    sum_lanes<2>(n, row_of, out + 2 * static_cast<uint64_t>(blockIdx.x));
}

// out = from + step * out.
extern "C" __global__ void __launch_bounds__(256) linear_advance(uint64_t n, const double* from, double step, double* out) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) out[i] = from[i] + step * out[i];
}

// Residuals, or weights (null: 1 each), as integers.
extern "C" __global__ void __launch_bounds__(256) linear_round(uint64_t n, const double* values, double scale, int32_t* out) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = static_cast<int32_t>(round64(values[i] * scale));
    }
}

extern "C" __global__ void __launch_bounds__(256) linear_round_weight(Rows rows, double scale, int32_t* out) {
    for (uint64_t i = thread_number(); i < rows.rows; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = static_cast<int32_t>(round64((rows.weight ? static_cast<double>(rows.weight[i]) : 1.0) * scale));
    }
}

// sums[feature * outputs + k] += residual * value in units, as integers. One output: eight lanes a row; more: a thread for each.
extern "C" __global__ void __launch_bounds__(256)
    linear_add_wide(Lists lists, const double* residuals, double scale, Units units, int64_t* sums) {
    const uint64_t thread = thread_number();
    const bool one = lists.outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / lists.outputs, k = one ? 0 : thread % lists.outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.starts[row], end = lists.starts[row + 1];
    const uint32_t lane = one ? threadIdx.x % 8 : 0, step = one ? 8 : 1;
    const double r = residuals[(lists.first + row) * lists.outputs + k] * scale;
    const int64_t q = round64(r);
    for (uint32_t e = begin + lane; e < end; e += step) {
        const uint32_t key = lists.keys[e];
        const int64_t x = lists.values ? round64(r * (static_cast<double>(lists.values[e]) * units.of(key))) : q;
        if (x != 0) add(sums + key * static_cast<uint64_t>(lists.outputs) + k, x);
    }
}

// sums[feature * outputs + k] += the row's integer.
extern "C" __global__ void __launch_bounds__(256) linear_add_whole(Lists lists, const int32_t* whole, int64_t* sums) {
    const uint64_t thread = thread_number();
    const bool one = lists.outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / lists.outputs, k = one ? 0 : thread % lists.outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.starts[row], end = lists.starts[row + 1];
    const uint32_t lane = one ? threadIdx.x % 8 : 0, step = one ? 8 : 1;
    const int64_t q = whole[(lists.first + row) * lists.outputs + k];
    if (q == 0) return;
#pragma unroll 4
    for (uint32_t e = begin + lane; e < end; e += step) add(sums + lists.keys[e] * static_cast<uint64_t>(lists.outputs) + k, q);
}

// sums[feature * outputs] += weight * (value in units)^2.
extern "C" __global__ void __launch_bounds__(256)
    linear_squares(Lists lists, const float* weight, double scale, Units units, int64_t* sums) {
    const uint64_t thread = thread_number(), row = thread / 8;
    if (row >= lists.rows) return;
    const double w = (weight ? static_cast<double>(weight[lists.first + row]) : 1.0) * scale;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double x = (lists.values ? static_cast<double>(lists.values[e]) : 1.0) * units.of(key);
        const int64_t q = round64(w * (x * x));
        if (q != 0) add(sums + key * static_cast<uint64_t>(lists.outputs), q);
    }
}

// Block sums of each dense column and of ones: of residuals (of each output), or of weights by squares where there are none.
// out[(block * (columns + 1) + column) * outputs + k]; a block of threads for each.
extern "C" __global__ void __launch_bounds__(256) linear_columns(Rows rows, const double* residuals, double* out) {
    const uint64_t first = blockIdx.x * static_cast<uint64_t>(BLOCK);
    const uint32_t n = rows.rows - first < BLOCK ? static_cast<uint32_t>(rows.rows - first) : BLOCK;
    const uint32_t outputs = residuals ? rows.outputs : 1, column = blockIdx.y, k = blockIdx.z;
    const double* values = column < rows.columns ? rows.dense[column] : nullptr;
    auto row_of = [&](uint32_t i, double* found) {
        const uint64_t row = first + i;
        if (residuals) {
            const double r = residuals[row * outputs + k];
            *found = values ? r * values[row] : r;
        } else {
            const double w = rows.weight ? static_cast<double>(rows.weight[row]) : 1.0;
            *found = values ? w * (values[row] * values[row]) : w;
        }
    };
    sum_lanes<1>(n, row_of, out + (blockIdx.x * static_cast<uint64_t>(rows.columns + 1) + column) * outputs + k);
}

// An entry that fills a cell up: zero to nobody.
constexpr uint32_t NOBODY = (SIDE - 1) * 4u << 16 | (SIDE - 1) * 4u;

// The bucket of each entry, and its place in the cell: row << 18 | feature << 2, the offsets of 4-byte numbers. A bucket is a
// cell (counted from the first row block of these rows), how far the feature's bank of shared memory is ahead of the row's, and
// the row's: cell << 10 | ahead << 5 | bank.
extern "C" __global__ void __launch_bounds__(256)
    linear_place(Lists lists, uint32_t tiles, uint32_t width, uint32_t height, uint32_t* buckets, uint32_t* places) {
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    const uint32_t block = static_cast<uint32_t>(row) / height, inside = static_cast<uint32_t>(row) % height;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e], tile = key / width, feature = key - tile * width;
        buckets[e] = (block * tiles + tile) << 10 | ((feature - inside) & 31) << 5 | (inside & 31);
        places[e] = inside << 18 | feature << 2;
    }
}

// starts[c] = how many of the n sorted buckets, shifted, are below c, for c up to `count`.
extern "C" __global__ void __launch_bounds__(256)
    linear_bounds(uint32_t n, const uint32_t* buckets, uint32_t shift, uint32_t count, uint32_t* starts) {
    for (uint64_t i = thread_number(); i <= n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint32_t from = i == 0 ? 0 : (buckets[i - 1] >> shift) + 1, to = i == n ? count : buckets[i] >> shift;
        for (uint32_t c = from; c <= to; c++) starts[c] = static_cast<uint32_t>(i);
    }
}

// What sorted entries are sorted by once more: cell, distance of banks, turn in the bucket, bank. So 32 entries that follow each other
// mostly have rows of 32 banks, and features too.
extern "C" __global__ void __launch_bounds__(256)
    linear_turns(uint32_t n, const uint32_t* buckets, const uint32_t* starts, uint32_t* turns) {
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint32_t bucket = buckets[i], before = static_cast<uint32_t>(i) - starts[bucket];
        turns[i] = bucket >> 5 << 13 | (before < 255 ? before : 255) << 5 | (bucket & 31);
    }
}

// Entries to their cells, which begin at `quads` fours, and are filled up to whole fours. A warp reads 32 fours at a time: the
// first of each are entries that follow each other, and so are the second, the third and the fourth.
extern "C" __global__ void __launch_bounds__(256)
    linear_pack(uint32_t n, const uint32_t* turns, const uint32_t* places, uint32_t count, const uint32_t* starts,
                const uint32_t* quads, uint32_t* entries) {
    auto put = [&](uint32_t c, uint32_t i, uint32_t place) {
        const uint32_t size = (quads[c + 1] - quads[c]) * 4, chunk = i / 128 * 128;
        const uint32_t lanes = (size - chunk < 128 ? size - chunk : 128) / 4, inside = i - chunk;
        entries[quads[c] * 4ull + chunk + inside % lanes * 4 + inside / lanes] = place;
    };
    for (uint64_t i = thread_number(); i < n; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        const uint32_t c = turns[i] >> 18;
        put(c, static_cast<uint32_t>(i) - starts[c], places[i]);
    }
    for (uint64_t c = thread_number(); c < count; c += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        for (uint32_t i = starts[c + 1] - starts[c]; i < (quads[c + 1] - quads[c]) * 4; i++) put(static_cast<uint32_t>(c), i, NOBODY);
    }
}

// Rows cut into blocks of `height`, features into tiles of `width`: cells of entries, block after block, inside a block tile
// after tile. Twin of `Grid` in backend/cuda/linear/cells.rs.
struct Cells {
    const uint4* entries;
    const uint32_t* quads;   // where each cell begins, in fours; one more than cells
    const uint32_t* ranges;  // of each block of threads: its cells, in the order that it takes them; one more than blocks
    uint32_t blocks, tiles, height, width;
};

// A 64-bit sum is two words of shared memory: an add to the high one only where the low one runs over, which begins in the
// middle of its range so that small sums seldom do.
constexpr uint32_t MIDDLE = 0x80000000u;

// Adds from[one side of an entry] to the sum of its other side. GRADIENT: from rows to features, a tile's blocks one after the
// other; else from features to rows, a block's tiles one after the other. A cell's numbers stand in shared memory, its sums too;
// the next cell's numbers and entries come to registers meanwhile. `flush(at, sum)` gets the sums when the other side is left.
template <bool GRADIENT, typename Flush>
__device__ __forceinline__ void work_cells(const Cells& cells, const int32_t* from, Flush flush) {
    extern __shared__ char memory[];
    constexpr uint32_t BYTES = SIDE * 4;
    uint32_t* const low = reinterpret_cast<uint32_t*>(memory);
    int32_t* const high = reinterpret_cast<int32_t*>(memory + BYTES);
    int32_t* const table = reinterpret_cast<int32_t*>(memory + 2 * BYTES);
    const uint32_t t = threadIdx.x;
    const uint32_t inner = GRADIENT ? cells.blocks : cells.tiles;  // cells in a line that share their sums
    const uint32_t numbers = (GRADIENT ? cells.height : cells.width) / 4, sums = GRADIENT ? cells.width : cells.height;
    uint32_t c = cells.ranges[blockIdx.x];
    const uint32_t last = cells.ranges[blockIdx.x + 1];
    if (c >= last) return;
    uint4 next[4];
    int4 number[4];
    // Of the cell whose entries are in `next`, and of the one behind it: an answer takes as long as a third of a cell.
    uint32_t begin, end, ahead_begin, ahead_end;
    auto look_ahead = [&](uint32_t cell) {
        if (cell >= last) return;
        const uint32_t id = GRADIENT ? cell % inner * cells.tiles + cell / inner : cell;
        ahead_begin = cells.quads[id];
        ahead_end = cells.quads[id + 1];
    };
    auto fetch_numbers = [&](uint32_t cell) {
        const int4* source = reinterpret_cast<const int4*>(from) + static_cast<uint64_t>(cell % inner) * numbers;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t p = k * CELL_THREADS + t;
            if (p < numbers) number[k] = source[p];
        }
    };
    auto fetch = [&](int k) {
        const uint32_t p = begin + k * CELL_THREADS + t;
        if (p < end) next[k] = __ldcs(cells.entries + p);
    };
    auto four = [&](const uint4& quad) {
        const uint32_t entry[4] = {quad.x, quad.y, quad.z, quad.w};
        int32_t q[4], over[4];
        uint32_t before[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t at = GRADIENT ? entry[j] >> 16 : entry[j] & 0xffff;
            q[j] = *reinterpret_cast<const int32_t*>(memory + 2 * BYTES + at);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t to = GRADIENT ? entry[j] & 0xffff : entry[j] >> 16;
            before[j] = atomicAdd(reinterpret_cast<uint32_t*>(memory + to), static_cast<uint32_t>(q[j]));
        }
#pragma unroll
        for (int j = 0; j < 4; j++) over[j] = (q[j] >> 31) + (before[j] + static_cast<uint32_t>(q[j]) < before[j] ? 1 : 0);
        if ((over[0] | over[1]) | (over[2] | over[3])) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t to = GRADIENT ? entry[j] & 0xffff : entry[j] >> 16;
                if (over[j]) atomicAdd(reinterpret_cast<int32_t*>(memory + BYTES + to), over[j]);
            }
        }
    };
    for (uint32_t i = t; i < SIDE; i += CELL_THREADS) low[i] = MIDDLE, high[i] = 0;
    if (t < 4) table[SIDE - 4 + t] = 0;
    look_ahead(c);
    begin = ahead_begin, end = ahead_end;
    look_ahead(c + 1);
    fetch_numbers(c);
#pragma unroll
    for (int k = 0; k < 4; k++) fetch(k);
    while (true) {
        const uint32_t a = begin, b = end, line = c / inner;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t p = k * CELL_THREADS + t;
            if (p < numbers) reinterpret_cast<int4*>(table)[p] = number[k];
        }
        __syncthreads();
        const bool more = ++c < last;
        if (more) {
            begin = ahead_begin, end = ahead_end;
            fetch_numbers(c);
            look_ahead(c + 1);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint4 quad = next[k];
            if (more) fetch(k);
            if (a + k * CELL_THREADS + t < b) four(quad);
        }
        // What a cell has beyond what the registers hold.
        for (uint32_t p = a + 4 * CELL_THREADS + t; p < b; p += CELL_THREADS) four(__ldcs(cells.entries + p));
        if (!more || c / inner != line) {
            __syncthreads();
            for (uint32_t i = t; i < sums; i += CELL_THREADS) {
                const int64_t sum = static_cast<int64_t>(low[i]) - MIDDLE + (static_cast<int64_t>(high[i]) << 32);
                low[i] = MIDDLE, high[i] = 0;
                if (sum != 0) flush(static_cast<uint64_t>(line) * sums + i, sum);
            }
        }
        if (!more) return;
    }
}

// out[row] += the row's entries, from coefficients that are integers. A block's rows are all of one block of threads.
extern "C" __global__ void __launch_bounds__(CELL_THREADS, 1)
    linear_cells_scores(Cells cells, const int32_t* vector, double scale, double* out) {
    work_cells<false>(cells, vector, [&](uint64_t row, int64_t sum) { out[row] += static_cast<double>(sum) / scale; });
}

// sums[feature] += the integers of its rows.
extern "C" __global__ void __launch_bounds__(CELL_THREADS, 1) linear_cells_gradient(Cells cells, const int32_t* whole, int64_t* sums) {
    work_cells<true>(cells, whole, [&](uint64_t feature, int64_t sum) { add(sums + feature, sum); });
}

// How a coefficient moves: twin of `Rule` and `Cell` in src/engine/linear/rule.rs.
constexpr uint32_t ADAGRAD = 1, FTRL = 2;  // 0: stochastic gradient descent
constexpr double BETA = 1.0;

struct Cell {
    double c, n, z;
};

struct Rule {
    uint64_t optimizer;
    double rate, l1, l2;

    __device__ __forceinline__ bool fades() const { return l1 > 0.0 || l2 > 0.0; }

    __device__ __forceinline__ double shrink(double c, double step, double rows) const {
        const double rest = fabs(c) - rows * step * l1;
        return rest > 0.0 ? (c < 0.0 ? -rest : rest) / (1.0 + rows * step * l2) : 0.0;
    }

    __device__ __forceinline__ double adaptive_rate(double n) const {
        if (optimizer != ADAGRAD) return rate;
        return n > 0.0 ? rate / sqrt(n) : 0.0;
    }

    __device__ __forceinline__ double value(const Cell& cell, double now) const {
        if (!fades()) return cell.c;
        if (optimizer == FTRL) {
            const double rest = fabs(cell.z) - now * l1;
            const double leader = (cell.z < 0.0 ? rest : -rest) / ((BETA + sqrt(cell.n)) / rate + now * l2);
            return rest > 0.0 ? leader : 0.0;
        }
        return cell.c == 0.0 ? 0.0 : shrink(cell.c, adaptive_rate(cell.n), now - cell.z);
    }

    __device__ __forceinline__ void step(Cell& cell, double g, double now, double rows) const {
        const double c = value(cell, now);
        if (optimizer == FTRL) {
            const double n = cell.n + g * g;
            const double sigma = (sqrt(n) - sqrt(cell.n)) / rate;
            cell = {0.0, n, cell.z + (g - sigma * c)};
            if (!fades()) cell.c = -cell.z / ((BETA + sqrt(n)) / rate);
            return;
        }
        cell.n += optimizer == ADAGRAD ? g * g : 0.0;
        const double own = adaptive_rate(cell.n);
        cell.c = shrink(c - own * g, own, rows);
        cell.z = now + rows;
    }
};

// A fit by batches. Twin of `Fit` in backend/cuda/linear/batches.rs. Rows stand in the order in which they are dealt.
struct Fit {
    Rows rows;
    Units units;
    Rule rule, free;        // of penalised coefficients, and of intercepts
    float* c;               // of sparse features, and what the rule remembers: n, and z or the step's number as bits
    uint2* state;
    int64_t* sums;
    Cell* others;           // of dense columns and intercepts
    double* residuals;      // of a batch
    double batch, mean_weight, scale;
    uint64_t cells, intercept;  // intercept: whether it moves
};

// `Cells` of batches.rs.
__device__ __forceinline__ Cell cell_of(const Fit& fit, uint64_t at) {
    const uint2 s = fit.state[at];
    const double z = fit.rule.optimizer == FTRL ? static_cast<double>(__uint_as_float(s.y)) : static_cast<double>(s.y) * fit.batch;
    return {static_cast<double>(fit.c[at]), static_cast<double>(__uint_as_float(s.x)), z};
}

__device__ __forceinline__ const Rule& rule_of(const Fit& fit, uint64_t other) {
    return other < fit.rows.columns * static_cast<uint64_t>(fit.rows.outputs) ? fit.rule : fit.free;
}

// A row's residuals from its scores, weighted and scaled.
__device__ __forceinline__ void finish_row(const Fit& fit, uint64_t row, double* o) {
    const uint32_t code = fit.rows.codes[row], outputs = fit.rows.outputs;
    if (outputs == 1) {
        const double side = code == 0 ? 1.0 : -1.0;
        o[0] = taiga::sigmoid64(o[0] * side) * side;
    } else {
        taiga::softmax_in_place(o, outputs, 1);
        o[code] -= 1.0;
    }
    const double weight = (fit.rows.weight ? static_cast<double>(fit.rows.weight[row]) : 1.0) / fit.mean_weight;
    for (uint32_t k = 0; k < outputs; k++) o[k] *= weight * fit.scale;
}

// Scores of a batch, and where there is one output the residuals. Eight lanes a row, or a thread for each output.
extern "C" __global__ void __launch_bounds__(256) linear_batch_scores(Fit fit, Lists lists, double now) {
    const uint64_t thread = thread_number();
    const uint32_t outputs = lists.outputs;
    const bool one = outputs == 1;
    const uint64_t row = one ? thread / 8 : thread / outputs, k = one ? 0 : thread % outputs;
    if (row >= lists.rows) return;
    const uint32_t begin = lists.keys ? lists.starts[row] : 0, end = lists.keys ? lists.starts[row + 1] : 0;
    double sum = 0.0;
    if (one) {
#pragma unroll 4
        for (uint32_t e = begin + threadIdx.x % 8; e < end; e += 8) {
            const double c = fit.rule.value(cell_of(fit, lists.keys[e]), now);
            sum += lists.values ? c * static_cast<double>(lists.values[e]) : c;
        }
        sum = over_lanes(sum);
        if (threadIdx.x % 8 != 0) return;
    }
    double o = fit.free.value(fit.others[fit.rows.columns * static_cast<uint64_t>(outputs) + k], now);
    for (uint32_t d = 0; d < fit.rows.columns; d++) {
        o += fit.rule.value(fit.others[d * static_cast<uint64_t>(outputs) + k], now) * fit.rows.dense[d][lists.first + row];
    }
    if (one) {
        if (lists.keys) o += sum;
        fit.residuals[row] = o;
        finish_row(fit, lists.first + row, fit.residuals + row);
        return;
    }
    for (uint32_t e = begin; e < end; e++) {
        const double x = lists.values ? static_cast<double>(lists.values[e]) : 1.0;
        o += fit.rule.value(cell_of(fit, lists.keys[e] * static_cast<uint64_t>(outputs) + k), now) * x;
    }
    fit.residuals[row * outputs + k] = o;
}

// Residuals of several outputs.
extern "C" __global__ void __launch_bounds__(256) linear_batch_residuals(Fit fit, Lists lists) {
    const uint64_t row = thread_number();
    if (row < lists.rows) finish_row(fit, lists.first + row, fit.residuals + row * lists.outputs);
}

// Sums of the batch's features.
extern "C" __global__ void __launch_bounds__(256) linear_batch_add(Fit fit, Lists lists) {
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double x = lists.values ? static_cast<double>(lists.values[e]) * fit.units.of(key) : 1.0;
        for (uint32_t k = 0; k < lists.outputs; k++) {
            const int64_t q = round64(fit.residuals[row * lists.outputs + k] * x);
            if (q != 0) add(fit.sums + key * static_cast<uint64_t>(lists.outputs) + k, q);
        }
    }
}

// Steps of the batch's features, the last block of threads those of dense columns and intercepts.
extern "C" __global__ void __launch_bounds__(256) linear_batch_step(Fit fit, Lists lists, double now) {
    const double rows = lists.rows;
    const uint32_t outputs = lists.outputs;
    if (blockIdx.x == gridDim.x - 1) {
        for (uint64_t i = threadIdx.x; i < (fit.rows.columns + 1ull) * outputs; i += blockDim.x) {
            const uint64_t column = i / outputs, k = i % outputs;
            if (column == fit.rows.columns && !fit.intercept) continue;
            const double* values = column < fit.rows.columns ? fit.rows.dense[column] + lists.first : nullptr;
            double g = 0.0;
#pragma unroll 16
            for (uint32_t row = 0; row < lists.rows; row++) {
                const double r = fit.residuals[static_cast<uint64_t>(row) * outputs + k];
                g += values ? r * values[row] : r;
            }
            Cell cell = fit.others[i];
            rule_of(fit, i).step(cell, g / fit.scale, now, rows);
            fit.others[i] = cell;
        }
        return;
    }
    const uint64_t row = thread_number() / 8;
    if (row >= lists.rows) return;
    for (uint32_t e = lists.starts[row] + threadIdx.x % 8; e < lists.starts[row + 1]; e += 8) {
        const uint32_t key = lists.keys[e];
        const double scale = fit.scale * fit.units.of(key);
        for (uint32_t k = 0; k < outputs; k++) {
            const uint64_t at = key * static_cast<uint64_t>(outputs) + k;
            // Of a feature that stands here more than once whoever comes first takes all.
            const int64_t sum = static_cast<int64_t>(atomicExch(reinterpret_cast<unsigned long long*>(fit.sums + at), 0ull));
            if (sum == 0) continue;
            Cell cell = cell_of(fit, at);
            fit.rule.step(cell, static_cast<double>(sum) / scale, now, rows);
            fit.c[at] = static_cast<float>(cell.c);
            const uint32_t z = fit.rule.optimizer == FTRL ? __float_as_uint(static_cast<float>(cell.z))
                                                          : static_cast<uint32_t>(cell.z / fit.batch);
            fit.state[at] = {__float_as_uint(static_cast<float>(cell.n)), z};
        }
    }
}

// Makes up all penalties at the end of an epoch.
extern "C" __global__ void __launch_bounds__(256) linear_batch_settle(Fit fit, double now) {
    const uint64_t others = (fit.rows.columns + 1ull) * fit.rows.outputs;
    for (uint64_t i = thread_number(); i < fit.cells + others; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        if (i < fit.cells) {
            const Cell cell = cell_of(fit, i);
            if (fit.rule.fades() && cell.c != 0.0) fit.c[i] = static_cast<float>(fit.rule.value(cell, now));
            fit.state[i].y = 0;
        } else {
            Cell cell = fit.others[i - fit.cells];
            cell.c = rule_of(fit, i - fit.cells).value(cell, now);
            cell.z = 0.0;
            fit.others[i - fit.cells] = cell;
        }
    }
}

// All coefficients at a time.
extern "C" __global__ void __launch_bounds__(256) linear_batch_vector(Fit fit, double now, double* out) {
    const uint64_t others = (fit.rows.columns + 1ull) * fit.rows.outputs;
    for (uint64_t i = thread_number(); i < fit.cells + others; i += gridDim.x * static_cast<uint64_t>(blockDim.x)) {
        out[i] = i < fit.cells ? fit.rule.value(cell_of(fit, i), now)
                               : rule_of(fit, i - fit.cells).value(fit.others[i - fit.cells], now);
    }
}
