//! Tests of the GPU, most of them against the CPU, bit by bit: a file a module of `src/cuda`, by the module's name; and `continued`,
//! `feature_weights`, `noise`, `numerics`, `together` and `weights`, which concern several of them.
//!
//! Tests that need a GPU are ignored unless asked for: `make test-cuda`. What counts a device's memory, or leaves it without any, is
//! a program of its own beside this folder.

mod borders;
mod codes;
mod continued;
mod dropouts;
mod feature_weights;
mod forest;
mod linear;
mod linear_leaves;
mod noise;
mod numerics;
mod predict;
mod ranked;
mod several_targets;
mod shap;
mod small_tables;
mod sparse_features;
mod stats;
mod stats2d;
mod target_encode;
mod together;
mod trees;
mod weights;
