//! AMD's math libraries for a stream. Each is looked for when it is first needed, and where it is missing or does not start, our own kernels
//! do the same work: what is said about that is said once, by whoever looked.

use hip::Stream;
use rocm_libraries::blas::Blas;
#[cfg(feature = "miopen")]
use rocm_libraries::miopen::Miopen;
use std::sync::OnceLock;

/// The libraries of one stream.
#[derive(Default)]
pub(super) struct Libraries {
    blas: OnceLock<Option<Blas>>,
    #[cfg(feature = "miopen")]
    miopen: OnceLock<Option<Miopen>>,
}

impl Libraries {
    /// rocBLAS.
    pub(super) fn blas(&self, stream: &Stream) -> Option<&Blas> {
        self.blas.get_or_init(|| started(Blas::new(stream), "products", "rocBLAS")).as_ref()
    }

    /// MIOpen.
    #[cfg(feature = "miopen")]
    pub(super) fn miopen(&self, stream: &Stream) -> Option<&Miopen> {
        self.miopen.get_or_init(|| started(Miopen::new(stream), "convolutions", "MIOpen")).as_ref()
    }
}

/// A library that is there and does not start is no reason to fail.
fn started<T>(library: hip::Result<Option<T>>, what: &str, name: &str) -> Option<T> {
    library.unwrap_or_else(|error| {
        log::warn!("{what} go through our own kernels, because {name} does not start: {error}");
        None
    })
}
