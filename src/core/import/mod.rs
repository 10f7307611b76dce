//! Models of other libraries, read from their own files: XGBoost's JSON and UBJSON ([`xgboost`]), LightGBM's text ([`lightgbm`]),
//! CatBoost's JSON and cbm ([`catboost`]); and trees in plain arrays, which Python makes of fitted objects of scikit-learn ([`arrays`]).
//!
//! Each reader makes a [`foreign::Foreign`]: trees whose tests are ours already (`x > border`, a set of categories), with where missing
//! values go at each node. [`foreign`] checks that these are trees and makes a model of them, which is like any other from then on. What a
//! model can't hold exactly is an error that names it.
//!
//! Bytes may come from anyone: memory is taken in proportion to them, nothing recurses by what they say beyond [`ubj::MOST_DEPTH`], and
//! whatever they hold, the result is a valid model or an error.

pub mod arrays;
pub mod catboost;
pub mod foreign;
pub mod lightgbm;
pub mod rounding;
pub mod ubj;
pub mod xgboost;

use crate::error::{Error, Result};
use crate::learners::boosting::model::Model;
use crate::learners::boosting::params::BoostingParams;
use crate::learners::forest::Forest;
use crate::losses::LossKind;
use crate::model::from_json::LabelIn;
use crate::objective::Alpha;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A model that was read.
pub enum Imported {
    Boosted(Box<Model>),
    Forest(Box<Forest>),
}

/// What a file does not tell, or is to be called otherwise.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Told {
    /// The columns' names, in the order of the file.
    pub features: Option<Vec<String>>,
    /// Of columns by name the categories in the order of the file's codes.
    pub categories: BTreeMap<String, Vec<LabelIn>>,
    /// The class labels in the order of the file's classes.
    pub classes: Option<Vec<LabelIn>>,
    /// The name of the target's column.
    pub target: Option<String>,
}

impl BoostingParams {
    /// Sets the one number that some losses read, where it is told and is one that they take.
    fn set_loss_number(&mut self, loss: LossKind, told: Option<f64>) {
        let Some(number) = told else { return };
        match loss {
            LossKind::Quantile | LossKind::Expectile if number > 0.0 && number < 1.0 => self.alpha = Alpha::One(number),
            LossKind::Tweedie if number > 1.0 && number < 2.0 => self.tweedie_power = number,
            LossKind::Huber if number > 0.0 && number.is_finite() => self.huber_delta = Some(number),
            _ => {}
        }
    }
}

/// The error of a file that can't be read, or can't be kept.
pub(crate) fn fault(format: &str, what: impl std::fmt::Display) -> Error {
    Error::Model(format!("{format}: {what}"))
}

/// Reads the model of another library's file, whose format its first bytes tell.
///
/// # Errors
/// [`Error::Model`] for what is no such file, is damaged, or holds what a model here can't.
///
/// ```
/// use taiga_core::import::{Told, import};
/// let error = import(b"tree\nversion=v1\n", Told::default()).err().unwrap();
/// assert!(error.to_string().contains("LightGBM"));
/// ```
pub fn import(bytes: &[u8], told: Told) -> Result<Imported> {
    let text = || std::str::from_utf8(bytes).map_err(|_| Error::Model("import: the text is no UTF-8".into()));
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
    match &bytes[start..] {
        [b'{', rest @ ..] if ubj::claims(rest) => xgboost::read_ubj(&bytes[start..], told),
        [b'{', ..] => {
            let text = numbers_of_json(text()?);
            match json_kind(&text)? {
                Kind::XGBoost => xgboost::read_json(&text, told),
                Kind::CatBoost => catboost::read_json(&text, told),
                Kind::Arrays => arrays::read_json(&text, told),
                Kind::None => Err(Error::Model("import: the JSON is none of XGBoost's or CatBoost's models".into())),
            }
        }
        [b't', b'r', b'e', b'e', b'\n' | b'\r', ..] => lightgbm::read_text(text()?, told),
        [b'C', b'B', b'M', b'1', rest @ ..] => catboost::read_cbm(rest, told),
        [b'b', b'i', b'n', b'f', ..] => {
            Err(fault("XGBoost", "this is the binary format that XGBoost has given up: save the model as JSON or UBJSON"))
        }
        _ => Err(Error::Model(
            "import: these bytes are neither XGBoost's JSON or UBJSON, nor LightGBM's text, nor CatBoost's JSON or cbm, nor a model of polars-taiga"
                .into(),
        )),
    }
}

/// JSON in which the numbers that JSON does not have, and XGBoost writes as `NaN`, `Infinity` and `-Infinity`, stand as the texts that
/// [`NumberIn`](crate::model::from_json::NumberIn) reads.
fn numbers_of_json(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let (mut rest, mut is_text) = (text, false);
    while let Some(at) = rest.find(['"', '\\', 'N', 'I', '-']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let words = [("NaN", "\"nan\""), ("Infinity", "\"inf\""), ("-Infinity", "\"-inf\"")];
        let word = words.into_iter().find(|(word, _)| !is_text && rest.starts_with(word));
        let taken = match (word, rest.as_bytes()[0]) {
            (Some((word, _)), _) => word.len(),
            // What is behind a backslash in a text ends none.
            (None, b'\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, first) => {
                is_text ^= first == b'"';
                1
            }
        };
        out.push_str(word.map_or(&rest[..taken], |(_, text)| text));
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

enum Kind {
    XGBoost,
    CatBoost,
    Arrays,
    None,
}

/// The field that tells whose JSON a text is.
fn json_kind(text: &str) -> Result<Kind> {
    use serde::de::IgnoredAny;
    #[derive(Deserialize)]
    struct Fields {
        learner: Option<IgnoredAny>,
        features_info: Option<IgnoredAny>,
        taiga_arrays: Option<IgnoredAny>,
    }
    let fields: Fields = serde_json::from_str(text).map_err(|e| Error::Model(format!("import: the JSON can't be read: {e}")))?;
    Ok(match fields {
        Fields { learner: Some(_), .. } => Kind::XGBoost,
        Fields { features_info: Some(_), .. } => Kind::CatBoost,
        Fields { taiga_arrays: Some(_), .. } => Kind::Arrays,
        _ => Kind::None,
    })
}

#[cfg(test)]
mod tests {
    use super::numbers_of_json;

    #[test]
    fn words_for_numbers_become_texts() {
        let json = r#"{"NaN\"-Infinity":[NaN,-Infinity,-1,Infinity],"Infinity":"NaN\\","x":NaN}"#;
        let wanted = r#"{"NaN\"-Infinity":["nan","-inf",-1,"inf"],"Infinity":"NaN\\","x":"nan"}"#;
        assert_eq!(numbers_of_json(json), wanted);
        for (text, wanted) in
            [("", ""), ("[1]", "[1]"), ("NaN\\", "\"nan\"\\"), ("\\", "\\"), ("Infinity\\é", "\"inf\"\\é"), ("NaN\"", "\"nan\"\"")]
        {
            assert_eq!(numbers_of_json(text), wanted);
        }
    }
}
