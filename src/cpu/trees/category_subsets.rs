//! The best subset of the categories of a node (Fisher, "On grouping for maximum homogeneity",
//! 1958, as LightGBM does it): sorted by gradient over hessian, only the beginnings and the ends
//! of the sequence are tried.

use super::bins::{MAX_BINS, NodeBins};
use super::histogram::expand;
use super::lanes::SharedTree;
use super::shared_scores::output_score;
use taiga_core::quantize::CodeSet;
use taiga_core::tree::split::{SplitRules, Sums};
use taiga_core::tree::steps::SearchNode;

/// Writes the sums of each category of a node to `out`.
fn sums_of_bins(bins: &NodeBins<'_>, count: usize, out: &mut [Sums; MAX_BINS]) {
    match bins {
        NodeBins::Rows { rows, statistics, codes, counts } => {
            out[..count].fill(Sums::default());
            for (row, statistic) in rows.iter().zip(*statistics) {
                let of_code = &mut out[codes[*row as usize] as usize];
                *of_code = *of_code + counts.sums(expand(*statistic), 1);
            }
        }
        _ => (0..count).for_each(|i| out[i] = bins.at(i)),
    }
}

/// Finds the subset that gains most in a tree that several outputs share, as [`best_subset`] does for one: categories are sorted by the
/// output whose values differ most between them. `bins` and `totals`: of each output; the sums on the left are those of all together.
/// `drawn`: the feature's entry in [`SearchNode::borders`].
pub fn best_shared_subset(
    bins: &[NodeBins<'_>],
    count: usize,
    totals: &[Sums],
    rules: &SplitRules,
    tree: &SharedTree,
    drawn: Option<usize>,
) -> Option<(f64, Sums, CodeSet)> {
    let outputs = totals.len();
    let mut sums = vec![[Sums::default(); MAX_BINS]; outputs];
    bins.iter().zip(&mut sums).for_each(|(bins, out)| sums_of_bins(bins, count, out));
    let score = |k: usize, sums: Sums, more_l2: f64| output_score(sums, tree.quantizers[k].scales(), &tree.rules[k], more_l2);
    let l2 = |k: usize| tree.rules[k].params.categories.l2;
    let smooth = |k: usize| tree.rules[k].params.categories.smooth;
    let spread = |k: usize| (1..count).fold(0.0, |total, code| total + score(k, sums[k][code], smooth(k)));
    let widest = (1..outputs).fold((0, spread(0)), |best, k| if spread(k) > best.1 { (k, spread(k)) } else { best }).0;
    let scales = tree.quantizers[widest].scales();
    let of_code = |code: usize| tree.together((0..outputs).map(|k| sums[k][code]));
    let value = |code: usize| {
        let Sums { gradient, hessian, .. } = sums[widest][code];
        let value = gradient as f64 * scales.gradient / (hessian as f64 * scales.hessian + smooth(widest));
        // Of a category without derivatives of this output.
        if value.is_nan() { 0.0 } else { value }
    };
    let mut order: Vec<(f64, usize)> = (1..count).filter(|code| of_code(*code).hessian > 0).map(|code| (value(code), code)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let most = (rules.categories.most as usize).min(order.len().div_ceil(2));
    let parent = tree.score(totals, |_| 0.0);
    let mut best: Option<(f64, Sums, bool, usize)> = None;
    for reversed in [false, true] {
        let mut inside = vec![Sums::default(); outputs];
        for n in 1..=most {
            let code = if reversed { order[order.len() - n].1 } else { order[n - 1].1 };
            inside.iter_mut().zip(&sums).for_each(|(inside, sums)| *inside = *inside + sums[code]);
            let outside: Vec<Sums> = totals.iter().zip(&inside).map(|(total, inside)| *total - *inside).collect();
            let (right, left) = (tree.together(inside.iter().copied()), tree.together(outside.iter().copied()));
            if !is_open(drawn, n, most) || !rules.large_enough(right) {
                continue;
            }
            if !rules.large_enough(left) {
                break;
            }
            let gain = match tree.pairs {
                0 => (0..outputs).fold(-parent, |gain, k| gain + score(k, inside[k], l2(k)) + score(k, outside[k], l2(k))),
                _ => tree.score(&inside, l2) + tree.score(&outside, l2) - parent,
            };
            if gain > rules.min_gain && best.is_none_or(|b| gain > b.0) {
                best = Some((gain, left, reversed, n));
            }
        }
    }
    best.map(|(gain, left, reversed, n)| (gain, left, of_ends(&order, reversed, n)))
}

/// Returns whether subsets of `n` categories are tried, of `most` at the most: where one length is drawn, that one alone.
fn is_open(drawn: Option<usize>, n: usize, most: usize) -> bool {
    drawn.is_none_or(|share| n == 1 + ((share * most) >> 8))
}

/// Returns the first or the last `n` codes in an order.
fn of_ends(order: &[(f64, usize)], reversed: bool, n: usize) -> CodeSet {
    let mut set = CodeSet::default();
    (0..n).for_each(|i| set.insert(if reversed { order[order.len() - 1 - i].1 } else { order[i].1 } as u8));
    set
}

/// Finds the subset of categories that gains most when it goes right and all others go left: the gain, the sums of those on the
/// left, and the subset. Code 0, which stands for rare categories and unknown ones, always goes left.
/// `drawn`: its entry in [`SearchNode::borders`].
pub fn best_subset(
    bins: &NodeBins<'_>,
    count: usize,
    node: &SearchNode,
    rules: &SplitRules,
    drawn: Option<usize>,
) -> Option<(f64, Sums, CodeSet)> {
    let mut sums = [Sums::default(); MAX_BINS];
    sums_of_bins(bins, count, &mut sums);
    let c = &rules.categories;
    let mut order: Vec<(f64, usize)> = (1..count)
        .filter(|i| sums[*i].hessian > 0)
        .map(|i| {
            let (g, h) = rules.values(sums[i]);
            (g / (h + c.smooth), i)
        })
        .collect();
    // Equal ones in the order of their codes.
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let most = (c.most as usize).min(order.len().div_ceil(2));
    let parent = rules.node_score(node.sums, &node.inherited);
    let mut best: Option<(f64, Sums, bool, usize)> = None;
    for reversed in [false, true] {
        let mut inside = Sums::default();
        for n in 1..=most {
            let code = if reversed { order[order.len() - n].1 } else { order[n - 1].1 };
            inside = inside + sums[code];
            let outside = node.sums - inside;
            if !is_open(drawn, n, most) || !rules.large_enough(inside) {
                continue;
            }
            if !rules.large_enough(outside) {
                break;
            }
            let gain = rules.category_score(inside, &node.inherited) + rules.category_score(outside, &node.inherited) - parent;
            if gain > rules.min_gain && best.is_none_or(|b| gain > b.0) {
                best = Some((gain, outside, reversed, n));
            }
        }
    }
    best.map(|(gain, left, reversed, n)| (gain, left, of_ends(&order, reversed, n)))
}
