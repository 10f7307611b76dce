//! A model from JSON: the inverse of [`super::json`].

use super::envelope::ENVELOPE;
use super::{CtrTable, Derived, HashedPart, Model, Units};
use crate::encoding::ctr::Ctr;
use crate::error::Result;
use crate::learners::boosting::params::BoostingParams;
use crate::losses::LossKind;
use crate::model::Feature;
use crate::model::from_json::{
    ChildIn, FeatureIn, HistoryIn, LabelIn, NumberIn, Side, border_place, labels, numbers, params, provenance, read,
};
use crate::model::payload::{invalid, named};
use crate::provenance::{LabelType, StructColumn};
use crate::tree::linear::LinearLeaf;
use crate::tree::model::{Leaf, Node, Split, Tree};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelIn {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    loss: String,
    target: String,
    rows: u64,
    labels: Option<Vec<LabelIn>>,
    start: Vec<NumberIn>,
    scale: NumberIn,
    units: Option<UnitsIn>,
    features: Vec<FeatureIn>,
    derived: Vec<DerivedIn>,
    tables: Vec<TableIn>,
    trees: Vec<TreeIn>,
    history: Option<HistoryIn>,
    params: Value,
    label_type: Option<LabelType>,
    #[serde(default)]
    computed: Vec<String>,
    #[serde(default)]
    structs: Vec<StructColumn>,
    metadata: Option<Value>,
    receipt: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitsIn {
    gain: NumberIn,
    weight: NumberIn,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum DerivedIn {
    OneOf { feature: u32, categories: Vec<u32> },
    Ctr { table: u32, statistic: String, class: u8, prior: NumberIn, sums: u32, unit: NumberIn, borders: Vec<NumberIn> },
    Hashed { table: u32, parts: Vec<PartIn>, values: Vec<NumberIn>, unseen: NumberIn, borders: Vec<NumberIn> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartIn {
    category_of: Option<u32>,
    feature: Option<u32>,
    border: Option<NumberIn>,
    missing: Option<Side>,
}

impl PartIn {
    fn part(self, features: &[Feature]) -> Result<HashedPart> {
        match (self.category_of, self.feature, self.border, self.missing) {
            (Some(column), None, None, None) => Ok(HashedPart::Category(column)),
            (None, Some(feature), Some(border), Some(side)) => {
                // Behind the columns it is a set of categories.
                let borders = features.get(feature as usize).map_or(&[0.5][..], |f| &f.borders);
                let border = border_place(feature, borders, border.0).map_err(invalid)?;
                Ok(HashedPart::Answer { feature, border, missing_left: side == Side::Left })
            }
            _ => Err(invalid("a part of a hash is neither a category nor a split's answer")),
        }
    }
}

impl DerivedIn {
    fn derived(self, features: &[Feature]) -> Result<Derived> {
        Ok(match self {
            DerivedIn::OneOf { feature, categories } => Derived::OneOf { feature, categories },
            DerivedIn::Ctr { table, statistic, class, prior, sums, unit, borders } => {
                let ctr = Ctr { kind: named("statistic", &statistic)?, class, prior: prior.0 };
                Derived::Ctr { table, sums, ctr, unit: unit.0, borders: numbers(borders) }
            }
            DerivedIn::Hashed { table, parts, values, unseen, borders } => Derived::Hashed {
                table,
                parts: parts.into_iter().map(|part| part.part(features)).collect::<Result<_>>()?,
                values: values.into_iter().map(|x| x.0 as f32).collect(),
                unseen: unseen.0 as f32,
                borders: numbers(borders),
            },
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableIn {
    features: Vec<u32>,
    keys: Vec<u64>,
    n: Vec<u32>,
    sums: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitIn {
    feature: u32,
    border: NumberIn,
    missing: Side,
    gain: NumberIn,
    left: Option<ChildIn>,
    right: Option<ChildIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafIn {
    value: NumberIn,
    weight: NumberIn,
    count: u32,
    linear: Option<Box<LinearIn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinearIn {
    constant: NumberIn,
    features: Vec<u32>,
    coefficients: Vec<NumberIn>,
}

impl LinearIn {
    fn leaf(self, tree: usize, leaf: usize) -> std::result::Result<LinearLeaf, String> {
        let (features, coefficients) = (self.features, numbers(self.coefficients));
        if features.len() != coefficients.len() {
            return Err(format!("leaf {leaf} has {} features and {} coefficients", features.len(), coefficients.len()));
        }
        let terms = features.into_iter().zip(coefficients).collect();
        Ok(LinearLeaf { tree: tree as u32, leaf: leaf as u32, constant: self.constant.0, terms })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeIn {
    kind: String,
    splits: Option<Vec<SplitIn>>,
    nodes: Option<Vec<SplitIn>>,
    round: usize,
    output: usize,
    leaves: Vec<LeafIn>,
}

impl Model {
    /// The model of a text that [`Model::json_text`] wrote: an equal one, with the same bytes. Whatever the text, the memory taken
    /// stays in proportion to its length, and the model is valid ([`Model::validate`]).
    ///
    /// # Errors
    /// [`Error::Model`](crate::Error::Model) saying what is wrong.
    ///
    /// ```
    /// use taiga_core::learners::boosting::model::Model;
    /// let error = Model::from_json("{\"format\": \"polars-taiga gbdt\", \"version\": 1}").unwrap_err();
    /// assert!(error.to_string().contains("missing field"));
    /// ```
    pub fn from_json(text: &str) -> Result<Model> {
        let m: ModelIn = read(text, super::json::FORMAT, ENVELOPE.version)?;
        let features = m.features.into_iter().map(FeatureIn::feature).collect::<Result<Vec<_>>>()?;
        let names = features.iter().map(|f| f.name.as_str());
        let provenance = provenance(m.label_type, &m.computed, m.structs, m.metadata.as_ref(), m.receipt.as_deref(), names)?;
        let derived = m.derived.into_iter().map(|d| d.derived(&features)).collect::<Result<_>>()?;
        let mut model = Model {
            params: params(&m.params, BoostingParams::LOCAL, BoostingParams::from_stored)?,
            loss: named::<LossKind>("loss", &m.loss)?,
            target: m.target,
            features,
            derived,
            tables: m.tables.into_iter().map(|t| CtrTable { features: t.features, keys: t.keys, n: t.n, sums: t.sums }).collect(),
            labels: m.labels.map(labels).transpose()?,
            start: numbers(m.start),
            scale: m.scale.0,
            units: m.units.map_or(Units::ONE, |u| Units { gain: u.gain.0, weight: u.weight.0 }),
            trees: vec![],
            linear: vec![],
            rows: m.rows,
            history: m.history.map(HistoryIn::history).transpose()?,
            provenance,
        };
        let outputs = model.outputs().max(1);
        for (i, mut tree) in m.trees.into_iter().enumerate() {
            if (tree.round, tree.output) != (i / outputs, i % outputs) {
                return Err(invalid(format!("tree {i} says it is of round {} and output {}", tree.round, tree.output)));
            }
            let wrong = |what: String| invalid(format!("tree {i}: {what}"));
            for (number, leaf) in tree.leaves.iter_mut().enumerate() {
                if let Some(linear) = leaf.linear.take() {
                    model.linear.push(linear.leaf(i, number).map_err(wrong)?);
                }
            }
            let tree = model.tree(tree).map_err(wrong)?;
            model.trees.push(tree);
        }
        model.validate()?;
        Ok(model)
    }

    fn tree(&self, tree: TreeIn) -> std::result::Result<Tree, String> {
        let leaf = |l: &LeafIn| Leaf { value: l.value.0, weight: (l.weight.0 / self.units.weight) as f32, count: l.count };
        let leaves = tree.leaves.iter().map(leaf).collect();
        match (tree.kind.as_str(), tree.splits, tree.nodes) {
            ("symmetric", Some(splits), None) => {
                if splits.iter().any(|s| s.left.is_some() || s.right.is_some()) {
                    return Err("a level of a symmetric tree has children".into());
                }
                Ok(Tree::Symmetric { splits: splits.iter().map(|s| self.split(s)).collect::<std::result::Result<_, _>>()?, leaves })
            }
            ("branching", None, Some(nodes)) => {
                let node = |n: &SplitIn| {
                    let (Some(left), Some(right)) = (n.left, n.right) else { return Err("a node has no children".to_string()) };
                    Ok(Node { split: self.split(n)?, left: left.into(), right: right.into() })
                };
                Ok(Tree::Branching { nodes: nodes.iter().map(node).collect::<std::result::Result<_, _>>()?, leaves })
            }
            (kind, ..) => Err(format!("{kind:?} with these fields is no kind of tree")),
        }
    }

    /// A split, whose border is one of its feature's, or behind all of them.
    fn split(&self, s: &SplitIn) -> std::result::Result<Split, String> {
        if s.feature as usize >= self.features.len() + self.derived.len() {
            return Err(format!("there is no feature {}", s.feature));
        }
        Ok(Split {
            feature: s.feature,
            border: border_place(s.feature, self.borders(s.feature), s.border.0)?,
            missing_left: s.missing == Side::Left,
            gain: (s.gain.0 / self.units.gain) as f32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::FeatureType;
    use crate::column::categories::{Categories, CategoryNames};
    use crate::dataset::Labels;
    use crate::encoding::ctr::CtrKind;
    use crate::metadata::Metadata;
    use crate::model::History;
    use crate::provenance::Provenance;
    use crate::receipt::Receipt;
    use crate::tree::model::Child;

    fn model() -> Model {
        let split = |feature, border, gain| Split { feature, border, missing_left: border == 1, gain };
        let leaves = |n: usize| (0..n).map(|i| Leaf { value: (i as f32 / 3.0) as f64, weight: 0.1 + i as f32, count: i as u32 }).collect();
        let numeric =
            |borders: &[f64]| Feature { name: "x".into(), dtype: FeatureType::Numeric, borders: borders.to_vec(), categories: None };
        let city = Categories { labels: CategoryNames::Integer(vec![-5, 0, 7]), null: Some(1) };
        let mut history = History::new(crate::metrics::MetricKind::Auc);
        [0.5, f64::NAN, 0.75].into_iter().for_each(|value| {
            history.push(value);
        });
        Model {
            params: BoostingParams { rounds: Some(2), ..Default::default() },
            loss: LossKind::Logloss,
            target: "y \"\n".into(),
            features: vec![
                numeric(&[f64::NEG_INFINITY, 0.1, 1e300]),
                Feature { name: "c".into(), dtype: FeatureType::Categorical, borders: vec![], categories: Some(city) },
            ],
            derived: vec![
                Derived::OneOf { feature: 1, categories: vec![0, 2] },
                Derived::Ctr {
                    table: 0,
                    sums: 0,
                    ctr: Ctr { kind: CtrKind::Borders, class: 0, prior: 0.5 },
                    unit: 1.0,
                    borders: vec![0.25, 0.75],
                },
            ],
            tables: vec![CtrTable { features: vec![1], keys: vec![], n: vec![3, 1, 2], sums: vec![vec![1, 0, 2]] }],
            labels: Some(Labels::Text(vec!["no".into(), "yes".into()])),
            start: vec![-0.3],
            scale: 0.25,
            units: Units { gain: 4.0, weight: 0.5 },
            trees: vec![
                Tree::Symmetric { splits: vec![split(0, 3, 1.5), split(2, 0, 0.1)], leaves: leaves(4) },
                Tree::Branching {
                    nodes: vec![
                        Node { split: split(3, 1, 0.3), left: Child::Leaf(0), right: Child::Node(1) },
                        Node { split: split(0, 0, 0.2), left: Child::Leaf(2), right: Child::Leaf(1) },
                    ],
                    leaves: leaves(3),
                },
            ],
            linear: vec![LinearLeaf { tree: 1, leaf: 1, constant: 0.1, terms: vec![(0, -1.0 / 3.0)] }],
            rows: 6,
            history: Some(history),
            provenance: Provenance {
                metadata: Some(Metadata::new("{\"a\": [1, 0.1]}").expect("an object")),
                receipt: Some(Receipt::from_bytes([0xA7; 32])),
                ..Provenance::new(Some(LabelType::Enum(vec!["no".into(), "maybe".into(), "yes".into()])), [false, true])
            },
        }
    }

    /// Proves that a text makes the model that wrote it, down to the bytes, with everything a model can hold.
    #[test]
    fn a_text_makes_the_model_that_wrote_it() {
        let model = model();
        model.validate().expect("a valid model");
        let text = model.json_text().expect("a text");
        let again = Model::from_json(&text).expect("a model");
        assert_eq!(again.to_bytes(), model.to_bytes());
        assert_eq!(again.json_text().expect("a text"), text);
        let read = Model::from_bytes(&model.to_bytes()).expect("a model");
        assert_eq!(read.provenance, model.provenance);
    }

    /// Proves that a text with anything changed is an error or another valid model, never a panic.
    #[test]
    fn damaged_texts_are_errors() {
        let text = model().json_text().expect("a text");
        for at in (0..text.len()).step_by(5).filter(|at| text.is_char_boundary(*at)) {
            for put in ["", "9", "-", "[", "\"", "null"] {
                let changed = format!("{}{put}{}", &text[..at], text.get(at + 1..).unwrap_or_default());
                if let Ok(model) = Model::from_json(&changed) {
                    model.validate().expect("a valid model");
                }
            }
        }
    }

    /// Proves that the first round is the model without what the second alone asks about.
    #[test]
    fn the_head_leaves_out_what_it_does_not_ask() {
        let head = model().into_head(1).expect("a head");
        head.validate().expect("a valid model");
        assert_eq!((head.rounds(), head.params.rounds), (1, Some(1)));
        // Behind all borders is behind none.
        assert_eq!((head.features[0].borders.as_slice(), head.tables.len(), head.derived.len()), (&[][..], 0, 1));
        assert_eq!(head.trees[0].splits().map(|s| (s.feature, s.border)).collect::<Vec<_>>(), [(0, 0), (2, 0)]);
        let history = head.history.expect("a history");
        assert_eq!((history.values, history.best), (vec![0.5], 0));
        assert!(model().into_head(0).is_err());
        assert_eq!(model().into_head(5).expect("all").to_bytes(), model().to_bytes());
    }
}
