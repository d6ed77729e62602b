//! AMD's C ABI as Rust tables.
//!
//! Everything above this crate talks to a GPU through a table of C function pointers with HIP's own names and
//! signatures ([`Hip`], [`Hiprtc`]). A table is filled once, either from AMD's libraries found with `dlopen`
//! ([`Hip::load`]) or by an implementation that lives in this process (the embedded device, HIP on NVIDIA).
//! Nothing here is safe to call and nothing here decides anything: that is the business of the crate `hip`.
//!
//! ```
//! use hip_abi::{Hip, Search};
//! match Hip::load(&Search::default()) {
//!     Ok(hip) => println!("HIP runtime at {}", hip.origin()),
//!     Err(why) => println!("{why}"), // names every file tried, and why each did not do
//! }
//! ```
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod error;
#[cfg(feature = "headers")]
pub mod headers;
mod hip;
mod library;
mod rtc;
pub mod stable_hash;
mod types;
mod values;

pub use error::hipError_t;
pub use hip::Hip;
pub use library::{Function, LoadError, Origin, Search, Tried};
pub use rtc::{hiprtcProgram, hiprtcResult, Hiprtc};
pub use types::*;
