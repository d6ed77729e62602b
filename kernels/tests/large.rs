//! Tensors of more than 2^31 elements: index arithmetic beyond 32 bits. Needs 6.5 GB and a minute or two, so it only runs when asked
//! for, as `.ci/run` does: `cargo test -p candle-rocm-kernels --test large -- --ignored`.

use candle_rocm_kernels::{DType, Kernels, Operand, Output, Reduce};
use hip::{Buffer, Platform, Stream};

const ROWS: usize = 65_536;
const COLS: usize = 32_800;
/// A little more than 2^31.
const COUNT: usize = ROWS * COLS;

fn device() -> (Stream, Kernels) {
    let stream = Platform::named("host").unwrap().device(0).unwrap().new_stream().unwrap();
    let kernels = Kernels::new(&stream).unwrap();
    (stream, kernels)
}

/// A value that differs between elements 2^31 and 2^32 apart.
fn value(i: usize) -> u8 {
    (i % 251) as u8
}

fn upload(stream: &Stream) -> Buffer<u8> {
    stream.upload(&(0..COUNT).map(value).collect::<Vec<u8>>()).unwrap()
}

fn check(memory: &Buffer<u8>, want: impl Fn(usize) -> u8) {
    let got = memory.to_vec().unwrap();
    if let Some(i) = (0..COUNT).find(|&i| got[i] != want(i)) {
        panic!("element {i} is {}, but should be {}", got[i], want(i));
    }
}

#[test]
#[ignore = "needs 6.5 GB of memory"]
fn more_than_two_to_the_31_elements() {
    const { assert!(COUNT > 1 << 31) };
    let (stream, kernels) = device();
    let source = upload(&stream);
    let mut target = stream.alloc::<u8>(COUNT).unwrap();

    // Contiguous: one index of 64 bits.
    let input = Operand::new(&source, DType::U8, 0, &[COUNT], &[1]).unwrap();
    kernels.affine(&input, 3.0, 1.0, &mut Output::new(&mut target, DType::U8, 0, COUNT).unwrap()).unwrap();
    check(&target, |i| value(i).wrapping_mul(3).wrapping_add(1));

    // Swapped: tiles, cut into parts.
    let (dims, strides) = ([COLS, ROWS], [1, COLS]);
    let input = Operand::new(&source, DType::U8, 0, &dims, &strides).unwrap();
    kernels.copy(&input, &mut Output::new(&mut target, DType::U8, 0, COUNT).unwrap()).unwrap();
    check(&target, |i| value((i % ROWS) * COLS + i / ROWS));

    // A row broadcast over a matrix: pieces of rows, cut into parts.
    let lhs = Operand::new(&source, DType::U8, 0, &[ROWS, COLS], &[COLS, 1]).unwrap();
    let rhs = Operand::new(&source, DType::U8, 0, &[ROWS, COLS], &[0, 1]).unwrap();
    kernels.binary("badd", &lhs, &rhs, &mut Output::new(&mut target, DType::U8, 0, COUNT).unwrap()).unwrap();
    check(&target, |i| value(i).wrapping_add(value(i % COLS)));

    // Element by element: the memory is not aligned for anything better.
    let count = COUNT - 1;
    let shape = [count];
    let input = Operand::new(&source, DType::U8, 1, &shape, &[1]).unwrap();
    kernels.copy(&input, &mut Output::new(&mut target, DType::U8, 0, count).unwrap()).unwrap();
    let got = target.to_vec().unwrap();
    assert!((0..count).all(|i| got[i] == value(i + 1)));

    // Rows by ids from beyond 2^31.
    let ids: Vec<u32> = (0..ROWS as u32).rev().collect();
    let ids = stream.upload(&ids).unwrap();
    let ids = Operand::new(&ids, DType::U32, 0, &[ROWS], &[1]).unwrap();
    let src = Operand::new(&source, DType::U8, 0, &[ROWS, COLS], &[COLS, 1]).unwrap();
    kernels.index_select(&src, &ids, 0, &mut Output::new(&mut target, DType::U8, 0, COUNT).unwrap()).unwrap();
    kernels.check(&stream).unwrap();
    check(&target, |i| value((ROWS - 1 - i / COLS) * COLS + i % COLS));

    // One row, over several launches whose pieces the last block merges.
    let input = Operand::new(&source, DType::U8, 0, &[COUNT], &[1]).unwrap();
    let mut sum = stream.alloc::<u8>(1).unwrap();
    kernels.reduce(Reduce::Sum, &input, &[0], &mut Output::new(&mut sum, DType::U8, 0, 1).unwrap()).unwrap();
    let want = (0..COUNT).fold(0u8, |sum, i| sum.wrapping_add(value(i)));
    assert_eq!(sum.to_vec().unwrap(), [want]);
    let mut last = stream.upload(&[0u32]).unwrap();
    target.slice_mut(..).unwrap().zero().unwrap();
    target.slice_mut(COUNT - 3..COUNT - 2).unwrap().write(&[1]).unwrap();
    let input = Operand::new(&target, DType::U8, 0, &[COUNT], &[1]).unwrap();
    kernels.reduce(Reduce::ArgMax, &input, &[0], &mut Output::new(&mut last, DType::U32, 0, 1).unwrap()).unwrap();
    assert_eq!(last.to_vec().unwrap(), [(COUNT - 3) as u32]);
}
