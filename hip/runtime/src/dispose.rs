//! How things end. Everything that a `Drop` must give back goes through here, and a failure is kept on the device as an
//! error for the next call. Nothing is given back twice: a runtime that reports an error here may be speaking of an
//! earlier failure, with the thing itself gone.

use crate::device::DeviceInner;
use crate::driver::call;
use crate::error::Result;
use hip_abi::{hipEvent_t, hipGraphExec_t, hipGraph_t, hipModule_t, hipStream_t};
use std::ffi::c_void;

/// Something of the runtime's that must be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    Memory(u64),
    Pinned(u64),
    Stream(hipStream_t),
    Event(hipEvent_t),
    Module(hipModule_t),
    Graph(hipGraph_t),
    GraphExec(hipGraphExec_t),
}

impl DeviceInner {
    /// Gives something back. It is gone also when this fails.
    pub(crate) fn release(&self, resource: Resource) -> Result<()> {
        if !crate::exit::still_open(&self.platform, resource) {
            return Ok(());
        }
        // The handle names its device; should the switch fail, giving it back is still worth trying.
        let bound = self.bind_quietly();
        let platform = &self.platform;
        // SAFETY: the caller owned the resource, has stopped using it, and gives it back once.
        let released = unsafe {
            match resource {
                Resource::Memory(address) => {
                    call!(platform, hipFree(address as usize as *mut c_void), || "freeing device memory")
                }
                Resource::Pinned(address) => {
                    call!(platform, hipHostFree(address as usize as *mut c_void), || "freeing pinned memory")
                }
                Resource::Stream(stream) => call!(platform, hipStreamDestroy(stream), || "closing a stream"),
                Resource::Event(event) => call!(platform, hipEventDestroy(event), || "closing an event"),
                Resource::Module(module) => call!(platform, hipModuleUnload(module), || "unloading a module"),
                Resource::Graph(graph) => call!(platform, hipGraphDestroy(graph), || "closing a recorded graph"),
                Resource::GraphExec(exec) => call!(platform, hipGraphExecDestroy(exec), || "closing a graph"),
            }
        };
        bound.and(released)
    }

    /// Gives something back while dropping: a failure goes to the next call on this device.
    pub(crate) fn dispose(&self, resource: Resource) {
        self.defer(self.release(resource));
    }
}
