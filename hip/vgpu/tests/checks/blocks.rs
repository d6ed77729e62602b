//! Races in global memory, between the waves of a block and between blocks: kernels that must be caught, and the ways to do it right,
//! on which nothing may be said. Orders are tried in which the fault shows in the result and in which it does not.

use crate::common::{clang, hip};
use crate::{cause, CHECKED};
use vgpu::{Arch, Buffers, Cause, Failure, Launch, Object, Options, Schedule, Worker};

const BLOCKS: u32 = 5;

/// Runs a kernel with five blocks of 256. `in` has a word a thread, `work` and `out` as many; `count` is a word, 0 at first. What `out`
/// is afterwards comes back. The order of blocks is a permutation by `order`.
fn run_in_order(arch: Arch, source: &str, order: u32) -> Result<Vec<u32>, Failure> {
    let object = Object::load(&hip(arch, source)).expect("an object");
    let kernel = object.kernel("k").expect("the kernel");
    let words = (256 * BLOCKS) as usize;
    let mut memory = Buffers::new();
    let input = memory.from_slice(&(0..words as u32).collect::<Vec<_>>());
    let work = memory.from_slice(&vec![0u32; words]);
    let count = memory.from_slice(&[0u32; 1]);
    let output = memory.from_slice(&vec![0u32; words]);
    let arguments = memory.from_slice(&[input, work, count, output]);
    let launch = Launch::new(&kernel, [BLOCKS, 1, 1], [256, 1, 1], 0, arguments)?.with_options(CHECKED);
    let mut worker = Worker::new();
    for n in 0..BLOCKS {
        launch.run_block([(n * order + order) % BLOCKS, 0, 0], &mut worker, &memory)?;
    }
    Ok(memory.read(output, words).expect("the output"))
}

fn run(arch: Arch, source: &str) -> Result<Vec<u32>, Failure> {
    run_in_order(arch, source, 1)
}

const HEAD: &str = r#"
#define FENCE __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent")
#define NEXT(at) __hip_atomic_fetch_add(at, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ADD(at, value) __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define LOAD(at) __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define KERNEL extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(256, 256))) \
    k(const u32* in, u32* work, u32* count, u32* out)
"#;

/// The last block to arrive adds up what all have left behind.
const LAST_BLOCK: &str = r#"
KERNEL {
    __shared__ u32 ticket;
    u32 t = THREAD, b = BLOCK;
    work[b * 256 + t] = in[b * 256 + t] * 3;
    FENCE; // released
    BARRIER; // before one thread speaks for all
    if (t == 0) ticket = NEXT(count);
    BARRIER; // all hear it
    if (ticket != 4) return;
    FENCE; // acquired
    u32 sum = 0;
    for (u32 i = 0; i < 5; i++) sum += work[i * 256 + t];
    out[t] = sum;
    if (t == 0) *count = 0;
}"#;

fn source(body: &str) -> String {
    format!("{HEAD}{body}")
}

#[test]
fn the_last_block_may_finish_the_work() {
    if clang().is_none() {
        return;
    }
    let want: Vec<u32> = (0..256).map(|t| (0..5).map(|i| 3 * (i * 256 + t)).sum()).collect();
    for arch in Arch::ALL {
        for order in [1, 2, 3] {
            let out =
                run_in_order(arch, &source(LAST_BLOCK), order).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            assert_eq!(out[..256], want, "{arch}");
        }
        // One wave a row: no barrier, the first lane speaks for the others.
        let alone = LAST_BLOCK
            .replace(
                "BARRIER; // before one thread speaks for all\n    if (t == 0) ticket",
                "u32 mine = 0; if (t % 64 == 0) mine",
            )
            .replace(
                "BARRIER; // all hear it\n    if (ticket != 4)",
                "mine = __builtin_amdgcn_ds_bpermute(t / 64 * 256, mine);\n    if (mine != 19)",
            )
            .replace("__shared__ u32 ticket;", "");
        if arch.wave_size() == 64 {
            // The last of twenty waves reads what all have written.
            let out = run(arch, &source(&alone)).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            assert!(out[..256].iter().any(|&value| value != 0), "{arch}");
        }
    }
}

#[test]
fn each_part_of_the_last_block_pattern_is_needed() {
    if clang().is_none() {
        return;
    }
    let without = |part: &str| {
        assert!(LAST_BLOCK.contains(part), "{part}");
        source(&LAST_BLOCK.replace(part, ""))
    };
    for arch in Arch::ALL {
        for part in ["BARRIER; // before one thread speaks for all", "FENCE; // acquired"] {
            let result = run(arch, &without(part)).map(|_| ());
            assert_eq!(
                result.as_ref().err().map(|failure| failure.cause),
                Some(Cause::Race),
                "{arch}, {part}: {result:?}"
            );
        }
        // Where waves may be on two units, the barrier behind it waits for the same stores, and nothing has to be written back.
        let enough = matches!(arch, Arch::Gfx1030 | Arch::Gfx1100);
        let unreleased = cause(run(arch, &without("FENCE; // released")));
        assert_eq!(unreleased, if enough { None } else { Some(Cause::Race) }, "{arch}");
        // The ticket in local memory is read before it is there, or while it is written.
        let early = cause(run(arch, &without("BARRIER; // all hear it")));
        assert!(matches!(early, Some(Cause::Race | Cause::Undefined)), "{arch}: {early:?}");
        // A fence that orders the block alone.
        let narrow = source(&LAST_BLOCK.replace("FENCE; // acquired", "BARRIER;"));
        let failure = run(arch, &narrow).expect_err("no acquire");
        assert!(failure.cause == Cause::Race && failure.message.contains("caches"), "{arch}: {failure}");
        // A counter that is no atomic.
        let plain = source(&LAST_BLOCK.replace("NEXT(count)", "(*count)++"));
        let failure = run(arch, &plain).expect_err("no atomic");
        assert!(failure.cause == Cause::Race && failure.message.contains("no atomic"), "{arch}: {failure}");
    }
}

#[test]
fn blocks_that_nothing_orders_race() {
    if clang().is_none() {
        return;
    }
    // What is written, and by whom: each thread to a place of its own, then also where another block reads, writes or counts.
    let cases = [
        ("another block's result", "out[b * 256 + t] = t; if (b > 0) out[b * 256 + t] += out[b * 256 - 256 + t];"),
        ("the same word", "out[t] = b;"),
        ("a word that others have read", "out[b * 256 + t] = work[t]; if (b == 4) work[t] = 1;"),
        ("an atomic and a store", "if (b < 4) ADD(&out[t], 1u); else out[t] = 7;"),
        ("an atomic and a load", "if (b < 4) ADD(&out[t], 1u); else work[t] = out[t];"),
        ("one byte too many", "((u8*)out)[b * 3 + t % 4] = b + 1;"),
        ("half a word", "((u16*)out)[b + t % 2] = b + 1;"),
    ];
    for arch in Arch::ALL {
        for (what, body) in cases {
            let text = source(&format!("KERNEL {{ u32 t = THREAD, b = BLOCK; {body} }}"));
            for order in [1, 4] {
                let failure = run_in_order(arch, &text, order).expect_err(what);
                assert_eq!(failure.cause, Cause::Race, "{arch}, {what}: {failure}");
                let place = failure.place.expect("a place");
                assert!(place.kernel == "k" && place.lane.is_some() && !place.text.is_empty(), "{arch}, {what}");
            }
        }
    }
}

#[test]
fn blocks_that_share_nothing_are_silent() {
    if clang().is_none() {
        return;
    }
    let cases = [
        ("places of their own", "out[b * 256 + t] = in[b * 256 + t];"),
        ("the same input", "out[b * 256 + t] = in[t] + in[t / 2] + in[0];"),
        ("bytes of one word", "((u8*)out)[b + 5 * t] = 1;"),
        ("halves of one word", "((u16*)out)[b + 5 * t] = 1;"),
        ("the same value at the same place", "out[t] = t;"),
        ("sums by atomics", "ADD(&out[t], in[t]);"),
        (
            "a compare-and-swap that looks first",
            "u32 old = LOAD(&out[t]); __hip_atomic_compare_exchange_strong(&out[t], &old, old + 1, \
          __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);",
        ),
        ("its own word again", "out[b * 256 + t] = 1; FENCE; out[b * 256 + t] += 2;"),
        ("reading, then writing, in place", "u32 x = out[b * 256 + t]; out[b * 256 + t] = x + 1;"),
    ];
    for arch in Arch::ALL {
        for (what, body) in cases {
            let text = source(&format!("KERNEL {{ u32 t = THREAD, b = BLOCK; {body} }}"));
            run(arch, &text).unwrap_or_else(|failure| panic!("{arch}, {what}: {failure}"));
        }
    }
}

#[test]
fn waves_of_a_block_meet_in_global_memory_behind_a_barrier() {
    if clang().is_none() {
        return;
    }
    let rotate = "work[b * 256 + t] = in[t]; BARRIER; out[b * 256 + t] = work[b * 256 + (t + 64) % 256];";
    let again = "for (u32 i = 0; i < 4; i++) { work[b * 256 + t] = in[t] + i; BARRIER; \
        out[b * 256 + t] += work[b * 256 + (t + 64) % 256]; BARRIER; }";
    for arch in Arch::ALL {
        for body in [rotate, again] {
            let text = source(&format!("KERNEL {{ u32 t = THREAD, b = BLOCK; {body} }}"));
            run(arch, &text).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            let missing = text.replacen("BARRIER; out", "out", 1).replacen("BARRIER;         out", "out", 1);
            assert_ne!(missing, text);
            let failure = run(arch, &missing).expect_err("no barrier");
            assert!(failure.cause == Cause::Race && failure.message.contains("barrier"), "{arch}: {failure}");
        }
        // The second barrier keeps the next round's stores from what is read in this one.
        let second = source(&format!("KERNEL {{ u32 t = THREAD, b = BLOCK; {again} }}")).replace(" BARRIER; }", " }");
        assert_eq!(run(arch, &second).expect_err("no barrier").cause, Cause::Race, "{arch}");
        // A barrier without fences does for the compute unit that all waves are on; on two units, stores must be waited for and caches
        // invalidated.
        let bare = source(&format!("KERNEL {{ u32 t = THREAD, b = BLOCK; {rotate} }}"))
            .replace("BARRIER", "__builtin_amdgcn_s_barrier(); asm volatile(\"\" ::: \"memory\")");
        let result = run(arch, &bare);
        if arch.is_cdna() {
            result.unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        } else {
            let failure = result.expect_err("no fence");
            let why = ["waited for", "invalidated"];
            assert!(
                failure.cause == Cause::Race && why.iter().any(|why| failure.message.contains(why)),
                "{arch}: {failure}"
            );
        }
    }
}

#[test]
fn several_threads_find_the_same() {
    if clang().is_none() {
        return;
    }
    for arch in [Arch::Gfx1100, Arch::Gfx90a] {
        for (text, clean) in [(source(LAST_BLOCK), true), (source("KERNEL { out[THREAD] = BLOCK; }"), false)] {
            let object = Object::load(&hip(arch, &text)).expect("an object");
            let kernel = object.kernel("k").expect("the kernel");
            for _ in 0..20 {
                let mut memory = Buffers::new();
                let words = vec![1u32; (256 * BLOCKS) as usize];
                let buffers = [memory.from_slice(&words), memory.from_slice(&words), memory.from_slice(&[0u32])];
                let out = memory.from_slice(&words);
                let arguments = memory.from_slice(&[buffers[0], buffers[1], buffers[2], out]);
                let launch = Launch::new(&kernel, [BLOCKS, 1, 1], [256, 1, 1], 0, arguments).expect("a launch");
                let launch =
                    launch.with_options(Options { schedule: Schedule::Random(7), switch_every: 50, ..CHECKED });
                let results = std::thread::scope(|scope| {
                    let run = |from: u32| {
                        let (launch, memory) = (&launch, &memory);
                        scope.spawn(move || {
                            let mut worker = Worker::new();
                            (from..BLOCKS).step_by(2).try_for_each(|n| launch.run_block([n, 0, 0], &mut worker, memory))
                        })
                    };
                    let threads = [run(0), run(1)];
                    threads.map(|thread| thread.join().expect("no panic"))
                });
                for failure in results.iter().filter_map(|result| result.as_ref().err()) {
                    assert!(!clean && failure.cause == Cause::Race, "{arch}: {failure}");
                }
                assert!(clean || results.iter().any(Result::is_err), "{arch}");
            }
        }
    }
}
