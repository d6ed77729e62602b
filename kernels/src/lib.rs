//! The kernels of candle-rocm, in HIP C++, and the layer that launches them.
//!
//! - [`registry`]: the modules, with their sources, code objects and kernel names.
//! - [`objects`]: where a module's code object for a device comes from; [`arch`], which device it runs on.
//! - [`ModuleStore`]: the modules of a device, each loaded once.
//! - [`Kernels`]: every operation as a function over checked tensors ([`Operand`], [`Output`], [`OperandMut`]).
//!
//! An operation names its kernel by a root (`badd`, `uexp`); dtypes and the variant for the layouts at hand complete the
//! name. A name that no module has is an operation that is not defined for the dtype, and an error says so.

pub mod arch;
mod attention;
mod block_counters;
mod cache;
mod clang;
mod conv;
mod dtype;
mod elementwise;
mod fault;
mod fill;
mod gemm;
mod image;
mod indexing;
mod kernels;
pub mod layout;
mod lookup;
pub mod metadata;
mod name;
mod norms;
pub mod objects;
pub mod parallel;
mod profile;
mod quantized;
mod random;
mod reduce;
pub mod registry;
mod resident;
mod rope;
mod rows;
mod shared;
mod softmax;
mod sort;
mod store;
mod tensor;
pub mod topology;
mod window;
mod winograd;

pub use attention::{AttentionMask, AttentionOptions, AttentionWindow, Sequences};
pub use cache::Cache;
pub use clang::Clang;
pub use conv::Convolution;
pub use dtype::DType;
pub use image::{Bilinear, Pool};
pub use indexing::IndexDims;
pub use kernels::Kernels;
#[doc(hidden)]
pub use profile::Planning;
pub use profile::{tuned, Profile};
pub use quantized::{BlockFormat, Blocks, ProductPlan, Routing};
pub use reduce::Reduce;
pub use registry::{Id, Module, ALL_IDS};
pub use rope::Rope;
pub use sort::Order;
pub use store::ModuleStore;
pub use tensor::{Operand, OperandMut, Output, MAX_RANK};
pub use winograd::Winograd;
