//! Names of the kernels that are made for each form of values.

use crate::runtime::column::Form;
use crate::runtime::device::Gpu;
use taiga_core::error::Error;

/// A null pointer, for a column without nulls.
pub(crate) const NO_VALIDITY: u64 = 0;

/// The name of the kernel `$kind_<form>`, spelled out because kernels are known by static names.
macro_rules! kernel_of {
    ($kind:literal, $form:expr, $($variant:ident: $name:literal),*) => {
        match $form {
            $(Form::$variant => Some(concat!($kind, "_", $name)),)*
            #[allow(unreachable_patterns)]
            _ => None,
        }
    };
    ($kind:literal, $form:expr) => {
        kernel_of!($kind, $form, F32: "f32", F64: "f64", I8: "i8", I16: "i16", I32: "i32", I64: "i64", U8: "u8", U16: "u16", U32: "u32", U64: "u64")
    };
}

pub(crate) use kernel_of;

pub(crate) fn no_kernel(gpu: &Gpu, form: Form) -> Error {
    Error::device(gpu.number(), format!("there is no kernel for values of the form {form:?}"))
}
