//! Kernels in Rust: `#[hip::kernel]` and `#[hip::kernels]` make HIP C++ of a subset of Rust while the crate compiles, and a function that
//! launches it. The crate `hip` hands the attributes on with its feature `kernel`; its module `kernel` says what kernels may use.
//!
//! `unit.rs` reads what belongs together, `body.rs` and what stands beside it (`stmt.rs`, `flow.rs`, `expr.rs`, `place.rs`, `call.rs`, `written.rs`) translate a
//! function, `types.rs` finds the types that were not
//! written down, `output.rs` writes the C++ and the Rust that takes the place of the source.

mod body;
mod call;
mod expr;
mod flow;
mod output;
mod place;
mod prelude;
mod stmt;
#[cfg(test)]
mod tests;
mod types;
mod unit;
mod written;

use proc_macro::TokenStream;

/// Makes a kernel of a function, and gives its name to a function that launches it.
///
/// It stands alone: device functions, structures and constants go with kernels into a module with `#[hip::kernels]`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    output::kernel(arguments.into(), item.into()).into()
}

/// Makes kernels of the functions of a module that are marked `#[kernel]`, with what they use: functions marked `#[device]`, structures with
/// `#[repr(C)]`, constants. Everything else in the module is left as it is. They are compiled together, when the first is launched.
#[proc_macro_attribute]
pub fn kernels(arguments: TokenStream, item: TokenStream) -> TokenStream {
    output::kernels(arguments.into(), item.into()).into()
}

/// Marks a function of a module with `#[hip::kernels]` that its kernels call.
#[proc_macro_attribute]
pub fn device(_: TokenStream, item: TokenStream) -> TokenStream {
    output::stray_device(item.into()).into()
}
