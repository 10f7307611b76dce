//! The stages of an ordered encoding, timed.

use super::ordered::{SortedRows, ordered};
use super::share::Share;
use super::statistic::{DeviceSmoothing, DeviceStatistic};
use super::{TARGET_ENCODE, WINDOW_BITS};
use crate::columns::categories::DeviceCodes;
use crate::launch;
use crate::runtime::Queue;
use crate::runtime::error::driver;
use crate::runtime::queue::each_row;
use crate::runtime::sort::Pairs;
use crate::runtime::sort::bits_below;
use taiga_core::encoding::statistic::{AnyStatistic, Flags};
use taiga_core::encoding::target::{Order, TargetParams};
use taiga_core::error::Result;

/// Device times in milliseconds of an ordered encoding of flags, codes and flags being there: the keys, both sorts,
/// all behind the first sort, and all of it; for `benches/cuda_encoding.rs`.
#[doc(hidden)]
pub fn measure(queue: &Queue, codes: &[u32], categories: usize, flags: &[u8], order: &Order) -> Result<[f64; 4]> {
    use cudarc::driver::CudaEvent;
    use cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
    let timed = |e| driver(queue.gpu(), "timing", e);
    let mark = || queue.stream().record_event(Some(CU_EVENT_DEFAULT)).map_err(timed);
    let between = |a: &CudaEvent, b: &CudaEvent| a.elapsed_ms(b).map(f64::from).map_err(timed);
    let codes = DeviceCodes::new(queue, "the categories", codes, categories)?;
    let share = Share::whole(flags.len());
    let statistic = DeviceStatistic::new(queue, AnyStatistic::Flags(Flags(flags)), &share, true)?;
    let (statistics, orders, params) = (std::slice::from_ref(&statistic), std::slice::from_ref(order), TargetParams::default());
    let start = mark()?;
    let out = ordered(queue, &codes, statistics, orders, &params)?;
    let all = between(&start, &mark()?)?;
    // Its stages, once more.
    let n = codes.rows;
    let mut from: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
    let mut to: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
    let kernel = queue.gpu().kernel(TARGET_ENCODE, "order_keys")?;
    let (rows, key, places) = (n as u64, if let Order::Random(r) = order { r.key() } else { 0 }, 0u64);
    let flags = statistic.packed_flags(queue);
    let start = mark()?;
    // SAFETY: the arguments are those of `order_keys`, all of `n` rows.
    unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &key, &places, &flags, &mut from.0, &mut from.1) }?;
    let made = mark()?;
    queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..32 + bits_below(categories as u64))?;
    let sorted = mark()?;
    let smoothing = DeviceSmoothing::from(&statistic.smoothing(statistic.total(queue)?, &params).1);
    let mut out = out;
    let begun = mark()?;
    SortedRows::InOrder(to).values(queue, &statistic, &smoothing, n, &mut out[0], false)?;
    let scanned = mark()?;
    let mut dealt: Pairs<u32, u64> = (queue.alloc("rows", n)?, queue.alloc("values", n)?);
    let values = queue.zeros::<u64>("values", n)?;
    let dealing = mark()?;
    queue.sort_pairs(&from.1, &values, &mut dealt, n as u32, WINDOW_BITS..bits_below(n as u64).max(WINDOW_BITS))?;
    let back = mark()?;
    queue.synchronize()?;
    let sorts = between(&made, &sorted)? + between(&dealing, &back)?;
    Ok([between(&start, &made)?, sorts, between(&begun, &scanned)?, all])
}
