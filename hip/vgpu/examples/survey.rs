//! Says what of the given code objects is not emulated: `cargo run -p vgpu --example survey -- FILE...`

use std::collections::BTreeMap;
use vgpu::{Buffers, Launch, Object};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Buffers::new();
    for path in std::env::args().skip(1) {
        let object = Object::load(&std::fs::read(&path)?)?;
        let mut reasons: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut kernels = 0;
        for kernel in object.kernels() {
            kernels += 1;
            let launch = Launch::new(&kernel, [1, 1, 1], [1, 1, 1], 0, 0)?;
            for (pc, why) in launch.refusals(&memory) {
                let entry = reasons.entry(why).or_insert((0, format!("{} at {pc:#x}", kernel.name())));
                entry.0 += 1;
            }
        }
        println!("{path}: {kernels} kernels for {}", object.arch());
        for (why, (count, example)) in reasons {
            println!("  {count:6} {why}, first in {example}");
        }
    }
    Ok(())
}
