//! Bad requests: each gets the kind of error that CUDA gives, or a sentence; and the device computes on as before.

use candle_core::{DType, Device, Error, Result, Tensor};

/// The error without the backtrace that may be wrapped around it.
fn bare(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => bare(*inner),
        error => error,
    }
}

fn still_works(device: &Device) -> Result<()> {
    let sum = Tensor::ones(100, DType::F32, device)?.sum_all()?.to_scalar::<f32>()?;
    assert_eq!(sum, 100.);
    Ok(())
}

#[test]
fn devices_do_not_mix() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let error =
        (Tensor::ones(2, DType::F32, &device)? + Tensor::ones(2, DType::F32, &Device::Cpu)?).expect_err("two devices");
    assert!(matches!(bare(error), Error::DeviceMismatchBinaryOp { .. }));
    still_works(&device)
}

#[test]
fn dtypes_do_not_mix() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let error =
        (Tensor::ones(2, DType::F32, &device)? + Tensor::ones(2, DType::F16, &device)?).expect_err("two dtypes");
    assert!(matches!(bare(error), Error::DTypeMismatchBinaryOp { .. }));
    still_works(&device)
}

#[test]
fn a_constant_of_another_dtype_is_refused_in_the_cpus_words() -> Result<()> {
    use candle_core::scalar::Scalar;
    let (device, cpu) = (Device::new_rocm(0)?, Device::Cpu);
    let scalars = [Scalar::from(1f32), Scalar::from(1f64), Scalar::from(1u8), Scalar::from(1u32), Scalar::from(1i64)];
    for (dtype, scalar) in
        super::bench::ALL.into_iter().flat_map(|dtype| scalars.into_iter().map(move |scalar| (dtype, scalar)))
    {
        let set = |device: &Device| -> Result<Vec<f64>> {
            let tensor = Tensor::zeros((2, 3), dtype, device)?;
            tensor.const_set(scalar)?;
            tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
        };
        match (set(&cpu), set(&device)) {
            (Ok(expected), Ok(got)) => assert_eq!(expected, got, "{scalar:?} in {dtype:?}"),
            (Err(expected), Err(got)) => assert_eq!(bare(expected).to_string(), bare(got).to_string()),
            (expected, got) => panic!("{scalar:?} in {dtype:?}: {got:?}, the CPU says {expected:?}"),
        }
    }
    still_works(&device)
}

#[test]
fn an_id_out_of_range_is_reported_where_the_host_waits() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let table = Tensor::ones((4, 8), DType::F32, &device)?;
    let ids = Tensor::new(&[0u32, 7], &device)?;
    let error = table.index_select(&ids, 0).and_then(|rows| rows.to_vec2::<f32>()).expect_err("row 7 of 4");
    let sentence = error.to_string();
    assert!(sentence.contains("index-select") && sentence.contains('7') && sentence.contains('4'), "{sentence}");
    still_works(&device)
}

#[test]
fn a_complaint_is_for_the_stream_it_belongs_to_and_goes_with_its_tensors() -> Result<()> {
    let (device, other) = (Device::new_rocm_with_stream(0)?, Device::new_rocm_with_stream(0)?);
    let chosen =
        |device: &Device| Tensor::ones((4, 8), DType::F32, device)?.index_select(&Tensor::new(&[0u32, 7], device)?, 0);
    let rows = chosen(&device)?;
    still_works(&other)?;
    other.synchronize()?;
    assert!(rows.to_vec2::<f32>().is_err(), "row 7 of 4");
    assert!(chosen(&device)?.to_device(&other).is_err(), "the copy would hide it");
    still_works(&device)?;
    still_works(&other)
}

#[test]
fn a_packed_dtype_has_no_arithmetic() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let error = Tensor::zeros(8, DType::F4, &device).expect_err("no zeros of F4").to_string();
    assert!(error.contains("F4"), "{error}");
    still_works(&device)
}

#[test]
fn a_function_that_a_dtype_lacks_is_named() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let error = Tensor::ones(8, DType::U32, &device)?.exp().expect_err("exp of integers").to_string();
    assert!(error.contains("exp") && error.contains("u32"), "{error}");
    still_works(&device)
}

#[test]
fn too_much_memory_is_refused() -> Result<()> {
    let device = Device::new_rocm(0)?;
    assert!(Tensor::zeros((1 << 24, 1 << 22), DType::F32, &device).is_err());
    still_works(&device)
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let error = Device::new_rocm(999).expect_err("there are not that many").to_string();
    assert!(error.contains("999"), "{error}");
}

#[test]
fn a_source_that_does_not_compile_is_quoted() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let rocm = device.as_rocm_device()?;
    let error = rocm.get_or_load_custom_func("broken", "broken_module", "this is not C++").expect_err("no program");
    assert!(error.to_string().contains("broken_module"), "{error}");
    still_works(&device)
}
