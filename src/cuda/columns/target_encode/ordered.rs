//! Values of rows from the rows before them in an order.

use super::scan::{CategoryKeys, ScanMode, ScanOutput, scan};
use super::statistic::{DeviceSmoothing, DeviceStatistic};
use super::{TARGET_ENCODE, WINDOW_BITS};
use crate::columns::categories::DeviceCodes;
use crate::runtime::Queue;
use crate::runtime::memory::pointer;
use crate::runtime::queue::each_row;
use crate::runtime::sort::Pairs;
use crate::runtime::sort::bits_below;
use crate::runtime::upload::upload;
use crate::{grid, launch};
use cudarc::driver::CudaSlice;
use taiga_core::encoding::target::{Order, TargetParams, places_in};
use taiga_core::error::Result;

/// The values of rows from those before them in each of the orders: the mean of all.
pub fn ordered(
    queue: &Queue,
    codes: &DeviceCodes,
    statistics: &[DeviceStatistic<'_>],
    orders: &[Order],
    params: &TargetParams,
) -> Result<Vec<CudaSlice<f64>>> {
    let n = codes.rows;
    let smoothings: Vec<DeviceSmoothing> =
        statistics.iter().map(|s| Ok(DeviceSmoothing::from(&s.smoothing(s.total(queue)?, params).1))).collect::<Result<_>>()?;
    let mut out = statistics.iter().map(|_| queue.alloc::<f64>("values", n)).collect::<Result<Vec<_>>>()?;
    // One statistic's flags ride in the rows; several share the sorted rows.
    let flags = statistics.first().map_or(0, |s| s.packed_flags(queue));
    for (i, order) in orders.iter().enumerate() {
        let sorted = SortedRows::new(queue, codes, order, flags)?;
        for ((statistic, smoothing), out) in statistics.iter().zip(&smoothings).zip(&mut out) {
            sorted.values(queue, statistic, smoothing, n, out, i > 0)?;
        }
    }
    if orders.len() > 1 {
        let kernel = queue.gpu().kernel(TARGET_ENCODE, "scale")?;
        let (n, each) = (n as u64, 1.0 / orders.len() as f64);
        for out in &out {
            // SAFETY: the arguments are those of `scale`.
            unsafe { launch!(queue, kernel, each_row(queue, codes.rows); &n, &each, out) }?;
        }
    }
    Ok(out)
}

/// Rows by category, inside a category in an order.
pub enum SortedRows {
    InRowOrder(Pairs<u32>),
    InOrder(Pairs<u64>),
}

impl SortedRows {
    /// Sorts. Does not wait.
    pub fn new(queue: &Queue, codes: &DeviceCodes, order: &Order, flags: u64) -> Result<SortedRows> {
        let (n, category_bits) = (codes.rows, bits_below(codes.categories as u64));
        let (rows, none) = (n as u64, 0u64);
        let places = match order {
            Order::Rows => {
                let kernel = queue.gpu().kernel(TARGET_ENCODE, "cell_keys")?;
                let mut from: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
                // SAFETY: the arguments are those of `cell_keys`, all of `n` rows.
                unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &none, &1u32, &flags, &mut from.0, &mut from.1) }?;
                let mut to: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
                queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..category_bits)?;
                return Ok(SortedRows::InRowOrder(to));
            }
            Order::Random(_) => None,
            Order::Given(order) => Some(upload(queue, "the order", &places_in(order, n)?)?),
        };
        let key = if let Order::Random(random) = order { random.key() } else { 0 };
        let places = places.as_ref().map_or(0, |p| pointer(queue, p));
        let kernel = queue.gpu().kernel(TARGET_ENCODE, "order_keys")?;
        let mut from: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        // SAFETY: the arguments are those of `order_keys`, all of `n` rows.
        unsafe {
            launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &key, &places, &flags, &mut from.0, &mut from.1)?;
        }
        let mut to: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..32 + category_bits)?;
        Ok(SortedRows::InOrder(to))
    }

    /// Writes to `out`, or adds to it, the value of each row from the rows before it.
    pub fn values(
        &self,
        queue: &Queue,
        statistic: &DeviceStatistic<'_>,
        smoothing: &DeviceSmoothing,
        n: usize,
        out: &mut CudaSlice<f64>,
        add: bool,
    ) -> Result<()> {
        let values = queue.alloc::<u64>("values", n)?;
        let written = ScanOutput { values: pointer(queue, &values), ..Default::default() };
        let columns = &statistic.columns;
        // SAFETY: `n` keys and rows, and a value for each.
        unsafe { scan(queue, statistic.form as u32, self.keys(), self.rows(), n, columns, smoothing, ScanMode::Values, written)? };
        // Back into the order of the rows: to windows by a sort, inside a window by shared memory.
        let mut dealt: Pairs<u32, u64> = (queue.alloc("rows", n)?, queue.alloc("values", n)?);
        queue.sort_pairs(self.rows(), &values, &mut dealt, n as u32, WINDOW_BITS..bits_below(n as u64).max(WINDOW_BITS))?;
        drop(values);
        let kernel = queue.gpu().kernel(TARGET_ENCODE, "place_values")?;
        let (rows, add) = (n as u64, add as u32);
        let blocks = n.div_ceil(1 << WINDOW_BITS) as u32;
        // SAFETY: the arguments are those of `place_values`; each row is there once, so that a window of rows is the
        // same window of places.
        unsafe { launch!(queue, kernel, grid(blocks, 512, 0); &rows, &dealt.0, &dealt.1, &add, out) }
    }

    fn keys(&self) -> CategoryKeys<'_> {
        match self {
            SortedRows::InRowOrder(pairs) => CategoryKeys::Narrow(&pairs.0),
            SortedRows::InOrder(pairs) => CategoryKeys::Wide(&pairs.0),
        }
    }

    fn rows(&self) -> &CudaSlice<u32> {
        match self {
            SortedRows::InRowOrder(pairs) => &pairs.1,
            SortedRows::InOrder(pairs) => &pairs.1,
        }
    }
}
