//! Classes and what is predicted of them, read from columns: probabilities of one class, a struct of those of each, or labels.

use crate::columns::Numbers;
use crate::errors;
use crate::schema::check_number_field;
use crate::target::classes_of;
use polars::prelude::*;
use std::collections::HashMap;
use taiga_engine::dataset::labels::Label;
use taiga_engine::error::RowsFault;
use taiga_engine::metrics::MetricKind;

/// The class of each row, and what is predicted.
pub struct Classes {
    /// Class indices; of one probability a row the share of a row that is of the class.
    pub target: Vec<f64>,
    pub predicted: Predicted,
    /// Whether there are two classes of which the second is predicted.
    pub of_two: bool,
}

/// What is predicted of each row.
pub enum Predicted {
    /// Probabilities, or anything that orders rows as these do: `[output][row]`.
    Shares(Vec<Vec<f64>>),
    /// Classes by their indices.
    Labels(Vec<u32>),
}

fn is_text(dtype: &DataType) -> bool {
    matches!(dtype, DataType::String | DataType::Categorical(..) | DataType::Enum(..))
}

impl Classes {
    /// Reads both columns.
    ///
    /// # Errors
    /// For missing values, probabilities that are none, labels that are none of the classes, and types that do not go together; names
    /// the column.
    pub fn new(kind: MetricKind, target: &Series, predicted: &Series, positive: Option<&Label>) -> PolarsResult<Classes> {
        match predicted.dtype() {
            DataType::Struct(_) => of_struct(kind, target, predicted, positive),
            dtype if are_labels(kind, dtype) => of_labels(target, predicted, positive),
            dtype if is_text(dtype) => Err(no_probabilities(kind, predicted.name(), dtype)),
            _ => {
                let shares = numbers(predicted, "a prediction")?;
                // Any score orders rows.
                if !matches!(kind, MetricKind::Auc | MetricKind::AveragePrecision) {
                    check_shares(predicted, &shares)?;
                }
                Ok(Classes { target: truths(kind, target, positive)?, predicted: Predicted::Shares(vec![shares]), of_two: true })
            }
        }
    }
}

/// Whether predictions of this type are labels.
fn are_labels(kind: MetricKind, dtype: &DataType) -> bool {
    let by_labels = matches!(kind, MetricKind::Accuracy | MetricKind::BalancedAccuracy | MetricKind::F1 | MetricKind::Mcc);
    by_labels && (is_text(dtype) || *dtype == DataType::Boolean || dtype.is_integer())
}

fn no_probabilities(kind: MetricKind, name: &str, dtype: &DataType) -> PolarsError {
    let text = format!("its type is {dtype}; \"{}\" is of probabilities: a number a row, or a struct of one a class", kind.name());
    errors::mistyped(name, text)
}

fn unnamed_text(name: &str) -> PolarsError {
    let text = "its labels are text: say by `positive=` which one the predictions are the probability of, or give a struct of one a class";
    errors::column(name, text)
}

fn unlike_labels(predicted: &Field, target: &Field) -> PolarsError {
    let (own, of_target) = (predicted.dtype(), target.dtype());
    errors::mistyped(predicted.name(), format!("its type is {own}, and the labels of `{}` are of type {of_target}", target.name()))
}

fn no_class<'a>(label: &str, names: impl Iterator<Item = &'a str>) -> PolarsError {
    errors::data(format!("parameter `positive`: {label:?} is none of the classes {}", names.collect::<Vec<_>>().join(", ")))
}

/// Checks what types tell, of the columns whose types are known.
///
/// # Errors
/// As [`Classes::new`].
pub fn check(kind: MetricKind, target: Option<&Field>, predicted: Option<&Field>, positive: Option<&Label>) -> PolarsResult<()> {
    let check_positive = |field: Option<&Field>, label: &Label| field.map_or(Ok(()), |f| check_label(f.name(), f.dtype(), label));
    let Some(predicted) = predicted else { return Ok(()) };
    match predicted.dtype() {
        DataType::Struct(fields) => {
            fields.iter().filter(|f| *f.dtype() != DataType::Null).try_for_each(|f| check_number_field(f, "a probability"))?;
            let label = positive.filter(|_| fields.len() == 2 && kind != MetricKind::Multiclass).map(label_text);
            match label.filter(|label| fields.iter().all(|f| f.name() != label.as_str())) {
                Some(label) => Err(no_class(&label, fields.iter().map(|f| f.name().as_str()))),
                None => Ok(()),
            }
        }
        dtype if are_labels(kind, dtype) => match (target, positive) {
            (_, Some(label)) => {
                check_positive(target, label)?;
                check_label_type(predicted.name(), dtype, label)
            }
            (Some(target), None) if is_text(target.dtype()) != is_text(dtype) => Err(unlike_labels(predicted, target)),
            (Some(target), None) if !is_text(target.dtype()) => check_number_field(target, "a target"),
            _ => Ok(()),
        },
        dtype if is_text(dtype) => Err(no_probabilities(kind, predicted.name(), dtype)),
        _ => {
            check_number_field(predicted, "a prediction")?;
            match (target, positive) {
                (_, Some(label)) => check_positive(target, label),
                (Some(target), None) if is_text(target.dtype()) => Err(unnamed_text(target.name())),
                (Some(target), None) => check_number_field(target, "a target"),
                (None, None) => Ok(()),
            }
        }
    }
}

fn numbers(series: &Series, role: &str) -> PolarsResult<Vec<f64>> {
    Ok(Numbers::finite(series, role)?.column().to_f64())
}

fn check_shares(series: &Series, shares: &[f64]) -> PolarsResult<()> {
    match shares.iter().enumerate().find(|(_, p)| !(0.0..=1.0).contains(*p)) {
        None => Ok(()),
        Some((row, p)) => Err(errors::values(series.name(), format!("it is {p} in row {row}: a probability is between 0 and 1"))),
    }
}

fn nulls(series: &Series, role: &str) -> PolarsResult<()> {
    let (n, name) = (series.null_count(), series.name().as_str());
    if n == 0 {
        return Ok(());
    }
    let filter = format!(".filter(pl.col({name:?}).is_not_null())");
    let values = errors::count(series.len(), "value is", "values are");
    Err(errors::values(name, format!("{n} of {values} null, which {role} can't be; leave those rows out first with {filter}")))
}

/// How much of each row is of the class whose probability is predicted: 1 or 0, or a share.
fn truths(kind: MetricKind, target: &Series, positive: Option<&Label>) -> PolarsResult<Vec<f64>> {
    let name = target.name();
    if let Some(positive) = positive {
        check_label(name, target.dtype(), positive)?;
        let is_it = is_label(target, positive)?;
        if !is_it.contains(&true) {
            check_may_lack(&[target], positive)?;
        }
        return Ok(is_it.into_iter().map(f64::from).collect());
    }
    if is_text(target.dtype()) {
        return Err(unnamed_text(name));
    }
    let truths = numbers(target, "a target")?;
    let takes_shares =
        matches!(kind, MetricKind::Auc | MetricKind::AveragePrecision | MetricKind::Logloss | MetricKind::CrossEntropy | MetricKind::Ece);
    let fits = |y: f64| if takes_shares { (0.0..=1.0).contains(&y) } else { y == 0.0 || y == 1.0 };
    match truths.iter().enumerate().find(|(_, y)| !fits(**y)) {
        None => Ok(truths),
        Some((row, y)) => {
            let text = format!(
                "it is {y} in row {row}, which is no class: with one probability a row classes are 0 and 1 or a Boolean, or name the label \
                 of that probability by `positive=`; several classes take a struct of probabilities"
            );
            Err(errors::values(name, text))
        }
    }
}

/// Checks that a label can be one of a column of this type.
fn check_label_type(name: &str, dtype: &DataType, label: &Label) -> PolarsResult<()> {
    let json = serde_json::to_value(label).unwrap_or_default();
    let fits = match &json {
        serde_json::Value::String(_) => is_text(dtype),
        serde_json::Value::Bool(_) => *dtype == DataType::Boolean,
        serde_json::Value::Number(_) => dtype.is_numeric(),
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => Err(errors::mistyped(name, format!("its type is {dtype}, and `positive` is {json}"))),
    }
}

/// The same of a target, whose type may say which labels there are.
fn check_label(name: &str, dtype: &DataType, label: &Label) -> PolarsResult<()> {
    check_label_type(name, dtype, label)?;
    let DataType::Enum(categories, _) = dtype else { return Ok(()) };
    let (label, known) = (label_text(label), || categories.categories().values_iter());
    if known().any(|own| own == label) { Ok(()) } else { Err(no_label(&label, name, &known().take(SHOWN).collect::<Vec<_>>())) }
}

/// So many labels are told.
const SHOWN: usize = 20;

fn no_label(label: &str, name: &str, known: &[&str]) -> PolarsError {
    errors::data(format!("parameter `positive`: {label:?} is none of the labels of column `{name}` ({})", known.join(", ")))
}

/// Checks that columns of labels, the target first, may have no row of this one, as those of one other label may, or of a type that knows it.
fn check_may_lack(columns: &[&Series], label: &Label) -> PolarsResult<()> {
    let target = columns[0];
    if matches!(target.dtype(), DataType::Enum(..)) {
        return Ok(());
    }
    let mut known: Vec<String> = vec![];
    for column in columns {
        for own in label_texts(column)?.str()?.iter().flatten() {
            if known.len() < SHOWN && !known.iter().any(|k| k == own) {
                known.push(own.to_owned());
            }
        }
    }
    if known.len() < 2 {
        return Ok(());
    }
    known.sort();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(errors::of_rows(RowsFault::Values, errors::text(&no_label(&label_text(label), target.name(), &known))))
}

/// Whether each row has a label.
fn is_label(series: &Series, label: &Label) -> PolarsResult<Vec<bool>> {
    check_label_type(series.name(), series.dtype(), label)?;
    nulls(series, "a target")?;
    let json = serde_json::to_value(label).unwrap_or_default();
    match &json {
        serde_json::Value::String(text) => Ok(series.cast(&DataType::String)?.str()?.iter().map(|s| s == Some(text.as_str())).collect()),
        serde_json::Value::Bool(flag) => Ok(series.bool()?.iter().map(|b| b == Some(*flag)).collect()),
        other => {
            let number = other.as_f64().unwrap_or(f64::NAN);
            Ok(numbers(series, "a target")?.into_iter().map(|y| y == number).collect())
        }
    }
}

/// A struct of a probability for each class, whose fields are called as the labels are.
fn of_struct(kind: MetricKind, target: &Series, predicted: &Series, positive: Option<&Label>) -> PolarsResult<Classes> {
    let predicted = predicted.propagate_nulls().unwrap_or_else(|| predicted.clone());
    let fields = predicted.struct_()?.fields_as_series();
    if fields.len() < 2 {
        let text = format!("it has {}, and classes are two or more", errors::count(fields.len(), "field", "fields"));
        return Err(errors::column(predicted.name(), text));
    }
    let mut shares = vec![];
    for field in &fields {
        let own = numbers(field, "a probability")?;
        check_shares(field, &own)?;
        shares.push(own);
    }
    nulls(target, "a target")?;
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    let places: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let unknown = |label: &str| {
        let known = names.iter().take(20).copied().collect::<Vec<_>>().join(", ");
        let text = format!("{label:?} is none of the classes that `{}` has probabilities of ({known})", predicted.name());
        errors::values(target.name(), text)
    };
    let labels = label_texts(target)?;
    let place = |label: Option<&str>| {
        let label = label.unwrap_or_default();
        places.get(label).copied().ok_or_else(|| unknown(label))
    };
    let mut classes = labels.str()?.iter().map(place).collect::<PolarsResult<Vec<usize>>>()?;
    if fields.len() > 2 || kind == MetricKind::Multiclass {
        let target = classes.into_iter().map(|k| k as f64).collect();
        return Ok(Classes { target, predicted: Predicted::Shares(shares), of_two: false });
    }
    // The second of two is the one that is predicted, or the one that is named.
    if let Some(positive) = positive {
        let label = label_text(positive);
        let place = *places.get(label.as_str()).ok_or_else(|| no_class(&label, names.iter().copied()))?;
        if place == 0 {
            shares.swap(0, 1);
            classes.iter_mut().for_each(|k| *k = 1 - *k);
        }
    }
    let target = classes.into_iter().map(|k| k as f64).collect();
    Ok(Classes { target, predicted: Predicted::Shares(vec![shares.swap_remove(1)]), of_two: true })
}

/// A label as the fields of a struct of probabilities are called.
fn label_text(label: &Label) -> String {
    match serde_json::to_value(label).unwrap_or_default() {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Labels as the fields of a struct of probabilities are called.
fn label_texts(series: &Series) -> PolarsResult<Series> {
    match series.dtype() {
        DataType::Float32 | DataType::Float64 => {
            let whole = numbers(series, "a target")?;
            let text = whole.iter().map(|x| if *x == x.trunc() && x.abs() < 1e15 { format!("{}", *x as i64) } else { x.to_string() });
            Ok(StringChunked::from_iter_values(series.name().clone(), text).into_series())
        }
        _ => series.cast(&DataType::String),
    }
}

/// Labels that are predicted: the classes are those that stand in either column, sorted.
fn of_labels(target: &Series, predicted: &Series, positive: Option<&Label>) -> PolarsResult<Classes> {
    nulls(target, "a target")?;
    nulls(predicted, "a prediction")?;
    let (rows, name) = (target.len(), predicted.name());
    if let Some(positive) = positive {
        check_label(target.name(), target.dtype(), positive)?;
        let (truths, calls) = (is_label(target, positive)?, is_label(predicted, positive)?);
        if !truths.contains(&true) && !calls.contains(&true) {
            check_may_lack(&[target, predicted], positive)?;
        }
        let target = truths.into_iter().map(f64::from).collect();
        return Ok(Classes { target, predicted: Predicted::Labels(calls.into_iter().map(u32::from).collect()), of_two: true });
    }
    let mut codes = match (is_text(target.dtype()), is_text(predicted.dtype())) {
        (true, true) => {
            let (target, predicted) = (target.cast(&DataType::String)?, predicted.cast(&DataType::String)?);
            classes_of(name, target.str()?.iter().chain(predicted.str()?.iter()).flatten())?.0
        }
        (false, false) => {
            // Whole numbers compare as such, whatever their types.
            let both = [numbers(target, "a target")?, numbers(predicted, "a prediction")?].concat();
            if both.iter().all(|x| *x == 0.0 || *x == 1.0) {
                let calls = both[rows..].iter().map(|x| *x as u32).collect();
                return Ok(Classes { target: both[..rows].to_vec(), predicted: Predicted::Labels(calls), of_two: true });
            }
            if let Some(x) = both.iter().find(|x| **x != x.trunc() || x.abs() > 1e15) {
                let text = format!("{x} is no class label: cast labels to integers or text");
                return Err(errors::values(target.name(), text));
            }
            classes_of(name, both.iter().map(|x| *x as i64))?.0
        }
        _ => return Err(unlike_labels(&predicted.field(), &target.field())),
    };
    let calls = codes.split_off(rows);
    Ok(Classes { target: codes.into_iter().map(f64::from).collect(), predicted: Predicted::Labels(calls), of_two: false })
}
