//! Shards in several processes, on one machine or on several, that exchange what they have over TCP.
//!
//! Every process has a connection to every other one. A sum of many numbers goes in two steps, as in most systems of this kind (Thakur,
//! Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005, section 4.5): each process adds up its
//! share of the numbers, which all others send it, and sends the sums to all; so each sends and receives twice what it has, whatever
//! their number. Few numbers are sent to all at once.
//!
//! Before a connection is used, both sides prove that they know the shared secret ([`handshake`]); [`join`] is how they find each other;
//! [`transfer`] moves bytes to and from all at the same time.

mod handshake;
mod join;
mod transfer;

#[cfg(test)]
mod tests;

use super::{Collective, fault};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use transfer::{Kind, Link, Outgoing, Round};

/// Numbers of up to so many bytes are sent to all at once.
const FEW_BYTES: usize = 8 << 10;

/// How long a process that has failed stays for the others to hear why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Who a process is among those that fit together, and where they meet.
#[derive(Clone)]
pub struct TcpOptions {
    /// This process's number, from 0 on, in the order of the table's rows.
    pub rank: usize,
    /// The number of processes.
    pub world: usize,
    /// `host:port`, where rank 0 listens and the others find it.
    pub address: String,
    /// What all of them know and nobody else: it is hashed with what both sides draw, and never sent.
    pub secret: String,
    /// Tells this fit from others that might meet at the same address.
    pub job: String,
    /// How long another process is waited for: to come, and then to send what it has to.
    pub timeout: Duration,
}

impl TcpOptions {
    /// The most processes.
    pub const MOST: usize = 1024;

    /// Checks the numbers, the address's form and that there is a secret.
    ///
    /// # Errors
    /// Naming the parameter.
    pub fn validate(&self) -> Result<()> {
        if self.world == 0 || self.world > TcpOptions::MOST {
            return Err(Error::parameter("world", format!("{} is not a number of processes from 1 to {}", self.world, TcpOptions::MOST)));
        }
        if self.rank >= self.world {
            return Err(Error::parameter(
                "rank",
                format!("{} of {}: processes are numbered from 0 to {}", self.rank, self.world, self.world - 1),
            ));
        }
        let port = self.address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        if !port.is_some_and(|(host, port)| !host.is_empty() && port != 0) {
            let text = format!("{:?} is not where rank 0 listens: write a host and a port, as in \"10.0.0.1:29500\"", self.address);
            return Err(Error::parameter("address", text));
        }
        if self.secret.is_empty() {
            let text = "it is empty: give all processes the same text that nobody else knows, as of `openssl rand -hex 16`";
            return Err(Error::parameter("secret", text));
        }
        let seconds = self.timeout.as_secs_f64();
        if !(0.001..=1e7).contains(&seconds) {
            return Err(Error::parameter("timeout", format!("{seconds} is not a number of seconds from 0.001 to 10,000,000")));
        }
        Ok(())
    }
}

/// One process's end of the exchange. Dropping it closes its connections; what the others then ask for is an error.
pub struct TcpCollective {
    rank: usize,
    world: usize,
    state: Mutex<State>,
}

struct State {
    /// To each process but this one.
    links: Vec<Option<Link>>,
    timeout: Duration,
    /// Exchanges that have begun.
    sequence: u64,
    /// Room of messages that have been read, for the next ones: memory that was just taken costs more to touch than to send.
    spare: Vec<Vec<u8>>,
    /// Why none goes on any more.
    failed: Option<Error>,
}

impl TcpCollective {
    /// Finds the other processes, and returns when all have come.
    ///
    /// # Errors
    /// Naming the parameter that is wrong, who has not come in time, or what differs between the processes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use taiga_core::collective::Collective;
    /// use taiga_core::collective::tcp::{TcpCollective, TcpOptions};
    /// let options = TcpOptions {
    ///     rank: 0,
    ///     world: 1,
    ///     address: "127.0.0.1:29511".into(),
    ///     secret: "known to all of one".into(),
    ///     job: "".into(),
    ///     timeout: Duration::from_secs(5),
    /// };
    /// let alone = TcpCollective::join(&options).unwrap();
    /// assert_eq!(alone.gather(&[1.0]).unwrap(), [1.0]);
    /// ```
    pub fn join(options: &TcpOptions) -> Result<TcpCollective> {
        options.validate()?;
        let streams = if options.world == 1 { vec![None] } else { join::all(options)? };
        TcpCollective::over(options, streams)
    }

    /// Takes connections that have been made, one to each process but this one.
    fn over(options: &TcpOptions, streams: Vec<Option<TcpStream>>) -> Result<TcpCollective> {
        let link = |stream: Option<TcpStream>| stream.map(Link::new).transpose();
        let links = streams.into_iter().map(link).collect::<std::io::Result<Vec<_>>>();
        let links = links.map_err(|error| fault(format!("a connection fails: {error}")))?;
        let state = State { links, timeout: options.timeout, sequence: 0, spare: vec![], failed: None };
        Ok(TcpCollective { rank: options.rank, world: options.world, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    /// Has the others hear why this process ends.
    fn drop(&mut self) {
        if self.failed.is_some() {
            transfer::hear_out(&mut self.links, LAST_WORDS);
        }
    }
}

impl State {
    /// Sends `bodies[k]` to process `k`, and returns what each has sent; empty for this process. `count`: of how many numbers the whole
    /// exchange is, which must be the same in all.
    fn round(&mut self, kind: Kind, count: usize, bodies: &[&[u8]], lengths: Option<&[usize]>) -> Result<Vec<Vec<u8>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.sequence += 1;
        let round = Round { kind, sequence: self.sequence, count: count as u64 };
        let outgoing = bodies.iter().map(|body| Outgoing::new(&round, body)).collect();
        let received = transfer::exchange(&mut self.links, &mut self.spare, &round, outgoing, lengths, self.timeout);
        received.inspect_err(|error| self.fail(error))
    }

    /// Keeps the room of messages that are not read any more.
    fn keep(&mut self, messages: Vec<Vec<u8>>) {
        let room = 2 * self.links.len() - self.spare.len().min(2 * self.links.len());
        self.spare.extend(messages.into_iter().filter(|message| message.capacity() > 0).take(room));
    }

    /// Tells all others what went wrong; no exchange goes on.
    fn fail(&mut self, error: &Error) {
        if self.failed.is_none() {
            self.links.iter_mut().flatten().for_each(|link| link.say_end(error));
            self.failed = Some(error.clone());
        }
    }
}

/// Returns the numbers of all that process `k` of `world` adds up.
fn share(count: usize, k: usize, world: usize) -> Range<usize> {
    // Shares of whole cache lines.
    let lines = count.div_ceil(8);
    let at = |k: usize| (lines * k / world * 8).min(count);
    at(k)..at(k + 1)
}

/// A number as it is sent: its bytes from the lowest to the highest.
trait Number: bytemuck::NoUninit {
    fn of(bytes: &[u8]) -> Self;
    fn to_bytes(self) -> impl AsRef<[u8]>;
}

macro_rules! number {
    ($number:ident) => {
        impl Number for $number {
            #[inline(always)]
            fn of(bytes: &[u8]) -> Self {
                $number::from_le_bytes(std::array::from_fn(|i| bytes[i]))
            }

            #[inline(always)]
            fn to_bytes(self) -> impl AsRef<[u8]> {
                self.to_le_bytes()
            }
        }
    };
}
number!(u32);
number!(i64);

/// Returns numbers as they are sent, which on most machines is as they are.
fn as_bytes<T: Number>(values: &[T]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(values));
    }
    let mut bytes = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|x| bytes.extend_from_slice(x.to_bytes().as_ref()));
    Cow::Owned(bytes)
}

/// Puts other numbers that were received to those in their places.
fn merge<T: Number>(values: &mut [T], other: &[u8], add: impl Fn(T, T) -> T) {
    values.iter_mut().zip(other.chunks_exact(size_of::<T>())).for_each(|(a, b)| *a = add(*a, T::of(b)));
}

/// Adds up, or does the like with, numbers of all processes, each those of its own part.
fn reduce_parts<T: Number>(
    state: &mut State,
    (rank, kind): (usize, Kind),
    values: &mut [T],
    part: impl Fn(usize) -> Range<usize>,
    add: impl Fn(T, T) -> T,
) -> Result<()> {
    let world = state.links.len();
    if world == 1 {
        return Ok(());
    }
    let own = part(rank);
    let pieces: Vec<Cow<'_, [u8]>> = (0..world).map(|k| as_bytes(&values[part(k)])).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &**piece).collect();
    let all = state.round(kind, values.len(), &pieces, Some(&vec![own.len() * size_of::<T>(); world]))?;
    (0..world).filter(|k| *k != rank).for_each(|k| merge(&mut values[own.clone()], &all[k], &add));
    state.keep(all);
    Ok(())
}

/// Adds up, or does the like with, numbers of all processes in their places.
fn reduce<T: Number>(state: &mut State, (rank, kind): (usize, Kind), values: &mut [T], add: impl Fn(T, T) -> T) -> Result<()> {
    let (world, size) = (state.links.len(), size_of::<T>());
    if world == 1 {
        return Ok(());
    }
    let count = values.len();
    if count * size <= FEW_BYTES {
        let own = as_bytes(values).into_owned();
        let all = state.round(kind, count, &vec![&own[..]; world], Some(&vec![own.len(); world]))?;
        (0..world).filter(|k| *k != rank).for_each(|k| merge(values, &all[k], &add));
        state.keep(all);
        return Ok(());
    }
    let own = share(count, rank, world);
    reduce_parts(state, (rank, kind), values, |k| share(count, k, world), &add)?;
    let lengths: Vec<usize> = (0..world).map(|k| share(count, k, world).len() * size).collect();
    let all = state.round(kind, count, &vec![&*as_bytes(&values[own]); world], Some(&lengths))?;
    for k in (0..world).filter(|k| *k != rank) {
        merge(&mut values[share(count, k, world)], &all[k], |_, sum| sum);
    }
    state.keep(all);
    Ok(())
}

impl Collective for TcpCollective {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn max(&self, values: &mut [u32]) -> Result<()> {
        reduce(&mut self.lock(), (self.rank, Kind::Max), values, u32::max)
    }

    fn sum(&self, values: &mut [i64]) -> Result<()> {
        reduce(&mut self.lock(), (self.rank, Kind::Sum), values, i64::wrapping_add)
    }

    fn sum_parts(&self, values: &mut [i64], parts: &[Range<usize>]) -> Result<()> {
        reduce_parts(&mut self.lock(), (self.rank, Kind::Sum), values, |k| parts[k].clone(), i64::wrapping_add)
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let own = pieces[self.rank].to_vec();
        if self.world == 1 {
            return Ok(vec![own]);
        }
        let mut all = self.lock().round(Kind::Exchange, 0, pieces, None)?;
        all[self.rank] = own;
        Ok(all)
    }

    fn end_with(&self, why: &Error) {
        let text = if *why == Error::Interrupted { "it was interrupted (Ctrl-C)".into() } else { why.to_string() };
        let ended = fault(format!("rank {} has ended: {text}", self.rank));
        self.lock().fail(&ended.with_rows_fault(why.rows_fault()));
    }
}
