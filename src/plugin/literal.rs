//! Models and encoders as literals of a query.

/// The bytes of a model or encoder without the line that says what it is, which literals begin with (`labelled` in
/// python/polars_taiga/_plugin.py): Polars prints the beginning of literals.
pub fn unlabelled(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == b'\n').filter(|_| bytes.starts_with(b"<"));
    end.map_or(bytes, |end| &bytes[end + 1..])
}
