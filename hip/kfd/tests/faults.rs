//! Programs that do something wrong end as they would on a machine with a GPU, with a report before, and leave nothing behind.

mod common;

use common::{example, finish};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const ARCHS: [&str; 2] = ["gfx1030", "gfx90a"];

/// Runs the program of faults: whether it was aborted, and all that was printed.
fn run(arch: &str, what: &str, variables: &[(&str, &str)]) -> Option<(Option<i32>, Option<i32>, String)> {
    let mut command = example("faults", arch)?;
    command.arg(what).envs(variables.iter().copied());
    let output = finish(&mut command);
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.code(), output.status.signal(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn a_program_without_faults_ends_well() {
    for arch in ARCHS {
        let Some((code, _, text)) = run(arch, "fine", &[]) else { return };
        assert_eq!((code, text.as_str()), (Some(0), "fine: as it should be\n"), "{arch}");
    }
}

#[test]
fn a_store_outside_is_reported_and_ends_the_program() {
    for arch in ARCHS {
        let Some((_, signal, text)) = run(arch, "outside", &[]) else { return };
        assert_eq!(signal, Some(libc::SIGABRT), "{text}");
        assert!(text.contains(&format!("vgpu: on {arch}: writes 4 bytes at 0x")), "{text}");
        assert!(text.contains("in kernel outside, block (0, 0, 0)"), "{text}");
        assert!(text.contains("Memory access fault by GPU"), "{text}");
    }
}

#[test]
fn an_illegal_instruction_is_reported_and_ends_the_program() {
    for arch in ARCHS {
        let Some((_, signal, text)) = run(arch, "illegal", &[]) else { return };
        assert_eq!(signal, Some(libc::SIGABRT), "{text}");
        assert!(text.contains("in kernel illegal") && text.contains("HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"), "{text}");
    }
}

#[test]
fn a_trap_is_reported_and_ends_the_program() {
    for arch in ARCHS {
        let Some((_, signal, text)) = run(arch, "trap", &[]) else { return };
        assert_eq!(signal, Some(libc::SIGABRT), "{text}");
        assert!(text.contains("trap 2, in kernel trap") && text.contains("HSA_STATUS_ERROR_EXCEPTION"), "{text}");
    }
}

#[test]
fn a_kernel_that_never_ends_is_stopped() {
    let start = Instant::now();
    for arch in ARCHS {
        let Some((_, signal, text)) = run(arch, "hang", &[("KFD_TIME_LIMIT", "1")]) else { return };
        assert_eq!(signal, Some(libc::SIGABRT), "{text}");
        assert!(text.contains("in kernel hang") && text.contains("more than 1 s (KFD_TIME_LIMIT)"), "{text}");
        // HIP 5.2 does not listen for hangs, so its queue is told to have failed.
        assert!(text.contains("GPU Hang") || text.contains("HSA_STATUS_ERROR_EXCEPTION"), "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(300));
}

#[test]
fn memory_that_runs_out_is_an_error() {
    let Some((code, _, text)) = run("gfx1030", "memory", &[("KFD_MEMORY", "256")]) else { return };
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("256.0 MiB"), "{text}");
}

#[test]
fn a_forked_child_starts_anew() {
    let Some((code, _, text)) = run("gfx1030", "fork", &[]) else { return };
    assert_eq!((code, text.as_str()), (Some(0), "fine: as it should be\nfork: as it should be\n"));
}

#[test]
fn nothing_is_left_behind() {
    let shared = || std::fs::read_dir("/dev/shm").map_or(0, |files| files.filter_map(Result::ok).filter(ours).count());
    let before = shared();
    for what in ["fine", "outside"] {
        if run("gfx1030", what, &[]).is_none() {
            return;
        }
    }
    assert_eq!(shared(), before);
}

/// Files that AMD's user space or the emulated driver would make.
fn ours(file: &std::fs::DirEntry) -> bool {
    let name = file.file_name();
    let name = name.to_string_lossy();
    ["hsa", "kfd", "sem.hsa"].iter().any(|start| name.starts_with(start))
}
