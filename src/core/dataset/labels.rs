//! Class labels, their order and their type.

use crate::envelope::check;
use crate::error::{Error, Result};
use crate::provenance::{LabelType, Provenance};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Class labels in the order of the outputs: of two, the second is the one whose probability is predicted.
///
/// Bytes name the variants by their places: new ones go to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Labels {
    /// False, then true.
    Boolean,
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<String>),
    /// True, then false: `positive` was false.
    TrueFirst,
}

/// One class label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a label is text, a number or a Boolean")]
pub enum Label {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Boolean(b) => write!(f, "{b}"),
            Label::Integer(n) => write!(f, "{n}"),
            Label::Float(x) => write!(f, "{x}"),
            Label::Text(s) => write!(f, "{s:?}"),
        }
    }
}

impl Label {
    /// Whether both are the same label: of numbers, the same number.
    fn is(&self, other: &Label) -> bool {
        match (self, other) {
            (Label::Integer(n), Label::Float(x)) | (Label::Float(x), Label::Integer(n)) => *n as f64 == *x && *x as i64 == *n,
            _ => self == other,
        }
    }
}

impl Labels {
    /// The number of classes.
    pub fn len(&self) -> usize {
        match self {
            Labels::Boolean | Labels::TrueFirst => 2,
            Labels::Integer(v) => v.len(),
            Labels::Float(v) => v.len(),
            Labels::Text(v) => v.len(),
        }
    }

    /// Whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels whose class is marked, and of each of all classes its number among them. `false` and `true` stay together.
    pub fn only(&self, marked: &[bool]) -> (Labels, Vec<u32>) {
        fn of<T: Clone>(labels: &[T], marked: &[bool]) -> Vec<T> {
            labels.iter().zip(marked).filter(|(_, m)| **m).map(|(l, _)| l.clone()).collect()
        }
        let labels = match self {
            Labels::Boolean | Labels::TrueFirst => return (self.clone(), vec![0, 1]),
            Labels::Integer(v) => Labels::Integer(of(v, marked)),
            Labels::Float(v) => Labels::Float(of(v, marked)),
            Labels::Text(v) => Labels::Text(of(v, marked)),
        };
        let mut next = 0;
        let number = |marked: &bool| {
            next += *marked as u32;
            next - *marked as u32
        };
        (labels, marked.iter().map(number).collect())
    }

    /// The labels written out, as they name the fields of a struct of probabilities.
    pub fn names(&self) -> Vec<String> {
        match self {
            Labels::Boolean => vec!["false".into(), "true".into()],
            Labels::TrueFirst => vec!["true".into(), "false".into()],
            Labels::Integer(v) => v.iter().map(|x| x.to_string()).collect(),
            Labels::Float(v) => v.iter().map(|x| x.to_string()).collect(),
            Labels::Text(v) => v.clone(),
        }
    }

    /// The label of a class.
    pub fn get(&self, class: usize) -> Option<Label> {
        match self {
            Labels::Boolean => (class < 2).then_some(Label::Boolean(class == 1)),
            Labels::TrueFirst => (class < 2).then_some(Label::Boolean(class == 0)),
            Labels::Integer(v) => v.get(class).map(|n| Label::Integer(*n)),
            Labels::Float(v) => v.get(class).map(|x| Label::Float(*x)),
            Labels::Text(v) => v.get(class).cloned().map(Label::Text),
        }
    }

    /// The type that labels are kept as, whatever their column's.
    pub fn kept_as(&self) -> LabelType {
        match self {
            Labels::Boolean | Labels::TrueFirst => LabelType::Boolean,
            Labels::Integer(_) => LabelType::Int64,
            Labels::Float(_) => LabelType::Float64,
            Labels::Text(_) => LabelType::String,
        }
    }

    /// The labels' type in the column that they come from.
    pub fn label_type(&self, provenance: &Provenance) -> LabelType {
        provenance.label_type.clone().unwrap_or_else(|| self.kept_as())
    }

    /// These two labels with `positive` last, which is the class whose probability is predicted; and whether that
    /// changes their order. To a single other label `positive` is added: its class has no rows. `dtype`: the labels'
    /// type, where it is not the one that they are kept as.
    ///
    /// # Errors
    /// [`Error::Parameter`] listing the labels, if they are more than two or `positive` is and can be none of them.
    ///
    /// ```
    /// use taiga_core::learners::boosting::model::{Label, Labels};
    /// let labels = Labels::Text(vec!["bad".into(), "good".into()]);
    /// let (labels, changed) = labels.with_positive(&Label::Text("bad".into()), None).unwrap();
    /// assert_eq!((labels.names(), changed), (vec!["good".to_string(), "bad".into()], true));
    /// let error = labels.with_positive(&Label::Integer(1), None).unwrap_err();
    /// assert_eq!(error.to_string(), "parameter `positive`: the target has no class 1; its classes are \"good\", \"bad\"");
    /// ```
    pub fn with_positive(self, positive: &Label, dtype: Option<&LabelType>) -> Result<(Labels, bool)> {
        match (self.len(), self.place_of(positive)) {
            (1 | 2, Some(place)) => {
                let changed = place + 1 < self.len();
                Ok((if changed { self.reversed() } else { self }, changed))
            }
            (1, None) => match self.with(positive).filter(|both| dtype.is_none_or(|dtype| can_hold(dtype, both))) {
                Some(both) => Ok((both, false)),
                None => Err(self.not_among(positive)),
            },
            _ => Err(self.not_among(positive)),
        }
    }

    /// Checks that `positive` is the last of at most two labels.
    ///
    /// # Errors
    /// As [`Labels::with_positive`], and where the order is another.
    pub fn check_positive(&self, positive: &Label) -> Result<()> {
        match (self.len(), self.place_of(positive)) {
            (1 | 2, Some(place)) if place + 1 == self.len() => Ok(()),
            (2, Some(_)) => Err(Error::parameter("positive", format!("{positive} is not the last of the classes, {}", self.listed()))),
            _ => Err(self.not_among(positive)),
        }
    }

    fn place_of(&self, label: &Label) -> Option<usize> {
        (0..self.len()).find(|c| self.get(*c).is_some_and(|own| own.is(label)))
    }

    fn not_among(&self, positive: &Label) -> Error {
        let message = match self.len() {
            n if n > 2 => {
                format!("{positive} would be the one of two classes whose probability is predicted; the target has {n}: {}", self.listed())
            }
            1 => format!("the target has no class {positive}; its one class is {}", self.listed()),
            _ => format!("the target has no class {positive}; its classes are {}", self.listed()),
        };
        Error::parameter("positive", message)
    }

    /// The labels and one more of their kind.
    fn with(&self, label: &Label) -> Option<Labels> {
        match (self.clone(), label) {
            (Labels::Integer(mut v), Label::Integer(n)) => {
                v.push(*n);
                Some(Labels::Integer(v))
            }
            (Labels::Float(mut v), Label::Integer(n)) => {
                v.push(*n as f64);
                Some(Labels::Float(v))
            }
            (Labels::Float(mut v), Label::Float(x)) => {
                v.push(*x);
                Some(Labels::Float(v))
            }
            (Labels::Text(mut v), Label::Text(s)) => {
                v.push(s.clone());
                Some(Labels::Text(v))
            }
            _ => None,
        }
    }

    /// The labels for an error: twenty at most.
    fn listed(&self) -> String {
        let shown: Vec<String> = (0..self.len().min(20)).filter_map(|c| self.get(c)).map(|l| l.to_string()).collect();
        shown.join(", ") + if self.len() > shown.len() { ", …" } else { "" }
    }

    fn reversed(self) -> Labels {
        match self {
            Labels::Boolean => Labels::TrueFirst,
            Labels::TrueFirst => Labels::Boolean,
            Labels::Integer(v) => Labels::Integer(v.into_iter().rev().collect()),
            Labels::Float(v) => Labels::Float(v.into_iter().rev().collect()),
            Labels::Text(v) => Labels::Text(v.into_iter().rev().collect()),
        }
    }
}

/// Checks that each label stands once, that numbers are finite, and that a column of the type can hold all of them.
///
/// # Errors
/// [`Error::Model`] saying what is wrong.
pub fn validate_labels(labels: Option<&Labels>, provenance: &Provenance) -> Result<()> {
    let Some(labels) = labels else {
        return check(provenance.label_type.is_none(), || "it has a type of labels and no labels".into());
    };
    let distinct = match labels {
        Labels::Boolean | Labels::TrueFirst => true,
        Labels::Integer(v) => v.iter().collect::<HashSet<_>>().len() == v.len(),
        Labels::Float(v) => {
            v.iter().all(|x| x.is_finite()) && v.iter().map(|x| (x + 0.0).to_bits()).collect::<HashSet<_>>().len() == v.len()
        }
        Labels::Text(v) => v.iter().collect::<HashSet<_>>().len() == v.len(),
    };
    check(distinct, || "a class label stands twice, or is not finite".into())?;
    match &provenance.label_type {
        None => Ok(()),
        Some(dtype) => check(can_hold(dtype, labels), || format!("its labels are not of the type {dtype}")),
    }
}

/// Whether a type other than the one that labels are kept as can hold them.
fn can_hold(dtype: &LabelType, labels: &Labels) -> bool {
    let between = |v: &[i64], least: i64, most: i64| v.iter().all(|n| (least..=most).contains(n));
    let below = |v: &[f64], most: f64| v.iter().all(|x| x.abs() < most);
    match (dtype, labels) {
        (LabelType::Int8, Labels::Integer(v)) => between(v, i8::MIN.into(), i8::MAX.into()),
        (LabelType::Int16, Labels::Integer(v)) => between(v, i16::MIN.into(), i16::MAX.into()),
        (LabelType::Int32, Labels::Integer(v)) => between(v, i32::MIN.into(), i32::MAX.into()),
        (LabelType::Int128, Labels::Integer(_)) => true,
        (LabelType::UInt8, Labels::Integer(v)) => between(v, 0, u8::MAX.into()),
        (LabelType::UInt16, Labels::Integer(v)) => between(v, 0, u16::MAX.into()),
        (LabelType::UInt32, Labels::Integer(v)) => between(v, 0, u32::MAX.into()),
        (LabelType::UInt64 | LabelType::UInt128, Labels::Integer(v)) => between(v, 0, i64::MAX),
        (LabelType::Float16, Labels::Float(v)) => below(v, 65_520.0),
        (LabelType::Float32, Labels::Float(v)) => v.iter().all(|x| (*x as f32) as f64 == *x),
        (LabelType::Decimal { precision, scale }, Labels::Float(v)) => {
            (1..=38).contains(precision) && scale <= precision && below(v, 10f64.powi((precision - scale) as i32))
        }
        (LabelType::Categorical { bits, .. }, Labels::Text(v)) => matches!(bits, 8 | 16 | 32) && (v.len() as u64) < 1 << bits,
        (LabelType::Enum(categories), Labels::Text(v)) => {
            let known: HashSet<&String> = categories.iter().collect();
            known.len() == categories.len() && v.iter().all(|label| known.contains(label))
        }
        _ => false,
    }
}
