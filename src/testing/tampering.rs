//! Bytes that were damaged, or changed by someone who means harm.

use taiga_engine::Result;
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of an envelope with length and checksum set right; what is too short to be one stays as it is.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() < 28 {
        return bytes;
    }
    let end = bytes.len() - 8;
    bytes[12..20].copy_from_slice(&((end - 20) as u64).to_le_bytes());
    let checksum = xxh3_64(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Panics unless an empty snapshot, one with a bit flipped in any `step`-th byte, and one that is cut there are errors that name `snapshot`.
pub fn damage_is_told(bytes: &[u8], step: usize, told: impl Fn(&[u8]) -> String) {
    assert!(told(&[]).contains("the value is empty"));
    for at in (0..bytes.len()).step_by(step) {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x20;
        assert!(told(&damaged).starts_with("parameter `snapshot`: "), "byte {at}");
        assert!(told(&bytes[..at]).starts_with("parameter `snapshot`: "), "{at} bytes");
    }
}

/// Changes every byte of a snapshot's payload in four ways, with a checksum that fits, and has fits go on from there. Panics where one is refused by
/// an error that neither names `snapshot` nor contains `expected`; returns how many were refused, and how many were not.
pub fn tamper<T>(bytes: &[u8], expected: &str, fit: impl Fn(Vec<u8>) -> Result<T>) -> (usize, usize) {
    let (mut refused, mut read) = (0, 0);
    for at in 20..bytes.len() - 8 {
        for change in [1u8, 0x7F, 0x80, 0xFF] {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            match fit(sealed(changed)) {
                Ok(_) => read += 1,
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("parameter `snapshot`: ") || text.contains(expected), "byte {at}: {text}");
                    refused += 1;
                }
            }
        }
    }
    (refused, read)
}
