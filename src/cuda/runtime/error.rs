//! The driver's errors in the engine's words.

use super::device::Gpu;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use taiga_core::error::Error;

/// The driver's own words and name for an error.
pub fn text(e: DriverError) -> String {
    let text = e.error_string().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = e.error_name().map(|s| s.to_string_lossy().into_owned()).unwrap_or_else(|_| format!("error {}", e.0 as u32));
    if text.is_empty() { name } else { format!("{text} ({name})") }
}

/// Errors that leave the context unusable: a kernel that failed takes along all that the process
/// has on the GPU.
fn is_sticky(e: DriverError) -> bool {
    matches!(
        e.0,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
    )
}

/// The driver's error as the engine's; `doing` says what failed: a kernel's name, or words.
///
/// An error that takes the context along is remembered, so that later queries say so rather than
/// fail in odd places.
pub fn driver(gpu: &Gpu, doing: &str, e: DriverError) -> Error {
    if e.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Error::device_memory(gpu.number(), format!("none is left for {doing}"));
    }
    let message = format!("{doing}: {}", text(e));
    if is_sticky(e) {
        let _ = gpu.lost.set(message.clone());
    }
    Error::device(gpu.number(), message)
}

/// The CUDA runtime's error of one of [`taiga_kernels::runtime`].
///
/// Its numbers are the driver's, so the same ones take the context along. The runtime remembers an error for the thread and would
/// give it to the next call, so it is made to forget it.
pub fn algorithm(gpu: &Gpu, name: &str, code: i32) -> Error {
    taiga_kernels::runtime::forget_error();
    if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32 {
        return Error::device_memory(gpu.number(), format!("none is left for {name}"));
    }
    let message = format!("{name}: {} (error {code} of the CUDA runtime)", taiga_kernels::runtime::error_text(code));
    if matches!(code, 214 | 220 | 700 | 702 | 709 | 710 | 714..=719) {
        let _ = gpu.lost.set(message.clone());
    }
    Error::device(gpu.number(), message)
}
