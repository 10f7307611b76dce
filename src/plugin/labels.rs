//! Class labels in the types of Polars: a class comes back as what it was.

use crate::errors;
use polars::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyList;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::provenance::LabelType;

/// The type of labels of a column of this type; none for a type that labels can't have.
pub fn label_type(dtype: &DataType) -> Option<LabelType> {
    Some(match dtype {
        DataType::Boolean => LabelType::Boolean,
        DataType::Int8 => LabelType::Int8,
        DataType::Int16 => LabelType::Int16,
        DataType::Int32 => LabelType::Int32,
        DataType::Int64 => LabelType::Int64,
        DataType::Int128 => LabelType::Int128,
        DataType::UInt8 => LabelType::UInt8,
        DataType::UInt16 => LabelType::UInt16,
        DataType::UInt32 => LabelType::UInt32,
        DataType::UInt64 => LabelType::UInt64,
        DataType::UInt128 => LabelType::UInt128,
        DataType::Float16 => LabelType::Float16,
        DataType::Float32 => LabelType::Float32,
        DataType::Float64 => LabelType::Float64,
        DataType::Decimal(precision, scale) => LabelType::Decimal { precision: *precision as u32, scale: *scale as u32 },
        DataType::String => LabelType::String,
        DataType::Categorical(categories, _) => LabelType::Categorical {
            name: categories.name().to_string(),
            namespace: categories.namespace().to_string(),
            bits: match categories.physical() {
                CategoricalPhysical::U8 => 8,
                CategoricalPhysical::U16 => 16,
                CategoricalPhysical::U32 => 32,
            },
        },
        DataType::Enum(categories, _) => LabelType::Enum(categories.categories().values_iter().map(str::to_owned).collect()),
        _ => return None,
    })
}

/// The same type as Polars has it.
///
/// # Errors
/// For categories that stand twice.
pub fn data_type(dtype: &LabelType) -> PolarsResult<DataType> {
    Ok(match dtype {
        LabelType::Boolean => DataType::Boolean,
        LabelType::Int8 => DataType::Int8,
        LabelType::Int16 => DataType::Int16,
        LabelType::Int32 => DataType::Int32,
        LabelType::Int64 => DataType::Int64,
        LabelType::Int128 => DataType::Int128,
        LabelType::UInt8 => DataType::UInt8,
        LabelType::UInt16 => DataType::UInt16,
        LabelType::UInt32 => DataType::UInt32,
        LabelType::UInt64 => DataType::UInt64,
        LabelType::UInt128 => DataType::UInt128,
        LabelType::Float16 => DataType::Float16,
        LabelType::Float32 => DataType::Float32,
        LabelType::Float64 => DataType::Float64,
        LabelType::Decimal { precision, scale } => DataType::Decimal(*precision as usize, *scale as usize),
        LabelType::String => DataType::String,
        LabelType::Categorical { name, namespace, bits } => {
            let physical = match bits {
                8 => CategoricalPhysical::U8,
                16 => CategoricalPhysical::U16,
                _ => CategoricalPhysical::U32,
            };
            DataType::from_categories(match (name.as_str(), namespace.as_str(), bits) {
                ("", "", 32) => Categories::global(),
                _ => Categories::new(name.as_str().into(), namespace.as_str().into(), physical),
            })
        }
        LabelType::Enum(categories) => DataType::from_frozen_categories(FrozenCategories::new(categories.iter().map(String::as_str))?),
    })
}

/// The labels as a series of that type, which is one that can hold them.
///
/// # Errors
/// For a label that it can't hold.
pub fn series(name: PlSmallStr, labels: &Labels, dtype: &LabelType) -> PolarsResult<Series> {
    let kept = match labels {
        Labels::Boolean => Series::new(name, [false, true]),
        Labels::TrueFirst => Series::new(name, [true, false]),
        Labels::Integer(v) => Series::new(name, v),
        Labels::Float(v) => Series::new(name, v),
        Labels::Text(v) => Series::new(name, v),
    };
    kept.strict_cast(&data_type(dtype)?).map_err(|e| errors::data(format!("the labels as {dtype}: {e}")))
}

/// The labels as Python's values.
pub fn python<'py>(py: Python<'py>, labels: &Labels, dtype: &LabelType) -> PyResult<Bound<'py, PyList>> {
    match (labels, dtype) {
        (Labels::Float(v), LabelType::Decimal { scale, .. }) => {
            let decimal = py.import("decimal")?.getattr("Decimal")?;
            let values = v.iter().map(|x| decimal.call1((format!("{x:.*}", *scale as usize),)));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
        }
        (Labels::Boolean, _) => PyList::new(py, [false, true]),
        (Labels::TrueFirst, _) => PyList::new(py, [true, false]),
        (Labels::Integer(v), _) => PyList::new(py, v),
        (Labels::Float(v), _) => PyList::new(py, v),
        (Labels::Text(v), _) => PyList::new(py, v),
    }
}
