//! Target encoding and statistics of categories on the GPU have the CPU's bits.

use taiga_engine::column::categories::UncodedCategories;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, Values};
use taiga_engine::cuda::columns::categories::DeviceCodes;
use taiga_engine::cuda::columns::target_encode::category_values;
use taiga_engine::cuda::trees::ctr;
use taiga_engine::device::columns::with_columns;
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::combine::combine;
use taiga_engine::encoding::ctr::{Ctr, CtrKind, CtrTarget, ctr_codes};
use taiga_engine::encoding::permutation::permutation;
use taiga_engine::encoding::target::{
    Auto, EncodingInput, EncodingKind, EncodingPlan, EncodingTarget, Order, PriorWeight, TargetParams, UncodedInput, target_encode,
};
use taiga_engine::numerics::random::{Purpose, Random};
use taiga_testing::gpu::patterns;
use taiga_testing::gpu::{Gpu, gpu, say};
use taiga_testing::rows::TextRows;

fn random(stream: u64) -> Random {
    patterns::random(9_000 + stream)
}

fn bits(values: &[Vec<f64>]) -> Vec<Vec<u64>> {
    values.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
}

fn same(gpu: &Gpu, what: &str, input: &EncodingInput<'_>, plan: &EncodingPlan, params: &TargetParams) {
    let cpu = target_encode(input, plan, params);
    let found = taiga_engine::cuda::columns::target_encode::target_encode(&gpu.queue, input, plan, params);
    match (found, cpu) {
        (Ok(found), Ok(cpu)) => {
            for (k, (f, c)) in bits(&found).iter().zip(bits(&cpu)).enumerate() {
                assert_eq!(f.len(), c.len(), "{what}");
                if let Some(row) = (0..c.len()).find(|i| f[*i] != c[*i]) {
                    panic!("{what}, {params:?}, output {k}, row {row}: GPU {:?}, CPU {:?}", found[k][row], cpu[k][row]);
                }
            }
        }
        (Err(found), Err(cpu)) => assert_eq!(found.to_string(), cpu.to_string(), "{what}"),
        (found, cpu) => panic!("{what}, {params:?}: GPU {:?}, CPU {:?}", found.err(), cpu.err()),
    }
    let encoder = category_values(&gpu.queue, input, params).expect("values");
    let expected = taiga_engine::encoding::target::category_values(input, params).expect("values");
    assert_eq!(bits(&[encoder.0, encoder.1]), bits(&[expected.0, expected.1]), "{what}: the values of categories");
}

/// Every kind of order and of folds.
fn plans(n: usize, params: &TargetParams) -> Vec<(&'static str, EncodingPlan, TargetParams)> {
    let with = |kind, permutations, folds| TargetParams { kind, permutations, folds, ..params.clone() };
    let mut given: Vec<u32> = (0..n as u32).rev().collect();
    given.rotate_left(n / 3);
    let folds: Vec<u32> = (0..n).map(|i| random(4).u32(i as u32) % 7).collect();
    let one = with(EncodingKind::Ordered, 1, 5);
    let three = with(EncodingKind::Ordered, 3, 5);
    let kfold = with(EncodingKind::Kfold, 1, 2);
    vec![
        ("in row order", EncodingPlan::Ordered(vec![Order::Rows]), one.clone()),
        ("in a random order", EncodingPlan::random(n, &one).expect("a plan"), one.clone()),
        ("in three orders", EncodingPlan::random(n, &three).expect("a plan"), three),
        ("in a given order", EncodingPlan::Ordered(vec![Order::Given(given)]), one),
        ("in folds", EncodingPlan::random(n, &kfold).unwrap_or(EncodingPlan::Plain), kfold.clone()),
        ("in folds of one's own", EncodingPlan::Folds(folds, 9), kfold),
        ("but itself", EncodingPlan::Plain, with(EncodingKind::Loo, 1, 5)),
        ("all", EncodingPlan::Plain, with(EncodingKind::Full, 1, 5)),
    ]
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn target_encodings_have_the_same_bits() {
    let gpu = gpu();
    let mut done = 0;
    for (n, categories) in [(1usize, 1usize), (2, 1), (5, 3), (1000, 1), (1000, 37), (70_001, 5), (300_001, 60_000), (40_000, 1 << 20)] {
        let r = random(1);
        // The first categories are frequent, some have no row, some have one.
        let codes: Vec<u32> = (0..n).map(|i| ((r.unit(i as u64).powi(3) * categories as f64) as u32).min(categories as u32 - 1)).collect();
        let flags: Vec<u8> = (0..n).map(|i| (r.unit((i + n) as u64) < 0.3) as u8).collect();
        let whole: Vec<f64> = (0..n).map(|i| (r.unit((i + 2 * n) as u64) * 2e6 - 1e6).round()).collect();
        let real: Vec<f64> = (0..n).map(|i| (r.unit((i + 3 * n) as u64) - 0.4) * 10f64.powi((i % 23) as i32 - 11)).collect();
        let huge: Vec<f64> = real.iter().map(|x| x * 1e297).collect();
        let tiny: Vec<f64> = real.iter().map(|x| x * 1e-310).collect();
        let constant = vec![0.1; n];
        let weight: Vec<f64> = (0..n).map(|i| if i % 5 == 1 { 0.0 } else { 3.0 * r.unit((i + 4 * n) as u64) }).collect();
        let classes: Vec<u32> = (0..n).map(|i| r.u32(i as u32) % 4).collect();
        let targets = [
            ("flags", EncodingTarget::Flags(&flags)),
            ("whole numbers", EncodingTarget::Numbers(&whole)),
            ("real numbers", EncodingTarget::Numbers(&real)),
            ("huge numbers", EncodingTarget::Numbers(&huge)),
            ("tiny numbers", EncodingTarget::Numbers(&tiny)),
            ("one number", EncodingTarget::Numbers(&constant)),
            ("classes", EncodingTarget::Classes(&classes, 4)),
        ];
        for (name, target) in targets {
            for weight in [None, Some(&weight[..])] {
                for prior_weight in [PriorWeight::Fixed(1.0), PriorWeight::Fixed(0.0), PriorWeight::Named(Auto::Auto)] {
                    for prior in [None, Some(0.05)] {
                        let base = TargetParams { prior, prior_weight, seed: n as u64, ..Default::default() };
                        let input = EncodingInput { codes: &codes, categories, target, weight };
                        for (plan_name, plan, params) in plans(n, &base) {
                            let seldom =
                                prior.is_some() || prior_weight == PriorWeight::Fixed(0.0) || (weight.is_some() && name != "real numbers");
                            if n > 1000 && seldom {
                                continue;
                            }
                            let what = format!("{name}, {plan_name}, {n} rows of {categories}, weighted {}", weight.is_some());
                            same(gpu, &what, &input, &plan, &params);
                            done += 1;
                        }
                    }
                }
            }
        }
    }
    say(&format!("target encodings: {done}, all equal"));
}

/// Calls `$body` with the name of each type of integers, a slice of values of that type for `$codes`, `$spread` apart, and its variant.
macro_rules! each_integer_type {
    ($codes:expr, $spread:expr, |$name:ident, $values:ident, $variant:ident| $body:expr) => {
        each_integer_type!(@ $codes, $spread, $name, $values, $variant, $body, i8 I8, i16 I16, i32 I32, i64 I64, u8 U8, u16 U16, u32 U32, u64 U64)
    };
    (@ $codes:expr, $spread:expr, $name:ident, $values:ident, $variant:ident, $body:expr, $($type:ident $of:ident),*) => {
        $({
            let $name = stringify!($type);
            let $values: Vec<$type> = $codes.iter().map(|code| <$type>::MIN.wrapping_add((*code as i128 * $spread) as $type)).collect();
            let $variant = Values::$of;
            $body
        })*
    };
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn integers_are_encoded_as_on_the_cpu() {
    let gpu = gpu();
    let mut done = 0;
    for (n, categories) in [(1usize, 1u32), (5, 3), (1000, 100), (70_001, 120), (300_001, 250)] {
        let r = random(31);
        let codes: Vec<u32> = (0..n).map(|i| ((r.unit(i as u64).powi(3) * categories as f64) as u32).min(categories - 1)).collect();
        let real: Vec<f64> = (0..n).map(|i| r.unit((i + 3 * n) as u64) - 0.4).collect();
        let flags: Vec<u8> = real.iter().map(|x| (*x > 0.0) as u8).collect();
        let all = vec![0xFF; n.div_ceil(8) + 1];
        let some: Vec<u8> = (0..n.div_ceil(8) + 1).map(|i| (r.u64(i as u64) >> 9) as u8).collect();
        let none = vec![0; n.div_ceil(8) + 1];
        // Neighbours, and values all over the type.
        for spread in [1i128, (1 << 53) + 77, 1 << 56] {
            each_integer_type!(codes, spread, |name, values, variant| {
                for (nulls, valid) in
                    [("no nulls", None), ("no nulls, with bits", Some(&all)), ("nulls", Some(&some)), ("only nulls", Some(&none))]
                {
                    let cut = n / 3;
                    let part =
                        |from: usize, to: usize| Chunk::new(variant(&values[from..to]), valid.map(|v| Bits::new(v, from + 1, to - from)));
                    let column = Column::new("x", FeatureType::Numeric, vec![part(0, cut), part(cut, n)]);
                    let fitted = UncodedCategories::Integers(column.slice(0, 2 * n / 3));
                    same_encoded(
                        &format!("{name}, {spread} apart, {nulls}, {n} rows"),
                        &fitted,
                        &UncodedCategories::Integers(column.clone()),
                        &real,
                    );
                    for (plan_name, plan, params) in plans(n, &TargetParams::default()) {
                        if n > 1000 && (name.len() < 3 || nulls.len() > 8) {
                            continue;
                        }
                        for target in [EncodingTarget::Flags(&flags), EncodingTarget::Numbers(&real)] {
                            let encode = |device| {
                                with_columns(device, |steps| {
                                    steps.target_encode_uncoded(
                                        &UncodedInput { categories: UncodedCategories::Integers(column.clone()), target, weight: None },
                                        &plan,
                                        &params,
                                    )
                                })
                            };
                            let (found, cpu) = (encode("cuda"), encode("cpu"));
                            let what = format!("{name}, {spread} apart, {nulls}, {plan_name}, {n} rows");
                            match (found, cpu) {
                                (Ok(found), Ok(cpu)) => assert!(bits(&found) == bits(&cpu), "{what}"),
                                (found, cpu) => assert_eq!(found.map_err(|e| e.to_string()), cpu.map_err(|e| e.to_string()), "{what}"),
                            }
                            done += 1;
                        }
                    }
                }
            });
        }
    }
    // The whole range of 64 bits, where no number is left for null.
    let column = Column::new(
        "x",
        FeatureType::Numeric,
        vec![Chunk::new(Values::U64(&[0, u64::MAX, 5, 0, 5, 9]), Some(Bits::new(&[0b01_1111], 0, 6)))],
    );
    let encode = |device| {
        let target = EncodingTarget::Flags(&[0, 1, 1, 1, 0, 1]);
        with_columns(device, |steps| {
            steps.target_encode_uncoded(
                &UncodedInput { categories: UncodedCategories::Integers(column.clone()), target, weight: None },
                &EncodingPlan::Ordered(vec![Order::Rows]),
                &TargetParams::default(),
            )
        })
    };
    assert_eq!(encode("cuda").expect("encoded"), encode("cpu").expect("encoded"));
    let rows = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::F64(&[0.5]), None)]);
    let float = with_columns("cuda", |steps| {
        steps.target_encode_uncoded(
            &UncodedInput { categories: UncodedCategories::Integers(rows.clone()), target: EncodingTarget::Flags(&[1]), weight: None },
            &EncodingPlan::Plain,
            &TargetParams { kind: EncodingKind::Full, ..Default::default() },
        )
    });
    assert!(float.expect_err("no integers").to_string().contains("no kernel"));
    gpu.queue.synchronize().expect("done");
    say(&format!("encodings of integers: {done}, all equal"));
}

/// An encoder that is fitted on some rows gives others the CPU's values.
fn same_encoded(what: &str, fitted: &UncodedCategories<'_>, rows: &UncodedCategories<'_>, real: &[f64]) {
    if fitted.rows() == 0 {
        return;
    }
    let column = fitted.codes().expect("codes").into_column("x");
    let target = EncodingTarget::Numbers(&real[..fitted.rows()]);
    let encoder = TargetEncoder::fit(vec![column], "y", target, None, None, &TargetParams::default()).expect("an encoder");
    let encode = |device| with_columns(device, |steps| steps.encode(&encoder, 0, rows)).expect("encoded");
    assert!(bits(&encode("cuda")) == bits(&encode("cpu")), "encoded: {what}");
}

/// Two texts of one hash (`text_keys` of kernels/columns/categories.cu).
fn texts_of_one_hash() -> [String; 2] {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |z: u64| {
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let text = |first: u64, second: u64| String::from_utf8([first.to_le_bytes(), second.to_le_bytes()].concat());
    let behind = |first: u64| mix((mix(16 + GOLDEN) ^ first).wrapping_add(GOLDEN));
    // The second word of the other text makes up for what the first one changed; it must be a text too.
    let ascii = 0x7F7F_7F7F_7F7F_7F7F;
    let other = (1..).map(|i: u64| i.wrapping_mul(GOLDEN) & ascii).find(|first| (behind(0) ^ behind(*first)) & !ascii == 0);
    let other = other.expect("found after some hundred");
    [text(0, 0), text(other, behind(0) ^ behind(other))].map(|text| text.expect("ASCII"))
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn texts_are_encoded_as_on_the_cpu() {
    let gpu = gpu();
    let mut done = 0;
    let [one, other] = texts_of_one_hash();
    assert_ne!(one, other);
    type Label<'a> = Box<dyn Fn(u32) -> Option<String> + 'a>;
    for n in [1usize, 3, 1000, 16_384, 70_001] {
        let r = random(41);
        let codes: Vec<u32> = (0..n).map(|i| (r.unit(i as u64).powi(3) * 300.0) as u32).collect();
        let real: Vec<f64> = (0..n).map(|i| r.unit((i + 3 * n) as u64) - 0.4).collect();
        let kinds: Vec<(&str, Label<'_>)> = vec![
            ("short", Box::new(|code| Some(format!("{code}")))),
            ("null and empty", Box::new(|code| [None, Some(String::new()), Some("\0".into())][code as usize % 3].clone())),
            ("only nulls", Box::new(|_| None)),
            ("only empty", Box::new(|_| Some(String::new()))),
            ("longer and longer", Box::new(|code| (code % 7 != 0).then(|| "\u{1F332}ab".repeat(code as usize)))),
            ("of one hash", Box::new(|code| Some(if code % 2 == 0 { one.clone() } else { other.clone() }))),
        ];
        for (kind, label) in kinds {
            let texts = &TextRows(codes.iter().map(|code| label(*code)).collect());
            let fitted = &TextRows(texts.0[..2 * n / 3].iter().filter(|text| text.as_ref() != Some(&other)).cloned().collect());
            same_encoded(&format!("{kind}, {n} rows"), &UncodedCategories::Texts(&fitted), &UncodedCategories::Texts(&texts), &real);
            for (plan_name, plan, params) in plans(n, &TargetParams::default()) {
                let target = EncodingTarget::Numbers(&real);
                let encode = |device| {
                    with_columns(device, |steps| {
                        steps.target_encode_uncoded(
                            &UncodedInput { categories: UncodedCategories::Texts(&texts), target, weight: None },
                            &plan,
                            &params,
                        )
                    })
                };
                let what = format!("{kind}, {plan_name}, {n} rows");
                match (encode("cuda"), encode("cpu")) {
                    (Ok(found), Ok(cpu)) => assert!(bits(&found) == bits(&cpu), "{what}"),
                    (found, cpu) => assert_eq!(found.map_err(|e| e.to_string()), cpu.map_err(|e| e.to_string()), "{what}"),
                }
                done += 1;
            }
        }
    }
    // A text of more bytes than a piece of an upload.
    let texts = &TextRows((0..40).map(|i| Some(format!("{}{}", "x".repeat(5 << 20), i % 3))).collect());
    let real: Vec<f64> = (0..40).map(|i| random(5).unit(i)).collect();
    let params = TargetParams { kind: EncodingKind::Full, ..Default::default() };
    let encode = |device| {
        let (texts, target) = (UncodedCategories::Texts(&texts), EncodingTarget::Numbers(&real));
        with_columns(device, |steps| {
            steps.target_encode_uncoded(&UncodedInput { categories: texts, target, weight: None }, &EncodingPlan::Plain, &params)
        })
        .expect("encoded")
    };
    assert!(encode("cuda") == encode("cpu"));
    gpu.queue.synchronize().expect("done");
    say(&format!("encodings of texts: {done}, all equal"));
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_folds_are_those_of_the_cpu() {
    let gpu = gpu();
    for (n, folds) in [(1usize, 1usize), (2, 2), (1000, 3), (1000, 999), (300_001, 5), (300_001, 20_000)] {
        let params = TargetParams { kind: EncodingKind::Kfold, folds: folds as u32, seed: 3, ..Default::default() };
        if params.validate().is_err() {
            continue;
        }
        let plan = EncodingPlan::random(n, &params).expect("a plan");
        let (of_rows, count) = plan.folds(n).expect("folds").expect("a plan of folds");
        let given = EncodingPlan::Folds(of_rows.into_owned(), count);
        let codes: Vec<u32> = (0..n as u32).map(|i| i % 7).collect();
        let real: Vec<f64> = (0..n).map(|i| random(5).unit(i as u64)).collect();
        let input = EncodingInput { codes: &codes, categories: 7, target: EncodingTarget::Numbers(&real), weight: None };
        let encode = |plan| {
            let found = taiga_engine::cuda::columns::target_encode::target_encode(&gpu.queue, &input, plan, &params);
            found.map(|found| bits(&found)).map_err(|e| e.to_string())
        };
        assert_eq!(encode(&plan), encode(&given), "{folds} folds of {n} rows");
    }
}

/// A few rows through every kernel: small enough for compute-sanitizer's racecheck.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn few_rows_reach_every_kernel() {
    let gpu = gpu();
    let (n, categories) = (6001, 40);
    let r = random(11);
    let codes: Vec<u32> = (0..n).map(|i| (r.unit(i as u64).powi(2) * categories as f64) as u32).collect();
    let flags: Vec<u8> = (0..n).map(|i| (r.unit((i + n) as u64) < 0.3) as u8).collect();
    let real: Vec<f64> = (0..n).map(|i| r.unit((i + 2 * n) as u64) - 0.4).collect();
    let classes: Vec<u32> = (0..n).map(|i| r.u32(i as u32) % 3).collect();
    // Flags in the rows' numbers, flags of classes, numbers, numbers with weights.
    for (name, target, weight) in [
        ("flags", EncodingTarget::Flags(&flags), None),
        ("classes", EncodingTarget::Classes(&classes, 3), None),
        ("numbers", EncodingTarget::Numbers(&real), None),
        ("weighted", EncodingTarget::Numbers(&real), Some(&real.iter().map(|x| x + 0.5).collect::<Vec<f64>>()[..])),
    ] {
        let input = EncodingInput { codes: &codes, categories, target, weight };
        for (plan_name, plan, params) in plans(n, &TargetParams::default()) {
            same(gpu, &format!("{name}, {plan_name}"), &input, &plan, &params);
        }
    }
    for spread in [1i64, 1 << 50] {
        let values: Vec<i64> = codes.iter().map(|code| *code as i64 * spread).collect();
        let column = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::I64(&values), None)]);
        let encode = |device| {
            with_columns(device, |steps| {
                steps.target_encode_uncoded(
                    &UncodedInput {
                        categories: UncodedCategories::Integers(column.clone()),
                        target: EncodingTarget::Flags(&flags),
                        weight: None,
                    },
                    &EncodingPlan::Ordered(vec![Order::Rows]),
                    &TargetParams::default(),
                )
            })
        };
        assert_eq!(encode("cuda").expect("encoded"), encode("cpu").expect("encoded"), "{spread} apart");
    }
    statistics(gpu, n, categories);
    // By a table, and by a sort.
    let other: Vec<u32> = (0..n).map(|i| r.u32(i as u32) % 1000).collect();
    for counts in [[categories, 1000], [1 << 20, 1 << 20]] {
        let columns = [(&codes[..], counts[0]), (&other[..], counts[1])];
        let found = with_columns("cuda", |backend| backend.combine(&columns)).expect("combined");
        assert!(found == combine(&columns).expect("combined"), "{counts:?}");
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn no_rows_and_bad_input_are_as_on_the_cpu() {
    let gpu = gpu();
    let params = TargetParams::default();
    let empty = EncodingInput { codes: &[], categories: 3, target: EncodingTarget::Flags(&[]), weight: None };
    same(gpu, "no rows", &empty, &EncodingPlan::Ordered(vec![Order::Rows]), &params);
    let input = |target, weight| EncodingInput { codes: &[0, 1, 1], categories: 2, target, weight };
    for (target, weight) in [
        (EncodingTarget::Flags(&[1][..]), None),
        (EncodingTarget::Numbers(&[1.0, f64::NAN, 2.0][..]), None),
        (EncodingTarget::Flags(&[1, 0, 1][..]), Some(&[0.0, 0.0, 0.0][..])),
        (EncodingTarget::Flags(&[1, 0, 1][..]), Some(&[0.0, -1.0, 0.0][..])),
    ] {
        let cpu = target_encode(&input(target, weight), &EncodingPlan::Plain, &TargetParams { kind: EncodingKind::Full, ..params.clone() });
        let found = taiga_engine::cuda::columns::target_encode::target_encode(
            &gpu.queue,
            &input(target, weight),
            &EncodingPlan::Plain,
            &TargetParams { kind: EncodingKind::Full, ..params.clone() },
        );
        assert_eq!(found.expect_err("bad input").to_string(), cpu.expect_err("bad input").to_string());
    }
    // All rows with a weight are in one fold.
    let one_fold = EncodingPlan::Folds(vec![0, 0, 0], 2);
    let kfold = TargetParams { kind: EncodingKind::Kfold, ..params.clone() };
    same(gpu, "one fold", &input(EncodingTarget::Flags(&[1, 0, 1]), None), &one_fold, &kfold);
    let beyond = EncodingInput { codes: &[0, 7], categories: 2, target: EncodingTarget::Flags(&[1, 0]), weight: None };
    let e = taiga_engine::cuda::columns::target_encode::target_encode(&gpu.queue, &beyond, &EncodingPlan::Plain, &params)
        .expect_err("a code too many");
    assert!(e.to_string().contains("7 is not below"), "{e}");
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn statistics_inside_the_trees_have_the_same_bits() {
    let gpu = gpu();
    for (n, cardinality) in [(1usize, 1usize), (100, 3), (5000, 1), (200_003, 30_000)] {
        statistics(gpu, n, cardinality);
    }
}

fn statistics(gpu: &Gpu, n: usize, cardinality: usize) {
    let r = random(8);
    let codes: Vec<u32> = (0..n).map(|i| (r.unit(i as u64).powi(2) * cardinality as f64) as u32).collect();
    let y: Vec<f64> = (0..n).map(|i| r.unit((i + n) as u64) * 8.0 - 3.0).collect();
    let training: Vec<u32> = (0..n as u32).filter(|i| n < 10 || i % 5 != 0).collect();
    let target = CtrTarget::numbers(&y, &training, &[-1.0, 0.5, 2.0], true);
    let shuffled = permutation(n, Random::new(3, Purpose::Permutation, 0));
    let order: Vec<u32> = shuffled.into_iter().filter(|row| n < 10 || row % 5 != 0).collect();
    let on_device = DeviceCodes::new(&gpu.queue, "codes", &codes, cardinality).expect("room");
    for order in [&order[..], &[]] {
        let device_order = ctr::DeviceOrder::new(&gpu.queue, order, n).expect("room");
        for kind in [CtrKind::Borders, CtrKind::Buckets, CtrKind::BinarizedTargetMeanValue, CtrKind::FloatTargetMeanValue, CtrKind::Counter]
        {
            let statistic = Ctr { kind, class: 1, prior: 0.5 };
            let addends: Vec<u32> = (0..n)
                .map(|row| match kind {
                    CtrKind::Borders => (target.classes[row] > 1) as u32,
                    CtrKind::Buckets => (target.classes[row] == 1) as u32,
                    CtrKind::BinarizedTargetMeanValue => target.classes[row] as u32,
                    CtrKind::FloatTargetMeanValue => target.scaled[row],
                    CtrKind::Counter => 0,
                })
                .collect();
            let expected = statistic.prefixes(&codes, cardinality, order, &target);
            let found = ctr::prefixes(&gpu.queue, &on_device, &device_order, &gpu.upload(&addends)).expect("prefixes");
            let (rows, sums) = (gpu.download(&found.n), gpu.download(found.s.as_ref().expect("sums")));
            for (row, e) in expected.iter().enumerate() {
                assert_eq!((rows[row], sums[row]), (e.n, e.s), "{kind:?}, row {row} of {n}");
            }
            let most = expected.iter().map(|e| e.n).max().unwrap_or(0);
            let borders: Vec<f64> = (0..15).map(|i| i as f64 / 15.0).collect();
            let unit = statistic.unit(target.count);
            let codes_found = ctr::codes(&gpu.queue, &statistic, &found, unit, most, &borders).expect("codes");
            assert_eq!(gpu.download(&codes_found), ctr_codes(&statistic, &expected, unit, most, &borders), "{kind:?} of {n}");
        }
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn combinations_are_numbered_as_on_the_cpu() {
    gpu();
    for n in [0usize, 1, 2, 1000, 100_003] {
        for counts in [&[1usize][..], &[1, 1], &[3, 4], &[100, 100, 7], &[1 << 20, 1 << 20], &[50_000, 60_000, 70_000], &[4_000_000_000, 3]]
        {
            let column = |k: usize, count: usize| -> Vec<u32> {
                (0..n).map(|i| (random(20 + k as u64).unit(i as u64).powi(4) * count as f64) as u32).collect()
            };
            let columns: Vec<Vec<u32>> = counts.iter().enumerate().map(|(k, count)| column(k, *count)).collect();
            let columns: Vec<(&[u32], usize)> = columns.iter().zip(counts).map(|(c, count)| (&c[..], *count)).collect();
            let found = with_columns("cuda", |backend| backend.combine(&columns)).expect("combined");
            assert!(found == combine(&columns).expect("combined"), "{n} rows of {counts:?}");
        }
        let short = with_columns("cuda", |backend| backend.combine(&[(&[0, 1], 2), (&[0], 1)])).expect_err("lengths differ");
        assert_eq!(short.to_string(), combine(&[(&[0, 1], 2), (&[0], 1)]).expect_err("lengths differ").to_string());
    }
}
