//! The devices the tests run on, and the few steps every test repeats: memory up, kernel, memory down, compare.

use crate::element::{Element, TOLERANCES};
use candle_rocm_kernels::{DType, Kernels, Operand, OperandMut, Output, Planning};
use hip::{Buffer, Platform, Result, Stream};
use std::sync::{Arc, OnceLock};

/// One device with its kernels.
pub struct Bench {
    pub stream: Stream,
    pub kernels: Arc<Kernels>,
}

/// Set to run the tests on the code objects that programs get, instead of ones that check every access.
const UNCHECKED: &str = "KERNEL_TESTS_UNCHECKED";

/// A device with waves of 32 and one with waves of 64, both checking every access of every kernel; or the first device of
/// the GPU platform that `CANDLE_ROCM_PLATFORM` names.
pub fn all() -> &'static [Bench] {
    static BENCHES: OnceLock<Vec<Bench>> = OnceLock::new();
    BENCHES.get_or_init(|| {
        if let Some(name) = std::env::var(hip::PLATFORM_VARIABLE).ok().filter(|name| name != "host") {
            let platform = Platform::named(&name).expect("the platform starts");
            return vec![Bench::on(&platform.device(0).expect("a device"))];
        }
        let checked = std::env::var_os(UNCHECKED).is_none();
        // In the order that `HIP_HOST_ORDER` asks for; otherwise, in checked mode, in all of them in turn.
        let order = hip_host::Options::from_env().expect("good variables").order;
        let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], checked, order, ..Default::default() };
        hip_host::configure(options).expect("the embedded device is configured before its first use");
        let platform = Platform::named("host").expect("the embedded device starts");
        let devices = platform.devices().expect("two devices");
        assert_eq!(devices.iter().map(|device| device.wave_size()).collect::<Vec<_>>(), [32, 64]);
        devices
            .iter()
            .map(|device| {
                assert_eq!(device.is_checked(), checked);
                Bench::on(device)
            })
            .collect()
    })
}

/// Elements in device memory, with the layout of a tensor over them.
pub struct Tensor {
    pub memory: Buffer<u8>,
    pub dtype: DType,
    pub start: usize,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

impl Tensor {
    pub fn operand(&self) -> Operand<'_> {
        Operand::new(&self.memory, self.dtype, self.start, &self.dims, &self.strides).expect("the layout fits")
    }

    pub fn operand_mut(&mut self) -> OperandMut<'_> {
        OperandMut::new(&mut self.memory, self.dtype, self.start, &self.dims, &self.strides).expect("the layout fits")
    }

    pub fn download<T: Element>(&self) -> Vec<T> {
        from_bytes(&self.memory.to_vec().expect("a copy back"))
    }
}

impl Bench {
    fn on(device: &hip::Device) -> Self {
        let stream = device.new_stream().expect("a stream");
        let kernels = Arc::new(Kernels::new(&stream).expect("kernels"));
        Self { stream, kernels }
    }

    /// The same kernels on a stream of their own: what goes wrong there, as some tests want it to, is nobody else's.
    pub fn apart(&self) -> Self {
        Self { stream: self.kernels.device().new_stream().expect("a stream"), kernels: self.kernels.clone() }
    }

    /// The same kernels and stream with other plans.
    pub fn planned(&self, planning: Planning) -> Self {
        Self { stream: self.stream.clone(), kernels: Arc::new(self.kernels.planned(planning)) }
    }

    /// The same, planned as on a GPU or as on the device itself.
    pub fn as_on_a_gpu(&self, as_on_a_gpu: bool) -> Self {
        self.planned(Planning { as_on_a_gpu, ..Default::default() })
    }

    /// How many large tiles it takes before they are chosen: a GPU wants one for each compute unit.
    pub fn many_tiles(&self) -> usize {
        let device = self.kernels.device();
        if device.platform().is_gpu() {
            device.compute_units() as usize
        } else {
            1
        }
    }

    /// All of `data`, with a layout over it.
    pub fn tensor<T: Element>(&self, data: &[T], start: usize, dims: &[usize], strides: &[usize]) -> Tensor {
        let memory = self.stream.upload(&to_bytes(data)).expect("a copy to the device");
        Tensor { memory, dtype: T::DTYPE, start, dims: dims.to_vec(), strides: strides.to_vec() }
    }

    /// `data` as a contiguous tensor.
    pub fn contiguous<T: Element>(&self, data: &[T], dims: &[usize]) -> Tensor {
        self.tensor(data, 0, dims, &crate::layouts::contiguous_strides(dims))
    }

    /// What `kernel` writes into `count` elements of fresh memory.
    pub fn result<T: Element>(&self, count: usize, kernel: impl FnOnce(&mut Output<'_>) -> Result<()>) -> Vec<T> {
        self.result_at(0, count, kernel)
    }

    /// The same, `start` elements into the memory, so that its alignment can be spoiled. What lies before must not change.
    pub fn result_at<T: Element>(
        &self,
        start: usize,
        count: usize,
        kernel: impl FnOnce(&mut Output<'_>) -> Result<()>,
    ) -> Vec<T> {
        let before = vec![0xa5u8; (start + count) * T::DTYPE.size()];
        let mut memory = self.stream.upload(&before).expect("a copy to the device");
        let mut out = Output::new(&mut memory, T::DTYPE, start, count).expect("the result fits");
        kernel(&mut out).expect("the kernel is launched");
        let bytes = memory.to_vec().expect("a copy back");
        assert!(bytes[..start * T::DTYPE.size()].iter().all(|&byte| byte == 0xa5), "written before the result");
        from_bytes(&bytes[start * T::DTYPE.size()..])
    }
}

fn to_bytes<T: Element>(data: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len() * T::DTYPE.size());
    data.iter().for_each(|element| element.write(&mut bytes));
    bytes
}

fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::DTYPE.size()).map(T::read).collect()
}

/// Fails unless every element of `got` is that of `want`, bit for bit; any NaN equals any other.
pub fn assert_same<T: Element>(got: &[T], want: &[T], what: impl Fn() -> String) {
    assert_eq!(got.len(), want.len(), "{}", what());
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let same = got.bits() == want.bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{}: element {i} is {got:?}, but should be {want:?}", what());
    }
}

/// Fails unless every element is within the dtype's tolerance of what it should be.
pub fn assert_close<T: Element>(got: &[T], want: &[T], what: impl Fn() -> String) {
    assert_eq!(got.len(), want.len(), "{}", what());
    let (_, relative, absolute) =
        *TOLERANCES.iter().find(|(dtype, ..)| *dtype == T::DTYPE).expect("every dtype has a row");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let (g, w) = (got.to_f64(), want.to_f64());
        let close = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= absolute + relative * w.abs();
        assert!(close, "{}: element {i} is {got:?}, but should be {want:?}", what());
    }
}
