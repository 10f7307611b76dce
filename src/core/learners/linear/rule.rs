//! How a coefficient moves on the gradient of a batch: one rule an optimizer.
//!
//! The objective is a mean over rows, so a batch of `b` rows lowers `Σ (w_i / mean w) loss_i + b (l2/2 c² + l1 |c|)`: the
//! gradient `g` is the sum over its rows, and a penalty counts once a row. A penalty acts on every coefficient at every row, but a
//! coefficient is only touched where its feature occurs: what it has missed is made up at once when it is read next ("lazily"),
//! so that a batch costs its entries alone.

use super::params::Optimizer;

/// A coefficient and what its rule remembers of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The coefficient as it was when last moved.
    pub c: f64,
    /// Σ g².
    pub n: f64,
    /// FTRL's z; for the others, the time up to which penalties are made up.
    pub z: f64,
}

/// A rule, for penalised coefficients or for intercepts.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub optimizer: Optimizer,
    /// The step size (of this epoch).
    pub rate: f64,
    pub l1: f64,
    pub l2: f64,
}

/// FTRL's β, as McMahan et al. advise.
const BETA: f64 = 1.0;

impl Rule {
    /// Returns whether a coefficient's value depends on the time.
    #[inline(always)]
    pub fn fades(&self) -> bool {
        self.l1 > 0.0 || self.l2 > 0.0
    }

    /// Applies the soft threshold and the shrinkage of `rows` rows at once, at step size `rate`.
    #[inline(always)]
    fn shrink(&self, c: f64, rate: f64, rows: f64) -> f64 {
        let rest = c.abs() - rows * rate * self.l1;
        if rest > 0.0 { (if c < 0.0 { -rest } else { rest }) / (1.0 + rows * rate * self.l2) } else { 0.0 }
    }

    #[inline(always)]
    fn adaptive_rate(&self, n: f64) -> f64 {
        match self.optimizer {
            Optimizer::Adagrad if n > 0.0 => self.rate / n.sqrt(),
            Optimizer::Adagrad => 0.0,
            _ => self.rate,
        }
    }

    /// Returns the coefficient at time `now`, in rows.
    #[inline(always)]
    pub fn value(&self, cell: &Cell, now: f64) -> f64 {
        if !self.fades() {
            return cell.c;
        }
        if self.optimizer == Optimizer::Ftrl {
            let rest = cell.z.abs() - now * self.l1;
            let leader = (if cell.z < 0.0 { rest } else { -rest }) / ((BETA + cell.n.sqrt()) / self.rate + now * self.l2);
            return if rest > 0.0 { leader } else { 0.0 };
        }
        if cell.c == 0.0 { 0.0 } else { self.shrink(cell.c, self.adaptive_rate(cell.n), now - cell.z) }
    }

    /// Moves the coefficient on the gradient `g` of `rows` rows from `now` on.
    #[inline(always)]
    pub fn step(&self, cell: &mut Cell, g: f64, now: f64, rows: f64) {
        self.step_from(cell, self.value(cell, now), g, now, rows);
    }

    /// Moves the coefficient as [`Rule::step`] does, where its value `c` at time `now` is known.
    #[inline(always)]
    pub fn step_from(&self, cell: &mut Cell, c: f64, g: f64, now: f64, rows: f64) {
        if self.optimizer == Optimizer::Ftrl {
            let n = cell.n + g * g;
            let sigma = (n.sqrt() - cell.n.sqrt()) / self.rate;
            *cell = Cell { c: 0.0, n, z: cell.z + (g - sigma * c) };
            if !self.fades() {
                cell.c = -cell.z / ((BETA + n.sqrt()) / self.rate);
            }
            return;
        }
        cell.n += if self.optimizer == Optimizer::Adagrad { g * g } else { 0.0 };
        let rate = self.adaptive_rate(cell.n);
        cell.c = self.shrink(c - rate * g, rate, rows);
        cell.z = now + rows;
    }
}
