// Asserts what a layouts.def lists of the structs that host and kernels share: include this, then the list, where the structs are
// known. The host asserts the same list (src/cuda/runtime/layouts.rs).
#pragma once

#include <cstddef>

// A struct's size, and where a field of it begins, in bytes.
#define STRUCT(type, size) static_assert(sizeof(type) == size, #type);
#define FIELD(type, field, at) static_assert(offsetof(type, field) == at, #type "." #field);
