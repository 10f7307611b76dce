//! What the payloads of all models share: names of variants, parameters as text, curves.

use crate::dataset::Labels;
use crate::error::{Error, Result};
use crate::metrics::MetricSpec;
use crate::model::History;
use crate::params::has_later;
use crate::params::stored::to_stored;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::TypeId;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A [`History`] as payloads have it.
#[derive(Serialize, Deserialize)]
pub struct HistoryPayload<'a> {
    /// The metric; where there are several curves, or sets with names, the JSON list of `[set, metric]` of each.
    metric: Cow<'a, str>,
    /// The values, curve after curve.
    values: Cow<'a, [f64]>,
    best: u32,
}

impl<'a> HistoryPayload<'a> {
    /// Makes it of a history.
    pub fn of(history: &'a History) -> Self {
        if is_plain(history) {
            let metric = history.metric.to_string().into();
            return HistoryPayload { metric, values: history.values.as_slice().into(), best: history.best };
        }
        let names: Vec<_> = history.curves().map(|(set, metric, _)| (set, metric)).collect();
        let values: Vec<f64> = history.curves().flat_map(|(_, _, values)| values).copied().collect();
        HistoryPayload { metric: serde_json::to_string(&names).unwrap_or_default().into(), values: values.into(), best: history.best }
    }

    /// Makes the history, if this build knows its metrics.
    ///
    /// # Errors
    /// For metrics that there are not, and values of other than so many curves.
    pub fn history(self) -> Result<History> {
        if !self.metric.starts_with('[') {
            let values = self.values.into_owned();
            return Ok(History { values, best: self.best, ..History::new(named::<MetricSpec>("metric", &self.metric)?) });
        }
        let names = serde_json::from_str::<Vec<(Option<String>, MetricSpec)>>(&self.metric);
        let names = names.map_err(|e| invalid(format!("its metrics can't be read: {e}")))?;
        let rounds = self.values.len() / names.len().max(1);
        let mut history = History::of(names).ok_or_else(|| invalid("its history is of no metric"))?;
        let mut values = self.values.chunks(rounds.max(1)).map(<[f64]>::to_vec);
        history.values = values.next().unwrap_or_default();
        history.others.iter_mut().for_each(|curve| curve.values = values.next().unwrap_or_default());
        history.best = self.best;
        if history.values.len() != rounds || values.next().is_some() {
            return Err(invalid("its curves are of unequal lengths"));
        }
        Ok(history)
    }
}

/// Whether a history is one of a single metric without a parameter, of rows without a name: the only kind that there was at first.
pub fn is_plain(history: &History) -> bool {
    history.others.is_empty() && history.set.is_none() && history.metric.is_plain(history.metric.kind())
}

pub fn invalid(message: impl Into<String>) -> Error {
    Error::Model(message.into())
}

/// The name of a unit variant, as serde spells it.
pub fn name_of(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(s)) => s,
        _ => String::new(),
    }
}

/// The unit variant that serde spells so.
pub fn named<T: DeserializeOwned>(what: &str, name: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|_| invalid(format!("its {what} {name:?} is unknown to this build")))
}

/// Parameters as JSON text with sorted names (whether `serde_json`'s own maps keep the order of
/// insertion depends on the features that other crates turn on).
pub fn params_text(value: &serde_json::Value) -> String {
    let sorted: BTreeMap<&String, &serde_json::Value> = value.as_object().into_iter().flatten().collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

/// Parameters as payloads have them.
#[derive(Clone)]
pub struct ParamsText {
    /// A JSON object with sorted names, as models keep it ([`crate::params::stored`]).
    pub text: String,
    /// Whether any of them are such as came with the [`crate::provenance`].
    pub are_new: bool,
}

/// Texts of more bytes are not kept: those with something of each of very many columns.
const MOST_KEPT: usize = 1 << 16;

thread_local! {
    /// The last parameters of a model that this thread wrote, of which type, as they tell themselves, and their text.
    static LAST: RefCell<Option<(TypeId, String, ParamsText)>> = const { RefCell::new(None) };
}

/// Returns the text of parameters that `to_json` makes a JSON object of. That takes a tenth of the time of a model of a few rows, and the models of
/// many groups have the same parameters: so the last text is given again where they tell themselves alike.
pub fn text_of<P: Serialize + 'static>(params: &P, to_json: impl Fn(&P) -> serde_json::Value) -> ParamsText {
    let told = serde_json::to_string(params).unwrap_or_default();
    let known = LAST.with_borrow(|last| match last {
        Some((of, last, text)) if *of == TypeId::of::<P>() && *last == told => Some(text.clone()),
        _ => None,
    });
    known.unwrap_or_else(|| {
        let params = to_json(params);
        let are_new = has_later(&params);
        let text = ParamsText { text: params_text(&to_stored(params)), are_new };
        if told.len() <= MOST_KEPT {
            LAST.set(Some((TypeId::of::<P>(), told, text.clone())));
        }
        text
    })
}

/// The most objects, one in another or side by side, that the text of parameters holds: a `class_weight` or a `monotone` is one.
const MAX_OBJECTS: usize = 16;

/// The most parameters that are named.
const MAX_PARAMETERS: usize = 256;

/// The parameters of such a text, by `parse`. Those that `local` names are about the call that fitted the model (its threads, its
/// device), which no model keeps: where a text names them, nothing follows from it.
pub fn params_of<T>(text: &str, local: &[&str], parse: impl FnOnce(&serde_json::Value) -> Result<T>) -> Result<T> {
    // An object takes half a kilobyte of memory for a few bytes of text.
    let objects = objects(text);
    if objects > MAX_OBJECTS {
        return Err(invalid(format!("its parameters hold {objects} objects, {MAX_OBJECTS} are the most")));
    }
    let mut value: serde_json::Value = serde_json::from_str(text).map_err(|e| invalid(format!("its parameters can't be read: {e}")))?;
    if let Some(object) = value.as_object_mut() {
        object.retain(|name, _| !local.contains(&name.as_str()));
        if object.len() > MAX_PARAMETERS {
            return Err(invalid(format!("it names {} parameters, {MAX_PARAMETERS} are the most", object.len())));
        }
        if object.keys().any(|name| name.len() > 64) {
            return Err(invalid("it has a parameter with an overlong name"));
        }
    }
    parse(&value).map_err(|e| invalid(e.to_string()))
}

/// The number of objects that begin in a JSON text.
fn objects(text: &str) -> usize {
    let (mut objects, mut in_string, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => objects += 1,
            _ => {}
        }
    }
    objects
}

/// Whether labels or parameters are such as came with the [`crate::provenance`].
pub fn is_new(labels: Option<&Labels>, params: &ParamsText) -> bool {
    labels == Some(&Labels::TrueFirst) || params.are_new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::to_json;

    #[derive(Serialize)]
    struct Own {
        rounds: f64,
        seed: u64,
    }

    /// Of the same names and values, which its JSON object does not all have.
    #[derive(Serialize)]
    struct Other {
        rounds: f64,
        seed: u64,
    }

    /// Proves that parameters have the text of their own whatever was written before, equal numbers of other bits among them.
    #[test]
    fn parameters_have_their_own_text() {
        for (rounds, seed) in [(0.0, 1), (0.0, 1), (-0.0, 1), (0.0, 1), (0.0, 2)] {
            let own = text_of(&Own { rounds, seed }, |params| to_json(params, &[]));
            assert_eq!((own.text, own.are_new), (format!("{{\"seed\":{seed},\"trees\":{rounds:?}}}"), false));
            let other = text_of(&Other { rounds, seed }, |params| to_json(params, &["seed"]));
            assert_eq!(other.text, format!("{{\"trees\":{rounds:?}}}"));
        }
    }
}
