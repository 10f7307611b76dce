//! Universal Binary JSON (<https://ubjson.org>, draft 12), as XGBoost writes it: read straight into the types that serde derives, so that
//! an array of numbers takes what its own type takes.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The deepest that arrays and objects may lie in each other.
pub const MOST_DEPTH: u32 = 64;

/// Returns whether what follows the first `{` is an object of UBJSON rather than of JSON.
pub fn claims(behind: &[u8]) -> bool {
    matches!(behind.first(), Some(b'L' | b'l' | b'I' | b'i' | b'U' | b'#' | b'$'))
}

/// What is wrong with the bytes, in words.
#[derive(Debug)]
pub struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Fault(message.to_string())
    }
}

type Read<T> = Result<T, Fault>;

/// Reads the value that the bytes hold, and nothing behind it.
///
/// # Errors
/// For bytes that are cut, hold no such value, or nest too deeply.
pub fn from_bytes<'de, T: serde::Deserialize<'de>>(bytes: &'de [u8]) -> Read<T> {
    let mut reader = Reader { bytes, at: 0, depth: 0 };
    let marker = reader.marker()?;
    let value = T::deserialize(Value { reader: &mut reader, marker })?;
    match reader.at == bytes.len() {
        true => Ok(value),
        false => Err(Fault::custom(format!("{} bytes follow the value", bytes.len() - reader.at))),
    }
}

struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    depth: u32,
}

impl<'de> Reader<'de> {
    fn take(&mut self, n: usize) -> Read<&'de [u8]> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| Fault(format!("the bytes are cut: {n} are missing behind byte {}", self.at)))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// The next byte that is no filler.
    fn marker(&mut self) -> Read<u8> {
        loop {
            let [marker] = self.array()?;
            if marker != b'N' {
                return Ok(marker);
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn integer(&mut self, marker: u8) -> Read<i64> {
        Ok(match marker {
            b'i' => i8::from_be_bytes(self.array()?) as i64,
            b'U' => u8::from_be_bytes(self.array()?) as i64,
            b'I' => i16::from_be_bytes(self.array()?) as i64,
            b'l' => i32::from_be_bytes(self.array()?) as i64,
            b'L' => i64::from_be_bytes(self.array()?),
            other => return Err(Fault(format!("{:?} is no integer's marker", other as char))),
        })
    }

    fn length(&mut self) -> Read<usize> {
        let marker = self.marker()?;
        let n = self.integer(marker)?;
        usize::try_from(n).map_err(|_| Fault(format!("a length is {n}")))
    }

    fn text(&mut self) -> Read<&'de str> {
        let n = self.length()?;
        std::str::from_utf8(self.take(n)?).map_err(|_| Fault("a text is no UTF-8".into()))
    }

    /// What stands before the items of an array or object: their common type and their number, where told.
    fn head(&mut self) -> Read<(Option<u8>, Option<usize>)> {
        let mut kind = None;
        if self.peek() == Some(b'$') {
            self.at += 1;
            let [marker] = self.array()?;
            // Values without bytes of their own would be any number of them for nothing.
            if !b"iUIlLdDSCH[{".contains(&marker) {
                return Err(Fault(format!("an array of {:?}", marker as char)));
            }
            kind = Some(marker);
        }
        let mut count = None;
        if self.peek() == Some(b'#') {
            self.at += 1;
            count = Some(self.length()?);
        } else if kind.is_some() {
            return Err(Fault("an array has a type and no length".into()));
        }
        Ok((kind, count))
    }

    fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > MOST_DEPTH { Err(Fault(format!("values lie more than {MOST_DEPTH} deep in each other"))) } else { Ok(()) }
    }
}

/// A value whose marker has been read.
struct Value<'a, 'de> {
    reader: &'a mut Reader<'de>,
    marker: u8,
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let Value { reader, marker } = self;
        match marker {
            b'Z' => visitor.visit_unit(),
            b'T' => visitor.visit_bool(true),
            b'F' => visitor.visit_bool(false),
            b'i' | b'U' | b'I' | b'l' | b'L' => visitor.visit_i64(reader.integer(marker)?),
            b'd' => visitor.visit_f64(f32::from_be_bytes(reader.array()?) as f64),
            b'D' => visitor.visit_f64(f64::from_be_bytes(reader.array()?)),
            b'S' | b'H' => visitor.visit_borrowed_str(reader.text()?),
            b'C' => {
                let [c] = reader.array()?;
                visitor.visit_char(c as char)
            }
            b'[' | b'{' => {
                reader.enter()?;
                let (kind, left) = reader.head()?;
                let is_counted = left.is_some();
                let mut items = Items { reader, kind, left, is_over: false };
                let value = match marker {
                    b'[' => visitor.visit_seq(&mut items)?,
                    _ => visitor.visit_map(&mut items)?,
                };
                let is_over = items.is_over || (is_counted && items.left == Some(0));
                let reader = items.reader;
                if !is_over && (is_counted || reader.peek().is_none_or(|b| b != b']' && b != b'}')) {
                    return Err(Fault("an array has more items than are asked for".into()));
                }
                if !is_over {
                    reader.at += 1;
                }
                reader.depth -= 1;
                Ok(value)
            }
            other => Err(Fault(format!("{:?} is no value's marker", other as char))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.marker == b'Z' { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The items of an array or object.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    kind: Option<u8>,
    left: Option<usize>,
    is_over: bool,
}

impl Items<'_, '_> {
    /// Whether there is another item.
    fn goes_on(&mut self, end: u8) -> Read<bool> {
        match &mut self.left {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None => {
                while self.reader.peek() == Some(b'N') {
                    self.reader.at += 1;
                }
                if self.reader.peek() == Some(end) {
                    self.reader.at += 1;
                    self.is_over = true;
                }
                Ok(!self.is_over)
            }
        }
    }

    fn value(&mut self) -> Read<u8> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => self.reader.marker(),
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if self.is_over || !self.goes_on(b']')? {
            return Ok(None);
        }
        let marker = self.value()?;
        seed.deserialize(Value { reader: &mut *self.reader, marker }).map(Some)
    }

    /// No more than there are bytes for.
    fn size_hint(&self) -> Option<usize> {
        self.left.map(|n| n.min(self.reader.bytes.len() - self.reader.at))
    }
}

impl<'de> MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        if self.is_over || !self.goes_on(b'}')? {
            return Ok(None);
        }
        let name = self.reader.text()?;
        seed.deserialize(name.into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<T::Value> {
        let marker = self.value()?;
        seed.deserialize(Value { reader: &mut *self.reader, marker })
    }
}
