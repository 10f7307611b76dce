//! The features of a table as codes: borders from a sample of its training rows.

use crate::collective::{bytes_of, fault};
use crate::column::{Column, FeatureType};
use crate::dataset::Batches;
use crate::dataset::{Input, OwnRows};
use crate::error::{Error, Result};
use crate::memory::{self, product};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::borders::{BorderParams, borders, sample_rows};
use crate::quantize::coded::CodedFeature;

/// How the borders of a table's features are fitted: all alike but for the numbers of bins.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureBorders {
    common: BorderParams,
    /// The largest number of bins of each column; empty where it is the same for all.
    bins: Vec<usize>,
}

impl FeatureBorders {
    /// Returns those whose columns have at most so many bins each, and else what is common to all.
    pub fn new(common: BorderParams, bins: Vec<usize>) -> FeatureBorders {
        FeatureBorders { common, bins }
    }

    /// Returns how the borders of a column are fitted.
    pub fn of(&self, column: usize) -> BorderParams {
        BorderParams { bins: self.bins.get(column).copied().unwrap_or(self.common.bins), ..self.common }
    }

    /// Returns the largest number of borders that any column may have.
    fn most(&self) -> usize {
        self.bins.iter().copied().max().unwrap_or(self.common.bins).saturating_sub(1)
    }
}

impl From<BorderParams> for FeatureBorders {
    fn from(common: BorderParams) -> FeatureBorders {
        FeatureBorders { common, bins: vec![] }
    }
}

/// Numbers of a sample that a process sends at a time.
const SAMPLE_NUMBERS: usize = 8 << 20;

/// What one process tells the others of a feature: its column, and its borders and whether there is a bin of missing values; none where it
/// can't split.
type Found = (u32, Option<(Vec<f64>, bool)>);

/// Finds the borders of every numeric column, fitted on a sample of the training rows by all threads;
/// those of columns that can split come with their index.
pub fn code_features(
    input: &Input<'_>,
    own: &OwnRows<'_>,
    params: &FeatureBorders,
    pool: &ThreadPool,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(u32, CodedFeature)>> {
    let sample = training_sample(input, params);
    if !own.is_whole() {
        return code_together(input, own, &sample, params, pool, interrupted);
    }
    let coded = pool.deal(input.features.len(), Vec::new, |values, index| {
        let column = &input.features[index];
        let splits = *column.dtype() != FeatureType::Categorical && !interrupted();
        splits.then(|| code_feature(column, &sample, &params.of(index), values).map(|f| (index as u32, f))).flatten()
    });
    if interrupted() {
        return Err(Error::Interrupted);
    }
    Ok(coded.into_iter().flatten().collect())
}

/// The same where some of the numeric columns come in batches: one pass over these gathers the sample's rows of each. `keep` is called with the
/// columns of each batch, in order of the rows.
///
/// # Errors
/// Those of [`Batches::read`], and of `keep`; [`Error::Memory`] where the sample has no room.
pub fn code_batches(
    input: &Input<'_>,
    batches: Batches<'_>,
    params: &FeatureBorders,
    pool: &ThreadPool,
    interrupted: &(dyn Fn() -> bool + Sync),
    keep: &mut dyn FnMut(&[Column<'_>]) -> Result<()>,
) -> Result<Vec<(u32, CodedFeature)>> {
    let (sample, columns) = (training_sample(input, params), batches.columns());
    let what = format!("the values of {} rows that the borders of {} features are fitted on", sample.len(), columns.len());
    let _reserved = memory::reserve(&what, product(&[8, sample.len() as u64, columns.len() as u64]), "lower `border_sample`")?;
    let mut values: Vec<Vec<f64>> = columns.iter().map(|_| Vec::with_capacity(sample.len())).collect();
    let mut missing = vec![false; columns.len()];
    // Whether rows outside of the sample are missing is asked of columns with so many borders alone.
    let asks = params.most() >= 255;
    let mut next = 0;
    batches.read(pool, interrupted, &mut |first, columns| {
        let rows = first..first + columns.first().map_or(0, Column::len);
        let end = next + sample[next..].partition_point(|row| *row < rows.end);
        let here: Vec<usize> = sample[next..end].iter().map(|row| row - rows.start).collect();
        next = end;
        let of_column = |column: &Column<'_>| (column.gather_f64(&here), asks && has_missing(column));
        let found = pool.deal(columns.len(), || (), |(), k| of_column(&columns[k]));
        for ((values, missing), (own, is_missing)) in values.iter_mut().zip(&mut missing).zip(found) {
            values.extend(own);
            *missing |= is_missing;
        }
        keep(columns)
    })?;
    let coded = pool.deal(input.features.len(), Vec::new, |memory, index| {
        let column = &input.features[index];
        if *column.dtype() == FeatureType::Categorical || interrupted() {
            return None;
        }
        let coded = match batches.place(index as u32) {
            Some(k) => code_sample(&values[k], &params.of(index), || missing[k]),
            None => code_feature(column, &sample, &params.of(index), memory),
        };
        coded.map(|feature| (index as u32, feature))
    });
    if interrupted() { Err(Error::Interrupted) } else { Ok(coded.into_iter().flatten().collect()) }
}

/// `values`: memory to use.
fn code_feature(column: &Column<'_>, sample: &[usize], params: &BorderParams, values: &mut Vec<f64>) -> Option<CodedFeature> {
    if sample.len() == column.len() {
        values.resize(sample.len(), 0.0);
        column.read_f64(0, values);
    } else {
        values.clear();
        values.extend(column.gather_f64(sample));
    }
    code_sample(values, params, || has_missing(column))
}

/// The borders of a feature by its values in the sample; none of one that can't split. `has_missing`: whether other rows are missing.
fn code_sample(values: &[f64], params: &BorderParams, has_missing: impl FnOnce() -> bool) -> Option<CodedFeature> {
    let missing = values.iter().filter(|x| x.is_nan()).count();
    let most = params.borders();
    let mut found = borders(values, most, params.method);
    let mut missing_bin = true;
    if found.len() == 255 {
        // 256 codes of values leave none for missing ones.
        missing_bin = missing > 0 || has_missing();
        if missing_bin {
            found = borders(values, 254, params.method);
        }
    }
    let splits = !found.is_empty() || (missing > 0 && missing < values.len());
    splits.then_some(CodedFeature { borders: found, missing_bin, categories: false })
}

/// The same where rows lie in several processes: each finds the borders of some features, whose sampled values all others send it.
fn code_together(
    input: &Input<'_>,
    own: &OwnRows<'_>,
    sample: &[usize],
    params: &FeatureBorders,
    pool: &ThreadPool,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(u32, CodedFeature)>> {
    let (rank, world) = (own.collective.rank(), own.collective.world());
    let numeric: Vec<usize> = (0..input.features.len()).filter(|i| *input.features[*i].dtype() != FeatureType::Categorical).collect();
    let here = own.here(sample);
    let mut missing = vec![0; numeric.len()];
    if params.most() >= 255 {
        missing = pool.deal(numeric.len(), || (), |(), k| has_missing(&input.features[numeric[k]]) as u32);
        own.collective.max(&mut missing)?;
    }
    let mut all = vec![];
    // As many features at a time as keep messages short, and a multiple of the processes.
    let at_once = (SAMPLE_NUMBERS / sample.len().max(1)).max(1) * world;
    for (first, features) in (0..).step_by(at_once).zip(numeric.chunks(at_once)) {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        let of_rank = |rank: usize| (rank..features.len()).step_by(world);
        let values = pool.deal(features.len(), || (), |(), k| bytes_of(&input.features[features[k]].gather_f64(&here)));
        let pieces: Vec<Vec<u8>> = (0..world).map(|to| of_rank(to).map(|k| &values[k][..]).collect::<Vec<_>>().concat()).collect();
        drop(values);
        let received = own.collective.exchange_with_others(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        let mine: Vec<usize> = of_rank(rank).collect();
        let from_all: Vec<&[u8]> = (0..world).map(|from| if from == rank { &pieces[rank] } else { &received[from] }.as_slice()).collect();
        if from_all.iter().any(|bytes| bytes.len() % (8 * mine.len()).max(1) != 0) {
            return Err(fault("a process sends a sample that is not one of all features"));
        }
        let coded = pool.deal(mine.len(), Vec::new, |values, i| {
            values.clear();
            for bytes in &from_all {
                let size = bytes.len() / mine.len();
                values.extend(bytes[i * size..][..size].as_chunks::<8>().0.iter().map(|x| f64::from_le_bytes(*x)));
            }
            code_sample(values, &params.of(features[mine[i]]), || missing[first + mine[i]] > 0)
        });
        let coded: Vec<Found> =
            mine.iter().zip(coded).map(|(k, coded)| (features[*k] as u32, coded.map(|c| (c.borders, c.missing_bin)))).collect();
        let bytes = postcard::to_allocvec(&coded).map_err(|error| fault(error.to_string()))?;
        for bytes in own.collective.gather_bytes(&bytes)? {
            let of_rank: Vec<Found> =
                postcard::from_bytes(&bytes).map_err(|error| fault(format!("borders that can't be read: {error}")))?;
            let coded = |(borders, missing_bin)| CodedFeature { borders, missing_bin, categories: false };
            all.extend(of_rank.into_iter().filter_map(|(index, found)| Some((index, coded(found?)))));
        }
    }
    all.sort_by_key(|(index, _)| *index);
    Ok(all)
}

fn has_missing(column: &Column<'_>) -> bool {
    let mut buffer = [0.0; 1024];
    (0..column.len()).step_by(1024).any(|start| {
        let out = &mut buffer[..1024.min(column.len() - start)];
        column.read_f64(start, out);
        out.iter().any(|x| x.is_nan())
    })
}

/// The rows that borders are fitted on.
fn training_sample(input: &Input<'_>, params: &FeatureBorders) -> Vec<usize> {
    let rows = input.target.rows();
    let (size, seed) = (params.common.sample, params.common.seed);
    let Some(held_out) = input.held_out else { return sample_rows(rows, size, seed) };
    let training = held_out.iter().filter(|x| !**x).count();
    let mut wanted = sample_rows(training, size, seed).into_iter().peekable();
    (0..rows).filter(|r| !held_out[*r]).enumerate().filter_map(|(i, row)| wanted.next_if_eq(&i).map(|_| row)).collect()
}
