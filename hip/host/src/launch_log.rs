//! A log of what emulated GPUs launch, for whoever asks: kernel, geometry, registers, and what was counted while it ran. Off, a
//! launch looks at one flag. A program that measures a piece of its work switches the log on before it and takes it afterwards.

use crate::code::AmdEntry;
use crate::command::Launch;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the log asks of launches on emulated GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LaunchLog {
    /// Nothing.
    #[default]
    Off,
    /// They run, are counted and noted.
    Count,
    /// They are noted and do not run: memory keeps what it held. Shows the plan of work that would take too long.
    Plan,
}

/// A launch that was noted.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedLaunch {
    /// The kernel's name.
    pub kernel: String,
    /// What ran it.
    pub arch: vgpu::Arch,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Local memory of a block, static and dynamic, in bytes.
    pub lds_bytes: u32,
    /// Lanes of a wave.
    pub wave_size: usize,
    /// Vector registers of a lane, as many as are set aside.
    pub vgprs: usize,
    /// Scalar registers of a wave.
    pub sgprs: u64,
    /// Vector registers that went to memory.
    pub spills: u64,
    /// What was counted; nothing where it did not run.
    pub counters: vgpu::Counters,
}

static MODE: AtomicU8 = AtomicU8::new(LaunchLog::Off as u8);
static LOG: Mutex<Vec<LoggedLaunch>> = Mutex::new(Vec::new());

/// Says what is asked of launches that begin from now on; those of earlier calls may still be in a stream's queue, so synchronise
/// before.
pub fn log_launches(mode: LaunchLog) {
    MODE.store(mode as u8, Ordering::Release);
}

/// What was noted since the last call, in the order in which launches ended.
pub fn take_launch_log() -> Vec<LoggedLaunch> {
    std::mem::take(&mut LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn mode() -> LaunchLog {
    match MODE.load(Ordering::Acquire) {
        1 => LaunchLog::Count,
        2 => LaunchLog::Plan,
        _ => LaunchLog::Off,
    }
}

/// Notes a launch.
pub(crate) fn note(entry: &AmdEntry, launch: &Launch, counters: vgpu::Counters) {
    let (descriptor, info) = (entry.kernel.descriptor(), entry.kernel.info());
    let logged = LoggedLaunch {
        kernel: entry.kernel.name().to_owned(),
        arch: descriptor.arch,
        grid: [launch.grid.x, launch.grid.y, launch.grid.z],
        block: [launch.block.x, launch.block.y, launch.block.z],
        lds_bytes: descriptor.lds_bytes + launch.shared_bytes,
        wave_size: descriptor.wave_size,
        vgprs: descriptor.vgprs,
        sgprs: info.sgprs,
        spills: info.vgpr_spills,
        counters,
    };
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push(logged);
}
