//! Predictions against the definition, row by row.

use proptest::prelude::*;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, TimeUnit, Values};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::losses::LossKind;
use taiga_engine::tree::Tree;
use taiga_testing::model::{Dice, Kind, branching, kinds, model, naive_leaf, naive_raw, values, with_linear_leaves};

/// A table with one vector of values a feature.
fn table(model: &Model, rows: usize, seed: u64) -> Vec<Vec<f64>> {
    let dice = &mut Dice(seed);
    model.features.iter().map(|f| values(dice, f, rows)).collect()
}

/// Everything a predictor computes, held against the naive walk of every row.
fn check(model: &Model, columns: &[Column<'_>], data: &[Vec<f64>]) -> Result<(), TestCaseError> {
    let predictor = Predictor::new(model.clone());
    let columns: Vec<&Column<'_>> = columns.iter().collect();
    let (raw, leaves, staged) = (predictor.raw(&columns), predictor.leaves(&columns), predictor.staged(&columns));
    let (rows, trees, rounds) = (data[0].len(), model.trees.len(), model.rounds());
    prop_assert_eq!(raw.len(), model.outputs());
    prop_assert_eq!(leaves.len(), rows * trees);
    for r in 0..rows {
        let row: Vec<f64> = data.iter().map(|c| c[r]).collect();
        for (t, tree) in model.trees.iter().enumerate() {
            prop_assert_eq!(leaves[r * trees + t], naive_leaf(tree, &model.features, &row), "row {} {:?} tree {}", r, row, t);
        }
        for (k, expected) in naive_raw(model, &row, rounds).into_iter().enumerate() {
            prop_assert_eq!(raw[k][r].to_bits(), expected.to_bits());
        }
        for round in 0..rounds {
            for (k, expected) in naive_raw(model, &row, round + 1).into_iter().enumerate() {
                prop_assert_eq!(staged[k][r * rounds + round].to_bits(), expected.to_bits());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn f64_columns_follow_the_definition(kind in kinds(), rows in 1usize..700, seed: u64) {
        let model = model(kind);
        let data = table(&model, rows, seed);
        let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
        check(&model, &columns, &data)?;
        check(&with_linear_leaves(model, seed), &columns, &data)?;
    }

    /// An f32 column gives what the same values in f64 give, though borders are rounded to f32.
    #[test]
    fn f32_columns_follow_the_definition_of_f64(kind in kinds(), rows in 1usize..300, seed: u64) {
        let model = model(kind);
        let narrow: Vec<Vec<f32>> = table(&model, rows, seed).iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
        let data: Vec<Vec<f64>> = narrow.iter().map(|c| c.iter().map(|x| *x as f64).collect()).collect();
        let columns: Vec<_> = narrow.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), v)).collect();
        check(&model, &columns, &data)?;
        check(&with_linear_leaves(model, seed), &columns, &data)?;
    }

    /// Chunks of several types with nulls give what the same values in one chunk give.
    #[test]
    fn chunks_types_and_nulls_do_not_matter(kind in kinds(), cut in 1usize..600, nulls: u64) {
        let model = model(kind);
        let dice = &mut Dice(kind.seed ^ 1);
        let integers: Vec<i32> = (0..600).map(|_| dice.below(1000) as i32 - 500).collect();
        let floats: Vec<f32> = integers.iter().map(|x| *x as f32).collect();
        let bytes: Vec<u8> = (0..600usize.div_ceil(8)).map(|i| (nulls.rotate_left(i as u32 * 7)) as u8 | 0x11).collect();
        let (a, b) = (Bits::new(&bytes, 0, cut), Bits::new(&bytes, cut, 600 - cut));
        let data: Vec<f64> = (0..600).map(|i| if bytes[i / 8] >> (i % 8) & 1 == 1 { integers[i] as f64 } else { f64::NAN }).collect();
        let data = vec![data; model.features.len()];
        for f32_only in [false, true] {
            let first = if f32_only { Values::F32(&floats[..cut]) } else { Values::I32(&integers[..cut]) };
            let chunks = vec![Chunk::new(first, Some(a)), Chunk::new(Values::F32(&floats[cut..]), Some(b))];
            let columns: Vec<_> =
                (0..model.features.len()).map(|i| Column::new(format!("f{i}"), FeatureType::Numeric, chunks.clone())).collect();
            check(&model, &columns, &data)?;
            check(&with_linear_leaves(model.clone(), nulls), &columns, &data)?;
        }
    }
}

/// Tables long enough for grids of cells, with borders that are even, crowded, of all magnitudes,
/// around zero, or beyond f32: still the definition, for f32 and f64 alike.
#[test]
fn long_columns_follow_the_definition() {
    let dice = &mut Dice(77);
    let mut borders: Vec<Vec<f64>> = vec![
        (0..254).map(|i| i as f64 * 0.37 - 50.0).collect(),
        (0..255).map(|i| (i as f64 * 0.1 - 10.0).exp()).collect(),
        (-120..120).map(|i| (i as f64 / 2.0).sinh()).collect(),
        (0..100).map(|i| 1e6 + i as f64 * 1e-9).collect(),
        (0..60).map(|i| -1e300 * 0.5f64.powi(i * 16)).chain([-0.0]).chain((0..60).map(|i| 1e-300 * 2f64.powi(i * 16))).collect(),
        [f64::NEG_INFINITY, f64::MIN, f32::MIN as f64, -1.0, 0.0, f32::MAX as f64, f64::MAX].into_iter().collect(),
        (0..200).map(|i| f64::from_bits(1 + i)).collect(),
        (0..40).map(|i| f32::from_bits(1 + i) as f64).collect(),
        (0..150).map(|_| (dice.unit() - 0.5) / (dice.unit() - 0.5)).collect(),
        (0..20).map(|i| f32::MAX as f64 * (i as f64 - 10.0) / 10.0).collect(),
    ];
    borders.iter_mut().for_each(|b| b.sort_by(f64::total_cmp));
    let mut m = model(Kind { seed: 8, features: borders.len(), trees: 0, outputs: 1, depth: 0, symmetric: 0, borders: 1 });
    for (f, b) in m.features.iter_mut().zip(borders) {
        f.borders = b;
    }
    let features = m.features.clone();
    m.trees = (0..40).map(|_| branching(dice, &features, 255)).collect();
    // A tree of one level for every border, so that each is asked for.
    let leaves = [1.0, 2.0].map(|value| taiga_engine::tree::Leaf { value, weight: 0.0, count: 0 });
    for (f, feature) in features.iter().enumerate() {
        for border in 0..=feature.borders.len() as u32 {
            let split = taiga_engine::tree::Split { feature: f as u32, border, missing_left: border % 2 == 0, gain: 0.0 };
            m.trees.push(Tree::Symmetric { splits: vec![split], leaves: leaves.to_vec() });
        }
    }
    m.validate().unwrap();
    let data = table(&m, 5000, 3);
    let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
    let narrow: Vec<Vec<f32>> = data.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
    let narrow_columns: Vec<_> = narrow.iter().enumerate().map(|(i, v)| Column::from_f32(format!("f{i}"), v)).collect();
    let widened: Vec<Vec<f64>> = narrow.iter().map(|c| c.iter().map(|x| *x as f64).collect()).collect();
    for (columns, data) in [(&columns, &data), (&narrow_columns, &widened)] {
        let predictor = Predictor::new(m.clone());
        let columns: Vec<&Column<'_>> = columns.iter().collect();
        let (raw, leaves) = (predictor.raw(&columns), predictor.leaves(&columns));
        for r in 0..data[0].len() {
            let row: Vec<f64> = data.iter().map(|c| c[r]).collect();
            for (t, tree) in m.trees.iter().enumerate() {
                assert_eq!(leaves[r * m.trees.len() + t], naive_leaf(tree, &m.features, &row), "row {row:?} tree {t}");
            }
            assert_eq!(raw[0][r], naive_raw(&m, &row, m.rounds())[0]);
        }
    }
}

/// Trees at the edges of what a byte can number: 256 and 257 leaves, 8 and 9 levels, 255 borders.
#[test]
fn the_limits_of_a_byte_are_passed_unharmed() {
    let base = Kind { seed: 5, features: 3, trees: 0, outputs: 1, depth: 0, symmetric: 100, borders: 255 };
    let mut m = model(base);
    for f in &mut m.features {
        f.borders = (0..255).map(|i| i as f64).collect();
    }
    let dice = &mut Dice(9);
    for nodes in [0, 1, 2, 127, 128, 254, 255, 256, 257, 2000, 2000] {
        m.trees.push(branching(dice, &m.features, nodes));
    }
    for (b, missing_left) in (0..256).flat_map(|b| [(b, false), (b, true)]) {
        let split = taiga_engine::tree::Split { feature: 0, border: b, missing_left, gain: 0.0 };
        let depth = 1 + (b as usize) % 16 / 2 * (missing_left as usize);
        let leaves = (0..1 << depth).map(|v| taiga_engine::tree::Leaf { value: v as f64, weight: 0.0, count: 0 }).collect();
        m.trees.push(Tree::Symmetric { splits: vec![split; depth], leaves });
    }
    let depth16: Vec<_> = m.trees.iter().flat_map(|t| t.splits().copied().collect::<Vec<_>>()).step_by(37).take(16).collect();
    for depth in [7, 8, 9, 16] {
        let leaves = (0..1 << depth).map(|v| taiga_engine::tree::Leaf { value: v as f64, weight: 0.0, count: 0 }).collect();
        m.trees.push(Tree::Symmetric { splits: depth16[..depth].to_vec(), leaves });
    }
    m.validate().unwrap();
    let column: Vec<f64> = (-1..257).flat_map(|i| [i as f64, i as f64 + 0.5]).chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]).collect();
    let data = vec![column.clone(), column.iter().rev().copied().collect(), column];
    let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
    check(&m, &columns, &data).unwrap();
}

#[test]
fn no_rows_give_no_scores() {
    let m = model(Kind { seed: 1, features: 2, trees: 6, outputs: 3, depth: 4, symmetric: 50, borders: 9 });
    let predictor = Predictor::new(m);
    let columns = [Column::from_f64("f0", &[]), Column::from_f64("f1", &[])];
    let columns = predictor.bind(&columns).unwrap();
    assert_eq!(predictor.raw(&columns), vec![Vec::<f64>::new(); 3]);
    assert!(predictor.leaves(&columns).is_empty());
    assert_eq!(predictor.staged(&columns), vec![Vec::<f64>::new(); 3]);
    assert!(predictor.class(&predictor.raw(&columns)).is_empty());
}

#[test]
fn columns_are_found_by_name_and_every_fault_is_named() {
    let m = model(Kind { seed: 2, features: 5, trees: 2, outputs: 1, depth: 3, symmetric: 100, borders: 9 });
    let predictor = Predictor::new(m);
    let x = [1.0, 2.0];
    let numeric = |n: &str| Column::from_f64(n, &x);
    let typed = |n: &str, t: FeatureType| Column::new(n, t, vec![Chunk::new(Values::F64(&x), None)]);
    let good = || vec![numeric("f4"), typed("f3", FeatureType::Date), numeric("other"), numeric("f0"), numeric("f2"), numeric("f1")];
    let names: Vec<_> = predictor.bind(&good()).unwrap().iter().map(|c| c.name().to_string()).collect();
    assert_eq!(names, ["f0", "f1", "f2", "f3", "f4"]);

    let columns = [numeric("f3"), typed("f1", FeatureType::Duration(TimeUnit::Microseconds)), numeric("f0")];
    assert_eq!(
        predictor.bind(&columns).unwrap_err().to_string(),
        "the model needs columns that are missing: `f2` (numeric), `f4` (numeric); columns of another type than the model's: \
         `f1` is duration[us], the model was fitted on numeric; `f3` is numeric, the model was fitted on date"
    );
    let mut twice = good();
    twice.push(numeric("f0"));
    assert_eq!(predictor.bind(&twice).unwrap_err().to_string(), "column `f0`: stands twice among the columns to predict from");
    let mut other_twice = good();
    other_twice.push(numeric("other"));
    assert!(predictor.bind(&other_twice).is_ok());
    let mut short = good();
    short[0] = Column::from_f64("f4", &x[..1]);
    assert_eq!(predictor.bind(&short).unwrap_err().to_string(), "column `f4`: has 1 rows where `f0` has 2");
    assert!(predictor.bind(&[]).is_err());
}

#[test]
fn links_and_classes() {
    let with = |loss: LossKind, outputs: usize| {
        let mut m = model(Kind { seed: 1, features: 1, trees: 0, outputs, depth: 0, symmetric: 100, borders: 1 });
        m.loss = loss;
        Predictor::new(m)
    };
    let linked = |p: &Predictor, mut raw: Vec<Vec<f64>>| {
        p.link(&mut raw);
        raw
    };
    let scores = vec![-1e308, -1000.0, -1.0, 0.0, 2.0, 1000.0, 1e308];
    let p = &linked(&with(LossKind::Logloss, 1), vec![scores.clone()])[0];
    assert_eq!((p[0], p[1], p[3], p[5], p[6]), (0.0, 0.0, 0.5, 1.0, 1.0));
    assert!((p[4] - 0.880_797_077_977_882_4).abs() < 1e-15);
    assert_eq!(linked(&with(LossKind::Rmse, 1), vec![scores.clone()])[0], scores);
    assert!((linked(&with(LossKind::Poisson, 1), vec![vec![1.0]])[0][0] - std::f64::consts::E).abs() < 1e-15);
    let three = with(LossKind::Multiclass, 3);
    let raw = vec![vec![1e300, 0.0, 1.0, -5.0], vec![-1e300, 0.0, 2.0, -4.0], vec![0.0, 0.0, 3.0, -4.0]];
    assert_eq!(three.class(&raw), [0, 0, 2, 1]);
    let p = linked(&three, raw);
    for row in 0..4 {
        assert!((p.iter().map(|c| c[row]).sum::<f64>() - 1.0).abs() < 1e-15);
    }
    assert_eq!((p[0][0], p[1][0], p[0][1]), (1.0, 0.0, 1.0 / 3.0));
    assert!((p[2][2] - 0.665_240_955_774_821_6).abs() < 1e-12);
    assert_eq!(with(LossKind::Logloss, 1).class(&[vec![-0.1, 0.0, 0.1]]), [0, 0, 1]);
}
