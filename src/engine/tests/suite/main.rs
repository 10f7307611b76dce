//! Tests of the engine through its public face: a file a module, by the module's name; and what holds for all learners alike
//! (`bad_input`, `degenerate`, `hostile_bytes`, `fuzz_corpus`, `reproducibility`, `weights`).
//!
//! One program, so that it is linked once. What changes a whole process (its limits, its threads, its signals) is a program of its
//! own beside this folder.

use taiga_testing::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

mod bad_input;
mod collective;
mod degenerate;
mod fuzz_corpus;
mod hostile_bytes;
mod provenance;
mod reproducibility;
mod stats;
mod together;
mod weights;

mod boosting {
    mod batches;
    mod bundling;
    mod categorical_features;
    mod continued;
    mod cross_validation;
    mod dropouts;
    mod feature_weights;
    mod fit;
    mod grow;
    mod hashed;
    mod leaf_iterations;
    mod linear_leaves;
    mod model_apply;
    mod model_envelope;
    mod model_explain;
    mod order_by;
    mod ordered;
    mod position_bias;
    mod prepare;
    mod ranking;
    mod several_metrics;
    mod several_targets;
    mod survival;
    mod ties;
    mod untold_rounds;
}

mod column {
    mod categories;
}

mod encoding {
    mod encoders;
    mod target;
}

mod forest {
    mod batches;
    mod envelope;
    mod fit;
    mod grow;
    mod snapshots;
    mod together;
}

mod linear {
    mod batches;
    mod envelope;
    mod kept_rows;
    mod lbfgs;
    mod problem;
    mod snapshots;
    mod together;
}
