//! Checks of a table before anything is computed.

use crate::column::FeatureType;
use crate::dataset::labels::Label;
use crate::dataset::{Input, Target};
use crate::error::{Error, Result};
use crate::parallel::interrupt::ROWS;
use rayon::prelude::*;
/// Checks what can be checked before anything is computed; gives the number of rows.
pub fn check_table(input: &Input<'_>) -> Result<usize> {
    check_table_of(input, input.target.rows(), &[])
}

/// Checks the same of a table of whose numeric features there are `own` rows, and none of those numbered `batched` (ascending), which come in
/// batches; gives the number of all.
pub fn check_table_of(input: &Input<'_>, own: usize, batched: &[u32]) -> Result<usize> {
    let rows = check_columns_of(input, own, batched)?;
    check_rows(rows, input.held_out, &input.target_name)?;
    Ok(rows)
}

/// Checks names and lengths of the columns; gives the number of rows.
pub fn check_columns(input: &Input<'_>) -> Result<usize> {
    check_columns_of(input, input.target.rows(), &[])
}

/// Checks the same of a table of whose numeric features there are `own` rows, and none of `batched`.
fn check_columns_of(input: &Input<'_>, own: usize, batched: &[u32]) -> Result<usize> {
    if input.features.is_empty() {
        return Err(Error::Data("no features: name at least one feature column".into()));
    }
    let mut names = std::collections::BTreeSet::new();
    for f in &input.features {
        if !names.insert(f.name()) {
            return Err(Error::column(f.name(), "is given twice as a feature"));
        }
    }
    let rows = input.target.rows();
    for feature in input.features.iter().filter(|f| own != rows && *f.dtype() != FeatureType::Categorical) {
        if feature.len() != own {
            return Err(Error::column(feature.name(), format!("has {} rows where this process has {own} of the table", feature.len())));
        }
    }
    let in_memory = (0..).zip(&input.features).filter(|(index, _)| batched.binary_search(index).is_err()).map(|(_, feature)| feature);
    let columns = in_memory
        .filter(|f| own == rows || *f.dtype() == FeatureType::Categorical)
        .chain(&input.weight)
        .chain(&input.baseline)
        .chain(&input.loss_columns.numbers)
        .chain(&input.evaluation.columns)
        .chain(input.target.several())
        .chain(input.loss_columns.times.columns());
    for c in columns {
        if c.len() != rows {
            return Err(Error::column(c.name(), format!("has {} rows where the target `{}` has {rows}", c.len(), input.target_name)));
        }
    }
    let (groups, positions) = (&input.loss_columns.groups, &input.loss_columns.positions);
    let numbered = [
        ("group", groups.as_ref().map(|g| g.len())),
        ("position", positions.as_ref().map(|p| p.codes.len())),
        ("order_by", input.order.as_ref().map(|places| places.len())),
    ];
    for (role, len) in numbered {
        if let Some(len) = len.filter(|len| *len != rows) {
            return Err(Error::Data(format!("`{role}` has {len} rows where the target `{}` has {rows}", input.target_name)));
        }
    }
    Ok(rows)
}

/// Checks that there are rows to train on and, where some are held out, to measure on.
pub fn check_rows(rows: usize, held_out: Option<&[bool]>, target_name: &str) -> Result<()> {
    if let Some(held_out) = held_out
        && held_out.len() != rows
    {
        return Err(Error::Data(format!("`eval` has {} rows where the target `{target_name}` has {rows}", held_out.len())));
    }
    if rows == 0 {
        return Err(Error::Data("the table has no rows: there is nothing to fit".into()).degenerate());
    }
    let training = rows - held_out.map_or(0, |h| h.iter().filter(|x| **x).count());
    if training < 2 {
        let s = if training == 1 { "" } else { "s" };
        return Err(Error::Data(format!("{training} training row{s}: a model needs at least two")).degenerate());
    }
    if held_out.is_some() && training == rows {
        return Err(Error::Data("`eval` marks no row: there is nothing to measure on".into()).degenerate());
    }
    Ok(())
}

/// Checks that codes are those of classes, and that training rows are of at least two.
pub fn check_classes(input: &Input<'_>) -> Result<()> {
    let (Target::Classes { codes, labels }, name) = (&input.target, &input.target_name) else { return Ok(()) };
    let classes = labels.len();
    let counts = codes.par_chunks(ROWS).enumerate().map(|(chunk, codes)| {
        let mut counts = vec![0usize; classes];
        for (i, c) in codes.iter().enumerate() {
            let count = counts.get_mut(*c as usize).ok_or_else(|| Error::column(name, format!("class {c} of {classes}")))?;
            *count += !input.held_out.is_some_and(|h| h[chunk * ROWS + i]) as usize;
        }
        Ok(counts)
    });
    let add = |a: Vec<usize>, b: Vec<usize>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let counts = counts.try_reduce(|| vec![0; classes], |a, b| Ok(add(a, b)))?;
    if counts.iter().filter(|c| **c > 0).count() < 2 {
        let only = counts.iter().position(|c| *c > 0).and_then(|c| labels.names().get(c).cloned()).unwrap_or_default();
        let (n, training) = (counts.iter().sum::<usize>(), if input.held_out.is_some() { " training" } else { "" });
        return Err(Error::column(name, format!("all {n}{training} rows are of one class, {only:?}: a classifier needs two")).degenerate());
    }
    Ok(())
}

/// Checks that the class whose probability is predicted, the last of two, is the one that `positive` asks for.
pub fn check_positive(target: &Target<'_>, positive: Option<&Label>) -> Result<()> {
    match (positive, target) {
        (None, _) => Ok(()),
        (Some(positive), Target::Classes { labels, .. }) => labels.check_positive(positive),
        (Some(positive), Target::Numbers(_) | Target::Several(_)) => Err(not_numeric(positive, "loss=\"logloss\"")),
    }
}

/// Checks that there is one target, for learners that have one.
///
/// # Errors
/// Naming the learner's function and the target.
pub fn check_one_target(input: &Input<'_>, learner: &str) -> Result<()> {
    match input.target.several().len() {
        0 => Ok(()),
        n => Err(Error::column(
            &input.target_name,
            format!("it is {n} targets, and {learner} fits one: use fit_gbdt, or fit each by itself"),
        )),
    }
}

/// That a target of numbers has no class to predict; under what its integers would be classes.
pub fn not_numeric(positive: &Label, under: &str) -> Error {
    let text = format!("{positive} would be one of two classes, and the target is numeric: integers are classes under {under}");
    Error::parameter("positive", text)
}
