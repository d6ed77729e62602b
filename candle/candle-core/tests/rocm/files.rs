//! Tensors from files and into them: safetensors straight to the device in every dtype, NumPy's and PyTorch's formats by way of
//! the host, and the same bytes in a file whichever device a tensor was on.

use super::bench::{assert_close, ALL};
use candle_core::{pickle, safetensors, Device, Result, Tensor};
use std::collections::HashMap;
use std::path::PathBuf;

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rocm-{}-{name}", std::process::id()))
}

/// A tensor of each dtype, by its name.
fn tensors() -> Result<HashMap<String, Tensor>> {
    let numbers = Tensor::arange(0u32, 60, &Device::Cpu)?.reshape((3, 4, 5))?;
    ALL.iter().map(|&dtype| Ok((format!("{dtype:?}"), numbers.to_dtype(dtype)?))).collect()
}

#[test]
fn safetensors_go_straight_to_the_device_and_back() -> Result<()> {
    let (device, tensors, path) = (Device::new_rocm(0)?, tensors()?, scratch("all.safetensors"));
    safetensors::save(&tensors, &path)?;
    let bytes = std::fs::read(&path)?;
    // SAFETY: the file belongs to this test, and nobody changes it while it is mapped.
    let mapped = unsafe { safetensors::MmapedSafetensors::new(&path)? };
    let (loaded, buffered) = (safetensors::load(&path, &device)?, safetensors::load_buffer(&bytes, &device)?);
    for (name, tensor) in &tensors {
        for there in [&loaded[name], &buffered[name], &mapped.load(name, &device)?] {
            assert!(there.device().is_rocm() && there.dtype() == tensor.dtype(), "{name}: {there:?}");
            assert_close(name, tensor, there, 0.);
        }
    }
    safetensors::save(&loaded, &path)?;
    assert_eq!(std::fs::read(&path)?, bytes, "the file of tensors from the device");
    std::fs::remove_file(&path)?;

    // A view is written as what it shows.
    let turned = loaded["F32"].t()?;
    turned.save_safetensors("turned", &path)?;
    assert_close("turned", &tensors["F32"].t()?, &safetensors::load(&path, &device)?["turned"], 0.);
    std::fs::remove_file(&path)?;
    Ok(())
}

#[test]
fn a_truncated_safetensors_file_is_an_error() -> Result<()> {
    let (device, path) = (Device::new_rocm(0)?, scratch("cut.safetensors"));
    safetensors::save(&tensors()?, &path)?;
    let bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    for length in (0..bytes.len()).step_by(97) {
        assert!(safetensors::load_buffer(&bytes[..length], &device).is_err(), "{length} of {} bytes", bytes.len());
    }
    assert!(safetensors::load_buffer(&bytes, &device).is_ok());
    Ok(())
}

#[test]
fn numpy_and_pytorch_files_come_by_way_of_the_host() -> Result<()> {
    let (device, path) = (Device::new_rocm(0)?, scratch("turned.npy"));
    let tensor = Tensor::arange(0f32, 60., &device)?.reshape((3, 4, 5))?.t()?;
    tensor.write_npy(&path)?;
    let back = Tensor::read_npy(&path)?;
    std::fs::remove_file(&path)?;
    assert_close("npy", &back, &tensor, 0.);
    assert_close("npy", &back, &back.to_device(&device)?, 0.);

    // One of upstream's own test files.
    let tensors = pickle::read_all(concat!(env!("OUT_DIR"), "/tests/test.pt"))?;
    assert!(!tensors.is_empty());
    for (name, tensor) in tensors {
        assert_close(&name, &tensor, &tensor.to_device(&device)?, 0.);
    }
    Ok(())
}
