//! How things end. Everything that a `Drop` must give back goes through here: a failure is kept on the device as an error
//! for the next call, and the thing itself is kept to be tried once more, so that a passing failure leaks nothing.

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
    /// Gives something back. On failure it is still there.
    pub(crate) fn release(&self, resource: Resource) -> Result<()> {
        self.bind_quietly()?;
        let platform = &self.platform;
        // SAFETY: the caller owned the resource and has stopped using it; it is given back at most once successfully.
        unsafe {
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
        }
    }

    /// Gives something back while dropping: a failure goes to the next call on this device, together with a second try.
    pub(crate) fn dispose(&self, resource: Resource) {
        if let Err(error) = self.release(resource) {
            self.keep_orphan(resource);
            self.defer(Err(error));
        }
    }

    /// Tries once more what could not be given back before. What fails again is beyond us, and only the log hears of it.
    pub(crate) fn retry_orphans(&self) {
        for resource in self.take_orphans() {
            if let Err(error) = self.release(resource) {
                log::error!("{resource:?} could not be given back, even at the second try: {error}");
            }
        }
    }
}
