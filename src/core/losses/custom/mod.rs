//! Losses of the user's own: their formulas ([`crate::symbolic`]) run on rows.

mod start;

#[cfg(test)]
mod tests;

use super::log_link::LARGEST_TARGET;
use super::pointwise::{SMALLEST_HESSIAN, finite};
use super::{Formula, Location, Loss, LossEntry, LossTarget, Rows};
use crate::metrics::MetricKind;
use crate::objective::Link;
use crate::symbolic::run::{TILE, Tiles};
use crate::symbolic::{LossFormulas, MOST_COLUMNS, Program};
use std::cell::RefCell;
use std::sync::Arc;

pub(super) const ENTRY: LossEntry = LossEntry {
    target: LossTarget::Numbers,
    formula: "custom",
    groups: false,
    make: |s| match &s.params.custom {
        Some(formulas) => Box::new(Custom::new(formulas.clone(), s.unit)),
        // [`super::loss`] asks for none of this kind without its formulas.
        None => Box::new(super::rmse::Rmse),
    },
};

/// A loss of one's own, of targets and scores in some unit.
pub(super) struct Custom {
    formulas: Arc<LossFormulas>,
    /// Gradient and hessian.
    program: Program,
}

impl Custom {
    /// `unit`: what targets and scores are in units of; 1 unless they count by their difference alone.
    pub(super) fn new(formulas: Arc<LossFormulas>, unit: f64) -> Self {
        Custom { program: formulas.derivatives_in_units(unit), formulas }
    }
}

/// A derivative, or the one value that stands for all that are not finite.
#[inline(always)]
fn number_or_nan(x: f32) -> f32 {
    if x.abs() <= f32::MAX { x } else { f32::NAN }
}

thread_local! {
    /// The registers that a thread ran its last program on, and that program's instructions.
    static TILES: RefCell<Option<(Program, Tiles<f32>)>> = const { RefCell::new(None) };
}

impl Loss for Custom {
    fn derivatives(&self, _output: usize, rows: Rows<'_>, gradient: &mut [f32], hessian: &mut [f32]) {
        TILES.with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.as_ref().is_none_or(|(program, _)| *program != self.program) {
                *kept = Some((self.program.clone(), Tiles::new(&self.program)));
            }
            let Some((_, tiles)) = kept.as_mut() else { return };
            for from in (0..rows.target.len()).step_by(TILE) {
                let part = from..rows.target.len().min(from + TILE);
                let inputs: [&[f32]; 2 + MOST_COLUMNS] = std::array::from_fn(|input| match input {
                    0 => &rows.target[part.clone()],
                    1 => &rows.scores[0][part.clone()],
                    _ => rows.columns.get(input - 2).map_or(&[][..], |column| &column[part.clone()]),
                });
                let mut outputs = tiles.run(&self.program, &inputs);
                let (Some(g), Some(h)) = (outputs.next(), outputs.next()) else { return };
                let weight = rows.weight.map(|weight| &weight[part.clone()]);
                write(g, h, weight, &mut gradient[part.clone()], &mut hessian[part]);
            }
        });
    }

    fn formula(&self, _output: usize) -> Formula {
        Formula::new(ENTRY.formula)
    }

    fn program(&self) -> Option<&Program> {
        Some(&self.program)
    }

    fn constant_hessian(&self) -> bool {
        self.formulas.has_unit_hessian()
    }

    fn location(&self) -> Location {
        if self.formulas.is_of_differences() { Location::Scaled } else { Location::Fixed }
    }

    /// The minimiser, by Newton's method inside a bracket ([`start::minimiser`]).
    fn start(&self, target: &[f64], weight: Option<&[f32]>) -> Vec<f64> {
        self.start_with(target, weight, &[])
    }

    fn start_with(&self, target: &[f64], weight: Option<&[f32]>, columns: &[Vec<f64>]) -> Vec<f64> {
        vec![start::minimiser(&self.formulas, target, weight, columns)]
    }

    fn link(&self) -> Link {
        self.formulas.link().into()
    }

    fn metric(&self) -> MetricKind {
        MetricKind::Custom
    }

    fn check_target(&self, target: f64) -> std::result::Result<(), &'static str> {
        if target.abs() <= LARGEST_TARGET { Ok(()) } else { Err("a loss of your own needs targets within ±1e30") }
    }
}

/// Derivatives of weight 1 become those of the rows' weights.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn write(g: &[f32], h: &[f32], weight: Option<&[f32]>, gradient: &mut [f32], hessian: &mut [f32]) {
    for (out, g) in gradient.iter_mut().zip(g) {
        *out = number_or_nan(*g);
    }
    for (out, h) in hessian.iter_mut().zip(h) {
        *out = number_or_nan(if *h < SMALLEST_HESSIAN { SMALLEST_HESSIAN } else { *h });
    }
    if let Some(weight) = weight {
        for ((g, h), w) in gradient.iter_mut().zip(hessian).zip(weight) {
            (*g, *h) = (finite(*g * *w), finite(*h * *w));
        }
    }
}
