//! Shards inside processes, such as the GPUs of several machines: those of a process meet in it, and the first of them goes to the others.

use super::{Collective, bytes_of, fault, numbers_of};
use crate::error::Result;

/// One shard's end of an exchange between the shards of several processes, of which each may have another number. Shards stand in the order of
/// their processes, and in a process in that of its own exchange.
///
/// ```
/// use taiga_core::collective::{Collective, LocalCollective, local, nested::{Nested, shards_of_each}};
/// // Two processes, of two shards and of one.
/// let sums: Vec<i64> = std::thread::scope(|scope| {
///     let process = |outer: LocalCollective| {
///         scope.spawn(move || {
///             let inner = local(2 - outer.rank());
///             let counts = shards_of_each(&outer, inner.len()).unwrap();
///             std::thread::scope(|scope| {
///                 let shard = |end: LocalCollective| {
///                     let (outer, counts) = (&outer, &counts);
///                     scope.spawn(move || {
///                         let all = Nested::new(&end, outer, counts);
///                         let mut values = [1 << all.rank()];
///                         all.sum(&mut values).map(|()| values[0])
///                     })
///                 };
///                 let threads: Vec<_> = inner.into_iter().map(shard).collect();
///                 threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect::<Vec<_>>()
///             })
///         })
///     };
///     let threads: Vec<_> = local(2).into_iter().map(process).collect();
///     threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
/// });
/// assert_eq!(sums, [7, 7, 7]);
/// ```
pub struct Nested<'a> {
    /// Between the shards of this process.
    inner: &'a dyn Collective,
    /// Between the processes; the first shard's alone.
    outer: &'a dyn Collective,
    /// How many shards each process has.
    counts: &'a [usize],
}

/// Tells the other processes how many shards this one has, and returns how many each has.
///
/// # Errors
/// Those of the exchange; where a process says that it has none, or more than any could.
pub fn shards_of_each(outer: &dyn Collective, own: usize) -> Result<Vec<usize>> {
    const MOST: f64 = 1024.0;
    let counts: Vec<Vec<f64>> = outer.gather_bytes(&bytes_of(&[own as f64]))?.iter().map(|b| numbers_of(b)).collect::<Result<_>>()?;
    let count = |(rank, told): (usize, &Vec<f64>)| match told[..] {
        [count] if (1.0..=MOST).contains(&count) && count.fract() == 0.0 => Ok(count as usize),
        _ => Err(fault(format!("rank {rank} does not say how many shards of the rows it has"))),
    };
    counts.iter().enumerate().map(count).collect()
}

impl<'a> Nested<'a> {
    /// Makes the end of the shard whose end in its process is `inner`. `counts`: what [`shards_of_each`] has told all.
    pub fn new(inner: &'a dyn Collective, outer: &'a dyn Collective, counts: &'a [usize]) -> Nested<'a> {
        Nested { inner, outer, counts }
    }

    fn is_first(&self) -> bool {
        self.inner.rank() == 0
    }

    /// Does something in the first shard of the process, and returns in all of them what it came to.
    fn by_first(&self, work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let own = if self.is_first() { work()? } else { vec![] };
        let mut of_all = self.inner.gather_bytes(&own)?;
        Ok(of_all.swap_remove(0))
    }

    fn check(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        if pieces.len() == self.world() { Ok(pieces) } else { Err(broken()) }
    }
}

fn broken() -> crate::Error {
    fault("what a process sends of its shards can't be read")
}

/// Returns pieces one behind the other, each with its length before it.
fn pack<P: AsRef<[u8]>>(pieces: impl IntoIterator<Item = P>) -> Vec<u8> {
    let mut out = vec![];
    for piece in pieces {
        out.extend((piece.as_ref().len() as u64).to_le_bytes());
        out.extend(piece.as_ref());
    }
    out
}

/// Returns the pieces that [`pack`] has put together.
fn unpack(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut pieces = vec![];
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(broken)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| broken())?;
        let (piece, rest) = rest.split_at_checked(length).ok_or_else(broken)?;
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    Ok(pieces)
}

/// Combines what the shards of a process have by `with`, and then what the processes have.
fn combine<T: bytemuck::Pod>(nested: &Nested<'_>, values: &mut [T], with: impl Fn(&dyn Collective, &mut [T]) -> Result<()>) -> Result<()> {
    with(nested.inner, values)?;
    let all = nested.by_first(|| {
        with(nested.outer, values)?;
        Ok(bytemuck::cast_slice(values).to_vec())
    })?;
    let out: &mut [u8] = bytemuck::cast_slice_mut(values);
    if out.len() != all.len() {
        return Err(broken());
    }
    out.copy_from_slice(&all);
    Ok(())
}

impl Collective for Nested<'_> {
    fn rank(&self) -> usize {
        self.counts[..self.outer.rank()].iter().sum::<usize>() + self.inner.rank()
    }

    fn world(&self) -> usize {
        self.counts.iter().sum()
    }

    fn max(&self, values: &mut [u32]) -> Result<()> {
        combine(self, values, |collective, values| collective.max(values))
    }

    fn sum(&self, values: &mut [i64]) -> Result<()> {
        combine(self, values, |collective, values| collective.sum(values))
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let own = self.inner.gather_to_first(&pack(pieces))?;
        let of_each = if self.is_first() {
            // Of each shard here what it sends to each shard anywhere.
            let sent: Vec<Vec<Vec<u8>>> = own.iter().map(|packed| unpack(packed).and_then(|p| self.check(p))).collect::<Result<_>>()?;
            let mut first = 0;
            let to_process = |count: &usize| {
                let shards = first..first + count;
                first = shards.end;
                pack(sent.iter().flat_map(|pieces| &pieces[shards.clone()]))
            };
            let to_processes: Vec<Vec<u8>> = self.counts.iter().map(to_process).collect();
            let come = self.outer.exchange(&to_processes.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            // Of each process: of each of its shards what it sends to each shard here.
            let here = self.inner.world();
            let mut to_here = vec![vec![]; here];
            for (packed, count) in come.iter().zip(self.counts) {
                let pieces = unpack(packed)?;
                if pieces.len() != count * here {
                    return Err(broken());
                }
                pieces.into_iter().enumerate().for_each(|(k, piece)| to_here[k % here].push(piece));
            }
            to_here.into_iter().map(pack).collect()
        } else {
            vec![vec![]; self.inner.world()]
        };
        let mut come = self.inner.exchange(&of_each.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        self.check(unpack(&come.swap_remove(0))?)
    }

    fn gather_bytes(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let of_process = self.inner.gather_to_first(own)?;
        let all = self.by_first(|| {
            let of_each = self.outer.gather_bytes(&pack(of_process))?;
            Ok(pack(of_each.iter().map(|packed| unpack(packed)).collect::<Result<Vec<_>>>()?.into_iter().flatten()))
        })?;
        self.check(unpack(&all)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{LocalCollective, local};
    use proptest::prelude::*;

    /// Runs the same for each shard of processes that have so many, and returns what each comes to.
    fn shards<R: Send>(counts: &[usize], work: impl Fn(&dyn Collective) -> R + Sync) -> Vec<R> {
        std::thread::scope(|scope| {
            let process = |(outer, count): (LocalCollective, usize)| {
                let work = &work;
                scope.spawn(move || {
                    let of_each = shards_of_each(&outer, count).expect("counts");
                    std::thread::scope(|scope| {
                        let shard = |end: LocalCollective| {
                            let (outer, of_each) = (&outer, &of_each);
                            scope.spawn(move || work(&Nested::new(&end, outer, of_each)))
                        };
                        let threads: Vec<_> = local(count).into_iter().map(shard).collect();
                        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
                    })
                })
            };
            let threads: Vec<_> = local(counts.len()).into_iter().zip(counts.iter().copied()).map(process).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Proves that shards inside processes exchange what as many shards of one exchange do.
        #[test]
        fn shards_inside_processes_exchange_as_one_row_of_shards(counts in prop::collection::vec(1usize..4, 1..5), length in 0usize..9) {
            let world: usize = counts.iter().sum();
            let work = |end: &dyn Collective| {
                let rank = end.rank();
                let (mut sums, mut largest) = (vec![rank as i64 - 3; length], vec![rank as u32 * 7 % 5, 1]);
                end.sum(&mut sums).expect("sums");
                end.max(&mut largest).expect("maxima");
                let pieces: Vec<Vec<u8>> = (0..end.world()).map(|to| vec![(rank * 16 + to) as u8; (rank + 2 * to) % 5]).collect();
                let come = end.exchange(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("pieces");
                let gathered = end.gather_bytes(&vec![rank as u8; rank % 3]).expect("bytes");
                (rank, end.world(), sums, largest, come, gathered, end.gather(&[0.5, rank as f64]).expect("numbers"))
            };
            let flat: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = local(world).into_iter().map(|end| scope.spawn(move || work(&end))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            prop_assert_eq!(shards(&counts, work), flat);
        }

        /// Proves that pieces come back as they were, and that bytes from outside are an error or pieces, without a panic.
        #[test]
        fn pieces_come_back(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5), strange in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(unpack(&pack(&pieces)).expect("pieces"), pieces);
            let _ = unpack(&strange);
        }
    }

    /// Proves that a process that ends is an error in all shards of all others, and that nobody waits.
    #[test]
    fn a_process_that_ends_is_noticed_in_all_shards() {
        let mut ends = local(2);
        let gone = ends.pop();
        let outer = &ends[0];
        let errors: Vec<String> = std::thread::scope(|scope| {
            drop(gone);
            let shard = |end: LocalCollective| {
                scope.spawn(move || {
                    let error = Nested::new(&end, outer, &[3, 1]).sum(&mut [1]).expect_err("another is gone").to_string();
                    drop(end);
                    error
                })
            };
            let threads: Vec<_> = local(3).into_iter().map(shard).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(errors.iter().all(|error| error.contains("has ended")), "{errors:?}");
    }

    /// Proves that a process that has no shard, or does not say how many, is an error.
    #[test]
    fn a_process_says_how_many_shards_it_has() {
        for bad in [0, 5000] {
            let errors: Vec<_> = std::thread::scope(|scope| {
                let process = |end: LocalCollective| {
                    scope.spawn(move || shards_of_each(&end, if end.rank() == 1 { bad } else { 2 }).map_err(|e| e.to_string()))
                };
                let threads: Vec<_> = local(2).into_iter().map(process).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            assert!(errors.iter().all(|e| e.as_ref().is_err_and(|e| e.contains("rank 1 does not say"))), "{errors:?}");
        }
    }
}
