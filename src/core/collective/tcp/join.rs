//! How the processes of a fit find each other: all call rank 0, which tells each where the others listen; then each calls those of lower
//! rank.

use super::TcpOptions;
use super::handshake::{self, Answer, Caller, Stranger, Who};
use crate::collective::fault;
use crate::error::{Error, Result};
use crate::parallel::interrupt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a wait looks at nothing else.
const LOOK: Duration = Duration::from_millis(20);

/// How long one who connects may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);

/// How many who connect are listened to at the same time.
const MOST_CALLERS: usize = 256;

/// Bytes of an entry of the table of addresses: an IPv6 address and a port.
const ENTRY: usize = 18;

/// Returns a connection to each process but this one.
///
/// # Errors
/// Who has not come in time, or what differs.
pub fn all(options: &TcpOptions) -> Result<Vec<Option<TcpStream>>> {
    let deadline = Instant::now() + options.timeout;
    let me = |port: u16| Who { rank: options.rank as u32, world: options.world as u32, port, job: handshake::job_hash(&options.job) };
    let mut streams: Vec<Option<TcpStream>> = (0..options.world).map(|_| None).collect();
    if options.rank == 0 {
        let listener = TcpListener::bind(&options.address).map_err(|error| cant_listen(&options.address, &error))?;
        let mut addresses = vec![None; options.world];
        Lobby { options, listener, deadline, here: &options.address }.welcome(1..options.world, &mut streams, |caller| {
            addresses[caller.who.rank as usize] = caller.address().ok().map(|ip| (ip, caller.who.port));
        })?;
        let table = table(&addresses);
        for (rank, stream) in (0..).zip(&mut streams) {
            if let Some(stream) = stream {
                stream.write_all(&table).map_err(|_| fault(format!("rank {rank} has ended before all had come")))?;
            }
        }
        return Ok(streams);
    }
    let (mut zero, listener) = call_zero(options, &me, deadline)?;
    let mut table = vec![0; ENTRY * options.world];
    read_table(&mut zero, &mut table, deadline)?;
    streams[0] = Some(zero);
    for rank in 1..options.rank {
        let address = entry(&table[rank * ENTRY..]);
        let text = format!("rank {rank} at {address}");
        let stream = reach(&[address], &text, deadline, &|| all_are_there(&streams))?;
        streams[rank] = Some(greet(stream, &text, me(0), &options.secret, deadline)?);
    }
    let here = format!("rank {}", options.rank);
    Lobby { options, listener, deadline, here: &here }.welcome(options.rank + 1..options.world, &mut streams, |_| {})?;
    Ok(streams)
}

fn cant_listen(address: &str, error: &std::io::Error) -> Error {
    let why = match error.kind() {
        ErrorKind::AddrInUse => "something listens there already, such as rank 0 of another job or of another fit: give each a port".into(),
        ErrorKind::AddrNotAvailable => "it is no address of this machine, and rank 0 listens there: is this process rank 0?".into(),
        _ => format!("rank 0 can't listen there: {error}"),
    };
    Error::parameter("address", format!("{address}: {why}"))
}

/// Calls rank 0, and listens where it was called from.
fn call_zero(options: &TcpOptions, me: &dyn Fn(u16) -> Who, deadline: Instant) -> Result<(TcpStream, TcpListener)> {
    let address = &options.address;
    let resolved = address.to_socket_addrs().map_err(|error| Error::parameter("address", format!("{address}: {error}")))?;
    let resolved: Vec<SocketAddr> = resolved.collect();
    let stream = reach(&resolved, &format!("rank 0 at {address}"), deadline, &|| Ok(()))?;
    let local = stream.local_addr().map_err(|error| fault(format!("a connection fails: {error}")))?;
    let listener = TcpListener::bind((local.ip(), 0)).map_err(|error| fault(format!("this process can't listen: {error}")))?;
    let port = listener.local_addr().map_err(|error| fault(format!("this process can't listen: {error}")))?.port();
    let stream = greet(stream, &format!("rank 0 at {address}"), me(port), &options.secret, deadline)?;
    Ok((stream, listener))
}

/// Returns whether the process at the other end has closed a connection, over which nothing has been said yet.
fn has_left(stream: &TcpStream) -> bool {
    let seen = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    drop(stream.set_nonblocking(false));
    match seen {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted),
    }
}

/// Checks that nobody of those who have come has left.
///
/// # Errors
/// Naming the first who has.
fn all_are_there(streams: &[Option<TcpStream>]) -> Result<()> {
    match (0..).zip(streams).find(|(_, stream)| stream.as_ref().is_some_and(has_left)) {
        Some((rank, _)) => Err(fault(format!("rank {rank} has ended before all had come"))),
        None => Ok(()),
    }
}

/// Connects to one of some addresses, which need not listen yet; `check`: whether that is still wanted.
fn reach(addresses: &[SocketAddr], name: &str, deadline: Instant, check: &dyn Fn() -> Result<()>) -> Result<TcpStream> {
    let begun = Instant::now();
    loop {
        check()?;
        let mut last = None;
        for address in addresses {
            interrupt::poll();
            let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(address, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        if Instant::now() >= deadline {
            let why = last.map(|error| format!(" ({error})")).unwrap_or_default();
            let text = format!(
                "{name} could not be reached for {:.1} seconds{why}: does it run, and is this its address?",
                begun.elapsed().as_secs_f64()
            );
            return Err(fault(text));
        }
        std::thread::sleep(LOOK);
    }
}

/// Says who this process is, and takes the answer.
fn greet(mut stream: TcpStream, name: &str, who: Who, secret: &str, deadline: Instant) -> Result<TcpStream> {
    let text = match handshake::connect(&mut stream, who, secret, deadline) {
        Ok(Answer::Welcome) => return Ok(stream),
        Ok(Answer::OtherJob) => "is of another job: give each job a port".into(),
        Ok(Answer::OtherWorld(world)) => {
            format!("is one of {world} processes, and this process one of {}: `world` is the same in all", who.world)
        }
        Ok(Answer::Taken) => format!("has met a rank {} already: give each process a number of its own, and each job a port", who.rank),
        Ok(Answer::OtherSecret) | Err(Stranger::OtherSecret) => "knows another secret: `secret` is the same in all processes".into(),
        Err(Stranger::Silent) => "says nothing: is it another program?".into(),
        Err(Stranger::Left) => "closes the connection before it has said who it is: is it another program, or has it ended?".into(),
        Err(Stranger::Garbage) => "says something that is no greeting of a fit: is it another program, or another version?".into(),
        Err(Stranger::Other(error)) => return Err(error),
    };
    Err(fault(format!("{name} {text}")))
}

/// Returns where each process listens, as bytes.
fn table(addresses: &[Option<(IpAddr, u16)>]) -> Vec<u8> {
    let entry = |address: &Option<(IpAddr, u16)>| {
        let (ip, port) = address.unwrap_or((IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));
        let ip = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        [&ip.octets()[..], &port.to_le_bytes()].concat()
    };
    addresses.iter().flat_map(entry).collect()
}

/// Returns the first address of a table.
fn entry(bytes: &[u8]) -> SocketAddr {
    let ip = Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| bytes[i]));
    SocketAddr::new(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4), u16::from_le_bytes([bytes[16], bytes[17]]))
}

/// Reads the table that rank 0 sends once all have come.
fn read_table(zero: &mut TcpStream, table: &mut [u8], deadline: Instant) -> Result<()> {
    let mut at = 0;
    while at < table.len() {
        interrupt::poll();
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(fault("rank 0 has not told in time where the others are: have all come? `timeout` is how long one is waited for"));
        }
        drop(zero.set_read_timeout(Some(left.clamp(Duration::from_millis(1), Duration::from_millis(50)))));
        match zero.read(&mut table[at..]) {
            Ok(n) if n > 0 => at += n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            _ => return Err(fault("rank 0 has ended before all had come: what it says tells why")),
        }
    }
    Ok(())
}

/// Where processes of higher rank come in.
struct Lobby<'a> {
    options: &'a TcpOptions,
    listener: TcpListener,
    deadline: Instant,
    /// What errors call it.
    here: &'a str,
}

/// Those who came and are not of the fit, for the error when somebody else does not come.
#[derive(Default)]
struct Others {
    secret: usize,
    job: usize,
    else_: usize,
}

impl Others {
    fn told(&self) -> String {
        let parts = [
            (self.secret, "knew another secret"),
            (self.job, "of another job, or of a rank that had come already"),
            (self.else_, "said nothing that a process of a fit says"),
        ];
        let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} came and {what}")).collect();
        if parts.is_empty() { String::new() } else { format!("; {}", parts.join("; ")) }
    }
}

impl Lobby<'_> {
    /// Waits until all of `ranks` have come, and keeps their connections. Who knows no secret is listened to by a thread of its own, for
    /// some seconds at most, and keeps nobody waiting.
    fn welcome(self, ranks: std::ops::Range<usize>, streams: &mut [Option<TcpStream>], mut note: impl FnMut(&Caller)) -> Result<()> {
        self.listener.set_nonblocking(true).map_err(|error| fault(format!("this process can't listen: {error}")))?;
        let (sender, callers) = channel();
        let (mut under_way, mut others, mut looked) = (0, Others::default(), Instant::now());
        while ranks.clone().any(|rank| streams[rank].is_none()) {
            interrupt::poll();
            let mut idle = true;
            if under_way < MOST_CALLERS
                && let Ok((stream, _)) = self.listener.accept()
            {
                (under_way, idle) = (under_way + 1, false);
                self.listen_to(stream, sender.clone());
            }
            while let Some(caller) = next(&callers) {
                (under_way, idle) = (under_way - 1, false);
                match caller {
                    Ok(caller) => self.let_in(caller, &ranks, streams, &mut note, &mut others)?,
                    Err(Stranger::OtherSecret) => others.secret += 1,
                    Err(_) => others.else_ += 1,
                }
            }
            if Instant::now() >= self.deadline {
                let late: Vec<String> = ranks.filter(|rank| streams[*rank].is_none()).map(|rank| format!("rank {rank}")).collect();
                return Err(fault(format!(
                    "{} did not come to {} within {} seconds{}",
                    late.join(" and "),
                    self.here,
                    self.options.timeout.as_secs_f64(),
                    others.told()
                )));
            }
            if looked.elapsed() >= LOOK {
                // One that has left may come again, until rank 0 has told all of it.
                if ranks.start == 1 {
                    streams.iter_mut().for_each(|stream| drop(stream.take_if(|stream| has_left(stream))));
                }
                all_are_there(streams)?;
                looked = Instant::now();
            }
            if idle {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Has a thread hear who has connected.
    fn listen_to(&self, stream: TcpStream, sender: Sender<std::result::Result<Caller, Stranger>>) {
        let (secret, deadline) = (self.options.secret.clone(), self.deadline.min(Instant::now() + GREETING));
        let answers = sender.clone();
        let listen = move || {
            let caller =
                stream.set_nonblocking(false).map_err(|_| Stranger::Left).and_then(|()| handshake::accept(stream, &secret, deadline));
            drop(answers.send(caller));
        };
        // Where there is no room for a thread the connection is closed, and may be made again.
        if std::thread::Builder::new().spawn(listen).is_err() {
            drop(sender.send(Err(Stranger::Left)));
        }
    }

    /// Answers one who knows the secret.
    fn let_in(
        &self,
        caller: Caller,
        ranks: &std::ops::Range<usize>,
        streams: &mut [Option<TcpStream>],
        note: &mut impl FnMut(&Caller),
        others: &mut Others,
    ) -> Result<()> {
        let (who, secret) = (caller.who, &self.options.secret);
        let (rank, world) = (who.rank as usize, self.options.world);
        if who.job != handshake::job_hash(&self.options.job) {
            others.job += 1;
            drop(caller.answer(Answer::OtherJob, secret));
        } else if who.world as usize != world {
            drop(caller.answer(Answer::OtherWorld(world as u32), secret));
            let text = format!(
                "rank {rank} says that there are {} processes, and this one that there are {world}: `world` is the same in all",
                who.world
            );
            return Err(fault(text));
        } else if !ranks.contains(&rank) || streams[rank].is_some() {
            others.job += 1;
            drop(caller.answer(Answer::Taken, secret));
        } else {
            note(&caller);
            // One that has left meanwhile may come again.
            streams[rank] = caller.answer(Answer::Welcome, secret).ok();
        }
        Ok(())
    }
}

/// Returns the next who has said who it is, or failed to.
fn next(callers: &Receiver<std::result::Result<Caller, Stranger>>) -> Option<std::result::Result<Caller, Stranger>> {
    callers.try_recv().ok()
}
