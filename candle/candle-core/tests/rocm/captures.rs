//! Captured products: the graph keeps the operands and results of every one, whoever multiplies. Each case drops its tensors, fills the memory
//! they would have left with other numbers, and launches the graph.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};

type Run = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

/// Captures `run` over fresh tensors of `shapes`. The graph's result must survive all of the operands, and launching it after the
/// result is gone as well must leave other tensors alone.
fn survives(device: &Device, name: &str, shapes: &[(DType, &[usize])], run: &Run) -> Result<()> {
    let inputs: Vec<Tensor> = shapes
        .iter()
        .map(|(dtype, dims)| Tensor::randn(0f32, 1f32, *dims, device)?.to_dtype(*dtype))
        .collect::<Result<_>>()?;
    // The first call starts what cannot start in a capture: libraries, modules.
    let want = run(&inputs)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    let stream = device.as_rocm_device()?.stream().clone();
    let mut result = None;
    let graph = stream.capture(|_| {
        result = Some(run(&inputs).unwrap_or_else(|error| panic!("{name}: {error}")));
        Ok(())
    });
    let graph = graph.unwrap_or_else(|error| panic!("{name}: {error}"));
    let result = result.expect("the capture ran");
    drop(inputs);
    // Memory of the operands' sizes: whoever asks would be given theirs, if it were free.
    let others: Vec<Tensor> = shapes
        .iter()
        .map(|(dtype, dims)| Tensor::full(7f32, *dims, device)?.to_dtype(*dtype))
        .collect::<Result<_>>()?;
    graph.launch(&stream).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(result.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?, want, "{name}: an operand was not kept");
    let (dims, dtype) = (result.dims().to_vec(), result.dtype());
    drop(result);
    let instead = Tensor::full(7f32, dims, device)?.to_dtype(dtype)?;
    graph.launch(&stream).unwrap_or_else(|error| panic!("{name}: {error}"));
    for (other, what) in others.iter().chain([&instead]).zip(["operand", "operand", "result", "result"]) {
        let values = other.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        assert!(values.iter().all(|&x| x == 7.0), "{name}: the graph wrote to memory given away by its {what}");
    }
    Ok(())
}

#[test]
fn graphs_keep_the_operands_of_products() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let matmul = || Box::new(|x: &[Tensor]| x[0].matmul(&x[1])) as Run;
    let transposed = || Box::new(|x: &[Tensor]| x[0].matmul(&x[1].t()?)) as Run;
    let conv2d = || Box::new(|x: &[Tensor]| x[0].conv2d(&x[1], 1, 1, 1, 1)) as Run;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let name = |what: &str| format!("{what} {}", dtype.as_str());
        // Small products are our own kernels', larger ones the BLAS's.
        survives(&device, &name("small product"), &[(dtype, &[3, 5]), (dtype, &[5, 4])], &matmul())?;
        survives(&device, &name("product"), &[(dtype, &[96, 128]), (dtype, &[128, 160])], &matmul())?;
        survives(&device, &name("transposed product"), &[(dtype, &[96, 128]), (dtype, &[160, 128])], &transposed())?;
        survives(&device, &name("batched product"), &[(dtype, &[3, 64, 96]), (dtype, &[3, 96, 64])], &matmul())?;
        // Convolutions as products: by columns, and by Winograd's method.
        survives(&device, &name("conv2d 3x3"), &[(dtype, &[1, 16, 24, 24]), (dtype, &[16, 16, 3, 3])], &conv2d())?;
        survives(&device, &name("conv2d 5x5"), &[(dtype, &[1, 16, 24, 24]), (dtype, &[16, 16, 5, 5])], &conv2d())?;
    }
    Ok(())
}

#[test]
fn graphs_keep_quantized_weights() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    for (format, rows) in [(GgmlDType::Q4_0, 1), (GgmlDType::Q8_0, 8), (GgmlDType::Q4K, 1), (GgmlDType::Q6K, 64)] {
        let weights = Tensor::randn(0f32, 1f32, (64, 512), &device)?;
        let matmul = QMatMul::from_qtensor(QTensor::quantize(&weights, format)?)?;
        let x = Tensor::randn(0f32, 1f32, (rows, 512), &device)?;
        let want = matmul.forward(&x)?.to_vec2::<f32>()?;
        let stream = device.as_rocm_device()?.stream().clone();
        let mut result = None;
        let graph = stream
            .capture(|_| {
                result = Some(matmul.forward(&x).expect("it worked before"));
                Ok(())
            })
            .expect("a product can be captured");
        drop((weights, matmul, x));
        let _others: Vec<Tensor> =
            (0..8).map(|_| Tensor::ones((64, 512), DType::F32, &device)).collect::<Result<_>>()?;
        graph.launch(&stream).expect("what it needs is kept");
        assert_eq!(result.expect("the capture ran").to_vec2::<f32>()?, want, "{format:?}");
    }
    Ok(())
}
