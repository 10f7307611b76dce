//! Moves messages to and from all other processes at the same time, over sockets that don't block.
//!
//! A message is a header of 40 bytes and a body. The header says what the exchange is, its number, and how long the body is; all of it is
//! compared with what is expected before room for the body is made.

use crate::collective::fault;
use crate::error::{Error, Result, RowsFault};
use crate::memory;
use crate::parallel::interrupt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const MAGIC: u32 = u32::from_le_bytes(*b"tgMS");
pub const HEADER: usize = 40;

/// Bytes of what a process says when it ends, at most.
const MOST_TEXT: usize = 1024;

/// How long a wait looks at nothing but sockets.
const LOOK: Duration = Duration::from_millis(100);

/// How long an answer is looked for before this thread sleeps: about what it takes to be woken.
const SPIN: Duration = Duration::from_micros(20);

/// What an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Sum = 1,
    Max = 2,
    Exchange = 3,
    /// The sender has ended, and says why.
    End = 4,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        [Kind::Sum, Kind::Max, Kind::Exchange, Kind::End].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// An exchange as all processes must ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    pub kind: Kind,
    pub sequence: u64,
    /// Of how many numbers it is in all; 0 where each process decides.
    pub count: u64,
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Sum => write!(f, "the sums of {} numbers", self.count)?,
            Kind::Max => write!(f, "the largest of {} numbers each", self.count)?,
            Kind::Exchange => write!(f, "lists of all")?,
            Kind::End => write!(f, "an end")?,
        }
        write!(f, " (step {})", self.sequence)
    }
}

fn header(round: &Round, length: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&(round.kind as u32).to_le_bytes());
    for (at, number) in [(8, round.sequence), (16, round.count), (24, length as u64)] {
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The faults of rows.
const FAULTS: [RowsFault; 2] = [RowsFault::Degenerate, RowsFault::Values];

/// The number that a process which has ended sends of its rows' fault: what `on_error` makes of it is the same in all processes then.
fn fault_number(fault: Option<RowsFault>) -> u64 {
    match fault {
        None => 0,
        Some(RowsFault::Degenerate) => 1,
        Some(RowsFault::Values) => 2,
    }
}

/// A message on its way out.
pub struct Outgoing<'a> {
    header: [u8; HEADER],
    body: &'a [u8],
    sent: usize,
}

impl<'a> Outgoing<'a> {
    pub fn new(round: &Round, body: &'a [u8]) -> Outgoing<'a> {
        Outgoing { header: header(round, body.len()), body, sent: 0 }
    }

    fn is_sent(&self) -> bool {
        self.sent == HEADER + self.body.len()
    }

    /// Sends what the socket takes; returns whether that was anything.
    fn advance(&mut self, stream: &mut TcpStream) -> std::io::Result<bool> {
        let before = self.sent;
        while !self.is_sent() {
            let rest = match self.sent.checked_sub(HEADER) {
                None => &self.header[self.sent..],
                Some(at) => &self.body[at..],
            };
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.sent > before)
    }
}

/// A message on its way in.
struct Incoming {
    header: [u8; HEADER],
    /// Bytes of the header that are there, then of the body.
    read: usize,
    at: usize,
    body: Option<Vec<u8>>,
    /// Whether it is what the sender says at its end.
    end: bool,
}

/// Why a process does not send what it should.
enum Broken {
    Gone,
    /// It has told why it ended, and what its rows are at fault for, if they are.
    Ended(String, Option<RowsFault>),
    Other(Error),
}

impl Incoming {
    fn new() -> Incoming {
        Incoming { header: [0; HEADER], read: 0, at: 0, body: None, end: false }
    }

    fn is_read(&self) -> bool {
        self.body.as_ref().is_some_and(|body| self.at == body.len()) && !self.end
    }

    /// A number of the header, by where it begins.
    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.header[at + i]))
    }

    /// What the sender's rows are at fault for, of what it says at its end.
    fn rows_fault(&self) -> Option<RowsFault> {
        FAULTS.into_iter().find(|fault| fault_number(Some(*fault)) == self.number(16))
    }

    /// Reads what there is; returns whether that was anything. `spare`: room for bodies; `length`: of the body, where it is known.
    fn advance(
        &mut self,
        stream: &mut TcpStream,
        spare: &mut Vec<Vec<u8>>,
        (rank, round): (usize, &Round),
        length: Option<usize>,
    ) -> std::result::Result<bool, Broken> {
        let mut any = false;
        loop {
            if self.read == HEADER && self.body.is_none() {
                self.body = Some(self.make_room(spare, (rank, round), length)?);
            }
            let rest = match &mut self.body {
                None => &mut self.header[self.read..],
                Some(body) => &mut body[self.at..],
            };
            if rest.is_empty() {
                return match &self.body {
                    Some(text) if self.end => Err(Broken::Ended(String::from_utf8_lossy(text).into_owned(), self.rows_fault())),
                    _ => Ok(any),
                };
            }
            match stream.read(rest) {
                Ok(0) => return Err(Broken::Gone),
                Ok(n) if self.body.is_none() => self.read += n,
                Ok(n) => self.at += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Broken::Gone),
            }
            any = true;
        }
    }

    /// Makes room for the body that a header announces, once it is what is expected.
    fn make_room(
        &mut self,
        spare: &mut Vec<Vec<u8>>,
        (rank, round): (usize, &Round),
        length: Option<usize>,
    ) -> std::result::Result<Vec<u8>, Broken> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| self.header[at + i]));
        let (kind, sequence, count, told) = (Kind::of(word(4)), self.number(8), self.number(16), self.number(24));
        let Some(kind) = kind.filter(|_| word(0) == MAGIC) else {
            return Err(Broken::Other(fault(format!("rank {rank} sends something that is no message of a fit"))));
        };
        if kind == Kind::End {
            if told as usize > MOST_TEXT {
                return Err(Broken::Gone);
            }
            self.end = true;
            return Ok(vec![0; told as usize]);
        }
        let theirs = Round { kind, sequence, count };
        if theirs != *round || length.is_some_and(|length| told != length as u64) {
            let text = format!(
                "rank {rank} asks for {theirs} where this process asks for {round}: all processes make the same fits, with the same parameters"
            );
            return Err(Broken::Other(fault(text)));
        }
        let room = memory::check("a message of another process", told, "fit on more machines, or on fewer rows");
        room.map_err(Broken::Other)?;
        let mut body = length.and_then(|_| spare.pop()).unwrap_or_default();
        body.resize(told as usize, 0);
        Ok(body)
    }
}

/// A connection to another process, whose secret is known to be the same.
pub struct Link {
    stream: TcpStream,
    /// Whether a message was begun and is not sent to its end.
    in_message: bool,
}

impl Link {
    pub fn new(stream: TcpStream) -> std::io::Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Link { stream, in_message: false })
    }

    /// Says why this process ends, where that can be said.
    pub fn say_end(&mut self, error: &Error) {
        let why = &error.to_string();
        let mut end = why.len().min(MOST_TEXT);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        if !self.in_message {
            let round = Round { kind: Kind::End, sequence: 0, count: fault_number(error.rows_fault()) };
            let mut message = header(&round, end).to_vec();
            message.extend_from_slice(&why.as_bytes()[..end]);
            // Whoever is gone hears nothing; a socket that is full has a reader that will see the end of it.
            drop(self.stream.write(&message));
        }
        drop(self.stream.shutdown(Shutdown::Write));
    }
}

/// Reads on until all others have ended too, for `most` at longest: a connection that is closed with something unread in it takes with it
/// what was said last and not yet heard.
pub fn hear_out(links: &mut [Option<Link>], most: Duration) {
    let begun = Instant::now();
    let mut unread = vec![0; 1 << 16];
    while begun.elapsed() < most && links.iter().any(Option::is_some) {
        let mut idle = true;
        for link in links.iter_mut() {
            let Some(own) = link else { continue };
            match own.stream.read(&mut unread) {
                Ok(n) if n > 0 => idle = false,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                _ => *link = None,
            }
        }
        if idle {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Sends a message to each process, and returns what each has sent. `lengths`: of what each sends, where that is known, and then read into
/// the room of `spare`.
///
/// # Errors
/// Naming the process that is gone, silent, or asks for something else.
pub fn exchange(
    links: &mut [Option<Link>],
    spare: &mut Vec<Vec<u8>>,
    round: &Round,
    mut outgoing: Vec<Outgoing<'_>>,
    lengths: Option<&[usize]>,
    timeout: Duration,
) -> Result<Vec<Vec<u8>>> {
    let mut incoming: Vec<Incoming> = links.iter().map(|_| Incoming::new()).collect();
    let mut last = Instant::now();
    loop {
        let (mut moved, mut waits) = (false, false);
        let mut broken = vec![];
        for (rank, link) in links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            let (out, into) = (&mut outgoing[rank], &mut incoming[rank]);
            // One that is gone may have said why: that is read before anything is sent, since what is sent to one that is gone takes with it
            // what it has said and was not read.
            let read =
                if into.is_read() { Ok(false) } else { into.advance(&mut link.stream, spare, (rank, round), lengths.map(|l| l[rank])) };
            // It may have said so behind what it sent for this exchange.
            if out.sent == 0
                && into.is_read()
                && let Some(why) = last_word(&mut link.stream, (rank, round))
            {
                broken.push((rank, why));
                continue;
            }
            let sent = out.advance(&mut link.stream);
            link.in_message = out.sent > 0 && !out.is_sent();
            match (sent, read) {
                (_, Err(why)) => broken.push((rank, why)),
                (Err(_), Ok(_)) => broken.push((rank, Broken::Gone)),
                (Ok(sent), Ok(read)) => moved |= sent || read,
            }
            waits |= !out.is_sent() || !into.is_read();
        }
        if let Some(error) = told(broken) {
            return Err(error);
        }
        if !waits {
            return Ok(incoming.into_iter().map(|m| m.body.unwrap_or_default()).collect());
        }
        if moved {
            last = Instant::now();
            continue;
        }
        interrupt::poll();
        let idle = last.elapsed();
        if idle >= timeout {
            return Err(silent(links, &outgoing, &incoming, round, timeout));
        }
        if idle > SPIN {
            wait(links, &outgoing, &incoming, LOOK.min(timeout - idle));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Returns why the process at the other end has ended, where that is what it says next.
fn last_word(stream: &mut TcpStream, of: (usize, &Round)) -> Option<Broken> {
    let mut next = [0; HEADER];
    let is_end = stream.peek(&mut next).is_ok_and(|read| read == HEADER) && next[4..8] == (Kind::End as u32).to_le_bytes();
    if !is_end {
        return None;
    }
    Incoming::new().advance(stream, &mut vec![], of, None).err()
}

/// Returns the error of those that are gone: what they have told of others first, since those that ended for another end too.
fn told(broken: Vec<(usize, Broken)>) -> Option<Error> {
    let mut gone = vec![];
    let mut said = None;
    for (rank, why) in broken {
        match why {
            Broken::Other(error) => return Some(error),
            Broken::Ended(text, rows) => said = said.or(Some((text, rows))),
            Broken::Gone => gone.push(rank),
        }
    }
    match (gone.as_slice(), said) {
        // Its text is an error's of this kind already.
        (_, Some((text, rows))) => {
            let error = fault(text.strip_prefix("parameter `collective`: ").unwrap_or(&text));
            Some(error.with_rows_fault(rows))
        }
        ([], None) => None,
        ([one], None) => Some(fault(format!("rank {one} has ended, or its machine can't be reached any more"))),
        (several, None) => Some(fault(format!("ranks {several:?} have ended, or their machines can't be reached any more"))),
    }
}

/// Returns the error of those that were waited for in vain.
fn silent(links: &[Option<Link>], outgoing: &[Outgoing<'_>], incoming: &[Incoming], round: &Round, timeout: Duration) -> Error {
    let late = (0..links.len()).filter(|k| links[*k].is_some() && (!incoming[*k].is_read() || !outgoing[*k].is_sent()));
    let late: Vec<String> = late.map(|k| format!("rank {k}")).collect();
    fault(format!(
        "nothing was heard from {} for {} seconds, while this process asked for {round}; `timeout` is how long one is waited for",
        late.join(" and "),
        timeout.as_secs_f64()
    ))
}

/// Sleeps until a socket can be read or written that something is expected of, at most for `most`.
#[cfg(unix)]
fn wait(links: &[Option<Link>], outgoing: &[Outgoing<'_>], incoming: &[Incoming], most: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut sockets = vec![];
    for ((link, out), into) in links.iter().zip(outgoing).zip(incoming) {
        let Some(link) = link else { continue };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::OUT, !out.is_sent());
        flags.set(PollFlags::IN, !into.is_read());
        if !flags.is_empty() {
            sockets.push(PollFd::new(&link.stream, flags));
        }
    }
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    // A signal that comes meanwhile is looked at by the caller.
    let _ = poll(&mut sockets, Some(&most));
}

#[cfg(not(unix))]
fn wait(_: &[Option<Link>], _: &[Outgoing<'_>], _: &[Incoming], most: Duration) {
    std::thread::sleep(most.min(Duration::from_micros(200)));
}
