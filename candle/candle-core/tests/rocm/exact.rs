//! Where the CPU backend is no yardstick: the answer is computed here, element by element, ROCm must give it, and the CPU does not.
//! The book names each in `docs/src/troubleshooting.md`. When an assertion about the CPU fails, upstream has mended it: take it out of both.

use super::bench::assert_close;
use candle_core::{DType, Device, Result, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Small whole numbers: products and sums of them are exact in every float dtype.
fn whole(count: usize, rng: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-2i8..=2).into()).collect()
}

fn differs(what: &str, expected: &Tensor, got: &Tensor) -> Result<()> {
    let (expected, got) = (expected.flatten_all()?.to_vec1::<f32>()?, got.flatten_all()?.to_vec1::<f32>()?);
    assert_ne!(expected, got, "the CPU is right about {what}: say so in the book");
    Ok(())
}

/// A batch of transposed matrices times one matrix for all of them: what `Linear` does with a permuted input.
#[test]
fn a_batch_of_transposed_matrices_by_one_that_is_broadcast() -> Result<()> {
    let (rocm, mut rng) = (Device::new_rocm(0)?, StdRng::seed_from_u64(11));
    for (batch, m, n, k) in [(2, 3, 4, 5), (3, 16, 9, 33), (4, 1, 7, 6), (2, 70, 66, 130), (5, 8, 1, 8)] {
        let (x, w) = (whole(batch * k * m, &mut rng), whole(k * n, &mut rng));
        let mut product = Vec::with_capacity(batch * m * n);
        for (b, row, column) in
            (0..batch).flat_map(|b| (0..m).flat_map(move |row| (0..n).map(move |column| (b, row, column))))
        {
            product.push((0..k).map(|i| x[(b * k + i) * m + row] * w[i * n + column]).sum::<f32>());
        }
        let expected = Tensor::from_vec(product, (batch, m, n), &Device::Cpu)?;
        let multiply = |device: &Device, dtype: DType| -> Result<Tensor> {
            let x = Tensor::from_slice(&x, (batch, k, m), device)?.to_dtype(dtype)?.transpose(1, 2)?;
            let w = Tensor::from_slice(&w, (k, n), device)?.to_dtype(dtype)?.broadcast_left(batch)?;
            x.matmul(&w)?.to_dtype(DType::F32)?.to_device(&Device::Cpu)
        };
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            // A sum above 256 is rounded in bf16, above 2048 in f16.
            let tolerance = if dtype == DType::BF16 { 4e-3 } else { 0. };
            assert_close(
                &format!("{batch} of {m}x{k} by {k}x{n} in {dtype:?}"),
                &expected,
                &multiply(&rocm, dtype)?,
                tolerance,
            );
        }
        if m > 1 {
            differs(
                "batches of transposed matrices by a broadcast one",
                &expected,
                &multiply(&Device::Cpu, DType::F32)?,
            )?;
        }
    }
    Ok(())
}

/// Fewer ids than elements along dimensions other than the one that is gathered from.
#[test]
fn gather_with_fewer_ids_than_elements() -> Result<()> {
    let (rocm, mut rng) = (Device::new_rocm(0)?, StdRng::seed_from_u64(13));
    let mut wrong_on_the_cpu = 0;
    for round in 0..60 {
        let rank = rng.random_range(1..5);
        let dims: Vec<usize> = (0..rank).map(|_| rng.random_range(1..7)).collect();
        let dim = rng.random_range(0..rank);
        let ids_dims: Vec<usize> = dims
            .iter()
            .enumerate()
            .map(|(d, &size)| if d == dim { rng.random_range(1..9) } else { rng.random_range(1..=size) })
            .collect();
        let count: usize = ids_dims.iter().product();
        let source = whole(dims.iter().product(), &mut rng);
        // One in eight means "none".
        let id = |rng: &mut StdRng| {
            if rng.random_range(0..8) == 0 {
                u32::MAX
            } else {
                rng.random_range(0..dims[dim]) as u32
            }
        };
        let ids: Vec<u32> = (0..count).map(|_| id(&mut rng)).collect();
        let element = |at: usize| {
            let (mut rest, mut place, mut stride) = (at, 0, 1);
            for d in (0..rank).rev() {
                let position = if d == dim { ids[at] as usize } else { rest % ids_dims[d] };
                rest /= ids_dims[d];
                place += position * stride;
                stride *= dims[d];
            }
            if ids[at] == u32::MAX {
                0.
            } else {
                source[place]
            }
        };
        let expected = Tensor::from_vec((0..count).map(element).collect::<Vec<f32>>(), &*ids_dims, &Device::Cpu)?;
        let what = format!("round {round}: gather by {ids_dims:?} from {dims:?} along {dim}");
        let gather = |device: &Device, dtype: DType| -> Result<Tensor> {
            let source = Tensor::from_slice(&source, &*dims, device)?.to_dtype(dtype)?;
            let gathered = source.gather(&Tensor::from_slice(&ids, &*ids_dims, device)?, dim)?;
            gathered.to_dtype(DType::F32)?.to_device(&Device::Cpu)
        };
        for dtype in [DType::F32, DType::BF16, DType::I64] {
            assert_close(&what, &expected, &gather(&rocm, dtype)?, 0.);
        }
        let cpu = gather(&Device::Cpu, DType::F32)?;
        // It counts positions by the source's strides, which is right while no dimension within is cut.
        if (0..rank).all(|d| [0, dim, dim + 1].contains(&d) || ids_dims[d] == dims[d]) {
            assert_close(&what, &expected, &cpu, 0.);
        } else if cpu.flatten_all()?.to_vec1::<f32>()? != expected.flatten_all()?.to_vec1::<f32>()? {
            wrong_on_the_cpu += 1;
        }
    }
    assert!(wrong_on_the_cpu > 0, "the CPU is right about gather: say so in the book");
    // More ids than elements along another dimension are refused before any device is asked.
    for device in [&rocm, &Device::Cpu] {
        let (source, ids) = (Tensor::zeros((2, 3), DType::F32, device)?, Tensor::zeros((3, 3), DType::U32, device)?);
        assert!(source.gather(&ids, 1).is_err_and(|error| error.to_string().contains("gather")));
    }
    Ok(())
}

/// A long sum of short floats is rounded once, whoever computes it: parts that were rounded before they are added up, as a BLAS may do
/// with a product that it splits along k, leave an error by the size of the parts, which here are a hundred times the result.
#[test]
fn a_long_product_of_short_floats_is_rounded_once() -> Result<()> {
    let (rocm, mut rng) = (Device::new_rocm(0)?, StdRng::seed_from_u64(17));
    for (m, n, k) in [(5, 17, 1000), (16, 8, 4096), (33, 64, 2048), (1, 40, 1000)] {
        for (dtype, epsilon) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
            // The first half of a sum is positive and the second takes it back.
            let x: Vec<f32> = (0..m * k).map(|at| if at % k < k / 2 { 1. } else { -1. }).collect();
            let w: Vec<f32> = (0..k * n).map(|_| rng.random_range(0.5..1.)).collect();
            let rounded = |values: &[f32], shape: (usize, usize)| -> Result<Tensor> {
                Tensor::from_slice(values, shape, &Device::Cpu)?.to_dtype(dtype)
            };
            let (x, w) = (rounded(&x, (m, k))?, rounded(&w, (k, n))?);
            let wide = |tensor: &Tensor| tensor.to_dtype(DType::F64);
            let exact = wide(&x)?.matmul(&wide(&w)?)?.flatten_all()?.to_vec1::<f64>()?;
            let got = x.to_device(&rocm)?.matmul(&w.to_device(&rocm)?)?.to_device(&Device::Cpu)?;
            let got = wide(&got)?.flatten_all()?.to_vec1::<f64>()?;
            for (exact, got) in exact.iter().zip(&got) {
                // Terms have at most 11 bits below one, and sums of so many of them 11 above: f32 loses none of them, in any order.
                let bound = epsilon * exact.abs();
                assert!(
                    (got - exact).abs() <= bound,
                    "{m}x{k} by {k}x{n} in {dtype:?}: {got}, exactly {exact}, bound {bound:e}"
                );
            }
        }
    }
    Ok(())
}
