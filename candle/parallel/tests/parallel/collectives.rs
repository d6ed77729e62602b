//! Collectives of tensors, and how they are ordered with Candle's operations.

use crate::ranks::{assert_close, numbers, sentence, with_ranks};
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_parallel::{ProcessGroup, ReduceOp};

#[test]
fn every_dtype_is_reduced_gathered_and_broadcast() -> Result<()> {
    with_ranks("collectives::every_dtype_is_reduced_gathered_and_broadcast", 3, |group| {
        for dtype in [DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64] {
            let of_rank = |rank: usize| -> Result<Tensor> {
                Tensor::arange(0u32, 24, &Device::Cpu)?.reshape((2, 3, 4))?.affine(1., rank as f64)?.to_dtype(dtype)
            };
            let all = (0..3).map(of_rank).collect::<Result<Vec<_>>>()?;
            let mine = of_rank(group.rank())?.to_device(group.device())?;
            let sum = all[1].affine(3., 0.)?;
            assert_close(&group.all_reduce(&mine, ReduceOp::Sum)?, &sum, &format!("sum of {dtype:?}"))?;
            assert_close(&group.all_reduce(&mine, ReduceOp::Max)?, &all[2], &format!("largest {dtype:?}"))?;
            for dim in 0..3 {
                let joined = group.all_gather(&mine, dim)?;
                assert_close(&joined, &Tensor::cat(&all, dim)?, &format!("{dtype:?} along {dim}"))?;
            }
            // Views are taken as they are seen.
            let turned = group.broadcast(&mine.transpose(0, 2)?.narrow(1, 1, 2)?, 1)?;
            assert_close(&turned, &all[1].transpose(0, 2)?.narrow(1, 1, 2)?, &format!("{dtype:?} of rank 1"))?;
            assert_eq!(turned.dtype(), dtype);
        }
        Ok(())
    })
}

/// Long work before and after, and operations that the backend puts off: silu times something, and a cast.
#[test]
fn collectives_come_in_order_with_other_work() -> Result<()> {
    with_ranks("collectives::collectives_come_in_order_with_other_work", 2, |group| {
        let of_rank = |rank: usize, device: &Device| -> Result<[Tensor; 2]> {
            // Small weights: differences in rounding must not grow.
            let weights = (numbers(&[64, 64], 11)? * 0.1)?;
            Ok([numbers(&[64, 64], 1 + rank as u64)?.to_device(device)?, weights.to_device(device)?])
        };
        let part = |[x, weights]: &[Tensor; 2]| -> Result<Tensor> {
            let mut x = x.clone();
            for _ in 0..20 {
                x = (x.matmul(weights)?.tanh()? + 0.125)?;
            }
            x.silu()
        };
        let expected = (part(&of_rank(0, &Device::Cpu)?)? + part(&of_rank(1, &Device::Cpu)?)?)?;
        for round in 0..10 {
            let mine = part(&of_rank(group.rank(), group.device())?)?;
            let sum = group.all_reduce(&mine, ReduceOp::Sum)?;
            // The memory of what was reduced is taken by what comes next.
            drop(mine);
            let next = (Tensor::full(round as f32, (64, 64), group.device())? * 2.)?;
            assert_close(&sum, &expected, "the sum")?;
            let gated = (sum.silu()? * &next)?;
            let again = group.all_reduce(&gated, ReduceOp::Average)?;
            assert_close(&again, &(expected.silu()? * (2. * round as f64))?, "what was put off")?;
        }
        Ok(())
    })
}

#[test]
fn what_cannot_be_done_is_refused() -> Result<()> {
    with_ranks("collectives::what_cannot_be_done_is_refused", 2, |group| {
        let (on_cpu, here) = (Tensor::ones(3, DType::F32, &Device::Cpu)?, Tensor::ones(3, DType::F32, group.device())?);
        assert!(sentence(group.all_reduce(&on_cpu, ReduceOp::Sum)).contains("use to_device"));
        let elsewhere = Tensor::ones(3, DType::F32, &Device::new_rocm_with_stream(group.rank())?)?;
        assert!(sentence(group.all_reduce(&elsewhere, ReduceOp::Sum)).contains("on another"));
        assert!(sentence(group.broadcast(&here, 2)).contains("no rank 2"));
        assert!(sentence(group.shard(&here, 0)).contains("cannot be cut into 2"));
        assert!(sentence(ProcessGroup::new(&Device::Cpu, &rocm::rccl::Id::from_bytes([0; 128]), 0, 1)).contains("rocm"));
        // The group works on.
        assert_eq!(group.all_reduce(&here, ReduceOp::Sum)?.to_vec1::<f32>()?, [2., 2., 2.]);
        Ok(())
    })
}
