//! The driver's structures, as `linux/kfd_ioctl.h` has them, and those that the runtime shares with the hardware. Newer releases
//! append fields; only what is here is read and written.

/// Memory types and attributes of an allocation.
pub mod flags {
    pub const VRAM: u32 = 1;
    pub const USERPTR: u32 = 1 << 2;
    pub const DOORBELL: u32 = 1 << 3;
    pub const MMIO_REMAP: u32 = 1 << 4;
    pub const PUBLIC: u32 = 1 << 29;
    pub const WRITABLE: u32 = 1 << 31;
}

/// Kinds of events.
pub mod event {
    pub const SIGNAL: u32 = 0;
    pub const HW_EXCEPTION: u32 = 3;
    pub const DEBUG: u32 = 5;
    pub const MEMORY: u32 = 8;
}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $(pub $field: $type,)* }
    )*};
}

structures! {
    GetVersion { major: u32, minor: u32, }
    CreateQueue {
        ring: u64, write_pointer: u64, read_pointer: u64, doorbell_offset: u64,
        ring_bytes: u32, gpu_id: u32, queue_type: u32, percentage: u32, priority: u32, queue_id: u32,
        eop: u64, eop_bytes: u64, save_area: u64, save_area_bytes: u32, control_stack_bytes: u32,
    }
    UpdateQueue { ring: u64, queue_id: u32, ring_bytes: u32, percentage: u32, priority: u32, }
    /// A queue, an event: calls that name one thing.
    One { id: u32, pad: u32, }
    AvailableMemory { available: u64, gpu_id: u32, pad: u32, }
    ClockCounters { gpu: u64, cpu: u64, system: u64, system_frequency: u64, gpu_id: u32, pad: u32, }
    Apertures {
        lds_base: u64, lds_limit: u64, scratch_base: u64, scratch_limit: u64, gpuvm_base: u64, gpuvm_limit: u64,
        gpu_id: u32, pad: u32,
    }
    GetApertures { list: u64, count: u32, pad: u32, }
    CreateEvent {
        page_offset: u64, trigger: u32, kind: u32, auto_reset: u32, node: u32, event_id: u32, slot: u32,
    }
    EventData { payload: [u32; 8], extension: u64, event_id: u32, pad: u32, }
    WaitEvents { list: u64, count: u32, all: u32, timeout: u32, result: u32, }
    TileConfig {
        tiles: u64, macro_tiles: u64, tile_count: u32, macro_tile_count: u32, gpu_id: u32, address_config: u32,
        banks: u32, ranks: u32,
    }
    AllocMemory { address: u64, bytes: u64, handle: u64, mmap_offset: u64, gpu_id: u32, flags: u32, }
    FreeMemory { handle: u64, }
    MapMemory { handle: u64, devices: u64, count: u32, succeeded: u32, }
    AllocGws { queue_id: u32, count: u32, first: u32, pad: u32, }
    XnackMode { enabled: i32, }
}

/// Byte offsets in `amd_queue_t`, which lies around the write pointer of an AQL queue.
pub mod amd_queue {
    pub const WRITE_INDEX: u64 = 0x38;
    pub const INACTIVE_SIGNAL: u64 = 0xc0;
}

/// Byte offsets in `amd_signal_t`.
pub mod amd_signal {
    pub const VALUE: u64 = 8;
    pub const MAILBOX: u64 = 16;
    pub const EVENT_ID: u64 = 24;
    pub const START: u64 = 32;
    pub const END: u64 = 40;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!(size_of::<CreateQueue>(), 88);
        assert_eq!(size_of::<Apertures>(), 56);
        assert_eq!(size_of::<CreateEvent>(), 32);
        assert_eq!(size_of::<EventData>(), 48);
        assert_eq!(size_of::<WaitEvents>(), 24);
        assert_eq!(size_of::<TileConfig>(), 40);
        assert_eq!(size_of::<AllocMemory>(), 40);
        assert_eq!(size_of::<MapMemory>(), 24);
    }
}
