//! Convolutions: forward, and the gradients of image and weights. The three differ in names and in which tensor is the result, so they
//! are one path with three rows. MIOpen is asked once for each shape which algorithm is fastest; the choice is kept for the process
//! (on disk MIOpen keeps its own).

use super::*;
use hip::Buffer;
use std::collections::BTreeMap;

/// How a window moves over an image. The default is a stride of one without padding, dilation or groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Convolution {
    /// Zeros around the image, above and below, left and right.
    pub padding: [usize; 2],
    /// Steps of the window, down and to the right.
    pub stride: [usize; 2],
    /// Distance between the elements that a window takes.
    pub dilation: [usize; 2],
    /// Groups of channels that have nothing to do with each other.
    pub groups: usize,
}

impl Default for Convolution {
    fn default() -> Self {
        Self { padding: [0; 2], stride: [1; 2], dilation: [1; 2], groups: 1 }
    }
}

impl Convolution {
    /// The sizes of the result of an image and weights (outputs, inputs of a group, height, width).
    pub fn result_sizes(&self, x: &Sizes, w: &Sizes) -> Result<Sizes> {
        let refuse = |why: &str| Err(Error::refused(format!("{self:?} of an image {x:?} with weights {w:?}: {why}")));
        if self.groups == 0 || x[1] != w[1] * self.groups || !w[0].is_multiple_of(self.groups) {
            return refuse(
                "the image has as many channels as the weights times the groups, and each group as many outputs",
            );
        }
        let mut sizes = [x[0], w[0], 0, 0];
        for axis in 0..2 {
            let Self { padding, stride, dilation, .. } = *self;
            let reach = dilation[axis] * (w[2 + axis] - 1) + 1;
            let room = (x[2 + axis] + 2 * padding[axis]).checked_sub(reach);
            match (room, stride[axis], dilation[axis]) {
                (Some(room), step @ 1.., 1..) => sizes[2 + axis] = room / step + 1,
                _ => return refuse("the window does not fit, or a stride or dilation is zero"),
            }
        }
        Ok(sizes)
    }
}

/// Which of the three tensors is the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Direction {
    Forward,
    BackwardData,
    BackwardWeights,
}

type WorkspaceSize = unsafe extern "C" fn(
    miopenHandle_t,
    miopenTensorDescriptor_t,
    miopenTensorDescriptor_t,
    miopenConvolutionDescriptor_t,
    miopenTensorDescriptor_t,
    *mut usize,
) -> miopenStatus_t;
type Find = unsafe extern "C" fn(
    miopenHandle_t,
    miopenTensorDescriptor_t,
    *const c_void,
    miopenTensorDescriptor_t,
    *const c_void,
    miopenConvolutionDescriptor_t,
    miopenTensorDescriptor_t,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut miopenConvAlgoPerf_t,
    *mut c_void,
    usize,
    bool,
) -> miopenStatus_t;
type Run = unsafe extern "C" fn(
    miopenHandle_t,
    *const c_void,
    miopenTensorDescriptor_t,
    *const c_void,
    miopenTensorDescriptor_t,
    *const c_void,
    miopenConvolutionDescriptor_t,
    miopenConvAlgorithm_t,
    *const c_void,
    miopenTensorDescriptor_t,
    *mut c_void,
    *mut c_void,
    usize,
) -> miopenStatus_t;

impl Direction {
    /// This direction's row of the table.
    fn calls(self, table: &MiopenTable) -> (WorkspaceSize, Find, Run) {
        match self {
            Self::Forward => (
                table.miopenConvolutionForwardGetWorkSpaceSize,
                table.miopenFindConvolutionForwardAlgorithm,
                table.miopenConvolutionForward,
            ),
            Self::BackwardData => (
                table.miopenConvolutionBackwardDataGetWorkSpaceSize,
                table.miopenFindConvolutionBackwardDataAlgorithm,
                table.miopenConvolutionBackwardData,
            ),
            Self::BackwardWeights => (
                table.miopenConvolutionBackwardWeightsGetWorkSpaceSize,
                table.miopenFindConvolutionBackwardWeightsAlgorithm,
                table.miopenConvolutionBackwardWeights,
            ),
        }
    }
}

/// What a choice depends on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    arch: String,
    direction: Direction,
    of: u32,
    sizes: [Sizes; 3],
    convolution: Convolution,
}

/// An algorithm and the bytes of workspace that it needs.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Choice {
    algorithm: miopenConvAlgorithm_t,
    workspace: usize,
}

static CHOICES: Mutex<BTreeMap<Key, Choice>> = Mutex::new(BTreeMap::new());

impl Miopen {
    /// `y = x * w`: an image and weights make an image.
    pub fn convolution_forward<T: Element>(
        &self,
        convolution: &Convolution,
        x: &Tensor<'_, T>,
        w: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("a convolution's result", &convolution.result_sizes(&x.sizes, &w.sizes)?, &y.sizes)?;
        self.convolve(Direction::Forward, convolution, x, w, y)
    }

    /// The gradient of the image, from that of the result and the weights.
    pub fn convolution_backward_data<T: Element>(
        &self,
        convolution: &Convolution,
        dy: &Tensor<'_, T>,
        w: &Tensor<'_, T>,
        dx: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("a convolution's result", &convolution.result_sizes(&dx.sizes, &w.sizes)?, &dy.sizes)?;
        self.convolve(Direction::BackwardData, convolution, dy, w, dx)
    }

    /// The gradient of the weights, from that of the result and the image.
    pub fn convolution_backward_weights<T: Element>(
        &self,
        convolution: &Convolution,
        dy: &Tensor<'_, T>,
        x: &Tensor<'_, T>,
        dw: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("a convolution's result", &convolution.result_sizes(&x.sizes, &dw.sizes)?, &dy.sizes)?;
        self.convolve(Direction::BackwardWeights, convolution, dy, x, dw)
    }

    fn convolve<T: Element>(
        &self,
        direction: Direction,
        convolution: &Convolution,
        first: &Tensor<'_, T>,
        second: &Tensor<'_, T>,
        result: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        let key = Key {
            arch: self.stream.device().arch().to_owned(),
            direction,
            of: T::TYPE.0,
            sizes: [first.sizes, second.sizes, result.sizes],
            convolution: *convolution,
        };
        let descriptor = self.describe_convolution(convolution)?;
        let (a, b, c) = (self.input(first)?, self.input(second)?, self.output(result)?);
        let known = CHOICES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let choice = match known {
            Some(choice) => choice,
            None => {
                let choice = self.find(direction, descriptor.handle, &a, &b, &c)?;
                log::debug!("{key:?}: {choice:?}");
                CHOICES.lock().unwrap_or_else(PoisonError::into_inner).insert(key, choice);
                choice
            }
        };
        let workspace = self.workspace(choice.workspace)?;
        let (_, _, run) = direction.calls(self.table);
        // SAFETY: tensors and workspace belong to the stream, and sizes were checked to go together.
        self.call("convolution", |_, handle| unsafe {
            run(
                handle,
                scalar(&ONE),
                a.is.handle,
                a.at,
                b.is.handle,
                b.at,
                descriptor.handle,
                choice.algorithm,
                scalar(&ZERO),
                c.is.handle,
                c.at,
                workspace.ptr().as_raw(),
                workspace.len(),
            )
        })
        .map_err(|error| error.with_detail(format!("{direction:?} {convolution:?} by {choice:?}")))
    }

    /// Lets MIOpen time its algorithms, and takes the fastest.
    fn find(
        &self,
        direction: Direction,
        convolution: miopenConvolutionDescriptor_t,
        a: &Argument,
        b: &Argument,
        c: &Argument,
    ) -> Result<Choice> {
        if self.stream.is_capturing() {
            return Err(Error::refused(
                "a convolution of this shape was not run yet, and MIOpen's search for the fastest algorithm cannot be captured; \
                 run it once before the capture",
            ));
        }
        let (workspace_size, find, _) = direction.calls(self.table);
        // The forward direction takes weights and image in the other order here, and only here.
        let (one, two) = if direction == Direction::Forward { (b, a) } else { (a, b) };
        let mut bytes = 0;
        // SAFETY: the descriptors are alive.
        self.call("asking for a convolution's workspace", |_, handle| unsafe {
            workspace_size(handle, one.is.handle, two.is.handle, convolution, c.is.handle, &mut bytes)
        })?;
        let workspace = self.workspace(bytes)?;
        let none = miopenConvAlgoPerf_t { algorithm: miopenConvAlgorithm_t(u32::MAX), time: f32::INFINITY, memory: 0 };
        let (mut results, mut returned) = ([none; 8], 0);
        // SAFETY: tensors and workspace belong to the stream; there is room for eight results.
        self.call("searching for a convolution's algorithm", |_, handle| unsafe {
            find(
                handle,
                a.is.handle,
                a.at,
                b.is.handle,
                b.at,
                convolution,
                c.is.handle,
                c.at,
                results.len() as c_int,
                &mut returned,
                results.as_mut_ptr(),
                workspace.ptr().as_raw(),
                workspace.len(),
                false,
            )
        })?;
        let found = results.iter().take(returned.max(0) as usize).min_by(|a, b| a.time.total_cmp(&b.time));
        let found = found.ok_or_else(|| Error::refused("MIOpen has no algorithm for this convolution"))?;
        Ok(Choice { algorithm: found.algorithm, workspace: found.memory })
    }

    /// Memory that goes back to the stream's pool at once, where only later work of the stream finds it.
    pub(super) fn workspace(&self, bytes: usize) -> Result<Buffer<u8>> {
        let workspace = self.stream.alloc(bytes)?;
        self.stream.uses(&workspace)?;
        Ok(workspace)
    }

    fn describe_convolution(&self, convolution: &Convolution) -> Result<Descriptor<miopenConvolutionDescriptor_t>> {
        let table = self.table;
        let (create, destroy) = (table.miopenCreateConvolutionDescriptor, table.miopenDestroyConvolutionDescriptor);
        let descriptor = Descriptor::new(miopenConvolutionDescriptor_t::NULL, create, destroy)?;
        let Convolution { padding, stride, dilation, groups } = convolution;
        let (padding, stride, dilation) = (ints(padding), ints(stride), ints(dilation));
        let mode = miopenConvolutionMode_t::miopenConvolution;
        // SAFETY: the descriptor is alive, and each list has two numbers.
        unsafe {
            check(
                "miopenInitConvolutionNdDescriptor",
                (table.miopenInitConvolutionNdDescriptor)(
                    descriptor.handle,
                    2,
                    padding.as_ptr(),
                    stride.as_ptr(),
                    dilation.as_ptr(),
                    mode,
                ),
            )?;
            let [groups] = ints(&[*groups]);
            check("miopenSetConvolutionGroupCount", (table.miopenSetConvolutionGroupCount)(descriptor.handle, groups))?;
        }
        Ok(descriptor)
    }
}
