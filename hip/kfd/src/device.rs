//! A GPU's memory as the emulator asks for it.

use crate::memory::{Range, Ranges};
use crate::state::State;
use std::sync::Arc;
use vgpu::Span;

/// What kernels of one GPU may touch. It starts with what was mapped when the launch began and looks again when it misses.
pub struct DeviceMemory {
    state: &'static State,
    gpu: usize,
    ranges: Arc<Ranges>,
}

impl DeviceMemory {
    /// The memory of a GPU.
    pub fn new(state: &'static State, gpu: usize) -> Self {
        Self { state, gpu, ranges: state.memory.ranges(gpu) }
    }

    fn range(&self, address: u64) -> Option<Range> {
        self.ranges.find(address).or_else(|| self.state.memory.ranges(self.gpu).find(address))
    }
}

// SAFETY: what is mapped for a GPU stays accessible until it is unmapped, which programs may only do when no kernel uses it;
// the emulated driver holds no Rust reference to any of it.
unsafe impl vgpu::Memory for DeviceMemory {
    fn find(&self, address: u64) -> Option<Span> {
        let range = self.range(address).filter(|range| range.host == range.start)?;
        Some(Span { start: range.start, end: range.end, writable: range.writable, shadow: std::ptr::null_mut() })
    }

    fn alias(&self, address: u64, bytes: u64) -> Option<u64> {
        let range = self.range(address)?;
        (range.host != range.start && range.end - address >= bytes).then(|| range.host + (address - range.start))
    }

    fn interrupt(&self, event: u32) {
        // Only the low bits name an event.
        let _ = self.state.events.set(event & 0xff_ffff);
    }

    fn describe(&self, address: u64) -> String {
        let ranges = self.state.memory.ranges(self.gpu);
        match ranges.below(address) {
            Some(range) if address < range.end => {
                format!("in {} bytes at {:#x}, which are read only", range.end - range.start, range.start)
            }
            Some(range) if address - range.end < 1 << 20 => format!(
                "{} bytes behind the end of {} bytes at {:#x}",
                address - range.end,
                range.end - range.start,
                range.start
            ),
            _ => "outside of everything that the GPU may touch".to_owned(),
        }
    }
}
