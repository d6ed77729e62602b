//! Kernels in Rust: what the attributes `#[hip::kernel]` and `#[hip::kernels]` need at run time. The translation is the crate `hip-macros`;
//! the book's page "Kernels in Rust" says which Rust it understands.
//!
//! ```
//! use hip::LaunchConfig;
//!
//! #[hip::kernel]
//! fn scale(x: &[f32], y: &mut GlobalMut<f32>, k: f32) {
//!     let i = global_x();
//!     if i < x.len() {
//!         y[i] = k * x[i];
//!     }
//! }
//!
//! let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
//! let x = stream.upload(&[1.0f32, 2.0, 3.0])?;
//! let mut y = stream.zeros(3)?;
//! scale(&stream, LaunchConfig::for_elements(3, 256), &x, &mut y, 10.0)?;
//! hip::kernel::check(&stream)?;
//! assert_eq!(y.to_vec()?, [10.0, 20.0, 30.0]);
//! # Ok::<(), hip::Error>(())
//! ```
//!
//! A launch refuses arguments of other types when the crate compiles:
//!
//! ```compile_fail,E0277
//! # use hip::{Buffer, LaunchConfig, Stream};
//! #[hip::kernel]
//! fn zero(y: &mut GlobalMut<f32>) { y[global_x()] = 0.0; }
//! fn wrong(stream: &Stream, y: &mut Buffer<u32>) -> hip::Result<()> {
//!     zero(stream, LaunchConfig::new(1, 1), y)
//! }
//! ```
//!
//! So does rustc with what a kernel does, which is checked as Rust too:
//!
//! ```compile_fail,E0308
//! #[hip::kernel]
//! fn mixed(y: &mut GlobalMut<f32>, k: u32) { y[0] = k; }
//! ```
//!
//! And what cannot be translated:
//!
//! ```compile_fail
//! #[hip::kernel]
//! fn text(y: &mut GlobalMut<u32>) { println!("{}", y.len()); }
//! ```

mod launch;
mod memory;
mod number;
pub mod prelude;
mod threads;

pub(crate) use launch::report;
pub use launch::{check, prepare, KernelContext, KernelModule, Site};
