//! Structs that the kernels read: the host's twins of them, which `kernels/shared_structs.rs` writes from the kernels' headers.

/// Defines twins of the kernels' structs of these names.
macro_rules! kernel_structs {
    ($($name:ident $(<$number:ty>)*),* $(,)?) => {$(
        taiga_kernels::kernel_struct!($name);
        $crate::runtime::layouts::kernel_structs!(@ $name $(<$number>)*);
    )*};
    (@ $name:ident) => {
        // SAFETY: plain numbers in C's layout, which is the kernels' own.
        unsafe impl cudarc::driver::DeviceRepr for $name {}
        // SAFETY: zeros are numbers.
        unsafe impl cudarc::driver::ValidAsZeroBits for $name {}
    };
    (@ $name:ident $(<$number:ty>)+) => {$(
        // SAFETY: plain numbers in C's layout, which is the kernels' own.
        unsafe impl cudarc::driver::DeviceRepr for $name<$number> {}
    )+};
}
pub(crate) use kernel_structs;
