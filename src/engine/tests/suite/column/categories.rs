//! Codes are numbered by first appearance, whatever the threads, the chunks and the width.

use proptest::prelude::*;
use std::collections::HashMap;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames as Labels};
use taiga_engine::encoding::Lookup;
use taiga_engine::encoding::permutation::permutation;
use taiga_engine::encoding::sort::{pair, sort_pairs};
use taiga_engine::numerics::random::{Purpose, Random};

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// Codes by first appearance, and the values in that order.
fn naive<K: Copy + Eq + std::hash::Hash>(values: &[K]) -> (Vec<u32>, Vec<K>) {
    let mut seen = HashMap::new();
    let mut order = vec![];
    let codes = values.iter().map(|v| {
        *seen.entry(*v).or_insert_with(|| {
            order.push(*v);
            order.len() as u32 - 1
        })
    });
    (codes.collect(), order)
}

/// Cuts into chunks, some of them empty.
fn cut<T: Copy>(values: &[T], chunks: usize) -> (Vec<Vec<T>>, Vec<usize>) {
    let at = |i: usize| i * i * values.len() / (chunks * chunks);
    let chunks: Vec<Vec<T>> = (0..chunks).map(|i| values[at(i)..at(i + 1)].to_vec()).collect();
    let lengths = chunks.iter().map(Vec::len).collect();
    (chunks, lengths)
}

/// Random integers below `distinct` times `step`; about one in seven is null.
fn sample(n: usize, distinct: u64, step: i64, seed: u64) -> Vec<Option<i64>> {
    let r = Random::new(seed, Purpose::RowSample, 1);
    let value = |i: u64| (r.u64(i) % distinct) as i64 * step - (distinct as i64 * step / 2);
    (0..n as u64).map(|i| (!r.u64(i + (1 << 40)).is_multiple_of(7)).then(|| value(i))).collect()
}

fn check(column: &CategoryColumn, values: &[Option<i64>]) -> Result<(), TestCaseError> {
    let (codes, order) = naive(values);
    prop_assert_eq!(&column.codes, &codes);
    prop_assert_eq!(column.categories.len(), order.len());
    prop_assert_eq!(column.categories.null, order.iter().position(Option::is_none).map(|i| i as u32));
    for (code, value) in order.iter().enumerate() {
        prop_assert_eq!(column.categories.name(code as u32), value.map_or("null".to_string(), |v| v.to_string()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn codes_are_by_first_appearance(
        n in prop_oneof![0usize..40, 60_000usize..140_000], distinct in prop_oneof![Just(1u64), 2u64..9, Just(5_000), Just(90_000)],
        step in prop_oneof![Just(1i64), Just(1_000_000_007)], chunks in 1usize..6, threads in 1usize..6, seed: u64,
    ) {
        let values = sample(n, distinct, step, seed);
        let (parts, lengths) = cut(&values, chunks);
        let integers = on_threads(threads, || CategoryColumn::integers("x", &lengths, |c, r| parts[c][r])).unwrap();
        check(&integers, &values)?;
        let names: Vec<Vec<Option<String>>> = parts.iter().map(|p| p.iter().map(|v| v.map(|v| v.to_string())).collect()).collect();
        let text = on_threads(threads, || CategoryColumn::text("x", &lengths, |c, r| names[c][r].as_deref())).unwrap();
        check(&text, &values)?;

        // Categorical: physical codes in an order of their own; here every label has two of them.
        let dictionary: Vec<String> = integers.categories.labels_as_text().iter().rev().flat_map(|s| [s.clone(), s.clone()]).collect();
        let mut twice = 0;
        let place = |v: i64| dictionary.iter().position(|s| *s == v.to_string()).unwrap() as u32;
        if distinct < 10 {
            let codes: Vec<Vec<Option<u32>>> = parts.iter().map(|p| p.iter().map(|v| v.map(|v| { twice ^= 1; place(v) + twice })).collect()).collect();
            let column = on_threads(threads, || CategoryColumn::dictionary("x", &lengths, |c, r| codes[c][r], |c| dictionary.get(c as usize).map(|s| s.as_str())));
            prop_assert_eq!(column.unwrap(), text.clone());
        }

        for column in [integers, text] {
            let lookup = Lookup::new(column.categories.clone()).unwrap();
            for (value, code) in values.iter().zip(&column.codes).take(2_000) {
                let found = match (value, &column.categories.labels) {
                    (None, _) => lookup.null(),
                    (Some(v), Labels::Text(_)) => lookup.text(&v.to_string()),
                    (Some(v), _) => lookup.integer(*v as i128),
                };
                prop_assert_eq!(found, Some(*code));
            }
            let mut found = vec![];
            match &column.categories.labels {
                Labels::Text(_) => lookup.extend_texts(names.iter().flatten().map(|v| v.as_deref()), u32::MAX, &mut found),
                _ => lookup.extend_integers(values.iter().map(|v| v.map(i128::from)), u32::MAX, &mut found),
            }
            prop_assert_eq!(&found, &column.codes);
            found.clear();
            lookup.extend_texts([Some("never")].into_iter(), u32::MAX, &mut found);
            lookup.extend_integers([Some(i128::MAX)].into_iter(), u32::MAX, &mut found);
            prop_assert_eq!(found, [u32::MAX; 2]);
            prop_assert_eq!(lookup.integer(i128::MAX), None);
            prop_assert_eq!(lookup.text("never"), None);
        }
    }

    #[test]
    fn a_sort_is_the_stable_sort(n in prop_oneof![0usize..40, 60_000usize..140_000], limit in prop_oneof![Just(1u64), 2u64..2_000, Just(1 << 20), Just(1 << 32)],
        threads in 1usize..6, seed: u64) {
        let r = Random::new(seed, Purpose::RowSample, 2);
        let pairs: Vec<u64> = (0..n as u64).map(|i| pair((r.u64(i) % limit) as u32, i as u32)).collect();
        let mut plain = pairs.clone();
        plain.sort_by_key(|p| p >> 32);
        prop_assert_eq!(on_threads(threads, || sort_pairs(pairs, limit)), plain);
    }

    #[test]
    fn a_permutation_is_the_order_of_its_hashes(n in prop_oneof![0usize..40, 5_000usize..140_000], threads in 1usize..6, seed: u64) {
        let random = Random::new(seed, Purpose::Permutation, 3);
        let mut plain: Vec<u32> = (0..n as u32).collect();
        plain.sort_by_key(|row| (random.u64(*row as u64) >> 32, *row));
        prop_assert_eq!(on_threads(threads, || permutation(n, random)), plain);
    }
}

trait AsText {
    fn labels_as_text(&self) -> Vec<String>;
}

impl AsText for Categories {
    fn labels_as_text(&self) -> Vec<String> {
        (0..self.len() as u32).map(|c| self.name(c)).collect()
    }
}

#[test]
fn integers_of_every_width_and_their_ends() {
    macro_rules! ends {
        ($($t:ty),*) => {$(
            let values = [<$t>::MAX, <$t>::MIN, 0, <$t>::MAX, 1, <$t>::MIN];
            let column = CategoryColumn::integers("x", &[6], |_, row| Some(values[row])).unwrap();
            assert_eq!((column.codes, column.categories.labels.clone()), {
                let (codes, order) = naive(&values.map(|v| v as i128));
                (codes, Labels::Integer(order))
            });
            let lookup = Lookup::new(column.categories).unwrap();
            assert_eq!(lookup.integer(<$t>::MAX as i128), Some(0));
        )*};
    }
    ends!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
}

#[test]
fn booleans_and_nulls() {
    let values = [None, Some(true), None, Some(false)];
    let column = CategoryColumn::booleans("x", &[4], |_, row| values[row]).unwrap();
    assert_eq!(column.codes, [0, 1, 0, 2]);
    assert_eq!(column.categories, Categories { labels: Labels::Boolean(vec![false, true, false]), null: Some(0) });
    let lookup = Lookup::new(column.categories).unwrap();
    assert_eq!((lookup.boolean(true), lookup.boolean(false), lookup.null()), (Some(1), Some(2), Some(0)));
}

#[test]
fn categories_that_do_not_hold_together() {
    let twice = Categories { labels: Labels::Text(vec!["a".into(), "a".into()]), null: None };
    assert!(Lookup::new(twice).unwrap_err().to_string().contains("\"a\" stands twice"));
    let outside = Categories { labels: Labels::Integer(vec![1]), null: Some(1) };
    assert!(Lookup::new(outside).is_err());
    let missing = CategoryColumn::dictionary("x", &[1], |_, _| Some(3u32), |_| None).unwrap_err();
    assert_eq!(missing.to_string(), "column `x`: its code 3 has no category");
}
