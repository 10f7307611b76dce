//! The envelope of everything that leaves the engine as bytes: magic, kind, version, payload,
//! checksum.
//!
//! ```text
//! byte  0        6      8          12           20           20 + n       28 + n
//!       ├────────┼──────┼──────────┼────────────┼────────────┼────────────┤
//!       │ TAIGA\0│ kind │ version  │ n: payload │ payload    │ checksum   │
//!       │        │ "GB" │ u32      │ bytes, u64 │ n bytes    │ u64        │
//!       └────────┴──────┴──────────┴────────────┴────────────┴────────────┘
//! ```
//!
//! Numbers are little-endian. The checksum is XXH3-64 of everything before it. The payload is
//! [postcard](https://postcard.jamesmunns.com)'s encoding of a struct of the kind's own. Magic,
//! version, length and checksum keep their places in every version of every kind, so that an old
//! build can name a newer one. What has such bytes is [`Persisted`].

pub mod persisted;

pub use persisted::{Contents, Persisted};

use crate::error::Error;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 6] = b"TAIGA\0";
const HEADER: usize = 20;
const CHECKSUM: usize = 8;

/// A kind of value that travels as bytes.
pub struct Envelope {
    /// Two letters.
    pub kind: &'static [u8; 2],
    /// The newest version: what this build reads at most, and writes where an older one can't hold the value. Whatever older
    /// builds can't read (a new parameter included, because unknown ones are refused) raises it.
    pub version: u32,
    /// The first version with a [`crate::provenance::Provenance`] behind the payload.
    pub provenance: u32,
    /// The first version with [`crate::metadata::Metadata`] behind the provenance, which is written where there are some.
    pub metadata: u32,
    /// The first version with the columns of structs behind the metadata, which is written where there are some.
    pub structs: u32,
    /// The first version with a receipt behind the columns of structs, which is written where there is one.
    pub receipt: u32,
    /// What it is called in errors: `model`, say.
    pub noun: &'static str,
    /// What it is, where bytes are another kind: `a model of boosted trees`.
    pub description: &'static str,
}

impl Envelope {
    /// Returns the bytes of a payload of a version, which takes about `capacity` bytes.
    pub fn seal(&self, version: u32, payload: &impl Serialize, capacity: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + CHECKSUM + capacity);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(self.kind);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        // Postcard fails only where a sequence does not know its length; these all do.
        let mut bytes = postcard::to_extend(payload, bytes).unwrap_or_default();
        let n = (bytes.len() - HEADER) as u64;
        bytes[12..HEADER].copy_from_slice(&n.to_le_bytes());
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns whether these bytes begin as an envelope of this kind does.
    pub fn claims(&self, bytes: &[u8]) -> bool {
        bytes.strip_prefix(MAGIC).is_some_and(|rest| rest.starts_with(self.kind))
    }

    /// Returns the version of an intact envelope of this kind, one that this build can read, and the payload inside; or what is
    /// wrong, in words.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<(u32, &'a [u8]), String> {
        if bytes.is_empty() {
            return Err("the value is empty (0 bytes)".into());
        }
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(format!("these bytes are not a polars-taiga {}", self.noun));
        }
        if let Some(kind) = bytes.get(MAGIC.len()..MAGIC.len() + self.kind.len())
            && kind != self.kind
        {
            return Err(format!("these bytes come from polars-taiga but are not {}, or they are damaged", self.description));
        }
        let cut = |expected: Option<u64>| match expected {
            Some(n) => format!("the value is cut: {} of {n} bytes are there", bytes.len()),
            None => format!("the value is cut: only {} bytes are there", bytes.len()),
        };
        let field = |at: usize, len: usize| bytes.get(at..at + len).ok_or_else(|| cut(None));
        let version = field(8, 4)?.iter().rev().fold(0u32, |v, b| v << 8 | *b as u32);
        let payload = field(12, 8)?.iter().rev().fold(0u64, |v, b| v << 8 | *b as u64);
        let expected = payload.saturating_add((HEADER + CHECKSUM) as u64);
        let len = bytes.len() as u64;
        if len < expected {
            return Err(cut(Some(expected)));
        }
        if len > expected {
            return Err(format!("the value is damaged: it has {len} bytes where {expected} were written"));
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if xxh3_64(body).to_le_bytes() != checksum {
            return Err("the value is damaged: its checksum does not fit".into());
        }
        if !(1..=self.version).contains(&version) {
            let advice = if version > self.version { ": upgrade polars-taiga" } else { "" };
            return Err(format!("this {} is of format version {version}, this build reads up to {}{advice}", self.noun, self.version));
        }
        Ok((version, &body[HEADER..]))
    }

    /// Returns what a payload holds, of which nothing may be left over; or what is wrong.
    pub fn read<'a, T: serde::Deserialize<'a>>(&self, payload: &'a [u8]) -> Result<T, String> {
        let (value, rest) =
            postcard::take_from_bytes::<T>(payload).map_err(|_| "the value is damaged: its payload can't be read".to_string())?;
        if !rest.is_empty() {
            return Err(format!("the value is damaged: {} bytes follow its payload", rest.len()));
        }
        Ok(value)
    }
}

pub fn check(ok: bool, message: impl FnOnce() -> String) -> crate::Result<()> {
    if ok { Ok(()) } else { Err(Error::Model(format!("the model is not valid: {}", message()))) }
}
