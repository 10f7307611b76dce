//! What tells a column's bytes from all others: 128 bits of XXH3 over all of them.
//!
//! The bytes are those that a column has on the GPU, chunks one behind the other, converted where its form asks for it:
//! how they lie in host memory, and where, does not count. They are hashed in pieces of an upload, several threads at
//! once, and the hashes of the pieces once more, in order:
//!
//! ```text
//! values  piece 0 │ piece 1 │ … ─┐
//!            hash │    hash      ├─► hash of the hashes
//! bitmap  piece 0 │ …         ──┘
//! ```
//!
//! Two columns of one shape that differ in whatever way have the same fingerprint with a chance of about 2^-128. The hash is no
//! cryptographic one; the least favourable change that we know of, two words of eight bytes within a kibibyte that are alike in
//! half of their bits and change places, goes unseen with a chance of about 2^-32. It begins with a number that each process
//! draws, so that these are chances of the draw, and nobody can prepare columns for it.

use super::column::{Form, each_batch, fill_validity};
use super::upload::{PIECE, SMALL, copiers};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use taiga_core::column::Column;
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

/// What a column's memory on a GPU looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) rows: usize,
    /// Whether a bitmap says which values are null.
    pub(crate) bitmap: bool,
}

impl Shape {
    pub(crate) fn of(column: &Column<'_>, form: Form) -> Shape {
        let mut nulls = false;
        column.segments(0, column.len(), |chunk, _, _, _| nulls |= chunk.validity().is_some());
        Shape { form, rows: column.len(), bitmap: nulls && !form.is_float() }
    }

    /// Bytes of the values.
    pub(crate) fn values(&self) -> usize {
        self.rows * self.form.size()
    }

    /// Bytes of the bitmap, in whole words.
    pub(crate) fn bits(&self) -> usize {
        if self.bitmap { self.rows.div_ceil(32) * 4 } else { 0 }
    }

    /// Bytes of both.
    pub(crate) fn bytes(&self) -> usize {
        self.values() + self.bits()
    }

    /// How many pieces values and bitmap go over in.
    fn pieces(&self) -> (usize, usize) {
        (self.values().div_ceil(PIECE), self.bits().div_ceil(PIECE))
    }
}

/// See the module.
pub(crate) type Fingerprint = u128;

/// What a process's hashes begin with.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| std::hash::RandomState::new().hash_one("columns"))
}

/// Hashes the bytes of one piece.
pub(crate) fn piece() -> Xxh3 {
    Xxh3::with_seed(seed())
}

/// The hashes of a column's pieces, as they come in.
pub(crate) struct Pieces {
    shape: Shape,
    hashes: Mutex<Vec<Option<u128>>>,
}

impl Pieces {
    pub(crate) fn new(shape: Shape) -> Pieces {
        let (values, bits) = shape.pieces();
        Pieces { shape, hashes: Mutex::new(vec![None; values + bits]) }
    }

    fn set(&self, piece: usize, hash: u128) {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)[piece] = Some(hash);
    }

    /// Notes the hash of the values' piece that begins at byte `offset`.
    pub(crate) fn set_values(&self, offset: usize, hash: u128) {
        self.set(offset / PIECE, hash);
    }

    /// The same for the bitmap's.
    pub(crate) fn set_bits(&self, offset: usize, hash: u128) {
        self.set(self.shape.pieces().0 + offset / PIECE, hash);
    }

    /// The fingerprint, where all pieces are in.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Option<Vec<[u8; 16]>> = hashes.iter().map(|hash| hash.map(u128::to_le_bytes)).collect();
        bytes.map(|bytes| xxh3_128_with_seed(bytes.as_flattened(), seed()))
    }
}

/// The most threads that hash: more than those that upload, which the bus keeps waiting; these read alone.
const MOST_HASHERS: usize = 32;

/// The fingerprints of the bytes that columns have now, by the threads there are.
pub(crate) fn fingerprints(columns: &[(&Column<'_>, Shape)]) -> Vec<Option<Fingerprint>> {
    let hashes: Vec<Pieces> = columns.iter().map(|(_, shape)| Pieces::new(*shape)).collect();
    let pieces: Vec<(usize, usize)> = columns
        .iter()
        .enumerate()
        .flat_map(|(c, (_, shape))| {
            let (values, bits) = shape.pieces();
            (0..values + bits).map(move |piece| (c, piece))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((c, piece)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (column, shape) = columns[*c];
            hash_piece(column, shape, *piece, &hashes[*c]);
        }
    };
    // Threads of their own, as for uploads.
    let bytes: usize = columns.iter().map(|(_, shape)| shape.bytes()).sum();
    let threads = if bytes <= SMALL { 1 } else { copiers().min(MOST_HASHERS).min(pieces.len()) };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    hashes.iter().map(Pieces::fingerprint).collect()
}

/// Hashes the piece of this number.
fn hash_piece(column: &Column<'_>, shape: Shape, number: usize, hashes: &Pieces) {
    let (values, _) = shape.pieces();
    if number < values {
        let (mut hash, rows) = (piece(), PIECE / shape.form.size());
        let start = number * rows;
        each_batch(column, shape.form, start, rows.min(shape.rows - start), &mut |bytes| hash.update(bytes));
        hashes.set_values(number * PIECE, hash.digest128());
    } else {
        let offset = (number - values) * PIECE;
        let mut words = vec![0; PIECE.min(shape.bits() - offset)];
        fill_validity(column, offset * 8, &mut words);
        hashes.set_bits(offset, xxh3_128_with_seed(&words, seed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taiga_core::column::{Bits, Chunk, FeatureType, Values};

    fn of(column: &Column<'_>, form: Form) -> (Shape, Fingerprint) {
        let shape = Shape::of(column, form);
        (shape, fingerprints(&[(column, shape)])[0].expect("all pieces"))
    }

    fn column<'a>(chunks: Vec<Chunk<'a>>) -> Column<'a> {
        Column::new("x", FeatureType::Numeric, chunks)
    }

    /// Any bytes.
    fn noise(n: usize) -> Vec<u8> {
        (0..n as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect()
    }

    #[test]
    fn every_bit_of_values_counts() {
        // More than a piece, and a last one that is short.
        let mut values: Vec<u32> = (0..(PIECE / 4 + 5000) as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let before = of(&column(vec![Chunk::new(Values::U32(&values), None)]), Form::U32);
        for row in [0, 1, 4095, 4096, PIECE / 4 - 1, PIECE / 4, values.len() - 1] {
            for bit in [0, 7, 31] {
                values[row] ^= 1 << bit;
                let changed = of(&column(vec![Chunk::new(Values::U32(&values), None)]), Form::U32);
                assert!(changed.0 == before.0 && changed.1 != before.1, "row {row}, bit {bit}");
                values[row] ^= 1 << bit;
            }
        }
        values.swap(3, 70_000);
        assert_ne!(of(&column(vec![Chunk::new(Values::U32(&values), None)]), Form::U32), before, "an order");
        values.swap(3, 70_000);
        values.rotate_left(PIECE / 4);
        assert_ne!(of(&column(vec![Chunk::new(Values::U32(&values), None)]), Form::U32), before, "an order of pieces");
        values.rotate_right(PIECE / 4);
        assert_eq!(of(&column(vec![Chunk::new(Values::U32(&values), None)]), Form::U32), before);
        let shorter = &values[..values.len() - 1];
        assert_ne!(of(&column(vec![Chunk::new(Values::U32(shorter), None)]), Form::U32), before);
        let floats: Vec<f32> = values.iter().map(|bits| f32::from_bits(*bits)).collect();
        let other_form = of(&column(vec![Chunk::new(Values::F32(&floats), None)]), Form::F32);
        assert!(other_form.1 == before.1 && other_form.0 != before.0, "the same bytes, told apart by their form");
    }

    #[test]
    fn every_bit_of_validity_counts() {
        let (n, values) = (20_000, [7i64; 20_000]);
        let mut bytes = noise(n / 8 + 3);
        let with =
            |bytes: &[u8], offset: usize| of(&column(vec![Chunk::new(Values::I64(&values), Some(Bits::new(bytes, offset, n)))]), Form::I64);
        let before = with(&bytes, 5);
        assert!(before.0.bitmap);
        for row in [0, 1, 2, 63, 64, 9999, n - 1] {
            bytes[(row + 5) / 8] ^= 1 << ((row + 5) % 8);
            assert_ne!(with(&bytes, 5), before, "row {row}");
            bytes[(row + 5) / 8] ^= 1 << ((row + 5) % 8);
        }
        assert_ne!(with(&bytes, 4), before, "the same bits from another one on");
        // Bits in front of and behind the slice are not the column's.
        bytes[0] ^= 0b11111;
        bytes[(n + 5) / 8] ^= 0b1100_0000 | (0xff << ((n + 5) % 8)) as u8;
        assert_eq!(with(&bytes, 5), before);
        let without = of(&column(vec![Chunk::new(Values::I64(&values), None)]), Form::I64);
        assert_ne!(without.0, before.0);
    }

    #[test]
    fn chunks_and_addresses_do_not_count() {
        let n = PIECE / 8 + 1234;
        let values: Vec<f64> = (0..n).map(|i| (i as f64).sqrt()).collect();
        let bits = noise(n / 8 + 2);
        for nulls in [false, true] {
            let chunk = |values, from, len| Chunk::new(values, nulls.then(|| Bits::new(&bits, 3 + from, len)));
            let integers: Vec<i64> = values.iter().map(|x| x.to_bits() as i64).collect();
            let cuts = [0, 1, 9, 64, 4097, 300_000, n];
            let floats = column(cuts.windows(2).map(|w| chunk(Values::F64(&values[w[0]..w[1]]), w[0], w[1] - w[0])).collect());
            let copied = values.clone();
            assert_eq!(of(&column(vec![chunk(Values::F64(&copied), 0, n)]), Form::F64), of(&floats, Form::F64), "nulls: {nulls}");
            let whole = column(cuts.windows(2).map(|w| chunk(Values::I64(&integers[w[0]..w[1]]), w[0], w[1] - w[0])).collect());
            assert_eq!(of(&column(vec![chunk(Values::I64(&integers), 0, n)]), Form::I64), of(&whole, Form::I64), "nulls: {nulls}");
        }
    }

    #[test]
    fn forms_are_told_by_their_bytes() {
        let whole: Vec<i128> = (0..5000).map(|i| i * 100).collect();
        let hundredths = of(&column(vec![Chunk::new(Values::Decimal(&whole, 2), None)]), Form::F64);
        let tenths = of(&column(vec![Chunk::new(Values::Decimal(&whole, 1), None)]), Form::F64);
        assert_ne!(hundredths, tenths);
        let doubles: Vec<f64> = (0..5000).map(f64::from).collect();
        assert_eq!(of(&column(vec![Chunk::new(Values::F64(&doubles), None)]), Form::F64), hundredths, "the same on the GPU");
        let payload = |bits: u64| of(&column(vec![Chunk::new(Values::F64(&[1.0, f64::from_bits(bits)]), None)]), Form::F64);
        assert_ne!(payload(0x7ff8_0000_0000_0000), payload(0x7ff8_0000_0000_0001));
        // What a null hides is not on the GPU where its form is a float.
        let hidden = |x: f32| of(&column(vec![Chunk::new(Values::F32(&[1.0, x]), Some(Bits::new(&[1], 0, 2)))]), Form::F32);
        assert_eq!(hidden(2.0), hidden(3.0));
        let flags = noise(700);
        let booleans = |offset| of(&column(vec![Chunk::new(Values::Bool(Bits::new(&flags, offset, 5000)), None)]), Form::U8);
        assert_ne!(booleans(0), booleans(1));
    }

    #[test]
    fn many_columns_have_the_fingerprints_of_each() {
        let (long, short) = ((0..PIECE as u32).collect::<Vec<u32>>(), noise(1000));
        let bits = noise(PIECE / 8);
        let columns = [
            column(vec![Chunk::new(Values::U32(&long), Some(Bits::new(&bits, 0, PIECE)))]),
            column(vec![Chunk::new(Values::U8(&short), None)]),
            column(vec![Chunk::new(Values::U32(&long[1..]), None)]),
        ];
        let shapes = columns.iter().zip([Form::U32, Form::U8, Form::U32]).map(|(c, form)| (c, Shape::of(c, form)));
        let shapes: Vec<(&Column<'_>, Shape)> = shapes.collect();
        let together = fingerprints(&shapes);
        for ((column, shape), found) in shapes.iter().zip(&together) {
            assert_eq!(of(column, shape.form).1, found.expect("all pieces"));
        }
        assert!(together[0] != together[1] && together[1] != together[2] && together[0] != together[2]);
        assert!(fingerprints(&[]).is_empty());
    }

    /// `cargo test --release -p taiga-engine --features cuda --lib hash_times -- --ignored --nocapture` prints times.
    #[test]
    #[ignore = "prints times; asserts nothing"]
    fn hash_times() {
        let values: Vec<f32> = (0..100_000_000u32).map(|i| i.wrapping_mul(2_654_435_761) as f32).collect();
        let column = Column::from_f32("x", &values);
        let shape = Shape::of(&column, Form::F32);
        let speed = |what: &str, threads: usize, work: &(dyn Fn() + Sync)| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let time = || {
                let start = std::time::Instant::now();
                pool.install(work);
                start.elapsed().as_secs_f64()
            };
            let best = (0..9).map(|_| time()).fold(f64::INFINITY, f64::min);
            println!("{what}, {threads} threads: {:.1} GB/s", shape.bytes() as f64 / best / 1e9);
        };
        for threads in [1, 2, 4, 8, 16] {
            speed("a fingerprint of 10^8 f32", threads, &|| drop(std::hint::black_box(fingerprints(&[(&column, shape)]))));
        }
        for threads in [1, 2, 4, 8, 16] {
            speed("read alone", threads, &|| {
                use rayon::prelude::*;
                let sum = |part: &[f32]| part.iter().fold(0u32, |sum, x| sum.wrapping_add(x.to_bits()));
                std::hint::black_box(values.par_chunks(PIECE / 4).map(sum).reduce(|| 0, u32::wrapping_add));
            });
        }
        for (what, hashed) in [("copied to a slot", false), ("copied and hashed", true)] {
            speed(what, 1, &|| {
                let mut slot = vec![0; PIECE];
                for i in 0..shape.values().div_ceil(PIECE) {
                    let (mut hash, mut at, rows) = (piece(), 0, PIECE / 4);
                    each_batch(&column, Form::F32, i * rows, rows.min(values.len() - i * rows), &mut |bytes| {
                        let copy = &mut slot[at..at + bytes.len()];
                        copy.copy_from_slice(bytes);
                        at += copy.len();
                        if hashed {
                            hash.update(std::hint::black_box(copy));
                        }
                    });
                    std::hint::black_box((&slot, hash.digest128()));
                }
            });
        }
    }

    #[test]
    fn a_piece_that_is_not_in_leaves_no_fingerprint() {
        let values = vec![1.0f64; PIECE / 8 + 1];
        let shape = Shape::of(&column(vec![Chunk::new(Values::F64(&values), None)]), Form::F64);
        let pieces = Pieces::new(shape);
        pieces.set_values(PIECE, 5);
        assert_eq!(pieces.fingerprint(), None);
        pieces.set_values(0, 6);
        assert!(pieces.fingerprint().is_some());
    }
}
