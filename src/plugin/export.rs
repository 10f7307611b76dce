//! The functions by which Polars calls an expression: plain C, found in the library by their names.
//!
//! `pyo3_polars::derive` makes the same ones, but asks for polars-plan, and with it for most of Polars, where this
//! asks for polars-core alone: half of what a build compiles.

use crate::errors::{bug, data, mistyped};
use crate::monitor;
use arrow2::datatypes::{ArrowDataType, Field as ArrowField};
use arrow2::ffi::{ArrowSchema, export_field_to_c, import_field_from_c};
use polars::prelude::*;
use polars_ffi::version_0::{SeriesExport, export_series, import_series_buffer};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What an expression gives: a series, or none where its query has been given up and nobody will see it.
pub type Answer = PolarsResult<Option<Series>>;

/// How many rows an expression gives.
#[derive(Clone, Copy)]
pub enum Length {
    One,
    /// As many as its inputs have, literals aside.
    Rows,
    /// As many as there are groups of them.
    Any,
}

/// Exports the function of an expression, `fn(&[Series], Kwargs) -> Answer`, under its name, the one that tells its type when a
/// query is planned, `fn(&[Field], Kwargs) -> PolarsResult<Field>`, and the [`Length`] of what it gives.
macro_rules! export {
    ($function:ident, $field:ident, $kwargs:ty, $length:expr) => {
        const _: () = {
            // SAFETY: the name is of Polars' own kind and nobody else's; the arguments are those that `call` asks for.
            #[unsafe(export_name = concat!("_polars_plugin_", stringify!($function)))]
            unsafe extern "C" fn call(
                inputs: *mut polars_ffi::version_0::SeriesExport,
                count: usize,
                kwargs: *const u8,
                kwargs_len: usize,
                result: *mut polars_ffi::version_0::SeriesExport,
                _context: *mut polars_ffi::version_0::CallerContext,
            ) {
                // SAFETY: Polars keeps to what `call` asks for.
                unsafe { $crate::export::call::<$kwargs>(($function, $field, $length), inputs, count, (kwargs, kwargs_len), result) }
            }

            // SAFETY: as above.
            #[unsafe(export_name = concat!("_polars_plugin_field_", stringify!($function)))]
            unsafe extern "C" fn field(
                fields: *const arrow2::ffi::ArrowSchema,
                count: usize,
                result: *mut arrow2::ffi::ArrowSchema,
                kwargs: *const u8,
                kwargs_len: usize,
            ) {
                // SAFETY: Polars keeps to what `field` asks for.
                unsafe { $crate::export::field::<$kwargs>($field, fields, count, (kwargs, kwargs_len), result) }
            }
        };
    };
}
pub(crate) use export;

thread_local! {
    /// What the last expression that failed on this thread said.
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs `body`, whose error or panic is kept for Polars to ask for.
fn kept(body: impl FnOnce() -> PolarsResult<()>) {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(payload) => bug(payload.as_ref()),
    };
    let message = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    LAST_ERROR.with(|last| last.replace(message));
}

/// The keyword arguments, which Python has pickled.
fn parse<K: DeserializeOwned>(bytes: &[u8]) -> PolarsResult<K> {
    serde_pickle::from_slice(bytes, Default::default()).map_err(|e| data(format!("the arguments of the expression can't be read: {e}")))
}

/// `len` values from `start`, which may be null where there are none.
///
/// # Safety
/// Otherwise they are there, and stay as they are for `'a`.
unsafe fn slice<'a, T>(start: *const T, len: usize) -> &'a [T] {
    // SAFETY: as the caller promises.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
}

/// An expression: its function, the function that tells its type, and the length of what it gives.
type Expression<K> = (fn(&[Series], K) -> Answer, fn(&[Field], K) -> PolarsResult<Field>, Length);

/// What a type has that Polars here does not know, while the one that has made it does.
fn unknown(dtype: &ArrowDataType) -> Option<String> {
    match dtype {
        ArrowDataType::Extension(of) => Some(format!("the extension type {}", of.name)),
        ArrowDataType::FixedSizeList(_, 0) => Some("arrays of no values".into()),
        ArrowDataType::Struct(fields) => fields.iter().find_map(|field| unknown(&field.dtype)),
        ArrowDataType::List(of) | ArrowDataType::LargeList(of) | ArrowDataType::FixedSizeList(of, _) => unknown(&of.dtype),
        _ => None,
    }
}

/// Checks that the type of a column is known here; the columns of a call may be fields of structs.
fn check_known(field: &ArrowField) -> PolarsResult<()> {
    if let ArrowDataType::Struct(fields) = &field.dtype {
        return fields.iter().try_for_each(check_known);
    }
    let fault = |what| mistyped(&field.name, format!("its type is {what}; cast it first"));
    unknown(&field.dtype).map_or(Ok(()), |what| Err(fault(what)))
}

/// Makes rows of null in the place of what an expression would have given.
fn nulls<K: DeserializeOwned>((_, field, length): Expression<K>, inputs: &[Series], kwargs: &[u8]) -> PolarsResult<Series> {
    let fields: Vec<Field> = inputs.iter().map(|s| s.field().into_owned()).collect();
    let field = field(&fields, parse(kwargs)?)?;
    let rows = match length {
        Length::One => 1,
        Length::Rows => monitor::rows(inputs),
        Length::Any => 0,
    };
    Ok(Series::full_null(field.name().clone(), rows, field.dtype()))
}

/// Takes over `count` series, calls the expression's function with them and leaves what it gives in `result`, rows of null where it
/// gives none, or the error in [`LAST_ERROR`].
///
/// # Safety
/// `inputs` are as many series as `count` says, which nobody else takes over; `kwargs` a pointer and a length that
/// belong together; `result` an empty export that may be written to.
pub unsafe fn call<K: DeserializeOwned>(
    expression: Expression<K>,
    inputs: *mut SeriesExport,
    count: usize,
    kwargs: (*const u8, usize),
    result: *mut SeriesExport,
) {
    kept(|| {
        // SAFETY: as the caller promises.
        let (inputs, kwargs) = unsafe { (import_series_buffer(inputs, count)?, slice(kwargs.0, kwargs.1)) };
        let series = match (expression.0)(&inputs, parse(kwargs)?)? {
            Some(series) => series,
            None => nulls(expression, &inputs, kwargs)?,
        };
        // SAFETY: as the caller promises; what stood there is empty and needs no drop.
        unsafe { result.write(export_series(&series)) };
        Ok(())
    });
}

/// Calls `function` with the names and types of the inputs and leaves the one it gives in `result`, or the error in
/// [`LAST_ERROR`].
///
/// # Safety
/// `fields` are as many as `count` says; `kwargs` a pointer and a length that belong together; `result` may be written to.
pub unsafe fn field<K: DeserializeOwned>(
    function: fn(&[Field], K) -> PolarsResult<Field>,
    fields: *const ArrowSchema,
    count: usize,
    kwargs: (*const u8, usize),
    result: *mut ArrowSchema,
) {
    kept(|| {
        // SAFETY: as the caller promises.
        let (fields, kwargs) = unsafe { (slice(fields, count), slice(kwargs.0, kwargs.1)) };
        // SAFETY: Polars has made them by `export_field_to_c`.
        let fields = fields.iter().map(|f| unsafe { import_field_from_c(f) }).collect::<PolarsResult<Vec<_>>>()?;
        fields.iter().try_for_each(check_known)?;
        let fields: Vec<Field> = fields.iter().map(Field::from).collect();
        let field = function(&fields, parse(kwargs)?)?;
        // SAFETY: as the caller promises; what stood there is empty and needs no drop.
        unsafe { result.write(export_field_to_c(&field.to_arrow(CompatLevel::newest()))) };
        Ok(())
    });
}

/// The text of this thread's last error, until the next.
// SAFETY: the name is of Polars' own kind and nobody else's.
#[unsafe(export_name = "_polars_plugin_get_last_error_message")]
extern "C" fn last_error() -> *const c_char {
    LAST_ERROR.with(|last| CStr::as_ptr(&last.borrow()))
}

/// The version of this interface, by which Polars knows how to call.
// SAFETY: the name is of Polars' own kind and nobody else's.
#[unsafe(export_name = "_polars_plugin_get_version")]
extern "C" fn version() -> u32 {
    static QUIET: Once = Once::new();
    // A panic becomes an error with its text; the trace would only stand beside it.
    QUIET.call_once(|| {
        if std::env::var("POLARS_VERBOSE").as_deref() != Ok("1") {
            std::panic::set_hook(Box::new(|_| ()));
        }
    });
    let (major, minor) = polars_ffi::get_version();
    (u32::from(major) << 16) + u32::from(minor)
}
