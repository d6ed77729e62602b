//! What can go wrong on a ROCm device. Candle sees it as `Error::Cuda`; the sentence inside says which operation it was
//! and, where the caller can do something about it, what.

use crate::DType;

/// An error of the ROCm backend.
#[derive(thiserror::Error, Debug)]
pub enum RocmError {
    /// The HIP runtime refused or failed.
    #[error(transparent)]
    Hip(#[from] hip::Error),

    /// An operation has no kernel for a dtype.
    #[error("{op} has no ROCm kernel for {dtype:?}; cast the tensor to a dtype that has one")]
    UnsupportedDtype {
        /// The dtype that was asked for.
        dtype: DType,
        /// The operation.
        op: &'static str,
    },

    /// A storage was asked for elements of another dtype than its own.
    #[error("{msg}, expected: {expected:?}, got: {got:?}")]
    UnexpectedDType {
        /// What was being done.
        msg: &'static str,
        /// The dtype that was needed.
        expected: DType,
        /// The dtype that was found.
        got: DType,
    },

    /// An operation failed when its result was needed, and not when it was asked for.
    #[error("{op}, which was put off until its result was needed: {error}")]
    PutOff {
        /// The operation.
        op: &'static str,
        /// What happened.
        error: Box<crate::Error>,
    },

    /// A request that makes no sense, in a sentence.
    #[error("{0}")]
    Refused(String),
}

impl RocmError {
    /// Whether an error of Candle's says that a ROCm device had not enough memory.
    pub fn is_out_of_memory(error: &crate::Error) -> bool {
        match error {
            crate::Error::WithBacktrace { inner, .. } => Self::is_out_of_memory(inner),
            crate::Error::Cuda(error) => match error.downcast_ref() {
                Some(Self::Hip(error)) => error.is_out_of_memory(),
                Some(Self::PutOff { error, .. }) => Self::is_out_of_memory(error),
                _ => false,
            },
            _ => false,
        }
    }
}

impl From<RocmError> for crate::Error {
    fn from(error: RocmError) -> Self {
        crate::Error::Cuda(Box::new(error)).bt()
    }
}

/// Turns the errors of the crates below into Candle's.
pub trait WrapErr<O> {
    /// Wraps the error, with a backtrace where those are on.
    fn w(self) -> crate::Result<O>;
}

impl<O, E: Into<RocmError>> WrapErr<O> for std::result::Result<O, E> {
    fn w(self) -> crate::Result<O> {
        self.map_err(|error| error.into().into())
    }
}
