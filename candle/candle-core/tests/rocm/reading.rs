//! Tensors as Rust's values: whatever part of a storage a tensor is, and however it lies there, the values are the CPU's, and what
//! the CPU refuses is refused with the same error.

use candle_core::{DType, Device, IndexOp, Result, Tensor, WithDType, D};

/// Ways of looking at a tensor of three dimensions.
type View = (&'static str, fn(&Tensor) -> Result<Tensor>);
const VIEWS: &[View] = &[
    ("whole", |x| Ok(x.clone())),
    ("the end of it", |x| x.narrow(0, 1, x.dim(0)? - 1)),
    ("some columns", |x| x.narrow(2, 1, x.dim(2)? - 2)),
    ("transposed", |x| x.transpose(0, 2)),
    ("part of it, transposed", |x| x.narrow(1, 2, 3)?.transpose(1, 2)),
    ("a matrix for all", |x| x.i(1)?.broadcast_as(x.shape())),
    ("one number for all", |x| x.i((1, 1, 1))?.broadcast_as((3, 4, 5))),
    ("nothing", |x| x.narrow(1, 2, 0)),
];

fn same_values<S: WithDType + PartialEq>(cpu: &Tensor, rocm: &Tensor, what: &str) -> Result<()> {
    let same = |equal: bool, how: &str| assert!(equal, "{what}, {:?} {:?}: {how}", S::DTYPE, cpu.dims());
    same(cpu.to_vec3::<S>()? == rocm.to_vec3::<S>()?, "to_vec3");
    same(cpu.flatten_all()?.to_vec1::<S>()? == rocm.flatten_all()?.to_vec1::<S>()?, "to_vec1 of all");
    if cpu.elem_count() == 0 {
        return Ok(());
    }
    let last = cpu.dim(0)? - 1;
    same(cpu.i(last)?.to_vec2::<S>()? == rocm.i(last)?.to_vec2::<S>()?, "to_vec2");
    same(cpu.i((last, .., 1))?.to_vec1::<S>()? == rocm.i((last, .., 1))?.to_vec1::<S>()?, "to_vec1 of a column");
    same(cpu.i((last, 1, 1))?.to_scalar::<S>()? == rocm.i((last, 1, 1))?.to_scalar::<S>()?, "to_scalar");
    Ok(())
}

#[test]
fn every_view_comes_back_as_on_the_cpu() -> Result<()> {
    let device = Device::new_rocm(0)?;
    // The second is more than the host puts in order by itself, the third comes back in pieces.
    for shape in [(3, 5, 7), (6, 70, 60), (5, 512, 520)] {
        let count = shape.0 * shape.1 * shape.2;
        let cpu = Tensor::arange(0u32, count as u32, &Device::Cpu)?.reshape(shape)?;
        for dtype in [DType::F32, DType::F16, DType::U8, DType::I64] {
            let cpu = cpu.to_dtype(dtype)?;
            let rocm = cpu.to_device(&device)?;
            for (what, view) in VIEWS {
                let (cpu, rocm) = (view(&cpu)?, view(&rocm)?);
                match dtype {
                    DType::F32 => same_values::<f32>(&cpu, &rocm, what)?,
                    DType::F16 => same_values::<half::f16>(&cpu, &rocm, what)?,
                    DType::U8 => same_values::<u8>(&cpu, &rocm, what)?,
                    _ => same_values::<i64>(&cpu, &rocm, what)?,
                }
            }
        }
    }
    Ok(())
}

#[test]
fn what_the_cpu_refuses_is_refused() -> Result<()> {
    let refusals = |device: &Device| -> Result<Vec<String>> {
        let x = Tensor::zeros((2, 3), DType::F32, device)?;
        let row = x.i(0)?;
        Ok(vec![
            x.to_vec1::<f32>().expect_err("two dimensions").to_string(),
            row.to_vec2::<f32>().expect_err("one dimension").to_string(),
            x.to_vec3::<f32>().expect_err("two dimensions").to_string(),
            row.to_scalar::<f32>().expect_err("one dimension").to_string(),
            row.to_vec1::<u32>().expect_err("another dtype").to_string(),
            x.to_vec2::<f64>().expect_err("another dtype").to_string(),
            x.sum_all()?.to_scalar::<i64>().expect_err("another dtype").to_string(),
        ])
    };
    let device = Device::new_rocm(0)?;
    // Backtraces, where they are on, differ.
    let first_lines = |sentences: Vec<String>| -> Vec<String> {
        sentences.iter().map(|sentence| sentence.lines().next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(first_lines(refusals(&device)?), first_lines(refusals(&Device::Cpu)?));
    let largest = Tensor::new(&[1f32, 4., 2.], &device)?.argmax(D::Minus1)?;
    assert_eq!(largest.to_scalar::<u32>()?, 1, "the device reads on");
    Ok(())
}
