//! What the README and the book say is true: every command in them is run, or checked where running it here makes no
//! sense, every output they show is compared, every manifest is compared with that of the project in `candle/outside`,
//! every quoted file has the lines. Rust blocks are compiled and run by the package in `docs/`.

mod book;
mod commands;
mod manifests;
mod pages;

/// What a block's language asks of it.
#[test]
fn every_block_is_of_a_kind_that_is_tested() {
    for page in pages::all() {
        for block in &page.blocks {
            assert!(
                matches!(block.language(), "rust" | "sh" | "text" | "toml" | "cpp"),
                "{}: nothing tests a block of kind {:?}; see tests/docs",
                block.place,
                block.info
            );
        }
    }
}

/// Rust and C++ that is quoted from the repository says so with `file:PATH`, and must be there, line by line.
#[test]
fn quoted_files_have_the_lines() {
    for page in pages::all() {
        for block in &page.blocks {
            let Some(path) = block.attribute("file:") else {
                assert!(block.language() != "cpp", "{}: C++ is quoted from a file: say file:PATH", block.place);
                assert!(
                    !block.info.contains("ignore"),
                    "{}: Rust that is not run is quoted: say file:PATH",
                    block.place
                );
                continue;
            };
            let text = std::fs::read_to_string(pages::root().join(path))
                .unwrap_or_else(|error| panic!("{}: {path} cannot be read: {error}", block.place));
            assert!(text.contains(block.text.trim_end()), "{}: {path} has no such lines:\n{}", block.place, block.text);
        }
    }
}
