//! What the metrics of times share: the rows with what is known of their events, by stratum.

use super::rows::Rows;

/// What is known of a row's time, and what is predicted.
#[derive(Clone, Copy)]
pub(super) struct Lifetime {
    /// The least and the largest time that the event may have happened at; equal where it was seen.
    pub lower: f64,
    pub upper: f64,
    pub score: f64,
    pub weight: f64,
}

impl Lifetime {
    /// Whether the event was seen.
    pub fn has_died(&self) -> bool {
        self.lower == self.upper
    }

    /// Whether the event was seen, or was still to come.
    pub fn is_seen_or_right_censored(&self) -> bool {
        self.has_died() || self.upper == f64::INFINITY
    }
}

/// Returns the rows of each group, those of a single one where there are none; nothing where times are not known.
pub(super) fn strata(rows: &Rows<'_>) -> Vec<Vec<Lifetime>> {
    let [lower, upper] = rows.columns else { return vec![] };
    let of_row = |row: usize| Lifetime { lower: lower[row], upper: upper[row], score: rows.score()[row], weight: rows.weight_of(row) };
    match rows.groups {
        None => vec![(0..rows.target.len()).map(of_row).collect()],
        Some(groups) => (0..groups.len()).map(|group| groups.rows(group).iter().map(|row| of_row(*row as usize)).collect()).collect(),
    }
}

/// Returns the strata with the latest time first and, at each, those that died first, where every event was seen or still to come. What
/// is equal otherwise stands by score and weight, so that the order of the table's rows leaves no trace.
pub(super) fn by_time(rows: &Rows<'_>) -> Option<Vec<Vec<Lifetime>>> {
    let mut strata = strata(rows);
    if strata.is_empty() || !strata.iter().flatten().all(Lifetime::is_seen_or_right_censored) {
        return None;
    }
    for stratum in &mut strata {
        stratum.sort_unstable_by(|a, b| {
            let time = b.lower.total_cmp(&a.lower).then(a.upper.total_cmp(&b.upper));
            time.then(a.score.total_cmp(&b.score)).then(a.weight.total_cmp(&b.weight))
        });
    }
    Some(strata)
}
