//! Consecutive rows of one chunk of a list column, and the items that they span.

use crate::column::Bits;
use crate::error::{Error, Result};
use crate::learners::linear::rows::{Items, ListChunk, ListColumn, Offsets};
use std::ops::Range;

/// Consecutive rows of a chunk.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pub(super) chunk: ListChunk<'a>,
    pub(super) rows: Range<usize>,
}

/// Returns the next rows of the parts (the last one comes first), as many as `rows` has or the part gives; `rows` is cut to as
/// many.
pub(super) fn take<'a>(parts: &mut Vec<Part<'a>>, rows: &mut Range<usize>) -> Option<Part<'a>> {
    while parts.last().is_some_and(|p| p.rows.is_empty()) {
        parts.pop();
    }
    let part = parts.last_mut()?;
    let n = rows.len().min(part.rows.len());
    rows.end = rows.start + n;
    let taken = Part { chunk: part.chunk, rows: part.rows.start..part.rows.start + n };
    part.rows.start += n;
    Some(taken)
}

impl Part<'_> {
    /// Returns the items of row `i`, those that a null row may have included.
    pub(super) fn slots(&self, i: usize) -> Range<usize> {
        match self.chunk.offsets {
            Offsets::I32(o) => o[i] as usize..o[i + 1] as usize,
            Offsets::I64(o) => o[i] as usize..o[i + 1] as usize,
            Offsets::Fixed { width, .. } => i * width..(i + 1) * width,
        }
    }

    /// Returns the items of row `i`; a null row has none.
    pub(super) fn span(&self, i: usize) -> Range<usize> {
        let slots = self.slots(i);
        if self.chunk.validity.is_some_and(|v| !v.get(i)) { slots.start..slots.start } else { slots }
    }

    /// Returns the items of all its rows.
    pub(super) fn all(&self) -> Range<usize> {
        if self.rows.is_empty() { 0..0 } else { self.slots(self.rows.start).start..self.slots(self.rows.end - 1).end }
    }

    /// Returns whether no row's span differs from its slots and no item is null.
    pub(super) fn is_plain(&self) -> bool {
        let unset = |v: &Bits<'_>, i: usize| !v.get(i);
        let rows = self.chunk.validity.is_none_or(|v| self.rows.clone().all(|i| !unset(&v, i) || self.slots(i).is_empty()));
        let items = match self.chunk.items {
            Items::Numbers(c) => c.validity().is_none_or(|v| self.all().all(|i| !unset(&v, i))),
            Items::Texts(_) | Items::Hashed(_) => true,
        };
        rows && items
    }
}

pub(super) fn check_offsets(column: &ListColumn<'_>) -> Result<()> {
    for chunk in &column.chunks {
        let len = chunk.items.len();
        let ascend = match chunk.offsets {
            Offsets::I32(o) => {
                o.first().is_none_or(|o| *o >= 0) && o.windows(2).all(|w| w[0] <= w[1]) && o.last().is_none_or(|o| *o as usize <= len)
            }
            Offsets::I64(o) => {
                o.first().is_none_or(|o| *o >= 0) && o.windows(2).all(|w| w[0] <= w[1]) && o.last().is_none_or(|o| *o as usize <= len)
            }
            Offsets::Fixed { width, rows } => width.checked_mul(rows).is_some_and(|n| n <= len),
        };
        if !ascend {
            return Err(Error::column(&column.name, "its offsets are not those of lists"));
        }
        if chunk.validity.is_some_and(|v| v.len() != chunk.offsets.rows()) {
            return Err(Error::column(&column.name, "its validity and its rows differ in number"));
        }
    }
    Ok(())
}
