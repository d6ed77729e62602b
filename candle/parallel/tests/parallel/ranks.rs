//! Ranks as threads. How many embedded devices there are is settled at a process's first call of HIP, so each test runs itself again in a
//! process that has a device for each rank.

use candle_core::{DType, Device, Result, Tensor, D};
use candle_rocm_parallel::ProcessGroup;
use std::process::Command;

/// Set in the process that has the devices, to their number.
const AGAIN: &str = "CANDLE_ROCM_TESTS_PARALLEL";
/// Seconds after which a rank no longer waits for one that failed.
const LIMIT: &str = "60";

/// Runs `work` as every rank of a group; `test` is the name of the test that calls it.
pub fn with_ranks(test: &str, ranks: usize, work: impl Fn(&ProcessGroup) -> Result<()> + Sync) -> Result<()> {
    let Ok(devices) = std::env::var(AGAIN) else {
        let mut again = Command::new(std::env::current_exe().expect("a test program knows its own path"));
        again
            .env(AGAIN, ranks.to_string())
            .env("CANDLE_ROCM_PLATFORM", "host")
            .env("HIP_HOST_DEVICES", ranks.to_string());
        again.env("CANDLE_ROCM_COMM_TIMEOUT", LIMIT).args(["--exact", test]);
        let output = again.output().expect("the test program starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "as ranks:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("1 passed"), "{test} is not the name of a test:\n{said}");
        return Ok(());
    };
    // A test with several numbers of ranks has a process for each.
    if devices != ranks.to_string() {
        return Ok(());
    }
    let platform = candle_core::rocm_backend::hip::Platform::detect().expect("the embedded platform");
    let id = rocm::rccl::Id::new(&platform).expect("an id");
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..ranks)
            .map(|rank| {
                let (work, id) = (&work, &id);
                scope.spawn(move || {
                    let group = ProcessGroup::new(&Device::new_rocm(rank)?, id, rank, ranks)?;
                    work(&group)?;
                    group.wait()
                })
            })
            .collect();
        all.into_iter().map(|rank| rank.join().expect("no rank panics")).collect()
    });
    outcomes.into_iter().collect()
}

/// Numbers from -1 to 1 that are the same everywhere.
pub fn numbers(shape: &[usize], seed: u64) -> Result<Tensor> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    Tensor::from_iter((0..shape.iter().product()).map(|_| next()), &Device::Cpu)?.reshape(shape)
}

/// Both have the same numbers, as far as sums in another order leave them so.
pub fn assert_close(got: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    assert_eq!(got.dims(), expected.dims(), "{what}");
    let on_cpu = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all();
    let (got, expected) = (on_cpu(got)?, on_cpu(expected)?);
    let difference = (got - &expected)?.abs()?.max(D::Minus1)?.to_scalar::<f32>()?;
    let largest = expected.abs()?.max(D::Minus1)?.to_scalar::<f32>()?;
    assert!(difference <= 1e-5 * largest.max(1.0), "{what}: differs by {difference}");
    Ok(())
}

/// The sentence of what failed.
pub fn sentence<T>(outcome: Result<T>) -> String {
    match outcome {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}
