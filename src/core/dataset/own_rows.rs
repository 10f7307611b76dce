//! The rows of a table whose numbers this process has, where a fit's rows lie in several processes.
//!
//! Of a table what is wide lies in shards: the numeric features, of which each process has those of its own consecutive rows. What is
//! narrow every process has of all rows: the target, weights, marks of held-out rows, and the codes of categorical columns. So checks, units,
//! start values and metrics are computed as one process would, by the same lines, and the expensive part is divided.

use super::Input;
use crate::collective::{Alone, Collective, RowShard, bytes_of, fault, numbers_of};
use crate::column::{Chunk, Column, FeatureType, Values};
use crate::device::DeviceSet;
use crate::error::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// The rows of a table whose numeric features this process has, and whom it shares the others with.
#[derive(Clone, Copy)]
pub struct OwnRows<'a> {
    pub collective: &'a dyn Collective,
    /// The table's rows before these.
    pub first: usize,
    pub count: usize,
}

impl<'a> OwnRows<'a> {
    /// Returns all `count` rows of a table.
    pub fn whole(count: usize) -> OwnRows<'a> {
        OwnRows { collective: &Alone, first: 0, count }
    }

    /// Returns whether there are no other processes.
    pub fn is_whole(&self) -> bool {
        self.collective.world() == 1
    }

    /// Returns their numbers in the table.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    /// Returns these rows as the shard of a table of `all`.
    pub fn shard(&self, all: usize) -> RowShard<'a> {
        RowShard { collective: self.collective, first: self.first, all }
    }

    /// Returns the rows of a table that are left of these, where `rows` (ascending) are left of all.
    pub fn among(&self, rows: &[usize]) -> OwnRows<'a> {
        let before = |row: usize| rows.partition_point(|r| *r < row);
        let first = before(self.first);
        OwnRows { first, count: before(self.first + self.count) - first, ..*self }
    }

    /// Returns those of `rows` (ascending) that are among these, counted from the first of these.
    pub fn here<'r>(&self, rows: &'r [usize]) -> Cow<'r, [usize]> {
        if self.is_whole() {
            return Cow::Borrowed(rows);
        }
        let place = |row: usize| rows.partition_point(|r| *r < row);
        Cow::Owned(rows[place(self.first)..place(self.first + self.count)].iter().map(|row| row - self.first).collect())
    }

    /// Takes these rows of what there is of all.
    pub fn of<T: Clone>(&self, all: Vec<T>) -> Vec<T> {
        if self.count == all.len() { all } else { all[self.range()].to_vec() }
    }

    /// Returns the rows of each process.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn of_each(&self) -> Result<Vec<Range<usize>>> {
        let own = bytes_of(&[self.first as f64, self.count as f64]);
        let each = self.collective.gather_bytes(&own)?;
        let range = |bytes: &Vec<u8>| match numbers_of(bytes)?[..] {
            [first, count] => Ok(first as usize..first as usize + count as usize),
            _ => Err(fault("a process does not say which rows it has")),
        };
        each.iter().map(range).collect()
    }
}

/// Checks that the processes have the rows of a table of `all` between them, in the order of their ranks.
///
/// # Errors
/// Naming the first rank that has others.
pub fn check(own: &OwnRows<'_>, all: usize) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    let mut next = 0;
    for (rank, rows) in own.of_each()?.into_iter().enumerate() {
        if rows.start != next {
            return Err(fault(format!("the rows of rank {rank} begin with row {}, and those before it end with row {next}", rows.start)));
        }
        next = rows.end;
    }
    if next == all { Ok(()) } else { Err(fault(format!("the processes have {next} rows, and the target has {all}"))) }
}

/// Checks that all processes say the same of something: an object of JSON, `what`.
///
/// # Errors
/// Naming the first rank that differs from rank 0, and what of it.
///
/// ```
/// use serde_json::json;
/// use taiga_core::collective::{Collective, local};
/// use taiga_core::dataset::own_rows::agree;
/// let errors: Vec<_> = std::thread::scope(|scope| {
///     let of_end = |end: taiga_core::collective::LocalCollective| {
///         scope.spawn(move || agree(&end, "parameters", &json!({ "depth": 6, "seed": end.rank() })))
///     };
///     let threads: Vec<_> = local(2).into_iter().map(of_end).collect();
///     threads.into_iter().map(|t| t.join().unwrap().unwrap_err().to_string()).collect()
/// });
/// assert_eq!(errors[0], "parameter `collective`: the parameters of rank 1 differ from those of rank 0: `seed` is 1 there and 0 here");
/// ```
pub fn agree(collective: &dyn Collective, what: &str, own: &Value) -> Result<()> {
    if collective.world() == 1 {
        return Ok(());
    }
    let all = collective.gather_bytes(own.to_string().as_bytes())?;
    let Some((rank, other)) = (0..).zip(&all).find(|(_, other)| **other != all[0]) else { return Ok(()) };
    let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let (of_0, of_other) = (parsed(&all[0]), parsed(other));
    let keys = [&of_0, &of_other].into_iter().filter_map(Value::as_object).flat_map(|object| object.keys());
    let differs = keys.into_iter().find(|key| of_0.get(key) != of_other.get(key));
    let told = differs.map(|key| {
        let (key, of_0, of_other) = first_difference(key, of_0.get(key), of_other.get(key));
        let text = |of: Option<&Value>| of.map_or("missing".into(), |value| short(&value.to_string()));
        let (there, here) = (text(of_other), text(of_0));
        let place = if collective.rank() == 0 { "here" } else { "at rank 0" };
        format!(": `{key}` is {there} {} and {here} {place}", if collective.rank() == rank { "here" } else { "there" })
    });
    Err(fault(format!("the {what} of rank {rank} differ from those of rank 0{}", told.unwrap_or_default())))
}

/// Returns the first part of two values that differs, by its place in them: of lists an item, of objects a member.
fn first_difference<'a>(key: &str, one: Option<&'a Value>, other: Option<&'a Value>) -> (String, Option<&'a Value>, Option<&'a Value>) {
    let inner = match (one, other) {
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            let differs = (0..one.len().max(other.len())).find(|i| one.get(*i) != other.get(*i));
            differs.map(|i| (format!("{key}[{i}]"), one.get(i), other.get(i)))
        }
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let differs = one.keys().chain(other.keys()).find(|name| one.get(*name) != other.get(*name));
            differs.map(|name| (format!("{key}.{name}"), one.get(name), other.get(name)))
        }
        _ => None,
    };
    inner.map_or((key.into(), one, other), |(key, one, other)| first_difference(&key, one, other))
}

/// Checks that all processes make the same fit: under the same parameters, to which `more` is added, of the columns that `columns` tells of
/// ([`schema`]), and on rows that are `rows` together.
///
/// # Errors
/// Naming the first process that differs, and what of it.
pub fn begin(own: &OwnRows<'_>, params: &impl Serialize, more: Map<String, Value>, columns: &Value, rows: usize) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    let mut given = serde_json::to_value(params).map_err(|error| fault(error.to_string()))?;
    if let Some(given) = given.as_object_mut() {
        // Threads, and which GPUs there are, are each process's own; but GPUs exchange other things than CPUs do.
        given.remove("n_threads");
        let on_gpus =
            given.get("device").and_then(Value::as_str).is_some_and(|name| matches!(DeviceSet::parse(name), Ok(DeviceSet::Cuda(_))));
        given.insert("device".into(), if on_gpus { "cuda" } else { "cpu" }.into());
        given.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        given.extend(more);
    }
    agree(own.collective, "parameters", &given)?;
    agree(own.collective, "columns", columns)?;
    check(own, rows)
}

/// Returns what tells a model of these bytes from all others.
pub fn digest(model: &[u8]) -> String {
    format!("{:032x}", xxh3_128(model))
}

/// Checks that all processes have come to the same model of `rows` rows: the one of these bytes.
///
/// # Errors
/// Where one has not, which would be a defect.
pub fn end(own: &OwnRows<'_>, rows: usize, model: impl FnOnce() -> Vec<u8>) -> Result<()> {
    if own.is_whole() {
        return Ok(());
    }
    agree(own.collective, "model", &json!({ "bytes": digest(&model()), "rows": rows }))
}

/// Returns the beginning of a text.
fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Returns what names and types tell of a table, which all processes must say alike.
pub fn schema(input: &Input<'_>) -> Value {
    let features = input.features.iter().map(|f| Value::from(format!("{} ({})", f.name(), f.dtype())));
    json!({
        "target": input.target_name,
        "labels": input.target.labels().map(|labels| labels.names()),
        "rows": input.target.rows(),
        "weight": input.weight.as_ref().map(|w| w.name().to_string()),
        "baseline": input.baseline.len(),
        "eval": input.held_out_rows(),
        "order_by": input.order.is_some(),
        "features": Value::Array(features.collect()),
    })
}

/// The rows that move so that each process has whole blocks: those of a block that lies in several processes are all where it begins.
#[derive(Clone)]
pub struct BlockMoves<'a> {
    /// The rows that a process has then.
    pub own: OwnRows<'a>,
    /// How many of its first rows go.
    pub given: usize,
    /// To whom.
    to: Option<usize>,
    /// The rows that stay.
    stay: Range<usize>,
}

impl<'a> BlockMoves<'a> {
    /// Of a table of `rows` rows that are all here none move.
    pub fn whole(rows: usize) -> BlockMoves<'a> {
        BlockMoves { own: OwnRows::whole(rows), given: 0, to: None, stay: 0..rows }
    }

    /// Finds them, for blocks of `block` rows of a table of `all`.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(own: OwnRows<'a>, all: usize, block: usize) -> Result<BlockMoves<'a>> {
        if own.is_whole() {
            return Ok(BlockMoves { own, ..BlockMoves::whole(own.count) });
        }
        let up = |row: usize| row.next_multiple_of(block).min(all);
        let given = up(own.first).min(own.range().end) - own.first;
        let begins = |rows: &Range<usize>| rows.contains(&(own.first / block * block));
        let to = own.of_each()?.iter().position(begins).filter(|_| given > 0);
        let first = up(own.first);
        let end = up(own.range().end).max(first);
        Ok(BlockMoves { own: OwnRows { first, count: end - first, ..own }, given, to, stay: given..own.count })
    }

    /// Sends what there is of the rows that go, and returns what comes of those that continue an own block, in their order; empty where a
    /// process sends none.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn exchange(&self, given: &[u8]) -> Result<Vec<Vec<u8>>> {
        let to = |rank: usize| if self.to == Some(rank) { given } else { &[] };
        self.own.collective.exchange(&(0..self.own.collective.world()).map(to).collect::<Vec<_>>())
    }
}

/// The numeric features of whole blocks of rows.
pub struct WholeBlocks<'a> {
    pub moves: BlockMoves<'a>,
    /// The rows that come from the processes behind, feature by feature.
    come: Vec<Vec<f64>>,
    /// Which of them are all of 32 bits.
    single: Vec<Vec<f32>>,
}

/// Returns the numbers of the numeric features.
fn numeric(input: &Input<'_>) -> Vec<usize> {
    (0..input.features.len()).filter(|i| *input.features[*i].dtype() != FeatureType::Categorical).collect()
}

impl<'a> WholeBlocks<'a> {
    /// Sends the rows that begin inside a block of `block` to where the block begins, and takes those that continue an own one.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(input: &Input<'_>, own: OwnRows<'a>, block: usize) -> Result<WholeBlocks<'a>> {
        let moves = BlockMoves::new(own, input.target.rows(), block)?;
        if own.is_whole() {
            return Ok(WholeBlocks { moves, come: vec![], single: vec![] });
        }
        let numeric = numeric(input);
        let read = |feature: &usize| {
            let mut values = vec![0.0; moves.given];
            input.features[*feature].read_f64(0, &mut values);
            values
        };
        let values = bytes_of(&numeric.iter().flat_map(read).collect::<Vec<f64>>());
        let mut come = vec![vec![]; numeric.len()];
        for bytes in moves.exchange(&values)? {
            let values = numbers_of(&bytes)?;
            let rows = values.len() / numeric.len().max(1);
            if rows > 0 {
                come.iter_mut().zip(values.chunks_exact(rows)).for_each(|(come, values)| come.extend_from_slice(values));
            }
        }
        let single = |(values, feature): (&Vec<f64>, &usize)| {
            let column = &input.features[*feature];
            let narrow = !column.is_empty() && column.is_f32();
            if narrow { values.iter().map(|x| *x as f32).collect() } else { vec![] }
        };
        let single = come.iter().zip(&numeric).map(single).collect();
        Ok(WholeBlocks { moves, come, single })
    }

    /// Returns the features of a table with those rows.
    pub fn features<'s>(&'s self, input: &'s Input<'_>) -> Vec<Column<'s>> {
        let mut features: Vec<Column<'s>> = input.features.clone();
        for (k, feature) in numeric(input).into_iter().enumerate().filter(|_| !self.moves.own.is_whole()) {
            let column = &mut features[feature];
            let come = match (&self.come[k], &self.single[k]) {
                (come, single) if single.len() == come.len() => Chunk::new(Values::F32(single), None),
                (come, _) => Chunk::new(Values::F64(come), None),
            };
            *column = column.with_behind(self.moves.stay.clone(), come);
        }
        features
    }
}
