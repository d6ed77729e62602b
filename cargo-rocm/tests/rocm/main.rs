//! `cargo rocm` in small projects, with the cargo that runs the tests. Only `gpu.rs` compiles something; the others resolve, for
//! which crates.io has to be reachable, as for every first build.

mod gpu;
mod lock_file;
mod releases;
mod sentences;
mod support;
