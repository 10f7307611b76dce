//! What a user says of a model: a JSON object that travels with it and that nothing is computed from.

use crate::error::{Error, Result};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The most bytes of its text.
pub const MOST_BYTES: usize = 1 << 20;

/// A JSON object, kept as its one canonical text: names sorted, no spaces, numbers as `serde_json` writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata(String);

/// A value with the names of its objects sorted, whatever order `serde_json`'s maps keep.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(values) => s.collect_seq(values.iter().map(Sorted)),
            Value::Object(map) => s.collect_map(map.iter().map(|(name, value)| (name, Sorted(value))).collect::<BTreeMap<_, _>>()),
            plain => plain.serialize(s),
        }
    }
}

impl Metadata {
    /// Reads the text of a JSON object.
    ///
    /// # Errors
    /// [`Error::Model`] for anything else, and for a text of more than [`MOST_BYTES`].
    ///
    /// ```
    /// use taiga_core::metadata::Metadata;
    /// let metadata = Metadata::new("{\"b\": [1, 2.50], \"a\": null}")?;
    /// assert_eq!(metadata.text(), "{\"a\":null,\"b\":[1,2.5]}");
    /// assert!(Metadata::new("[1]").is_err());
    /// # Ok::<(), taiga_core::Error>(())
    /// ```
    pub fn new(text: &str) -> Result<Metadata> {
        let invalid = |what: String| Error::Model(format!("its metadata {what}"));
        if text.len() > MOST_BYTES {
            return Err(invalid(format!("take {} bytes of JSON, {MOST_BYTES} are the most", text.len())));
        }
        let value: Value = serde_json::from_str(text).map_err(|e| invalid(format!("are no JSON: {e}")))?;
        Metadata::of_value(&value)
    }

    /// The metadata of a JSON value.
    ///
    /// # Errors
    /// For anything but an object.
    pub fn of_value(value: &Value) -> Result<Metadata> {
        if !value.is_object() {
            return Err(Error::Model("its metadata are no JSON object".into()));
        }
        serde_json::to_string(&Sorted(value)).map(Metadata).map_err(|e| Error::Model(format!("its metadata can't be written: {e}")))
    }

    /// Returns the canonical text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the object.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}
