//! Reports name the line of the source, where the object has line tables; and line tables do not change the code.

use crate::common::{clang, hip_with};
use crate::CHECKED;
use vgpu::{Arch, Buffers, Launch, Object, Worker};

/// The store leaves its buffer, in a function that is inlined.
const SOURCE: &str = r#"
#line 1 "store.h"
static __device__ inline void put(u32* out, u32 at, u32 value) {
    out[at] = value;
}
#line 10 "kernel.hip"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    u32 value = in[THREAD];
    put(out, THREAD + 5, value);
}"#;

fn report(bytes: &[u8]) -> vgpu::Failure {
    let object = Object::load(bytes).expect("an object");
    let mut memory = Buffers::new();
    let (input, output) = (memory.from_slice(&[7u32; 128]), memory.alloc(512));
    let arguments = memory.from_slice(&[input, output, 128]);
    let launch = Launch::new(&object.kernel("k").unwrap(), [1, 1, 1], [128, 1, 1], 0, arguments).unwrap();
    launch.with_options(CHECKED).run(&mut Worker::new(), &memory).unwrap_err()
}

#[test]
fn a_report_names_the_line_and_where_it_was_inlined() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let (plain, lines) = (hip_with(arch, SOURCE, &["-O3"]), hip_with(arch, SOURCE, &["-O3", "-gline-tables-only"]));
        let failure = report(&lines);
        let found: Vec<String> = failure.place.clone().unwrap().lines.iter().map(|line| line.to_string()).collect();
        assert!(
            found.len() == 2 && found[0].ends_with("store.h:2") && found[1].ends_with("kernel.hip:12"),
            "{failure}"
        );
        assert!(failure.to_string().contains("store.h:2, inlined at"), "{failure}");
        // The same report otherwise, at the same address: the code is the same.
        let (with, without) = (failure.place.unwrap(), report(&plain).place.unwrap());
        assert!(without.lines.is_empty());
        assert_eq!((with.pc, with.text), (without.pc, without.text), "{arch}");
    }
}

#[test]
fn damaged_line_tables_do_no_harm() {
    if clang().is_none() {
        return;
    }
    let whole = hip_with(Arch::Gfx1100, SOURCE, &["-O3", "-gline-tables-only"]);
    let mut state = 1u64;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Most of the file is what this is about.
            let at = bytes.len() / 4 + (state >> 33) as usize % (bytes.len() * 3 / 4);
            bytes[at] = (state >> 24) as u8;
        }
        let Ok(object) = Object::load(&bytes) else { continue };
        for kernel in object.kernels() {
            let first = kernel.entry().wrapping_sub(kernel.base());
            (0..32).for_each(|n| drop(kernel.lines(first + 4 * n)));
        }
    }
}
