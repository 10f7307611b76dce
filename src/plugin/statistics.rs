//! `min_max`, `histogram` and `histogram2d`: each makes one value of whole columns.

mod moments;

use crate::columns::{Numbers, number_type};
use crate::errors::{self, guarded};
use crate::export::{Answer, Length, export};
use crate::monitor::{LONG, expression};
use crate::schema::{check_number_field, is_known};
use crate::threads::on_all_threads;
use moments::{Moments, TemporalBins, edge_type, is_temporal};
use polars::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use taiga_engine::device::columns::with_columns;
use taiga_engine::stats::{AxisParams, ColumnValue, Heights, Histogram2dParams, HistogramParams, PARALLEL_FROM};

/// A column under the name that Python knows it by: inside groups a lone input has none.
fn named(series: &Series, name: &Option<String>) -> Series {
    match name {
        Some(name) if series.name().is_empty() => series.clone().with_name(name.as_str().into()),
        _ => series.clone(),
    }
}

/// A column of numbers.
pub fn numbers(series: &Series) -> PolarsResult<Numbers> {
    check_values(&series.field())?;
    Numbers::feature(series)
}

/// Checks the type of a column of numbers or times, where it is known.
///
/// # Errors
/// For other types, naming the column and its type.
pub fn check_values(field: &Field) -> PolarsResult<()> {
    let dtype = field.dtype();
    if number_type(dtype).is_some() || !is_known(dtype) {
        return Ok(());
    }
    Err(errors::mistyped(
        field.name(),
        format!("its type is {dtype}; it must be an integer, a float, a Boolean, a Decimal or temporal: cast it first, or leave it out"),
    ))
}

/// The fields of a call's columns: `values` of numbers, then weights.
fn fields_of(inputs: &[Field], values: usize, weighted: bool) -> Vec<Field> {
    let columns = match (inputs, values + weighted as usize) {
        ([packed], 2..) => match packed.dtype() {
            DataType::Struct(fields) => fields.clone(),
            _ => return vec![],
        },
        _ => inputs.to_vec(),
    };
    // As `columns_of` reads them: those behind the first stand in a struct of their own.
    let bare = |(i, field): (usize, Field)| match field.dtype() {
        DataType::Struct(inner) if i > 0 && inner.len() == 1 => inner[0].clone(),
        _ => field,
    };
    columns.into_iter().enumerate().map(bare).collect()
}

/// Checks the types of a call's columns, and what is said of the bins of each that is not a weight; gives the types of their edges.
fn check_columns(inputs: &[Field], axes: &[(&AxisParams, Option<&Moments>)], weighted: bool) -> PolarsResult<Vec<DataType>> {
    let fields = fields_of(inputs, axes.len(), weighted);
    fields.iter().skip(axes.len()).try_for_each(|weight| check_number_field(weight, "a weight"))?;
    fields.iter().take(axes.len()).try_for_each(check_values)?;
    for (field, (params, moments)) in fields.iter().zip(axes).filter(|(field, _)| is_known(field.dtype())) {
        moments::check(field, params, *moments)?;
    }
    Ok((0..axes.len()).map(|i| fields.get(i).map_or(DataType::Float64, |field| edge_type(field.dtype()))).collect())
}

/// A column whose rows are counted: itself, or of a temporal one the bins of its rows.
struct Axis<'a> {
    column: &'a Series,
    temporal: Option<TemporalBins>,
    numbers: Numbers,
    params: AxisParams,
}

impl<'a> Axis<'a> {
    fn new(column: &'a Series, params: &AxisParams, moments: Option<&Moments>, device: &str) -> PolarsResult<Self> {
        let values = numbers(column)?;
        let given = moments::check(&column.field(), params, moments)?;
        if !is_temporal(column.dtype()) {
            return Ok(Axis { column, temporal: None, numbers: values, params: params.clone() });
        }
        let extremes = match given {
            Some(_) => None,
            None => run(values.len(), || with_columns(device, |backend| backend.min_max(&values.column()))).map_err(errors::compute)?,
        };
        let bins = TemporalBins::new(column.dtype(), params, given, moments.is_some_and(Moments::are_all), extremes);
        let (numbers, params) = (numbers(&bins.codes(column)?)?, bins.axis());
        Ok(Axis { column, temporal: Some(bins), numbers, params })
    }

    /// The edges at these places; `found`: the engine's.
    fn edges(&self, name: &str, found: &[f64], at: impl Iterator<Item = usize>) -> PolarsResult<Series> {
        match &self.temporal {
            Some(bins) => bins.series(name, self.column.dtype(), at),
            None => Ok(Series::new(name.into(), at.map(|i| found[i]).collect::<Vec<_>>())),
        }
    }

    /// The width of a bin beside that of the engine's, which counts the bins of a temporal column.
    fn width(&self, bin: usize) -> f64 {
        self.temporal.as_ref().map_or(1.0, |bins| bins.width(bin))
    }
}

/// Runs `body` on all threads where the columns are long enough to gain by it.
fn run<R: Send>(rows: usize, body: impl FnOnce() -> R + Send) -> R {
    if rows >= PARALLEL_FROM { on_all_threads(body) } else { body() }
}

fn min_max_type(dtype: &DataType) -> DataType {
    DataType::Struct(["min", "max"].map(|name| Field::new(name.into(), dtype.clone())).to_vec())
}

fn min_max_field(inputs: &[Field], _: MinMaxKwargs) -> PolarsResult<Field> {
    guarded("min_max", || check_values(&inputs[0]))?;
    Ok(Field::new(inputs[0].name().clone(), min_max_type(inputs[0].dtype())))
}

/// A number in the column's own type; null for none.
fn value(name: &str, number: Option<ColumnValue>, dtype: &DataType) -> PolarsResult<Series> {
    let name = PlSmallStr::from_str(name);
    let physical = match number {
        None => return Ok(Series::full_null(name, 1, dtype)),
        Some(ColumnValue::F32(x)) => Series::new(name, [x]),
        Some(ColumnValue::F64(x)) => Series::new(name, [x]),
        Some(ColumnValue::Integer(x)) if *dtype == DataType::Boolean => Series::new(name, [x != 0]),
        Some(ColumnValue::Integer(x)) => Int128Chunked::from_slice(name, &[x]).into_series().cast(&dtype.to_physical())?,
        Some(ColumnValue::Unsigned(x)) => UInt128Chunked::from_slice(name, &[x]).into_series(),
        Some(ColumnValue::Decimal(x, _)) => match dtype {
            DataType::Decimal(precision, scale) => {
                return Ok(Int128Chunked::from_slice(name, &[x]).into_decimal(*precision, *scale)?.into_series());
            }
            _ => Int128Chunked::from_slice(name, &[x]).into_series(),
        },
    };
    match dtype {
        // A cast would lose the zone.
        DataType::Datetime(unit, zone) => Ok(physical.i64()?.clone().into_datetime(*unit, zone.clone()).into_series()),
        _ => physical.cast(dtype),
    }
}

#[derive(Deserialize)]
struct MinMaxKwargs {
    name: Option<String>,
    device: String,
}

/// The smallest and the largest value of one column.
fn min_max(inputs: &[Series], kwargs: MinMaxKwargs) -> Answer {
    expression("min_max", inputs[0].len() >= LONG, || {
        let inputs = [named(&inputs[0], &kwargs.name)];
        let numbers = numbers(&inputs[0])?;
        let found = run(numbers.len(), || with_columns(&kwargs.device, |backend| backend.min_max(&numbers.column())));
        let found = found.map_err(errors::compute)?;
        let dtype = inputs[0].dtype();
        let fields = [value("min", found.map(|f| f.min), dtype)?, value("max", found.map(|f| f.max), dtype)?];
        Ok(StructChunked::from_series(inputs[0].name().clone(), 1, fields.iter())?.into_series())
    })
}

export!(min_max, min_max_field, MinMaxKwargs, Length::One);

/// The name of what stands over a bin, and its type.
fn height(weighted: bool, density: bool) -> Field {
    match (density, weighted) {
        (true, _) => Field::new("density".into(), DataType::Float64),
        (false, true) => Field::new("weight".into(), DataType::Float64),
        (false, false) => Field::new("count".into(), DataType::UInt64),
    }
}

/// One list of structs: `edges` name the first fields and their types, the last field is the height.
fn list_of(edges: &[(&str, &DataType)], weighted: bool, density: bool) -> DataType {
    let mut fields: Vec<Field> = edges.iter().map(|(name, dtype)| Field::new((*name).into(), (*dtype).clone())).collect();
    fields.push(height(weighted, density));
    DataType::List(Box::new(DataType::Struct(fields)))
}

/// The series of a height, named as [`height`] says; a density is one by `width`, of each bin.
fn height_series(heights: Heights, weighted: bool, density: bool, width: impl Fn(usize) -> f64) -> Series {
    let name = height(weighted, density).name().clone();
    match heights {
        Heights::Values(values) if density => {
            Float64Chunked::from_vec(name, values.into_iter().enumerate().map(|(i, value)| value / width(i)).collect()).into_series()
        }
        Heights::Counts(counts) => UInt64Chunked::from_vec(name, counts).into_series(),
        Heights::Values(values) => Float64Chunked::from_vec(name, values).into_series(),
    }
}

/// One list that holds a struct for each bin.
fn as_list(name: &PlSmallStr, fields: &[Series]) -> PolarsResult<Series> {
    let rows = fields[0].len();
    let bins = StructChunked::from_series(name.clone(), rows, fields.iter())?.into_series();
    Ok(bins.implode()?.with_name(name.clone()).into_series())
}

/// The columns of a call: several inputs, or one struct that holds them, each behind the first in
/// a struct of its own (which keeps its name where two are called the same). Group by group in
/// parallel is only a call with one input.
fn columns_of(inputs: &[Series], expected: usize) -> PolarsResult<Vec<Series>> {
    let fields = match (inputs, expected) {
        ([packed], 2..) => packed.struct_()?.fields_as_series(),
        _ => inputs.to_vec(),
    };
    let (first, rest) = fields.split_first().ok_or_else(|| errors::data("no column"))?;
    let mut columns = vec![first.clone()];
    for field in rest {
        columns.push(match field.dtype() {
            DataType::Struct(inner) if inner.len() == 1 => field.struct_()?.fields_as_series().swap_remove(0),
            _ => field.clone(),
        });
    }
    let rows = columns.iter().map(|c| c.len()).find(|n| *n != 1).unwrap_or(1);
    for column in &mut columns {
        if column.len() == 1 && rows != 1 {
            *column = column.new_from_index(0, rows);
        }
        if column.len() != rows {
            return Err(errors::column(column.name(), format!("{} rows beside columns of {rows}", column.len())));
        }
    }
    Ok(columns)
}

/// The name of the result: the first column's.
fn name_of(inputs: &[Field], expected: usize) -> PlSmallStr {
    match inputs[0].dtype() {
        DataType::Struct(fields) if inputs.len() == 1 && expected > 1 && !fields.is_empty() => fields[0].name().clone(),
        _ => inputs[0].name().clone(),
    }
}

#[derive(Deserialize)]
struct HistogramKwargs {
    params: HistogramParams,
    /// Edges that are no numbers.
    moments: Option<Moments>,
    weighted: bool,
    name: Option<String>,
    device: String,
}

fn histogram_field(inputs: &[Field], kwargs: HistogramKwargs) -> PolarsResult<Field> {
    let axes = [(&kwargs.params.axis, kwargs.moments.as_ref())];
    let edges = guarded("histogram", || check_columns(inputs, &axes, kwargs.weighted))?;
    let dtype = list_of(&[("lower", &edges[0]), ("upper", &edges[0])], kwargs.weighted, kwargs.params.density);
    Ok(Field::new(name_of(inputs, 1 + kwargs.weighted as usize), dtype))
}

/// `inputs`: the values, and the weights where there are any.
fn histogram(inputs: &[Series], kwargs: HistogramKwargs) -> Answer {
    expression("histogram", inputs[0].len() >= LONG, || {
        let mut columns = columns_of(inputs, 1 + kwargs.weighted as usize)?;
        columns[0] = named(&columns[0], &kwargs.name);
        let x = Axis::new(&columns[0], &kwargs.params.axis, kwargs.moments.as_ref(), &kwargs.device)?;
        let weights = columns.get(1).map(|w| Numbers::finite(w, "a weight")).transpose()?;
        let params = HistogramParams { axis: x.params.clone(), density: kwargs.params.density };
        let found = run(x.numbers.len(), || {
            let weights = weights.as_ref().map(Numbers::column);
            with_columns(&kwargs.device, |backend| backend.histogram(&x.numbers.column(), weights.as_ref(), &params))
        });
        let found = found.map_err(errors::compute)?;
        let bins = found.edges.len() - 1;
        let fields = [
            x.edges("lower", &found.edges, 0..bins)?,
            x.edges("upper", &found.edges, 1..bins + 1)?,
            height_series(found.heights, kwargs.weighted, kwargs.params.density, |bin| x.width(bin)),
        ];
        as_list(columns[0].name(), &fields)
    })
}

export!(histogram, histogram_field, HistogramKwargs, Length::One);

#[derive(Deserialize)]
struct Histogram2dKwargs {
    params: Histogram2dParams,
    /// Edges of x and y that are no numbers.
    moments: [Option<Moments>; 2],
    weighted: bool,
    device: String,
}

fn histogram2d_field(inputs: &[Field], kwargs: Histogram2dKwargs) -> PolarsResult<Field> {
    let axes = [(&kwargs.params.x, kwargs.moments[0].as_ref()), (&kwargs.params.y, kwargs.moments[1].as_ref())];
    let types = guarded("histogram2d", || check_columns(inputs, &axes, kwargs.weighted))?;
    let edges = [("x_lower", &types[0]), ("x_upper", &types[0]), ("y_lower", &types[1]), ("y_upper", &types[1])];
    let dtype = list_of(&edges, kwargs.weighted, kwargs.params.density);
    Ok(Field::new(name_of(inputs, 2), dtype))
}

/// `inputs`: a struct of the values of x, those of y, and the weights where there are any.
fn histogram2d(inputs: &[Series], kwargs: Histogram2dKwargs) -> Answer {
    expression("histogram2d", inputs[0].len() >= LONG, || {
        let columns = columns_of(inputs, 2 + kwargs.weighted as usize)?;
        let x = Axis::new(&columns[0], &kwargs.params.x, kwargs.moments[0].as_ref(), &kwargs.device)?;
        let y = Axis::new(&columns[1], &kwargs.params.y, kwargs.moments[1].as_ref(), &kwargs.device)?;
        let weights = columns.get(2).map(|w| Numbers::finite(w, "a weight")).transpose()?;
        let params = Histogram2dParams { x: x.params.clone(), y: y.params.clone(), density: kwargs.params.density };
        let found = run(x.numbers.len(), || {
            let weights = weights.as_ref().map(Numbers::column);
            with_columns(&kwargs.device, |backend| backend.histogram2d(&x.numbers.column(), &y.numbers.column(), weights.as_ref(), &params))
        });
        let found = found.map_err(errors::compute)?;
        let (nx, ny) = (found.x_edges.len() - 1, found.y_edges.len() - 1);
        errors::check_memory(|| format!("the edges of {nx} by {ny} bins"), 48 * (nx * ny) as u64, "use fewer bins")?;
        let of_x = |name: &str, at: usize| x.edges(name, &found.x_edges, (0..nx * ny).map(|c| c / ny + at));
        let of_y = |name: &str, at: usize| y.edges(name, &found.y_edges, (0..nx * ny).map(|c| c % ny + at));
        let area = |cell: usize| x.width(cell / ny) * y.width(cell % ny);
        let fields = [
            of_x("x_lower", 0)?,
            of_x("x_upper", 1)?,
            of_y("y_lower", 0)?,
            of_y("y_upper", 1)?,
            height_series(found.heights, kwargs.weighted, kwargs.params.density, area),
        ];
        as_list(columns[0].name(), &fields)
    })
}

export!(histogram2d, histogram2d_field, Histogram2dKwargs, Length::One);

/// `bins`, `range` and `edges` of one column.
type AxisTuple = (Option<i64>, Option<(f64, f64)>, Option<Vec<f64>>);

fn axis((bins, range, edges): AxisTuple) -> AxisParams {
    AxisParams { bins, range, edges }
}

/// Checks the parameters of `histogram`, or, where there is a second axis, of `histogram2d`.
#[pyfunction]
#[pyo3(signature = (x, y=None))]
pub fn check_histogram_params(x: AxisTuple, y: Option<AxisTuple>) -> PyResult<()> {
    crate::model::guarded(|| {
        let checked = match y {
            None => HistogramParams { axis: axis(x), density: false }.validate(),
            Some(y) => Histogram2dParams { x: axis(x), y: axis(y), density: false }.validate(),
        };
        checked.map_err(|error| PyValueError::new_err(error.to_string()))
    })
}
