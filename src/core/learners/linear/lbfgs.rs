//! All rows at once: L-BFGS, and OWL-QN where there is an L1 penalty.
//!
//! L-BFGS is Nocedal's two-loop recursion (Liu and Nocedal, "On the limited memory BFGS method", 1989). A score is linear in
//! the step, so the line search never reads the rows again: one pass gives the scores of the direction, and Newton's method
//! finds the step on them. An iteration is one pass for those scores and one for the gradient.
//!
//! The recursion starts from a diagonal: a coefficient's own curvature is at most `Σ w x² / 4 Σ w + l2` (Böhning and Lindsay
//! 1988), which differs by orders of magnitude between the intercept, frequent features and rare ones.
//!
//! OWL-QN (Andrew and Gao 2007) takes the L1 term's subgradient nearest to zero for the gradient, keeps to the orthant of the
//! iterate, and cuts off at zero what leaves it. That is no line, so each trial step is a pass.

use super::held_out::PassMonitor;
use super::problem::Problem;
use super::snapshot::{KeptSearch, PairState, SearchState, State};
use super::steps::{On, PassSteps};
use super::vectors::{lanes, map, sum};
use crate::error::{Error, Result};
use crate::pages;
use crate::parallel::thread_pool::ThreadPool;
use std::collections::VecDeque;

/// Pairs of steps and gradient changes that are remembered.
pub(super) const MEMORY: usize = 10;

/// The coefficients that a fit has found, and how it ended.
pub struct Fitted {
    pub vector: Vec<f64>,
    pub passes: u32,
    pub converged: bool,
    pub objective: f64,
}

/// A step and what it changed in the gradient.
struct Pair {
    s: Vec<f32>,
    y: Vec<f32>,
    /// Σ s y, and Σ y² / curvature.
    sy: f64,
    yy: f64,
}

/// A point of the search: coefficients, scores, gradient and objective.
struct Point<R> {
    vector: Vec<f64>,
    scores: R,
    /// Of the smooth part.
    gradient: Vec<f64>,
    objective: f64,
}

struct LbfgsRun<'s, 'p, B: PassSteps> {
    backend: &'s B,
    problem: &'s Problem<'p>,
    pool: &'s ThreadPool,
    pairs: VecDeque<Pair>,
    residuals: B::RowNumbers,
    /// One over each coefficient's curvature.
    inverse: Vec<f32>,
}

/// A search to be made on some device: for at most `iterations`, until the gradient is `tolerance` of what it was.
pub(super) struct Lbfgs<'s, 'p, 'w> {
    pub problem: &'s Problem<'p>,
    pub pool: &'s ThreadPool,
    pub iterations: u32,
    pub tolerance: f64,
    pub watch: &'s mut PassMonitor<'w>,
    pub kept: &'s KeptSearch<'w>,
}

impl On<Fitted> for Lbfgs<'_, '_, '_> {
    fn on<B: PassSteps>(self, backend: &B) -> Result<Fitted> {
        lbfgs(self, backend)
    }
}

/// Lowers the objective.
fn lbfgs<B: PassSteps>(task: Lbfgs<'_, '_, '_>, backend: &B) -> Result<Fitted> {
    let Lbfgs { problem: p, pool, iterations, tolerance, watch, kept } = task;
    let residuals = backend.rows(&vec![0.0; p.outputs])?;
    let mut search = LbfgsRun { backend, problem: p, pool, pairs: VecDeque::new(), residuals, inverse: vec![] };
    let mut at = search.start()?;
    let (mut first, mut done, mut converged) = (0.0, 0, false);
    if let Some((passes, State::Whole(state))) = kept.restored(watch)? {
        (first, done) = (state.first, passes);
        at = search.restore(state)?;
    }
    let mut steepest = vec![0.0; if p.l1 > 0.0 { p.coefficients() } else { 0 }];
    while done < iterations {
        search.subgradient(&at, &mut steepest);
        let gradient = if p.l1 > 0.0 { &steepest } else { &at.gradient };
        let length = libm::sqrt(sum(pool, gradient.len(), |i| gradient[i] * gradient[i] * search.inverse[i] as f64));
        if !length.is_finite() {
            return Err(Error::Data("the gradient is no longer finite: scale the values, or raise `l2`".into()).of_values());
        }
        first = if done == 0 { length } else { first };
        converged = length <= tolerance * first;
        if converged {
            break;
        }
        let next = if p.l1 > 0.0 { search.orthant_step(&at, &steepest)? } else { search.line_step(&at)? };
        let Some(next) = next else {
            // Not even the steepest way leads down from here: as low as f64 can tell.
            converged = true;
            break;
        };
        done += 1;
        let (mut next, largest) = next;
        if done < iterations {
            search.derive(&mut next, largest)?;
            search.remember(&at, &next);
        }
        at = next;
        let is_due = kept.is_due(done);
        let scores = if watch.marks().is_some() || is_due { backend.read(&at.scores)? } else { vec![].into() };
        if watch.pass(done, iterations, &at.vector, &scores)? {
            break;
        }
        if is_due {
            kept.keep(done, watch, State::Whole(search.state(&at, first, &scores)))?;
        }
    }
    Ok(Fitted { vector: at.vector, passes: done, converged, objective: at.objective })
}

impl<B: PassSteps> LbfgsRun<'_, '_, B> {
    /// Starts without coefficients, with the intercepts of the classes' shares.
    fn start(&mut self) -> Result<Point<B::RowNumbers>> {
        let p = self.problem;
        let mut vector = pages::try_filled("the coefficients", 0.0, p.coefficients())?;
        if p.fit_intercept {
            p.log_shares(&mut vector[p.intercepts()..]);
        }
        let scores = self.backend.rows(&vector[p.intercepts()..])?;
        let mut at = Point { vector, scores, gradient: pages::try_filled("the gradient", 0.0, p.coefficients())?, objective: 0.0 };
        let largest = self.measure(&mut at)?;
        self.backend.squares(&mut at.gradient)?;
        let curvature = |i: usize| 0.25 * at.gradient[i] / p.total_weight + if i < p.intercepts() { p.l2 } else { 0.0 };
        let top = (0..p.coefficients()).fold(f64::MIN_POSITIVE, |m, i| m.max(curvature(i)));
        // A feature that no row has has no gradient either.
        let inverse = |i: usize| 1.0 / if curvature(i) > 0.0 { curvature(i) } else { top };
        self.inverse = (0..p.coefficients()).map(|i| inverse(i).clamp(1e-30, 1e30) as f32).collect();
        self.derive(&mut at, largest)?;
        Ok(at)
    }

    /// The state at a point with these scores; `first`: the length of the first gradient.
    fn state<'a>(&'a self, at: &'a Point<B::RowNumbers>, first: f64, scores: &'a [f64]) -> SearchState<'a> {
        let pair = |Pair { s, y, sy, yy }: &'a Pair| PairState { s: s.into(), y: y.into(), sy: *sy, yy: *yy };
        SearchState {
            vector: (&at.vector).into(),
            gradient: (&at.gradient).into(),
            objective: at.objective,
            first,
            pairs: self.pairs.iter().map(pair).collect(),
            scores: scores.into(),
        }
    }

    /// Takes a state, and returns its point.
    fn restore(&mut self, state: SearchState<'_>) -> Result<Point<B::RowNumbers>> {
        let SearchState { vector, gradient, objective, pairs, scores, .. } = state;
        let pair = |PairState { s, y, sy, yy }: PairState<'_>| Pair { s: s.into_owned(), y: y.into_owned(), sy, yy };
        self.pairs = pairs.into_iter().map(pair).collect();
        Ok(Point { vector: vector.into_owned(), scores: self.backend.write(scores)?, gradient: gradient.into_owned(), objective })
    }

    /// Residuals and objective at a point whose vector and scores are set; returns the largest residual.
    fn measure(&mut self, at: &mut Point<B::RowNumbers>) -> Result<f64> {
        let p = self.problem;
        let found = self.backend.residuals(&at.scores, &mut self.residuals)?;
        let (c, penalised) = (&at.vector, p.intercepts());
        let pool = self.pool;
        let squares = if p.l2 > 0.0 { sum(pool, penalised, |i| c[i] * c[i]) } else { 0.0 };
        let sizes = if p.l1 > 0.0 { sum(pool, penalised, |i| c[i].abs()) } else { 0.0 };
        at.objective = found.loss / p.total_weight + 0.5 * p.l2 * squares + p.l1 * sizes;
        Ok(found.largest)
    }

    /// Computes the gradient of the smooth part from the residuals.
    fn derive(&mut self, at: &mut Point<B::RowNumbers>, largest: f64) -> Result<()> {
        let p = self.problem;
        at.gradient.resize(p.coefficients(), 0.0);
        self.backend.gradient(&self.residuals, largest, &mut at.gradient)?;
        let (c, penalised) = (&at.vector, p.intercepts());
        map(self.pool, &mut at.gradient, |range, g| {
            for (g, i) in g.iter_mut().zip(range) {
                *g = *g / p.total_weight + if i < penalised { p.l2 * c[i] } else { 0.0 };
            }
            0.0
        });
        Ok(())
    }

    /// Writes to `out` the subgradient nearest to zero, where there is an L1 penalty.
    fn subgradient(&self, at: &Point<B::RowNumbers>, out: &mut [f64]) {
        let p = self.problem;
        let (c, gradient, penalised) = (&at.vector, &at.gradient, p.intercepts());
        map(self.pool, out, |range, out| {
            for (o, i) in out.iter_mut().zip(range) {
                let (g, l1) = (gradient[i], if i < penalised { p.l1 } else { 0.0 });
                *o = match c[i] {
                    c if c > 0.0 => g + l1,
                    c if c < 0.0 => g - l1,
                    _ if g > l1 => g - l1,
                    _ if g < -l1 => g + l1,
                    _ => 0.0,
                };
            }
            0.0
        });
    }

    /// Returns the direction that the pairs (and the diagonal) make of a gradient: minus the inverse Hessian that they stand for,
    /// times the gradient.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let pool = self.pool;
        let mut q: Vec<f64> = pages::filled(0.0, gradient.len());
        let newest = self.pairs.back();
        // Each sweep takes off what one pair gave and prepares the next one's product.
        let mut product = map(pool, &mut q, |range, q| {
            q.iter_mut().zip(&gradient[range.clone()]).for_each(|(q, g)| *q = -g);
            newest.map_or(0.0, |pair| dot(&pair.s[range], q))
        });
        let mut alphas = vec![0.0; self.pairs.len()];
        for (j, pair) in self.pairs.iter().enumerate().rev() {
            let alpha = product / pair.sy;
            alphas[j] = alpha;
            let older = j.checked_sub(1).map(|j| &self.pairs[j].s);
            product = map(pool, &mut q, |range, q| {
                q.iter_mut().zip(&pair.y[range.clone()]).for_each(|(q, y)| *q -= alpha * *y as f64);
                older.map_or(0.0, |s| dot(&s[range], q))
            });
        }
        let (gamma, oldest, inverse) = (newest.map_or(1.0, |n| n.sy / n.yy), self.pairs.front(), &self.inverse);
        let mut product = map(pool, &mut q, |range, q| {
            q.iter_mut().zip(&inverse[range.clone()]).for_each(|(q, h)| *q *= gamma * *h as f64);
            oldest.map_or(0.0, |pair| dot(&pair.y[range], q))
        });
        for (j, pair) in self.pairs.iter().enumerate() {
            let beta = alphas[j] - product / pair.sy;
            let newer = self.pairs.get(j + 1).map(|p| &p.y);
            product = map(pool, &mut q, |range, q| {
                q.iter_mut().zip(&pair.s[range.clone()]).for_each(|(q, s)| *q += beta * *s as f64);
                newer.map_or(0.0, |y| dot(&y[range], q))
            });
        }
        q
    }

    /// Returns the directions to try: that of the pairs, then without them that of the diagonal.
    fn directions(&mut self, gradient: &[f64]) -> Option<(Vec<f64>, f64)> {
        loop {
            let direction = self.direction(gradient);
            let slope = sum(self.pool, direction.len(), |i| direction[i] * gradient[i]);
            if slope < 0.0 && slope.is_finite() {
                return Some((direction, slope));
            }
            if self.pairs.is_empty() {
                return None;
            }
            self.pairs.clear();
        }
    }

    /// Returns the next point without an L1 penalty (without its gradient), and its largest residual; none where there is no
    /// lower one.
    fn line_step(&mut self, at: &Point<B::RowNumbers>) -> Result<Option<(Point<B::RowNumbers>, f64)>> {
        let (backend, pool) = (self.backend, self.pool);
        let mut along = backend.rows(&vec![0.0; self.problem.outputs])?;
        loop {
            let Some((direction, slope)) = self.directions(&at.gradient) else { return Ok(None) };
            backend.scores(&direction, &mut along)?;
            let step = self.line_search(at, &direction, &along, slope)?;
            let mut next = Point { vector: direction, scores: along, gradient: vec![], objective: 0.0 };
            let from = &at.vector;
            map(pool, &mut next.vector, |range, out| {
                out.iter_mut().zip(&from[range]).for_each(|(o, x)| *o = x + step * *o);
                0.0
            });
            backend.advance(&mut next.scores, &at.scores, step)?;
            let largest = self.measure(&mut next)?;
            if next.objective < at.objective {
                return Ok(Some((next, largest)));
            }
            if self.pairs.is_empty() {
                return Ok(None);
            }
            self.pairs.clear();
            along = next.scores;
        }
    }

    /// Returns the step to the lowest point along a direction, nearly: where the slope is a twentieth of what it is at the start.
    fn line_search(&self, at: &Point<B::RowNumbers>, direction: &[f64], along: &B::RowNumbers, slope: f64) -> Result<f64> {
        let (backend, p, pool, c) = (self.backend, self.problem, self.pool, &at.vector);
        let penalised = p.intercepts();
        let (cross, square) = match p.l2 > 0.0 {
            true => (sum(pool, penalised, |i| c[i] * direction[i]), sum(pool, penalised, |i| direction[i] * direction[i])),
            false => (0.0, 0.0),
        };
        let derivatives = |step: f64| -> Result<(f64, f64)> {
            let (first, second) = backend.along(&at.scores, along, step)?;
            Ok((first / p.total_weight + p.l2 * (cross + step * square), second / p.total_weight + p.l2 * square))
        };
        let (mut low, mut high, mut best) = (0.0, f64::INFINITY, 0.0);
        let mut step = match self.pairs.is_empty() {
            true => -slope / derivatives(0.0)?.1,
            false => 1.0,
        };
        for _ in 0..30 {
            if !(step > low && step < high) {
                step = if high.is_finite() { 0.5 * (low + high) } else { (2.0 * low).max(1.0) };
            }
            let (first, second) = derivatives(step)?;
            best = step;
            if first.abs() <= 0.05 * slope.abs() {
                break;
            }
            if first < 0.0 {
                low = step
            } else {
                high = step
            }
            step -= first / second;
        }
        Ok(best)
    }

    /// Returns the next point under an L1 penalty, likewise; none where there is no lower one.
    fn orthant_step(&mut self, at: &Point<B::RowNumbers>, steepest: &[f64]) -> Result<Option<(Point<B::RowNumbers>, f64)>> {
        let (backend, p, pool, c) = (self.backend, self.problem, self.pool, &at.vector);
        let penalised = p.intercepts();
        loop {
            let Some((mut direction, _)) = self.directions(steepest) else { return Ok(None) };
            // Only what goes down by itself.
            let slope = map(pool, &mut direction, |range, d| {
                for (d, g) in d.iter_mut().zip(&steepest[range.clone()]) {
                    *d = if *d * g < 0.0 { *d } else { 0.0 };
                }
                lanes(0..d.len(), |i| d[i] * steepest[range.start + i])
            });
            let scores = backend.rows(&vec![0.0; p.outputs])?;
            let mut next = Point { vector: pages::filled(0.0, p.coefficients()), scores, gradient: vec![], objective: 0.0 };
            let mut step = 1.0;
            if self.pairs.is_empty() {
                backend.scores(&direction, &mut next.scores)?;
                let second = backend.along(&at.scores, &next.scores, 0.0)?.1 / p.total_weight
                    + p.l2 * sum(pool, penalised, |i| direction[i] * direction[i]);
                step = if second > 0.0 { -slope / second } else { 1.0 };
            }
            for _ in 0..40 {
                let fall = map(pool, &mut next.vector, |range, out| {
                    for (o, i) in out.iter_mut().zip(range.clone()) {
                        let (x, d) = (c[i], direction[i]);
                        let side = if x != 0.0 { x } else { -steepest[i] };
                        let moved = x + step * d;
                        *o = if i >= penalised || moved * side > 0.0 { moved } else { 0.0 };
                    }
                    lanes(0..out.len(), |i| steepest[range.start + i] * (out[i] - c[range.start + i]))
                });
                backend.scores(&next.vector, &mut next.scores)?;
                let largest = self.measure(&mut next)?;
                if next.objective <= at.objective + 1e-4 * fall && next.objective < at.objective {
                    return Ok(Some((next, largest)));
                }
                step *= 0.5;
            }
            if self.pairs.is_empty() {
                return Ok(None);
            }
            self.pairs.clear();
        }
    }

    /// Keeps what the step from one point to the next says of the curvature.
    fn remember(&mut self, from: &Point<B::RowNumbers>, to: &Point<B::RowNumbers>) {
        let pool = self.pool;
        let mut pair = if self.pairs.len() == MEMORY { self.pairs.pop_front() } else { None }.unwrap_or_else(|| Pair {
            s: vec![0.0; from.vector.len()],
            y: vec![0.0; from.vector.len()],
            sy: 0.0,
            yy: 0.0,
        });
        let fill = |out: &mut [f32], a: &[f64], b: &[f64]| {
            super::vectors::each(pool, out, 1 << 14, |block, out| {
                let start = block << 14;
                for (i, o) in out.iter_mut().enumerate() {
                    *o = (a[start + i] - b[start + i]) as f32;
                }
            });
        };
        fill(&mut pair.s, &to.vector, &from.vector);
        fill(&mut pair.y, &to.gradient, &from.gradient);
        pair.sy = sum(pool, pair.s.len(), |i| pair.s[i] as f64 * pair.y[i] as f64);
        pair.yy = sum(pool, pair.y.len(), |i| pair.y[i] as f64 * pair.y[i] as f64 * self.inverse[i] as f64);
        if pair.sy > 1e-10 * pair.yy && pair.sy.is_finite() && pair.yy > 0.0 {
            self.pairs.push_back(pair);
        }
    }
}

fn dot(a: &[f32], b: &[f64]) -> f64 {
    lanes(0..a.len(), |i| a[i] as f64 * b[i])
}

impl super::problem::Problem<'_> {
    /// The logarithms of the classes' shares of the weight (of two classes, of their ratio), as intercepts to start from.
    pub(super) fn log_shares(&self, out: &mut [f64]) {
        let share = |class: u32| (self.weight_of_class(class) / self.total_weight).max(1e-9);
        match out {
            [out] => *out = crate::numerics::math::ln64(share(1) / share(0)),
            out => {
                let logs: Vec<f64> = (0..out.len() as u32).map(|k| crate::numerics::math::ln64(share(k))).collect();
                let mean = logs.iter().fold(0.0, |m, x| m + x) / logs.len() as f64;
                out.iter_mut().zip(logs).for_each(|(o, x)| *o = x - mean);
            }
        }
    }
}
