//! What a model's trees say of its features.
use super::Model;

/// What importance is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// The total gain of the feature's splits.
    Gain,
    /// The number of the feature's splits.
    Split,
    /// The sum of hessians of the rows that met the feature's splits.
    Cover,
}

/// One node or leaf of a tree, for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    pub tree: u32,
    pub round: u32,
    pub output: u32,
    /// Counted breadth-first inside the tree, the root is 0.
    pub node: u32,
    pub depth: u32,
    pub left: Option<u32>,
    pub right: Option<u32>,
    pub feature: Option<u32>,
    pub border: Option<f64>,
    pub missing_left: Option<bool>,
    pub gain: Option<f32>,
    /// In units of the target (or of the score), the learning rate included.
    pub value: Option<f64>,
    pub leaf: Option<u32>,
    pub weight: f64,
    pub count: u64,
}

impl Model {
    /// One number a feature, in the model's order.
    pub fn importance(&self, kind: Importance) -> Vec<f64> {
        let _ = kind;
        unimplemented!()
    }

    /// Every node and leaf of every tree; symmetric trees are written out as branching ones.
    pub fn node_table(&self) -> Vec<NodeRow> {
        unimplemented!()
    }
}
