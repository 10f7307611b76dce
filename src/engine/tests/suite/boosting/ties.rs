//! `quantile` and `mae` on targets that many rows share.

use serde_json::json;
use taiga_testing::*;

/// Normal features; the target is capped where it would be above 1.5, which is so for every fifth row, or 0 where it
/// would be negative.
fn capped(rows: usize, seed: u64, zero: bool) -> Table {
    let mut dice = Dice::new(seed);
    let columns: Vec<Vec<f64>> = (0..6).map(|_| (0..rows).map(|_| dice.normal()).collect()).collect();
    let x = |f: usize, i: usize| columns[f][i];
    let value = |i: usize, noise: f64| x(0, i) + 0.8 * x(1, i) * x(2, i) + (2.0 * x(3, i)).sin() + 0.4 * x(4, i) + 0.5 * noise;
    let y = (0..rows).map(|i| value(i, dice.normal())).map(|y| if zero { y.max(0.0) } else { y.min(1.5) }).collect();
    Table::numbers(columns, y)
}

/// The mean pinball loss.
fn pinball(predicted: &[f64], y: &[f64], alpha: f64) -> f64 {
    let of = |(p, y): (&f64, &f64)| if y > p { alpha * (y - p) } else { (1.0 - alpha) * (p - y) };
    predicted.iter().zip(y).map(of).sum::<f64>() / y.len() as f64
}

/// Proves that where many rows share a target, the loss goes on falling as far as with a little noise on the targets:
/// a leaf whose best value is that target has nothing more to gain, and splits are looked for elsewhere.
#[test]
fn shared_targets_do_not_end_the_learning() {
    for policy in POLICIES {
        for (loss, alpha, zero) in [("quantile", 0.9, false), ("quantile", 0.2, true), ("mae", 0.5, true)] {
            let table = capped(4000, 40, zero);
            let y = table.y();
            let mut dice = Dice::new(41);
            let noisy = Table::numbers(table.columns.clone(), y.iter().map(|y| y + 1e-3 * (dice.unit() - 0.5)).collect());
            let fit = |table: &Table, trees: u32| {
                let p = params(json!({ "loss": loss, "alpha": alpha, "policy": policy, "rounds": trees, "learning_rate": 0.2, "depth": 4,
                    "leaves": if policy == "leafwise" { Some(8) } else { None } }));
                pinball(&raw(&table.fit(&p), table)[0], &y, alpha)
            };
            let (early, late, unshared) = (fit(&table, 100), fit(&table, 300), fit(&noisy, 300));
            assert!(late < 0.95 * early, "{policy} {loss} {alpha}: {late} after 300 rounds, {early} after 100");
            assert!(late < 1.1 * unshared, "{policy} {loss} {alpha}: {late}, with noise {unshared}");
        }
    }
}

/// Proves that predictions of a target that most rows share stay beside it: nearer than a thousandth of the mean
/// distance of the targets from their median.
#[test]
fn predictions_stay_beside_a_shared_target() {
    let columns = vec![(0..1000).map(f64::from).collect::<Vec<f64>>()];
    let y: Vec<f64> = (0..1000).map(|i| if i < 700 { 2.0 } else { 10.0 }).collect();
    let table = Table::numbers(columns, y.clone());
    let distance = 0.3 * 8.0;
    for policy in POLICIES {
        let p = params(json!({ "loss": "mae", "policy": policy, "rounds": 100, "learning_rate": 0.5 }));
        let predicted = raw(&table.fit(&p), &table);
        let largest = predicted[0].iter().zip(&y).map(|(p, y)| (p - y).abs()).fold(0.0, f64::max);
        assert!(largest <= distance / 1000.0, "{policy}: {largest}");
    }
}
