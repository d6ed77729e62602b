//! Matrices in device memory, and the safe operations on them: matrix with vector (BLAS level 2) and matrix with matrix (level 3).
//! Everything is described row by row with strides; `gemm.rs` translates into BLAS's columns.

use super::abi::{rocblas_int, rocblas_operation, rocblas_pointer_mode, Real};
use super::gemm::{Element, Gemm, Matrix, Operand};
use super::{Blas, Vector, VectorMut};
use crate::embedded;
use half::{bf16, f16};
use hip::{DeviceCopy, Error, PlatformKind, Result, Stream, View, ViewMut};

/// A batch of matrices in some memory, to read.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a, T> {
    view: View<'a, T>,
    shape: Shape,
}

/// A batch of matrices in some memory, to write.
#[derive(Debug)]
pub struct MatrixViewMut<'a, T> {
    view: ViewMut<'a, T>,
    shape: Shape,
}

/// Sizes, and strides in elements: of the batch, of rows, of columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    sizes: [usize; 3],
    strides: [usize; 3],
}

impl Shape {
    fn contiguous(batch: usize, rows: usize, columns: usize) -> Self {
        Self { sizes: [batch, rows, columns], strides: [rows.saturating_mul(columns), columns, 1] }
    }

    /// The elements that the memory must have.
    fn extent(&self) -> Option<usize> {
        if self.sizes.contains(&0) {
            return Some(0);
        }
        let mut steps = self.sizes.iter().zip(self.strides).map(|(size, stride)| (size - 1).checked_mul(stride));
        steps.try_fold(1usize, |sum, step| sum.checked_add(step?))
    }

    /// The matrix at an address, once it is known to lie in the memory there.
    fn placed(self, address: u64, elements: usize) -> Result<Matrix> {
        if self.extent().is_none_or(|extent| extent > elements) {
            return Err(Error::refused(format!(
                "a batch of matrices of sizes {:?} (batch, rows, columns) and strides {:?} does not fit into {elements} elements",
                self.sizes, self.strides
            )));
        }
        let [batch_stride, row_stride, column_stride] = self.strides;
        Ok(Matrix { address, row_stride, column_stride, batch_stride })
    }
}

/// What both kinds of matrix have in common.
macro_rules! common {
    ($matrix:ident, $view:ident) => {
        impl<'a, T: DeviceCopy> $matrix<'a, T> {
            /// A matrix whose rows follow each other without gaps.
            pub fn new(view: impl Into<$view<'a, T>>, rows: usize, columns: usize) -> Self {
                Self::batched(view, 1, rows, columns)
            }

            /// Matrices that follow each other without gaps.
            pub fn batched(view: impl Into<$view<'a, T>>, batch: usize, rows: usize, columns: usize) -> Self {
                Self { view: view.into(), shape: Shape::contiguous(batch, rows, columns) }
            }

            /// The same sizes with other distances, in elements, from one matrix, row and column to the next.
            pub fn with_strides(mut self, batch_stride: usize, row_stride: usize, column_stride: usize) -> Self {
                self.shape.strides = [batch_stride, row_stride, column_stride];
                self
            }

            /// Each matrix with rows and columns exchanged; nothing moves.
            pub fn transposed(mut self) -> Self {
                self.shape.sizes.swap(1, 2);
                self.shape.strides.swap(1, 2);
                self
            }
        }
    };
}
common!(MatrixView, View);
common!(MatrixViewMut, ViewMut);

impl<T: DeviceCopy> MatrixView<'_, T> {
    fn placed(&self, stream: &Stream) -> Result<Matrix> {
        stream.uses(self.view)?;
        self.shape.placed(self.view.ptr().address(), self.view.len())
    }
}

impl<T: DeviceCopy> MatrixViewMut<'_, T> {
    fn placed(&self, stream: &Stream) -> Result<Matrix> {
        stream.uses(self.view.as_view())?;
        self.shape.placed(self.view.ptr().address(), self.view.len())
    }
}

/// A matrix with `lower` diagonals below and `upper` above the main one, in BLAS's band storage: element (row, column) lies at
/// `upper + row - column` of the column's `leading` elements.
#[derive(Clone, Copy, Debug)]
pub struct Banded<'a, T> {
    /// The columns, `leading` elements each.
    pub view: View<'a, T>,
    /// Rows of the full matrix.
    pub rows: usize,
    /// Columns of the full matrix.
    pub columns: usize,
    /// Diagonals below the main one.
    pub lower: usize,
    /// Diagonals above the main one.
    pub upper: usize,
    /// Elements from one column to the next.
    pub leading: usize,
    /// Whether the product is with the transpose.
    pub transposed: bool,
}

/// The element types of products, with the type that a product of them has.
pub trait Factor: DeviceCopy {
    /// The type of the result: `i32` for `i8`, the same for all others.
    type Product: DeviceCopy;
    /// The element type by name.
    const ELEMENT: Element;
    /// The element type of the result by name.
    const RESULT: Element;
}

macro_rules! factors {
    ($($type:ty: $element:ident -> $result:ident as $product:ty;)*) => {$(
        impl Factor for $type {
            type Product = $product;
            const ELEMENT: Element = Element::$element;
            const RESULT: Element = Element::$result;
        }
    )*};
}

factors! {
    f16: F16 -> F16 as f16;
    bf16: BF16 -> BF16 as bf16;
    f32: F32 -> F32 as f32;
    f64: F64 -> F64 as f64;
    i8: I8 -> I32 as i32;
}

const HOST: rocblas_pointer_mode = rocblas_pointer_mode::rocblas_pointer_mode_host;

fn size(what: &str, value: usize) -> Result<rocblas_int> {
    rocblas_int::try_from(value).map_err(|_| Error::refused(format!("{what} is {value}; BLAS counts to {}", i32::MAX)))
}

fn lengths(op: &str, rows: usize, columns: usize, x: usize, y: usize) -> Result<()> {
    if (x, y) == (columns, rows) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{op} of a matrix of {rows} rows and {columns} columns takes x of {columns} and y of {rows} elements, not {x} and {y}"
    )))
}

impl Blas {
    /// `y = alpha * a * x + beta * y`. The matrix needs a stride of one in rows or columns.
    pub fn gemv<'a, 'b, T: Real>(
        &self,
        alpha: T,
        a: &MatrixView<'_, T>,
        x: impl Into<Vector<'a, T>>,
        beta: T,
        y: impl Into<VectorMut<'b, T>>,
    ) -> Result<()> {
        let ([batch, rows, columns], x, y) = (a.shape.sizes, x.into(), y.into());
        lengths("gemv", rows, columns, x.len(), y.len())?;
        let matrix = a.placed(self.stream())?;
        if batch != 1 {
            return Err(Error::refused(format!("gemv takes one matrix, not a batch of {batch}")));
        }
        if rows == 0 {
            return Ok(());
        }
        let Operand { operation, leading } = matrix.operand(rows, columns).ok_or_else(|| unfit("gemv", &[a.shape]))?;
        // The operand is the column-major view of the transpose, so its sizes and its operation are the other way round.
        let none = operation == rocblas_operation::rocblas_operation_none;
        let (trans, m, n) = if none {
            (rocblas_operation::rocblas_operation_transpose, columns, rows)
        } else {
            (rocblas_operation::rocblas_operation_none, rows, columns)
        };
        let (m, n) = (size("a size of the matrix", m)?, size("a size of the matrix", n)?);
        let a = pointer(matrix.address);
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        // SAFETY: matrix and vectors were checked to lie in memory of the stream.
        self.call("gemv", HOST, |table, handle| unsafe {
            (T::routines(table).gemv)(handle, trans, m, n, &alpha, a, leading, x, incx, &beta, y, incy)
        })
    }

    /// `y = alpha * a * x + beta * y` with a banded matrix.
    pub fn gbmv<'a, 'b, T: Real>(
        &self,
        alpha: T,
        a: &Banded<'_, T>,
        x: impl Into<Vector<'a, T>>,
        beta: T,
        y: impl Into<VectorMut<'b, T>>,
    ) -> Result<()> {
        let (x, y) = (x.into(), y.into());
        let Banded { view, rows, columns, lower, upper, leading, transposed } = *a;
        let (product_rows, product_columns) = if transposed { (columns, rows) } else { (rows, columns) };
        lengths("gbmv", product_rows, product_columns, x.len(), y.len())?;
        let diagonals = lower.saturating_add(upper).saturating_add(1);
        if leading < diagonals || columns.saturating_mul(leading) > view.len() {
            return Err(Error::refused(format!(
                "a band of {diagonals} diagonals and {columns} columns needs {columns} times at least {diagonals} elements; the \
                 matrix has {leading} elements a column and {} in all",
                view.len()
            )));
        }
        self.stream().uses(view)?;
        let trans = match transposed {
            true => rocblas_operation::rocblas_operation_transpose,
            false => rocblas_operation::rocblas_operation_none,
        };
        let (m, n, kl, ku) =
            (size("rows", rows)?, size("columns", columns)?, size("lower", lower)?, size("upper", upper)?);
        let lda = size("leading", leading)?;
        let a = pointer(view.ptr().address());
        let ((x, incx), (y, incy)) = (x.argument(self.stream())?, y.argument(self.stream())?);
        // SAFETY: band and vectors were checked to lie in memory of the stream.
        self.call("gbmv", HOST, |table, handle| unsafe {
            (T::routines(table).gbmv)(handle, trans, m, n, kl, ku, &alpha, a, lda, x, incx, &beta, y, incy)
        })
    }

    /// `c = alpha * a * b + beta * c` for each matrix of the batch. A stride of zero uses one matrix of `a` or `b` for all.
    ///
    /// ```
    /// use rocm::blas::{Blas, MatrixView, MatrixViewMut};
    /// let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    /// let blas = Blas::new(&stream)?.expect("the embedded device has one built in");
    /// let (a, b) = (stream.upload(&[1f32, 2.0, 3.0, 4.0])?, stream.upload(&[5f32, 6.0, 7.0, 8.0])?);
    /// let mut c = stream.alloc::<f32>(4)?;
    /// let (left, right) = (MatrixView::new(&a, 2, 2), MatrixView::new(&b, 2, 2).transposed());
    /// blas.multiply(1.0, &left, &right, 0.0, &mut MatrixViewMut::new(&mut c, 2, 2))?;
    /// assert_eq!(c.to_vec()?, [17.0, 23.0, 39.0, 53.0]);
    /// # Ok::<(), hip::Error>(())
    /// ```
    pub fn multiply<T: Factor>(
        &self,
        alpha: f64,
        a: &MatrixView<'_, T>,
        b: &MatrixView<'_, T>,
        beta: f64,
        c: &mut MatrixViewMut<'_, T::Product>,
    ) -> Result<()> {
        let product = self.described::<T>(a, b, c)?;
        // SAFETY: the three batches were checked to lie in memory of the stream, and the result is borrowed for writing.
        unsafe { self.gemm_scaled(&product, alpha, beta) }
    }

    /// `c = alpha * a * b + beta * c` for matrices that lie anywhere, as long as all triples have the same sizes and strides.
    pub fn multiply_each<T: Factor>(
        &self,
        alpha: f64,
        factors: &[(MatrixView<'_, T>, MatrixView<'_, T>)],
        beta: f64,
        results: &mut [MatrixViewMut<'_, T::Product>],
    ) -> Result<()> {
        if factors.len() != results.len() {
            return Err(Error::refused(format!(
                "{} products need as many results, not {}",
                factors.len(),
                results.len()
            )));
        }
        let described = factors.iter().zip(results.iter()).map(|((a, b), c)| self.described::<T>(a, b, c));
        let products: Vec<Gemm> = described.collect::<Result<_>>()?;
        let Some(first) = products.first() else { return Ok(()) };
        let at = |matrix: Matrix| Matrix { address: 0, ..matrix };
        let shape = |p: &Gemm| Gemm { a: at(p.a), b: at(p.b), c: at(p.c), ..*p };
        if let Some(other) = products.iter().find(|other| shape(other) != shape(first) || other.batch != 1) {
            return Err(Error::refused(format!(
                "products of one call have the same sizes and no batches: {first:?}, {other:?}"
            )));
        }
        let addresses = |of: fn(&Gemm) -> u64| self.stream().upload(&products.iter().map(of).collect::<Vec<u64>>());
        let (a, b, c) = (addresses(|p| p.a.address)?, addresses(|p| p.b.address)?, addresses(|p| p.c.address)?);
        for list in [&a, &b, &c] {
            self.stream().uses(list)?;
        }
        // SAFETY: every matrix was checked to lie in memory of the stream; the lists of addresses go back to the stream's pool when
        // they are dropped, where nothing reuses them before the product is done.
        unsafe {
            self.gemm_listed(
                first,
                products.len(),
                [a.ptr().address(), b.ptr().address(), c.ptr().address()],
                alpha,
                beta,
            )
        }?;
        if self.stream().device().platform().kind() == PlatformKind::Host {
            // The embedded device's checked mode does not see through the lists.
            let bytes =
                |result: &MatrixViewMut<'_, T::Product>| result.shape.extent().unwrap_or(0) * size_of::<T::Product>();
            let filled = results.iter().map(|result| (result.view.ptr().address(), bytes(result)));
            embedded::filled(self.stream().handle(), &filled.collect::<Vec<_>>());
        }
        Ok(())
    }

    fn described<T: Factor>(
        &self,
        a: &MatrixView<'_, T>,
        b: &MatrixView<'_, T>,
        c: &MatrixViewMut<'_, T::Product>,
    ) -> Result<Gemm> {
        let ([batch, m, n], [a_batch, a_rows, k], [b_batch, b_rows, b_columns]) =
            (c.shape.sizes, a.shape.sizes, b.shape.sizes);
        if (a_batch, a_rows, b_batch, b_rows, b_columns) != (batch, m, batch, k, n) {
            return Err(Error::refused(format!(
                "matrices of sizes {:?} and {:?} (batch, rows, columns) do not multiply into {:?}",
                a.shape.sizes, b.shape.sizes, c.shape.sizes
            )));
        }
        let stream = self.stream();
        let (a_at, b_at, c_at) = (a.placed(stream)?, b.placed(stream)?, c.placed(stream)?);
        let apart =
            batch < 2 || c.shape.strides[0] >= Shape { sizes: [1, m, n], ..c.shape }.extent().unwrap_or(usize::MAX);
        let product = Gemm { element: T::ELEMENT, result: T::RESULT, m, n, k, batch, a: a_at, b: b_at, c: c_at };
        if apart && (product.fits_blas() || product.is_empty()) {
            return Ok(product);
        }
        Err(unfit("multiply", &[a.shape, b.shape, c.shape]))
    }
}

fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}

#[cold]
fn unfit(op: &str, shapes: &[Shape]) -> Error {
    Error::refused(format!(
        "{op} cannot take these matrices as they lie: each needs a stride of one in rows or columns (the result in columns), and \
         results must not overlap: {shapes:?}"
    ))
}
