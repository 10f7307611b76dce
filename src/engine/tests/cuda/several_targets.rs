//! Several targets, and several scores of one, on the GPU: one tree for all of them, or a tree each. The models are the CPU's, byte for byte.

use serde_json::{Value, json};
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::Input;
use taiga_engine::dataset::labels::Labels;
use taiga_testing::contract::table;
use taiga_testing::devices::{assert_same, both, compare};
use taiga_testing::gpu::{gpu, say};
use taiga_testing::{Dice, POLICIES, Table, Wanted, params, params_with};

/// The losses that several targets may have; `rmse` twice, with targets of units far apart.
const LOSSES: [&str; 12] =
    ["rmse", "units", "mae", "quantile", "huber", "expectile", "log_cosh", "poisson", "gamma", "tweedie", "cross_entropy", "multilabel"];

/// A table of `count` targets that a loss may have, with missing values in a third of its features.
fn targets(rows: usize, features: usize, (loss, count): (&str, usize), seed: u64) -> Table {
    let mut t = table(rows, features, if ["units", "multilabel"].contains(&loss) { "rmse" } else { loss }, seed);
    let y = t.y();
    let of_target = |k: usize| -> Vec<f64> {
        let mixed = |i: usize| if k < 2 { y[i] } else { 0.5 * (y[i] + y[(i * (k + 2) + 7 * k) % rows]) };
        let value = |i: usize| match loss {
            "multilabel" => (mixed(i) > 0.4 * (k % 6) as f64 - 1.0) as u8 as f64,
            "units" => mixed(i) * 10f64.powi(3 * k as i32 - 4),
            "poisson" | "gamma" | "tweedie" => mixed(i) * (1 + k) as f64,
            _ => mixed(i),
        };
        (0..rows).map(value).collect()
    };
    t.target = Wanted::Several((0..count).map(of_target).collect());
    t
}

/// The parameters of a loss, in one tree.
fn of_loss(loss: &str, policy: &str) -> Value {
    let own = json!({ "loss": if loss == "units" { "rmse" } else { loss }, "policy": policy, "rounds": 4, "multi_strategy": "one_tree" });
    match loss {
        "huber" => params_with(own, json!({ "huber_delta": 0.8 })).to_json(),
        "quantile" | "expectile" => params_with(own, json!({ "alpha": 0.8 })).to_json(),
        _ => own,
    }
}

/// Proves equal bytes for the plainest fits, of few targets and of many, from two rows on.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn one_tree_is_the_cpus() {
    gpu();
    for count in [2, 3, 5, 20, 50] {
        for policy in POLICIES {
            for rows in [2, 10, 700, 20_000] {
                let t = targets(rows, 6, ("rmse", count), count as u64);
                compare(&t, &params(of_loss("rmse", policy)), &format!("{count} targets, {policy}, {rows} rows"));
            }
        }
    }
}

/// Proves equal bytes for every loss, policy and way to draw rows, with weights, held-out rows and early stopping, limits and shares of features
/// dealt out over them.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn any_loss_and_sample() {
    gpu();
    let mut case = 0;
    for loss in LOSSES {
        for policy in POLICIES {
            for sample in ["none", "bernoulli", "goss", "mvs"] {
                case += 1;
                let mut t = targets(6_000, 7, (loss, 2 + case % 4), case as u64);
                let mut dice = Dice::new(case as u64);
                t.weight =
                    (case % 2 == 0).then(|| (0..6_000).map(|i| if case % 4 == 0 { (i % 3) as f64 } else { 0.1 + dice.unit() }).collect());
                t.held_out = (case % 3 == 0).then(|| (0..6_000).map(|_| dice.chance(0.2)).collect());
                let mut more = json!({ "row_sample": sample, "seed": case });
                for (name, every, value) in [
                    ("early_stopping", 6, json!(1)),
                    ("min_data_in_leaf", 5, json!(20)),
                    ("min_child_weight", 7, json!(3)),
                    ("feature_fraction", 4, json!(0.7)),
                    ("l1", 8, json!(0.4)),
                    ("row_fraction", 9, json!(0.3)),
                    ("bins", 10, json!(9)),
                ] {
                    // A share of all rows is no share that is drawn.
                    if case % every == 0 && (name != "row_fraction" || sample != "none") {
                        more[name] = value;
                    }
                }
                compare(&t, &params_with(of_loss(loss, policy), more.clone()), &format!("{loss}, {policy}: {more}"));
            }
        }
    }
}

/// Proves equal bytes of one tree for the classes, the quantiles, the mean and the variance of one target.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn scores_of_one_target_share_trees() {
    gpu();
    let mut case = 0;
    for loss in ["multiclass", "ova", "quantiles", "gaussian"] {
        for policy in POLICIES {
            for more in [json!({}), json!({ "row_sample": "mvs", "min_data_in_leaf": 7 }), json!({ "row_sample": "goss" })] {
                case += 1;
                let mut t = table(7_000, 6, loss, case);
                t.weight = (case % 2 == 0).then(|| (0..7_000).map(|i| 0.5 + (i % 5) as f64).collect());
                t.held_out = (case % 3 == 0).then(|| (0..7_000).map(|i| i % 6 == 1).collect());
                let own = match loss {
                    "quantiles" => json!({ "loss": "quantile", "alpha": [0.1, 0.5, 0.9], "policy": policy, "rounds": 4 }),
                    _ => json!({ "loss": loss, "policy": policy, "rounds": 4 }),
                };
                let p = params_with(params_with(own, json!({ "multi_strategy": "one_tree" })).to_json(), more.clone());
                compare(&t, &p, &format!("{loss}, {policy}: {more}"));
            }
        }
    }
}

/// Proves equal bytes at the edges of the layout: one border and 255, several blocks of features, deep trees, many leaves, more outputs than
/// a block of threads has warps and threads; and where limits bind a level.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn edges_of_the_layout() {
    gpu();
    for (rows, features, count, more) in [
        (20_000, 6, 3, json!({ "rounds": 12 })),
        (20_000, 6, 3, json!({ "bins": 2, "policy": "depthwise" })),
        (8_000, 33, 4, json!({ "policy": "leafwise", "min_data_in_leaf": 9 })),
        (8_000, 70, 2, json!({ "policy": "symmetric", "min_child_weight": 3 })),
        (8_000, 40, 9, json!({ "policy": "depthwise", "depth": 9, "row_sample": "mvs" })),
        (3_000, 5, 3, json!({ "depth": 10, "min_child_weight": 0 })),
        (3_000, 5, 3, json!({ "depth": 14, "policy": "depthwise", "min_child_weight": 0 })),
        (9_000, 6, 3, json!({ "leaves": 300, "depth": 20, "policy": "leafwise", "min_child_weight": 0 })),
        (1_000, 3, 300, json!({ "policy": "depthwise", "depth": 3 })),
        (1_000, 3, 300, json!({ "policy": "symmetric", "depth": 3 })),
        (20_000, 6, 4, json!({ "min_data_in_leaf": 40, "depth": 8 })),
        (20_000, 6, 4, json!({ "min_child_weight": 60, "l1": 0.5 })),
        (400, 6, 2, json!({ "min_data_in_leaf": 10, "row_sample": "bernoulli", "row_fraction": 0.5 })),
        (5_000, 6, 3, json!({ "feature_fraction_level": 0.6, "interaction": [["x0", "x1"], ["x2", "x3"]] })),
        (5_000, 6, 3, json!({ "policy": "depthwise", "feature_fraction_node": 0.5, "interaction": [["x0", "x1"]] })),
        (200_000, 3, 2, json!({ "policy": "depthwise", "l1": 0.5 })),
    ] {
        for loss in ["rmse", "multilabel"] {
            let t = targets(rows, features, (loss, count), 3);
            let p = params_with(json!({ "loss": loss, "rounds": 3 }), more.clone());
            compare(&t, &p, &format!("{rows} x {features}, {count} of {loss}: {more}"));
        }
    }
    // As many borders as there can be, with and without missing values.
    for missing in [0.0, 0.2] {
        let mut dice = Dice::new(9);
        let columns = (0..3).map(|_| (0..20_000).map(|_| if dice.chance(missing) { f64::NAN } else { dice.normal() }).collect()).collect();
        let y = |k: u64| -> Vec<f64> { (0..20_000).map(|i| ((i * (k + 3)) % 1013) as f64 + Dice::new(i + k).normal()).collect() };
        let t = Table::several(columns, (0..3).map(y).collect());
        for policy in POLICIES {
            compare(
                &t,
                &params(json!({ "rounds": 3, "policy": policy, "bins": 256 })),
                &format!("255 borders, missing {missing}, {policy}"),
            );
        }
    }
}

/// Proves equal bytes where the statistics of one target are wide, whereby all are, where a target is constant, and where all are equal.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn wide_and_constant_targets() {
    gpu();
    for policy in POLICIES {
        for (weighted, min_data) in [(false, 0), (true, 0), (false, 20), (true, 20)] {
            let mut t = targets(20_000, 6, ("rmse", 4), 5);
            let Wanted::Several(y) = &mut t.target else { unreachable!() };
            y[2][1234] = 1e9;
            y[1].fill(3.0);
            let mut dice = Dice::new(6);
            t.weight = weighted.then(|| (0..20_000).map(|i| if i == 999 { 1e6 } else { dice.unit() }).collect());
            let p = params(json!({ "rounds": 5, "policy": policy, "min_data_in_leaf": min_data, "learning_rate": 0.8 }));
            compare(&t, &p, &format!("{policy}, weighted {weighted}, {min_data}"));
        }
        let mut t = targets(5_000, 5, ("rmse", 3), 6);
        let y = t.y()[..5_000].to_vec();
        t.target = Wanted::Several(vec![y; 3]);
        compare(&t, &params(json!({ "rounds": 5, "policy": policy })), &format!("{policy}, equal targets"));
    }
}

/// Proves equal bytes for columns of categories under every method: subsets, statistics under several permutations, combinations, one-hot
/// questions; with smoothing of 0, where a category may have no hessian of an output.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn categories() {
    gpu();
    let methods = [
        json!({ "cat_method": "partition", "policy": "depthwise" }),
        json!({ "cat_method": "partition", "policy": "leafwise", "row_sample": "mvs", "min_data_in_leaf": 5 }),
        json!({ "cat_method": "partition", "policy": "depthwise", "cat_smooth": 0.0, "cat_l2": 0.0, "min_child_weight": 0 }),
        json!({ "cat_method": "partition", "policy": "leafwise", "max_cat_threshold": 3, "feature_fraction_node": 0.5 }),
        json!({ "policy": "symmetric" }),
        json!({ "policy": "depthwise", "max_combination": 3, "permutations": 2 }),
        json!({ "policy": "leafwise", "max_combination": 2, "permutations": 3, "row_sample": "goss" }),
        json!({ "policy": "symmetric", "one_hot_max_size": 50, "max_combination": 1 }),
    ];
    for (case, more) in methods.into_iter().enumerate() {
        for (loss, count) in [("rmse", 3), ("multilabel", 5), ("mae", 2), ("poisson", 20)] {
            let rows = [6000, 40, 21_000, 500][case % 4];
            let mut dice = Dice::new(case as u64);
            let text: Vec<Vec<Option<String>>> = [4, 300, 12]
                .iter()
                .map(|k| (0..rows).map(|_| (!dice.chance(0.03)).then(|| format!("k{}", dice.below(*k) * dice.below(*k) / k))).collect())
                .collect();
            let columns: Vec<CategoryColumn> = text
                .iter()
                .enumerate()
                .map(|(i, c)| CategoryColumn::text(&format!("c{i}"), &[rows], |_, r| c[r].as_deref()).unwrap())
                .collect();
            let mut t = targets(rows, 2, (loss, count), case as u64);
            t.weight = (case % 3 == 0).then(|| (0..rows).map(|i| 0.5 + (i % 5) as f64).collect());
            t.held_out = (case % 2 == 0).then(|| (0..rows).map(|_| dice.chance(0.2)).collect());
            let mut features = t.features();
            features.extend(columns.iter().map(Column::categorical));
            let own = params_with(of_loss(loss, "symmetric"), json!({ "depth": 4, "seed": case, "learning_rate": 0.3 }));
            let p = params_with(own.to_json(), more.clone());
            assert_same(&both(&Input { features, ..t.input() }, &p), &format!("{rows} rows, {count} of {loss}: {more}"));
        }
    }
}

/// Proves equal bytes of several targets with a tree each, whose derivatives and residuals read a target of their own.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_tree_each() {
    gpu();
    for (case, loss) in ["rmse", "mae", "multilabel", "poisson", "quantile"].into_iter().enumerate() {
        for (policy, more) in [
            ("symmetric", json!({})),
            ("depthwise", json!({ "row_sample": "goss" })),
            ("leafwise", json!({ "row_sample": "mvs", "min_data_in_leaf": 5 })),
        ] {
            let mut t = table(9_000, 6, "rmse", 300 + case as u64);
            let y = t.y();
            let target = |k: usize| -> Vec<f64> {
                let value = |y: &f64| {
                    if loss == "multilabel" { (*y > k as f64 - 1.0) as u8 as f64 } else { (y + k as f64).abs() * 10f64.powi(k as i32) }
                };
                y.iter().map(value).collect()
            };
            t.target = Wanted::Several((0..3).map(target).collect());
            t.weight = (case % 2 == 1).then(|| (0..9_000).map(|i| 0.5 + (i % 5) as f64).collect());
            t.held_out = (case % 3 == 1).then(|| (0..9_000).map(|i| i % 7 == 0).collect());
            let own = json!({ "loss": loss, "policy": policy, "rounds": 4, "depth": 5, "multi_strategy": "tree_each" });
            compare(&t, &params_with(own, more), &format!("{loss} {policy}"));
        }
    }
}

/// Proves equal errors: of a direction in a tree of several targets, and of derivatives that are not finite.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn errors_are_the_cpus() {
    gpu();
    let t = targets(500, 3, ("rmse", 2), 1);
    let mut far = targets(500, 3, ("rmse", 2), 2);
    far.weight = Some((0..500).map(|i| if i == 3 { 1e38 } else { 1e-30 }).collect());
    for (t, p) in
        [(&t, json!({ "monotone": { "x0": 1 } })), (&far, json!({ "rounds": 3, "learning_rate": 1.0, "l2": 0.0, "min_child_weight": 0 }))]
    {
        let on = |device: &str| {
            let fitted = t.try_fit(&params_with(p.clone(), json!({ "device": device })));
            fitted.map(|model| model.to_bytes()).map_err(|e| e.to_string())
        };
        assert!(on("cpu") == on("cuda"), "{p}: {:?}", on("cuda").err());
    }
    assert!(t.try_fit(&params(json!({ "monotone": { "x0": 1 }, "device": "cuda" }))).unwrap_err().to_string().contains("tree_each"));
}

/// A few small fits that touch every kernel of shared trees: what `compute-sanitizer` is run on.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn every_kernel_once() {
    gpu();
    for (loss, count, more) in [
        ("rmse", 3, json!({ "policy": "symmetric", "min_data_in_leaf": 5 })),
        ("multilabel", 9, json!({ "policy": "depthwise", "row_sample": "mvs" })),
        ("mae", 2, json!({ "policy": "leafwise", "row_sample": "goss" })),
    ] {
        let t = targets(3000, 6, (loss, count), 21);
        let p = params_with(of_loss(loss, "symmetric"), json!({ "rounds": 2 }));
        compare(&t, &params_with(p.to_json(), more.clone()), &format!("{loss}: {more}"));
    }
    let mut t = targets(3000, 4, ("rmse", 3), 22);
    let Wanted::Several(y) = &mut t.target else { unreachable!() };
    y[1][1234] = 1e9;
    t.weight = Some((0..3000).map(|i| 1.0 + (i % 3) as f64).collect());
    compare(&t, &params(json!({ "rounds": 2, "depth": 3, "policy": "depthwise", "min_data_in_leaf": 3 })), "wide");
    let t = targets(3000, 2, ("rmse", 3), 23);
    let codes: Vec<i64> = (0..3000).map(|i| i * 7 % 23).collect();
    let column = CategoryColumn::integers("c", &[3000], |_, row| Some(codes[row])).unwrap();
    let mut features = t.features();
    features.push(Column::categorical(&column));
    let p = params(json!({ "rounds": 2, "depth": 3, "policy": "depthwise", "cat_method": "partition" }));
    assert_same(&both(&Input { features, ..t.input() }, &p), "subsets");
}

/// Prints the times of fits of 20 targets, in one tree and in a tree each, and of a classifier's.
#[test]
#[ignore = "prints times; asserts nothing"]
fn times_of_shared_trees() {
    gpu();
    for (rows, count) in [(100_000, 2), (100_000, 20), (1_000_000, 5), (1_000_000, 20)] {
        let t = targets(rows, 28, ("rmse", count), 1);
        for policy in POLICIES {
            for (device, strategy) in [("cuda", "one_tree"), ("cuda", "one_tree"), ("cuda", "tree_each"), ("cpu", "one_tree")] {
                let p = params(json!({ "rounds": 20, "device": device, "policy": policy, "multi_strategy": strategy }));
                let start = std::time::Instant::now();
                t.fit(&p);
                say(&format!("{rows} rows, {count} targets, {policy}, {strategy}, {device}: {:.3} s", start.elapsed().as_secs_f64()));
            }
        }
    }
}

/// Proves that labels of classes are of no matter to shared trees: the same table as classes and by one tree gives the CPU's bytes where
/// some class is rare.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn rare_classes_share_trees() {
    gpu();
    for policy in POLICIES {
        let t = table(4_000, 5, "rmse", 40);
        let codes = t.y().iter().enumerate().map(|(i, y)| if i % 1500 == 7 { 3 } else { (*y > 0.0) as u32 + (*y > 1.0) as u32 }).collect();
        let t = Table::classes(t.columns, codes, Labels::Integer(vec![1, 2, 3, 9]));
        let p = params(json!({ "rounds": 6, "policy": policy, "multi_strategy": "one_tree", "min_child_weight": 0 }));
        compare(&t, &p, policy);
    }
}
