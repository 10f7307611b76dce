//! Values that travel as bytes ([`Persisted`]): the steps from a value to its envelope and back, the same for all of them.
//!
//! In an envelope stand, one behind the other: the payload; an extra, from the version that brought it on; the [`Provenance`], from
//! [`Envelope::provenance`] on; the user's [`Metadata`], from [`Envelope::metadata`] on; the columns of structs, from [`Envelope::structs`]
//! on; the [`Receipt`], from [`Envelope::receipt`] on; numbers, from [`Persisted::NUMBERS_SINCE`] on; what comes last, from
//! [`Persisted::LAST_SINCE`] on. A value is written in the oldest version that can hold it.

use super::Envelope;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::provenance::{Provenance, StructColumn};
use crate::receipt::Receipt;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a value's bytes hold.
pub struct Contents<'a, P, E> {
    pub payload: P,
    /// What stands behind the payload, where it is not [`Persisted::NO_EXTRA`].
    pub extra: E,
    pub provenance: &'a Provenance,
    /// Whether the payload holds what came with the provenance.
    pub is_new: bool,
    /// About how many bytes the payload takes.
    pub size: usize,
}

/// A value that travels as bytes: what its payload holds, and how it is made of that.
pub trait Persisted: Sized + 'static {
    const ENVELOPE: Envelope;

    /// Makes the error about bytes that hold no such value.
    const INVALID: fn(String) -> Error = Error::Model;

    /// The fields of the payload, in their order.
    type Payload<'a>: Serialize + DeserializeOwned;

    /// What stands behind the payload; `()` for nothing.
    type Extra: Serialize + DeserializeOwned + PartialEq;

    /// The extra that is not written.
    const NO_EXTRA: Self::Extra;

    /// The first version with an extra.
    const EXTRA_SINCE: u32 = u32::MAX;

    /// The first version with numbers behind everything else.
    const NUMBERS_SINCE: u32 = u32::MAX;

    /// Returns the numbers behind everything else, which are written from [`Persisted::NUMBERS_SINCE`] on.
    fn numbers(&self) -> Vec<f64> {
        vec![]
    }

    /// Takes the numbers that stood behind everything else.
    ///
    /// # Errors
    /// [`Persisted::INVALID`] where they don't fit the value.
    fn with_numbers(self, _numbers: Vec<f64>) -> Result<Self> {
        Ok(self)
    }

    /// What stands behind the numbers; `()` for nothing.
    type Last: Serialize + DeserializeOwned + Default;

    /// The first version with it.
    const LAST_SINCE: u32 = u32::MAX;

    /// Returns what stands behind the numbers, which is written from [`Persisted::LAST_SINCE`] on.
    fn last(&self) -> Self::Last {
        Self::Last::default()
    }

    /// Takes what stood behind the numbers.
    ///
    /// # Errors
    /// [`Persisted::INVALID`] where it does not fit the value.
    fn with_last(self, _last: Self::Last) -> Result<Self> {
        Ok(self)
    }

    /// Returns what its bytes hold.
    fn contents(&self) -> Contents<'_, Self::Payload<'_>, Self::Extra>;

    /// Makes the value of what bytes hold, and checks that it holds together.
    ///
    /// # Errors
    /// [`Persisted::INVALID`] saying what is wrong.
    fn from_contents(payload: Self::Payload<'static>, extra: Self::Extra, provenance: Provenance) -> Result<Self>;

    /// Reads the payload of a version that had other fields than today's; none for other versions.
    fn read_old(_version: u32, _payload: &[u8]) -> Option<std::result::Result<Self::Payload<'static>, String>> {
        None
    }

    /// Returns the oldest version that knows what it holds, where that is not for its other parts to say.
    fn known_since(&self) -> u32 {
        1
    }

    /// Returns the format version of its bytes.
    fn version(&self) -> u32 {
        version_of::<Self>(&self.contents()).max(self.known_since())
    }

    /// Returns its bytes; equal values have equal bytes.
    fn seal(&self) -> Vec<u8> {
        let contents = self.contents();
        let version = version_of::<Self>(&contents).max(self.known_since());
        let Contents { payload, extra, provenance, size, .. } = contents;
        match version {
            v if v >= Self::ENVELOPE.receipt => {
                let metadata = provenance.metadata.as_ref().map(Metadata::text);
                let receipt = provenance.receipt.as_ref().map(Receipt::to_bytes);
                let behind = (extra, provenance, metadata, &provenance.structs, receipt);
                if v >= Self::NUMBERS_SINCE {
                    let numbers = self.numbers();
                    let size = size + metadata.map_or(0, str::len) + 8 * numbers.len();
                    if v >= Self::LAST_SINCE {
                        return Self::ENVELOPE.seal(v, &(payload, behind, numbers, self.last()), size);
                    }
                    return Self::ENVELOPE.seal(v, &(payload, behind, numbers), size);
                }
                Self::ENVELOPE.seal(v, &(payload, behind), size + metadata.map_or(0, str::len))
            }
            v if v >= Self::ENVELOPE.structs => {
                let metadata = provenance.metadata.as_ref().map(Metadata::text);
                Self::ENVELOPE.seal(v, &(payload, extra, provenance, metadata, &provenance.structs), size + metadata.map_or(0, str::len))
            }
            v if v >= Self::ENVELOPE.metadata => {
                let metadata = provenance.metadata.as_ref().map_or("{}", |m| m.text());
                Self::ENVELOPE.seal(v, &(payload, extra, provenance, metadata), size + metadata.len())
            }
            v if v >= Self::EXTRA_SINCE => Self::ENVELOPE.seal(v, &(payload, extra, provenance), size),
            v if v >= Self::ENVELOPE.provenance => Self::ENVELOPE.seal(v, &(payload, provenance), size),
            v => Self::ENVELOPE.seal(v, &payload, size),
        }
    }

    /// Makes the value of bytes. Whatever they hold, the memory taken stays in proportion to their length, and the value is valid.
    ///
    /// # Errors
    /// For anything that is not the whole, undamaged value of a version this build can read; the text tells which: empty, cut,
    /// foreign, damaged, newer.
    fn open(bytes: &[u8]) -> Result<Self> {
        let (version, payload) = Self::ENVELOPE.open(bytes).map_err(Self::INVALID)?;
        let (payload, extra, provenance) = match Self::read_old(version, payload) {
            Some(old) => old.map(|old| (old, Self::NO_EXTRA, Provenance::default())),
            None if version >= Self::ENVELOPE.receipt => return Self::open_with_receipt(version, payload),
            None if version >= Self::ENVELOPE.structs => return Self::open_with_structs(payload),
            None if version >= Self::ENVELOPE.metadata => return Self::open_with_metadata(payload),
            None if version >= Self::EXTRA_SINCE => Self::ENVELOPE.read(payload),
            None if version >= Self::ENVELOPE.provenance => Self::ENVELOPE.read(payload).map(|(p, known)| (p, Self::NO_EXTRA, known)),
            None => Self::ENVELOPE.read(payload).map(|p| (p, Self::NO_EXTRA, Provenance::default())),
        }
        .map_err(Self::INVALID)?;
        Self::from_contents(payload, extra, provenance)
    }

    /// Makes the value of a payload of a version with metadata.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    fn open_with_metadata(payload: &[u8]) -> Result<Self> {
        type Parts<'a, V> = (<V as Persisted>::Payload<'static>, <V as Persisted>::Extra, Provenance, &'a str);
        let (payload, extra, provenance, text): Parts<'_, Self> = Self::ENVELOPE.read(payload).map_err(Self::INVALID)?;
        let metadata = Some(Metadata::new(text)?);
        Self::from_contents(payload, extra, Provenance { metadata, ..provenance })
    }

    /// Makes the value of a payload of a version with columns of structs.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    fn open_with_structs(payload: &[u8]) -> Result<Self> {
        type Behind<'a, V> = (<V as Persisted>::Extra, Provenance, Option<&'a str>, Vec<StructColumn>);
        let read: std::result::Result<(Self::Payload<'static>, Behind<'_, Self>), String> = Self::ENVELOPE.read(payload);
        let (payload, (extra, provenance, text, structs)) = read.map_err(Self::INVALID)?;
        let metadata = text.map(Metadata::new).transpose()?;
        Self::from_contents(payload, extra, Provenance { metadata, structs, ..provenance })
    }

    /// Makes the value of a payload of a version with a receipt.
    ///
    /// # Errors
    /// As [`Persisted::open`].
    fn open_with_receipt(version: u32, payload: &[u8]) -> Result<Self> {
        type Behind<'a, V> = (<V as Persisted>::Extra, Provenance, Option<&'a str>, Vec<StructColumn>, Option<[u8; 32]>);
        type Parts<'a, V> = (<V as Persisted>::Payload<'static>, Behind<'a, V>, Vec<f64>, <V as Persisted>::Last);
        let read: std::result::Result<Parts<'_, Self>, String> = match version {
            v if v >= Self::LAST_SINCE => Self::ENVELOPE.read(payload),
            v if v >= Self::NUMBERS_SINCE => {
                Self::ENVELOPE.read(payload).map(|(p, behind, numbers)| (p, behind, numbers, Self::Last::default()))
            }
            _ => Self::ENVELOPE.read(payload).map(|(p, behind)| (p, behind, vec![], Self::Last::default())),
        };
        let (payload, (extra, provenance, text, structs, receipt), numbers, last) = read.map_err(Self::INVALID)?;
        let metadata = text.map(Metadata::new).transpose()?;
        let receipt = receipt.map(Receipt::from_bytes);
        let value = Self::from_contents(payload, extra, Provenance { metadata, structs, receipt, ..provenance })?;
        let value = if version >= Self::NUMBERS_SINCE { value.with_numbers(numbers)? } else { value };
        if version >= Self::LAST_SINCE { value.with_last(last) } else { Ok(value) }
    }
}

/// The oldest version that can hold a value.
fn version_of<V: Persisted>(contents: &Contents<'_, V::Payload<'_>, V::Extra>) -> u32 {
    let since = V::ENVELOPE.provenance;
    match contents {
        c if c.provenance.receipt.is_some() => V::ENVELOPE.receipt,
        c if !c.provenance.structs.is_empty() => V::ENVELOPE.structs,
        c if c.provenance.metadata.is_some() => V::ENVELOPE.metadata,
        c if c.extra != V::NO_EXTRA => V::EXTRA_SINCE,
        c if c.is_new || !c.provenance.is_empty() => since,
        _ => since - 1,
    }
}
