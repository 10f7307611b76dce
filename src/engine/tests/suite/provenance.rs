//! What models tell of the columns that they were fitted on: the type of their labels, computed columns, and `positive`; that only
//! models with such news are written in a new format version; and what becomes of bytes whose news do not hold together.

use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::labels::{Label, Labels};
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::{EncodingTarget, TargetParams};
use taiga_engine::envelope::Persisted;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::forest::{Forest, ForestParams};
use taiga_engine::learners::linear::{LinearModel, LinearParams};
use taiga_engine::learners::{boosting, forest, linear};
use taiga_engine::metadata::Metadata;
use taiga_engine::provenance::{LabelType, Provenance, StructColumn};
use taiga_engine::receipt::Receipt;
use taiga_testing::tampering::sealed;

/// Two features, and two classes.
struct Table {
    columns: Vec<Vec<f64>>,
    codes: Vec<u32>,
}

fn table() -> Table {
    let x: Vec<f64> = (0..40).map(|i| (i % 7) as f64).collect();
    let z: Vec<f64> = (0..40).map(|i| (i * i % 11) as f64).collect();
    let codes = (0..40).map(|i| (x[i] + z[i] > 8.0) as u32).collect();
    Table { columns: vec![x, z], codes }
}

impl Table {
    fn features(&self) -> Vec<Column<'_>> {
        ["x", "z"].iter().zip(&self.columns).map(|(name, values)| Column::from_f64(*name, values)).collect()
    }

    fn target(&self, labels: Labels) -> Target<'_> {
        Target::Classes { codes: &self.codes, labels }
    }

    fn boosted(&self, target: Target<'_>, positive: Option<Label>) -> taiga_engine::Result<Model> {
        let params = BoostingParams { rounds: Some(2), depth: Some(2), positive, ..Default::default() };
        let (features, target_name) = (self.features(), "y".into());
        boosting::fit(
            &taiga_engine::dataset::Input {
                features,
                target,
                target_name,
                weight: None,
                baseline: vec![],
                held_out: None,
                loss_columns: Default::default(),
                evaluation: Default::default(),
                order: None,
            },
            &params,
            &Quiet,
        )
    }

    fn forest(&self, target: Target<'_>, positive: Option<Label>) -> taiga_engine::Result<Forest> {
        let params = ForestParams { trees: 2, depth: Some(2), positive, ..Default::default() };
        forest::fit(&forest::Input { features: self.features(), target, target_name: "y".into(), weight: None }, &params, &Quiet)
    }

    fn linear(&self, target: Target<'_>, positive: Option<Label>) -> taiga_engine::Result<LinearModel> {
        let params = LinearParams { positive, ..Default::default() };
        let (dense, target_name) = (self.features(), "y".into());
        linear::fit(&linear::Input { sparse: None, dense, target, target_name, weight: None, held_out: None }, &params, &Quiet)
    }
}

fn text(labels: &[&str]) -> Labels {
    Labels::Text(labels.iter().map(|s| s.to_string()).collect())
}

fn version(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[8..12].try_into().unwrap())
}

fn payload(bytes: &[u8]) -> &[u8] {
    &bytes[20..bytes.len() - 8]
}

/// Runs a block for a model of each learner, fitted on the same rows with the labels a and b; `$plain` is the version that such
/// a model is written in.
macro_rules! for_each_learner {
    (|$model:ident, $type:ident, $plain:ident| $body:block) => {{
        let t = table();
        let labels = || t.target(text(&["a", "b"]));
        {
            type $type = Model;
            let ($model, $plain) = (t.boosted(labels(), None).unwrap(), 2);
            $body
        }
        {
            type $type = Forest;
            let ($model, $plain) = (t.forest(labels(), None).unwrap(), 1);
            $body
        }
        {
            type $type = LinearModel;
            // What came after provenance is left out.
            let ($model, $plain) = (LinearModel { means: None, ..t.linear(labels(), None).unwrap() }, 1);
            $body
        }
    }};
}

fn enumeration() -> LabelType {
    LabelType::Enum(["z", "b", "", "a"].map(String::from).to_vec())
}

/// Proves that a model with nothing to tell keeps the version and the bytes it had, and that one with something has them behind the
/// same payload.
#[test]
fn only_news_raise_the_version() {
    for_each_learner!(|model, M, plain| {
        let before = model.to_bytes();
        assert_eq!(version(&before), plain);
        assert_eq!(model.to_json()["version"], plain);
        assert!(model.to_json().get("label_type").is_none() && model.to_json().get("computed").is_none());
        for provenance in [
            Provenance::new(Some(enumeration()), []),
            Provenance::new(None, [false, true]),
            Provenance::new(Some(LabelType::Categorical { name: "c".into(), namespace: "".into(), bits: 8 }), [true, true]),
        ] {
            let mut told = model.clone();
            told.provenance = provenance;
            told.validate().unwrap();
            let bytes = told.to_bytes();
            assert_eq!(version(&bytes), plain + 1);
            assert!(payload(&bytes).starts_with(payload(&before)));
            let back = M::from_bytes(&bytes).unwrap();
            assert_eq!(back.provenance, told.provenance);
            assert!(back.to_bytes() == bytes);
            assert_eq!(told.to_json()["version"], plain + 1);
        }
        // What says that it is new and has no news can be read, and is written as what it is.
        let mut empty = before.clone();
        empty[8] += 1;
        let end = empty.len() - 8;
        empty.splice(end..end, [0, 0]);
        assert!(M::from_bytes(&sealed(empty)).unwrap().to_bytes() == before);
    });
}

/// Proves that a receipt, beside metadata and columns of structs or alone, raises the version to the newest, and travels; that a part of a
/// model has none; and that bytes without one in that version are read.
#[test]
fn receipts_travel() {
    for_each_learner!(|model, M, plain| {
        let (before, _plain): (M, u32) = (model.clone(), plain);
        for provenance in [
            Provenance::default(),
            Provenance { metadata: Some(Metadata::new("{\"a\": 1}").unwrap()), ..Provenance::new(Some(enumeration()), []) },
            Provenance::new(None, [true, true]).with_structs(vec![of_struct("s", &[0, 1])], 0),
        ] {
            let mut told = model.clone();
            let receipt = Receipt::from_bytes([0x5A; 32]);
            told.provenance = Provenance { receipt: Some(receipt), ..provenance };
            let bytes = told.to_bytes();
            assert_eq!(version(&bytes), M::ENVELOPE.receipt);
            let back = M::from_bytes(&bytes).unwrap();
            assert_eq!(back.provenance, told.provenance);
            assert!(back.to_bytes() == bytes);
            assert_eq!(told.to_json()["receipt"], json!("5a".repeat(32)));
            assert_eq!(M::from_json(&told.to_json().to_string()).unwrap().to_bytes(), bytes);
            // The receipt is the last thing: a mark that there is one, and 32 bytes.
            let end = bytes.len() - 8;
            let without = sealed([&bytes[..end - 33], &[0], &bytes[end..]].concat());
            let bare = M::from_bytes(&without).unwrap();
            assert_eq!(bare.provenance, Provenance { receipt: None, ..told.provenance });
            assert!(version(&bare.to_bytes()) < M::ENVELOPE.receipt);
        }
        assert!(before.to_json().get("receipt").is_none());
    });
    let mut model = table().boosted(table().target(text(&["a", "b"])), None).unwrap();
    model.provenance.receipt = Some(Receipt::from_bytes([1; 32]));
    assert_eq!(model.into_head(1).unwrap().provenance.receipt, None);
}

/// Proves that columns of structs, with metadata and without, raise the version, and travel.
#[test]
fn structs_travel() {
    for_each_learner!(|model, M, plain| {
        for metadata in [None, Some(Metadata::new("{\"a\": 1}").unwrap())] {
            let (mut told, _plain): (M, u32) = (model.clone(), plain);
            let structs = vec![of_struct("s", &[0]), of_struct("t", &[1])];
            told.provenance = Provenance { metadata, ..Provenance::new(Some(enumeration()), [true, true]).with_structs(structs, 0) };
            let bytes = told.to_bytes();
            assert_eq!(version(&bytes), M::ENVELOPE.structs);
            let back = M::from_bytes(&bytes).unwrap();
            assert_eq!(back.provenance, told.provenance);
            assert!(back.to_bytes() == bytes);
            assert_eq!(told.to_json()["structs"], json!([{"name": "s", "columns": [0]}, {"name": "t", "columns": [1]}]));
        }
    });
    let behind = Provenance::new(None, [false, true, true]).with_structs(vec![of_struct("s", &[0, 1])], 1);
    assert_eq!(behind.structs, [of_struct("s", &[1, 2])]);
}

fn of_struct(name: &str, columns: &[u32]) -> StructColumn {
    StructColumn { name: name.into(), columns: columns.to_vec() }
}

#[test]
fn json_tells_the_type_of_labels_and_computed_columns() {
    for_each_learner!(|model, M, plain| {
        let (mut told, _plain): (M, u32) = (model, plain);
        told.provenance = Provenance::new(Some(enumeration()), [false, true]);
        assert_eq!(told.to_json()["label_type"], json!({"Enum": ["z", "b", "", "a"]}));
        assert_eq!(told.to_json()["computed"], json!(["z"]));
    });
}

/// Proves that each rule about types and columns is kept.
#[test]
fn news_that_do_not_hold_together_are_refused() {
    let of_type = |label_type| Provenance::new(Some(label_type), []);
    let of_columns = |computed: &[u32]| Provenance { computed: computed.to_vec(), ..Provenance::default() };
    let of_structs = |structs: &[StructColumn]| of_columns(&[0, 1]).with_structs(structs.to_vec(), 0);
    let categorical = |bits| LabelType::Categorical { name: "".into(), namespace: "".into(), bits };
    let cases = [
        (of_type(LabelType::String), "not of the type String"),
        (of_type(LabelType::UInt8), "not of the type UInt8"),
        (of_type(LabelType::Boolean), "not of the type Boolean"),
        (of_type(categorical(12)), "not of the type Categorical"),
        (of_type(LabelType::Enum(vec!["a".into()])), "not of the type Enum([\"a\"])"),
        (of_type(LabelType::Enum(vec!["a".into(), "b".into(), "a".into()])), "not of the type Enum"),
        (of_columns(&[2]), "computed columns [2]"),
        (of_columns(&[1, 0]), "computed columns [1, 0]"),
        (of_columns(&[0, 0]), "computed columns [0, 0]"),
        (of_structs(&[of_struct("s", &[])]), "its struct `s`"),
        (of_structs(&[of_struct("s", &[2])]), "its struct `s`"),
        (of_structs(&[of_struct("s", &[1, 0])]), "its struct `s`"),
        (of_structs(&[of_struct("s", &[0, 1]), of_struct("t", &[1])]), "its struct `t`"),
        (of_structs(&[of_struct("s", &[0]), of_struct("s", &[1])]), "its struct `s` is given twice"),
        (of_columns(&[0]).with_structs(vec![of_struct("s", &[1])], 0), "its struct `s`"),
    ];
    for_each_learner!(|model, M, plain| {
        for (provenance, words) in &cases {
            let (mut bad, _plain): (M, u32) = (model.clone(), plain);
            bad.provenance = provenance.clone();
            let error = M::from_bytes(&bad.to_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    });
    let numbers = [
        (Labels::Integer(vec![0, 256]), LabelType::UInt8),
        (Labels::Integer(vec![-1, 1]), LabelType::UInt64),
        (Labels::Integer(vec![0, 1]), LabelType::Int64),
        (Labels::Integer(vec![0, 1]), LabelType::Float32),
        (Labels::Float(vec![0.0, 16_777_217.0]), LabelType::Float32),
        (Labels::Float(vec![0.0, 1e5]), LabelType::Float16),
        (Labels::Float(vec![0.0, 100.0]), LabelType::Decimal { precision: 3, scale: 1 }),
        (Labels::Float(vec![0.0, 1.0]), LabelType::Decimal { precision: 3, scale: 4 }),
        (Labels::Float(vec![0.0, 1.0]), LabelType::Decimal { precision: u32::MAX, scale: 0 }),
        (Labels::TrueFirst, LabelType::Boolean),
    ];
    let fitting = [
        (Labels::Integer(vec![0, 255]), LabelType::UInt8),
        (Labels::Integer(vec![-128, 1]), LabelType::Int8),
        (Labels::Integer(vec![i64::MIN, 1]), LabelType::Int128),
        (Labels::Float(vec![0.0, 1.0]), LabelType::Float32),
        (Labels::Float(vec![0.0, 99.0]), LabelType::Decimal { precision: 3, scale: 1 }),
    ];
    let (t, cases) = (table(), numbers.into_iter().map(|c| (c, false)).chain(fitting.into_iter().map(|c| (c, true))));
    for ((labels, label_type), fits) in cases {
        let mut model = t.boosted(t.target(labels), None).unwrap();
        model.provenance.label_type = Some(label_type);
        assert_eq!(Model::from_bytes(&model.to_bytes()).is_ok(), fits, "{:?} {:?}", model.labels, model.provenance);
    }
    // A regression has no labels and so no type of them.
    let y = &t.columns[0];
    let mut regression = t.boosted(Target::Numbers(Column::from_f64("y", y)), None).unwrap();
    regression.provenance.label_type = Some(LabelType::Float32);
    assert!(Model::from_bytes(&regression.to_bytes()).unwrap_err().to_string().contains("no labels"));
}

/// Proves that no cut, changed byte or lying length does harm, whether or not the checksum is mended.
#[test]
fn hostile_bytes_are_refused_or_harmless() {
    for_each_learner!(|model, M, plain| {
        let (mut told, _plain): (M, u32) = (model, plain);
        told.provenance = Provenance::new(Some(enumeration()), [true, true]).with_structs(vec![of_struct("s", &[0, 1])], 0);
        let bytes = told.to_bytes();
        let try_it = |bytes: Vec<u8>| {
            if let Ok(model) = M::from_bytes(&bytes) {
                let again = M::from_bytes(&model.to_bytes()).unwrap();
                assert!(again.to_bytes() == model.to_bytes() && again.to_json().is_object());
            }
        };
        for n in 28..bytes.len() {
            M::from_bytes(&bytes[..n]).unwrap_err();
            try_it(sealed(bytes[..n].to_vec()));
        }
        for at in 0..bytes.len() - 8 {
            for change in [1, 3, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                M::from_bytes(&changed).unwrap_err();
                try_it(sealed(changed));
            }
            for lie in [&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..], &[0xff, 0xff, 0xff, 0x7f]] {
                if at >= 20 {
                    try_it(sealed([&bytes[..at], lie, &bytes[at + 1..]].concat()));
                }
            }
        }
    });
}

/// Proves that `positive` must be the last of two labels, stands among a model's parameters and in its bytes, and that a model
/// without it has no trace of it.
#[test]
fn positive_is_the_last_label() {
    let t = table();
    let ab = || t.target(text(&["a", "b"]));
    let last = || Some(Label::Text("b".into()));
    for_each_learner!(|model, M, plain| {
        let (_, _plain): (M, u32) = (model.clone(), plain);
        assert!(model.params.to_json().get("positive").is_none());
        let mut model = model;
        model.params.positive = last();
        assert_eq!(version(&model.to_bytes()), plain + 1);
        let back = M::from_bytes(&model.to_bytes()).unwrap();
        assert_eq!(back.params.to_json()["positive"], "b");
    });
    assert_eq!(t.boosted(ab(), last()).unwrap().trees, t.boosted(ab(), None).unwrap().trees);
    let errors = [
        (t.boosted(ab(), Some(Label::Text("a".into()))).unwrap_err(), "\"a\" is not the last of the classes, \"a\", \"b\""),
        (t.forest(ab(), Some(Label::Text("c".into()))).unwrap_err(), "the target has no class \"c\"; its classes are \"a\", \"b\""),
        (t.linear(ab(), Some(Label::Boolean(true))).unwrap_err(), "the target has no class true; its classes are \"a\", \"b\""),
        (t.boosted(Target::Numbers(Column::from_f64("y", &t.columns[0])), last()).unwrap_err(), "classes under loss=\"logloss\""),
        (t.forest(Target::Numbers(Column::from_f64("y", &t.columns[0])), last()).unwrap_err(), "classes under criterion=\"gini\""),
    ];
    for (error, words) in errors {
        let error = error.to_string();
        assert!(error.starts_with("parameter `positive`: ") && error.contains(words), "{error}");
    }
    let three = text(&["a", "b", "c"]).with_positive(&Label::Text("b".into()), None).unwrap_err().to_string();
    assert!(three.contains("has 3: \"a\", \"b\", \"c\""), "{three}");
    // A class without rows is one that rows could have.
    let (b, c) = (Label::Text("b".into()), Label::Text("c".into()));
    assert_eq!(text(&["a"]).with_positive(&b, None).unwrap(), (text(&["a", "b"]), false));
    assert_eq!(text(&["b"]).with_positive(&b, None).unwrap(), (text(&["b"]), false));
    assert_eq!(text(&["a"]).with_positive(&b, Some(&enumeration())).unwrap().0, text(&["a", "b"]));
    let error = text(&["a"]).with_positive(&c, Some(&enumeration())).unwrap_err().to_string();
    assert!(error.contains("no class \"c\"; its one class is \"a\""), "{error}");
    text(&["a"]).with_positive(&Label::Integer(1), None).unwrap_err();
}

/// Proves that a Boolean target turned around is told from one that is not, and both kept.
#[test]
fn booleans_can_be_turned_around() {
    let (turned, changed) = Labels::Boolean.with_positive(&Label::Boolean(false), None).unwrap();
    assert_eq!((&turned, changed, turned.names()), (&Labels::TrueFirst, true, vec!["true".to_string(), "false".into()]));
    let kept = turned.clone().with_positive(&Label::Boolean(false), None).unwrap();
    assert_eq!(kept, (Labels::TrueFirst, false));
    assert_eq!(turned.clone().with_positive(&Label::Boolean(true), None).unwrap(), (Labels::Boolean, true));
    let t = table();
    let model = t.forest(t.target(turned), Some(Label::Boolean(false))).unwrap();
    let bytes = model.to_bytes();
    assert_eq!(version(&bytes), 2);
    let back = Forest::from_bytes(&bytes).unwrap();
    assert_eq!((&back.labels, &back.to_json()["labels"]), (&Some(Labels::TrueFirst), &json!([true, false])));
    // Numbers are the same label whatever they are written as.
    let (floats, changed) = Labels::Float(vec![0.0, 1.0]).with_positive(&Label::Integer(0), None).unwrap();
    assert_eq!((floats, changed), (Labels::Float(vec![1.0, 0.0]), true));
}

/// Proves the same of encoders: only one with computed columns is written in the new version.
#[test]
fn encoders_name_their_computed_columns() {
    let column = |name: &str| CategoryColumn::text(name, &[4], |_, row| Some(["a", "a", "b", "c"][row])).unwrap();
    let target = EncodingTarget::Flags(&[1, 0, 1, 1]);
    let encoder = || TargetEncoder::fit(vec![column("u"), column("v")], "y", target, None, None, &TargetParams::default()).unwrap();
    let before = encoder().to_bytes();
    assert_eq!(version(&before), 1);
    assert!(encoder().with_computed([false, false]).unwrap().to_bytes() == before);
    let told = encoder().with_computed([false, true]).unwrap();
    assert_eq!(told.computed(), ["v"]);
    let bytes = told.to_bytes();
    assert_eq!(version(&bytes), 2);
    assert!(payload(&bytes).starts_with(payload(&before)));
    assert_eq!(TargetEncoder::from_bytes(&bytes).unwrap().computed(), ["v"]);
    encoder().with_computed([true, true, true]).unwrap_err();
    for at in 20..bytes.len() - 8 {
        for change in [1, 2, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(encoder) = TargetEncoder::from_bytes(&sealed(changed)) {
                assert!(TargetEncoder::from_bytes(&encoder.to_bytes()).is_ok());
            }
        }
    }
}
