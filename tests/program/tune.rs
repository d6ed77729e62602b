//! `tune` on the embedded device, whose times mean nothing: that both ways are measured, what is kept and what is not, and that programs
//! plan with what is kept, say so, and leave alone what is damaged or was measured on another card.

use crate::support::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Runs the program with a cache folder of its own.
fn run_in(cache: &Path, arguments: &[&str]) -> Output {
    program()
        .args(arguments)
        .env("CANDLE_ROCM_CACHE", cache)
        .env("RUST_LOG", "warn")
        .output()
        .expect("the program starts")
}

fn device(cache: &Path) -> Value {
    json(run_in(cache, &["info", "--json"]))["devices"][0].clone()
}

/// Measures into a file beside the cache, and returns its text.
fn measured(folder: &Path) -> String {
    let out = folder.join("measured.txt");
    let said =
        printed(run_in(&folder.join("cache"), &["tune", "--minutes", "0.01", "--out", &out.display().to_string()]));
    for field in ["few_rows_bytes", "tiles_from", "widen_from"] {
        assert!(said.contains(&format!("\n{field} (so far ")), "{field} is not in:\n{said}");
    }
    assert_eq!(said.matches("  -> ").count(), 3, "{said}");
    std::fs::read_to_string(out).expect("a file")
}

/// The one file of tuned values in a cache folder.
fn kept(cache: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tuned-"))).last()
}

#[test]
fn what_is_measured_without_a_card_goes_to_a_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = measured(folder.path());
    assert!(text.starts_with("candle-rocm tuned 1\narch host\ncard Embedded device"), "{text}");
    assert!(
        text.contains("\nfew_rows_bytes ") && text.contains("\ntiles_from ") && text.ends_with("\nend\n"),
        "{text}"
    );
    let cache = folder.path().join("cache");
    assert_eq!(kept(&cache), None, "nothing is kept");
    assert!(printed(run_in(&cache, &["tune", "--show"])).contains("nothing is kept"));
    assert!(device(&cache)["tuned"].is_null());
}

#[test]
fn programs_plan_with_what_is_kept_and_leave_damage_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path();
    // What `tune` keeps on a card, by the names that `info` gives; the file's own name comes from a report about a damaged one.
    let card = device(cache)["name"].as_str().expect("a name").to_owned();
    let text = format!(
        "candle-rocm tuned 1\narch host\ncard {card}\ndate 2026-11-19\nfew_rows_bytes 4096\nwiden_from never\nend\n"
    );
    let path = cache.join(file_name(cache));
    std::fs::write(&path, &text).expect("written");

    let tuned = device(cache)["tuned"].clone();
    assert_eq!((&tuned["date"], &tuned["values"]["few_rows_bytes"]), (&"2026-11-19".into(), &4096.into()), "{tuned}");
    let info = printed(run_in(cache, &["info"]));
    assert!(info.contains("tuned on 2026-11-19: few_rows_bytes 4096, widen_from never"), "{info}");
    assert_eq!(printed(run_in(cache, &["tune", "--show"])), text);
    let off = program().args(["info", "--json"]).env("CANDLE_ROCM_CACHE", cache).env("CANDLE_ROCM_TUNED", "0").output();
    assert!(json(off.expect("it starts"))["devices"][0]["tuned"].is_null(), "turned off");

    for damaged in [text.replace("end\n", ""), text.replace(&card, "Another card"), text.replace("4096", "-1")] {
        std::fs::write(&path, &damaged).expect("written");
        let output = run_in(cache, &["bench", "--ops", "affine", "--size", "small"]);
        assert!(output.status.success(), "it works all the same");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors.matches("its values are not used").count(), 1, "one warning: {errors}");
        assert!(errors.contains(&path.display().to_string()), "{errors}");
        let info = device(cache)["tuned"].clone();
        assert!(
            info["values"].is_null() && info["error"].as_str().is_some_and(|why| why.contains("not used")),
            "{info}"
        );
        assert_fails(&run_in(cache, &["tune", "--show"]), 3, &["its values are not used", "tune --reset"]);
    }
    assert!(printed(run_in(cache, &["tune", "--reset"])).contains("is removed"));
    assert_eq!(kept(cache), None);
    assert!(printed(run_in(cache, &["tune", "--reset"])).contains("nothing is kept"));
}

/// The name of the file for the device, as `tune --reset` says where it looks.
fn file_name(cache: &Path) -> PathBuf {
    let said = printed(run_in(cache, &["tune", "--reset"]));
    let start = said.find("tuned-").unwrap_or_else(|| panic!("no file is named in {said}"));
    let name: String = said[start..].chars().take_while(|c| !c.is_whitespace()).collect();
    PathBuf::from(name.trim_end_matches([',', ')', ':']))
}

#[test]
fn bad_arguments_are_sentences() {
    assert_fails(&run(&["tune", "--device", "cpu"]), 2, &["tune is for ROCm devices"]);
    assert_fails(&run(&["tune", "--minutes", "0"]), 2, &["--minutes 0"]);
    assert_eq!(run(&["tune", "--show", "--reset"]).status.code(), Some(2));
}
