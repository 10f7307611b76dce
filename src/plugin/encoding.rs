//! Encodings of categories: `target_encode`, `fit_target_encoder`, `woe`, `information_value`,
//! `count_encode` and `combine` here, `encode` in [`apply`].

mod apply;
pub mod python;
mod target;

use crate::categories;
use crate::columns::{self, check_number};
use crate::errors::{self, guarded};
use crate::export::{Answer, Length, export};
use crate::fit::{self, Fields, OnError};
use crate::monitor::{self, LONG, expression};
use crate::order;
use crate::schema::{InputSchema, check_names, check_number_field, is_known, unnest};
use crate::threads::on_all_threads;
use polars::prelude::*;
use rayon::prelude::*;
use serde::Deserialize;
use taiga_engine::Error;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::device::columns::with_columns;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::count::counts;
use taiga_engine::encoding::target::{EncodingInput, EncodingKind, EncodingPlan, Order, TargetParams, UncodedInput};
use taiga_engine::encoding::woe::{Evidence, evidence};
use target::{EncoderTarget, classes_of};

/// One value a row, or a struct of one for each class.
fn values_type(classes: Option<&[String]>) -> DataType {
    match classes {
        None => DataType::Float64,
        Some(classes) => DataType::Struct(classes.iter().map(|c| Field::new(c.as_str().into(), DataType::Float64)).collect()),
    }
}

/// A series of that type from one for each class.
fn values_series(name: &PlSmallStr, rows: usize, mut values: Vec<Series>, classes: Option<&[String]>) -> PolarsResult<Series> {
    match classes {
        None => values.pop().map(|s| s.with_name(name.clone())).ok_or_else(|| errors::data("there is no value")),
        Some(classes) => {
            for (series, class) in values.iter_mut().zip(classes) {
                series.rename(class.as_str().into());
            }
            Ok(StructChunked::from_series(name.clone(), rows, values.iter())?.into_series())
        }
    }
}

fn params_of(json: &str) -> PolarsResult<TargetParams> {
    let value = serde_json::from_str(json).map_err(|e| errors::data(format!("params: {e}")))?;
    TargetParams::from_json(&value).map_err(errors::compute)
}

/// The inputs with literals as long as the columns.
fn broadcast(inputs: &[Series]) -> PolarsResult<Vec<Series>> {
    let rows = inputs.iter().map(|s| s.len()).find(|n| *n != 1).unwrap_or(1);
    let widen = |s: &Series| match s.len() {
        n if n == rows => Ok(s.clone()),
        1 => Ok(s.new_from_index(0, rows)),
        n => Err(errors::column(s.name(), format!("it has {n} rows and `{}` has {}", inputs[0].name(), inputs[0].len()))),
    };
    inputs.iter().map(widen).collect()
}

#[derive(Deserialize)]
struct TargetKwargs {
    /// [`TargetParams`] as a JSON object.
    params: String,
    /// The classes of a target that has several.
    classes: Option<Vec<String>>,
    /// Which inputs follow category and target, in this order.
    weight: bool,
    order_by: bool,
    folds: bool,
    /// What becomes of rows that can't be encoded.
    #[serde(default)]
    on_error: OnError,
    device: String,
}

/// Checks the type of a column of categories, where it is known.
fn check_category(field: &Field) -> PolarsResult<()> {
    if is_known(field.dtype()) { categories::check_type(field.name(), field.dtype()) } else { Ok(()) }
}

/// The classes of a target, as [`classes_of`] finds them; of a type that is not known yet those that are given.
fn target_classes(field: &Field, given: Option<&[String]>) -> PolarsResult<Option<Vec<String>>> {
    if is_known(field.dtype()) { classes_of(field.name(), field.dtype(), given) } else { Ok(given.map(<[String]>::to_vec)) }
}

fn target_encode_field(inputs: &[Field], kwargs: TargetKwargs) -> PolarsResult<Field> {
    guarded("target_encode", || {
        check_category(&inputs[0])?;
        let classes = target_classes(&inputs[1], kwargs.classes.as_deref())?;
        let mut others = inputs[2..].iter();
        let mut next = |given: bool| given.then(|| others.next()).flatten().filter(|f| is_known(f.dtype()));
        if let Some(weight) = next(kwargs.weight) {
            check_number(weight.name(), weight.dtype(), "a weight")?;
        }
        if let Some(order_by) = next(kwargs.order_by) {
            let DataType::Struct(fields) = order_by.dtype() else { return Err(errors::data("there is no order")) };
            fields.iter().try_for_each(|field| order::check(field.name(), field.dtype()))?;
        }
        if let Some(folds) = next(kwargs.folds) {
            target::check_folds(folds.name(), folds.dtype())?;
        }
        Ok(Field::new(inputs[0].name().clone(), values_type(classes.as_deref())))
    })
}

/// `inputs`: category, target, then weight, order and folds where there are any; the order in a struct, which no column of objects goes into.
fn target_encode(inputs: &[Series], kwargs: TargetKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("target_encode", rows >= LONG, || {
        let params = params_of(&kwargs.params)?;
        let inputs = broadcast(inputs)?;
        let (category, target) = (&inputs[0], &inputs[1]);
        let mut others = inputs[2..].iter();
        let mut next = |given: bool| given.then(|| others.next()).flatten();
        let (weight, order_by, folds) = (next(kwargs.weight), next(kwargs.order_by), next(kwargs.folds));
        let order_by = order_by.map(|order| order.struct_().map(|fields| fields.fields_as_series().swap_remove(0))).transpose()?;
        let classes = classes_of(target.name(), target.dtype(), kwargs.classes.as_deref())?;
        let rows = category.len();
        let encoded = || -> PolarsResult<Vec<Vec<f64>>> {
            let target = EncoderTarget::new(target, classes.as_deref())?;
            let weight = weight.map(target::weights).transpose()?;
            let plan = match (params.kind, &order_by, folds) {
                (EncodingKind::Ordered, Some(order_by), _) => {
                    EncodingPlan::Ordered(vec![order::rows(order_by)?.map_or(Order::Rows, Order::Given)])
                }
                (EncodingKind::Kfold, _, Some(folds)) if rows > 0 => {
                    let (folds, count) = target::folds(folds)?;
                    EncodingPlan::Folds(folds, count)
                }
                _ => EncodingPlan::random(rows, &params).map_err(errors::compute)?,
            };
            // A device numbers integers and texts by itself.
            if let Some(uncoded) = categories::Uncoded::new(category)? {
                let input = UncodedInput { categories: uncoded.rows(), target: target.target(), weight: weight.as_deref() };
                return with_columns(&kwargs.device, |backend| backend.target_encode_uncoded(&input, &plan, &params))
                    .map_err(errors::compute);
            }
            let codes = categories::codes(category)?;
            let input =
                EncodingInput { codes: &codes.codes, categories: codes.categories(), target: target.target(), weight: weight.as_deref() };
            with_columns(&kwargs.device, |backend| backend.target_encode(&input, &plan, &params)).map_err(errors::compute)
        };
        let Some(values) = kwargs.on_error.apply(target, |_| on_all_threads(encoded))? else {
            return Ok(Series::full_null(category.name().clone(), rows, &values_type(classes.as_deref())));
        };
        let values = values.into_iter().map(|v| Float64Chunked::from_vec(PlSmallStr::EMPTY, v).into_series()).collect();
        values_series(category.name(), rows, values, classes.as_deref())
    })
}

export!(target_encode, target_encode_field, TargetKwargs, Length::Rows);

#[derive(Deserialize)]
struct EncoderKwargs {
    params: String,
    /// What becomes of rows that can't be fitted.
    #[serde(default)]
    on_error: OnError,
    classes: Option<Vec<String>>,
    device: String,
}

/// Checks what names and types tell of a fit; `input`: the type of [`fit_target_encoder`]'s.
fn check_encoder(input: &DataType, kwargs: &EncoderKwargs) -> PolarsResult<()> {
    let fields = InputSchema::new(input)?;
    if fields.features.is_empty() {
        return Err(errors::data("there are no columns to encode"));
    }
    check_names(&fields.features, "column")?;
    fields.features.iter().try_for_each(check_category)?;
    target_classes(&fields.target, kwargs.classes.as_deref())?;
    match fields.one("weight")? {
        Some(weight) => check_number_field(&weight, "a weight"),
        None => Ok(()),
    }
}

fn encoder_field(inputs: &[Field], kwargs: EncoderKwargs) -> PolarsResult<Field> {
    guarded("fit_target_encoder", || check_encoder(inputs[0].dtype(), &kwargs))?;
    Ok(Field::new("encoder".into(), DataType::Binary))
}

/// The one input is a struct of the categories and of structs of the target and the weight: see
/// [`crate::fit::Parts`].
fn fit_target_encoder(inputs: &[Series], kwargs: EncoderKwargs) -> Answer {
    expression("fit_target_encoder", inputs[0].len() >= LONG, || {
        check_encoder(inputs[0].dtype(), &kwargs)?;
        let params = params_of(&kwargs.params)?;
        let fields = Fields::new(&inputs[0])?;
        let target = fields.one("target")?.ok_or_else(|| errors::data("there is no target"))?;
        let weight = fields.one("weight")?;
        let Fields { columns: categories, computed, .. } = fields;
        let classes = classes_of(target.name(), target.dtype(), kwargs.classes.as_deref())?;
        let fit = || {
            let data = EncoderTarget::new(&target, classes.as_deref())?;
            let weight = weight.as_ref().map(target::weights).transpose()?;
            let columns = categories.iter().map(categories::category_column).collect::<PolarsResult<Vec<CategoryColumn>>>()?;
            with_columns(&kwargs.device, |backend| {
                let values = |input: &EncodingInput<'_>| backend.category_values(input, &params);
                TargetEncoder::fit_by(columns, target.name(), data.target(), classes.clone(), weight.as_deref(), values)
            })
            .and_then(|encoder| encoder.with_computed(computed.clone()))
            .map_err(errors::compute)
        };
        // Whatever rows an encoder can be fitted to at all, it is fitted to: there is no constant beside.
        let encoder = kwargs.on_error.apply(&target, |_| on_all_threads(fit))?;
        Ok(fit::binary_series("encoder", encoder.map(|encoder| encoder.to_bytes())))
    })
}

export!(fit_target_encoder, encoder_field, EncoderKwargs, Length::One);

#[derive(Deserialize)]
struct WoeKwargs {
    smoothing: f64,
    weight: bool,
    /// What becomes of rows that have no evidence.
    #[serde(default)]
    on_error: OnError,
}

/// Checks what types tell of a call.
fn check_evidence(inputs: &[Field]) -> PolarsResult<()> {
    check_category(&inputs[0])?;
    let target = &inputs[1];
    if is_known(target.dtype()) {
        check_event(target.name(), target.dtype())?;
    }
    inputs[2..].iter().try_for_each(|weight| check_number_field(weight, "a weight"))
}

/// Checks that a target of this type may say which rows are events.
fn check_event(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if dtype.is_numeric() || *dtype == DataType::Boolean {
        return Ok(());
    }
    Err(errors::mistyped(
        name,
        format!("its type is {dtype}; weight of evidence needs a Boolean (or 0 and 1), for example pl.col({name:?}) == …"),
    ))
}

/// The codes of the categories and their evidence; none of rows that have none, where `on_error` says so. `inputs`: category, target, then the
/// weight where there is one.
fn evidence_of(inputs: &[Series], kwargs: &WoeKwargs) -> PolarsResult<Option<(Vec<u32>, Evidence)>> {
    if !kwargs.smoothing.is_finite() || kwargs.smoothing < 0.0 {
        return Err(errors::data(format!("parameter `smoothing`: {} is not zero or a positive number", kwargs.smoothing)));
    }
    let inputs = broadcast(inputs)?;
    let target = &inputs[1];
    let name = target.name();
    let one_or_zero = |x: &f64| *x == 0.0 || *x == 1.0;
    check_event(name, target.dtype())?;
    let found = || {
        let flags = match EncoderTarget::new(target, None)? {
            EncoderTarget::Flags(flags) => flags,
            EncoderTarget::Numbers(values) if values.iter().all(one_or_zero) => values.iter().map(|x| *x as u8).collect(),
            EncoderTarget::Numbers(values) => {
                let other = values.iter().find(|x| !one_or_zero(x)).copied().unwrap_or(f64::NAN);
                let text = format!("it is {other} somewhere; weight of evidence needs 0 and 1, for example pl.col({name:?}) == …");
                return Err(errors::values(name, text));
            }
            EncoderTarget::Classes(..) => return Err(errors::data("a target without classes has none")),
        };
        let codes = categories::codes(&inputs[0])?;
        let weight = kwargs.weight.then(|| target::weights(&inputs[2])).transpose()?;
        let evidence = evidence(&codes.codes, codes.categories(), &flags, weight.as_deref(), kwargs.smoothing);
        let named = |error: Error| match (error.rows_fault(), &error) {
            (Some(fault), _) => errors::of_rows(fault, format!("column `{name}`: {error}")),
            (None, Error::Memory(_)) => errors::compute(error),
            (None, _) => errors::column(name, error),
        };
        let evidence = evidence.map_err(named)?;
        Ok((codes.codes, evidence))
    };
    kwargs.on_error.apply(target, |_| on_all_threads(found))
}

/// The value of each row's category.
fn spread<T: Copy + Send + Sync>(codes: &[u32], values: &[T]) -> PolarsResult<Vec<T>> {
    let rows = codes.len();
    errors::check_memory(|| format!("the values of {rows} rows"), (rows * size_of::<T>()) as u64, "encode fewer rows")?;
    Ok(codes.par_iter().map(|code| values[*code as usize]).collect())
}

fn woe_field(inputs: &[Field], _: WoeKwargs) -> PolarsResult<Field> {
    guarded("woe", || check_evidence(inputs))?;
    Ok(Field::new(inputs[0].name().clone(), DataType::Float64))
}

fn woe(inputs: &[Series], kwargs: WoeKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("woe", rows >= LONG, || {
        let name = inputs[0].name().clone();
        let Some((codes, evidence)) = evidence_of(inputs, &kwargs)? else { return Ok(Float64Chunked::full_null(name, rows).into_series()) };
        let values = on_all_threads(|| spread(&codes, &evidence.woe))?;
        Ok(Float64Chunked::from_vec(name, values).into_series())
    })
}

export!(woe, woe_field, WoeKwargs, Length::Rows);

fn information_field(inputs: &[Field], _: WoeKwargs) -> PolarsResult<Field> {
    guarded("information_value", || check_evidence(inputs))?;
    Ok(Field::new(inputs[0].name().clone(), DataType::Float64))
}

fn information_value(inputs: &[Series], kwargs: WoeKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("information_value", rows >= LONG, || {
        // Of no rows there is none.
        let found = evidence_of(inputs, &kwargs)?.filter(|(codes, _)| !codes.is_empty());
        let value = found.map(|(_, evidence)| evidence.information_value);
        Ok(Series::new(inputs[0].name().clone(), [value]))
    })
}

export!(information_value, information_field, WoeKwargs, Length::One);

#[derive(Deserialize)]
struct CountKwargs {
    normalize: bool,
}

fn count_field(inputs: &[Field], kwargs: CountKwargs) -> PolarsResult<Field> {
    guarded("count_encode", || check_category(&inputs[0]))?;
    let dtype = if kwargs.normalize { DataType::Float64 } else { DataType::UInt32 };
    Ok(Field::new(inputs[0].name().clone(), dtype))
}

fn count_encode(inputs: &[Series], kwargs: CountKwargs) -> Answer {
    let rows = inputs[0].len();
    expression("count_encode", rows >= LONG, || {
        let name = inputs[0].name().clone();
        on_all_threads(|| {
            let codes = categories::codes(&inputs[0])?;
            let counts = counts(&codes.codes, codes.categories());
            let rows = codes.codes.len() as f64;
            Ok(if kwargs.normalize {
                let shares: Vec<f64> = counts.iter().map(|n| *n as f64 / rows).collect();
                Float64Chunked::from_vec(name, spread(&codes.codes, &shares)?).into_series()
            } else {
                UInt32Chunked::from_vec(name, spread(&codes.codes, &counts)?).into_series()
            })
        })
    })
}

export!(count_encode, count_field, CountKwargs, Length::Rows);

fn combine_field(inputs: &[Field], _: CombineKwargs) -> PolarsResult<Field> {
    guarded("combine", || unnest(inputs).iter().try_for_each(check_category))?;
    Ok(Field::new("combination".into(), DataType::UInt32))
}

#[derive(Deserialize)]
struct CombineKwargs {
    device: String,
}

fn combine(inputs: &[Series], kwargs: CombineKwargs) -> Answer {
    let rows = monitor::rows(inputs);
    expression("combine", rows >= LONG, || {
        let columns = columns::unnest(&broadcast(inputs)?)?;
        let codes = on_all_threads(|| {
            let codes = columns.iter().map(categories::codes).collect::<PolarsResult<Vec<_>>>()?;
            let views: Vec<(&[u32], usize)> = codes.iter().map(|c| (&c.codes[..], c.categories())).collect();
            with_columns(&kwargs.device, |backend| backend.combine(&views)).map_err(errors::compute)
        })?;
        Ok(UInt32Chunked::from_vec("combination".into(), codes.0).into_series())
    })
}

export!(combine, combine_field, CombineKwargs, Length::Rows);
