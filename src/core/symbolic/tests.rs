//! Formulas against a naive twin that walks text trees in f64, derivatives against finite differences, programs in f32 against
//! programs in f64, and texts of whatever kind.

use super::run::{Real, TILE, Tiles};
use super::*;
use crate::numerics::random::{Purpose, Random};
use proptest::prelude::*;

fn compiled(value: &str) -> LossFormulas {
    CustomLoss { value: value.into(), ..CustomLoss::default() }.compile().unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn message(loss: &CustomLoss) -> String {
    loss.compile().map(drop).unwrap_err().to_string()
}

fn at(formulas: &LossFormulas, y: f64, f: f64) -> [f64; 3] {
    formulas.evaluate(&[&[y], &[f]]).map(|values| values[0])
}

#[test]
fn derivatives_of_known_losses() {
    let (e, l) = (libm::exp, |x: f64| 1.0 / (1.0 + libm::exp(-x)));
    type Known = (&'static str, fn(f64, f64) -> f64, Box<dyn Fn(f64, f64) -> f64>, Box<dyn Fn(f64, f64) -> f64>);
    let known: [Known; 7] = [
        ("0.5 * (y - f) ** 2", |y, f| 0.5 * (y - f) * (y - f), Box::new(|y, f| f - y), Box::new(|_, _| 1.0)),
        ("exp(f) - y * f", |y, f| libm::exp(f) - y * f, Box::new(move |y, f| e(f) - y), Box::new(move |_, f| e(f))),
        ("y * exp(-f) + f", |y, f| y * libm::exp(-f) + f, Box::new(move |y, f| 1.0 - y * e(-f)), Box::new(move |y, f| y * e(-f))),
        (
            "log1p(exp(f)) - y * f",
            |y, f| libm::log1p(libm::exp(f)) - y * f,
            Box::new(move |y, f| l(f) - y),
            Box::new(move |_, f| l(f) * l(-f)),
        ),
        (
            "p = sigmoid(f); -y * log(p) - (1 - y) * log(1 - p)",
            |y, f| libm::log1p(libm::exp(f)) - y * f,
            Box::new(move |y, f| l(f) - y),
            Box::new(move |_, f| l(f) * l(-f)),
        ),
        (
            "when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)",
            |y, f| if y > f { 2.0 * (y - f) * (y - f) } else { (y - f) * (y - f) },
            Box::new(|y, f| if y > f { 4.0 * (f - y) } else { 2.0 * (f - y) }),
            Box::new(|y, f| if y > f { 4.0 } else { 2.0 }),
        ),
        (
            "a = abs(y - f); a + log((1 + exp(-2 * a)) / 2)",
            |y, f| libm::log(libm::cosh(y - f)),
            Box::new(|y, f| libm::tanh(f - y)),
            Box::new(|y, f| 1.0 / (libm::cosh(y - f) * libm::cosh(y - f))),
        ),
    ];
    for (text, value, gradient, hessian) in known {
        let formulas = compiled(text);
        for (y, f) in [(0.3, -1.2), (2.0, 0.5), (1.0, 3.0), (0.0, 0.1), (5.0, -4.0)] {
            let near = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
            let [v, g, h] = at(&formulas, y, f);
            assert!(near(v, value(y, f)) && near(g, gradient(y, f)) && near(h, hessian(y, f)), "{text} at {y}, {f}: {v} {g} {h}");
        }
    }
}

#[test]
fn saturated_logistic_formulas_stay_finite() {
    for text in ["log1p(exp(f)) - y * f", "log(1 + exp(f)) - y * f", "p = 1 / (1 + exp(-f)); -y * log(p) - (1 - y) * log(1 - p)"] {
        let formulas = compiled(text);
        for f in [-1e4, -200.0, 200.0, 1e4] {
            assert!(at(&formulas, 0.5, f).iter().all(|x| x.is_finite()), "{text} at {f}: {:?}", at(&formulas, 0.5, f));
        }
    }
}

#[test]
fn what_is_known_of_a_formula() {
    let squared = compiled("0.5 * (y - f) ** 2");
    assert!(squared.has_unit_hessian() && squared.is_of_differences());
    assert_eq!(squared.derivatives_in_units(1.0).instructions.len(), 2);
    assert_eq!(squared.derivatives_in_units(0.25), squared.derivatives_in_units(1.0));
    let expectile = compiled("when(y > f).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)");
    assert!(!expectile.has_unit_hessian() && !expectile.is_of_differences());
    let expectile = compiled("when(y - f > 0).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)");
    assert!(expectile.is_of_differences());
    assert!(!compiled("(y - f) ** 2 / (1 + y)").is_of_differences());
    let poisson = CustomLoss { value: "exp(f) - y * f".into(), link: CustomLink::Log, hessian: None };
    assert!(!poisson.compile().unwrap().is_of_differences());
    let exposed = compiled("`exposure (years)` * exp(f) - y * f");
    assert_eq!(exposed.columns(), ["exposure (years)"]);
    assert_eq!(exposed.evaluate(&[&[2.0], &[0.0], &[3.0]]), [[3.0], [1.0], [3.0]]);
}

/// Proves that a loss of differences has the same derivatives, in units, whatever the unit.
#[test]
fn units_change_no_derivative() {
    for text in ["when(y - f > 0).then(2 * (y - f) ** 2).otherwise((y - f) ** 2)", "sqrt(1 + (y - f) ** 2) - 1", "0.5 * (y - f) ** 2"] {
        let formulas = compiled(text);
        for unit in [0.125f32, 1.0, 64.0] {
            let (y, f) = ([1.5f32, -2.0, 0.25], [0.5f32, 0.75, 0.25]);
            let whole = formulas.derivatives_in_units(1.0);
            let scaled = formulas.derivatives_in_units(f64::from(unit));
            let outputs = |program: &Program, unit: f32| {
                let (y, f) = (y.map(|x| x / unit), f.map(|x| x / unit));
                Tiles::new(program).run(program, &[&y, &f]).map(<[f32]>::to_vec).collect::<Vec<_>>()
            };
            let (plain, in_units) = (outputs(&whole, 1.0), outputs(&scaled, unit));
            assert_eq!(plain[0], in_units[0].iter().map(|g| g * unit).collect::<Vec<_>>(), "{text}");
            assert_eq!(plain[1], in_units[1], "{text}");
        }
    }
}

#[test]
fn formulas_that_cannot_be_fitted_are_refused() {
    let refused = [
        ("3", "is a constant"),
        ("y ** 2", "does not depend on the raw score f"),
        ("abs(y - f)", "has no curvature"),
        ("max(0, y - f)", "has no curvature"),
        ("-(y - f) ** 2", "nowhere positive"),
        ("sign(f - y)", "0 everywhere"),
        ("y - g", "`g` is no name here"),
        ("lgamma(f)", "there is no function `lgamma`"),
        ("exp(y, f)", "`exp` takes one value and is given 2"),
        ("max(f)", "`max` takes two values and is given 1"),
        ("y > f", "it is a condition, and no number"),
        ("when(y).then(f).otherwise(2)", "when needs conditions"),
        ("when(y > f).then(f)", "is missing"),
        ("y < f < 3", "a chain of comparisons"),
        ("(y - f", "\")\" is missing"),
        ("y f", "an operator is missing"),
        ("y ** f", "an exponent is to be a number"),
        ("f / 0", "divided by 0"),
        ("1e999 * f", "more than a number holds"),
        ("1e30 * 1e30 * f ** 2", "more than 32-bit numbers hold"),
        ("y = 3; f ** 2", "second meaning"),
        ("f @ y", "'@' at character 3"),
        ("`c", "has no end"),
        ("", "a value is missing"),
        ("a = f", "\";\" is missing"),
    ];
    for (value, says) in refused {
        let text = message(&CustomLoss { value: value.into(), ..CustomLoss::default() });
        assert!(text.contains(says) && text.starts_with("parameter `loss`"), "{value}: {text}");
    }
    let with = |hessian: &str| CustomLoss { value: "abs(y - f)".into(), hessian: Some(hessian.into()), ..CustomLoss::default() };
    assert!(with("1").compile().is_ok());
    assert!(message(&with("0")).contains("nowhere positive"));
    assert!(message(&with("oops")).contains("its hessian"));
}

/// Proves that texts made to take memory or stack are refused.
#[test]
fn hostile_texts_are_refused() {
    let deep = |n: usize| format!("{}f{} ** 2", "(".repeat(n), ")".repeat(n));
    let of_last = |i: usize| if i > 0 { format!("a{}", i - 1) } else { "f".into() };
    let chain = |n: usize| (0..n).map(|i| format!("a{i} = exp(f * {}); ", of_last(i))).collect::<String>() + &format!("a{} * f", n - 1);
    assert!(CustomLoss { value: deep(90), ..CustomLoss::default() }.compile().is_ok());
    let refused = [
        (deep(5000), "brackets"),
        ("2 ** ".repeat(3000) + "f", "brackets"),
        ("-".repeat(20_000) + "f", "bytes"),
        ("f + ".repeat(5000) + "1", "bytes"),
        // Every part is read again by its derivative.
        (chain(300), "more than 128 values at a time"),
        ((0..17).map(|i| format!("`c{i}` + ")).collect::<String>() + "f ** 2", "more than 16 columns"),
    ];
    for (value, says) in refused {
        let text = message(&CustomLoss { value, ..CustomLoss::default() });
        assert!(text.contains(says), "{text}");
    }
}

/// Formulas of random shape, as text and as the function that the text means.
#[derive(Clone, Debug)]
enum Tree {
    Y,
    F,
    Number(i32),
    Unary(&'static str, Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
    Power(Box<Tree>, i32),
    Choice(Box<Tree>, Box<Tree>, Box<Tree>, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::Y => "y".into(),
            Tree::F => "f".into(),
            Tree::Number(n) => format!("{}", f64::from(*n) / 4.0),
            Tree::Unary("-", a) => format!("-({})", a.text()),
            Tree::Unary(name, a) => format!("{name}({})", a.text()),
            Tree::Binary(name @ ("min" | "max"), a, b) => format!("{name}({}, {})", a.text(), b.text()),
            Tree::Binary(name, a, b) => format!("({} {name} {})", a.text(), b.text()),
            Tree::Power(a, n) => format!("({}) ** {n}", a.text()),
            Tree::Choice(a, b, c, d) => format!("when({} < {}).then({}).otherwise({})", a.text(), b.text(), c.text(), d.text()),
        }
    }

    /// The naive twin: the tree walked in f64.
    fn value(&self, y: f64, f: f64) -> f64 {
        match self {
            Tree::Y => y,
            Tree::F => f,
            Tree::Number(n) => f64::from(*n) / 4.0,
            Tree::Unary(name, a) => {
                let x = a.value(y, f);
                match *name {
                    "-" => -x,
                    "exp" => libm::exp(x),
                    "tanh" => libm::tanh(x),
                    "sigmoid" => 1.0 / (1.0 + libm::exp(-x)),
                    "softplus" => libm::log1p(libm::exp(-x.abs())) + x.max(0.0),
                    "expm1" => libm::expm1(x),
                    "abs" => x.abs(),
                    _ => unreachable!(),
                }
            }
            Tree::Binary(name, a, b) => {
                let (a, b) = (a.value(y, f), b.value(y, f));
                match *name {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "/" => a / b,
                    "min" => a.min(b),
                    "max" => a.max(b),
                    _ => unreachable!(),
                }
            }
            Tree::Power(a, n) => libm::pow(a.value(y, f), f64::from(*n)),
            Tree::Choice(a, b, c, d) => {
                if a.value(y, f) < b.value(y, f) {
                    c.value(y, f)
                } else {
                    d.value(y, f)
                }
            }
        }
    }

    /// Whether it has a kink, where differences are not derivatives.
    fn has_kink(&self) -> bool {
        match self {
            Tree::Unary("abs", _) | Tree::Binary("min" | "max", ..) | Tree::Choice(..) => true,
            Tree::Unary(_, a) | Tree::Power(a, _) => a.has_kink(),
            Tree::Binary(_, a, b) => a.has_kink() || b.has_kink(),
            _ => false,
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![Just(Tree::Y), Just(Tree::F), Just(Tree::F), (-8i32..9).prop_map(Tree::Number)];
    leaf.prop_recursive(5, 24, 4, |inner| {
        let unary = prop::sample::select(vec!["-", "exp", "tanh", "sigmoid", "softplus", "expm1", "abs"]);
        let binary = prop::sample::select(vec!["+", "-", "*", "/", "min", "max"]);
        let boxed = inner.prop_map(Box::new);
        prop_oneof![
            (unary, boxed.clone()).prop_map(|(name, a)| Tree::Unary(name, a)),
            (binary, boxed.clone(), boxed.clone()).prop_map(|(name, a, b)| Tree::Binary(name, a, b)),
            (boxed.clone(), 2i32..4).prop_map(|(a, n)| Tree::Power(a, n)),
            (boxed.clone(), boxed.clone(), boxed.clone(), boxed).prop_map(|(a, b, c, d)| Tree::Choice(a, b, c, d)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_formulas_are_their_naive_twins(tree in trees(), y in -2.0f64..2.0, f in -2.0f64..2.0) {
        // A hessian of one's own, so that none is refused for its curvature.
        let loss = CustomLoss { value: tree.text(), hessian: Some("1".into()), ..CustomLoss::default() };
        let Ok(formulas) = loss.compile() else { return Ok(()) };
        let [value, gradient, _] = at(&formulas, y, f);
        let naive = tree.value(y, f);
        // Where the twin overflows or cancels, formulas that do not are better.
        let steps = [-2e-5, -1e-5, 0.0, 1e-5, 2e-5].map(|d| tree.value(y, f + d));
        if !steps.iter().all(|x| x.is_finite() && x.abs() < 1e4) {
            return Ok(());
        }
        let scale = 1.0 + naive.abs() + (steps[4] - steps[0]).abs() / 4e-5;
        prop_assert!((value - naive).abs() < 1e-6 * scale, "{} at {y}, {f}: {value}, {naive}", tree.text());
        let (narrow, wide) = ((steps[3] - steps[1]) / 2e-5, (steps[4] - steps[0]) / 4e-5);
        if !tree.has_kink() && (narrow - wide).abs() < 1e-6 * scale {
            prop_assert!((gradient - narrow).abs() < 1e-5 * scale, "{} at {y}, {f}: {gradient}, {narrow}", tree.text());
        }
    }

    /// Proves that second derivatives are those of the first ones.
    #[test]
    fn hessians_are_derivatives_of_gradients(tree in trees(), y in -2.0f64..2.0, f in -2.0f64..2.0) {
        let loss = CustomLoss { value: tree.text(), ..CustomLoss::default() };
        let Ok(formulas) = loss.compile() else { return Ok(()) };
        let slopes = [-2e-5, -1e-5, 1e-5, 2e-5].map(|d| at(&formulas, y, f + d)[1]);
        let (narrow, wide) = ((slopes[2] - slopes[1]) / 2e-5, (slopes[3] - slopes[0]) / 4e-5);
        let [_, gradient, hessian] = at(&formulas, y, f);
        let scale = 1.0 + gradient.abs() + narrow.abs();
        if !tree.has_kink() && scale < 1e4 && (narrow - wide).abs() < 1e-6 * scale {
            prop_assert!((hessian - narrow).abs() < 1e-4 * scale, "{} at {y}, {f}: {hessian}, {narrow}", tree.text());
        }
    }

    #[test]
    fn whatever_the_text_nothing_panics(text in "[yf0-9a ().,;=<>&|~*/+`-]{0,40}|(when|then|otherwise|exp|min|[yf(),.<;*=-]|[0-9]){0,30}") {
        if let Ok(formulas) = (CustomLoss { value: text, ..CustomLoss::default() }).compile() {
            let columns: Vec<&[f64]> = (0..2 + formulas.columns().len()).map(|_| &[0.5][..]).collect();
            formulas.evaluate(&columns);
        }
    }
}

/// A naive twin of the tiles: a row at a time, by a match.
fn scalar(program: &Program, y: f32, f: f32) -> Vec<f32> {
    use super::program::{Op, Operand};
    let mut registers = vec![0f32; program.registers];
    let read = |o: Operand, registers: &[f32]| match o {
        Operand::Register(place) => registers[usize::from(place)],
        Operand::Input(place) => [y, f][usize::from(place)],
        Operand::Constant(place) => program.constants[usize::from(place)] as f32,
    };
    let truth = |holds: bool| f32::from(u8::from(holds));
    for i in &program.instructions {
        let [a, b, c] = i.operands.map(|o| read(o, &registers));
        registers[usize::from(i.out)] = std::hint::black_box(match i.op {
            Op::Add => a + b,
            Op::Subtract => a - b,
            Op::Multiply => a * b,
            Op::Divide => a / b,
            Op::Minimum => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Op::Maximum => {
                if b > a {
                    b
                } else {
                    a
                }
            }
            Op::Less => truth(a < b),
            Op::LessEqual => truth(a <= b),
            Op::Equal => truth(a == b),
            Op::And => truth(a != 0.0 && b != 0.0),
            Op::Or => truth(a != 0.0 || b != 0.0),
            Op::Not => truth(a == 0.0),
            Op::Select => {
                if a != 0.0 {
                    b
                } else {
                    c
                }
            }
            Op::Negative => -a,
            Op::Abs => a.abs(),
            Op::Sign => truth(a > 0.0) - truth(a < 0.0),
            Op::Sqrt => a.sqrt(),
            Op::Exp => Real::exp(a),
            Op::Ln => Real::ln(a),
            Op::Sigmoid => Real::sigmoid(a),
            Op::Tanh => Real::tanh(a),
        });
    }
    program.outputs.iter().map(|o| read(*o, &registers)).collect()
}

/// Proves that vector code has the bits of scalar code, whatever the tile's length, and stays near f64.
#[test]
fn tiles_have_the_bits_of_rows_one_by_one() {
    let formulas = [
        "log1p(exp(f)) - y * f",
        "p = sigmoid(f); -y * (1 - p) ** 2 * log(p) - (1 - y) * p ** 2 * log(1 - p)",
        "sqrt(1 + (y - f) ** 2) - 1 + tanh(f / 4) ** 2",
        "when((y > f) & ~(f == 0) | (y <= 1)).then(2 * (y - f) ** 2).otherwise(min(abs(y - f), max(y, f)) + expm1(f))",
        "(0.1 + y ** 2) ** 0.3 * exp(-f) + softplus(f) + log1p(y ** 2) * f ** 2",
    ];
    let r = Random::new(7, Purpose::Rounding, 0);
    for text in formulas {
        let program = compiled(text).derivatives_in_units(1.0);
        for rows in [1usize, 7, 255, TILE] {
            let y: Vec<f32> = (0..rows)
                .map(|i| if i % 9 == 8 { f32::from_bits(r.u32(i as u32)) } else { (r.unit(i as u64) * 4.0 - 2.0) as f32 })
                .collect();
            let f: Vec<f32> = (0..rows).map(|i| (r.unit((i + 1000) as u64) * 6.0 - 3.0) as f32).collect();
            let mut tiles = Tiles::new(&program);
            let outputs: Vec<Vec<f32>> = tiles.run(&program, &[&y, &f]).map(<[f32]>::to_vec).collect();
            for i in 0..rows {
                let expected = scalar(&program, y[i], f[i]);
                for (output, expected) in outputs.iter().zip(expected) {
                    let same = output[i].to_bits() == expected.to_bits() || (output[i].is_nan() && expected.is_nan());
                    assert!(same, "{text} at {} {}: {} {expected}", y[i], f[i], output[i]);
                }
            }
        }
    }
}
