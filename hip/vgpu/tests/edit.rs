//! Kernels with one instruction replaced: a barrier that is taken out is noticed, and what is no instruction is refused.

mod common;

use common::{clang, hip};
use vgpu::{Arch, Buffers, Cause, Checks, Edit, Failure, Launch, Object, Options, With, Worker};

const ROTATE: &str = r#"
extern "C" __global__ void k(const u32* in, u32* out, u64 n) {
    __shared__ u32 tile[128];
    u32 t = THREAD;
    tile[t] = in[t];
    BARRIER;
    out[t] = tile[(t + 64) % 128];
}"#;

fn run(object: &Object) -> Result<Vec<u32>, Failure> {
    let kernel = object.kernel("k").expect("the kernel");
    let mut memory = Buffers::new();
    let input = memory.from_slice(&(0..128).collect::<Vec<u32>>());
    let output = memory.alloc(512);
    let arguments = memory.from_slice(&[input, output, 128]);
    let options = Options { checks: Checks::ALL, ..Options::default() };
    Launch::new(&kernel, [1, 1, 1], [128, 1, 1], 0, arguments)?
        .with_options(options)
        .run(&mut Worker::new(), &memory)?;
    Ok(memory.read(output, 128).expect("the output"))
}

#[test]
fn a_barrier_that_is_taken_out_is_noticed() {
    if clang().is_none() {
        return;
    }
    for arch in Arch::ALL {
        let bytes = hip(arch, ROTATE);
        let mut object = Object::load(&bytes).expect("an object");
        let sites: Vec<u64> = {
            let kernel = object.kernel("k").expect("the kernel");
            let all = kernel.instructions();
            assert_eq!(all[0].0, 0, "{arch}: the first instruction comes first");
            all.iter().filter(|(_, inst)| inst.name().starts_with("s_barrier")).map(|(offset, _)| *offset).collect()
        };
        assert!(!sites.is_empty(), "{arch}: a barrier is there");
        assert!(run(&object).is_ok(), "{arch}: nothing is replaced yet");
        for &offset in &sites {
            object.edit(&Edit { kernel: "k".into(), offset, with: With::Nothing }).expect("nobody has the kernel");
        }
        // Whichever wave comes first: what the other one wrote is not there, or is there without an order.
        let failure = run(&object).expect_err("no order");
        assert!(matches!(failure.cause, Cause::Race | Cause::Undefined), "{arch}: {failure}");

        let mut object = Object::load(&bytes).expect("an object");
        object.edit(&Edit { kernel: "k".into(), offset: sites[0], with: With::Stop }).expect("nobody has the kernel");
        assert_eq!(run(&object).expect_err("it is reached").cause, Cause::Instruction, "{arch}");
    }
}

#[test]
fn bad_edits_are_refused() {
    if clang().is_none() {
        return;
    }
    let mut object = Object::load(&hip(Arch::Gfx1100, ROTATE)).expect("an object");
    let edit = |kernel: &str, offset| Edit { kernel: kernel.into(), offset, with: With::Nothing };
    assert!(object.edit(&edit("k", 1)).unwrap_err().contains("no instruction"));
    assert!(object.edit(&edit("k", u64::MAX - 3)).unwrap_err().contains("no instruction"));
    assert_eq!(object.edit(&edit("another", 0)), Ok(()));
    let held = object.kernel("k");
    assert!(object.edit(&edit("k", 0)).unwrap_err().contains("in use"));
    drop(held);
    assert_eq!(object.edit(&edit("k", 0)), Ok(()));
    for text in ["", "k", "k+8", "k+8=nothing", "k+0x8", "k+0x8=faster", "+0x8=nothing", "k+0xg=stop"] {
        assert!(text.parse::<Edit>().is_err(), "{text}");
    }
    assert_eq!("k+0x8=stop".parse::<Edit>().map(|edit| edit.to_string()), Ok("k+0x8=stop".to_owned()));
}
