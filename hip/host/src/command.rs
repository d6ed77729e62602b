//! What a stream's queue holds: a launch, a copy, a fill, a call into the program, a time stamp, a wait, a whole graph. A command
//! owns everything it needs, so that it outlives the call that submitted it and can be kept in a graph.

use crate::exec;
use crate::graph::Executable;
use crate::memory::{self, Place};
use crate::module::Function;
use crate::module_abi::Dim;
use crate::stream::Stream;
use crate::task::Task;
use crate::{checked, clock, report};
use hip_abi::{hipError_t, hipHostFn_t};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// One entry of a queue.
#[derive(Clone)]
// The launch is the big one and also the frequent one: boxing it would cost each launch an allocation.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Command {
    Launch(Launch),
    Copy(Copy),
    Fill(Fill),
    Call { function: hipHostFn_t, data: Address },
    Task(Arc<Task>),
    Stamp(Arc<AtomicU64>),
    Wait(Arc<Stream>, u64),
    WaitAll(Vec<(Arc<Stream>, u64)>),
    Graph(Arc<Executable>),
}

/// An address that travels between threads; whoever submitted the command answers for what lies there.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub *mut c_void);

// SAFETY: only a number until the command runs; then HIP's contract makes the caller keep the memory alive and unshared.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Command {
    /// Does it. The error is that of a kernel which failed.
    pub fn execute(&self, device: usize) -> Result<(), hipError_t> {
        match self {
            Self::Launch(launch) => return exec::run(device, launch),
            Self::Copy(copy) => return copy.execute(),
            Self::Fill(fill) => return fill.execute(),
            // SAFETY: the caller of hipLaunchHostFunc promised that the function may be called with this pointer.
            Self::Call { function, data } => unsafe { function(data.0) },
            Self::Task(task) => return task.execute(),
            Self::Stamp(time) => time.store(clock::now(), Ordering::Release),
            Self::Wait(stream, ticket) => stream.wait_for(*ticket),
            Self::WaitAll(waits) => waits.iter().for_each(|(stream, ticket)| stream.wait_for(*ticket)),
            Self::Graph(graph) => return graph.execute(),
        }
        Ok(())
    }
}

/// A kernel with its geometry and packed arguments.
#[derive(Clone)]
pub(crate) struct Launch {
    pub function: Arc<Function>,
    pub grid: Dim,
    pub block: Dim,
    pub shared_bytes: u32,
    pub arguments: Arguments,
}

/// 256 bytes hold a kernel's pointers together with the shapes and strides of three tensors.
const INLINE_WORDS: usize = 32;

/// Packed kernel arguments, aligned to 16 bytes; small ones without an allocation.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)] // as above
pub(crate) enum Arguments {
    Inline(InlineWords),
    Boxed(Box<[Word]>),
}

/// Sixteen bytes, so that vector arguments are aligned.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Word([u64; 2]);

#[derive(Clone)]
#[repr(C, align(16))]
pub(crate) struct InlineWords([u64; INLINE_WORDS]);

impl Arguments {
    /// Room for `bytes`, filled by `write`, which gets the start.
    pub fn pack<E>(bytes: usize, write: impl FnOnce(*mut u8) -> Result<(), E>) -> Result<Self, E> {
        if bytes <= INLINE_WORDS * 8 {
            let mut words = InlineWords([0; INLINE_WORDS]);
            write(words.0.as_mut_ptr().cast())?;
            return Ok(Self::Inline(words));
        }
        let mut words = vec![Word([0; 2]); bytes.div_ceil(16)].into_boxed_slice();
        write(words.as_mut_ptr().cast())?;
        Ok(Self::Boxed(words))
    }

    /// Where they start.
    pub fn as_ptr(&self) -> *const c_void {
        match self {
            Self::Inline(words) => words.0.as_ptr().cast(),
            Self::Boxed(words) => words.as_ptr().cast(),
        }
    }
}

/// Rows of bytes from one place to another; a plain copy has one row.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub dst: Address,
    pub dst_pitch: usize,
    pub src: Address,
    pub src_pitch: usize,
    pub row_bytes: usize,
    pub rows: usize,
    /// What [`Copy::places`] said at submission.
    pub expected: (Place, Place),
}

impl Copy {
    /// What the target and the source are; an error when one leaves its allocation.
    pub fn places(&self) -> Result<(Place, Place), hipError_t> {
        let place = |Address(start): Address, pitch: usize| {
            let before_last = pitch.checked_mul(self.rows.saturating_sub(1));
            let span = before_last.and_then(|before| before.checked_add(self.row_bytes));
            memory::place(start as usize, span.ok_or(hipError_t::hipErrorInvalidValue)?)
        };
        Ok((place(self.dst, self.dst_pitch)?, place(self.src, self.src_pitch)?))
    }

    fn execute(&self) -> Result<(), hipError_t> {
        // A graph may be launched after a buffer of its copies was freed. Host memory may have been pinned or unpinned meanwhile.
        let on_device = |(dst, src)| (dst == Place::Device, src == Place::Device);
        if self.places().map(on_device) != Ok(on_device(self.expected)) {
            return Err(report::file_command("copy", self.dst.0 as usize));
        }
        let arena = checked::arena();
        for row in 0..self.rows {
            let dst = self.dst.0.wrapping_byte_add(row * self.dst_pitch).cast::<u8>();
            let src = self.src.0.wrapping_byte_add(row * self.src_pitch).cast::<u8>();
            // SAFETY: device ranges lie inside live allocations, and freeing waits for the queue; host ranges are the caller's
            // promise. `copy` allows the two to overlap.
            unsafe { std::ptr::copy(src, dst, self.row_bytes) };
            if let Some(arena) = arena {
                arena.copied(dst as usize, src as usize, self.row_bytes);
            }
        }
        Ok(())
    }
}

/// A pattern of 1, 2 or 4 bytes, repeated.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    pub dst: Address,
    pub pattern: Pattern,
    pub count: usize,
}

/// The unit of a [`Fill`].
#[derive(Clone, Copy)]
pub(crate) enum Pattern {
    Byte(u8),
    Half(u16),
    Word(u32),
}

impl Pattern {
    pub fn bytes(self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Half(_) => 2,
            Self::Word(_) => 4,
        }
    }
}

impl Fill {
    fn execute(&self) -> Result<(), hipError_t> {
        let Self { dst: Address(dst), count, .. } = *self;
        if !matches!(memory::place(dst as usize, count * self.pattern.bytes()), Ok(Place::Device | Place::Pinned)) {
            return Err(report::file_command("fill", dst as usize));
        }
        // SAFETY: the range lies inside a live allocation, aligned to the pattern, and freeing waits for the queue.
        unsafe {
            match self.pattern {
                Pattern::Byte(value) => std::ptr::write_bytes(dst.cast::<u8>(), value, count),
                Pattern::Half(value) => std::slice::from_raw_parts_mut(dst.cast::<u16>(), count).fill(value),
                Pattern::Word(value) => std::slice::from_raw_parts_mut(dst.cast::<u32>(), count).fill(value),
            }
        }
        if let Some(arena) = checked::arena() {
            arena.written(dst as usize, count * self.pattern.bytes());
        }
        Ok(())
    }
}
