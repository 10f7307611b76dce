//! Explanations of the GPU have the CPU's bits: random boosted trees of every shape, deep ones, and forests; over the training rows and a
//! background.

use crate::forest::on;
use serde_json::json;
use std::sync::Arc;
use taiga_engine::column::Column;
use taiga_engine::cuda::predict::DevicePredictor;
use taiga_engine::cuda::predict::forest::DeviceForest;
use taiga_engine::cuda::predict::shap::{DeviceExplainer, Explained, MOST_TABLED};
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::forest;
use taiga_engine::model::Feature;
use taiga_engine::parallel::thread_pool::ThreadPool;
use taiga_engine::shap::{Explanation, Terms};
use taiga_engine::tree::Tree;
use taiga_engine::tree::model::Child;
use taiga_testing::forest::awkward_table;
use taiga_testing::gpu::gpu;
use taiga_testing::model::{Dice, Kind, branching, model, values};

fn bits(scores: &[Vec<f64>]) -> Vec<Vec<u64>> {
    scores.iter().map(|s| s.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Holds a model's explanations against the CPU's.
pub(crate) fn same_explanations(
    what: &str,
    predictor: &Predictor,
    columns: &[&Column<'_>],
    terms: Terms,
    background: Option<&[&Column<'_>]>,
) {
    let shap = predictor.shap_values(background).expect("an explainer");
    let on_device = Arc::new(DevicePredictor::new(gpu().queue.gpu(), predictor).expect("a model on the GPU"));
    let expected = predictor.explain(&shap, columns, terms);
    explains(what, &Explained::boosted(on_device, predictor, shap.explainer()), columns, terms, &expected);
}

/// Holds explanations by tables, and leaf by leaf where trees can do without, against those that are expected.
pub(crate) fn explains(what: &str, of: &Explained<'_>, columns: &[&Column<'_>], terms: Terms, expected: &Explanation) {
    let pool = ThreadPool::new(2).expect("threads");
    for most_tabled in [MOST_TABLED, 0] {
        let explainer = DeviceExplainer::new(of, terms, most_tabled, &pool).expect("an explainer on the GPU");
        let found = explainer.explain(&gpu().queue, columns).expect("explanations");
        for (output, (found, expected)) in found.values.iter().zip(&expected.values).enumerate() {
            assert_eq!(bits(found), bits(expected), "{what}: values of output {output}");
        }
        for (output, (found, expected)) in found.interactions.iter().zip(&expected.interactions).enumerate() {
            assert_eq!(bits(found), bits(expected), "{what}: interactions of output {output}");
        }
        assert_eq!([found.values.len(), found.interactions.len()], [expected.values.len(), expected.interactions.len()], "{what}");
    }
}

#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn random_models_explain_the_same() {
    gpu();
    let dice = &mut Dice(23);
    for case in 0..60 {
        let kind = Kind {
            seed: dice.bits(),
            features: [1, 3, 7, 12, 40][dice.below(5)],
            trees: 0,
            outputs: 1 + dice.below(3),
            depth: dice.below(9),
            symmetric: [0, 50, 100][dice.below(3)],
            borders: [1, 40, 255][dice.below(3)],
        };
        let kind = Kind { trees: kind.outputs * (1 + dice.below(7)), ..kind };
        let model = model(kind);
        let rows = [1, 3, 255, 1000, 20_011][dice.below(5)];
        let data: Vec<Vec<f64>> = model.features.iter().map(|f| values(dice, f, rows)).collect();
        let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
        let columns: Vec<_> = columns.iter().collect();
        let predictor = Predictor::new(model);
        let what = format!("case {case}: {kind:?}, {rows} rows");
        same_explanations(&what, &predictor, &columns, Terms::Values, None);
        if kind.features < 40 || rows < 1000 {
            same_explanations(&format!("{what}, interactions"), &predictor, &columns, Terms::Interactions, None);
        }
        if case % 3 == 0 {
            let background: Vec<Vec<f64>> = predictor.model().features.iter().map(|f| values(dice, f, 11)).collect();
            let background: Vec<_> = background.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
            let background = background.iter().collect::<Vec<_>>();
            let terms = if kind.features < 40 { Terms::Interactions } else { Terms::Values };
            same_explanations(&format!("{what}, background"), &predictor, &columns, terms, Some(&background));
        }
    }
}

/// Proves that a model of more columns than a block's shared memory has sums for is explained too, and one whose trees meet too many
/// columns for tables, or are too deep for them, between others that are not, over the training rows and a background.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn models_of_many_columns_and_deep_trees_explain_the_same() {
    let dice = &mut Dice(29);
    let kind = Kind { seed: 31, features: 1200, trees: 600, outputs: 1, depth: 6, symmetric: 50, borders: 3 };
    let predictor = Predictor::new(model(kind));
    let data: Vec<Vec<f64>> = predictor.model().features.iter().map(|f| values(dice, f, 300)).collect();
    let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
    same_explanations("1200 columns", &predictor, &columns.iter().collect::<Vec<_>>(), Terms::Values, None);

    for (features, nodes, outputs) in [(20, 20, 1), (40, 39, 2), (5, 70, 1)] {
        let mut deep = model(Kind { features, trees: 6 * outputs, outputs, ..kind });
        for _ in 0..2 * outputs {
            let tree = chain(dice, &deep.features, nodes);
            deep.trees.insert(3 * outputs, tree);
        }
        let predictor = Predictor::new(deep);
        let data: Vec<Vec<f64>> = predictor.model().features.iter().map(|f| values(dice, f, 211)).collect();
        let columns: Vec<_> = data.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
        let columns: Vec<_> = columns.iter().collect();
        let background: Vec<Vec<f64>> = predictor.model().features.iter().map(|f| values(dice, f, 7)).collect();
        let background: Vec<_> = background.iter().enumerate().map(|(i, v)| Column::from_f64(format!("f{i}"), v)).collect();
        let background: Vec<_> = background.iter().collect();
        for terms in [Terms::Values, Terms::Interactions] {
            let what = format!("paths of {nodes} nodes over {features} columns, {terms:?}");
            same_explanations(&what, &predictor, &columns, terms, None);
            same_explanations(&format!("{what}, background"), &predictor, &columns, terms, Some(&background));
        }
    }
}

/// A tree in which every node but the last has a leaf and a node below it, and asks another column than the one above.
fn chain(dice: &mut Dice, features: &[Feature], nodes: usize) -> Tree {
    let Tree::Branching { nodes: mut made, leaves } = branching(dice, features, nodes) else { unreachable!("a branching tree") };
    for (i, node) in made.iter_mut().enumerate() {
        node.split.feature = (i % features.len()) as u32;
        node.split.border = 0;
        let below = if i + 1 == nodes { Child::Leaf(nodes as u32) } else { Child::Node(i as u32 + 1) };
        (node.left, node.right) = if dice.below(2) == 0 { (Child::Leaf(i as u32), below) } else { (below, Child::Leaf(i as u32)) };
    }
    Tree::Branching { nodes: made, leaves }
}

/// Holds a forest's explanations of rows against the CPU's, over the training rows and some rows of a background.
pub(crate) fn forest_explains(what: &str, predictor: &forest::Predictor, columns: &[&Column<'_>], background: &[&Column<'_>]) {
    let on_device = Arc::new(DeviceForest::new(gpu().queue.gpu(), predictor).expect("a forest on the GPU"));
    for background in [None, Some(background)] {
        let shap = predictor.shap_values(background).expect("an explainer");
        for terms in [Terms::Values, Terms::Interactions] {
            let expected = predictor.explain(&shap, columns, terms);
            let what = format!("{what}, {terms:?}, against a background: {}", background.is_some());
            explains(&what, &Explained::forest(on_device.clone(), predictor, shap.explainer()), columns, terms, &expected);
        }
    }
}

/// Proves that forests explain the same on the GPU: shallow ones by tables, deep ones leaf by leaf and by walks; of several classes, and of
/// features with more borders than a code has.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn forests_explain_the_same() {
    gpu();
    let mut dice = taiga_testing::Dice::new(41);
    for (features, depth, classes, splitter) in
        [(5, 4, 2, "histogram"), (12, 30, 2, "histogram"), (30, 60, 3, "histogram"), (24, 60, 0, "exact"), (3, 40, 0, "random")]
    {
        let table = awkward_table(&mut dice, 700, features, classes, false);
        let params = json!({ "trees": 5, "depth": depth, "splitter": splitter, "seed": 3 });
        let predictor = forest::Predictor::new(on("cpu", &table, &params));
        let (columns, others) = (table.features(), awkward_table(&mut dice, 9, features, classes, false));
        let others = others.features();
        let (columns, others) = (predictor.bind(&columns).expect("columns"), predictor.bind(&others).expect("columns"));
        forest_explains(&params.to_string(), &predictor, &columns, &others);
    }
}
