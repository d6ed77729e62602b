//! Launches of AMD's machine code: the hidden arguments that a runtime fills in, the device's memory as the emulator asks for it,
//! and its failures as reports and error codes.

use super::order::Order;
use crate::code::AmdEntry;
use crate::command::Launch;
use crate::{checked, memory, report};
use hip_abi::hipError_t;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

thread_local! {
    static WORKER: RefCell<vgpu::Worker> = RefCell::new(vgpu::Worker::new());
}

/// A launch with everything that its blocks need.
pub(crate) struct Emulated {
    launch: vgpu::Launch,
    memory: Live,
    /// What all threads counted, where somebody asked for it.
    counters: Option<Mutex<vgpu::Counters>>,
    /// The arguments with the hidden ones filled in; 64-byte words, as a queue's kernarg memory is aligned.
    _arguments: Box<[Line]>,
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// The process's device and pinned memory, and the arguments of this launch.
struct Live {
    arguments: vgpu::Span,
}

// SAFETY: what the registry lists is allocated and stays so while commands that use it run, by HIP's contract; no Rust reference
// to it is held meanwhile. The arguments belong to the launch and are only read.
unsafe impl vgpu::Memory for Live {
    fn find(&self, address: u64) -> Option<vgpu::Span> {
        if self.arguments.contains(address, 1) {
            return Some(self.arguments);
        }
        let found = memory::find(address as usize)?;
        let start = found.address as u64;
        let end = start + found.bytes as u64;
        Some(match checked::arena().filter(|arena| arena.contains(found.address)) {
            // The arena has whole words, as a card has; the shadow says where the buffer ends.
            Some(arena) => {
                let shadow = arena.shadow_of(found.address);
                vgpu::Span { start, end: end.next_multiple_of(4), writable: true, shadow }
            }
            None => vgpu::Span { start, end, writable: true, shadow: std::ptr::null_mut() },
        })
    }

    fn describe(&self, address: u64) -> String {
        report::whereabouts(address as usize, 1)
    }
}

impl Emulated {
    pub fn new(entry: &AmdEntry, launch: &Launch, order: Order, count: bool) -> Result<Self, hipError_t> {
        let bytes = launch.function.entry.args_bytes();
        let mut arguments = vec![Line([0; 64]); bytes.div_ceil(64).max(1)].into_boxed_slice();
        let start: *mut u8 = arguments.as_mut_ptr().cast();
        // SAFETY: both have `bytes` bytes.
        unsafe { std::ptr::copy_nonoverlapping(launch.arguments.as_ptr().cast::<u8>(), start, bytes) };
        let (grid, block) = (launch.grid, launch.block);
        let (grid, block) = ([grid.x, grid.y, grid.z], [block.x, block.y, block.z]);
        // SAFETY: the lines are this function's own, and that long.
        let all = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        entry.kernel.fill_hidden(all, grid, block, launch.shared_bytes);
        let made = vgpu::Launch::new(&entry.kernel, grid, block, launch.shared_bytes, start as u64)
            .map_err(|failure| file(&failure, order))?;
        let options = vgpu::Options { count, ..super::emulator_options(order) };
        let span = vgpu::Span {
            start: start as u64,
            end: start as u64 + (arguments.len() * 64) as u64,
            writable: false,
            shadow: std::ptr::null_mut(),
        };
        Ok(Self {
            launch: made.with_options(options),
            memory: Live { arguments: span },
            counters: count.then(Mutex::default),
            _arguments: arguments,
        })
    }

    /// Runs a range of blocks, places in the grid's order.
    pub fn run_blocks(&self, blocks: Range<u64>, all: u64, order: Order) -> Result<(), hipError_t> {
        WORKER.with_borrow_mut(|worker| {
            let outcome = { blocks }.try_for_each(|place| {
                let block = self.launch.block_at(order.at(place, all));
                self.launch.run_block(block, worker, &self.memory).map_err(|failure| file(&failure, order))
            });
            if let Some(counters) = &self.counters {
                counters.lock().unwrap_or_else(PoisonError::into_inner).add(&worker.take_counters());
            }
            outcome
        })
    }

    /// What was counted.
    pub fn counters(self) -> vgpu::Counters {
        let counters = self.counters.unwrap_or_default();
        counters.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files a report and gives the code that stands for it, as AMD's runtime would.
fn file(failure: &vgpu::Failure, order: Order) -> hipError_t {
    use vgpu::Cause;
    report::keep(format!("{failure}{}", report::how_to_repeat(order)));
    match failure.cause {
        Cause::Memory | Cause::Lds | Cause::Misaligned | Cause::Jump => hipError_t::hipErrorIllegalAddress,
        Cause::Launch => hipError_t::hipErrorInvalidConfiguration,
        Cause::Limit => hipError_t::hipErrorLaunchTimeOut,
        Cause::Instruction => hipError_t::hipErrorNotSupported,
        _ => hipError_t::hipErrorLaunchFailure,
    }
}
