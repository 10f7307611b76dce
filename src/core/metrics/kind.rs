//! The list of metrics: what is known of each by its name alone.

use super::MetricKind;
use super::rows::Rows;
use super::spec::Takes;
use crate::objective::Link;

/// What a metric is: each file of this folder has one, called `METRIC`.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    /// Whether it can be measured on predictions of this link.
    pub fits: fn(Link) -> bool,
    /// Whether it is one that classifiers of every kind are asked for.
    pub of_classes: bool,
    /// Whether a larger value is a better one.
    pub larger_is_better: bool,
    /// Whether it is one of groups of rows.
    pub groups: bool,
    /// What it takes behind an `@`.
    pub takes: Takes,
    /// Whether it reads when rows' events happened.
    pub times: bool,
    /// Computes its value for rows, of which there is at least one.
    pub value: fn(&Rows<'_>) -> f64,
    /// Why it may have no value.
    pub undefined: &'static str,
}

/// The most common metric, from which others say what they differ in: one of a single number, in which less is better.
pub(super) const ERROR: Metric = Metric {
    fits: Link::is_of_one_number,
    of_classes: false,
    larger_is_better: false,
    groups: false,
    takes: Takes::Nothing,
    times: false,
    value: |_| f64::NAN,
    undefined: "the measured rows have no spread to measure against",
};

/// Declares the module of each metric, and makes [`MetricKind`] of their list: `file => Name`, where the file's name is what users
/// write.
macro_rules! metrics {
    ($($file:ident => $kind:ident,)*) => {
        $(mod $file;)*

        /// What is measured on the held-out rows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum MetricKind {
            $($kind,)*
        }

        impl MetricKind {
            /// All metrics.
            pub const ALL: &[MetricKind] = &[$(MetricKind::$kind,)*];

            /// Their names, in the same order.
            pub const NAMES: &[&str] = &[$(stringify!($file),)*];

            /// The name that users give it.
            ///
            /// ```
            /// use taiga_core::metrics::MetricKind;
            /// assert_eq!(MetricKind::CrossEntropy.name(), "cross_entropy");
            /// ```
            pub fn name(self) -> &'static str {
                match self {
                    $(MetricKind::$kind => stringify!($file),)*
                }
            }

            /// Returns what the metric is.
            fn entry(self) -> Metric {
                match self {
                    $(MetricKind::$kind => $file::METRIC,)*
                }
            }
        }
    };
}
pub(super) use metrics;

impl MetricKind {
    /// Whether a larger value is a better one.
    pub fn larger_is_better(self) -> bool {
        self.entry().larger_is_better
    }

    /// Whether it can be measured on predictions of this link: the errors (`rmse`, `mae`, `r2`,
    /// `quantile`, `huber`, …) on any single number or mean, the metrics of two classes under
    /// [`Link::Sigmoid`], of several under [`Link::Softmax`], the deviances on positive means.
    pub fn fits(self, link: Link) -> bool {
        (self.entry().fits)(link)
    }

    /// Whether it reads groups of rows.
    pub fn reads_groups(self) -> bool {
        self.entry().groups
    }

    /// Whether it reads the bounds of the times of rows' events.
    pub fn reads_times(self) -> bool {
        self.entry().times
    }

    /// Whether it is one that classifiers of every kind are asked for: linear models take these alone.
    pub fn is_of_classes(self) -> bool {
        self.entry().of_classes
    }
}

/// Returns the names of the metrics for which `fits` holds, as a list in words.
pub fn metric_names(fits: impl Fn(MetricKind) -> bool) -> String {
    listed(MetricKind::ALL.iter().copied().filter(|metric| fits(*metric)), "and")
}

/// Returns names of metrics as a list in words, with `word` before the last one.
pub fn listed(metrics: impl IntoIterator<Item = MetricKind>, word: &str) -> String {
    let names: Vec<String> = metrics.into_iter().map(|m| format!("\"{}\"", m.name())).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
