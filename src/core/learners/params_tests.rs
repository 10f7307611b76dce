//! Parameters of other libraries, told all at once, with what to write instead.

use crate::encoding::target::TargetParams;
use crate::error::Error;
use crate::learners::boosting::BoostingParams;
use crate::learners::forest::ForestParams;
use crate::learners::linear::LinearParams;
use crate::metrics::{MetricKind, listed, metric_names};
use crate::objective::Link;
use crate::params::names;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What is wrong, a line each.
fn lines(result: crate::Result<impl std::fmt::Debug>) -> Vec<String> {
    result.unwrap_err().each().iter().map(Error::to_string).collect()
}

fn gbdt(value: Value) -> Vec<String> {
    lines(BoostingParams::from_json(&value))
}

fn only(value: Value) -> String {
    let all = gbdt(value);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

#[test]
fn every_problem_of_a_lightgbm_dictionary_is_told_at_once() {
    let params = json!({
        "objective": "binary", "metric": "AUC", "boosting_type": "gbdt", "num_leaves": 31, "learning_rate": 0.05,
        "feature_fraction": 0.9, "bagging_fraction": 0.8, "bagging_freq": 5, "verbose": -1, "num_iterations": 100,
        "lambda_l2": 1.0, "min_data_in_leaf": 20, "max_depth": -1
    });
    let all = gbdt(params);
    let known = listed(MetricKind::ALL.iter().copied(), "or");
    let metric = format!("parameter `metric`: \"AUC\" is not {known}; did you mean \"auc\"?");
    let expected = [
        metric.as_str(),
        "there is no parameter `bagging_fraction`; did you mean `row_fraction`?",
        "there is no parameter `bagging_freq`: leave it out: rows are drawn anew for every tree where row_sample= asks for it",
        "there is no parameter `boosting_type`; did you mean `boosting`?",
        "there is no parameter `lambda_l2`; did you mean `l2`?",
        "there is no parameter `max_depth`, which is `depth` here; of -1: leave it out for no limit (policy=\"leafwise\" has none unless told)",
        "there is no parameter `num_iterations`; did you mean `rounds`?",
        "there is no parameter `num_leaves`; did you mean `leaves`?",
        "there is no parameter `objective`; did you mean `loss=\"logloss\"`?",
        "there is no parameter `verbose`: progress=True shows a progress bar, progress=False none; `Model.history` has the metric of every round",
        "parameter `leaves`: counts only under policy=\"leafwise\"; elsewhere `depth` limits a tree",
        "parameter `row_fraction`: needs row_sample=\"bernoulli\", \"goss\" or \"mvs\"",
    ];
    assert_eq!(all, expected);
    // What the lines say is a call that is right.
    let said = json!({
        "loss": "logloss", "metric": "auc", "leaves": 31, "policy": "leafwise", "learning_rate": 0.05, "feature_fraction": 0.9,
        "row_fraction": 0.8, "row_sample": "bernoulli", "rounds": 100, "l2": 1.0, "min_data_in_leaf": 20
    });
    BoostingParams::from_json(&said).unwrap();
}

#[test]
fn a_single_problem_has_the_text_that_it_had() {
    assert_eq!(only(json!({"round": 1})), "there is no parameter `round`; did you mean `rounds`?");
    assert_eq!(only(json!({"rounds": 0})), "parameter `rounds`: 0 is not between 1 and 1,000,000");
    let error = BoostingParams::from_json(&json!({"rounds": 0, "bins": 0})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 parameters are wrong:\n- parameter `rounds`: 0 is not between 1 and 1,000,000\n- parameter `bins`: 0 is not between 2 and 256"
    );
}

#[test]
fn words_of_others_are_translated() {
    let cases = [
        ("loss", "binary", "logloss"),
        ("loss", "RMSE", "rmse"),
        ("loss", "Logloss", "logloss"),
        ("loss", "MultiClass", "multiclass"),
        ("loss", "CrossEntropy", "cross_entropy"),
        ("loss", "reg:squarederror", "rmse"),
        ("loss", "binary:logistic", "logloss"),
        ("loss", "multi:softprob", "multiclass"),
        ("loss", "survival:cox", "cox"),
        ("loss", "survival:aft", "aft"),
        ("metric", "cox-nloglik", "cox_nloglik"),
        ("loss", "l2", "rmse"),
        ("loss", "mse", "rmse"),
        ("metric", "AUC", "auc"),
        ("metric", "binary_logloss", "logloss"),
        ("policy", "Lossguide", "leafwise"),
        ("policy", "SymmetricTree", "symmetric"),
        ("row_sample", "MVS", "mvs"),
        ("border_method", "GreedyLogSum", "greedy_logsum"),
        ("border_method", "Median", "quantile"),
        ("cat_method", "OneHot", "one_hot"),
        ("class_weight", "Balanced", "balanced"),
        ("device", "gpu", "cuda"),
        ("device", "GPU", "cuda"),
        ("device", "CPU", "cpu"),
        ("device", "CUDA:1", "cuda:1"),
    ];
    for (name, theirs, ours) in cases {
        // A GPU that is not there is a second problem.
        let text = gbdt(json!({name: theirs})).swap_remove(0);
        assert!(text.ends_with(&format!("; did you mean \"{ours}\"?")), "{text}");
    }
    let text = only(json!({"loss_function": "Quantile:alpha=0.9"}));
    assert_eq!(text, "there is no parameter `loss_function`; did you mean `loss=\"quantile\", alpha=0.9`?");
    for theirs in ["n_estimators", "iterations", "trees"] {
        assert_eq!(only(json!({theirs: 5})), format!("there is no parameter `{theirs}`; did you mean `rounds`?"));
    }
    let text = only(json!({"border_count": 254}));
    assert_eq!(text, "there is no parameter `border_count`; did you mean `bins=255`?");
    let text = only(json!({"simple_ctr": ["Borders", "Counter"]}));
    assert_eq!(text, "there is no parameter `simple_ctr`; did you mean `ctr=[\"borders\", \"counter\"]`?");
    assert_eq!(
        lines(ForestParams::from_json(&json!({"criterion": "log_loss", "n_estimators": 3})))[1],
        "there is no parameter `n_estimators`; did you mean `trees`?"
    );
    assert!(lines(LinearParams::from_json(&json!({"solver": "liblinear"})))[0].ends_with("did you mean `optimizer=\"lbfgs\"`?"));
}

#[test]
fn what_there_is_not_says_what_to_do() {
    for (name, value, part) in [
        ("tree_method", json!("hist"), "histograms"),
        ("boosting", json!("goss"), "row_sample=\"goss\""),
        ("boosting_type", json!("Ordered"), "boosting=\"ordered\""),
        ("sample_type", json!("uniform"), "uniform_drop=True"),
        ("has_time", json!(true), "order_by="),
        ("drop_rate", json!(0.5), "counts only under boosting=\"dart\""),
        ("features", json!(["a"]), "by position"),
        ("eval_set", json!(null), "pl.concat"),
        ("init_model", json!(null), "an argument of `fit_gbdt`"),
        ("xgb_model", json!(null), "baseline=tg.predict"),
        ("snapshot_file", json!("fit"), "snapshot= of `fit_gbdt`"),
        ("verbosity", json!(0), "progress=True"),
        ("n_threads", json!(-1), "leave it out"),
        ("early_stopping", json!(true), "the number of rounds"),
        ("bins", json!(257), "between 2 and 256"),
    ] {
        let text = only(json!({name: value}));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn wrong_types_are_told_in_the_words_of_python() {
    for (name, value, expected) in [
        ("rounds", json!(1.5), "1.5 is not a whole number from 0 on"),
        ("l2", json!("much"), "\"much\" is not a number"),
        ("bundle", json!("yes"), "\"yes\" is not True or False"),
        ("monotone", json!([1, 0]), "[1, 0] is not a dict of -1, 0 or 1 by feature name, as {\"a\": 1}"),
        ("bins", json!("many"), "\"many\" is not a whole number from 2 to 256, or a dict of such by feature name, as {\"a\": 32}"),
        ("feature_weights", json!([1, 0]), "[1, 0] is not a dict of numbers from 0 on by feature name, as {\"a\": 2.0}"),
        ("class_weight", json!(3), "3 is not \"balanced\", or a dict of a weight for each label"),
        ("categorical", json!(true), "True is not a list of feature names"),
        ("policy", json!(3), "3 is not \"symmetric\", \"depthwise\" or \"leafwise\""),
        (
            "ctr",
            json!(["mean"]),
            "[\"mean\"] is not a list of \"borders\", \"buckets\", \"binarized_target_mean_value\", \"float_target_mean_value\" or \"counter\"",
        ),
    ] {
        assert_eq!(only(json!({name: value})), format!("parameter `{name}`: {expected}"));
    }
    let text = lines(TargetParams::from_json(&json!({"prior_weight": "much"})));
    assert_eq!(text, ["parameter `prior_weight`: \"much\" is not zero or a positive number, or \"auto\""]);
}

#[test]
fn a_loss_that_is_named_is_held_against_metric_and_class_weight() {
    let all = gbdt(json!({"loss": "mae", "metric": "auc", "class_weight": "balanced"}));
    let known = metric_names(|metric| metric.fits(Link::Identity));
    assert_eq!(
        all,
        [
            "parameter `class_weight`: loss=\"mae\" has no classes to weigh; give rows a `weight`",
            &format!("parameter `metric`: \"auc\" can't be measured on the predictions of loss=\"mae\"; {known} can"),
        ]
    );
    assert!(BoostingParams::from_json(&json!({"loss": "poisson", "metric": "gamma"})).is_ok());
}

#[test]
fn held_out_rows_are_asked_for_where_they_are_needed() {
    let call = json!({"early_stopping_rounds": 5});
    let all = lines(BoostingParams::check_call(&call, false));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[1].starts_with("parameter `early_stopping`: needs held-out rows"), "{all:?}");
    assert_eq!(lines(BoostingParams::check_call(&call, true)).len(), 1);
    assert!(BoostingParams::check_call(&json!({"metric": "mae"}), true).is_ok());
}

#[test]
fn what_no_loss_and_no_metric_reads_is_told_of_where_somebody_asks_for_it() {
    let cases = [
        ("alpha", json!(0.9), json!({"loss": "expectile"}), json!({"metric": ["mae", "quantile"]})),
        ("huber_delta", json!(2.0), json!({"loss": "huber"}), json!({"metric": "huber"})),
        ("tweedie_power", json!(1.2), json!({"loss": "tweedie"}), json!({"metric": "tweedie"})),
        ("focal_gamma", json!(1.0), json!({"loss": "focal"}), json!({"metric": "focal"})),
        ("focal_alpha", json!(0.3), json!({"loss": "focal"}), json!({"metric": "focal"})),
        ("aft_distribution", json!("logistic"), json!({"loss": "aft"}), json!({"loss": "aft"})),
        ("aft_scale", json!(2.0), json!({"loss": "aft"}), json!({"loss": "aft"})),
        ("rank_truncation", json!(3), json!({"loss": "lambdarank"}), json!({"loss": "pairwise"})),
        ("rank_normalize", json!(false), json!({"loss": "lambdarank"}), json!({"loss": "lambdarank"})),
        ("rank_orders", json!(3), json!({"loss": "yetirank"}), json!({"loss": "yetirank"})),
        ("rank_decay", json!(0.5), json!({"loss": "yetirank"}), json!({"loss": "yetirank"})),
        ("rank_position_l2", json!(0.5), json!({"loss": "lambdarank"}), json!({"loss": "xendcg"})),
    ];
    for (name, value, by_loss, by_metric) in cases {
        // Not `|mut call: Value|`, of which rustc 1.95 makes a use after free where what is passed is a constant (rust-lang/rust#155241).
        let with = |call: &Value| {
            let mut own = call.clone();
            own[name] = value.clone();
            own
        };
        let all = lines(BoostingParams::check_call(&with(&json!({})), true));
        assert_eq!(all.len(), 1, "{name}: {all:?}");
        assert!(all[0].starts_with(&format!("parameter `{name}`: counts only under ")), "{all:?}");
        for call in [by_loss, by_metric] {
            assert!(BoostingParams::check_call(&with(&call), true).is_ok(), "{name} {call}");
        }
        // A model says what it was given.
        assert!(BoostingParams::from_json(&with(&json!({}))).is_ok(), "{name}");
    }
    for loss in ["rmse", "quantile", "huber", "focal", "aft", "yetirank", "tweedie"] {
        let kept = BoostingParams::from_json(&json!({"loss": loss})).expect("parameters").kept().to_json();
        assert!(BoostingParams::check_call(&kept, true).is_ok(), "{loss}");
    }
    let text = lines(BoostingParams::check_call(&json!({"alpha": 0.9, "metric": "quantile@0.5"}), true));
    assert_eq!(
        text,
        ["parameter `alpha`: counts only under loss=\"quantile\", loss=\"expectile\", metric=\"quantile\", metric=\"expectile\""]
    );
}

#[test]
fn no_name_of_theirs_stands_twice_or_for_nothing() {
    let mut seen = BTreeSet::new();
    let known: BTreeSet<String> =
        [json!(BoostingParams::default()), json!(ForestParams::default()), json!(LinearParams::default()), json!(TargetParams::default())]
            .iter()
            .flat_map(|defaults| defaults.as_object().unwrap().keys().cloned().collect::<Vec<_>>())
            .collect();
    for name in names::all() {
        assert!(names::meaning(name, |ours| known.contains(ours) || crate::params::COLUMNS.contains(&ours)).is_some(), "{name}");
        // `tol` and the like mean one thing to one learner and another to others.
        seen.insert(name);
    }
    assert!(seen.len() > 300, "{}", seen.len());
}

#[test]
fn the_value_of_a_known_name_is_never_refused_for_the_tables_of_others() {
    for ours in ["cpu", "auto"] {
        assert!(BoostingParams::from_json(&json!({"device": ours})).is_ok());
    }
    for loss in ["auto", "rmse", "logloss", "cross_entropy", "multiclass", "mae", "quantile", "huber", "poisson", "gamma", "tweedie"] {
        assert!(BoostingParams::from_json(&json!({"loss": loss})).is_ok());
    }
}

/// The text of Python's `fit_*`, in a file of the package.
fn python(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/polars_taiga").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// The words in quotes.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('"').skip(1).step_by(2).map(String::from).collect()
}

/// Checks that the `TypedDict` called `class` has the parameters of `defaults` and no others, that the docstring has a paragraph for
/// each, and that it takes the words that `fault` names, which says what is wrong with a parameter's value.
fn check_python(file: &str, class: &str, defaults: Value, fault: impl Fn(&str, &str) -> Option<String>) {
    let text = python(file);
    let body = text.split_once(&format!("class {class}(TypedDict")).unwrap().1;
    let fields = body.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("    "));
    let types: std::collections::BTreeMap<&str, &str> = fields
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    // In Python the formulas of a loss of one's own are a value of `loss`; factors of positions are what a fit finds, and
    // names of targets are the target's.
    let apart = ["custom_loss", "position_factors", "targets"];
    let names: BTreeSet<&str> = defaults.as_object().unwrap().keys().map(String::as_str).filter(|name| !apart.contains(name)).collect();
    assert_eq!(types.keys().copied().collect::<BTreeSet<_>>(), names, "the fields of {class}");

    let docs = text.split_once("    Parameters\n    ----------\n").unwrap().1.split_once("\n    Raises\n").unwrap().0;
    let headers = docs.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    let told: BTreeSet<&str> = headers.flat_map(|line| line.trim().split(", ")).collect();
    for (name, python) in types {
        assert!(told.contains(name), "{class}: `{name}` is not documented");
        // An alias stands for what is written at its definition.
        let alias = match python.trim_end_matches(" | None").trim_end_matches(" | CustomLoss") {
            "Metrics" => "Metric",
            other => other.trim_start_matches("Sequence[").trim_end_matches(']'),
        };
        let python = text.split_once(&format!("\n{alias} = Literal[")).map_or(python, |(_, rest)| rest.split(']').next().unwrap());
        if python.contains('"') {
            let said = fault(name, "\u{1}").unwrap();
            let known = quoted(said.split_once(" is not ").unwrap().1);
            let takes = |word: &String| !fault(name, word).is_some_and(|said| said.contains(&format!("\"{word}\" is not ")));
            // What is the default may be left unsaid.
            let unsaid = BTreeSet::from(["none".to_string(), "custom".to_string()]);
            let (ours, theirs) = (known.into_iter().filter(takes).collect::<BTreeSet<_>>(), quoted(python));
            assert_eq!(ours.difference(&unsaid).collect::<Vec<_>>(), theirs.difference(&unsaid).collect::<Vec<_>>(), "{class}: `{name}`");
        }
    }
}

#[test]
fn python_has_the_same_parameters_and_words() {
    macro_rules! check {
        ($file:literal, $params:ident) => {
            $params::from_json(&json!({})).unwrap();
            check_python($file, stringify!($params).replace("Boosting", "Gbdt").as_str(), json!($params::default()), |name, value| {
                $params::from_json(&json!({name: value})).err().map(|error| error.to_string())
            });
        };
    }
    check!("gbdt.py", BoostingParams);
    check!("forest.py", ForestParams);
    check!("linear.py", LinearParams);
}
