//! What went wrong, as a sentence: HIP's name of the error, the call that returned it, and what the caller was doing.
//! Every fallible function of this crate returns [`Error`]; nothing here talks to a device.

use hip_abi::{hipError_t, hiprtcResult};
use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with enough around it to act on. It is one pointer wide.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    doing: String,
    detail: Option<String>,
    deferred: bool,
}

#[derive(Clone)]
enum Kind {
    Hip { code: hipError_t, call: &'static str },
    Rtc { code: hiprtcResult, call: &'static str },
    Refused,
}

impl Error {
    /// The HIP runtime returned `code` from `call` while the caller was `doing` something.
    pub fn hip(code: hipError_t, call: &'static str, doing: impl Into<String>) -> Self {
        Self::new(Kind::Hip { code, call }, doing.into())
    }

    /// The run-time compiler returned `code` from `call`.
    pub(crate) fn rtc(code: hiprtcResult, call: &'static str, doing: impl Into<String>) -> Self {
        Self::new(Kind::Rtc { code, call }, doing.into())
    }

    /// This crate refuses the request; `sentence` says why and what to do.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Refused, sentence.into())
    }

    fn new(kind: Kind, doing: String) -> Self {
        Self(Box::new(Inner { kind, doing, detail: None, deferred: false }))
    }

    /// Adds what more is known: a compiler's log, the report of the embedded device, the limits that were exceeded.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        self.0.detail = Some(match self.0.detail.take() {
            Some(before) => format!("{before}\n{detail}"),
            None => detail,
        });
        self
    }

    /// Marks an error that happened while something was dropped, and comes out at a later call.
    pub(crate) fn deferred(mut self) -> Self {
        self.0.deferred = true;
        self
    }

    /// True when the error happened earlier, while something was dropped, and this call only reports it.
    pub fn is_deferred(&self) -> bool {
        self.0.deferred
    }

    /// HIP's code, when the HIP runtime returned one.
    pub fn code(&self) -> Option<hipError_t> {
        match self.0.kind {
            Kind::Hip { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The name of the error as its library spells it, such as `hipErrorOutOfMemory`.
    pub fn name(&self) -> Option<&'static str> {
        match self.0.kind {
            Kind::Hip { code, .. } => Some(code.name()),
            Kind::Rtc { code, .. } => Some(code.name()),
            Kind::Refused => None,
        }
    }

    /// The C function that failed, such as `hipMalloc`.
    pub fn call(&self) -> Option<&'static str> {
        match self.0.kind {
            Kind::Hip { call, .. } | Kind::Rtc { call, .. } => Some(call),
            Kind::Refused => None,
        }
    }

    /// What more is known: a compiler's log, or the report of the embedded device.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// True when the device had not enough memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.code() == Some(hipError_t::hipErrorOutOfMemory)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, doing, detail, deferred } = &*self.0;
        if *deferred {
            write!(f, "earlier, while something was being dropped: ")?;
        }
        match kind {
            Kind::Hip { code, call } => write!(f, "{doing}: {call} returned {code}: {}", code.explanation())?,
            Kind::Rtc { code, call } => write!(f, "{doing}: {call} returned {code}")?,
            Kind::Refused => write!(f, "{doing}")?,
        }
        match detail {
            Some(detail) => write!(f, "\n{detail}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}

impl From<hip_abi::LoadError> for Error {
    fn from(error: hip_abi::LoadError) -> Self {
        Self::refused(error.to_string())
    }
}

/// The bytes of something, as a person reads them.
pub(crate) fn human_bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why() {
        let error = Error::hip(hipError_t::hipErrorOutOfMemory, "hipMalloc", "allocating 4.0 GiB");
        let text = error.to_string();
        assert_eq!(
            text,
            "allocating 4.0 GiB: hipMalloc returned hipErrorOutOfMemory (2): the device has not enough free memory"
        );
        assert!(error.is_out_of_memory());
        assert!(error.deferred().to_string().starts_with("earlier"));
    }

    #[test]
    fn bytes_read_well() {
        assert_eq!(human_bytes(17), "17 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(5 << 30), "5.0 GiB");
    }
}
