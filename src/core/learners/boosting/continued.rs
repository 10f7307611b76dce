//! A fit that goes on from a model: whether it can, and what its rows' scores are after the rounds that there are.
//!
//! Random choices are keyed by the number of a tree, and scores are sums in the order of the trees, so a fit that begins with the scores of
//! the first 60 rounds and numbers its trees from there on grows what a fit of 100 grows after its 60th.

use super::model::Model;
use super::model::validate::MAX_FITTED_BORDERS;
use super::model::walk_rounds::RoundWalk;
use super::params::BoostingParams;
use super::steps::GivenTree;
use crate::column::Column;
use crate::column::categories::{Categories, CategoryNames};
use crate::dataset::coded::FeatureBorders;
use crate::dataset::labels::Labels;
use crate::dataset::positions::Positions;
use crate::dataset::{Batches, Input, OwnRows, Snapshots};
use crate::encoding::Lookup;
use crate::error::{Error, Result};
use crate::losses::LossKind;
use crate::memory::{self, product};
use crate::quantize::CodedFeature;
use crate::spill::SpillFolder;

/// What a fit is given beside a table and parameters.
#[derive(Clone, Copy, Default)]
pub struct FitOptions<'a> {
    /// A model whose trees come first. `rounds` are then further rounds; start values are the model's.
    pub init_model: Option<&'a Model>,
    /// Where the state of the fit is kept from time to time, and what was kept of it before.
    pub snapshots: Option<&'a dyn Snapshots>,
    /// Where the numeric columns are not values but codes already ([`CodedTable`](super::coded_table::CodedTable)): what they are coded by.
    /// Columns that are not among these can't split.
    pub coded: Option<&'a [(u32, CodedFeature)]>,
    /// The table's columns as values, where those of the table are codes and leaves are linear functions of values; those of categories are not read.
    pub values: Option<&'a [Column<'a>]>,
    /// The rows that the numeric features of the table are of, where other processes have the others: each makes the same fit, of the same
    /// target, weights and categories of all rows, and comes to the same model. None where the features are of all rows.
    pub own: Option<OwnRows<'a>>,
    /// The features that are not in the table, where they have no rows, but come in batches: for tables larger than memory. The model has the
    /// bytes of a fit to the whole table.
    pub batches: Option<Batches<'a>>,
}

impl<'a> FitOptions<'a> {
    /// Returns the rows of a table of `rows` that this process has the features of.
    pub fn own_rows(&self, rows: usize) -> OwnRows<'a> {
        self.own.unwrap_or(OwnRows::whole(rows))
    }

    /// Returns the numbers of the features that come in batches, ascending.
    pub fn batched(&self) -> &'a [u32] {
        self.batches.map_or(&[], |batches| batches.columns())
    }

    /// Returns where what a fit keeps of each row is to lie, if not in memory.
    pub fn spill(&self) -> Option<&'a SpillFolder> {
        self.batches.and_then(|batches| batches.spill())
    }

    /// Checks that a fit in batches is asked for nothing that it does not do yet.
    ///
    /// # Errors
    /// Naming what it is.
    pub fn check_batches(&self) -> Result<()> {
        let not_yet = |name: &str, what: &str| Err(Batches::not_yet(name, what));
        match self {
            FitOptions { batches: None, .. } => Ok(()),
            FitOptions { init_model: Some(_), .. } => not_yet("init_model", "what goes on from a model"),
            FitOptions { snapshots: Some(_), .. } => not_yet("snapshot", "what keeps its state"),
            FitOptions { own: Some(own), .. } if !own.is_whole() => not_yet("collective", "a table that lies in several processes"),
            _ => Ok(()),
        }
    }
}

fn differs(text: String) -> Error {
    Error::parameter("init_model", text)
}

/// Checks that a fit may go on from a model that knows nothing of its rows.
///
/// # Errors
/// Naming what differs.
pub fn check(model: &Model, input: &Input<'_>, params: &BoostingParams, of: (LossKind, usize)) -> Result<()> {
    check_is_of_fit(model, input, params, of)?;
    check_statistics(!model.tables.is_empty())
}

/// Checks that a model is one of such a fit: the same loss and scores, features and classes.
///
/// # Errors
/// Naming what differs.
pub fn check_is_of_fit(model: &Model, input: &Input<'_>, params: &BoostingParams, (kind, outputs): (LossKind, usize)) -> Result<()> {
    if model.loss != kind {
        return Err(differs(format!("it was fitted with loss=\"{}\", and this fit has \"{}\"", model.loss.name(), kind.name())));
    }
    if model.params.custom_loss != params.custom_loss {
        return Err(differs("it was fitted with another loss of your own".into()));
    }
    if model.params.alpha != params.alpha && matches!(kind, LossKind::Quantile | LossKind::Expectile) {
        return Err(differs("it was fitted with another `alpha`".into()));
    }
    if model.params.targets != params.targets {
        let names =
            |of: &BoostingParams| of.targets.as_ref().map_or("one target".into(), |names| format!("the targets {}", names.join(", ")));
        return Err(differs(format!("it has {}, and this fit has {}", names(&model.params), names(params))));
    }
    check_classes(model.labels.as_ref(), input.target.labels())?;
    if model.outputs() != outputs {
        return Err(differs(format!("it has {} scores a row, and this fit has {outputs}", model.outputs())));
    }
    check_features(model, input)?;
    if model.features.iter().any(|f| f.categories.as_ref().is_some_and(Categories::are_hashed)) {
        return Err(differs("it knows categories by a hash of their text, as CatBoost's do, and a fit knows their texts".into()));
    }
    Ok(())
}

/// Checks that no feature of the fit is a statistic whose scores a model does not carry.
///
/// # Errors
/// Where one is.
pub fn check_statistics(uses: bool) -> Result<()> {
    let text = "cat_method=\"ctr\" orders rows by permutations, and keeps scores of its rows under each that a model does not carry: go on from a \
                `snapshot`, which does, or split categories by cat_method=\"one_hot\" or \"partition\"";
    if uses { Err(differs(text.into())) } else { Ok(()) }
}

fn check_classes(own: Option<&Labels>, others: Option<&Labels>) -> Result<()> {
    if own == others {
        return Ok(());
    }
    let names = |labels: Option<&Labels>| match labels {
        None => "no classes".into(),
        Some(labels) => {
            let names = labels.names();
            format!("the classes {}{}", names[..names.len().min(10)].join(", "), if names.len() > 10 { ", …" } else { "" })
        }
    };
    Err(differs(format!("it has {}, and the target has {}", names(own), names(others))))
}

fn check_features(model: &Model, input: &Input<'_>) -> Result<()> {
    let (own, others) = (model.features.len(), input.features.len());
    for (i, (feature, column)) in model.features.iter().zip(&input.features).enumerate() {
        if feature.name != column.name() {
            return Err(differs(format!("its feature {} is `{}`, and this fit's is `{}`", i + 1, feature.name, column.name())));
        }
        if feature.dtype != *column.dtype() {
            return Err(differs(format!("its feature `{}` is {}, and this fit's is {}", feature.name, feature.dtype, column.dtype())));
        }
        if feature.borders.len() > MAX_FITTED_BORDERS {
            return Err(differs(format!(
                "its feature `{}` has {} borders, and a fit has room for {MAX_FITTED_BORDERS}",
                feature.name,
                feature.borders.len()
            )));
        }
        if let (Some(a), Some(b)) = (&feature.categories, column.categories())
            && a.kind() != b.kind()
        {
            return Err(differs(format!(
                "the categories of its feature `{}` are {}, and this fit's are {}",
                feature.name,
                a.kind(),
                b.kind()
            )));
        }
    }
    if own != others {
        return Err(differs(format!("it has {own} features, and this fit has {others}")));
    }
    Ok(())
}

/// Adds the model's borders to those of the rows at hand: all of the model's stay, and of the others as many as there is room for, which
/// are all of them where the rows are the model's own.
pub fn keep_borders(model: &Model, borders: &FeatureBorders, coded: &mut [(u32, CodedFeature)]) {
    for (column, feature) in coded {
        let own = &model.features[*column as usize].borders;
        let new: Vec<f64> = feature.borders.iter().copied().filter(|x| !own.contains(x)).collect();
        if new.len() + own.len() == feature.borders.len() {
            continue;
        }
        // 256 codes, of which one may be that of missing values.
        let most = own.len().max(borders.of(*column as usize).borders()).min(255 - usize::from(feature.missing_bin));
        let room = most.saturating_sub(own.len()).min(new.len());
        // Evenly among them.
        let chosen = (0..room).map(|i| new[(2 * i + 1) * new.len() / (2 * room)]);
        let mut borders: Vec<f64> = own.iter().copied().take(most).chain(chosen).collect();
        borders.sort_by(f64::total_cmp);
        feature.borders = borders;
    }
}

/// Returns the factors of a table's positions that a model has found; of one that it does not know, 0.
///
/// # Errors
/// Where it has none.
pub fn factors(model: &Model, positions: &Positions<'_>) -> Result<Vec<f64>> {
    let Some(known) = &model.params.position_factors else {
        return Err(differs("it does not tell the factors of `position`: it was fitted without, or is the first rounds of another".into()));
    };
    Ok(known.of(&positions.labels).into_iter().map(|factor| factor.unwrap_or(0.0)).collect())
}

/// Sends the `own` rows of a fit through a model, round after round. `scores`, `[output][row]`, begin as a fit's do and are in units of `units`;
/// `after_round` is told them after each round.
///
/// # Errors
/// Those of `after_round`.
pub fn replay(
    model: &Model,
    rows: (&Input<'_>, &OwnRows<'_>),
    units: &[f64],
    scores: &mut [Vec<f32>],
    mut after_round: impl FnMut(&[Vec<f32>]) -> Result<()>,
) -> Result<()> {
    walk(model, rows, |walk| {
        for round in 0..model.rounds() {
            walk.add_round(round, units, scores);
            after_round(scores)?;
        }
        Ok(())
    })
}

/// Returns the trees of a model, `[round][output]`, with the leaves of a fit's `own` rows, and values in units of `units`.
///
/// # Errors
/// [`Error::Memory`]; where a tree has more leaves than one of a fit, or leaves that are linear functions.
pub fn given_trees(model: &Model, rows: (&Input<'_>, &OwnRows<'_>), units: &[f64]) -> Result<Vec<Vec<GivenTree>>> {
    if !model.linear.is_empty() {
        return Err(differs("it has leaves that are linear functions, which boosting=\"dart\" can't leave out".into()));
    }
    if model.trees.iter().any(|tree| tree.leaves().len() > 1 << 16) {
        return Err(differs("it has trees of more than 65,536 leaves, which boosting=\"dart\" can't leave out".into()));
    }
    let (outputs, count) = (model.outputs(), rows.1.count as u64);
    let bytes = product(&[2, count, model.trees.len() as u64]);
    memory::check("the leaves that a given model sends rows to, which boosting=\"dart\" keeps", bytes, "fit on fewer rows")?;
    walk(model, rows, |walk| {
        let of_tree = |tree: usize| GivenTree { leaves: walk.leaves(tree), values: walk.values(tree, units) };
        Ok((0..model.rounds()).map(|round| (round * outputs..(round + 1) * outputs).map(of_tree).collect()).collect())
    })
}

/// Makes the `own` rows of a fit ready to be sent through a model.
fn walk<R>(model: &Model, (input, own): (&Input<'_>, &OwnRows<'_>), then: impl FnOnce(RoundWalk<'_>) -> Result<R>) -> Result<R> {
    let codes = input.features.iter().zip(&model.features).map(|(column, feature)| {
        let (at_hand, known) = (column.category_codes().zip(column.categories()), &feature.categories);
        // Every process has the codes of all rows.
        at_hand.zip(known.as_ref()).map(|((codes, labels), known)| translated(&codes[own.range()], labels, known)).transpose()
    });
    let codes = codes.collect::<Result<Vec<_>>>()?;
    let columns: Vec<Column<'_>> = input
        .features
        .iter()
        .zip(&codes)
        .map(|(column, codes)| match codes {
            Some(codes) => Column::codes(column.name(), codes),
            None => column.clone(),
        })
        .collect();
    then(RoundWalk::new(model, &columns.iter().collect::<Vec<_>>())?)
}

/// Returns the codes of rows among the categories that a model knows; of those that it does not, the code behind the last.
fn translated(codes: &[u32], labels: &Categories, known: &Categories) -> Result<Vec<u32>> {
    let lookup = Lookup::new(known.clone())?;
    let unseen = known.len() as u32;
    let code = |i: u32| {
        let found = match &labels.labels {
            _ if labels.null == Some(i) => lookup.null(),
            CategoryNames::Text(names) => lookup.text(&names[i as usize]),
            CategoryNames::Integer(names) => lookup.integer(names[i as usize]),
            CategoryNames::Boolean(names) => lookup.boolean(names[i as usize]),
            // A column of a table has labels.
            CategoryNames::Hashed(_) => None,
        };
        found.unwrap_or(unseen)
    };
    let of_label: Vec<u32> = (0..labels.len() as u32).map(code).collect();
    Ok(codes.iter().map(|code| of_label[*code as usize]).collect())
}
