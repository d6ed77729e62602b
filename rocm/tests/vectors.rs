//! Vectors, matrix with vector and batches of products on the embedded device against plain loops in f64.

mod common;

use common::{assert_close, stream, Random};
use rocm::blas::{Banded, Blas, MatrixView, MatrixViewMut, Vector, VectorMut};

fn blas(stream: &hip::Stream) -> hip::Result<Blas> {
    Ok(Blas::new(stream)?.expect("the embedded device has a BLAS"))
}

/// Every `increment`-th value.
fn picked(values: &[f32], increment: usize) -> Vec<f64> {
    values.iter().step_by(increment).map(|&value| value.into()).collect()
}

#[test]
fn vectors_agree_with_plain_loops() -> hip::Result<()> {
    let stream = stream()?;
    let (blas, mut random) = (blas(&stream)?, Random(3));
    for _ in 0..40 {
        let (count, incx, incy) = (1 + random.below(300), 1 + random.below(3), 1 + random.below(3));
        let (x, y) = (random.values((count - 1) * incx + 1), random.values((count - 1) * incy + 1));
        let (mut a, mut b) = (stream.upload(&x)?, stream.upload(&y)?);
        let (xs, ys) = (picked(&x, incx), picked(&y, incy));
        let (mut dot, mut norm, mut sum) = (stream.alloc::<f32>(1)?, stream.alloc::<f32>(1)?, stream.alloc::<f32>(1)?);
        let (mut largest, mut smallest) = (stream.alloc::<i32>(1)?, stream.alloc::<i32>(1)?);
        let from = Vector::strided(&a, incx)?;
        blas.dot(from, Vector::strided(&b, incy)?, &mut dot)?;
        blas.nrm2(from, &mut norm)?;
        blas.asum(from, &mut sum)?;
        blas.amax(from, &mut largest)?;
        blas.amin(from, &mut smallest)?;
        let bound = 1e-6 * count as f64;
        assert_close(&dot.to_vec()?, &[xs.iter().zip(&ys).map(|(x, y)| x * y).sum()], bound, "dot");
        assert_close(&norm.to_vec()?, &[xs.iter().map(|x| x * x).sum::<f64>().sqrt()], bound, "nrm2");
        assert_close(&sum.to_vec()?, &[xs.iter().map(|x| x.abs()).sum()], bound, "asum");
        let place = |better: fn(&f64, &f64) -> bool| {
            let best = xs.iter().map(|x| x.abs()).reduce(|a, b| if better(&b, &a) { b } else { a });
            xs.iter().position(|x| Some(x.abs()) == best).map_or(0, |at| at as i32 + 1)
        };
        assert_eq!((largest.to_vec()?, smallest.to_vec()?), (vec![place(|a, b| a > b)], vec![place(|a, b| a < b)]));

        blas.axpy(0.75, from, VectorMut::strided(&mut b, incy)?)?;
        let expected: Vec<f64> = xs.iter().zip(&ys).map(|(x, y)| 0.75 * x + y).collect();
        let after = b.to_vec()?;
        assert_close(&after.iter().copied().step_by(incy).collect::<Vec<_>>(), &expected, 1e-6, "axpy");
        let between = (0..y.len()).filter(|at| at % incy != 0);
        assert!(between.into_iter().all(|at| after[at] == y[at]), "axpy wrote between the elements");

        blas.scal(-2.0, VectorMut::strided(&mut a, incx)?)?;
        let scaled: Vec<f64> = xs.iter().map(|x| -2.0 * x).collect();
        assert_close(&a.to_vec()?.into_iter().step_by(incx).collect::<Vec<_>>(), &scaled, 1e-6, "scal");
        blas.swap(VectorMut::strided(&mut a, incx)?, VectorMut::strided(&mut b, incy)?)?;
        assert_close(&b.to_vec()?.into_iter().step_by(incy).collect::<Vec<_>>(), &scaled, 1e-6, "swap");
        assert_close(&a.to_vec()?.into_iter().step_by(incx).collect::<Vec<_>>(), &expected, 1e-6, "swap");
        blas.copy(Vector::strided(&b, incy)?, VectorMut::strided(&mut a, incx)?)?;
        assert_close(&a.to_vec()?.into_iter().step_by(incx).collect::<Vec<_>>(), &scaled, 1e-6, "copy");
    }
    Ok(())
}

#[test]
fn a_matrix_with_a_vector_agrees_with_plain_loops() -> hip::Result<()> {
    let stream = stream()?;
    let (blas, mut random) = (blas(&stream)?, Random(5));
    for case in 0..40 {
        let (rows, columns) = (1 + random.below(40), 1 + random.below(40));
        let leading = columns + random.below(3);
        let a = random.values(rows * leading);
        let element = |row: usize, column: usize| f64::from(a[row * leading + column]);
        let buffer = stream.upload(&a)?;
        let whole = MatrixView::new(&buffer, rows, columns).with_strides(0, leading, 1);
        let transposed = case % 2 == 1;
        let matrix = if transposed { whole.transposed() } else { whole };
        let (outputs, inputs) = if transposed { (columns, rows) } else { (rows, columns) };
        let at = |row, column| if transposed { element(column, row) } else { element(row, column) };
        let (x, y) = (random.values(inputs), random.values(outputs));
        let (source, mut target) = (stream.upload(&x)?, stream.upload(&y)?);
        blas.gemv(1.5, &matrix, &source, 0.5, &mut target)?;
        let expected: Vec<f64> = (0..outputs)
            .map(|row| {
                (0..inputs).map(|column| 1.5 * at(row, column) * f64::from(x[column])).sum::<f64>()
                    + 0.5 * f64::from(y[row])
            })
            .collect();
        assert_close(&target.to_vec()?, &expected, 1e-5, "gemv");

        // The same matrix, but only a band of it, in BLAS's storage.
        let (lower, upper) = (random.below(rows), random.below(columns));
        let height = lower + upper + 1 + random.below(2);
        let mut band = vec![f32::NAN; height * columns];
        for column in 0..columns {
            for row in column.saturating_sub(upper)..(column + lower + 1).min(rows) {
                band[column * height + upper + row - column] = a[row * leading + column];
            }
        }
        let stored = stream.upload(&band)?;
        let banded = Banded { view: stored.view(), rows, columns, lower, upper, leading: height, transposed };
        // Without beta, y is not read: not even where it is no number.
        let mut target = stream.upload(&vec![f64::NAN as f32; outputs])?;
        blas.gbmv(1.0, &banded, &source, 0.0, &mut target)?;
        let within = |row: usize, column: usize| {
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            column <= row + upper && row <= column + lower
        };
        let expected: Vec<f64> = (0..outputs)
            .map(|row| (0..inputs).filter(|&c| within(row, c)).map(|c| at(row, c) * f64::from(x[c])).sum())
            .collect();
        assert_close(&target.to_vec()?, &expected, 1e-5, "gbmv");
    }
    Ok(())
}

#[test]
fn batches_agree_with_plain_loops() -> hip::Result<()> {
    let stream = stream()?;
    let (blas, mut random) = (blas(&stream)?, Random(7));
    let (batch, m, n, k) = (3, 5, 7, 9);
    let (a, b, c) = (random.values(batch * m * k), random.values(k * n), random.values(batch * m * n));
    let expected: Vec<f64> = (0..batch * m * n)
        .map(|at| {
            let (index, row, column) = (at / (m * n), at / n % m, at % n);
            let terms = (0..k).map(|i| f64::from(a[(index * m + row) * k + i]) * f64::from(b[i * n + column]));
            2.0 * terms.sum::<f64>() + 0.5 * f64::from(c[at])
        })
        .collect();
    let (left, right) = (stream.upload(&a)?, stream.upload(&b)?);
    // One right factor for all, by a stride of zero.
    let mut result = stream.upload(&c)?;
    let shared = MatrixView::batched(&right, batch, k, n).with_strides(0, n, 1);
    blas.multiply(
        2.0,
        &MatrixView::batched(&left, batch, m, k),
        &shared,
        0.5,
        &mut MatrixViewMut::batched(&mut result, batch, m, n),
    )?;
    assert_close(&result.to_vec()?, &expected, 1e-5, "strided batch");
    // The same by a list, backwards.
    let mut result = stream.upload(&c)?;
    let mut factors = Vec::new();
    for index in (0..batch).rev() {
        factors.push((MatrixView::new(left.slice(index * m * k..)?, m, k), MatrixView::new(&right, k, n)));
    }
    let (first, rest) = result.view_mut().split_at(m * n)?;
    let (second, third) = rest.split_at(m * n)?;
    let mut results = [third, second, first].map(|view| MatrixViewMut::new(view, m, n));
    blas.multiply_each(2.0, &factors, 0.5, &mut results)?;
    assert_close(&result.to_vec()?, &expected, 1e-5, "listed batch");
    Ok(())
}

#[test]
fn bytes_multiply_exactly_into_integers() -> hip::Result<()> {
    let stream = stream()?;
    let blas = blas(&stream)?;
    let (m, n, k) = (17, 13, 300);
    let byte = |seed: usize| ((seed * 2654435761) >> 7) as u8 as i8;
    let (a, b): (Vec<i8>, Vec<i8>) = ((0..m * k).map(byte).collect(), (0..k * n).map(|at| byte(at + 99)).collect());
    let (left, right) = (stream.upload(&a)?, stream.upload(&b)?);
    let mut c = stream.upload(&vec![3i32; m * n])?;
    let mut out = MatrixViewMut::new(&mut c, m, n);
    blas.multiply(2.0, &MatrixView::new(&left, m, k), &MatrixView::new(&right, k, n), -1.0, &mut out)?;
    let expected: Vec<i32> = (0..m * n)
        .map(|at| 2 * (0..k).map(|i| i32::from(a[at / n * k + i]) * i32::from(b[i * n + at % n])).sum::<i32>() - 3)
        .collect();
    assert_eq!(c.to_vec()?, expected);
    let mut out = MatrixViewMut::new(&mut c, m, n);
    let half = blas.multiply(0.5, &MatrixView::new(&left, m, k), &MatrixView::new(&right, k, n), 0.0, &mut out);
    assert!(half.is_err_and(|error| error.to_string().contains("whole numbers")));
    Ok(())
}

#[test]
fn bad_input_is_refused_with_a_sentence_and_the_next_call_works() -> hip::Result<()> {
    let (stream, other) = (stream()?, stream()?);
    let blas = blas(&stream)?;
    let (x, foreign) = (stream.upload(&[1f32, 2.0, 3.0])?, other.upload(&[1f32, 2.0, 3.0])?);
    let mut y = stream.upload(&[1f32, 1.0])?;
    let said = |outcome: hip::Result<()>, words: &str| {
        let text = outcome.expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    };
    said(blas.axpy(1.0, &x, &mut y), "one length");
    said(Vector::strided(&x, 0).map(drop), "increment");
    said(blas.gemv(1.0, &MatrixView::new(&x, 2, 3), &x, 0.0, &mut y), "does not fit");
    said(blas.gemv(1.0, &MatrixView::new(&x, 3, 1), &x, 0.0, &mut y), "takes x of 1");
    let mut z = stream.alloc::<f32>(3)?;
    said(blas.copy(&foreign, &mut z), "another stream");
    let mut none = stream.alloc::<f32>(0)?;
    said(blas.nrm2(&x, &mut none), "room for one");
    blas.copy(&x, &mut z)?;
    assert_eq!(z.to_vec()?, [1.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn a_graph_keeps_what_a_captured_call_names() -> hip::Result<()> {
    let stream = stream()?;
    let blas = blas(&stream)?;
    let mut result = stream.zeros::<f32>(2)?;
    let graph = {
        let x = stream.upload(&[1f32, 2.0])?;
        stream.capture(|_| blas.axpy(1.0, &x, &mut result))?
    };
    // Whoever asks next would get the memory of x, if it were free.
    let _other = stream.upload(&[50f32, 60.0])?;
    graph.launch(&stream)?;
    graph.launch(&stream)?;
    assert_eq!(result.to_vec()?, [2.0, 4.0]);
    Ok(())
}
