//! The columns on the paths to a tree's leaves, and between which values those have that reach a leaf.

use super::MOST_COLUMNS;
use crate::quantize::CodedFeature;
use crate::tree::Tree;
use crate::tree::model::{Child, Split};

/// A column on the path to a leaf. Values of rows that reach the leaf lie between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathColumn {
    pub column: u32,
    pub low: f64,
    pub high: f64,
}

/// The columns on the path to each leaf of a tree, ascending.
pub struct LeafPaths {
    pub of_leaves: Vec<Vec<PathColumn>>,
    /// All of them.
    pub columns: Vec<u32>,
}

/// Which columns the features of splits are, if they are columns of numbers, and their borders.
#[derive(Clone, Copy)]
pub struct SplitColumns<'a> {
    pub columns: &'a [Option<u32>],
    pub coded: &'a [CodedFeature],
}

impl SplitColumns<'_> {
    /// Returns the column that a split asks about, and the border that the values on its right are above.
    fn of(&self, split: &Split) -> Option<(u32, f64)> {
        let feature = split.feature as usize;
        let column = self.columns.get(feature).copied().flatten()?;
        Some((column, self.coded[feature].borders.get(split.border as usize).copied().unwrap_or(f64::INFINITY)))
    }
}

/// A path that leads on from `path` by an answer of a split: of more than [`MOST_COLUMNS`] columns it has those that are asked about first.
fn with(path: &[PathColumn], asked: Option<(u32, f64)>, right: bool) -> Vec<PathColumn> {
    let mut path = path.to_vec();
    let Some((column, border)) = asked else { return path };
    let place = path.iter().position(|own| own.column == column).or_else(|| {
        let is_full = path.len() == MOST_COLUMNS;
        (!is_full).then(|| {
            path.push(PathColumn { column, low: f64::NEG_INFINITY, high: f64::INFINITY });
            path.len() - 1
        })
    });
    if let Some(own) = place.map(|place| &mut path[place]) {
        match right {
            true => own.low = own.low.max(border),
            false => own.high = own.high.min(border),
        }
    }
    path
}

impl LeafPaths {
    /// Finds the paths of a tree.
    pub fn new(tree: &Tree, columns: SplitColumns<'_>) -> LeafPaths {
        let mut of_leaves = match tree {
            Tree::Symmetric { splits, .. } => splits.iter().fold(vec![vec![]], |paths, split| {
                let asked = columns.of(split);
                paths.iter().flat_map(|path| [false, true].map(|right| with(path, asked, right))).collect()
            }),
            Tree::Branching { nodes, leaves } => {
                // Children stand behind their parents.
                let (mut of_nodes, mut of_leaves) = (vec![vec![]; nodes.len()], vec![vec![]; leaves.len()]);
                for (i, node) in nodes.iter().enumerate() {
                    let (path, asked) = (std::mem::take(&mut of_nodes[i]), columns.of(&node.split));
                    for (child, right) in [(node.left, false), (node.right, true)] {
                        let path = with(&path, asked, right);
                        match child {
                            Child::Node(n) => of_nodes[n as usize] = path,
                            Child::Leaf(l) => of_leaves[l as usize] = path,
                        }
                    }
                }
                of_leaves
            }
        };
        of_leaves.iter_mut().for_each(|path| path.sort_unstable_by_key(|own| own.column));
        let mut columns: Vec<u32> = of_leaves.iter().flatten().map(|own| own.column).collect();
        columns.sort_unstable();
        columns.dedup();
        LeafPaths { of_leaves, columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::model::{Leaf, Node};

    /// Proves that a path has each column of numbers once, with the borders that bound it from both sides, in the order of the leaves.
    #[test]
    fn paths_are_bounded_by_their_borders() {
        let coded = |borders: &[f64]| CodedFeature { borders: borders.to_vec(), missing_bin: true, categories: false };
        let coded = [coded(&[1.0, 2.0, 3.0]), coded(&[0.5]), coded(&[7.0])];
        let columns = SplitColumns { columns: &[Some(4), None, Some(2)], coded: &coded };
        let split = |feature, border| Split { feature, border, missing_left: false, gain: 0.0 };
        let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
        let own = |column, low, high| PathColumn { column, low, high };
        let splits = vec![split(0, 1), split(1, 0), split(0, 2), split(2, 1)];
        let symmetric = LeafPaths::new(&Tree::Symmetric { splits, leaves: vec![Leaf::default(); 16] }, columns);
        assert_eq!(symmetric.columns, [2, 4]);
        // Behind the last border all values go left.
        assert_eq!(symmetric.of_leaves[0], [own(2, low, high), own(4, low, 2.0)]);
        assert_eq!(symmetric.of_leaves[8], [own(2, low, high), own(4, 2.0, 3.0)]);
        assert_eq!(symmetric.of_leaves[15], [own(2, high, high), own(4, 3.0, high)]);
        let nodes = vec![
            Node { split: split(1, 0), left: Child::Leaf(0), right: Child::Node(1) },
            Node { split: split(0, 0), left: Child::Leaf(2), right: Child::Leaf(1) },
        ];
        let branching = LeafPaths::new(&Tree::Branching { nodes, leaves: vec![Leaf::default(); 3] }, columns);
        assert_eq!(branching.of_leaves, [vec![], vec![own(4, 1.0, high)], vec![own(4, low, 1.0)]]);
        let none = LeafPaths::new(&Tree::Branching { nodes: vec![], leaves: vec![Leaf::default()] }, columns);
        assert!(none.of_leaves == [vec![]] && none.columns.is_empty());
    }

    /// Proves that a path of many columns has those that are asked about first, and their borders to its end.
    #[test]
    fn paths_have_no_more_than_the_most_columns() {
        let coded = vec![CodedFeature { borders: vec![0.0, 1.0], missing_bin: false, categories: false }; 20];
        let columns: Vec<Option<u32>> = (0..20).map(Some).collect();
        let split = |feature, border| Split { feature, border, missing_left: false, gain: 0.0 };
        let nodes: Vec<Node> = (0..20)
            .chain([3])
            .zip(0..)
            .map(|(feature, i)| Node {
                split: split(feature, u32::from(i == 20)),
                left: Child::Leaf(i),
                right: if i == 20 { Child::Leaf(21) } else { Child::Node(i + 1) },
            })
            .collect();
        let tree = Tree::Branching { nodes, leaves: vec![Leaf::default(); 22] };
        let paths = LeafPaths::new(&tree, SplitColumns { columns: &columns, coded: &coded });
        let last: Vec<u32> = paths.of_leaves[21].iter().map(|own| own.column).collect();
        assert_eq!(last, (0..MOST_COLUMNS as u32).collect::<Vec<_>>());
        assert_eq!((paths.of_leaves[21][3].low, paths.of_leaves[20][3].high), (1.0, 1.0));
    }
}
