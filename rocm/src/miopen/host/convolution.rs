//! Convolutions as matrix products: each image of a batch is unrolled into columns, one for each place of the window, and multiplied
//! with the weights by the crate `gemm`. The gradients are the products with one factor transposed.

use super::*;
use gemm::Parallelism;

/// What a convolution's descriptor says.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    padding: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Default for Geometry {
    fn default() -> Self {
        Self { padding: [0; 2], stride: [1; 2], dilation: [1; 2], groups: 1 }
    }
}

pub unsafe extern "C" fn init(
    descriptor: miopenConvolutionDescriptor_t,
    dimensions: c_int,
    padding: *const c_int,
    strides: *const c_int,
    dilations: *const c_int,
    mode: miopenConvolutionMode_t,
) -> miopenStatus_t {
    let act = || {
        require(dimensions == 2)?;
        (mode == miopenConvolutionMode_t::miopenConvolution).then_some(()).ok_or(NOT_IMPLEMENTED)?;
        // SAFETY: each list has `dimensions` numbers.
        let (padding, stride, dilation) = unsafe { (numbers(padding)?, numbers(strides)?, numbers(dilations)?) };
        require(!stride.contains(&0) && !dilation.contains(&0))?;
        let set = |geometry: &mut Geometry| *geometry = Geometry { padding, stride, dilation, groups: geometry.groups };
        convolution_descriptor::OBJECTS.with(descriptor.0, set).ok_or(BAD_PARAMETER)
    };
    answer(act())
}

pub unsafe extern "C" fn set_groups(descriptor: miopenConvolutionDescriptor_t, groups: c_int) -> miopenStatus_t {
    let act = || {
        require(groups > 0)?;
        let set = |geometry: &mut Geometry| geometry.groups = groups as usize;
        convolution_descriptor::OBJECTS.with(descriptor.0, set).ok_or(BAD_PARAMETER)
    };
    answer(act())
}

pub unsafe extern "C" fn workspace(
    _handle: miopenHandle_t,
    _first: miopenTensorDescriptor_t,
    _second: miopenTensorDescriptor_t,
    _convolution: miopenConvolutionDescriptor_t,
    _result: miopenTensorDescriptor_t,
    bytes: *mut usize,
) -> miopenStatus_t {
    if bytes.is_null() {
        return BAD_PARAMETER;
    }
    // The columns live in the process's own memory.
    // SAFETY: null was refused.
    unsafe { *bytes = 0 };
    SUCCESS
}

/// There is one algorithm, so nothing is timed.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn find(
    _handle: miopenHandle_t,
    _first_is: miopenTensorDescriptor_t,
    _first: *const c_void,
    _second_is: miopenTensorDescriptor_t,
    _second: *const c_void,
    _convolution: miopenConvolutionDescriptor_t,
    _result_is: miopenTensorDescriptor_t,
    _result: *mut c_void,
    requested: c_int,
    returned: *mut c_int,
    results: *mut miopenConvAlgoPerf_t,
    _workspace: *mut c_void,
    _bytes: usize,
    _exhaustive: bool,
) -> miopenStatus_t {
    if requested < 1 || returned.is_null() || results.is_null() {
        return BAD_PARAMETER;
    }
    let algorithm = miopenConvAlgorithm_t::miopenConvolutionAlgoGEMM;
    // SAFETY: null was refused, and there is room for one result at least.
    unsafe {
        *returned = 1;
        *results = miopenConvAlgoPerf_t { algorithm, time: 0.0, memory: 0 };
    }
    SUCCESS
}

/// A convolution with all its sizes: what a group of one image needs.
#[derive(Clone, Copy)]
struct Plan {
    geometry: Geometry,
    x: [usize; 4],
    w: [usize; 4],
    y: [usize; 4],
}

impl Plan {
    fn new(geometry: Geometry, x: &Placed, w: &Placed, y: &Placed) -> Outcome<Self> {
        let (x, w, y) = (x.sizes(), w.sizes(), y.sizes());
        let Geometry { padding, stride, dilation, groups } = geometry;
        let fits = |axis: usize| {
            let reach = dilation[axis] * (w[2 + axis].max(1) - 1) + 1;
            let room = (x[2 + axis] + 2 * padding[axis]).checked_sub(reach);
            room.is_some_and(|room| room / stride[axis] + 1 == y[2 + axis])
        };
        let channels = x[1] == w[1] * groups && w[0] % groups == 0 && w[0] == y[1] && x[0] == y[0];
        require(channels && fits(0) && fits(1))?;
        Ok(Self { geometry, x, w, y })
    }

    /// Rows of the columns' matrix: the elements of a window.
    fn window(&self) -> usize {
        self.w[1] * self.w[2] * self.w[3]
    }

    /// Columns of it: the places of the window.
    fn places(&self) -> usize {
        self.y[2] * self.y[3]
    }

    /// Outputs of a group.
    fn outputs(&self) -> usize {
        self.w[0] / self.geometry.groups
    }

    /// Calls `visit` with each pair of a place in the columns and a place in the group's part of the image.
    fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        let Geometry { padding, stride, dilation, .. } = self.geometry;
        let ([_, _, height, width], [_, channels, kh, kw], [_, _, oh, ow]) = (self.x, self.w, self.y);
        for row in 0..channels * kh * kw {
            let (channel, ky, kx) = (row / (kh * kw), row / kw % kh, row % kw);
            for oy in 0..oh {
                let Some(y) = (oy * stride[0] + ky * dilation[0]).checked_sub(padding[0]) else { continue };
                if y >= height {
                    continue;
                }
                for ox in 0..ow {
                    let Some(x) = (ox * stride[1] + kx * dilation[1]).checked_sub(padding[1]) else { continue };
                    if x < width {
                        visit((row * oh + oy) * ow + ox, (channel * height + y) * width + x);
                    }
                }
            }
        }
    }

    /// The columns of one group of one image.
    fn unroll(&self, image: &[f32]) -> Vec<f32> {
        let mut columns = vec![0.0; self.window() * self.places()];
        self.for_each(|column, pixel| columns[column] = image[pixel]);
        columns
    }

    /// Calls `act` with the ranges of image, weights and result for each group of each image.
    fn groups(&self, mut act: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>, std::ops::Range<usize>)) {
        let (image, weights) = (self.w[1] * self.x[2] * self.x[3], self.outputs() * self.window());
        let result = self.outputs() * self.places();
        for index in 0..self.x[0] * self.geometry.groups {
            let group = index % self.geometry.groups;
            let part = |size: usize, at: usize| at * size..(at + 1) * size;
            act(part(image, index), part(weights, group), part(result, index));
        }
    }

    fn forward(&self, x: &[f32], w: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; self.y.iter().product()];
        let (m, n, k) = (self.outputs(), self.places(), self.window());
        self.groups(|image, weights, result| {
            let columns = self.unroll(&x[image]);
            multiply([m, n, k], (&w[weights], [k, 1]), (&columns, [n, 1]), &mut y[result], false);
        });
        y
    }

    fn backward_data(&self, dy: &[f32], w: &[f32]) -> Vec<f32> {
        let mut dx = vec![0.0; self.x.iter().product()];
        let (m, n, k) = (self.window(), self.places(), self.outputs());
        let mut columns = vec![0.0; m * n];
        self.groups(|image, weights, result| {
            multiply([m, n, k], (&w[weights], [1, m]), (&dy[result], [n, 1]), &mut columns, false);
            let dx = &mut dx[image];
            self.for_each(|column, pixel| dx[pixel] += columns[column]);
        });
        dx
    }

    fn backward_weights(&self, dy: &[f32], x: &[f32]) -> Vec<f32> {
        let mut dw = vec![0.0; self.w.iter().product()];
        let (m, n, k) = (self.outputs(), self.window(), self.places());
        self.groups(|image, weights, result| {
            let columns = self.unroll(&x[image]);
            multiply([m, n, k], (&dy[result], [k, 1]), (&columns, [1, k]), &mut dw[weights], true);
        });
        dw
    }
}

/// A product of row-major results; each factor with its strides of rows and columns. `add` keeps what was in the result.
fn multiply([m, n, k]: [usize; 3], a: (&[f32], [usize; 2]), b: (&[f32], [usize; 2]), c: &mut [f32], add: bool) {
    assert!(a.0.len() >= m * k && b.0.len() >= k * n && c.len() >= m * n, "factors and result hold their sizes");
    let threads = if m * n * k < 64 * 64 * 64 { Parallelism::None } else { Parallelism::Rayon(0) };
    let strides = |s: [usize; 2]| (s[1] as isize, s[0] as isize);
    let ((a_column, a_row), (b_column, b_row)) = (strides(a.1), strides(b.1));
    // SAFETY: the strides are those of contiguous matrices of these sizes or their transposes, and the slices hold them.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.0.as_ptr(),
            a_column,
            a_row,
            b.0.as_ptr(),
            b_column,
            b_row,
            1.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}

/// The three directions: which of first, second and target are image, weights and result, and how the target is computed.
macro_rules! directions {
    ($($name:ident [$x:literal, $w:literal, $y:literal] $compute:ident;)*) => {$(
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name(
            handle: miopenHandle_t,
            alpha: *const c_void,
            first_is: miopenTensorDescriptor_t,
            first: *const c_void,
            second_is: miopenTensorDescriptor_t,
            second: *const c_void,
            convolution: miopenConvolutionDescriptor_t,
            _algorithm: miopenConvAlgorithm_t,
            beta: *const c_void,
            target_is: miopenTensorDescriptor_t,
            target: *mut c_void,
            _workspace: *mut c_void,
            _bytes: usize,
        ) -> miopenStatus_t {
            let act = || {
                let (first, second) = (Placed::new(first_is, first)?, Placed::new(second_is, second)?);
                let target = Placed::new(target_is, target)?;
                let all = [first, second, target];
                let plan = Plan::new(convolution_descriptor::get(convolution)?, &all[$x], &all[$w], &all[$y])?;
                // SAFETY: the caller passes two floats.
                let blend = unsafe { blend(alpha, beta) }?;
                queue(handle, &[&target], move || {
                    target.write(plan.$compute(&first.read(), &second.read()), blend);
                })
            };
            answer(act())
        }
    )*};
}

directions! {
    run_forward [0, 1, 2] forward;
    run_backward_data [2, 1, 0] backward_data;
    run_backward_weights [1, 2, 0] backward_weights;
}
