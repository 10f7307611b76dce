//! Parsed models, kept for the next morsel of the same query.

use crate::errors;
use polars::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use taiga_engine::model::Model;
use taiga_engine::model::apply::Predictor;
use xxhash_rust::xxh3::xxh3_64;

/// What is kept at most: models, and bytes of theirs.
const MODELS: usize = 64;
const BYTES: usize = 64 << 20;

struct Entry {
    hash: u64,
    bytes: Box<[u8]>,
    predictor: Arc<Predictor>,
}

/// The last used first.
static CACHE: Mutex<VecDeque<Entry>> = Mutex::new(VecDeque::new());

/// The predictor of a model's bytes, parsed if they are not among the last used ones. Bytes are
/// found by their hash and then compared whole.
pub fn predictor(bytes: &[u8]) -> PolarsResult<Arc<Predictor>> {
    let hash = xxh3_64(bytes);
    let find = |cache: &mut VecDeque<Entry>| {
        let at = cache.iter().position(|e| e.hash == hash && *e.bytes == *bytes)?;
        let entry = cache.remove(at)?;
        let predictor = entry.predictor.clone();
        cache.push_front(entry);
        Some(predictor)
    };
    if let Some(found) = find(&mut CACHE.lock().unwrap_or_else(|e| e.into_inner())) {
        return Ok(found);
    }
    // Parsed outside the lock; two threads that do it at once do it twice.
    let predictor = Arc::new(Predictor::new(Model::from_bytes(bytes).map_err(errors::compute)?));
    if bytes.len() <= BYTES / 4 {
        let mut cache = CACHE.lock().unwrap_or_else(|e| e.into_inner());
        if find(&mut cache).is_none() {
            cache.push_front(Entry { hash, bytes: bytes.into(), predictor: predictor.clone() });
        }
        while cache.len() > MODELS || cache.iter().map(|e| e.bytes.len()).sum::<usize>() > BYTES {
            cache.pop_back();
        }
    }
    Ok(predictor)
}
