//! The pages of the documentation, and the fenced blocks in them.

use std::path::{Path, PathBuf};

/// A fenced block.
pub struct Block {
    /// What stands after the three backticks, such as `sh exit-2`.
    pub info: String,
    /// The lines.
    pub text: String,
    /// Page and line, for a person who has to find it.
    pub place: String,
}

impl Block {
    /// The first word of the info string.
    pub fn language(&self) -> &str {
        self.words().next().unwrap_or_default()
    }

    /// What follows `name` in the info string, if that is there.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.words().skip(1).find_map(|word| word.strip_prefix(name))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.info.split([' ', ',']).filter(|word| !word.is_empty())
    }
}

/// A page.
pub struct Page {
    /// Its path from the repository's root.
    pub path: String,
    /// All of it.
    pub text: String,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
}

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and the book's chapters.
pub fn all() -> Vec<Page> {
    let chapters = std::fs::read_dir(root().join("docs/src")).expect("there is a book");
    let mut paths: Vec<PathBuf> = chapters.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.push(root().join("README.md"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Page {
    let text = std::fs::read_to_string(path).expect("a page can be read");
    let path = path.strip_prefix(root()).expect("a page is in the repository").display().to_string();
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some("") if open => open = false,
            Some(info) if !open => {
                open = true;
                let place = format!("{path}:{}", number + 1);
                blocks.push(Block { info: info.to_owned(), text: String::new(), place });
            }
            _ if open => {
                let block = blocks.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            _ => {}
        }
    }
    assert!(!open, "{path}: a block is not closed");
    Page { path, text, blocks }
}
