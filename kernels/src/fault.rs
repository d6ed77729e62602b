//! Bad input that only a kernel can see. A kernel writes the first case into three words of device memory
//! (`hip/portable/fault.h`) and carries on harmlessly; the host looks when it waits for the device anyway.

use hip::{Buffer, DevicePtr, Error, Result, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a code in the fault word means: the operation as Candle names it.
const OPERATIONS: [&str; 10] = [
    "",
    "index-select",
    "gather",
    "scatter",
    "scatter-add",
    "index-add",
    "div",
    "embedding",
    "experts",
    "experts (slots)",
];
const DIVISION: u64 = 6;

/// The fault word of a device.
#[derive(Debug)]
pub struct Faults {
    word: Mutex<Buffer<u64>>,
    address: DevicePtr<u64>,
    /// Set when a kernel that can report has been launched since the last look: nothing else needs a look.
    suspect: AtomicBool,
}

impl Faults {
    /// A clear fault word.
    pub fn new(stream: &Stream) -> Result<Self> {
        let word = stream.zeros(3)?;
        // Kernels on other streams may report into it before this stream has run.
        stream.synchronize()?;
        let address = word.ptr();
        Ok(Self { word: Mutex::new(word), address, suspect: AtomicBool::new(false) })
    }

    /// The address for a kernel that can report.
    pub fn arm(&self) -> DevicePtr<u64> {
        self.suspect.store(true, Ordering::Release);
        self.address
    }

    /// The address for a kernel that takes it and never reports.
    pub fn address(&self) -> DevicePtr<u64> {
        self.address
    }

    /// The first fault of the kernels that ran on `stream` since the last look, as an error; the word is clear again
    /// after that. Waits for the stream only if a kernel that can report was launched.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        if !self.suspect.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.suspect.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        word.stream().wait_for(stream)?;
        let seen = word.to_vec()?;
        let [code, value, bound] = seen[..] else { return Ok(()) };
        if code == 0 {
            return Ok(());
        }
        word.zero()?;
        word.stream().synchronize()?;
        Err(Error::refused(sentence(code, value as i64, bound)))
    }
}

fn sentence(code: u64, value: i64, bound: u64) -> String {
    let operation = OPERATIONS.get(code as usize).copied().unwrap_or("an unknown operation");
    if code == DIVISION {
        return format!("{operation}: the integer {value} was divided by zero; the result of that element is 0");
    }
    format!("{operation}: index {value} is out of range for a dimension of size {bound}; that element was left out")
}
