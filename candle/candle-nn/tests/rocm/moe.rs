//! Dense mixtures of experts against their definition in plain loops.

use super::{values, wave};
use candle::{DType, Device, Result, Tensor};
use candle_nn::moe::moe_gemm;

const EXPERTS: usize = 3;
const OUTPUTS: usize = 5;
const COLUMNS: usize = 24;

/// A route as the models make it: the experts of all slots, sorted, and the slots in that order.
fn route(slots: usize) -> (Vec<u32>, Vec<u32>) {
    let expert = |slot: u32| (slot * slot + slot / 2) % EXPERTS as u32;
    let mut order: Vec<u32> = (0..slots as u32).collect();
    order.sort_by_key(|&slot| expert(slot));
    (order.iter().map(|&slot| expert(slot)).collect(), order)
}

#[test]
fn every_slot_meets_its_expert() -> Result<()> {
    let device = Device::new_rocm(0)?;
    for (dtype, tolerance) in [(DType::F16, 4e-3), (DType::BF16, 3e-2), (DType::F32, 1e-5)] {
        for (tokens, topk, weighted) in [(1, 1, false), (1, 2, false), (7, 2, false), (7, 2, true), (40, 3, true)] {
            let slots = tokens * topk;
            // Without factors the experts of a token share its row; with them every slot has its own.
            let rows = if weighted { slots } else { tokens };
            let input = wave(&[rows, COLUMNS], 1.).to_dtype(dtype)?;
            let weights = wave(&[EXPERTS, OUTPUTS, COLUMNS], 0.5).to_dtype(dtype)?;
            let factors = (wave(&[tokens, topk], 0.4) + 0.5)?.to_dtype(DType::F32)?;
            let (experts, order) = route(slots);

            let on_device = |tensor: &Tensor| tensor.to_device(&device);
            let given = weighted.then(|| on_device(&factors)).transpose()?;
            let order_tensor = Tensor::new(order.as_slice(), &device)?;
            let experts_tensor = Tensor::new(experts.as_slice(), &device)?;
            let (x, w) = (on_device(&input)?, on_device(&weights)?);
            let got = moe_gemm(&x, &w, &given, &order_tensor, &experts_tensor, topk, tokens > 1)?;
            assert_eq!((got.dims(), got.dtype()), (&[slots, OUTPUTS][..], dtype));

            let (got, x, w, factors) = (values(&got), values(&input), values(&weights), values(&factors));
            for (&slot, &expert) in order.iter().zip(&experts) {
                let slot = slot as usize;
                let row = &x[if weighted { slot } else { slot / topk } * COLUMNS..][..COLUMNS];
                for output in 0..OUTPUTS {
                    let expert = &w[(expert as usize * OUTPUTS + output) * COLUMNS..][..COLUMNS];
                    let exact: f64 = row.iter().zip(expert).map(|(x, w)| x * w).sum();
                    let exact = exact * if weighted { factors[slot] } else { 1. };
                    let got = got[slot * OUTPUTS + output];
                    let close = (got - exact).abs() <= tolerance * exact.abs().max(1.);
                    assert!(close, "{dtype:?}, {tokens} tokens, slot {slot}, output {output}: {got} is not {exact}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_route_that_makes_no_sense_is_refused() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let input = wave(&[2, COLUMNS], 1.).to_dtype(DType::F16)?.to_device(&device)?;
    let weights = wave(&[EXPERTS, OUTPUTS, COLUMNS], 1.).to_dtype(DType::F16)?.to_device(&device)?;
    let refused = |slots: &[u32], experts: &[u32], sentence: &str| -> Result<()> {
        let (slots, experts) = (Tensor::new(slots, &device)?, Tensor::new(experts, &device)?);
        let error = moe_gemm(&input, &weights, &None, &slots, &experts, 1, false).expect_err("nonsense").to_string();
        assert!(error.contains(sentence), "{error}");
        Ok(())
    };
    refused(&[0, 1], &[0, 3], "there is no expert 3")?;
    refused(&[0, 0], &[0, 1], "slot 0 is there twice")?;
    refused(&[0, 2], &[0, 1], "slot 2")?;
    refused(&[0], &[0], "1 slots")?;
    refused(&[0, 1], &[0], "1 experts for 2 slots")?;
    let narrow = wave(&[2, COLUMNS - 1], 1.).to_dtype(DType::F16)?.to_device(&device)?;
    let (slots, experts) = (Tensor::new(&[0u32, 1], &device)?, Tensor::new(&[0u32, 1], &device)?);
    assert!(moe_gemm(&narrow, &weights, &None, &slots, &experts, 1, false).is_err());
    Ok(())
}
