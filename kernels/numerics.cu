// Every function of numerics.cuh over an array, for tests/numerics.rs. Any grid and block will do.

#include "numerics.cuh"

using namespace taiga;

// i runs over 0..n, dealt to the threads of the grid.
#define FOR_EACH(i, n)                                                                                                  \
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < (n);                            \
         i += gridDim.x * static_cast<uint64_t>(blockDim.x))

// out[i] = name(in[i])
#define MAP(name, In, Out)                                                                                              \
    extern "C" __global__ void map_##name(uint64_t n, const In* in, Out* out) {                                         \
        FOR_EACH(i, n) out[i] = name(in[i]);                                                                            \
    }

MAP(exp32, float, float)
MAP(ln, float, float)
MAP(sigmoid, float, float)
MAP(tanh32, float, float)
MAP(exp64, double, double)
MAP(ln64, double, double)
MAP(sigmoid64, double, double)
MAP(softplus64, double, double)
MAP(softplus_rest64, double, double)
MAP(round32, float, int32_t)
MAP(round64, double, int64_t)
MAP(dither, uint32_t, float)

extern "C" __global__ void sigmoid_pairs(uint64_t n, const float* in, float* low, float* high) {
    FOR_EACH(i, n) {
        Pair p = sigmoid_pair(in[i]);
        low[i] = p.low;
        high[i] = p.high;
    }
}

// scores[class][row], in place.
extern "C" __global__ void softmax64(uint64_t n, uint32_t classes, double* scores) {
    FOR_EACH(i, n) softmax_in_place(scores + i, classes, n);
}

extern "C" __global__ void random_u32(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, const uint64_t* index,
                                      uint32_t* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) out[i] = random.u32(static_cast<uint32_t>(index[i]));
}

extern "C" __global__ void random_u64(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, const uint64_t* index,
                                      uint64_t* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) out[i] = random.u64(index[i]);
}

extern "C" __global__ void random_unit(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, const uint64_t* index,
                                       double* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) out[i] = random.unit(index[i]);
}

extern "C" __global__ void packed_both(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, uint32_t first_row,
                                       const float* gradient, const float* hessian, float gradient_factor,
                                       float hessian_factor, uint32_t* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) {
        uint32_t row = first_row + static_cast<uint32_t>(i);
        out[i] = pack_both(gradient[i], hessian[i], gradient_factor, hessian_factor, random, row);
    }
}

extern "C" __global__ void packed_unit(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, uint32_t first_row,
                                       const float* gradient, const float* hessian, float factor, uint32_t* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) out[i] = pack_unit(gradient[i], hessian[i], factor, random, first_row + static_cast<uint32_t>(i));
}

extern "C" __global__ void packed_wide(uint64_t n, uint64_t seed, uint64_t purpose, uint64_t stream, uint32_t first_row,
                                       const float* values, double factor, uint32_t shift, uint32_t* out) {
    Random random(seed, purpose, stream);
    FOR_EACH(i, n) out[i] = pack_wide(values[i], factor, random, first_row + static_cast<uint32_t>(i), shift);
}

extern "C" __global__ void fixed(uint64_t n, const float* values, double factor, int64_t* out) {
    FOR_EACH(i, n) out[i] = to_fixed(values[i], factor);
}

// `weight` may be null.
template <typename L>
__device__ __forceinline__ void derivatives(const L& loss, uint64_t n, const float* scores, const float* target,
                                            const float* weight, float* gradient, float* hessian) {
    FOR_EACH(i, n) {
        Derivatives d = loss.at(scores[i], target[i]);
        if (weight != nullptr) d = weigh(d, weight[i]);
        gradient[i] = d.gradient;
        hessian[i] = d.hessian;
    }
}

// `a` and `b`: the loss's parameters, in the order of its struct.
#define LOSS(name, ...)                                                                                                 \
    extern "C" __global__ void loss_##name(uint64_t n, const float* scores, const float* target, const float* weight,   \
                                           [[maybe_unused]] float a, [[maybe_unused]] float b, float* gradient,         \
                                           float* hessian) {                                                            \
        derivatives(__VA_ARGS__, n, scores, target, weight, gradient, hessian);                                         \
    }

#define LOSS_OF_SCORES(name, ...)
#define LOSS_FOUND_BEFORE(name)
#include "numerics/losses.def"

// scores[output][row]
extern "C" __global__ void loss_gaussian(uint64_t n, const float* scores, const float* target, const float* weight,
                                         uint32_t output, float* gradient, float* hessian) {
    Gaussian loss;
    FOR_EACH(i, n) {
        Derivatives d = loss.at(scores + i, n, output, target[i]);
        if (weight != nullptr) d = weigh(d, weight[i]);
        gradient[i] = d.gradient;
        hessian[i] = d.hessian;
    }
}

// scores[class][row]
extern "C" __global__ void loss_multiclass(uint64_t n, const float* scores, const float* target, const float* weight,
                                           uint32_t classes, uint32_t output, float factor, float* gradient,
                                           float* hessian) {
    Multiclass loss{classes, factor};
    FOR_EACH(i, n) {
        Derivatives d = loss.at(scores + i, n, output, target[i]);
        if (weight != nullptr) d = weigh(d, weight[i]);
        gradient[i] = d.gradient;
        hessian[i] = d.hessian;
    }
}

// Of a loss of one's own, of weight 1. `columns`: [column][row]; of shared memory what `run_program` asks for
extern "C" __global__ void loss_program(uint64_t n, const float* scores, const float* target, const float* columns,
                                        const uint2* instructions, const float* constants, uint32_t count,
                                        uint32_t gradient_at, uint32_t hessian_at, uint32_t registers, float* gradient,
                                        float* hessian) {
    extern __shared__ uint4 memory[];
    const LossProgram program = {instructions, constants, columns, count, gradient_at, hessian_at, registers};
    run_program(program, n, target, scores, memory, [&](uint64_t i, Derivatives d) {
        gradient[i] = d.gradient;
        hessian[i] = d.hessian;
    });
}
