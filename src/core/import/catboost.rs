//! Models of CatBoost in JSON, or in its binary format ([`cbm`]).
//!
//! Values are rounded to f32 and compared with f32 borders; missing ones go left or right by the column (`nan_value_treatment`). The file knows
//! categories by a hash of their text ([`city`]); what texts these are it tells where it was saved with `pool=`, else who reads it does. A statistic of a single column
//! is a number for each category, so a split by it is a set of categories, and stands in our model as one. Those of several columns are
//! an error.

mod cbm;
mod city;

use super::foreign::{Foreign, ForeignColumn, ForeignTree, Predicts, RawNode, Shape, Test};
use super::rounding::border_at_most;
use super::{Imported, Told, fault};
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::from_json::LabelIn;
use crate::objective::Alpha;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

const LIBRARY: &str = "CatBoost";

fn wrong(what: impl std::fmt::Display) -> crate::Error {
    fault(LIBRARY, what)
}

#[derive(Deserialize)]
struct File {
    features_info: FeaturesInfo,
    oblivious_trees: Option<Vec<SymmetricIn>>,
    trees: Option<Vec<NodeIn>>,
    scale_and_bias: Option<(f64, Bias)>,
    #[serde(default)]
    ctr_data: HashMap<String, CtrData>,
    model_info: Option<ModelInfo>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Bias {
    One(f64),
    Several(Vec<f64>),
}

#[derive(Deserialize)]
struct ModelInfo {
    class_params: Option<ClassParams>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct ClassParams {
    class_names: Option<Vec<LabelIn>>,
}

#[derive(Deserialize)]
struct Params {
    loss_function: Option<LossFunction>,
}

#[derive(Deserialize)]
struct LossFunction {
    r#type: String,
    #[serde(default)]
    params: HashMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct FeaturesInfo {
    #[serde(default)]
    float_features: Vec<FloatFeature>,
    #[serde(default)]
    categorical_features: Vec<CatFeature>,
    #[serde(default)]
    cat_features_hash: Vec<Hashed>,
    #[serde(default)]
    ctrs: Vec<CtrIn>,
    #[serde(default)]
    text_features: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    embedding_features: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct FloatFeature {
    feature_id: Option<String>,
    flat_feature_index: usize,
    #[serde(default)]
    borders: Vec<f32>,
    nan_value_treatment: Option<String>,
}

#[derive(Deserialize)]
struct CatFeature {
    feature_id: Option<String>,
    flat_feature_index: usize,
    #[serde(default)]
    values: Vec<i64>,
}

#[derive(Deserialize)]
struct Hashed {
    hash: i64,
    value: String,
}

#[derive(Deserialize)]
struct CtrIn {
    ctr_type: String,
    identifier: String,
    elements: Vec<Element>,
    #[serde(default)]
    borders: Vec<f32>,
    prior_numerator: f32,
    prior_denomerator: f32,
    scale: f32,
    shift: f32,
    #[serde(default)]
    target_border_idx: usize,
}

#[derive(Deserialize)]
struct Element {
    combination_element: String,
    cat_feature_index: Option<usize>,
}

#[derive(Deserialize)]
struct CtrData {
    hash_map: Vec<HashOrCount>,
    hash_stride: usize,
    #[serde(default)]
    counter_denominator: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum HashOrCount {
    Hash(String),
    Number(f64),
}

#[derive(Deserialize)]
struct SymmetricIn {
    leaf_values: Vec<f64>,
    #[serde(default)]
    leaf_weights: Vec<f64>,
    // A tree of one leaf has none.
    splits: Option<Vec<SplitIn>>,
}

#[derive(Deserialize)]
struct NodeIn {
    split: Option<SplitIn>,
    left: Option<Box<NodeIn>>,
    right: Option<Box<NodeIn>>,
    value: Option<Bias>,
    weight: Option<f64>,
}

#[derive(Clone, Deserialize)]
struct SplitIn {
    split_type: String,
    border: Option<f32>,
    float_feature_index: Option<usize>,
    cat_feature_index: Option<usize>,
    value: Option<i64>,
    split_index: usize,
}

/// What an objective comes to.
fn meaning(name: &str, outputs: usize) -> Result<(LossKind, Predicts)> {
    use LossKind::{
        Cox, CrossEntropy, Expectile, Gaussian, Huber, Lambdarank, LogCosh, Logloss, Mae, Mape, Multiclass, Multilabel, Ova, Poisson,
        Quantile, Rmse, Tweedie, Yetirank,
    };
    use Predicts::{Classes, Numbers};
    Ok(match name {
        "Logloss" => (Logloss, Classes),
        "MultiClass" => (Multiclass, Classes),
        "MultiClassOneVsAll" => (Ova, Classes),
        "CrossEntropy" => (CrossEntropy, Numbers),
        "MultiLogloss" | "MultiCrossEntropy" => (Multilabel, Numbers),
        "Poisson" => (Poisson, Numbers),
        "Tweedie" => (Tweedie, Numbers),
        "RMSEWithUncertainty" if outputs == 2 => (Gaussian, Numbers),
        "MAE" => (Mae, Numbers),
        "MAPE" => (Mape, Numbers),
        "Quantile" if outputs == 1 => (Quantile, Numbers),
        "Expectile" if outputs == 1 => (Expectile, Numbers),
        "Huber" => (Huber, Numbers),
        "LogCosh" => (LogCosh, Numbers),
        "Cox" => (Cox, Numbers),
        "YetiRank" | "YetiRankPairwise" => (Yetirank, Numbers),
        "LambdaMart" => (Lambdarank, Numbers),
        "RMSE"
        | "MultiRMSE"
        | "MultiRMSEWithMissingValues"
        | "Lq"
        | "MultiQuantile"
        | "Quantile"
        | "PairLogit"
        | "PairLogitPairwise"
        | "QueryRMSE"
        | "QuerySoftMax"
        | "StochasticRank"
        | "GroupQuantile"
        | "" => (Rmse, Numbers),
        other => return Err(wrong(format!("the loss {other:?} is none that is known here"))),
    })
}

/// Reads a model in JSON.
///
/// # Errors
/// As [`super::import`].
pub fn read_json(text: &str, told: Told) -> Result<Imported> {
    model(serde_json::from_str(text).map_err(|e| wrong(format!("the JSON can't be read: {e}")))?, told)
}

/// Reads a cbm file, of which these are the bytes after its four letters.
///
/// # Errors
/// As [`super::import`].
pub fn read_cbm(bytes: &[u8], told: Told) -> Result<Imported> {
    model(cbm::read(bytes)?, told)
}

fn model(file: File, mut told: Told) -> Result<Imported> {
    let info = file.features_info;
    if !info.text_features.is_empty() || !info.embedding_features.is_empty() {
        return Err(wrong("it has features of text or embeddings, which a model here can't"));
    }
    let (class_params, params) = file.model_info.map_or((None, None), |m| (m.class_params, m.params));
    let loss_function = params.and_then(|p| p.loss_function);
    let objective = loss_function.as_ref().map_or("", |l| l.r#type.as_str()).to_string();
    let (scale, bias) = file.scale_and_bias.unwrap_or((1.0, Bias::One(0.0)));
    let symmetric = file.oblivious_trees.unwrap_or_default();
    let branching = file.trees.unwrap_or_default();
    let outputs = match (&bias, symmetric.first(), branching.first()) {
        (Bias::Several(of), ..) if !of.is_empty() => of.len(),
        (_, Some(tree), _) => tree.leaf_values.len() >> tree.splits.as_ref().map_or(0, |s| s.len().min(20)),
        (_, _, Some(node)) => width_of(node),
        _ => 1,
    };
    let start = match bias {
        Bias::Several(of) if of.len() == outputs => of,
        Bias::One(one) => vec![one; outputs],
        Bias::Several(_) => vec![0.0; outputs],
    };
    let (loss, predicts) = meaning(&objective, outputs)?;
    let mut params = BoostingParams::default();
    let level = loss_function.and_then(|l| l.params.get("alpha").and_then(|a| a.as_str()?.parse::<f64>().ok()));
    if let Some(level) = level.filter(|a| *a > 0.0 && *a < 1.0 && matches!(loss, LossKind::Quantile | LossKind::Expectile)) {
        params.alpha = Alpha::One(level);
    }
    if told.classes.is_none() && predicts == Predicts::Classes {
        told.classes = class_params.and_then(|c| c.class_names);
    }
    let tests = Tests::new(&info, &file.ctr_data, &mut told)?;
    let width = outputs;
    let mut trees = vec![];
    for (t, tree) in symmetric.into_iter().enumerate() {
        let fail = |what: String| wrong(format!("tree {t}: {what}"));
        let splits = tree.splits.unwrap_or_default();
        if splits.len() > 16 || tree.leaf_values.len() != width << splits.len() {
            return Err(fail(format!("{} values under {} levels and {width} outputs", tree.leaf_values.len(), splits.len())));
        }
        // Its last split is the first bit of our leaves.
        let tests = splits.iter().rev().map(|split| tests.of(split)).collect::<std::result::Result<Vec<_>, _>>().map_err(fail)?;
        let values = tree.leaf_values.into_iter().map(|x| scale * x).collect();
        let counts = tree.leaf_weights.iter().map(|w| w.round() as u32).collect();
        trees.push(ForeignTree {
            shape: Shape::Symmetric(tests),
            output: 0,
            width,
            values,
            weights: tree.leaf_weights,
            counts,
            linear: Default::default(),
        });
    }
    for (t, root) in branching.into_iter().enumerate() {
        trees.push(branching_tree(root, width, scale, &tests).map_err(|what| wrong(format!("tree {t}: {what}")))?);
    }
    Foreign { library: LIBRARY, version: None, objective, loss, params, predicts, columns: tests.columns, start, trees, rows: 0 }
        .model(told)
}

/// The number of values of a tree's leaves.
fn width_of(root: &NodeIn) -> usize {
    let mut node = root;
    while let Some(left) = &node.left {
        node = left;
    }
    if let Some(Bias::Several(values)) = &node.value { values.len() } else { 1 }
}

fn branching_tree(root: NodeIn, width: usize, scale: f64, tests: &Tests) -> std::result::Result<ForeignTree, String> {
    let (mut nodes, mut values, mut weights): (Vec<RawNode>, Vec<f64>, Vec<f64>) = (vec![], vec![], vec![]);
    let mut waiting = vec![(root, None::<(usize, bool)>)];
    while let Some((node, parent)) = waiting.pop() {
        let number = nodes.len();
        if let Some((parent, is_right)) = parent
            && let Some(RawNode::Split { left, right, .. }) = nodes.get_mut(parent)
        {
            *(if is_right { right } else { left }) = number;
        }
        match (node.split, node.left, node.right) {
            (Some(split), Some(left), Some(right)) => {
                let (column, test, missing_left) = tests.of(&split)?;
                nodes.push(RawNode::Split { column, test, missing_left, left: 0, right: 0, gain: 0.0 });
                waiting.extend([(*right, Some((number, true))), (*left, Some((number, false)))]);
            }
            (None, None, None) => {
                let leaf = weights.len();
                match node.value {
                    Some(Bias::One(x)) if width == 1 => values.push(scale * x),
                    Some(Bias::Several(own)) if own.len() == width => values.extend(own.into_iter().map(|x| scale * x)),
                    _ => return Err(format!("a leaf has not {width} values")),
                }
                weights.push(node.weight.unwrap_or(0.0));
                nodes.push(RawNode::Leaf(leaf));
            }
            _ => return Err("a node has some of a split and two children, and not all".into()),
        }
    }
    let counts = weights.iter().map(|w| w.round() as u32).collect();
    Ok(ForeignTree { shape: Shape::Branching(nodes), output: 0, width, values, weights, counts, linear: Default::default() })
}

/// The hashes of a table's keys, each with its numbers.
type Table = HashMap<u64, Vec<f64>>;

/// A statistic: the column, and its value for each category and for unknown ones.
type Statistic = (u32, Vec<f32>, f32);

/// From its splits to our tests.
struct Tests {
    columns: Vec<ForeignColumn>,
    /// Of each column of numbers: the column, and whether missing values go left.
    floats: Vec<(u32, bool)>,
    /// Of each column of categories: the column, and the hash of each of its categories.
    cats: Vec<(u32, Vec<u32>)>,
    /// The statistics, or why one is none.
    statistics: Vec<std::result::Result<Statistic, String>>,
    /// Of each split by a statistic, from this number on, which one.
    first_statistic: usize,
    statistic_of: Vec<usize>,
}

/// Categories by the hashes of their texts, each once.
fn hashed(labels: Vec<LabelIn>) -> std::result::Result<Vec<(u32, LabelIn)>, String> {
    let mut out: Vec<(u32, LabelIn)> = vec![];
    let mut texts = HashMap::new();
    for label in labels {
        let text = match &label {
            LabelIn::Text(text) => text.clone(),
            LabelIn::Integer(x) => x.to_string(),
            LabelIn::Boolean(_) | LabelIn::Float(_) => return Err("the categories that are given are neither texts nor integers".into()),
        };
        let hash = city::hash_of(&text);
        match texts.insert(hash, text.clone()) {
            None => out.push((hash, label)),
            Some(other) if other == text => {}
            Some(other) => return Err(format!("the categories {other:?} and {text:?} have the same hash")),
        }
    }
    Ok(out)
}

/// The hash of a combination of one category, which CatBoost counts as signed.
fn of_one(hash: u32) -> u64 {
    const MULTIPLIER: u64 = 0x4906_ba49_4954_cb65;
    MULTIPLIER.wrapping_mul(MULTIPLIER.wrapping_mul(hash as i32 as i64 as u64))
}

impl CtrIn {
    /// The column of categories, where it is of one alone.
    fn only_column(&self) -> Option<usize> {
        match self.elements.as_slice() {
            [one] if one.combination_element == "cat_feature_value" => one.cat_feature_index,
            _ => None,
        }
    }

    /// Its value where a category has these numbers, in f32 as CatBoost has it; none of an unknown one.
    fn value(&self, numbers: Option<&[f64]>, table: &CtrData) -> std::result::Result<f32, String> {
        let of = |i: usize| numbers.map_or(0.0, |n| n.get(i).copied().unwrap_or(0.0));
        let sum = |from: usize| numbers.map_or(0.0, |n| n.get(from..).unwrap_or_default().iter().sum::<f64>());
        let (part, all) = match self.ctr_type.as_str() {
            "Borders" => (sum(self.target_border_idx.saturating_add(1)), sum(0)),
            "Buckets" => (of(self.target_border_idx), sum(0)),
            "BinarizedTargetMeanValue" | "FloatTargetMeanValue" => (of(0), of(1)),
            "Counter" | "FeatureFreq" => (of(0), table.counter_denominator as f64),
            other => return Err(format!("a statistic is of the kind {other:?}")),
        };
        let ratio = (part as f32 + self.prior_numerator) / (all as f32 + self.prior_denomerator);
        Ok((ratio + self.shift) * self.scale)
    }
}

impl CtrData {
    fn table(&self) -> Result<Table> {
        let stride = self.hash_stride;
        if stride < 2 || !self.hash_map.len().is_multiple_of(stride) {
            return Err(wrong(format!("a table of statistics has {} numbers in rows of {stride}", self.hash_map.len())));
        }
        let mut table = Table::new();
        for row in self.hash_map.chunks(stride) {
            let (HashOrCount::Hash(hash), counts) = (&row[0], &row[1..]) else { return Err(wrong("a table's key is a number")) };
            let hash: u64 = hash.parse().map_err(|_| wrong(format!("a table's key is {hash:?}")))?;
            let count = |x: &HashOrCount| if let HashOrCount::Number(x) = x { Ok(*x) } else { Err(wrong("a table's number is text")) };
            // The key of a place that is empty.
            if hash != u64::MAX {
                table.insert(hash, counts.iter().map(count).collect::<Result<_>>()?);
            }
        }
        Ok(table)
    }
}

impl Tests {
    /// Takes of what is told the categories.
    fn new(info: &FeaturesInfo, data: &HashMap<String, CtrData>, told: &mut Told) -> Result<Tests> {
        let number = info.float_features.len() + info.categorical_features.len();
        let mut places: Vec<Option<ForeignColumn>> = (0..number).map(|_| None).collect();
        let mut place = |at: usize, name: &Option<String>, is_categorical: bool| {
            let name = name.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| at.to_string());
            let slot =
                places.get_mut(at).filter(|slot| slot.is_none()).ok_or_else(|| wrong(format!("a feature is number {at} of {number}")))?;
            *slot = Some(ForeignColumn { name, is_categorical, categories: None });
            Ok::<u32, crate::Error>(at as u32)
        };
        let (mut floats, mut cats) = (vec![], vec![]);
        for feature in &info.float_features {
            let missing_left = feature.nan_value_treatment.as_deref() != Some("AsTrue");
            floats.push((place(feature.flat_feature_index, &feature.feature_id, false)?, missing_left));
        }
        for feature in &info.categorical_features {
            cats.push((place(feature.flat_feature_index, &feature.feature_id, true)?, vec![]));
        }
        let mut columns: Vec<ForeignColumn> = places.into_iter().flatten().collect();
        let tables = data.iter().map(|(name, of)| Ok((name.as_str(), of.table()?))).collect::<Result<HashMap<&str, Table>>>()?;
        let names: Vec<(u32, LabelIn)> = info.cat_features_hash.iter().map(|h| (h.hash as u32, LabelIn::Text(h.value.clone()))).collect();
        let mut seen = HashSet::new();
        if let Some((hash, _)) = names.iter().find(|(hash, _)| !seen.insert(*hash)) {
            return Err(wrong(format!("two categories have the hash {hash}")));
        }
        for (at, ((column, hashes), feature)) in cats.iter_mut().zip(&info.categorical_features).enumerate() {
            let of: HashSet<&str> = info.ctrs.iter().filter(|c| c.only_column() == Some(at)).map(|c| c.identifier.as_str()).collect();
            let own: Vec<&Table> = of.iter().filter_map(|name| tables.get(name)).collect();
            let values: HashSet<u32> = feature.values.iter().map(|v| *v as u32).collect();
            let is_known = |hash: u32| values.contains(&hash) || own.iter().any(|table| table.contains_key(&of_one(hash)));
            let of = &mut columns[*column as usize];
            let named = match told.categories.remove(&of.name) {
                Some(labels) => hashed(labels).map_err(|what| wrong(format!("of `{}` {what}", of.name)))?,
                None => names.clone(),
            };
            let known: Vec<(u32, LabelIn)> = named.into_iter().filter(|(hash, _)| is_known(*hash)).collect();
            *hashes = known.iter().map(|(hash, _)| *hash).collect();
            let of_hash: HashSet<u32> = hashes.iter().copied().collect();
            let all_there = values.iter().all(|hash| of_hash.contains(hash))
                && own.iter().all(|table| table.len() == hashes.iter().filter(|hash| table.contains_key(&of_one(**hash))).count());
            if !all_there {
                return Err(wrong(format!(
                    "the file knows hashes of the categories of `{}` and not all of their texts: give these as `categories`, or save it as \
                     JSON with pool=",
                    of.name
                )));
            }
            of.categories = Some(known.into_iter().map(|(_, label)| label).collect());
        }
        let statistic = |ctr: &CtrIn| {
            let at = ctr.only_column().ok_or("a split asks about a statistic of several columns: fit with max_ctr_complexity=1")?;
            let (column, hashes) = cats.get(at).ok_or("a statistic is of no column")?;
            let (table, numbers) = data.get(&ctr.identifier).zip(tables.get(ctr.identifier.as_str())).ok_or("a statistic has no table")?;
            let of = |hash: &u32| ctr.value(numbers.get(&of_one(*hash)).map(Vec::as_slice), table);
            Ok((*column, hashes.iter().map(of).collect::<std::result::Result<Vec<f32>, String>>()?, ctr.value(None, table)?))
        };
        let statistics = info.ctrs.iter().map(statistic).collect();
        let first_statistic = info.float_features.iter().map(|f| f.borders.len()).sum::<usize>()
            + info.categorical_features.iter().map(|c| c.values.len()).sum::<usize>();
        let statistic_of = info.ctrs.iter().enumerate().flat_map(|(i, ctr)| ctr.borders.iter().map(move |_| i)).collect();
        Ok(Tests { columns, floats, cats, statistics, first_statistic, statistic_of })
    }

    /// The column of a split, its test, and whether missing values go left.
    fn of(&self, split: &SplitIn) -> std::result::Result<(u32, Test, bool), String> {
        match split.split_type.as_str() {
            "FloatFeature" => {
                let found = split.float_feature_index.and_then(|i| self.floats.get(i)).zip(split.border);
                let ((column, missing_left), border) = found.ok_or("a split is of no column")?;
                Ok((*column, Test::not(border_at_most(border as f64)), *missing_left))
            }
            "OneHotFeature" => {
                let found = split.cat_feature_index.and_then(|i| self.cats.get(i)).zip(split.value);
                let ((column, hashes), value) = found.ok_or("a split is of no column")?;
                let code = hashes.iter().position(|hash| *hash == value as u32).ok_or("a split asks about an unknown category")?;
                Ok((*column, Test::OneOf(vec![code as u32]), true))
            }
            "OnlineCtr" => {
                let at = split.split_index.checked_sub(self.first_statistic).and_then(|i| self.statistic_of.get(i));
                let (column, values, unknown) =
                    self.statistics[*at.ok_or("a split is of no statistic")?].as_ref().map_err(String::clone)?;
                let border = split.border.ok_or("a split has no border")?;
                // A set that unknown ones belong to is told by those that do not.
                let is_turned = *unknown > border;
                let chosen = (0..).zip(values).filter(|(_, value)| (**value > border) != is_turned).map(|(code, _)| code).collect();
                // Null is an unknown one.
                Ok((*column, if is_turned { Test::NoneOf(chosen) } else { Test::OneOf(chosen) }, !is_turned))
            }
            other => Err(format!("a split is of the kind {other:?}")),
        }
    }
}
