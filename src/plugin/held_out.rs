//! The rows of a fit that are held out, by a Boolean or by the names of sets.

use crate::errors;
use crate::fit::{Parts, Wanted};
use crate::schema::{InputSchema, is_known};
use polars::prelude::*;
use std::borrow::Cow;
use std::collections::HashMap;
use taiga_engine::dataset::EvalSets;
use taiga_engine::error::RowsFault;

/// Which rows are held out, and the sets that they are of where these have names.
pub struct HeldOut {
    pub marks: Vec<bool>,
    pub sets: Option<EvalSets<'static>>,
}

/// Whether a column of this type names sets.
fn names_sets(dtype: &DataType) -> bool {
    matches!(dtype, DataType::String | DataType::Categorical(..) | DataType::Enum(..))
}

/// Checks that the type of the column that marks held-out rows is one that does; `by_name`: text may name sets.
///
/// # Errors
/// Naming the column and its type.
pub fn check(fields: &InputSchema, by_name: bool) -> PolarsResult<()> {
    let marks = |f: &Field| *f.dtype() == DataType::Boolean || by_name && names_sets(f.dtype());
    match fields.one("eval")?.filter(|f| is_known(f.dtype()) && !marks(f)) {
        None => Ok(()),
        Some(eval) => {
            let or = if by_name { ", or names their sets by text that is null where rows are trained on" } else { "" };
            Err(errors::mistyped(eval.name(), format!("its type is {}; `eval` marks held-out rows by a Boolean{or}", eval.dtype())))
        }
    }
}

impl HeldOut {
    /// Reads the column `eval`; none where it holds out no row. `needed`: by what parameter, where there must be some. A constant takes
    /// whatever there is.
    ///
    /// # Errors
    /// For Booleans that are null, where no rows are left to train on, and for more sets than are a few.
    pub fn new(parts: &Parts, needed: Option<&str>, wanted: Wanted) -> PolarsResult<Option<HeldOut>> {
        let Some(eval) = &parts.one("eval")? else { return Ok(None) };
        parts.check_length(eval)?;
        let (name, nulls) = (eval.name(), eval.null_count());
        let named = names_sets(eval.dtype());
        let marks: Vec<bool> = match named {
            true => eval.is_not_null().iter().map(|b| b == Some(true)).collect(),
            false if nulls > 0 => {
                return Err(errors::values(name, format!("`eval` is null in {nulls} of {} rows", eval.len())));
            }
            false => eval.bool()?.iter().map(|b| b == Some(true)).collect(),
        };
        let n = marks.iter().filter(|b| **b).count();
        let degenerate = |what: String| Err(errors::of_rows(RowsFault::Degenerate, format!("column `{name}`: `eval` {what}")));
        match needed {
            _ if wanted == Wanted::Constant || marks.is_empty() => {}
            _ if n == marks.len() && named => {
                let written = format!("pl.when(pl.col({name:?}) != \"train\").then({name:?})");
                return degenerate(format!(
                    "names a set for each of the {n} rows, and none are left to train on: it is null where a row trains, as in {written}"
                ));
            }
            _ if n == marks.len() => return degenerate(format!("holds out all {n} rows, and none are left to train on")),
            Some(parameter) if n == 0 => return degenerate(format!("holds out no row, and {parameter} needs some")),
            _ if n == 0 => return Ok(None),
            _ => {}
        }
        let sets = if named && n > 0 { Some(sets(eval)?) } else { None };
        Ok(Some(HeldOut { marks, sets }))
    }
}

/// The sets by their names: of an Enum in the order of its type, of other text in that of its bytes.
fn sets(eval: &Series) -> PolarsResult<EvalSets<'static>> {
    let text = eval.cast(&DataType::String)?;
    let text = text.str()?;
    let mut known: HashMap<&str, u32> = HashMap::new();
    let mut of_row = Vec::with_capacity(text.len());
    for value in text.iter() {
        let next = known.len() as u32;
        of_row.push(value.map_or(u32::MAX, |value| *known.entry(value).or_insert(next)));
        if known.len() > EvalSets::MOST {
            let text = format!("`eval` names more than {} held-out sets: is it another column?", EvalSets::MOST);
            return Err(errors::column(eval.name(), text));
        }
    }
    let mut names: Vec<&str> = known.keys().copied().collect();
    names.sort_unstable();
    if let DataType::Enum(categories, _) = eval.dtype() {
        let place: HashMap<&str, usize> = categories.categories().values_iter().zip(0..).collect();
        names.sort_by_key(|name| place.get(name));
    }
    let mut number = vec![0; names.len()];
    names.iter().zip(0..).for_each(|(name, i)| number[known[name] as usize] = i);
    for of in &mut of_row {
        *of = number.get(*of as usize).copied().unwrap_or(u32::MAX);
    }
    Ok(EvalSets { names: names.into_iter().map(String::from).collect(), of_row: Cow::Owned(of_row) })
}
