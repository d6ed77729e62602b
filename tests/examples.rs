//! Runs every example on the embedded device and looks at what it prints. `cargo test` builds the examples; where only
//! this test was asked for, it says how to build them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the examples: beside the folder of this test.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own path");
    let folder = this.parent().and_then(Path::parent).expect("cargo puts tests into a folder of the profile's folder");
    folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn run(name: &str) -> String {
    output(name, Command::new(program(name)))
}

/// As two ranks.
fn launch(name: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candle-rocm"));
    command.args(["launch", "-n", "2", "--"]).arg(program(name));
    output(name, command)
}

fn output(name: &str, mut command: Command) -> String {
    assert!(program(name).exists(), "{name} is not built: run `cargo build --examples` first, or all of `cargo test`");
    for variable in ["HIP_HOST_DEVICES", "HIP_HOST_WAVE", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] {
        command.env_remove(variable);
    }
    let output = command.env("CANDLE_ROCM_PLATFORM", "host").output().expect("an example can be started");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed ({}):\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Everything that is expected is there, one after the other.
fn check(name: &str, expected: &[&str]) {
    let output = run(name);
    let mut rest = output.as_str();
    for part in expected {
        let Some(at) = rest.find(part) else { panic!("{name}: {part:?} is not where it should be in:\n{output}") };
        rest = &rest[at + part.len()..];
    }
}

/// A test for each example: what its output must contain, in this order.
macro_rules! examples {
    ($($test:ident $name:literal [$($expected:literal,)*])*) => {
        $(#[test]
        fn $test() {
            check($name, &[$($expected),*]);
        })*

        const TESTED: &[&str] = &[$($name),*];
    };
}

examples! {
    hello_tensor "01-hello-tensor" [
        "platform host",
        "Tensor[[2, 2], f32, cuda:0]",
        "the sum of the product is 83",
        "CPU says the same",
        "rocm_if_available(0) gives Cuda { gpu_id: 0 } here",
    ]
    devices_and_memory "02-devices-and-memory" [
        "platform host: CANDLE_ROCM_PLATFORM=host asks for it",
        "rocm:0",
        "at the start          0.0 MiB in use",
        "one matrix            4.0 MiB in use",
        "after 100 steps       4.0 MiB in use",
        "all dropped           0.0 MiB in use",
        "12.0 MiB went back to the system",
        "at the end            0.0 MiB in use,    2.0 MiB held",
    ]
    layouts_and_errors "03-layouts-and-errors" [
        "four views, no memory",
        "transposed         [4, 3], strides [1, 4], sum 66",
        "row 0, three times [3, 4], strides [0, 1], sum 18",
        "shape mismatch in matmul",
        "dtype mismatch in add",
        "device mismatch in add",
        "exp",
        "7",
        "256 TiB",
        "99",
        "the device worked on",
    ]
    training "04-training" [
        "step   0: loss ",
        "step 400: loss 0.0",
        "points are told apart",
        "##",
        "..",
    ]
    safetensors "05-safetensors" [
        "7.3 million elements",
        "[4096, 256] F16 on Cuda { gpu_id: 0 }",
        "close to \"he\": she",
        "saved as bf16: 2.0 MiB",
    ]
    gguf_generation "06-gguf-generation" [
        "{\"F32\": 17, \"Q8_0\": 57}",
        "It was a dark and stormy night",
        " tokens, ",
    ]
    two_devices "07-two-devices" [
        "rocm:0 is",
        "wave 32",
        "rocm:1 is",
        "wave 64",
        "the result is on Cuda { gpu_id: 1 }",
        "joined on Cuda { gpu_id: 0 }",
        "without to_device: device mismatch in add",
    ]
    custom_kernel "08-custom-kernel" [
        "#####",
        " points differ from the CPU",
    ]
    tensor_parallel "09-tensor-parallel" [
        "8 of 8 heads on each of 1 ranks",
        "It was a dark and stormy night",
    ]
    data_parallel "10-data-parallel" [
        "64 of 64 points on each of 1 ranks",
        "step   0: loss ",
        "step 200: loss 0.0",
        "all ranks have the same weights",
    ]
    kernels_in_rust "11-kernels-in-rust" [
        "saxpy: [1.0, 3.0, 5.0] .. [1995.0, 1997.0, 1999.0]",
        "matmul: 33 x 50 by 50 x 20, 0 elements differ from the CPU",
        "softmax: rows sum to 1.0000, 1.0000, 1.0000, 1.0000",
        "sort: 4096 keys, the same as the CPU's: true",
        "examples/11-kernels-in-rust.rs:",
        "index 4000 is out of range for `x`, which has 4000 elements",
    ]
}

#[test]
fn two_ranks_write_what_one_writes() {
    let (one, two) = (run("09-tensor-parallel"), launch("09-tensor-parallel"));
    assert!(two.starts_with("4 of 8 heads on each of 2 ranks\n"), "{two}");
    let text = |all: &str| all.split_once('\n').expect("two lines").1.to_owned();
    assert_eq!(text(&one), text(&two));
}

#[test]
fn two_ranks_learn_what_one_learns() {
    let losses = |all: &str| -> Vec<f32> {
        let found = all.lines().filter_map(|line| line.split_once(": loss ")?.1.parse().ok()).collect::<Vec<_>>();
        assert_eq!(found.len(), 5, "{all}");
        found
    };
    let two = launch("10-data-parallel");
    assert!(two.starts_with("32 of 64 points on each of 2 ranks\n"), "{two}");
    for (one, two) in losses(&run("10-data-parallel")).into_iter().zip(losses(&two)) {
        // Sums come in another order.
        assert!((one - two).abs() <= 0.0005 + 0.02 * one, "one rank has a loss of {one}, two have {two}");
    }
}

#[test]
fn every_example_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).expect("there are examples").flatten().map(|entry| entry.path());
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.file_name()?.to_str()?.strip_suffix(".rs")?.to_owned())).collect();
    names.sort();
    assert_eq!(names, TESTED);
}
