//! Random numbers of the embedded device: their moments, that a seed repeats them, that an offset is a place in the same sequence, and
//! that Debian's rocRAND has all that our table asks for.

mod common;

use common::stream;
use rocm::rand::{Generator, Kind, Rocrand};

const COUNT: usize = 100_000;

fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

/// Six standard errors of a mean, and of a variance as far as the fourth moment of a normal number goes.
fn assert_moments(values: &[f64], mean: f64, variance: f64, what: &str) {
    let (got_mean, got_variance) = moments(values.iter().copied());
    let error = (variance / values.len() as f64).sqrt();
    assert!((got_mean - mean).abs() < 6.0 * error, "{what}: mean {got_mean}, not {mean}");
    let error = variance * (4.0 / values.len() as f64).sqrt();
    assert!((got_variance - variance).abs() < 6.0 * error, "{what}: variance {got_variance}, not {variance}");
}

#[test]
fn distributions_have_their_moments() -> hip::Result<()> {
    let stream = stream()?;
    for kind in [Kind::Philox, Kind::Mrg32k3a] {
        let mut generator = Generator::new(&stream, kind, 7)?;
        let mut single = stream.alloc::<f32>(COUNT)?;
        let mut double = stream.alloc::<f64>(COUNT)?;
        let mut whole = stream.alloc::<u32>(COUNT)?;
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        let counts = |values: Vec<u32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        generator.uniform(&mut single)?;
        let values = wide(single.to_vec()?);
        assert!(values.iter().all(|&value| value > 0.0 && value <= 1.0));
        assert_moments(&values, 0.5, 1.0 / 12.0, "uniform f32");
        generator.uniform(&mut double)?;
        assert_moments(&double.to_vec()?, 0.5, 1.0 / 12.0, "uniform f64");
        generator.normal(&mut single, -3.0, 2.0)?;
        assert_moments(&wide(single.to_vec()?), -3.0, 4.0, "normal f32");
        generator.normal(&mut double, 1.0, 0.5)?;
        assert_moments(&double.to_vec()?, 1.0, 0.25, "normal f64");
        generator.log_normal(&mut double, 0.5, 0.25)?;
        let logarithms: Vec<f64> = double.to_vec()?.into_iter().map(f64::ln).collect();
        assert_moments(&logarithms, 0.5, 0.0625, "log-normal f64");
        for lambda in [0.3, 12.0, 900.0, 50_000.0] {
            generator.poisson(&mut whole, lambda)?;
            assert_moments(&counts(whole.to_vec()?), lambda, lambda, "Poisson");
        }
        generator.bits(&mut whole)?;
        let scale = 4294967296.0;
        assert_moments(&counts(whole.to_vec()?), scale / 2.0, scale * scale / 12.0, "bits");
    }
    Ok(())
}

#[test]
fn a_seed_repeats_and_an_offset_is_a_place() -> hip::Result<()> {
    let stream = stream()?;
    for kind in [Kind::Philox, Kind::Mrg32k3a] {
        let draw = |seed: u64, offset: u64, count: usize| -> hip::Result<Vec<u32>> {
            let mut generator = Generator::new(&stream, kind, seed)?;
            generator.set_offset(offset)?;
            let mut words = stream.alloc(count)?;
            generator.bits(&mut words)?;
            words.to_vec()
        };
        let words = draw(11, 0, 64)?;
        assert_eq!(draw(11, 0, 64)?, words);
        assert_ne!(draw(12, 0, 64)?, words);
        assert_eq!(draw(11, 5, 59)?, words[5..]);
        // Two calls go on where the first ended.
        let mut generator = Generator::new(&stream, kind, 11)?;
        let mut parts = stream.alloc::<u32>(64)?;
        let (first, second) = parts.view_mut().split_at(30)?;
        generator.bits(first)?;
        generator.bits(second)?;
        assert_eq!(parts.to_vec()?, words);
    }
    // The first words of Philox with key zero, as published.
    let mut generator = Generator::new(&stream, Kind::Philox, 0)?;
    let mut words = stream.alloc(4)?;
    generator.bits(&mut words)?;
    assert_eq!(words.to_vec()?, [0x6627e8d5u32, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_refused_with_a_sentence() -> hip::Result<()> {
    let stream = stream()?;
    let missing = Generator::new(&stream, Kind::Xorwow, 0).err().expect("the embedded device has none");
    assert!(missing.to_string().contains("Xorwow"), "{missing}");
    let mut generator = Generator::new(&stream, Kind::Philox, 0)?;
    let mut output = stream.alloc::<u32>(4)?;
    let refused = generator.poisson(&mut output, f64::NAN).expect_err("no mean");
    assert!(refused.to_string().contains("above 0"), "{refused}");
    generator.poisson(&mut output, 3.0)?;
    assert_eq!(output.to_vec()?.len(), 4);
    Ok(())
}

#[test]
fn amds_library_has_every_function_of_the_table() {
    match Rocrand::load(&hip_abi::Search::default()) {
        Ok(table) => eprintln!("rocRAND at {}", table.origin()),
        Err(why) => {
            eprintln!("no rocRAND here: {why}");
            assert!(why.to_string().contains("librocrand.so.1"));
        }
    }
}

#[test]
fn a_generator_that_finds_no_memory_gets_what_the_pools_keep() -> hip::Result<()> {
    let stream = stream()?;
    drop(stream.alloc::<u8>(64 << 20)?);
    let kept = stream.pool_stats().reserved_bytes;
    assert!(kept >= 64 << 20);
    const ALLOCATION_FAILED: i32 = 102;
    let armed = hip_host::inject::fail("rocrand_create_generator", 1, ALLOCATION_FAILED);
    let mut generator = Generator::new(&stream, Kind::Philox, 7)?;
    assert!(armed.fired() && stream.pool_stats().reserved_bytes < kept, "the pool gave back what it kept");
    generator.bits(&mut stream.zeros::<u32>(16)?)
}
