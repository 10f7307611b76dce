//! Receipts: what says of which rows, by which parameters and by which version a model was fitted.
//!
//! Rows have an order of their own where they have keys (`dataset/row_keys.rs`), and lie in [`BUCKETS`] parts of the space of their keys'
//! hashes. The values of a bucket's rows are digested together, each bucket by itself, by whichever process has it; the receipt is the
//! digest of what was fitted and of all buckets' digests. SHA-256 (FIPS 180-4) throughout, so nobody can find other rows of the same
//! receipt.
//!
//! ```text
//! receipt = SHA-256(FORMAT, version, learner, parameters, model that came first, columns, rows, bucket, digest, bucket, digest, …)
//! digest  = SHA-256(rows of the bucket, values of the first column, values of the second, …)
//! ```
//!
//! Texts stand behind their lengths, numbers are little-endian.

use sha2::{Digest, Sha256};
use std::fmt;

/// The parts that the space of hashes is divided into; a power of two.
pub const BUCKETS: usize = 1 << 12;

/// Says what follows; the number rises where other bytes would come of the same rows.
const FORMAT: &[u8] = b"polars-taiga receipt 1";

/// A digest of the rows that a model was fitted on, the parameters and the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt([u8; 32]);

/// What is fitted beside the rows' values.
pub struct Described<'a> {
    /// The version of this package.
    pub version: &'a str,
    /// The function that fits.
    pub learner: &'a str,
    /// The parameters as JSON, with sorted names.
    pub params: &'a str,
    /// The bytes of the model whose trees come first.
    pub init_model: Option<&'a [u8]>,
    /// The roles, names and types of the columns, in the order in which their values are digested.
    pub columns: &'a str,
}

/// The digests of buckets, in the order of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(Vec<Bucket>);

/// The digest of the rows of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    number: u32,
    rows: u64,
    digest: [u8; 32],
}

/// The bytes of a bucket's digest on the way to another process.
const BUCKET_BYTES: usize = 4 + 8 + 32;

impl Buckets {
    /// Adds the digest of a bucket of `rows` rows, whose values `write` gives piece by piece.
    pub fn push(&mut self, number: usize, rows: usize, write: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let mut hash = Sha256::new();
        hash.update((rows as u64).to_le_bytes());
        write(&mut |bytes| hash.update(bytes));
        self.0.push(Bucket { number: number as u32, rows: rows as u64, digest: hash.finalize().into() });
    }

    /// Adds those of later buckets.
    pub fn append(&mut self, mut later: Buckets) {
        self.0.append(&mut later.0);
    }

    /// Returns bytes that mean the same on every machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let of = |bucket: &Bucket| [&bucket.number.to_le_bytes()[..], &bucket.rows.to_le_bytes(), &bucket.digest].concat();
        self.0.iter().flat_map(of).collect()
    }

    /// Reads the bytes of [`Buckets::to_bytes`]; none where they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Buckets> {
        let (buckets, rest) = bytes.as_chunks::<BUCKET_BYTES>();
        let of = |bytes: &[u8; BUCKET_BYTES]| {
            let (number, behind) = bytes.split_first_chunk::<4>()?;
            let (rows, digest) = behind.split_first_chunk::<8>()?;
            let (number, rows) = (u32::from_le_bytes(*number), u64::from_le_bytes(*rows));
            Some(Bucket { number, rows, digest: digest.try_into().ok()? })
        };
        if rest.is_empty() { buckets.iter().map(of).collect::<Option<Vec<_>>>().map(Buckets) } else { None }
    }
}

impl Receipt {
    /// Returns the receipt of a fit of all the rows of these buckets.
    ///
    /// ```
    /// use taiga_core::receipt::{Buckets, Described, Receipt};
    /// let mut buckets = Buckets::default();
    /// buckets.push(0, 2, |write| write(b"the values of two rows"));
    /// let fit = Described { version: "1", learner: "fit_gbdt", params: "{}", init_model: None, columns: "[]" };
    /// let receipt = Receipt::new(&fit, &buckets);
    /// assert_eq!(receipt.to_string().parse(), Ok(receipt));
    /// assert_ne!(Receipt::new(&Described { version: "2", ..fit }, &buckets), receipt);
    /// ```
    pub fn new(fit: &Described<'_>, buckets: &Buckets) -> Receipt {
        let mut hash = Sha256::new();
        let init_model = fit.init_model.map(|bytes| Sha256::digest(bytes).to_vec()).unwrap_or_default();
        let texts = [FORMAT, fit.version.as_bytes(), fit.learner.as_bytes(), fit.params.as_bytes(), &init_model, fit.columns.as_bytes()];
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(buckets.0.iter().map(|bucket| bucket.rows).sum::<u64>().to_le_bytes());
        for bucket in &buckets.0 {
            hash.update(bucket.number.to_le_bytes());
            hash.update(bucket.digest);
        }
        Receipt(hash.finalize().into())
    }

    /// Returns the receipt of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Receipt {
        Receipt(bytes)
    }

    /// Returns its bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for Receipt {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Receipt {
    type Err = String;

    /// Reads 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Receipt, String> {
        let wrong = || "its receipt is not 64 hexadecimal digits".to_string();
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<Vec<u8>>>();
        let bytes = bytes.filter(|_| rest.is_empty()).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Receipt).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Described<'static> {
        Described { version: "1", learner: "fit_gbdt", params: "{}", init_model: None, columns: "[]" }
    }

    fn buckets(of: &[(usize, &[u8])]) -> Buckets {
        let mut all = Buckets::default();
        of.iter().for_each(|(number, values)| all.push(*number, 1, |write| write(values)));
        all
    }

    /// Proves that each part counts, and that what stands on a border between two parts counts on its side of it.
    #[test]
    fn everything_counts() {
        let known = buckets(&[(3, b"ab"), (7, b"c")]);
        let receipts = [
            Receipt::new(&fit(), &known),
            Receipt::new(&Described { version: "1f", ..fit() }, &known),
            Receipt::new(&Described { version: "1f", learner: "it_gbdt", ..fit() }, &known),
            Receipt::new(&Described { params: "{}[]", columns: "", ..fit() }, &known),
            Receipt::new(&Described { init_model: Some(b""), ..fit() }, &known),
            Receipt::new(&Described { init_model: Some(b"a"), ..fit() }, &known),
            Receipt::new(&fit(), &buckets(&[(3, b"ab"), (7, b"d")])),
            Receipt::new(&fit(), &buckets(&[(3, b"ab"), (8, b"c")])),
            Receipt::new(&fit(), &buckets(&[(3, b"abc")])),
            Receipt::new(&fit(), &Buckets::default()),
        ];
        for (i, one) in receipts.iter().enumerate() {
            assert_eq!(receipts.iter().position(|other| other == one), Some(i));
            assert_eq!(one.to_string().parse(), Ok(*one));
        }
    }

    /// Proves that pieces of any size make the same digest, and that buckets survive the way between processes, which no other bytes do.
    #[test]
    fn buckets_travel() {
        let mut pieces = Buckets::default();
        pieces.push(3, 1, |write| b"ab".iter().for_each(|byte| write(&[*byte])));
        pieces.append(buckets(&[(7, b"c")]));
        let whole = buckets(&[(3, b"ab"), (7, b"c")]);
        assert_eq!(pieces, whole);
        let bytes = whole.to_bytes();
        assert_eq!(Buckets::from_bytes(&bytes), Some(whole));
        assert_eq!(Buckets::from_bytes(&bytes[1..]), None);
    }

    /// Proves that texts which are no receipts are none.
    #[test]
    fn other_texts_are_no_receipts() {
        let text = "0".repeat(64);
        assert!(text.parse::<Receipt>().is_ok());
        for wrong in ["", "0", &text[1..], &format!("{text}0"), &text.replacen('0', "g", 1), &text.replacen('0', "A", 1)] {
            assert!(wrong.parse::<Receipt>().is_err(), "{wrong}");
        }
    }
}
