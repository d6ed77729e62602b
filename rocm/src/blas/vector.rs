//! Operations on vectors (BLAS level 1). Each is queued on the stream and returns at once; results that are one number go to device
//! memory too, so that nothing waits and everything can be captured.

use super::abi::{rocblas_int, rocblas_pointer_mode, Real};
use super::Blas;
use hip::{Buffer, DeviceCopy, Error, Result, Stream, View, ViewMut};

/// Every `increment`-th element of some memory, to read.
#[derive(Clone, Copy)]
pub struct Vector<'a, T> {
    view: View<'a, T>,
    increment: usize,
}

/// Every `increment`-th element of some memory, to write.
pub struct VectorMut<'a, T> {
    view: ViewMut<'a, T>,
    increment: usize,
}

/// What both kinds of vector have in common.
macro_rules! common {
    ($vector:ident, $view:ident, $buffer:ty) => {
        impl<'a, T: DeviceCopy> $vector<'a, T> {
            /// Every `increment`-th element, beginning with the first.
            pub fn strided(view: impl Into<$view<'a, T>>, increment: usize) -> Result<Self> {
                if increment == 0 || i32::try_from(increment).is_err() {
                    return Err(Error::refused(format!(
                        "a vector's increment is from 1 to {}, not {increment}",
                        i32::MAX
                    )));
                }
                Ok(Self { view: view.into(), increment })
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                self.view.len().div_ceil(self.increment)
            }

            /// True when there are none.
            pub fn is_empty(&self) -> bool {
                self.view.is_empty()
            }
        }

        impl<'a, T: DeviceCopy> From<$buffer> for $vector<'a, T> {
            fn from(buffer: $buffer) -> Self {
                Self { view: buffer.into(), increment: 1 }
            }
        }

        impl<'a, T: DeviceCopy> From<$view<'a, T>> for $vector<'a, T> {
            fn from(view: $view<'a, T>) -> Self {
                Self { view, increment: 1 }
            }
        }
    };
}
common!(Vector, View, &'a Buffer<T>);
common!(VectorMut, ViewMut, &'a mut Buffer<T>);

impl<T: DeviceCopy> Vector<'_, T> {
    /// Address and increment as BLAS takes them, for work on `stream`.
    pub(super) fn argument(&self, stream: &Stream) -> Result<(*const T, rocblas_int)> {
        stream.uses(self.view)?;
        Ok((self.view.ptr().as_raw().cast_const().cast(), self.increment as rocblas_int))
    }
}

impl<T: DeviceCopy> VectorMut<'_, T> {
    pub(super) fn argument(&self, stream: &Stream) -> Result<(*mut T, rocblas_int)> {
        stream.uses(self.view.as_view())?;
        Ok((self.view.ptr().as_raw().cast(), self.increment as rocblas_int))
    }
}

/// The length as BLAS counts, which all vectors of an operation must have.
fn common_length(op: &str, first: usize, second: usize) -> Result<rocblas_int> {
    if first != second {
        return Err(Error::refused(format!(
            "{op} takes two vectors of one length, not of {first} and {second} elements"
        )));
    }
    length(op, first)
}

fn length(op: &str, elements: usize) -> Result<rocblas_int> {
    rocblas_int::try_from(elements).map_err(|_| {
        Error::refused(format!("{op} takes at most {} elements, not {elements}; cut the vector", i32::MAX))
    })
}

const HOST: rocblas_pointer_mode = rocblas_pointer_mode::rocblas_pointer_mode_host;
const DEVICE: rocblas_pointer_mode = rocblas_pointer_mode::rocblas_pointer_mode_device;

/// Sums and norms: one vector in, one number out.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident -> $result:ty;)*) => {
        impl Blas {$(
            $(#[$doc])*
            pub fn $name<'a, 'b, T: Real>(
                &self,
                x: impl Into<Vector<'a, T>>,
                result: impl Into<ViewMut<'b, $result>>,
            ) -> Result<()> {
                let (x, result) = (x.into(), VectorMut::from(result.into()));
                let n = length(stringify!($name), x.len())?;
                let (x, incx) = x.argument(self.stream())?;
                let result = self.one(&result, stringify!($name))?;
                // SAFETY: the vectors were checked to lie in memory of the stream.
                self.call(stringify!($name), DEVICE, |table, handle| unsafe { (T::routines(table).$name)(handle, n, x, incx, result) })
            }
        )*}
    };
}

reductions! {
    /// The Euclidean norm, into the first element of `result`.
    nrm2 -> T;
    /// The sum of absolute values, into the first element of `result`.
    asum -> T;
    /// The index of the largest absolute value, counted from one; zero for an empty vector.
    amax -> i32;
    /// The index of the smallest absolute value, counted from one; zero for an empty vector.
    amin -> i32;
}

impl Blas {
    /// `y += alpha * x`.
    ///
    /// ```
    /// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    /// let blas = rocm::blas::Blas::new(&stream)?.expect("the embedded device has one built in");
    /// let (x, mut y) = (stream.upload(&[1f32, 2.0, 3.0])?, stream.upload(&[10f32, 20.0, 30.0])?);
    /// blas.axpy(2.0, &x, &mut y)?;
    /// assert_eq!(y.to_vec()?, [12.0, 24.0, 36.0]);
    /// # Ok::<(), hip::Error>(())
    /// ```
    pub fn axpy<'a, 'b, T: Real>(
        &self,
        alpha: T,
        x: impl Into<Vector<'a, T>>,
        y: impl Into<VectorMut<'b, T>>,
    ) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        let n = common_length("axpy", x.len(), y.len())?;
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        // SAFETY: the vectors were checked to lie in memory of the stream.
        self.call("axpy", HOST, |table, handle| unsafe {
            (T::routines(table).axpy)(handle, n, &alpha, x, incx, y, incy)
        })
    }

    /// The sum of products, into the first element of `result`.
    pub fn dot<'a, 'b, 'c, T: Real>(
        &self,
        x: impl Into<Vector<'a, T>>,
        y: impl Into<Vector<'b, T>>,
        result: impl Into<ViewMut<'c, T>>,
    ) -> Result<()> {
        let (x, y, result) = (x.into(), y.into(), VectorMut::from(result.into()));
        let n = common_length("dot", x.len(), y.len())?;
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        let result = self.one(&result, "dot")?;
        // SAFETY: the vectors were checked to lie in memory of the stream.
        self.call("dot", DEVICE, |table, handle| unsafe {
            (T::routines(table).dot)(handle, n, x, incx, y, incy, result)
        })
    }

    /// `x *= alpha`.
    pub fn scal<'a, T: Real>(&self, alpha: T, x: impl Into<VectorMut<'a, T>>) -> Result<()> {
        let x = x.into();
        let n = length("scal", x.len())?;
        let (x, incx) = x.argument(self.stream())?;
        // SAFETY: the vector was checked to lie in memory of the stream.
        self.call("scal", HOST, |table, handle| unsafe { (T::routines(table).scal)(handle, n, &alpha, x, incx) })
    }

    /// `y = x`.
    pub fn copy<'a, 'b, T: Real>(&self, x: impl Into<Vector<'a, T>>, y: impl Into<VectorMut<'b, T>>) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        let n = common_length("copy", x.len(), y.len())?;
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        // SAFETY: the vectors were checked to lie in memory of the stream.
        self.call("copy", HOST, |table, handle| unsafe { (T::routines(table).copy)(handle, n, x, incx, y, incy) })
    }

    /// Exchanges x and y.
    pub fn swap<'a, 'b, T: Real>(&self, x: impl Into<VectorMut<'a, T>>, y: impl Into<VectorMut<'b, T>>) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        let n = common_length("swap", x.len(), y.len())?;
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        // SAFETY: the vectors were checked to lie in memory of the stream.
        self.call("swap", HOST, |table, handle| unsafe { (T::routines(table).swap)(handle, n, x, incx, y, incy) })
    }

    /// Where one number goes.
    fn one<T: DeviceCopy>(&self, result: &VectorMut<'_, T>, op: &str) -> Result<*mut T> {
        if result.is_empty() {
            return Err(Error::refused(format!(
                "{op} needs room for one element, and the memory given to it has none"
            )));
        }
        result.argument(self.stream()).map(|(address, _)| address)
    }
}
