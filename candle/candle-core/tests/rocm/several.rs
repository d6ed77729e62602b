//! Several ROCm devices in one program. The number of embedded devices is settled at a process's first HIP call, so each test
//! here runs itself again in a process that has three.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, DeviceLocation, Error, Result, Tensor};
use hip_host::inject;
use std::process::Command;

/// Set in the process that has the devices.
const AGAIN: &str = "CANDLE_ROCM_TESTS_SEVERAL";
const DEVICES: usize = 3;

/// Runs `work` where there are three devices.
fn with_several_devices(test: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    if std::env::var_os(AGAIN).is_some() {
        return work();
    }
    let mut again = Command::new(std::env::current_exe().expect("a test program knows its own path"));
    again.env(AGAIN, "1").env("CANDLE_ROCM_PLATFORM", "host").env("HIP_HOST_DEVICES", DEVICES.to_string());
    let output = again.args(["--exact", &format!("several::{test}")]).output().expect("the test program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "with several devices:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{test} is not the name of a test:\n{said}");
    Ok(())
}

#[test]
fn tensors_travel_between_devices() -> Result<()> {
    with_several_devices("tensors_travel_between_devices", || {
        let devices = (0..DEVICES).map(Device::new_rocm).collect::<Result<Vec<_>>>()?;
        assert!(Device::new_rocm(DEVICES).is_err(), "there are {DEVICES}");
        for dtype in super::bench::ALL {
            let original = Tensor::arange(0u32, 60, &Device::Cpu)?.to_dtype(dtype)?.reshape((3, 4, 5))?;
            // Through every device, one of them twice, computing on the way, and turned as a view.
            let mut travelling = original.clone();
            for &stop in &[0usize, 1, 2, 0] {
                travelling = travelling.to_device(&devices[stop])?.transpose(0, 2)?;
                assert_eq!(travelling.device().location(), DeviceLocation::Cuda { gpu_id: stop });
                travelling = (&travelling + travelling.zeros_like()?)?;
            }
            super::bench::assert_close("a journey", &original, &travelling, 0.);
        }
        // What was copied is a copy.
        let here = Tensor::arange(0u32, 1000, &devices[1])?;
        let there = here.to_device(&devices[2])?;
        there.zero_set()?;
        assert_eq!(here.to_vec1::<u32>()?, (0..1000).collect::<Vec<_>>());
        assert_eq!(there.to_vec1::<u32>()?, vec![0; 1000]);
        // Many copies under way at once, with work before and after each on its own device.
        let mut sums = Vec::new();
        for round in 0..20u32 {
            let x = Tensor::full(round, 5000, &devices[1])?.to_dtype(DType::F32)?;
            sums.push((x.sqr()?.to_device(&devices[2])? + 1.)?.sum_all()?);
        }
        for (round, sum) in sums.iter().enumerate() {
            assert_eq!(sum.to_scalar::<f32>()?, 5000. * ((round * round) as f32 + 1.));
        }
        Ok(())
    })
}

#[test]
fn devices_do_not_mix_and_blocks_stay_where_they_are_put() -> Result<()> {
    with_several_devices("devices_do_not_mix_and_blocks_stay_where_they_are_put", || {
        let (one, other) = (Device::new_rocm(0)?, Device::new_rocm(1)?);
        let error = Tensor::ones(4, DType::F32, &one)?.add(&Tensor::ones(4, DType::F32, &other)?);
        let error = match error.expect_err("two devices") {
            Error::WithBacktrace { inner, .. } => *inner,
            error => error,
        };
        assert!(matches!(error, Error::DeviceMismatchBinaryOp { .. }), "{error}");
        let weights = Tensor::arange(0f32, 512., &other)?.reshape((2, 256))?;
        let blocks = QTensor::quantize(&weights, GgmlDType::Q8_0)?;
        assert_eq!(blocks.device().location(), DeviceLocation::Cuda { gpu_id: 1 });
        assert_eq!(blocks.dequantize(&other)?.dims(), [2, 256]);
        // Seeds are a device's own.
        one.set_seed(7)?;
        other.set_seed(7)?;
        let drawn = |device: &Device| Tensor::rand(0f32, 1., 100, device)?.to_vec1::<f32>();
        assert_eq!(drawn(&one)?, drawn(&other)?);
        Ok(())
    })
}

/// Device 2 is used nowhere else, so that every module it needs is loaded here.
#[test]
fn a_module_is_loaded_once_whatever_the_number_of_threads() -> Result<()> {
    with_several_devices("a_module_is_loaded_once_whatever_the_number_of_threads", || {
        let work = || -> Result<()> {
            for size in [10, 1000] {
                let x = Tensor::ones(size, DType::F32, &Device::new_rocm(2)?)?;
                assert_eq!(
                    (x.exp()? + &x)?.sum_all()?.to_scalar::<f32>()?.round(),
                    (size as f32 * 3.718_281_8).round()
                );
            }
            Ok(())
        };
        let mut loads = 0;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| inject::record(work))).collect();
            for thread in threads {
                let (result, calls) = thread.join().expect("no panic");
                result?;
                loads +=
                    calls.iter().filter(|(name, _)| name.starts_with("hipModuleLoad")).map(|call| call.1).sum::<u32>();
            }
            Ok::<_, Error>(())
        })?;
        // Filling, exp, addition, and the sum.
        assert_eq!(loads, 4, "modules loaded for eight threads");
        Ok(())
    })
}
