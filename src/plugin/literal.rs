//! Models and encoders as literals of a query.

/// The bytes of a model or encoder without the line that says what it is, which literals begin with (`labelled` in
/// python/polars_taiga/_plugin.py): Polars prints the beginning of literals.
pub fn unlabelled(bytes: &[u8]) -> &[u8] {
    let labelled = [&b"model_of_"[..], b"encoder_of_"].iter().any(|label| bytes.starts_with(label));
    let end = bytes.iter().position(|b| *b == b'\n').filter(|_| labelled);
    end.map_or(bytes, |end| &bytes[end + 1..])
}
