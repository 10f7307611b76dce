//! Parameters that name features by selectors: what a selector gives is known when the query is planned.

use crate::errors;
use crate::schema::InputSchema;
use polars::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;

/// One selector in a parameter. What it gives stands in the input in the role `selected_<its place in the list>`.
#[derive(Deserialize)]
pub struct Selection {
    /// `categorical`, `monotone`, `feature_weights`, `bins` or `interaction`.
    parameter: String,
    /// Of `monotone`: the direction.
    direction: Option<i64>,
    /// Of `feature_weights`: the weight.
    weight: Option<f64>,
    /// Of `bins`: their number.
    bins: Option<u32>,
    /// Of `interaction`: the group's place.
    group: Option<usize>,
}

/// Writes into `params` the names of the features that the selections give, behind those that stand there by name.
///
/// A selector may give columns that are no features (the target, where it selects by type): these are left out.
///
/// # Errors
/// For a feature with two directions, weights or numbers of bins, and a group that is left without features.
pub fn fill_in(params: &mut Value, selections: &[Selection], fields: &InputSchema) -> PolarsResult<()> {
    let features: HashSet<&str> = fields.features.iter().map(|f| f.name().as_str()).collect();
    for (i, selection) in selections.iter().enumerate() {
        let given = fields.all(&format!("selected_{i}"));
        let names = given.iter().map(|f| f.name().as_str()).filter(|name| features.contains(name));
        let number = selection.direction.map(Value::from).or(selection.weight.map(Value::from)).or(selection.bins.map(Value::from));
        match (selection.parameter.as_str(), number, selection.group) {
            (parameter, Some(number), _) => names.into_iter().try_for_each(|name| give(params, (parameter, name), &number))?,
            ("interaction", _, Some(group)) => extend(&mut params["interaction"][group], names),
            (parameter, ..) => extend(&mut params[parameter], names),
        }
    }
    for group in selections.iter().filter_map(|s| s.group) {
        if params["interaction"][group].as_array().is_some_and(Vec::is_empty) {
            return Err(errors::data(format!("parameter `interaction`: what group {group} selects is no feature of the fit")));
        }
    }
    Ok(())
}

/// Gives a feature its number in a parameter: a direction, a weight, or how many bins it has.
fn give(params: &mut Value, (parameter, name): (&str, &str), number: &Value) -> PolarsResult<()> {
    match params[parameter][name].as_f64() {
        Some(other) if Some(other) != number.as_f64() => {
            Err(errors::data(format!("parameter `{parameter}`: column `{name}` is given both {other} and {number}")))
        }
        _ => {
            params[parameter][name] = number.clone();
            Ok(())
        }
    }
}

/// Adds the names that a list does not have yet.
fn extend<'a>(list: &mut Value, names: impl Iterator<Item = &'a str>) {
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    for name in names {
        if !list.iter().any(|known| known == name) {
            list.push(json!(name));
        }
    }
}
