//! Losses that are built in, written as formulas: the same derivatives, the same start, the same facts.

use super::*;
use crate::losses::{LossKind, LossParams, loss};
use crate::numerics::random::{Purpose, Random};
use crate::symbolic::{CustomLink, CustomLoss};

fn of(value: &str, hessian: Option<&str>, link: CustomLink) -> Custom {
    let text = CustomLoss { value: value.into(), hessian: hessian.map(Into::into), link };
    Custom::new(Arc::new(text.compile().unwrap_or_else(|e| panic!("{value}: {e}"))), 1.0)
}

type Twin = (LossKind, LossParams, Custom);

/// Losses that are built in, and their formulas. Those of positive means have a hessian of their own ([`crate::losses`]' `log_link`).
fn twins() -> Vec<Twin> {
    let params = LossParams { huber_delta: 1.5, alpha: 0.3.into(), ..LossParams::default() };
    let twin = |kind, params: &LossParams, value: &str, hessian: Option<&str>, link| (kind, params.clone(), of(value, hessian, link));
    let logit = CustomLink::Logit;
    let huber = "r = y - f; when(abs(r) <= 1.5).then(r ** 2 / 2).otherwise(1.5 * (abs(r) - 0.75))";
    let power = |p: f64| LossParams { tweedie_power: p, ..LossParams::default() };
    let tweedie = |p: f64| format!("exp({a} * f) / {a} - y * exp({b} * f) / {b}", a = 2.0 - p, b = 1.0 - p);
    let halves = |p: f64| format!("(y * exp({} * f) + exp({} * f)) / 2", 1.0 - p, 2.0 - p);
    vec![
        twin(LossKind::Rmse, &params, "0.5 * (y - f) ** 2", None, CustomLink::Identity),
        twin(LossKind::CrossEntropy, &params, "log1p(exp(f)) - y * f", None, logit),
        twin(LossKind::CrossEntropy, &params, "p = 1 / (1 + exp(-f)); -y * log(p) - (1 - y) * log(1 - p)", None, logit),
        twin(LossKind::Huber, &params, huber, Some("1"), CustomLink::Identity),
        twin(LossKind::Mae, &params, "abs(y - f)", Some("1"), CustomLink::Identity),
        twin(LossKind::Quantile, &params, "max(0.3 * (y - f), 0.7 * (f - y))", Some("1"), CustomLink::Identity),
        twin(LossKind::Poisson, &params, "exp(f) - y * f", Some("(exp(f) + y) / 2"), CustomLink::Log),
        twin(LossKind::Gamma, &params, "f + y * exp(-f)", Some("(1 + y * exp(-f)) / 2"), CustomLink::Log),
        twin(LossKind::Tweedie, &power(1.5), &tweedie(1.5), None, CustomLink::Log),
        twin(LossKind::Tweedie, &power(1.2), &tweedie(1.2), Some(&halves(1.2)), CustomLink::Log),
    ]
}

fn target(kind: LossKind, u: f64) -> f64 {
    match kind {
        LossKind::CrossEntropy => u,
        LossKind::Poisson | LossKind::Tweedie => (u * u * 8.0).floor(),
        LossKind::Gamma => 0.01 + 5.0 * u * u,
        _ => 10.0 * u - 3.0,
    }
}

#[test]
fn formulas_of_losses_that_are_built_in_have_their_derivatives() {
    let r = Random::new(3, Purpose::Rounding, 0);
    let n = 3001;
    for (kind, params, own) in twins() {
        let built_in = loss(kind, &params, 0, 1.0).expect("a loss");
        let y: Vec<f64> = (0..n).map(|i| target(kind, r.unit(i as u64))).collect();
        let y32: Vec<f32> = y.iter().map(|y| *y as f32).collect();
        let f: Vec<f32> = (0..n).map(|i| (r.unit((i + n) as u64) * 8.0 - 4.0) as f32).collect();
        let w: Vec<f32> = (0..n).map(|i| (r.unit((i + 2 * n) as u64) * 3.0 + 0.01) as f32).collect();
        for weight in [None, Some(&w[..])] {
            let rows = Rows { scores: &[&f], target: &y32, weight, columns: &[] };
            let derivatives = |loss: &dyn Loss| {
                let (mut g, mut h) = (vec![0.0; n], vec![0.0; n]);
                loss.derivatives(0, rows, &mut g, &mut h);
                (g, h)
            };
            let (expected, found) = (derivatives(&*built_in), derivatives(&own));
            for i in 0..n {
                let near = |a: f32, b: f32, scale: f32| (a - b).abs() <= 2e-6 * scale;
                // A gradient is a difference of parts as large as twice the hessian.
                let scale = expected.0[i].abs() + 2.0 * expected.1[i] + y32[i].abs() * 1e-1;
                assert!(near(expected.0[i], found.0[i], scale), "{kind:?} {} {}: {} {}", f[i], y[i], expected.0[i], found.0[i]);
                assert!(near(expected.1[i], found.1[i], scale), "{kind:?} {} {}: {} {}", f[i], y[i], expected.1[i], found.1[i]);
            }
            if kind != LossKind::Mae && kind != LossKind::Quantile {
                let (expected, found) = (built_in.start(&y, weight)[0], own.start(&y, weight)[0]);
                assert!((expected - found).abs() < 1e-9, "{kind:?}: {expected} {found}");
            }
        }
        assert_eq!(built_in.constant_hessian(), own.constant_hessian(), "{kind:?}");
        assert_eq!((built_in.location(), built_in.link()), (own.location(), own.link()), "{kind:?}");
        assert_eq!(own.metric(), MetricKind::Custom);
    }
}

/// Proves that a squared error is the built-in one's, to the bit, in any unit.
#[test]
fn half_a_squared_error_is_rmse_to_the_bit() {
    let text = CustomLoss { value: "0.5 * (y - f) ** 2".into(), ..CustomLoss::default() };
    let formulas = Arc::new(text.compile().expect("a loss"));
    for unit in [1.0, 0.125, 2f64.powi(300), 2f64.powi(-300)] {
        let (own, built_in) = (Custom::new(formulas.clone(), unit), loss(LossKind::Rmse, &LossParams::default(), 0, unit).expect("a loss"));
        let (y, f) = ([1.0f32, -0.3, 0.0, 1e30, f32::MIN_POSITIVE], [0.25f32, 0.7, 0.0, 3.0, 0.0]);
        let rows = Rows { scores: &[&f], target: &y, weight: None, columns: &[] };
        let (mut a, mut b) = (([0f32; 5], [0f32; 5]), ([0f32; 5], [0f32; 5]));
        own.derivatives(0, rows, &mut a.0, &mut a.1);
        built_in.derivatives(0, rows, &mut b.0, &mut b.1);
        assert_eq!(a, b);
    }
}

#[test]
fn starts_are_finite_and_lowest() {
    let cases = [
        ("(y - f) ** 4 + 0.001 * (y - f) ** 2", CustomLink::Identity),
        ("sqrt(1 + (y - f) ** 2) - 1", CustomLink::Identity),
        ("when(y - f > 0).then(9 * (y - f) ** 2).otherwise((y - f) ** 2)", CustomLink::Identity),
        ("(log1p(y ** 2) - log1p(f ** 2)) ** 2 + 0.01 * f ** 2", CustomLink::Identity),
        ("log1p(exp(f)) - y / 20 * f", CustomLink::Logit),
        ("y / f + log(f)", CustomLink::Identity),
    ];
    let r = Random::new(5, Purpose::Rounding, 0);
    for (text, link) in cases {
        let own = of(text, None, link);
        for n in [1usize, 2, 37, 10_000] {
            let y: Vec<f64> = (0..n).map(|i| 0.5 + 9.0 * r.unit(i as u64)).collect();
            let total = |f: f64| own.formulas.evaluate(&[&y, &vec![f; n]])[0].iter().sum::<f64>();
            let start = own.start(&y, None)[0];
            for d in [-0.2, -1e-2, 1e-2, 0.2] {
                assert!(total(start) <= total(start + d) + 1e-9 * total(start).abs(), "{text} n {n}: {start} moved by {d}");
            }
        }
    }
    let poisson = of("exp(f) - y * f", None, CustomLink::Log);
    for y in [&[][..], &[0.0], &[0.0, 0.0]] {
        assert!(poisson.start(y, None)[0].is_finite());
        assert!(poisson.start(y, Some(&vec![0.0; y.len()]))[0].is_finite());
    }
}

#[test]
fn derivatives_that_are_no_numbers_are_told() {
    let own = of("(log(y) - log(f)) ** 2", None, CustomLink::Identity);
    let (mut g, mut h) = ([0.0; 3], [0.0; 3]);
    for weight in [None, Some(&[1.0f32, 2.0, 0.5][..])] {
        own.derivatives(0, Rows { scores: &[&[1.0, -1.0, 0.0]], target: &[2.0, 2.0, 2.0], weight, columns: &[] }, &mut g, &mut h);
        assert!(g[0].is_finite() && g[1].is_nan() && g[2].is_nan() && h[2].is_nan(), "{g:?} {h:?}");
    }
}

/// `cargo test --release -p taiga-core custom::tests::times -- --ignored --nocapture` prints times.
#[test]
#[ignore = "prints times; asserts nothing"]
fn times() {
    let n = 1 << 20;
    let r = Random::new(3, Purpose::Rounding, 0);
    for (kind, params, own) in twins() {
        let built_in = loss(kind, &params, 0, 1.0).expect("a loss");
        let y: Vec<f32> = (0..n).map(|i| target(kind, r.unit(i as u64)) as f32).collect();
        let f: Vec<f32> = (0..n).map(|i| (r.unit((i + n) as u64) * 8.0 - 4.0) as f32).collect();
        let mut best = [f64::INFINITY; 2];
        let (mut g, mut h) = ([0.0; 1024], [0.0; 1024]);
        for _ in 0..5 {
            for (best, loss) in best.iter_mut().zip([&*built_in, &own]) {
                let start = std::time::Instant::now();
                for a in (0..n).step_by(1024) {
                    let rows = Rows { scores: &[&f[a..a + 1024]], target: &y[a..a + 1024], weight: None, columns: &[] };
                    loss.derivatives(0, rows, &mut g, &mut h);
                    std::hint::black_box((&g, &h));
                }
                *best = best.min(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        println!("{kind:?}: built in {:.3} ms, own {:.3} ms for 2^20 rows, {} steps", best[0], best[1], own.program.instructions.len());
    }
}
