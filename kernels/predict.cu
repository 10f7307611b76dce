// The kernels that apply models: boosted trees to codes, forests to codes and values; and explain both. Launched by src/cuda/predict.

#include "predict/forest.cuh"
#include "predict/shap.cuh"
#include "predict/shap_leaves.cuh"
#include "predict/shap_walk.cuh"
#include "predict/trees.cuh"

#include <cstddef>
#include "asserted/predict.cuh"
