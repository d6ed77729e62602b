//! A step of a program as a graph: recorded once, launched again and again. A launch asks the host for one call, however many kernels the
//! step has, so it pays where the host is slower than the GPU: small models, and one token at a time.

use super::{RocmDevice, RocmError, WrapErr};
use crate::{Device, Result};
use hip::Graph;

/// What a closure did on a ROCm device, ready to be done again, and what it returned.
///
/// A launch does the same work on the same memory. New inputs are written into the tensors that the closure read
/// ([`Tensor::slice_set`](crate::Tensor::slice_set)), and each launch writes its results into the tensors that the closure returned: read
/// or copy them before the next launch. They hold nothing of meaning before the first one. The graph keeps all memory that it uses.
///
/// ```no_run
/// # use candle_core::{rocm_backend::RocmGraph, Device, Result, Tensor};
/// # fn main() -> Result<()> {
/// let device = Device::new_rocm(0)?;
/// let x = Tensor::zeros((1, 4), candle_core::DType::F32, &device)?;
/// let step = || x.sqr()?.sum_all();
/// step()?;
/// let graph = RocmGraph::capture(&device, step)?;
/// x.slice_set(&Tensor::new(&[[1f32, 2., 3., 4.]], &device)?, 0, 0)?;
/// assert_eq!(graph.launch()?.to_scalar::<f32>()?, 30.);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RocmGraph<T> {
    graph: Graph,
    device: RocmDevice,
    output: T,
}

impl<T> RocmGraph<T> {
    /// Records what `step` does on the device's stream. Nothing of it runs; call it once before, so that kernels are loaded, algorithms
    /// chosen and memory is there.
    ///
    /// Shapes, addresses and everything that comes from the host are recorded as they are now: numbers, random ones too, and which
    /// operations a condition chose. What cannot be recorded is an error: reading a tensor, waiting, memory of another stream, a graph
    /// within the graph. After an error, or a panic of `step`, the device goes on as if nothing had been recorded.
    ///
    /// Only this thread's work is recorded. Other threads that use the same stream meanwhile get an error; [`Device::new_rocm_with_stream`]
    /// gives them one of their own.
    pub fn capture(device: &Device, step: impl FnOnce() -> Result<T>) -> Result<Self> {
        let device = device.as_rocm_device()?.clone();
        let stream = device.raw_stream();
        if !stream.is_capturing() {
            // They cannot start in a capture, and without them other kernels would be recorded.
            device.libraries().start(stream);
        }
        let mut made = None;
        let graph = stream.capture(|_| {
            let outcome = step();
            let failed = outcome.is_err();
            made = Some(outcome);
            match failed {
                true => Err(hip::Error::refused("the step could not be recorded, so there is no graph of it")),
                false => Ok(()),
            }
        });
        match (graph, made) {
            (Ok(graph), Some(Ok(output))) => Ok(Self { graph, device, output }),
            (Err(_), Some(Err(why))) => Err(why),
            (Err(error), _) => Err(error).w(),
            (Ok(_), _) => Err(RocmError::Refused("a capture ended without its step".to_string()).into()),
        }
    }

    /// Does the step once more, after the work submitted to the device so far, and returns where its results will be. Errors that only a
    /// kernel sees, such as an id out of range, come out where something of the GPU is read next, on any of its streams.
    pub fn launch(&self) -> Result<&T> {
        self.graph.launch(self.device.raw_stream()).w()?;
        Ok(&self.output)
    }

    /// What the step returned; its tensors hold the results of the latest launch.
    pub fn output(&self) -> &T {
        &self.output
    }

    /// The recorded work: how many kernels and copies it has, and its launch on another stream.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
