// Runs the program of a loss of one's own. Twin of src/core/symbolic/run.rs, whose instructions src/core/symbolic/program.rs lists.

#pragma once

#include "loss.cuh"

namespace taiga {

// Op in program.rs.
enum : uint32_t {
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_MINIMUM,
    OP_MAXIMUM,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_EQUAL,
    OP_AND,
    OP_OR,
    OP_NOT,
    OP_SELECT,
    OP_NEGATIVE,
    OP_ABS,
    OP_SIGN,
    OP_SQRT,
    OP_EXP,
    OP_LN,
    OP_SIGMOID,
    OP_TANH
};

struct LossProgram {  // shared with the host
    // Two words each: operation, register and first operand; second and third. An operand is a kind in its two highest of 16 bits
    // and a place.
    const uint2* instructions;
    const float* constants;
    const float* columns;  // [column][row]
    uint32_t count;
    // Where the results are, as operands.
    uint32_t gradient, hessian;
    uint32_t registers;
};

// Rows that a thread takes at a time: an instruction is read and told apart once for all of them.
constexpr uint32_t PROGRAM_ROWS = 4;

struct alignas(16) RowValues {
    float at[PROGRAM_ROWS];
};

// The operands of a thread's rows, which are as far apart as the block has threads.
struct ProgramRows {
    const LossProgram& program;
    uint64_t rows, first;
    // This thread's part of the block's room: its registers, the target, the score.
    RowValues* room;

    __device__ __forceinline__ RowValues& at(uint32_t place) const { return room[place * blockDim.x]; }

    // Those of a column, or 0 behind its end.
    __device__ __forceinline__ RowValues load(const float* column) const {
        RowValues out;
#pragma unroll
        for (uint32_t k = 0; k < PROGRAM_ROWS; k++) {
            const uint64_t row = first + k * blockDim.x;
            out.at[k] = row < rows ? column[row] : 0.0f;
        }
        return out;
    }

    __device__ __forceinline__ RowValues read(uint32_t operand) const {
        const uint32_t place = operand & 0x3fffu;
        switch (operand >> 14) {
            case 0: return at(place);
            case 1: return place < 2 ? at(program.registers + place) : load(program.columns + (place - 2) * rows);
            default: {
                const float x = program.constants[place];
                return {{x, x, x, x}};
            }
        }
    }
};

__device__ __forceinline__ float truth(bool holds) {
    return holds ? 1.0f : 0.0f;
}

template <typename Function>
__device__ __forceinline__ RowValues of_each_row(Function function) {
    RowValues out;
#pragma unroll
    for (uint32_t k = 0; k < PROGRAM_ROWS; k++) out.at[k] = function(k);
    return out;
}

// What an instruction makes of the rows' operands.
__device__ __forceinline__ RowValues apply(const ProgramRows& r, uint2 words) {
    const RowValues x = r.read(words.x >> 16), y = r.read(words.y & 0xffffu);
#define EACH(...)                                 \
    return of_each_row([&](uint32_t k) {          \
        const float a = x.at[k];                  \
        [[maybe_unused]] const float b = y.at[k]; \
        return __VA_ARGS__;                       \
    })
    switch (words.x & 255u) {
        case OP_ADD: EACH(a + b);
        case OP_SUBTRACT: EACH(a - b);
        case OP_MULTIPLY: EACH(a * b);
        case OP_DIVIDE: EACH(a / b);
        case OP_MINIMUM: EACH(b < a ? b : a);
        case OP_MAXIMUM: EACH(b > a ? b : a);
        case OP_LESS: EACH(truth(a < b));
        case OP_LESS_EQUAL: EACH(truth(a <= b));
        case OP_EQUAL: EACH(truth(a == b));
        case OP_AND: EACH(truth(a != 0.0f && b != 0.0f));
        case OP_OR: EACH(truth(a != 0.0f || b != 0.0f));
        case OP_NOT: EACH(truth(a == 0.0f));
        case OP_SELECT: {
            const RowValues z = r.read(words.y >> 16);
            EACH(a != 0.0f ? b : z.at[k]);
        }
        case OP_NEGATIVE: EACH(-a);
        case OP_ABS: EACH(fabsf(a));
        case OP_SIGN: EACH(truth(a > 0.0f) - truth(a < 0.0f));
        case OP_SQRT: EACH(__fsqrt_rn(a));
        case OP_EXP: EACH(exp32(a));
        case OP_LN: EACH(ln(a));
        case OP_SIGMOID: EACH(sigmoid(a));
        default: EACH(tanh32(a));
    }
#undef EACH
}

// A derivative, or the one value that stands for all that are not finite.
__device__ __forceinline__ float number_or_nan(float x) {
    return fabsf(x) <= LARGEST ? x : __uint_as_float(0x7fc00000u);
}

// Finds the derivatives of all rows, of weight 1 each; `emit` takes a row and them. `room`: of a block's shared memory, registers and two
// more values of each thread. Behind the last instruction there is one that is read and not run.
template <typename Emit>
__device__ __forceinline__ void run_program(const LossProgram& program, uint64_t rows, const float* target, const float* scores, uint4* room, Emit emit) {
    const uint64_t taken = blockDim.x * static_cast<uint64_t>(PROGRAM_ROWS);
    for (uint64_t base = blockIdx.x * taken; base < rows; base += gridDim.x * taken) {
        const ProgramRows r = {program, rows, base + threadIdx.x, reinterpret_cast<RowValues*>(room) + threadIdx.x};
        r.at(program.registers) = r.load(target);
        r.at(program.registers + 1) = r.load(scores);
        uint2 next = program.instructions[0];
        for (uint32_t i = 0; i < program.count; i++) {
            const uint2 words = next;
            next = program.instructions[i + 1];
            r.at(words.x >> 8 & 255u) = apply(r, words);
        }
        const RowValues gradient = r.read(program.gradient), hessian = r.read(program.hessian);
#pragma unroll
        for (uint32_t k = 0; k < PROGRAM_ROWS; k++) {
            const uint64_t row = r.first + k * blockDim.x;
            if (row < rows) emit(row, Derivatives{number_or_nan(gradient.at[k]), number_or_nan(at_least(hessian.at[k], SMALLEST_HESSIAN))});
        }
    }
}

}  // namespace taiga
