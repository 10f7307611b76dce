//! What the expressions that fit a model share: the table they read, and the value they give.

use crate::columns::{self, Feature, Numbers};
use crate::export::Answer;
use crate::literal::unlabelled;
use crate::row_key::{Description, Keyed};
use crate::schema::InputSchema;
use crate::selections::{self, Selection};
use crate::threads::on_all_threads;
use crate::together::Together;
use crate::{errors, monitor};
use polars::prelude::*;
use rayon::prelude::*;
use serde::Deserialize;
use std::cell::RefCell;
use taiga_engine::dataset::OwnRows;
use taiga_engine::device::with_device;
use taiga_engine::error::RowsFault;
use taiga_engine::metadata::Metadata;
use taiga_engine::parallel::{interrupt, pools};
use taiga_engine::provenance::{LabelType, Provenance, StructColumn};
use taiga_engine::receipt::Receipt;

/// What Python says of a fit.
#[derive(Deserialize)]
pub struct FitKwargs {
    /// The learner's parameters as a JSON object.
    params: String,
    /// A progress bar: always, never, or when it seems useful.
    pub progress: Option<bool>,
    /// What becomes of rows that can't be fitted.
    #[serde(default)]
    pub on_error: OnError,
    /// The selectors among the parameters.
    #[serde(default)]
    selections: Vec<Selection>,
    /// What the user says of the model, a JSON object.
    #[serde(default)]
    metadata: Option<String>,
    /// Every how many rounds a line is written.
    #[serde(default)]
    pub verbose: Option<u32>,
    /// The number of the function of Python that is called after each round.
    #[serde(default)]
    pub callback: Option<u64>,
    /// The file that the state of the fit is kept in, and every how many rounds.
    #[serde(default)]
    pub snapshot: Option<(String, u32)>,
    /// The processes that make the fit together with this one.
    #[serde(default)]
    pub collective: Option<Together>,
    /// The version of this package of whose fit the receipt is asked for, and not the model.
    #[serde(default)]
    receipt: Option<String>,
}

/// What becomes of a fit whose rows are at fault (see [`taiga_engine::Error::rows_fault`]). Whatever else is wrong ends the
/// query.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It ends the query.
    #[default]
    Raise,
    /// Its value is null.
    Null,
    /// Rows that are too few or too alike get a constant, or null where no row counts; values that can't be fitted end
    /// the query.
    Constant,
}

/// Which model of some rows is asked for.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    Model,
    /// One that predicts the same for every row.
    Constant,
}

impl OnError {
    /// The value of a fit, by `fit` or what stands for it; errors of the rows say which rows: of several fits in a query,
    /// Polars does not tell the group.
    pub fn apply<T>(self, target: &Series, fit: impl Fn(Wanted) -> PolarsResult<T>) -> PolarsResult<Option<T>> {
        let error = match fit(Wanted::Model) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        match (self, errors::rows_fault(&error)) {
            (OnError::Null, Some(_)) => Ok(None),
            (OnError::Constant, Some(RowsFault::Degenerate)) => match fit(Wanted::Constant) {
                Ok(value) => Ok(Some(value)),
                Err(error) if errors::rows_fault(&error) == Some(RowsFault::Degenerate) => Ok(None),
                Err(error) => Err(located(error, target, self)),
            },
            _ => Err(located(error, target, self)),
        }
    }
}

/// The error with the rows that it is of, where they are at fault.
fn located(error: PolarsError, target: &Series, on_error: OnError) -> PolarsError {
    let Some(fault) = errors::rows_fault(&error) else { return error };
    let rows = match (target.len(), target.get(0)) {
        (0, _) | (_, Err(_)) => format!("no rows of `{}`", target.name()),
        (n, Ok(first)) => {
            let mut first = errors::shown(&first);
            if let Some((end, _)) = first.char_indices().nth(40) {
                first.replace_range(end.., "…");
            }
            format!("{}, whose first `{}` is {first}", errors::count(n, "row", "rows"), target.name())
        }
    };
    // Null is what stands for all of them.
    let others = if on_error == OnError::Null { "" } else { "; on_error=\"null\" would go on with others" };
    errors::of_rows(fault, format!("{} (a fit of {rows}{others})", errors::text(&error)))
}

impl FitKwargs {
    /// The parameters of a JSON object, with the names that selectors give in the input.
    fn params(&self, text: &str, fields: &InputSchema) -> PolarsResult<serde_json::Value> {
        let mut params = serde_json::from_str(text).map_err(|e| errors::data(format!("params: {e}")))?;
        selections::fill_in(&mut params, &self.selections, fields)?;
        Ok(params)
    }

    /// What `fit` makes of the table: by itself, or with the other processes that there are, of all of which it is then given what is narrow
    /// ([`Together::join`]), and which rows of the others are here. `categorical`: features that are categories whatever their type;
    /// `description`: of what is fitted.
    ///
    /// # Errors
    /// Those of the connection, and of `fit`; for a constant, which is not fitted over several processes.
    pub fn with_others<T>(
        &self,
        parts: &Parts,
        wanted: Wanted,
        categorical: &[String],
        description: impl FnOnce() -> Description,
        fit: impl FnOnce(&Parts, Option<OwnRows<'_>>) -> PolarsResult<T>,
    ) -> PolarsResult<T> {
        let Some(together) = &self.collective else { return fit(parts, None) };
        if wanted == Wanted::Constant {
            return Err(errors::data("parameter `on_error`: \"constant\" is not fitted over several processes yet"));
        }
        together.join(parts, categorical, &description(), self.metadata.as_deref(), |parts, own| fit(parts, Some(own)))
    }

    /// What the user says of the model.
    pub fn metadata(&self) -> PolarsResult<Option<Metadata>> {
        self.metadata.as_deref().map(Metadata::new).transpose().map_err(errors::compute)
    }
}

/// So many rows are read on all threads.
pub const MANY: usize = 1 << 16;

/// The fields of the input that are not features start with this.
pub const ROLE: &str = "__taiga_";

/// The roles that there are, beside those of what is selected.
const ROLES: [&str; 18] = [
    "target",
    "predicted",
    "weight",
    "group",
    "position",
    "baseline",
    "event",
    "lower",
    "upper",
    "eval",
    "order_by",
    "row_key",
    "indices",
    "values",
    "fold",
    "loss_columns",
    "metric_columns",
    "columns",
];

/// Columns that are selected have roles that start with this.
const SELECTED: &str = "selected_";

/// Returns whether a field of the input is what its name says, as this package names the structs that it makes; others have no such names.
pub fn is_own(field: &Field) -> bool {
    let Some(role) = field.name().strip_prefix(ROLE) else { return true };
    let known = ROLES.contains(&role) || role.starts_with(SELECTED) || field.name().starts_with(COMPUTED);
    known && matches!(field.dtype(), DataType::Struct(_))
}

/// The roles of sparse rows.
const SPARSE: [&str; 2] = ["indices", "values"];

/// Structs of what was computed start with this.
pub const COMPUTED: &str = "__taiga_computed_";

/// The struct that Python makes of everything that a fit reads.
///
/// ```text
/// { a, b, …, __taiga_target: {y}, __taiga_weight: {w}, __taiga_eval: {e}, … }
/// ```
///
/// One struct, because Polars then runs the groups of a `group_by` in parallel; structs inside,
/// because target and weight then keep their names and can't meet a feature's. Nothing is copied
/// as long as the columns have their chunk borders in the same places; else Polars rechunks them.
///
/// What is not a column under its own name but an expression's result comes in a struct of its own,
/// `__taiga_computed_0: {b}`, in its place among features or in a role.
pub struct Parts {
    roles: Vec<Series>,
    pub target: Series,
    pub features: Vec<Series>,
    /// Of each feature, whether it is not a column under its own name.
    computed: Vec<bool>,
    structs: Vec<StructColumn>,
    weight: Option<Series>,
    /// The bytes of a model whose trees come first.
    pub init_model: Option<Vec<u8>>,
    /// How many rows the features have that are numbers, where the others are in other processes, or come in batches.
    own: Option<usize>,
    /// Of which rows they are, where these have keys.
    pub receipt: Option<Receipt>,
}

impl Parts {
    /// The parts with these rows, in this order.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn taken(&self, rows: &[IdxSize]) -> PolarsResult<Parts> {
        let columns: Vec<&Series> = self.columns().collect();
        let bytes = columns.iter().map(|s| s.estimated_size() as u64).sum::<u64>();
        errors::check_memory(|| "the rows in the order of their keys".into(), bytes, "fit without `row_key`, on rows that are sorted")?;
        let take = |s: &&Series| {
            interrupt::poll();
            s.rechunk().take_slice(rows)
        };
        self.with_columns(columns.par_iter().map(take).collect::<PolarsResult<Vec<_>>>()?)
    }

    /// All columns.
    pub fn columns(&self) -> impl Iterator<Item = &Series> {
        self.roles.iter().chain(&self.features)
    }

    /// The parts with others in the place of all [`columns`](Parts::columns).
    ///
    /// # Errors
    /// Where a part of which there is one is several columns.
    pub fn with_columns(&self, mut columns: Vec<Series>) -> PolarsResult<Parts> {
        let features = columns.split_off(self.roles.len());
        Ok(Parts {
            target: one_of(&columns, "target")?.ok_or_else(|| errors::data("there is no target"))?,
            weight: one_of(&columns, "weight")?,
            roles: columns,
            features,
            computed: self.computed.clone(),
            structs: self.structs.clone(),
            init_model: self.init_model.clone(),
            own: self.own,
            receipt: self.receipt,
        })
    }

    /// For each role a struct of its columns.
    pub fn roles(&self) -> &[Series] {
        &self.roles
    }

    /// The columns of one of the [`roles`](Parts::roles).
    pub fn all_of(&self, role: &Series) -> PolarsResult<Vec<Series>> {
        Ok(unwrapped(role.struct_()?.fields_as_series())?.into_iter().map(|(column, _)| column).collect())
    }

    /// The parts with what other processes have too, where `gather` makes a column of all rows of one of this process's; only features that
    /// are numbers, and the lists of sparse rows, stay as they are. Those of `categorical` are none.
    ///
    /// # Errors
    /// Those of `gather`.
    pub fn of_all_rows(&self, categorical: &[String], gather: impl Fn(&Series) -> PolarsResult<Series>) -> PolarsResult<Parts> {
        let is_narrow = |s: &Series| columns::is_listed(s.dtype()) || categorical.iter().any(|c| c == s.name().as_str());
        let features = self.features.iter().map(|s| if is_narrow(s) { gather(s) } else { Ok(s.clone()) });
        let of_role = |s: &Series| if is_sparse(s) { Ok(s.clone()) } else { gather(s) };
        Ok(Parts {
            roles: self.roles.iter().map(of_role).collect::<PolarsResult<_>>()?,
            target: gather(&self.target)?,
            features: features.collect::<PolarsResult<_>>()?,
            computed: self.computed.clone(),
            structs: self.structs.clone(),
            weight: self.weight.as_ref().map(&gather).transpose()?,
            init_model: self.init_model.clone(),
            own: Some(self.target.len()),
            receipt: self.receipt,
        })
    }

    /// The names and types of all columns, and which are computed, as JSON.
    pub fn types(&self) -> serde_json::Value {
        let text = |s: &Series, more: &str| serde_json::Value::from(format!("{} ({}{more})", s.name(), columns::type_text(s.dtype())));
        let of = |s: &Series| text(s, "");
        let feature = |(s, computed): (&Series, &bool)| text(s, if *computed { ", computed" } else { "" });
        let roles: serde_json::Map<String, serde_json::Value> = self.roles.iter().map(|s| (s.name().replace(ROLE, ""), of(s))).collect();
        serde_json::json!({
            "target": of(&self.target),
            "beside it": roles,
            "features": self.features.iter().zip(&self.computed).map(feature).collect::<Vec<_>>(),
            "structs": self.structs,
        })
    }

    /// The parts of a table some of whose features, and the lists of sparse rows, come in batches and have no rows here: `empty` are all columns
    /// without rows, `kept` the other roles and the features that are kept `whole`, in their order.
    ///
    /// # Errors
    /// As [`new`](Parts::new), and where `kept` has other features.
    pub fn in_batches(empty: &Series, kept: &Series, whole: &[bool]) -> PolarsResult<Self> {
        let Fields { roles, columns, computed, structs } = Fields::new(empty)?;
        let kept = Parts::new(std::slice::from_ref(kept))?;
        let mut own = kept.features.iter().cloned();
        let feature = |(s, whole): (Series, &bool)| if *whole { own.next() } else { Some(s) };
        let features: Option<Vec<Series>> = columns.into_iter().zip(whole).map(feature).collect();
        let features = features.ok_or_else(|| errors::data("what is kept of the frame has other columns than it"))?;
        let roles = kept.roles.iter().cloned().chain(roles.into_iter().filter(is_sparse)).collect();
        Ok(Parts { roles, features, computed, structs, own: Some(0), ..kept })
    }

    /// The parts of an expression's input.
    ///
    /// # Errors
    /// Where a part of which there is one is several columns.
    pub fn new(inputs: &[Series]) -> PolarsResult<Self> {
        let Fields { roles, columns: features, computed, structs } = Fields::new(&inputs[0])?;
        let target = one_of(&roles, "target")?.ok_or_else(|| errors::data("there is no target"))?;
        let weight = one_of(&roles, "weight")?;
        let init_model = inputs.get(1).map_or(Ok(None), init_model)?;
        Ok(Parts { roles, target, features, computed, structs, weight, init_model, own: None, receipt: None })
    }

    /// What a model tells of its classes and columns, of which those of lists stand before the features; `of_lists`: whether they are not
    /// columns under their own names.
    pub fn provenance(&self, label_type: Option<LabelType>, of_lists: Vec<bool>) -> Provenance {
        let before = of_lists.len();
        let computed = of_lists.into_iter().chain(self.computed.iter().copied());
        Provenance { receipt: self.receipt, ..Provenance::new(label_type, computed).with_structs(self.structs.clone(), before) }
    }

    /// The columns of a role; none if it is not there.
    pub fn all(&self, role: &str) -> PolarsResult<Vec<Series>> {
        let columns: Vec<Series> = columns_of(&self.roles, role)?.into_iter().map(|(column, _)| column).collect();
        columns::unnest(&columns)
    }

    /// The one column of a role, if it is there.
    pub fn one(&self, role: &str) -> PolarsResult<Option<Series>> {
        one_of(&self.roles, role)
    }

    /// Of the columns of a role, whether they are not columns under their own names.
    pub fn computed_of(&self, role: &str) -> PolarsResult<Vec<bool>> {
        Ok(columns_of(&self.roles, role)?.into_iter().map(|(_, computed)| computed).collect())
    }

    /// The features, those of `categorical` as categories whatever their type. What their names and types tell has been
    /// checked ([`InputSchema::check`](crate::schema::InputSchema::check)).
    ///
    /// # Errors
    /// For the target among them, and features as long as others are not.
    pub fn features(&self, categorical: &[String]) -> PolarsResult<Vec<Feature>> {
        self.check_target_is_no_feature()?;
        let is_category = |s: &Series| categorical.iter().any(|c| c == s.name().as_str());
        let numbers = |s: &Series| !is_category(s) && !columns::is_listed(s.dtype());
        let check = |s: &Series| match self.own {
            Some(rows) if numbers(s) && s.len() == rows => Ok(()),
            _ => self.check_length(s),
        };
        let read = || -> PolarsResult<Vec<Feature>> {
            self.features.iter().map(|s| check(s).and_then(|()| Feature::new(s, is_category(s)))).collect()
        };
        // Of many rows categories are numbered on several threads.
        let listed = |s: &Series| is_category(s) || columns::is_listed(s.dtype());
        if self.target.len() >= MANY && self.features.iter().any(listed) { on_all_threads(read) } else { read() }
    }

    /// Checks that the target is not among the features.
    ///
    /// # Errors
    /// If it is.
    pub fn check_target_is_no_feature(&self) -> PolarsResult<()> {
        // Of a target that is the same in all rows, as in some group, what is computed under its name may be so too.
        let is_constant = |target: &Series| target.n_unique().is_ok_and(|n| n < 2);
        let is_it = |(feature, target): &(usize, Series)| {
            self.features[*feature].equals_missing(target) && !(self.computed[*feature] && is_constant(target))
        };
        match self.targets_named_as_features()?.iter().find(|pair| is_it(pair)) {
            Some((_, target)) => Err(Parts::target_is_feature(target)),
            None => Ok(()),
        }
    }

    /// The features that have the name and the type of the target, or of one of several targets, by their places and with it.
    ///
    /// # Errors
    /// Those of reading several targets.
    pub fn targets_named_as_features(&self) -> PolarsResult<Vec<(usize, Series)>> {
        let mut targets = vec![self.target.clone()];
        if matches!(self.target.dtype(), DataType::Struct(_)) {
            targets.extend(self.target.struct_()?.fields_as_series());
        }
        let mut found = vec![];
        for target in targets {
            let alike = |f: &Series| f.name() == target.name() && f.dtype() == target.dtype();
            found.extend(self.features.iter().position(alike).map(|place| (place, target)));
        }
        Ok(found)
    }

    /// The error for a target that is among the features.
    pub fn target_is_feature(target: &Series) -> PolarsError {
        let name = target.name().as_str();
        errors::column(name, format!("the target is among the features; leave it out (pl.exclude({name:?}))"))
    }

    /// The rows' weights.
    ///
    /// # Errors
    /// For values that are no weights.
    pub fn weight(&self) -> PolarsResult<Option<Numbers>> {
        self.weight.as_ref().map(|s| self.check_length(s).and_then(|()| Numbers::finite(s, "a weight"))).transpose()
    }

    /// Checks that a column has as many rows as the target.
    ///
    /// # Errors
    /// If not.
    pub fn check_length(&self, series: &Series) -> PolarsResult<()> {
        self.check_rows(series, self.target.len())
    }

    /// Checks that a column that stays in its process has as many rows as the target has there.
    ///
    /// # Errors
    /// If not.
    pub fn check_own_length(&self, series: &Series) -> PolarsResult<()> {
        self.check_rows(series, self.own.unwrap_or(self.target.len()))
    }

    fn check_rows(&self, series: &Series, rows: usize) -> PolarsResult<()> {
        let len = series.len();
        if len != rows {
            return Err(errors::column(series.name(), format!("it has {len} rows and the target `{}` has {rows}", self.target.name())));
        }
        Ok(())
    }
}

/// The fields of the struct that a fit reads.
pub struct Fields {
    /// For each role a struct of its columns.
    pub roles: Vec<Series>,
    /// The other columns, in their order; structs are replaced by their fields.
    pub columns: Vec<Series>,
    /// Of each of them, whether it is not a column under its own name.
    pub computed: Vec<bool>,
    /// The structs among them that are columns under their own names, and which of the columns are their fields.
    pub structs: Vec<StructColumn>,
}

impl Fields {
    /// The fields of the input.
    ///
    /// # Errors
    /// For anything but a struct.
    pub fn new(input: &Series) -> PolarsResult<Self> {
        let (roles, others): (Vec<Series>, Vec<Series>) = input.struct_()?.fields_as_series().into_iter().partition(is_role);
        let (mut columns, mut computed, mut structs) = (vec![], vec![], vec![]);
        for (column, expression) in unwrapped(others)? {
            // A field of a struct can't be found under its own name either.
            let (name, is_struct) = (column.name().to_string(), matches!(column.dtype(), DataType::Struct(_)));
            let first = columns.len() as u32;
            columns.extend(columns::unnest(&[column])?);
            computed.resize(columns.len(), expression || is_struct);
            if is_struct && !expression {
                structs.push(StructColumn { name, columns: (first..columns.len() as u32).collect() });
            }
        }
        Ok(Fields { roles, columns, computed, structs })
    }

    /// The fields of the input that are features, each of which may be a struct of several.
    ///
    /// # Errors
    /// For anything but a struct.
    pub fn of_features(input: &Series) -> PolarsResult<Vec<Series>> {
        Ok(input.struct_()?.fields_as_series().into_iter().filter(|s| !is_role(s)).collect())
    }

    /// The fields of the input that are no features.
    ///
    /// # Errors
    /// For anything but a struct.
    pub fn of_roles(input: &Series) -> PolarsResult<Vec<Series>> {
        Ok(input.struct_()?.fields_as_series().into_iter().filter(is_role).collect())
    }

    /// The columns in one of [these](Fields::of_features).
    ///
    /// # Errors
    /// For a struct of this package's that is none.
    pub fn in_field(field: Series) -> PolarsResult<Vec<Series>> {
        columns::unnest(&unwrapped(vec![field])?.into_iter().map(|(column, _)| column).collect::<Vec<_>>())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.roles.iter().chain(&self.columns).next().map_or(0, |s| s.len())
    }

    /// The one column of a role, if it is there.
    ///
    /// # Errors
    /// For several columns.
    pub fn one(&self, role: &str) -> PolarsResult<Option<Series>> {
        one_of(&self.roles, role)
    }

    /// The columns of a role; none if it is not there.
    pub fn all(&self, role: &str) -> PolarsResult<Vec<Series>> {
        Ok(columns_of(&self.roles, role)?.into_iter().map(|(column, _)| column).collect())
    }
}

/// Whether a field of the input is no feature.
fn is_role(field: &Series) -> bool {
    field.name().starts_with(ROLE) && !field.name().starts_with(COMPUTED)
}

/// Whether a field of the input is one of the lists of sparse rows, which may be of some rows where all else is of all.
pub fn is_sparse(field: &Series) -> bool {
    field.name().strip_prefix(ROLE).is_some_and(|role| SPARSE.contains(&role))
}

/// Columns, and whether they come from the structs of what was computed.
fn unwrapped(fields: Vec<Series>) -> PolarsResult<Vec<(Series, bool)>> {
    let mut out = vec![];
    for field in fields {
        if field.name().starts_with(COMPUTED) {
            // A selector may give no column, and a struct must have a field: Python adds one.
            let own = field.struct_()?.fields_as_series();
            out.extend(own.into_iter().filter(|s| s.name() != ROLE).map(|s| (s, true)));
        } else {
            out.push((field, false));
        }
    }
    Ok(out)
}

/// The columns of a role, and whether they were computed.
fn columns_of(roles: &[Series], role: &str) -> PolarsResult<Vec<(Series, bool)>> {
    match roles.iter().find(|s| s.name().strip_prefix(ROLE) == Some(role)) {
        Some(part) => unwrapped(part.struct_()?.fields_as_series()),
        None => Ok(vec![]),
    }
}

/// The model that is given beside the table: one value, of whichever rows; none where it is null.
fn init_model(given: &Series) -> PolarsResult<Option<Vec<u8>>> {
    if *given.dtype() == DataType::Null {
        return Ok(None);
    }
    let Ok(values) = given.binary() else {
        return Err(errors::data(format!("parameter `init_model`: it is {}, not a model's bytes (Binary)", given.dtype())));
    };
    let first = values.iter().next().flatten();
    if values.iter().any(|value| value != first) {
        return Err(errors::data("parameter `init_model`: it is another model in some rows; a fit goes on from one"));
    }
    Ok(first.map(|bytes| unlabelled(bytes).to_vec()))
}

/// The one column of a role.
fn one_of(roles: &[Series], role: &str) -> PolarsResult<Option<Series>> {
    let mut columns = columns_of(roles, role)?;
    match columns.len() {
        0 | 1 => Ok(columns.pop().map(|(column, _)| column)),
        n => Err(errors::data(format!("`{role}` is one column, not {n}"))),
    }
}

/// Bytes, or null, as one Binary value.
pub fn binary_series(name: &str, bytes: Option<Vec<u8>>) -> Series {
    BinaryChunked::from_slice_options(name.into(), &[bytes]).into_series()
}

/// A learner's parameters, held against the type of the input by `check`.
///
/// # Errors
/// What `from_json` and `check` say.
pub fn checked<P>(
    input: &DataType,
    kwargs: &FitKwargs,
    from_json: impl FnOnce(&serde_json::Value) -> taiga_engine::Result<P>,
    check: impl FnOnce(&InputSchema, &P) -> PolarsResult<()>,
) -> PolarsResult<P> {
    checked_params(input, kwargs, &kwargs.params, from_json, check)
}

/// [`checked`] of parameters that stand in place of those of the call, as JSON.
///
/// # Errors
/// As above.
pub fn checked_params<P>(
    input: &DataType,
    kwargs: &FitKwargs,
    text: &str,
    from_json: impl FnOnce(&serde_json::Value) -> taiga_engine::Result<P>,
    check: impl FnOnce(&InputSchema, &P) -> PolarsResult<()>,
) -> PolarsResult<P> {
    let fields = InputSchema::new(input)?;
    let given = kwargs.params(text, &fields)?;
    let params = with_device(&given, from_json(&given)).map_err(errors::compute)?;
    check(&fields, &params).map(|()| params)
}

/// The parameters that a thread last checked, and what they were checked of: the groups of a `group_by` have the same, and to read them and
/// hold them against the input's type takes as long as a tree of few rows.
pub struct LastChecked<P>(RefCell<Option<(DataType, String, P)>>);

impl<P: Clone> LastChecked<P> {
    pub const fn new() -> Self {
        LastChecked(RefCell::new(None))
    }

    /// What `check` says of the call, or said of the last one that was alike. Selectors, which a call seldom has, are always filled in anew.
    ///
    /// # Errors
    /// Those of `check`, which are not kept.
    pub fn get(&self, input: &DataType, kwargs: &FitKwargs, check: impl FnOnce() -> PolarsResult<P>) -> PolarsResult<P> {
        if !kwargs.selections.is_empty() {
            return check();
        }
        if let Some((dtype, text, params)) = &*self.0.borrow()
            && *text == kwargs.params
            && dtype == input
        {
            return Ok(params.clone());
        }
        let params = check()?;
        self.0.replace(Some((input.clone(), kwargs.params.clone(), params.clone())));
        Ok(params)
    }
}

/// The value of the expression `function` that fits: the bytes that `fit` makes of the input under the parameters that `checked`
/// gives, or what stands for them by `on_error`. Rows that have keys are in the order of these, but for those that lie in several processes. Where the
/// receipt is asked for it is the value, as text; `described`: the parameters as receipts have them.
///
/// # Errors
/// What both say.
pub fn fitted<P: Clone + Sync>(
    function: &'static str,
    inputs: &[Series],
    kwargs: &FitKwargs,
    checked: impl FnOnce() -> PolarsResult<P>,
    described: impl Fn(&P) -> serde_json::Value + Sync,
    fit: impl Fn(&Parts, P, &FitKwargs, Wanted) -> PolarsResult<Vec<u8>>,
) -> Answer {
    monitor::expression(function, true, || {
        // A fit on one thread is done on this one.
        pools::keep_to_this_thread();
        let params = checked()?;
        let parts = Parts::new(inputs)?;
        // Written where rows have keys alone.
        let describe = || Description::new(function, &described(&params), kwargs.receipt.as_deref());
        let bytes = kwargs.on_error.apply(&parts.target, |wanted| {
            let keyed = if kwargs.collective.is_none() { Keyed::new(&parts, Some(&describe))? } else { None };
            let parts = Keyed::parts_of(&keyed, &parts);
            match (&kwargs.receipt, parts.receipt) {
                (Some(_), Some(receipt)) => Ok(receipt.to_string().into_bytes()),
                (Some(_), None) => Err(errors::data("parameter `row_key`: a receipt is one of rows that have keys")),
                _ => fit(parts, params.clone(), kwargs, wanted),
            }
        })?;
        Ok(binary_series("model", bytes))
    })
}

/// Exports a learner's expression under its name: the model of the struct that [`Parts`] describes, as one Binary value. Where it
/// stands are `check(&InputSchema, &Params)`, what names and types tell, and `fit(&Parts, Params, &FitKwargs, Wanted)`.
macro_rules! fit_expression {
    ($function:ident, $params:ty) => {
        /// The parameters, held against the type of the input.
        pub(crate) fn checked(input: &DataType, kwargs: &$crate::fit::FitKwargs) -> PolarsResult<$params> {
            $crate::fit::checked(input, kwargs, <$params>::from_json, check)
        }

        fn model_field(inputs: &[Field], kwargs: $crate::fit::FitKwargs) -> PolarsResult<Field> {
            let checked = || checked(inputs[0].dtype(), &kwargs);
            $crate::errors::guarded(stringify!($function), checked).map(|_| Field::new("model".into(), DataType::Binary))
        }

        fn $function(inputs: &[Series], kwargs: $crate::fit::FitKwargs) -> $crate::export::Answer {
            thread_local! {
                static LAST: $crate::fit::LastChecked<$params> = const { $crate::fit::LastChecked::new() };
            }
            let checked = || LAST.with(|last| last.get(inputs[0].dtype(), &kwargs, || checked(inputs[0].dtype(), &kwargs)));
            let described = |params: &$params| params.described().to_json();
            $crate::fit::fitted(stringify!($function), inputs, &kwargs, checked, described, |parts, params, kwargs, wanted| {
                let mut model = fit(parts, params, kwargs, wanted)?;
                model.provenance.metadata = kwargs.metadata()?;
                Ok(model.to_bytes())
            })
        }

        $crate::export::export!($function, model_field, $crate::fit::FitKwargs, $crate::export::Length::One);
    };
}
pub(crate) use fit_expression;
