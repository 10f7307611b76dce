//! The features of a table as codes: borders from a sample of its training rows.

use crate::column::{Column, FeatureType};
use crate::dataset::Input;
use crate::error::{Error, Result};
use crate::parallel::thread_pool::ThreadPool;
use crate::quantize::borders::{BorderParams, borders, sample_rows};
use crate::quantize::coded::CodedFeature;
/// The borders of every numeric column, fitted on a sample of the training rows by all threads;
/// those of columns that can split come with their index.
pub fn code_features(
    input: &Input<'_>,
    params: &BorderParams,
    pool: &ThreadPool,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(u32, CodedFeature)>> {
    let sample = training_sample(input, params);
    let coded = pool.deal(input.features.len(), Vec::new, |values, index| {
        let column = &input.features[index];
        let splits = *column.dtype() != FeatureType::Categorical && !interrupted();
        splits.then(|| code_feature(column, &sample, params, values).map(|f| (index as u32, f))).flatten()
    });
    if interrupted() {
        return Err(Error::Interrupted);
    }
    Ok(coded.into_iter().flatten().collect())
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
    let missing = values.iter().filter(|x| x.is_nan()).count();
    let most = params.borders();
    let mut found = borders(values, most, params.method);
    let mut missing_bin = true;
    if found.len() == 255 {
        // 256 codes of values leave none for missing ones.
        missing_bin = missing > 0 || has_missing(column);
        if missing_bin {
            found = borders(values, 254, params.method);
        }
    }
    let splits = !found.is_empty() || (missing > 0 && missing < values.len());
    splits.then_some(CodedFeature { borders: found, missing_bin, categories: false })
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
fn training_sample(input: &Input<'_>, params: &BorderParams) -> Vec<usize> {
    let rows = input.features[0].len();
    let size = params.sample;
    let Some(held_out) = input.held_out else { return sample_rows(rows, size, params.seed) };
    let training = held_out.iter().filter(|x| !**x).count();
    let mut wanted = sample_rows(training, size, params.seed).into_iter().peekable();
    (0..rows).filter(|r| !held_out[*r]).enumerate().filter_map(|(i, row)| wanted.next_if_eq(&i).map(|_| row)).collect()
}
