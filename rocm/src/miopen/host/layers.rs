//! Pooling, activations and softmax. Sums are kept in f64; speed is the memory's.

use super::*;

/// What a pooling descriptor says.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    mode: miopenPoolingMode_t,
    size: [usize; 2],
    padding: [usize; 2],
    stride: [usize; 2],
}

impl Default for Pool {
    fn default() -> Self {
        Self { mode: miopenPoolingMode_t::miopenPoolingMax, size: [1; 2], padding: [0; 2], stride: [1; 2] }
    }
}

pub unsafe extern "C" fn set_pooling(
    descriptor: miopenPoolingDescriptor_t,
    mode: miopenPoolingMode_t,
    dimensions: c_int,
    window: *const c_int,
    padding: *const c_int,
    strides: *const c_int,
) -> miopenStatus_t {
    let act = || {
        require(dimensions == 2)?;
        // SAFETY: each list has `dimensions` numbers.
        let (size, padding, stride) = unsafe { (numbers(window)?, numbers(padding)?, numbers::<2>(strides)?) };
        require(!stride.contains(&0) && (0..2).all(|axis: usize| padding[axis] < size[axis]))?;
        let pool = Pool { mode, size, padding, stride };
        pooling::OBJECTS.with(descriptor.0, |object| *object = pool).ok_or(BAD_PARAMETER)
    };
    answer(act())
}

pub unsafe extern "C" fn set_pooling_index(
    descriptor: miopenPoolingDescriptor_t,
    _index: miopenIndexType_t,
) -> miopenStatus_t {
    // The place of a maximum is found again from the image, so nothing is kept.
    answer(pooling::get(descriptor).map(drop))
}

pub unsafe extern "C" fn pooling_workspace(
    descriptor: miopenPoolingDescriptor_t,
    _y: miopenTensorDescriptor_t,
    bytes: *mut usize,
) -> miopenStatus_t {
    let act = || {
        require(!bytes.is_null())?;
        // SAFETY: null was refused.
        unsafe { *bytes = 0 };
        pooling::get(descriptor).map(drop)
    };
    answer(act())
}

impl Pool {
    /// Calls `visit` for each window with the result's place, the places of its elements in the image, and what a mean divides by.
    fn windows(&self, x: [usize; 4], y: [usize; 4], mut visit: impl FnMut(usize, &[usize], f64)) {
        let mut places = Vec::with_capacity(self.size[0] * self.size[1]);
        let range = |axis: usize, at: usize, limit: usize| {
            let start = at * self.stride[axis];
            start.saturating_sub(self.padding[axis])
                ..(start + self.size[axis]).saturating_sub(self.padding[axis]).min(limit)
        };
        for at in 0..y.iter().product() {
            let (plane, oy, ox) = (at / (y[2] * y[3]), at / y[3] % y[2], at % y[3]);
            places.clear();
            for row in range(0, oy, x[2]) {
                places.extend(range(1, ox, x[3]).map(|column| (plane * x[2] + row) * x[3] + column));
            }
            let inclusive = self.mode == miopenPoolingMode_t::miopenPoolingAverageInclusive;
            let count = if inclusive { self.size[0] * self.size[1] } else { places.len() };
            visit(at, &places, count as f64);
        }
    }

    fn is_max(&self) -> bool {
        self.mode == miopenPoolingMode_t::miopenPoolingMax
    }

    fn fits(&self, x: [usize; 4], y: [usize; 4]) -> Outcome {
        let fits = |axis: usize| {
            let room = (x[2 + axis] + 2 * self.padding[axis]).checked_sub(self.size[axis]);
            room.is_some_and(|room| room / self.stride[axis] + 1 >= y[2 + axis])
        };
        require(x[..2] == y[..2] && fits(0) && fits(1))
    }
}

/// The place of the first largest element.
fn largest(x: &[f32], places: &[usize]) -> Option<usize> {
    places.iter().copied().reduce(|best, at| if x[at] > x[best] { at } else { best })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn pooling_forward(
    handle: miopenHandle_t,
    descriptor: miopenPoolingDescriptor_t,
    alpha: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *mut c_void,
    _for_backward: bool,
    _workspace: *mut c_void,
    _bytes: usize,
) -> miopenStatus_t {
    let act = || {
        let (pool, from, to) = (pooling::get(descriptor)?, Placed::new(x_is, x)?, Placed::new(y_is, y)?);
        pool.fits(from.sizes(), to.sizes())?;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let (x, mut y) = (from.read(), vec![0.0; to.count()]);
            pool.windows(from.sizes(), to.sizes(), |at, places, count| {
                y[at] = match pool.is_max() {
                    true => largest(&x, places).map_or(f32::NEG_INFINITY, |at| x[at]),
                    false => (places.iter().map(|&at| f64::from(x[at])).sum::<f64>() / count) as f32,
                };
            });
            to.write(y, blend);
        })
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn pooling_backward(
    handle: miopenHandle_t,
    descriptor: miopenPoolingDescriptor_t,
    alpha: *const c_void,
    _y_is: miopenTensorDescriptor_t,
    _y: *const c_void,
    dy_is: miopenTensorDescriptor_t,
    dy: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    dx_is: miopenTensorDescriptor_t,
    dx: *mut c_void,
    _workspace: *mut c_void,
) -> miopenStatus_t {
    let act = || {
        let (pool, from, image) = (pooling::get(descriptor)?, Placed::new(dy_is, dy)?, Placed::new(x_is, x)?);
        let to = Placed::new(dx_is, dx)?;
        pool.fits(to.sizes(), from.sizes())?;
        require(image.sizes() == to.sizes())?;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let (x, dy, mut dx) = (image.read(), from.read(), vec![0.0f32; to.count()]);
            pool.windows(to.sizes(), from.sizes(), |at, places, count| match pool.is_max() {
                true => largest(&x, places).into_iter().for_each(|place| dx[place] += dy[at]),
                false => places.iter().for_each(|&place| dx[place] += dy[at] / count as f32),
            });
            to.write(dx, blend);
        })
    };
    answer(act())
}

/// What an activation's descriptor says.
#[derive(Clone, Copy, Debug)]
pub struct Activated {
    mode: miopenActivationMode_t,
    parameters: [f64; 3],
}

impl Default for Activated {
    fn default() -> Self {
        Self { mode: miopenActivationMode_t::miopenActivationPASTHRU, parameters: [0.0; 3] }
    }
}

pub unsafe extern "C" fn set_activation(
    descriptor: miopenActivationDescriptor_t,
    mode: miopenActivationMode_t,
    alpha: f64,
    beta: f64,
    gamma: f64,
) -> miopenStatus_t {
    if mode.0 > miopenActivationMode_t::miopenActivationELU.0 {
        return NOT_IMPLEMENTED;
    }
    let set = |object: &mut Activated| *object = Activated { mode, parameters: [alpha, beta, gamma] };
    answer(activation::OBJECTS.with(descriptor.0, set).ok_or(BAD_PARAMETER))
}

impl Activated {
    /// The value and the slope at `x`.
    fn at(&self, x: f64) -> (f64, f64) {
        use miopenActivationMode_t as Mode;
        let [alpha, beta, gamma] = self.parameters;
        let step = |slope: f64| if x > 0.0 { 1.0 } else { slope };
        match self.mode {
            Mode::miopenActivationLOGISTIC => {
                let y = 1.0 / (1.0 + (-x).exp());
                (y, y * (1.0 - y))
            }
            Mode::miopenActivationTANH => {
                let t = (alpha * x).tanh();
                (beta * t, alpha * beta * (1.0 - t * t))
            }
            Mode::miopenActivationRELU => (x.max(0.0), step(0.0)),
            // In this form nothing overflows.
            Mode::miopenActivationSOFTRELU => (x.max(0.0) + (-x.abs()).exp().ln_1p(), 1.0 / (1.0 + (-x).exp())),
            Mode::miopenActivationABS => (x.abs(), step(-1.0)),
            Mode::miopenActivationPOWER => {
                let base = alpha + beta * x;
                (base.powf(gamma), gamma * beta * base.powf(gamma - 1.0))
            }
            Mode::miopenActivationCLIPPEDRELU => {
                (x.clamp(0.0, alpha.max(0.0)), if x > 0.0 && x <= alpha { 1.0 } else { 0.0 })
            }
            Mode::miopenActivationLEAKYRELU => (if x > 0.0 { x } else { alpha * x }, step(alpha)),
            Mode::miopenActivationELU => (if x > 0.0 { x } else { alpha * x.exp_m1() }, step(alpha * x.exp())),
            _ => (x, 1.0),
        }
    }
}

pub unsafe extern "C" fn activation_forward(
    handle: miopenHandle_t,
    descriptor: miopenActivationDescriptor_t,
    alpha: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *mut c_void,
) -> miopenStatus_t {
    let act = || {
        let (function, from, to) = (activation::get(descriptor)?, Placed::new(x_is, x)?, Placed::new(y_is, y)?);
        require(from.sizes() == to.sizes())?;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            to.write(from.read().into_iter().map(|x| function.at(x.into()).0 as f32).collect(), blend);
        })
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn activation_backward(
    handle: miopenHandle_t,
    descriptor: miopenActivationDescriptor_t,
    alpha: *const c_void,
    _y_is: miopenTensorDescriptor_t,
    _y: *const c_void,
    dy_is: miopenTensorDescriptor_t,
    dy: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    dx_is: miopenTensorDescriptor_t,
    dx: *mut c_void,
) -> miopenStatus_t {
    let act = || {
        let (function, at, slope) = (activation::get(descriptor)?, Placed::new(x_is, x)?, Placed::new(dy_is, dy)?);
        let to = Placed::new(dx_is, dx)?;
        require(at.sizes() == to.sizes() && slope.sizes() == to.sizes())?;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let pairs = at.read().into_iter().zip(slope.read());
            to.write(pairs.map(|(x, dy)| (function.at(x.into()).1 * f64::from(dy)) as f32).collect(), blend);
        })
    };
    answer(act())
}

/// The places that a softmax sums over: the channels of each pixel, or all of each image.
fn sets([n, c, h, w]: [usize; 4], mode: miopenSoftmaxMode_t) -> Vec<Vec<usize>> {
    let pixels = h * w;
    match mode {
        miopenSoftmaxMode_t::MIOPEN_SOFTMAX_MODE_INSTANCE => {
            (0..n).map(|image| (image * c * pixels..(image + 1) * c * pixels).collect()).collect()
        }
        _ => (0..n * pixels)
            .map(|at| (0..c).map(|channel| (at / pixels * c + channel) * pixels + at % pixels).collect())
            .collect(),
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn softmax_forward(
    handle: miopenHandle_t,
    alpha: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    beta: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *mut c_void,
    algorithm: miopenSoftmaxAlgorithm_t,
    mode: miopenSoftmaxMode_t,
) -> miopenStatus_t {
    let act = || {
        let (from, to) = (Placed::new(x_is, x)?, Placed::new(y_is, y)?);
        require(from.sizes() == to.sizes())?;
        let log = algorithm == miopenSoftmaxAlgorithm_t::MIOPEN_SOFTMAX_LOG;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let mut values = from.read();
            for places in sets(from.sizes(), mode) {
                let top = places.iter().map(|&at| values[at]).fold(f32::NEG_INFINITY, f32::max);
                let exponent = |value: f32| f64::from(value) - f64::from(top);
                let sum: f64 = places.iter().map(|&at| exponent(values[at]).exp()).sum();
                for at in places {
                    let exponent = exponent(values[at]);
                    values[at] = if log { exponent - sum.ln() } else { exponent.exp() / sum } as f32;
                }
            }
            to.write(values, blend);
        })
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn softmax_backward(
    handle: miopenHandle_t,
    alpha: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *const c_void,
    dy_is: miopenTensorDescriptor_t,
    dy: *const c_void,
    beta: *const c_void,
    dx_is: miopenTensorDescriptor_t,
    dx: *mut c_void,
    algorithm: miopenSoftmaxAlgorithm_t,
    mode: miopenSoftmaxMode_t,
) -> miopenStatus_t {
    let act = || {
        let (at, slope, to) = (Placed::new(y_is, y)?, Placed::new(dy_is, dy)?, Placed::new(dx_is, dx)?);
        require(at.sizes() == to.sizes() && slope.sizes() == to.sizes())?;
        let log = algorithm == miopenSoftmaxAlgorithm_t::MIOPEN_SOFTMAX_LOG;
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let (y, dy, mut dx) = (at.read(), slope.read(), vec![0.0; to.count()]);
            for places in sets(to.sizes(), mode) {
                let term = |at: usize| f64::from(dy[at]) * if log { 1.0 } else { f64::from(y[at]) };
                let sum: f64 = places.iter().map(|&at| term(at)).sum();
                for at in places {
                    let (y, dy) = (f64::from(y[at]), f64::from(dy[at]));
                    dx[at] = if log { dy - y.exp() * sum } else { y * (dy - sum) } as f32;
                }
            }
            to.write(dx, blend);
        })
    };
    answer(act())
}
