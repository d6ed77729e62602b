//! What `candle_core::utils` answers about ROCm.

/// Whether a ROCm device is there that `Device::rocm_if_available` should choose over the CPU: a GPU. The embedded device
/// computes on the CPU as well, only slower, and has to be asked for by `Device::new_rocm`.
pub fn rocm_is_available() -> bool {
    crate::rocm_backend::is_available()
}
