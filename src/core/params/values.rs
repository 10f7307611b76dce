//! What XGBoost, LightGBM, CatBoost and scikit-learn call the values of parameters, and what is to be said of them here.

use crate::device::DeviceSet;
use crate::error::nearest;
use serde_json::Value;

/// What is known of a value that a parameter can't have.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// Here it is this value, with these other parameters beside it.
    Means(Value, Vec<(&'static str, Value)>),
    /// There is none; what to do.
    Note(&'static str),
}

/// Values by parameter (ours, or theirs where it has no counterpart), in small letters: theirs, and ours.
const MEANS: &[(&str, &[&str], &str)] = &[
    (
        "loss",
        &[
            "regression",
            "regression_l2",
            "l2",
            "l2_root",
            "mse",
            "mean_squared_error",
            "root_mean_squared_error",
            "reg:squarederror",
            "reg:linear",
            "squared_error",
            "squarederror",
            "least_squares",
            "ls",
        ],
        "rmse",
    ),
    ("loss", &["regression_l1", "l1", "mean_absolute_error", "reg:absoluteerror", "absolute_error", "lad", "median"], "mae"),
    ("loss", &["reg:pseudohubererror", "pseudohuber"], "huber"),
    ("loss", &["reg:quantileerror", "pinball"], "quantile"),
    ("loss", &["reg:expectileerror"], "expectile"),
    ("loss", &["logcosh", "log-cosh"], "log_cosh"),
    ("loss", &["mean_absolute_percentage_error"], "mape"),
    ("loss", &["multilogloss", "multi_label", "multilabel_logloss"], "multilabel"),
    ("boosting", &["gbtree", "gbrt", "plain"], "gbdt"),
    ("multi_strategy", &["multi_output_tree"], "one_tree"),
    ("multi_strategy", &["one_output_per_tree"], "tree_each"),
    ("loss", &["multiclassova", "multiclass_ova", "ovr", "multiclassonevsall"], "ova"),
    ("loss", &["rmsewithuncertainty", "normal"], "gaussian"),
    ("loss", &["focal_loss", "sigmoid_focal_loss"], "focal"),
    ("loss", &["count:poisson"], "poisson"),
    ("loss", &["reg:gamma"], "gamma"),
    ("loss", &["reg:tweedie"], "tweedie"),
    (
        "loss",
        &[
            "binary",
            "binary:logistic",
            "binary:logitraw",
            "binary_logloss",
            "binary_crossentropy",
            "log_loss",
            "deviance",
            "bernoulli",
            "logistic",
            "gini",
            "entropy",
            "classification",
        ],
        "logloss",
    ),
    ("loss", &["multi:softmax", "multi:softprob", "softmax", "multi_logloss", "mlogloss", "categorical_crossentropy"], "multiclass"),
    ("loss", &["xentropy", "reg:logistic"], "cross_entropy"),
    ("loss", &["rank:ndcg", "lambdamart"], "lambdarank"),
    ("loss", &["rank:pairwise", "pairlogit", "pairlogitpairwise", "ranknet"], "pairwise"),
    ("loss", &["rank_xendcg"], "xendcg"),
    ("loss", &["yetirankpairwise"], "yetirank"),
    ("loss", &["survival:cox", "coxph", "proportional_hazards"], "cox"),
    ("loss", &["survival:aft", "survivalaft"], "aft"),
    ("metric", &["cox-nloglik", "coxnloglik", "cox"], "cox_nloglik"),
    ("metric", &["aft-nloglik", "aftnloglik", "survivalaft"], "aft_nloglik"),
    ("metric", &["c-index", "c_index", "cindex", "concordance_index"], "concordance"),
    ("metric", &["ibs", "integrated_brier_score", "brier_score"], "brier"),
    ("aft_distribution", &["gaussian", "lognormal"], "normal"),
    ("aft_distribution", &["loglogistic"], "logistic"),
    ("aft_distribution", &["weibull", "gumbel"], "extreme"),
    ("metric", &["lambdarank", "rank_xendcg"], "ndcg"),
    ("metric", &["pre", "precision_at"], "precision"),
    ("metric", &["regression", "regression_l2", "l2", "l2_root", "mse", "mean_squared_error", "root_mean_squared_error"], "rmse"),
    ("metric", &["neg_root_mean_squared_error", "neg_mean_squared_error", "reg:squarederror", "squared_error"], "rmse"),
    ("metric", &["regression_l1", "l1", "mean_absolute_error", "neg_mean_absolute_error", "absolute_error"], "mae"),
    ("metric", &["mphe", "pseudohuber"], "huber"),
    ("metric", &["pinball"], "quantile"),
    ("metric", &["logcosh"], "log_cosh"),
    ("metric", &["mean_absolute_percentage_error", "neg_mean_absolute_percentage_error"], "mape"),
    ("metric", &["binary", "binary_logloss", "binary:logistic", "log_loss", "neg_log_loss"], "logloss"),
    ("metric", &["mlogloss", "multi_logloss", "softmax", "multi:softmax", "multi:softprob"], "multiclass"),
    ("metric", &["xentropy"], "cross_entropy"),
    ("metric", &["roc_auc", "roc-auc"], "auc"),
    ("metric", &["binary_error", "multi_error", "error", "merror", "zeroone", "acc"], "accuracy"),
    ("metric", &["poisson-nloglik", "mean_poisson_deviance"], "poisson"),
    ("metric", &["gamma-nloglik", "gamma-deviance", "gamma_deviance", "mean_gamma_deviance"], "gamma"),
    ("metric", &["tweedie-nloglik", "mean_tweedie_deviance"], "tweedie"),
    ("policy", &["symmetrictree", "oblivious"], "symmetric"),
    ("policy", &["lossguide", "bestfirst", "best_first"], "leafwise"),
    ("policy", &["levelwise", "level"], "depthwise"),
    ("row_sample", &["bagging", "uniform", "subsample"], "bernoulli"),
    ("row_sample", &["gradient_based"], "mvs"),
    ("row_sample", &["no"], "none"),
    ("border_method", &["median"], "quantile"),
    ("border_method", &["minentropy", "greedyminentropy", "maxlogsum", "uniformandquantiles"], "min_max_entropy"),
    ("cat_method", &["onehot"], "one_hot"),
    ("cat_method", &["target", "ordered"], "ctr"),
    ("cat_method", &["optimal", "subset"], "partition"),
    ("ctr", &["featurefreq"], "counter"),
    ("criterion", &["mse", "variance", "regression", "l2", "rmse", "mean_squared_error"], "squared_error"),
    ("criterion", &["log_loss"], "entropy"),
    ("criterion", &["binary", "multiclass", "classification", "logloss"], "gini"),
    ("splitter", &["best"], "exact"),
    ("splitter", &["hist"], "histogram"),
    ("max_features", &["none"], "all"),
    ("device", &["gpu"], "cuda"),
    ("optimizer", &["liblinear", "newton-cg", "newton-cholesky", "sag", "saga", "owlqn", "bfgs"], "lbfgs"),
    ("optimizer", &["adam"], "adagrad"),
    ("kind", &["catboost"], "ordered"),
    ("kind", &["k-fold", "cv", "cross_fitting"], "kfold"),
    ("kind", &["leave_one_out", "leaveoneout"], "loo"),
    ("kind", &["target", "mean"], "full"),
];

/// Values that have no counterpart: by parameter, theirs, and what to do instead.
const NOTES: &[(&str, &[&str], &str)] = &[
    (
        "loss",
        &["rank:map", "queryrmse", "querysoftmax", "querycrossentropy", "stochasticfilter", "stochasticrank"],
        "there is none such; \"lambdarank\", \"pairwise\", \"xendcg\" and \"yetirank\" rank",
    ),
    ("loss", &["fair", "lq"], "there is none such; loss=\"huber\", \"log_cosh\", \"mae\" and \"quantile\" are robust"),
    ("loss", &["reg:squaredlogerror", "rmsle", "msle"], "there is none; take pl.col(\"y\").log1p() as the target of loss=\"rmse\""),
    (
        "loss",
        &["binary:hinge", "hinge", "exponential", "cross_entropy_lambda", "xentlambda"],
        "there is none; loss=\"logloss\" is for two classes",
    ),
    ("loss", &["multiquantile"], "loss=\"quantile\" with a list, as alpha=[0.05, 0.5, 0.95], has several quantiles in one model"),
    ("loss", &["multirmse", "multi"], "a struct or lists as target are several targets: loss=\"rmse\" is for them too"),
    (
        "loss",
        &["multicrossentropy"],
        "a struct or lists of probabilities as target are several targets: loss=\"cross_entropy\" is for them too",
    ),
    ("metric", &["none", "null", "na", "custom", ""], "leave it out: the loss itself is measured"),
    (
        "metric",
        &["auc_mu", "recall", "kappa", "ams"],
        "there is none such; \"auc\", \"logloss\", \"f1\", \"mcc\" and \"balanced_accuracy\" are measured for classes",
    ),
    ("metric", &["smape", "fair", "medianabsoluteerror"], "there is none such; \"mae\", \"mape\", \"rmsle\" and \"r2\" are measured"),
    ("metric", &["pfound", "dcg"], "there is none such; \"ndcg\", \"map\", \"mrr\" and \"precision\" are measured by group"),
    ("policy", &["ordered"], "policy is how trees grow; boosting=\"ordered\" is what this means in CatBoost"),
    ("policy", &["gbdt", "gbtree", "gbrt", "plain"], "policy is how trees grow: \"symmetric\", \"depthwise\" or \"leafwise\""),
    ("row_sample", &["poisson"], "there is none such: \"bernoulli\", \"goss\", \"mvs\" and \"bayesian\" draw rows"),
    ("boosting", &["goss"], "row_sample=\"goss\""),
    ("boosting", &["rf", "random_forest"], "tg.fit_forest fits random forests"),
    ("boosting", &["gblinear"], "tg.fit_sparse_lr fits linear models of classes"),
    ("depth", &["-1", "0"], "leave it out for no limit (policy=\"leafwise\" has none unless told)"),
    ("leaves", &["0", "-1"], "leave it out for no limit"),
    ("max_delta_step", &["0", "0.0", "-1"], "leave it out for no limit"),
    ("early_stopping", &["0", "-1", "false"], "leave it out: no early stopping"),
    ("early_stopping", &["true", "auto"], "it is the number of rounds to wait, as 20"),
    ("n_threads", &["-1", "0"], "leave it out: as many threads as Polars has"),
    ("bootstrap", &["none"], "True, False, or a share of the rows"),
    ("criterion", &["friedman_mse", "absolute_error", "mae"], "there is none such; \"squared_error\" and \"poisson\" are for numbers"),
    ("max_features", &["auto"], "leave it out: \"sqrt\" for classes, \"all\" for numbers"),
    ("class_weight", &["sqrtbalanced", "balanced_subsample"], "\"balanced\", or a dict of a weight for each label, is a class weight"),
    ("hash_bits", &["0"], "leave it out for features that are numbers"),
    ("l2", &["none"], "l2=0 is no penalty"),
    ("rounds", &["none", "0", "-1"], "at least one round"),
    ("trees", &["none", "0", "-1"], "at least one tree"),
    ("kind", &["auto"], "\"ordered\" is the default"),
];

/// What a number of theirs is here, where something else is counted: CatBoost counts borders, which are one fewer than bins.
pub fn recounted(theirs: &str, value: &Value) -> Option<Value> {
    (theirs == "border_count").then(|| value.as_u64()).flatten().map(|borders| borders.saturating_add(1).into())
}

/// Letters and digits alone, small.
fn squashed(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What parameters of theirs are called in the tables above.
fn table_of(parameter: &str) -> &str {
    match parameter {
        "boosting_type" | "boost" | "booster" => "boosting",
        other => other,
    }
}

/// What a value means that `parameter` (ours, or theirs where there is none of ours) can't have; `variants`: the words that it takes.
pub fn advice(parameter: &str, value: &Value, variants: &[String]) -> Option<Advice> {
    let parameter = table_of(parameter);
    let text = match value {
        Value::String(text) => text.trim().to_lowercase(),
        Value::Array(items) => return of_list(parameter, items, variants),
        Value::Object(_) => return None,
        other => other.to_string(),
    };
    if value.is_string() {
        // The same word in other letters: "AUC", "Lossguide", "CrossEntropy".
        if let Some(same) = variants.iter().find(|v| squashed(v) == squashed(&text)) {
            return Some(Advice::Means(same.as_str().into(), vec![]));
        }
    }
    let find = |text: &str| {
        let squashed = squashed(text);
        let same = |theirs: &&str| *theirs == text || (!squashed.is_empty() && self::squashed(theirs) == squashed);
        let means = MEANS.iter().find(|(of, theirs, _)| *of == parameter && theirs.iter().any(same));
        let note = || NOTES.iter().find(|(of, theirs, _)| *of == parameter && theirs.contains(&text));
        means.map(|(.., ours)| Advice::Means((*ours).into(), vec![])).or_else(|| note().map(|(.., note)| Advice::Note(note)))
    };
    let near = || nearest(&text, variants.iter().map(String::as_str)).map(|ours| Advice::Means(ours.into(), vec![]));
    find(&text).or_else(|| with_arguments(parameter, &text, variants)).or_else(near).or_else(|| match (parameter, &text) {
        // Our own words in other letters.
        ("device", text) if value.as_str() != Some(text) && is_device(text) => Some(Advice::Means(text.as_str().into(), vec![])),
        // GPUs by number: "gpu:1", "1".
        ("device", text) => {
            let number: u32 = text.strip_prefix("gpu:").unwrap_or(text).parse().ok()?;
            Some(Advice::Means(format!("cuda:{number}").into(), vec![]))
        }
        _ => None,
    })
}

/// Whether this is what a device is called here.
fn is_device(text: &str) -> bool {
    DeviceSet::parse(text).is_ok()
}

/// A list where one word is asked for, or a list of words in other letters.
fn of_list(parameter: &str, items: &[Value], variants: &[String]) -> Option<Advice> {
    if matches!(parameter, "ctr" | "metric") {
        let is_ours = |s: &str| variants.iter().any(|v| s.split('@').next() == Some(v));
        let one = |item: &Value| match advice(parameter, item, variants) {
            _ if item.as_str().is_some_and(is_ours) => Some(item.clone()),
            Some(Advice::Means(ours, _)) => Some(ours),
            _ => None,
        };
        return items.iter().map(one).collect::<Option<Vec<Value>>>().map(|ours| Advice::Means(ours.into(), vec![]));
    }
    if !matches!(parameter, "loss" | "policy" | "border_method" | "row_sample") {
        return None;
    }
    let first = items.first()?;
    if first.as_str().is_some_and(|s| variants.iter().any(|v| v == s)) {
        return Some(Advice::Means(first.clone(), vec![]));
    }
    advice(parameter, first, variants)
}

/// CatBoost's words with arguments, as `Quantile:alpha=0.9`, and XGBoost's, as `tweedie-nloglik@1.5`.
fn with_arguments(parameter: &str, text: &str, variants: &[String]) -> Option<Advice> {
    let (word, arguments) = text.split_once([':', '@', ';'])?;
    if variants.iter().any(|ours| ours == word) && text.contains('@') {
        // Our own name with what it does not take.
        return None;
    }
    let Advice::Means(ours, mut others) = advice(parameter, &word.into(), variants)? else { return None };
    if let ("metric", Some(name)) = (parameter, ours.as_str()) {
        // A metric has its number behind an @, whoever's it is: `NDCG:top=5`, `Quantile:alpha=0.9`.
        let number = arguments.split(';').find_map(|argument| {
            let (of, number) = argument.split_once('=').unwrap_or(("", argument));
            let is_its = of.is_empty() || matches!(of, "top" | "alpha" | "delta" | "variance_power");
            number.trim_end_matches('-').parse::<f64>().ok().filter(|_| is_its)
        });
        return Some(Advice::Means(number.map_or(ours.clone(), |number| format!("{name}@{number}").into()), others));
    }
    for argument in arguments.split(';') {
        let Some((name, value)) = argument.split_once('=') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        match name {
            "alpha" => others.push(("alpha", value.into())),
            "delta" => others.push(("huber_delta", value.into())),
            "focal_gamma" => others.push(("focal_gamma", value.into())),
            "focal_alpha" => others.push(("focal_alpha", value.into())),
            "variance_power" => others.push(("tweedie_power", value.into())),
            _ => {}
        }
    }
    Some(Advice::Means(ours, others))
}
