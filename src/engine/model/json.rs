//! A model as JSON, to read and to take elsewhere.
use super::Model;

impl Model {
    /// The whole model as a JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        unimplemented!()
    }
}
