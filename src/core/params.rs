//! From JSON objects to parameter structs, with errors that name every parameter that is wrong.

pub mod limits;
pub mod names;
pub mod stored;
mod values;

use crate::device::DeviceSet;
use crate::error::{Error, Result, nearest};
use names::Meaning;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use values::Advice;

/// Returns what is told of a parameter, where that is not what holds where nothing is told.
pub fn unless<T: PartialEq>(told: Option<T>, untold: T) -> Option<T> {
    told.filter(|told| *told != untold)
}

/// Returns the error of a parameter that needs held-out rows, where there are none.
pub fn no_held_out(name: &str) -> Error {
    Error::parameter(name, "needs held-out rows to measure on: mark them with `eval`, as eval=pl.col(\"held_out\")")
}

/// The most problems that are told of: a text may name any number of parameters.
const MOST: usize = 100;

/// Everything that is wrong with the parameters of one call, as far as the first `MOST` problems.
#[derive(Default)]
pub struct Problems(Vec<Error>);

impl Problems {
    /// Adds one.
    pub fn add(&mut self, problem: Error) {
        if self.0.len() < MOST && !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Adds the error of a step that may fail.
    pub fn take(&mut self, result: Result<()>) {
        if let Err(problem) = result {
            self.add(problem);
        }
    }

    /// Adds a problem unless `ok`: the parameter's name, its value, and what was expected.
    pub fn check(&mut self, ok: bool, name: &str, value: impl std::fmt::Debug, expected: &str) {
        if !ok {
            self.add(Error::parameter(name, format!("{value:?} is not {expected}")));
        }
    }

    /// The rule for `device`.
    pub fn check_device(&mut self, device: &str) {
        self.take(DeviceSet::parse(device).and_then(DeviceSet::at_most_one).map(drop));
    }

    /// All of them as one error.
    pub fn result(self) -> Result<()> {
        Error::all(self.0)
    }
}

/// Parameters that came after models had been written, none of which is a default: a model names them only where they are
/// given, so that one without them keeps its bytes, and its format version.
const LATER: [&str; 32] = [
    "positive",
    "eval_train",
    "early_stopping_min_delta",
    "focal_gamma",
    "focal_alpha",
    "custom_loss",
    "rank_truncation",
    "rank_normalize",
    "rank_orders",
    "rank_decay",
    "targets",
    "multi_strategy",
    "rank_position_l2",
    "position_factors",
    "aft_distribution",
    "aft_scale",
    "bagging_temperature",
    "max_delta_step",
    "path_smooth",
    "leaf_iterations",
    "extra_trees",
    "random_strength",
    "boosting",
    "drop_rate",
    "max_drop",
    "skip_drop",
    "uniform_drop",
    "one_drop",
    "normalize",
    "feature_weights",
    "leaf",
    "linear_l2",
];

/// Whether parameters that a model names are such as came later.
pub fn has_later(params: &Value) -> bool {
    LATER.iter().any(|name| params.get(name).is_some())
}

/// Parameters from a JSON object; what it does not name has its default. `validate` adds what is wrong with values of the right types.
///
/// # Errors
/// All that is wrong at once: [`Error::UnknownParameter`] with what was probably meant, and [`Error::Parameter`] for values of the
/// wrong type and out of range. Names and values of other libraries are read as what they mean here, so that what would be
/// wrong with them is told too.
pub fn from_json<T>(value: &Value, validate: impl Fn(&T, &mut Problems)) -> Result<T>
where
    T: Default + Serialize + DeserializeOwned,
{
    let object = value.as_object().ok_or_else(|| Error::Data("parameters are an object of names and values".into()))?;
    if let Ok(params) = T::deserialize(value) {
        let mut problems = Problems::default();
        validate(&params, &mut problems);
        if problems.0.is_empty() {
            return Ok(params);
        }
    }
    let mut reader = Reader::<T>::new()?;
    let (own, others): (Vec<_>, Vec<_>) = object.iter().partition(|(name, _)| reader.known.contains_key(*name));
    // Its own names first, so that they stand where another library's name means the same.
    own.into_iter().for_each(|(name, value)| reader.known(name, value));
    others.into_iter().take(MOST).for_each(|(name, value)| reader.unknown(name, value));
    let Reader { meant, mut problems, .. } = reader;
    let params: T = serde_json::from_value(Value::Object(meant)).map_err(|e| Error::Data(e.to_string()))?;
    validate(&params, &mut problems);
    problems.result()?;
    Ok(params)
}

/// Reads names and values one at a time.
struct Reader<T> {
    /// The learner's parameters and their defaults.
    known: Map<String, Value>,
    /// What was meant, as far as it can be told.
    meant: Map<String, Value>,
    problems: Problems,
    of: std::marker::PhantomData<T>,
}

impl<T: Default + Serialize + DeserializeOwned> Reader<T> {
    fn new() -> Result<Self> {
        match serde_json::to_value(T::default()) {
            Ok(Value::Object(known)) => {
                Ok(Reader { known, meant: Map::new(), problems: Problems::default(), of: std::marker::PhantomData })
            }
            _ => Err(Error::Data("parameters are no object".into())),
        }
    }

    /// What serde says of a value of a parameter that there is.
    fn fault(&self, name: &str, value: &Value) -> Option<String> {
        let single = Value::Object(Map::from_iter([(name.to_string(), value.clone())]));
        serde_json::from_value::<T>(single).err().map(|e| e.to_string())
    }

    /// The words that a parameter takes; none if it takes no words.
    fn variants(&self, name: &str) -> Vec<String> {
        let own: &[&str] = match name {
            // Of these serde only says that nothing matched.
            "class_weight" => &["none", "balanced"],
            "max_features" => &["sqrt", "log2", "all"],
            "prior_weight" => &["auto"],
            _ => &[],
        };
        if !own.is_empty() {
            return own.iter().map(|word| word.to_string()).collect();
        }
        let words =
            |value: Value| self.fault(name, &value).filter(|fault| fault.starts_with("unknown variant")).map(|fault| quoted(&fault));
        words("\u{1}".into()).or_else(|| words(Value::Array(vec!["\u{1}".into()]))).unwrap_or_default()
    }

    /// What is wrong with a value of `name`, in words, and what it means, if that is known.
    fn judge(&self, name: &str, value: &Value) -> Option<(String, Option<Advice>)> {
        let fault = self.fault(name, value);
        if fault.is_none() && name != "device" {
            return None;
        }
        let variants = self.variants(name);
        let advice = values::advice(name, value, &variants);
        if let ("metric", Value::Array(items)) = (name, value) {
            // Which of them is at fault.
            let fault = items.iter().find_map(|item| self.judge(name, item).filter(|_| !item.is_array()));
            return fault.map(|(text, of_item)| (text, advice.or(of_item)));
        }
        match fault {
            Some(fault) => Some((format!("{} is not {}", shown(value), expected(name, &fault, &variants)), advice)),
            None => advice.map(|advice| {
                (format!("{} is not \"auto\", \"cpu\", \"cuda\", \"cuda:N\", \"cuda:N,M\" or \"cuda:all\"", shown(value)), Some(advice))
            }),
        }
    }

    /// Notes a value, and those that come with it, unless they are given.
    fn mean(&mut self, name: &str, value: Value, others: Vec<(&'static str, Value)>) {
        self.meant.entry(name).or_insert(value);
        for (name, value) in others {
            self.meant.entry(name).or_insert(value);
        }
    }

    /// Reads a parameter that there is.
    fn known(&mut self, name: &str, value: &Value) {
        let Some((wrong, advice)) = self.judge(name, value) else {
            self.meant.insert(name.into(), value.clone());
            return;
        };
        let text = match advice {
            None => wrong,
            Some(Advice::Note(note)) => format!("{wrong}: {note}"),
            Some(Advice::Means(ours, others)) => {
                let text = format!("{wrong}; did you mean {}?", meant(&[], &ours, &others));
                self.mean(name, ours, others);
                text
            }
        };
        self.problems.add(Error::parameter(name, text));
    }

    /// Reads a name that is none of the parameters.
    fn unknown(&mut self, name: &str, value: &Value) {
        let has = |ours: &str| self.known.contains_key(ours) || COLUMNS.contains(&ours);
        // Some words decide what a parameter of theirs is about: boosting="goss" is a way to draw rows.
        let noted = match values::advice(name, value, &[]) {
            Some(Advice::Note(note)) if !self.known.contains_key(name) => Some(format!(": {note}")),
            _ => None,
        };
        let hint = match (noted, names::meaning(name, has)) {
            (_, Some(Meaning::Called(ours))) => match values::recounted(name, value) {
                Some(value) if self.known.contains_key(ours) => {
                    let text = format!("; did you mean `{}`?", meant(&[ours], &value, &[]));
                    self.mean(ours, value, vec![]);
                    text
                }
                _ => self.renamed(ours, value),
            },
            (Some(noted), _) => noted,
            (None, Some(Meaning::Note(note))) => format!(": {note}"),
            (None, None) => {
                let own = nearest(name, self.known.keys().map(String::as_str).chain(COLUMNS));
                match (own, nearest(name, names::all())) {
                    (Some(ours), _) => format!("; did you mean `{ours}`?"),
                    (None, Some(theirs)) => match names::meaning(theirs, has) {
                        Some(Meaning::Called(ours)) => format!("; did you mean `{ours}`?"),
                        Some(Meaning::Note(note)) => format!(" (nor `{theirs}`): {note}"),
                        None => String::new(),
                    },
                    (None, None) => String::new(),
                }
            }
        };
        self.problems.add(Error::UnknownParameter { name: name.into(), hint });
    }

    /// Reads the value of another library's name for `ours`.
    fn renamed(&mut self, ours: &str, value: &Value) -> String {
        if !self.known.contains_key(ours) {
            return format!("; did you mean `{ours}`?");
        }
        match self.judge(ours, value) {
            None => self.mean(ours, value.clone(), vec![]),
            Some((wrong, None)) => self.problems.add(Error::parameter(ours, wrong)),
            Some((_, Some(Advice::Note(note)))) => return format!(", which is `{ours}` here; of {}: {note}", shown(value)),
            Some((_, Some(Advice::Means(value, others)))) => {
                let text = format!("; did you mean `{}`?", meant(&[ours], &value, &others));
                self.mean(ours, value, others);
                return text;
            }
        }
        format!("; did you mean `{ours}`?")
    }
}

/// Parameters that are columns or about the call, which whoever makes the table takes.
pub(crate) const COLUMNS: [&str; 4] = ["weight", "eval", "baseline", "progress"];

/// A value as Python writes it, after its name where it has one, and others after it.
fn meant(name: &[&str], value: &Value, others: &[(&str, Value)]) -> String {
    let first = name.iter().map(|n| format!("{n}={}", shown(value))).next().unwrap_or_else(|| shown(value));
    others.iter().fold(first, |text, (name, value)| format!("{text}, {name}={}", shown(value)))
}

/// A value as Python writes it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry = |(k, v): (&String, &Value)| format!("{}: {}", shown(&k.as_str().into()), shown(v));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The words in backticks after "expected".
fn quoted(fault: &str) -> Vec<String> {
    let expected = fault.split_once("expected").map_or("", |(_, words)| words);
    expected.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// `"a"`, `"b"` or `"c"`.
fn listed(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("{w:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// What a parameter takes whose value serde does not: by its name where that says more than its type.
fn expected(name: &str, fault: &str, variants: &[String]) -> String {
    let text = match name {
        "monotone" => "a dict of -1, 0 or 1 by feature name, as {\"a\": 1}",
        "feature_weights" => "a dict of numbers from 0 on by feature name, as {\"a\": 2.0}",
        "bins" if fault.contains("untagged enum") => "a whole number from 2 to 256, or a dict of such by feature name, as {\"a\": 32}",
        "interaction" => "a list of lists of feature names, as [[\"a\", \"b\"], [\"c\"]]",
        "categorical" => "a list of feature names",
        "class_weight" => "\"balanced\", or a dict of a weight for each label",
        "positive" => "a label: text, a number, or True or False",
        "ctr_priors" => "a list of numbers",
        "alpha" => "a number, or a list of numbers",
        "max_features" => "\"sqrt\", \"log2\", \"all\", a number of features, or a share of them as a float",
        "bootstrap" => "True, False, or a share of the rows as a float",
        "prior_weight" => "zero or a positive number, or \"auto\"",
        "ctr" => return format!("a list of {}", listed(variants)),
        "metric" if !fault.starts_with("unknown variant") && !fault.starts_with("invalid type") => fault,
        _ if !variants.is_empty() => return listed(variants),
        _ => {
            let is = |what: &str| fault.contains(&format!("expected {what}"));
            let kinds = [
                ("u", "a whole number from 0 on"),
                ("i", "a whole number"),
                ("f", "a number"),
                ("a boolean", "True or False"),
                ("a string", "text"),
            ];
            let large = fault.contains("invalid value") && !fault.contains("`-") && is("u32");
            return match kinds.iter().find(|(what, _)| is(what)) {
                _ if large => "at most 4,294,967,295".into(),
                Some((_, kind)) => (*kind).into(),
                None => fault.into(),
            };
        }
    };
    text.into()
}

/// Parameters as a JSON object, without those that never change a model, which `never` names, and those of `LATER` that
/// are at their default.
pub fn to_json(params: &impl Serialize, never: &[&str]) -> Value {
    let mut value = serde_json::to_value(params).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        let silent = |name: &str, value: &Value| value.is_null() && LATER.contains(&name);
        object.retain(|name, value| !never.contains(&name.as_str()) && !silent(name, value));
    }
    value
}
