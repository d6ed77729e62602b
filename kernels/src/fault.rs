//! Bad input that only a kernel can see. A kernel writes the first case into three words of device memory
//! (`hip/portable/fault.h`) and carries on harmlessly; the host looks when it waits for the device anyway.

use hip::{Buffer, DevicePtr, Error, Result, Stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// The fault words of a device: one for each stream, so that nobody is told what went wrong in the work of another.
#[derive(Debug)]
pub struct Faults {
    /// For launches in a capture, whose graph may run on any stream.
    captured: Word,
    streams: Mutex<Vec<Word>>,
}

/// Where the kernels of a stream report.
#[derive(Clone, Debug)]
struct Word {
    stream: Stream,
    memory: Arc<Mutex<Buffer<u64>>>,
    address: DevicePtr<u64>,
    /// Set when a kernel that can report has been launched since the last look: nothing else needs a look.
    suspect: Arc<AtomicBool>,
}

impl Word {
    /// A clear one.
    fn new(stream: &Stream) -> Result<Self> {
        let memory = stream.zeros(3)?;
        let address = memory.ptr();
        Ok(Self { stream: stream.clone(), memory: Arc::new(Mutex::new(memory)), address, suspect: Arc::default() })
    }

    fn arm(&self) -> DevicePtr<u64> {
        self.suspect.store(true, Ordering::Release);
        self.address
    }

    fn check(&self, stream: &Stream) -> Result<()> {
        if !self.suspect.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut word = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Whether anybody has the stream but the word and its memory.
    fn is_in_use(&self) -> bool {
        self.stream.holders() > 2
    }
}

impl Faults {
    /// Clear fault words.
    pub fn new(stream: &Stream) -> Result<Self> {
        let captured = Word::new(stream)?;
        // Kernels on other streams may report into it before this stream has run.
        stream.synchronize()?;
        Ok(Self { captured, streams: Mutex::default() })
    }

    /// The address for a kernel on `stream` that can report.
    pub fn arm(&self, stream: &Stream) -> Result<DevicePtr<u64>> {
        if stream.is_capturing() {
            return Ok(self.captured.arm());
        }
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = streams.iter().find(|word| word.stream == *stream) {
            return Ok(word.arm());
        }
        let word = Word::new(stream)?;
        let address = word.arm();
        streams.retain(Word::is_in_use);
        streams.push(word);
        Ok(address)
    }

    /// The address for a kernel that takes it and never reports.
    pub fn address(&self) -> DevicePtr<u64> {
        self.captured.address
    }

    /// The first fault of the kernels that ran on `stream` since the last look, as an error; its word is clear again
    /// after that. Waits for the stream only if a kernel that can report was launched.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let own = streams.iter().find(|word| word.stream == *stream).cloned();
        drop(streams);
        own.map_or(Ok(()), |word| word.check(stream))?;
        self.captured.check(stream)
    }
}

fn sentence(code: u64, value: i64, bound: u64) -> String {
    let operation = OPERATIONS.get(code as usize).copied().unwrap_or("an unknown operation");
    if code == DIVISION {
        return format!("{operation}: the integer {value} was divided by zero; the result of that element is 0");
    }
    format!("{operation}: index {value} is out of range for a dimension of size {bound}; that element was left out")
}
