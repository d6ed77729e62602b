//! What the program promises about time. Unoptimised code cannot keep it, so these run with `cargo test --release --test program speed`.

use crate::support::*;
use std::io::Read;
use std::process::Stdio;
use std::time::Instant;

/// The embedded device generates at no less than a quarter of the speed of Candle's CPU backend.
#[test]
#[cfg_attr(debug_assertions, ignore = "measures optimised code: cargo test --release --test program speed")]
fn the_embedded_device_keeps_a_quarter_of_the_cpus_speed() {
    let rate = |device: &str| {
        let report = json(run(&[
            "generate",
            "--json",
            "--device",
            device,
            "--prompt",
            "Once",
            "--max-tokens",
            "150",
            "--temperature",
            "0",
        ]));
        report["tokens_per_second"].as_f64().expect("a rate")
    };
    // Turn by turn, and the median, because other programs take turns too.
    let mut ratios: Vec<f64> = (0..3).map(|_| rate("rocm") / rate("cpu")).collect();
    ratios.sort_by(f64::total_cmp);
    println!("tokens per second, embedded device / CPU backend: {ratios:.2?}");
    assert!(ratios[1] >= 0.25, "{ratios:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "measures optimised code: cargo test --release --test program speed")]
fn the_story_begins_within_three_seconds() {
    let start = Instant::now();
    let mut child = program().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut out = child.stdout.take().expect("a pipe");
    let mut beginning = [0; 40];
    out.read_exact(&mut beginning).expect("the story");
    let first = start.elapsed();
    out.read_to_end(&mut Vec::new()).expect("the rest");
    assert!(child.wait().expect("it ends").success());
    println!("the story's first words after {:.2} s", first.as_secs_f64());
    assert!(first.as_secs_f64() < 3.0, "{first:?}");
}
