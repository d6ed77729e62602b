//! Runs the contiguous kernels of elementwise code objects, given for several targets, on the same inputs with all checks on,
//! and says where the results differ: `cargo run -p vgpu --example elements -- OBJECT...`.

use std::collections::BTreeMap;
use vgpu::{Accuracy, Buffers, Checks, Launch, Object, Options, Worker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n = 3000usize;
    let mut first: BTreeMap<String, (String, Vec<u8>)> = BTreeMap::new();
    let (mut ran, mut differ, mut failed) = (0, 0, 0);
    let accuracy = match std::env::var("ACCURACY").as_deref() {
        Ok("coarse") => Accuracy::Coarse,
        Ok("up") => Accuracy::Up,
        Ok("down") => Accuracy::Down,
        _ => Accuracy::Exact,
    };
    for path in std::env::args().skip(1) {
        let object = Object::load(&std::fs::read(&path)?)?;
        for kernel in object.kernels() {
            let name = kernel.name().to_owned();
            let arguments = &kernel.info().arguments;
            // A count, parameters, the output, the inputs.
            let sizes: Vec<usize> = arguments.iter().map(|argument| argument.size).collect();
            if sizes.len() < 3 || sizes[..2] != [8, 24] || arguments[2..].iter().any(|a| a.kind != "global_buffer") {
                continue;
            }
            let mut memory = Buffers::new();
            let output = memory.from_slice(&vec![0u64; n]);
            let fault = memory.from_slice(&[0u64]);
            let mut packed = vec![n as u64, 1.5f64.to_bits(), 0.25f64.to_bits(), fault, output];
            let mut state = 99u32;
            for _ in 3..arguments.len() {
                // Bytes that make ordinary numbers in every format.
                let bytes: Vec<u8> = (0..8 * n)
                    .map(|_| {
                        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                        0x30 + (state >> 24) as u8 % 0x15
                    })
                    .collect();
                packed.push(memory.from_slice(&bytes));
            }
            let packed = memory.from_slice(&packed);
            let options = Options { checks: Checks::ALL, accuracy, limit: 1 << 24, ..Options::default() };
            let launch = Launch::new(&kernel, [4, 1, 1], [256, 1, 1], 0, packed)?.with_options(options);
            ran += 1;
            if let Err(failure) = launch.run(&mut Worker::new(), &memory) {
                println!("{}: {failure}", object.arch());
                failed += 1;
                continue;
            }
            let out = memory.read::<u8>(output, 8 * n).unwrap_or_default();
            let (who, reference) =
                first.entry(name.clone()).or_insert_with(|| (object.arch().to_string(), out.clone()));
            let at = (0..8 * n).find(|&i| out[i] != reference[i]);
            if let Some(at) = at {
                let count = (0..8 * n).filter(|&i| out[i] != reference[i]).count();
                println!("{} {name}: {count} bytes differ from {who}, the first at {at}", object.arch());
                differ += 1;
            }
        }
    }
    println!("{ran} launches, {failed} failed, {differ} differ");
    Ok(())
}
