//! Keys of rows: an order of the rows of a table that depends on their keys alone, not on how the rows came.
//!
//! A key is one value or several, none of them null. Each is written as bytes that are the same wherever the value is ([`KeyValue`]), the
//! bytes of a row's key are hashed (XXH3, 128 bits), and rows stand in the order of the hashes ([`order`]). So a fit that reads rows in this
//! order depends on the set of its rows: whatever it draws for a row, ties, and what is numbered by first appearance follow. Rows lie in
//! [`BUCKETS`] parts of the space of hashes, equally wide, of which each process of several has consecutive ones.

use crate::parallel::interrupt;
use crate::receipt::BUCKETS;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

/// A value by which rows are told apart, whatever type of column it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyValue<'a> {
    Null,
    Integer(i128),
    /// An integer beyond the others.
    Large(u128),
    /// All NaN are one value, and so are both zeros and the integers of the same value.
    Number(f64),
    /// So many digits, of which so many stand behind the point.
    Decimal(i128, u32),
    Boolean(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Days since 1970.
    Date(i128),
    /// Nanoseconds since midnight.
    Time(i128),
    /// Nanoseconds since 1970, in UTC.
    Datetime(i128),
    /// Nanoseconds.
    Duration(i128),
}

impl KeyValue<'_> {
    /// Appends bytes that stand for it, as those of no other value do, whatever follows them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut fixed = |tag: u8, bytes: &[u8]| {
            out.push(tag);
            out.extend_from_slice(bytes);
        };
        match *self {
            KeyValue::Null => fixed(0, &[]),
            KeyValue::Integer(x) => match i64::try_from(x) {
                Ok(x) => fixed(1, &x.to_le_bytes()),
                Err(_) => fixed(2, &x.to_le_bytes()),
            },
            KeyValue::Large(x) => match i128::try_from(x) {
                Ok(x) => KeyValue::Integer(x).write(out),
                Err(_) => fixed(3, &x.to_le_bytes()),
            },
            KeyValue::Number(x) => match x as i64 {
                // The largest i64 is no f64, so it stands for what is beyond it.
                whole if whole as f64 == x && whole != i64::MAX => fixed(1, &whole.to_le_bytes()),
                _ => fixed(4, &if x.is_nan() { f64::NAN } else { x }.to_bits().to_le_bytes()),
            },
            KeyValue::Decimal(mut digits, mut scale) => {
                while scale > 0 && digits % 10 == 0 {
                    (digits, scale) = (digits / 10, scale - 1);
                }
                match scale {
                    0 => KeyValue::Integer(digits).write(out),
                    _ => fixed(5, &[&scale.to_le_bytes()[..], &digits.to_le_bytes()].concat()),
                }
            }
            KeyValue::Boolean(x) => fixed(6, &[u8::from(x)]),
            KeyValue::Text(text) => {
                fixed(7, &(text.len() as u64).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            KeyValue::Bytes(bytes) => {
                fixed(8, &(bytes.len() as u64).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            KeyValue::Date(days) => fixed(9, &days.to_le_bytes()),
            KeyValue::Time(ns) => fixed(10, &ns.to_le_bytes()),
            KeyValue::Datetime(ns) => fixed(11, &ns.to_le_bytes()),
            KeyValue::Duration(ns) => fixed(12, &ns.to_le_bytes()),
        }
    }
}

/// Returns the hash of a key's bytes.
pub fn hash(key: &[u8]) -> u128 {
    xxh3_128(key)
}

/// Returns the number of the bucket that a hash lies in, below [`BUCKETS`].
pub fn bucket(hash: u128) -> usize {
    (hash >> (128 - BUCKETS.ilog2())) as usize
}

/// Rows in the order of their keys.
#[derive(Debug)]
pub struct KeyOrder {
    /// The rows' numbers.
    pub rows: Vec<u32>,
    /// Of each bucket, how many rows stand before it; behind them the number of rows.
    pub starts: Vec<usize>,
}

/// A key that several rows have, the first in the order.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The rows that have it, in ascending order.
    pub rows: Vec<u32>,
    /// The other keys that several rows have.
    pub others: usize,
}

/// Orders rows by the hashes of their keys, those of equal hashes by their keys' bytes, which `key` appends. On all threads of the pool that
/// it is called in.
///
/// # Errors
/// Where several rows have the same key.
///
/// ```
/// use taiga_core::dataset::row_keys::{KeyValue, hash, order};
/// let order_of = |keys: &[i128]| {
///     let key = |row: usize, out: &mut Vec<u8>| KeyValue::Integer(keys[row]).write(out);
///     let bytes = |row: usize| { let mut out = vec![]; key(row, &mut out); out };
///     let hashes: Vec<u128> = (0..keys.len()).map(|row| hash(&bytes(row))).collect();
///     order(&hashes, &key).map(|order| order.rows.iter().map(|row| keys[*row as usize]).collect::<Vec<_>>())
/// };
/// assert_eq!(order_of(&[5, 7, 9]), order_of(&[9, 5, 7]));
/// assert_eq!(order_of(&[5, 7, 5]).unwrap_err().rows, [0, 2]);
/// ```
pub fn order(hashes: &[u128], key: &(dyn Fn(usize, &mut Vec<u8>) + Sync)) -> Result<KeyOrder, Repeated> {
    let mut starts = vec![0; BUCKETS + 1];
    hashes.iter().for_each(|hash| starts[bucket(*hash) + 1] += 1);
    (0..BUCKETS).for_each(|i| starts[i + 1] += starts[i]);
    // The bits below those that tell the bucket, which the two differ by where they are not the same.
    let prefix = |hash: u128| (hash >> (64 - BUCKETS.ilog2())) as u64;
    let (mut next, mut pairs) = (starts.clone(), vec![(0u64, 0u32); hashes.len()]);
    for (row, hash) in hashes.iter().enumerate() {
        let place = &mut next[bucket(*hash)];
        pairs[*place] = (prefix(*hash), row as u32);
        *place += 1;
    }
    let (mut rest, mut parts) = (&mut pairs[..], vec![]);
    for ends in starts.windows(2).filter(|ends| ends[0] < ends[1]) {
        let (part, behind) = rest.split_at_mut(ends[1] - ends[0]);
        parts.push(part);
        rest = behind;
    }
    let repeated: Vec<Vec<u32>> = parts.into_par_iter().with_min_len(16).flat_map_iter(|part| sort(part, hashes, key)).collect();
    match repeated.into_iter().enumerate().fold(None, |first: Option<Repeated>, (i, rows)| match first {
        None => Some(Repeated { rows, others: 0 }),
        Some(first) => Some(Repeated { others: i, ..first }),
    }) {
        Some(repeated) => Err(repeated),
        None => Ok(KeyOrder { rows: pairs.into_iter().map(|(_, row)| row).collect(), starts }),
    }
}

/// Sorts the rows of a bucket; returns, key by key, those that have the same one.
fn sort(part: &mut [(u64, u32)], hashes: &[u128], key: &(dyn Fn(usize, &mut Vec<u8>) + Sync)) -> Vec<Vec<u32>> {
    interrupt::poll();
    part.sort_unstable();
    let mut repeated = vec![];
    // Most parts have no two rows of one prefix.
    if part.is_sorted_by(|a, b| a.0 < b.0) {
        return repeated;
    }
    for same in part.chunk_by_mut(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let bytes = |row: u32| {
            let mut bytes = vec![];
            key(row as usize, &mut bytes);
            bytes
        };
        let mut known: Vec<(u128, Vec<u8>, u32)> = same.iter().map(|(_, row)| (hashes[*row as usize], bytes(*row), *row)).collect();
        known.sort_unstable();
        same.iter_mut().zip(&known).for_each(|(place, (.., row))| place.1 = *row);
        let equal = known.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)).filter(|equal| equal.len() > 1);
        repeated.extend(equal.map(|equal| equal.iter().map(|(.., row)| *row).collect::<Vec<_>>()));
    }
    repeated
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(value: KeyValue<'_>) -> Vec<u8> {
        let mut out = vec![];
        value.write(&mut out);
        out
    }

    /// Proves that equal values of different types are one key, and that different values are different ones.
    #[test]
    fn values_are_told_apart_by_what_they_are() {
        use KeyValue::{Boolean, Bytes, Date, Datetime, Decimal, Duration, Integer, Large, Null, Number, Text, Time};
        let same: &[&[KeyValue<'_>]] = &[
            &[Null],
            &[Integer(0), Large(0), Number(0.0), Number(-0.0), Decimal(0, 7)],
            &[Integer(-3), Number(-3.0), Decimal(-300, 2), Decimal(-3, 0)],
            &[Integer(i64::MIN.into()), Number(i64::MIN as f64)],
            &[Integer(i64::MAX.into())],
            &[Number(i64::MAX as f64)],
            &[Integer(1 << 63), Large(1 << 63)],
            &[Large(u128::MAX)],
            &[Integer(i128::MIN)],
            &[Number(0.1)],
            &[Number(0.1f32.into())],
            &[Number(f64::INFINITY)],
            &[Number(f64::NAN), Number(-f64::NAN)],
            &[Decimal(1, 1), Decimal(10, 2)],
            &[Boolean(false)],
            &[Boolean(true)],
            &[Text("")],
            &[Text("0")],
            &[Bytes(b"0")],
            &[Date(0)],
            &[Time(0)],
            &[Datetime(0)],
            &[Duration(0)],
        ];
        for (i, group) in same.iter().enumerate() {
            for value in *group {
                let equal = |other: &&[KeyValue<'_>]| other.iter().any(|other| bytes(*other) == bytes(*value));
                assert_eq!(same.iter().position(equal), Some(i), "{value:?}");
                assert_eq!(same.iter().filter(|other| equal(other)).count(), 1, "{value:?}");
            }
        }
    }

    /// Orders keys by weak hashes, of which many are equal: the keys themselves, the first of them in the order.
    fn ordered(keys: &[u64], bits: u32) -> Result<Vec<u64>, Repeated> {
        let hashes: Vec<u128> = keys.iter().map(|key| (hash(&key.to_le_bytes()) >> (128 - bits)) << (128 - bits)).collect();
        let order = order(&hashes, &|row, out| out.extend_from_slice(&keys[row].to_be_bytes()))?;
        assert!(
            (0..BUCKETS).all(|b| order.rows[order.starts[b]..order.starts[b + 1]].iter().all(|row| bucket(hashes[*row as usize]) == b))
        );
        assert_eq!(order.starts[BUCKETS], keys.len());
        Ok(order.rows.iter().map(|row| keys[*row as usize]).collect())
    }

    proptest! {
        /// Proves that shuffled keys come in the same order, which has each once, however many of them have the same hash; and that a key of
        /// two rows is found with all its rows.
        #[test]
        fn the_order_is_that_of_the_set(keys in prop::collection::hash_set(any::<u64>(), 0..300), bits in 1..100u32, seed in any::<u64>()) {
            let mut keys: Vec<u64> = keys.into_iter().collect();
            let first = ordered(&keys, bits).unwrap();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let mut all = first.clone();
            all.sort_unstable();
            prop_assert_eq!(&all, &sorted);
            keys.sort_by_key(|key| hash(&(key ^ seed).to_le_bytes()));
            prop_assert_eq!(ordered(&keys, bits).unwrap(), first);
            if let [.., one, two] = keys[..] {
                keys.extend([two, one, two]);
                let repeated = ordered(&keys, bits).unwrap_err();
                let rows: Vec<u32> = (0..keys.len() as u32).filter(|row| keys[*row as usize] == keys[repeated.rows[0] as usize]).collect();
                prop_assert_eq!(&repeated.rows, &rows);
                prop_assert!([one, two].contains(&keys[rows[0] as usize]) && repeated.others == 1);
            }
        }
    }

    /// Proves that the order of keys is the one that earlier versions made: models depend on it.
    #[test]
    fn the_order_stays() {
        let keys: Vec<u64> = (0..12).collect();
        let hashes: Vec<u128> = keys.iter().map(|key| hash(&bytes(KeyValue::Integer((*key).into())))).collect();
        let order = order(&hashes, &|row, out| KeyValue::Integer(keys[row].into()).write(out)).unwrap();
        assert_eq!(order.rows, [7, 5, 3, 1, 10, 4, 8, 11, 6, 2, 9, 0]);
    }
}
