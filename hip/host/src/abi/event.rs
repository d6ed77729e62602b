//! Events.

use super::{hip_functions, present, put};
use crate::{device, event, stream};
use hip_abi::{hipError_t, hipEventDisableTiming, hipEvent_t, hipStream_t};
use std::ffi::c_uint;

/// Flags that HIP knows: blocking synchronisation (1), no timing (2), interprocess (4), and AMD's own release scopes. Only the second
/// matters on the embedded device; interprocess events are refused.
const INTERPROCESS: c_uint = 4;

hip_functions! {
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) {
        present(event)?;
        if flags & INTERPROCESS != 0 {
            return Err(hipError_t::hipErrorNotSupported);
        }
        put(event, event::create(device::current()?.ordinal, flags & hipEventDisableTiming == 0))
    }

    fn hipEventDestroy(event: hipEvent_t) { event::destroy(event) }

    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) { event::resolve(event)?.record(&stream::resolve(stream)?) }

    fn hipEventQuery(event: hipEvent_t) { event::resolve(event)?.query() }

    fn hipEventSynchronize(event: hipEvent_t) { event::resolve(event)?.synchronize() }

    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) {
        present(milliseconds)?;
        let (start, stop) = (event::resolve(start)?, event::resolve(stop)?);
        put(milliseconds, event::elapsed(&start, &stop)?)
    }
}
