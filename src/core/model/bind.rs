//! Columns found by the names that a model knows, and the class of the largest share.

use crate::column::Column;
use crate::error::{Error, Result};
use crate::model::Feature;
/// The columns of `features`, in their order, found by name among `columns`: see `bind`.
pub fn bind<'c, 'a>(features: &[Feature], columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
    let mut by_name = std::collections::HashMap::with_capacity(features.len());
    by_name.extend(features.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)));
    let mut found: Vec<Option<&Column<'a>>> = vec![None; features.len()];
    for c in columns {
        if let Some(i) = by_name.get(c.name())
            && found[*i].replace(c).is_some()
        {
            return Err(Error::column(c.name(), "stands twice among the columns to predict from"));
        }
    }
    let (mut missing, mut differing) = (vec![], vec![]);
    for (column, f) in found.iter().zip(features) {
        match column {
            None => missing.push(format!("`{}` ({})", f.name, f.dtype)),
            Some(c) if c.categories().is_some() && c.categories() != f.categories.as_ref() => {
                return Err(Error::column(c.name(), "has codes of its own: look them up among the model's categories first"));
            }
            Some(c) if *c.dtype() != f.dtype => {
                differing.push(format!("`{}` is {}, the model was fitted on {}", f.name, c.dtype(), f.dtype))
            }
            Some(_) => {}
        }
    }
    let missing = (!missing.is_empty()).then(|| format!("the model needs columns that are missing: {}", missing.join(", ")));
    let differing = (!differing.is_empty()).then(|| format!("columns of another type than the model's: {}", differing.join("; ")));
    let faults: Vec<String> = missing.into_iter().chain(differing).collect();
    if !faults.is_empty() {
        return Err(Error::Data(faults.join("; ")));
    }
    let found: Vec<&Column<'a>> = found.into_iter().flatten().collect();
    match found.iter().find(|c| c.len() != found[0].len()) {
        Some(c) => Err(Error::column(c.name(), format!("has {} rows where `{}` has {}", c.len(), found[0].name(), found[0].len()))),
        None => Ok(found),
    }
}

/// The index of the class with the largest raw score, as `class` says; of one class, it is that.
pub fn largest(raw: &[Vec<f64>], classes: usize) -> Vec<u32> {
    match raw {
        [] => vec![],
        [score] if classes == 1 => vec![0; score.len()],
        [score] => score.iter().map(|x| (*x > 0.0) as u32).collect(),
        _ => (0..raw[0].len())
            .map(|row| (1..raw.len()).fold(0, |best, k| if raw[k][row] > raw[best][row] { k } else { best }) as u32)
            .collect(),
    }
}
