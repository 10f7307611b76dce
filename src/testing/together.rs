//! Tables that are dealt to several processes, here threads that stand for them.

use crate::Dice;
use std::ops::Range;
use std::time::Duration;
use taiga_engine::Result;
use taiga_engine::collective::Collective;
use taiga_engine::collective::tcp::{TcpCollective, TcpOptions};
use taiga_engine::column::{Column, FeatureType};
use taiga_engine::dataset::OwnRows;

/// Deals rows to so many processes in order, and returns where each one's end: most of all sizes, some without any, one with a single row.
pub fn deal(rows: usize, world: usize, dice: &mut Dice) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..world).map(|_| dice.below(rows as u64 + 1) as usize).collect();
    if let [first, ..] = &mut ends[..] {
        *first = [0, 1, rows, *first, *first][dice.below(5) as usize];
    }
    if ends.len() > 1 && dice.chance(0.5) {
        ends[1] = (ends[0] + dice.below(2) as usize).min(rows);
    }
    ends.push(rows);
    ends.sort_unstable();
    ends
}

/// Returns columns as a process has them: categories of all rows, and the numbers of its own.
pub fn own_columns<'a>(columns: &[Column<'a>], rows: &Range<usize>) -> Vec<Column<'a>> {
    let part = |column: &Column<'a>| match column.dtype() {
        FeatureType::Categorical => column.clone(),
        _ => column.slice(rows.start, rows.len()),
    };
    columns.iter().map(part).collect()
}

/// Returns what `fit` gives in each of the processes between which the `made` ends are, on rows dealt as `ends` says.
pub fn at_all_ends<C: Collective + Send, R: Send>(
    made: Vec<C>,
    ends: &[usize],
    fit: impl Fn(OwnRows<'_>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let fit = &fit;
    std::thread::scope(|scope| {
        let of_end = |end: C| {
            scope.spawn(move || {
                let first = end.rank().checked_sub(1).map_or(0, |before| ends[before]);
                fit(OwnRows { collective: &end, first, count: ends[end.rank()] - first })
            })
        };
        let threads: Vec<_> = made.into_iter().map(of_end).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Panics unless all processes have come to the bytes of one, or to its error, and returns how many models there are; `what` is told of.
pub fn equal_models(made: Vec<Result<Vec<u8>>>, whole: &Result<Vec<u8>>, what: &str) -> usize {
    let is_model = |(rank, made): (usize, Result<Vec<u8>>)| match (made, whole) {
        (Ok(made), Ok(whole)) => {
            assert!(made == *whole, "{what}: other bytes of rank {rank}");
            true
        }
        (Err(error), Err(whole)) => {
            assert_eq!(error.to_string(), whole.to_string(), "{what}: rank {rank}");
            false
        }
        (made, _) => panic!("{what}: {:?} of rank {rank}, alone {:?}", made.err(), whole.as_ref().err()),
    };
    made.into_iter().enumerate().map(is_model).filter(|is_model| *is_model).count()
}

/// Returns the ends of an exchange over the loopback, which wait so long for each other.
pub fn over_tcp(world: usize, address: &str, timeout: Duration) -> Vec<TcpCollective> {
    let join = |rank: usize| {
        let options = TcpOptions { rank, world, address: address.into(), secret: "larch".into(), job: "suite".into(), timeout };
        TcpCollective::join(&options).expect("all come")
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
