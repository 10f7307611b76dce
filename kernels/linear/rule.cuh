// Moves a coefficient by the rule of an optimizer.

#pragma once

#include <cstdint>

// How a coefficient moves: twin of `Rule` and `Cell` in src/core/learners/linear/rule.rs.
constexpr uint32_t ADAGRAD = 1, FTRL = 2;  // 0: stochastic gradient descent
constexpr double BETA = 1.0;

struct Cell {
    double c, n, z;
};

struct Rule {  // shared with the host as RuleParams
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
