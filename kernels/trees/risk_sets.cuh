// Derivatives of Cox's partial likelihood, for all rows before a tree. Twin of src/core/losses/risk_sets.rs, where the formulas and their
// sources are told; sums are added in the same order.
//
//   tree_risk_add ─► tree_risk_carry ─► tree_risk_complete ─► tree_risk_hazards ─► tree_risk_hazard_carry ─► tree_risk_finish

#pragma once

#include "layouts.cuh"

namespace taiga {

// Rows of one time in a stratum: places `start .. end`, those that died first.
struct RiskTie {  // shared with the host
    double weight;  // the mean of those that died
    uint32_t start, died, end;
    uint32_t first, last;  // where its stratum starts and ends
    uint32_t block;        // the one of its start
};

// A place is a row's index among all rows by stratum and time.
struct RiskRows {  // shared with the host
    uint64_t rows, places;   // all, and those that are at risk
    uint32_t blocks, strata;
    const uint32_t* row;     // [place]
    const float* weight;     // [place], or none
    const RiskTie* ties;
    const uint32_t* tie;     // [place]
    const uint32_t* starts;  // [block], and the end of the last one
    const uint32_t* stratum; // [stratum] its first block, and the end of the last one's
    const float* scores;     // [row]
    float* risk;             // [place] exp(score)
    double* at_risk;         // [place]
    double* carry;           // [block]
    double* hazard;          // [tie][4]
    double* hazard_carry;    // [block][4]
    float* gradient;         // [row]
    float* hessian;
    float middle;
    uint32_t unused;
};

struct RiskSums {
    double a, b, c, d;
};

__device__ __forceinline__ RiskSums operator+(RiskSums x, RiskSums y) {
    return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}

__device__ __forceinline__ RiskSums of_lane(RiskSums x, int lane) {
    return {__shfl_sync(~0u, x.a, lane), __shfl_sync(~0u, x.b, lane), __shfl_sync(~0u, x.c, lane), __shfl_sync(~0u, x.d, lane)};
}

__device__ __forceinline__ RiskSums read_sums(const double* at) {
    return {at[0], at[1], at[2], at[3]};
}

__device__ __forceinline__ void write_sums(double* at, RiskSums x) {
    at[0] = x.a;
    at[1] = x.b;
    at[2] = x.c;
    at[3] = x.d;
}

__device__ __forceinline__ double risk_weight(const RiskRows& r, uint64_t place) {
    return r.weight ? static_cast<double>(r.weight[place]) : 1.0;
}

// The warp of a launch of 256 threads a block, and how many there are.
__device__ __forceinline__ uint32_t warp_of_grid() {
    return blockIdx.x * 8 + threadIdx.x / 32;
}

// Adds weight · exp(score) up inside blocks: a warp a block, 32 places at a time, one after the other.
extern "C" __global__ void __launch_bounds__(256) tree_risk_add(const __grid_constant__ RiskRows r) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t block = warp_of_grid(); block < r.blocks; block += gridDim.x * 8) {
        const uint32_t end = r.starts[block + 1];
        double total = 0.0;
        for (uint32_t from = r.starts[block]; from < end; from += 32) {
            const uint32_t place = from + lane;
            double own = 0.0;
            if (place < end) {
                const float risk = exp32(clamp(r.scores[r.row[place]] - r.middle, -80.0f, 80.0f));
                r.risk[place] = risk;
                own = risk_weight(r, place) * static_cast<double>(risk);
            }
            const int count = static_cast<int>(end - from < 32 ? end - from : 32);
            double up_to = 0.0;
            for (int i = 0; i < count; i++) {
                total = total + __shfl_sync(~0u, own, i);
                up_to = static_cast<int>(lane) == i ? total : up_to;
            }
            if (place < end) r.at_risk[place] = up_to;
        }
    }
}

// What stands before each block of its stratum: a warp a stratum.
extern "C" __global__ void __launch_bounds__(256) tree_risk_carry(const __grid_constant__ RiskRows r) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t stratum = warp_of_grid(); stratum < r.strata; stratum += gridDim.x * 8) {
        const uint32_t end = r.stratum[stratum + 1];
        double total = 0.0;
        for (uint32_t from = r.stratum[stratum]; from < end; from += 32) {
            const uint32_t block = from + lane;
            const double own = block < end ? r.at_risk[r.starts[block + 1] - 1] : 0.0;
            const int count = static_cast<int>(end - from < 32 ? end - from : 32);
            double before = 0.0;
            for (int i = 0; i < count; i++) {
                before = static_cast<int>(lane) == i ? total : before;
                total = total + __shfl_sync(~0u, own, i);
            }
            if (block < end) r.carry[block] = before;
        }
    }
}

// Adds what stands before a block to its sums.
extern "C" __global__ void __launch_bounds__(256) tree_risk_complete(const __grid_constant__ RiskRows r) {
    for (uint32_t block = warp_of_grid(); block < r.blocks; block += gridDim.x * 8) {
        const uint32_t end = r.starts[block + 1];
        const double carry = r.carry[block];
        for (uint32_t place = r.starts[block] + threadIdx.x % 32; place < end; place += 32) r.at_risk[place] = r.at_risk[place] + carry;
    }
}

// What the death at a place adds to the hazard.
__device__ __forceinline__ RiskSums risk_term(const RiskRows& r, const RiskTie& tie, uint32_t place) {
    const double before = tie.start > tie.first ? r.at_risk[tie.start - 1] : 0.0;
    const double all = r.at_risk[tie.end - 1];
    const double dying = r.at_risk[tie.died - 1] - before;
    const double share = static_cast<double>(place - tie.start) / static_cast<double>(tie.died - tie.start);
    const double left = all - share * dying;
    const double first = tie.weight / left;
    const double second = first / left;
    return {first, share * first, second, share * (2.0 - share) * second};
}

// Adds the terms of deaths up inside blocks, from the last place to the first, and notes the sums at the start of each tie and of
// each block.
extern "C" __global__ void __launch_bounds__(256) tree_risk_hazards(const __grid_constant__ RiskRows r) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t block = warp_of_grid(); block < r.blocks; block += gridDim.x * 8) {
        const uint32_t start = r.starts[block], end = r.starts[block + 1];
        RiskSums total = {0.0, 0.0, 0.0, 0.0};
        // Lane 0 has the last place.
        for (uint32_t to = end; to > start; to = to - start > 32 ? to - 32 : start) {
            const int count = static_cast<int>(to - start < 32 ? to - start : 32);
            const bool there = static_cast<int>(lane) < count;
            const uint32_t place = to - 1 - (there ? lane : 0);
            const uint32_t index = r.tie[place];
            const RiskTie tie = r.ties[index];
            const bool died = there && place < tie.died;
            RiskSums own = {0.0, 0.0, 0.0, 0.0};
            if (died) own = risk_term(r, tie, place);
            const uint32_t deaths = __ballot_sync(~0u, died);
            RiskSums up_to = total;
            for (int i = 0; i < count; i++) {
                // Who did not die adds nothing, not even a zero.
                if (deaths >> i & 1) total = total + of_lane(own, i);
                if (static_cast<int>(lane) == i) up_to = total;
            }
            if (there && place == tie.start) write_sums(r.hazard + 4ull * index, up_to);
        }
        if (lane == 0) write_sums(r.hazard_carry + 4ull * block, total);
    }
}

// What stands behind each block of its stratum, in place of the block's own: a warp a stratum.
extern "C" __global__ void __launch_bounds__(256) tree_risk_hazard_carry(const __grid_constant__ RiskRows r) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t stratum = warp_of_grid(); stratum < r.strata; stratum += gridDim.x * 8) {
        const uint32_t start = r.stratum[stratum], end = r.stratum[stratum + 1];
        RiskSums total = {0.0, 0.0, 0.0, 0.0};
        for (uint32_t to = end; to > start; to = to - start > 32 ? to - 32 : start) {
            const int count = static_cast<int>(to - start < 32 ? to - start : 32);
            const bool there = static_cast<int>(lane) < count;
            const uint32_t block = to - 1 - (there ? lane : 0);
            const RiskSums own = read_sums(r.hazard_carry + 4ull * block);
            RiskSums behind = total;
            for (int i = 0; i < count; i++) {
                if (static_cast<int>(lane) == i) behind = total;
                total = total + of_lane(own, i);
            }
            if (there) write_sums(r.hazard_carry + 4ull * block, behind);
        }
    }
}

// The hazard up to the time of a tie.
__device__ __forceinline__ RiskSums hazard_of(const RiskRows& r, uint32_t index) {
    return read_sums(r.hazard + 4ull * index) + read_sums(r.hazard_carry + 4ull * r.ties[index].block);
}

// Gradient and hessian of each row, times its weight.
extern "C" __global__ void __launch_bounds__(256) tree_risk_finish(const __grid_constant__ RiskRows r) {
    for (uint64_t place = blockIdx.x * 256ull + threadIdx.x; place < r.rows; place += gridDim.x * 256ull) {
        const uint32_t row = r.row[place];
        if (place >= r.places) {
            r.gradient[row] = 0.0f;
            r.hessian[row] = SMALLEST_HESSIAN;
            continue;
        }
        const uint32_t index = r.tie[place];
        const RiskTie tie = r.ties[index];
        const double weight = risk_weight(r, place);
        const double v = weight * static_cast<double>(r.risk[place]);
        const RiskSums hazard = hazard_of(r, index);
        double first = hazard.a, second = hazard.c;
        const bool died = place < tie.died;
        if (died && tie.died - tie.start > 1) {
            const RiskSums before = tie.end < tie.last ? hazard_of(r, index + 1) : RiskSums{0.0, 0.0, 0.0, 0.0};
            first = first - (hazard.b - before.b);
            second = second - (hazard.d - before.d);
        }
        const double expected = v * first;
        const double gradient = died ? expected - weight : expected;
        const double hessian = expected - v * v * second;
        r.gradient[row] = finite(static_cast<float>(gradient));
        r.hessian[row] = clamp(static_cast<float>(hessian), SMALLEST_HESSIAN, LARGEST);
    }
}

}  // namespace taiga
