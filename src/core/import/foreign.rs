//! Trees of another library, and the model that is made of them.

use super::rounding::Below;
use super::{Imported, Told, fault};
use crate::column::FeatureType;
use crate::column::categories::{Categories, CategoryNames};
use crate::dataset::Labels;
use crate::error::Result;
use crate::learners::boosting::model::{CtrTable, Derived, HashedPart, Model, Units};
use crate::learners::boosting::params::BoostingParams;
use crate::learners::forest::params::{Criterion, ForestParams};
use crate::learners::forest::{self, Forest};
use crate::losses::{LossKind, LossTarget};
use crate::metadata::Metadata;
use crate::model::Feature;
use crate::model::from_json::{LabelIn, labels};
use crate::numerics::city;
use crate::provenance::Provenance;
use crate::tree::linear::LinearLeaf;
use crate::tree::model::{Child, Leaf, Node, Split, Tree};
use crate::tree::params::Policy;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A column that trees ask about.
pub struct ForeignColumn {
    pub name: String,
    /// Whether it is of categories, which the file numbers.
    pub is_categorical: bool,
    /// The categories in the order of the file's numbers, where it tells them. Where these are hashes, some that are known, in any order.
    pub categories: Option<Vec<LabelIn>>,
    /// Whether somebody gave these, and not the file.
    pub are_given: bool,
    /// Where the file's numbers are hashes of texts ([`city::hash_of`]), the one that null gets.
    pub null_hash: Option<u32>,
}

impl ForeignColumn {
    /// Returns a column of numbers.
    pub fn numeric(name: impl Into<String>) -> ForeignColumn {
        ForeignColumn { name: name.into(), is_categorical: false, categories: None, are_given: false, null_hash: None }
    }
}

/// Which rows a node sends right.
#[derive(Clone, Debug)]
pub enum Test {
    /// Those above a border; `+∞`: none.
    Above(f64),
    /// All that are not missing.
    All,
    /// Those of some categories, by the file's numbers; others, unknown ones too, go left.
    OneOf(Arc<[u32]>),
    /// All but those of some categories; unknown ones too.
    NoneOf(Arc<[u32]>),
    /// Those of which a number that is found by a hash, one of [`ForeignHashes::statistics`], is above a border; its column is none.
    Statistic(u32, f32),
}

impl Test {
    /// Whether its sides are those of our split turned round.
    fn is_turned(&self) -> bool {
        matches!(self, Test::All | Test::NoneOf(_))
    }

    /// Returns the test of those that are not below.
    pub fn not(below: Below) -> Test {
        match below {
            Below::Border(border) => Test::Above(border),
            Below::Nothing => Test::All,
        }
    }
}

/// A node: where rows go, or where they end.
#[derive(Clone, Debug)]
pub enum RawNode {
    Split {
        column: u32,
        test: Test,
        missing_left: bool,
        left: usize,
        right: usize,
        gain: f32,
    },
    /// By its number.
    Leaf(usize),
}

/// The shape of a tree.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Nodes that lead to each other, the first one the root. What a root does not lead to is left out; to what several nodes lead is copied,
    /// and the copies share its rows and gains.
    Branching(Vec<RawNode>),
    /// One test a level, the root's first, and whether missing values go left: as [`Tree::Symmetric`].
    Symmetric(Vec<(u32, Test, bool)>),
}

/// A tree.
#[derive(Clone, Debug)]
pub struct ForeignTree {
    pub shape: Shape,
    /// The output that it adds to; where its leaves have several values, the first of them.
    pub output: usize,
    /// How many values a leaf has.
    pub width: usize,
    /// `[leaf * width + value]`.
    pub values: Vec<f64>,
    /// Of each leaf the weight of its rows; empty where that is not told.
    pub weights: Vec<f64>,
    /// Of each leaf the number of its rows; empty where that is not told.
    pub counts: Vec<u32>,
    /// Of each leaf, by its number, its linear function of columns, where it has one; such a tree is of width 1.
    pub linear: HashMap<usize, ForeignLinear>,
}

/// The linear function of columns that a leaf is: a constant, and by what their values are multiplied, the columns ascending.
#[derive(Clone, Debug)]
pub struct ForeignLinear {
    pub constant: f64,
    pub terms: Vec<(u32, f64)>,
}

impl ForeignTree {
    /// Returns a tree that adds nothing.
    fn nothing() -> Tree {
        Tree::Branching { nodes: vec![], leaves: vec![Leaf::default()] }
    }
}

/// What the numbers that are predicted stand for.
#[derive(Clone, Copy, PartialEq)]
pub enum Predicts {
    Numbers,
    /// Classes, as many as outputs, or two of one.
    Classes,
}

/// What is found by hashes of combinations.
#[derive(Default)]
pub struct ForeignHashes {
    /// Hashes, ascending.
    pub tables: Vec<Vec<u64>>,
    pub statistics: Vec<ForeignStatistic>,
}

/// A number that is found by a hash: [`Derived::Hashed`].
pub struct ForeignStatistic {
    /// One of [`ForeignHashes::tables`].
    pub table: usize,
    /// What is hashed, in this order.
    pub parts: Vec<ForeignPart>,
    /// Of each hash of the table.
    pub values: Vec<f32>,
    /// Of rows whose hash is none of these.
    pub unseen: f32,
}

/// A part of a combination.
pub enum ForeignPart {
    /// The category of a column that has a [`ForeignColumn::null_hash`].
    Category(u32),
    /// Whether a test of a column sends a row right, and whether it sends missing values left.
    Answer(u32, Test, bool),
}

/// A model of another library.
pub struct Foreign {
    /// The library, and where it is told its version.
    pub library: &'static str,
    pub version: Option<String>,
    /// What it calls its loss.
    pub objective: String,
    pub loss: LossKind,
    pub params: BoostingParams,
    pub predicts: Predicts,
    /// Above which probability the library predicts the second of two classes, where it is told and is no half.
    pub threshold: Option<f64>,
    pub columns: Vec<ForeignColumn>,
    pub hashes: ForeignHashes,
    /// Of each output.
    pub start: Vec<f64>,
    /// In their order.
    pub trees: Vec<ForeignTree>,
    /// The number of training rows; 0 where it is not told.
    pub rows: u64,
}

/// How many nodes a tree may come to for each node of the file: a test in three parts, and nodes that several lead to.
const MOST_COPIES: usize = 16;

/// A column, where a list lies, and whether missing values are one of it.
type ListKey = (u32, *const u32, bool);

/// What tests on the columns of a model choose from.
struct Choices {
    features: Vec<Feature>,
    /// Of each column of categories, the model's code of each of the file's; none for what no row can have.
    codes: Vec<HashMap<u32, u32>>,
    derived: Vec<Derived>,
    by_set: HashMap<(u32, Vec<u32>), u32>,
    /// Of each list that nodes share: the list, which stays where it is, and the derived feature; none where no row can have any of it.
    by_list: HashMap<ListKey, (Arc<[u32]>, Option<u32>)>,
    tables: Vec<CtrTable>,
    /// Of each statistic that is asked about, what is left of it until it is a derived feature, and its borders.
    statistics: Vec<(Option<ForeignStatistic>, Vec<f64>)>,
    /// Of each such statistic its derived feature.
    by_statistic: HashMap<u32, u32>,
    /// The hashes of the file's tables, and each as a table of the model, by its columns.
    hashes: Vec<Vec<u64>>,
    by_table: HashMap<(usize, Vec<u32>), u32>,
}

impl Foreign {
    /// Makes the model.
    ///
    /// # Errors
    /// For trees that are none, names that stand twice, and what does not fit: labels and outputs, categories and their numbers.
    pub fn model(mut self, told: Told) -> Result<Imported> {
        let library = self.library;
        self.rename(&told)?;
        let outputs = self.start.len();
        let mut choices = self.choices()?;
        let mut by_output: Vec<Vec<Tree>> = vec![vec![]; outputs];
        let (mut is_symmetric, mut linear) = (true, vec![]);
        for (t, tree) in std::mem::take(&mut self.trees).into_iter().enumerate() {
            let wrong = |what: String| fault(library, format!("tree {t}: {what}"));
            is_symmetric &= matches!(tree.shape, Shape::Symmetric(_));
            if tree.width == 0 || tree.output.checked_add(tree.width).is_none_or(|end| end > outputs) {
                return Err(wrong(format!("it adds {} values from output {} of {outputs} on", tree.width, tree.output)));
            }
            let (shape, order) = choices.shape(&self.columns, &tree).map_err(wrong)?;
            for place in 0..tree.width {
                let made = with_leaves(&shape, &order, &tree, place).map_err(wrong)?;
                let output = tree.output + place;
                // Trees come round after round.
                let number = by_output[output].len() * outputs + output;
                for (leaf, of) in order.iter().enumerate().filter_map(|(leaf, of)| Some((leaf, tree.linear.get(of)?))) {
                    let ForeignLinear { constant, terms } = of.clone();
                    linear.push(LinearLeaf { tree: number as u32, leaf: leaf as u32, constant, terms });
                }
                by_output[output].push(made);
            }
        }
        let rounds = by_output.iter().map(Vec::len).max().unwrap_or(0);
        let told_trees: usize = by_output.iter().map(Vec::len).sum();
        if rounds.saturating_mul(outputs) > 4 * told_trees + 1024 {
            return Err(fault(library, format!("one of {outputs} outputs has {rounds} of {told_trees} trees")));
        }
        let mut trees = Vec::with_capacity(rounds * outputs);
        let mut by_output: Vec<_> = by_output.into_iter().map(Vec::into_iter).collect();
        for _ in 0..rounds {
            trees.extend(by_output.iter_mut().map(|own| own.next().unwrap_or_else(ForeignTree::nothing)));
        }
        linear.sort_by_key(|leaf| (leaf.tree, leaf.leaf));
        let (labels, provenance) = (self.labels(told.classes)?, self.provenance()?);
        let mut params = self.params;
        params.loss = self.loss;
        params.rounds = (rounds > 0).then(|| rounds.min(u32::MAX as usize) as u32);
        params.policy = if is_symmetric { Policy::Symmetric } else { Policy::Leafwise };
        if self.predicts == Predicts::Numbers && self.loss != LossKind::Gaussian && outputs > 1 && params.targets.is_none() {
            params.targets = Some((0..outputs).map(|i| format!("target_{i}")).collect());
        }
        let model = Model {
            params,
            loss: self.loss,
            target: told.target.unwrap_or_else(|| "target".into()),
            features: choices.features,
            derived: choices.derived,
            tables: choices.tables,
            labels,
            start: self.start,
            scale: 1.0,
            units: Units::ONE,
            trees,
            linear,
            rows: self.rows,
            history: None,
            provenance,
        };
        model.validate()?;
        Ok(Imported::Boosted(Box::new(model)))
    }

    /// Makes a forest, whose predictions are the means over its trees: of classes their shares, whose leaves' values are shares of 1 and
    /// weights their rows', else numbers.
    ///
    /// # Errors
    /// As [`Foreign::model`], and for splits by categories.
    pub fn forest(mut self, told: Told) -> Result<Imported> {
        let library = self.library;
        self.rename(&told)?;
        let outputs = self.start.len();
        let mut choices = self.choices()?;
        let is_of_classes = self.predicts == Predicts::Classes;
        if outputs == 0 || !is_of_classes && outputs > 1 {
            return Err(fault(library, format!("a forest that predicts {outputs} numbers is none that is known here")));
        }
        let unit = self.unit_of_weights();
        let mut trees = Vec::with_capacity(self.trees.len());
        for (t, tree) in self.trees.iter().enumerate() {
            let wrong = |what: &str| fault(library, format!("tree {t}: {what}"));
            if tree.width != outputs {
                return Err(wrong("its leaves have other values than one an output"));
            }
            let (shape, order) = choices.shape(&self.columns, tree).map_err(|what| wrong(&what))?;
            let Tree::Branching { nodes, .. } = shape else { return Err(wrong("it is symmetric")) };
            if nodes.iter().any(|node| node.split.feature as usize >= self.columns.len()) {
                return Err(wrong("a split asks about categories"));
            }
            let mut made = forest::Tree { nodes, ..Default::default() };
            for leaf in order {
                let range = leaf.checked_mul(outputs).and_then(|at| Some(at..at.checked_add(outputs)?));
                let values = range.and_then(|r| tree.values.get(r)).ok_or_else(|| wrong("a leaf has no value"))?;
                let weight = tree.weights.get(leaf).copied().unwrap_or(1.0);
                if is_of_classes {
                    made.sums.extend(values.iter().map(|share| (share * weight / unit).round() as u64));
                } else {
                    made.sums.push(((weight / unit).round() as u64).max(1));
                    made.means.push(values[0]);
                }
                made.counts.push(tree.counts.get(leaf).copied().unwrap_or(0));
            }
            trees.push(made);
        }
        let criterion = if is_of_classes { Criterion::Gini } else { Criterion::SquaredError };
        let mut params = ForestParams { criterion, ..Default::default() };
        params.trees = trees.len().clamp(1, 1_000_000) as u32;
        let model = Forest {
            params,
            criterion,
            target: told.target.clone().unwrap_or_else(|| "target".into()),
            features: choices.features,
            labels: self.labels(told.classes)?,
            sets: vec![],
            trees,
            rows: self.rows,
            unit,
            gain_unit: 1.0,
            oob: None,
            permutation: None,
            provenance: self.provenance()?,
        };
        model.validate()?;
        Ok(Imported::Forest(Box::new(model)))
    }

    /// What the weights of a forest's leaves are in units of: 1 where all are integers, as are those of each class; else a power of two by
    /// which 62 bits hold the heaviest tree.
    fn unit_of_weights(&self) -> f64 {
        let is_whole = |x: f64| (x - x.round()).abs() <= 1e-9 * x.abs().max(1.0);
        let (mut whole, mut heaviest) = (true, 1.0f64);
        for tree in &self.trees {
            let Shape::Branching(nodes) = &tree.shape else { continue };
            let leaves = nodes.iter().filter_map(|node| if let RawNode::Leaf(leaf) = node { Some(*leaf) } else { None });
            let mut sum = 0.0;
            for leaf in leaves {
                let weight = tree.weights.get(leaf).copied().unwrap_or(1.0);
                sum += weight;
                let values = leaf.checked_mul(tree.width).and_then(|at| tree.values.get(at..at.checked_add(tree.width)?));
                let shares = values.filter(|_| self.predicts == Predicts::Classes).unwrap_or_default();
                whole &= is_whole(weight) && shares.iter().all(|share| is_whole(share * weight));
            }
            heaviest = if sum.is_finite() { heaviest.max(sum) } else { f64::MAX };
        }
        if whole { 1.0 } else { 2f64.powi((libm::ilogb(heaviest) + 1 - 62).max(-1000)) }
    }

    /// What is told of where a model comes from.
    fn provenance(&self) -> Result<Provenance> {
        let from = match &self.version {
            Some(version) => format!("{} {version}", self.library),
            None => self.library.into(),
        };
        let mut metadata = serde_json::json!({"imported_from": from, "objective": self.objective});
        if let Some(threshold) = self.threshold {
            metadata["probability_threshold"] = threshold.into();
        }
        Ok(Provenance { metadata: Some(Metadata::of_value(&metadata)?), ..Provenance::default() })
    }

    /// Gives columns the names and categories that are told.
    fn rename(&mut self, told: &Told) -> Result<()> {
        let library = self.library;
        if let Some(names) = &told.features {
            if names.len() != self.columns.len() {
                return Err(fault(library, format!("it has {} features, and {} names are given", self.columns.len(), names.len())));
            }
            self.columns.iter_mut().zip(names).for_each(|(column, name)| column.name.clone_from(name));
        }
        for (name, categories) in &told.categories {
            let column = self.columns.iter_mut().find(|c| c.name == *name);
            let Some(column) = column.filter(|c| c.is_categorical) else {
                return Err(fault(library, format!("`{name}`, whose categories are given, is none of its columns of categories")));
            };
            (column.categories, column.are_given) = (Some(categories.clone()), true);
        }
        Ok(())
    }

    fn labels(&self, told: Option<Vec<LabelIn>>) -> Result<Option<Labels>> {
        let outputs = self.start.len();
        let classes = match (self.predicts, self.loss.target()) {
            (Predicts::Numbers, _) => 0,
            (Predicts::Classes, Some(LossTarget::TwoClasses)) => 2,
            (Predicts::Classes, _) => outputs,
        };
        match told {
            None if classes == 0 => Ok(None),
            None => Ok(Some(Labels::Integer((0..classes as i64).collect()))),
            Some(told) if told.len() == classes => labels(told).map(Some),
            Some(told) => Err(fault(self.library, format!("it has {classes} classes, and {} labels are given", told.len()))),
        }
    }

    /// Finds all borders and categories that trees ask about.
    fn choices(&mut self) -> Result<Choices> {
        let mut borders: Vec<Vec<f64>> = vec![vec![]; self.columns.len()];
        let mut asked: Vec<Option<Vec<u32>>> = vec![None; self.columns.len()];
        let ForeignHashes { tables: hashes, statistics } = std::mem::take(&mut self.hashes);
        let mut statistics: Vec<(Option<ForeignStatistic>, Vec<f64>)> = statistics.into_iter().map(|s| (Some(s), vec![])).collect();
        let mut noted = HashSet::new();
        let mut note = |column: u32, test: &Test| {
            let at = column as usize;
            match test {
                Test::Statistic(number, border) => {
                    if let Some((_, borders)) = statistics.get_mut(*number as usize) {
                        borders.push(f64::from(*border) + 0.0);
                    }
                }
                _ if at >= borders.len() => {}
                Test::Above(border) if *border < f64::INFINITY => borders[at].push(border + 0.0),
                Test::OneOf(codes) | Test::NoneOf(codes) => {
                    let own = asked[at].get_or_insert_default();
                    // Nodes may share one list.
                    if noted.insert((at, codes.as_ptr())) {
                        own.extend(codes.iter());
                    }
                }
                _ => {}
            }
        };
        for tree in &self.trees {
            match &tree.shape {
                Shape::Symmetric(tests) => tests.iter().for_each(|(column, test, _)| note(*column, test)),
                Shape::Branching(nodes) => nodes.iter().for_each(|node| {
                    if let RawNode::Split { column, test, .. } = node {
                        note(*column, test);
                    }
                }),
            }
        }
        for (statistic, of_statistic) in &mut statistics {
            of_statistic.sort_by(f64::total_cmp);
            of_statistic.dedup();
            for part in statistic.iter().flat_map(|s| &s.parts) {
                match part {
                    ForeignPart::Category(column) => {
                        asked.get_mut(*column as usize).into_iter().for_each(|own| own.get_or_insert_default().extend(&[]));
                    }
                    ForeignPart::Answer(column, Test::Above(border), _) if *border < f64::INFINITY => {
                        borders.get_mut(*column as usize).into_iter().for_each(|own| own.push(border + 0.0));
                    }
                    ForeignPart::Answer(column, Test::OneOf(codes), _) => {
                        asked.get_mut(*column as usize).into_iter().for_each(|own| own.get_or_insert_default().extend(codes.iter()));
                    }
                    ForeignPart::Answer(..) => {}
                }
            }
        }
        let mut choices = Choices {
            features: vec![],
            codes: vec![],
            derived: vec![],
            by_set: HashMap::new(),
            by_list: HashMap::new(),
            tables: vec![],
            statistics,
            by_statistic: HashMap::new(),
            hashes,
            by_table: HashMap::new(),
        };
        for ((column, mut borders), mut asked) in self.columns.iter().zip(borders).zip(asked) {
            borders.sort_by(f64::total_cmp);
            borders.dedup();
            if let Some(asked) = &mut asked {
                asked.sort_unstable();
                asked.dedup();
            }
            let wrong = |what: String| fault(self.library, format!("column `{}`: {what}", column.name));
            if asked.is_some() && !borders.is_empty() {
                return Err(wrong("splits ask about its categories and about its numbers".into()));
            }
            let is_categorical = column.is_categorical || asked.is_some();
            if is_categorical && !borders.is_empty() {
                return Err(wrong("it is of categories, and splits ask about its numbers".into()));
            }
            let (categories, codes) = match asked {
                None => (None, HashMap::new()),
                Some(asked) => categories(column, &asked).map_err(wrong)?,
            };
            let dtype = if is_categorical { FeatureType::Categorical } else { FeatureType::Numeric };
            choices.features.push(Feature { name: column.name.clone(), dtype, borders, categories });
            choices.codes.push(codes);
        }
        Ok(choices)
    }
}

/// Makes the categories of a column, null the last one, and the code of each of the file's numbers.
fn categories(column: &ForeignColumn, asked: &[u32]) -> std::result::Result<(Option<Categories>, HashMap<u32, u32>), String> {
    if column.null_hash.is_some() {
        return hashed(column, asked);
    }
    let Some(told) = &column.categories else {
        let mut names: Vec<i128> = asked.iter().map(|c| *c as i128).collect();
        let null = names.len() as u32;
        names.push(0);
        let codes = asked.iter().copied().zip(0..).collect();
        return Ok((Some(Categories { labels: CategoryNames::Integer(names), null: Some(null) }), codes));
    };
    let null = told.len() as u32;
    if let Some(last) = asked.last().filter(|last| column.are_given && **last >= null) {
        return Err(format!("splits ask about its category number {last}, counted from 0, and {null} are given by `categories`"));
    }
    let mixed = || "its categories are of several kinds".to_string();
    let names = match told.first() {
        Some(LabelIn::Text(_)) => CategoryNames::Text(
            told.iter()
                .map(|l| if let LabelIn::Text(x) = l { Some(x.clone()) } else { None })
                .chain([Some(String::new())])
                .collect::<Option<_>>()
                .ok_or_else(mixed)?,
        ),
        Some(LabelIn::Boolean(_)) => CategoryNames::Boolean(
            told.iter()
                .map(|l| if let LabelIn::Boolean(x) = l { Some(*x) } else { None })
                .chain([Some(false)])
                .collect::<Option<_>>()
                .ok_or_else(mixed)?,
        ),
        // Numbers are categories as integers.
        _ => CategoryNames::Integer(
            told.iter()
                .map(|l| match l {
                    LabelIn::Integer(x) => Some(*x as i128),
                    LabelIn::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(*x as i128),
                    _ => None,
                })
                .chain([Some(0)])
                .collect::<Option<_>>()
                .ok_or_else(|| "its categories are not all text, integers or Booleans".to_string())?,
        ),
    };
    // A number behind those that the file names is of no row.
    let codes = asked.iter().filter(|code| **code < null).map(|code| (*code, *code)).collect();
    Ok((Some(Categories { labels: names, null: Some(null) }), codes))
}

/// Makes the categories of a column whose codes are hashes, in the file as in the model.
fn hashed(column: &ForeignColumn, asked: &[u32]) -> std::result::Result<(Option<Categories>, HashMap<u32, u32>), String> {
    let text = |label: &LabelIn| match label {
        LabelIn::Text(text) => Ok(text.clone()),
        LabelIn::Integer(x) => Ok(x.to_string()),
        LabelIn::Boolean(_) | LabelIn::Float(_) => Err("its categories are neither texts nor integers".to_string()),
    };
    let texts = column.categories.iter().flatten().map(text).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut known: Vec<(u32, String)> = texts.into_iter().map(|text| (city::hash_of(&text), text)).collect();
    known.sort_unstable();
    known.dedup();
    if let Some(w) = known.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(format!("the categories {:?} and {:?} have the same hash", w[0].1, w[1].1));
    }
    let codes = asked.iter().map(|hash| (*hash, *hash)).collect();
    Ok((Some(Categories { labels: CategoryNames::Hashed(known), null: column.null_hash }), codes))
}

/// A split, or where all rows go whatever they hold.
#[derive(Clone)]
enum Decided {
    Split(Split),
    Left,
}

impl Choices {
    /// Makes the split of a test.
    fn split(
        &mut self,
        columns: &[ForeignColumn],
        (column, test): (u32, &Test),
        missing_left: bool,
        gain: f32,
    ) -> std::result::Result<Decided, String> {
        if let Test::Statistic(number, border) = test {
            return self.statistic(columns, *number, f64::from(*border), gain).map(Decided::Split);
        }
        let at = column as usize;
        let Some(feature) = self.features.get(at) else { return Err(format!("a split asks about column {column} of {}", columns.len())) };
        let gain = if gain.is_nan() { 0.0 } else { gain };
        let numeric = |border: usize| Split { feature: column, border: border as u32, missing_left, gain };
        match test {
            Test::Above(_) | Test::All if feature.dtype == FeatureType::Categorical => {
                Err(format!("a split asks about numbers of `{}`, which is of categories", feature.name))
            }
            Test::Above(border) if *border == f64::INFINITY => Ok(Decided::Split(numeric(feature.borders.len()))),
            Test::Above(border) => Ok(Decided::Split(numeric(feature.borders.partition_point(|b| *b < *border)))),
            // The caller turns the node round.
            Test::All => Ok(Decided::Split(Split { missing_left: !missing_left, ..numeric(feature.borders.len()) })),
            Test::OneOf(listed) | Test::NoneOf(listed) => {
                let has_missing = missing_left == matches!(test, Test::NoneOf(_));
                let key = (column, listed.as_ptr(), has_missing);
                let number = match self.by_list.get(&key) {
                    Some((_, number)) => *number,
                    None => {
                        let number = self.set(column, listed, has_missing);
                        self.by_list.insert(key, (listed.clone(), number));
                        number
                    }
                };
                // What is missing has a code of its own; no value of the derived feature is.
                let split = |number| Split { feature: columns.len() as u32 + number, border: 0, missing_left: true, gain };
                Ok(number.map_or(Decided::Left, |number| Decided::Split(split(number))))
            }
            // Decided above.
            Test::Statistic(..) => Ok(Decided::Left),
        }
    }

    /// Makes the derived feature of a set of categories, by the file's numbers; none where no row can have any of it.
    fn set(&mut self, column: u32, listed: &[u32], has_missing: bool) -> Option<u32> {
        let at = column as usize;
        let known = &self.codes[at];
        let mut set: Vec<u32> = listed.iter().filter_map(|code| known.get(code).copied()).collect();
        if has_missing {
            set.extend(self.features[at].categories.as_ref().and_then(|c| c.null));
        }
        set.sort_unstable();
        set.dedup();
        if set.is_empty() {
            return None;
        }
        let derived = &mut self.derived;
        let number = self.by_set.entry((column, set)).or_insert_with_key(|(feature, categories)| {
            derived.push(Derived::OneOf { feature: *feature, categories: categories.clone() });
            derived.len() as u32 - 1
        });
        Some(*number)
    }

    /// Makes the split of a statistic.
    fn statistic(&mut self, columns: &[ForeignColumn], number: u32, border: f64, gain: f32) -> std::result::Result<Split, String> {
        let derived = match self.by_statistic.get(&number) {
            Some(derived) => *derived,
            None => self.add_statistic(columns, number)?,
        };
        let borders = self.derived[derived as usize].borders();
        let place = borders.partition_point(|b| *b < border) as u32;
        let gain = if gain.is_nan() { 0.0 } else { gain };
        // No value is missing.
        Ok(Split { feature: columns.len() as u32 + derived, border: place, missing_left: true, gain })
    }

    /// Makes the derived feature of a statistic.
    fn add_statistic(&mut self, columns: &[ForeignColumn], number: u32) -> std::result::Result<u32, String> {
        let made = self.statistics.get_mut(number as usize).and_then(|(made, borders)| Some((made.take()?, std::mem::take(borders))));
        let (made, borders) = made.ok_or_else(|| format!("there is no statistic {number}"))?;
        let (mut of_columns, mut parts) = (vec![], Vec::with_capacity(made.parts.len()));
        for part in made.parts {
            parts.push(match part {
                ForeignPart::Category(column) => {
                    of_columns.push(column);
                    HashedPart::Category(column)
                }
                ForeignPart::Answer(column, test, missing_left) => {
                    of_columns.push(column);
                    let Decided::Split(split) = self.split(columns, (column, &test), missing_left, 0.0)? else {
                        return Err("a statistic asks about no category".into());
                    };
                    if test.is_turned() {
                        return Err("a statistic asks about a border that is no number".into());
                    }
                    HashedPart::Answer { feature: split.feature, border: split.border, missing_left: split.missing_left }
                }
            });
        }
        of_columns.sort_unstable();
        of_columns.dedup();
        let (tables, hashes) = (&mut self.tables, &self.hashes);
        let table = *self.by_table.entry((made.table, of_columns)).or_insert_with_key(|(table, features)| {
            let keys = hashes.get(*table).cloned().unwrap_or_default();
            tables.push(CtrTable { features: features.clone(), keys, n: vec![], sums: vec![] });
            tables.len() as u32 - 1
        });
        self.derived.push(Derived::Hashed { table, parts, values: made.values, unseen: made.unseen, borders });
        let derived = self.derived.len() as u32 - 1;
        self.by_statistic.insert(number, derived);
        Ok(derived)
    }

    /// Makes the nodes of a tree, without its leaves, and of each leaf its number in the file.
    fn shape(&mut self, columns: &[ForeignColumn], tree: &ForeignTree) -> std::result::Result<(Tree, Vec<usize>), String> {
        match &tree.shape {
            Shape::Symmetric(tests) => self.symmetric(columns, tests),
            Shape::Branching(nodes) => self.branching(columns, nodes),
        }
    }

    fn symmetric(&mut self, columns: &[ForeignColumn], tests: &[(u32, Test, bool)]) -> std::result::Result<(Tree, Vec<usize>), String> {
        if tests.len() > 16 {
            return Err(format!("a symmetric tree of depth {}, 16 are the most", tests.len()));
        }
        let mut splits = vec![];
        // The leaf of the file that each leaf stands for.
        let mut order = vec![0usize];
        for (column, test, missing_left) in tests {
            match self.split(columns, (*column, test), *missing_left, 0.0)? {
                // All go left: the level is left out.
                Decided::Left => order.iter_mut().for_each(|leaf| *leaf = 2 * *leaf + test.is_turned() as usize),
                Decided::Split(split) => {
                    let turned = test.is_turned() as usize;
                    order = order.iter().flat_map(|leaf| [2 * leaf + turned, 2 * leaf + 1 - turned]).collect();
                    splits.push(split);
                }
            }
        }
        Ok((Tree::Symmetric { splits, leaves: vec![] }, order))
    }

    fn branching(&mut self, columns: &[ForeignColumn], raw: &[RawNode]) -> std::result::Result<(Tree, Vec<usize>), String> {
        let most = MOST_COPIES * raw.len();
        let (mut nodes, mut order, mut met) = (Vec::<Node>::new(), vec![], 0usize);
        // Of each node the file's, and of each of these how many nodes it becomes.
        let (mut origins, mut copies) = (Vec::<usize>::new(), vec![0u32; raw.len()]);
        // What each has been decided to be: a node that many lead to may name many categories, and is read once.
        let mut decided = vec![None; raw.len()];
        // Nodes to come, with the parent that leads to them and on which side.
        let mut waiting: Vec<(usize, Option<(usize, bool)>)> = vec![(0, None)];
        while let Some((mut at, parent)) = waiting.pop() {
            let child = loop {
                met += 1;
                if met > most {
                    return Err("its nodes lead to each other in circles, or to the same ones many times".into());
                }
                match raw.get(at) {
                    None => return Err(format!("a node leads to node {at} of {}", raw.len())),
                    Some(RawNode::Leaf(leaf)) => {
                        order.push(*leaf);
                        break Child::Leaf(order.len() as u32 - 1);
                    }
                    Some(RawNode::Split { column, test, missing_left, left, right, gain }) => {
                        let own = match decided[at].take() {
                            Some(own) => own,
                            None => self.split(columns, (*column, test), *missing_left, *gain)?,
                        };
                        decided[at] = Some(own.clone());
                        match own {
                            Decided::Left => at = if test.is_turned() { *right } else { *left },
                            Decided::Split(split) => {
                                let turned = test.is_turned();
                                let (left, right) = if turned { (*right, *left) } else { (*left, *right) };
                                let number = nodes.len();
                                waiting.extend([(right, Some((number, true))), (left, Some((number, false)))]);
                                nodes.push(Node { split, left: Child::Leaf(0), right: Child::Leaf(0) });
                                origins.push(at);
                                copies[at] += 1;
                                break Child::Node(number as u32);
                            }
                        }
                    }
                }
            };
            if let Some((parent, is_right)) = parent {
                let node = &mut nodes[parent];
                *(if is_right { &mut node.right } else { &mut node.left }) = child;
            }
        }
        nodes.iter_mut().zip(origins).for_each(|(node, at)| node.split.gain /= copies[at] as f32);
        Ok((Tree::Branching { nodes, leaves: vec![] }, order))
    }
}

/// Makes a tree of its nodes and one value of each leaf. Leaves that stand for the same one share its weight and its rows evenly, the first
/// ones the rows that remain: which rows came to which is not known.
fn with_leaves(shape: &Tree, order: &[usize], tree: &ForeignTree, place: usize) -> std::result::Result<Tree, String> {
    let mut copies = vec![0u32; tree.values.len() / tree.width.max(1)];
    for number in order {
        *copies.get_mut(*number).ok_or_else(|| format!("its leaf {number} has no value"))? += 1;
    }
    let mut met = vec![0u32; copies.len()];
    let leaf = |number: &usize| {
        let value = number.checked_mul(tree.width).and_then(|at| tree.values.get(at + place));
        let value = *value.ok_or_else(|| format!("its leaf {number} has no value"))?;
        if !(value as f32).is_finite() {
            return Err(format!("the value {value} of a leaf is beyond what f32 holds"));
        }
        let (of, place) = (copies[*number], met[*number]);
        met[*number] += 1;
        let weight = tree.weights.get(*number).copied().unwrap_or(0.0).max(0.0).min(f32::MAX as f64) / of as f64;
        let count = tree.counts.get(*number).copied().unwrap_or(0);
        Ok(Leaf { value, weight: weight as f32, count: count / of + (place < count % of) as u32 })
    };
    let made = order.iter().map(leaf).collect::<std::result::Result<_, _>>()?;
    let mut shape = shape.clone();
    match &mut shape {
        Tree::Symmetric { leaves, .. } | Tree::Branching { leaves, .. } => *leaves = made,
    }
    Ok(shape)
}
