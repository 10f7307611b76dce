use super::lists::{self, SortedLists};
use super::walks::{LevelWalk, MOST_ROWS, NO_RANK, NodeSlots, SortedGroup, SortedOrder, find_level_split};
use crate::trees::codes::CodeColumns;
use crate::trees::evaluate_splits::LevelBest;
use crate::trees::histogram::expand;
use crate::trees::shard::NodeRows;
use crate::trees::split_scores::{Context, first_largest, score};
use std::sync::Arc;
use taiga_core::numerics::random::{Purpose, Random};
use taiga_core::quantize::CodedFeature;
use taiga_core::tree::SplitParams;
use taiga_core::tree::split::{Inherited, Scales, SplitRules, Sums};
use taiga_core::tree::steps::{Candidate, SearchNode};

/// Whole numbers from a seed.
struct Dice {
    random: Random,
    drawn: u64,
}

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice { random: Random::new(seed, Purpose::RowSample, 0), drawn: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.drawn += 1;
        self.random.u64(self.drawn) as usize % n
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// A table of random codes, and nodes that have some of its rows.
struct Level {
    columns: CodeColumns,
    features: Vec<CodedFeature>,
    statistics: Vec<u32>,
    /// By node, its rows.
    rows: Vec<Vec<u32>>,
    nodes: Vec<SearchNode>,
}

impl Level {
    /// Draws one with few and with most rows in no node, of one row to all rows, with and without missing values.
    fn draw(dice: &mut Dice, features: usize, largest_hessian: usize) -> Level {
        let rows = 1 + dice.below(if cfg!(miri) { 40 } else { MOST_ROWS });
        let mut columns = CodeColumns::new(features, rows).unwrap();
        let coded = (0..features).map(|f| {
            let (bins, missing_bin) = (2 + dice.below(255), dice.below(2) == 0);
            columns.feature_mut(f).fill_with(|| dice.below(bins) as u8);
            CodedFeature { borders: (1..bins - missing_bin as usize).map(|b| b as f64).collect(), missing_bin, categories: false }
        });
        let coded = coded.collect();
        let (nodes, share) = (1 + dice.below(5), 1 + dice.below(4));
        let node_of: Vec<usize> = (0..rows).map(|_| if dice.below(4) < share { dice.below(nodes) } else { nodes }).collect();
        let lists = (0..nodes).map(|n| (0..rows as u32).filter(|r| node_of[*r as usize] == n).collect()).collect();
        let statistics = (0..rows).map(|_| (dice.below(1 << 16) << 16 | dice.below(largest_hessian + 1)) as u32).collect();
        let node = |id: usize| SearchNode {
            id: id as u32,
            sums: Sums::default(),
            inherited: Inherited::NOTHING,
            features: None,
            borders: None,
            noise: None,
            weights: None,
        };
        Level { columns, features: coded, statistics, rows: lists, nodes: (0..nodes).map(node).collect() }
    }

    fn sorted(&self, counted: bool) -> SortedOrder {
        SortedOrder::new(&self.features, 0..self.features.len(), 0, &self.columns, self.statistics.len(), counted)
    }

    /// Returns the lists of its nodes' rows, and where in them each node's stand.
    fn lists(&self, counted: bool) -> (SortedLists, Vec<NodeRows>) {
        let features = 0..self.features.len();
        let mut sorted = SortedLists::new(&self.features, features, 0, &self.columns, self.statistics.len(), counted);
        let (mut places, mut start) = (vec![], 0);
        for rows in &self.rows {
            let place = NodeRows { list: 0, start, len: rows.len(), ..NodeRows::default() };
            sorted.open(place, Some(rows), &self.statistics);
            places.push(place);
            start += rows.len();
        }
        (sorted, places)
    }

    fn lay_out(&self, slots: &mut NodeSlots, rules: &SplitRules) {
        slots.lay_out(&self.nodes, |i| &self.rows[i], &self.statistics, rules);
    }

    /// Sums a node's rows whose codes of a feature are these.
    fn sums(&self, sorted: &SortedOrder, node: usize, f: usize, codes: impl Fn(usize) -> bool) -> Sums {
        let own = self.rows[node].iter().filter(|row| codes(self.columns.feature(f)[**row as usize] as usize));
        sorted.sums(own.fold(0, |sum: u64, row| sum.wrapping_add(expand(self.statistics[*row as usize]))))
    }

    /// Finds the best split of all nodes together by scoring each border in each node.
    fn best_by_definition(&self, sorted: &SortedOrder, rules: &SplitRules, parents: &[f64], best: &mut LevelBest<'_>) {
        for (f, feature) in self.features.iter().enumerate() {
            if self.nodes[0].features.as_ref().is_some_and(|allowed| !allowed.contains(&(f as u32))) {
                continue;
            }
            let is_missing = |row: &u32| (self.columns.feature(f)[*row as usize] as usize) < feature.first();
            let any_missing = self.rows.iter().flatten().any(is_missing);
            for missing_left in [true, false].into_iter().take(1 + any_missing as usize) {
                let from = if missing_left { 0 } else { feature.first() };
                let of_border = |border: usize| {
                    let of_node = |(i, node): (usize, &SearchNode)| {
                        let left = self.sums(sorted, i, f, |code| code >= from && code <= feature.first() + border);
                        let direction = rules.monotone.get(f).copied().unwrap_or(0);
                        score(left, &Context { rules, total: node.sums, inherited: &node.inherited, direction, too_small: parents[i] })
                    };
                    self.nodes.iter().enumerate().map(of_node).fold(0.0, |sum, score| sum + score)
                };
                let scores: Vec<f64> = (0..feature.borders.len() + !missing_left as usize).map(of_border).collect();
                if !scores.is_empty() {
                    let (largest, border) = first_largest(&scores);
                    best.offer((f, border, missing_left), largest);
                }
            }
        }
    }
}

fn rules(dice: &mut Dice) -> SplitRules {
    let params = SplitParams {
        l1: dice.one_of(&[0.0, 0.0, 1000.0]),
        l2: dice.one_of(&[0.0, 1.0, 50.0]),
        min_child_weight: dice.one_of(&[0.0, 0.0, 40.0]),
        min_data_in_leaf: dice.one_of(&[0, 0, 5]),
        min_gain: 0.0,
        max_delta_step: dice.one_of(&[f64::INFINITY, f64::INFINITY, f64::INFINITY, 2.0]),
        path_smooth: 0.0,
        categories: Default::default(),
    };
    // The square of the last one is not finite.
    let scales = Scales { gradient: dice.one_of(&[1.0, 1.0, 0.25, 1e-160, 2f64.powi(505)]), hessian: dice.one_of(&[1.0, 0.125]) };
    let monotone = dice.one_of(&[[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, -1, 0]]).to_vec();
    let monotone = if monotone == [0, 0, 0] { vec![] } else { monotone };
    SplitRules { scales, params, level_limits: dice.below(2) == 0, monotone }
}

/// Proves that each node's slots have the sums over its rows up to each in the order of their codes, less what is set aside, and the
/// ranks of these codes, or those of a level the same sums; and that a level's places are the slots of all rows that were met, in that order, and with what follows them known.
#[test]
fn slots_have_the_sums_up_to_each_row() {
    let mut dice = Dice::new(3);
    let mut slots = NodeSlots::default();
    for case in 0..if cfg!(miri) { 20 } else { 200 } {
        let level = Level::draw(&mut dice, 1, (1 << 16) - 1);
        let (sorted, rules) = (level.sorted(false), rules(&mut dice));
        level.lay_out(&mut slots, &rules);
        LevelWalk::lay_out(&mut slots, &level.nodes, &rules);
        let (codes, first) = (level.columns.feature(0), level.features[0].first());
        let value = |row: usize| (codes[row] as usize).max(first);
        let mut in_order: Vec<usize> = (0..codes.len()).collect();
        in_order.sort_by_key(|row| codes[*row]);
        let mut values: Vec<usize> = in_order.iter().map(|row| value(*row)).collect();
        values.dedup();
        for aside in [false, true] {
            let any = aside && slots.set_aside(&sorted, 0);
            let of_level = slots.walk::<true>(sorted.order(0));
            let sums_of_level = slots.sums.clone();
            let met = slots.walk::<false>(sorted.order(0));
            assert!(met == of_level && slots.sums == sums_of_level, "case {case}");
            for (n, rows) in level.rows.iter().enumerate() {
                let of_missing = rows.iter().filter(|r| aside && (codes[**r as usize] as usize) < first);
                assert!(any || of_missing.clone().count() == 0);
                let mut sum = of_missing.fold(0u64, |sum, r| sum.wrapping_sub(expand(level.statistics[*r as usize])));
                let own = in_order.iter().filter(|row| rows.contains(&(**row as u32)));
                for (slot, row) in slots.of_node(n).zip(own) {
                    sum = sum.wrapping_add(expand(level.statistics[*row]));
                    assert_eq!(slots.sums[slot], sum, "case {case}");
                    assert_eq!(values[slots.ranks[slot] as usize], value(*row), "case {case}");
                }
                assert_eq!(slots.ranks[slots.of_node(n).end], NO_RANK);
            }
            let searched = |row: &&usize| level.rows.iter().any(|rows| rows.contains(&(**row as u32)));
            let everywhere = met == codes.len();
            let met_rows: Vec<usize> = in_order.iter().filter(|row| everywhere || searched(row)).copied().collect();
            assert_eq!(met, met_rows.len(), "case {case}");
            for (i, (row, place)) in met_rows.iter().zip(&slots.level.places).enumerate() {
                let last = met_rows.get(i + 1).is_none_or(|next| value(*next) > value(*row));
                assert_eq!(slots.met(sorted.order(0), i, met), (*row, last), "case {case}");
                let slot = *place as usize;
                let node = level.rows.iter().position(|rows| rows.contains(&(*row as u32)));
                assert!(node.map_or(slot > slots.scored(), |node| slots.of_node(node).contains(&slot)), "case {case}");
            }
            slots.clear_aside();
        }
    }
}

/// Proves that the split of a level is the one that scoring each border in each node finds, in walks and in lists, and its left sums those of the
/// rows: under every rule, with noise and weights on features, some features alone, and scores that are not finite.
#[test]
fn the_split_of_a_level_is_that_of_all_scores() {
    let mut dice = Dice::new(4);
    let mut slots = NodeSlots::default();
    let (mut found, mut right, mut listed) = (0, 0, 0);
    for case in 0..if cfg!(miri) { 10 } else { 300 } {
        let largest_hessian = dice.one_of(&[1, 20, (1 << 16) - 1]);
        let mut level = Level::draw(&mut dice, 3, largest_hessian);
        let rules = rules(&mut dice);
        let sorted = level.sorted(rules.counts_rows());
        let features = (dice.below(4) == 0).then(|| vec![0, 2]);
        let weights: Option<Arc<[f64]>> = (dice.below(4) == 0).then(|| vec![1.0, 0.0, 0.5].into());
        let noise: Option<Arc<[f64]>> = (dice.below(4) == 0).then(|| vec![0.0, 3.0, 20.0].into());
        let totals: Vec<Sums> = (0..level.nodes.len()).map(|i| level.sums(&sorted, i, 0, |_| true)).collect();
        for (node, sums) in level.nodes.iter_mut().zip(totals) {
            node.sums = sums;
            (node.features, node.weights, node.noise) = (features.clone(), weights.clone(), noise.clone());
        }
        let parents: Vec<f64> = level.nodes.iter().map(|n| rules.node_score(n.sums, &n.inherited)).collect();
        let none = || LevelBest::new(&level.nodes, parents.iter().sum(), &rules);
        let (mut walked, mut scored) = (none(), none());
        level.lay_out(&mut slots, &rules);
        LevelWalk::lay_out(&mut slots, &level.nodes, &rules);
        let group = SortedGroup { sorted: &sorted, columns: &level.columns, features: &level.features };
        find_level_split(group, &mut slots, &level.nodes, &rules, &mut walked);
        level.best_by_definition(&sorted, &rules, &parents, &mut scored);
        let bits = |c: &Candidate| (c.feature, c.border, c.missing_left, c.gain.to_bits());
        assert_eq!(walked.candidate.as_ref().map(bits), scored.candidate.as_ref().map(bits), "case {case}: {rules:?}");
        // A node that is searched has rows.
        let may_be_listed = level.statistics.len() <= lists::MOST_ROWS && level.rows.iter().all(|rows| !rows.is_empty());
        let lists = may_be_listed.then(|| level.lists(rules.counts_rows()));
        let lists = lists.map(|(mut sorted, places)| {
            let of_lists = sorted.find_level_split(&level.nodes, &places, &level.features, &rules);
            assert_eq!(of_lists.as_ref().map(bits), scored.candidate.as_ref().map(bits), "case {case}: {rules:?}");
            (sorted, places)
        });
        let Some(candidate) = walked.candidate else { continue };
        found += 1;
        right += !candidate.missing_left as usize;
        let (f, first) = (candidate.feature as usize, level.features[candidate.feature as usize].first());
        let from = if candidate.missing_left { 0 } else { first };
        for i in 0..level.nodes.len() {
            let left = level.sums(&sorted, i, f, |code| code >= from && code <= first + candidate.border as usize);
            assert_eq!(sorted.left_sums(group, &level.rows[i], &level.statistics, &candidate), left, "case {case}");
            if let Some((sorted, places)) = &lists {
                listed += 1;
                assert_eq!(sorted.left_sums(places[i], &candidate), left, "case {case}");
            }
        }
    }
    assert!(
        cfg!(miri) || (found > 100 && right > 20 && listed > 50),
        "{found} splits, {right} with missing values on the right, {listed} in lists"
    );
}
