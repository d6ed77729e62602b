//! Bad input that only a kernel can see. A kernel writes the first case into three words of device memory
//! (`hip/portable/fault.h`) and carries on harmlessly; the host looks when it waits for the device anyway.
//!
//! Each stream carries words of its own, so that nobody is told what went wrong in the work of another. Kernels in a capture
//! report into words of the device's, because their graph may run on any stream.

use hip::{Buffer, DevicePtr, Error, Result, Stream, StreamMemory};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a code in the fault word means: the operation as Candle names it.
const OPERATIONS: [&str; 13] = [
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
    "attention (rows of sequences)",
    "attention (pages)",
    "attention (longest sequence)",
];
const DIVISION: u64 = 6;
const LONGEST_SEQUENCE: u64 = 12;

crate::shared::shared! {
    [
        "FAULT_INDEX_SELECT": code_of("index-select"),
        "FAULT_GATHER": code_of("gather"),
        "FAULT_SCATTER": code_of("scatter"),
        "FAULT_SCATTER_ADD": code_of("scatter-add"),
        "FAULT_INDEX_ADD": code_of("index-add"),
        "FAULT_DIVISION": code_of("div"),
        "FAULT_EMBEDDING": code_of("embedding"),
        "FAULT_EXPERT": code_of("experts"),
        "FAULT_ROUTE": code_of("experts (slots)"),
        "FAULT_SEQUENCE": code_of("attention (rows of sequences)"),
        "FAULT_PAGE": code_of("attention (pages)"),
        "FAULT_LONGEST": code_of("attention (longest sequence)"),
        // Three words, by the order in which `check` takes them.
        "FaultWord": 24,
        "FaultWord.code": 0,
        "FaultWord.value": 8,
        "FaultWord.bound": 16,
    ]
}

#[cfg(test)]
fn code_of(operation: &str) -> usize {
    OPERATIONS.iter().position(|name| *name == operation).expect("an operation of the list")
}

/// Code, value and bound.
const WORDS: usize = 3;

/// Where the kernels of a stream report; the stream carries it.
struct StreamFaults {
    memory: StreamMemory<u64>,
    look: Look,
}

/// Where the kernels of captures report. The graphs keep it: they may outlive the device's kernels.
#[derive(Debug)]
struct CapturedFaults {
    memory: Mutex<Buffer<u64>>,
    address: DevicePtr<u64>,
    look: Look,
}

/// Whether somebody has to look.
#[derive(Debug, Default)]
struct Look {
    /// Set when a kernel that can report has been launched since the last look: nothing else needs one.
    needed: AtomicBool,
    /// One at a time, so that a fault is told to one thread and not cleared under another.
    looking: Mutex<()>,
}

impl Look {
    /// Looks if needed. The need stays until the words have been read and, where they held a fault, cleared: a copy that fails
    /// loses nothing.
    fn at(&self, read: impl FnOnce() -> Result<Vec<u64>>, clear: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.needed.load(Ordering::Acquire) {
            return Ok(());
        }
        let _looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken back before reading: a launch that comes meanwhile sets it again.
        if !self.needed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let again = |error| {
            self.needed.store(true, Ordering::Release);
            error
        };
        let words = read().map_err(again)?;
        match words[..] {
            [code, value, bound] if code != 0 => {
                // A fault that could not be cleared is told now, and once more at the next look.
                let _told_again = clear().map_err(again);
                Err(Error::refused(sentence(code, value as i64, bound)))
            }
            _ => Ok(()),
        }
    }
}

/// The faults of a device's kernels.
#[derive(Debug)]
pub struct Faults {
    captured: Arc<CapturedFaults>,
    /// Held by every graph with a kernel that can report.
    reporting: Arc<()>,
}

impl Faults {
    /// Nothing has happened yet.
    pub fn new(stream: &Stream) -> Result<Self> {
        let memory = stream.zeros(WORDS)?;
        // Kernels on other streams may report into it before this stream has run.
        stream.synchronize()?;
        let address = memory.ptr();
        let captured = Arc::new(CapturedFaults { memory: Mutex::new(memory), address, look: Look::default() });
        Ok(Self { captured, reporting: Arc::default() })
    }

    /// The address for a kernel on `stream` that can report.
    pub fn arm(&self, stream: &Stream) -> Result<DevicePtr<u64>> {
        if stream.is_capturing() {
            stream.keep_in_capture((self.captured.clone(), self.reporting.clone()));
            self.captured.look.needed.store(true, Ordering::Release);
            return Ok(self.captured.address);
        }
        let own = stream.state(|| Ok(StreamFaults { memory: stream.state_memory(WORDS)?, look: Look::default() }))?;
        own.look.needed.store(true, Ordering::Release);
        Ok(own.memory.ptr())
    }

    /// The address for a kernel on `stream` that takes it and never reports.
    pub fn address(&self, stream: &Stream) -> DevicePtr<u64> {
        stream.keep_in_capture(self.captured.clone());
        self.captured.address
    }

    /// The first fault of the kernels that ran on `stream` since the last look, as an error; its words are clear again
    /// after that. Waits for the stream only if a kernel that can report was launched.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        // What is recorded has not run, and nothing can be read now.
        if stream.is_capturing() {
            return Ok(());
        }
        if let Some(own) = stream.state_if_any::<StreamFaults>() {
            own.look.at(|| own.memory.read(stream), || own.memory.clear(stream).and_then(|()| stream.synchronize()))?;
        }
        let captured = &self.captured;
        // A graph runs again and again: as long as one is there that can report, its next launch may.
        let graphs = Arc::strong_count(&self.reporting) > 1;
        let lock = || captured.memory.lock().unwrap_or_else(PoisonError::into_inner);
        // Told after that capture: the words are of a stream that cannot be read now.
        if lock().stream().is_capturing() {
            return Ok(());
        }
        let outcome = captured.look.at(
            || {
                let words = lock();
                words.stream().wait_for(stream)?;
                words.to_vec()
            },
            || {
                let mut words = lock();
                words.zero()?;
                words.stream().synchronize()
            },
        );
        if graphs {
            captured.look.needed.store(true, Ordering::Release);
        }
        outcome
    }
}

fn sentence(code: u64, value: i64, bound: u64) -> String {
    let operation = OPERATIONS.get(code as usize).copied().unwrap_or("an unknown operation");
    if code == DIVISION {
        return format!("{operation}: the integer {value} was divided by zero; the result of that element is 0");
    }
    if code == LONGEST_SEQUENCE {
        return format!(
            "{operation}: a sequence of {value} rows is longer than {bound}, the longest that was announced or has pages; its last rows were left out"
        );
    }
    format!("{operation}: index {value} is out of range for a dimension of size {bound}; that element was left out")
}
