//! What cannot be done is said in a sentence, and what is done too.

use crate::support::*;

#[test]
fn a_release_without_packages() {
    let project = Project::new(&MANIFEST.replace("0.11.1", "=0.8.4"));
    let said = fails(project.rocm(&["check"]), 3);
    assert!(
        said.contains("is locked to candle-core 0.8.4, and this cargo rocm has 0.9.2, 0.10.2 and 0.11.1: ask for"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_project_without_candle() {
    let project = Project::new(&MANIFEST.replace("candle-core = \"0.11.1\"\n", "").replace("\"candle-core/cuda\"", ""));
    let said = fails(project.rocm(&["run", "--features", "cuda"]), 3);
    assert!(said.contains("does not use Candle") && said.contains("cargo add candle-core@0.11.1"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_patch_of_the_projects_own() {
    let path = clone().join("candle/candle-core");
    let patch = format!("{MANIFEST}\n[patch.crates-io]\ncandle-core = {{ path = {:?} }}\n", path.display().to_string());
    let project = Project::new(&patch);
    for _ in 0..2 {
        let said = succeeds(project.command("rocm", &["tree", "--depth", "1"]).output());
        let own = format!("the project's own [patch] of candle-core ({}) is used", path.display());
        assert!(said.contains(&own) && !said.contains("Grafting"), "{said}");
        assert!(said.contains(&format!("candle-core v0.11.1 ({}", path.display())), "{said}");
        // Cargo is called as if we were not there, and writes what it writes.
        assert!(project.read("Cargo.lock").contains("name = \"candle-graft\""));
    }
}

#[test]
fn no_project_and_no_command() {
    let empty = tempfile::tempdir().unwrap();
    let project = Project::new(MANIFEST);
    let said = fails(project.command("rocm", &["build"]).current_dir(empty.path()).output().unwrap(), 101);
    assert!(said.contains("could not find `Cargo.toml`"), "{said}");
    let said = fails(project.rocm(&["publish"]), 2);
    assert!(said.contains("`cargo publish` has nothing to do with the GPU"), "{said}");
    for words in [&["--help"][..], &[]] {
        let help = succeeds(project.command("rocm", words).output());
        assert!(help.contains("Usage: cargo rocm"), "{help}");
    }
    let version = succeeds(project.command("rocm", &["--version"]).output());
    assert!(version.contains("(Candle 0.9.2, 0.10.2, 0.11.1)"), "{version}");
}

#[test]
fn the_packages_of_a_clone() {
    let project = Project::of_candle();
    let clone = clone();
    let tree = ["--packages", &clone.display().to_string(), "tree", "--depth", "1"];
    let said = succeeds(project.command("rocm", &tree).output());
    assert!(said.contains(&format!("candle-core v0.11.1 ({}/candle", clone.display())), "{said}");
    let mut call = project.command("rocm", &tree[2..]);
    let named = succeeds(call.env("CANDLE_ROCM_PACKAGES", &clone).output());
    assert!(named.contains(&format!("candle-core v0.11.1 ({}/candle", clone.display())), "{named}");
    let said = fails(project.rocm(&["--packages", "src", "tree"]), 3);
    assert!(said.contains("has no grafted candle-core: name a clone"), "{said}");
}

#[test]
fn quiet_is_quiet() {
    let project = Project::of_candle();
    let output = project.rocm(&["tree", "--quiet", "--depth", "1"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn new_makes_a_project_that_has_candle() {
    let project = Project::new(MANIFEST);
    let above = project.root().parent().unwrap().to_owned();
    let said = succeeds(project.command("rocm", &["new", "hello", "--vcs", "none"]).current_dir(&above).output());
    assert!(said.contains("in hello, `cargo rocm run --features cuda` runs it"), "{said}");
    let tree = project.command("rocm", &["tree", "--features", "cuda"]).current_dir(above.join("hello")).output();
    let tree = succeeds(tree);
    assert!(tree.contains("hello v0.1.0") && tree.contains("candle-rocm-kernels v"), "{tree}");
    // The program is the one that gpu.rs runs.
    assert_eq!(std::fs::read_to_string(above.join("hello/src/main.rs")).unwrap(), crate::gpu::PROGRAM);
    fails(project.command("rocm", &["new", "hello"]).current_dir(&above).output().unwrap(), 101);
    fails(project.rocm(&["new"]), 2);
}

#[test]
fn install_of_a_crate_without_candle() {
    let project = Project::new(MANIFEST);
    let root = project.root().join("installed");
    let said = fails(project.rocm(&["install", "cfg-if@1.0.0", "--root", &root.display().to_string()]), 3);
    assert!(said.contains("does not use Candle"), "{said}");
    assert!(!root.exists() && std::fs::read_dir(project.cache.join("installs")).unwrap().count() == 0);
    let said = fails(project.rocm(&["install", "--git", "https://example.org/tool"]), 2);
    assert!(said.contains("install it with --path"), "{said}");
}
