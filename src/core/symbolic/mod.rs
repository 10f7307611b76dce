//! Formulas that users write as text, differentiated, checked, and made into programs that every device runs with the same bits.
//!
//! Losses stand here, [`metric`] has metrics. [`mod@graph`]: values, their simplification and their derivatives; [`mod@parse`]: text; [`program`]: instructions on registers;
//! [`run`]: the CPU's loops over tiles of rows. A formula is differentiated once, by the chain rule on a graph in which equal values are
//! one (Griewank and Walther, "Evaluating Derivatives", 2008).

mod graph;
mod metric;
mod parse;
pub mod program;
pub mod run;

#[cfg(test)]
mod tests;

pub use metric::{CustomMetric, MetricFormulas};
pub use parse::MOST_COLUMNS;
pub use program::Program;

use crate::error::{Error, Result};
use graph::{Graph, Id, Input};
use parse::parse;
use run::{TILE, Tiles};
use serde::{Deserialize, Serialize};

/// How the raw score of a loss of one's own becomes a prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CustomLink {
    #[default]
    Identity,
    /// The prediction's logarithm is the score.
    Log,
    /// The prediction's log-odds are the score.
    Logit,
}

/// A loss of one's own as parameters and models keep it. Formulas read the target as `y`, the raw score as `f`, and columns in
/// backticks.
///
/// ```
/// use taiga_core::symbolic::CustomLoss;
/// let loss: CustomLoss = serde_json::from_value(serde_json::json!({"value": "exp(f) - y * f", "link": "log"})).unwrap();
/// assert!(loss.compile().is_ok());
/// let loss = CustomLoss { value: "abs(y - f)".into(), ..loss };
/// assert!(loss.compile().unwrap_err().to_string().contains("has no curvature"));
/// let loss = CustomLoss { hessian: Some("1".into()), ..loss };
/// assert!(loss.compile().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomLoss {
    /// The loss of a row.
    pub value: String,
    /// What stands in the place of its second derivative, where that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hessian: Option<String>,
    #[serde(default)]
    pub link: CustomLink,
}

/// What formulas of a loss call the raw score.
const SCORE: &str = "f";

/// The error of a loss that can't be fitted.
fn fault(what: impl std::fmt::Display) -> Error {
    Error::parameter("loss", format!("of the loss of your own: {what}"))
}

impl CustomLoss {
    /// Reads and differentiates the formulas, and checks that trees can lower the loss.
    ///
    /// # Errors
    /// [`Error::Parameter`] of `loss`, saying what is wrong and where.
    pub fn compile(&self) -> Result<LossFormulas> {
        let (mut graph, mut columns) = (Graph::default(), vec![]);
        // The inputs come first, so that they stand in one order everywhere.
        graph.input(Input::Target);
        graph.input(Input::Score);
        let value = parse(&self.value, SCORE, &mut graph, &mut columns).map_err(fault)?;
        if graph.as_number(value).is_some() {
            return Err(fault("it is a constant, and trees have nothing to lower"));
        }
        if !graph.depends_on(value, Input::Score) {
            return Err(fault("it does not depend on the raw score f, so that trees have nothing to lower"));
        }
        let gradient = graph.derivative(value);
        let given = self.hessian.as_ref().map(|text| parse(text, SCORE, &mut graph, &mut columns)).transpose();
        let given = given.map_err(|what| fault(format_args!("its hessian: {what}")))?;
        let hessian = given.unwrap_or_else(|| graph.derivative(gradient));
        if graph.is_full() {
            return Err(fault("it is too large: simplify it, or give repeated parts a name"));
        }
        check_finite(&graph, &[value, gradient, hessian])?;
        if graph.as_number(gradient) == Some(0.0) {
            return Err(fault("its derivative with respect to the raw score f is 0 everywhere"));
        }
        if graph.is_never_positive(hessian) {
            return Err(fault(match (given.is_some(), graph.as_number(hessian)) {
                (true, _) => "its `hessian` is nowhere positive, and steps are divided by it",
                (false, Some(0.0)) => {
                    "it has no curvature: its second derivative with respect to the raw score f is 0 everywhere, and a step of Newton's \
                     method divides by it. Give it one by `hessian`: hessian=1 makes steps of the gradient's size"
                }
                (false, _) => {
                    "its second derivative with respect to the raw score f is nowhere positive, so that it has a largest value and no \
                     smallest one. Is its sign the wrong way round? Or give a `hessian`"
                }
            }));
        }
        let location =
            columns.is_empty() && self.link == CustomLink::Identity && graph.reads_differences_alone(&[value, gradient, hessian]);
        let whole = Program::new(&graph, &[value, gradient, hessian], None).map_err(fault)?;
        Ok(LossFormulas { source: self.clone(), graph, roots: [value, gradient, hessian], columns, location, whole })
    }
}

/// Checks that no number of some formulas overflows.
fn check_finite(graph: &Graph, roots: &[Id]) -> Result<()> {
    let marks = graph.reachable(roots);
    let numbers = (0..marks.len() as Id).filter(|id| marks[*id as usize]).filter_map(|id| graph.as_number(id));
    match numbers.into_iter().find(|x| x.is_nan() || x.abs() > f64::from(f32::MAX)) {
        Some(x) => Err(fault(format_args!("{x} appears in it or its derivatives, which is more than 32-bit numbers hold"))),
        None => Ok(()),
    }
}

/// The formulas of a loss: its value and both derivatives.
#[derive(Clone, Debug)]
pub struct LossFormulas {
    source: CustomLoss,
    graph: Graph,
    /// Value, gradient, hessian.
    roots: [Id; 3],
    /// The columns that they read, in the order in which they name them.
    columns: Vec<String>,
    /// Whether target and score count by their difference alone.
    location: bool,
    /// All three, for numbers as they are.
    whole: Program,
}

impl PartialEq for LossFormulas {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl LossFormulas {
    /// Returns how scores become predictions.
    pub fn link(&self) -> CustomLink {
        self.source.link
    }

    /// Returns the formulas as text.
    pub fn source(&self) -> &CustomLoss {
        &self.source
    }

    /// Whether target and score count by their difference alone, so that both may be moved and scaled together.
    pub fn is_of_differences(&self) -> bool {
        self.location
    }

    /// Whether the hessian is 1 for every row.
    pub fn has_unit_hessian(&self) -> bool {
        self.graph.as_number(self.roots[2]) == Some(1.0)
    }

    /// Returns the program of value, gradient and hessian, of targets and scores as they are.
    pub fn whole(&self) -> &Program {
        &self.whole
    }

    /// Makes the program of gradient and hessian. `unit`: what targets and scores are in units of, and the gradient with them; 1 unless
    /// they count by their difference alone.
    pub fn derivatives_in_units(&self, unit: f64) -> Program {
        let [_, gradient, hessian] = self.roots;
        let mut graph = self.graph.clone();
        let (_, rest) = graph.factor(gradient);
        // A gradient that is proportional to the difference is so in every unit.
        let unit = Some(unit).filter(|unit| *unit != 1.0 && !(graph.is_difference(rest) && graph.as_number(hessian).is_some()));
        let gradient = unit.map_or(gradient, |unit| graph.scaled(1.0 / unit, gradient));
        // Not longer than what has been checked, but for two steps.
        Program::new(&graph, &[gradient, hessian], unit).unwrap_or_else(|_| self.whole.clone())
    }

    /// Returns the names of the columns that the formulas read beside the target.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Computes value, gradient and hessian of rows in f64; hessians as they are, which may be negative. `inputs`: targets, scores,
    /// and the columns, of one length.
    ///
    /// ```
    /// use taiga_core::symbolic::CustomLoss;
    /// let loss = CustomLoss { value: "(y - f) ** 2".into(), ..CustomLoss::default() }.compile().unwrap();
    /// assert_eq!(loss.evaluate(&[&[3.0], &[1.0]]), [[4.0], [-4.0], [2.0]]);
    /// ```
    pub fn evaluate(&self, inputs: &[&[f64]]) -> [Vec<f64>; 3] {
        let rows = inputs[0].len();
        let mut out = [vec![], vec![], vec![]];
        let mut tiles = Tiles::new(&self.whole);
        for from in (0..rows).step_by(TILE) {
            let part: Vec<&[f64]> = inputs.iter().map(|input| &input[from..rows.min(from + TILE)]).collect();
            for (out, values) in out.iter_mut().zip(tiles.run(&self.whole, &part)) {
                out.extend_from_slice(values);
            }
        }
        out
    }
}
