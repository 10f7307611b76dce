//! What one leaf of value 1 contributes to the players on its path, by the outcome of their questions.
//!
//! An outcome is a number whose bit `j` is set where the row's answers to the path's player `j` lead to the leaf. Contributions are
//! numbered: player after player, and for interactions behind them pair after pair, `(0, 1), (0, 2), …, (1, 2), …`.

use super::quadrature::Quadrature;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// The Shapley value of each player.
    Values,
    /// These, and half of the Shapley interaction index of each pair (Fujimoto, Kojadinovic and Marichal, 2006): what is one
    /// player's because of the other.
    Interactions,
}

impl Terms {
    /// Returns how many numbers there are for so many players.
    pub fn count(self, players: usize) -> usize {
        match self {
            Terms::Values => players,
            Terms::Interactions => players * (players + 1) / 2,
        }
    }
}

/// Returns the number of the pair `i < j` of `players` players, counted behind the players themselves.
pub fn pair(players: usize, i: usize, j: usize) -> usize {
    players + i * players - i * (i + 1) / 2 + j - i - 1
}

/// The rules that paths of up to so many players need: `rules[players]`.
pub struct Rules(Vec<Quadrature>);

impl Rules {
    /// Computes those up to `players`.
    pub fn new(players: usize) -> Self {
        Rules((0..=players).map(|k| Quadrature::new(k.div_ceil(2))).collect())
    }

    /// Returns the rule of a path of so many players.
    pub fn of(&self, players: usize) -> &Quadrature {
        &self.0[players]
    }
}

/// The chance that a player is met: at point `t` it is in the set with chance `t`.
#[inline(always)]
fn factor(t: f64, share: f64, leads: bool) -> f64 {
    let of_others = (1.0 - t) * share;
    if leads { t + of_others } else { of_others }
}

/// What its joining changes for a player.
#[inline(always)]
fn gain(share: f64, leads: bool) -> f64 {
    if leads { 1.0 - share } else { 0.0 - share }
}

/// What a leaf is reached with by players that are not in the set.
#[derive(Clone, Debug, PartialEq)]
pub enum Chances {
    /// By each player independently, with the share of the training rows.
    Shares(Vec<f64>),
    /// By each row of a background table as its answers are: the distinct outcomes of its rows for so many players, ascending, and
    /// the share of the rows that have each.
    Background(usize, Vec<(u128, f64)>),
}

impl Chances {
    /// Returns the number of players.
    pub fn players(&self) -> usize {
        match self {
            Chances::Shares(shares) => shares.len(),
            Chances::Background(players, _) => *players,
        }
    }

    /// Computes the chance that the leaf is reached by nobody's answers but the others': its share of all rows.
    pub fn of_nobody(&self) -> f64 {
        match self {
            Chances::Shares(shares) => shares.iter().product(),
            Chances::Background(players, outcomes) => {
                let all = u128::MAX.checked_shr(128 - *players as u32).unwrap_or(0);
                outcomes.iter().filter(|(outcome, _)| *outcome == all).map(|(_, share)| share).sum()
            }
        }
    }

    /// Computes the terms of the leaf for one outcome of a row.
    pub fn of_outcome(&self, rules: &Rules, outcome: u128, terms: Terms, out: &mut Vec<f64>) {
        match self {
            Chances::Shares(shares) => of_shares(rules.of(shares.len()), shares, outcome, terms, out),
            Chances::Background(players, outcomes) => of_background(*players, outcomes, outcome, terms, out),
        }
    }
}

/// [`Chances::of_outcome`] for shares.
fn of_shares(rule: &Quadrature, shares: &[f64], outcome: u128, terms: Terms, out: &mut Vec<f64>) {
    let leads = |j: usize| outcome >> j & 1 == 1;
    // The product over all players but two (or one, where both are the same), summed over the points.
    let without = |a: usize, b: usize| {
        let mut sum = 0.0;
        for (t, w) in rule.points.iter().zip(&rule.weights) {
            let mut product = *w;
            for (j, share) in shares.iter().enumerate().filter(|(j, _)| *j != a && *j != b) {
                product *= factor(*t, *share, leads(j));
            }
            sum += product;
        }
        sum
    };
    out.clear();
    out.extend((0..shares.len()).map(|i| gain(shares[i], leads(i)) * without(i, i)));
    if terms == Terms::Interactions {
        for i in 0..shares.len() {
            for j in i + 1..shares.len() {
                out.push(0.5 * gain(shares[i], leads(i)) * gain(shares[j], leads(j)) * without(i, j));
            }
        }
    }
}

/// The integral of `t^a (1 - t)^b` from 0 to 1: the chance of an order in which `a` given players come before one more, and `b` behind.
fn chance_of_order(a: u32, b: u32) -> f64 {
    // 1 / ((a + b + 1) * binomial(a + b, a))
    let (few, many) = (a.min(b), a.max(b));
    let binomial = (1..=few).fold(1.0, |x, i| x * (many + i) as f64 / i as f64);
    1.0 / ((a + b + 1) as f64 * binomial)
}

/// [`Chances::of_outcome`] for a background: a row of it and the row that is explained reach the leaf together where one of them
/// answers so at each player. Those that the row alone leads there must be in the set, those that the other alone does must not.
fn of_background(players: usize, outcomes: &[(u128, f64)], outcome: u128, terms: Terms, out: &mut Vec<f64>) {
    let all = u128::MAX.checked_shr(128 - players as u32).unwrap_or(0);
    out.clear();
    out.resize(terms.count(players), 0.0);
    for (other, share) in outcomes.iter().filter(|(other, _)| other | outcome == all) {
        let (ours, theirs) = (outcome & !other, other & !outcome);
        let (a, b) = (ours.count_ones(), theirs.count_ones());
        // How many players must be in the set besides, and must not: without those of the term.
        let signed = |j: usize, (a, b, sign): (u32, u32, f64)| {
            if ours >> j & 1 == 1 {
                Some((a - 1, b, sign))
            } else if theirs >> j & 1 == 1 {
                Some((a, b - 1, -sign))
            } else {
                None
            }
        };
        for i in 0..players {
            let Some(one) = signed(i, (a, b, *share)) else { continue };
            out[i] += one.2 * chance_of_order(one.0, one.1);
            for j in (i + 1..players).filter(|_| terms == Terms::Interactions) {
                let Some((a, b, sign)) = signed(j, one) else { continue };
                out[pair(players, i, j)] += 0.5 * sign * chance_of_order(a, b);
            }
        }
    }
}

/// The terms of a path for every outcome: `[term][outcome]`, the same bits as [`Chances::of_outcome`] gives.
#[derive(Default)]
pub struct OutcomeTable {
    pub values: Vec<f64>,
    products: Vec<f64>,
    sums: Vec<f64>,
}

impl OutcomeTable {
    /// Computes all of them.
    pub fn fill(&mut self, rules: &Rules, chances: &Chances, terms: Terms) {
        let players = chances.players();
        self.values.clear();
        self.values.resize(terms.count(players) << players, 0.0);
        let shares = match chances {
            Chances::Shares(shares) => shares,
            Chances::Background(..) => return self.fill_each(rules, chances, terms),
        };
        let rule = rules.of(players);
        for i in 0..players {
            self.fill_term(rule, shares, (i, i), i);
        }
        if terms == Terms::Interactions {
            for i in 0..players {
                for j in i + 1..players {
                    self.fill_term(rule, shares, (i, j), pair(players, i, j));
                }
            }
        }
    }

    fn fill_each(&mut self, rules: &Rules, chances: &Chances, terms: Terms) {
        let outcomes = 1 << chances.players();
        for outcome in 0..outcomes {
            chances.of_outcome(rules, outcome as u128, terms, &mut self.products);
            self.products.iter().enumerate().for_each(|(term, x)| self.values[term * outcomes + outcome] = *x);
        }
    }

    fn fill_term(&mut self, rule: &Quadrature, shares: &[f64], (a, b): (usize, usize), term: usize) {
        let players = shares.len();
        let others: Vec<usize> = (0..players).filter(|j| *j != a && *j != b).collect();
        self.sums.clear();
        self.sums.resize(1 << others.len(), 0.0);
        self.products.resize(1 << others.len(), 0.0);
        for (t, w) in rule.points.iter().zip(&rule.weights) {
            self.products[0] = *w;
            // The products over the first players, for each outcome of theirs, become those over one player more.
            for (known, j) in others.iter().enumerate() {
                let (met, not_met) = (factor(*t, shares[*j], true), factor(*t, shares[*j], false));
                let (low, high) = self.products[..2 << known].split_at_mut(1 << known);
                for (low, high) in low.iter_mut().zip(high) {
                    *high = *low * met;
                    *low *= not_met;
                }
            }
            self.sums.iter_mut().zip(&self.products).for_each(|(sum, product)| *sum += product);
        }
        let out = &mut self.values[term << players..(term + 1) << players];
        let (ga, gb) = ([false, true].map(|l| gain(shares[a], l)), [false, true].map(|l| gain(shares[b], l)));
        for (outcome, out) in out.iter_mut().enumerate() {
            let (la, lb) = (outcome >> a & 1, outcome >> b & 1);
            if a == b {
                *out = ga[la] * self.sums[without_bit(outcome, a)];
            } else {
                *out = 0.5 * ga[la] * gb[lb] * self.sums[without_bit(without_bit(outcome, b), a)];
            }
        }
    }
}

/// The number without its bit `at`, those above moved down.
#[inline(always)]
fn without_bit(x: usize, at: usize) -> usize {
    let below = (1 << at) - 1;
    x & below | x >> 1 & !below
}
