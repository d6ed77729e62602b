//! `toml` blocks: what a user copies into Cargo.toml is what the project in `candle/outside` has, which CI builds and runs.

use crate::pages;
use toml::{Table, Value};

fn parse(text: &str, place: &str) -> Table {
    text.parse().unwrap_or_else(|error| panic!("{place} is not TOML: {error}"))
}

fn read(path: &str) -> Table {
    parse(&std::fs::read_to_string(pages::root().join(path)).expect("a manifest can be read"), path)
}

fn section<'a>(manifest: &'a Table, names: &[&str]) -> Option<&'a Table> {
    names.iter().try_fold(manifest, |table, name| table.get(*name)?.as_table())
}

#[test]
fn what_a_user_copies_is_what_the_outside_project_has() {
    let outside = read("candle/outside/Cargo.toml");
    let mut patches = 0;
    for page in pages::all() {
        for block in page.blocks.iter().filter(|block| block.language() == "toml") {
            let manifest = parse(&block.text, &block.place);
            for (name, dependency) in section(&manifest, &["dependencies"]).into_iter().flatten() {
                let same = section(&outside, &["dependencies"]).and_then(|all| all.get(name));
                assert_eq!(Some(dependency), same, "{}: {name} is not as in candle/outside", block.place);
            }
            for (name, source) in section(&manifest, &["patch", "crates-io"]).into_iter().flatten() {
                let known = section(&outside, &["patch", "crates-io"]).is_some_and(|all| all.contains_key(name));
                assert!(known, "{}: candle/outside does not patch {name}", block.place);
                let path = source.get("path").and_then(Value::as_str).unwrap_or_default();
                // The first two folders are the way from the user's project to a clone.
                let inside =
                    path.strip_prefix("../candle-rocm/").map(|path| pages::root().join(path).join("Cargo.toml"));
                let inside = inside.filter(|path| path.exists());
                let package = inside.as_ref().map(|path| read(&path.to_string_lossy())["package"]["name"].clone());
                assert_eq!(package, Some(name.as_str().into()), "{}: {path} of a clone is not {name}", block.place);
                patches += 1;
            }
            let known = ["dependencies", "patch"];
            let other = manifest.keys().find(|key| !known.contains(&key.as_str()));
            assert_eq!(other, None, "{}: nothing tests this section", block.place);
        }
    }
    let all: Vec<&Value> = section(&outside, &["patch", "crates-io"]).expect("patches").values().collect();
    assert!(patches >= 2 * all.len(), "the README and the book show the patches: {patches} of {}", 2 * all.len());
}
