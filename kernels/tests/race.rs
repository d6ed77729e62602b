//! Processes that want the same kernels from an empty cache at once, and one that is killed while it compiles. Real
//! processes: this test program again, with a real clang behind a script that counts how often it compiles.
#![cfg(unix)]

use candle_rocm_kernels::{objects, Id};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The run-time compiler is never asked for a generic target, so that this is clang's work on every machine.
const TARGET: &str = "gfx11-generic";

/// A cache folder of its own, and the compiler with its count.
struct Scene {
    folder: PathBuf,
}

impl Scene {
    /// `None` where there is no clang, which is an error only where `CI` is set.
    fn new(name: &str) -> Option<Self> {
        let clang = match objects::clang() {
            Ok(clang) => clang,
            Err(why) => {
                assert!(std::env::var_os("CI").is_none(), "{why}");
                eprintln!("skipped: {why}");
                return None;
            }
        };
        let folder = std::env::temp_dir().join(format!("candle-rocm-race-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--offload-arch=*)\n  echo $$ >> '{0}/compiles'\n  [ -z \"$HANG\" ] || exec sleep 600\n  sleep 1;;\nesac\nexec {1} \"$@\"\n",
            folder.display(),
            clang.program().display()
        );
        fs::write(folder.join("clang++"), script).unwrap();
        fs::set_permissions(folder.join("clang++"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { folder })
    }

    /// A process that asks for a module, and prints where it got it from.
    fn start(&self, hang: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "a_process_of_its_own", "--nocapture"])
            .env("CANDLE_ROCM_CACHE", self.folder.join("cache"))
            .env("CLANG", self.folder.join("clang++"))
            .env("HANG", hang)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The processes of all compilations so far.
    fn compiles(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.folder.join("compiles")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn files(&self, extension: &str) -> usize {
        let entries = fs::read_dir(self.folder.join("cache")).unwrap().flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|found| found == extension)).count()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a process said; it must have succeeded.
fn said(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{text}\n{}", String::from_utf8_lossy(&stderr));
    text
}

#[test]
#[ignore = "the other tests run this in processes of its own"]
fn a_process_of_its_own() {
    let object = objects::for_arch(Id::Rope.module(), TARGET).unwrap();
    assert!(object.bytes.starts_with(b"\x7fELF"));
    println!("origin: {}", object.origin);
}

#[test]
fn of_two_processes_one_compiles_and_both_get_it() {
    let Some(scene) = Scene::new("two") else { return };
    let (first, second) = (scene.start(""), scene.start(""));
    let both = [said(first), said(second)];
    assert_eq!(scene.compiles().len(), 1, "{both:?}");
    assert_eq!(both.iter().filter(|text| text.contains("origin: kept from before")).count(), 1, "{both:?}");
    assert_eq!((scene.files("object"), scene.files("part")), (1, 0));
}

#[test]
fn after_one_is_killed_in_the_middle_the_next_repairs() {
    let Some(scene) = Scene::new("killed") else { return };
    let mut victim = scene.start("yes");
    let start = Instant::now();
    while scene.compiles().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(120), "it never began to compile");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SIGKILL: no destructor runs, no signal handler.
    victim.kill().unwrap();
    victim.wait().unwrap();
    // SAFETY: the process was started by the one above, for us; its number was written by itself.
    unsafe { libc::kill(scene.compiles()[0], libc::SIGKILL) };
    assert_eq!(scene.files("object"), 0);
    let next = said(scene.start(""));
    assert!(next.contains("clang version"), "the next start compiles: {next}");
    assert_eq!(scene.compiles().len(), 2);
    assert!(said(scene.start("")).contains("origin: kept from before"));
    assert_eq!((scene.compiles().len(), scene.files("object"), scene.files("part")), (2, 1, 0));
}

#[test]
fn a_damaged_entry_is_compiled_again() {
    let Some(scene) = Scene::new("damaged") else { return };
    said(scene.start(""));
    let entries = fs::read_dir(scene.folder.join("cache")).unwrap().flatten().map(|entry| entry.path());
    let path = entries.into_iter().find(|path| path.extension().is_some_and(|found| found == "object")).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(said(scene.start("")).contains("clang version"));
    assert_eq!(fs::read(&path).unwrap().len(), whole.len());
}
