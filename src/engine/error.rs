//! What can go wrong, in words that name the parameter or the column.

/// An error of the engine. Its text names the parameter or the column, the value and what was
/// expected, because it is what the user of the query reads.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A parameter has a value it can't have.
    #[error("parameter `{name}`: {message}")]
    Parameter { name: String, message: String },
    /// A parameter that does not exist; `hint` goes on with what was probably meant, and is empty where nobody knows.
    #[error("there is no parameter `{name}`{hint}")]
    UnknownParameter { name: String, hint: String },
    /// Several parameters are wrong: at least two errors of the two kinds above.
    #[error("{}", several(.0))]
    Several(Vec<Error>),
    /// A column holds what it can't hold, or is missing.
    #[error("column `{name}`: {message}")]
    Column { name: String, message: String },
    /// The table as a whole can't be used.
    #[error("{0}")]
    Data(String),
    /// Bytes that are not a model of this version, or a damaged one.
    #[error("model: {0}")]
    Model(String),
    /// Bytes that are not an encoder of this version, or a damaged one.
    #[error("encoder: {0}")]
    Encoder(String),
    /// The work would not fit in memory.
    #[error("not enough memory: {0}")]
    Memory(String),
    /// A GPU, by its number, or the work it was given, failed.
    #[error("GPU cuda:{number}: {message}")]
    Device { number: u32, message: String },
    /// The caller asked to stop (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The candidate that `name` was probably meant to be, if any is near: one slip, and one more for every five letters.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |c: &str| 1 + c.chars().count().min(name.chars().count()) / 5;
    let near = candidates.map(|c| (strsim::damerau_levenshtein(c, name), c)).filter(|(distance, c)| *distance <= slips(c));
    near.min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

/// A heading and a line for each error.
fn several(errors: &[Error]) -> String {
    errors.iter().fold(format!("{} parameters are wrong:", errors.len()), |text, error| format!("{text}\n- {error}"))
}

impl Error {
    /// A parameter has a value it can't have.
    pub fn parameter(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Parameter { name: name.into(), message: message.into() }
    }

    /// All that is wrong as one error: nothing, the only one itself, or [`Error::Several`].
    ///
    /// # Errors
    /// If there are any.
    pub fn all(mut errors: Vec<Error>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Several(errors)),
        }
    }

    /// The errors that it consists of: itself, unless there are several.
    pub fn each(&self) -> &[Error] {
        match self {
            Error::Several(errors) => errors,
            single => std::slice::from_ref(single),
        }
    }

    /// A column holds what it can't hold, or is missing.
    pub fn column(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Column { name: name.into(), message: message.into() }
    }

    /// A GPU, or the work it was given, failed.
    pub fn device(number: u32, message: impl Into<String>) -> Self {
        Error::Device { number, message: message.into() }
    }
}
