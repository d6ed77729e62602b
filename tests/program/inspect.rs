//! `inspect`: bad input, and what a comparison of two files of counts says. Counting itself is `.ci/run`'s, which compares with the
//! counts in the repository.

use crate::support::*;
use std::path::Path;

/// A file of counts with one case, which issues so many wave instructions an element.
fn counts(path: &Path, arch: &str, instructions: f64) -> String {
    let case = format!(
        r#"{{"family": "cast", "name": "cast a", "counted": "cast b", "instructions": {instructions}, "lanes": 1.0, "lines": 1.0,
            "banks": null, "registers": 24, "occupancy": 16, "issue_us": 1.0, "local_us": 0.0, "memory_us": 9.0, "kernels": []}}"#
    );
    let report = format!(r#"{{"arch": "{arch}", "card": "a card", "compiler": "a clang", "cases": [{case}]}}"#);
    std::fs::write(path, format!(r#"{{"reports": [{report}]}}"#)).expect("written");
    path.display().to_string()
}

#[test]
fn bad_arguments_are_sentences() {
    assert_fails(&run(&["inspect", "--arch", "gfx906"]), 2, &["\"gfx906\" cannot be inspected", "gfx1100"]);
    let output = run(&["inspect", "--arch", "gfx1100", "--ops", "no such case"]);
    assert_fails(&output, 2, &["no case matches --ops", "elementwise"]);
    assert_eq!(run(&["inspect"]).status.code(), Some(2));
    assert_fails(&run(&["inspect", "--read", "/no/such/file"]), 3, &["/no/such/file cannot be read"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("counts.json");
    std::fs::write(&file, "{}").expect("written");
    let output = run(&["inspect", "--arch", "gfx1100", "--against", &file.display().to_string()]);
    assert_fails(&output, 3, &["counts.json is not a file of counts"]);
}

#[test]
fn stored_counts_are_shown_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (before, after) = (counts(&path("before"), "gfx1100", 1.), counts(&path("after"), "gfx1100", 1.2));
    let page = path("page.md");
    let shown = printed(run(&["inspect", "--read", &before, "--markdown", &page.display().to_string()]));
    assert!(shown.contains("RX 7900 XTX") && shown.contains("  cast a"), "{shown}");
    assert!(std::fs::read_to_string(page).expect("a page").contains("| cast a | 1.00 | 100% |"));

    let worse = run(&["inspect", "--read", &after, "--against", &before]);
    assert_eq!(worse.status.code(), Some(1));
    let text = String::from_utf8_lossy(&worse.stdout);
    assert_eq!(text, "gfx1100 cast a: instructions 1.00 -> 1.20 (+20%)\n");
    assert!(String::from_utf8_lossy(&worse.stderr).contains("1 figures are worse than in"));
    // Better is no failure, and other architectures have nothing to compare with.
    assert_eq!(run(&["inspect", "--read", &before, "--against", &after]).status.code(), Some(0));
    let other = counts(&path("other"), "gfx90a", 1.);
    assert_fails(&run(&["inspect", "--read", &before, "--against", &other]), 3, &["has no counts of gfx1100"]);
}
