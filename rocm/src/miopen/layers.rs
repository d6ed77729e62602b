//! Pooling, activations and softmax, forwards and backwards.

use super::*;
use hip::Buffer;

/// What a pooling window makes of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// The largest element.
    Max,
    /// The mean of the elements inside the image.
    Average,
    /// The mean of all elements, with zeros outside the image.
    AverageWithPadding,
}

/// A pooling window and how it moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pooling {
    /// What it makes of its elements.
    pub window: Window,
    /// Height and width.
    pub size: [usize; 2],
    /// Zeros around the image, above and below, left and right; less than the window's size.
    pub padding: [usize; 2],
    /// Steps, down and to the right.
    pub stride: [usize; 2],
}

impl Pooling {
    /// The sizes of the result of an image.
    pub fn result_sizes(&self, x: &Sizes) -> Result<Sizes> {
        let mut sizes = *x;
        for axis in 0..2 {
            let (size, padding, step) = (self.size[axis], self.padding[axis], self.stride[axis]);
            match (x[2 + axis] + 2 * padding).checked_sub(size) {
                Some(room) if step > 0 && padding < size => sizes[2 + axis] = room / step + 1,
                _ => {
                    return Err(Error::refused(format!(
                        "{self:?} does not fit an image {x:?}: the window lies in it, the stride is not zero, the padding is \
                         smaller than the window"
                    )))
                }
            }
        }
        Ok(sizes)
    }
}

/// An activation, element by element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Activation {
    /// `1 / (1 + exp(-x))`.
    Logistic,
    /// `beta * tanh(alpha * x)`.
    Tanh {
        /// Factor inside.
        alpha: f64,
        /// Factor outside.
        beta: f64,
    },
    /// `max(0, x)`.
    Relu,
    /// `ln(1 + exp(x))`.
    SoftRelu,
    /// `|x|`.
    Abs,
    /// `(alpha + beta * x) ^ gamma`.
    Power {
        /// Summand.
        alpha: f64,
        /// Factor.
        beta: f64,
        /// Exponent.
        gamma: f64,
    },
    /// `min(limit, max(0, x))`.
    ClippedRelu(f64),
    /// `x`, or `slope * x` below zero.
    LeakyRelu(f64),
    /// `x`, or `alpha * (exp(x) - 1)` below zero.
    Elu(f64),
}

impl Activation {
    /// MIOpen's name and its three parameters.
    fn parameters(self) -> (miopenActivationMode_t, [f64; 3]) {
        use miopenActivationMode_t as Mode;
        match self {
            Self::Logistic => (Mode::miopenActivationLOGISTIC, [0.0; 3]),
            Self::Tanh { alpha, beta } => (Mode::miopenActivationTANH, [alpha, beta, 0.0]),
            Self::Relu => (Mode::miopenActivationRELU, [0.0; 3]),
            Self::SoftRelu => (Mode::miopenActivationSOFTRELU, [0.0; 3]),
            Self::Abs => (Mode::miopenActivationABS, [0.0; 3]),
            Self::Power { alpha, beta, gamma } => (Mode::miopenActivationPOWER, [alpha, beta, gamma]),
            Self::ClippedRelu(limit) => (Mode::miopenActivationCLIPPEDRELU, [limit, 0.0, 0.0]),
            Self::LeakyRelu(slope) => (Mode::miopenActivationLEAKYRELU, [slope, 0.0, 0.0]),
            Self::Elu(alpha) => (Mode::miopenActivationELU, [alpha, 0.0, 0.0]),
        }
    }
}

/// Forms of softmax over the channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Softmax {
    /// Exponentials over their sum.
    Plain,
    /// The logarithm of that.
    Log,
}

impl Softmax {
    fn algorithm(self) -> miopenSoftmaxAlgorithm_t {
        match self {
            Self::Plain => miopenSoftmaxAlgorithm_t::MIOPEN_SOFTMAX_ACCURATE,
            Self::Log => miopenSoftmaxAlgorithm_t::MIOPEN_SOFTMAX_LOG,
        }
    }
}

const CHANNELS: miopenSoftmaxMode_t = miopenSoftmaxMode_t::MIOPEN_SOFTMAX_MODE_CHANNEL;

impl Miopen {
    fn describe_pooling(&self, pooling: &Pooling) -> Result<Descriptor<miopenPoolingDescriptor_t>> {
        let table = self.table;
        let (create, destroy) = (table.miopenCreatePoolingDescriptor, table.miopenDestroyPoolingDescriptor);
        let descriptor = Descriptor::new(miopenPoolingDescriptor_t::NULL, create, destroy)?;
        let mode = match pooling.window {
            Window::Max => miopenPoolingMode_t::miopenPoolingMax,
            Window::Average => miopenPoolingMode_t::miopenPoolingAverage,
            Window::AverageWithPadding => miopenPoolingMode_t::miopenPoolingAverageInclusive,
        };
        let (size, padding, stride) = (ints(&pooling.size), ints(&pooling.padding), ints(&pooling.stride));
        // A byte counts the places of a window of up to 256 elements.
        let small = pooling.size[0].saturating_mul(pooling.size[1]) <= 256;
        let index = if small { miopenIndexType_t::miopenIndexUint8 } else { miopenIndexType_t::miopenIndexUint32 };
        // SAFETY: the descriptor is alive, and each list has two numbers.
        unsafe {
            check(
                "miopenSetNdPoolingDescriptor",
                (table.miopenSetNdPoolingDescriptor)(
                    descriptor.handle,
                    mode,
                    2,
                    size.as_ptr(),
                    padding.as_ptr(),
                    stride.as_ptr(),
                ),
            )?;
            check("miopenSetPoolingIndexType", (table.miopenSetPoolingIndexType)(descriptor.handle, index))?;
        }
        Ok(descriptor)
    }

    /// Pools an image. The result is what [`pooling_backward`](Self::pooling_backward) needs.
    pub fn pooling_forward<T: Element>(
        &self,
        pooling: &Pooling,
        x: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
    ) -> Result<Buffer<u8>> {
        same_sizes("pooling", &pooling.result_sizes(&x.sizes)?, &y.sizes)?;
        let descriptor = self.describe_pooling(pooling)?;
        let (x, y) = (self.input(x)?, self.output(y)?);
        let mut bytes = 0;
        // SAFETY: the descriptors are alive.
        self.call("miopenPoolingGetWorkSpaceSizeV2", |table, _| unsafe {
            (table.miopenPoolingGetWorkSpaceSizeV2)(descriptor.handle, y.is.handle, &mut bytes)
        })?;
        let places = self.workspace(bytes)?;
        // SAFETY: tensors and workspace belong to the stream, and sizes were checked to go together.
        self.call("miopenPoolingForward", |table, handle| unsafe {
            (table.miopenPoolingForward)(
                handle,
                descriptor.handle,
                scalar(&ONE),
                x.is.handle,
                x.at,
                scalar(&ZERO),
                y.is.handle,
                y.at,
                true,
                places.ptr().as_raw(),
                places.len(),
            )
        })?;
        Ok(places)
    }

    /// The gradient of the image, from image, result and the result's gradient; `places` came from the forward pass.
    pub fn pooling_backward<T: Element>(
        &self,
        pooling: &Pooling,
        (x, y, places): (&Tensor<'_, T>, &Tensor<'_, T>, &Buffer<u8>),
        dy: &Tensor<'_, T>,
        dx: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("pooling", &pooling.result_sizes(&x.sizes)?, &y.sizes)?;
        same_sizes("pooling", &y.sizes, &dy.sizes)?;
        same_sizes("pooling", &x.sizes, &dx.sizes)?;
        self.stream.uses(places)?;
        let descriptor = self.describe_pooling(pooling)?;
        let (x, y, dy, dx) = (self.input(x)?, self.input(y)?, self.input(dy)?, self.output(dx)?);
        // SAFETY: tensors and workspace belong to the stream, and sizes were checked to go together.
        self.call("miopenPoolingBackward", |table, handle| unsafe {
            (table.miopenPoolingBackward)(
                handle,
                descriptor.handle,
                scalar(&ONE),
                y.is.handle,
                y.at,
                dy.is.handle,
                dy.at,
                x.is.handle,
                x.at,
                scalar(&ZERO),
                dx.is.handle,
                dx.at,
                places.ptr().as_raw(),
            )
        })
    }

    fn describe_activation(&self, activation: Activation) -> Result<Descriptor<miopenActivationDescriptor_t>> {
        let table = self.table;
        let (create, destroy) = (table.miopenCreateActivationDescriptor, table.miopenDestroyActivationDescriptor);
        let descriptor = Descriptor::new(miopenActivationDescriptor_t::NULL, create, destroy)?;
        let (mode, [alpha, beta, gamma]) = activation.parameters();
        // SAFETY: the descriptor is alive.
        check("miopenSetActivationDescriptor", unsafe {
            (table.miopenSetActivationDescriptor)(descriptor.handle, mode, alpha, beta, gamma)
        })?;
        Ok(descriptor)
    }

    /// `y = activation(x)`.
    pub fn activation_forward<T: Element>(
        &self,
        activation: Activation,
        x: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("an activation", &x.sizes, &y.sizes)?;
        let descriptor = self.describe_activation(activation)?;
        let (x, y) = (self.input(x)?, self.output(y)?);
        // SAFETY: the tensors belong to the stream and have the same sizes.
        self.call("miopenActivationForward", |table, handle| unsafe {
            let (one, zero) = (scalar(&ONE), scalar(&ZERO));
            (table.miopenActivationForward)(handle, descriptor.handle, one, x.is.handle, x.at, zero, y.is.handle, y.at)
        })
    }

    /// The gradient of an activation's argument, from argument, result and the result's gradient.
    pub fn activation_backward<T: Element>(
        &self,
        activation: Activation,
        (x, y): (&Tensor<'_, T>, &Tensor<'_, T>),
        dy: &Tensor<'_, T>,
        dx: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        for sizes in [&y.sizes, &dy.sizes, &dx.sizes] {
            same_sizes("an activation", &x.sizes, sizes)?;
        }
        let descriptor = self.describe_activation(activation)?;
        let (x, y, dy, dx) = (self.input(x)?, self.input(y)?, self.input(dy)?, self.output(dx)?);
        // SAFETY: the tensors belong to the stream and have the same sizes.
        self.call("miopenActivationBackward", |table, handle| unsafe {
            (table.miopenActivationBackward)(
                handle,
                descriptor.handle,
                scalar(&ONE),
                y.is.handle,
                y.at,
                dy.is.handle,
                dy.at,
                x.is.handle,
                x.at,
                scalar(&ZERO),
                dx.is.handle,
                dx.at,
            )
        })
    }

    /// Softmax over the channels of each pixel.
    pub fn softmax_forward<T: Element>(
        &self,
        form: Softmax,
        x: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("softmax", &x.sizes, &y.sizes)?;
        let (x, y, algorithm) = (self.input(x)?, self.output(y)?, form.algorithm());
        // SAFETY: the tensors belong to the stream and have the same sizes.
        self.call("miopenSoftmaxForward_V2", |table, handle| unsafe {
            let (one, zero) = (scalar(&ONE), scalar(&ZERO));
            (table.miopenSoftmaxForward_V2)(
                handle,
                one,
                x.is.handle,
                x.at,
                zero,
                y.is.handle,
                y.at,
                algorithm,
                CHANNELS,
            )
        })
    }

    /// The gradient of a softmax's argument, from its result and the result's gradient.
    pub fn softmax_backward<T: Element>(
        &self,
        form: Softmax,
        y: &Tensor<'_, T>,
        dy: &Tensor<'_, T>,
        dx: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("softmax", &y.sizes, &dy.sizes)?;
        same_sizes("softmax", &y.sizes, &dx.sizes)?;
        let (y, dy, dx, algorithm) = (self.input(y)?, self.input(dy)?, self.output(dx)?, form.algorithm());
        // SAFETY: the tensors belong to the stream and have the same sizes.
        self.call("miopenSoftmaxBackward_V2", |table, handle| unsafe {
            (table.miopenSoftmaxBackward_V2)(
                handle,
                scalar(&ONE),
                y.is.handle,
                y.at,
                dy.is.handle,
                dy.at,
                scalar(&ZERO),
                dx.is.handle,
                dx.at,
                algorithm,
                CHANNELS,
            )
        })
    }
}
