//! Fits that go on from a model or from a snapshot, beside one fit of all their rounds.

use crate::Dice;
use crate::random_fits::RandomFit;
use crate::together::deal;
use std::sync::Mutex;
use taiga_engine::Error;
use taiga_engine::column::Column;
use taiga_engine::dataset::{Quiet, Snapshots};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};

/// The rounds of the fits that are drawn.
const ROUNDS: u32 = 7;

/// What is told where a snapshot is of other rows or parameters.
pub const OF_OTHERS: &str =
    "parameter `snapshot`: it is of a fit of other rows, or with other parameters: delete the file to begin anew, or name another";

/// Keeps what was saved last, and ends the fit at the `last`-th time.
pub struct Kept {
    every: u32,
    before: Option<Vec<u8>>,
    saved: Mutex<(u32, Vec<u8>)>,
    last: u32,
}

impl Kept {
    pub fn new(every: u32, before: Option<Vec<u8>>, last: u32) -> Kept {
        Kept { every, before, saved: Mutex::default(), last }
    }

    /// What was saved last.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let saved = self.saved.lock().expect("a lock");
        (saved.0 > 0).then(|| saved.1.clone()).or_else(|| self.before.clone())
    }
}

impl Snapshots for Kept {
    fn every(&self) -> u32 {
        self.every
    }

    fn saved(&self) -> Option<&[u8]> {
        self.before.as_deref()
    }

    fn save(&self, bytes: &[u8]) -> taiga_engine::Result<()> {
        let mut saved = self.saved.lock().expect("a lock");
        *saved = (saved.0 + 1, bytes.to_vec());
        if saved.0 >= self.last { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// What became of fits that were ended in several processes and went on in others.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndedTogether {
    /// Fits that were ended.
    pub ended: usize,
    /// Models of processes whose fit had been ended before.
    pub same: usize,
}

impl EndedTogether {
    /// Has rows fitted three times by a drawn number of processes, `fit(where their rows end, what each keeps)`: twice until rank 0 has saved `last`
    /// times, and then to the end. Panics unless every model has the bytes of `whole`.
    pub fn try_on(
        &mut self,
        (rows, seed): (usize, u64),
        (every, last): (u32, u32),
        whole: &[u8],
        fit: impl Fn(&[usize], &[Kept]) -> Vec<taiga_engine::Result<Vec<u8>>>,
    ) {
        let (dice, mut saved) = (&mut Dice::new(seed), None);
        for time in 0..3 {
            let world = [1, 2, 3, 5][dice.below(4) as usize];
            let ends = deal(rows, world, dice);
            // The first process alone has what was saved.
            let ends_at = |rank: usize| if rank == 0 && time < 2 { last } else { u32::MAX };
            let kept: Vec<Kept> = (0..world).map(|rank| Kept::new(every, saved.take_if(|_| rank == 0), ends_at(rank))).collect();
            for (rank, made) in fit(&ends, &kept).into_iter().enumerate() {
                match made {
                    Ok(made) => {
                        assert!(made == whole, "seed {seed}, time {time}, rank {rank} of {ends:?}: other bytes");
                        self.same += usize::from(time > 0);
                    }
                    Err(Error::Interrupted) if rank == 0 => self.ended += 1,
                    Err(error) => assert!(time < 2 && rank > 0 && error.to_string().contains("collective"), "seed {seed}: {error}"),
                }
            }
            assert!(kept[1..].iter().all(|kept| kept.bytes().is_none()), "only the first saves");
            saved = kept[0].bytes();
        }
    }

    /// Says how many there were. Panics where they are few.
    pub fn tell(self) {
        println!("{self:?}");
        assert!(self.ended > 10 && self.same > 20, "{self:?}");
    }
}

/// Parameters of a drawn fit with more rounds than it has, so that it can be ended after some.
pub fn longer(case: &RandomFit) -> BoostingParams {
    on(case, "cpu", 2)
}

fn on(case: &RandomFit, device: &str, threads: u32) -> BoostingParams {
    BoostingParams { rounds: Some(ROUNDS), n_threads: Some(threads), device: device.into(), ..case.params.clone() }
}

/// What became of going on from a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continued {
    /// The bytes of one fit.
    Same,
    /// Ordered statistics of categories can't go on from a model.
    Refused,
    /// There is no such fit at all.
    None,
}

/// Draws a fit, and panics where some rounds on one of `devices` and the rest on the other are not the bytes of all rounds in one.
pub fn go_on_from_a_model(seed: u64, devices: [&str; 2]) -> Continued {
    let case = RandomFit::new(seed);
    let input = case.input(Column::from_f64);
    let all = on(&case, devices[1], 2);
    let Ok(whole) = fit(&input, &all, &Quiet) else { return Continued::None };
    let fewer = BoostingParams { rounds: Some(1 + (seed % u64::from(ROUNDS - 1)) as u32), ..on(&case, devices[0], 1) };
    let first = fit(&input, &fewer, &Quiet).expect("a fit of fewer rounds");
    let first = Model::from_bytes(&first.to_bytes()).expect("a model");
    let rest = BoostingParams { rounds: Some(ROUNDS - first.rounds() as u32), ..all.clone() };
    match fit_with(&input, &rest, &FitOptions { init_model: Some(&first), ..FitOptions::default() }, &Quiet) {
        Ok(model) => {
            assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}: {all:?}");
            Continued::Same
        }
        Err(error) => {
            assert!(error.to_string().contains("cat_method=\"ctr\""), "seed {seed}: {error}");
            Continued::Refused
        }
    }
}

/// Draws a fit, ends it twice after a snapshot, each time on the next of `devices`, and panics where what goes on from these is not the bytes of
/// one that was never ended. Returns how often it was ended.
pub fn go_on_from_snapshots(seed: u64, devices: [&str; 3]) -> usize {
    let case = RandomFit::new(seed);
    let input = case.input(Column::from_f64);
    let Ok(whole) = fit(&input, &on(&case, devices[0], 2), &Quiet) else { return 0 };
    let (every, last) = (1 + (seed % 3) as u32, 1 + (seed / 3 % 3) as u32);
    let (mut kept, mut ended) = (None, 0);
    for (threads, device) in (1..).zip(devices) {
        let snapshots = Kept::new(every, kept, if threads < 3 { last } else { u32::MAX });
        let options = FitOptions { snapshots: Some(&snapshots), ..FitOptions::default() };
        match fit_with(&input, &on(&case, device, threads), &options, &Quiet) {
            Ok(model) => assert!(model.to_bytes() == whole.to_bytes(), "seed {seed}, time {threads}: {:?}", case.params),
            Err(error) => {
                assert!(matches!(error, Error::Interrupted), "seed {seed}: {error}");
                ended += 1;
            }
        }
        kept = snapshots.bytes();
    }
    ended
}
