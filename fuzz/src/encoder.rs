//! Bytes of target encoders.

use super::memory::bounded;
use super::sealed;
use taiga_engine::encoding::TargetEncoder;

/// Bytes of a target encoder: read, and where they are one, applied and written again.
pub fn encoder(input: &[u8]) -> bool {
    let bytes = sealed(b"TE", input);
    let Ok(encoder) = bounded("reading", bytes.len(), 100, || TargetEncoder::from_bytes(&bytes)) else { return false };
    bounded("applying", bytes.len(), 100, || {
        for (at, column) in encoder.columns().iter().enumerate() {
            let (lookup, n) = (column.lookup(), column.lookup().categories().len() as u32);
            let mut codes = vec![0, n, n / 2].into_iter().filter(|c| *c <= n).collect::<Vec<u32>>();
            lookup.extend_texts(["", "a", "b"].map(Some).into_iter().chain([None]), n, &mut codes);
            lookup.extend_integers([0, 1, -1, i128::MIN].map(Some).into_iter().chain([None]), n, &mut codes);
            codes.extend([lookup.boolean(true).unwrap_or(n), lookup.boolean(false).unwrap_or(n)]);
            for output in 0..encoder.outputs().min(3) {
                assert!(encoder.values(at, &codes, output).iter().all(|v| v.is_finite()));
            }
            (0..n.min(3)).for_each(|code| drop(lookup.categories().name(code)));
        }
        let again = encoder.to_bytes();
        assert!(TargetEncoder::from_bytes(&again).expect("what was written is read").to_bytes() == again);
        assert!(encoder.computed().len() <= encoder.columns().len());
    });
    true
}
