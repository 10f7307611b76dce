// Runs the program of a loss of one's own on a row. Twin of src/core/symbolic/run.rs, whose instructions src/core/symbolic/program.rs lists.

#pragma once

#include "loss.cuh"

namespace taiga {

// The most registers of a program: MOST_REGISTERS in program.rs.
constexpr uint32_t PROGRAM_REGISTERS = 128;

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
    uint32_t gradient, hessian, unused;
};

// The operands of a row.
struct ProgramRow {
    const LossProgram& program;
    uint64_t rows, row;
    float target, score;
    float registers[PROGRAM_REGISTERS];

    __device__ __forceinline__ float read(uint32_t operand) const {
        const uint32_t place = operand & 0x3fffu;
        switch (operand >> 14) {
            case 0: return registers[place];
            case 1: return place == 0 ? target : place == 1 ? score : program.columns[(place - 2) * rows + row];
            default: return program.constants[place];
        }
    }
};

__device__ __forceinline__ float truth(bool holds) {
    return holds ? 1.0f : 0.0f;
}

__device__ __forceinline__ float apply(uint32_t op, float a, float b, float c) {
    switch (op) {
        case OP_ADD: return a + b;
        case OP_SUBTRACT: return a - b;
        case OP_MULTIPLY: return a * b;
        case OP_DIVIDE: return a / b;
        case OP_MINIMUM: return b < a ? b : a;
        case OP_MAXIMUM: return b > a ? b : a;
        case OP_LESS: return truth(a < b);
        case OP_LESS_EQUAL: return truth(a <= b);
        case OP_EQUAL: return truth(a == b);
        case OP_AND: return truth(a != 0.0f && b != 0.0f);
        case OP_OR: return truth(a != 0.0f || b != 0.0f);
        case OP_NOT: return truth(a == 0.0f);
        case OP_SELECT: return a != 0.0f ? b : c;
        case OP_NEGATIVE: return -a;
        case OP_ABS: return fabsf(a);
        case OP_SIGN: return truth(a > 0.0f) - truth(a < 0.0f);
        case OP_SQRT: return __fsqrt_rn(a);
        case OP_EXP: return exp32(a);
        case OP_LN: return ln(a);
        case OP_SIGMOID: return sigmoid(a);
        default: return tanh32(a);
    }
}

// A derivative, or the one value that stands for all that are not finite.
__device__ __forceinline__ float number_or_nan(float x) {
    return fabsf(x) <= LARGEST ? x : __uint_as_float(0x7fc00000u);
}

// Derivatives of a row of weight 1.
__device__ __forceinline__ Derivatives run_program(const LossProgram& program, uint64_t rows, uint64_t row, float target, float score) {
    ProgramRow r = {program, rows, row, target, score, {}};
    for (uint32_t i = 0; i < program.count; i++) {
        const uint2 words = program.instructions[i];
        const float a = r.read(words.x >> 16), b = r.read(words.y & 0xffffu), c = r.read(words.y >> 16);
        r.registers[words.x >> 8 & 255u] = apply(words.x & 255u, a, b, c);
    }
    return {number_or_nan(r.read(program.gradient)), number_or_nan(at_least(r.read(program.hessian), SMALLEST_HESSIAN))};
}

}  // namespace taiga
