//! The verbs over columns on several GPUs, each of which has a share of the rows: the bytes of one.
//!
//! ```text
//! extremes, counts   of each share ─► the widest; added up
//! sums of weights    share 0 ─► share 1 ─► …   each adds its blocks of rows, in their order, to the sums of those before
//! codes, encode      a row's are its own
//! kfold, loo, full   the sums of each share's cells ─► read by all others (or through the host) ─► values of each share's rows
//! ```
//!
//! An ordered encoding, borders and numbers of combinations are made of all rows in one order: they are no work to share.

use super::CudaColumns;
use super::categories::{DeviceCodes, range_of};
use super::stats::{self, Earlier, HistogramSteps, min_max};
use super::stats2d::Histogram2dSteps;
use super::target_encode::share::Share;
use super::target_encode::{self, check_room, most_near, number};
use crate::runtime::column::{DeviceColumn, bytes_of_mut};
use crate::runtime::device::Gpu;
use crate::runtime::driver_threads::DriverThreads;
use crate::runtime::peers;
use crate::runtime::queue::Queue;
use crate::runtime::shard_threads::{self, ShardEnd, deal, lock, shard_ends};
use cudarc::driver::CudaSlice;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use taiga_core::column::Column;
use taiga_core::column::categories::{Texts, UncodedCategories};
use taiga_core::column_steps::{BLOCK, ColumnSteps, TakeCodes, blocks_of_codes, check_borders};
use taiga_core::encoding::TargetEncoder;
use taiga_core::encoding::target::{EncodingInput, EncodingPlan, EncodingTarget, Prepared, TargetParams, UncodedInput};
use taiga_core::error::{Error, Result};
use taiga_core::pages;
use taiga_core::quantize::borders::BorderParams;
use taiga_core::stats::bins::Bins;
use taiga_core::stats::histogram::Steps;
use taiga_core::stats::histogram2d::{Extremes2d, Steps2d};
use taiga_core::stats::locate::Locator;
use taiga_core::stats::min_max::wider;
use taiga_core::stats::{self as core_stats, Histogram, Histogram2d, Histogram2dParams, HistogramParams, MinMax};

/// Several GPUs for one call of a verb or several.
pub struct SharedColumns {
    gpus: Vec<CudaColumns>,
    /// Whether they read each other's memory.
    are_connected: bool,
}

/// A column's rows of each share.
fn shares_of<'a>(column: &Column<'a>, rows: &[Range<usize>]) -> Vec<Column<'a>> {
    rows.iter().map(|own| column.slice(own.start, own.len())).collect()
}

/// Room for the values of rows, which the threads that copy them bring in.
fn values_of(rows: usize, outputs: usize) -> Result<Vec<Vec<f64>>> {
    (0..outputs).map(|_| pages::try_zeroed("encoded values", rows)).collect()
}

/// The values of each share's rows, of all outputs.
fn parts_of<'o>(out: &'o mut [Vec<f64>], rows: &[Range<usize>]) -> Vec<Mutex<Vec<&'o mut [f64]>>> {
    let mut rest: Vec<&mut [f64]> = out.iter_mut().map(Vec::as_mut_slice).collect();
    let of_share = |own: &Range<usize>| {
        let parts = rest.iter_mut().map(|rest| {
            let (part, behind) = std::mem::take(rest).split_at_mut(own.len());
            *rest = behind;
            part
        });
        Mutex::new(parts.collect())
    };
    rows.iter().map(of_share).collect()
}

/// The error of work that is none to share.
fn not_shared(what: &str) -> Error {
    Error::parameter("device", format!("{what} of all rows in one order, which GPUs do not share; name one"))
}

/// Checks that an encoding by a plan is work to share.
fn check_plan(plan: &EncodingPlan) -> Result<()> {
    if let EncodingPlan::Ordered(_) = plan { Err(not_shared("an ordered encoding is")) } else { Ok(()) }
}

/// The least and the largest of two ranges.
fn widest(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

impl SharedColumns {
    /// On `gpus`, at least one.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(gpus: &[&'static Gpu]) -> Result<Self> {
        let are_connected = peers::connect(gpus)?;
        Ok(SharedColumns { gpus: gpus.iter().map(|gpu| CudaColumns::new(gpu)).collect::<Result<_>>()?, are_connected })
    }

    /// For tests: as if GPUs did not read each other's memory.
    #[doc(hidden)]
    pub fn through_host(self) -> Self {
        SharedColumns { are_connected: false, ..self }
    }

    /// Returns the rows of each share; fewer than two blocks go to the first GPU.
    fn deal(&self, rows: usize) -> Vec<Range<usize>> {
        deal(rows, self.gpus.len(), BLOCK)
    }

    /// Does `work` for each share at once, on its GPU.
    fn each<R: Send>(&self, shares: usize, work: impl Fn(usize, &Queue, &ShardEnd) -> Result<R> + Sync) -> Result<Vec<R>> {
        let threads = DriverThreads::new(shares, rayon::current_num_threads().div_ceil(shares))?;
        let ends = shard_ends(shares);
        shard_threads::each(&threads, &ends, &|| (), &|rank| work(rank, &self.gpus[rank].queue, &ends[rank]))
    }

    /// Encodes each share by the codes that `codes` makes of the one of this number.
    fn encode_shares(
        &self,
        rows: &[Range<usize>],
        codes: impl Fn(&Queue, usize) -> Result<DeviceCodes> + Sync,
        (target, weight): (EncodingTarget<'_>, Option<&[f64]>),
        plan: &EncodingPlan,
        params: &TargetParams,
    ) -> Result<Vec<Vec<f64>>> {
        let (prepared, all) = (Prepared::new(target, weight, params), rows.last().map_or(0, |last| last.end));
        let mut out = values_of(all, target.outputs())?;
        let parts = parts_of(&mut out, rows);
        self.each(rows.len(), |rank, queue, end| {
            let own = rows[rank].clone();
            check_room(queue, own.len(), 0)?;
            let codes = codes(queue, rank)?;
            let values = target_encode::encode(queue, &codes, &prepared, &Share::of(own, all, end, self.are_connected), plan, params)?;
            let mut parts = lock(&parts[rank]);
            values.iter().zip(parts.iter_mut()).try_for_each(|(values, part)| queue.download(values, bytes_of_mut(part)))
        })?;
        drop(parts);
        Ok(out)
    }
}

impl ColumnSteps for SharedColumns {
    fn min_max(&self, column: &Column<'_>) -> Result<Option<MinMax>> {
        let rows = self.deal(column.len());
        let found = self.each(rows.len(), |rank, queue, _| {
            let own = &rows[rank];
            stats::min_max_of(queue, &column.slice(own.start, own.len()))
        })?;
        Ok(found.into_iter().fold(None, wider))
    }

    fn histogram(&self, column: &Column<'_>, weights: Option<&Column<'_>>, params: &HistogramParams) -> Result<Histogram> {
        let rows = self.deal(column.len());
        if rows.len() == 1 {
            return self.gpus[0].histogram(column, weights, params);
        }
        let (columns, weights_of) = (shares_of(column, &rows), weights.map(|weights| shares_of(weights, &rows)));
        let steps = |rank: usize| HistogramSteps::new(&self.gpus[rank].queue, &columns[rank], weights_of.as_ref().map(|w| &w[rank]));
        let mut steps = SharedSteps { shared: self, steps: (0..rows.len()).map(|rank| Mutex::new(steps(rank))).collect() };
        core_stats::histogram::by_steps(column, weights.is_some(), params, &mut steps)
    }

    fn histogram2d(&self, x: &Column<'_>, y: &Column<'_>, weights: Option<&Column<'_>>, params: &Histogram2dParams) -> Result<Histogram2d> {
        let rows = self.deal(x.len());
        if rows.len() == 1 || x.len() != y.len() {
            return self.gpus[0].histogram2d(x, y, weights, params);
        }
        let (xs, ys, weights_of) = (shares_of(x, &rows), shares_of(y, &rows), weights.map(|weights| shares_of(weights, &rows)));
        let steps =
            |rank: usize| Histogram2dSteps::new(&self.gpus[rank].queue, [&xs[rank], &ys[rank]], weights_of.as_ref().map(|w| &w[rank]));
        let mut steps = SharedSteps { shared: self, steps: (0..rows.len()).map(|rank| Mutex::new(steps(rank))).collect() };
        core_stats::histogram2d::by_steps(x, y, weights.is_some(), params, &mut steps)
    }

    fn borders(&self, _: &Column<'_>, _: &BorderParams) -> Result<Vec<f64>> {
        Err(not_shared("borders are"))
    }

    fn codes(&self, column: &Column<'_>, borders: &[f64], take: TakeCodes<'_>) -> Result<()> {
        check_borders(borders)?;
        let rows = self.deal(column.len());
        let codes = self.each(rows.len(), |rank, queue, _| {
            let own = &rows[rank];
            super::codes::codes_of(queue, &column.slice(own.start, own.len()), borders)
        })?;
        for (own, codes) in rows.iter().zip(&codes) {
            let first = own.start / BLOCK;
            blocks_of_codes(codes.len(), |block, rows| take(first + block, &codes[rows]));
        }
        Ok(())
    }

    fn target_encode(&self, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        params.validate()?;
        input.check()?;
        check_plan(plan)?;
        let rows = self.deal(input.codes.len());
        if rows.len() == 1 {
            return self.gpus[0].target_encode(input, plan, params);
        }
        let codes =
            |queue: &Queue, rank: usize| DeviceCodes::new(queue, "the categories", &input.codes[rows[rank].clone()], input.categories);
        self.encode_shares(&rows, codes, (input.target, input.weight), plan, params)
    }

    /// Distances from the least number categories wherever they lie; what they do not number the first GPU does.
    fn target_encode_uncoded(&self, input: &UncodedInput<'_>, plan: &EncodingPlan, params: &TargetParams) -> Result<Vec<Vec<f64>>> {
        params.validate()?;
        input.check()?;
        check_plan(plan)?;
        let rows = self.deal(input.categories.rows());
        if rows.len() == 1 {
            return self.gpus[0].target_encode_uncoded(input, plan, params);
        }
        let most = most_near(input.categories.rows());
        if let UncodedCategories::Integers(column) = &input.categories {
            // Each share goes to its GPU once, for its range and for its codes.
            let shares = self.each(rows.len(), |rank, queue, _| {
                let own = column.slice(rows[rank].start, rows[rank].len());
                check_room(queue, own.len(), DeviceColumn::exact_bytes(&own) as u64)?;
                let own = DeviceColumn::exact(queue, &own)?;
                let extremes = min_max(queue, &own)?;
                Ok((own, extremes))
            })?;
            let (shares, extremes): (Vec<_>, Vec<_>) = shares.into_iter().map(|(own, extremes)| (Mutex::new(Some(own)), extremes)).unzip();
            let (least, width) = range_of(extremes.into_iter().fold(None, wider));
            // And null, which some share may have.
            let categories = width + 2;
            if categories <= most as u128 {
                let codes = |queue: &Queue, rank: usize| {
                    let own = lock(&shares[rank]).take().ok_or_else(|| Error::Data("a share of rows is coded once".into()))?;
                    DeviceCodes::of_near_integers(queue, &own, (least, width), categories as usize)
                };
                return self.encode_shares(&rows, codes, (input.target, input.weight), plan, params);
            }
        }
        let queue = &self.gpus[0].queue;
        let numbered = number(queue, &input.categories, most)?;
        let (all, categories) = (queue.read(&numbered.codes)?, numbered.categories);
        drop(numbered);
        let codes = |queue: &Queue, rank: usize| DeviceCodes::new(queue, "the categories", &all[rows[rank].clone()], categories);
        self.encode_shares(&rows, codes, (input.target, input.weight), plan, params)
    }

    fn category_values(&self, input: &EncodingInput<'_>, params: &TargetParams) -> Result<(Vec<f64>, Vec<f64>)> {
        params.validate()?;
        input.check()?;
        let rows = self.deal(input.codes.len());
        if rows.len() == 1 {
            return self.gpus[0].category_values(input, params);
        }
        let prepared = Prepared::new(input.target, input.weight, params);
        let shares = self.each(rows.len(), |rank, queue, end| {
            let share = Share::of(rows[rank].clone(), input.codes.len(), end, self.are_connected);
            target_encode::values_of_categories(queue, input, &prepared, &share, params)
        })?;
        Ok(shares.into_iter().next().unwrap_or_default())
    }

    fn encode(&self, encoder: &TargetEncoder, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>> {
        let dealt = self.deal(rows.rows());
        if dealt.len() == 1 {
            return self.gpus[0].encode(encoder, column, rows);
        }
        let mut out = values_of(rows.rows(), encoder.outputs())?;
        let parts = parts_of(&mut out, &dealt);
        self.each(dealt.len(), |rank, queue, _| {
            let own = dealt[rank].clone();
            let mut parts = lock(&parts[rank]);
            let mut places = parts.iter_mut();
            let take = |values: &CudaSlice<f64>| places.next().map_or(Ok(()), |part| queue.download(values, bytes_of_mut(part)));
            match rows {
                UncodedCategories::Integers(of) => {
                    let own = UncodedCategories::Integers(of.slice(own.start, own.len()));
                    target_encode::each_fitted(queue, encoder, column, &own, take)
                }
                UncodedCategories::Texts(of) => {
                    let own = SomeTexts { of: *of, rows: own };
                    target_encode::each_fitted(queue, encoder, column, &UncodedCategories::Texts(&own), take)
                }
            }
        })?;
        drop(parts);
        Ok(out)
    }

    fn combine(&self, _: &[(&[u32], usize)]) -> Result<(Vec<u32>, usize)> {
        Err(not_shared("numbers of combinations are"))
    }
}

/// Consecutive rows of texts.
struct SomeTexts<'a> {
    of: &'a dyn Texts<'a>,
    rows: Range<usize>,
}

impl<'b, 'a: 'b> Texts<'b> for SomeTexts<'a> {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn visit(&self, rows: Range<usize>, visit: &mut dyn FnMut(Option<&'b str>)) {
        self.of.visit(self.rows.start + rows.start..self.rows.start + rows.end, &mut |text| visit(text));
    }
}

/// The steps of a histogram, by the steps of each share.
struct SharedSteps<'a, S> {
    shared: &'a SharedColumns,
    steps: Vec<Mutex<S>>,
}

/// Where a share's sums begin, and where they go: to the next share, but for the last one's.
type Link = (Earlier, Option<Sender<Vec<f64>>>);

/// A chain of so many shares.
fn chain(shares: usize) -> Vec<Mutex<Option<Link>>> {
    let (later, before): (Vec<Sender<_>>, Vec<Receiver<_>>) = (1..shares).map(|_| channel()).unzip();
    let earlier = std::iter::once(Earlier::NONE).chain(before.into_iter().map(Earlier::from));
    let later = later.into_iter().map(Some).chain([None]);
    earlier.zip(later).map(|link| Mutex::new(Some(link))).collect()
}

impl<S: Send> SharedSteps<'_, S> {
    fn each<R: Send>(&self, work: impl Fn(&mut S) -> Result<R> + Sync) -> Result<Vec<R>> {
        self.shared.each(self.steps.len(), |rank, _, _| work(&mut lock(&self.steps[rank])))
    }

    /// Counts of all shares.
    fn add(&self, count: impl Fn(&mut S) -> Result<Vec<u64>> + Sync) -> Result<Vec<u64>> {
        let mut shares = self.each(count)?.into_iter();
        let mut all = shares.next().unwrap_or_default();
        shares.for_each(|share| all.iter_mut().zip(share).for_each(|(all, own)| *all += own));
        Ok(all)
    }

    /// Sums of all shares, each of which adds its own to those of the shares before.
    fn in_order(&self, sum: impl Fn(&mut S, Earlier) -> Result<Vec<f64>> + Sync) -> Result<Vec<f64>> {
        let chain = chain(self.steps.len());
        let all = self.shared.each(self.steps.len(), |rank, _, _| {
            // The link goes with this share, however it ends, so that the next one does not wait for it.
            let Some((earlier, later)) = lock(&chain[rank]).take() else { return Ok(vec![]) };
            let sums = sum(&mut lock(&self.steps[rank]), earlier)?;
            match later {
                None => Ok(sums),
                Some(later) => later.send(sums).map(|()| vec![]).map_err(|_| shard_threads::gone()),
            }
        })?;
        Ok(all.into_iter().last().unwrap_or_default())
    }
}

impl Steps for SharedSteps<'_, HistogramSteps<'_>> {
    fn extremes(&mut self) -> Result<Option<(f64, f64)>> {
        let found = self.each(Steps::extremes)?;
        Ok(found.into_iter().flatten().reduce(widest))
    }

    fn count(&mut self, bins: &Bins) -> Result<Vec<u64>> {
        self.add(|share| share.count(bins))
    }

    fn sum(&mut self, bins: &Bins) -> Result<Vec<f64>> {
        self.in_order(|share, earlier| share.sum_behind(bins, earlier))
    }
}

impl Steps2d for SharedSteps<'_, Histogram2dSteps<'_>> {
    fn extremes(&mut self) -> Result<Option<Extremes2d>> {
        let found = self.each(Steps2d::extremes)?;
        Ok(found.into_iter().flatten().reduce(|a, b| [widest(a[0], b[0]), widest(a[1], b[1])]))
    }

    fn count(&mut self, x: &Locator, y: &Locator) -> Result<Vec<u64>> {
        self.add(|share| share.count(x, y))
    }

    fn sum(&mut self, x: &Locator, y: &Locator) -> Result<Vec<f64>> {
        self.in_order(|share, earlier| share.sum_behind(x, y, earlier))
    }
}
