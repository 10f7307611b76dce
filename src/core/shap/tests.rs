//! Held against Shapley's own formula over all sets of players, for random trees of every kind.

use super::*;
use crate::parallel::thread_pool::ThreadPool;
use crate::tree::model::Child;
use proptest::prelude::*;

/// A tree, and the answers of rows: `answers[row][test]`.
#[derive(Clone, Debug)]
struct Case {
    tree: ExplainedTree,
    players: usize,
    rows: Vec<Vec<bool>>,
}

struct Rows<'a>(&'a [Vec<bool>]);

impl Answers for Rows<'_> {
    fn goes_right(&self, _: usize, test: usize, out: &mut [u8]) {
        out.iter_mut().zip(self.0).for_each(|(out, row)| *out = row[test] as u8);
    }
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn value(&mut self) -> f64 {
        self.below(2001) as f64 / 100.0 - 10.0
    }
}

/// A branching tree of so many inner nodes, each put in the place of a leaf: of any, or of the newest, which makes it deep.
fn branching(dice: &mut Dice, nodes: usize, players: usize, outputs: usize, is_deep: bool) -> ExplainedTree {
    let mut tree =
        ExplainedTree { nodes: vec![], tests: nodes, is_symmetric: false, covers: vec![], first_output: 0, outputs, values: vec![] };
    // Open places: the parent and its side.
    let mut open: Vec<Option<(usize, bool)>> = vec![None];
    let put = |tree: &mut ExplainedTree, place: Option<(usize, bool)>, child: Child| match place {
        None => {}
        Some((parent, false)) => tree.nodes[parent].left = child,
        Some((parent, true)) => tree.nodes[parent].right = child,
    };
    for node in 0..nodes {
        let at = if is_deep { open.len() - 1 } else { dice.below(open.len()) };
        let place = open.remove(at);
        put(&mut tree, place, Child::Node(node as u32));
        let player = if is_deep { node % players } else { dice.below(players) } as u32;
        tree.nodes.push(ExplainedNode { player, test: node as u32, left: Child::Leaf(0), right: Child::Leaf(0) });
        open.extend([Some((node, dice.below(2) == 1)), None]);
        let last = open.len() - 1;
        open[last] = open[last - 1].map(|(node, right)| (node, !right));
    }
    for (leaf, place) in open.into_iter().enumerate() {
        put(&mut tree, place, Child::Leaf(leaf as u32));
        // Some leaves have seen no row.
        tree.covers.push(dice.below(4) as f64 * (1 + dice.below(9)) as f64);
        tree.values.extend((0..outputs).map(|_| dice.value()));
    }
    tree
}

fn symmetric(dice: &mut Dice, levels: usize, players: usize, outputs: usize) -> ExplainedTree {
    let of_level: Vec<u32> = (0..levels).map(|_| dice.below(players) as u32).collect();
    let mut tree = ExplainedTree {
        nodes: vec![],
        tests: levels,
        is_symmetric: true,
        covers: (0..1 << levels).map(|_| dice.below(5) as f64).collect(),
        first_output: 0,
        outputs,
        values: (0..outputs << levels).map(|_| dice.value()).collect(),
    };
    for (level, player) in of_level.into_iter().enumerate() {
        for k in 0..1u32 << level {
            let child = |right: u32| match level + 1 == levels {
                true => Child::Leaf(2 * k + right),
                false => Child::Node((2 << level) - 1 + 2 * k + right),
            };
            tree.nodes.push(ExplainedNode { player, test: level as u32, left: child(0), right: child(1) });
        }
    }
    tree
}

/// What a tree gives where the players of a set (bits) answer as the row does, by shares of the training rows for the others.
fn value(tree: &ExplainedTree, shares: &[[f64; 2]], at: Child, row: &[bool], set: usize, output: usize) -> f64 {
    match at {
        Child::Leaf(leaf) => tree.leaf_values(leaf)[output],
        Child::Node(index) => {
            let node = &tree.nodes[index as usize];
            let of = |child| value(tree, shares, child, row, set, output);
            if set >> node.player & 1 == 1 {
                return of(if row[node.test as usize] { node.right } else { node.left });
            }
            let [left, right] = shares[index as usize];
            left * of(node.left) + right * of(node.right)
        }
    }
}

/// The same where the others answer as each row of a background does.
fn value_against(tree: &ExplainedTree, background: &[Vec<bool>], row: &[bool], set: usize, output: usize) -> f64 {
    let of = |other: &Vec<bool>| {
        let mut at = tree.root();
        while let Child::Node(index) = at {
            let node = &tree.nodes[index as usize];
            let answers = if set >> node.player & 1 == 1 { row } else { other };
            at = if answers[node.test as usize] { node.right } else { node.left };
        }
        let Child::Leaf(leaf) = at else { return 0.0 };
        tree.leaf_values(leaf)[output]
    };
    background.iter().map(of).sum::<f64>() / background.len() as f64
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

/// Shapley's formula: of each player its value, and of each two half of their interaction index, `[i][j]`.
fn by_definition(players: usize, value: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<Vec<f64>>) {
    let values: Vec<f64> = (0..1 << players).map(value).collect();
    let size = |set: usize| set.count_ones() as usize;
    let mut single = vec![0.0; players];
    let mut pairs = vec![vec![0.0; players]; players];
    for (set, of_set) in values.iter().enumerate() {
        for i in (0..players).filter(|i| set >> i & 1 == 0) {
            let weight = factorial(size(set)) * factorial(players - size(set) - 1) / factorial(players);
            single[i] += weight * (values[set | 1 << i] - of_set);
            for j in (0..players).filter(|j| *j != i && set >> j & 1 == 0) {
                let weight = factorial(size(set)) * factorial(players - size(set) - 2) / factorial(players - 1);
                pairs[i][j] += 0.5 * weight * (values[set | 1 << i | 1 << j] - values[set | 1 << i] - values[set | 1 << j] + of_set);
            }
        }
    }
    (single, pairs)
}

/// What two columns share, or what is one's alone.
fn cell(terms: &[Vec<f64>], columns: usize, i: usize, j: usize) -> &[f64] {
    &terms[if i == j { i } else { contributions::pair(columns, i.min(j), i.max(j)) }]
}

fn explainer(tree: &ExplainedTree, players: usize, game: &Game<'_>) -> Explainer {
    let columns = (0..players as u32).map(|p| vec![p]).collect();
    Explainer::new(vec![tree.clone()], columns, players, tree.outputs, game).unwrap()
}

/// Holds values, interactions and means of every row against the definition.
fn check(case: &Case, background: Option<&[Vec<bool>]>) {
    let Case { tree, players, rows } = case;
    let against = background.map(Rows);
    let game = match (&against, background) {
        (Some(answers), Some(rows)) => Game::Background(rows.len(), answers),
        _ => Game::Training,
    };
    let explainer = explainer(tree, *players, &game);
    let explained = explainer.explain(&Rows(rows), rows.len(), Terms::Values);
    let pairs = explainer.explain(&Rows(rows), rows.len(), Terms::Interactions);
    let shares = tree.branch_shares();
    let scale = tree.values.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * scale * *players as f64, "{a} is not {b}: {case:?}");
    for output in 0..tree.outputs {
        for (at, row) in rows.iter().enumerate() {
            let of_set = |set: usize| match background {
                None => value(tree, &shares, tree.root(), row, set, output),
                Some(background) => value_against(tree, background, row, set, output),
            };
            let (single, double) = by_definition(*players, of_set);
            near(explainer.means()[output], of_set(0));
            for i in 0..*players {
                near(explained.values[output][i][at], single[i]);
                let line: Vec<f64> = (0..*players).map(|j| cell(&pairs.interactions[output], *players, i, j)[at]).collect();
                near(line.iter().sum(), single[i]);
                (0..*players).filter(|j| *j != i).for_each(|j| near(line[j], double[i][j]));
            }
        }
    }
    // A row by itself, for which no table pays, has the same bits.
    for (at, row) in rows.iter().enumerate() {
        let fresh = self::explainer(tree, *players, &game);
        for (all, terms) in [(&explained, Terms::Values), (&pairs, Terms::Interactions)] {
            let alone = fresh.explain(&Rows(std::slice::from_ref(row)), 1, terms);
            for output in 0..tree.outputs {
                (0..*players).for_each(|i| assert_eq!(alone.values[output][i][0].to_bits(), all.values[output][i][at].to_bits()));
            }
        }
        let (one, all) = (fresh.explain(&Rows(std::slice::from_ref(row)), 1, Terms::Interactions), &pairs);
        for (one, all) in one.interactions.iter().flatten().zip(all.interactions.iter().flatten()) {
            assert_eq!(one[0].to_bits(), all[at].to_bits());
        }
    }
}

fn rows(dice: &mut Dice, tests: usize, count: usize) -> Vec<Vec<bool>> {
    (0..count).map(|_| (0..tests).map(|_| dice.below(2) == 1).collect()).collect()
}

fn cases() -> impl Strategy<Value = (Case, Vec<Vec<bool>>)> {
    (any::<u64>(), 0..3usize, 1..8usize, 0..12usize, 1..3usize).prop_map(|(seed, kind, players, size, outputs)| {
        let mut dice = Dice(seed);
        let tree = match kind {
            0 => symmetric(&mut dice, size.clamp(1, 6), players, outputs),
            _ => branching(&mut dice, size, players, outputs, kind == 2),
        };
        let (rows, background) = (rows(&mut dice, tree.tests, 40), rows(&mut Dice(seed ^ 7), tree.tests, 9));
        (Case { tree, players, rows }, background)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Proves for symmetric and branching trees, with players that are asked several times on a path and branches that no
    /// training row took, that values and interactions are those of the definition, over the training rows and a background.
    #[test]
    fn values_are_shapleys((case, background) in cases()) {
        check(&case, None);
        check(&case, Some(&background));
    }
}

/// Holds what rows get of which only some players are known against the recursion, for every set of players.
fn check_known(case: &Case) {
    let Case { tree, players, rows } = case;
    let shares = tree.branch_shares();
    let scale = tree.values.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
    for set in 0..1usize << players {
        let means = KnownMeans::new(vec![tree.clone(), tree.clone()], |player| set >> player & 1 == 1, tree.outputs).unwrap();
        let found = means.of(&Rows(rows), rows.len());
        for (output, found) in found.iter().enumerate() {
            for (row, found) in rows.iter().zip(found) {
                let wanted = 2.0 * value(tree, &shares, tree.root(), row, set, output);
                assert!((found - wanted).abs() <= 1e-12 * scale, "{found} is not {wanted} of set {set}: {case:?}");
            }
        }
        // A row by itself has the same bits.
        let alone = means.of(&Rows(&rows[..1]), 1);
        (0..tree.outputs).for_each(|output| assert_eq!(alone[output][0].to_bits(), found[output][0].to_bits()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Proves that rows of which some players are known get what the recursion over all nodes gives, for symmetric and branching
    /// trees, of one leaf too.
    #[test]
    fn known_players_answer_and_others_follow_the_training_rows((mut case, _) in cases()) {
        if case.tree.covers.iter().sum::<f64>() == 0.0 {
            case.tree.covers[0] = 1.0;
        }
        check_known(&case);
    }
}

/// Proves that a tree without covers is an error, and that a player of columns that are known in part is found.
#[test]
fn what_can_not_be_known_is_told() {
    let mut tree = symmetric(&mut Dice(1), 2, 2, 1);
    tree.covers.fill(0.0);
    assert!(KnownMeans::new(vec![tree], |_| true, 1).is_err());
    let players = [vec![0], vec![1, 2], vec![3]];
    assert_eq!(known::players_of(&players, &[0, 1, 2]), Ok(vec![true, true, false]));
    assert_eq!(known::players_of(&players, &[0, 2]), Err([1, 2].as_slice()));
}

/// Proves the same where paths meet too many players for tables: a tree that is walked, and one that is gone through leaf by leaf.
#[test]
fn deep_trees_have_shapleys_values() {
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let tree = branching(&mut dice, branching::MOST_DEPTH + 1, 9, 1 + seed as usize % 2, true);
        assert!(tree.extent().depth > branching::MOST_DEPTH);
        let case = Case { rows: rows(&mut dice, tree.tests, 3), tree, players: 9 };
        check(&case, None);
        check(&case, Some(&rows(&mut dice, case.tree.tests, 5)));
    }
    let mut dice = Dice(5);
    let tree = branching(&mut dice, branching::MOST_PLAYERS, branching::MOST_PLAYERS, 1, true);
    let case = Case { rows: rows(&mut dice, tree.tests, 2), tree, players: branching::MOST_PLAYERS };
    check(&case, None);
    let mut dice = Dice(3);
    let tree = symmetric(&mut dice, symmetric::MOST_LEVELS + 1, 8, 1);
    let case = Case { rows: rows(&mut dice, tree.tests, 3), tree, players: 8 };
    check(&case, None);
}

/// Does for rows what a program says, one row after the other, `[output][term][row]`: the twin of what devices do for all rows at once.
fn follow(program: &program::Program, explainer: &Explainer, rows: &[Vec<bool>], terms: Terms) -> Vec<f64> {
    let mut sums = vec![0.0; program.outputs * program.terms * rows.len()];
    for (at, row) in rows.iter().enumerate() {
        let mut add = |output: usize, place: usize, x: f64| sums[(output * program.terms + place) * rows.len() + at] += x;
        for stage in &program.stages {
            let tree = explainer.tree(stage.tree);
            match &stage.way {
                program::Way::LookUps(lookups) => program.lookups[lookups.clone()].iter().for_each(|lookup| {
                    let found = look_up(program, lookup, row);
                    lookup.places.iter().zip(found).for_each(|(place, x)| add(lookup.output, *place, *x));
                }),
                program::Way::Leaves(groups) => program.leaves.groups[groups.clone()].iter().for_each(|group| {
                    let players = &program.leaves.group_players[group.players.clone()];
                    let found = go_through(program, group, explainer, tree, row, terms);
                    let places = terms.places(explainer.players().len(), players);
                    let count = places.len();
                    (0..tree.outputs * count).for_each(|i| add(tree.first_output + i / count, places[i % count], found[i]));
                }),
                program::Way::Walk => {
                    let walk = explainer.walk(stage.tree).unwrap();
                    let places = terms.places(explainer.players().len(), &walk.players);
                    let mut found = vec![0.0; tree.outputs * places.len()];
                    walk.add(tree, terms, |test| row[test as usize], &mut Default::default(), &mut found);
                    let count = places.len();
                    (0..found.len()).for_each(|i| add(tree.first_output + i / count, places[i % count], found[i]));
                }
            }
        }
    }
    sums
}

fn look_up<'p>(program: &'p program::Program, lookup: &program::LookUp, row: &[bool]) -> &'p [f64] {
    let pattern = lookup.steps.iter().fold(lookup.first_pattern, |pattern, step| {
        let right = row[step.test as usize];
        match step.change {
            program::Bit::Set => pattern | (right as u32) << step.bit,
            program::Bit::Lead { right: wanted } => pattern & !(((right ^ wanted) as u32) << step.bit),
        }
    });
    &program.values[lookup.first_value + pattern as usize * lookup.pitch()..]
}

/// What the leaves of a group give to its players, `[output][term]`.
fn go_through(
    program: &program::Program,
    group: &leaves::ListedGroup,
    explainer: &Explainer,
    tree: &ExplainedTree,
    row: &[bool],
    terms: Terms,
) -> Vec<f64> {
    let (list, all) = (&program.leaves, group.players.len());
    let (count, mut one) = (terms.count(all), vec![]);
    let mut out = vec![0.0; tree.outputs * count];
    for leaf in &list.leaves[group.leaves.clone()] {
        let players = &list.players[leaf.players.clone()];
        let leads = |p: &leaves::ListedPlayer| {
            list.steps[p.steps.start as usize..p.steps.end as usize].iter().all(|(test, right)| row[*test as usize] == *right)
        };
        let outcome = players.iter().enumerate().map(|(j, p)| (leads(p) as u128) << j).sum();
        let chances = match &list.outcomes[leaf.outcomes.clone()] {
            [] => contributions::Chances::Shares(players.iter().map(|p| p.share).collect()),
            outcomes => contributions::Chances::Background(players.len(), outcomes.to_vec()),
        };
        chances.of_outcome(explainer.rules(), outcome, terms, &mut one);
        let places: Vec<u32> = players.iter().map(|p| p.place).collect();
        for (output, value) in tree.leaf_values(leaf.leaf).iter().enumerate() {
            terms.places(all, &places).iter().zip(&one).for_each(|(place, x)| out[output * count + place] += value * x);
        }
    }
    out
}

fn same_bits(found: &Explanation, wanted: &Explanation, what: &str) {
    let bits = |values: &[Vec<Vec<f64>>]| values.iter().flatten().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found.values), bits(&wanted.values), "{what}");
    assert_eq!(bits(&found.interactions), bits(&wanted.interactions), "{what}");
}

/// Proves that what a program has a device do, credited to columns, has the bits of an explanation: by tables of all trees and of those
/// alone that must have some, leaf by leaf, and by walks; over the training rows and a background.
#[test]
fn programs_give_the_same_bits() {
    let pool = ThreadPool::new(2).unwrap();
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let (players, outputs) = (1 + dice.below(7), 1 + dice.below(2));
        let trees: Vec<ExplainedTree> = (0..5)
            .map(|kind| match kind {
                0 => symmetric(&mut dice, 5, players, outputs),
                4 if seed % 8 == 0 => branching(&mut dice, branching::MOST_DEPTH + 1, players, outputs, true),
                _ => branching(&mut dice, 12, players, outputs, kind == 3),
            })
            .collect();
        let tests = trees.iter().map(|t| t.tests).max().unwrap();
        let (rows, background) = (rows(&mut dice, tests, 15), rows(&mut dice, tests, 6));
        let columns: Vec<Vec<u32>> = (0..players as u32).map(|p| if p % 2 == 0 { vec![p] } else { vec![p - 1, p] }).collect();
        for game in [Game::Training, Game::Background(background.len(), &Rows(&background))] {
            let explainer = Explainer::new(trees.clone(), columns.clone(), players, outputs, &game).unwrap();
            for (terms, most) in [(Terms::Values, 0), (Terms::Values, 1 << 20), (Terms::Interactions, 0), (Terms::Interactions, 1 << 20)] {
                let program = explainer.program(terms, most, &pool).unwrap();
                let is_listed = |stage: &program::Stage| matches!(stage.way, program::Way::Leaves(_));
                assert!(program.stages[0].way == program::Way::LookUps(0..outputs) && (most > 0 || is_listed(&program.stages[1])));
                let found = explainer.credit(&follow(&program, &explainer, &rows, terms), rows.len(), terms);
                same_bits(&found, &explainer.explain(&Rows(&rows), rows.len(), terms), &format!("{seed}, {terms:?}, {most}"));
            }
        }
    }
}

/// Proves that a walk gives what tables give.
#[test]
fn walks_and_tables_agree() {
    for seed in 0..30 {
        let mut dice = Dice(seed);
        let tree = branching(&mut dice, 20, 6, 1, false);
        let rows = rows(&mut dice, tree.tests, 20);
        let explained = explainer(&tree, 6, &Game::Training).explain(&Rows(&rows), rows.len(), Terms::Interactions);
        let walk = walk::Walk::new(&tree);
        let mut scratch = Default::default();
        for (at, row) in rows.iter().enumerate() {
            let mut out = vec![0.0; Terms::Interactions.count(walk.players.len())];
            walk.add(&tree, Terms::Interactions, |test| row[test as usize], &mut scratch, &mut out);
            for (x, player) in out.iter().zip(&walk.players) {
                assert!((x - explained.values[0][*player as usize][at]).abs() < 1e-11);
            }
            for (i, a) in walk.players.iter().enumerate() {
                for (j, b) in walk.players.iter().enumerate().skip(i + 1) {
                    let wanted = cell(&explained.interactions[0], 6, *a as usize, *b as usize)[at];
                    assert!((out[contributions::pair(walk.players.len(), i, j)] - wanted).abs() < 1e-11);
                }
            }
        }
    }
}

/// Proves that a player of several columns shares equally among them, and that matrices' rows sum to values.
#[test]
fn combinations_share_equally() {
    let mut dice = Dice(11);
    let tree = branching(&mut dice, 12, 3, 1, false);
    let rows = rows(&mut dice, tree.tests, 30);
    let players = vec![vec![0], vec![1, 2], vec![0, 2]];
    let explained = |players, columns, terms| {
        let explainer = Explainer::new(vec![tree.clone()], players, columns, 1, &Game::Training).unwrap();
        explainer.explain(&Rows(&rows), rows.len(), terms)
    };
    let (shared, own) = (explained(players, 3, Terms::Interactions), explained(vec![vec![0], vec![1], vec![2]], 3, Terms::Values));
    for row in 0..rows.len() {
        let [a, b, c] = [0, 1, 2].map(|i| own.values[0][i][row]);
        let wanted = [a + c / 2.0, b / 2.0, b / 2.0 + c / 2.0];
        for (i, wanted) in wanted.iter().enumerate() {
            assert!((shared.values[0][i][row] - wanted).abs() < 1e-12);
            let line: f64 = (0..3).map(|j| cell(&shared.interactions[0], 3, i, j)[row]).sum();
            assert!((line - wanted).abs() < 1e-11);
        }
    }
}

/// Proves that a rule of `n` points integrates powers up to `2n - 1` exactly.
#[test]
fn quadrature_is_exact() {
    for n in 1..40 {
        let rule = quadrature::Quadrature::new(n);
        for power in 0..2 * n as i32 {
            let integral: f64 = rule.points.iter().zip(&rule.weights).map(|(t, w)| w * t.powi(power)).sum();
            assert!((integral * (power + 1) as f64 - 1.0).abs() < 4e-14, "{n} points, power {power}: {integral}");
        }
    }
}
