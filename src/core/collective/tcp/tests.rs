//! Exchanges over the loopback, and what becomes of those who don't belong to them.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Instant;

/// Returns an address of this machine that nobody listens at.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn options(rank: usize, world: usize, address: &str) -> TcpOptions {
    TcpOptions { rank, world, address: address.into(), secret: "pine".into(), job: "".into(), timeout: Duration::from_secs(10) }
}

/// Does `work` in as many threads as there are ranks, each with its end.
fn together<R: Send>(world: usize, work: impl Fn(&TcpCollective) -> R + Sync) -> Vec<R> {
    let address = free_address();
    std::thread::scope(|scope| {
        let (work, address) = (&work, &address);
        let of_rank = |rank| scope.spawn(move || work(&TcpCollective::join(&options(rank, world, address)).unwrap()));
        let threads: Vec<_> = (0..world).map(of_rank).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn text<T>(result: Result<T>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Proves that sums, maxima and lists of any length are those of all processes, for as many steps as one likes, whoever is slow.
#[test]
fn exchanges_are_those_of_all() {
    for world in [1, 2, 3, 5] {
        together(world, |end| {
            let (rank, n) = (end.rank() as i64, world as i64);
            for length in [0, 1, 7, 1_000, 1_025, 4_099, 100_003] {
                if (length + rank as usize).is_multiple_of(3) {
                    std::thread::sleep(Duration::from_millis(3));
                }
                let mut sum: Vec<i64> = (0..length as i64).map(|i| (i << 40) - rank * i).collect();
                end.sum(&mut sum).unwrap();
                let of_ranks = n * (n - 1) / 2;
                assert!(sum.iter().zip(0..).all(|(s, i)| *s == n * (i << 40) - of_ranks * i), "{world} of {length}");
                let mut max: Vec<u32> = (0..length as u32).map(|i| (i * 7 + rank as u32) % 1_000).collect();
                end.max(&mut max).unwrap();
                let largest = |i: u32| (0..world as u32).map(|rank| (i * 7 + rank) % 1_000).max().unwrap();
                assert!(max.iter().zip(0..).all(|(m, i)| *m == largest(i)));
                let list = end.gather(&vec![rank as f64; length * rank as usize]).unwrap();
                let expected: Vec<f64> = (0..world).flat_map(|rank| vec![rank as f64; length * rank]).collect();
                assert_eq!(list, expected);
            }
            let pieces: Vec<Vec<u8>> = (0..world).map(|to| vec![10 * rank as u8 + to as u8; to]).collect();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let expected: Vec<Vec<u8>> = (0..world).map(|from| vec![(10 * from + end.rank()) as u8; end.rank()]).collect();
            assert_eq!(end.exchange(&pieces).unwrap(), expected);
        });
    }
}

/// Proves that one who is gone, with or without a word, is an error in all others that names its rank, at once.
#[test]
fn who_is_gone_is_named() {
    let begun = Instant::now();
    for word in [Some("column `x`: it is broken"), None] {
        let errors = together(4, |end| {
            end.sum(&mut [1]).unwrap();
            if end.rank() == 2 {
                word.into_iter().for_each(|word| end.end_with(&Error::Data(word.into())));
                return String::new();
            }
            text(end.sum(&mut vec![1; 5_000]))
        });
        for rank in [0, 1, 3] {
            assert!(errors[rank].contains("2"), "{errors:?}");
            assert!(word.is_none_or(|word| errors[rank].contains(word)), "{errors:?}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// Proves that calls that differ, in what they ask for or in how many numbers, are errors that say so, now and from then on.
#[test]
fn calls_that_differ_are_no_mix_up() {
    let differ = |work: fn(&TcpCollective) -> Result<()>| together(3, |end| (text(work(end)), text(end.gather(&[]))));
    let counts = differ(|end| end.sum(&mut vec![1; 3 + end.rank()]));
    let many = differ(|end| end.sum(&mut vec![1; 3_000 + 3_000 * (end.rank() % 2)]));
    let kinds = differ(|end| if end.rank() == 1 { end.max(&mut [1, 2]) } else { end.sum(&mut [1, 2]) });
    for (first, then) in counts.iter().chain(&many).chain(&kinds) {
        assert!(first.contains("where this process asks for"), "{first}");
        assert_eq!(first, then);
    }
}

/// Proves that who does not answer is an error after the time-out that says who and for how long.
#[test]
fn silence_ends_with_the_time_out() {
    let address = free_address();
    std::thread::scope(|scope| {
        let address = &address;
        let one = scope.spawn(move || {
            let end = TcpCollective::join(&options(1, 2, address)).unwrap();
            std::thread::sleep(Duration::from_millis(900));
            drop(end);
        });
        let end = TcpCollective::join(&TcpOptions { timeout: Duration::from_millis(400), ..options(0, 2, address) }).unwrap();
        let said = text(end.sum(&mut [1]));
        assert!(said.contains("nothing was heard from rank 1 for 0.4 seconds"), "{said}");
        one.join().unwrap();
    });
}

/// Proves that one who has left before all had come may come again, and that the others then find each other.
#[test]
fn who_has_left_before_all_had_come_may_come_again() {
    let address = free_address();
    std::thread::scope(|scope| {
        let join = |rank: usize, millis: u64| {
            let options = TcpOptions { timeout: Duration::from_millis(millis), ..options(rank, 3, &address) };
            scope.spawn(move || TcpCollective::join(&options).and_then(|end| end.gather(&[end.rank() as f64])))
        };
        let zero = join(0, 20_000);
        assert!(text(join(1, 400).join().unwrap()).contains("has not told in time"));
        std::thread::sleep(Duration::from_millis(100));
        for end in [zero, join(1, 20_000), join(2, 20_000)] {
            assert_eq!(end.join().unwrap().unwrap(), [0.0, 1.0, 2.0]);
        }
    });
}

/// Proves that who waits for others is told at once that rank 0 has ended.
#[test]
fn who_waits_hears_that_rank_0_has_ended() {
    let (address, begun) = (free_address(), Instant::now());
    std::thread::scope(|scope| {
        let join = |rank: usize, millis: u64| {
            let options = TcpOptions { timeout: Duration::from_millis(millis), ..options(rank, 3, &address) };
            scope.spawn(move || text(TcpCollective::join(&options)))
        };
        let (zero, one) = (join(0, 700), join(1, 30_000));
        assert!(zero.join().unwrap().contains("did not come"));
        let said = one.join().unwrap();
        assert!(said.contains("rank 0 has ended before all had come"), "{said}");
    });
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// Joins as two ranks whose options `change` makes differ; returns what both say.
fn differing(change: impl Fn(&mut TcpOptions) + Sync) -> [String; 2] {
    let address = free_address();
    std::thread::scope(|scope| {
        let join = |rank: usize| {
            let mut own = TcpOptions { timeout: Duration::from_millis(700), ..options(rank, 2, &address) };
            change(&mut own);
            scope.spawn(move || text(TcpCollective::join(&own)))
        };
        [join(0), join(1)].map(|thread| thread.join().unwrap())
    })
}

/// Proves that processes that were told different things say so on both sides.
#[test]
fn who_was_told_something_else_is_told_so() {
    let [zero, one] = differing(|own| own.secret.extend((own.rank == 1).then_some('!')));
    assert!(zero.contains("rank 1 did not come") && zero.contains("knew another secret"), "{zero}");
    assert!(one.contains("knows another secret"), "{one}");
    let [zero, one] = differing(|own| own.job = format!("job {}", own.rank));
    assert!(zero.contains("rank 1 did not come") && zero.contains("of another job"), "{zero}");
    assert!(one.contains("is of another job"), "{one}");
    let [zero, one] = differing(|own| own.world += own.rank);
    assert!(zero.contains("rank 1 says that there are 3 processes"), "{zero}");
    assert!(one.contains("is one of 2 processes"), "{one}");
    let [first, second] = differing(|own| own.rank = 0);
    assert!([&first, &second].iter().any(|said| said.contains("something listens there already")), "{first} {second}");
    let [first, second] = differing(|own| own.rank = 1);
    assert!(first.contains("could not be reached") && second.contains("could not be reached"), "{first} {second}");
}

/// Proves that whoever else comes to rank 0 (with nothing, too little, garbage, or a request for much memory) neither ends nor delays a fit,
/// and is told of where somebody is missing.
#[test]
fn strangers_change_nothing() {
    let address = free_address();
    let strangers: [Vec<u8>; 5] =
        [vec![], vec![7; 4], b"GET / HTTP/1.1\r\n\r\n".repeat(40), vec![0xff; 5_000], [&b"taiga\0\0\x01"[..], &[0xff; 112]].concat()];
    std::thread::scope(|scope| {
        let (address, strangers) = (&address, &strangers);
        let zero = scope.spawn(move || TcpCollective::join(&options(0, 2, address)).map(|end| end.gather(&[1.0])));
        let mut open = vec![];
        for bytes in strangers {
            let until = Instant::now() + Duration::from_secs(5);
            let stream = std::iter::repeat_with(|| TcpStream::connect(address)).find(|s| s.is_ok() || Instant::now() > until);
            let mut stream = stream.unwrap().unwrap();
            drop(stream.write_all(bytes));
            open.push(stream);
        }
        let one = scope.spawn(move || TcpCollective::join(&options(1, 2, address)).map(|end| end.gather(&[2.0])));
        assert_eq!(zero.join().unwrap(), Ok(Ok(vec![1.0, 2.0])));
        assert_eq!(one.join().unwrap(), Ok(Ok(vec![1.0, 2.0])));
    });
    let alone = TcpOptions { timeout: Duration::from_millis(500), ..options(0, 2, &free_address()) };
    std::thread::scope(|scope| {
        let (address, alone) = (alone.address.clone(), &alone);
        let zero = scope.spawn(move || text(TcpCollective::join(alone)));
        let until = Instant::now() + Duration::from_secs(5);
        let stream = std::iter::repeat_with(|| TcpStream::connect(&address)).find(|s| s.is_ok() || Instant::now() > until);
        drop(stream.unwrap().unwrap().write_all(b"not a greeting"));
        let said = zero.join().unwrap();
        assert!(said.contains("rank 1 did not come") && said.contains("said nothing that a process of a fit says"), "{said}");
    });
}

/// Proves that a process that calls something else than rank 0 says what is wrong with it: nothing there, silence, garbage, an end.
#[test]
fn what_is_not_rank_0_is_told() {
    let join = |address: &str| text(TcpCollective::join(&TcpOptions { timeout: Duration::from_millis(400), ..options(1, 2, address) }));
    assert!(join(&free_address()).contains("could not be reached for 0."));
    let answers: [(Option<&[u8]>, &str); 4] = [
        (None, "says nothing"),
        (Some(b""), "closes the connection"),
        (Some(b"too few"), "closes the connection"),
        (Some(&[9; 64]), "no greeting"),
    ];
    for (answer, expected) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let said = std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                match answer {
                    Some(bytes) => drop(stream.write_all(bytes)),
                    None => drop(stream.read(&mut [0; 1])),
                }
            });
            join(&address)
        });
        assert!(said.contains(expected), "{said} for {answer:?}");
    }
}

/// Proves that a message that announces more than anybody has is refused before room is made for it, and so is one that is none.
#[test]
fn nothing_is_allocated_by_what_a_header_says() {
    let mut lies = vec![vec![0xff; 64]];
    let mut huge = vec![];
    for number in [u64::from(u32::from_le_bytes(*b"tgMS")) | 3 << 32, 1, 0, u64::MAX / 2, 0] {
        huge.extend(number.to_le_bytes());
    }
    lies.push(huge);
    for lie in lies {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut liar = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let end = TcpCollective::over(&options(0, 2, "127.0.0.1:1"), vec![None, Some(stream)]).unwrap();
        liar.write_all(&lie).unwrap();
        let said = text(end.exchange(&[b"", b"own"]));
        assert!(said.contains("no message of a fit") || said.contains("not enough memory"), "{said}");
    }
}

/// Proves that parameters that can't be are named.
#[test]
fn wrong_parameters_are_named() {
    let wrong = |change: fn(&mut TcpOptions)| {
        let mut own = options(0, 2, "127.0.0.1:29500");
        change(&mut own);
        text(own.validate())
    };
    assert_eq!(wrong(|_| {}), "");
    assert!(wrong(|own| own.rank = 2).starts_with("parameter `rank`"));
    assert!(wrong(|own| own.world = 0).starts_with("parameter `world`"));
    assert!(wrong(|own| own.address = "127.0.0.1".into()).starts_with("parameter `address`"));
    assert!(wrong(|own| own.secret.clear()).starts_with("parameter `secret`"));
    assert!(wrong(|own| own.timeout = Duration::ZERO).starts_with("parameter `timeout`"));
}
