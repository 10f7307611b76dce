//! From values to dense codes by first appearance, on all threads.
//!
//! ```text
//! rows   │ range of thread 0 │ range of thread 1 │ …    each numbers its own distinct values
//! merge  │ 0's values, then those of 1 that 0 lacks, …  in pairs, so that a level takes one value's time
//! codes  │ unchanged         │ local → global    │ …
//! ```
//!
//! Numbering a range by first appearance and then the ranges in their order is numbering all rows
//! by first appearance, so the cut into ranges leaves no trace.

use crate::error::{Error, Result};
use crate::parallel::interrupt::pieces;
use crate::parallel::numbered;
use crate::{memory, pages};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Rows that are worth a thread of their own.
const ROWS_PER_THREAD: usize = 1 << 15;
/// A code for each integer between the smallest and the largest where there are no more than this
/// many, or not more than there are rows.
const DIRECT: i128 = 1 << 10;

/// Rows whose hashes are found together.
pub const BATCH: usize = 32;
/// Tables of more values do not stay in the nearest cache.
pub const WARM: usize = 1 << 12;

/// A value that has a hash.
pub trait HashKey: Copy + Eq + Send + Sync {
    /// The value that stands for null in the list of values.
    const NULL: Self;
    fn hash(self) -> u64;
    /// Reads something from where a comparison will look, to bring it into the cache.
    fn touch(self) -> u64 {
        0
    }
}

impl HashKey for &str {
    const NULL: Self = "";
    #[inline(always)]
    fn hash(self) -> u64 {
        xxh3_64(self.as_bytes())
    }
    #[inline(always)]
    fn touch(self) -> u64 {
        self.as_bytes().first().copied().unwrap_or_default().into()
    }
}

/// An integer type of a column.
pub trait Integer: Copy + Send + Sync {
    /// Whether the type has more than 64 bits.
    const LONG: bool;
    /// Returns the value itself.
    fn wide(self) -> i128;
    /// Returns a number of 64 bits for each value, in the order of the values; of a long type the lower bits.
    fn short(self) -> i64;
    /// Returns the value that [`Integer::short`] gives `short` for.
    fn of_short(short: i64) -> i128;
}

macro_rules! integers {
    ($($t:ty, $long:expr, $offset:expr;)*) => {$(
        impl Integer for $t {
            const LONG: bool = $long;
            #[inline(always)]
            fn wide(self) -> i128 {
                self as i128
            }
            #[inline(always)]
            fn short(self) -> i64 {
                (self as i64) ^ $offset
            }
            #[inline(always)]
            fn of_short(short: i64) -> i128 {
                (short ^ $offset) as $t as i128
            }
        }
    )*};
}
integers! {
    i8, false, 0; i16, false, 0; i32, false, 0; i64, false, 0; u8, false, 0; u16, false, 0; u32, false, 0; u64, false, i64::MIN;
    i128, true, 0;
}

/// An integer that columns of all types are numbered as: one function for all of them is compiled once.
trait Numbered: HashKey + Ord + Into<i128> {
    /// Returns `self - least`, for values whose distance fits.
    fn distance(self, least: Self) -> usize;
}

macro_rules! numbered {
    ($($t:ty),*) => {$(
        impl Numbered for $t {
            #[inline(always)]
            fn distance(self, least: Self) -> usize {
                self.wrapping_sub(least) as usize
            }
        }

        impl HashKey for $t {
            const NULL: Self = 0;
            #[inline(always)]
            fn hash(self) -> u64 {
                hash_integer(self.into())
            }
        }
    )*};
}
numbered!(i64, i128);

/// Returns the hash of an integer, whatever its width.
#[inline(always)]
pub fn hash_integer(x: i128) -> u64 {
    let z = (x as u64) ^ ((x >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let wide = ((z ^ 0x243F_6A88_85A3_08D3) as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    (wide as u64) ^ (wide >> 64) as u64
}

/// Open addressing from hashes to codes: a slot holds half of the hash and the code, plus one.
#[derive(Default, Debug)]
pub struct Slots {
    slots: Vec<u64>,
    used: usize,
}

impl Slots {
    /// Finds the code under `hash` for which `same(code)`, or else `next()`, which is then the code.
    #[inline(always)]
    pub fn find_or_insert(
        &mut self,
        hash: u64,
        same: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32) -> u64,
        next: impl FnOnce() -> u32,
    ) -> u32 {
        if self.used * 2 >= self.slots.len() {
            self.grow(hash_of);
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                let code = next();
                self.slots[at] = (hash & !0xFFFF_FFFF) | (code as u64 + 1);
                self.used += 1;
                return code;
            }
            let code = (slot as u32).wrapping_sub(1);
            if (slot ^ hash) >> 32 == 0 && same(code) {
                return code;
            }
            at = (at + 1) & mask;
        }
    }

    /// Finds the code under `hash` for which `same(code)`.
    #[inline(always)]
    pub fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let code = (slot as u32).wrapping_sub(1);
            if (slot ^ hash) >> 32 == 0 && same(code) {
                return Some(code);
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the code in the first slot that a search for `hash` looks at.
    #[inline(always)]
    pub fn peek(&self, hash: u64) -> Option<u32> {
        let slot = self.slots.get(hash as usize & self.slots.len().wrapping_sub(1))?;
        (*slot as u32).checked_sub(1)
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; (old.len() * 2).max(64)];
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|s| *s != 0) {
            let mut at = hash_of((slot as u32).wrapping_sub(1)) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

/// Distinct values in order of first appearance.
struct DistinctTable<K> {
    slots: Slots,
    keys: Vec<K>,
    hashes: Vec<u64>,
    null: Option<u32>,
}

impl<K: HashKey> DistinctTable<K> {
    fn new() -> Self {
        DistinctTable { slots: Slots::default(), keys: vec![], hashes: vec![], null: None }
    }

    #[inline(always)]
    fn code(&mut self, key: K, hash: u64) -> u32 {
        let (keys, hashes) = (&self.keys, &self.hashes);
        let next = keys.len() as u32;
        let code = self.slots.find_or_insert(hash, |c| keys[c as usize] == key, |c| hashes[c as usize], || next);
        if code == next {
            self.keys.push(key);
            self.hashes.push(hash);
        }
        code
    }

    /// Reads what the search for these hashes will read. Each search waits for memory three times in
    /// a row where the table is larger than the caches; the reads of many rows wait together.
    fn warm(&self, batch: &[Option<(K, u64)>]) {
        let mut touched = 0;
        for (_, hash) in batch.iter().flatten() {
            touched ^= self.slots.peek(*hash).and_then(|code| self.keys.get(code as usize)).map_or(0, |key| key.touch());
        }
        std::hint::black_box(touched);
    }

    fn null_code(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| {
            self.keys.push(K::NULL);
            self.hashes.push(0);
            self.keys.len() as u32 - 1
        })
    }

    /// Takes in the values of the rows behind; the code here of each code there.
    fn absorb(&mut self, later: &DistinctTable<K>) -> Vec<u32> {
        let codes = 0..later.keys.len() as u32;
        codes
            .map(|c| match later.null {
                Some(null) if null == c => self.null_code(),
                _ => self.code(later.keys[c as usize], later.hashes[c as usize]),
            })
            .collect()
    }
}

/// The codes of all rows, and the value of each code.
pub struct Coded<K> {
    pub codes: Vec<u32>,
    pub keys: Vec<K>,
    /// The code of null; its value is a placeholder.
    pub null: Option<u32>,
}

/// A column in chunks of these lengths: where each starts, and the length behind them.
pub struct Chunks {
    starts: Vec<usize>,
}

impl Chunks {
    pub fn new(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut starts = vec![0];
        for n in lengths {
            starts.push(starts[starts.len() - 1] + n);
        }
        Chunks { starts }
    }

    pub fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the parts of `rows`: chunk and rows inside it, no more than are read between two looks whether the work is still
    /// wanted.
    pub fn parts(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let first = self.starts.partition_point(|s| *s <= rows.start).saturating_sub(1);
        let chunks = (first..self.starts.len() - 1).take_while(move |c| self.starts[*c] < rows.end);
        chunks.flat_map(move |c| {
            let (start, end) = (self.starts[c], self.starts[c + 1]);
            pieces(rows.start.max(start) - start..rows.end.min(end) - start).map(move |rows| (c, rows))
        })
    }
}

/// Rows are numbered in 32 bits, here as in Polars, and there must be memory for the numbers of their categories.
pub fn check_rows(name: &str, rows: usize) -> Result<()> {
    if rows >= u32::MAX as usize {
        return Err(Error::column(name, format!("it has {rows} rows; categories are supported up to {}", u32::MAX - 1)));
    }
    memory::check(&format!("the categories of `{name}` in {rows} rows"), 4 * rows as u64, "encode fewer rows")
}

/// Returns the rows of each thread.
pub fn shares(rows: usize) -> usize {
    let threads = rayon::current_num_threads().min(rows.div_ceil(ROWS_PER_THREAD)).max(1);
    rows.div_ceil(threads).max(1)
}

/// Returns what `work` makes of the share of the rows of each thread, in their order.
pub fn over_shares<R: Send>(rows: usize, work: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let share = shares(rows);
    numbered::map(rows.div_ceil(share), 1, |i| work(i * share..rows.min((i + 1) * share)))
}

/// Reads values of a column: `read(chunk, rows of it, out)` writes the value of each of these rows, none for null.
pub trait Read<K>: Fn(usize, Range<usize>, &mut [Option<K>]) + Sync {}
impl<K, F: Fn(usize, Range<usize>, &mut [Option<K>]) + Sync + ?Sized> Read<K> for F {}

/// Rows of integers that are read at a time.
const READ: usize = 256;

/// Codes of text and other values that are found by their hash.
pub fn by_hash<K: HashKey>(chunks: &Chunks, read: &(impl Read<K> + ?Sized)) -> Coded<K> {
    let rows = chunks.rows();
    let share = shares(rows);
    let mut codes = pages::zeroed(rows);
    let tables: Vec<DistinctTable<K>> = numbered::map_chunks(&mut codes, share, |i, out| {
        let mut table = DistinctTable::new();
        let mut at = 0;
        let mut keys: [Option<K>; BATCH] = [None; BATCH];
        let mut batch: [Option<(K, u64)>; BATCH] = [None; BATCH];
        for (chunk, range) in chunks.parts(i * share..i * share + out.len()) {
            for start in range.clone().step_by(BATCH) {
                let n = BATCH.min(range.end - start);
                let (keys, batch) = (&mut keys[..n], &mut batch[..n]);
                read(chunk, start..start + n, keys);
                for (entry, key) in batch.iter_mut().zip(&*keys) {
                    *entry = key.map(|key| (key, key.hash()));
                }
                if table.keys.len() > WARM {
                    table.warm(batch);
                }
                for entry in batch {
                    out[at] = match *entry {
                        Some((key, hash)) => table.code(key, hash),
                        None => table.null_code(),
                    };
                    at += 1;
                }
            }
        }
        table
    });
    let (table, maps) = merge(tables);
    renumber(&mut codes, share, maps.get(1..).unwrap_or_default());
    let (keys, null) = table.map_or((vec![], None), |t| (t.keys, t.null));
    Coded { codes, keys, null }
}

/// Replaces the codes of each share of the rows but the first by what its map says of them.
fn renumber(codes: &mut [u32], share: usize, maps: &[Vec<u32>]) {
    let rest = codes.get_mut(share..).unwrap_or_default();
    numbered::for_each_chunk(rest, share, |i, out| {
        for code in out {
            *code = maps[i][*code as usize];
        }
    });
}

/// Merges tables into one; returns it and for each of them its codes' codes there (empty where they stay as they are).
fn merge<K: HashKey>(tables: Vec<DistinctTable<K>>) -> (Option<DistinctTable<K>>, Vec<Vec<u32>>) {
    let mut level: Vec<(DistinctTable<K>, Vec<Vec<u32>>)> = tables.into_iter().map(|t| (t, vec![vec![]])).collect();
    while level.len() > 1 {
        let mut pairs = vec![];
        let mut rest = level.into_iter();
        while let Some(left) = rest.next() {
            pairs.push((left, rest.next()));
        }
        level = numbered::map_items(pairs, |((mut table, mut maps), right)| {
            if let Some((right, mut right_maps)) = right {
                let map = table.absorb(&right);
                numbered::for_each_chunk(&mut right_maps, 1, |_, maps| match &mut maps[0] {
                    none if none.is_empty() => none.clone_from(&map),
                    some => some.iter_mut().for_each(|c| *c = map[*c as usize]),
                });
                maps.append(&mut right_maps);
            }
            (table, maps)
        });
    }
    match level.pop() {
        Some((table, maps)) => (Some(table), maps),
        None => (None, vec![]),
    }
}

/// Codes of integers of up to 64 bits, as [`Integer::short`] has them: by their distance from the least where they lie close together,
/// else by hash.
pub fn integers(chunks: &Chunks, read: &dyn Read<i64>) -> Coded<i64> {
    numbered(chunks, read)
}

/// Codes of longer integers, likewise.
pub fn long_integers(chunks: &Chunks, read: &dyn Read<i128>) -> Coded<i128> {
    numbered(chunks, read)
}

fn numbered<T: Numbered>(chunks: &Chunks, read: &dyn Read<T>) -> Coded<T> {
    let rows = chunks.rows();
    let bounds = |rows: Range<usize>| {
        let mut bounds: Option<(T, T)> = None;
        each_read(chunks, rows, read, |value| {
            if let Some(x) = value {
                bounds = Some(bounds.map_or((x, x), |(low, high)| (low.min(x), high.max(x))));
            }
        });
        bounds
    };
    let both = |a: Option<(T, T)>, b: Option<(T, T)>| match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    };
    let (least, most) = over_shares(rows, bounds).into_iter().fold(None, both).unwrap_or((T::NULL, T::NULL));
    match most.into().checked_sub(least.into()) {
        Some(width) if width < DIRECT.max(rows as i128) => direct(chunks, shares(rows), least, width as usize + 1, read),
        _ => by_hash(chunks, read),
    }
}

/// Calls `visit` with the value of each of `rows` in their order.
#[inline(always)]
fn each_read<T: Numbered>(chunks: &Chunks, rows: Range<usize>, read: &dyn Read<T>, mut visit: impl FnMut(Option<T>)) {
    let mut values = [None; READ];
    for (chunk, range) in chunks.parts(rows) {
        for start in range.clone().step_by(READ) {
            let n = READ.min(range.end - start);
            read(chunk, start..start + n, &mut values[..n]);
            values[..n].iter().for_each(|value| visit(*value));
        }
    }
}

/// Distinct integers by their distance from the least: `width` of them, null behind.
struct Near {
    /// The code of each distance, plus one.
    codes: Vec<u32>,
    /// The distance of each code.
    distances: Vec<u32>,
}

impl Near {
    #[inline(always)]
    fn code(&mut self, distance: usize) -> u32 {
        let code = self.codes[distance];
        if code != 0 {
            return code - 1;
        }
        self.distances.push(distance as u32);
        self.codes[distance] = self.distances.len() as u32;
        self.distances.len() as u32 - 1
    }
}

fn direct<T: Numbered>(chunks: &Chunks, share: usize, least: T, width: usize, read: &dyn Read<T>) -> Coded<T> {
    let mut codes = pages::zeroed(chunks.rows());
    // The value of a distance, from any row that has it.
    let parts: Vec<(Near, Vec<T>)> = numbered::map_chunks(&mut codes, share, |i, out| {
        let mut near = Near { codes: vec![0; width + 1], distances: vec![] };
        let mut values = vec![];
        let rows = i * share..i * share + out.len();
        let mut places = out.iter_mut();
        each_read(chunks, rows, read, |value| {
            let code = near.code(value.map_or(width, |x| x.distance(least)));
            if code as usize == values.len() {
                values.push(value.unwrap_or(T::NULL));
            }
            if let Some(place) = places.next() {
                *place = code;
            }
        });
        (near, values)
    });
    let mut parts = parts.into_iter();
    let Some((mut all, mut keys)) = parts.next() else { return Coded { codes, keys: vec![], null: None } };
    let mut maps = vec![];
    for (near, values) in parts {
        maps.push(near.distances.iter().map(|d| all.code(*d as usize)).collect::<Vec<u32>>());
        for (value, code) in values.iter().zip(&maps[maps.len() - 1]) {
            if *code as usize == keys.len() {
                keys.push(*value);
            }
        }
    }
    renumber(&mut codes, share, &maps);
    let null = all.codes[width].checked_sub(1);
    Coded { codes, keys, null }
}
