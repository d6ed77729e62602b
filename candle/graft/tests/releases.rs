//! Grafts the real releases of Candle, as cargo finds them in the registry. An overlay with the hooks of the
//! newest release serves all of them: hooks a release does not ask for stay unused.

use candle_graft::{graft, upstream, waivers, Job, Report, Rule};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const RELEASES: [&str; 4] = ["0.9.2", "0.10.2", "0.11.0", "0.11.1"];

/// A folder of its own for every graft, also where two tests graft the same release. It is removed with this value.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Scratch(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder can be written"))
    }
    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
        std::fs::write(path, text).expect("file");
    }
    fn folder(&self, path: &str) -> PathBuf {
        let folder = self.path(path);
        std::fs::create_dir_all(&folder).expect("folder");
        folder
    }
}

/// Modules and hooks that the rules look for; what is inside is of no interest to the graft.
fn write_overlay(scratch: &Scratch, name: &str) {
    let functions = |names: &[&str]| names.iter().map(|name| format!("pub fn {name}() {{}}\n")).collect::<String>();
    match name {
        "candle-core" => {
            scratch.file("overlay/rocm_backend/mod.rs", "");
            scratch.file("overlay/quantized/rocm.rs", "");
            scratch.file("overlay/sort/rocm_ops.rs", &functions(&["arg_sort"]));
        }
        _ => {
            let ops = ["sigmoid", "softmax_last_dim", "rms_norm", "layer_norm"];
            scratch.file("overlay/ops/rocm_ops.rs", &functions(&ops));
            let rotations = ["rotary_emb", "rotary_emb_i", "rotary_emb_thd"];
            scratch.file("overlay/rotary_emb/rocm_ops.rs", &functions(&rotations));
            scratch.file("overlay/moe/rocm_ops.rs", &functions(&["moe_gemm", "moe_gemm_gguf"]));
        }
    }
}

fn graft_release(name: &str, version: &str) -> (Scratch, Report) {
    let scratch = Scratch::new();
    let source = upstream::locate(name, version, &scratch.folder("find")).expect("the release is in the registry");
    write_overlay(&scratch, name);
    let job = Job {
        source: &source,
        version,
        overlay: &scratch.folder("overlay"),
        output: &scratch.folder("output"),
        waivers: waivers::for_crate(name),
    };
    let report = graft(&job).unwrap_or_else(|error| panic!("{name} {version}: {error}"));
    (scratch, report)
}

#[test]
fn candle_core_is_grafted_in_every_release() {
    for version in RELEASES {
        let (scratch, report) = graft_release("candle-core", version);
        let count = |rule| report.sites_by_rule().get(&rule).copied().unwrap_or_default();
        assert!(count(Rule::Name) >= 12, "{version}: {report}");
        assert!(count(Rule::NoException) >= 3, "{version}: {report}");
        assert_eq!(count(Rule::UpstreamFix), 1, "{version}: {report}");
        let mounts: Vec<_> = report.mounts.iter().map(|mount| mount.module.as_str()).collect();
        assert_eq!(mounts, ["rocm_backend", "rocm", "rocm_ops"], "{version}");
        let hooks: Vec<_> = report.hooks.iter().map(|hook| hook.function.as_str()).collect();
        assert_eq!(hooks, ["arg_sort"], "{version}");
        for file in report.files.iter().filter(|file| file.ends_with(".rs")) {
            let text = std::fs::read_to_string(scratch.path("output").join(file)).expect("a grafted file");
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{version} {file} is no longer Rust: {error}"));
        }
    }
}

#[test]
fn candle_nn_is_grafted_in_every_release() {
    for version in RELEASES {
        let (_scratch, report) = graft_release("candle-nn", version);
        let hooks: Vec<_> = report.hooks.iter().map(|hook| hook.function.as_str()).collect();
        let expected = [
            "moe_gemm",
            "moe_gemm_gguf",
            "sigmoid",
            "softmax_last_dim",
            "rms_norm",
            "layer_norm",
            "rotary_emb_i",
            "rotary_emb",
            "rotary_emb_thd",
        ];
        assert_eq!(hooks, expected, "{version}");
        assert_eq!(report.mounts.len(), 3, "{version}: {report}");
        assert_eq!(report.sites_by_rule().get(&Rule::UpstreamFix), Some(&1), "{version}: {report}");
        assert!(report.waivers.is_empty(), "{version}: {report}");
    }
}

/// The backend itself, and not only its names: its files take CUDA's place in the older releases too. In the newest, the build shows it.
#[test]
fn the_backend_takes_cudas_place_in_older_releases() {
    for (name, hooks) in [("candle-core", 11), ("candle-nn", 10)] {
        let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("rocm");
        for version in ["0.9.2", "0.10.2"] {
            let scratch = Scratch::new();
            let source =
                upstream::locate(name, version, &scratch.folder("find")).expect("the release is in the registry");
            let output = scratch.folder("output");
            let waivers = waivers::for_crate(name);
            let job = Job { source: &source, version, overlay: &overlay, output: &output, waivers };
            let report = graft(&job).unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            assert_eq!(report.hooks.len(), hooks, "{name} {version}: {report}");
            for file in report.files.iter().filter(|file| file.ends_with(".rs")) {
                let text = std::fs::read_to_string(output.join(file)).expect("a grafted file");
                syn::parse_file(&text).unwrap_or_else(|error| panic!("{name} {version} {file}: {error}"));
            }
        }
    }
}

/// The tokens of a source text, groups opened up.
fn tokens(stream: proc_macro2::TokenStream, out: &mut Vec<String>) {
    use proc_macro2::{Delimiter, TokenTree};
    for token in stream {
        let TokenTree::Group(group) = token else {
            out.push(token.to_string());
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        out.push(open.to_string());
        tokens(group.stream(), out);
        out.push(close.to_string());
    }
}

/// Metal and the CPU must not notice: upstream's tokens, all of them and in order, are still there. Exported macros
/// carry another name where they are defined, and what is included lost its inner documentation and lint levels; nothing
/// else may differ.
#[test]
fn the_graft_only_adds() {
    for name in ["candle-core", "candle-nn"] {
        let (scratch, report) = graft_release(name, "0.11.1");
        let upstream = upstream::locate(name, "0.11.1", &scratch.folder("find")).expect("the release");
        for file in report.files.iter().filter(|file| file.ends_with(".rs")) {
            let before = std::fs::read_to_string(upstream.join(file)).expect("every file is upstream's");
            let before: String = before
                .lines()
                .filter(|line| !line.starts_with("//!") && !line.starts_with("#![allow("))
                .map(|l| format!("{l}\n"))
                .collect();
            let after = std::fs::read_to_string(scratch.path("output").join(file)).expect("a grafted file");
            let (mut old, mut new) = (Vec::new(), Vec::new());
            tokens(before.parse().expect("upstream is Rust"), &mut old);
            tokens(after.parse().expect("the graft is Rust"), &mut new);
            let mut new = new.iter();
            for token in &old {
                let kept = new.any(|grafted| grafted == token || grafted.strip_prefix("__") == Some(token));
                assert!(kept, "{name}: {file} lost `{token}`");
            }
        }
    }
}

/// Two tests that graft one release at the same time must not meet.
#[test]
fn grafts_of_the_same_release_lie_in_folders_of_their_own() {
    let (first, second) = (graft_release("candle-nn", "0.11.1"), graft_release("candle-nn", "0.11.1"));
    let file = &first.1.files[0];
    drop(second.0);
    assert!(first.0.path("output").join(file).exists(), "{file} went with the other graft");
}

#[test]
fn a_folder_can_be_named_instead_of_asking_cargo() {
    let scratch = Scratch::new();
    let source = upstream::locate("candle-nn", "0.11.1", &scratch.folder("find")).expect("the release");
    let registry = source.parent().expect("a crate lies in a folder");
    let found = |folder: &Path, version| upstream::locate_in(folder, "candle-nn", version);
    assert_eq!(found(registry, "0.11.1").expect("beside its siblings"), source);
    assert_eq!(found(&source, "0.11.1").expect("the crate itself"), source);
    let wrong = found(&source, "0.0.1").expect_err("no such version").to_string();
    assert!(wrong.contains("candle-nn 0.0.1") && wrong.contains("candle-nn 0.11.1"), "{wrong}");
    let nowhere = found(Path::new("/nowhere/at/all"), "0.11.1").expect_err("no such folder").to_string();
    assert!(nowhere.contains("/nowhere/at/all"), "{nowhere}");
}
