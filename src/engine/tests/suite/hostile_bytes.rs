//! Bytes that ask for more than they hold: small values whose numbers stand for large tables, long names or long walks. Each is
//! refused, or read, applied and told in memory in proportion to its bytes.
//!
//! The bytes are made by hand, with checksums that fit; what is held at a time is counted by the allocator.

use serde_json::json;
use taiga_engine::column::categories::{Categories, CategoryNames as Categorized};
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::ctr::{Ctr, CtrKind};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::explain::Importance;
use taiga_engine::learners::boosting::model::{CtrTable, Derived, HashedPart, Model};
use taiga_engine::learners::forest::params::Criterion;
use taiga_engine::learners::forest::{Forest, ForestParams};
use taiga_engine::learners::linear::model::{DenseFeature, Numbering, SparseFeatures};
use taiga_engine::learners::linear::{LinearModel, LinearParams};
use taiga_engine::learners::{forest, linear};
use taiga_engine::losses::LossKind;
use taiga_engine::model::Feature;
use taiga_engine::numerics::city::hash_of;
use taiga_engine::tree::model::{Child, Leaf, Node, Split, Tree};
use taiga_testing::allocator::peak;
use xxhash_rust::xxh3::xxh3_64;

/// The result of `work`, for which at most `each` bytes for each of `bytes` may be held at a time, and 8 MiB: two lists that are
/// being read may each have been promised one.
fn bounded<T>(what: &str, bytes: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak(work);
    println!("{what}: {bytes} bytes, {:.1} bytes held for each", peak as f64 / bytes as f64);
    assert!(peak <= (8 << 20) + each * bytes, "{what}: {peak} bytes held for {bytes}");
    result
}

/// The most bytes held for each byte of a value: to read it, to apply it to a few rows, to tell what it holds.
const READ: usize = 60;
const APPLY: usize = 100;
const TELL: usize = 150;

/// Replaces the params' text in the bytes of a value, which stands first in its payload and is shorter than 16 KiB.
fn with_params(bytes: &[u8], text: &str) -> Vec<u8> {
    let (old, at) = varint(&bytes[20..]);
    let rest = &bytes[20 + at + old..bytes.len() - 8];
    let mut payload = vec![];
    let mut n = text.len();
    while n >= 0x80 {
        payload.push(n as u8 | 0x80);
        n >>= 7;
    }
    payload.push(n as u8);
    payload.extend(text.as_bytes());
    payload.extend(rest);
    let mut out = [&bytes[..12], &(payload.len() as u64).to_le_bytes(), &payload].concat();
    let checksum = xxh3_64(&out);
    out.extend(checksum.to_le_bytes());
    out
}

/// A number as postcard writes it, and the bytes that it takes.
fn varint(bytes: &[u8]) -> (usize, usize) {
    let n = 1 + bytes.iter().take_while(|b| **b >= 0x80).count();
    (bytes[..n].iter().rev().fold(0, |x, b| x << 7 | (b & 0x7F) as usize), n)
}

fn feature(name: String, categories: Option<Categories>) -> Feature {
    let dtype = if categories.is_some() { FeatureType::Categorical } else { FeatureType::Numeric };
    Feature { name, dtype, borders: if categories.is_some() { vec![] } else { vec![0.5] }, categories }
}

fn integers(n: usize) -> Categories {
    Categories { labels: Categorized::Integer((0..n as i128).collect()), null: None }
}

fn model(features: Vec<Feature>, trees: Vec<Tree>) -> Model {
    Model {
        params: BoostingParams::default(),
        loss: LossKind::Rmse,
        target: "y".into(),
        features,
        derived: vec![],
        tables: vec![],
        labels: None,
        start: vec![0.0],
        scale: 1.0,
        units: Default::default(),
        trees,
        linear: vec![],
        rows: 1,
        history: None,
        provenance: Default::default(),
    }
}

fn split(feature: usize) -> Split {
    Split { feature: feature as u32, border: 0, missing_left: true, gain: 1.0 }
}

/// A chain of nodes that ask about these features.
fn chain(features: impl Iterator<Item = usize>) -> (Vec<Node>, usize) {
    let mut nodes: Vec<Node> =
        features.zip(1..).map(|(f, i)| Node { split: split(f), left: Child::Leaf(i - 1), right: Child::Node(i) }).collect();
    let n = nodes.len() as u32;
    if let Some(last) = nodes.last_mut() {
        last.right = Child::Leaf(n);
    }
    (nodes, n as usize + 1)
}

fn branching(features: impl Iterator<Item = usize>) -> Tree {
    let (nodes, leaves) = chain(features);
    Tree::Branching { nodes, leaves: vec![Leaf { value: 1.0, weight: 1.0, count: 1 }; leaves] }
}

/// A model that was read, applied to one row and told.
fn exercise(model: &Model, bytes: usize) {
    let predictor = bounded("  compiling", bytes, APPLY, || Predictor::new(model.clone()));
    let (values, codes) = ([1.0], [1u32]);
    let column = |f: &Feature| match f.dtype {
        FeatureType::Categorical => Column::codes(f.name.clone(), &codes),
        _ => Column::new(f.name.clone(), f.dtype.clone(), vec![Chunk::new(Values::F64(&values), None)]),
    };
    let columns: Vec<Column<'_>> = model.features.iter().map(column).collect();
    bounded("  applying", bytes, APPLY, || {
        let bound = predictor.bind(&columns).unwrap();
        let raw = predictor.raw(&bound);
        predictor.class(&raw);
        predictor.leaves(&bound);
        predictor.staged(&bound);
    });
    bounded("  telling", bytes, TELL, || {
        model.node_table();
        model.importance(Importance::Gain);
        model.json_text().unwrap();
        (0..(model.features.len() + model.derived.len()) as u32).for_each(|f| drop(model.feature_name(f)));
    });
}

/// The model of these bytes, read in bounds, applied and told.
fn accepted(what: &str, bytes: &[u8]) {
    let model = bounded(what, bytes.len(), READ, || Model::from_bytes(bytes)).unwrap();
    exercise(&model, bytes.len());
}

/// That these bytes are refused, in bounds and in these words.
fn refused<T>(what: &str, bytes: &[u8], read: fn(&[u8]) -> taiga_engine::Result<T>, words: &str) {
    let text = bounded(what, bytes.len(), READ, || read(bytes).err().unwrap_or_else(|| panic!("{what} is accepted")).to_string());
    assert!(text.contains(words), "{what}: {text}");
}

/// A table of a hundred thousand categories, and a hundred thousand derived features that each want a byte for each of them when
/// the model is applied: ten billion bytes for one megabyte.
#[test]
fn many_statistics_of_one_large_table_are_refused() {
    let n = 100_000;
    let statistic = |kind| Derived::Ctr { table: 0, sums: 0, ctr: Ctr { kind, class: 0, prior: 0.5 }, unit: 1.0, borders: vec![0.25] };
    for kind in [CtrKind::Counter, CtrKind::Borders] {
        let mut m = model(vec![feature("c".into(), Some(integers(n)))], vec![branching(1..=n)]);
        m.tables = vec![CtrTable { features: vec![0], keys: vec![], n: vec![1; n], sums: vec![vec![1; n]] }];
        m.derived = vec![statistic(kind); n];
        refused("statistics of a table", &m.to_bytes(), Model::from_bytes, "which has 1 sums");
        // Sixteen priors of one sum and a counter are what a fit may ask for.
        m.derived.truncate(32);
        m.trees = vec![branching(1..=32)];
        accepted("statistics of a table", &m.to_bytes());
    }
}

/// Questions about single categories of a column of many: the partitions of a fit may be as many, and are applied.
#[test]
fn many_sets_of_a_large_column_take_no_table_each() {
    let n = 100_000;
    let mut m = model(vec![feature("c".into(), Some(integers(n)))], vec![branching(1..=n)]);
    m.derived = (0..n as u32).map(|c| Derived::OneOf { feature: 0, categories: vec![c] }).collect();
    accepted("sets of categories", &m.to_bytes());
}

/// What a large column's sets answer, against their definition: looked up by category and by the set's own.
#[test]
fn sets_of_small_and_large_columns_answer_alike() {
    // Of the large one, a code for each category lasts for the first set and the third.
    let large = vec![vec![0], vec![7, 599_999], (0..600_000).step_by(3).collect()];
    for (n, sets) in [(300, vec![vec![0], vec![7, 299]]), (600_000, large)] {
        let mut m = model(vec![feature("c".into(), Some(integers(n)))], vec![]);
        let codes: Vec<u32> = [0, 1, 7, 299, 300, 599_999, 600_000, u32::MAX].into();
        let columns = [Column::codes("c", &codes)];
        for set in &sets {
            m.derived.push(Derived::OneOf { feature: 0, categories: set.clone() });
            m.trees.push(Tree::Symmetric {
                splits: vec![split(m.derived.len())],
                leaves: [0.0, 1.0].map(|value| Leaf { value, ..Default::default() }).to_vec(),
            });
        }
        m.validate().unwrap();
        let predictor = Predictor::new(m);
        let leaves = predictor.leaves(&predictor.bind(&columns).unwrap());
        for (row, code) in codes.iter().enumerate() {
            let expected: Vec<u32> = sets.iter().map(|set| (set.contains(code) && (*code as usize) < n) as u32).collect();
            assert_eq!(leaves[row * sets.len()..(row + 1) * sets.len()], expected, "category {code} of {n}");
        }
    }
}

/// A combination of a hundred thousand columns of one category, which every statistic would be named after.
#[test]
fn combinations_of_many_columns_are_refused() {
    let n = 30_000;
    let features = (0..n).map(|i| feature(format!("c{i}"), Some(integers(1)))).collect();
    let mut m = model(features, vec![branching(n..n + 16)]);
    m.tables = vec![CtrTable { features: (0..n as u32).collect(), keys: vec![0], n: vec![1], sums: vec![] }];
    let ctr = Ctr { kind: CtrKind::Counter, class: 0, prior: 0.5 };
    m.derived = vec![Derived::Ctr { table: 0, sums: 0, ctr, unit: 1.0, borders: vec![0.25] }; 16];
    refused("a wide combination", &m.to_bytes(), Model::from_bytes, "combines 30000 features, 8 are the most");
}

/// A label of a megabyte that fifty thousand sets name.
#[test]
fn names_of_sets_do_not_repeat_long_labels() {
    let labels = Categorized::Text(vec!["a".repeat(1 << 20), "b".into()]);
    let n = 50_000;
    let mut m = model(vec![feature("c".repeat(1 << 20), Some(Categories { labels, null: None }))], vec![branching(1..=n)]);
    m.derived = vec![Derived::OneOf { feature: 0, categories: vec![0] }; n];
    let bytes = m.to_bytes();
    let m = bounded("sets of a long label", bytes.len(), READ, || Model::from_bytes(&bytes)).unwrap();
    let names = bounded("  names", bytes.len(), TELL, || (1..=n as u32).map(|f| m.feature_name(f)).collect::<Vec<_>>());
    assert!(names[0].len() < 500 && names[0].contains("… in {aaa"), "{}", names[0]);
    exercise(&m, bytes.len());
}

/// Keys that an unkeyed hash would send to one place, so that each is compared with all before it.
#[test]
fn chosen_keys_of_a_table_and_labels_take_no_time_by_their_square() {
    let factor = 0x9E37_79B9_7F4A_7C15u64;
    let inverse = (0..6).fold(factor, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse))));
    let space = 250u64.pow(7);
    let mut keys: Vec<u64> = (0..1u64 << 24).map(|i| (i << 40).wrapping_mul(inverse)).filter(|k| *k < space).take(200_000).collect();
    keys.sort_unstable();
    let n = keys.len();
    let features = (0..7).map(|i| feature(format!("c{i}"), Some(integers(250)))).collect();
    let mut m = model(features, vec![branching(7..8)]);
    m.tables = vec![CtrTable { features: (0..7).collect(), keys, n: vec![1; n], sums: vec![] }];
    let ctr = Ctr { kind: CtrKind::Counter, class: 0, prior: 0.5 };
    m.derived = vec![Derived::Ctr { table: 0, sums: 0, ctr, unit: 1.0, borders: vec![0.25] }];
    accepted("chosen keys", &m.to_bytes());
    // The upper half of each takes back what its lower half says.
    let labels = (0..400_000i128).map(|high| high << 64 | (high as u64).wrapping_mul(factor) as i128).collect();
    let categories = Categories { labels: Categorized::Integer(labels), null: None };
    accepted("chosen labels", &model(vec![feature("c".into(), Some(categories))], vec![]).to_bytes());
}

/// Numbers that are found by hashes: tens of thousands of nothing but their parts, and two hundred thousand keys that an unkeyed hash would
/// send to one place.
#[test]
fn what_is_found_by_hashes_takes_memory_in_proportion() {
    let hashed =
        |table, parts: Vec<HashedPart>, values: Vec<f32>| Derived::Hashed { table, parts, values, unseen: 1.0, borders: vec![0.5] };
    let known = Categories { labels: Categorized::Hashed(vec![]), null: Some(u32::MAX) };
    let table = |features: &[u32], keys: Vec<u64>| CtrTable { features: features.to_vec(), keys, n: vec![], sums: vec![] };
    let n = 30_000;
    let mut m = model(vec![feature("c".into(), Some(known.clone())), feature("x".into(), None)], vec![branching(2..2 + n)]);
    m.tables = vec![table(&[0, 1], vec![])];
    // Parts that differ, so that none share what they look up.
    let answer = |missing_left| HashedPart::Answer { feature: 1, border: 0, missing_left };
    let parts = |i: usize| (0..15).map(move |bit| if i >> bit & 1 == 1 { answer(i >> 1 & 1 == 1) } else { HashedPart::Category(0) });
    m.derived = (0..n).map(|i| hashed(0, parts(i).chain([answer(true), HashedPart::Category(0)]).collect(), vec![])).collect();
    accepted("what is found by hashes", &m.to_bytes());
    let factor = 0x9E37_79B9_7F4A_7C15u64;
    let inverse = (0..6).fold(factor, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse))));
    let mut keys: Vec<u64> = (0..200_000u64).map(|i| (i << 40).wrapping_mul(inverse)).collect();
    keys.sort_unstable();
    keys.dedup();
    let values = vec![0.25; keys.len()];
    let mut m = model(vec![feature("c".into(), Some(known.clone()))], vec![branching(1..2)]);
    m.tables = vec![table(&[0], keys)];
    m.derived = vec![hashed(0, vec![HashedPart::Category(0)], values)];
    accepted("chosen hashes", &m.to_bytes());
    // Sets of a column whose categories are hashes, and a long text that each would be named after.
    let text = "a".repeat(1 << 20);
    let labels = Categorized::Hashed(vec![(hash_of(&text), text.clone())]);
    let mut m = model(vec![feature("c".into(), Some(Categories { labels, null: Some(0) }))], vec![branching(1..=n)]);
    m.derived =
        (0..n as u32).map(|c| Derived::OneOf { feature: 0, categories: vec![hash_of(&text).wrapping_mul(c / 2 * 2 + 1)] }).collect();
    accepted("sets of hashes", &m.to_bytes());
}

/// Twenty thousand classes, and one row.
#[test]
fn many_classes_take_room_for_the_rows_that_there_are() {
    let n = 20_000;
    let mut m = model(vec![feature("x".into(), None)], vec![branching(0..1); n]);
    m.loss = LossKind::Multiclass;
    m.labels = Some(Labels::Integer((0..n as i64).collect()));
    m.start = vec![0.0; n];
    accepted("many classes", &m.to_bytes());
}

/// Columns, of which a chain of nodes asks about each.
#[test]
fn many_features_take_room_for_those_asked_about() {
    let n = 60_000;
    let features: Vec<Feature> = (0..n).map(|i| feature(format!("f{i}"), None)).collect();
    accepted("many features", &model(features.clone(), vec![branching(0..n)]).to_bytes());
    // Of a forest, with a feature of so many borders that values are read as they are.
    let mut features = features;
    features[0].borders = (0..300).map(|b| b as f64).collect();
    for asked in [1, n] {
        let (nodes, leaves) = chain(0..asked);
        let tree = forest::Tree { nodes, counts: vec![1; leaves], sums: vec![1; leaves], means: vec![0.5; leaves] };
        let mut f = a_forest(features.clone(), vec![tree]);
        f.rows = 1;
        let bytes = f.to_bytes();
        let f = bounded("a forest's features", bytes.len(), READ, || Forest::from_bytes(&bytes)).unwrap();
        let value = [1.0];
        let columns: Vec<Column<'_>> = f.features.iter().map(|f| Column::from_f64(f.name.clone(), &value)).collect();
        let predictor = bounded("  compiling", bytes.len(), APPLY, || forest::Predictor::new(f.clone()));
        bounded("  applying", bytes.len(), 2 * APPLY, || {
            let bound = predictor.bind(&columns).unwrap();
            assert_eq!(predictor.predict(&bound), [[0.5]]);
        });
        bounded("  telling", bytes.len(), TELL, || (f.node_table().len(), f.json_text().unwrap().len()));
    }
}

fn a_forest(features: Vec<Feature>, trees: Vec<forest::Tree>) -> Forest {
    Forest {
        params: ForestParams::default(),
        criterion: Criterion::SquaredError,
        target: "y".into(),
        features,
        labels: None,
        sets: vec![],
        trees,
        rows: 1,
        unit: 1.0,
        gain_unit: 1.0,
        oob: None,
        permutation: None,
        provenance: Default::default(),
    }
}

/// Splits of categories that each send 254 categories right, of a few bytes each.
#[test]
fn sets_of_a_forest_are_told_in_bounds() {
    let n = 20_000;
    let (nodes, leaves) = chain((0..n).map(|_| 0));
    let tree = forest::Tree { nodes, counts: vec![1; leaves], sums: vec![1; leaves], means: vec![0.5; leaves] };
    let mut f = a_forest(vec![feature("c".into(), Some(integers(254)))], vec![tree]);
    f.sets = vec![taiga_engine::quantize::CodeSet::from_words([u64::MAX; 4])];
    let bytes = f.to_bytes();
    let f = bounded("a forest's sets", bytes.len(), READ, || Forest::from_bytes(&bytes)).unwrap();
    bounded("  telling", bytes.len(), TELL, || f.json_text().unwrap().len());
}

fn a_linear(labels: Labels, sparse: Option<SparseFeatures>, dense: Vec<DenseFeature>) -> LinearModel {
    let outputs = if labels.len() <= 2 { 1 } else { labels.len() };
    LinearModel {
        params: LinearParams::default(),
        target: "y".into(),
        labels,
        sparse,
        dense_weights: vec![1.0; dense.len() * outputs],
        dense,
        numbers: vec![],
        weights: vec![],
        intercepts: vec![0.0; outputs],
        means: None,
        rows: 1,
        passes: 1,
        converged: true,
        objective: 0.5,
        history: None,
        provenance: Default::default(),
    }
}

fn sparse(numbering: Numbering) -> Option<SparseFeatures> {
    Some(SparseFeatures { column: "f".into(), values: None, numbering })
}

/// Of the 2^64 features there may be few have coefficients, and their largest number takes no array.
#[test]
fn large_feature_numbers_take_no_array() {
    for numbers in [vec![u64::MAX - 1], vec![0, 1 << 40], (0..1000).map(|i| i << 20).collect()] {
        let mut m = a_linear(Labels::Boolean, sparse(Numbering::Numbers { features: u64::MAX }), vec![]);
        m.weights = vec![1.0; numbers.len()];
        m.numbers = numbers;
        let bytes = m.to_bytes();
        let m = bounded("large numbers", bytes.len(), READ, || LinearModel::from_bytes(&bytes)).unwrap();
        bounded("  compiling", bytes.len(), APPLY, || linear::Predictor::new(m));
    }
}

/// Strings hashed to more bits than a fit may ask for, with no coefficient that would be beyond them.
#[test]
fn hashes_of_too_many_bits_are_refused() {
    for bits in [0, 31, 64, u32::MAX] {
        let bytes = a_linear(Labels::Boolean, sparse(Numbering::Hashed { bits }), vec![]).to_bytes();
        refused("bits of hashes", &bytes, LinearModel::from_bytes, &format!("hashed to {bits} bits"));
    }
}

/// A dense column's name of a megabyte, which JSON would repeat for each of ten thousand classes.
#[test]
fn long_names_of_dense_columns_are_not_repeated() {
    let dense = vec![DenseFeature { name: "d".repeat(1 << 20), dtype: FeatureType::Numeric }];
    let bytes = a_linear(Labels::Integer((0..10_000).collect()), None, dense).to_bytes();
    let m = bounded("a long name", bytes.len(), READ, || LinearModel::from_bytes(&bytes)).unwrap();
    let error = bounded("  telling", bytes.len(), TELL, || m.json_text()).unwrap_err().to_string();
    assert!(error.contains("repeat its columns' names for 10000 classes: 10.49 GB"), "{error}");
    assert_eq!(bounded("  coefficients", bytes.len(), TELL, || m.coefficients().count()), 10_000);
}

/// Parameters of a few bytes each that would take half a kilobyte each, and names by the thousand.
#[test]
fn parameters_take_memory_and_time_in_proportion() {
    let own = model(vec![feature("x".into(), None)], vec![]).to_bytes();
    let objects = format!("{{\"categorical\": [{}0]}}", "{\"\":0},".repeat(100_000));
    refused("objects", &with_params(&own, &objects), Model::from_bytes, "100001 objects");
    let names: String = (0..100_000).map(|i| format!("\"n{i}\":0,")).collect();
    refused("names", &with_params(&own, &format!("{{{names}\"a\":0}}")), Model::from_bytes, "it names 100001 parameters");
    let long = format!("{{\"{}\":0}}", "t".repeat(1_000_000));
    refused("a long name", &with_params(&own, &long), Model::from_bytes, "overlong name");
    // Names of categorical columns may hold braces, and be many.
    let columns: Vec<String> = (0..1000).map(|i| format!("{{\"{i}\\{{")).collect();
    let text = json!({ "categorical": columns }).to_string();
    assert_eq!(Model::from_bytes(&with_params(&own, &text)).unwrap().params.categorical, columns);
    // The same through a call.
    let names: serde_json::Map<_, _> = (0..20_000).map(|i| (format!("treees{i}"), json!(0))).collect();
    let value = serde_json::Value::Object(names);
    let error = bounded("a call's names", 20_000 * 12, 1000, || BoostingParams::from_json(&value)).unwrap_err();
    assert_eq!(error.each().len(), 100);
    let value = json!({ "t".repeat(1_000_000): 0 });
    bounded("a call's long name", 1_000_000, READ, || BoostingParams::from_json(&value)).unwrap_err();
}

/// The device and the threads that bytes name are those of nobody: nothing is opened and none are started.
#[test]
fn a_device_in_the_bytes_is_not_taken() {
    let text = json!({ "device": "cuda:7", "n_threads": 1024 }).to_string();
    let boosted = with_params(&model(vec![feature("x".into(), None)], vec![]).to_bytes(), &text);
    let m = Model::from_bytes(&boosted).unwrap();
    assert_eq!((m.params.device.as_str(), m.params.n_threads), ("auto", None));
    assert!(taiga_engine::device::predict::PlacedPredictor::new("auto", Predictor::new(m).into()).is_ok_and(|p| !p.is_remote()));
    let tree = forest::Tree { nodes: vec![], counts: vec![1], sums: vec![1], means: vec![0.5] };
    let f = Forest::from_bytes(&with_params(&a_forest(vec![feature("x".into(), None)], vec![tree]).to_bytes(), &text)).unwrap();
    assert_eq!((f.params.device.as_str(), f.params.n_threads), ("auto", None));
    let linear = a_linear(Labels::Boolean, sparse(Numbering::Numbers { features: 1 }), vec![]).to_bytes();
    let l = LinearModel::from_bytes(&with_params(&linear, &text)).unwrap();
    assert_eq!((l.params.device.as_str(), l.params.n_threads), ("auto", None));
}

/// Lists of nothing, by the million: of features, trees, tables, labels; and an encoder's.
#[test]
fn lists_of_small_things_take_memory_in_proportion() {
    let own = model(vec![feature("x".into(), None)], vec![]);
    let n = 300_000;
    type Change = fn(&mut Model, usize);
    let many: [(&str, Change); 4] = [
        ("trees", |m, n| m.trees = vec![Tree::Branching { nodes: vec![], leaves: vec![Leaf::default()] }; n]),
        ("features", |m, n| m.features = (0..n).map(|i| feature(i.to_string(), None)).collect()),
        ("tables", |m, n| m.tables = vec![CtrTable { features: vec![0], keys: vec![], n: vec![], sums: vec![] }; n]),
        ("sums", |m, n| m.tables = vec![CtrTable { features: vec![0], keys: vec![], n: vec![1], sums: vec![vec![]; n] }]),
    ];
    for (what, change) in many {
        let mut m = own.clone();
        change(&mut m, n);
        let bytes = m.to_bytes();
        match bounded(what, bytes.len(), READ, || Model::from_bytes(&bytes)) {
            Ok(m) => exercise(&m, bytes.len()),
            Err(error) => assert!(error.to_string().contains("table 0"), "{what}: {error}"),
        }
    }
    // An encoder of a target `y` with the classes "", "", …: one byte each.
    let payload = [[1, b'y', 1].as_slice(), &[0xC0, 0x84, 0x3D], &[0; 1_000_000], &[0]].concat();
    let mut bytes = [b"TAIGA\0TE\x01\0\0\0".as_slice(), &(payload.len() as u64).to_le_bytes(), &payload].concat();
    let checksum = xxh3_64(&bytes);
    bytes.extend(checksum.to_le_bytes());
    refused("classes of an encoder", &bytes, TargetEncoder::from_bytes, "no columns or no classes");
}
