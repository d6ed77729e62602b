//! `candle_nn::attention::flash_attn` on the ROCm device against the same call on the CPU.

use super::{values, wave};
use candle::{DType, Device, Result, Tensor, Var};
use candle_nn::attention::{flash_attn, AttnMask};

#[test]
fn as_on_the_cpu() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let (rows, keys) = (5, 9);
    let mask: Vec<f32> =
        (0..rows * keys).map(|at| if at % 4 == 1 { f32::NEG_INFINITY } else { at as f32 * 0.02 }).collect();
    let mask = Tensor::from_vec(mask, (rows, keys), &Device::Cpu)?;
    let causal = AttnMask::causal_with_offset(keys - rows);
    // Batches, mask, alibi, softcap: what the CPU can do.
    for (batch, mask, max_bias, softcap) in [
        (1, AttnMask::None, None, None),
        (1, AttnMask::None, None, Some(2.)),
        (1, causal.clone(), None, None),
        (1, AttnMask::causal(), None, Some(2.)),
        (1, causal.clone(), Some(8.), None),
        (1, AttnMask::Mask(mask.clone()), None, Some(2.)),
        (1, AttnMask::Mask(mask), Some(8.), None),
        (2, AttnMask::None, None, None),
        (2, AttnMask::None, Some(8.), None),
        (2, causal, Some(8.), None),
    ] {
        let q = wave(&[batch, rows, 6, 16], 1.).to_dtype(DType::F32)?;
        let k = wave(&[batch, keys, 3, 16], 1.).to_dtype(DType::F32)?;
        let v = (&k * 0.5)?;
        let on = |device: &Device| -> Result<Tensor> {
            let mask = match &mask {
                AttnMask::Mask(mask) => AttnMask::Mask(mask.to_device(device)?),
                other => other.clone(),
            };
            let [q, k, v] = [q.to_device(device)?, k.to_device(device)?, v.to_device(device)?];
            flash_attn::<f32>(&q, &k, &v, 0.3, mask, max_bias, softcap)
        };
        let (want, got) = (on(&Device::Cpu)?, on(&device)?);
        assert_eq!(want.dims(), got.dims());
        for (want, got) in values(&want).iter().zip(values(&got)) {
            let close = (want - got).abs() < 1e-5;
            assert!(close, "{batch} {mask:?} {max_bias:?} {softcap:?}: {got}, the CPU says {want}");
        }
    }
    Ok(())
}

/// On the CPU the gradient is cut without a word; here `backward` fails.
#[test]
fn no_gradient() -> Result<()> {
    let q = Var::from_tensor(&wave(&[1, 2, 2, 16], 1.).to_dtype(DType::F32)?.to_device(&Device::new_rocm(0)?)?)?;
    let result = flash_attn::<f32>(&q, &q, &q, 1., AttnMask::None, None, None)?;
    let error = result.backward().expect_err("there is no gradient").to_string();
    assert!(error.contains("flash_attn"), "{error}");
    Ok(())
}
