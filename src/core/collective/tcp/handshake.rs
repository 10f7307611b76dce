//! How two processes prove to each other that they know the same secret, before anything else of either is read.
//!
//! ```text
//! who accepts    magic, 32 random bytes
//! who connects   magic, 32 random bytes, who it is (48 bytes), HMAC-SHA-256 by the secret of both randoms and that
//! who accepts    an answer (8 bytes), HMAC-SHA-256 by the secret of both randoms and that
//! ```
//!
//! All lengths are fixed, so nobody has memory taken by a stranger. Messages behind it are neither encrypted nor signed: whoever can change
//! what goes over the network needs no secret.

use crate::collective::fault;
use crate::error::Result;
use crate::parallel::interrupt;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Ends with the version of what is said.
const MAGIC: [u8; 8] = *b"taiga\0\0\x01";
const RANDOM: usize = 32;
const PROOF: usize = 32;
const WHO: usize = 48;
const ANSWER: usize = 8;

/// How long a wait for a stranger's bytes looks at nothing else.
const LOOK: Duration = Duration::from_millis(50);

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub rank: u32,
    pub world: u32,
    /// Where it listens itself.
    pub port: u16,
    /// The hash of the job's name.
    pub job: [u8; 32],
}

impl Who {
    fn to_bytes(self) -> [u8; WHO] {
        let mut bytes = [0; WHO];
        bytes[..4].copy_from_slice(&self.rank.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.world.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.port.to_le_bytes());
        bytes[16..].copy_from_slice(&self.job);
        bytes
    }

    fn from_bytes(bytes: &[u8; WHO]) -> Who {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Who { rank: word(0), world: word(4), port: word(8) as u16, job: std::array::from_fn(|i| bytes[16 + i]) }
    }
}

/// Returns what stands for a job's name in messages.
pub fn job_hash(job: &str) -> [u8; 32] {
    Sha256::digest(job.as_bytes()).into()
}

/// What a process that knows the secret is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Welcome,
    /// The secret is another.
    OtherSecret,
    /// It is of another job.
    OtherJob,
    /// There are so many processes, not as many as it says.
    OtherWorld(u32),
    /// Its rank has come already, or is not awaited.
    Taken,
}

impl Answer {
    fn to_bytes(self) -> [u8; ANSWER] {
        let (code, detail) = match self {
            Answer::Welcome => (1u32, 0),
            Answer::OtherSecret => (2, 0),
            Answer::OtherJob => (3, 0),
            Answer::OtherWorld(world) => (4, world),
            Answer::Taken => (5, 0),
        };
        let mut bytes = [0; ANSWER];
        bytes[..4].copy_from_slice(&code.to_le_bytes());
        bytes[4..].copy_from_slice(&detail.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ANSWER]) -> Option<Answer> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(match word(0) {
            1 => Answer::Welcome,
            2 => Answer::OtherSecret,
            3 => Answer::OtherJob,
            4 => Answer::OtherWorld(word(4)),
            5 => Answer::Taken,
            _ => return None,
        })
    }
}

/// Returns the keyed hash of parts of fixed lengths; `role` tells the two directions apart.
fn keyed(secret: &str, role: &[u8], parts: [&[u8]; 3]) -> Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| fault("the secret can't be hashed"))?;
    mac.update(role);
    parts.iter().for_each(|part| mac.update(part));
    Ok(mac)
}

fn random() -> Result<[u8; RANDOM]> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(|error| fault(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// Why a connection comes to nothing.
#[derive(Debug)]
pub enum Stranger {
    /// It says nothing in time.
    Silent,
    /// It leaves, or sends too few bytes.
    Left,
    /// It says something else.
    Garbage,
    /// It knows another secret.
    OtherSecret,
    Other(crate::Error),
}

impl From<crate::Error> for Stranger {
    fn from(error: crate::Error) -> Stranger {
        Stranger::Other(error)
    }
}

/// Fills `out` from a socket until `deadline`. `polls`: whether this thread may be interrupted.
fn read(stream: &mut TcpStream, out: &mut [u8], deadline: Instant, polls: bool) -> std::result::Result<(), Stranger> {
    let mut at = 0;
    while at < out.len() {
        if polls {
            interrupt::poll();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Stranger::Silent);
        }
        drop(stream.set_read_timeout(Some(left.min(LOOK).max(Duration::from_millis(1)))));
        match stream.read(&mut out[at..]) {
            Ok(0) => return Err(Stranger::Left),
            Ok(n) => at += n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => return Err(Stranger::Left),
        }
    }
    Ok(())
}

/// Sends few bytes, which a socket that was just made has room for.
fn send(stream: &mut TcpStream, parts: &[&[u8]]) -> std::result::Result<(), Stranger> {
    stream.write_all(&parts.concat()).map_err(|_| Stranger::Left)
}

/// Proves to who accepts, and has it prove, that both know the secret; returns what it answers.
pub fn connect(stream: &mut TcpStream, who: Who, secret: &str, deadline: Instant) -> std::result::Result<Answer, Stranger> {
    let mut first = [0; MAGIC.len() + RANDOM];
    read(stream, &mut first, deadline, true)?;
    let (magic, theirs) = first.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Stranger::Garbage);
    }
    let (own, who) = (random()?, who.to_bytes());
    let proof = keyed(secret, b"connects", [theirs, &own, &who])?.finalize().into_bytes();
    send(stream, &[&MAGIC, &own, &who, &proof])?;
    let mut last = [0; ANSWER + PROOF];
    read(stream, &mut last, deadline, true)?;
    let (answer, proof) = last.split_at(ANSWER);
    let told = Answer::from_bytes(&std::array::from_fn(|i| answer[i])).ok_or(Stranger::Garbage)?;
    let known = keyed(secret, b"accepts", [theirs, &own, answer])?.verify_slice(proof).is_ok();
    if known { Ok(told) } else { Err(Stranger::OtherSecret) }
}

/// Someone who knows the secret, and waits for an answer.
pub struct Caller {
    stream: TcpStream,
    pub who: Who,
    /// Both randoms.
    randoms: [[u8; RANDOM]; 2],
}

/// Has who connects prove that it knows the secret.
pub fn accept(mut stream: TcpStream, secret: &str, deadline: Instant) -> std::result::Result<Caller, Stranger> {
    let own = random()?;
    send(&mut stream, &[&MAGIC, &own])?;
    let mut first = [0; MAGIC.len() + RANDOM + WHO + PROOF];
    // What is no greeting is known by its first bytes.
    read(&mut stream, &mut first[..MAGIC.len()], deadline, false)?;
    if first[..MAGIC.len()] != MAGIC {
        return Err(Stranger::Garbage);
    }
    read(&mut stream, &mut first[MAGIC.len()..], deadline, false)?;
    let (theirs, rest) = first[MAGIC.len()..].split_at(RANDOM);
    let (who, proof) = rest.split_at(WHO);
    let mut caller =
        Caller { stream, who: Who::from_bytes(&std::array::from_fn(|i| who[i])), randoms: [own, std::array::from_fn(|i| theirs[i])] };
    if keyed(secret, b"connects", [&own, theirs, who])?.verify_slice(proof).is_err() {
        // Without a proof: by its key the other side would not believe it, and by its own key it knows.
        drop(send(&mut caller.stream, &[&Answer::OtherSecret.to_bytes(), &[0; PROOF]]));
        return Err(Stranger::OtherSecret);
    }
    Ok(caller)
}

impl Caller {
    /// Answers, and returns the connection.
    ///
    /// # Errors
    /// Where nobody hears it any more.
    pub fn answer(mut self, answer: Answer, secret: &str) -> std::result::Result<TcpStream, Stranger> {
        let bytes = answer.to_bytes();
        let proof = keyed(secret, b"accepts", [&self.randoms[0], &self.randoms[1], &bytes])?.finalize().into_bytes();
        send(&mut self.stream, &[&bytes, &proof])?;
        Ok(self.stream)
    }

    /// Returns the address that it calls from.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn address(&self) -> std::result::Result<std::net::IpAddr, Stranger> {
        self.stream.peer_addr().map(|address| address.ip()).map_err(|_| Stranger::Left)
    }
}
