//! Bytes: the same whatever the threads, the chunks and the types; and what becomes of bytes that are damaged or hostile.

use serde_json::json;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::learners::linear::{Input, Items, LinearModel, ListChunk, ListColumn, Offsets, Predictor, SparseRows, Texts, fit};
use taiga_testing::Dice;
use taiga_testing::linear::{Table, labels, lists, params};
use taiga_testing::tampering::sealed;
use xxhash_rust::xxh3::xxh3_64;

const OPTIMIZERS: [&str; 4] = ["lbfgs", "sgd", "adagrad", "ftrl"];

/// Rows of up to `most` of `features` features, those of low numbers more often, with values of few bits where wanted.
fn table(rows: usize, features: u64, most: u64, classes: usize, values: bool, seed: u64) -> Table {
    let mut dice = Dice::new(seed);
    let lists: Vec<Vec<(i64, f64)>> = (0..rows)
        .map(|_| {
            let n = dice.below(most + 1);
            (0..n).map(|_| (((dice.unit() * dice.unit()) * features as f64) as i64, dice.below(17) as f64 / 4.0 - 2.0)).collect()
        })
        .collect();
    let odd = |row: &Vec<(i64, f64)>| row.iter().map(|e| (e.0 % 5) as f64).sum::<f64>() / (1.0 + 2.0 * row.len() as f64);
    let codes =
        lists.iter().map(|row| ((odd(row) + 0.1 * dice.normal()) * classes as f64).clamp(0.0, classes as f64 - 1.0) as u32).collect();
    let mut table = Table::new(&lists, codes, classes);
    if !values {
        table.values = None;
    }
    table
}

fn configurations() -> Vec<serde_json::Value> {
    let mut all = vec![];
    for optimizer in OPTIMIZERS {
        for (l1, l2) in [(0.0, 1e-4), (1e-4, 0.0), (1e-4, 1e-4), (0.0, 0.0)] {
            let mut p =
                json!({ "optimizer": optimizer, "epochs": if optimizer == "lbfgs" { 8 } else { 2 }, "l1": l1, "l2": l2, "seed": 3 });
            if optimizer != "lbfgs" {
                p["batch"] = json!(700);
            }
            all.push(p);
        }
    }
    all
}

/// Proves that a model's bytes do not depend on the number of threads: two and four classes, with and without values, dense columns,
/// weights, held-out rows and early stopping; enough entries that all threads have work.
#[test]
fn threads_leave_no_trace() {
    for (case, classes, values) in [(0, 2, false), (1, 2, true), (2, 4, true)] {
        let mut table = table(9_000, 3_000, 60, classes, values, case);
        let mut dice = Dice::new(case);
        if case > 0 {
            table.dense = (0..2).map(|_| (0..9_000).map(|_| dice.normal()).collect()).collect();
            table.weight = Some((0..9_000).map(|_| dice.below(4) as f64 / 3.0).collect());
            table.held_out = Some((0..9_000).map(|_| dice.chance(0.1)).collect());
        }
        for mut p in configurations() {
            if case == 1 {
                p["early_stopping"] = json!(2);
            }
            let bytes = |threads: u32| {
                let mut p = p.clone();
                p["n_threads"] = json!(threads);
                table.fit(p).to_bytes()
            };
            let one = bytes(1);
            assert_eq!(one, bytes(2), "{p}");
            assert_eq!(one, bytes(3), "{p}");
            assert_eq!(LinearModel::from_bytes(&one).unwrap().to_bytes(), one);
        }
    }
}

fn fit_rows(sparse: SparseRows<'_>, table: &Table, p: &serde_json::Value) -> Vec<u8> {
    fit(&Input { sparse: Some(sparse), ..table.input() }, &params(p.clone()), &Quiet).unwrap().to_bytes()
}

/// Chunks of `size` rows: each has the slice of offsets that it needs, into all items.
fn cut<'a>(offsets: &'a [i64], size: usize, items: Values<'a>, name: &str) -> ListColumn<'a> {
    let rows = offsets.len() - 1;
    let chunk = |start: usize| ListChunk {
        offsets: Offsets::I64(&offsets[start..=(start + size).min(rows)]),
        validity: None,
        items: Items::Numbers(Chunk::new(items, None)),
    };
    ListColumn { name: name.into(), chunks: (0..rows).step_by(size).map(chunk).collect() }
}

/// Proves that chunks of any size (those of values elsewhere than those of features), slices, and null slots behind a bitmap give the
/// bytes of one chunk.
#[test]
fn chunks_leave_no_trace() {
    let table = table(2_000, 500, 12, 2, true, 4);
    let values = table.values.clone().unwrap();
    for p in configurations() {
        let whole = fit_rows(table.sparse(), &table, &p);
        for (size, beside) in [(2_000, 300), (177, 1_000), (1, 2_000), (613, 613)] {
            let sparse = SparseRows {
                features: cut(&table.offsets, size, Values::I64(&table.numbers), "f"),
                values: Some(cut(&table.offsets, beside, Values::F64(&values), "v")),
            };
            assert_eq!(whole, fit_rows(sparse, &table, &p), "chunks of {size} and {beside}: {p}");
        }
    }
}

/// Proves for a million entries without values, whose scores are sums of integers, that threads and chunks leave no trace, and that
/// the model is that of f64 (which any other value leads to) but for what 30 bits can't hold.
#[test]
fn sums_of_integers() {
    for (case, classes) in [(0, 2), (1, 3)] {
        let mut table = table(36_000, 700, 60, classes, false, case);
        assert!(table.numbers.len() > 1 << 20);
        for p in [json!({ "epochs": 30, "l2": 1e-4 }), json!({ "epochs": 30, "l1": 1e-4 })] {
            let with = |threads: u32| {
                let mut p = p.clone();
                p["n_threads"] = json!(threads);
                p
            };
            let whole = fit_rows(table.sparse(), &table, &with(1));
            assert_eq!(whole, fit_rows(table.sparse(), &table, &with(3)), "{p}");
            let chunks = SparseRows { features: cut(&table.offsets, 1_013, Values::I64(&table.numbers), "f"), values: None };
            assert_eq!(whole, fit_rows(chunks, &table, &with(2)), "{p}");
            let mut values = vec![1.0; table.numbers.len()];
            table.values = Some(values.clone());
            let (ones, whole) = (table.fit(with(2)), LinearModel::from_bytes(&whole).unwrap());
            assert_eq!((&ones.weights, &ones.intercepts), (&whole.weights, &whole.intercepts), "values of 1: {p}");
            values[77] = 1.0 + 1.0 / 1024.0 / 1024.0;
            table.values = Some(values);
            let doubles = table.fit(with(2));
            table.values = None;
            assert!((doubles.objective - whole.objective).abs() < 1e-9, "{p}: {} and {}", doubles.objective, whole.objective);
        }
    }
}

/// Proves that the integer type of feature numbers, the float type of values, lists or arrays, 32- or 64-bit offsets, values of 1 or
/// none, and entries that are null behind a bitmap leave the bytes as they are.
#[test]
fn types_leave_no_trace() {
    let mut dice = Dice::new(6);
    let rows: Vec<Vec<(i64, f64)>> =
        (0..1_500).map(|_| (0..5).map(|_| (dice.below(100) as i64, dice.below(9) as f64 - 4.0)).collect()).collect();
    let codes = rows.iter().map(|r| (r.iter().map(|e| e.0 % 3).sum::<i64>() > 4) as u32).collect();
    let table = Table::new(&rows, codes, 2);
    let values = table.values.clone().unwrap();
    macro_rules! as_type {
        ($t:ty, $v:expr) => {
            $v.iter().map(|x| *x as $t).collect::<Vec<$t>>()
        };
    }
    let n = &table.numbers;
    let (a, b, c, d) = (as_type!(i8, n), as_type!(i16, n), as_type!(i32, n), as_type!(u8, n));
    let (e, f, g) = (as_type!(u16, n), as_type!(u32, n), as_type!(u64, n));
    let numbers = [
        Values::I64(n),
        Values::I8(&a),
        Values::I16(&b),
        Values::I32(&c),
        Values::U8(&d),
        Values::U16(&e),
        Values::U32(&f),
        Values::U64(&g),
    ];
    let (single, small, whole) = (as_type!(f32, values), as_type!(i8, values), as_type!(i64, values));
    let amounts = [Values::F64(&values), Values::F32(&single), Values::I8(&small), Values::I64(&whole)];
    let narrow = as_type!(i32, table.offsets);
    let offsets = [Offsets::I64(&table.offsets), Offsets::I32(&narrow), Offsets::Fixed { width: 5, rows: 1_500 }];
    for p in configurations() {
        let wanted = fit_rows(table.sparse(), &table, &p);
        for (i, number) in numbers.into_iter().enumerate() {
            let column = |name: &str, values, offsets| ListColumn {
                name: name.into(),
                chunks: vec![ListChunk { offsets, validity: None, items: Items::Numbers(Chunk::new(values, None)) }],
            };
            let sparse = SparseRows {
                features: column("f", number, offsets[i % 3]),
                values: Some(column("v", amounts[i % 4], offsets[(i + 1) % 3])),
            };
            assert_eq!(wanted, fit_rows(sparse, &table, &p), "{i}: {p}");
        }
        // A null entry in front of each row, and a null row that has slots.
        let (mut with_nulls, mut beside, mut starts, mut valid) = (vec![], vec![], vec![0i64], vec![]);
        for row in &rows {
            with_nulls.push(-77i64);
            beside.push(f64::NAN);
            valid.push(false);
            row.iter().for_each(|(f, x)| {
                with_nulls.push(*f);
                beside.push(*x);
                valid.push(true);
            });
            starts.push(with_nulls.len() as i64);
        }
        let mut bits = vec![0u8; valid.len().div_ceil(8)];
        valid.iter().enumerate().filter(|v| *v.1).for_each(|(i, _)| bits[i / 8] |= 1 << (i % 8));
        let bitmap = Some(Bits::new(&bits, 0, valid.len()));
        let column = |name: &str, values| ListColumn {
            name: name.into(),
            chunks: vec![ListChunk { offsets: Offsets::I64(&starts), validity: None, items: Items::Numbers(Chunk::new(values, bitmap)) }],
        };
        let sparse = SparseRows { features: column("f", Values::I64(&with_nulls)), values: Some(column("v", Values::F64(&beside))) };
        assert_eq!(wanted, fit_rows(sparse, &table, &p), "nulls: {p}");
    }
    // Values that are all 1 are no values, but for the column's name in the model.
    let ones = vec![1.0; values.len()];
    for optimizer in OPTIMIZERS {
        let p = json!({ "optimizer": optimizer, "epochs": 3 });
        let without = SparseRows { values: None, ..table.sparse() };
        let with = SparseRows { values: Some(lists("v", &table.offsets, Values::F64(&ones))), ..table.sparse() };
        let a = LinearModel::from_bytes(&fit_rows(without, &table, &p)).unwrap();
        let mut b = LinearModel::from_bytes(&fit_rows(with, &table, &p)).unwrap();
        b.sparse.as_mut().unwrap().values = None;
        assert_eq!(a.to_bytes(), b.to_bytes());
    }
}

/// Proves that strings are the features of their hashes: the model has the coefficients of the numbers that XXH3 gives.
#[test]
fn strings_are_hashed() {
    let mut dice = Dice::new(8);
    let words: Vec<Vec<String>> = (0..600).map(|_| (0..dice.below(6)).map(|_| format!("wörd{}", dice.below(50))).collect()).collect();
    let codes: Vec<u32> = words.iter().map(|w| (w.iter().filter(|w| w.ends_with('3')).count() > 0) as u32).collect();
    let flat: Vec<Option<String>> = words.iter().flatten().cloned().map(Some).collect();
    let mut offsets = vec![0i64];
    words.iter().for_each(|w| offsets.push(offsets[offsets.len() - 1] + w.len() as i64));
    let numbers: Vec<i64> = flat.iter().map(|w| (xxh3_64(w.as_ref().unwrap().as_bytes()) & 0xfff) as i64).collect();
    let texts: &[Option<String>] = &flat;
    let chunk = ListChunk { offsets: Offsets::I64(&offsets), validity: None, items: Items::Texts(&Slice(texts)) };
    let strings = SparseRows { features: ListColumn { name: "f".into(), chunks: vec![chunk] }, values: None };
    let table = Table { offsets: offsets.clone(), numbers, codes, classes: 2, ..Default::default() };
    for optimizer in OPTIMIZERS {
        let p = json!({ "optimizer": optimizer, "hash_bits": 12 });
        let hashed = LinearModel::from_bytes(&fit_rows(strings.clone(), &table, &p)).unwrap();
        let numbered = table.fit(json!({ "optimizer": optimizer, "features": 4096 }));
        assert_eq!((&hashed.numbers, &hashed.weights), (&numbered.numbers, &numbered.weights));
        let raw = Predictor::new(hashed).raw(Some(&strings), &[]).unwrap();
        assert_eq!(raw, table.raw(&numbered));
    }
}

/// Strings of a slice.
struct Slice<'a>(&'a [Option<String>]);

impl Texts for Slice<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, i: usize) -> Option<&str> {
        self.0[i].as_deref()
    }
}

/// A model with everything in it.
fn full() -> LinearModel {
    let mut table = table(400, 90, 7, 3, true, 11);
    table.dense = vec![(0..400).map(|i| (i % 13) as f64).collect()];
    table.held_out = Some((0..400).map(|i| i % 5 == 0).collect());
    table.fit(json!({ "l1": 1e-3, "epochs": 4 }))
}

/// Everything that can be done with a model.
fn exercise(model: LinearModel) {
    assert!(model.to_json().is_object());
    assert!(model.coefficients().all(|c| c.value.is_finite()));
    assert_eq!(LinearModel::from_bytes(&model.to_bytes()).unwrap().to_bytes(), model.to_bytes());
    let dense: Vec<Column<'_>> = model
        .dense
        .iter()
        .map(|d| Column::new(d.name.clone(), d.dtype.clone(), vec![Chunk::new(Values::F64(&[1.0, 2.0]), None)]))
        .collect();
    let (numbers, values) = (vec![0u64, 17, u64::MAX, 4], vec![1.0f32; 4]);
    let predictor = Predictor::new(model);
    let Ok(bound) = predictor.bind(&dense) else { return };
    let sparse = predictor.model().sparse.as_ref().map(|s| SparseRows {
        features: lists("f", &[0, 2, 4], Values::U64(&numbers)),
        values: s.values.as_ref().map(|_| lists("v", &[0, 2, 4], Values::F32(&values))),
    });
    if let Ok(mut raw) = predictor.raw(sparse.as_ref(), &bound) {
        predictor.class(&raw);
        predictor.link(&mut raw);
    }
}

/// Proves that every cut, and every changed byte with the checksum and length set right again, is an error or a valid model, and
/// never a panic or memory out of proportion.
#[test]
fn hostile_bytes_are_harmless() {
    let model = full();
    exercise(model.clone());
    let bytes = model.to_bytes();
    for cut in 0..bytes.len() {
        assert!(LinearModel::from_bytes(&bytes[..cut]).is_err());
        if let Ok(model) = LinearModel::from_bytes(&sealed(bytes[..cut].to_vec())) {
            exercise(model);
        }
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            if value != bytes[at] {
                assert!(LinearModel::from_bytes(&changed).is_err(), "byte {at}");
            }
            if let Ok(model) = LinearModel::from_bytes(&sealed(changed)) {
                exercise(model);
            }
        }
    }
    // A feature number of 2^64 - 1 makes no array.
    let mut huge = model.clone();
    huge.params.features = None;
    huge.numbers = vec![3, u64::MAX - 1];
    huge.weights = vec![1.0; 6];
    huge.sparse.as_mut().unwrap().numbering = taiga_engine::learners::linear::model::Numbering::Numbers { features: u64::MAX };
    exercise(LinearModel::from_bytes(&huge.to_bytes()).unwrap());
    let errors = [
        (LinearModel { intercepts: vec![0.0], ..model.clone() }, "intercepts"),
        (LinearModel { weights: vec![f32::NAN; model.weights.len()], ..model.clone() }, "not finite"),
        (LinearModel { labels: Labels::Boolean, ..model.clone() }, "coefficients"),
        (LinearModel { labels: Labels::Text(vec!["a".into(), "b".into(), "a".into()]), ..model.clone() }, "twice"),
        (LinearModel { sparse: None, ..model.clone() }, "beyond"),
        (LinearModel { dense: vec![], ..model.clone() }, "columns"),
    ];
    for (model, word) in errors {
        let text = LinearModel::from_bytes(&model.to_bytes()).unwrap_err().to_string();
        assert!(text.contains(word), "{text} {word}");
    }
    let boosted = b"TAIGA\0GB\x02\0\0\0";
    assert!(LinearModel::from_bytes(boosted).unwrap_err().to_string().contains("sparse logistic regression"));
}

/// Proves that a dense column serves with equal values in another float type and in chunks, and that a model of dense columns alone is one.
#[test]
fn dense_columns_alone() {
    let mut dice = Dice::new(12);
    let single: Vec<f32> = (0..1_000).map(|_| dice.normal() as f32).collect();
    let double: Vec<f64> = single.iter().map(|x| *x as f64).collect();
    let codes: Vec<u32> = double.iter().map(|x| (*x + dice.normal() > 0.0) as u32).collect();
    let input = |column| Input {
        sparse: None,
        dense: vec![column],
        target: Target::Classes { codes: &codes, labels: labels(2) },
        target_name: "y".into(),
        weight: None,
        held_out: None,
    };
    for optimizer in OPTIMIZERS {
        let p = params(json!({ "optimizer": optimizer }));
        let a = fit(&input(Column::from_f32("x", &single)), &p, &Quiet).unwrap();
        let chunks = double.chunks(77).map(|c| Chunk::new(Values::F64(c), None)).collect();
        let b = fit(&input(Column::new("x", FeatureType::Numeric, chunks)), &p, &Quiet).unwrap();
        assert_eq!(a.to_bytes(), b.to_bytes());
        assert!(a.dense_weights[0] > 0.2, "{optimizer} {:?}", a.dense_weights);
    }
}
