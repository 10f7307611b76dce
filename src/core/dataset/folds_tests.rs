use super::*;
use crate::column::Column;
use crate::dataset::labels::Labels;
use crate::error::RowsFault;
use proptest::prelude::*;

/// Returns a table without features, of numbers or of classes.
fn with_target<R>(classes: Option<&[u32]>, rows: usize, work: impl FnOnce(&Input<'_>) -> R) -> R {
    let y: Vec<f64> = (0..rows).map(|row| row as f64).collect();
    let target = match classes {
        None => Target::Numbers(Column::from_f64("y", &y)),
        Some(codes) => {
            let most = codes.iter().max().map_or(0, |code| code + 1);
            Target::Classes { codes, labels: Labels::Integer((0..most).map(i64::from).collect()) }
        }
    };
    work(&Input {
        features: vec![],
        target,
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    })
}

fn sizes(folds: &Folds, of: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..folds.count).map(|fold| folds.fold(fold).tested.into_iter().filter(|row| of(*row)).count()).collect()
}

proptest! {
    /// Proves that each row is tested once, by a model that has not seen it and has seen all others, and that parts, and the classes in
    /// them, differ by one row at most.
    #[test]
    fn parts_are_even(classes in prop::collection::vec(0u32..3, 30..200), parts in 2u32..8, seed: u64) {
        let folds = with_target(Some(&classes), classes.len(), |input| Folds::new(input, &Division::Parts(parts), seed)).unwrap();
        for class in 0..4 {
            let sizes = sizes(&folds, |row| class == 3 || classes[row] == class);
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
        for fold in 0..parts {
            let Fold { training, tested } = folds.fold(fold);
            let mut all: Vec<usize> = training.iter().chain(&tested).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..classes.len()).collect::<Vec<_>>());
        }
    }

    /// Proves that groups stay whole, and that no part could give a group away and be closer to the others.
    #[test]
    fn groups_stay_whole(groups in prop::collection::vec(0u32..20, 60..200), parts in 2u32..5) {
        let division = Division::Groups(parts, &groups);
        let folds = with_target(None, groups.len(), |input| Folds::new(input, &division, 0)).unwrap();
        for (a, b) in (0..groups.len()).zip(1..groups.len()) {
            prop_assert!(groups[a] != groups[b] || folds.of_row[a] == folds.of_row[b]);
        }
        let largest = (0..20).map(|g| groups.iter().filter(|x| **x == g).count()).max().unwrap();
        let sizes = sizes(&folds, |_| true);
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= largest, "{sizes:?}");
    }

    /// Proves that nothing is fitted to what comes later, or at the same time.
    #[test]
    fn time_runs_forward(times in prop::collection::vec(0u32..40, 100..200), parts in 2u32..6) {
        let mut known = times.clone();
        known.sort_unstable();
        known.dedup();
        let ranks: Vec<u32> = times.iter().map(|time| known.binary_search(time).unwrap() as u32).collect();
        let folds = with_target(None, times.len(), |input| Folds::new(input, &Division::Times(parts, &ranks), 0));
        prop_assume!(folds.is_ok());
        let folds = folds.unwrap();
        for fold in 0..parts {
            let Fold { training, tested } = folds.fold(fold);
            let (last, first) = (training.iter().map(|row| times[*row]).max(), tested.iter().map(|row| times[*row]).min());
            prop_assert!(last < first);
        }
    }
}

/// Proves what can't be divided is an error that says what there is.
#[test]
fn too_few_are_an_error() {
    let error = |division: Division<'_>| with_target(None, 3, |input| Folds::new(input, &division, 0)).err().unwrap().to_string();
    assert!(error(Division::Parts(1)).contains("`folds`: 1 is less than 2"));
    assert!(error(Division::Parts(0)).contains("0 is less than 2"));
    assert!(error(Division::Parts(4)).contains("there are 3 rows"));
    assert!(error(Division::Groups(3, &[0, 0, 1])).contains("there are 2 groups"));
    assert!(error(Division::Times(3, &[0, 0, 1])).contains("there are 2 distinct times"));
    assert!(error(Division::Parts(MOST_FOLDS + 1)).contains("more than"));
}

/// Proves that a number of parts is the call's fault where the call says it, and the rows' where these tell it.
#[test]
fn parts_that_rows_tell_are_their_fault() {
    let fault = |division: Division<'_>| with_target(None, 3, |input| Folds::new(input, &division, 0)).err().unwrap().rows_fault();
    assert_eq!(fault(Division::Parts(1)), None);
    assert_eq!(fault(Division::Parts(4)), Some(RowsFault::Degenerate));
    assert_eq!(fault(Division::Given(1, &[0, 0, NO_FOLD])), Some(RowsFault::Degenerate));
    assert_eq!(fault(Division::Given(0, &[NO_FOLD; 3])), Some(RowsFault::Degenerate));
}

/// Proves that rows of no fold are in all fits and predicted in none.
#[test]
fn rows_of_no_fold_are_in_all_fits() {
    let of_row = [0, NO_FOLD, 1, 0];
    let folds = with_target(None, 4, |input| Folds::new(input, &Division::Given(2, &of_row), 0)).unwrap();
    assert_eq!((folds.fold(0).training, folds.fold(0).tested), (vec![1, 2], vec![0, 3]));
    assert_eq!((folds.fold(1).training, folds.fold(1).tested), (vec![0, 1, 3], vec![2]));
}
