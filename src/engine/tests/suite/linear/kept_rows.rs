//! Fits whose lists and dense columns come in batches have the bytes of the fit to the whole table, or its error, whatever the batches.

use serde_json::{Value, json};
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, SparseRows, Texts, fit, fit_in_batches};
use taiga_engine::spill::SpillFolder;
use taiga_testing::Dice;
use taiga_testing::batches::{RowParts, ends};
use taiga_testing::linear::{Table, drawn, params};
use taiga_testing::random_fits::cases;

/// Feature numbers of some type, or strings.
enum Numbers {
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Words(Words),
}

struct Words(Vec<Option<String>>);

impl Texts for Words {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.0[i].as_deref()
    }
}

/// A table as Arrow may have it.
struct Drawn {
    table: Table,
    has_lists: bool,
    numbers: Numbers,
    narrow: Option<Vec<f32>>,
    dates: Vec<i32>,
    /// Which lists, features and values are not null.
    bits: [Option<Vec<u8>>; 3],
    params: Value,
}

/// Draws which of `len` are not null: all, or most.
fn bits(len: usize, dice: &mut Dice) -> Option<Vec<u8>> {
    dice.chance(0.3).then(|| {
        let mut bits = vec![0u8; len.div_ceil(8)];
        (0..len).filter(|_| !dice.chance(0.1)).for_each(|i| bits[i / 8] |= 1 << (i % 8));
        bits
    })
}

impl Drawn {
    fn new(seed: u64) -> Drawn {
        let (mut table, mut params) = drawn(seed);
        let dice = &mut Dice::new(seed ^ 0xba7c);
        params["optimizer"] = json!(["lbfgs", "sgd", "adagrad", "ftrl"][dice.below(4) as usize]);
        let has_lists = table.dense.is_empty() || dice.chance(0.9);
        let fault = if dice.chance(0.25) { dice.below(6) } else { 6 };
        let (rows, entries) = (table.rows(), table.numbers.len());
        let at = dice.below(entries.max(1) as u64) as usize;
        if let (0 | 1, Some(number)) = (fault, table.numbers.get_mut(at)) {
            *number = -1 - *number;
        }
        if let (1 | 2, Some(values)) = (fault, table.dense.last_mut()) {
            values[dice.below(rows as u64) as usize] = [f64::NAN, f64::INFINITY, 1e20][dice.below(3) as usize];
        }
        if let (3, Some(value)) = (fault, table.values.as_mut().and_then(|values| values.get_mut(at))) {
            *value = [f64::NAN, 1e300, -1e19][dice.below(3) as usize];
        }
        match fault {
            4 if has_lists => params["features"] = json!(2),
            5 if has_lists => params["hash_bits"] = json!(1 + dice.below(18)),
            _ => {}
        }
        for values in &mut table.dense {
            // What an f32 holds, and what it does not.
            let digits = [1.0, 64.0, 1e9][dice.below(3) as usize];
            values.iter_mut().for_each(|x| *x = (*x * digits).round() / digits);
        }
        let (least, most) = table.numbers.iter().fold((0, 0), |(least, most), x| (*x.min(&least), *x.max(&most)));
        let numbers = match dice.below(7) {
            0 if most <= i64::from(i16::MAX) => Numbers::I16(table.numbers.iter().map(|x| *x as i16).collect()),
            1 if most <= i64::from(i32::MAX) => Numbers::I32(table.numbers.iter().map(|x| *x as i32).collect()),
            2 if least == 0 && most <= i64::from(u32::MAX) => Numbers::U32(table.numbers.iter().map(|x| *x as u32).collect()),
            3 if least == 0 => Numbers::U64(table.numbers.iter().map(|x| *x as u64).collect()),
            4 | 5 => Numbers::Words(Words(table.numbers.iter().map(|x| (x % 11 != 3).then(|| format!("wörd {x}"))).collect())),
            _ => Numbers::I64(table.numbers.clone()),
        };
        let narrow = if dice.chance(0.5) { table.values.as_ref().map(|v| v.iter().map(|x| *x as f32).collect()) } else { None };
        let dates = (0..rows).map(|row| (row * 7919 % 5_000) as i32 - 900).collect();
        let bits = [bits(rows, dice), bits(entries, dice), bits(entries, dice)];
        Drawn { table, has_lists, numbers, narrow, dates, bits, params }
    }

    fn input(&self) -> Input<'_> {
        let own = |i: usize, len: usize| self.bits[i].as_ref().map(|bits| Bits::new(bits, 0, len));
        let (rows, entries) = (self.table.rows(), self.table.numbers.len());
        let column = |name: &str, items| ListColumn {
            name: name.into(),
            chunks: vec![ListChunk { offsets: Offsets::I64(&self.table.offsets), validity: own(0, rows), items }],
        };
        let numbers = |values| Items::Numbers(Chunk::new(values, own(1, entries)));
        let features = match &self.numbers {
            Numbers::I16(own) => numbers(Values::I16(own)),
            Numbers::U32(own) => numbers(Values::U32(own)),
            Numbers::I32(own) => numbers(Values::I32(own)),
            Numbers::I64(own) => numbers(Values::I64(own)),
            Numbers::U64(own) => numbers(Values::U64(own)),
            Numbers::Words(words) => Items::Texts(words),
        };
        let values = self.table.values.as_ref().map(|values| {
            let values = self.narrow.as_ref().map_or(Values::F64(values), |narrow| Values::F32(narrow));
            column("v", Items::Numbers(Chunk::new(values, own(2, entries))))
        });
        let mut input = self.table.input();
        input.sparse = self.has_lists.then(|| SparseRows { features: column("f", features), values });
        if let Some(first) = input.dense.first_mut().filter(|_| self.dates[0] % 2 == 0) {
            *first = Column::new("day", FeatureType::Date, vec![Chunk::new(Values::I32(&self.dates), None)]);
        }
        input
    }
}

/// Proves over random fits (every optimizer, numbers of every width and strings, nulls, weights of which some are 0, held-out rows, dense
/// columns) that batches change no byte, and no error, in memory and in files.
#[test]
fn batches_change_no_byte() {
    let folder = SpillFolder::new(std::env::temp_dir()).ok();
    let (mut same, mut faults) = (0, 0);
    for seed in 0..cases(80) {
        let drawn = Drawn::new(seed);
        let (input, dice) = (drawn.input(), &mut Dice::new(seed));
        let params = LinearParams { n_threads: Some(1 + seed as u32 % 3), ..params(drawn.params.clone()) };
        let whole = fit(&input, &params, &Quiet).map(|model| model.to_bytes());
        let (parts, beside) = RowParts::of(&input, ends(drawn.table.rows(), dice));
        let spill = folder.as_ref().filter(|_| dice.chance(0.5));
        let made = fit_in_batches(&beside, &params, &parts, spill, &Quiet).map(|model| model.to_bytes());
        match (made, whole) {
            (Ok(made), Ok(whole)) => {
                assert!(made == whole, "seed {seed}: other bytes under {params:?}");
                same += 1;
            }
            (Err(made), Err(whole)) => {
                assert_eq!(made, whole, "seed {seed}");
                faults += 1;
            }
            (made, whole) => panic!("seed {seed}: {:?} and {:?} under {params:?}", made.err(), whole.err()),
        }
    }
    println!("{same} equal fits, {faults} equal errors");
    assert!(same > 40 && faults > 8, "{same}, {faults}");
}

/// Proves that a fit of dense columns alone may come in batches, and that what the target tells is told before a row is read.
#[test]
fn what_the_target_tells_is_told_first() {
    let (mut table, given) = drawn(1);
    table.dense = vec![(0..table.rows()).map(|row| f64::from(row as u32 % 17)).collect()];
    let input = Input { sparse: None, ..table.input() };
    let params = params(given);
    let whole = fit(&input, &params, &Quiet).map(|model| model.to_bytes());
    let (parts, beside) = RowParts::of(&input, vec![3, table.rows()]);
    assert!(fit_in_batches(&beside, &params, &parts, None, &Quiet).map(|model| model.to_bytes()) == whole && whole.is_ok());
    let one = vec![0; table.rows()];
    let Input { target: Target::Classes { labels, .. }, .. } = table.input() else { panic!("classes") };
    let beside = Input { target: Target::Classes { codes: &one, labels }, ..beside };
    let wrong = RowParts { ends: vec![1], ..parts };
    let error = fit_in_batches(&beside, &params, &wrong, None, &Quiet).expect_err("one class").to_string();
    assert!(error.contains("are of one class"), "{error}");
}
