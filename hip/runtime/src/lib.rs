//! A safe HIP runtime.
