//! Releases of Candle: a project of each is given the packages of its release. Building them takes minutes, so that a run is only
//! made when it is asked for; `.ci/release` does.

use crate::support::*;

/// All that `cargo rocm` has packages for, but for the one that the other tests use.
const OTHERS: [&str; 2] = ["0.9.2", "0.10.2"];

/// As a user's, with this crate's optimisation, and like the workspaces of the releases: what is built there is used here.
fn manifest(release: &str) -> String {
    format!(
        "[package]\nname = \"trial\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\nserde_json = \"1\"\n\
        candle-core = \"{release}\"\ncandle-nn = \"{release}\"\ncandle-transformers = \"{release}\"\n\n\
        [features]\ncuda = [\"candle-core/cuda\", \"candle-nn/cuda\", \"candle-transformers/cuda\"]\n\
        flash-attn = [\"cuda\", \"candle-transformers/flash-attn\"]\n\n\
        [profile.dev]\nopt-level = 1\ndebug = \"line-tables-only\"\n"
    )
}

#[test]
fn a_project_of_another_release_is_given_its_packages() {
    for release in OTHERS {
        let project = Project::new(&manifest(&format!("={release}")));
        let tree = ["tree", "--features", "flash-attn", "--prefix", "none", "--edges", "normal"];
        let said = succeeds(project.command("rocm", &tree).output());
        let line = said.lines().find(|line| line.contains("Grafting")).expect("one line says what is done");
        let words = ["candle-core", "candle-flash-attn", "candle-nn"].map(|name| format!("{name} {release}"));
        assert!(words.iter().all(|words| line.contains(words)), "{line}");
        assert!(!line.contains("cudarc"), "nobody but Candle uses it: {line}");
        let packages: Vec<&str> = said.lines().collect();
        for (name, count) in [("candle-core v", 1), ("candle-nn v", 1), ("candle-flash-attn v", 1), ("hip v", 1)] {
            let mut found: Vec<_> = packages.iter().filter(|package| package.starts_with(name)).collect();
            found.sort_unstable();
            found.dedup_by_key(|package| package.trim_end_matches(" (*)"));
            assert_eq!(found.len(), count, "{found:?}");
            assert!(found[0].contains("/packages/"), "{found:?}");
        }
        assert!(!packages.iter().any(|package| package.starts_with("candle-kernels")), "{said}");
    }
}

#[test]
fn a_lock_file_with_an_earlier_release_is_read_as_the_one_with_packages() {
    let project = Project::new(&MANIFEST.replace("\"0.11.1\"", "\"0.11.0\"\ncandle-nn = \"0.11.0\""));
    for name in ["candle-nn", "candle-core"] {
        succeeds(project.command("cargo", &["update", name, "--precise", "0.11.0"]).output());
    }
    let own = project.read("Cargo.lock");
    for _ in 0..2 {
        let said = succeeds(project.command("rocm", &["tree", "--depth", "1"]).output());
        assert!(said.contains("Grafting candle-core 0.11.1, candle-nn 0.11.1 for AMD GPUs"), "{said}");
        for name in ["candle-core", "candle-nn"] {
            assert!(said.contains(&format!("{name} 0.11.1 stands in for 0.11.0")), "{said}");
        }
        assert_eq!(project.read("Cargo.lock"), own);
    }
    // A lock file that must be kept to the letter, and a manifest that wants that release and no other.
    let said = fails(project.rocm(&["tree", "--locked"]), 3);
    assert!(said.contains("`cargo update candle-core --precise 0.11.1`"), "{said}");
    project.write("Cargo.toml", &project.read("Cargo.toml").replace("\"0.11.0\"", "\"=0.11.0\""));
    let said = fails(project.rocm(&["tree"]), 3);
    assert!(said.contains("is locked to candle-core 0.11.0"), "{said}");
    assert_eq!(project.read("Cargo.lock"), own);
}

#[test]
fn a_project_with_two_releases_is_given_both() {
    let other = "candle-core = \"=0.11.1\"\nolder = { package = \"candle-core\", version = \"=0.10.2\" }\n";
    let manifest = MANIFEST.replace("candle-core = \"0.11.1\"\n", other);
    let project = Project::new(&manifest.replace("\"candle-core/cuda\"", "\"candle-core/cuda\", \"older/cuda\""));
    let said = succeeds(project.command("rocm", &["tree", "--features", "cuda", "--depth", "1"]).output());
    assert!(said.contains("Grafting candle-core 0.10.2, candle-core 0.11.1 for AMD GPUs"), "{said}");
    for path in ["candle/0.10.2/candle-core)", "candle/candle-core)"] {
        assert!(said.contains(path), "{said}");
    }
}

/// The small model of the repository, with the Llama of that release's candle-transformers.
#[test]
#[ignore = "builds every other release, minutes each"]
fn a_llama_of_another_release_writes_what_the_cpu_writes() {
    let wanted = std::env::var("CANDLE_RELEASES").unwrap_or(OTHERS.join(" "));
    for release in wanted.split(' ') {
        let project = Project::new(&manifest(&format!("={release}")));
        project.write("src/main.rs", include_str!("programs/llama.rs"));
        // With the versions of everything else that the repository has: most of it is there already.
        let lock = std::fs::read_to_string(clone().join("Cargo.lock")).expect("the repository has a lock file");
        project.write("Cargo.lock", &lock);
        let model = clone().join("assets/novelist-7m").display().to_string();
        let mut call = project.command("rocm", &["run", "--features", "cuda", "--", &model]);
        call.env("CANDLE_ROCM_PACKAGES", clone()).env("CANDLE_ROCM_PLATFORM", "host");
        call.env("CARGO_TARGET_DIR", clone().join("target/releases"));
        let said = succeeds(call.output());
        println!("{said}");
        assert!(said.contains("on Cuda { gpu_id: 0 }") && said.contains("100 tokens are the CPU's"), "{said}");
    }
}
