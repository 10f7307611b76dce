//! The log loss of two classes: the cross entropy of targets 0 and 1.

use super::cross_entropy;
use super::kind::Metric;

pub(super) const METRIC: Metric = Metric { of_classes: true, ..cross_entropy::METRIC };
