// Numbers the distinct integers or texts of a column, nulls among them as one (src/cuda/columns/categories.rs).

#include "../numerics/random.cuh"
#include "../runtime/for_each.cuh"
#include "stats/values.cuh"

using namespace taiga;

// How far a value is above the least, both modulo 2^64.
template <typename T>
__device__ __forceinline__ uint64_t distance(T value, uint64_t least) {
    return static_cast<uint64_t>(value) - least;
}

// codes[row] = the value's distance from the least, `null` where there is no value.
template <typename T>
__device__ __forceinline__ void distances(const T* values, const uint32_t* validity, uint64_t rows, uint64_t least, uint32_t null,
                                          uint32_t* codes) {
    FOR_EACH(row, rows) {
        codes[row] = is_valid(validity, row) ? static_cast<uint32_t>(distance(values[row], least)) : null;
    }
}

// The same as keys to sort rows by.
template <typename T>
__device__ __forceinline__ void integer_keys(const T* values, const uint32_t* validity, uint64_t rows, uint64_t least,
                                             uint64_t null, uint64_t* keys, uint32_t* numbers) {
    FOR_EACH(row, rows) {
        keys[row] = is_valid(validity, row) ? distance(values[row], least) : null;
        numbers[row] = static_cast<uint32_t>(row);
    }
}

// The place of a key among ascending ones, or how many there are where it is none of them.
__device__ __forceinline__ uint64_t place_of(uint64_t key, const uint64_t* keys, uint64_t count) {
    uint64_t first = 0;
    for (uint64_t left = count; left > 0;) {
        const uint64_t half = left / 2;
        const bool behind = keys[first + half] < key;
        first = behind ? first + half + 1 : first;
        left = behind ? left - half - 1 : half;
    }
    return first;
}

// codes[row] = the code of the value among labels, whose `keys` ascend; `unseen` where it is none of them, `null` where there is none.
template <typename T>
__device__ __forceinline__ void look_up_integers(const T* values, const uint32_t* validity, uint64_t rows, const uint64_t* keys,
                                                 const uint32_t* labels, uint64_t count, uint32_t unseen, uint32_t null,
                                                 uint32_t* codes) {
    FOR_EACH(row, rows) {
        const uint64_t key = distance(values[row], 0), place = place_of(key, keys, count);
        const bool found = place < count && keys[place] == key;
        codes[row] = !is_valid(validity, row) ? null : found ? labels[place] : unseen;
    }
}

#define INTEGERS(name, T)                                                                                               \
    extern "C" __global__ void distances_##name(const T* values, const uint32_t* validity, uint64_t rows, uint64_t least, \
                                                uint32_t null, uint32_t* codes) {                                       \
        distances(values, validity, rows, least, null, codes);                                                          \
    }                                                                                                                   \
    extern "C" __global__ void integer_keys_##name(const T* values, const uint32_t* validity, uint64_t rows,            \
                                                   uint64_t least, uint64_t null, uint64_t* keys, uint32_t* numbers) {  \
        integer_keys(values, validity, rows, least, null, keys, numbers);                                               \
    }                                                                                                                   \
    extern "C" __global__ void look_up_integers_##name(const T* values, const uint32_t* validity, uint64_t rows,        \
                                                       const uint64_t* keys, const uint32_t* labels, uint64_t count,    \
                                                       uint32_t unseen, uint32_t null, uint32_t* codes) {               \
        look_up_integers(values, validity, rows, keys, labels, count, unseen, null, codes);                             \
    }

INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)

// Rows whose texts are counted from one start.
constexpr uint64_t TEXT_BLOCK = 1 << 14;

// The bytes of a row's text: they lie behind those of the rows before it in its block.
struct Text {
    const uint8_t* bytes;
    uint32_t length;

    __device__ __forceinline__ Text(const uint64_t* starts, const uint32_t* ends, const uint8_t* texts, uint64_t row) {
        const uint32_t first = row % TEXT_BLOCK == 0 ? 0 : ends[row - 1];
        bytes = texts + starts[row / TEXT_BLOCK] + first;
        length = ends[row] - first;
    }

    // The 8 bytes from `at` on, zeros behind the end.
    __device__ __forceinline__ uint64_t word(uint32_t at) const {
        uint64_t word = 0;
        const uint32_t count = length - at < 8 ? length - at : 8;
        for (uint32_t i = 0; i < count; i++) word |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
        return word;
    }
};

__device__ __forceinline__ uint64_t hash_of(const Text& text) {
    uint64_t hash = mix64(text.length + GOLDEN);
    for (uint32_t at = 0; at < text.length; at += 8) hash = mix64((hash ^ text.word(at)) + GOLDEN);
    return hash;
}

__device__ __forceinline__ bool are_equal(const Text& one, const Text& other) {
    bool equal = one.length == other.length;
    for (uint32_t at = 0; equal && at < one.length; at += 8) equal = one.word(at) == other.word(at);
    return equal;
}

// A hash of each row's text, to sort rows by.
extern "C" __global__ void text_keys(uint64_t n, const uint64_t* starts, const uint32_t* ends, const uint8_t* texts,
                                     uint64_t* keys, uint32_t* rows) {
    FOR_EACH(row, n) {
        keys[row] = hash_of(Text(starts, ends, texts, row));
        rows[row] = static_cast<uint32_t>(row);
    }
}

// Sets `differ` where two neighbours of one key have different texts.
extern "C" __global__ void compare_texts(uint64_t n, const uint64_t* keys, const uint32_t* rows, const uint64_t* starts,
                                         const uint32_t* ends, const uint8_t* texts, uint32_t* differ) {
    FOR_EACH(i, n) {
        if (i == 0 || keys[i] != keys[i - 1]) continue;
        if (!are_equal(Text(starts, ends, texts, rows[i - 1]), Text(starts, ends, texts, rows[i]))) *differ = 1;
    }
}

// codes[row] = the code of the text among labels, texts too, whose hashes ascend; `unseen` where it is none of them.
extern "C" __global__ void look_up_texts(uint64_t n, const uint64_t* starts, const uint32_t* ends, const uint8_t* texts,
                                         uint64_t count, const uint64_t* keys, const uint32_t* labels,
                                         const uint64_t* label_starts, const uint32_t* label_ends, const uint8_t* label_texts,
                                         uint32_t unseen, uint32_t* codes) {
    FOR_EACH(row, n) {
        const Text text(starts, ends, texts, row);
        const uint64_t hash = hash_of(text);
        uint32_t code = unseen;
        for (uint64_t i = place_of(hash, keys, count); i < count && keys[i] == hash; i++) {
            if (are_equal(text, Text(label_starts, label_ends, label_texts, labels[i]))) {
                code = labels[i];
                break;
            }
        }
        codes[row] = code;
    }
}
