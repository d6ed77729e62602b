//! The book's page about emulated GPUs shows a kernel with a fault, `missing_barrier.hip`, and the report of it: this is what comes out.

use crate::common::{clang, hip};
use crate::CHECKED;
use vgpu::{Arch, Buffers, Launch, Object, Worker};

const PAGE: &str = include_str!("../../../../docs/src/emulated-gpus.md");

/// The text of the first block of the page that opens like this.
fn block(opening: &str) -> &'static str {
    let start = PAGE.find(opening).expect("a block of that kind") + opening.len();
    PAGE[start..].split("```").next().expect("the block ends").trim()
}

#[test]
fn the_page_shows_the_report_of_its_kernel() {
    if clang().is_none() {
        return;
    }
    let source = include_str!("missing_barrier.hip").replace("threadIdx.x", "THREAD");
    let object = Object::load(&hip(Arch::Gfx1100, &source)).expect("an object");
    let mut memory = Buffers::new();
    let (input, output) = (memory.from_slice(&[7u32; 128]), memory.alloc(512));
    let arguments = memory.from_slice(&[input, output]);
    let launch = Launch::new(&object.kernel("k").unwrap(), [1, 1, 1], [128, 1, 1], 0, arguments).unwrap();
    let said = launch.with_options(CHECKED).run(&mut Worker::new(), &memory).unwrap_err().to_string();
    let shown = block("```text drawing\n").split_whitespace().collect::<Vec<_>>().join(" ");
    // Where the instruction lies, and in which registers its operands are, is the compiler's.
    let (said, shown) = (said.split(", at 0x"), shown.split(", at 0x"));
    let mnemonic = |place: &str| place.split_whitespace().nth(1).map(str::to_owned);
    let parts = |all: Vec<&str>| (all[0].to_owned(), mnemonic(all[all.len() - 1]));
    assert_eq!(parts(said.collect()), parts(shown.collect()));
}
