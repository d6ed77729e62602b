//! The matrix product of the embedded device's BLAS against plain loops in f64: all element types, transposed, broadcast and sliced
//! operands, batches, sizes around the blocking of any implementation.

mod common;

use common::{stream, Random};
use half::{bf16, f16};
use hip::{Buffer, DeviceCopy, Stream};
use rocm::blas::{Blas, Element, Gemm, Matrix};

trait Number: DeviceCopy + PartialEq {
    const ELEMENT: Element;
    /// The rounding error of one operation, relative.
    const EPSILON: f64;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty, $element:ident, $epsilon:expr, $from:expr, $to:expr;)*) => {$(
        impl Number for $type {
            const ELEMENT: Element = Element::$element;
            const EPSILON: f64 = $epsilon;
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            fn to_f64(self) -> f64 {
                $to(self)
            }
        }
    )*};
}

numbers! {
    f16, F16, 9.8e-4, f16::from_f64, f16::to_f64;
    bf16, BF16, 7.9e-3, bf16::from_f64, bf16::to_f64;
    f32, F32, 1.2e-7, |value| value as f32, f64::from;
    f64, F64, 2.3e-16, |value| value, |value| value;
    i8, I8, 0.0, |value| (127.0 * value) as i8, f64::from;
    i32, I32, 0.0, |value| value as i32, f64::from;
}

/// A batch of matrices somewhere inside a buffer.
struct Placed<T> {
    values: Vec<T>,
    offset: usize,
    matrix: Matrix,
}

impl<T: Number> Placed<T> {
    fn random(random: &mut Random, rows: usize, columns: usize, batch: usize) -> Self {
        let padding = random.below(3);
        let transposed = random.below(2) == 1;
        let (row_stride, column_stride) = if transposed { (1, rows + padding) } else { (columns + padding, 1) };
        let span = if transposed { columns * (rows + padding) } else { rows * (columns + padding) };
        let batch_stride = if random.below(4) == 0 { 0 } else { span + random.below(3) };
        let offset = random.below(5);
        let length = offset + batch_stride * batch.saturating_sub(1) + span.max(1);
        let values = (0..length).map(|_| T::from_f64(random.value())).collect();
        Self { values, offset, matrix: Matrix { address: 0, row_stride, column_stride, batch_stride } }
    }

    fn at(&self, batch: usize, row: usize, column: usize) -> f64 {
        let Matrix { row_stride, column_stride, batch_stride, .. } = self.matrix;
        self.values[self.offset + batch * batch_stride + row * row_stride + column * column_stride].to_f64()
    }

    fn upload(&mut self, stream: &Stream) -> hip::Result<Buffer<T>> {
        let buffer = stream.upload(&self.values)?;
        self.matrix.address = buffer.ptr().address() + (self.offset * size_of::<T>()) as u64;
        Ok(buffer)
    }
}

fn check<T: Number, R: Number>(stream: &Stream, blas: &Blas, random: &mut Random) -> hip::Result<()> {
    let sizes = [1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100];
    let (m, n) = (sizes[random.below(sizes.len())], sizes[random.below(sizes.len())]);
    let k = [0, 1, 2, 5, 16, 33, 64, 129][random.below(8)];
    let batch = 1 + random.below(3);
    let mut a = Placed::<T>::random(random, m, k, batch);
    let mut b = Placed::<T>::random(random, k, n, batch);
    let (buffer_a, buffer_b) = (a.upload(stream)?, b.upload(stream)?);
    let (leading, guard) = (n + random.below(3), 4);
    let c_stride = m * leading + random.below(3);
    let before: Vec<R> = (0..c_stride * batch + guard).map(|_| R::from_f64(77.0)).collect();
    let c = stream.upload(&before)?;
    let matrix = Matrix { address: c.ptr().address(), row_stride: leading, column_stride: 1, batch_stride: c_stride };
    let product = Gemm { element: T::ELEMENT, result: R::ELEMENT, m, n, k, batch, a: a.matrix, b: b.matrix, c: matrix };
    assert!(product.fits_blas(), "{product:?}");
    // SAFETY: the buffers were made for these sizes and strides and live to the end of this function.
    unsafe { blas.gemm(&product)? };
    let result = c.to_vec()?;
    drop((buffer_a, buffer_b));
    for (position, value) in result.iter().enumerate() {
        let (index, inside) = (position / c_stride, position % c_stride);
        let (row, column) = (inside / leading, inside % leading);
        if index >= batch || row >= m || column >= n {
            assert!(
                *value == before[position],
                "element {position} lies outside the result and was written: {product:?}"
            );
            continue;
        }
        let terms = (0..k).map(|i| a.at(index, row, i) * b.at(index, i, column));
        let (sum, magnitude) =
            terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + f64::abs(term)));
        // One rounding of the result, and k + 1 of the accumulation, which is in f32 for the half types.
        let accumulation = R::EPSILON.min(f32::EPSILON.into()) * (k + 1) as f64;
        let bound = R::EPSILON * sum.abs() + accumulation * magnitude + f64::MIN_POSITIVE;
        let got = value.to_f64();
        assert!(
            (got - sum).abs() <= bound,
            "{got} is not {sum} within {bound} at {index}, {row}, {column}: {product:?}"
        );
    }
    Ok(())
}

#[test]
fn products_agree_with_plain_loops() -> hip::Result<()> {
    let stream = stream()?;
    let blas = Blas::new(&stream)?.expect("the embedded device has a BLAS");
    let mut random = Random(1);
    for _ in 0..60 {
        check::<f32, f32>(&stream, &blas, &mut random)?;
        check::<f64, f64>(&stream, &blas, &mut random)?;
        check::<f16, f16>(&stream, &blas, &mut random)?;
        check::<bf16, bf16>(&stream, &blas, &mut random)?;
        check::<f16, f32>(&stream, &blas, &mut random)?;
        check::<bf16, f32>(&stream, &blas, &mut random)?;
        check::<i8, i32>(&stream, &blas, &mut random)?;
    }
    Ok(())
}

#[test]
fn a_product_is_part_of_a_captured_graph() -> hip::Result<()> {
    let stream = stream()?;
    let blas = Blas::new(&stream)?.expect("the embedded device has a BLAS");
    let mut a = stream.upload(&[2f32])?;
    let b = stream.upload(&[3f32])?;
    let c = stream.zeros::<f32>(1)?;
    let one = |buffer: &Buffer<f32>| Matrix {
        address: buffer.ptr().address(),
        row_stride: 1,
        column_stride: 1,
        batch_stride: 0,
    };
    let product = Gemm {
        element: Element::F32,
        result: Element::F32,
        m: 1,
        n: 1,
        k: 1,
        batch: 1,
        a: one(&a),
        b: one(&b),
        c: one(&c),
    };
    // SAFETY: the three buffers hold one element each and outlive the graph.
    let graph = stream.capture(|_| unsafe { blas.gemm(&product) })?;
    graph.launch(&stream)?;
    assert_eq!(c.to_vec()?, [6.0]);
    a.write(&[5.0])?;
    graph.launch(&stream)?;
    assert_eq!(c.to_vec()?, [15.0]);
    Ok(())
}

#[test]
fn operands_that_blas_cannot_take_are_refused_with_a_sentence() -> hip::Result<()> {
    let stream = stream()?;
    let blas = Blas::new(&stream)?.expect("the embedded device has a BLAS");
    let matrix = Matrix { address: 0, row_stride: 8, column_stride: 2, batch_stride: 0 };
    let product = Gemm {
        element: Element::F32,
        result: Element::F32,
        m: 4,
        n: 4,
        k: 4,
        batch: 1,
        a: matrix,
        b: matrix,
        c: matrix,
    };
    // SAFETY: refused before anything is touched.
    let error = unsafe { blas.gemm(&product) }.expect_err("no stride is one");
    assert!(error.to_string().contains("stride of one"), "{error}");
    Ok(())
}
