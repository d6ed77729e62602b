//! Calls to `/dev/kfd`. Each has a number and a structure that is read and filled in; sizes grow between releases, so only the
//! number counts.

use crate::abi::*;
use crate::log::log;
use crate::memory::EVENT_PAGE_OFFSET;
use crate::queue;
use crate::state::State;

/// Interface version. From 1.14 on the runtime counts the age of events, which is not kept here.
const VERSION: (u32, u32) = (1, 13);

/// Answers a call.
///
/// # Safety
/// `argument` must point to the structure that belongs to the call, and pointers in it to what it says, as for the real driver.
pub unsafe fn answer(state: &'static State, request: u64, argument: *mut libc::c_void) -> Result<(), i32> {
    let number = request & 0xff;
    // SAFETY: as the caller promises.
    let result = unsafe { dispatch(state, number as u32, argument) };
    // Waiting is not worth a line.
    if number != 0x0c {
        log!(3, "call {number:#04x} {result:?}");
    }
    result
}

/// # Safety
/// As for [`answer`].
unsafe fn dispatch(state: &'static State, number: u32, argument: *mut libc::c_void) -> Result<(), i32> {
    if argument.is_null() {
        return Err(libc::EFAULT);
    }
    macro_rules! call {
        ($type:ty) => {
            // SAFETY: the number says which structure the caller passed.
            unsafe { &mut *argument.cast::<$type>() }
        };
    }
    match number {
        0x01 => {
            let call = call!(GetVersion);
            (call.major, call.minor) = VERSION;
        }
        0x02 => return queue::create(state, call!(CreateQueue)),
        0x03 => return state.queues.destroy(call!(One).id),
        // Memory policy, priority and size of a queue, scratch, trap handler, virtual memory, compute units: nothing to keep.
        0x04 | 0x11 | 0x13 | 0x15 | 0x1a => {}
        0x07 => return state.queues.check(call!(UpdateQueue).queue_id),
        0x05 => {
            let call = call!(ClockCounters);
            let now = queue::now();
            (call.gpu, call.cpu, call.system, call.system_frequency) = (now, now, now, 1_000_000_000);
        }
        0x08 => return state.events.create(call!(CreateEvent), EVENT_PAGE_OFFSET),
        0x09 => return state.events.destroy(call!(One).id),
        0x0a => return state.events.set(call!(One).id),
        0x0b => return state.events.reset(call!(One).id),
        0x0c => {
            let call = call!(WaitEvents);
            listed(call.list, call.count)?;
            // SAFETY: the caller lists that many events there.
            let list = unsafe { std::slice::from_raw_parts_mut(call.list as *mut EventData, call.count as usize) };
            return state.events.wait(call, list);
        }
        0x12 => {
            let call = call!(TileConfig);
            (call.tile_count, call.macro_tile_count, call.address_config) = (0, 0, 0x444);
            (call.banks, call.ranks) = (0, 0);
        }
        0x14 => {
            let call = call!(GetApertures);
            let count = state.gpus.len().min(call.count as usize);
            if count > 0 && call.list == 0 {
                return Err(libc::EFAULT);
            }
            for (n, gpu) in state.gpus.iter().enumerate().take(count) {
                // SAFETY: the caller has room for `count` of them.
                unsafe { (call.list as *mut Apertures).add(n).write(apertures(gpu.id)) };
            }
            call.count = state.gpus.len() as u32;
        }
        0x16 => {
            let call = call!(AllocMemory);
            let gpu = state.gpu(call.gpu_id)?;
            state.memory.allocate(gpu, call)?;
            log!(3, "  {:#x} bytes at {:#x}, flags {:#x}: {}", call.bytes, call.address, call.flags, call.handle);
        }
        0x17 => return state.memory.free(call!(FreeMemory).handle),
        0x18 | 0x19 => {
            let call = call!(MapMemory);
            listed(call.devices, call.count)?;
            // SAFETY: the caller lists that many numbers there.
            let ids = unsafe { std::slice::from_raw_parts(call.devices as *const u32, call.count as usize) };
            let gpus = ids.iter().try_fold(0, |mask, &id| Ok::<u64, i32>(mask | 1 << state.gpu(id)?))?;
            if number == 0x18 {
                state.memory.map(call.handle, gpus)?;
            } else {
                state.memory.unmap(call.handle, gpus)?;
            }
            call.succeeded = call.count;
        }
        0x1e => call!(AllocGws).first = 0,
        // Pages that move by themselves are not there, nor is retrying after a fault.
        0x20 => return Err(libc::EPERM),
        0x21 => {
            let call = call!(XnackMode);
            match call.enabled {
                0 => {}
                1.. => return Err(libc::EPERM),
                _ => call.enabled = 0,
            }
        }
        0x23 => {
            let call = call!(AvailableMemory);
            call.available = state.memory.available(state.gpu(call.gpu_id)?);
        }
        0x25 => {}
        _ => return Err(libc::EINVAL),
    }
    Ok(())
}

/// Refuses a list of nothing, and one that lies nowhere.
fn listed(list: u64, count: u32) -> Result<(), i32> {
    match (count, list) {
        (0, _) => Err(libc::EINVAL),
        (_, 0) => Err(libc::EFAULT),
        _ => Ok(()),
    }
}

/// Where generic pointers name local and private memory, as the emulator has it, and what addresses buffers can have: with 47
/// bits, device addresses are the process's own.
fn apertures(gpu_id: u32) -> Apertures {
    let (lds_base, scratch_base) = (1 << 48, 2 << 48);
    Apertures {
        lds_base,
        lds_limit: lds_base | 0xffff_ffff,
        scratch_base,
        scratch_limit: scratch_base | 0xffff_ffff,
        gpuvm_base: 0x1_0000,
        gpuvm_limit: (1 << 47) - 1,
        gpu_id,
        pad: 0,
    }
}
