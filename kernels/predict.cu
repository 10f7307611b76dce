// The kernels that apply models: boosted trees to codes, forests to codes and values; and explain boosted trees. Launched by src/cuda/predict.

#include "predict/forest.cuh"
#include "predict/shap.cuh"
#include "predict/trees.cuh"

#include <cstddef>
#include "asserted/predict.cuh"
