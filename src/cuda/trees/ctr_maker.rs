//! Makes the statistics of categories of a fit on the device, and keeps what it has brought there.
//!
//! ```text
//! columns, once ─► combinations ─► sorted by category under an order ─► sums before each row ─► codes, into a group
//!                                                                       └─► at the sample's rows, to the host: borders
//! ```

use super::ctr::{DeviceOrder, DevicePrefixes, SortedCategories, codes_into, counts};
use crate::columns::categories::DeviceCodes;
use crate::columns::codes::CodePlace;
use crate::columns::combine::pair;
use crate::runtime::queue::Queue;
use crate::runtime::upload::upload;
use cudarc::driver::CudaSlice;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use taiga_core::encoding::ctr::CtrKind;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::ctrs::{CategoryCodes, CtrData, CtrFeature, CtrSample};
use taiga_core::quantize::CodedFeature;

/// Sums and combinations that stay for later may take this share of the device's memory, each.
const SHARE: u64 = 16;

/// The sums of a column or a combination under an order.
struct CategorySums {
    /// By the statistic's place in the list, the first of those that share them.
    by_ctr: BTreeMap<usize, DevicePrefixes>,
    most: u32,
}

impl CategorySums {
    fn bytes(&self) -> u64 {
        self.by_ctr.values().map(|p| p.bytes() as u64).sum()
    }
}

/// What a fit's statistics are made from, as far as it is on the device.
#[derive(Default)]
pub struct CtrMaker {
    /// By columns; combinations among them, as long as there is room.
    codes: BTreeMap<Vec<u32>, DeviceCodes>,
    combined: u64,
    orders: BTreeMap<usize, DeviceOrder>,
    sample: Option<DeviceOrder>,
    /// By the statistic's place in the list.
    addends: BTreeMap<usize, CudaSlice<u32>>,
    /// Sums that were made for the sample and will be wanted for codes.
    kept: BTreeMap<(Vec<u32>, usize), CategorySums>,
    kept_bytes: u64,
}

fn names(columns: &[CategoryCodes<'_>]) -> Vec<u32> {
    columns.iter().map(|c| c.column).collect()
}

impl CtrMaker {
    /// See [`taiga_core::learners::boosting::steps::CtrSteps::sample`].
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn sample(
        &mut self,
        queue: &Queue,
        data: &CtrData<'_>,
        columns: &[CategoryCodes<'_>],
        order: usize,
        counters: bool,
    ) -> Result<CtrSample> {
        let wanted: Vec<usize> =
            (0..data.ctrs.len()).filter(|i| data.sums_of(*i) == *i && (counters || data.ctrs[*i].kind != CtrKind::Counter)).collect();
        let (sums, cardinality) = self.sums(queue, data, columns, order, &wanted)?;
        if self.sample.is_none() {
            self.sample = Some(DeviceOrder::new(queue, data.sample, data.target.classes.len())?);
        }
        let mut at = vec![vec![]; data.ctrs.len()];
        if let Some(sample) = &self.sample {
            for (ctr, prefixes) in &sums.by_ctr {
                at[*ctr] = prefixes.at(queue, sample)?;
            }
        }
        let (most, bytes) = (sums.most, sums.bytes());
        if self.kept_bytes + bytes <= queue.gpu().total_memory() / SHARE {
            self.kept_bytes += bytes;
            self.kept.insert((names(columns), order), sums);
        }
        Ok(CtrSample { cardinality, most, sums: at })
    }

    /// See [`taiga_core::learners::boosting::steps::CtrSteps::add`]: the codes of feature `i` go to `place(i)` of `out`. Does not wait.
    ///
    /// # Errors
    /// [`Error::Device`].
    #[allow(clippy::too_many_arguments)]
    pub fn codes(
        &mut self,
        queue: &Queue,
        data: &CtrData<'_>,
        features: &[CodedFeature],
        ctrs: &[CtrFeature<'_>],
        order: usize,
        out: &mut CudaSlice<u8>,
        place: &dyn Fn(usize) -> CodePlace,
    ) -> Result<()> {
        let mut first = 0;
        for of_columns in ctrs.chunk_by(|a, b| names(&a.columns) == names(&b.columns)) {
            let columns = &of_columns[0].columns;
            let kept = self.kept.remove(&(names(columns), order));
            let sums = match kept {
                Some(sums) => {
                    self.kept_bytes -= sums.bytes();
                    sums
                }
                None => {
                    let mut wanted: Vec<usize> = of_columns.iter().map(|f| data.sums_of(f.ctr)).collect();
                    wanted.sort_unstable();
                    wanted.dedup();
                    self.sums(queue, data, columns, order, &wanted)?.0
                }
            };
            for (feature, i) in of_columns.iter().zip(first..) {
                let ctr = &data.ctrs[feature.ctr];
                let Some(prefixes) = sums.by_ctr.get(&data.sums_of(feature.ctr)) else {
                    return Err(Error::Data("a statistic whose sums were not made".into()));
                };
                codes_into(queue, ctr, prefixes, ctr.unit(data.target.count), sums.most, &features[i].borders, out, place(i))?;
            }
            first += of_columns.len();
        }
        Ok(())
    }

    /// The sums of the wanted statistics, and how many categories there are.
    fn sums(
        &mut self,
        queue: &Queue,
        data: &CtrData<'_>,
        columns: &[CategoryCodes<'_>],
        order: usize,
        wanted: &[usize],
    ) -> Result<(CategorySums, usize)> {
        let rows = data.target.classes.len();
        // Keys and rows twice, sums; and as many codes twice for a combination.
        queue.check_memory("statistics of categories", rows as u64 * (16 + 12 * wanted.len() as u64 + 24))?;
        for ctr in wanted {
            if let Entry::Vacant(place) = self.addends.entry(*ctr) {
                place.insert(upload(queue, "the target", &data.target.addends(&data.ctrs[*ctr]))?);
            }
        }
        if let Entry::Vacant(place) = self.orders.entry(order) {
            place.insert(DeviceOrder::new(queue, &data.orders[order], rows)?);
        }
        let name = names(columns);
        let made = self.bring(queue, columns)?;
        let Some(codes) = made.as_ref().or_else(|| self.codes.get(&name)) else {
            return Err(Error::Data("columns that were not brought to the device".into()));
        };
        let sorted = SortedCategories::new(queue, codes, &self.orders[&order])?;
        let mut sums = CategorySums { by_ctr: BTreeMap::new(), most: 0 };
        let mut totals = None;
        for ctr in wanted.iter().filter(|ctr| data.ctrs[**ctr].kind != CtrKind::Counter) {
            let (prefixes, of_categories) = sorted.sums(queue, codes, &self.addends[ctr])?;
            sums.by_ctr.insert(*ctr, prefixes);
            totals = Some(of_categories);
        }
        for ctr in wanted.iter().filter(|ctr| data.ctrs[**ctr].kind == CtrKind::Counter) {
            let of_categories = match totals.take() {
                Some(of_categories) => of_categories,
                None => sorted.sums(queue, codes, &self.addends[ctr])?.1,
            };
            let (prefixes, most) = counts(queue, codes, &of_categories)?;
            sums.by_ctr.insert(*ctr, prefixes);
            sums.most = most;
        }
        let categories = codes.categories;
        if let Some(made) = made {
            self.keep(queue, name, made);
        }
        Ok((sums, categories))
    }

    /// Brings single columns to the device, where they stay; gives a combination that is not there yet.
    fn bring(&mut self, queue: &Queue, columns: &[CategoryCodes<'_>]) -> Result<Option<DeviceCodes>> {
        if self.codes.contains_key(&names(columns)) {
            return Ok(None);
        }
        for c in columns {
            if let Entry::Vacant(place) = self.codes.entry(vec![c.column]) {
                place.insert(DeviceCodes::new(queue, "the categories", c.codes, c.cardinality)?);
            }
        }
        if columns.len() < 2 {
            return Ok(None);
        }
        let one = |c: &CategoryCodes<'_>| &self.codes[&[c.column][..]];
        let mut combined = pair(queue, one(&columns[0]), one(&columns[1]))?;
        for next in &columns[2..] {
            combined = pair(queue, &combined, one(next))?;
        }
        Ok(Some(combined))
    }

    /// Keeps a combination, where there is room.
    fn keep(&mut self, queue: &Queue, columns: Vec<u32>, codes: DeviceCodes) {
        let bytes = 4 * codes.rows as u64;
        if self.combined + bytes <= queue.gpu().total_memory() / SHARE {
            self.combined += bytes;
            self.codes.insert(columns, codes);
        }
    }
}
