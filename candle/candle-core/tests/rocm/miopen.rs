//! That convolutions reach MIOpen with the feature of that name. That they are right there is what the tables in `main.rs` check, which
//! run with the feature too: `cargo test -p candle-core --features miopen --test rocm`.

use candle_core::{DType, Device, Result, Tensor};

/// MIOpen refuses to search for an algorithm inside a capture and says so; our own kernels would be captured.
#[test]
fn convolutions_of_its_types_go_to_miopen() -> Result<()> {
    // A stream of its own: a capture is no place for the other tests.
    let device = Device::new_rocm_with_stream(0)?;
    let rocm = device.as_rocm_device()?;
    assert!(rocm.miopen().is_some(), "the embedded device has it built in");
    // Sizes that no other test has, since one search serves the whole process.
    for (dtype, by_miopen) in [(DType::F32, true), (DType::F16, true), (DType::BF16, true), (DType::F64, false)] {
        let image = Tensor::ones((1, 3, 23, 19), DType::F32, &device)?.to_dtype(dtype)?;
        let signal = Tensor::ones((1, 3, 37), DType::F32, &device)?.to_dtype(dtype)?;
        let square = Tensor::ones((2, 3, 2, 2), DType::F32, &device)?.to_dtype(dtype)?;
        let line = Tensor::ones((2, 3, 5), DType::F32, &device)?.to_dtype(dtype)?;
        let runs: [&dyn Fn() -> Result<Tensor>; 2] =
            [&|| image.conv2d(&square, 1, 2, 1, 1), &|| signal.conv1d(&line, 2, 1, 1, 1)];
        for run in runs {
            device.synchronize()?;
            let mut said = None;
            let captured = rocm.stream().capture(|_| {
                said = run().err().map(|error| error.to_string());
                Ok(())
            });
            captured.map_err(candle_core::Error::wrap)?;
            assert_eq!(said.is_some_and(|text| text.contains("MIOpen")), by_miopen, "{dtype:?}");
            // The next call works.
            let sum = run()?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
            assert!(sum > 0.0, "{dtype:?}: {sum}");
        }
    }
    Ok(())
}
