//! Combinations, counts, evidence and encoders: what they are, and what bytes can't do to them.

use proptest::prelude::*;
use std::collections::HashMap;
use taiga_engine::column::categories::{CategoryColumn, UncodedCategories};
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::combine::combine;
use taiga_engine::encoding::count::counts;
use taiga_engine::encoding::target::{EncodingTarget, TargetParams};
use taiga_engine::encoding::woe::evidence;
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_testing::rows::TextRows;
use taiga_testing::tampering::sealed;

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// `n` codes below `categories`, drawn by `stream`.
fn codes(n: usize, categories: usize, stream: u64) -> Vec<u32> {
    let r = Random::new(5, Purpose::RowSample, stream);
    (0..n as u64).map(|i| (r.u64(i) % categories as u64) as u32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn combinations_number_tuples_by_first_appearance(
        n in prop_oneof![0usize..30, 60_000usize..100_000], sizes in prop::collection::vec(prop_oneof![1usize..4, Just(70_000)], 1..4),
        threads in 1usize..5, seed in 0u64..1000,
    ) {
        let columns: Vec<Vec<u32>> = sizes.iter().enumerate().map(|(k, size)| codes(n, *size, seed * 8 + k as u64)).collect();
        let views: Vec<(&[u32], usize)> = columns.iter().zip(&sizes).map(|(c, size)| (&c[..], *size)).collect();
        let (got, count) = on_threads(threads, || combine(&views)).unwrap();
        if columns.len() > 1 {
            let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
            for (row, code) in got.iter().enumerate() {
                let next = seen.len() as u32;
                prop_assert_eq!(*seen.entry(columns.iter().map(|c| c[row]).collect()).or_insert(next), *code);
            }
            prop_assert_eq!(count, seen.len());
        } else {
            prop_assert_eq!(&got, &columns[0]);
        }
        let by_count = on_threads(threads, || counts(&got, count));
        for (code, n) in by_count.iter().enumerate().take(100) {
            prop_assert_eq!(got.iter().filter(|c| **c as usize == code).count(), *n as usize);
        }
    }

    /// Whole columns get the values that their codes have, null's and the prior for what was never seen among them.
    #[test]
    fn columns_are_encoded_label_by_label(n in 1usize..400, categories in 1usize..30, seed in 0u64..1000, null in prop::option::of(0u32..30)) {
        let (fitted, rows) = (codes(n, categories, seed), codes(n, categories + 2, seed + 1));
        let text = |code: &u32| (null != Some(*code)).then(|| format!("{}", code * 37));
        let y: Vec<f64> = fitted.iter().map(|code| (code % 7) as f64).collect();
        let (own, others) = (&TextRows(fitted.iter().map(text).collect()), &TextRows(rows.iter().map(text).collect()));
        let column = UncodedCategories::Texts(&own).codes().unwrap().into_column("x");
        let encoder = TargetEncoder::fit(vec![column], "y", EncodingTarget::Numbers(&y), None, None, &TargetParams::default()).unwrap();
        let lookup = encoder.columns()[0].lookup();
        let unseen = lookup.categories().len() as u32;
        let found: Vec<u32> = others.0.iter().map(|text| match text {
            Some(text) => lookup.text(text).unwrap_or(unseen),
            None => lookup.null().unwrap_or(unseen),
        }).collect();
        prop_assert_eq!(encoder.encode(0, &UncodedCategories::Texts(&others)).unwrap(), vec![encoder.values(0, &found, 0)]);
        prop_assert_eq!(encoder.values_of(0, 0).len(), unseen as usize + 1);
        let integers = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::U32(&rows), None)]);
        let error = encoder.encode(0, &UncodedCategories::Integers(integers)).unwrap_err();
        prop_assert!(error.to_string().contains("the fitted categories are text"));
    }

    #[test]
    fn evidence_is_its_formula(n in 2usize..200, categories in 1usize..9, s in 0u8..3, weighted: bool, seed in 0u64..1000) {
        let (s, categories_of) = (s as f64 / 4.0, codes(n, categories, seed));
        let mut flags: Vec<u8> = codes(n, 2, seed + 1000).iter().map(|f| *f as u8).collect();
        (flags[0], flags[1]) = (0, 1);
        let weight: Vec<f64> = codes(n, 4, seed + 2000).iter().map(|w| 0.5 + *w as f64).collect();
        let w = |row: usize| if weighted { weight[row] } else { 1.0 };
        let got = evidence(&categories_of, categories, &flags, weighted.then_some(&weight), s).unwrap();
        let sum = |flag: u8, category: Option<u32>| (0..n).filter(|i| flags[*i] == flag && category.is_none_or(|c| categories_of[*i] == c)).map(w).sum::<f64>();
        let mut value = 0.0;
        for c in 0..categories as u32 {
            let p = (sum(1, Some(c)) + s) / (sum(1, None) + 2.0 * s);
            let q = (sum(0, Some(c)) + s) / (sum(0, None) + 2.0 * s);
            let woe = (p / q).ln();
            if p + q > 0.0 {
                prop_assert!(woe == got.woe[c as usize] || (woe - got.woe[c as usize]).abs() < 1e-12);
                value += if p == q { 0.0 } else { (p - q) * woe };
            } else {
                prop_assert_eq!(got.woe[c as usize], 0.0);
            }
        }
        prop_assert!(value == got.information_value || (value - got.information_value).abs() < 1e-12);
    }
}

#[test]
fn evidence_needs_both_values() {
    assert!(evidence(&[0, 0], 1, &[1, 1], None, 0.5).unwrap_err().to_string().contains("the same in all rows"));
    assert!(evidence(&[0, 0], 1, &[1, 0], Some(&[1.0, 0.0]), 0.5).unwrap_err().to_string().contains("the same in all rows"));
    assert!(evidence(&[0, 0], 1, &[1], None, 0.5).unwrap_err().to_string().contains("the target has 1 rows"));
    assert_eq!(evidence(&[], 0, &[], None, 0.5).unwrap().woe, Vec::<f64>::new());
    assert!(combine(&[]).is_err() && combine(&[(&[0], 1), (&[], 0)]).is_err());
}

/// An encoder of three columns, text with a null, integers and Booleans, of `outputs` classes.
fn encoder(outputs: usize) -> TargetEncoder {
    let n = 60;
    let text: Vec<Option<String>> = codes(n, 7, 1).iter().map(|c| (*c > 0).then(|| "é".repeat(*c as usize - 1))).collect();
    let integers = codes(n, 5, 2);
    let columns = vec![
        CategoryColumn::text("city", &[n], |_, row| text[row].as_deref()).unwrap(),
        CategoryColumn::integers("zip", &[n], |_, row| Some((integers[row] as i64).wrapping_mul(i64::MAX) / 5)).unwrap(),
        CategoryColumn::booleans("flag", &[n], |_, row| Some(integers[row] > 2)).unwrap(),
    ];
    let target = codes(n, outputs.max(2), 3);
    let flags: Vec<u8> = target.iter().map(|t| *t as u8).collect();
    let (target, classes) = match outputs {
        1 => (EncodingTarget::Flags(&flags), None),
        _ => (EncodingTarget::Classes(&target, outputs), Some((0..outputs).map(|c| format!("class {c}")).collect())),
    };
    TargetEncoder::fit(columns, "y", target, classes, None, &TargetParams::default()).unwrap()
}

/// Applies whatever was parsed.
fn exercise(encoder: &TargetEncoder) {
    for (i, column) in encoder.columns().iter().enumerate() {
        let n = column.lookup().categories().len() as u32;
        let found = [column.lookup().text("é"), column.lookup().integer(0), column.lookup().boolean(true), column.lookup().null()];
        let codes: Vec<u32> = (0..=n).chain(found.into_iter().flatten()).collect();
        for k in 0..encoder.outputs() {
            assert!(encoder.values(i, &codes, k).iter().all(|v| v.is_finite()));
        }
    }
}

fn message(bytes: &[u8]) -> String {
    TargetEncoder::from_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn encoders_survive_their_bytes() {
    for outputs in [1, 3] {
        let encoder = encoder(outputs);
        let bytes = encoder.to_bytes();
        let parsed = TargetEncoder::from_bytes(&bytes).unwrap();
        assert_eq!(parsed.to_bytes(), bytes);
        assert_eq!(
            (parsed.target(), parsed.outputs(), parsed.classes().map(<[String]>::len)),
            ("y", outputs, (outputs > 1).then_some(outputs))
        );
        assert_eq!(parsed.columns().iter().map(|c| c.name()).collect::<Vec<_>>(), ["city", "zip", "flag"]);
        exercise(&parsed);
        let unseen = parsed.columns()[0].lookup().categories().len() as u32;
        assert_eq!(parsed.columns()[0].lookup().text("never"), None);
        assert_eq!(parsed.values(0, &[unseen], 0), encoder.values(0, &[unseen], 0));
    }
}

#[test]
fn bytes_that_are_no_encoder_say_why() {
    let bytes = encoder(1).to_bytes();
    let n = bytes.len();
    assert_eq!(message(&[]), "encoder: the value is empty (0 bytes)");
    assert_eq!(message(b"PAR1 and more"), "encoder: these bytes are not a polars-taiga encoder");
    assert_eq!(message(&bytes[..n - 1]), format!("encoder: the value is cut: {} of {n} bytes are there", n - 1));
    let mut damaged = bytes.clone();
    damaged[n / 2] ^= 4;
    assert_eq!(message(&damaged), "encoder: the value is damaged: its checksum does not fit");
    let mut newer = bytes.clone();
    newer[8] = 7;
    assert_eq!(message(&sealed(newer)), "encoder: this encoder is of format version 7, this build reads up to 2: upgrade polars-taiga");
    let mut other = bytes;
    other[6..8].copy_from_slice(b"GB");
    assert!(message(&sealed(other)).contains("not a target encoder"));
}

/// Every cut and every flipped bit is an error; whatever passes with a checksum that fits holds together.
#[test]
fn hostile_bytes_never_panic() {
    for outputs in [1, 3] {
        let bytes = encoder(outputs).to_bytes();
        for n in 0..bytes.len() {
            assert!(TargetEncoder::from_bytes(&bytes[..n]).is_err());
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(TargetEncoder::from_bytes(&flipped).is_err(), "byte {at}, bit {bit}");
                if (20..bytes.len() - 8).contains(&at)
                    && let Ok(encoder) = TargetEncoder::from_bytes(&sealed(flipped))
                {
                    exercise(&encoder);
                }
            }
        }
        // Lengths that promise more than is there take no memory for it.
        let endless = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        for lie in [&endless[..], &[0xFF, 0xFF, 0xFF, 0x7F], &[]] {
            for at in 20..bytes.len() - 8 {
                if let Ok(encoder) = TargetEncoder::from_bytes(&sealed([&bytes[..at], lie, &bytes[at + 1..]].concat())) {
                    exercise(&encoder);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), seal: bool) {
        let head = encoder(1).to_bytes();
        if seal && bytes.len() > 30 {
            bytes[..20].copy_from_slice(&head[..20]);
            bytes = sealed(bytes);
        }
        if let Ok(encoder) = TargetEncoder::from_bytes(&bytes) {
            exercise(&encoder);
        }
    }
}
