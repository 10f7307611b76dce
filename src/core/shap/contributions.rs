//! What one leaf of value 1 contributes to the players on its path, by the outcome of their questions.
//!
//! An outcome is a number whose bit `j` is set where the row's answers to the path's player `j` lead to the leaf. Contributions are
//! numbered: player after player, and for interactions behind them pair after pair, `(0, 1), (0, 2), …, (1, 2), …`.

use super::quadrature::Quadrature;
use multiversion::multiversion;

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

    /// Returns the places of the terms of some players among those of `all`.
    pub fn places(self, all: usize, some: &[u32]) -> Vec<usize> {
        let mut places: Vec<usize> = some.iter().map(|p| *p as usize).collect();
        if self == Terms::Interactions {
            for (i, a) in some.iter().enumerate() {
                places.extend(some[i + 1..].iter().map(|b| pair(all, *a.min(b) as usize, *a.max(b) as usize)));
            }
        }
        places
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
pub(super) fn gain(share: f64, leads: bool) -> f64 {
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

    /// Computes the terms of the leaf for one outcome of a row.
    pub fn of_outcome(&self, rules: &Rules, outcome: u128, terms: Terms, out: &mut Vec<f64>) {
        match self {
            Chances::Shares(shares) => of_shares(rules.of(shares.len()), shares, outcome, terms, out),
            Chances::Background(players, outcomes) => of_background(*players, outcomes, outcome, terms, out),
        }
    }
}

/// The most points of a rule, and of each a number.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// The most players on a path whose leaf has a table.
pub const MOST_PLAYERS: usize = 2 * LANES;

/// [`Chances::of_outcome`] for shares.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn of_shares(rule: &Quadrature, shares: &[f64], outcome: u128, terms: Terms, out: &mut Vec<f64>) {
    let players = shares.len();
    out.clear();
    out.resize(terms.count(players), 0.0);
    let mut factors = [[0.0; LANES]; MOST_PLAYERS];
    let mut points = [0.0; LANES];
    points[..rule.points.len()].copy_from_slice(&rule.points);
    for (j, (factors, share)) in factors.iter_mut().zip(shares).enumerate() {
        let leads = outcome >> j & 1 == 1;
        (0..LANES).for_each(|i| factors[i] = factor(points[i], *share, leads));
    }
    let mut behind = [[1.0; LANES]; MOST_PLAYERS + 1];
    for j in (0..players).rev() {
        behind[j] = times(&behind[j + 1], &factors[j]);
    }
    let mut before = [0.0; LANES];
    before[..rule.weights.len()].copy_from_slice(&rule.weights);
    // Points are added in their order, as in a table.
    let sum = |x: Lanes| x[..rule.points.len()].iter().fold(0.0, |sum, x| sum + x);
    let gain = |j: usize| gain(shares[j], outcome >> j & 1 == 1);
    for i in 0..players {
        out[i] = sum(times(&before, &behind[i + 1])) * gain(i);
        if terms == Terms::Interactions {
            let mut between = before;
            for j in i + 1..players {
                out[pair(players, i, j)] = sum(times(&between, &behind[j + 1])) * (0.5 * gain(i) * gain(j));
                between = times(&between, &factors[j]);
            }
        }
        before = times(&before, &factors[i]);
    }
}

#[inline(always)]
fn times(a: &Lanes, b: &Lanes) -> Lanes {
    std::array::from_fn(|i| a[i] * b[i])
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
    /// Products over the players before and from one, by their outcomes; and over those before another but one.
    before: Vec<f64>,
    behind: Vec<f64>,
    between: Vec<f64>,
    sums: Vec<f64>,
}

impl OutcomeTable {
    /// Computes all of them.
    pub fn fill(&mut self, rules: &Rules, chances: &Chances, terms: Terms) {
        let players = chances.players();
        self.values.clear();
        self.values.resize(terms.count(players) << players, 0.0);
        match chances {
            Chances::Shares(shares) => fill_shares(self, rules.of(players), shares, terms),
            Chances::Background(..) => self.fill_each(rules, chances, terms),
        }
    }

    fn fill_each(&mut self, rules: &Rules, chances: &Chances, terms: Terms) {
        let outcomes = 1 << chances.players();
        for outcome in 0..outcomes {
            chances.of_outcome(rules, outcome as u128, terms, &mut self.sums);
            self.sums.iter().enumerate().for_each(|(term, x)| self.values[term * outcomes + outcome] = *x);
        }
    }
}

/// [`OutcomeTable::fill`] for shares.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2"))]
fn fill_shares(table: &mut OutcomeTable, rule: &Quadrature, shares: &[f64], terms: Terms) {
    let players = shares.len();
    // A term's sums stand by the outcomes of the players besides its own.
    let half = 1usize << players.saturating_sub(1);
    table.sums.clear();
    table.sums.resize(terms.count(players) * half, 0.0);
    table.before.resize(1 << players, 0.0);
    table.between.resize(1 << players, 0.0);
    table.behind.resize(2 << players, 0.0);
    for (t, w) in rule.points.iter().zip(&rule.weights) {
        let factors = |j: usize| [false, true].map(|leads| factor(*t, shares[j], leads));
        // Those from player `j` on stand from `2^(players - j)` on, so many of them.
        table.behind[1] = 1.0;
        for j in (0..players).rev() {
            let size = 1 << (players - 1 - j);
            let (known, out) = table.behind[size..4 * size].split_at_mut(size);
            let factors = factors(j);
            for (known, out) in known.iter().zip(out.as_chunks_mut::<2>().0) {
                *out = factors.map(|f| known * f);
            }
        }
        table.before[0] = *w;
        for i in 0..players {
            let behind = |j: usize| &table.behind[1 << (players - 1 - j)..][..1 << (players - 1 - j)];
            add_products(&mut table.sums[i * half..][..half], &table.before[..1 << i], behind(i));
            if terms == Terms::Interactions {
                table.between[..1 << i].copy_from_slice(&table.before[..1 << i]);
                for j in i + 1..players {
                    let out = &mut table.sums[pair(players, i, j) * half..][..half / 2];
                    add_products(out, &table.between[..1 << (j - 1)], behind(j));
                    double(&mut table.between[..1 << j], factors(j));
                }
            }
            double(&mut table.before[..2 << i], factors(i));
        }
    }
    expand(table, shares, terms);
}

/// Multiplies the sums by the gains of their players, for both answers of each.
#[inline(always)]
fn expand(table: &mut OutcomeTable, shares: &[f64], terms: Terms) {
    let players = shares.len();
    let half = 1usize << players.saturating_sub(1);
    let gains = |j: usize| [false, true].map(|leads| gain(shares[j], leads));
    for i in 0..players {
        let (out, sums, gains) = (&mut table.values[i << players..], &table.sums[i * half..][..half], gains(i));
        for (group, sums) in sums.chunks_exact(1 << i).enumerate() {
            for (answer, gain) in gains.iter().enumerate() {
                let out = &mut out[(2 * group + answer) << i..][..1 << i];
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum * gain);
            }
        }
    }
    let pairs = if terms == Terms::Interactions { players } else { 0 };
    for (i, j) in (0..pairs).flat_map(|i| (i + 1..pairs).map(move |j| (i, j))) {
        let (term, own, other) = (pair(players, i, j), gains(i), gains(j));
        let gain = |outcome: usize| 0.5 * own[outcome >> i & 1] * other[outcome >> j & 1];
        for (outcome, out) in table.values[term << players..][..1 << players].iter_mut().enumerate() {
            *out = table.sums[term * half + without_bit(without_bit(outcome, j), i)] * gain(outcome);
        }
    }
}

/// Appends to the products over some players, by their outcomes, those over one player more.
#[inline(always)]
fn double(products: &mut [f64], factors: [f64; 2]) {
    let (low, high) = products.split_at_mut(products.len() / 2);
    for (low, high) in low.iter_mut().zip(high) {
        *high = *low * factors[1];
        *low *= factors[0];
    }
}

/// Adds each product of a number before and one behind, where the latter's outcome gives the upper bits.
#[inline(always)]
fn add_products(out: &mut [f64], before: &[f64], behind: &[f64]) {
    if let [before] = before {
        out.iter_mut().zip(behind).for_each(|(out, behind)| *out += before * behind);
        return;
    }
    for (out, behind) in out.chunks_exact_mut(before.len()).zip(behind) {
        out.iter_mut().zip(before).for_each(|(out, before)| *out += before * behind);
    }
}

/// The number without its bit `at`, those above moved down.
#[inline(always)]
fn without_bit(x: usize, at: usize) -> usize {
    let below = (1 << at) - 1;
    x & below | x >> 1 & !below
}
