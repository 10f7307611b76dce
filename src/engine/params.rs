//! From JSON objects to parameter structs, with errors that name the parameter.

use crate::error::{Error, Result, nearest};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What XGBoost, LightGBM, CatBoost and scikit-learn call a parameter, and what it is called here: the first that
/// the learner has.
const PEERS: &[(&str, &[&str])] = &[
    ("auto_class_weights", &["class_weight"]),
    ("bagging_fraction", &["row_fraction", "bootstrap"]),
    ("bagging_temperature", &["row_sample"]),
    ("boosting_type", &["policy"]),
    ("bootstrap_type", &["row_sample"]),
    ("border_count", &["bins"]),
    ("cat_features", &["categorical"]),
    ("categorical_feature", &["categorical"]),
    ("categorical_features", &["categorical"]),
    ("class_weights", &["class_weight"]),
    ("colsample_bylevel", &["feature_fraction_level", "max_features"]),
    ("colsample_bynode", &["feature_fraction_node", "max_features"]),
    ("colsample_bytree", &["feature_fraction", "max_features"]),
    ("data_sample_strategy", &["row_sample"]),
    ("device_type", &["device"]),
    ("early_stopping_round", &["early_stopping"]),
    ("early_stopping_rounds", &["early_stopping"]),
    ("enable_bundle", &["bundle"]),
    ("eta", &["learning_rate"]),
    ("eval_metric", &["metric"]),
    ("eval_set", &["eval"]),
    ("feature_border_type", &["border_method"]),
    ("feature_fraction_bynode", &["feature_fraction_node", "max_features"]),
    ("gamma", &["min_gain"]),
    ("grow_policy", &["policy"]),
    ("interaction_constraints", &["interaction"]),
    ("interaction_cst", &["interaction"]),
    ("iterations", &["trees", "epochs"]),
    ("l2_leaf_reg", &["l2"]),
    ("l2_regularization", &["l2"]),
    ("lambda", &["l2"]),
    ("lambda_l1", &["l1"]),
    ("lambda_l2", &["l2"]),
    ("loss_function", &["loss"]),
    ("max_bin", &["bins"]),
    ("max_bins", &["bins"]),
    ("max_cat_to_onehot", &["one_hot_max_size"]),
    ("max_ctr_complexity", &["max_combination"]),
    ("max_depth", &["depth"]),
    ("max_iter", &["trees", "epochs"]),
    ("max_leaf_nodes", &["leaves"]),
    ("max_leaves", &["leaves"]),
    ("max_samples", &["bootstrap"]),
    ("min_child_samples", &["min_data_in_leaf"]),
    ("min_gain_to_split", &["min_gain"]),
    ("min_impurity_decrease", &["min_gain"]),
    ("min_samples_leaf", &["min_data_in_leaf"]),
    ("min_split_gain", &["min_gain"]),
    ("min_sum_hessian_in_leaf", &["min_child_weight"]),
    ("monotone_constraints", &["monotone"]),
    ("monotonic_cst", &["monotone"]),
    ("n_estimators", &["trees"]),
    ("n_iter_no_change", &["early_stopping"]),
    ("n_jobs", &["n_threads"]),
    ("nthread", &["n_threads"]),
    ("num_boost_round", &["trees"]),
    ("num_iterations", &["trees"]),
    ("num_leaves", &["leaves"]),
    ("num_round", &["trees"]),
    ("num_threads", &["n_threads"]),
    ("num_trees", &["trees"]),
    ("objective", &["loss", "criterion"]),
    ("od_wait", &["early_stopping"]),
    ("oob_score", &["oob"]),
    ("penalty", &["l1"]),
    ("pos_label", &["positive"]),
    ("random_seed", &["seed"]),
    ("random_state", &["seed"]),
    ("reg_alpha", &["l1"]),
    ("reg_lambda", &["l2"]),
    ("rsm", &["feature_fraction_level", "max_features"]),
    ("sample_weight", &["weight"]),
    ("sampling_method", &["row_sample"]),
    ("scale_pos_weight", &["class_weight"]),
    ("solver", &["optimizer"]),
    ("subsample", &["row_fraction", "bootstrap"]),
    ("task_type", &["device"]),
    ("thread_count", &["n_threads"]),
    ("tol", &["tolerance"]),
    ("validation_fraction", &["eval"]),
];

/// Parameters that are columns, which whoever makes the table takes.
const COLUMNS: [&str; 2] = ["weight", "eval"];

/// Parameters that came after models had been written: a model names them only where they are not at their default, so that
/// one without them keeps its bytes, and its format version.
const LATER: [&str; 1] = ["positive"];

/// Whether parameters that a model names are such as came later.
pub(crate) fn has_later(params: &serde_json::Value) -> bool {
    LATER.iter().any(|name| params.get(name).is_some())
}

/// Parameters from a JSON object; what it does not name has its default. Not validated.
///
/// # Errors
/// [`Error::UnknownParameter`] with the name that was probably meant, [`Error::Parameter`] for a value of the
/// wrong type.
pub(crate) fn from_json<T: Default + Serialize + DeserializeOwned>(value: &serde_json::Value) -> Result<T> {
    let object = value.as_object().ok_or_else(|| Error::Data("parameters are an object of names and values".into()))?;
    if let Ok(params) = T::deserialize(value) {
        return Ok(params);
    }
    let known = serde_json::to_value(T::default()).map_err(|e| Error::Data(e.to_string()))?;
    let known = known.as_object().ok_or_else(|| Error::Data("parameters are no object".into()))?;
    for name in object.keys() {
        if !known.contains_key(name) {
            let ours = PEERS.iter().filter(|(theirs, _)| theirs == name).flat_map(|(_, ours)| *ours);
            let ours = ours.copied().find(|o| known.contains_key(*o) || COLUMNS.contains(o));
            let suggestion = ours.or_else(|| nearest(name, known.keys().map(String::as_str))).map(String::from);
            return Err(Error::UnknownParameter { name: name.clone(), suggestion });
        }
        // Something is wrong: one field at a time, so that the error names it.
        let single = serde_json::json!({ name.as_str(): object[name] });
        if let Err(e) = serde_json::from_value::<T>(single) {
            return Err(Error::parameter(name, format!("{}: {e}", object[name])));
        }
    }
    T::deserialize(value).map_err(|e| Error::Data(e.to_string()))
}

/// Parameters as a JSON object, without those that never change a model, which `never` names, and those of [`LATER`] that
/// are at their default.
pub(crate) fn to_json<T: Default + Serialize>(params: &T, never: &[&str]) -> serde_json::Value {
    let mut value = serde_json::to_value(params).unwrap_or_default();
    let default = serde_json::to_value(T::default()).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        let silent = |name: &str, value: &serde_json::Value| LATER.contains(&name) && default.get(name) == Some(value);
        object.retain(|name, value| !never.contains(&name.as_str()) && !silent(name, value));
    }
    value
}

/// The rule for `n_threads`.
pub(crate) fn check_threads(n_threads: Option<u32>) -> Result<()> {
    check(n_threads.is_none_or(|n| (1..=1024).contains(&n)), "n_threads", n_threads, "between 1 and 1,024")
}

/// An error unless `ok`: the parameter's name, its value, and what was expected.
pub(crate) fn check(ok: bool, name: &str, value: impl std::fmt::Debug, expected: &str) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::parameter(name, format!("{value:?} is not {expected}"))) }
}
