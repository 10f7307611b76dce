//! Parameters as models keep them, in their bytes and in JSON.
//!
//! A model of any version is read with the meaning that it was written with. So where a parameter is called or counted
//! otherwise than when the first models were written, models go on keeping it as they did:
//!
//! | kept | parameter |
//! |---|---|
//! | `bins`: the largest number of borders, of each feature too | `bins`: that of bins, one more |
//! | `trees` of boosted trees | `rounds` |

use serde_json::Value;

/// Returns parameters, as a JSON object, as a model keeps them.
///
/// ```
/// use taiga_core::params::stored::{from_stored, to_stored};
/// let params = serde_json::json!({"bins": 255, "l2": 1.0});
/// assert_eq!(to_stored(params.clone()), serde_json::json!({"bins": 254, "l2": 1.0}));
/// assert_eq!(from_stored(to_stored(params.clone()), |_| true), params);
/// ```
pub fn to_stored(mut params: Value) -> Value {
    count(&mut params, |bins| bins.saturating_sub(1));
    rename(&mut params, "rounds", "trees");
    params
}

/// Returns parameters of what a model keeps of them: the reverse of [`to_stored`], for a learner that has the
/// parameters of the names for which `has` is true.
pub fn from_stored(mut params: Value, has: impl Fn(&str) -> bool) -> Value {
    if has("rounds") {
        rename(&mut params, "trees", "rounds");
    }
    count(&mut params, |borders| borders.saturating_add(1));
    params
}

/// Gives a value another name, unless one of that name is there: then whoever reads them is to say so.
fn rename(params: &mut Value, from: &str, to: &str) {
    if let Some(object) = params.as_object_mut()
        && !object.contains_key(to)
        && let Some(value) = object.remove(from)
    {
        object.insert(to.into(), value);
    }
}

/// Counts `bins` otherwise, where they are a whole number, or some by name; what else stands there is for whoever reads it to judge.
fn count(params: &mut Value, of: impl Fn(u64) -> u64) {
    let Some(bins) = params.get_mut("bins") else { return };
    let each: Vec<&mut Value> =
        if bins.is_object() { bins.as_object_mut().into_iter().flat_map(|by_name| by_name.values_mut()).collect() } else { vec![bins] };
    for bins in each {
        if let Some(n) = bins.as_u64() {
            *bins = of(n).into();
        }
    }
}
