//! A model's bytes: magic, format version, payload, checksum.
use super::Model;
use crate::error::Result;

impl Model {
    /// The model's bytes; equal models have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        unimplemented!()
    }

    /// The model of these bytes.
    ///
    /// # Errors
    /// For anything that is not the whole, undamaged model of a version this build can read.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        let _ = bytes;
        unimplemented!()
    }
}
