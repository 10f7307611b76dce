//! The score that a model without trees would give.

use crate::numerics::reduce::{BLOCK, add_in_order, weighted_mean};
use crate::symbolic::run::{TILE, Tiles};
use crate::symbolic::{CustomLink, LossFormulas, Program};
use rayon::prelude::*;

/// Steps of the search, each a pass over the rows.
const MOST_STEPS: usize = 100;

/// The largest score, by the link: what the largest and smallest predictions come to.
fn largest(link: CustomLink) -> f64 {
    match link {
        CustomLink::Log => 69.077_552_789_821_37,
        CustomLink::Logit => 34.538_776_394_910_68,
        CustomLink::Identity => 1e30,
    }
}

/// Returns a score, the same for all rows (`columns`: what the loss reads beside the target), at which the weighted loss is least, or nearly so: by Newton's method from the mean target
/// on, kept inside a bracket that shrinks where the slope has changed its sign, and grows until it has.
pub(super) fn minimiser(formulas: &LossFormulas, target: &[f64], weight: Option<&[f32]>, columns: &[Vec<f64>]) -> f64 {
    let most = largest(formulas.link());
    let mean = weighted_mean(target, weight);
    let first = match formulas.link() {
        CustomLink::Log if mean > 0.0 => libm::log(mean),
        CustomLink::Logit if mean > 0.0 && mean < 1.0 => libm::log(mean / (1.0 - mean)),
        CustomLink::Identity => mean,
        CustomLink::Log | CustomLink::Logit => 0.0,
    };
    let (mut at, mut low, mut high) = (first.clamp(-most, most), f64::NEG_INFINITY, f64::INFINITY);
    let mut reach = match formulas.link() {
        CustomLink::Log | CustomLink::Logit => 1.0,
        CustomLink::Identity => 1e-3 + weighted_mean(&target.iter().map(|y| (y - at).abs()).collect::<Vec<_>>(), weight),
    };
    let mut last = None;
    for _ in 0..MOST_STEPS {
        let (slope, curvature) = slope_and_curvature(formulas, at, (target, weight, columns));
        if !slope.is_finite() {
            // Beyond where the loss is defined: half the way back, or nowhere to go.
            let Some(known) = last else { return first };
            let next = known * 0.5 + at * 0.5;
            if next == at || next == known {
                return known;
            }
            if at > known {
                high = at
            } else {
                low = at
            }
            at = next;
            continue;
        }
        if slope == 0.0 {
            return at;
        }
        last = Some(at);
        if slope > 0.0 {
            high = at
        } else {
            low = at
        }
        let newton = at - slope / curvature;
        let is_inside = curvature > 0.0 && newton > low && newton < high && newton.abs() <= most;
        let next = if is_inside {
            newton
        } else if low > f64::NEG_INFINITY && high < f64::INFINITY {
            low * 0.5 + high * 0.5
        } else {
            reach *= 4.0;
            (at - slope.signum() * reach).clamp(-most, most)
        };
        let is_done = (next - at).abs() <= 1e-13 * at.abs() || next == at;
        at = next;
        if is_done {
            break;
        }
    }
    at
}

/// Sums both derivatives of all rows at one score, in f64: rows in their order inside a block, then the blocks.
fn slope_and_curvature(
    formulas: &LossFormulas,
    score: f64,
    (target, weight, columns): (&[f64], Option<&[f32]>, &[Vec<f64>]),
) -> (f64, f64) {
    let program: &Program = formulas.whole();
    let scores = [score; TILE];
    let of_block = |tiles: &mut Tiles<f64>, block: usize| {
        let (mut slope, mut curvature) = (0.0, 0.0);
        let end = target.len().min((block + 1) * BLOCK);
        for from in (block * BLOCK..end).step_by(TILE) {
            let part = from..end.min(from + TILE);
            let further = columns.iter().map(|column| &column[part.clone()]);
            let inputs: Vec<&[f64]> = [&target[part.clone()], &scores[..part.len()]].into_iter().chain(further).collect();
            let mut outputs = tiles.run(program, &inputs).skip(1);
            let (Some(g), Some(h)) = (outputs.next(), outputs.next()) else { break };
            let weigh = |i: usize| weight.map_or(1.0, |w| f64::from(w[part.start + i]));
            for (i, (g, h)) in g.iter().zip(h).enumerate().filter(|(i, _)| weigh(*i) > 0.0) {
                slope += weigh(i) * g;
                curvature += weigh(i) * h;
            }
        }
        (slope, curvature)
    };
    let blocks = target.len().div_ceil(BLOCK);
    let sums: Vec<(f64, f64)> = (0..blocks).into_par_iter().map_init(|| Tiles::new(program), of_block).collect();
    (add_in_order(sums.iter().map(|sum| sum.0)), add_in_order(sums.iter().map(|sum| sum.1)))
}
