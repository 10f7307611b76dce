// Computes the statistics of categories that trees split on: sums before each row, and their codes (src/core/encoding/ctr.rs).

#include "../columns/target_encode/statistic.cuh"
#include "../runtime/for_each.cuh"

using namespace taiga;

// The category of each of the rows of an order.
extern "C" __global__ void gather_codes(uint64_t n, const uint32_t* codes, const uint32_t* order, uint32_t* keys) {
    FOR_EACH(i, n) keys[i] = codes[order[i]];
}

// Rows that are not in the order have all rows of their category before them.
extern "C" __global__ void fill_others(uint64_t n, const uint32_t* codes, const Whole::Sum* sums, uint32_t* rows_before,
                                       uint64_t* target_before) {
    FOR_EACH(row, n) {
        if (rows_before[row] == 0xffffffffu) {
            rows_before[row] = static_cast<uint32_t>(sums[codes[row]].rows);
            target_before[row] = static_cast<uint64_t>(sums[codes[row]].target);
        }
    }
}

// rows_of[row] = the rows of the row's category.
extern "C" __global__ void rows_of_category(uint64_t n, const uint32_t* codes, const Whole::Sum* sums, uint32_t* rows_of) {
    FOR_EACH(row, n) rows_of[row] = static_cast<uint32_t>(sums[codes[row]].rows);
}

// most = the rows of the largest category; 0 before.
extern "C" __global__ void most_rows(uint64_t categories, const Whole::Sum* sums, uint32_t* most) {
    uint32_t own = 0;
    FOR_EACH(category, categories) {
        const uint32_t rows = static_cast<uint32_t>(sums[category].rows);
        own = rows > own ? rows : own;
    }
    if (own > 0) atomicMax(most, own);
}

// The sums at some rows.
extern "C" __global__ void gather_sums(uint64_t n, const uint32_t* rows, const uint32_t* rows_before,
                                       const uint64_t* target_before, uint32_t* n_out, uint64_t* s_out) {
    FOR_EACH(i, n) {
        n_out[i] = rows_before[rows[i]];
        s_out[i] = target_before != nullptr ? target_before[rows[i]] : 0;
    }
}

// codes[row * stride] = the borders below (s * unit + prior) / (n + 1), or for counters below (n + prior) / (most + 1);
// multiplied out, as on the CPU.
extern "C" __global__ void ctr_codes(uint64_t n, const uint32_t* rows_before, const uint64_t* target_before, double unit,
                                     double prior, uint32_t counter, uint32_t most, const double* borders, uint32_t count,
                                     uint8_t* codes, uint64_t first, uint64_t stride) {
    FOR_EACH(row, n) {
        double numerator, denominator;
        if (counter) {
            numerator = static_cast<double>(rows_before[row]) + prior;
            denominator = static_cast<double>(most) + 1.0;
        } else {
            numerator = static_cast<double>(target_before[row]) * unit + prior;
            denominator = static_cast<double>(rows_before[row]) + 1.0;
        }
        uint32_t below = 0;
        for (uint32_t b = 0; b < count; b++) below += numerator > borders[b] * denominator;
        codes[first + row * stride] = static_cast<uint8_t>(below);
    }
}
