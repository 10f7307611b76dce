//! Models of LightGBM, 2.0 to 4.7, in their text.
//!
//! Rows go left where their f64 is not larger than the threshold, and categories whose bit is set. What is missing is told at each node: NaN,
//! which goes to a side; NaN and all that is as good as zero, which do; or nothing, and NaN counts as 0. What is as good as zero is 0 to it
//! before it compares, so a threshold among these parts all of them from the others. Sums are of f64s in the order of the
//! trees, as ours, so scores are equal in every bit. So are the linear functions of a row's values that leaves may be (`linear_tree`), which
//! count as here where a value is NaN; where one is infinite, a leaf has its plain value here, and an infinite one or none there.

use super::foreign::{Foreign, ForeignColumn, ForeignLinear, ForeignTree, Predicts, RawNode, Shape, Test};
use super::{Imported, Told, fault};
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::from_json::LabelIn;
use std::collections::HashMap;
use std::str::FromStr;

const LIBRARY: &str = "LightGBM";

/// What is no larger than this, to either side, is as good as zero: an f32, widened.
const ZERO: f64 = 1e-35f32 as f64;

/// The border of a threshold: rows above it go right.
fn border(threshold: f64) -> f64 {
    match threshold.abs() <= ZERO {
        true if threshold < 0.0 => (-ZERO).next_down(),
        true => ZERO,
        false => threshold,
    }
}

fn wrong(what: impl std::fmt::Display) -> crate::Error {
    fault(LIBRARY, what)
}

/// The lines `name=value` of a part of a file.
struct Fields<'a>(HashMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn list<T: FromStr>(&self, name: &str) -> std::result::Result<Vec<T>, String> {
        let text = self.0.get(name).copied().unwrap_or("");
        text.split_ascii_whitespace().map(|x| x.parse().map_err(|_| format!("{x:?} among its {name}"))).collect()
    }

    fn number<T: FromStr>(&self, name: &str) -> std::result::Result<Option<T>, String> {
        self.0.get(name).map(|x| x.trim().parse().map_err(|_| format!("its {name} is {x:?}"))).transpose()
    }
}

/// Reads a model.
///
/// # Errors
/// As [`super::import`].
pub fn read_text(text: &str, told: Told) -> Result<Imported> {
    let mut head = HashMap::new();
    let mut trees: Vec<Fields<'_>> = vec![];
    let mut categories: Vec<Vec<LabelIn>> = vec![];
    let mut parameters = HashMap::new();
    let (mut is_whole, mut is_tree) = (false, false);
    for line in text.lines().skip(1) {
        // The first files of v2 have no line for the end, and go on with this.
        if line == "end of trees" || line == "feature importances:" {
            (is_whole, is_tree) = (true, false);
        } else if let Some(json) = line.strip_prefix("pandas_categorical:") {
            let read: Option<Vec<Vec<LabelIn>>> = serde_json::from_str(json).map_err(|e| wrong(format!("pandas_categorical: {e}")))?;
            categories = read.unwrap_or_default();
        } else if let Some((name, value)) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')?.split_once(": ")) {
            parameters.insert(name, value);
        } else if line.starts_with("Tree=") && !is_whole {
            trees.push(Fields(HashMap::new()));
            is_tree = true;
        } else if !is_whole {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            match trees.last_mut().filter(|_| is_tree) {
                Some(tree) => tree.0.insert(name, value),
                None => head.insert(name, value),
            };
        }
    }
    let head = Fields(head);
    match head.0.get("version").copied() {
        Some("v2" | "v3" | "v4") => {}
        other => return Err(wrong(format!("the text is of version {}, and v2 to v4 are read", other.unwrap_or("none")))),
    }
    if !is_whole {
        return Err(wrong("the text is cut: its trees do not end"));
    }
    model((&head, &Fields(parameters)), &trees, categories, told)
}

/// Returns the parameters of a loss that a model keeps, of those that its text ends with.
fn params_of(loss: LossKind, parameters: &Fields<'_>) -> BoostingParams {
    let name = if loss == LossKind::Tweedie { "tweedie_variance_power" } else { "alpha" };
    let mut params = BoostingParams::default();
    params.set_loss_number(loss, parameters.number(name).ok().flatten());
    params
}

/// What an objective comes to: the loss, what it predicts, and by what scores are multiplied.
fn meaning(objective: &str, outputs: usize) -> Result<(LossKind, Predicts, f64)> {
    use LossKind::{CrossEntropy, Gamma, Huber, Lambdarank, Logloss, Mae, Mape, Multiclass, Ova, Poisson, Quantile, Rmse, Tweedie, Xendcg};
    use Predicts::{Classes, Numbers};
    let mut words = objective.split_ascii_whitespace();
    let name = words.next().unwrap_or("");
    let mut sigmoid = 1.0;
    for word in words {
        if let Some(x) = word.strip_prefix("sigmoid:") {
            let x: Option<f64> = x.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
            sigmoid = x.ok_or_else(|| wrong(format!("the objective {objective:?}")))?;
        }
        if word == "sqrt" {
            return Err(wrong("reg_sqrt squares its scores, which no loss here does"));
        }
    }
    Ok(match name {
        "binary" => (Logloss, Classes, sigmoid),
        "multiclass" | "softmax" => (Multiclass, Classes, 1.0),
        "multiclassova" | "multiclass_ova" | "ova" | "ovr" => (Ova, Classes, sigmoid),
        "cross_entropy" | "xentropy" => (CrossEntropy, Numbers, 1.0),
        "poisson" => (Poisson, Numbers, 1.0),
        "gamma" => (Gamma, Numbers, 1.0),
        "tweedie" => (Tweedie, Numbers, 1.0),
        "regression_l1" => (Mae, Numbers, 1.0),
        "quantile" if outputs == 1 => (Quantile, Numbers, 1.0),
        "huber" => (Huber, Numbers, 1.0),
        "mape" => (Mape, Numbers, 1.0),
        "lambdarank" => (Lambdarank, Numbers, 1.0),
        "rank_xendcg" => (Xendcg, Numbers, 1.0),
        "" | "regression" | "regression_l2" | "fair" | "custom" | "none" | "null" => (Rmse, Numbers, 1.0),
        "cross_entropy_lambda" | "xentlambda" => {
            return Err(wrong(format!("objective {name} predicts log(1 + exp(score)), which no loss here does")));
        }
        other => return Err(wrong(format!("the objective {other:?} is none that is known here"))),
    })
}

fn model(
    (head, parameters): (&Fields<'_>, &Fields<'_>),
    trees: &[Fields<'_>],
    categories: Vec<Vec<LabelIn>>,
    told: Told,
) -> Result<Imported> {
    let outputs = head.number::<usize>("num_tree_per_iteration").map_err(wrong)?.unwrap_or(1);
    if outputs == 0 || outputs > trees.len().max(1 << 10) {
        return Err(wrong(format!("{outputs} trees a round, and {} in all", trees.len())));
    }
    let objective = head.0.get("objective").copied().unwrap_or("");
    let (loss, predicts, sigmoid) = meaning(objective, outputs)?;
    let is_mean = head.0.contains_key("average_output");
    let rounds = (trees.len() / outputs).max(1) as f64;
    let names: Vec<&str> = head.0.get("feature_names").copied().unwrap_or("").split(' ').filter(|n| !n.is_empty()).collect();
    let expected = head.number::<usize>("max_feature_idx").map_err(wrong)?.map(|n| n.saturating_add(1));
    if names.is_empty() || expected.is_some_and(|n| n != names.len()) {
        return Err(wrong(format!("{} names of {} features", names.len(), expected.unwrap_or(0))));
    }
    let mut columns: Vec<ForeignColumn> = names.into_iter().map(ForeignColumn::numeric).collect();
    // A column of categories lists them: `2:0:5`; one of numbers has a range.
    let infos = head.0.get("feature_infos").copied().unwrap_or("").split(' ');
    columns
        .iter_mut()
        .zip(infos)
        .for_each(|(column, info)| column.is_categorical = info.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    let made = trees.iter().enumerate().map(|(t, fields)| {
        let by = |value: f64| {
            let mean = if is_mean { value / rounds } else { value };
            if sigmoid == 1.0 { mean } else { mean * sigmoid }
        };
        tree(fields, t % outputs, by).map_err(|what| wrong(format!("tree {t}: {what}")))
    });
    let made = made.collect::<Result<Vec<_>>>()?;
    for tree in &made {
        let Shape::Branching(nodes) = &tree.shape else { continue };
        for node in nodes {
            if let RawNode::Split { column, test: Test::OneOf(_), .. } = node
                && let Some(column) = columns.get_mut(*column as usize)
            {
                column.is_categorical = true;
            }
        }
    }
    if !categories.is_empty() {
        let mut of: Vec<&mut ForeignColumn> = columns.iter_mut().filter(|c| c.is_categorical).collect();
        if of.len() == categories.len() {
            of.iter_mut().zip(categories).for_each(|(column, own)| column.categories = Some(own));
        } else if let Some(name) = of.iter().map(|c| &c.name).find(|name| !told.categories.contains_key(*name)) {
            return Err(wrong(format!(
                "the text tells the categories of {} columns, and {} are of categories: give those of `{name}` by `categories`",
                categories.len(),
                of.len()
            )));
        }
    }
    let rows = made.first().map_or(0, |tree| tree.counts.iter().map(|c| *c as u64).sum());
    let version = head.0.get("version").map(|v| (*v).to_string());
    let (library, objective, params) = (LIBRARY, objective.to_string(), params_of(loss, parameters));
    Foreign {
        library,
        version,
        objective,
        loss,
        params,
        predicts,
        threshold: None,
        columns,
        hashes: Default::default(),
        start: vec![0.0; outputs],
        trees: made,
        rows,
    }
    .model(told)
}

/// A child: a node, or `!` of a leaf.
fn child(nodes: usize, to: i64) -> usize {
    // What is beyond all of them is told later.
    if to >= 0 { to as usize } else { nodes + !to as usize }
}

fn tree(fields: &Fields<'_>, output: usize, by: impl Fn(f64) -> f64) -> std::result::Result<ForeignTree, String> {
    let leaves = fields.number::<usize>("num_leaves")?.ok_or("it has no num_leaves")?;
    let values: Vec<f64> = fields.list("leaf_value")?;
    if values.len() != leaves || leaves == 0 {
        return Err(format!("{} values of {leaves} leaves", values.len()));
    }
    let n = leaves - 1;
    let (columns, thresholds): (Vec<u32>, Vec<f64>) = (fields.list("split_feature")?, fields.list("threshold")?);
    let (kinds, gains): (Vec<u8>, Vec<f32>) = (fields.list("decision_type")?, fields.list("split_gain")?);
    let (lefts, rights): (Vec<i64>, Vec<i64>) = (fields.list("left_child")?, fields.list("right_child")?);
    let lengths = [columns.len(), thresholds.len(), kinds.len(), lefts.len(), rights.len()];
    // A single leaf may have any of them.
    if n > 0 && lengths.iter().any(|len| *len != n) {
        return Err(format!("its fields have {lengths:?} nodes, and {leaves} leaves"));
    }
    let (starts, words): (Vec<usize>, Vec<u32>) = (fields.list("cat_boundaries")?, fields.list("cat_threshold")?);
    let (mut nodes, mut parts) = (Vec::with_capacity(n + leaves), vec![]);
    let mut listed = 0;
    for i in 0..n {
        let (column, gain, kind) = (columns[i], gains.get(i).copied().unwrap_or(0.0), kinds[i]);
        let (left, right) = (child(n, lefts[i]), child(n, rights[i]));
        let split = |test, missing_left, left, right| RawNode::Split { column, test, missing_left, left, right, gain };
        if kind & 1 == 1 {
            let at = thresholds[i] as usize;
            let range = starts.get(at).zip(starts.get(at.wrapping_add(1))).map(|(a, b)| *a..*b);
            let own = range.and_then(|r| words.get(r)).ok_or_else(|| format!("node {i} has no categories"))?;
            listed += own.len();
            if listed > words.len() {
                return Err("its sets of categories overlap".into());
            }
            let codes =
                own.iter().enumerate().flat_map(|(w, word)| (0..32).filter(move |b| word >> b & 1 == 1).map(move |b| 32 * w as u32 + b));
            // Theirs go left, all else and NaN right; ours go right.
            nodes.push(split(Test::OneOf(codes.collect()), true, right, left));
            continue;
        }
        let (t, goes_left) = (thresholds[i], kind & 2 != 0);
        let test = if t.is_nan() { Test::All } else { Test::Above(border(t)) };
        match kind >> 2 & 3 {
            0 => nodes.push(split(test, 0.0 <= t, left, right)),
            2 => nodes.push(split(test, goes_left, left, right)),
            1 => {
                let first = n + leaves + parts.len();
                let below = Test::Above((-ZERO).next_down());
                // Its gain is that of all three.
                let part = |test, missing_left, left, right| RawNode::Split { column, test, missing_left, left, right, gain: 0.0 };
                let (head, more) = match (goes_left, t) {
                    (_, t) if t.is_nan() => return Err(format!("node {i} has no threshold")),
                    // Zeros are on that side anyway, or the last ones before the other.
                    (true, t) if t >= -ZERO => (split(Test::Above(t.max(ZERO)), true, left, right), vec![]),
                    (false, t) if t < ZERO => (split(Test::Above(t.min((-ZERO).next_down())), false, left, right), vec![]),
                    // Between what is smaller and what is larger.
                    (true, _) => {
                        let middle = part(Test::Above(ZERO), true, left, right);
                        (split(test, true, left, first), vec![part(below, true, right, first + 1), middle])
                    }
                    (false, _) => {
                        let middle = part(Test::Above(ZERO), true, right, left);
                        (split(test, false, first, right), vec![part(below, true, left, first + 1), middle])
                    }
                };
                nodes.push(head);
                parts.extend(more);
            }
            other => return Err(format!("node {i} has missing values of the kind {other}")),
        }
    }
    nodes.extend((0..leaves).map(RawNode::Leaf));
    nodes.extend(parts);
    let counts = fields.list::<u32>("leaf_count")?;
    let counts = if counts.len() == leaves { counts } else { vec![] };
    let weights = fields.list::<f64>("leaf_weight")?;
    let (linear, constants) =
        if fields.number::<u8>("is_linear")?.unwrap_or(0) != 0 { linear(fields, &values, &by)? } else { Default::default() };
    let mut values: Vec<f64> = values.into_iter().map(by).collect();
    constants.into_iter().for_each(|(leaf, constant)| values[leaf] = constant);
    Ok(ForeignTree { shape: Shape::Branching(nodes), output, width: 1, values, weights, counts, linear })
}

/// Leaves by their numbers.
type ByLeaf<T> = HashMap<usize, T>;

/// Reads the linear functions of a tree's leaves, and the values of those that are functions of nothing: what is told beside as the value of a
/// leaf is that of rows with a missing value, of which these know none.
fn linear(
    fields: &Fields<'_>,
    values: &[f64],
    by: impl Fn(f64) -> f64,
) -> std::result::Result<(ByLeaf<ForeignLinear>, ByLeaf<f64>), String> {
    let (constants, counts): (Vec<f64>, Vec<usize>) = (fields.list("leaf_const")?, fields.list("num_features")?);
    let (columns, coefficients): (Vec<u32>, Vec<f64>) = (fields.list("leaf_features")?, fields.list("leaf_coeff")?);
    if values.len() == 1 && constants.is_empty() && counts.is_empty() {
        return Ok(Default::default());
    }
    if constants.len() != values.len() || counts.len() != values.len() {
        return Err(format!("{} constants and {} numbers of features of {} leaves", constants.len(), counts.len(), values.len()));
    }
    let told = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
    if told != Some(columns.len()) || columns.len() != coefficients.len() {
        return Err(format!("its linear leaves have {} features and {} coefficients", columns.len(), coefficients.len()));
    }
    let (mut functions, mut plain) = (HashMap::new(), HashMap::new());
    let mut terms = columns.into_iter().zip(coefficients).map(|(column, coefficient)| (column, by(coefficient)));
    for (leaf, (constant, count)) in constants.into_iter().zip(counts).enumerate() {
        let constant = by(constant);
        match count {
            0 => drop(plain.insert(leaf, constant)),
            _ => drop(functions.insert(leaf, ForeignLinear { constant, terms: terms.by_ref().take(count).collect() })),
        }
    }
    Ok((functions, plain))
}

#[cfg(test)]
mod tests {
    use super::{Imported, Told, read_text};
    use crate::tree::model::Tree;

    /// The nodes' gains, and the leaves' values, counts and weights of a text of one tree: at its root `decision`, on its right two leaves.
    fn parts(threshold: f64, decision: u8) -> (Vec<f32>, Vec<(f64, u32, f32)>) {
        let text = format!(
            "tree\nversion=v4\nnum_tree_per_iteration=1\nmax_feature_idx=1\nobjective=regression\nfeature_names=a b\n\
             feature_infos=[-9:9] [-9:9]\n\nTree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\nsplit_gain=8 4\n\
             threshold={threshold} 0.5\ndecision_type={decision} 10\nleft_child=-1 -2\nright_child=1 -3\nleaf_value=1 2 3\n\
             leaf_weight=7 5 1\nleaf_count=7 5 1\nis_linear=0\nshrinkage=1\n\nend of trees\n"
        );
        let Ok(Imported::Boosted(model)) = read_text(&text, Told::default()) else { panic!("a model") };
        assert_eq!(model.rows, 13);
        let Tree::Branching { nodes, leaves } = &model.trees[0] else { panic!("a branching tree") };
        (nodes.iter().map(|n| n.split.gain).collect(), leaves.iter().map(|l| (l.value, l.count, l.weight)).collect())
    }

    /// A split of three parts keeps rows, weights and gains: what is copied shares them.
    #[test]
    fn copies_share_rows() {
        for (threshold, decision) in [(-1.5, 6), (1.5, 4)] {
            let (gains, mut leaves) = parts(threshold, decision);
            assert_eq!((gains.len(), gains.iter().sum::<f32>()), (5, 12.0));
            leaves.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            assert_eq!(leaves, [(1.0, 4, 3.5), (1.0, 3, 3.5), (2.0, 3, 2.5), (2.0, 2, 2.5), (3.0, 1, 0.5), (3.0, 0, 0.5)]);
        }
        // Zeros are on that side anyway.
        assert_eq!(parts(1.5, 6), (vec![8.0, 4.0], vec![(1.0, 7, 7.0), (2.0, 5, 5.0), (3.0, 1, 1.0)]));
    }
}
