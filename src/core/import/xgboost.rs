//! Models of XGBoost, 1.0 to 3.2, in JSON and UBJSON.
//!
//! Rows go left where their value, rounded to f32, is smaller than a split's number, so our border is the last f64 that is. Categories that a
//! split lists go right, others left; missing values go where the node says. The base score is told before the link's inverse, as one number
//! or (since 3.1) one for each output. XGBoost adds f32s, which is why its sums differ from ours in their last bits.

use super::foreign::{Foreign, ForeignColumn, ForeignTree, Predicts, RawNode, Shape, Test};
use super::rounding::border_below;
use super::{Imported, Told, fault, ubj};
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::from_json::{LabelIn, NumberIn};
use crate::objective::Alpha;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use std::fmt;

const LIBRARY: &str = "XGBoost";

/// Reads a model in JSON.
///
/// # Errors
/// As [`super::import`].
pub fn read_json(text: &str, told: Told) -> Result<Imported> {
    serde_json::from_str::<File>(text).map_err(|e| fault(LIBRARY, format!("the JSON can't be read: {e}")))?.model(told)
}

/// Reads a model in UBJSON.
///
/// # Errors
/// As [`super::import`].
pub fn read_ubj(bytes: &[u8], told: Told) -> Result<Imported> {
    ubj::from_bytes::<File>(bytes).map_err(|e| fault(LIBRARY, format!("the UBJSON can't be read: {e}")))?.model(told)
}

/// A number, which some versions write as text.
#[derive(Clone, Copy, Default)]
struct Count(i64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }
            fn visit_bool<E>(self, x: bool) -> std::result::Result<Count, E> {
                Ok(Count(x as i64))
            }
            fn visit_i64<E>(self, x: i64) -> std::result::Result<Count, E> {
                Ok(Count(x))
            }
            fn visit_u64<E: serde::de::Error>(self, x: u64) -> std::result::Result<Count, E> {
                i64::try_from(x).map(Count).map_err(|_| E::custom(format!("the number {x}")))
            }
            fn visit_str<E: serde::de::Error>(self, x: &str) -> std::result::Result<Count, E> {
                x.trim().parse().map(Count).map_err(|_| E::custom(format!("{x:?} is no integer")))
            }
        }
        d.deserialize_any(Number)
    }
}

/// Small integers, or Booleans, a byte each.
#[derive(Default)]
struct Flags(Vec<u8>);

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Flag(u8);
        impl<'de> Deserialize<'de> for Flag {
            fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
                let Count(x) = Count::deserialize(d)?;
                u8::try_from(x).map(Flag).map_err(|_| D::Error::custom(format!("{x} is no flag")))
            }
        }
        Vec::<Flag>::deserialize(d).map(|flags| Flags(flags.into_iter().map(|f| f.0).collect()))
    }
}

/// f32s, as they or as the f64s nearest to them stand in a file.
#[derive(Default)]
struct Floats(Vec<f32>);

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        Vec::<NumberIn>::deserialize(d).map(|all| Floats(all.into_iter().map(|x| x.0 as f32).collect()))
    }
}

#[derive(Deserialize)]
struct File {
    learner: Learner,
    #[serde(default)]
    version: Vec<u32>,
}

#[derive(Deserialize)]
struct Learner {
    #[serde(default)]
    feature_names: Vec<String>,
    #[serde(default)]
    feature_types: Vec<String>,
    gradient_booster: Booster,
    learner_model_param: LearnerParam,
    objective: Objective,
}

#[derive(Deserialize)]
struct LearnerParam {
    base_score: String,
    #[serde(default)]
    num_class: Count,
    #[serde(default)]
    num_feature: Count,
    num_target: Option<Count>,
}

#[derive(Deserialize)]
struct Objective {
    name: String,
    tweedie_regression_param: Option<TweedieParam>,
    quantile_loss_param: Option<QuantileParam>,
}

#[derive(Deserialize)]
struct TweedieParam {
    tweedie_variance_power: Option<String>,
}

#[derive(Deserialize)]
struct QuantileParam {
    quantile_alpha: Option<String>,
}

#[derive(Deserialize)]
struct Booster {
    name: String,
    model: Option<Trees>,
    gbtree: Option<Box<Booster>>,
    weight_drop: Option<Vec<f32>>,
}

#[derive(Deserialize)]
struct Trees {
    // A linear model has none, and is told as such.
    #[serde(default)]
    tree_info: Vec<Count>,
    #[serde(default)]
    trees: Vec<TreeIn>,
    cats: Option<Cats>,
}

/// The categories of all columns, since 3.1.
#[derive(Deserialize)]
struct Cats {
    #[serde(default)]
    enc: Vec<Encoded>,
}

/// Those of a column: numbers, or text one behind the other.
#[derive(Deserialize)]
struct Encoded {
    offsets: Option<Vec<u64>>,
    #[serde(default)]
    values: Vec<CatValue>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum CatValue {
    Integer(i64),
    Float(f64),
}

#[derive(Deserialize)]
struct TreeIn {
    left_children: Vec<i32>,
    right_children: Vec<i32>,
    split_indices: Vec<u32>,
    split_conditions: Floats,
    default_left: Flags,
    #[serde(default)]
    split_type: Flags,
    #[serde(default)]
    categories: Vec<u32>,
    #[serde(default)]
    categories_nodes: Vec<u32>,
    #[serde(default)]
    categories_segments: Vec<u64>,
    #[serde(default)]
    categories_sizes: Vec<u64>,
    #[serde(default)]
    sum_hessian: Vec<f32>,
    #[serde(default)]
    loss_changes: Vec<f32>,
    #[serde(default)]
    base_weights: Floats,
    leaf_weights: Option<Vec<f32>>,
    tree_param: TreeParam,
}

#[derive(Deserialize)]
struct TreeParam {
    #[serde(default)]
    size_leaf_vector: Count,
}

/// What an objective comes to: the loss, what it predicts, and how the base score becomes a margin.
type Meaning = (LossKind, Predicts, fn(f64) -> f64);

fn meaning(name: &str, outputs: usize, is_of_classes: bool) -> Result<Meaning> {
    let as_is: fn(f64) -> f64 = |x| x;
    let log: fn(f64) -> f64 = f64::ln;
    let logit: fn(f64) -> f64 = |p| -(1.0 / p - 1.0).ln();
    use LossKind::{
        Aft, Cox, CrossEntropy, Gamma, Lambdarank, Logloss, Mae, Multiclass, Multilabel, Pairwise, Poisson, Quantile, Rmse, Tweedie,
    };
    use Predicts::{Classes, Numbers};
    Ok(match name {
        "binary:logistic" if outputs == 1 => (Logloss, Classes, logit),
        "binary:logistic" => (Multilabel, Numbers, logit),
        "reg:logistic" => (CrossEntropy, Numbers, logit),
        "binary:logitraw" => (Rmse, Numbers, as_is),
        "multi:softprob" | "multi:softmax" if is_of_classes => (Multiclass, Classes, as_is),
        "count:poisson" => (Poisson, Numbers, log),
        "reg:gamma" => (Gamma, Numbers, log),
        "reg:tweedie" => (Tweedie, Numbers, log),
        "survival:cox" => (Cox, Numbers, log),
        "survival:aft" => (Aft, Numbers, log),
        "reg:absoluteerror" => (Mae, Numbers, as_is),
        "reg:quantileerror" if outputs == 1 => (Quantile, Numbers, as_is),
        "rank:pairwise" => (Pairwise, Numbers, as_is),
        "rank:ndcg" | "rank:map" => (Lambdarank, Numbers, as_is),
        "reg:squarederror" | "reg:linear" | "reg:squaredlogerror" | "reg:pseudohubererror" | "reg:quantileerror" | "reg:expectileerror" => {
            (Rmse, Numbers, as_is)
        }
        "binary:hinge" => {
            return Err(fault(LIBRARY, "objective binary:hinge predicts 0 or 1 by the sign of a score, which no loss here does"));
        }
        other => return Err(fault(LIBRARY, format!("the objective {other:?} is none that is known here"))),
    })
}

/// The numbers of a base score: `5E-1`, `[5E-1]`, `[1E0,2E0]`.
fn base_scores(text: &str) -> Option<Vec<f64>> {
    let inner = text.trim();
    let inner = inner.strip_prefix('[').and_then(|x| x.strip_suffix(']')).unwrap_or(inner);
    inner.split(',').map(|x| x.trim().parse::<f32>().ok().map(f64::from)).collect()
}

impl File {
    fn model(self, told: Told) -> Result<Imported> {
        let File { learner, version } = self;
        let version = version.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        let (booster, weight_drop) = match (learner.gradient_booster.name.as_str(), learner.gradient_booster.gbtree) {
            ("dart", Some(inner)) => (*inner, learner.gradient_booster.weight_drop),
            ("dart", None) => return Err(fault(LIBRARY, "a dart booster without trees")),
            ("gbtree", inner) => {
                let own = Booster { name: String::new(), model: learner.gradient_booster.model, gbtree: None, weight_drop: None };
                (inner.map_or(own, |b| *b), None)
            }
            ("gblinear", _) => return Err(fault(LIBRARY, "gblinear is a linear model, not of trees")),
            (other, _) => return Err(fault(LIBRARY, format!("the booster {other:?} is unknown"))),
        };
        let trees = booster.model.ok_or_else(|| fault(LIBRARY, "the booster has no model"))?;
        let param = learner.learner_model_param;
        let (classes, targets) = (param.num_class.0.max(0) as usize, param.num_target.map_or(1, |n| n.0).max(1) as usize);
        let outputs = classes.max(targets).max(1);
        let base = base_scores(&param.base_score).ok_or_else(|| fault(LIBRARY, format!("the base score is {:?}", param.base_score)))?;
        // Each output has a tree, or a value in each leaf, or a base score: a number alone says not how much memory is taken.
        let named = trees.trees.len().max(trees.trees.iter().map(TreeIn::numbers).max().unwrap_or(0)).max(base.len());
        if outputs > named.max(1 << 16) {
            return Err(fault(LIBRARY, format!("{outputs} outputs of {} trees", trees.trees.len())));
        }
        let objective = learner.objective;
        let (loss, predicts, margin) = meaning(&objective.name, outputs, classes > 1)?;
        let start = match base.as_slice() {
            [one] => vec![margin(*one); outputs],
            several if several.len() == outputs => several.iter().map(|x| margin(*x)).collect(),
            several => return Err(fault(LIBRARY, format!("{} base scores of {outputs} outputs", several.len()))),
        };
        // It keeps them as f32.
        let start: Vec<f64> = start.into_iter().map(|x| (x as f32) as f64).collect();
        let mut params = BoostingParams::default();
        if let Some(power) = objective.tweedie_regression_param.and_then(|p| p.tweedie_variance_power).and_then(|p| p.parse::<f64>().ok())
            && power > 1.0
            && power < 2.0
        {
            params.tweedie_power = power;
        }
        if let Some(alpha) = objective.quantile_loss_param.and_then(|p| p.quantile_alpha).and_then(|a| base_scores(&a))
            && loss == LossKind::Quantile
            && let [level] = alpha[..]
        {
            params.alpha = Alpha::One(level);
        }
        let columns = columns(learner.feature_names, &learner.feature_types, param.num_feature.0, &trees)?;
        if let Some(weights) = &weight_drop
            && weights.len() != trees.trees.len()
        {
            return Err(fault(LIBRARY, format!("{} weights of {} trees", weights.len(), trees.trees.len())));
        }
        if trees.tree_info.len() != trees.trees.len() {
            return Err(fault(LIBRARY, format!("{} groups of {} trees", trees.tree_info.len(), trees.trees.len())));
        }
        let made = trees.trees.into_iter().zip(&trees.tree_info).enumerate().map(|(t, (tree, info))| {
            let weight = weight_drop.as_ref().map_or(1.0, |w| w[t]);
            let output = usize::try_from(info.0).map_err(|_| fault(LIBRARY, format!("tree {t} is of group {}", info.0)))?;
            tree.tree(output, weight).map_err(|what| fault(LIBRARY, format!("tree {t}: {what}")))
        });
        let trees = made.collect::<Result<Vec<_>>>()?;
        let version = (!version.is_empty()).then_some(version);
        let objective = objective.name;
        let (library, hashes) = (LIBRARY, Default::default());
        Foreign { library, version, objective, loss, params, predicts, threshold: None, columns, hashes, start, trees, rows: 0 }.model(told)
    }
}

/// The columns: by their names, or `f0`, `f1`, …
fn columns(names: Vec<String>, types: &[String], number: i64, trees: &Trees) -> Result<Vec<ForeignColumn>> {
    let number = usize::try_from(number).unwrap_or(0);
    let asked = trees.trees.iter().flat_map(|t| &t.split_indices).max().map_or(0, |c| *c as usize + 1);
    if !names.is_empty() && names.len() != number {
        return Err(fault(LIBRARY, format!("{} names of {number} features", names.len())));
    }
    // A number alone names as many as a fit can have had; that no more memory is taken for it than the file is long is not to be had.
    if names.is_empty() && number > asked.max(1 << 16) {
        return Err(fault(LIBRARY, format!("{number} features without names, of which {asked} are asked about")));
    }
    let names = if names.is_empty() { (0..number.max(1)).map(|i| format!("f{i}")).collect() } else { names };
    let mut columns: Vec<ForeignColumn> = names.into_iter().map(ForeignColumn::numeric).collect();
    columns.iter_mut().zip(types).for_each(|(column, kind)| column.is_categorical = kind == "c");
    if let Some(cats) = &trees.cats {
        for (column, encoded) in columns.iter_mut().zip(&cats.enc).filter(|(c, e)| c.is_categorical && !e.values.is_empty()) {
            let labels = encoded.labels().ok_or_else(|| fault(LIBRARY, format!("the categories of `{}` can't be read", column.name)))?;
            column.categories = Some(labels);
        }
    }
    Ok(columns)
}

impl Encoded {
    fn labels(&self) -> Option<Vec<LabelIn>> {
        let Some(offsets) = &self.offsets else {
            return Some(
                self.values
                    .iter()
                    .map(|v| match v {
                        CatValue::Integer(x) => LabelIn::Integer(*x),
                        CatValue::Float(x) => LabelIn::Float(*x),
                    })
                    .collect(),
            );
        };
        let byte = |v: &CatValue| match v {
            // Bytes, signed or not.
            CatValue::Integer(x @ -128..=255) => Some(*x as u8),
            _ => None,
        };
        let bytes = self.values.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        let label = |pair: &[u64]| {
            let text = bytes.get(usize::try_from(pair[0]).ok()?..usize::try_from(pair[1]).ok()?)?;
            Some(LabelIn::Text(std::str::from_utf8(text).ok()?.to_string()))
        };
        // Texts that overlap would be longer than the file.
        if offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return None;
        }
        offsets.windows(2).map(label).collect()
    }
}

impl TreeIn {
    /// How many numbers stand in its leaves, at the most.
    fn numbers(&self) -> usize {
        self.leaf_weights.as_ref().map_or(self.base_weights.0.len(), Vec::len)
    }

    fn tree(self, output: usize, weight: f32) -> std::result::Result<ForeignTree, String> {
        let n = self.left_children.len();
        let width = usize::try_from(self.tree_param.size_leaf_vector.0).unwrap_or(0).max(1);
        let lengths = [self.right_children.len(), self.split_indices.len(), self.split_conditions.0.len(), self.default_left.0.len()];
        if n == 0 || lengths.iter().any(|len| *len != n) {
            return Err(format!("its fields have {n} and {lengths:?} nodes"));
        }
        let mut segments = vec![None; n];
        if self.categories_nodes.len() != self.categories_segments.len() || self.categories_nodes.len() != self.categories_sizes.len() {
            return Err("its lists of categories are of several lengths".into());
        }
        let mut listed = 0;
        for ((node, first), size) in self.categories_nodes.iter().zip(&self.categories_segments).zip(&self.categories_sizes) {
            let range = usize::try_from(*first).ok().zip(usize::try_from(*size).ok()).and_then(|(a, n)| Some(a..a.checked_add(n)?));
            let range = range.filter(|r| r.end <= self.categories.len()).ok_or("a list of categories is beyond all of them")?;
            listed += range.len();
            *segments.get_mut(*node as usize).ok_or("a list of categories is of no node")? = Some(range);
        }
        if listed > self.categories.len() {
            return Err("its lists of categories overlap".into());
        }
        let (mut nodes, mut values, mut weights, mut leaves) = (Vec::with_capacity(n), vec![], vec![], 0);
        for (i, segment) in segments.into_iter().enumerate() {
            let (left, right) = (self.left_children[i], self.right_children[i]);
            if left == -1 {
                if width == 1 {
                    values.push((weight * self.split_conditions.0[i]) as f64);
                } else {
                    let (from, at) = match &self.leaf_weights {
                        Some(all) => (all, usize::try_from(right).unwrap_or(usize::MAX)),
                        None => (&self.base_weights.0, i),
                    };
                    let at = at.checked_mul(width).ok_or("a leaf's values are beyond all of them")?;
                    let own = from.get(at..at.saturating_add(width)).ok_or("a leaf's values are beyond all of them")?;
                    if values.len() + width > from.len() {
                        return Err("its leaves share their values".into());
                    }
                    values.extend(own.iter().map(|x| (weight * x) as f64));
                }
                weights.push(self.sum_hessian.get(i).copied().unwrap_or(0.0) as f64);
                nodes.push(RawNode::Leaf(leaves));
                leaves += 1;
                continue;
            }
            let child = |c: i32| usize::try_from(c).map_err(|_| format!("node {i} leads to node {c}"));
            let test = match (self.split_type.0.get(i).copied().unwrap_or(0), segment) {
                (0, _) => Test::not(border_below(self.split_conditions.0[i])),
                (1, Some(range)) => Test::OneOf(self.categories[range].into()),
                (1, None) => Test::OneOf([].into()),
                (other, _) => return Err(format!("node {i} is of the kind {other}")),
            };
            nodes.push(RawNode::Split {
                column: self.split_indices[i],
                test,
                missing_left: self.default_left.0[i] != 0,
                left: child(left)?,
                right: child(right)?,
                gain: self.loss_changes.get(i).copied().unwrap_or(0.0),
            });
        }
        Ok(ForeignTree {
            shape: Shape::Branching(nodes),
            output: if width > 1 { 0 } else { output },
            width,
            values,
            weights,
            counts: vec![],
            linear: Default::default(),
        })
    }
}
