// The one portability header: what a kernel of this project may use, the same on every target.
//
// Targets: stock clang for amdgcn with no ROCm header at all, hipRTC, nvrtc, and g++/clang++ for the embedded
// device (macro __HIP_HOST__, whose own header is force-included and gives the HIP names).
// A module is a text of its own: the build script pastes these headers in front of it, so a kernel
// source includes nothing but "portable.h" (and, where it is elementwise, "elementwise.h").
//
// Conventions, for whoever writes a module:
//   * Types are spelled as Candle's dtypes: u8 u32 i16 i32 i64 bf16 f16 f32 f64 f8e4m3 (+ i8 u16 u64 usize).
//     bf16, f16 and f8e4m3 are storage only: compute in `Compute<T>` (f32 for those three, T itself otherwise);
//     `cast<To>(x)` converts between any two of them as Rust's `as` and the crates half and float8 do.
//   * An entry point is `KERNEL(THREADS) name(args) { enter(); ... }`; its block size is a compile-time constant handed to
//     KERNEL, its name is `<root>_<dtype>[_<variant>]`, and its first statement is enter() (platform.h says why; a test
//     reads it). Tables: `#define ENTRY(dtype) KERNEL(256) foo_##dtype(...) { enter(); ... }` followed by
//     `FOR_ALL_DTYPES(ENTRY)` (see tables.h). Every name that reaches `__global__` is in the Rust registry by itself:
//     the build script reads them from the compiled object, and a test fails for each one that no test launches.
//   * Ids: thread_x() block_x() block_y() block_z(); never threadIdx. barrier() is a block's barrier, and every thread of
//     the block must reach it.
//   * Wave size is wave_size(), 32 or 64: a constant on a GPU and a run-time value on the embedded device. Size shared arrays
//     for the worst case with MAX_WAVES. Never write 31, 32 or 0xffffffff.
//   * Shapes and strides come by value (Layout in index.h); the linear index of an element is a u32 (the launch layer
//     cuts larger tensors into pieces), offsets into memory are usize.
//   * Math: exp_ log_ sin_ cos_ tanh_ erf_ pow_ sqrt_ floor_ ... overloaded for f32 and f64 (math.h). They are ours, so that
//     every target gives the same answer to a few ulp and nothing needs a device library.
//   * Bad input that only the device can see is recorded with report() (fault.h), never acted upon.
#pragma once

#include "portable/platform.h"
#include "portable/shared.h"
#include "portable/types.h"
#include "portable/tables.h"
#include "portable/memory.h"
#include "portable/wave.h"
#include "portable/atomics.h"
#include "portable/math.h"
#include "portable/trig.h"
#include "portable/index.h"
#include "portable/fault.h"
