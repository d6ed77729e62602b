//! Every check has kernels that it must catch and clean ones on which it stays silent, on every target.

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod lines;
mod page;

use common::{clang, hip, Asm};
use vgpu::{Arch, Buffers, Cause, Checks, Failure, Launch, Object, Options, Worker};

const CHECKED: Options = Options {
    accuracy: vgpu::Accuracy::Exact,
    checks: Checks::ALL,
    strict_local: true,
    count: false,
    schedule: vgpu::Schedule::Ascending,
    switch_every: 0,
    limit: 1 << 24,
    portable: false,
};

/// Runs a kernel of HIP source with one block of 128 on `words` words of input and as many of output, all checks on.
fn run(arch: Arch, source: &str, words: usize) -> Result<Vec<u32>, Failure> {
    let object = Object::load(&hip(arch, source)).expect("an object");
    let kernel = object.kernel("k").expect("the kernel");
    let mut memory = Buffers::new();
    let input = memory.from_slice(&(0..words as u32).collect::<Vec<_>>());
    let output = memory.alloc(4 * words);
    let arguments = memory.from_slice(&[input, output, words as u64]);
    let launch = Launch::new(&kernel, [1, 1, 1], [128, 1, 1], 0, arguments)?.with_options(CHECKED);
    launch.run(&mut Worker::new(), &memory)?;
    Ok(memory.read(output, words).expect("the output"))
}

fn cause(result: Result<Vec<u32>, Failure>) -> Option<Cause> {
    result.err().map(|failure| failure.cause)
}

const ROTATE: &str = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u32 tile[128];
    u32 t = THREAD;
    tile[t] = in[t];
    BARRIER;
    out[t] = tile[(t + 64) % 128];
}"#;

#[test]
fn clean_kernels_are_silent() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let out = run(arch, ROTATE, 128).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        assert_eq!(out, (0..128).map(|t| (t + 64) % 128).collect::<Vec<u32>>(), "{arch}");
    }
}

#[test]
fn shuffles_selects_and_flat_loads_are_silent() {
    if clang().is_none() {
        return;
    }
    let cases = [
        "out[t] = __builtin_amdgcn_ds_bpermute((t ^ 1) * 4, in[t]) + __builtin_amdgcn_ds_swizzle(in[t], 0x041f);",
        "u32 sum = in[t]; for (u32 d = 16; d > 0; d /= 2) sum += __builtin_amdgcn_ds_bpermute((t ^ d) * 4, sum); out[t] = sum;",
        "__shared__ u32 tile[128]; tile[t] = t; BARRIER; const u32* from = n > 5 ? in : tile; out[t] = from[t ^ 3];",
        "u32 x; if (t & 1) x = in[t]; out[t] = t & 1 ? x : 0;",
    ];
    for arch in Arch::ALL {
        for body in cases {
            let text =
                format!(r#"extern "C" __global__ void k(const u32* in, u32* out, u64 n) {{ u32 t = THREAD; {body} }}"#);
            run(arch, &text, 128).unwrap_or_else(|failure| panic!("{arch}, {body}: {failure}"));
        }
    }
}

#[test]
fn memory_outside_is_reported_with_its_place() {
    if clang().is_none() {
        return;
    }
    let source = r#"extern "C" __global__ void k(const u32* in, u32* out, u64 n) { out[THREAD + 5] = in[THREAD]; }"#;
    for arch in Arch::ALL {
        let failure = run(arch, source, 128).unwrap_err();
        assert_eq!(failure.cause, Cause::Memory, "{arch}: {failure}");
        let place = failure.place.clone().unwrap();
        assert_eq!((place.kernel.as_str(), place.block), ("k", [0; 3]));
        // Lanes 123 on write past the end.
        assert_eq!(
            (place.wave, place.lane),
            (123 / arch.wave_size(), Some(123 % arch.wave_size())),
            "{arch}: {failure}"
        );
        assert!(place.text.contains("global_store"), "{arch}: {failure}");
    }
}

#[test]
fn freed_memory_is_reported() {
    if clang().is_none() {
        return;
    }
    for arch in [Arch::Gfx1100, Arch::Gfx90a] {
        let object = Object::load(&hip(arch, ROTATE)).unwrap();
        let kernel = object.kernel("k").unwrap();
        let mut memory = Buffers::new();
        let input = memory.from_slice(&[1u32; 128]);
        let output = memory.alloc(512);
        let arguments = memory.from_slice(&[input, output, 128]);
        memory.free(input);
        let launch = Launch::new(&kernel, [1, 1, 1], [128, 1, 1], 0, arguments).unwrap();
        let failure = launch.run(&mut Worker::new(), &memory).unwrap_err();
        assert_eq!(failure.cause, Cause::Memory);
        assert!(failure.message.contains("freed"), "{failure}");
    }
}

#[test]
fn local_memory_beyond_the_block_is_reported() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u32 tile[128];
    u32 t = THREAD;
    tile[t + (u32)n / 2 + 1] = in[t];
    BARRIER;
    out[t] = tile[t];
}"#;
    for arch in Arch::ALL {
        assert_eq!(cause(run(arch, source, 128)), Some(Cause::Lds), "{arch}");
    }
}

#[test]
fn addresses_at_the_end_of_the_range_are_outside_too() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let asm = Asm { lds: 512, ..Asm::new(arch) };
        let store = if arch.generation() >= 11 { "ds_store_b64" } else { "ds_write_b64" };
        for address in ["-1", "-4", "-8", "0x1fc"] {
            let body =
                format!("  v_mov_b32 v9, {address}\n  v_mov_b32 v10, v2\n  v_mov_b32 v11, v2\n  {store} v9, v[10:11]");
            let failure = asm.run_with(&body, &[vec![1, 2, 3]], 1, CHECKED).unwrap_err();
            assert_eq!(failure.cause, Cause::Lds, "{arch}, {address}: {failure}");
        }
    }
}

#[test]
fn misaligned_atomics_are_reported() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    u32* odd = (u32*)((char*)out + (n & 128 ? 2 : 4));
    __atomic_fetch_add(odd, 1u, __ATOMIC_RELAXED);
}"#;
    for arch in Arch::ALL {
        assert_eq!(cause(run(arch, source, 128)), Some(Cause::Misaligned), "{arch}");
    }
}

#[test]
fn a_missing_barrier_is_a_race() {
    if clang().is_none() {
        return;
    }
    // Written before and read after, nothing in between; then read before and written after.
    let forward = ROTATE.replace("BARRIER;", "__asm__ volatile(\"\" ::: \"memory\");");
    let backward = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u32 tile[128];
    u32 t = THREAD;
    tile[t] = in[t];
    BARRIER;
    u32 other = tile[(t + 64) % 128];
    MIDDLE
    tile[t] = other + 1;
    BARRIER;
    out[t] = tile[127 - t];
}"#;
    for arch in Arch::ALL {
        // The first wave reads what the second has not written yet, or the second writes what the first has read.
        let found = cause(run(arch, &forward, 128));
        assert!(matches!(found, Some(Cause::Race | Cause::Undefined)), "{arch}: {found:?}");
        let without = backward.replace("MIDDLE", "__asm__ volatile(\"\" ::: \"memory\");");
        assert_eq!(cause(run(arch, &without, 128)), Some(Cause::Race), "{arch}");
        let with = backward.replace("MIDDLE", "BARRIER;");
        assert_eq!(cause(run(arch, &with, 128)), None, "{arch}");
    }
}

#[test]
fn neighbouring_bytes_and_atomics_do_not_race() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u8 tile[128];
    __shared__ u32 sum;
    u32 t = THREAD;
    if (t == 0) sum = 0;
    BARRIER;
    tile[(t * 64 + t / 2) % 128] = (u8)in[t];
    __atomic_fetch_add(&sum, 1u, __ATOMIC_RELAXED);
    BARRIER;
    out[t] = tile[(t * 64 + t / 2) % 128] + sum;
}"#;
    for arch in Arch::ALL {
        let out = run(arch, source, 128).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        assert_eq!(out, (0..128).map(|t| t + 128).collect::<Vec<u32>>(), "{arch}");
    }
}

#[test]
fn undefined_values_are_reported_where_they_matter() {
    if clang().is_none() {
        return;
    }
    // Local memory that nobody wrote, as data and as an address.
    let data = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u32 tile[256];
    u32 t = THREAD;
    tile[t] = in[t];
    BARRIER;
    out[t] = tile[t + 64];
}"#;
    let address = data.replace("out[t] = tile[t + 64]", "out[t] = in[tile[t + 64] % 128]");
    // Read and dropped: legal.
    let unused = data.replace("out[t] = tile[t + 64]", "u32 x = tile[t + 64]; out[t] = t < 64 ? x : t");
    for arch in Arch::ALL {
        assert_eq!(cause(run(arch, data, 128)), Some(Cause::Undefined), "{arch}");
        assert_eq!(cause(run(arch, &address, 128)), Some(Cause::Undefined), "{arch}");
        assert_eq!(cause(run(arch, &unused, 128)), None, "{arch}");
    }
}

#[test]
fn memory_that_was_never_written_is_undefined() {
    if clang().is_none() {
        return;
    }
    let source =
        r#"extern "C" __global__ void k(const u32* in, u32* out, u64 n) { out[THREAD] = out[THREAD] + in[THREAD]; }"#;
    for arch in Arch::ALL {
        assert_eq!(cause(run(arch, source, 128)), Some(Cause::Undefined), "{arch}");
    }
}

#[test]
fn undefined_registers_are_reported() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let asm = Asm::new(arch);
        let checked = |body: &str| asm.run_with(body, &[vec![1, 2, 3]], 1, CHECKED);
        let undefined = |body: &str| matches!(checked(body), Err(Failure { cause: Cause::Undefined, .. }));
        assert!(undefined("  v_mov_b32 v1, v9"), "{arch}: stored data");
        assert!(undefined("  v_mov_b32 v1, v2\n  s_cmp_eq_u32 s50, 1\n  s_cbranch_scc1 .Lx\n.Lx:"), "{arch}: a branch");
        assert!(!undefined("  v_mov_b32 v9, v8\n  v_mov_b32 v1, v2"), "{arch}: unused");
        let exec = if asm.wave_size == 64 { "s_mov_b64 exec, s[50:51]" } else { "s_mov_b32 exec_lo, s50" };
        assert!(undefined(&format!("  v_mov_b32 v1, v2\n  {exec}")), "{arch}: exec");
        // Compilers leave the upper half of a pair undefined where only the lower is used.
        let pair = if arch.generation() >= 12 { "v_mad_co_u64_u32" } else { "v_mad_u64_u32" };
        let carry = if arch.is_cdna() { "vcc" } else { "null" };
        for addend in ["v[8:9]", "s[8:9]"] {
            let body = format!("  v_mov_b32 v8, v2\n  s_mov_b32 s8, 5\n  {pair} v[10:11], {carry}, v2, v2, {addend}\n");
            assert!(!undefined(&format!("{body}  v_mov_b32 v1, v10")), "{arch}: the lower half with {addend}");
            assert!(undefined(&format!("{body}  v_mov_b32 v1, v11")), "{arch}: the upper half with {addend}");
        }
        if arch == Arch::Gfx942 {
            let body = "  v_mov_b32 v8, v2\n  v_mov_b64 v[10:11], v[8:9]\n";
            assert!(
                !undefined(&format!("{body}  v_mov_b32 v1, v10")) && undefined(&format!("{body}  v_mov_b32 v1, v11"))
            );
        }
        // A bit that is 0 whatever the other operand: defined.
        let and = "  v_mov_b32 v1, v2\n  s_and_b32 s50, s51, 0\n  s_cmp_eq_u32 s50, 1\n  s_cbranch_scc1 .Lx\n.Lx:";
        assert!(!undefined(and), "{arch}: and with 0");
    }
}

#[test]
fn results_used_before_their_wait_are_reported() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let mut asm = Asm::new(arch);
        asm.lds = 512;
        let (load, ds, s_load) = if arch.generation() >= 11 {
            ("global_load_b32", "ds_load_b32", "s_load_b32")
        } else {
            ("global_load_dword", "ds_read_b32", "s_load_dword")
        };
        let [vector, local, scalar] = if arch.generation() >= 12 {
            ["s_wait_loadcnt 0", "s_wait_dscnt 0", "s_wait_kmcnt 0"]
        } else {
            ["s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)"]
        };
        let checked = |body: String| asm.run_with(&body, &[vec![1, 2, 3]], 1, CHECKED);
        let early = |body: String| matches!(checked(body), Err(Failure { cause: Cause::Wait, .. }));
        let fetch = format!("  v_mov_b32 v9, 0\n  {load} v8, v9, s[4:5]\n");
        assert!(early(format!("{fetch}  v_mov_b32 v1, v8")), "{arch}: a vector load");
        assert!(!early(format!("{fetch}  {vector}\n  v_mov_b32 v1, v8")), "{arch}: waited for");
        assert!(early(format!("{fetch}  v_mov_b32 v8, 0\n  {vector}\n  v_mov_b32 v1, v8")), "{arch}: overwritten");
        // Two loads: the wait for all but one makes the first one ready, and not the second.
        let two = format!("{fetch}  {load} v7, v9, s[4:5]\n  {}\n", vector.replace("(0)", "(1)").replace(" 0", " 1"));
        assert!(!early(format!("{two}  v_mov_b32 v1, v8")), "{arch}: the first of two");
        assert!(early(format!("{two}  v_mov_b32 v1, v7")), "{arch}: the second of two");
        // Loads come in order: two into one register are no fault.
        let same = format!("{fetch}  {load} v8, v9, s[4:5]\n  {vector}\n  v_mov_b32 v1, v8");
        assert!(!early(same), "{arch}: the same target twice");
        let read = format!("  v_mov_b32 v1, v2\n  {s_load} s20, s[4:5], 0x0\n");
        assert!(early(format!("{read}  s_add_u32 s21, s20, 1")), "{arch}: a scalar load");
        assert!(!early(format!("{read}  {scalar}\n  s_add_u32 s21, s20, 1")), "{arch}: a scalar load, waited for");
        let store = if arch.generation() >= 11 { "ds_store_b32" } else { "ds_write_b32" };
        let barrier = if arch.generation() >= 12 { "s_barrier_signal -1\n  s_barrier_wait -1" } else { "s_barrier" };
        let stored = format!("  v_mov_b32 v1, v2\n  v_mov_b32 v9, 0\n  {store} v9, v2\n");
        assert!(early(format!("{stored}  {barrier}")), "{arch}: a store that the barrier does not wait for");
        assert!(!early(format!("{stored}  {local}\n  {barrier}")), "{arch}: a store before a barrier, waited for");
        let shared = format!("  v_mov_b32 v9, 0\n  {store} v9, v2\n  {local}\n  {ds} v8, v9\n");
        assert!(early(format!("{shared}  v_mov_b32 v1, v8")), "{arch}: local memory");
        assert!(!early(format!("{shared}  {local}\n  v_mov_b32 v1, v8")), "{arch}: local memory, waited for");
    }
}

#[test]
fn endless_loops_and_unknown_instructions_end() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let asm = Asm::new(arch);
        let options = Options { limit: 10_000, ..Options::default() };
        let failure = asm.run_with(".Lx:\n  s_branch .Lx", &[], 0, options).unwrap_err();
        assert_eq!(failure.cause, Cause::Limit, "{arch}: {failure}");
        let failure = asm.run("  .long 0xdeadbeef", &[], 0).unwrap_err();
        assert!(matches!(failure.cause, Cause::Instruction | Cause::Memory), "{arch}: {failure}");
        let failure = asm.run("  s_mov_b64 s[10:11], 0x1000\n  s_setpc_b64 s[10:11]", &[], 0).unwrap_err();
        assert_eq!(failure.cause, Cause::Instruction, "{arch}: {failure}");
        let failure = asm.run("  s_trap 2", &[], 0).unwrap_err();
        assert_eq!(failure.cause, Cause::Trap, "{arch}: {failure}");
    }
}
