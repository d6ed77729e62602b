//! Bad input gets a sentence, and the next call works.

use candle::{DType, Device, Result, Tensor, Var};
use candle_flash_attn::{
    flash_attn, flash_attn_alibi, flash_attn_alibi_windowed_softcap, flash_attn_varlen,
    flash_attn_varlen_paged_windowed,
};

fn zeros(dims: &[usize]) -> Result<Tensor> {
    zeros_on(dims, &Device::new_rocm(0)?)
}

fn zeros_on(dims: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(dims, DType::F16, device)
}

fn assert_refused(outcome: Result<Tensor>, sentence: &str) {
    let error = outcome.expect_err(sentence).to_string();
    assert!(error.contains(sentence), "{sentence:?} is not in: {error}");
}

#[test]
fn shapes_and_dtypes() -> Result<()> {
    let q = zeros(&[1, 4, 4, 16])?;
    let attend = |q: &Tensor, k: &Tensor| flash_attn(q, k, k, 1.0, false);
    assert_refused(attend(&q, &zeros(&[1, 4, 3, 16])?), "4 heads of q cannot share 3 heads of k and v");
    assert_refused(attend(&q, &zeros(&[1, 4, 0, 16])?), "cannot share 0 heads");
    assert_refused(attend(&q, &zeros(&[1, 4, 4, 8])?), "do not go together");
    assert_refused(attend(&q, &zeros(&[2, 4, 4, 16])?), "do not go together");
    assert_refused(attend(&q, &zeros(&[4, 4, 16])?), "four dimensions, (batch, rows, heads, dim)");
    assert_refused(attend(&zeros(&[1, 1, 1, 520])?, &zeros(&[1, 1, 1, 520])?), "heads of 520 elements");
    assert_refused(attend(&q, &q.to_dtype(DType::BF16)?), "must be of one dtype");
    let wide = q.to_dtype(DType::F64)?;
    assert_refused(attend(&wide, &wide), "F64; flash attention takes f16, bf16 and f32");
    let slopes = Tensor::zeros(3, DType::F32, q.device())?;
    assert_refused(flash_attn_alibi(&q, &q, &q, &slopes, 1.0, true), "alibi_slopes are F32 [3], but must be f32 [4]");
    let slopes = Tensor::zeros(4, DType::F32, &Device::Cpu)?;
    assert_refused(flash_attn_alibi(&q, &q, &q, &slopes, 1.0, true), "is not on the device of q");
    let capped = flash_attn_alibi_windowed_softcap(&q, &q, &q, None, 1.0, None, None, f32::NAN);
    assert_refused(capped, "a softcap of");
    attend(&q, &q)?;
    Ok(())
}

#[test]
fn the_cpu() -> Result<()> {
    let q = Tensor::zeros((1, 4, 4, 16), DType::F16, &Device::Cpu)?;
    assert_refused(flash_attn(&q, &q, &q, 1.0, false), "q is on Cpu; flash attention runs on a ROCm device");
    let on_device = q.to_device(&Device::new_rocm(0)?)?;
    assert_refused(flash_attn(&on_device, &q, &q, 1.0, false), "k is on Cpu");
    Ok(())
}

#[test]
fn lengths() -> Result<()> {
    // A stream of its own: what its kernels report is told to nobody else.
    let device = Device::new_rocm_with_stream(0)?;
    let q = zeros_on(&[6, 2, 16], &device)?;
    let run =
        |starts_q: &Tensor, starts_k: &Tensor| flash_attn_varlen(&q, &q, &q, starts_q, starts_k, 6, 6, 1.0, false);
    let good = Tensor::new(&[0u32, 2, 6], &device)?;
    assert_refused(run(&good, &Tensor::new(&[0u32, 6], &device)?), "seqlens_q has 3 elements and seqlens_k has 2");
    let one = Tensor::new(&[0u32], &device)?;
    assert_refused(run(&one, &one), "one more than there are sequences");
    assert_refused(run(&good.to_dtype(DType::I64)?, &good), "seqlens_q is I64 [3], but must be u32");
    assert_refused(run(&good, &good.to_device(&Device::Cpu)?), "is not on the device of q");
    // What only the device can see comes out where the host waits.
    for bad in [[0u32, 2, 7], [0, 4, 3], [0, 9, 6], [u32::MAX, 0, 6]] {
        let bad = Tensor::new(&bad, &device)?;
        for (starts_q, starts_k) in [(&bad, &good), (&good, &bad)] {
            let told = run(starts_q, starts_k)?.to_dtype(DType::F32)?.to_vec3::<f32>();
            let error = told.expect_err("starts that lead outside").to_string();
            assert!(error.contains("attention (rows of sequences)"), "{error}");
        }
    }
    for (most_q, most_k, longest) in [(3, 4, 3), (4, 2, 2)] {
        let told = flash_attn_varlen(&q, &q, &q, &good, &good, most_q, most_k, 1.0, false)?;
        let error = told.to_dtype(DType::F32)?.to_vec3::<f32>().expect_err("a sequence of 4 rows").to_string();
        assert!(error.contains(&format!("a sequence of 4 rows is longer than {longest}")), "{error}");
    }
    run(&good, &good)?.to_dtype(DType::F32)?.to_vec3::<f32>()?;
    Ok(())
}

#[test]
fn tables() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let (q, k) = (zeros_on(&[3, 2, 16], &device)?, zeros_on(&[4, 32, 2, 16], &device)?);
    let starts = (Tensor::new(&[0u32, 3], &device)?, Tensor::new(&[0u32, 40], &device)?);
    let run = |k: &Tensor, table: &Tensor, ranges: Option<&Tensor>, page: usize| {
        let (sq, sk) = (&starts.0, &starts.1);
        flash_attn_varlen_paged_windowed(&q, k, k, sq, sk, table, ranges, 3, 40, 1.0, None, Some(0), page, None)
    };
    let table = Tensor::new(&[[0u32, 1]], &device)?;
    assert_refused(run(&k, &table, None, 16), "page_block_size is 16, but k [4, 32, 2, 16] has pages of 32 rows");
    assert_refused(run(&k, &table.squeeze(0)?, None, 32), "block_table is U32 [2], but must be u32 or i32 [1, pages]");
    assert_refused(run(&k, &table.to_dtype(DType::I64)?, None, 32), "block_table is I64");
    assert_refused(run(&zeros(&[3, 2, 16])?, &table, None, 32), "(pages, rows of a page, kv heads, dim)");
    let ranges = Tensor::new(&[[[0i32, 3]], [[0, 3]]], &device)?;
    assert_refused(
        run(&k, &table, Some(&ranges), 32),
        "mm_prefix_ranges are I32 [2, 1, 2], but must be i32 [1, ranges, 2]",
    );
    for bad in [[0u32, 4], [u32::MAX, 0]] {
        let told = run(&k, &Tensor::new(&[bad], &device)?, None, 32)?.to_dtype(DType::F32)?.to_vec3::<f32>();
        let error = told.expect_err("a page that is not there").to_string();
        assert!(error.contains("attention (pages)"), "{error}");
    }
    run(&k, &table, None, 32)?.to_dtype(DType::F32)?.to_vec3::<f32>()?;
    Ok(())
}

#[test]
fn gradients() -> Result<()> {
    let q = Var::from_tensor(&zeros(&[1, 2, 2, 16])?)?;
    let result = flash_attn(&q, &q, &q, 1.0, true)?;
    let error = result.sum_all()?.backward().expect_err("there is no gradient").to_string();
    assert!(error.contains("flash-attn"), "{error}");
    Ok(())
}
