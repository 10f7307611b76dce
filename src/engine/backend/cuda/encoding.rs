//! Target encoding on the GPU: what [`crate::encoding::target`] computes, with the same bits.
//!
//! ```text
//! ordered            (category, place in the order) ─► radix sort ─► segmented scan, which writes each row's value
//! kfold, loo, full   category (and fold)            ─► radix sort ─► segmented scan, which writes each cell's sum
//!                                                       ─► values of cells ─► looked up by the rows
//! ```
//!
//! Sums are integers, so the order in which they are added never matters.

use super::column::{bytes_of, bytes_of_mut};
use super::device::Image;
use super::error::algorithm;
use super::queue::{Queue, grid};
use super::sort::Pairs;
use super::stats::pointer;
use crate::encoding::group::Smoothing;
use crate::encoding::statistic::{AnyStatistic, Moments, Sums};
use crate::encoding::target::{
    EncodingInput, Kind, Order, Plan, Prepared, TargetParams, check_folds, check_input, nothing_outside, places_in, smoothing_of,
};
use crate::error::{Error, Result};
use crate::launch;
use cudarc::driver::{CudaSlice, DevicePtrMut, DeviceRepr, LaunchConfig};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use taiga_kernels::algorithms;

/// `kernels/encoding.cu`.
pub(super) const ENCODING: Image = Image { name: "encoding", bytes: taiga_kernels::images::encoding };

const THREADS: u32 = 256;

/// `WINDOW_BITS` of `place_values`.
const WINDOW_BITS: u32 = 12;

/// Codes of categories on the GPU, all below a number.
pub struct DeviceCodes {
    pub(super) codes: CudaSlice<u32>,
    pub(super) rows: usize,
    pub(super) categories: usize,
}

impl DeviceCodes {
    /// Copies codes.
    ///
    /// # Errors
    /// [`Error::Data`] where a code is not below `categories`, or there are more rows than 32 bits number.
    pub fn new(queue: &Queue, what: &str, codes: &[u32], categories: usize) -> Result<Self> {
        if codes.len() >= u32::MAX as usize {
            return Err(Error::Data(format!("{} rows are more than 32 bits can number", codes.len())));
        }
        let (most, slice) = (AtomicU32::new(0), queue.alloc::<u32>(what, codes.len()));
        let mut slice = slice?;
        queue.upload(&mut slice, codes.len() * 4, &|from, out| {
            let part = &codes[from / 4..(from + out.len()) / 4];
            out.copy_from_slice(bytes_of(part));
            most.fetch_max(part.iter().copied().max().unwrap_or(0), Ordering::Relaxed);
        })?;
        let most = most.into_inner();
        if !codes.is_empty() && most as usize >= categories {
            return Err(Error::Data(format!("{what}: {most} is not below their number, {categories}")));
        }
        Ok(DeviceCodes { codes: slice, rows: codes.len(), categories })
    }
}

/// How sums are kept: the kinds of `taiga_scan_categories`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Flags that ride in the uppermost bit of the row's number.
    Packed,
    Whole,
    Real,
    Full,
}

impl Form {
    fn bytes(self) -> usize {
        match self {
            Form::Packed => 8,
            Form::Whole => 16,
            Form::Real => 32,
            Form::Full => 48,
        }
    }

    /// A sum as the kernels lay it out: rows or weights, targets, squares.
    fn parse(self, bytes: &[u8]) -> [i128; 3] {
        let i64_at = |i: usize| bytes[i..].first_chunk().map_or(0, |b| i64::from_ne_bytes(*b)) as i128;
        let i128_at = |i: usize| bytes[i..].first_chunk().map_or(0, |b| i128::from_ne_bytes(*b));
        match self {
            Form::Packed => {
                let both = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                [(both as u32).into(), (both >> 32) as i128, 0]
            }
            Form::Whole => [i64_at(8), i64_at(0), 0],
            Form::Real => [i64_at(16), i128_at(0), 0],
            Form::Full => [i128_at(0), i128_at(16), i128_at(32)],
        }
    }
}

macro_rules! named {
    ($prefix:literal, $form:expr) => {
        match $form {
            Form::Packed => concat!($prefix, "_flags"),
            Form::Whole => concat!($prefix, "_whole"),
            Form::Real => concat!($prefix, "_real"),
            Form::Full => concat!($prefix, "_full"),
        }
    };
}

/// `Columns` and `Smoothing` as arguments of kernels.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Argument<T>(T);

// SAFETY: the same layout as the kernels' own, of numbers and device pointers.
unsafe impl DeviceRepr for Argument<algorithms::Columns> {}
// SAFETY: as above.
unsafe impl DeviceRepr for Argument<algorithms::Smoothing> {}

impl From<&Smoothing> for Argument<algorithms::Smoothing> {
    fn from(s: &Smoothing) -> Self {
        Argument(algorithms::Smoothing {
            weight: s.weight.unwrap_or(0.0),
            prior: s.prior,
            variance: s.variance,
            centre: s.centre,
            scale: s.scale,
            weight_scale: s.weight_scale,
            automatic: s.weight.is_none() as u64,
        })
    }
}

/// A statistic on the GPU.
struct DeviceStatistic<'a> {
    host: AnyStatistic<'a>,
    form: Form,
    columns: Argument<algorithms::Columns>,
    units: (f64, f64),
    centre: f64,
    flags: Option<CudaSlice<u8>>,
    _numbers: Vec<CudaSlice<f64>>,
}

/// What the scan makes of the sums: the modes of `taiga_scan_categories`.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Values,
    Totals,
    Before,
}

/// Where the scan writes: device pointers, 0 where the mode writes nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Written {
    pub values: u64,
    pub sums: u64,
    pub rows_before: u64,
    pub target_before: u64,
}

/// Keys of 32 bits, or of 64 with the category in the upper half.
pub(super) enum Keys<'a> {
    Narrow(&'a CudaSlice<u32>),
    Wide(&'a CudaSlice<u64>),
}

pub(super) fn each_row(queue: &Queue, n: usize) -> LaunchConfig {
    let most = queue.gpu().multiprocessors() * (2048 / THREADS);
    grid((n.div_ceil(THREADS as usize) as u32).clamp(1, most), THREADS, 0)
}

/// CUB's segmented scan over rows sorted by their keys. Does not wait.
///
/// # Safety
/// The keys and rows are `n`, the rows' numbers inside the columns, and `written` has room for what `mode` writes.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn scan(
    queue: &Queue,
    kind: u32,
    keys: Keys<'_>,
    rows: &CudaSlice<u32>,
    n: usize,
    columns: &algorithms::Columns,
    smoothing: &algorithms::Smoothing,
    mode: Mode,
    written: Written,
) -> Result<()> {
    const NAME: &str = "CUB's segmented scan";
    queue.gpu().context().bind_to_thread().map_err(|e| super::error::driver(queue.gpu(), NAME, e))?;
    let (narrow, wide) = match keys {
        Keys::Narrow(keys) => (pointer(queue, keys), 0),
        Keys::Wide(keys) => (0, pointer(queue, keys)),
    };
    let rows = pointer(queue, rows);
    let mut bytes = 0;
    let mut call = |temporary: *mut c_void| {
        // SAFETY: the caller's; `temporary` has as many bytes as the first call, which reads and writes nothing,
        // asked for.
        let code = unsafe {
            algorithms::taiga_scan_categories(
                temporary,
                &mut bytes,
                kind,
                narrow as *const u32,
                wide as *const u64,
                rows as *const u32,
                n as u32,
                columns,
                smoothing,
                mode as u32,
                written.values as *mut f64,
                written.sums as *mut c_void,
                written.rows_before as *mut u32,
                written.target_before as *mut u64,
                queue.stream().cu_stream().cast(),
            )
        };
        if code == 0 { Ok(bytes) } else { Err(algorithm(queue.gpu(), NAME, code)) }
    };
    let needed = call(std::ptr::null_mut())?;
    let mut temporary = queue.alloc::<u8>("a scan", needed)?;
    queue.note(NAME);
    call(temporary.device_ptr_mut(queue.stream()).0 as *mut c_void).map(drop)
}

/// Bits that numbers below `limit` have.
pub(super) fn bits_below(limit: u64) -> u32 {
    u64::BITS - limit.saturating_sub(1).leading_zeros()
}

impl<'a> DeviceStatistic<'a> {
    /// `packed`: flags may ride in the rows' numbers.
    fn new(queue: &Queue, host: AnyStatistic<'a>, rows: usize, packed: bool) -> Result<Self> {
        let parts = host.parts();
        let mut columns = algorithms::Columns {
            scale: parts.scale,
            weight_scale: parts.weight_scale,
            centre: parts.centre,
            distance_scale: parts.distance_scale,
            ..Default::default()
        };
        let mut numbers = vec![];
        for (values, place) in [(parts.values, &mut columns.values), (parts.weight, &mut columns.weight)] {
            if let Some(values) = values {
                let slice = upload(queue, "the target", values)?;
                *place = pointer(queue, &slice);
                numbers.push(slice);
            }
        }
        let flags = parts.flags.map(|flags| upload(queue, "the target", flags)).transpose()?;
        let form = match parts.kind {
            Sums::Whole if flags.is_some() && packed && rows < 1 << 31 => Form::Packed,
            Sums::Whole => Form::Whole,
            Sums::Real => Form::Real,
            Sums::Full => Form::Full,
        };
        if let (Form::Whole, Some(flags)) = (form, &flags) {
            columns.flags = pointer(queue, flags);
        }
        let (units, centre) = ((parts.scale, parts.weight_scale), parts.centre);
        Ok(DeviceStatistic { host, form, columns: Argument(columns), units, centre, flags, _numbers: numbers })
    }

    /// The flags that ride in the rows' numbers; a null pointer for none.
    fn packed_flags(&self, queue: &Queue) -> u64 {
        self.flags.as_ref().filter(|_| self.form == Form::Packed).map_or(0, |flags| pointer(queue, flags))
    }

    /// The sums that blocks wrote, added by groups of `each`.
    fn added(&self, queue: &Queue, sums: &CudaSlice<u8>, each: usize) -> Result<Vec<[i128; 3]>> {
        let bytes = queue.read(sums)?;
        let add = |a: [i128; 3], b: [i128; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        let group = |group: &[u8]| group.chunks_exact(self.form.bytes()).map(|s| self.form.parse(s)).fold([0; 3], add);
        Ok(bytes.chunks_exact(each * self.form.bytes()).map(group).collect())
    }

    /// Σ over all rows.
    fn total(&self, queue: &Queue, rows: usize) -> Result<[i128; 3]> {
        let kernel = queue.gpu().kernel(ENCODING, named!("total", self.form))?;
        let config = each_row(queue, rows);
        let mut out = queue.alloc::<u8>("sums", config.grid_dim.0 as usize * self.form.bytes())?;
        let (n, flags) = (rows as u64, self.packed_flags(queue));
        // SAFETY: the arguments are those of `total_*`; the columns have `n` rows, and each block writes a sum.
        unsafe { launch!(queue, kernel, config; &self.columns, &n, &flags, &mut out) }?;
        Ok(self.added(queue, &out, config.grid_dim.0 as usize)?[0])
    }

    fn smoothing(&self, sums: [i128; 3], params: &TargetParams) -> (Moments, Smoothing) {
        let m = self.host.read(sums);
        (m, smoothing_of(m, self.units, self.centre, params))
    }

    /// The sum of each cell: of each category, or of each category and fold.
    fn cells(&self, queue: &Queue, codes: &DeviceCodes, folds: Option<&DeviceCodes>) -> Result<CudaSlice<u8>> {
        let count = folds.map_or(1, |f| f.categories);
        let cells = codes.categories.saturating_mul(count);
        if cells > u32::MAX as usize {
            return Err(Error::Memory(format!("{} categories times {count} folds are more sums than fit", codes.categories)));
        }
        queue.check_memory("the sums of categories", (cells * self.form.bytes()) as u64)?;
        let sums = queue.zeros::<u8>("the sums of categories", cells * self.form.bytes())?;
        let kernel = queue.gpu().kernel(ENCODING, "cell_keys")?;
        let n = codes.rows;
        let mut from: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        let (rows, folds_pointer, of) = (n as u64, folds.map_or(0, |f| pointer(queue, &f.codes)), count as u32);
        let flags = self.packed_flags(queue);
        // SAFETY: the arguments are those of `cell_keys`, all of `n` rows.
        unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &folds_pointer, &of, &flags, &mut from.0, &mut from.1) }?;
        let mut to: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..bits_below(cells as u64))?;
        drop(from);
        let written = Written { sums: pointer(queue, &sums), ..Default::default() };
        // SAFETY: `n` keys and rows, all keys below the number of cells.
        unsafe {
            let keys = Keys::Narrow(&to.0);
            scan(queue, self.form as u32, keys, &to.1, n, &self.columns.0, &Default::default(), Mode::Totals, written)?;
        }
        Ok(sums)
    }

    /// The value of each category from all its rows.
    fn category_values(&self, queue: &Queue, codes: &DeviceCodes, smoothing: &Smoothing) -> Result<CudaSlice<f64>> {
        let sums = self.cells(queue, codes, None)?;
        let kernel = queue.gpu().kernel(ENCODING, named!("category_values", self.form))?;
        let mut values = queue.alloc::<f64>("the values of categories", codes.categories)?;
        let (n, smoothing) = (codes.categories as u64, Argument::from(smoothing));
        // SAFETY: the arguments are those of `category_values_*`, with a sum and a value for each category.
        unsafe { launch!(queue, kernel, each_row(queue, codes.categories); &self.columns, &sums, &n, &smoothing, &mut values) }?;
        Ok(values)
    }
}

/// A copy of many values.
pub(super) fn upload<T: DeviceRepr + Copy + Sync>(queue: &Queue, what: &str, values: &[T]) -> Result<CudaSlice<T>> {
    let mut slice = queue.alloc::<T>(what, values.len())?;
    let bytes = bytes_of(values);
    queue.upload(&mut slice, bytes.len(), &|from, out| out.copy_from_slice(&bytes[from..from + out.len()]))?;
    Ok(slice)
}

fn download(queue: &Queue, values: &CudaSlice<f64>, n: usize) -> Result<Vec<f64>> {
    let mut out = vec![0.0; n];
    queue.download(values, bytes_of_mut(&mut out))?;
    Ok(out)
}

/// [`crate::encoding::target::target_encode`] on the GPU.
///
/// # Errors
/// As there; [`Error::Memory`] and [`Error::Device`].
pub fn target_encode(queue: &Queue, input: &EncodingInput<'_>, plan: &Plan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
    params.validate()?;
    check_input(input)?;
    let rows = input.codes.len();
    let outputs = input.target.outputs();
    if rows == 0 {
        return Ok(vec![vec![]; outputs]);
    }
    // Codes, keys and rows twice, the order, a target and a weight, a value three times.
    queue.check_memory("target encoding", rows as u64 * (4 + 24 + 4 + 16 + 20 + 8))?;
    let prepared = Prepared::new(input, params.prior_weight);
    let codes = DeviceCodes::new(queue, "the categories", input.codes, input.categories)?;
    let packed = outputs == 1;
    let statistics = prepared.statistics().into_iter();
    let statistics = statistics.map(|s| DeviceStatistic::new(queue, s, rows, packed)).collect::<Result<Vec<_>>>()?;
    let values = match plan {
        Plan::Ordered(orders) => ordered(queue, &codes, &statistics, orders, params)?,
        Plan::Folds(folds, count) => {
            check_folds(folds, rows)?;
            let folds = DeviceCodes::new(queue, "the folds", folds, *count)?;
            statistics.iter().map(|s| by_fold(queue, &codes, &folds, s, params)).collect::<Result<Vec<_>>>()?
        }
        Plan::Plain => statistics.iter().map(|s| plain(queue, &codes, s, params)).collect::<Result<Vec<_>>>()?,
    };
    values.iter().map(|values| download(queue, values, rows)).collect()
}

fn ordered(
    queue: &Queue,
    codes: &DeviceCodes,
    statistics: &[DeviceStatistic<'_>],
    orders: &[Order],
    params: &TargetParams,
) -> Result<Vec<CudaSlice<f64>>> {
    let n = codes.rows;
    let smoothings: Vec<Argument<algorithms::Smoothing>> =
        statistics.iter().map(|s| Ok(Argument::from(&s.smoothing(s.total(queue, n)?, params).1))).collect::<Result<_>>()?;
    let mut out = statistics.iter().map(|_| queue.alloc::<f64>("values", n)).collect::<Result<Vec<_>>>()?;
    // One statistic's flags ride in the rows; several share the sorted rows.
    let flags = statistics.first().map_or(0, |s| s.packed_flags(queue));
    for (i, order) in orders.iter().enumerate() {
        let sorted = Sorted::new(queue, codes, order, flags)?;
        for ((statistic, smoothing), out) in statistics.iter().zip(&smoothings).zip(&mut out) {
            sorted.values(queue, statistic, &smoothing.0, n, out, i > 0)?;
        }
    }
    if orders.len() > 1 {
        let kernel = queue.gpu().kernel(ENCODING, "scale")?;
        let (n, each) = (n as u64, 1.0 / orders.len() as f64);
        for out in &out {
            // SAFETY: the arguments are those of `scale`.
            unsafe { launch!(queue, kernel, each_row(queue, codes.rows); &n, &each, out) }?;
        }
    }
    Ok(out)
}

/// Rows by category, inside a category in an order.
enum Sorted {
    InRowOrder(Pairs<u32>),
    InOrder(Pairs<u64>),
}

impl Sorted {
    fn new(queue: &Queue, codes: &DeviceCodes, order: &Order, flags: u64) -> Result<Sorted> {
        let (n, category_bits) = (codes.rows, bits_below(codes.categories as u64));
        let (rows, none) = (n as u64, 0u64);
        let places = match order {
            Order::Rows => {
                let kernel = queue.gpu().kernel(ENCODING, "cell_keys")?;
                let mut from: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
                // SAFETY: the arguments are those of `cell_keys`, all of `n` rows.
                unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &none, &1u32, &flags, &mut from.0, &mut from.1) }?;
                let mut to: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
                queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..category_bits)?;
                return Ok(Sorted::InRowOrder(to));
            }
            Order::Random(_) => None,
            Order::Given(order) => Some(upload(queue, "the order", &places_in(order, n)?)?),
        };
        let key = if let Order::Random(random) = order { random.key() } else { 0 };
        let places = places.as_ref().map_or(0, |p| pointer(queue, p));
        let kernel = queue.gpu().kernel(ENCODING, "order_keys")?;
        let mut from: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        // SAFETY: the arguments are those of `order_keys`, all of `n` rows.
        unsafe {
            launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &key, &places, &flags, &mut from.0, &mut from.1)?;
        }
        let mut to: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..32 + category_bits)?;
        Ok(Sorted::InOrder(to))
    }

    /// Writes to `out`, or adds to it, the value of each row from the rows before it.
    fn values(
        &self,
        queue: &Queue,
        statistic: &DeviceStatistic<'_>,
        smoothing: &algorithms::Smoothing,
        n: usize,
        out: &mut CudaSlice<f64>,
        add: bool,
    ) -> Result<()> {
        let values = queue.alloc::<u64>("values", n)?;
        let written = Written { values: pointer(queue, &values), ..Default::default() };
        let columns = &statistic.columns.0;
        // SAFETY: `n` keys and rows, and a value for each.
        unsafe { scan(queue, statistic.form as u32, self.keys(), self.rows(), n, columns, smoothing, Mode::Values, written)? };
        // Back into the order of the rows: to windows by a sort, inside a window by shared memory.
        let mut dealt: Pairs<u32, u64> = (queue.alloc("rows", n)?, queue.alloc("values", n)?);
        queue.sort_pairs(self.rows(), &values, &mut dealt, n as u32, WINDOW_BITS..bits_below(n as u64).max(WINDOW_BITS))?;
        drop(values);
        let kernel = queue.gpu().kernel(ENCODING, "place_values")?;
        let (rows, add) = (n as u64, add as u32);
        let blocks = n.div_ceil(1 << WINDOW_BITS) as u32;
        // SAFETY: the arguments are those of `place_values`; each row is there once, so that a window of rows is the
        // same window of places.
        unsafe { launch!(queue, kernel, grid(blocks, 512, 0); &rows, &dealt.0, &dealt.1, &add, out) }
    }

    fn keys(&self) -> Keys<'_> {
        match self {
            Sorted::InRowOrder(pairs) => Keys::Narrow(&pairs.0),
            Sorted::InOrder(pairs) => Keys::Wide(&pairs.0),
        }
    }

    fn rows(&self) -> &CudaSlice<u32> {
        match self {
            Sorted::InRowOrder(pairs) => &pairs.1,
            Sorted::InOrder(pairs) => &pairs.1,
        }
    }
}

fn by_fold(
    queue: &Queue,
    codes: &DeviceCodes,
    folds: &DeviceCodes,
    statistic: &DeviceStatistic<'_>,
    params: &TargetParams,
) -> Result<CudaSlice<f64>> {
    let (n, count, form) = (codes.rows, folds.categories, statistic.form);
    let cells = statistic.cells(queue, codes, Some(folds))?;
    let gpu = queue.gpu();
    // The sums of each fold.
    let kernel = gpu.kernel(ENCODING, named!("fold_totals", form))?;
    let blocks = (codes.categories.div_ceil(4 * THREADS as usize) as u32).clamp(1, 64);
    let mut sums = queue.alloc::<u8>("the sums of folds", blocks as usize * count * form.bytes())?;
    let (categories, of) = (codes.categories as u64, count as u32);
    // A grid's second side has at most 65,535 blocks.
    if count > 65_535 {
        return Err(Error::parameter("folds", format!("{count} are more than the 65535 that a GPU takes")));
    }
    let config = LaunchConfig { grid_dim: (blocks, count as u32, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are those of `fold_totals_*`, with a sum for each block and fold.
    unsafe { launch!(queue, kernel, config; &cells, &categories, &of, &mut sums) }?;
    let sums = statistic.added(queue, &sums, blocks as usize)?;
    let all = sums.iter().fold([0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    let smoothings = sums.iter().enumerate().map(|(fold, sum)| {
        let (others, smoothing) = statistic.smoothing([all[0] - sum[0], all[1] - sum[1], all[2] - sum[2]], params);
        if others.weight <= 0.0 { Err(nothing_outside(fold)) } else { Ok(Argument::from(&smoothing).0) }
    });
    let smoothings = smoothings.collect::<Result<Vec<algorithms::Smoothing>>>()?;
    let smoothings = queue.copy_of("priors", bytes_of(&smoothings))?;
    let kernel = gpu.kernel(ENCODING, named!("fold_values", form))?;
    let mut values = queue.alloc::<f64>("the values of folds", codes.categories * count)?;
    // SAFETY: the arguments are those of `fold_values_*`, with a sum and a value for each cell.
    unsafe {
        launch!(queue, kernel, each_row(queue, codes.categories);
            &statistic.columns, &cells, &categories, &of, &smoothings, &mut values)?;
    }
    look_up(queue, &values, codes, Some(folds), n)
}

fn look_up(queue: &Queue, values: &CudaSlice<f64>, codes: &DeviceCodes, folds: Option<&DeviceCodes>, n: usize) -> Result<CudaSlice<f64>> {
    let kernel = queue.gpu().kernel(ENCODING, "look_up")?;
    let mut out = queue.alloc::<f64>("values", n)?;
    let (rows, count, folds) = (n as u64, folds.map_or(1, |f| f.categories) as u32, folds.map_or(0, |f| pointer(queue, &f.codes)));
    // SAFETY: the arguments are those of `look_up`; codes and folds are below their numbers, of which there are values.
    unsafe { launch!(queue, kernel, each_row(queue, n); &rows, values, &codes.codes, &folds, &count, &mut out) }?;
    Ok(out)
}

/// `loo` and `full`.
fn plain(queue: &Queue, codes: &DeviceCodes, statistic: &DeviceStatistic<'_>, params: &TargetParams) -> Result<CudaSlice<f64>> {
    let n = codes.rows;
    let (_, smoothing) = statistic.smoothing(statistic.total(queue, n)?, params);
    if params.kind == Kind::Full {
        let values = statistic.category_values(queue, codes, &smoothing)?;
        return look_up(queue, &values, codes, None, n);
    }
    let sums = statistic.cells(queue, codes, None)?;
    let kernel = queue.gpu().kernel(ENCODING, named!("loo_values", statistic.form))?;
    let mut out = queue.alloc::<f64>("values", n)?;
    let (rows, flags, smoothing) = (n as u64, statistic.packed_flags(queue), Argument::from(&smoothing));
    // SAFETY: the arguments are those of `loo_values_*`, all of `n` rows, with a sum for each category.
    unsafe {
        launch!(queue, kernel, each_row(queue, n);
            &statistic.columns, &sums, &rows, &codes.codes, &flags, &smoothing, &mut out)?;
    }
    Ok(out)
}

/// [`crate::encoding::target::category_values`] on the GPU.
///
/// # Errors
/// As there; [`Error::Memory`] and [`Error::Device`].
pub fn category_values(queue: &Queue, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
    params.validate()?;
    check_input(input)?;
    let (rows, outputs) = (input.codes.len(), input.target.outputs());
    queue.check_memory("fitting an encoder", rows as u64 * (4 + 16 + 16) + input.categories as u64 * 56)?;
    let prepared = Prepared::new(input, params.prior_weight);
    let codes = DeviceCodes::new(queue, "the categories", input.codes, input.categories)?;
    let mut values = vec![0.0; input.categories * outputs];
    let mut priors = vec![];
    for (k, host) in prepared.statistics().into_iter().enumerate() {
        let statistic = DeviceStatistic::new(queue, host, rows, true)?;
        let sums = if rows > 0 { statistic.total(queue, rows)? } else { [0; 3] };
        let (_, smoothing) = statistic.smoothing(sums, params);
        priors.push(smoothing.prior / smoothing.scale);
        if input.categories > 0 {
            let column = download(queue, &statistic.category_values(queue, &codes, &smoothing)?, input.categories)?;
            column.into_iter().enumerate().for_each(|(category, value)| values[category * outputs + k] = value);
        }
    }
    Ok((values, priors))
}

/// Device times in milliseconds of an ordered encoding of flags, codes and flags being there: the keys, both sorts,
/// all behind the first sort, and all of it; for `benches/cuda_encoding.rs`.
#[doc(hidden)]
pub fn measure(queue: &Queue, codes: &[u32], categories: usize, flags: &[u8], order: &Order) -> Result<[f64; 4]> {
    use cudarc::driver::{CudaEvent, sys::CUevent_flags::CU_EVENT_DEFAULT};
    let timed = |e| super::error::driver(queue.gpu(), "timing", e);
    let mark = || queue.stream().record_event(Some(CU_EVENT_DEFAULT)).map_err(timed);
    let between = |a: &CudaEvent, b: &CudaEvent| a.elapsed_ms(b).map(f64::from).map_err(timed);
    let codes = DeviceCodes::new(queue, "the categories", codes, categories)?;
    let statistic = DeviceStatistic::new(queue, AnyStatistic::Flags(crate::encoding::statistic::Flags(flags)), flags.len(), true)?;
    let (statistics, orders, params) = (std::slice::from_ref(&statistic), std::slice::from_ref(order), TargetParams::default());
    let start = mark()?;
    let out = ordered(queue, &codes, statistics, orders, &params)?;
    let all = between(&start, &mark()?)?;
    // Its stages, once more.
    let n = codes.rows;
    let mut from: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
    let mut to: Pairs<u64> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
    let kernel = queue.gpu().kernel(ENCODING, "order_keys")?;
    let (rows, key, places) = (n as u64, if let Order::Random(r) = order { r.key() } else { 0 }, 0u64);
    let flags = statistic.packed_flags(queue);
    let start = mark()?;
    // SAFETY: the arguments are those of `order_keys`, all of `n` rows.
    unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &key, &places, &flags, &mut from.0, &mut from.1) }?;
    let made = mark()?;
    queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..32 + bits_below(categories as u64))?;
    let sorted = mark()?;
    let smoothing = Argument::from(&statistic.smoothing(statistic.total(queue, n)?, &params).1);
    let mut out = out;
    let begun = mark()?;
    Sorted::InOrder(to).values(queue, &statistic, &smoothing.0, n, &mut out[0], false)?;
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
