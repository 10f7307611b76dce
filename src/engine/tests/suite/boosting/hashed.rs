//! Numbers that are found by hashes of combinations: against their definition, in bytes and JSON, and where they do not hold together.

use proptest::prelude::*;
use taiga_engine::column::categories::CategoryNames;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::{Derived, HashedPart, Model};
use taiga_engine::shap::Terms;
use taiga_testing::hashed::{columns_of, hashed_model, hashed_rows, naive_hashed_raw, views};
use taiga_testing::tampering::sealed;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn predictions_follow_the_definition(seed: u64, rows in 1usize..700) {
        let model = hashed_model(seed);
        model.validate().unwrap();
        let rows = hashed_rows(&model, rows, seed ^ 1);
        let table = columns_of(&rows);
        let columns = views(&table);
        let predictor = Predictor::new(model.clone());
        let bound = predictor.bind(&columns).unwrap();
        let raw = predictor.raw(&bound);
        for (i, row) in rows.iter().enumerate() {
            let found: Vec<f64> = raw.iter().map(|scores| scores[i]).collect();
            prop_assert_eq!(found, naive_hashed_raw(&model, row), "row {} of {}", i, rows.len());
        }
        let shap = predictor.shap_values(None).unwrap();
        let explained = predictor.explain(&shap, &bound, Terms::Values);
        for ((scores, base), values) in raw.iter().zip(&shap.base).zip(&explained.values) {
            for (i, score) in scores.iter().enumerate() {
                let sum: f64 = values.iter().map(|of_column| of_column[i]).sum();
                prop_assert!((base + sum - score).abs() <= 1e-9 * score.abs().max(1e3), "{} and {}", base + sum, score);
            }
        }
    }

    #[test]
    fn bytes_json_and_heads_hold_the_model(seed: u64, rounds in 1usize..9) {
        let model = hashed_model(seed);
        let bytes = model.to_bytes();
        prop_assert_eq!(u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()), 16);
        prop_assert_eq!(&Model::from_bytes(&bytes).unwrap(), &model);
        let text = model.json_text().unwrap();
        prop_assert_eq!(Model::from_json(&text).unwrap().to_bytes(), bytes);
        let head = model.clone().into_head(rounds).unwrap();
        head.validate().unwrap();
        prop_assert_eq!(&Model::from_bytes(&head.to_bytes()).unwrap(), &head);
        let rows = hashed_rows(&model, 60, seed);
        let table = columns_of(&rows);
        let columns = views(&table);
        let first = Model { trees: model.trees[..rounds.min(8) * model.outputs()].to_vec(), ..model };
        for (i, row) in rows.iter().enumerate() {
            let predictor = Predictor::new(head.clone());
            let raw = predictor.raw(&predictor.bind(&columns).unwrap());
            let found: Vec<f64> = raw.iter().map(|scores| scores[i]).collect();
            prop_assert_eq!(found, naive_hashed_raw(&first, row));
        }
    }
}

/// Any byte changed, with a checksum that fits, is an error or another valid model, which predicts.
#[test]
fn hostile_bytes_are_refused_or_harmless() {
    for seed in 0..2 {
        let model = hashed_model(seed);
        let rows = hashed_rows(&model, 40, seed);
        let table = columns_of(&rows);
        let bytes = model.to_bytes();
        for at in 20..bytes.len() - 8 {
            for value in [0, 0x80, bytes[at] ^ 4] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let Ok(other) = Model::from_bytes(&sealed(changed)) else { continue };
                let predictor = Predictor::new(other);
                let columns = views(&table);
                if let Ok(bound) = predictor.bind(&columns) {
                    predictor.raw(&bound);
                }
                let other = predictor.model();
                (0..(other.features.len() + other.derived.len()) as u32).for_each(|f| drop(other.feature_name(f)));
                if at % 8 == 0 {
                    assert!(Model::from_json(&other.json_text().unwrap()).is_ok());
                }
            }
        }
    }
}

/// Each rule has a model that breaks it and nothing else.
#[test]
fn what_does_not_hold_together_is_refused() {
    type Parts<'a> = (&'a mut u32, &'a mut Vec<HashedPart>, &'a mut Vec<f32>, &'a mut f32, &'a mut Vec<f64>);
    fn hashed(m: &mut Model) -> Parts<'_> {
        m.derived
            .iter_mut()
            .find_map(|d| match d {
                Derived::Hashed { table, parts, values, unseen, borders } if !values.is_empty() => {
                    Some((table, parts, values, unseen, borders))
                }
                _ => None,
            })
            .unwrap()
    }
    type Change = fn(&mut Model);
    let changes: &[(&str, Change)] = &[
        ("is not found by", |m| *hashed(m).0 = 99),
        ("is not found by", |m| hashed(m).1.push(HashedPart::Category(0))),
        ("is not found by", |m| hashed(m).1.push(HashedPart::Category(99))),
        ("is not found by", |m| hashed(m).1.clear()),
        ("is not found by", |m| hashed(m).1.extend([HashedPart::Category(2); 64])),
        ("is not found by", |m| hashed(m).1.push(HashedPart::Answer { feature: 0, border: 999, missing_left: true })),
        ("is not found by", |m| {
            let itself = (m.features.len() + m.derived.len()) as u32 - 1;
            hashed(m).1.push(HashedPart::Answer { feature: itself, border: 0, missing_left: true });
        }),
        ("is not found by", |m| hashed(m).2.push(0.0)),
        ("is not found by", |m| hashed(m).2[0] = f32::NAN),
        ("is not found by", |m| *hashed(m).3 = f32::NAN),
        ("is not found by", |m| *hashed(m).4 = vec![1.0, 0.0]),
        ("is not found by", |m| *hashed(m).4 = vec![f64::INFINITY]),
        ("is not found by", |m| *hashed(m).4 = (0..256).map(f64::from).collect()),
        ("is not one of hashes", |m| m.tables[0].n.push(1)),
        ("is not one of hashes", |m| m.tables[0].sums.push(vec![])),
        ("is not one of hashes", |m| m.tables[0].keys = vec![2, 1]),
        ("is not one of hashes", |m| m.tables[0].keys = vec![u64::MAX]),
        ("is not one of hashes", |m| m.tables[0].features.clear()),
        ("not those of its features", |m| m.tables.push(m.tables[0].clone())),
        ("null has none", |m| m.features[2].categories.as_mut().unwrap().null = None),
        ("those of their texts", |m| {
            m.features[2].categories.as_mut().unwrap().labels = CategoryNames::Hashed(vec![(1, "a".into())]);
        }),
    ];
    let base = (0..).map(hashed_model).find(|m| m.tables.iter().all(|t| t.keys.len() > 2)).unwrap();
    base.validate().unwrap();
    for (i, (part, change)) in changes.iter().enumerate() {
        let mut m = base.clone();
        change(&mut m);
        let text = m.validate().map_or_else(|e| e.to_string(), |()| "valid".into());
        assert!(text.contains(part) || (*part == "not those of its features" && text.contains("without categories")), "{i}: {text}");
        assert!(Model::from_bytes(&m.to_bytes()).is_err(), "{i}");
    }
}
