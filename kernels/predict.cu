// The kernels that apply models: boosted trees to codes, forests to codes and values. Launched by src/cuda/predict.

#include "predict/forest.cuh"
#include "predict/trees.cuh"

#include <cstddef>
#include "asserted/predict.cuh"
