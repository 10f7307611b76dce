//! Statistics of categorical columns and of their combinations as features: their borders, and their codes by this
//! process's threads or by the device.

use super::{CategoricalFeatures, Kept, Origin};
use crate::dataset::{Input, Target};
use crate::encoding::ctr::{Ctr, CtrKind, CtrTarget, Prefix, combine_pair, ctr_borders, ctr_codes};
use crate::error::Result;
use crate::learners::boosting::ctrs::{CategoryCodes, CtrData, CtrFeature};
use crate::learners::boosting::model::CtrTable;
use crate::learners::boosting::params::{BoostingParams, CatMethod};
use crate::learners::boosting::steps::{CtrSteps, TreeSteps};
use crate::memory;
use crate::memory::{Reservation, product, sum};
use crate::quantize::borders::borders;
use crate::quantize::{BorderMethod, CodedFeature};
use std::borrow::Cow;

/// Borders of a statistic are found from so many rows.
const BORDER_SAMPLE: usize = 20_000;

/// The statistics of a column or of a combination.
struct Projection {
    columns: Vec<u32>,
    cardinality: usize,
    /// Of each statistic; empty for a constant one.
    borders: Vec<Vec<f64>>,
    codes: Vec<Option<Vec<u8>>>,
}

impl<'a> CategoricalFeatures<'a> {
    /// Returns rows that borders of statistics are found from.
    fn sample(&self) -> impl Iterator<Item = usize> + '_ {
        self.training.iter().step_by(self.training.len().div_ceil(BORDER_SAMPLE).max(1)).map(|r| *r as usize)
    }

    /// Returns the borders and the codes of a counter.
    pub(super) fn counter(&self, ctr: usize, codes: &[u32], cardinality: usize) -> (Vec<f64>, Vec<u8>) {
        let ctr = &self.ctrs[ctr];
        let totals = ctr.totals(codes, cardinality, &self.training, &self.target);
        let most = totals.iter().map(|t| t.n).max().unwrap_or(0);
        let sample = self.sample().map(|row| codes[row] as usize);
        let borders = ctr_borders(ctr, &totals, sample, 1.0, most, self.params.ctr_borders as usize);
        // All rows of a category have one.
        let by_category = ctr_codes(ctr, &totals, 1.0, most, &borders);
        (borders, codes.iter().map(|c| by_category[*c as usize]).collect())
    }

    /// Returns the codes of a column, or of a combination, numbered by first appearance, and how many there are.
    fn projection(&self, columns: &[u32]) -> (Cow<'a, [u32]>, usize) {
        let first = self.category(columns[0]);
        let mut codes = Cow::Borrowed(first.codes);
        let mut cardinality = first.cardinality;
        for column in &columns[1..] {
            let next = self.category(*column);
            let (combined, keys) = combine_pair(&codes, next.codes, next.cardinality);
            codes = Cow::Owned(combined);
            cardinality = keys.len();
        }
        (codes, cardinality)
    }

    /// Returns the statistics of a projection under a permutation: for each that is not constant its place in the list, its
    /// borders and its codes. `counters`: those too.
    fn codes(&self, columns: &[u32], order: usize, counters: bool) -> Projection {
        let (codes, cardinality) = self.projection(columns);
        let known = self.borders.get(columns);
        let mut found: Vec<Vec<f64>> = vec![vec![]; self.ctrs.len()];
        let mut made: Vec<Option<Vec<u8>>> = vec![None; self.ctrs.len()];
        for first in 0..self.ctrs.len() {
            let ctr = self.ctrs[first];
            if made[first].is_some() || (0..first).any(|i| self.ctrs[i].same_sums(&ctr)) {
                continue;
            }
            if ctr.kind == CtrKind::Counter {
                if counters {
                    let (borders, codes) = self.counter(first, &codes, cardinality);
                    (found[first], made[first]) = (borders, Some(codes));
                }
                continue;
            }
            let unit = ctr.unit(self.target.count);
            let sums = ctr.prefixes(&codes, cardinality, &self.orders[order], &self.target);
            // The first permutation decides on the borders, whichever is asked for first.
            let of_first = (known.is_none() && order > 0).then(|| ctr.prefixes(&codes, cardinality, &self.orders[0], &self.target));
            for i in (first..self.ctrs.len()).filter(|i| self.ctrs[*i].same_sums(&ctr)) {
                let ctr = &self.ctrs[i];
                found[i] = match known {
                    Some(known) => known[i].clone(),
                    None => {
                        let sums = of_first.as_ref().unwrap_or(&sums);
                        ctr_borders(ctr, sums, self.sample(), unit, 0, self.params.ctr_borders as usize)
                    }
                };
                made[i] = Some(ctr_codes(ctr, &sums, unit, 0, &found[i]));
            }
        }
        Projection { columns: columns.to_vec(), cardinality, borders: found, codes: made }
    }

    /// Adds the statistics of columns and combinations under a permutation as one group. `counters`: those too.
    pub(super) fn add_projections(
        &mut self,
        backend: &mut dyn TreeSteps,
        projections: Vec<Vec<u32>>,
        order: usize,
        counters: bool,
    ) -> Result<Kept> {
        if let Some(device) = backend.ctrs() {
            return self.add_on_device(device, projections, order, counters);
        }
        let reserved = self.reserve_codes(&projections, order, counters)?;
        let made = self.pool.deal(projections.len(), || (), |(), i| self.codes(&projections[i], order, counters));
        drop(reserved);
        let first = self.coded.len();
        let mut codes = vec![];
        for p in made {
            for (ctr, (borders, made)) in p.borders.iter().zip(p.codes).enumerate() {
                let Some(made) = made.filter(|_| !borders.is_empty()) else { continue };
                self.push_ctr(&p.columns, ctr, borders);
                codes.push(self.own.of(made));
            }
            self.cardinalities.insert(p.columns.clone(), p.cardinality);
            self.borders.entry(p.columns).or_insert(p.borders);
        }
        let group = backend.groups().add_group(&self.coded[first..], &codes)?;
        Ok(self.kept(group, first))
    }

    /// Reserves the codes of `projections` under an order, and the sums that every thread makes them from.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    fn reserve_codes(&self, projections: &[Vec<u32>], order: usize, counters: bool) -> Result<Reservation> {
        let (rows, count) = (self.rows as u64, projections.len() as u64);
        let statistics = self.ctrs.iter().filter(|c| counters || c.kind != CtrKind::Counter).count() as u64;
        let any_sums = self.ctrs.iter().any(|c| c.kind != CtrKind::Counter);
        // A number and a sum for each row; those of the first order besides, where it is to decide on the borders.
        let sums = if any_sums { size_of::<Prefix>() as u64 } else { 0 };
        let first = projections.iter().all(|columns| order > 0 && !self.borders.contains_key(columns)) as u64;
        let combined = if projections.iter().all(|columns| columns.len() > 1) { 4 } else { 0 };
        let at_once = count.min(self.pool.size() as u64);
        let bytes = product(&[rows, sum(&[product(&[count, statistics]), product(&[at_once, sums * (1 + first) + combined])])]);
        let what = format!("{statistics} statistics of {count} columns or combinations of categories in {rows} rows");
        memory::reserve(&what, bytes, "lower `max_combination` or `permutations`, use cat_method=\"partition\", or fit on fewer rows")
    }

    /// Returns the same with codes that the device makes.
    fn add_on_device(&mut self, device: &mut dyn CtrSteps, projections: Vec<Vec<u32>>, order: usize, counters: bool) -> Result<Kept> {
        self.find_borders(device, &projections, counters)?;
        let first = self.coded.len();
        let mut features = vec![];
        for columns in &projections {
            let found: Vec<(usize, Vec<f64>)> = self.borders.get(columns).into_iter().flatten().cloned().enumerate().collect();
            for (ctr, borders) in found.into_iter().filter(|(_, borders)| !borders.is_empty()) {
                self.push_ctr(columns, ctr, &borders);
                features.push(CtrFeature { columns: self.parts(columns), ctr });
            }
        }
        let sample: Vec<u32> = self.sample().map(|row| row as u32).collect();
        let group = device.add(&self.ctr_data(&sample), &self.coded[first..], &features, order)?;
        Ok(self.kept(group, first))
    }

    /// Finds the borders of those that have none yet, from the first permutation's statistics.
    fn find_borders(&mut self, device: &mut dyn CtrSteps, projections: &[Vec<u32>], counters: bool) -> Result<()> {
        let unknown: Vec<&Vec<u32>> = projections.iter().filter(|columns| !self.borders.contains_key(*columns)).collect();
        let sample: Vec<u32> = self.sample().map(|row| row as u32).collect();
        let data = self.ctr_data(&sample);
        let sums = unknown.iter().map(|columns| device.sample(&data, &self.parts(columns), 0, counters)).collect::<Result<Vec<_>>>()?;
        let count = self.ctrs.len();
        let borders = self.pool.deal(
            unknown.len() * count,
            || (),
            |(), i| {
                let (sums, ctr) = (&sums[i / count], &self.ctrs[i % count]);
                let values = &sums.sums[data.sums_of(i % count)];
                ctr_borders(ctr, values, 0..values.len(), ctr.unit(self.target.count), sums.most, self.params.ctr_borders as usize)
            },
        );
        for ((columns, sums), borders) in unknown.into_iter().zip(&sums).zip(borders.chunks(count.max(1))) {
            self.cardinalities.insert(columns.clone(), sums.cardinality);
            self.borders.insert(columns.clone(), borders.to_vec());
        }
        Ok(())
    }

    fn ctr_data<'s>(&'s self, sample: &'s [u32]) -> CtrData<'s> {
        CtrData { ctrs: &self.ctrs, target: &self.target, orders: &self.orders, sample }
    }

    /// Returns the columns of a combination.
    fn parts(&self, columns: &[u32]) -> Vec<CategoryCodes<'a>> {
        let part = |column: &u32| {
            let c = self.category(*column);
            CategoryCodes { column: c.column, codes: c.codes, cardinality: c.cardinality }
        };
        columns.iter().map(part).collect()
    }

    fn push_ctr(&mut self, columns: &[u32], ctr: usize, borders: &[f64]) {
        let coded = CodedFeature { borders: borders.to_vec(), missing_bin: false, categories: false };
        self.push(Origin::Ctr { columns: columns.to_vec(), ctr }, coded, columns.to_vec());
    }

    /// Returns the group of the features from `first` on.
    fn kept(&self, group: usize, first: usize) -> Kept {
        let count = self.coded.len() - first;
        // By row in blocks, and by feature.
        let bytes = self.rows * (count.next_multiple_of(8) + count);
        Kept { group, features: first as u32..self.coded.len() as u32, bytes, last_tree: self.tree }
    }

    /// Returns the statistics of columns and combinations over all training rows: of each those sums that are asked for.
    pub fn tables(&self, projections: &[&[u32]], sums: &[Vec<Ctr>]) -> Vec<CtrTable> {
        self.pool.deal(projections.len(), || (), |(), i| self.table(projections[i], &sums[i]))
    }

    fn table(&self, columns: &[u32], sums: &[Ctr]) -> CtrTable {
        let (codes, cardinality) = self.projection(columns);
        let counter = Ctr { kind: CtrKind::Counter, class: 0, prior: 0.0 };
        let count = counter.totals(&codes, cardinality, &self.training, &self.target);
        let sums = sums.iter().map(|ctr| ctr.totals(&codes, cardinality, &self.training, &self.target));
        let sums: Vec<Vec<u64>> = sums.map(|totals| totals.iter().map(|t| t.s).collect()).collect();
        let n: Vec<u32> = count.iter().map(|t| t.n).collect();
        if columns.len() == 1 {
            return CtrTable { features: columns.to_vec(), keys: vec![], n, sums };
        }
        let mut keys = vec![None; cardinality];
        for (row, code) in codes.iter().enumerate().filter(|(_, code)| n[**code as usize] > 0) {
            if keys[*code as usize].is_none() {
                let parts = columns.iter().map(|c| self.category(*c));
                keys[*code as usize] = Some(parts.fold(0, |key, c| key * c.cardinality as u64 + c.codes[row] as u64));
            }
        }
        // Combinations of held-out rows alone are as good as unseen.
        let mut order: Vec<(u64, usize)> = keys.into_iter().enumerate().filter_map(|(i, key)| key.map(|key| (key, i))).collect();
        order.sort_unstable();
        CtrTable {
            features: columns.to_vec(),
            keys: order.iter().map(|o| o.0).collect(),
            n: order.iter().map(|o| n[o.1]).collect(),
            sums: sums.iter().map(|s| order.iter().map(|o| s[o.1]).collect()).collect(),
        }
    }
}

/// Returns the statistics that parameters ask for, and what rows add to them.
pub(super) fn statistics(input: &Input<'_>, params: &BoostingParams, target: &[f64], training: &[u32], any: bool) -> (Vec<Ctr>, CtrTarget) {
    if !any || params.cat_method != CatMethod::Ctr {
        return (vec![], CtrTarget::numbers(&[], &[], &[], false));
    }
    let (kinds, target) = match &input.target {
        Target::Classes { codes, labels } => {
            let kinds = params.ctr_kinds(true);
            let scaled = kinds.contains(&CtrKind::FloatTargetMeanValue);
            (kinds, CtrTarget::classes(codes, labels.len(), scaled))
        }
        Target::Numbers(_) | Target::Several(_) => {
            let step = training.len().div_ceil(params.border_sample.min(usize::MAX as u64) as usize).max(1);
            let sample: Vec<f64> = training.iter().step_by(step).map(|r| target[*r as usize]).collect();
            let kinds = params.ctr_kinds(false);
            let cut = borders(&sample, params.target_borders as usize, BorderMethod::Quantile);
            let scaled = kinds.contains(&CtrKind::FloatTargetMeanValue);
            (kinds, CtrTarget::numbers(target, training, &cut, scaled))
        }
    };
    let mut ctrs = vec![];
    for kind in kinds {
        let classes = match kind {
            CtrKind::Borders => target.count.saturating_sub(1),
            CtrKind::Buckets => target.count,
            _ => 1,
        };
        for class in 0..classes {
            // A prior only shifts a counter.
            let priors = if kind == CtrKind::Counter { &params.ctr_priors[..1] } else { &params.ctr_priors[..] };
            ctrs.extend(priors.iter().map(|prior| Ctr { kind, class: class as u8, prior: *prior }));
        }
    }
    (ctrs, target)
}
