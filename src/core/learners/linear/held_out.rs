//! The metric of the held-out rows, pass after pass.

use super::params::LinearParams;
use super::problem::Problem;
use super::schema::metric_of;
use crate::dataset::{Monitor, OwnRows};
use crate::error::Result;
use crate::metrics::MetricKind;
use crate::metrics::{Rows, metric, undefined};
use crate::model::History;
use crate::objective::Link;
use crate::objective::LossParams;

/// The held-out rows as the metric sees them.
struct HeldOut {
    kind: MetricKind,
    link: Link,
    /// Those of this process, counted from its first row.
    rows: Vec<usize>,
    target: Vec<f64>,
    weight: Option<Vec<f64>>,
}

/// Watches the passes of a fit: tells the monitor, measures, and says when to stop.
pub struct PassMonitor<'a> {
    own: OwnRows<'a>,
    marks: Option<&'a [bool]>,
    held_out: Option<HeldOut>,
    outputs: usize,
    patience: Option<u32>,
    monitor: &'a dyn Monitor,
    pub history: Option<History>,
    /// The best coefficients so far, under early stopping.
    pub best: Option<Vec<f64>>,
}

impl<'a> PassMonitor<'a> {
    /// Begins to watch a fit's passes. `marks`: which rows are held out. `weight`: their weights, the training rows' among them.
    pub fn new(
        problem: &Problem<'a>,
        marks: Option<&'a [bool]>,
        weight: Option<&[f32]>,
        params: &LinearParams,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        let mut watch = PassMonitor {
            own: problem.own,
            marks,
            held_out: None,
            outputs: problem.outputs,
            patience: params.early_stopping,
            monitor,
            history: None,
            best: None,
        };
        let Some(marks) = marks else {
            return params.check_measured().map(|()| watch);
        };
        let (kind, link) = metric_of(params, problem.outputs)?;
        let rows: Vec<usize> = (0..marks.len()).filter(|i| marks[*i]).collect();
        watch.held_out = Some(HeldOut {
            kind,
            link,
            target: rows.iter().map(|i| problem.all_codes[*i] as f64).collect(),
            weight: weight.map(|w| rows.iter().map(|i| f64::from(w[*i])).collect()),
            rows: problem.own.here(&rows).into_owned(),
        });
        watch.history = Some(History::new(kind));
        Ok(watch)
    }

    /// Takes what was measured in passes before, and the best coefficients so far.
    pub fn restore(&mut self, curve: &[f64], best: Option<Vec<f64>>) {
        if let Some(history) = &mut self.history {
            for value in curve {
                history.push(*value);
            }
        }
        self.best = best;
    }

    /// Returns which rows are held out, if any are.
    pub fn marks(&self) -> Option<&'a [bool]> {
        self.marks
    }

    /// Notes pass `done` (from 1) of `total`; `scores[row * outputs + output]` of this process's rows. Whether to stop.
    pub fn pass(&mut self, done: u32, total: u32, vector: &[f64], scores: &[f64]) -> Result<bool> {
        let mut value = None;
        if let (Some(h), Some(history)) = (&self.held_out, &mut self.history) {
            let of_output = |k: usize| {
                let own = h.rows.iter().map(|i| scores[i * self.outputs + k]).collect::<Vec<f64>>();
                if self.own.is_whole() { Ok(own) } else { self.own.collective.gather(&own) }
            };
            let scores = (0..self.outputs).map(of_output).collect::<Result<Vec<Vec<f64>>>>()?;
            let (params, weight) = (LossParams::default(), h.weight.as_deref());
            let measured = metric(&h.kind.into(), &Rows { weight, ..Rows::new(&scores, h.link, &h.target, &params) });
            if measured.is_nan() {
                return Err(undefined(&h.kind.into()));
            }
            if history.push(measured) && self.patience.is_some() {
                self.best = Some(vector.to_vec());
            }
            value = Some(measured);
        }
        self.monitor.round(done, total, value);
        let waited = self.history.as_ref().map_or(0, History::rounds_since_best);
        Ok(self.patience.is_some_and(|p| waited >= p))
    }
}
