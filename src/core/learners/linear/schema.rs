//! What names and types tell of a fit before there are rows: the checks that a query's plan is held against, and that
//! [`super::fit`] makes as well.

use super::params::LinearParams;
use crate::column::FeatureType;
use crate::error::{Error, Result};
use crate::metrics::{MetricKind, listed};
use crate::objective::Link;

/// The columns of lists of a fit, by their names, and whether the features are strings.
#[derive(Clone, Copy, Debug)]
pub struct ListColumns<'a> {
    pub features: &'a str,
    pub values: Option<&'a str>,
    pub hold_texts: bool,
}

/// Checks the parameters of a fit against its columns: the dense ones, those of lists, whether the target is known to have two classes, and
/// whether there is a column of held-out rows.
///
/// # Errors
/// [`Error::Column`] and [`Error::Parameter`] naming the column or the parameter, and [`Error::Data`] where there are no features.
///
/// ```
/// use taiga_core::learners::linear::{LinearParams, schema::{ListColumns, check}};
/// let params = LinearParams { hash_bits: Some(18), ..Default::default() };
/// let words = ListColumns { features: "words", values: None, hold_texts: true };
/// assert!(check(&[], Some(words), true, false, &params).is_ok());
/// assert!(check(&[], Some(ListColumns { hold_texts: false, ..words }), true, false, &params).is_err());
/// assert!(check(&[], Some(ListColumns { values: Some("words"), ..words }), true, false, &params).is_err());
/// ```
pub fn check(
    dense: &[(&str, &FeatureType)],
    lists: Option<ListColumns<'_>>,
    two: bool,
    held_out: bool,
    params: &LinearParams,
) -> Result<()> {
    check_columns(dense, lists)?;
    check_numbering(lists, params)?;
    if !held_out {
        return params.check_measured();
    }
    if two { metric_of(params, 1).map(|_| ()) } else { Ok(()) }
}

/// Checks that there are features, that dense ones are numbers, and that each column is there once.
pub(super) fn check_columns(dense: &[(&str, &FeatureType)], lists: Option<ListColumns<'_>>) -> Result<()> {
    if lists.is_none() && dense.is_empty() {
        return Err(Error::Data("no features: name a column of lists, or at least one dense column".into()));
    }
    let mut names = std::collections::BTreeMap::new();
    for (name, role) in
        lists.iter().flat_map(|lists| [Some((lists.features, "`indices`")), lists.values.map(|name| (name, "`values`"))]).flatten()
    {
        if let Some(other) = names.insert(name, role) {
            return Err(Error::column(name, format!("is given as {other} and as {role}: give one another name by .alias()")));
        }
    }
    for (name, dtype) in dense {
        match names.insert(name, "a dense column") {
            Some("a dense column") => return Err(Error::column(*name, "is given twice as a dense column")),
            Some(role) => {
                return Err(Error::column(*name, format!("is given as {role} and as a dense column: give one another name by .alias()")));
            }
            None => {}
        }
        if **dtype == FeatureType::Categorical {
            return Err(Error::column(*name, "is categorical: a dense column is numeric; a list of its text can be hashed"));
        }
    }
    Ok(())
}

/// Checks the parameters that count for lists.
pub(super) fn check_numbering(lists: Option<ListColumns<'_>>, params: &LinearParams) -> Result<()> {
    let (name, message) = match (lists.map(|lists| (lists.features, lists.hold_texts)), params.features, params.hash_bits) {
        (None, Some(_), _) => ("features", "counts only for a column of lists".into()),
        (None, None, Some(_)) => ("hash_bits", "counts only for a column of lists".into()),
        (Some((column, true)), Some(_), _) => {
            ("features", format!("`{column}` holds strings: `hash_bits` says how many features there are"))
        }
        (Some((column, false)), _, Some(_)) => ("hash_bits", format!("`{column}` holds numbers: only strings are hashed")),
        _ => return Ok(()),
    };
    Err(Error::parameter(name, message))
}

/// Returns the metric that is measured on the held-out rows of a model of so many outputs, and the link of its scores.
pub(super) fn metric_of(params: &LinearParams, outputs: usize) -> Result<(MetricKind, Link)> {
    let (link, own) = if outputs == 1 { (Link::Sigmoid, MetricKind::Logloss) } else { (Link::Softmax, MetricKind::Multiclass) };
    let kind = params.metric.unwrap_or(own);
    if !kind.fits(link) {
        let classes = if outputs == 1 { "two classes" } else { "more than two classes" };
        let others = MetricKind::ALL.iter().copied().filter(|m| m.is_of_classes() && m.fits(link) && *m != own);
        let fitting = listed([own].into_iter().chain(others), "and");
        let text = format!("\"{}\" can't be measured on {classes}; {fitting} can", kind.name());
        return Err(Error::parameter("metric", text));
    }
    Ok((kind, link))
}
