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
    /// One of the above, where the rows are at fault and not the call: of several tables that are fitted alike, others may do.
    #[error("{error}")]
    Rows { fault: RowsFault, error: Box<Error> },
    /// A GPU, by its number, does not do the work it was given.
    #[error("GPU cuda:{number}: {message}")]
    Device { number: u32, fault: DeviceFault, message: String },
    /// The caller asked to stop (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

/// What about its rows makes a table one that no model can be fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsFault {
    /// They are too few, too alike, or of no weight; a constant can still be fitted where a row counts at all.
    Degenerate,
    /// They hold values that can't be fitted: a target that is missing, a negative weight, numbers beyond what floats hold.
    Values,
}

/// What keeps a GPU from doing the work it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// It has not the room: device memory, host memory that it reads from, the shared memory of a block, or numbers for so many rows.
    Memory,
    /// This process can't use it any more, because other work that failed took the process's context along.
    Unavailable,
    /// The work itself failed: an access outside of memory, a kernel that does not end, a defect of the hardware.
    Failed,
}

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns the candidate that `name` was probably meant to be, if any is near: one slip, and one more for every five letters.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |c: &str| 1 + c.chars().count().min(name.chars().count()) / 5;
    // A distance takes time and memory by the product of the lengths, and is at least their difference.
    let len = name.chars().count();
    let alike = candidates.filter(|c| c.chars().count().abs_diff(len) <= slips(c));
    let near = alike.map(|c| (strsim::damerau_levenshtein(c, name), c)).filter(|(distance, c)| *distance <= slips(c));
    near.min_by_key(|(distance, _)| *distance).map(|(_, c)| c)
}

/// Returns a heading and a line for each error.
fn several(errors: &[Error]) -> String {
    errors.iter().fold(format!("{} parameters are wrong:", errors.len()), |text, error| format!("{text}\n- {error}"))
}

impl Error {
    /// Makes the error of a parameter with a value that it can't have.
    pub fn parameter(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Parameter { name: name.into(), message: message.into() }
    }

    /// Makes one error of all that is wrong: nothing, the only one itself, or [`Error::Several`].
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

    /// Returns the errors that it consists of: itself, unless there are several.
    pub fn each(&self) -> &[Error] {
        match self {
            Error::Several(errors) => errors,
            single => std::slice::from_ref(single),
        }
    }

    /// Makes the error of a column that is missing, or holds what it can't hold.
    pub fn column(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Column { name: name.into(), message: message.into() }
    }

    /// This error, of rows that are too few, too alike or of no weight.
    pub fn degenerate(self) -> Self {
        Error::Rows { fault: RowsFault::Degenerate, error: Box::new(self) }
    }

    /// This error, of values that can't be fitted.
    pub fn of_values(self) -> Self {
        Error::Rows { fault: RowsFault::Values, error: Box::new(self) }
    }

    /// This error, of what its rows are at fault for; itself where they are not.
    pub fn with_rows_fault(self, fault: Option<RowsFault>) -> Self {
        match fault {
            None => self,
            Some(fault) => Error::Rows { fault, error: Box::new(self) },
        }
    }

    /// This error, of one part of the work: what says what is wrong with rows says in which part.
    pub fn within(self, part: &str) -> Self {
        match self {
            Error::Column { name, message } => Error::Column { name, message: format!("in {part}: {message}") },
            Error::Data(text) => Error::Data(format!("{part}: {text}")),
            Error::Rows { fault, error } => Error::Rows { fault, error: Box::new(error.within(part)) },
            other => other,
        }
    }

    /// Returns what the rows are at fault for; none where the call, the device or the memory is.
    pub fn rows_fault(&self) -> Option<RowsFault> {
        match self {
            Error::Rows { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// Makes the error of a GPU that failed, or of work on it that did.
    pub fn device(number: u32, message: impl Into<String>) -> Self {
        Error::Device { number, fault: DeviceFault::Failed, message: message.into() }
    }

    /// Makes the error of a GPU that has not the memory for its work.
    pub fn device_memory(number: u32, message: impl std::fmt::Display) -> Self {
        Error::Device { number, fault: DeviceFault::Memory, message: format!("not enough memory: {message}") }
    }

    /// Returns whether a GPU is short of memory, and nothing is wrong with the work.
    pub fn is_device_memory(&self) -> bool {
        matches!(self, Error::Device { fault: DeviceFault::Memory, .. })
    }

    /// Returns whether the CPU can do the work that a GPU does not do. Not where the work itself failed: whatever is wrong there
    /// is to be known.
    pub fn leaves_it_to_the_cpu(&self) -> bool {
        matches!(self, Error::Device { fault: DeviceFault::Memory | DeviceFault::Unavailable, .. })
    }
}
