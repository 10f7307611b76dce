//! Parameters as JSON.

use super::memory::bounded;
use serde_json::Value;
use taiga_engine::Result;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::LinearParams;

/// The parameters of a learner, which the first byte chooses, as the JSON text behind it: read, and where they are good, told again.
pub fn params(input: &[u8]) -> bool {
    let Some((learner, text)) = input.split_first() else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    bounded("reading", text.len(), 3000, || match learner % 3 {
        0 => {
            let _ = BoostingParams::check_call(&value, false);
            again(&value, BoostingParams::from_json, BoostingParams::to_json, BoostingParams::validate)
        }
        1 => again(&value, ForestParams::from_json, ForestParams::to_json, ForestParams::validate),
        _ => {
            let _ = LinearParams::check_call(&value, true);
            again(&value, LinearParams::from_json, LinearParams::to_json, LinearParams::validate)
        }
    })
}

fn again<P>(value: &Value, read: fn(&Value) -> Result<P>, write: fn(&P) -> Value, validate: fn(&P) -> Result<()>) -> bool {
    let params = match read(value) {
        Ok(params) => params,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.each().is_empty());
            return false;
        }
    };
    validate(&params).expect("what was read is valid");
    let written = write(&params);
    assert_eq!(write(&read(&written).expect("what was written is read")), written);
    true
}
