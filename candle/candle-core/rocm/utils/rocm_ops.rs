//! What `candle_core::utils` answers about ROCm.

/// Whether there is a device that `Device::rocm_if_available` and `cuda_if_available` should choose over the CPU: an AMD GPU, or
/// what the variable `CANDLE_ROCM_PLATFORM` asks for.
pub fn rocm_is_available() -> bool {
    crate::rocm_backend::is_available()
}
