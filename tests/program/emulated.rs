//! The story model on emulated AMD GPUs: AMD's machine code writes the same text as the embedded device. Compiling the kernels takes a
//! minute or two of a core for each architecture, once, so this runs when it is asked for, as `.ci/run` does:
//! `cargo test --test program -- --ignored emulated`. `STORY_ARCHS=gfx1030,gfx942` names other architectures.

use crate::support::*;

/// Sums come in another order where a wave has 64 lanes or a matrix unit adds, so that two words that are equally likely could change
/// places; in these no two words are that close.
const TOKENS: &str = "64";

fn text(platform: &str) -> String {
    let arguments = ["generate", "--json", "--temperature", "0", "--repeat-penalty", "1", "--max-tokens", TOKENS];
    let mut command = program();
    command.args(arguments).args(["--prompt", "My dear Holmes,"]).env("CANDLE_ROCM_PLATFORM", platform);
    let said = json(command.output().expect("the program starts"));
    assert_eq!(said["tokens"].to_string(), TOKENS, "{platform}: {said}");
    let device = said["device"].as_str().expect("a device");
    assert!(device.contains(platform), "{platform} ran on {device}");
    said["text"].as_str().expect("a text").to_owned()
}

#[test]
#[ignore = "compiles many kernels"]
fn emulated_gpus_write_the_embedded_devices_story() {
    let expected = text("host");
    let archs = std::env::var("STORY_ARCHS").unwrap_or_else(|_| "gfx1100,gfx90a".to_owned());
    for arch in archs.split(',') {
        assert_eq!(text(arch), expected, "{arch}");
    }
}
