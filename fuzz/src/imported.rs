//! Files of other libraries' models.

use super::memory::{bounded, bounded_above};
use super::models::apply_boosted;
use taiga_engine::import::{Imported, Told, import};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::forest::Forest;

/// The bytes that a file of any size may come to: of features without names as many as a fit can have had are taken at their word.
const UNNAMED: usize = 64 << 20;

/// The most bytes held for each byte of a file: JSON has two for a number and a comma, of which nodes of some hundred bytes are made, and
/// these may be copied.
const READ: usize = 2000;

/// A file of another library: read, and where it is a model, applied, written and read again.
pub fn imported(input: &[u8]) -> bool {
    let told = Told::default();
    match bounded_above(UNNAMED, "importing", input.len(), READ, || import(input, told)) {
        Err(_) => return false,
        Ok(Imported::Boosted(model)) => {
            let bytes = model.to_bytes();
            assert!(Model::from_bytes(&bytes).expect("what was written is read").to_bytes() == bytes);
            // Rows of all its columns and outputs are long where there are many.
            if model.features.len() * model.outputs() < 1 << 10 {
                bounded("applying", bytes.len(), READ, || apply_boosted(&model));
            }
        }
        Ok(Imported::Forest(model)) => {
            let bytes = model.to_bytes();
            assert!(Forest::from_bytes(&bytes).expect("what was written is read").to_bytes() == bytes);
        }
    }
    true
}
