//! A statistic's sums on the GPU.

use super::TARGET_ENCODE;
use super::scan::{CategoryKeys, ScanMode, ScanOutput, scan};
use super::share::Share;
use crate::columns::categories::DeviceCodes;
use crate::launch;
use crate::runtime::Queue;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::memory::pointer;
use crate::runtime::queue::each_row;
use crate::runtime::sort::Pairs;
use crate::runtime::sort::bits_below;
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use taiga_core::encoding::group::Smoothing;
use taiga_core::encoding::statistic::{AnyStatistic, Moments, SumKind};
use taiga_core::encoding::target::{TargetParams, smoothing_of};
use taiga_core::error::{Error, Result};

/// How sums are kept: the kinds of `taiga_scan_categories`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SumForm {
    /// Flags that ride in the uppermost bit of the row's number.
    Packed,
    Whole,
    Real,
    Full,
}

impl SumForm {
    /// Returns the bytes of a sum.
    pub const fn bytes(self) -> usize {
        match self {
            SumForm::Packed => size_of::<u64>(),
            SumForm::Whole => size_of::<WholeSum>(),
            SumForm::Real => size_of::<RealSum>(),
            SumForm::Full => size_of::<FullSum>(),
        }
    }

    /// A sum as the kernels lay it out: rows or weights, targets, squares.
    fn parse(self, bytes: &[u8]) -> [i128; 3] {
        let i64_at = |i: usize| bytes[i..].first_chunk().map_or(0, |b| i64::from_ne_bytes(*b)) as i128;
        let i128_at = |i: usize| bytes[i..].first_chunk().map_or(0, |b| i128::from_ne_bytes(*b));
        match self {
            SumForm::Packed => {
                let both = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
                [(both as u32).into(), (both >> 32) as i128, 0]
            }
            SumForm::Whole => [i64_at(8), i64_at(0), 0],
            SumForm::Real => [i64_at(16), i128_at(0), 0],
            SumForm::Full => [i128_at(0), i128_at(16), i128_at(32)],
        }
    }
}

/// The name of the kernel of a form of sums.
macro_rules! named {
    ($prefix:literal, $form:expr) => {
        match $form {
            SumForm::Packed => concat!($prefix, "_flags"),
            SumForm::Whole => concat!($prefix, "_whole"),
            SumForm::Real => concat!($prefix, "_real"),
            SumForm::Full => concat!($prefix, "_full"),
        }
    };
}

pub(crate) use named;

kernel_structs! { TargetColumns, DeviceSmoothing, WholeSum, RealSum, FullSum }

impl From<&Smoothing> for DeviceSmoothing {
    fn from(s: &Smoothing) -> Self {
        DeviceSmoothing {
            weight: s.weight.unwrap_or(0.0),
            prior: s.prior,
            variance: s.variance,
            centre: s.centre,
            scale: s.scale,
            weight_scale: s.weight_scale,
            automatic: s.weight.is_none() as u64,
        }
    }
}

/// A statistic of a share of the rows on the GPU; its sums are of all rows.
pub struct DeviceStatistic<'a> {
    host: AnyStatistic<'a>,
    share: &'a Share<'a>,
    pub form: SumForm,
    pub columns: TargetColumns,
    units: (f64, f64),
    centre: f64,
    flags: Option<CudaSlice<u8>>,
    _numbers: Vec<CudaSlice<f64>>,
}

impl<'a> DeviceStatistic<'a> {
    /// `packed`: flags may ride in the rows' numbers.
    pub fn new(queue: &Queue, host: AnyStatistic<'a>, share: &'a Share<'a>, packed: bool) -> Result<Self> {
        let parts = host.parts();
        let mut columns = TargetColumns {
            scale: parts.scale,
            weight_scale: parts.weight_scale,
            centre: parts.centre,
            distance_scale: parts.distance_scale,
            ..Default::default()
        };
        let mut numbers = vec![];
        for (values, place) in [(parts.values, &mut columns.values), (parts.weight, &mut columns.weight)] {
            if let Some(values) = values {
                let slice = upload(queue, "the target", &values[share.rows()])?;
                *place = pointer(queue, &slice);
                numbers.push(slice);
            }
        }
        let flags = parts.flags.map(|flags| upload(queue, "the target", &flags[share.rows()])).transpose()?;
        let form = match parts.kind {
            SumKind::Whole if flags.is_some() && packed && share.all() < 1 << 31 => SumForm::Packed,
            SumKind::Whole => SumForm::Whole,
            SumKind::Real => SumForm::Real,
            SumKind::Full => SumForm::Full,
        };
        if let (SumForm::Whole, Some(flags)) = (form, &flags) {
            columns.flags = pointer(queue, flags);
        }
        let (units, centre) = ((parts.scale, parts.weight_scale), parts.centre);
        Ok(DeviceStatistic { host, share, form, columns, units, centre, flags, _numbers: numbers })
    }

    /// The flags that ride in the rows' numbers; a null pointer for none.
    pub fn packed_flags(&self, queue: &Queue) -> u64 {
        self.flags.as_ref().filter(|_| self.form == SumForm::Packed).map_or(0, |flags| pointer(queue, flags))
    }

    /// The sums that blocks wrote, added by groups of `each`.
    pub fn added(&self, queue: &Queue, sums: &CudaSlice<u8>, each: usize) -> Result<Vec<[i128; 3]>> {
        let bytes = queue.read(sums)?;
        let add = |a: [i128; 3], b: [i128; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        let group = |group: &[u8]| group.chunks_exact(self.form.bytes()).map(|s| self.form.parse(s)).fold([0; 3], add);
        Ok(bytes.chunks_exact(each * self.form.bytes()).map(group).collect())
    }

    /// Σ over all rows.
    pub fn total(&self, queue: &Queue) -> Result<[i128; 3]> {
        let rows = self.share.rows().len();
        let kernel = queue.gpu().kernel(TARGET_ENCODE, named!("total", self.form))?;
        let config = each_row(queue, rows);
        let mut out = queue.alloc::<u8>("sums", config.grid_dim.0 as usize * self.form.bytes())?;
        let (n, flags) = (rows as u64, self.packed_flags(queue));
        // SAFETY: the arguments are those of `total_*`; the columns have `n` rows, and each block writes a sum.
        unsafe { launch!(queue, kernel, config; &self.columns, &n, &flags, &mut out) }?;
        self.share.add(self.added(queue, &out, config.grid_dim.0 as usize)?[0])
    }

    pub fn smoothing(&self, sums: [i128; 3], params: &TargetParams) -> (Moments, Smoothing) {
        let m = self.host.read(sums);
        (m, smoothing_of(m, self.units, self.centre, params))
    }

    /// The sum of each cell over all rows: of each category, or of each category and fold.
    pub fn cells(&self, queue: &Queue, codes: &DeviceCodes, folds: Option<&DeviceCodes>) -> Result<CudaSlice<u8>> {
        let count = folds.map_or(1, |f| f.categories);
        let cells = codes.categories.saturating_mul(count);
        if cells > u32::MAX as usize {
            let message = format!("{} categories times {count} folds are more sums than fit", codes.categories);
            return Err(Error::device_memory(queue.gpu().number(), message));
        }
        queue.check_memory("the sums of categories", (cells * self.form.bytes()) as u64)?;
        let mut sums = queue.zeros::<u8>("the sums of categories", cells * self.form.bytes())?;
        let kernel = queue.gpu().kernel(TARGET_ENCODE, "cell_keys")?;
        let n = codes.rows;
        let mut from: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        let (rows, folds_pointer, of) = (n as u64, folds.map_or(0, |f| pointer(queue, &f.codes)), count as u32);
        let flags = self.packed_flags(queue);
        // SAFETY: the arguments are those of `cell_keys`, all of `n` rows.
        unsafe { launch!(queue, kernel, each_row(queue, n); &rows, &codes.codes, &folds_pointer, &of, &flags, &mut from.0, &mut from.1) }?;
        let mut to: Pairs<u32> = (queue.alloc("keys", n)?, queue.alloc("rows", n)?);
        queue.sort_pairs(&from.0, &from.1, &mut to, n as u32, 0..bits_below(cells as u64))?;
        drop(from);
        let written = ScanOutput { sums: pointer(queue, &sums), ..Default::default() };
        // SAFETY: `n` keys and rows, all keys below the number of cells.
        unsafe {
            let keys = CategoryKeys::Narrow(&to.0);
            scan(queue, self.form as u32, keys, &to.1, n, &self.columns, &Default::default(), ScanMode::Totals, written)?;
        }
        drop(to);
        self.share.add_cells(queue, self.form, cells, &mut sums)?;
        Ok(sums)
    }

    /// The value of each category from all its rows.
    pub fn category_values(&self, queue: &Queue, codes: &DeviceCodes, smoothing: &Smoothing) -> Result<CudaSlice<f64>> {
        let sums = self.cells(queue, codes, None)?;
        let kernel = queue.gpu().kernel(TARGET_ENCODE, named!("category_values", self.form))?;
        let mut values = queue.alloc::<f64>("the values of categories", codes.categories)?;
        let (n, smoothing) = (codes.categories as u64, DeviceSmoothing::from(smoothing));
        // SAFETY: the arguments are those of `category_values_*`, with a sum and a value for each category.
        unsafe { launch!(queue, kernel, each_row(queue, codes.categories); &self.columns, &sums, &n, &smoothing, &mut values) }?;
        Ok(values)
    }
}
