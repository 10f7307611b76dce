// Draws the rows that a tree trains on. Twin of src/core/learners/boosting/row_sampler.rs.

#pragma once

#include "layouts.cuh"

namespace taiga {

// The ways to draw rows; those that look at derivatives order rows by a key.
enum : uint32_t { BERNOULLI, GOSS, MVS, BAYESIAN };

// The squares whose sum in float is right to its last digits.
constexpr float LEAST_SQUARES = 1e-37f, MOST_SQUARES = 3.40282347e+38f;

__device__ __forceinline__ float draw_key(uint32_t kind, float l2, Derivatives d) {
    if (kind != MVS) return fabsf(d.gradient);
    float squares = d.gradient * d.gradient + l2 * d.hessian * d.hessian;
    if (squares >= LEAST_SQUARES && squares <= MOST_SQUARES) return __fsqrt_rn(squares);
    // In double no square of a float overflows or vanishes.
    double gradient = d.gradient, hessian = d.hessian;
    double root = __dsqrt_rn(gradient * gradient + static_cast<double>(l2) * (hessian * hessian));
    double most = 3.4028234663852886e38;
    return static_cast<float>(root < most ? root : most);
}

constexpr uint32_t BUCKETS = 1u << 15;

__device__ __forceinline__ uint32_t draw_bucket(float key) {
    return (__float_as_uint(key) >> 16) & (BUCKETS - 1);
}

// Counts the training rows by their keys' upper halves.
extern "C" __global__ void __launch_bounds__(256)
    tree_keys(const __grid_constant__ LossRows r, const uint8_t* held_out, uint32_t kind, float l2, uint32_t* counts) {
    const float* scores = r.scores + r.output * r.rows;
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        if (held_out && held_out[row]) continue;
        uint32_t bucket = draw_bucket(draw_key(kind, l2, derive(r, row, scores[row], r.target[row])));
        // Rows that tie are counted together.
        unsigned active = __activemask(), same = __match_any_sync(active, bucket);
        if ((threadIdx.x & 31) == __ffs(same) - 1) atomicAdd(counts + bucket, __popc(same));
    }
}

// How the rows of a tree are drawn: `Draw` of row_sampler.rs.
struct RowDraw {  // shared with the host
    uint32_t kind, bucket;
    float l2;
    uint32_t unused;
    // Bernoulli: the probability; GOSS: of the bucket, and of the rest; MVS: the threshold; Bayesian: the temperature.
    double first, second;
};

// What each row counts in this tree.
extern "C" __global__ void __launch_bounds__(256)
    tree_draw(const __grid_constant__ LossRows r, const uint8_t* held_out, const __grid_constant__ RowDraw draw, uint64_t seed, uint64_t tree, float* bag) {
    const Random random(seed, 3, tree);
    const float* scores = r.scores + r.output * r.rows;
    for (uint64_t row = blockIdx.x * 256ull + threadIdx.x; row < r.rows; row += gridDim.x * 256ull) {
        float counts = 0.0f;
        if (!(held_out && held_out[row])) {
            double u = random.unit(r.first + row);
            if (draw.kind == BERNOULLI) {
                counts = u < draw.first ? 1.0f : 0.0f;
            } else if (draw.kind == BAYESIAN) {
                // `bayesian_weight` of row_sampler.rs.
                counts = static_cast<float>(exp64(draw.first * ln64(-ln64(1.0 - u))));
            } else {
                double probability = 1.0;
                float key = draw_key(draw.kind, draw.l2, derive(r, row, scores[row], r.target[row]));
                bool certain;
                if (draw.kind == GOSS) {
                    uint32_t bucket = draw_bucket(key);
                    certain = bucket > draw.bucket;
                    probability = bucket == draw.bucket ? draw.first : draw.second;
                } else {
                    certain = static_cast<double>(key) >= draw.first;
                    probability = static_cast<double>(key) / draw.first;
                }
                counts = certain ? 1.0f : u < probability ? static_cast<float>(1.0 / probability) : 0.0f;
            }
        }
        bag[row] = counts;
    }
}

}  // namespace taiga
