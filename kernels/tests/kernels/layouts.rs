//! The layouts every elementwise kernel is tried on: sizes around the vector width and the block, and strides that lead to
//! each variant. The fixed list reaches all four variants for every dtype; the random one looks for what nobody thought of.

use crate::element::Random;

/// A shape with, for each of up to three inputs, strides and a start.
#[derive(Clone, Debug)]
pub struct Case {
    pub dims: Vec<usize>,
    pub inputs: [(usize, Vec<usize>); 3],
    /// Elements before the output, to spoil its alignment.
    pub out_start: usize,
}

impl Case {
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The elements input `k` needs.
    pub fn span(&self, k: usize) -> usize {
        let (start, strides) = &self.inputs[k];
        if self.count() == 0 {
            return *start;
        }
        start + self.dims.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<usize>() + 1
    }

    /// The elements of input `k` in order.
    pub fn gather<T: Copy>(&self, k: usize, memory: &[T]) -> Vec<T> {
        let (start, strides) = &self.inputs[k];
        offsets(&self.dims, strides).into_iter().map(|offset| memory[start + offset]).collect()
    }
}

/// Where the elements of a layout lie, in order.
pub fn offsets(dims: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut all = vec![0];
    for (&size, &stride) in dims.iter().zip(strides) {
        all = all.iter().flat_map(|&offset| (0..size).map(move |i| offset + i * stride)).collect();
    }
    all
}

pub fn contiguous_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    strides
}

/// One layout for all inputs.
fn same(dims: &[usize], start: usize, strides: &[usize]) -> Case {
    let input = (start, strides.to_vec());
    Case { dims: dims.to_vec(), inputs: [input.clone(), input.clone(), input], out_start: 0 }
}

/// Different layouts for the first and the other inputs.
fn mixed(dims: &[usize], first: &[usize], second: &[usize], third: &[usize]) -> Case {
    Case { dims: dims.to_vec(), inputs: [(0, first.to_vec()), (0, second.to_vec()), (0, third.to_vec())], out_start: 0 }
}

/// Layouts that reach every variant of every elementwise kernel.
pub fn fixed() -> Vec<Case> {
    let line = |count: usize| same(&[count], 0, &[1]);
    vec![
        // Contiguous: nothing, one, less than a vector, a whole block and a bit.
        line(0),
        line(1),
        line(7),
        line(4096 + 37),
        same(&[0, 3], 0, &[3, 1]),
        // Contiguous but misaligned.
        same(&[300], 1, &[1]),
        Case { out_start: 3, ..line(300) },
        // A row and a column broadcast over a matrix, and a single element over everything.
        mixed(&[5, 64], &[64, 1], &[0, 1], &[1, 0]),
        mixed(&[40, 48], &[0, 1], &[48, 1], &[0, 0]),
        same(&[3, 32], 0, &[0, 0]),
        // Rows with a gap between them, in whole pieces.
        same(&[7, 32], 16, &[48, 1]),
        same(&[2, 9, 160], 0, &[160 * 9 * 2, 320, 1]),
        // Swapped dimensions: ragged tiles, an outer dimension, one input swapped and another not.
        same(&[37, 70], 0, &[1, 37]),
        same(&[3, 65, 33], 5, &[65 * 33, 1, 65]),
        mixed(&[40, 24], &[24, 1], &[1, 40], &[0, 1]),
        same(&[17, 3, 18], 0, &[1, 17 * 18, 17]),
        // Anything else: every second element, odd widths, six dimensions in another order.
        same(&[513], 0, &[2]),
        mixed(&[11, 13], &[13, 1], &[0, 1], &[1, 0]),
        same(&[2, 3, 2, 3, 2, 3], 1, &[1, 108, 2, 36, 18, 4]),
    ]
}

/// Random layouts: up to six dimensions, permuted, broadcast, sliced.
pub fn random(seed: u64, count: usize) -> Vec<Case> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let rank = 1 + random.below(6);
            let most = [4000, 60, 16, 9, 6, 4][rank - 1];
            let dims: Vec<usize> =
                (0..rank).map(|_| if random.below(5) == 0 { 1 } else { 1 + random.below(most) }).collect();
            let mut input = || {
                // Memory holds the dimensions in some order, each a little larger than the tensor.
                let mut order: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    if random.below(2) == 0 {
                        order.swap(i, random.below(i + 1));
                    }
                }
                let mut strides = vec![0; rank];
                let mut stride = 1 + random.below(8) / 7;
                for &d in order.iter().rev() {
                    if random.below(6) == 0 {
                        continue; // a broadcast
                    }
                    strides[d] = stride;
                    stride *= dims[d] + if random.below(3) == 0 { random.below(3) } else { 0 };
                }
                (if random.below(2) == 0 { random.below(5) } else { 0 }, strides)
            };
            let inputs = [input(), input(), input()];
            Case { dims, inputs, out_start: random.below(8) / 7 }
        })
        .collect()
}
