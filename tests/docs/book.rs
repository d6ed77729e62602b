//! The book holds together: SUMMARY.md lists every chapter once, links lead somewhere, and no page's Rust goes untested.

use crate::pages;
use std::path::Path;

/// The targets of links in a text: `](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The anchor that mdbook and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let letters =
        heading.trim().to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    letters.replace(' ', "-")
}

fn headings(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| Some(anchor(line.strip_prefix('#')?.trim_start_matches('#')))).collect()
}

#[test]
fn the_summary_lists_every_chapter() {
    let summary = std::fs::read_to_string(pages::root().join("docs/src/SUMMARY.md")).expect("a summary");
    let mut listed: Vec<String> = links(&summary).map(|target| format!("docs/src/{target}")).collect();
    listed.sort();
    let chapters: Vec<String> = pages::all().into_iter().map(|page| page.path).collect();
    let expected: Vec<String> =
        chapters.into_iter().filter(|path| path.starts_with("docs/") && !path.ends_with("SUMMARY.md")).collect();
    assert_eq!(listed, expected);
}

#[test]
fn links_lead_somewhere() {
    let root = pages::root();
    for page in pages::all() {
        let folder = root.join(&page.path).parent().expect("a page is in a folder").to_path_buf();
        for target in links(&page.text).filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { root.join(&page.path) } else { folder.join(file) };
            assert!(path.exists(), "{}: {target} leads nowhere", page.path);
            if page.path.starts_with("docs/") && !file.is_empty() {
                // mdbook copies its own folder and nothing around it.
                let inside = path
                    .canonicalize()
                    .expect("it exists")
                    .starts_with(root.join("docs/src").canonicalize().expect("a book"));
                assert!(inside, "{}: {target} is outside of the book: name the file instead", page.path);
            }
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&path).expect("a page can be read");
                assert!(headings(&text).contains(&heading.to_owned()), "{}: {target} has no such heading", page.path);
            }
        }
    }
}

/// The repository has no address on the web yet: where a page needs it, it speaks of a clone.
#[test]
fn no_page_names_a_home_on_the_web() {
    for page in pages::all() {
        let named = links(&page.text).find(|target| target.starts_with("http") && target.contains("candle-rocm"));
        assert_eq!(named, None, "{}: there is nothing at this address", page.path);
        let lines =
            page.text.lines().filter(|line| line.contains("git clone") || line.contains("github.com/candle-rocm"));
        assert_eq!(lines.collect::<Vec<_>>(), Vec::<&str>::new(), "{}: there is nothing to clone yet", page.path);
    }
}

#[test]
fn every_page_with_rust_is_a_module_of_the_docs_package() {
    let modules = std::fs::read_to_string(pages::root().join("docs/lib.rs")).expect("the package in docs/");
    for page in pages::all() {
        let path = page.path.strip_prefix("docs/").map_or_else(|| format!("../{}", page.path), str::to_owned);
        let has_rust = page.blocks.iter().any(|block| block.language() == "rust");
        assert!(!has_rust || modules.contains(&format!("\"{path}\"")), "docs/lib.rs does not have {path}");
        assert!(Path::new(&page.path).extension().is_some());
    }
}
