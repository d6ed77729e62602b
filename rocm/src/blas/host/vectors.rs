//! Vectors, and matrix with vector: plain loops, which the memory is the limit of anyway. Sums are kept in f64.

use super::super::abi::*;
use super::{answer, require, Context, INVALID_POINTER, INVALID_SIZE};
use crate::embedded::Address;

/// A type that the loops compute with.
pub trait Number: Copy + Send + Sync + 'static {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
}

impl Number for f32 {
    fn wide(self) -> f64 {
        self.into()
    }
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
}

/// A vector as it is queued. A negative increment begins at the far end, as BLAS has it.
#[derive(Clone, Copy)]
struct Elements {
    address: Address,
    count: usize,
    increment: isize,
}

impl Elements {
    fn new<T>(pointer: *const T, count: rocblas_int, increment: rocblas_int) -> Result<Self, rocblas_status> {
        require(count >= 0, INVALID_SIZE)?;
        require(!pointer.is_null() || count == 0, INVALID_POINTER)?;
        let (count, increment) = (count as usize, increment as isize);
        Ok(Self { address: Address::of(pointer), count, increment })
    }

    /// The elements in order.
    ///
    /// # Safety
    /// Whoever queued the work vouches that the vector is elements of `T`.
    unsafe fn places<T>(self) -> impl Iterator<Item = *mut T> {
        let last = self.count.saturating_sub(1) as isize;
        let start = if self.increment < 0 { -self.increment * last } else { 0 };
        let first = self.address.pointer::<T>();
        (0..self.count as isize).map(move |index| first.wrapping_offset(start + index * self.increment))
    }

    /// # Safety
    /// As for `places`; nobody writes meanwhile.
    unsafe fn values<T: Number>(self) -> impl Iterator<Item = T> {
        // SAFETY: the caller's promise.
        unsafe { self.places::<T>().map(|place| *place) }
    }

    /// The bytes from the first element to the last, for whoever writes them.
    fn bytes<T>(&self) -> usize {
        match self.count {
            0 => 0,
            count => ((count - 1) * self.increment.unsigned_abs() + 1) * size_of::<T>(),
        }
    }
}

pub unsafe extern "C" fn axpy<T: Number>(
    handle: rocblas_handle,
    n: rocblas_int,
    alpha: *const T,
    x: *const T,
    incx: rocblas_int,
    y: *mut T,
    incy: rocblas_int,
) -> rocblas_status {
    let act = || {
        let (context, from, to) = (Context::of(handle)?, Elements::new(x, n, incx)?, Elements::new(y, n, incy)?);
        // SAFETY: the caller vouches for the scalar.
        let alpha = unsafe { context.scalar(alpha) }?;
        context.run(y, to.bytes::<T>(), move || {
            let alpha = alpha.get().wide();
            // SAFETY: the caller of the ABI vouches for both vectors until the work has run.
            unsafe {
                for (x, y) in from.values::<T>().zip(to.places::<T>()) {
                    *y = T::narrow(alpha.mul_add(x.wide(), (*y).wide()));
                }
            }
        })
    };
    answer(act())
}

pub unsafe extern "C" fn dot<T: Number>(
    handle: rocblas_handle,
    n: rocblas_int,
    x: *const T,
    incx: rocblas_int,
    y: *const T,
    incy: rocblas_int,
    result: *mut T,
) -> rocblas_status {
    let act = || {
        let (context, x, y) = (Context::of(handle)?, Elements::new(x, n, incx)?, Elements::new(y, n, incy)?);
        // SAFETY: the caller of the ABI vouches for both vectors until the work has run.
        context.reduce(result, move || unsafe {
            T::narrow(x.values::<T>().zip(y.values::<T>()).map(|(x, y)| x.wide() * y.wide()).sum())
        })
    };
    answer(act())
}

/// Queues one value made of a vector's elements.
fn reduced<T: Number, R: Copy + Send + Sync + 'static>(
    handle: rocblas_handle,
    vector: (*const T, rocblas_int, rocblas_int),
    result: *mut R,
    value: fn(&mut dyn Iterator<Item = f64>) -> R,
) -> rocblas_status {
    let act = || {
        let (context, (x, n, incx)) = (Context::of(handle)?, vector);
        // The library takes no elements from a vector without a direction.
        let elements = Elements::new(x, if incx <= 0 { 0 } else { n }, incx)?;
        // SAFETY: the caller of the ABI vouches for the vector until the work has run.
        context.reduce(result, move || value(&mut unsafe { elements.values::<T>() }.map(T::wide)))
    };
    answer(act())
}

/// The first place, counted from one, at which nothing is better; zero where there is nothing.
fn best(values: &mut dyn Iterator<Item = f64>, better: fn(f64, f64) -> bool) -> rocblas_int {
    let mut found: Option<(usize, f64)> = None;
    for (index, value) in values.enumerate() {
        if found.is_none_or(|(_, best)| better(value.abs(), best)) {
            found = Some((index, value.abs()));
        }
    }
    found.map_or(0, |(index, _)| index as rocblas_int + 1)
}

macro_rules! reductions {
    ($($name:ident -> $result:ty, $make:expr, $value:expr;)*) => {$(
        pub unsafe extern "C" fn $name<T: Number>(
            handle: rocblas_handle,
            n: rocblas_int,
            x: *const T,
            incx: rocblas_int,
            result: *mut $result,
        ) -> rocblas_status {
            reduced::<T, $result>(handle, (x, n, incx), result, |values| $make($value(values)))
        }
    )*};
}

reductions! {
    nrm2 -> T, T::narrow, |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    asum -> T, T::narrow, |values: &mut dyn Iterator<Item = f64>| values.map(f64::abs).sum();
    amax -> rocblas_int, std::convert::identity, |values| best(values, |value, best| value > best);
    amin -> rocblas_int, std::convert::identity, |values| best(values, |value, best| value < best);
}

pub unsafe extern "C" fn scal<T: Number>(
    handle: rocblas_handle,
    n: rocblas_int,
    alpha: *const T,
    x: *mut T,
    incx: rocblas_int,
) -> rocblas_status {
    let act = || {
        let (context, elements) = (Context::of(handle)?, Elements::new(x, if incx <= 0 { 0 } else { n }, incx)?);
        // SAFETY: the caller vouches for the scalar.
        let alpha = unsafe { context.scalar(alpha) }?;
        context.run(x, elements.bytes::<T>(), move || {
            let alpha = alpha.get().wide();
            // SAFETY: the caller of the ABI vouches for the vector until the work has run.
            unsafe { elements.places::<T>().for_each(|x| *x = T::narrow(alpha * (*x).wide())) }
        })
    };
    answer(act())
}

pub unsafe extern "C" fn copy<T: Number>(
    handle: rocblas_handle,
    n: rocblas_int,
    x: *const T,
    incx: rocblas_int,
    y: *mut T,
    incy: rocblas_int,
) -> rocblas_status {
    let act = || {
        let (context, from, to) = (Context::of(handle)?, Elements::new(x, n, incx)?, Elements::new(y, n, incy)?);
        // SAFETY: the caller of the ABI vouches for both vectors until the work has run.
        context.run(y, to.bytes::<T>(), move || unsafe {
            from.values::<T>().zip(to.places::<T>()).for_each(|(x, y)| *y = x);
        })
    };
    answer(act())
}

pub unsafe extern "C" fn swap<T: Number>(
    handle: rocblas_handle,
    n: rocblas_int,
    x: *mut T,
    incx: rocblas_int,
    y: *mut T,
    incy: rocblas_int,
) -> rocblas_status {
    let act = || {
        let (context, one, other) = (Context::of(handle)?, Elements::new(x, n, incx)?, Elements::new(y, n, incy)?);
        // Both were written before, so checked mode needs to hear of one only.
        // SAFETY: the caller of the ABI vouches for both vectors until the work has run.
        context.run(y, other.bytes::<T>(), move || unsafe {
            one.places::<T>().zip(other.places::<T>()).for_each(|(x, y)| std::ptr::swap(x, y));
        })
    };
    answer(act())
}

/// A matrix in columns: the whole of it, or the diagonals around the main one.
#[derive(Clone, Copy)]
struct Columns {
    address: Address,
    rows: usize,
    columns: usize,
    leading: usize,
    /// Diagonals below and above, where only those are stored.
    band: Option<(usize, usize)>,
}

impl Columns {
    /// The rows of a column that are stored, and the place of the row zero of it.
    fn column<T>(&self, column: usize) -> (std::ops::Range<usize>, *const T) {
        let first = self.address.pointer::<T>().wrapping_add(column * self.leading).cast_const();
        match self.band {
            None => (0..self.rows, first),
            Some((lower, upper)) => {
                let rows = column.saturating_sub(upper)..(column + lower + 1).min(self.rows);
                (rows, first.wrapping_add(upper).wrapping_sub(column))
            }
        }
    }

    /// Adds the product with `x` to `sums`.
    ///
    /// # Safety
    /// Whoever queued the work vouches that the matrix is elements of `T`.
    unsafe fn accumulate<T: Number>(&self, transposed: bool, x: &[f64], sums: &mut [f64]) {
        for column in 0..self.columns {
            let (rows, base) = self.column::<T>(column);
            for row in rows {
                // SAFETY: inside the matrix.
                let value = unsafe { *base.wrapping_add(row) }.wide();
                let (at, from) = if transposed { (column, row) } else { (row, column) };
                sums[at] += value * x[from];
            }
        }
    }
}

/// `y = alpha * a * x + beta * y`, whatever the matrix is.
///
/// # Safety
/// The scalars are the caller's promise.
unsafe fn matrix_vector<T: Number>(
    context: Context,
    trans: rocblas_operation,
    matrix: Columns,
    scalars: (*const T, *const T),
    x: (*const T, rocblas_int),
    y: (*mut T, rocblas_int),
) -> Result<(), rocblas_status> {
    let transposed = trans != rocblas_operation::rocblas_operation_none;
    let (inputs, outputs) = if transposed { (matrix.rows, matrix.columns) } else { (matrix.columns, matrix.rows) };
    let from = Elements::new(x.0, inputs as rocblas_int, x.1)?;
    let to = Elements::new(y.0, outputs as rocblas_int, y.1)?;
    // SAFETY: the caller's promise.
    let (alpha, beta) = unsafe { (context.scalar(scalars.0)?, context.scalar(scalars.1)?) };
    context.run(y.0, to.bytes::<T>(), move || {
        // SAFETY: the caller of the ABI vouches for matrix and vectors until the work has run.
        unsafe {
            let (alpha, beta) = (alpha.get().wide(), beta.get().wide());
            let x: Vec<f64> = from.values::<T>().map(T::wide).collect();
            let mut sums = vec![0.0; to.count];
            matrix.accumulate::<T>(transposed, &x, &mut sums);
            for (sum, y) in sums.into_iter().zip(to.places::<T>()) {
                // With beta zero, y is not read: it may be anything.
                *y = T::narrow(alpha * sum + if beta == 0.0 { 0.0 } else { beta * (*y).wide() });
            }
        }
    })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn gemv<T: Number>(
    handle: rocblas_handle,
    trans: rocblas_operation,
    m: rocblas_int,
    n: rocblas_int,
    alpha: *const T,
    a: *const T,
    lda: rocblas_int,
    x: *const T,
    incx: rocblas_int,
    beta: *const T,
    y: *mut T,
    incy: rocblas_int,
) -> rocblas_status {
    let act = || {
        require(m >= 0 && n >= 0 && lda >= m.max(1) && incx != 0 && incy != 0, INVALID_SIZE)?;
        let (rows, columns, leading) = (m as usize, n as usize, lda as usize);
        let matrix = Columns { address: Address::of(a), rows, columns, leading, band: None };
        // SAFETY: the caller vouches for the scalars.
        unsafe { matrix_vector(Context::of(handle)?, trans, matrix, (alpha, beta), (x, incx), (y, incy)) }
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn gbmv<T: Number>(
    handle: rocblas_handle,
    trans: rocblas_operation,
    m: rocblas_int,
    n: rocblas_int,
    kl: rocblas_int,
    ku: rocblas_int,
    alpha: *const T,
    a: *const T,
    lda: rocblas_int,
    x: *const T,
    incx: rocblas_int,
    beta: *const T,
    y: *mut T,
    incy: rocblas_int,
) -> rocblas_status {
    let act = || {
        let sizes = m >= 0 && n >= 0 && kl >= 0 && ku >= 0 && i64::from(lda) > i64::from(kl) + i64::from(ku);
        require(sizes && incx != 0 && incy != 0, INVALID_SIZE)?;
        let (rows, columns, leading) = (m as usize, n as usize, lda as usize);
        let band = Some((kl as usize, ku as usize));
        let matrix = Columns { address: Address::of(a), rows, columns, leading, band };
        // SAFETY: the caller vouches for the scalars.
        unsafe { matrix_vector(Context::of(handle)?, trans, matrix, (alpha, beta), (x, incx), (y, incy)) }
    };
    answer(act())
}
