//! Models of CatBoost in JSON, or in its binary format ([`cbm`]).
//!
//! Values are rounded to f32 and compared with f32 borders; missing ones go left or right by the column (`nan_value_treatment`). The file knows
//! categories by a hash of their text ([`city`](crate::numerics::city)); what texts these are it tells where it was saved with `pool=`, else who
//! reads it may. Of a column all of whose texts are known, and that stands in no combination, a statistic ([`statistics`]) is a number
//! for each category: a split by it is a set of categories, and stands in our model as one. Other columns are known by hashes in our
//! model as well, and their statistics are found by hashes of combinations.

mod cbm;
mod statistics;

use super::foreign::{Foreign, ForeignColumn, ForeignHashes, ForeignPart, ForeignStatistic, ForeignTree, Predicts, RawNode, Shape, Test};
use super::rounding::border_at_most;
use super::{Imported, Told, fault};
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::from_json::LabelIn;
use crate::numerics::censored::Distribution;
use crate::numerics::city;
use serde::Deserialize;
use statistics::{CtrIn, Element, Table, Tables, of_one, only_category};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
    ctr_data: Tables,
    model_info: Option<ModelInfo>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Bias {
    One(f64),
    Several(Vec<f64>),
}

#[derive(Default, Deserialize)]
struct ModelInfo {
    class_params: Option<ClassParams>,
    params: Option<Params>,
    /// Of a sum of models, which has no parameters; JSON in a text.
    loss_function: Option<String>,
    /// A number in a text.
    binclass_probability_threshold: Option<String>,
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
    /// Null where a pool without such columns was saved along.
    #[serde(default)]
    cat_features_hash: Option<Vec<Hashed>>,
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

impl LossFunction {
    /// Returns the parameters that a model keeps of those of its loss.
    fn params_of(&self, loss: LossKind) -> BoostingParams {
        let number = |name: &str| self.params.get(name).and_then(|x| x.as_str()?.parse::<f64>().ok());
        let share = |name: &str| number(name).filter(|x| *x > 0.0 && *x < 1.0);
        let mut params = BoostingParams::default();
        match loss {
            LossKind::Quantile | LossKind::Expectile => params.set_loss_number(loss, number("alpha")),
            LossKind::Tweedie => params.set_loss_number(loss, number("variance_power")),
            LossKind::Huber => params.set_loss_number(loss, number("delta")),
            LossKind::Focal => {
                params.focal_alpha = share("focal_alpha");
                params.focal_gamma = number("focal_gamma").filter(|x| (0.0..=100.0).contains(x));
            }
            LossKind::Aft => {
                params.aft_distribution = match self.params.get("dist").and_then(|x| x.as_str()) {
                    Some("Normal") => Some(Distribution::Normal),
                    Some("Logistic") => Some(Distribution::Logistic),
                    Some("Extreme") => Some(Distribution::Extreme),
                    _ => None,
                };
                params.aft_scale = number("scale").filter(|x| (1e-6..=1e6).contains(x));
            }
            _ => {}
        }
        params
    }
}

/// What an objective comes to.
fn meaning(name: &str, outputs: usize) -> Result<(LossKind, Predicts)> {
    use LossKind::{
        Aft, Cox, CrossEntropy, Expectile, Focal, Gaussian, Huber, Lambdarank, LogCosh, Logloss, Mae, Mape, Multiclass, Multilabel, Ova,
        Poisson, Quantile, Rmse, Tweedie, Yetirank,
    };
    use Predicts::{Classes, Numbers};
    Ok(match name {
        "Logloss" => (Logloss, Classes),
        "Focal" => (Focal, Classes),
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
        "SurvivalAft" if outputs == 1 => (Aft, Numbers),
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
    let about = file.model_info.unwrap_or_default();
    let loss_function = match (about.params.and_then(|p| p.loss_function), about.loss_function) {
        (None, Some(text)) => {
            Some(serde_json::from_str::<LossFunction>(&text).map_err(|e| wrong(format!("its \"loss_function\" can't be read: {e}")))?)
        }
        (of_params, _) => of_params,
    };
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
    let params = loss_function.map_or_else(BoostingParams::default, |l| l.params_of(loss));
    let of_classes = about.class_params.filter(|_| predicts == Predicts::Classes);
    if told.classes.is_none() {
        told.classes = of_classes.and_then(|c| c.class_names);
    }
    let threshold = about.binclass_probability_threshold.and_then(|x| x.parse::<f64>().ok());
    let threshold = threshold.filter(|x| *x > 0.0 && *x < 1.0 && *x != 0.5 && predicts == Predicts::Classes && outputs == 1);
    let mut tests = Tests::new(&info, &file.ctr_data, &mut told)?;
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
        trees.push(branching_tree(root, width, scale, &mut tests).map_err(|what| wrong(format!("tree {t}: {what}")))?);
    }
    let (columns, hashes) = (tests.columns, tests.hashes);
    Foreign { library: LIBRARY, version: None, objective, loss, params, predicts, threshold, columns, hashes, start, trees, rows: 0 }
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

fn branching_tree(root: NodeIn, width: usize, scale: f64, tests: &mut Tests<'_>) -> std::result::Result<ForeignTree, String> {
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

/// A statistic, as our model has it.
enum Statistic {
    /// A number for each category of a column, and one for unknown ones.
    OfColumn(u32, Vec<f32>, f32),
    /// Found by a hash: its number among those of the model.
    Hashed(u32),
}

/// How many values statistics may have for each hash and count of their tables: a table of few counts may serve many priors.
const MOST_VALUES: usize = 64;

/// How many borders statistics may have in the mean for each of these values: CatBoost has three statistics of a table and 15 borders of each
/// unless told otherwise.
const MOST_BORDERS: usize = 4;

/// From its splits to our tests.
struct Tests<'f> {
    columns: Vec<ForeignColumn>,
    /// Of each column of numbers: the column, and whether missing values go left.
    floats: Vec<(u32, bool)>,
    /// Of each column of categories: the column, and the hash of each of its categories; none where any hash is one.
    cats: Vec<(u32, Option<Vec<u32>>)>,
    ctrs: &'f [CtrIn],
    tables: &'f Tables,
    /// The statistics that splits have asked about.
    statistics: HashMap<usize, Statistic>,
    hashes: ForeignHashes,
    /// By its name the number of each table that is among the hashes.
    of_table: HashMap<&'f str, usize>,
    /// How many values statistics may still have.
    room: usize,
    /// The sets of categories that statistics of one column and their borders come to, by these, for all splits that ask about them.
    sets: HashMap<(usize, u32), (u32, Test, bool)>,
    /// How many categories may still be asked whether they belong to one.
    room_of_sets: usize,
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

/// Whether a label is a text that an integer is written as.
fn is_of_digits(label: &LabelIn) -> bool {
    matches!(label, LabelIn::Text(text) if text.parse::<i128>().is_ok_and(|x| x.to_string() == *text))
}

/// The hash that null gets: the largest that is none of these, as an unknown category.
fn hash_of_null(known: &HashSet<u32>) -> u32 {
    (0..=u32::MAX).rev().find(|hash| !known.contains(hash)).unwrap_or(u32::MAX)
}

impl<'f> Tests<'f> {
    /// Takes of what is told the categories.
    fn new(info: &'f FeaturesInfo, tables: &'f Tables, told: &mut Told) -> Result<Tests<'f>> {
        let number = info.float_features.len() + info.categorical_features.len();
        let mut places: Vec<Option<ForeignColumn>> = (0..number).map(|_| None).collect();
        let mut place = |at: usize, name: &Option<String>, is_categorical: bool| {
            let name = name.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| at.to_string());
            let slot =
                places.get_mut(at).filter(|slot| slot.is_none()).ok_or_else(|| wrong(format!("a feature is number {at} of {number}")))?;
            *slot = Some(ForeignColumn { is_categorical, ..ForeignColumn::numeric(name) });
            Ok::<u32, crate::Error>(at as u32)
        };
        let (mut floats, mut cats) = (vec![], vec![]);
        for feature in &info.float_features {
            let missing_left = feature.nan_value_treatment.as_deref() != Some("AsTrue");
            floats.push((place(feature.flat_feature_index, &feature.feature_id, false)?, missing_left));
        }
        for feature in &info.categorical_features {
            cats.push((place(feature.flat_feature_index, &feature.feature_id, true)?, None));
        }
        let mut columns: Vec<ForeignColumn> = places.into_iter().flatten().collect();
        let names: Vec<(u32, LabelIn)> =
            info.cat_features_hash.iter().flatten().map(|h| (h.hash as u32, LabelIn::Text(h.value.clone()))).collect();
        let mut seen = HashSet::new();
        if let Some((hash, _)) = names.iter().find(|(hash, _)| !seen.insert(*hash)) {
            return Err(wrong(format!("two categories have the hash {hash}")));
        }
        for (at, ((column, hashes), feature)) in cats.iter_mut().zip(&info.categorical_features).enumerate() {
            let of: HashSet<&str> = info.ctrs.iter().filter(|c| c.only_column() == Some(at)).map(|c| c.identifier.as_str()).collect();
            let of_tables = of.iter().filter_map(|name| tables.get(*name)).flat_map(|table| &table.keys);
            let known: HashSet<u32> =
                feature.values.iter().map(|v| *v as u32).chain(of_tables.filter_map(|key| only_category(*key))).collect();
            let called = told.features.as_ref().and_then(|names| names.get(*column as usize));
            let of = &mut columns[*column as usize];
            let own = told.categories.remove(called.unwrap_or(&of.name));
            let is_told = own.is_some();
            let named = match own {
                Some(labels) => hashed(labels).map_err(|what| wrong(format!("of `{}` {what}", called.unwrap_or(&of.name))))?,
                None => names.iter().filter(|(hash, _)| known.contains(hash)).cloned().collect(),
            };
            let of_name: HashSet<u32> = named.iter().map(|(hash, _)| *hash).collect();
            // Texts that are all digits may have been integers, or Booleans: the file does not say.
            let may_be_numbers = !is_told && !named.is_empty() && named.iter().all(|(_, label)| is_of_digits(label));
            if may_be_numbers || info.ctrs.iter().any(|ctr| ctr.combines(at)) || !known.is_subset(&of_name) {
                of.null_hash = Some(hash_of_null(&known));
                of.categories = Some(named.into_iter().map(|(_, label)| label).collect());
                continue;
            }
            let named = named.into_iter().filter(|(hash, _)| !is_told || known.contains(hash));
            let (of_labels, labels): (Vec<u32>, Vec<LabelIn>) = named.unzip();
            *hashes = Some(of_labels);
            of.categories = Some(labels);
        }
        let first_statistic = info.float_features.iter().map(|f| f.borders.len()).sum::<usize>()
            + info.categorical_features.iter().map(|c| c.values.len()).sum::<usize>();
        let statistic_of = info.ctrs.iter().enumerate().flat_map(|(i, ctr)| ctr.borders.iter().map(move |_| i)).collect();
        let asked: usize = info.categorical_features.iter().map(|c| c.values.len()).sum();
        let room = (tables.values().map(Table::size).sum::<usize>() + asked).saturating_mul(MOST_VALUES);
        Ok(Tests {
            columns,
            floats,
            cats,
            ctrs: &info.ctrs,
            tables,
            statistics: HashMap::new(),
            hashes: ForeignHashes::default(),
            of_table: HashMap::new(),
            room,
            sets: HashMap::new(),
            room_of_sets: room.saturating_mul(MOST_BORDERS),
            first_statistic,
            statistic_of,
        })
    }

    /// The column of a split, its test, and whether missing values go left.
    fn of(&mut self, split: &SplitIn) -> std::result::Result<(u32, Test, bool), String> {
        match split.split_type.as_str() {
            "FloatFeature" => {
                let found = split.float_feature_index.zip(split.border).and_then(|(at, border)| self.above(at, border));
                found.ok_or_else(|| "a split is of no column".into())
            }
            "OneHotFeature" => {
                let found = split.cat_feature_index.zip(split.value).map(|(at, value)| self.is(at, value));
                found.unwrap_or_else(|| Err("a split is of no column".into()))
            }
            "OnlineCtr" => {
                let at = split.split_index.checked_sub(self.first_statistic).and_then(|i| self.statistic_of.get(i)).copied();
                let at = at.ok_or("a split is of no statistic")?;
                let border = split.border.filter(|border| border.is_finite()).ok_or("a split has no border")?;
                let key = (at, border.to_bits());
                if let Some(known) = self.sets.get(&key) {
                    return Ok(known.clone());
                }
                let (test, size) = match self.statistic(at)? {
                    Statistic::Hashed(number) => return Ok((0, Test::Statistic(*number, border), true)),
                    Statistic::OfColumn(column, values, unknown) => {
                        // A set that unknown ones belong to is told by those that do not.
                        let is_turned = *unknown > border;
                        let chosen = (0..).zip(values).filter(|(_, value)| (**value > border) != is_turned);
                        let chosen: Arc<[u32]> = chosen.map(|(code, _)| code).collect();
                        // Null is an unknown one.
                        ((*column, if is_turned { Test::NoneOf(chosen) } else { Test::OneOf(chosen) }, !is_turned), values.len())
                    }
                };
                let left = self.room_of_sets.checked_sub(size);
                self.room_of_sets = left.ok_or("statistics have too many borders for so many categories")?;
                self.sets.insert(key, test.clone());
                Ok(test)
            }
            other => Err(format!("a split is of the kind {other:?}")),
        }
    }

    /// Whether a number is above a border.
    fn above(&self, at: usize, border: f32) -> Option<(u32, Test, bool)> {
        let (column, missing_left) = self.floats.get(at)?;
        Some((*column, Test::not(border_at_most(border as f64)), *missing_left))
    }

    /// Whether a category is the one of a hash.
    fn is(&self, at: usize, value: i64) -> std::result::Result<(u32, Test, bool), String> {
        let (column, hashes) = self.cats.get(at).ok_or("a split is of no column")?;
        let code = match hashes {
            // Codes are hashes.
            None => value as u32,
            Some(hashes) => {
                let code = hashes.iter().position(|hash| *hash == value as u32);
                code.ok_or("a split asks about an unknown category")? as u32
            }
        };
        Ok((*column, Test::OneOf([code].into()), true))
    }

    /// A statistic by its number, made when it is first asked for.
    fn statistic(&mut self, at: usize) -> std::result::Result<&Statistic, String> {
        if !self.statistics.contains_key(&at) {
            let made = self.made(at)?;
            self.statistics.insert(at, made);
        }
        self.statistics.get(&at).ok_or_else(|| "a split is of no statistic".into())
    }

    fn made(&mut self, at: usize) -> std::result::Result<Statistic, String> {
        let (ctrs, tables) = (self.ctrs, self.tables);
        let ctr = ctrs.get(at).ok_or("a split is of no statistic")?;
        let (name, table) = tables.get_key_value(ctr.identifier.as_str()).ok_or("a statistic has no table")?;
        let of_column = ctr.only_column().and_then(|at| self.cats.get(at)).and_then(|(column, hashes)| Some((*column, hashes.as_ref()?)));
        let rows = of_column.map_or(table.keys.len(), |(_, hashes)| hashes.len());
        self.room = self.room.checked_sub(rows).ok_or("statistics share a table that is too large for so many of them")?;
        if let Some((column, hashes)) = of_column {
            let values = hashes.iter().map(|hash| ctr.value(of_one(*hash), table)).collect::<std::result::Result<_, _>>()?;
            return Ok(Statistic::OfColumn(column, values, ctr.unseen(table)?));
        }
        let part = |element: &Element| match element {
            Element::Category { cat_feature_index } => {
                let (column, _) = self.cats.get(*cat_feature_index).ok_or("a statistic is of no column")?;
                Ok(ForeignPart::Category(*column))
            }
            Element::Above { float_feature_index, border } => {
                let (column, test, missing_left) = self.above(*float_feature_index, *border).ok_or("a statistic is of no column")?;
                Ok(ForeignPart::Answer(column, test, missing_left))
            }
            Element::Is { cat_feature_index, value } => {
                let (column, test, missing_left) = self.is(*cat_feature_index, *value)?;
                Ok(ForeignPart::Answer(column, test, missing_left))
            }
        };
        // Categories come first, as CatBoost hashes them, then numbers, and then single categories.
        let order = |element: &&Element| match element {
            Element::Category { .. } => 0,
            Element::Above { .. } => 1,
            Element::Is { .. } => 2,
        };
        let mut elements: Vec<&Element> = ctr.elements.iter().collect();
        elements.sort_by_key(order);
        let parts = elements.into_iter().map(part).collect::<std::result::Result<_, String>>()?;
        let (values, unseen) = ctr.values(table)?;
        let hashes = &mut self.hashes;
        let table = *self.of_table.entry(name).or_insert_with(|| {
            hashes.tables.push(table.keys.clone());
            hashes.tables.len() - 1
        });
        hashes.statistics.push(ForeignStatistic { table, parts, values, unseen });
        Ok(Statistic::Hashed(hashes.statistics.len() as u32 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Imported, Told, read_json};
    use crate::dataset::Labels;
    use crate::learners::boosting::model::Model;
    use crate::losses::LossKind;
    use crate::numerics::censored::Distribution;

    /// The model of a tree of two leaves with these notes.
    fn noted(model_info: &str) -> crate::Result<Box<Model>> {
        let text = format!(
            r#"{{"features_info": {{"float_features": [{{"flat_feature_index": 0, "borders": [0.5]}}]}},
                "oblivious_trees": [{{"leaf_values": [1, 2], "leaf_weights": [3, 4], "splits":
                    [{{"split_type": "FloatFeature", "border": 0.5, "float_feature_index": 0, "split_index": 0}}]}}],
                "scale_and_bias": [1, [0]], "model_info": {model_info}}}"#
        );
        let Imported::Boosted(model) = read_json(&text, Told::default())? else { panic!("a boosted model") };
        Ok(model)
    }

    fn of_loss(text: &str) -> Box<Model> {
        noted(&format!(r#"{{"params": {{"loss_function": {text}}}}}"#)).unwrap()
    }

    /// Losses come with the parameters that a model keeps of them.
    #[test]
    fn losses_and_their_parameters() {
        let model = of_loss(r#"{"type": "Focal", "params": {"focal_alpha": "0.3", "focal_gamma": "1.5"}}"#);
        assert_eq!((model.loss, model.params.focal_alpha, model.params.focal_gamma), (LossKind::Focal, Some(0.3), Some(1.5)));
        assert!(matches!(&model.labels, Some(Labels::Integer(labels)) if labels == &[0, 1]));
        let model = of_loss(r#"{"type": "SurvivalAft", "params": {"dist": "Extreme", "scale": "1.5"}}"#);
        assert_eq!((model.loss, model.params.aft_distribution), (LossKind::Aft, Some(Distribution::Extreme)));
        assert_eq!((model.params.aft_scale, model.labels.is_none()), (Some(1.5), true));
        let model = of_loss(r#"{"type": "SurvivalAft", "params": {"dist": "Normal", "scale": "1e9"}}"#);
        assert_eq!((model.params.aft_distribution, model.params.aft_scale), (Some(Distribution::Normal), None));
        assert_eq!(of_loss(r#"{"type": "Expectile", "params": {"alpha": "0.3"}}"#).params.alpha, crate::objective::Alpha::One(0.3));
    }

    /// A sum of models tells its loss beside the parameters that it does not have.
    #[test]
    fn sums_of_models() {
        let classes = r#""class_params": {"class_names": ["no", "yes"]}"#;
        let model = noted(&format!(r#"{{{classes}, "loss_function": "{{\"type\":\"Logloss\",\"params\":{{}}}}"}}"#)).unwrap();
        assert_eq!(model.loss, LossKind::Logloss);
        assert!(matches!(&model.labels, Some(Labels::Text(labels)) if labels == &["no", "yes"]));
        // Of several losses it tells none.
        let model = noted(&format!("{{{classes}}}")).unwrap();
        assert!(model.loss == LossKind::Rmse && model.labels.is_none());
        let error = noted(r#"{"loss_function": "["}"#).err().unwrap().to_string();
        assert!(error.contains("its \"loss_function\" can't be read"), "{error}");
    }

    /// A threshold of probability is noted where there are two classes and it is no half.
    #[test]
    fn thresholds_are_noted() {
        let told = |loss: &str, threshold: &str| {
            let model = noted(&format!(
                r#"{{"binclass_probability_threshold": "{threshold}", "params": {{"loss_function": {{"type": "{loss}"}}}}}}"#
            ));
            let metadata = model.unwrap().provenance.metadata.unwrap();
            metadata.value()["probability_threshold"].as_f64()
        };
        assert_eq!(told("Logloss", "0.05"), Some(0.05));
        for (loss, threshold) in [("Logloss", "0.5"), ("Logloss", "nan"), ("Logloss", "2"), ("Logloss", ""), ("RMSE", "0.05")] {
            assert_eq!(told(loss, threshold), None, "{loss} {threshold}");
        }
    }
}
