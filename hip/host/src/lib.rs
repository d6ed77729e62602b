//! The embedded device.

mod compile;
pub mod module_abi;

pub use compile::{compile, CompileError, CompileRequest, Object};
