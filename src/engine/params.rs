//! From JSON objects to parameter structs, with errors that name the parameter.

use crate::error::{Error, Result, nearest};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Parameters from a JSON object; what it does not name has its default. Not validated.
///
/// # Errors
/// [`Error::UnknownParameter`] with the nearest name, [`Error::Parameter`] for a value of the
/// wrong type.
pub(crate) fn from_json<T: Default + Serialize + DeserializeOwned>(value: &serde_json::Value) -> Result<T> {
    let object = value.as_object().ok_or_else(|| Error::Data("parameters are an object of names and values".into()))?;
    if let Ok(params) = T::deserialize(value) {
        return Ok(params);
    }
    let known = serde_json::to_value(T::default()).map_err(|e| Error::Data(e.to_string()))?;
    let known = known.as_object().ok_or_else(|| Error::Data("parameters are no object".into()))?;
    for name in object.keys() {
        if !known.contains_key(name) {
            let suggestion = nearest(name, known.keys().map(String::as_str)).map(String::from);
            return Err(Error::UnknownParameter { name: name.clone(), suggestion });
        }
        // Something is wrong: one field at a time, so that the error names it.
        let single = serde_json::json!({ name.as_str(): object[name] });
        if let Err(e) = serde_json::from_value::<T>(single) {
            return Err(Error::parameter(name, format!("{}: {e}", object[name])));
        }
    }
    T::deserialize(value).map_err(|e| Error::Data(e.to_string()))
}

/// Parameters as a JSON object, without those that never change a model, which `never` names.
pub(crate) fn to_json(params: &impl Serialize, never: &[&str]) -> serde_json::Value {
    let mut value = serde_json::to_value(params).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !never.contains(&name.as_str()));
    }
    value
}

/// The rule for `n_threads`.
pub(crate) fn check_threads(n_threads: Option<u32>) -> Result<()> {
    check(n_threads.is_none_or(|n| (1..=1024).contains(&n)), "n_threads", n_threads, "between 1 and 1,024")
}

/// An error unless `ok`: the parameter's name, its value, and what was expected.
pub(crate) fn check(ok: bool, name: &str, value: impl std::fmt::Debug, expected: &str) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::parameter(name, format!("{value:?} is not {expected}"))) }
}
