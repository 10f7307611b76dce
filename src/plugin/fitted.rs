//! A fitted model of any learner.

use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::forest::Forest;
use taiga_engine::learners::linear::LinearModel;
use taiga_engine::learners::{forest, linear};
use taiga_engine::provenance::Provenance;

/// The bytes of a model or encoder without the line that says what it is, which literals begin with (`labelled` in
/// python/polars_taiga/_plugin.py): Polars prints the beginning of literals.
pub fn unlabelled(bytes: &[u8]) -> &[u8] {
    let labelled = [&b"model_of_"[..], b"encoder_of_"].iter().any(|label| bytes.starts_with(label));
    let end = bytes.iter().position(|b| *b == b'\n').filter(|_| labelled);
    end.map_or(bytes, |end| &bytes[end + 1..])
}

/// What bytes turn out to be.
pub enum Fitted {
    Boosted(Model),
    Forest(Forest),
    Linear(LinearModel),
}

impl Fitted {
    /// The model of these bytes, whichever learner wrote them.
    ///
    /// # Errors
    /// For anything but the whole, undamaged bytes of a model that this build can read.
    pub fn from_bytes(bytes: &[u8]) -> taiga_engine::Result<Self> {
        if forest::envelope::is_forest(bytes) {
            return Forest::from_bytes(bytes).map(Fitted::Forest);
        }
        if linear::model::is_linear(bytes) {
            return LinearModel::from_bytes(bytes).map(Fitted::Linear);
        }
        Model::from_bytes(bytes).map(Fitted::Boosted)
    }

    /// The model of a literal: [`Fitted::from_bytes`] without the label.
    ///
    /// # Errors
    /// As [`Fitted::from_bytes`].
    pub fn from_literal(bytes: &[u8]) -> taiga_engine::Result<Self> {
        Self::from_bytes(unlabelled(bytes))
    }

    /// The learner's name.
    pub fn learner(&self) -> &'static str {
        match self {
            Fitted::Boosted(_) => "gbdt",
            Fitted::Forest(_) => "forest",
            Fitted::Linear(_) => "sparse_lr",
        }
    }

    /// The whole model as JSON text.
    ///
    /// # Errors
    /// For a linear model whose text would be many times its size.
    pub fn json_text(&self) -> taiga_engine::Result<String> {
        match self {
            Fitted::Boosted(m) => m.json_text(),
            Fitted::Forest(m) => m.json_text(),
            Fitted::Linear(m) => m.json_text(),
        }
    }

    /// The parameters as JSON.
    pub fn params(&self) -> serde_json::Value {
        match self {
            Fitted::Boosted(m) => m.params.to_json(),
            Fitted::Forest(m) => m.params.to_json(),
            Fitted::Linear(m) => m.params.to_json(),
        }
    }

    /// The target's name.
    pub fn target(&self) -> &str {
        match self {
            Fitted::Boosted(m) => &m.target,
            Fitted::Forest(m) => &m.target,
            Fitted::Linear(m) => &m.target,
        }
    }

    /// Name and type of each column that it reads.
    pub fn columns(&self) -> Vec<(String, String)> {
        let own = |features: &[taiga_engine::model::Feature]| features.iter().map(|f| (f.name.clone(), f.dtype.to_string())).collect();
        match self {
            Fitted::Boosted(m) => own(&m.features),
            Fitted::Forest(m) => own(&m.features),
            Fitted::Linear(m) => {
                let lists = m.sparse.iter().flat_map(|sparse| {
                    let features = match sparse.numbering {
                        linear::model::Numbering::Numbers { .. } => "list of integers",
                        linear::model::Numbering::Hashed { .. } => "list of strings",
                    };
                    let values = sparse.values.iter().map(|name| (name.clone(), "list of numbers".to_string()));
                    std::iter::once((sparse.column.clone(), features.to_string())).chain(values)
                });
                lists.chain(m.dense.iter().map(|d| (d.name.clone(), d.dtype.to_string()))).collect()
            }
        }
    }

    /// Where its classes and columns come from.
    pub fn provenance(&self) -> &Provenance {
        match self {
            Fitted::Boosted(m) => &m.provenance,
            Fitted::Forest(m) => &m.provenance,
            Fitted::Linear(m) => &m.provenance,
        }
    }

    /// A classifier's labels.
    pub fn labels(&self) -> Option<&Labels> {
        match self {
            Fitted::Boosted(m) => m.labels.as_ref(),
            Fitted::Forest(m) => m.labels.as_ref(),
            Fitted::Linear(m) => Some(&m.labels),
        }
    }

    /// The number of values that it predicts for a row; one for two classes.
    pub fn outputs(&self) -> usize {
        match self {
            Fitted::Boosted(m) => m.outputs(),
            Fitted::Forest(m) if m.outputs() == 2 => 1,
            Fitted::Forest(m) => m.outputs(),
            Fitted::Linear(m) => m.outputs(),
        }
    }

    /// The number of training rows.
    pub fn rows(&self) -> u64 {
        match self {
            Fitted::Boosted(m) => m.rows,
            Fitted::Forest(m) => m.rows,
            Fitted::Linear(m) => m.rows,
        }
    }
}
