//! Which devices copy into shared memory by themselves, for the kernels that are written for it (`hip/quantized/staging.h`).

/// Shared memory that NVIDIA's driver may count as the kernel's own.
pub(crate) const RESERVED: u32 = 1024;

/// Whether the kernels for an architecture pass what they read through shared memory (`STAGED_ROWS` in `hip/quantized/staging.h`).
/// NVIDIA has had the copies that do that by themselves since Hopper.
pub(crate) fn staged(arch: &str) -> bool {
    arch.strip_prefix("sm_").is_some_and(|version| version.parse().is_ok_and(|version: u32| version >= 90))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_and_later_stage() {
        assert!(staged("sm_90") && staged("sm_120"));
        assert!(!staged("sm_80") && !staged("sm_89") && !staged("gfx942") && !staged("host"));
    }
}
