//! What is kept of batches is what they hold, however they are dealt to chunks; what is wrong with them is told as in any fit.

use super::*;
use crate::column::Chunk;
use crate::column::Values;
use crate::dataset::kept_columns::is_narrow;
use crate::dataset::labels::Labels;
use crate::dataset::{Quiet, Target};
use crate::learners::linear::csr::FeatureNumbers;
use crate::learners::linear::{Items, ListChunk, Offsets, Texts, bucket};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of lists and of dense columns, in batches of `size`.
#[derive(Clone)]
struct Rows {
    offsets: Vec<i64>,
    numbers: Vec<i64>,
    values: Option<Vec<f64>>,
    words: Option<Words>,
    dense: Vec<Vec<f64>>,
    size: usize,
}

const ROWS: usize = 300;

#[derive(Clone)]
struct Words(Vec<Option<String>>);

impl Texts for Words {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.0[i].as_deref()
    }
}

impl Rows {
    fn new() -> Rows {
        let (mut offsets, mut numbers) = (vec![0], vec![]);
        for row in 0..ROWS as i64 {
            // Two rows have numbers of more than 32 bits.
            numbers.extend((0..row % 5).map(|i| row * 31 + i + if row == 104 || row == 109 { 1 << 40 } else { 0 }));
            offsets.push(numbers.len() as i64);
        }
        let values = (0..numbers.len()).map(|i| (i % 9) as f64 * 0.25).collect();
        let exact = (0..ROWS).map(|i| i as f64 * 0.5).collect();
        // Only row 200 takes more than an f32.
        let mixed = (0..ROWS).map(|i| if i == 200 { 0.1 } else { -(i as f64) }).collect();
        let doubles = (0..ROWS).map(|i| 1.0 / (1.0 + i as f64)).collect();
        Rows { offsets, numbers, values: Some(values), words: None, dense: vec![exact, mixed, doubles], size: 32 }
    }

    /// Calls `visit` with some of the rows.
    fn of<R>(&self, rows: std::ops::Range<usize>, visit: impl FnOnce(&SparseRows<'_>, &[Column<'_>]) -> R) -> R {
        let items = match &self.words {
            Some(words) => Items::Texts(words),
            None => Items::Numbers(Chunk::new(Values::I64(&self.numbers), None)),
        };
        let chunk = |items| ListChunk { offsets: Offsets::I64(&self.offsets[rows.start..=rows.end]), validity: None, items };
        let column = |name: &str, items| ListColumn { name: name.into(), chunks: vec![chunk(items)] };
        let values = self.values.as_ref().map(|values| column("v", Items::Numbers(Chunk::new(Values::F64(values), None))));
        let dense: Vec<Column<'_>> = self.dense.iter().map(|values| Column::from_f64("d", &values[rows.clone()])).collect();
        visit(&SparseRows { features: column("f", items), values }, &dense)
    }

    /// Keeps the rows, and calls `check` with the table that they are of.
    fn kept<R>(&self, store: &Store<'_>, params: &LinearParams, check: impl Fn(&KeptRows, &Input<'_>) -> R) -> Result<R> {
        let codes: Vec<u32> = (0..ROWS as u32).map(|row| row % 2).collect();
        self.of(0..0, |sparse, dense| {
            let names = ["d0", "d1", "d2"];
            let beside = Input {
                sparse: Some(sparse.clone()),
                dense: dense.iter().zip(names).map(|(column, name)| Column::new(name, column.dtype().clone(), vec![])).collect(),
                target: Target::Classes { codes: &codes, labels: Labels::Boolean },
                target_name: "y".into(),
                weight: None,
                held_out: None,
            };
            KeptRows::read_into(store, &beside, params, self, &Quiet).map(|kept| check(&kept, &beside))
        })
    }

    fn error(&self) -> String {
        let params = LinearParams { n_threads: Some(1), ..LinearParams::default() };
        self.kept(&Store { chunk: 50, spill: None }, &params, |_, _| ()).expect_err("a fault").to_string()
    }
}

impl RowBatches for Rows {
    fn read(&self, visit: &mut VisitRows<'_>) -> Result<()> {
        let rows = self.offsets.len() - 1;
        (0..rows)
            .step_by(self.size)
            .try_for_each(|first| self.of(first..rows.min(first + self.size), |sparse, dense| visit(Some(sparse), dense)))
    }
}

/// Proves that what is kept is what the batches hold, in chunks and batches of any size, in memory and in files.
#[test]
fn what_is_kept_is_what_there_was() {
    let folder = SpillFolder::new(std::env::temp_dir()).ok();
    let pool = ThreadPool::new(1).unwrap();
    let rows = Rows::new();
    for (chunk, size) in [(1, 7), (2, 300), (3, 1), (40, 32), (50, 1_000), (1 << 22, 64)] {
        // A file takes milliseconds.
        for spill in [None, folder.as_ref().filter(|_| chunk >= 40)] {
            let params = LinearParams { n_threads: Some(2), ..LinearParams::default() };
            let check = |kept: &KeptRows, beside: &Input<'_>| {
                let input = kept.input(beside);
                let sparse = input.sparse.as_ref().unwrap();
                let csr = Csr::new(sparse, None, &pool).unwrap();
                let mut at = 0;
                for piece in &csr.pieces {
                    for row in 0..piece.rows() {
                        let span = piece.span(row);
                        let numbers: Vec<i64> = match &piece.keys {
                            FeatureNumbers::Narrow(keys) => keys[span.clone()].iter().map(|key| i64::from(*key)).collect(),
                            FeatureNumbers::Wide(keys) => keys[span.clone()].iter().map(|key| *key as i64).collect(),
                        };
                        let own = rows.offsets[at] as usize..rows.offsets[at + 1] as usize;
                        assert_eq!(numbers, rows.numbers[own.clone()], "row {at}");
                        let values: Vec<f64> = piece.values.as_ref().unwrap()[span].iter().map(|x| f64::from(*x)).collect();
                        assert_eq!(values, rows.values.as_ref().unwrap()[own], "row {at}");
                        at += 1;
                    }
                }
                assert_eq!(at, ROWS);
                for ((column, values), name) in input.dense.iter().zip(&rows.dense).zip(["d0", "d1", "d2"]) {
                    assert_eq!((column.name(), &column.to_f64()), (name, values));
                }
                assert!(kept.lists.len() >= rows.numbers.len() / (chunk + 4) && kept.dense.len() >= ROWS / (chunk / 3).max(1), "{chunk}");
            };
            Rows { size, ..rows.clone() }.kept(&Store { chunk, spill }, &params, check).unwrap();
        }
    }
}

/// Proves that numbers and cells take the bytes that they need, chunk by chunk.
#[test]
fn what_is_kept_is_narrow_where_it_can_be() {
    let params = LinearParams::default();
    let check = |kept: &KeptRows, beside: &Input<'_>| {
        let wide = |chunk: &ListChunk<'_>| matches!(chunk.items, Items::Numbers(items) if matches!(items.values(), Values::U64(_)));
        let input = kept.input(beside);
        let chunks: Vec<bool> = input.sparse.unwrap().features.chunks.iter().map(wide).collect();
        assert_eq!(chunks.iter().filter(|wide| **wide).count(), 1, "both rows are in one batch: {chunks:?}");
        let narrow = |column: usize| kept.dense.iter().filter(|b| matches!(b.chunk(column).values(), Values::F32(_))).count();
        let blocks = kept.dense.len();
        assert_eq!((narrow(0), narrow(1), narrow(2)), (blocks, blocks - 1, 0));
    };
    Rows::new().kept(&Store { chunk: 150, spill: None }, &params, check).unwrap();
    assert!(is_narrow(&[f64::NAN, f64::INFINITY, -0.0, 16_777_216.0]) && !is_narrow(&[16_777_217.0]) && !is_narrow(&[1e300]));
}

/// Proves that strings are kept as their hashes, without those that are null, and count as strings.
#[test]
fn strings_are_kept_as_hashes() {
    let mut rows = Rows::new();
    let words: Vec<Option<String>> = rows.numbers.iter().map(|n| (n % 7 != 0).then(|| format!("wörd {}", n % 50))).collect();
    (rows.values, rows.words) = (None, Some(Words(words.clone())));
    let params = LinearParams { hash_bits: Some(9), ..LinearParams::default() };
    let wanted: Vec<u32> = words.iter().flatten().map(|word| bucket(word, 9)).collect();
    let check = |kept: &KeptRows, beside: &Input<'_>| {
        let input = kept.input(beside);
        let sparse = input.sparse.as_ref().unwrap();
        assert!(sparse.holds_texts());
        let hashes: Vec<u32> = sparse
            .features
            .chunks
            .iter()
            .flat_map(|chunk| if let Items::Hashed(hashes) = chunk.items { hashes.to_vec() } else { vec![] })
            .collect();
        assert_eq!(hashes, wanted);
        let few = Csr::new(sparse, Some(3), &ThreadPool::new(1).unwrap()).err().expect("too long").to_string();
        assert_eq!(few, "column `f`: holds hashes of more than 3 bits");
    };
    rows.kept(&Store { chunk: 60, spill: None }, &params, check).unwrap();
}

/// Proves that faults name the table's rows, that those of dense columns come first, and that parameters are told before anything is read.
#[test]
fn faults_are_those_of_any_fit() {
    let mut rows = Rows::new();
    let at = rows.offsets[212] as usize;
    rows.numbers[at] = -4;
    assert_eq!(rows.error(), "column `f`: the feature number -4 in row 212 is negative");
    rows.dense[1][299] = f64::NAN;
    assert_eq!(rows.error(), "column `d1`: is null or NaN in 1 of 300 rows: a linear model needs a number in each; fill or filter them");
    rows.dense[1][299] = 1e19;
    assert!(rows.error().starts_with("column `d1`: the value 1e19 in row 299 is beyond 1e18"), "{}", rows.error());
    let mut rows = Rows::new();
    rows.values.as_mut().unwrap()[at] = f64::INFINITY;
    assert_eq!(rows.error(), "column `v`: the value inf in row 212 is not finite");
    let params = LinearParams { hash_bits: Some(9), ..LinearParams::default() };
    let store = Store { chunk: 50, spill: None };
    let numbers = Rows::new().kept(&store, &params, |_, _| ()).expect_err("numbers").to_string();
    assert!(numbers.starts_with("parameter `hash_bits`: `f` holds numbers"), "{numbers}");
}

/// Proves that a source of other rows or columns than the table's is an error, and that a pass ends where it is asked to.
#[test]
fn other_rows_are_an_error() {
    let mut rows = Rows::new();
    rows.offsets.truncate(300);
    assert!(rows.error().starts_with("parameter `batches`: the frame gives 299 rows where it gave 300 before: "), "{}", rows.error());
    let mut rows = Rows::new();
    rows.offsets.push(rows.numbers.len() as i64);
    rows.dense.iter_mut().for_each(|values| values.push(0.0));
    assert!(rows.error().starts_with("parameter `batches`: the frame gives more than the 300 rows before: "), "{}", rows.error());

    struct Other(Rows, AtomicUsize);
    impl RowBatches for Other {
        fn read(&self, visit: &mut VisitRows<'_>) -> Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.of(0..ROWS, |_, dense| visit(None, dense))
        }
    }
    struct Ended;
    impl Monitor for Ended {
        fn interrupted(&self) -> bool {
            true
        }
    }
    let (codes, other) = (vec![0, 1, 0], Other(Rows::new(), AtomicUsize::new(0)));
    let made = |codes: &[u32], monitor: &dyn Monitor| {
        other.0.of(0..0, |sparse, dense| {
            let target = Target::Classes { codes, labels: Labels::Boolean };
            let (dense, target_name) = (dense[..1].to_vec(), "y".to_string());
            let beside = Input { sparse: Some(sparse.clone()), dense, target, target_name, weight: None, held_out: None };
            KeptRows::read(&beside, &LinearParams::default(), &other, None, monitor).err().expect("a fault")
        })
    };
    assert_eq!(made(&codes, &Quiet).to_string(), "a batch does not have the columns of the table");
    assert_eq!(made(&codes, &Ended), Error::Interrupted);
    // What the target tells is told before anything is read.
    assert!(made(&[1, 1, 1], &Quiet).to_string().contains("are of one class"));
    assert_eq!(other.1.load(Ordering::Relaxed), 2);
}
