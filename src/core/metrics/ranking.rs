//! What the metrics of ordered groups share: the rows of a group by score, those of equal scores together, and the mean over groups.
//!
//! Rows of equal scores have no order. The value of a group is then the mean over all orders of these (McSherry and Najork, "Computing
//! information retrieval performance measures efficiently in the presence of tied scores", 2008), so that the order of the table's rows
//! leaves no trace.

use super::rows::Rows;
use crate::parallel::numbered;

/// Groups of so many rows together are worth another thread.
const ROWS: usize = 1 << 14;

/// The rows of a group, the highest score first.
pub(super) struct RankedGroup {
    /// Score and target.
    rows: Vec<(f64, f64)>,
}

impl RankedGroup {
    /// Returns the targets.
    pub fn targets(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().map(|row| row.1)
    }

    /// Returns the rows of each score, from the highest score to the lowest.
    pub fn ties(&self) -> impl Iterator<Item = &[(f64, f64)]> {
        self.rows.chunk_by(|a, b| a.0 == b.0)
    }
}

/// Computes the mean of `value(group, places)` over the groups, each weighed by the mean weight of its rows. `places`: how many of a
/// list's places count. NaN where rows have no groups.
pub(super) fn mean_of_groups(rows: &Rows<'_>, value: impl Fn(&RankedGroup, usize) -> f64 + Sync) -> f64 {
    let Some(groups) = rows.groups else { return f64::NAN };
    let of_group = |group: usize| {
        let own = groups.rows(group);
        let mut ranked: Vec<(f64, f64)> = own.iter().map(|row| (rows.score()[*row as usize], rows.target[*row as usize])).collect();
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let weight = rows.weight.map_or(1.0, |w| own.iter().map(|row| w[*row as usize]).sum::<f64>() / own.len() as f64);
        let places = rows.number().map_or(own.len(), |k| k as usize);
        (weight, weight * value(&RankedGroup { rows: ranked }, places))
    };
    let at_least = ROWS / (rows.target.len() / groups.len().max(1)).max(1);
    let (weight, total) =
        numbered::map(groups.len(), at_least, of_group).into_iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    total / weight
}

/// Whether a target is one of a relevant row.
pub(super) fn is_relevant(target: f64) -> bool {
    target > 0.0
}
