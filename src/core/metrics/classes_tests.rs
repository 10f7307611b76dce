//! Metrics of called classes, of the order of probabilities and of calibration, against numbers that scikit-learn 1.9 computed, and
//! whatever the order of the rows.

use super::{At, Average, MetricKind, MetricSpec, Rows, metric};
use crate::objective::{Link, LossParams};
use proptest::prelude::*;

const SCORE: [f64; 5] = [0.2, -0.4, 1.0, 0.5, 1.2];
const TIED: [f64; 5] = [0.2, 0.2, 1.0, 0.5, 0.5];
const NUMBER: [f64; 5] = [1.5, 0.5, 3.0, 2.0, 7.0];
const TWO: [f64; 5] = [1.0, 0.0, 1.0, 0.0, 1.0];
const SEVERAL: [f64; 5] = [0.0, 1.0, 2.0, 2.0, 1.0];
const WEIGHT: [f64; 5] = [1.0, 2.0, 0.5, 3.0, 1.0];

fn spec(text: &str) -> MetricSpec {
    text.parse().unwrap_or_else(|fault| panic!("{text} is not {fault}"))
}

fn of(text: &str, link: Link, scores: &[Vec<f64>], target: &[f64], weight: Option<&[f64]>) -> f64 {
    metric(&spec(text), &Rows { weight, ..Rows::new(scores, link, target, &LossParams::default()) })
}

fn check(text: &str, link: Link, scores: &[Vec<f64>], target: &[f64], plain: f64, weighted: f64) {
    let (a, b) = (of(text, link, scores, target, None), of(text, link, scores, target, Some(&WEIGHT)));
    assert!((a - plain).abs() < 1e-13 && (b - weighted).abs() < 1e-13, "{text} {link:?}: {a} {b}");
}

#[test]
fn values_of_two_classes_and_of_numbers_are_those_of_scikit_learn() {
    let cases = [
        ("balanced_accuracy", 0.75, 0.7),
        ("f1", 0.8571428571428571, 0.625),
        ("f1@macro", 0.7619047619047619, 0.5982142857142857),
        ("f1@weighted", 0.7809523809523808, 0.5892857142857142),
        ("mcc", 0.6123724356957946, 0.4264014327112208),
        ("ece@4", 0.14588712984883861, 0.30891215686788304),
    ];
    for (text, plain, weighted) in cases {
        check(text, Link::Sigmoid, &[SCORE.to_vec()], &TWO, plain, weighted);
    }
    check("average_precision", Link::Sigmoid, &[TIED.to_vec()], &TWO, 0.7555555555555555, 0.4666666666666666);
    check("rmsle", Link::Exp, &[SCORE.to_vec()], &NUMBER, 0.2918978295632645, 0.2492495259713427);
    check("quantile@0.9", Link::Identity, &[SCORE.to_vec()], &NUMBER, 2.07, 1.728);
    check("tweedie@1.7", Link::Exp, &[SCORE.to_vec()], &NUMBER, 0.2585431236547214, 0.19299296216832762);
}

#[test]
fn values_of_several_classes_are_those_of_scikit_learn() {
    let scores = [SCORE.to_vec(), SCORE.iter().map(|s| -s).collect(), vec![0.0; 5]];
    let cases = [
        ("auc", 0.36111111111111116, 0.40811965811965817),
        ("auc@weighted", 0.38333333333333336, 0.42435897435897435),
        ("average_precision", 0.45555555555555555, 0.4957708957708958),
        ("average_precision@weighted", 0.4966666666666667, 0.5801398601398602),
        ("f1", 0.35555555555555557, 0.36923076923076925),
        ("f1@weighted", 0.3466666666666667, 0.36102564102564105),
        ("f1@micro", 0.4, 0.4),
        ("balanced_accuracy", 0.5, 0.5555555555555555),
        ("mcc", 0.35355339059327373, 0.4021998332699219),
        ("ece@5", 0.40073218056574633, 0.15817378956829625),
    ];
    for (text, plain, weighted) in cases {
        check(text, Link::Softmax, &scores, &SEVERAL, plain, weighted);
    }
    // Probabilities in the place of scores, and the classes that they call.
    let mut shares = scores.to_vec();
    Link::Softmax.apply(&mut shares);
    let calls: Vec<u32> = (0..5).map(|row| super::accuracy::top_class(&shares, row) as u32).collect();
    let params = LossParams::default();
    for (text, plain, _) in cases {
        let predicted = Rows { predicted: true, ..Rows::new(&shares, Link::Softmax, &SEVERAL, &params) };
        assert!((metric(&spec(text), &predicted) - plain).abs() < 1e-13, "{text}");
        if text.starts_with("f1") || ["balanced_accuracy", "mcc"].contains(&text) {
            let called = Rows { calls: Some(&calls), ..Rows::new(&[], Link::Softmax, &SEVERAL, &params) };
            assert!((metric(&spec(text), &called) - plain).abs() < 1e-13, "{text}");
        }
    }
}

#[test]
fn classes_that_do_not_occur_have_no_part() {
    let scores = [vec![2.0, 0.0, 1.0], vec![0.0, 1.0, 3.0], vec![-9.0; 3], vec![-9.0; 3]];
    for text in ["auc", "average_precision", "f1", "balanced_accuracy", "mcc"] {
        let value = of(text, Link::Softmax, &scores, &[0.0, 1.0, 1.0], None);
        assert_eq!(value, 1.0, "{text}");
    }
    // Nothing to tell apart.
    assert!(of("auc", Link::Softmax, &scores, &[1.0; 3], None).is_nan());
    assert_eq!(of("mcc", Link::Sigmoid, &[vec![1.0, 2.0]], &[1.0, 0.0], None), 0.0);
    assert_eq!(of("f1", Link::Sigmoid, &[vec![-1.0, -2.0]], &[0.0, 0.0], None), 0.0);
    assert!(of("average_precision", Link::Sigmoid, &[vec![-1.0, -2.0]], &[0.0, 0.0], None).is_nan());
    assert!(of("rmsle", Link::Identity, &[vec![-2.0]], &[1.0], None).is_nan());
}

#[test]
fn what_stands_behind_an_at_is_checked() {
    for text in ["ndcg@5", "precision@1", "quantile@0.9", "expectile@0.1", "huber@2", "tweedie@1.5", "ece@20", "f1@micro", "mape@0.001"] {
        assert_eq!(spec(text).to_string(), text);
        assert_eq!(serde_json::from_value::<MetricSpec>(serde_json::to_value(spec(text)).unwrap()).unwrap(), spec(text));
    }
    assert_eq!(spec("quantile@0.90").to_string(), "quantile@0.9");
    for (text, wrong) in [
        ("ndcg@0", "a number of places"),
        ("ndcg@1.5", "a number of places"),
        ("quantile@1", "a level inside (0, 1)"),
        ("quantile@nan", "a level inside (0, 1)"),
        ("auc@micro", "macro or weighted"),
        ("auc@", "macro or weighted"),
        ("rmse@1", "takes nothing"),
        ("nothing", "\"rmse\""),
    ] {
        let fault = text.parse::<MetricSpec>().unwrap_err().to_string();
        assert!(fault.contains(wrong), "{text}: {fault}");
    }
    assert!(MetricSpec::with(MetricKind::Ndcg, Some(At::Number(0.0))).is_none());
    assert!(MetricSpec::with(MetricKind::Auc, Some(At::Average(Average::Weighted))).is_some());
}

proptest! {
    #[test]
    fn the_order_of_rows_leaves_no_trace(
        rows in prop::collection::vec((-6i32..6, 0u8..3, 1u8..200), 2..60),
        turn in 0usize..60,
    ) {
        let texts = ["auc", "average_precision", "f1", "f1@weighted", "balanced_accuracy", "mcc", "ece@7"];
        let mut turned = rows.clone();
        turned.rotate_left(turn % rows.len());
        let value = |rows: &[(i32, u8, u8)], text: &str, link: Link| {
            let score: Vec<f64> = rows.iter().map(|r| f64::from(r.0) / 3.0).collect();
            let classes = if link == Link::Sigmoid { 2 } else { 3 };
            let target: Vec<f64> = rows.iter().map(|r| f64::from(r.1 % classes)).collect();
            let weight: Vec<f64> = rows.iter().map(|r| f64::from(r.2) / 131.0).collect();
            let scores = [score.clone(), score.iter().map(|s| -s).collect(), score.iter().map(|s| s * s - 1.0).collect()];
            of(text, link, if link == Link::Sigmoid { &scores[..1] } else { &scores }, &target, Some(&weight))
        };
        for text in texts {
            for link in [Link::Sigmoid, Link::Softmax] {
                let (a, b) = (value(&rows, text, link), value(&turned, text, link));
                // Of calibration errors the total of the weights is one of blocks.
                let same = a.to_bits() == b.to_bits() || text.starts_with("ece") && (a - b).abs() < 1e-15;
                prop_assert!(same, "{text} {link:?}: {a} {b}");
            }
        }
    }
}
