//! What XGBoost, LightGBM, CatBoost and scikit-learn call parameters, and what to do about it here.

/// Their names, and what each is called here: the first that the learner has.
const RENAMED: &[(&[&str], &[&str])] = &[
    (
        &[
            "iterations",
            "max_iter",
            "n_estimators",
            "n_iter",
            "nrounds",
            "num_boost_round",
            "num_iteration",
            "num_iterations",
            "num_round",
            "num_rounds",
            "num_tree",
            "num_trees",
        ],
        &["rounds", "trees", "epochs"],
    ),
    (&["trees"], &["rounds", "epochs"]),
    (&["rounds", "round"], &["trees", "epochs"]),
    (&["eta", "eta0", "shrinkage", "shrinkage_rate"], &["learning_rate"]),
    (&["app", "application", "loss_function", "objective", "objective_type"], &["loss", "criterion"]),
    (&["criterion"], &["loss"]),
    (&["loss"], &["criterion"]),
    (&["custom_metric", "eval_metric", "metric_types", "metrics", "scoring"], &["metric"]),
    (&["is_provide_training_metric", "is_training_metric", "train_metric", "training_metric"], &["eval_train"]),
    (&["expectile", "expectile_alpha", "quantile", "quantile_alpha"], &["alpha"]),
    (&["delta", "huber_slope"], &["huber_delta"]),
    (&["tweedie_variance_power", "variance_power"], &["tweedie_power"]),
    (&["lambdarank_truncation_level", "lambdarank_num_pair_per_sample"], &["rank_truncation"]),
    (&["lambdarank_position_bias_regularization"], &["rank_position_l2"]),
    (&["aft_loss_distribution", "dist"], &["aft_distribution"]),
    (&["aft_loss_distribution_scale"], &["aft_scale"]),
    (&["lambdarank_norm", "lambdarank_normalization"], &["rank_normalize"]),
    (&["boost", "booster", "boosting_type"], &["boosting"]),
    (&["rate_drop"], &["drop_rate"]),
    (&["linear_lambda"], &["linear_l2"]),
    (&["normalize_type"], &["normalize"]),
    (&["grow_policy"], &["policy"]),
    (&["max_depth"], &["depth"]),
    (&["max_leaf", "max_leaf_nodes", "max_leaves", "num_leaf", "num_leaves"], &["leaves"]),
    (&["border_count", "max_bin", "max_bins"], &["bins"]),
    (&["feature_border_type"], &["border_method"]),
    (&["bin_construct_sample_cnt", "subsample_for_bin"], &["border_sample"]),
    (&["l2_leaf_reg", "l2_regularization", "lambda", "lambda_l2", "reg_lambda"], &["l2"]),
    (&["l1_regularization", "lambda_l1", "reg_alpha"], &["l1"]),
    (&["alpha"], &["l2"]),
    (&["min_hessian", "min_sum_hessian", "min_sum_hessian_in_leaf", "min_sum_hessian_per_leaf"], &["min_child_weight"]),
    (&["min_child_samples", "min_data", "min_data_per_leaf", "min_samples_leaf"], &["min_data_in_leaf"]),
    (&["gamma", "min_gain_to_split", "min_impurity_decrease", "min_split_gain", "min_split_loss"], &["min_gain"]),
    (&["extra_tree"], &["extra_trees"]),
    (&["leaf_estimation_iterations"], &["leaf_iterations"]),
    (&["max_leaf_output", "max_tree_output", "poisson_max_delta_step"], &["max_delta_step"]),
    (&["bootstrap_type", "data_sample_strategy", "sampling_method"], &["row_sample"]),
    (&["bagging", "bagging_fraction", "sub_row", "subsample"], &["row_fraction", "bootstrap"]),
    (&["max_samples"], &["bootstrap", "row_fraction"]),
    (&["colsample_bytree", "sub_feature"], &["feature_fraction", "max_features"]),
    (&["feature_fraction"], &["max_features"]),
    (&["colsample_bylevel", "rsm"], &["feature_fraction_level", "max_features"]),
    (&["colsample_bynode", "feature_fraction_bynode", "sub_feature_bynode"], &["feature_fraction_node", "max_features"]),
    (&["max_features"], &["feature_fraction_node"]),
    (&["mc", "monotone_constraint", "monotone_constraints", "monotonic_cst"], &["monotone"]),
    (&["interaction_constraints", "interaction_cst"], &["interaction"]),
    (&["fc", "feature_contri", "feature_contrib", "feature_penalty", "feature_weight", "feature_weights", "fp"], &["feature_weights"]),
    (&["cat_column", "cat_feature", "cat_features", "categorical_column", "categorical_feature", "categorical_features"], &["categorical"]),
    (&["max_cat_to_onehot"], &["one_hot_max_size"]),
    (&["simple_ctr"], &["ctr"]),
    (&["ctr_border_count"], &["ctr_borders"]),
    (&["ctr_target_border_count"], &["target_borders"]),
    (&["max_ctr_complexity"], &["max_combination"]),
    (&["ctr_leaf_count_limit"], &["ctr_table_limit"]),
    (&["auto_class_weights", "class_weights"], &["class_weight"]),
    (&["pos_label"], &["positive"]),
    (&["early_stopping_round", "early_stopping_rounds", "n_iter_no_change", "od_wait"], &["early_stopping"]),
    (&["min_delta"], &["early_stopping_min_delta"]),
    (
        &[
            "bagging_fraction_seed",
            "bagging_seed",
            "data_random_seed",
            "data_seed",
            "drop_seed",
            "extra_seed",
            "feature_fraction_seed",
            "objective_seed",
            "random_seed",
            "random_state",
        ],
        &["seed"],
    ),
    (&["n_jobs", "nthread", "nthreads", "num_thread", "num_threads", "thread_count"], &["n_threads"]),
    (&["enable_bundle", "is_enable_bundle"], &["bundle"]),
    (&["device_type", "task_type"], &["device"]),
    (&["oob_score"], &["oob"]),
    (&["tol"], &["tolerance"]),
    (&["solver"], &["optimizer"]),
    (&["batch_size"], &["batch"]),
    (&["n_features", "num_features"], &["features"]),
    (&["smooth", "smoothing", "a"], &["prior_weight"]),
    (&["cv", "n_splits"], &["folds"]),
    (&["fold_permutation_block", "permutation_count"], &["permutations"]),
    (&["sample_weight", "sample_weights", "weight_column", "weights"], &["weight"]),
    (&["base_margin", "init_score"], &["baseline"]),
];

/// What others call how much a fit tells of itself.
const VERBOSITY: &[&str] = &[
    "verbose",
    "verbosity",
    "silent",
    "logging_level",
    "verbose_eval",
    "metric_period",
    "metric_freq",
    "output_freq",
    "plot",
    "plot_file",
    "log_cout",
    "log_cerr",
];

/// Their names that have no counterpart here, and what to do instead; of some a learner has a note of its own, in the tables below.
const NOTES: &[(&[&str], &str)] = &[
    (&["baseline", "base_margin", "init_score"], "it is an argument of `fit_gbdt` and of no other fit: raw scores to start from"),
    (
        &["eval_set", "eval_sets", "evals", "valid_sets", "validation_data", "eval_X", "eval_y", "valid", "valid_data"],
        "held-out rows are rows of the same frame: mark them by a Boolean column or expression, eval=pl.col(\"held_out\"); a second frame comes in by \
         pl.concat([train.with_columns(held_out=False), test.with_columns(held_out=True)])",
    ),
    (
        &["validation_fraction", "eval_fraction"],
        "held-out rows are marked by an expression: eval=pl.int_range(pl.len()) % 10 == 0 holds out a tenth",
    ),
    (
        &["batches"],
        "it is an argument of frames, of lf.taiga.fit_gbdt, fit_forest and fit_sparse_lr, which run the query in batches: an expression has \
         all rows before it begins",
    ),
    (
        &["spill"],
        "it is an argument of frames, of lf.taiga.fit_gbdt and fit_sparse_lr with batches=True: a folder for what a fit keeps of each row",
    ),
    (&["init_model"], "it is an argument of `fit_gbdt` and of no other fit: a model whose trees come first"),
    (
        &["input_model", "model_in", "model_input", "xgb_model", "warm_start", "init"],
        "init_model= of `fit_gbdt` takes a model whose trees come first; any other model's raw scores are its baseline=tg.predict(model, \
         output=\"raw\")",
    ),
    (
        &["X", "x", "x_train", "X_train", "data", "df", "dtrain", "train_set", "train_data", "train", "frame"],
        "the frame is that of the query: df.select(tg.fit_gbdt(\"y\", \"a\", \"b\")), or df.taiga.fit_gbdt(\"y\", \"a\", \"b\")",
    ),
    (
        &["y", "label", "labels", "label_column"],
        "the target is the first argument, a column's name or an expression: tg.fit_gbdt(\"y\", \"a\", \"b\")",
    ),
    (
        &["features", "feature", "feature_names", "feature_name", "columns", "cols"],
        "features are given by position, after the target: tg.fit_gbdt(\"y\", \"a\", \"b\"), or tg.fit_gbdt(\"y\", [\"a\", \"b\"])",
    ),
    (&["ignored_features", "ignore_column", "ignore_feature", "blacklist"], "leave columns out of the features: pl.exclude(\"y\", \"id\")"),
    (VERBOSITY, "progress=True shows a progress bar, progress=False none; `Model.history` has the metric of every round"),
    (
        &["evals_result", "use_best_model", "best_model_min_trees"],
        "leave it out: `Model.history` has the metric on the held-out rows, and early_stopping= keeps the best round",
    ),
    (&["callbacks", "callback"], "callback= of `fit_gbdt` takes a function of the round and its metrics; early_stopping= is a parameter"),
    (
        &["feval", "obj", "fobj", "custom_loss"],
        "tg.loss and tg.metric make losses and metrics of functions, for loss= and metric= of `fit_gbdt`",
    ),
    (&["boosting_type", "boosting", "boost", "booster"], "leave it out: trees are boosted by fit_gbdt"),
    (
        &["tree_method", "updater", "process_type", "predictor"],
        "leave it out: trees grow on histograms; bins= and border_method= say how fine they are, device= where the work is done",
    ),
    (
        &[
            "tree_learner",
            "tree",
            "tree_type",
            "tree_learner_type",
            "num_machines",
            "num_machine",
            "machines",
            "local_listen_port",
            "time_out",
            "top_k",
        ],
        "leave it out: a fit is on one machine, by n_threads= or device=",
    ),
    (&["bagging_by_query", "sampling_unit"], "leave it out: single rows are drawn"),
    (
        &[
            "pos_bagging_fraction",
            "pos_bagging",
            "pos_sub_row",
            "pos_subsample",
            "neg_bagging_fraction",
            "neg_bagging",
            "neg_sub_row",
            "neg_subsample",
        ],
        "rows are drawn whatever their class; weigh the classes by class_weight=",
    ),
    (&["is_unbalance", "unbalance", "unbalanced_sets"], "class_weight=\"balanced\""),
    (&["scale_pos_weight"], "class_weight={positive label: this number}, as class_weight={True: 10}"),
    (&["num_class", "num_classes", "classes_count", "class_names", "classes"], "leave it out: the classes are those of the target"),
    (&["sigmoid"], "leave it out: the link of \"logloss\" is 1 / (1 + exp(-score))"),
    (&["reg_sqrt"], "transform the target: pl.col(\"y\").sqrt() as the first argument"),
    (&["target_border"], "make the target Boolean: pl.col(\"y\") > border as the first argument"),
    (&["linear_tree", "linear_trees"], "leaf=\"linear\" of fit_gbdt makes leaves linear functions"),
    (&["linear_lambda", "linear_l2", "leaf"], "leave it out: leaves are linear functions under leaf=\"linear\" of fit_gbdt alone"),
    (
        &["drop_rate", "rate_drop", "max_drop", "skip_drop", "uniform_drop", "one_drop", "normalize_type", "drop_seed"],
        "leave it out: dropouts are boosting=\"dart\" of fit_gbdt",
    ),
    (&["extra_trees"], "splitter=\"random\" of fit_forest draws one border of each feature"),
    (&["num_parallel_tree"], "leave it out: a round is a tree; fit_forest fits forests"),
    (
        &["feature_contri", "feature_contrib", "feature_penalty", "fc", "fp", "feature_weights"],
        "leave it out: features have no weights of their own but in fit_gbdt",
    ),
    (
        &[
            "penalties_coefficient",
            "first_feature_use_penalties",
            "per_object_feature_penalties",
            "cegb_tradeoff",
            "cegb_penalty_split",
            "cegb_penalty_feature_lazy",
            "cegb_penalty_feature_coupled",
        ],
        "leave it out: features cost nothing; feature_weights= of fit_gbdt makes some count less",
    ),
    (
        &[
            "forcedsplits_filename",
            "forced_splits",
            "forced_splits_file",
            "forced_splits_filename",
            "fs",
            "fixed_binary_splits",
            "forcedbins_filename",
        ],
        "leave it out: splits and borders are found from the rows",
    ),
    (
        &["max_bin_by_feature", "per_float_feature_quantization"],
        "bins= of fit_gbdt and fit_forest takes a dict of numbers by feature name, as bins={\"a\": 32}",
    ),
    (&["input_borders", "min_data_in_bin"], "leave it out: borders are found from the rows, by bins= and border_method="),
    (&["output_borders"], "`Model.borders` has the borders"),
    (&["langevin", "diffusion_temperature", "posterior_sampling"], "leave it out: there is no noise in gradients"),
    (
        &["has_time"],
        "order_by= of fit_gbdt is a column of times: statistics of categories are then of the rows before a row in their order",
    ),
    (
        &["enable_categorical", "feature_types"],
        "leave it out: String, Categorical and Enum columns are categories; categorical= names others",
    ),
    (
        &["text_features", "tokenizers", "dictionaries", "feature_calcers", "text_processing", "embedding_features"],
        "there are no features of text or embeddings; fit_sparse_lr takes lists of words",
    ),
    (
        &["use_missing", "zero_as_missing", "missing", "nan_mode"],
        "leave it out: null and NaN are missing, and every split learns their side; for other values pl.col(\"a\").replace(0, None)",
    ),
    (&["deterministic"], "leave it out: the same rows and parameters give the same bytes, whatever the threads and the device"),
    (
        &[
            "force_col_wise",
            "force_row_wise",
            "histogram_pool_size",
            "hist_pool_size",
            "max_cached_hist_node",
            "used_ram_limit",
            "two_round",
            "two_round_loading",
            "feature_pre_filter",
            "pre_partition",
            "dev_score_calc_obj_block_size",
            "single_precision_histogram",
            "validate_parameters",
            "precise_float_parser",
            "data_partition",
            "disable_default_eval_metric",
        ],
        "leave it out: it is decided by itself",
    ),
    (
        &["gpu_id", "gpu_device_id", "gpu_device_id_list", "devices", "device_config", "gpu_platform_id", "num_gpu"],
        "device=\"cuda:0\" names a GPU, device=\"cuda\" takes the first",
    ),
    (
        &["gpu_use_dp", "gpu_ram_part", "pinned_memory_size", "gpu_cat_features_storage"],
        "leave it out; device= is all there is to say of a GPU",
    ),
    (
        &["output_model", "model_out", "model_output", "save_period", "train_dir", "allow_writing_files", "name", "metadata"],
        "leave it out: a model is a value of the query, and to keep it is to write its bytes",
    ),
    (
        &["snapshot_freq", "save_snapshot", "snapshot_file", "snapshot_interval"],
        "snapshot= of `fit_gbdt`, `fit_forest` and `fit_sparse_lr` takes a file that keeps the state of the fit, and \
         snapshot_every= how often",
    ),
    (&["importance_type", "saved_feature_importance_type"], "leave it out: `Model.importance(kind)` takes the kind"),
    (
        &["group_id", "query", "query_id", "query_column", "group_column", "qid"],
        "the column of the rows' groups is an argument of tg.fit_gbdt: group=\"query\"",
    ),
    (&["group"], "it is an argument of tg.fit_gbdt, for ranking; df.group_by(\"g\").agg(…) fits a model for each group"),
    (&["label_gain"], "leave it out: a document of grade g gains 2^g - 1"),
    (&["position"], "it is an argument of tg.fit_gbdt beside group=, for ranking"),
    (
        &["lambdarank_unbiased", "lambdarank_bias_norm"],
        "position bias is found where rows have positions: tg.fit_gbdt(…, group=\"query\", position=\"rank\")",
    ),
    (&["auc_mu_weights", "multi_error_top_k"], "leave it out: there is no such metric"),
    (&["min_samples_split"], "leave it out: min_data_in_leaf= is the smallest number of rows in a child"),
    (&["min_weight_fraction_leaf"], "min_data_in_leaf= counts rows"),
    (&["ccp_alpha"], "leave it out: trees are not pruned; see min_gain=, depth= and leaves="),
    (&["dual", "intercept_scaling", "shuffle", "average", "power_t", "epsilon"], "leave it out: there is no such choice"),
    (&["multi_class"], "leave it out: more than two classes are softmax"),
    (
        &["folds", "n_folds", "fold_by", "cv", "n_splits"],
        "folds= of tg.cross_validate, tg.fit_folds, tg.cross_val_predict and tg.search says how they divide the rows",
    ),
    (
        &["space", "trials", "halving", "param_grid", "param_distributions", "n_trials"],
        "tg.search tries parameters: space= says what they may be, trials= and halving= how many are tried",
    ),
    (&["dtype"], "it is an argument of tg.predict and tg.cross_val_predict, for models that are an expression"),
];

/// The same for boosted trees: notes that name their parameters.
const BOOSTED: &[(&[&str], &str)] = &[
    (&["eval"], "it is an argument of one fit, of fit_gbdt: where there are folds, each is held out in its turn"),
    (&["first_metric_only"], "leave it out: the first of several metrics decides"),
    (&["od_pval", "od_type", "tol"], "leave it out: early_stopping_min_delta= says what counts as better"),
    (
        &["bagging_freq", "subsample_freq", "sampling_frequency"],
        "leave it out: rows are drawn anew for every tree where row_sample= asks for it",
    ),
    (
        &["top_rate", "other_rate"],
        "row_sample=\"goss\" with row_fraction=top_rate + other_rate, two thirds of which are rows with large gradients",
    ),
    (&["mvs_reg"], "leave it out: row_sample=\"mvs\" finds its own regularisation"),
    (
        &["boost_from_average", "base_score", "allow_const_label"],
        "leave it out: a fit starts from the best constant; baseline= of fit_gbdt gives rows scores of their own",
    ),
    (&["fair_c"], "there is no Fair loss; loss=\"huber\" is near it"),
    (&["xgboost_dart_mode"], "normalize=\"tree\" is XGBoost's"),
    (
        &["sample_type"],
        "uniform_drop=True leaves rounds out as often as each other (XGBoost's \"uniform\"), False by what they count (\"weighted\")",
    ),
    (
        &["monotone_constraints_method", "monotone_constraining_method", "mc_method"],
        "leave it out: bounds pass from each node to its children (\"basic\")",
    ),
    (&["monotone_penalty", "monotone_splits_penalty", "ms_penalty", "mc_penalty"], "leave it out: monotone splits have no penalty"),
    (
        &["refit_decay_rate", "model_size_reg", "model_shrink_rate", "model_shrink_mode"],
        "there is no such regularisation; see l2=, l1= and min_gain=",
    ),
    (
        &["random_score_type", "score_function"],
        "leave it out: splits are chosen by their gain; random_strength=, feature_fraction= and row_sample= make trees differ",
    ),
    (
        &["leaf_estimation_method", "leaf_estimation_backtracking"],
        "leave it out: leaves take Newton steps, as many as leaf_iterations= says, or the exact quantile",
    ),
    (
        &[
            "fold_len_multiplier",
            "approx_on_full_history",
            "ctr_history_unit",
            "counter_calc_method",
            "final_ctr_computation_mode",
            "store_all_simple_ctr",
            "ctr_description",
        ],
        "leave it out; permutations= is the number of orders that statistics of categories are computed under",
    ),
    (&["combinations_ctr", "per_feature_ctr"], "ctr= holds for all columns and their combinations"),
    (&["min_data_per_group"], "leave it out; cat_smooth= and cat_l2= hold small categories back"),
    (
        &["is_enable_sparse", "is_sparse", "enable_sparse", "sparse", "sparse_features_conflict_fraction", "dev_efb_max_buckets"],
        "leave it out: columns that are mostly one value are stored sparsely; bundle=False turns it off",
    ),
    (
        &["use_quantized_grad", "num_grad_quant_bins", "quant_train_renew_leaf", "stochastic_rounding"],
        "leave it out: gradients are always summed as integers",
    ),
    (
        &["eval_at", "ndcg_at", "ndcg_eval_at", "map_at", "map_eval_at"],
        "metric=\"ndcg@5\" or \"map@5\" says how many places count, without a number all",
    ),
    (&["penalty", "l1_ratio"], "l1= and l2= are the penalties"),
];

/// The same for forests.
const FOREST: &[(&[&str], &str)] = &[
    (
        &[
            "eval",
            "eval_set",
            "eval_sets",
            "evals",
            "valid_sets",
            "validation_data",
            "eval_X",
            "eval_y",
            "valid",
            "valid_data",
            "validation_fraction",
            "eval_fraction",
            "evals_result",
            "use_best_model",
            "best_model_min_trees",
            "metric",
        ],
        "a forest is measured by the rows out of bag: oob=, `Model.oob_score`",
    ),
    (VERBOSITY, "progress=True shows a progress bar, progress=False none"),
    (&["callbacks", "callback"], "callback= of `fit_gbdt` takes a function of the round and its metrics: a forest has no rounds"),
    (&["early_stopping"], "there are no rounds to stop; oob= measures a forest"),
    (&["tol", "od_pval", "od_type"], "leave it out: a forest has as many trees as trees= says"),
    (&["learning_rate"], "leave it out: a forest's trees count alike"),
    (&["bagging_freq", "subsample_freq", "sampling_frequency"], "leave it out: rows are drawn anew for every tree, by bootstrap="),
];

/// The same for linear models.
const LINEAR: &[(&[&str], &str)] = &[
    (&["C"], "the penalty is l2=1 / (C * rows), or with an l1 penalty l1=1 / (C * rows); C=1 is the default"),
    (&["penalty", "l1_ratio"], "l1= and l2= are the penalties"),
    (
        &[
            "tree_method",
            "updater",
            "process_type",
            "predictor",
            "input_borders",
            "output_borders",
            "min_data_in_bin",
            "max_bin_by_feature",
            "per_float_feature_quantization",
            "min_samples_split",
            "min_weight_fraction_leaf",
            "ccp_alpha",
        ],
        "leave it out: there are no trees",
    ),
    (
        &["feature", "feature_names", "feature_name", "columns", "cols"],
        "features come behind the target: a column of lists, tg.fit_sparse_lr(\"y\", \"words\"), and numbers by dense=[\"a\", \"b\"]",
    ),
    (&["enable_categorical", "feature_types"], "leave it out: a category is a string in the lists of `indices`"),
    (
        &["use_missing", "zero_as_missing", "missing", "nan_mode"],
        "leave it out: what a row does not list is 0, and dense= columns have no missing values",
    ),
];

/// The same for encoders.
const ENCODER: &[(&[&str], &str)] = &[
    (&["sigma"], "leave it out: no noise is added; under kind=\"ordered\" no row's own target is in its value"),
    (
        &["handle_unknown", "handle_missing", "min_group_size", "drop_invariant", "return_df", "target_type", "categories"],
        "leave it out: what was not seen gets the prior, and null is a category of its own",
    ),
];

/// Returns the notes of a learner alone, by a parameter that it has.
fn own(has: impl Fn(&str) -> bool) -> &'static [(&'static [&'static str], &'static str)] {
    let tables = [("rounds", BOOSTED), ("trees", FOREST), ("epochs", LINEAR), ("prior_weight", ENCODER)];
    tables.into_iter().find(|(parameter, _)| has(parameter)).map_or(&[], |(_, notes)| notes)
}

/// What is known of a name that a learner does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// Here it is called so.
    Called(&'static str),
    /// There is none; what to do.
    Note(&'static str),
}

/// What a name means to a learner that has the parameters for which `has` is true, and not this one.
pub fn meaning(name: &str, has: impl Fn(&str) -> bool) -> Option<Meaning> {
    let of = |theirs: &[&str]| theirs.contains(&name);
    // A baseline is told beside the table, but of boosted trees alone.
    let takes = |ours: &str| ours != name && has(ours) && (ours != "baseline" || has("rounds"));
    let renamed = RENAMED.iter().filter(|(theirs, _)| of(theirs)).flat_map(|(_, ours)| *ours).find(|ours| takes(ours));
    let noted = || own(&has).iter().chain(NOTES).find(|(theirs, _)| of(theirs)).map(|(_, note)| Meaning::Note(note));
    let elsewhere = || [BOOSTED, FOREST, LINEAR, ENCODER].into_iter().flatten().any(|(theirs, _)| of(theirs));
    let none = || elsewhere().then_some(Meaning::Note("leave it out: there is no such choice here"));
    renamed.map(|ours| Meaning::Called(ours)).or_else(noted).or_else(none)
}

/// All names of theirs.
pub fn all() -> impl Iterator<Item = &'static str> {
    let notes = [NOTES, BOOSTED, FOREST, LINEAR, ENCODER].into_iter().flatten().flat_map(|(theirs, _)| *theirs);
    RENAMED.iter().flat_map(|(theirs, _)| *theirs).chain(notes).copied()
}
