//! How a thread keeps the coefficients of its features: in as few bytes as the rule remembers, in an array that is read and written in random
//! order; and what is computed of those of a batch, side by side.

use multiversion::multiversion;
use taiga_core::learners::linear::params::Optimizer;
use taiga_core::learners::linear::rule::{Cell, Rule};

/// A coefficient and what its rule remembers, in f32; times in rows as integers.
pub trait Stored: Copy + Default + Send + Sync {
    const OPTIMIZER: Optimizer;

    fn cell(self) -> Cell;
    fn of(cell: &Cell) -> Self;
}

/// Of stochastic gradient descent.
#[derive(Clone, Copy, Default)]
#[repr(align(8))]
pub struct Descended {
    c: f32,
    /// The rows of this epoch up to which penalties are made up.
    rows: u32,
}

impl Stored for Descended {
    const OPTIMIZER: Optimizer = Optimizer::Sgd;

    #[inline(always)]
    fn cell(self) -> Cell {
        Cell { c: self.c as f64, n: 0.0, z: self.rows as f64 }
    }

    #[inline(always)]
    fn of(cell: &Cell) -> Self {
        Descended { c: cell.c as f32, rows: cell.z as u32 }
    }
}

/// Of Adagrad. None lies in two lines of the cache.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
pub struct Adaptive {
    c: f32,
    n: f32,
    rows: u32,
}

impl Stored for Adaptive {
    const OPTIMIZER: Optimizer = Optimizer::Adagrad;

    #[inline(always)]
    fn cell(self) -> Cell {
        Cell { c: self.c as f64, n: self.n as f64, z: self.rows as f64 }
    }

    #[inline(always)]
    fn of(cell: &Cell) -> Self {
        Adaptive { c: cell.c as f32, n: cell.n as f32, rows: cell.z as u32 }
    }
}

/// Of FTRL-proximal under a penalty, whose coefficients are computed of the rest whenever they are read.
#[derive(Clone, Copy, Default)]
#[repr(align(8))]
pub struct Leading {
    n: f32,
    z: f32,
}

impl Stored for Leading {
    const OPTIMIZER: Optimizer = Optimizer::Ftrl;

    #[inline(always)]
    fn cell(self) -> Cell {
        Cell { c: 0.0, n: self.n as f64, z: self.z as f64 }
    }

    #[inline(always)]
    fn of(cell: &Cell) -> Self {
        Leading { n: cell.n as f32, z: cell.z as f32 }
    }
}

/// Of FTRL-proximal without one.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
pub struct FreeLeading {
    c: f32,
    n: f32,
    z: f32,
}

impl Stored for FreeLeading {
    const OPTIMIZER: Optimizer = Optimizer::Ftrl;

    #[inline(always)]
    fn cell(self) -> Cell {
        Cell { c: self.c as f64, n: self.n as f64, z: self.z as f64 }
    }

    #[inline(always)]
    fn of(cell: &Cell) -> Self {
        FreeLeading { c: cell.c as f32, n: cell.n as f32, z: cell.z as f32 }
    }
}

/// Writes the coefficients at time `now`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn values<S: Stored>(rule: &Rule, stored: &[S], now: f64, out: &mut [f64]) {
    let rule = Rule { optimizer: S::OPTIMIZER, ..*rule };
    for (stored, out) in stored.iter().zip(out) {
        *out = rule.value(&stored.cell(), now);
    }
}

/// Moves coefficients, whose `values` at time `now` are given, on the gradients of `rows` rows, integers that count `unit`. Those whose
/// gradient is 0 stay as they are.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn step<S: Stored>(rule: &Rule, stored: &mut [S], values: &[f64], (sums, unit): (&[i64], f64), now: f64, rows: f64) {
    let rule = Rule { optimizer: S::OPTIMIZER, ..*rule };
    for ((stored, value), sum) in stored.iter_mut().zip(values).zip(sums) {
        move_one(&rule, stored, *value, *sum as f64 * unit, now, rows);
    }
}

/// Moves coefficients as [`step`] does, on gradients.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn step_by<S: Stored>(rule: &Rule, stored: &mut [S], values: &[f64], gradients: &[f64], now: f64, rows: f64) {
    let rule = Rule { optimizer: S::OPTIMIZER, ..*rule };
    for ((stored, value), g) in stored.iter_mut().zip(values).zip(gradients) {
        move_one(&rule, stored, *value, *g, now, rows);
    }
}

#[inline(always)]
fn move_one<S: Stored>(rule: &Rule, stored: &mut S, value: f64, g: f64, now: f64, rows: f64) {
    let mut moved = stored.cell();
    rule.step_from(&mut moved, value, g, now, rows);
    *stored = if g == 0.0 { *stored } else { S::of(&moved) };
}

/// Makes up all penalties at the end of an epoch, at time `now`; the next one begins at time 0.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
pub fn settle<S: Stored>(rule: &Rule, stored: &mut [S], now: f64) {
    let rule = Rule { optimizer: S::OPTIMIZER, ..*rule };
    for stored in stored {
        let cell = stored.cell();
        *stored = S::of(&Cell { c: rule.value(&cell, now), z: 0.0, ..cell });
    }
}
