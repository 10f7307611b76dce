//! What names and types alone tell of a call: checked when a query is planned and, by the same functions, when it
//! runs. A type that Polars does not know yet is left to the latter.

use crate::columns::{check_number, feature_type};
use crate::errors;
use crate::fit::{COMPUTED, ROLE, is_own};
use crate::row_key;
use polars::prelude::*;
use std::collections::HashSet;
use taiga_engine::column::FeatureType;

/// Whether Polars knows the type when it plans the query.
pub fn is_known(dtype: &DataType) -> bool {
    !matches!(dtype, DataType::Unknown(_))
}

/// A type with the fields of its structs in their order, the first twenty: Polars tells their number alone.
pub fn shown(dtype: &DataType) -> String {
    match dtype {
        DataType::Struct(fields) => {
            let more = if fields.len() > 20 { format!(", … ({})", fields.len()) } else { String::new() };
            let fields: Vec<String> = fields.iter().take(20).map(|f| format!("{}: {}", f.name(), shown(f.dtype()))).collect();
            format!("struct{{{}{more}}}", fields.join(", "))
        }
        DataType::List(inner) => format!("list[{}]", shown(inner)),
        other => other.to_string(),
    }
}

/// The fields with every struct among them replaced by its fields, and theirs.
pub fn unnest(fields: &[Field]) -> Vec<Field> {
    let mut out = vec![];
    for field in fields {
        match field.dtype() {
            DataType::Struct(inner) => out.extend(unnest(inner)),
            _ => out.push(field.clone()),
        }
    }
    out
}

/// Checks that no name stands twice among `fields`, each of which is a `what`.
///
/// # Errors
/// Naming the first that does.
pub fn check_names(fields: &[Field], what: &str) -> PolarsResult<()> {
    let mut names = HashSet::with_capacity(fields.len());
    match fields.iter().find(|f| !names.insert(f.name().as_str())) {
        Some(field) => Err(errors::twice(field.name(), what)),
        None => Ok(()),
    }
}

/// Checks the type of a column of numbers in a role, where it is known.
///
/// # Errors
/// As [`check_number`].
pub fn check_number_field(field: &Field, role: &str) -> PolarsResult<()> {
    if is_known(field.dtype()) { check_number(field.name(), field.dtype(), role) } else { Ok(()) }
}

/// Names and types of what a fit reads: [`Parts`](crate::fit::Parts) before there are rows.
pub struct InputSchema {
    pub target: Field,
    pub features: Vec<Field>,
    roles: Vec<Field>,
}

impl InputSchema {
    /// Of the struct that Python makes.
    ///
    /// # Errors
    /// Where a part of which there is one is several columns, or is not there.
    pub fn new(input: &DataType) -> PolarsResult<Self> {
        let DataType::Struct(fields) = input else {
            return Err(errors::data(format!("the input is a struct of all that the fit reads, not {input}")));
        };
        if let Some(other) = fields.iter().find(|f| !is_own(f)) {
            return Err(errors::column(
                other.name(),
                format!("names that begin with `{ROLE}` are reserved for polars-taiga; give it another"),
            ));
        }
        let is_role = |f: &Field| f.name().starts_with(ROLE) && !f.name().starts_with(COMPUTED);
        let (roles, features): (Vec<Field>, Vec<Field>) = fields.iter().cloned().partition(is_role);
        let target = one_of(&roles, "target")?.ok_or_else(|| errors::data("there is no target"))?;
        Ok(InputSchema { target, features: unnest(&unwrapped(features)), roles })
    }

    /// The columns of a role; none if it is not there.
    pub fn all(&self, role: &str) -> Vec<Field> {
        unnest(&columns_of(&self.roles, role))
    }

    /// The one column of a role, if it is there.
    ///
    /// # Errors
    /// If there are several.
    pub fn one(&self, role: &str) -> PolarsResult<Option<Field>> {
        one_of(&self.roles, role)
    }

    /// Whether a role has a column.
    pub fn has(&self, role: &str) -> bool {
        !columns_of(&self.roles, role).is_empty()
    }

    /// Checks the columns that fits of every kind know, and gives the types of the features, those of `categorical`
    /// categories whatever their type. A feature whose type is not known yet counts as a number.
    ///
    /// # Errors
    /// For a feature given twice, an unknown name in `categorical`, and types that are none of a feature's, a weight's or a baseline's.
    pub fn check(&self, categorical: &[String]) -> PolarsResult<Vec<FeatureType>> {
        check_names(&self.features, "feature")?;
        let categorical: HashSet<&str> = categorical.iter().map(String::as_str).collect();
        let names: HashSet<&str> = self.features.iter().map(|f| f.name().as_str()).collect();
        if let Some(unknown) = categorical.difference(&names).min() {
            let names: Vec<&str> = self.features.iter().map(|f| f.name().as_str()).collect();
            return Err(errors::data(format!(
                "parameter `categorical`: there is no feature `{unknown}`; the features are {}",
                names.join(", ")
            )));
        }
        let of = |f: &Field| match is_known(f.dtype()) {
            true => feature_type(f.name(), f.dtype(), categorical.contains(f.name().as_str())),
            false => Ok(FeatureType::Numeric),
        };
        let types = self.features.iter().map(of).collect::<PolarsResult<Vec<_>>>()?;
        if let Some(weight) = self.one("weight")? {
            check_number_field(&weight, "a weight")?;
        }
        row_key::check(self)?;
        for baseline in self.all("baseline") {
            check_number_field(&baseline, "a baseline")?;
        }
        Ok(types)
    }

    /// Names and types as the engine takes them.
    pub fn typed<'a>(&'a self, types: &'a [FeatureType]) -> Vec<(&'a str, &'a FeatureType)> {
        self.features.iter().map(|f| f.name().as_str()).zip(types).collect()
    }
}

/// The fields with the structs of what was computed replaced by what is in them.
fn unwrapped(fields: Vec<Field>) -> Vec<Field> {
    let mut out = vec![];
    for field in fields {
        match field.dtype() {
            // The field of the bare name is there for structs that would have none.
            DataType::Struct(own) if field.name().starts_with(COMPUTED) => out.extend(own.iter().filter(|f| f.name() != ROLE).cloned()),
            _ => out.push(field),
        }
    }
    out
}

/// The columns of a role.
fn columns_of(roles: &[Field], role: &str) -> Vec<Field> {
    match roles.iter().find(|f| f.name().strip_prefix(ROLE) == Some(role)).map(Field::dtype) {
        Some(DataType::Struct(fields)) => unwrapped(fields.clone()),
        _ => vec![],
    }
}

/// The one column of a role.
fn one_of(roles: &[Field], role: &str) -> PolarsResult<Option<Field>> {
    let mut columns = columns_of(roles, role);
    match columns.len() {
        0 | 1 => Ok(columns.pop()),
        n => Err(errors::data(format!("`{role}` is one column, not {n}"))),
    }
}
