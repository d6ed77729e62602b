//! GGUF files to the ROCm device, whole and damaged. A whole one arrives byte for byte in every format; a damaged one, cut
//! anywhere or with any byte of its header changed, is an error with a sentence or a file that still makes sense, and
//! never a panic or an allocation that the file cannot fill.

use super::bench::{PLAIN, QUANTIZED};
use candle_core::quantized::gguf_file::{self, Content, TensorInfo, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};
use std::io::Cursor;

/// The bytes of a tensor, and its name.
type Bytes = (String, Vec<u8>);

/// A file with a tensor in every format, and what is in it.
fn small_file() -> Result<(Vec<u8>, Vec<Bytes>)> {
    let values = Tensor::arange(0f32, 512., &Device::Cpu)?.affine(0.02, -5.)?.sin()?.reshape((2, 256))?;
    let mut tensors = Vec::new();
    for format in PLAIN.into_iter().chain(QUANTIZED) {
        tensors.push((format!("weights.{format:?}"), QTensor::quantize(&values, format)?));
    }
    let named: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let (text, list) = (Value::String("small".into()), Value::Array(vec![Value::U32(1), Value::U32(2)]));
    let alignment = Value::U32(32);
    let metadata = [("general.name", &text), ("general.list", &list), ("general.alignment", &alignment)];
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &named)?;
    let bytes = tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.data()?.into_owned())));
    Ok((file.into_inner(), bytes.collect::<Result<_>>()?))
}

fn novelist() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/novelist-7m/novelist-7m.Q8_0.gguf");
    std::fs::read(path).expect("the repository's small model")
}

#[test]
fn every_format_arrives_as_it_was_written() -> Result<()> {
    let (file, tensors) = small_file()?;
    let mut reader = Cursor::new(file.as_slice());
    let content = Content::read(&mut reader)?;
    let device = Device::new_rocm(0)?;
    for (name, bytes) in tensors {
        let loaded = content.tensor(&mut reader, &name, &device)?;
        assert_eq!(loaded.shape().dims(), [2, 256], "{name}");
        assert_eq!(loaded.data()?.as_ref(), bytes, "{name}");
        let info = &content.tensor_infos[&name];
        let alone = info.read(&mut reader, content.tensor_data_offset, &device)?;
        assert_eq!(alone.data()?.as_ref(), bytes, "{name}");
    }
    Ok(())
}

/// What a tensor's error must say.
fn assert_named(error: &str, name: &str, start: u64) {
    assert!(error.contains(name) && error.contains(&start.to_string()), "{name} at {start}: {error}");
}

/// Where a tensor's bytes end, when the numbers make sense.
fn end(content: &Content, info: &TensorInfo) -> Option<u64> {
    let elements = info.shape.dims().iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    let bytes = (elements / info.ggml_dtype.block_size()).checked_mul(info.ggml_dtype.type_size())?;
    content.tensor_data_offset.checked_add(info.offset)?.checked_add(bytes as u64)
}

#[test]
fn a_file_that_breaks_off_names_the_tensor_and_the_offset() -> Result<()> {
    let file = novelist();
    let whole = Content::read(&mut Cursor::new(file.as_slice()))?;
    let device = Device::new_rocm(0)?;
    let header = whole.tensor_data_offset as usize;
    // Inside the header there is no table of contents.
    for cut in (0..64).chain((64..header - 32).step_by(header / 50)) {
        assert!(Content::read(&mut Cursor::new(&file[..cut])).is_err(), "a header that ends at {cut}");
    }
    // Behind it, the tensors before the cut are there and the others are named.
    for cut in (header..file.len()).step_by(file.len() / 11) {
        let mut reader = Cursor::new(&file[..cut]);
        let content = Content::read(&mut reader)?;
        let (mut there, mut missing) = (0, 0);
        for (name, info) in &content.tensor_infos {
            let loaded = content.tensor(&mut reader, name, &device);
            if end(&content, info).is_some_and(|end| end <= cut as u64) {
                loaded?;
                there += 1;
                continue;
            }
            let error = loaded.expect_err("past the end").to_string();
            assert_named(&error, name, content.tensor_data_offset + info.offset);
            assert!(error.contains(&format!("ends at {cut}")), "{error}");
            missing += 1;
        }
        assert!(missing > 0 && there + missing == whole.tensor_infos.len(), "cut at {cut}");
    }
    let sum = Tensor::ones(10, candle_core::DType::F32, &device)?.sum_all()?.to_scalar::<f32>()?;
    assert_eq!(sum, 10., "the device works on");
    Ok(())
}

#[test]
fn a_damaged_header_is_an_error_or_still_makes_sense() -> Result<()> {
    let (file, tensors) = small_file()?;
    let device = Device::new_rocm(0)?;
    let header = Content::read(&mut Cursor::new(file.as_slice()))?.tensor_data_offset as usize;
    let (mut refused, mut named, mut fine) = (0, 0, 0);
    for place in 0..header {
        for flip in [0x01, 0x20, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[place] ^= flip;
            let mut reader = Cursor::new(damaged.as_slice());
            let Ok(content) = Content::read(&mut reader) else {
                refused += 1;
                continue;
            };
            for (name, info) in &content.tensor_infos {
                let start = content.tensor_data_offset.saturating_add(info.offset);
                match content.tensor(&mut reader, name, &device) {
                    Ok(tensor) => {
                        let end = end(&content, info).expect("it was loaded");
                        assert!(end <= file.len() as u64, "{name} is {:?} of a small file", tensor.shape());
                        fine += 1;
                    }
                    Err(error) => {
                        assert_named(&error.to_string(), name, start);
                        named += 1;
                    }
                }
            }
        }
    }
    println!("{refused} headers refused, {named} tensors refused by name, {fine} tensors loaded");
    assert!(refused > 0 && named > 0 && fine > 0);

    // The next file loads as if nothing had been.
    let mut reader = Cursor::new(file.as_slice());
    let content = Content::read(&mut reader)?;
    let (name, bytes) = &tensors[0];
    assert_eq!(content.tensor(&mut reader, name, &device)?.data()?.as_ref(), bytes);
    Ok(())
}

#[test]
fn sizes_that_cannot_be_are_refused_before_anything_is_allocated() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let mut reader = Cursor::new(vec![0u8; 4096]);
    let huge = usize::MAX / 256 * 256;
    for (dims, offset) in [
        (vec![huge, 256], 0),
        (vec![huge], 0),
        (vec![1 << 40, 256], 0),
        (vec![1 << 20, 1 << 20, 1 << 20, 256], 0),
        (vec![256], u64::MAX),
        (vec![256], u64::MAX - 4000),
        (vec![255], 0),
        (vec![], 0),
    ] {
        let info = TensorInfo { ggml_dtype: GgmlDType::Q4K, shape: dims.as_slice().into(), offset };
        let error = info.read(&mut reader, 32, &device).expect_err("nonsense").to_string();
        assert_named(&error, "Q4K", 32u64.saturating_add(offset));
    }
    Ok(())
}

#[test]
fn an_alignment_of_zero_is_an_error() -> Result<()> {
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[("general.alignment", &Value::U32(0))], &[])?;
    file.set_position(0);
    let error = Content::read(&mut file).expect_err("no alignment").to_string();
    assert!(error.contains("general.alignment"), "{error}");
    Ok(())
}
