//! What losses and metrics share: how scores become predictions, and the parameters that some of them read.

/// How the raw score becomes a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Identity,
    /// `1 / (1 + exp(-score))`
    Sigmoid,
    /// `exp(score)`
    Exp,
    /// `exp(score_k) / Σ exp(score_j)`
    Softmax,
}

/// What the losses and metrics that have parameters read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossParams {
    /// The quantile that `quantile` estimates, inside (0, 1).
    pub alpha: f64,
    /// Where `huber` turns from squared to absolute, in units of the target.
    pub huber_delta: f64,
    /// The variance power of `tweedie`, inside (1, 2).
    pub tweedie_power: f64,
}

impl Default for LossParams {
    fn default() -> Self {
        LossParams { alpha: 0.5, huber_delta: 1.0, tweedie_power: 1.5 }
    }
}
