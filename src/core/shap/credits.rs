//! What columns are credited with: the parts of what their players get.

use super::Explanation;
use super::contributions::{Terms, pair};
use std::sync::OnceLock;

/// Who the players are, and what columns are credited with.
pub(super) struct Credits {
    /// The columns of each player, ascending.
    pub players: Vec<Vec<u32>>,
    pub columns: usize,
    of: [OnceLock<Vec<Vec<Credit>>>; 2],
}

impl Credits {
    pub fn new(players: Vec<Vec<u32>>, columns: usize) -> Self {
        Credits { players, columns, of: Default::default() }
    }

    /// Credits columns with what players get, `sums[output][term][row]`.
    pub fn credit(&self, sums: &[f64], rows: usize, outputs: usize, terms: Terms) -> Explanation {
        let mut credited = Explanation::zeros(outputs, self.columns, rows, terms);
        let count = terms.count(self.players.len());
        if count * rows == 0 {
            return credited;
        }
        let mut alone = vec![];
        for (sums, out) in sums.chunks_exact(count * rows).zip(&mut credited.values) {
            add_credits(self.of(Terms::Values), rows, |term| &sums[term * rows..][..rows], out);
        }
        for (sums, out) in sums.chunks_exact(count * rows).zip(&mut credited.interactions) {
            self.alone(sums, rows, &mut alone);
            let of_term = |term: usize| &(if term < self.players.len() { &alone } else { sums })[term * rows..][..rows];
            add_credits(self.of(terms), rows, of_term, out);
        }
        credited
    }

    /// What each player has alone: without what it shares with each of the others.
    fn alone(&self, sums: &[f64], rows: usize, out: &mut Vec<f64>) {
        let players = self.players.len();
        out.clear();
        out.extend_from_slice(&sums[..players * rows]);
        for (i, out) in out.chunks_exact_mut(rows).enumerate() {
            for j in (0..players).filter(|j| *j != i) {
                let shared = &sums[pair(players, i.min(j), i.max(j)) * rows..][..rows];
                out.iter_mut().zip(shared).for_each(|(alone, x)| *alone -= x);
            }
        }
    }

    /// Returns what each column is credited with (and each [`pair`] of columns behind them), in the order in which it is added: equal
    /// parts of what its players get. For interactions a player's term is what it has alone.
    pub fn of(&self, terms: Terms) -> &[Vec<Credit>] {
        self.of[terms as usize].get_or_init(|| self.make_credits(terms))
    }

    fn make_credits(&self, terms: Terms) -> Vec<Vec<Credit>> {
        let (players, m) = (self.players.len(), self.columns);
        let mut credits = vec![vec![]; terms.count(m)];
        for (i, of) in self.players.iter().enumerate() {
            if terms == Terms::Interactions {
                (i + 1..players).for_each(|j| self.share_pair((i, j), &mut credits));
            }
            for column in of {
                credits[*column as usize].push(Credit { term: i, divisor: of.len() as u32, halves: 1 });
            }
        }
        credits
    }

    /// Deals what two players share to the pairs of their columns.
    fn share_pair(&self, (i, j): (usize, usize), credits: &mut [Vec<Credit>]) {
        let (first, second) = (&self.players[i], &self.players[j]);
        let (term, divisor) = (pair(self.players.len(), i, j), (first.len() * second.len()) as u32);
        for (a, b) in first.iter().flat_map(|a| second.iter().map(|b| (*a as usize, *b as usize))) {
            // A column of both stands at its own place, where each of the two halves counts.
            let (place, halves) = if a == b { (a, 2) } else { (pair(self.columns, a.min(b), a.max(b)), 1) };
            credits[place].push(Credit { term, divisor, halves });
        }
    }
}

/// A part of what a column or a pair of columns is credited with: `halves * term / divisor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    pub term: usize,
    pub divisor: u32,
    pub halves: u32,
}

/// Adds to `out[place][row]` what each place is credited with.
fn add_credits<'a>(credits: &[Vec<Credit>], rows: usize, of_term: impl Fn(usize) -> &'a [f64], out: &mut [Vec<f64>]) {
    for (credits, out) in credits.iter().zip(out) {
        for credit in credits {
            let (halves, divisor) = (credit.halves as f64, credit.divisor as f64);
            out[..rows].iter_mut().zip(of_term(credit.term)).for_each(|(out, x)| *out += halves * x / divisor);
        }
    }
}
