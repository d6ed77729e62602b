//! The libraries in checked mode: what they fill counts as written, so that a kernel may read it, and no more than that.

use hip::{Buffer, Compiler, DeviceCopy, LaunchConfig, Module, Platform, Program, Stream};
use rocm::blas::{Blas, MatrixView, MatrixViewMut};
use rocm::fft::{Kind as Direction, Plan, Transform};
use rocm::miopen::{BatchNormalization, Convolution, Miopen, Tensor, TensorMut};
use rocm::rand::{Generator, Kind};

const SOURCE: &str = r#"
extern "C" __global__ void read_words(const unsigned* source, unsigned* target, int count) {
    unsigned sum = 0;
    for (int i = 0; i < count; i++) sum += source[i];
    *target = sum;
}
"#;

struct Reader {
    module: Module,
    stream: Stream,
}

impl Reader {
    /// Lets a kernel read all of a buffer, which fails where something was not written.
    fn read<T: DeviceCopy>(&self, buffer: &Buffer<T>) -> hip::Result<()> {
        let (source, mut target) = (buffer.view().cast::<u32>()?, self.stream.alloc::<u32>(1)?);
        let arguments = (source, &mut target, source.len() as i32);
        // SAFETY: the arguments are those of the kernel.
        unsafe { self.module.function("read_words")?.launch(&self.stream, LaunchConfig::new(1, 1), &arguments) }?;
        self.stream.synchronize()
    }
}

#[test]
fn what_the_libraries_fill_can_be_read_by_a_kernel() -> hip::Result<()> {
    let options = hip_host::Options { checked: true, ..hip_host::Options::default() };
    hip_host::configure(options).expect("nothing has used the device before");
    let device = Platform::named("host")?.device(0)?;
    let code = Compiler::new(device.platform())?.compile(&Program::new("read.hip", SOURCE).for_device(&device))?;
    let stream = device.new_stream()?;
    // SAFETY: the compiler has just made it.
    let module = unsafe { Module::load(&device, code) }?;
    let reader = Reader { module, stream: stream.clone() };
    assert!(reader.read(&stream.alloc::<f32>(4)?).is_err(), "memory that nobody wrote is refused");

    let blas = Blas::new(&stream)?.expect("the embedded device has a BLAS");
    let (a, x) = (stream.upload(&[1f32; 12])?, stream.upload(&[1f32; 4])?);
    let (mut one, mut y) = (stream.alloc::<f32>(1)?, stream.alloc::<f32>(3)?);
    blas.dot(&x, &x, &mut one)?;
    reader.read(&one)?;
    blas.gemv(1.0, &MatrixView::new(&a, 3, 4), &x, 0.0, &mut y)?;
    reader.read(&y)?;
    let (left, right) = (MatrixView::new(&a, 3, 4), MatrixView::new(&a, 4, 3));
    let mut c = stream.alloc::<f32>(9)?;
    blas.multiply(1.0, &left, &right, 0.0, &mut MatrixViewMut::new(&mut c, 3, 3))?;
    reader.read(&c)?;
    let mut listed = stream.alloc::<f32>(18)?;
    let (first, second) = listed.view_mut().split_at(9)?;
    let mut results = [first, second].map(|view| MatrixViewMut::new(view, 3, 3));
    blas.multiply_each(1.0, &[(left, right), (left, right)], 0.0, &mut results)?;
    reader.read(&listed)?;

    let mut words = stream.alloc::<u32>(7)?;
    Generator::new(&stream, Kind::Philox, 1)?.bits(&mut words)?;
    reader.read(&words)?;

    for size in [11, 12] {
        let plan = Plan::<f32>::new(&stream, &Transform::new(Direction::RealForward, &[size]))?;
        let (mut reals, mut spectrum) = (stream.upload(&vec![1f32; size])?, stream.alloc(plan.output_len())?);
        plan.execute(&mut reals, &mut spectrum)?;
        reader.read(&spectrum)?;
    }

    let miopen = Miopen::new(&stream)?.expect("the embedded device has it built in");
    let (image, taps, mut out) =
        (Tensor::new(&a, &[1, 1, 3, 4])?, Tensor::new(&x, &[1, 1, 2, 2])?, stream.alloc::<f32>(6)?);
    miopen.convolution_forward(
        &Convolution::default(),
        &image,
        &taps,
        &mut TensorMut::new(&mut out, &[1, 1, 2, 3])?,
    )?;
    reader.read(&out)?;
    let (scale, bias) = (stream.upload(&[1f32])?, stream.upload(&[0f32])?);
    let normalization = BatchNormalization { scale: scale.view(), bias: bias.view(), epsilon: 1e-5 };
    let (mut mean, mut variance) = (stream.upload(&[0f32])?, stream.upload(&[1f32])?);
    let mut normal = stream.alloc::<f32>(12)?;
    let mut target = TensorMut::new(&mut normal, &[1, 1, 3, 4])?;
    let saved =
        miopen.batch_normalization_training(&normalization, &image, &mut target, (&mut mean, &mut variance), 0.1)?;
    for buffer in [&normal, &saved.mean, &saved.inverse_deviation] {
        reader.read(buffer)?;
    }
    Ok(())
}
