//! Programs of ROCm that nobody here wrote, on emulated GPUs.

mod common;

use common::emulated;
use std::path::Path;
use std::process::Output;

fn run(program: &str, arguments: &[&str], arch: Option<&str>) -> Option<Output> {
    let mut command = emulated(Path::new(program), arch);
    command.args(arguments);
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("skipped: {program} does not start ({error})");
            None
        }
        Err(error) => panic!("{program} does not start: {error}"),
    }
}

#[test]
fn rocminfo_names_every_gpu() {
    let Some(output) = run("rocminfo", &[], Some("gfx1030,gfx90a,gfx1030")) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("amdgcn-amd-amdhsa--gfx1030").count(), 2, "{text}");
    assert_eq!(text.matches("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-").count(), 1, "{text}");
}

#[test]
fn without_an_architecture_nothing_is_there() {
    let Some(output) = run("ls", &["/dev/kfd"], None) else { return };
    let there = std::path::Path::new("/dev/kfd").exists();
    assert_eq!(output.status.success(), there, "{output:?}");
}

#[test]
fn other_programs_see_the_files_and_nothing_else_changes() {
    let file = "/sys/class/kfd/kfd/topology/nodes/1/gpu_id";
    let Some(output) = run("cat", &[file, "/proc/self/comm"], Some("gfx1100")) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4660\ncat\n");
    let Some(output) = run("sh", &["-c", "test -r /dev/kfd && test ! -e /dev/dri/renderD129"], Some("gfx1100")) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_unknown_architecture_is_a_sentence() {
    let Some(output) = run("cat", &["/dev/kfd"], Some("gfx803")) else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("gfx803") && text.contains("gfx1100"), "{text}");
}
