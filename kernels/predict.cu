// The kernels that apply models: boosted trees to codes, forests to codes and values, linear models to lists and values; and
// explain them. Launched by src/cuda/predict.

#include "predict/forest.cuh"
#include "predict/linear.cuh"
#include "predict/shap.cuh"
#include "predict/shap_leaves.cuh"
#include "predict/shap_walk.cuh"
#include "predict/trees.cuh"

#include <cstddef>
#include "asserted/predict.cuh"
