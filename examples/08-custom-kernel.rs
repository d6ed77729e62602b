//! A kernel of one's own, as an operation of Candle: HIP source, compiled for the device at hand on first use. It draws the
//! Mandelbrot set, where every point takes its own number of steps, which tensor operations express badly.
//!
//!     cargo run --release --example 08-custom-kernel

use anyhow::{ensure, Result};
use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::hip::LaunchConfig;
use candle_core::rocm_backend::{RocmStorage, WrapErr};
use candle_core::{bail, CpuStorage, CustomOp1, DType, Device, Layout, Shape, Tensor};

const SOURCE: &str = r#"
extern "C" __global__ void escape_time(const float *points, unsigned *steps, unsigned count, unsigned limit) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float x = 0, y = 0;
    unsigned step = 0;
    while (step < limit && x * x + y * y <= 4) {
        float next = x * x - y * y + points[2 * i];
        y = 2 * x * y + points[2 * i + 1];
        x = next;
        step++;
    }
    steps[i] = step;
}
"#;

/// From points (n, 2) in f32 to the number of steps (n) until each leaves the circle of radius two, at most `limit`.
struct EscapeTime {
    limit: u32,
}

impl CustomOp1 for EscapeTime {
    fn name(&self) -> &'static str {
        "escape-time"
    }

    /// The same in Rust, so that the operation works on the CPU too, and can be compared.
    fn cpu_fwd(&self, points: &CpuStorage, layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        let Some((from, to)) = layout.contiguous_offsets() else { bail!("escape-time wants contiguous points") };
        let escape = |point: &[f32]| {
            let (mut x, mut y, mut step) = (0f32, 0f32, 0);
            while step < self.limit && x * x + y * y <= 4. {
                (x, y) = (x * x - y * y + point[0], 2. * x * y + point[1]);
                step += 1;
            }
            step
        };
        let steps: Vec<u32> = points.as_slice::<f32>()?[from..to].chunks_exact(2).map(escape).collect();
        let shape = Shape::from(steps.len());
        Ok((CpuStorage::U32(steps), shape))
    }

    fn rocm_fwd(&self, points: &RocmStorage, layout: &Layout) -> candle_core::Result<(RocmStorage, Shape)> {
        let Some((from, to)) = layout.contiguous_offsets() else { bail!("escape-time wants contiguous points") };
        let device = points.device();
        let count = (to - from) / 2;
        // Compiled once a device; later calls find the module by its name.
        let kernel = device.get_or_load_custom_func("escape_time", "mandelbrot", SOURCE)?;
        let input = points.as_rocm_slice::<f32>()?.slice(from..to).w()?;
        let mut steps = device.alloc_zeros::<u32>(count)?;
        let arguments = (input, &mut steps, count as u32, self.limit);
        // SAFETY: the arguments are those of `escape_time`; it reads 2 * count floats, writes count integers, and both
        // buffers belong to the device's stream.
        unsafe { kernel.launch(LaunchConfig::for_elements(count, 64), &arguments)? };
        Ok((RocmStorage::wrap_rocm_slice(steps, device.clone()), Shape::from(count)))
    }
}

fn main() -> Result<()> {
    const ROWS: usize = 24;
    const COLUMNS: usize = 72;
    let device = Device::new_rocm(0)?;

    let across = (Tensor::arange(0f32, COLUMNS as f32, &device)? * (2.7 / COLUMNS as f64))?.affine(1., -2.05)?;
    let down = (Tensor::arange(0f32, ROWS as f32, &device)? * (2.3 / ROWS as f64))?.affine(1., -1.1)?;
    let across = across.unsqueeze(0)?.broadcast_as((ROWS, COLUMNS))?;
    let down = down.unsqueeze(1)?.broadcast_as((ROWS, COLUMNS))?;
    let points = Tensor::stack(&[across, down], 2)?.reshape((ROWS * COLUMNS, 2))?;

    let steps = points.apply_op1(EscapeTime { limit: 200 })?;
    for row in steps.reshape((ROWS, COLUMNS))?.to_vec2::<u32>()? {
        let shade =
            |steps: &u32| b" .:-=+*%@#"[(*steps as f32).log2().clamp(0., 7.) as usize + usize::from(*steps == 200) * 2];
        println!("{}", row.iter().map(|steps| shade(steps) as char).collect::<String>());
    }

    // A GPU may fuse a multiplication and an addition, which rounds once less: points on the edge may leave a step apart.
    let on_cpu = points.to_device(&Device::Cpu)?.apply_op1(EscapeTime { limit: 200 })?;
    let differ = on_cpu.ne(&steps.to_device(&Device::Cpu)?)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
    println!("{differ} of {} points differ from the CPU", ROWS * COLUMNS);
    ensure!(differ <= 0.02 * (ROWS * COLUMNS) as f32, "the kernel computes something else");
    Ok(())
}
