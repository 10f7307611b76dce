//! `fit_gbdt_by`: a model for each group of a frame's rows, in one call.
//!
//! In a `group_by` Polars calls a fit once for each group, from its own threads. Here one call has all groups: they are dealt to all threads, and where
//! a GPU is taken the trees of many groups grow there together. Each model is that of its group alone, byte for byte.

use crate::categories;
use crate::columns;
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::{FitKwargs, MANY, Parts, Wanted};
use crate::gbdt::{self, GivenTable};
use crate::monitor::{self, Watch};
use crate::row_key::{Description, Keyed};
use crate::threads::{FitThreads, default_threads, on_all_threads};
use polars::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use taiga_engine::dataset::Input;
use taiga_engine::dataset::Monitor;
use taiga_engine::dataset::row_groups::RowGroups;
use taiga_engine::encoding::combine::combine;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, ManyFits, ManyTables};
use taiga_engine::parallel::pools;
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::provenance::LabelType;

const FUNCTION: &str = "fit_gbdt_by";

/// The name of the models beside the keys.
const MODEL: &str = "model";

/// Checks that a column of this type can say which rows are fitted together.
fn check_key(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if name == MODEL {
        let text = format!("column `{name}`: the models have that name; give the key another by `alias`");
        return Err(PolarsError::Duplicate(text.into()));
    }
    if categories::is_category(dtype) || dtype.is_temporal() {
        return Ok(());
    }
    let text =
        format!("its type is {dtype}, which can't say which rows are fitted together; an integer, text, a Boolean, a date or a time can");
    Err(errors::mistyped(name, text))
}

/// The columns that say which rows are fitted together.
fn keys_of(series: &Series) -> PolarsResult<Vec<Series>> {
    let keys = columns::unnest(std::slice::from_ref(series))?;
    keys.iter().try_for_each(|key| check_key(key.name(), key.dtype()))?;
    Ok(keys)
}

/// Groups rows by their keys, null being a value as any other.
fn groups_of(keys: &[Series]) -> PolarsResult<RowGroups> {
    let group = || -> PolarsResult<RowGroups> {
        let plain: Vec<Series> =
            keys.iter().map(|key| if key.dtype().is_temporal() { key.to_physical_repr().into_owned() } else { key.clone() }).collect();
        let codes = plain.iter().map(categories::codes).collect::<PolarsResult<Vec<_>>>()?;
        if let [one] = &codes[..] {
            return Ok(RowGroups::of_codes(&one.codes, one.categories()));
        }
        let views: Vec<(&[u32], usize)> = codes.iter().map(|c| (&c.codes[..], c.categories())).collect();
        let (codes, count) = combine(&views).map_err(errors::compute)?;
        Ok(RowGroups::of_codes(&codes, count))
    };
    if keys.first().is_some_and(|key| key.len() >= MANY) { on_all_threads(group) } else { group() }
}

fn models_field(inputs: &[Field], kwargs: FitKwargs) -> PolarsResult<Field> {
    errors::guarded(FUNCTION, || {
        gbdt::checked(inputs[0].dtype(), &kwargs)?;
        let DataType::Struct(keys) = inputs[1].dtype() else { return Err(errors::data("the keys are no columns")) };
        keys.iter().try_for_each(|key| check_key(key.name(), key.dtype()))?;
        let fields = keys.iter().cloned().chain([Field::new(MODEL.into(), DataType::Binary)]).collect();
        Ok(Field::new("models".into(), DataType::Struct(fields)))
    })
}

/// The parts of a frame's groups, and how they are fitted.
struct Groups<'a> {
    parts: Parts,
    keys: Vec<Series>,
    groups: RowGroups,
    kwargs: &'a FitKwargs,
    params: BoostingParams,
    watch: Watch,
    /// Groups that are fitted, and the first that has failed.
    done: AtomicUsize,
    failed: AtomicUsize,
}

/// The models of groups, by their numbers.
type Models = Vec<(usize, Option<Vec<u8>>)>;

/// The first group that can't be fitted, and why.
type Failed = (usize, PolarsError);

impl Groups<'_> {
    /// Returns the rows of a group, in the order of their keys where they have some (`row_key`).
    fn parts(&self, group: usize) -> PolarsResult<Parts> {
        let rows = self.groups.range(group);
        let own = self.parts.columns().map(|s| s.slice(rows.start as i64, rows.len())).collect();
        let own = self.parts.with_columns(own)?;
        // That of a fit alone, whose receipt it is.
        let describe = || Description::new("fit_gbdt", &self.params.described().to_json(), None);
        Ok(Keyed::new(&own, Some(&describe))?.map_or(own, |keyed| keyed.parts))
    }

    /// Returns the values of a group's keys in words.
    fn name(&self, group: usize) -> String {
        let row = self.groups.rows(group)[0] as usize;
        let of = |key: &Series| format!("`{}` is {}", key.name(), key.get(row).map_or("?".into(), |value| errors::shown(&value)));
        self.keys.iter().map(of).collect::<Vec<_>>().join(" and ")
    }

    /// Fits the models of some groups, by so many threads each.
    fn fit(&self, fits: &ManyFits<'_>, groups: &[usize], threads: u32) -> Result<Models, Failed> {
        let parts = groups.iter().map(|group| self.parts(*group)).collect::<Vec<_>>();
        let tables: Vec<PolarsResult<GivenTable<'_>>> = parts
            .iter()
            .map(|parts| match parts {
                Ok(parts) => GivenTable::new(parts, self.params.clone(), FUNCTION, Wanted::Model),
                Err(_) => Err(errors::data("")),
            })
            .collect();
        let inputs: Vec<Input<'_>> = tables.iter().flatten().map(|table| table.input()).collect();
        let mut fitted =
            fits.fit(&inputs, threads, &self.watch).map_err(|error| self.failed(groups[0], errors::compute(error)))?.into_iter();
        drop(inputs);
        let mut models = Vec::with_capacity(groups.len());
        for ((group, parts), table) in groups.iter().zip(&parts).zip(tables) {
            let model = match (parts, table) {
                (Ok(parts), Ok(table)) => match fitted.next() {
                    Some(Ok(model)) => self.bytes(parts, model, table.label_type()),
                    Some(Err(error)) => Err(errors::compute(error)),
                    None => Err(errors::data("a group was not fitted")),
                },
                (Ok(_), Err(error)) => Err(error),
                (Err(error), _) => Err(errors::again(error)),
            };
            models.push((*group, self.given(*group, parts, model).map_err(|error| self.failed(*group, error))?));
        }
        let done = self.done.fetch_add(groups.len(), Ordering::Relaxed) + groups.len();
        self.watch.round(done as u32, self.groups.len() as u32, None);
        Ok(models)
    }

    /// Returns the bytes of a group's model.
    fn bytes(&self, parts: &Parts, mut model: Model, labels: Option<LabelType>) -> PolarsResult<Vec<u8>> {
        model.provenance = parts.provenance(labels, vec![]);
        model.provenance.metadata = self.kwargs.metadata()?;
        Ok(model.to_bytes())
    }

    /// Notes that a group can't be fitted.
    fn failed(&self, group: usize, error: PolarsError) -> Failed {
        self.failed.fetch_min(group, Ordering::Relaxed);
        (group, error)
    }

    /// Returns what a group's model is, or what stands for it by `on_error`; an error says which group it is of.
    fn given(&self, group: usize, parts: &PolarsResult<Parts>, model: PolarsResult<Vec<u8>>) -> PolarsResult<Option<Vec<u8>>> {
        let in_group = |error: PolarsError| {
            let text = format!("where {}: {}", self.name(group), errors::text(&error));
            errors::with_text(&error, text)
        };
        let on_error = self.kwargs.on_error;
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => {
                let rows = self.groups.range(group);
                let target = self.parts.target.slice(rows.start as i64, rows.len());
                return on_error.apply(&target, |_| Err(errors::again(error))).map_err(in_group);
            }
        };
        let model = Cell::new(Some(model));
        let fit = |wanted: Wanted| match (wanted, model.take()) {
            (Wanted::Model, Some(model)) => model,
            _ => {
                let table = GivenTable::new(parts, self.params.clone(), FUNCTION, wanted)?;
                let constant = taiga_engine::learners::boosting::constant(&table.input(), &table.params).map_err(errors::compute)?;
                self.bytes(parts, constant, table.label_type())
            }
        };
        on_error.apply(&parts.target, fit).map_err(in_group)
    }
}

/// The parts with the rows of each group next to each other.
fn grouped(parts: Parts, groups: &RowGroups) -> PolarsResult<Parts> {
    let rows = groups.all_rows();
    if rows.iter().enumerate().all(|(place, row)| place as u32 == *row) {
        return Ok(parts);
    }
    on_all_threads(|| parts.taken(rows))
}

/// For each group of rows that have the same keys, in the order of their first rows, the keys and the model.
fn fit_gbdt_by(inputs: &[Series], kwargs: FitKwargs) -> Answer {
    monitor::expression(FUNCTION, true, || {
        pools::keep_to_this_thread();
        let params = gbdt::checked(inputs[0].dtype(), &kwargs)?;
        let (parts, keys) = (Parts::new(&inputs[..1])?, keys_of(&inputs[1])?);
        // A literal is the key of all rows.
        let rows = parts.target.len();
        let keys: Vec<Series> = keys.into_iter().map(|key| if key.len() == 1 { key.new_from_index(0, rows) } else { key }).collect();
        keys.iter().try_for_each(|key| parts.check_length(key))?;
        parts.features.iter().chain(parts.roles()).try_for_each(|column| parts.check_length(column))?;
        let groups = groups_of(&keys)?;
        let parts = grouped(parts, &groups)?;
        let (count, features) = (groups.len(), parts.features.len());
        let asked = params.n_threads.map_or_else(default_threads, |n| n as usize);
        let tables = ManyTables { count, rows: rows / count.max(1), features, threads: asked };
        let watch = Watch::new(FUNCTION, "models", kwargs.progress);
        let resolved = gbdt::resolved(&parts.target, params.clone())?;
        let fits = ManyFits::new(&resolved, tables, &watch).map_err(errors::compute)?;
        let kwargs = &kwargs;
        let all = Groups {
            parts,
            keys,
            groups,
            kwargs,
            params: params.clone(),
            watch,
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(usize::MAX),
        };
        // Groups of more than a thread's share of all rows have all threads, one after the other; the others one each. So have those that would
        // be left when all threads have had as many, where several threads are of use.
        let serves = |group: usize| FitThreads::serve(all.groups.range(group).len() * features);
        let is_large = |group: usize| serves(group) && all.groups.range(group).len() * asked > all.groups.all_rows().len();
        let (mut large, mut small): (Vec<usize>, Vec<usize>) = (0..count).partition(|group| is_large(*group));
        if fits.at_once() == 1 {
            let left = small.split_off(small.len() - small.len() % asked);
            let (shared, alone): (Vec<usize>, Vec<usize>) = left.into_iter().partition(|group| serves(*group));
            large.extend(shared);
            small.extend(alone);
        }
        // What comes behind a group that has failed is not begun; so the error is always that of the first.
        let fit = |groups: &[usize], threads: u32| {
            if all.failed.load(Ordering::Relaxed) < groups[0] { Ok(vec![]) } else { all.fit(&fits, groups, threads) }
        };
        let mut fitted: Vec<Result<Models, Failed>> = large.into_iter().map(|group| fit(&[group], asked as u32)).collect();
        let blocks: Vec<&[usize]> = small.chunks(fits.at_once()).collect();
        let pool = ThreadPool::new(asked.min(blocks.len())).map_err(errors::compute)?;
        fitted.extend(pool.deal(blocks.len(), || (), |(), block| fit(blocks[block], 1)));
        let (mut models, mut failed): (Models, Option<Failed>) = (vec![], None);
        for of_block in fitted {
            match of_block {
                Ok(of_block) => models.extend(of_block),
                Err(one) => failed = Some(failed.filter(|other| other.0 < one.0).unwrap_or(one)),
            }
        }
        if let Some((_, error)) = failed {
            return Err(error);
        }
        models.sort_unstable_by_key(|(group, _)| *group);
        let firsts: Vec<IdxSize> = (0..count).map(|group| all.groups.rows(group)[0]).collect();
        let mut fields = all.keys.iter().map(|key| key.rechunk().take_slice(&firsts)).collect::<PolarsResult<Vec<Series>>>()?;
        fields.push(BinaryChunked::from_iter_options(MODEL.into(), models.into_iter().map(|(_, model)| model)).into_series());
        Ok(StructChunked::from_series("models".into(), count, fields.iter())?.into_series())
    })
}

export!(fit_gbdt_by, models_field, FitKwargs, Length::Any);
