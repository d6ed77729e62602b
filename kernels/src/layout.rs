//! Geometry: common shapes collapsed to as few dimensions as possible, cut into pieces that 32-bit indices reach, and
//! packed into the structures the kernels take by value (`hip/portable/index.h`). What is done with them is decided elsewhere.

use crate::tensor::MAX_RANK;
use bytemuck::{Pod, Zeroable};

/// Dimensions a kernel can walk.
pub const MAX_DIMS: usize = 8;

/// Operands a shape can have: three inputs and the output.
pub const MAX_OPERANDS: usize = 4;

/// A linear index in a kernel stays below this: the divider needs the top bit.
pub const INDEX_LIMIT: u64 = 1 << 31;

/// A part of a cut shape has fewer elements than this, so that its launch has fewer than 2^21 blocks whatever the kernel
/// takes at a time: the embedded device is compiled for that, and the divider's limit is far.
pub const PART_LIMIT: u64 = 1 << 28;

/// Blocks along x of one launch, for the same reason.
pub const MAX_BLOCKS: u64 = 1 << 20;

/// Division by an invariant number, as a multiplication and a shift.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Divider {
    divisor: u32,
    magic: u32,
    shift: u32,
}

impl Divider {
    /// For dividends below 2^31. A divisor of 0 is taken for 1; one above 2^31 for 2^31, which divides them alike.
    pub fn new(divisor: u64) -> Self {
        let divisor = divisor.clamp(1, INDEX_LIMIT);
        let shift = divisor.next_power_of_two().trailing_zeros();
        let magic = (((1u64 << 32) * ((1u64 << shift) - divisor)) / divisor + 1) as u32;
        Self { divisor: divisor as u32, magic, shift }
    }
}

/// A shape with the strides of its operands; dimension 0 is the innermost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Strided<const OPERANDS: usize> {
    rank: u32,
    count: u32,
    size: [Divider; MAX_DIMS],
    stride: [[u64; MAX_DIMS]; OPERANDS],
}

// The derive takes no structures with parameters, so the compiler is asked here whether fields leave gaps: it evaluates the
// assertion for every number of operands that is packed.
impl<const OPERANDS: usize> Strided<OPERANDS> {
    const NO_PADDING: () =
        assert!(size_of::<Self>() == 8 + MAX_DIMS * size_of::<Divider>() + OPERANDS * MAX_DIMS * size_of::<u64>());
}

// SAFETY: integers only, without padding (`NO_PADDING`), so every bit pattern, zero included, is a value.
unsafe impl<const OPERANDS: usize> Zeroable for Strided<OPERANDS> {}
// SAFETY: as above.
unsafe impl<const OPERANDS: usize> Pod for Strided<OPERANDS> {}

/// Rows and columns that pass through a tile, and the dimensions around them. OPERANDS counts the output too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tiled<const OPERANDS: usize> {
    rows: u32,
    cols: u32,
    swapped: u32,
    unused: u32,
    row_tiles: Divider,
    col_tiles: Divider,
    row_stride: [u64; OPERANDS],
    col_stride: [u64; OPERANDS],
    outer: Strided<OPERANDS>,
}

impl<const OPERANDS: usize> Tiled<OPERANDS> {
    const NO_PADDING: () = assert!(
        size_of::<Self>()
            == 16 + 2 * size_of::<Divider>() + 2 * OPERANDS * size_of::<u64>() + size_of::<Strided<OPERANDS>>()
    );
}

// SAFETY: integers only, without padding (`NO_PADDING`), so every bit pattern, zero included, is a value.
unsafe impl<const OPERANDS: usize> Zeroable for Tiled<OPERANDS> {}
// SAFETY: as above.
unsafe impl<const OPERANDS: usize> Pod for Tiled<OPERANDS> {}

/// The strides of a contiguous tensor, in elements, the last dimension innermost. Those past its rank are 0.
pub fn row_major(dims: &[usize]) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut stride = 1;
    for (to, size) in strides[..dims.len()].iter_mut().zip(dims).rev() {
        *to = stride;
        stride *= size;
    }
    strides
}

/// A shape while it is being worked on: sizes and strides in elements, innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Dimensions in use; at least 1.
    pub rank: usize,
    /// Elements along each dimension.
    pub size: [u64; MAX_RANK],
    /// The stride of each operand along each dimension.
    pub stride: [[u64; MAX_RANK]; MAX_OPERANDS],
    /// Operands in use.
    pub operands: usize,
}

impl Shape {
    /// The shape `dims` (outermost first) of operands with `strides`, without dimensions of one element and with
    /// neighbours merged wherever every operand steps through them evenly.
    pub fn collapse(dims: &[usize], strides: &[&[usize]]) -> Self {
        let mut shape =
            Self { rank: 0, size: [1; MAX_RANK], stride: [[0; MAX_RANK]; MAX_OPERANDS], operands: strides.len() };
        for d in (0..dims.len()).rev() {
            let size = dims[d] as u64;
            if size == 1 {
                continue;
            }
            let last = shape.rank.wrapping_sub(1);
            let even = shape.rank > 0
                && strides.iter().enumerate().all(|(k, s)| s[d] as u64 == shape.stride[k][last] * shape.size[last]);
            if even {
                shape.size[last] *= size;
            } else {
                for (k, s) in strides.iter().enumerate() {
                    shape.stride[k][shape.rank] = s[d] as u64;
                }
                shape.size[shape.rank] = size;
                shape.rank += 1;
            }
        }
        // A single element is a row of one; its strides do not matter, and 1 makes it contiguous.
        if shape.rank == 0 {
            shape.rank = 1;
            (0..shape.operands).for_each(|k| shape.stride[k][0] = 1);
        }
        shape
    }

    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.size[..self.rank].iter().product()
    }

    /// True when operand `k` is walked from one element to the next.
    pub fn is_contiguous(&self, k: usize) -> bool {
        self.rank == 1 && self.stride[k][0] == 1
    }

    /// Dimension 0 in pieces of `width` elements, which divides it.
    pub fn in_pieces_of(mut self, width: u64) -> Self {
        self.size[0] /= width;
        (0..self.operands).for_each(|k| self.stride[k][0] *= width);
        self
    }

    /// Calls `each` with parts of the shape that a kernel can index, and with what to add to the address of each
    /// operand (in elements). Parts are cut along the outermost dimensions only. Nearly always there is one.
    pub fn cut<E>(&self, each: &mut impl FnMut(&Shape, [u64; MAX_OPERANDS]) -> Result<(), E>) -> Result<(), E> {
        self.cut_from([0; MAX_OPERANDS], each)
    }

    fn cut_from<E>(
        &self,
        start: [u64; MAX_OPERANDS],
        each: &mut impl FnMut(&Shape, [u64; MAX_OPERANDS]) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = self.count();
        if count < PART_LIMIT && self.rank <= MAX_DIMS {
            return if count == 0 { Ok(()) } else { each(self, start) };
        }
        let outer = self.rank - 1;
        let inner = count / self.size[outer];
        let step = if self.rank > MAX_DIMS || inner >= PART_LIMIT { 1 } else { (PART_LIMIT - 1) / inner };
        let mut first = 0;
        while first < self.size[outer] {
            let mut part = *self;
            part.size[outer] = step.min(self.size[outer] - first);
            if part.size[outer] == 1 && outer > 0 {
                part.rank = outer;
            }
            let mut at = start;
            (0..self.operands).for_each(|k| at[k] += first * self.stride[k][outer]);
            part.cut_from(at, each)?;
            first += step;
        }
        Ok(())
    }

    /// Packs the first OPERANDS operands for a kernel. Only for what [`Shape::cut`] hands out.
    pub fn pack<const OPERANDS: usize>(&self) -> Strided<OPERANDS> {
        const { Strided::<OPERANDS>::NO_PADDING };
        debug_assert!(self.rank <= MAX_DIMS && self.count() < INDEX_LIMIT);
        let mut packed = Strided {
            rank: self.rank as u32,
            count: self.count() as u32,
            size: [Divider::default(); MAX_DIMS],
            stride: [[0; MAX_DIMS]; OPERANDS],
        };
        for d in 0..self.rank {
            packed.size[d] = Divider::new(self.size[d]);
            for k in 0..OPERANDS {
                packed.stride[k][d] = self.stride[k][d];
            }
        }
        packed
    }

    /// The dimension along which input `k` lies in memory, when that is not the innermost one and both are long enough
    /// for a tile to pay.
    pub fn swapped_dimension(&self, k: usize) -> Option<usize> {
        const LEAST: u64 = 16;
        if self.size[0] < LEAST || self.stride[k][0] <= 1 {
            return None;
        }
        (1..self.rank).find(|&d| self.stride[k][d] == 1 && self.size[d] >= LEAST)
    }

    /// Packs for tiles of `side` x `side`, rows along dimension `row`. OPERANDS counts the output, which is the last.
    /// `None` when there is no such dimension, or a number does not fit the kernel.
    pub fn tile<const OPERANDS: usize>(&self, row: usize, side: u64) -> Option<(Tiled<OPERANDS>, u32)> {
        const { Tiled::<OPERANDS>::NO_PADDING };
        if row >= self.rank {
            return None;
        }
        let mut outer = Shape { rank: 0, ..*self };
        for d in (1..self.rank).filter(|&d| d != row) {
            outer.size[outer.rank] = self.size[d];
            (0..self.operands).for_each(|k| outer.stride[k][outer.rank] = self.stride[k][d]);
            outer.rank += 1;
        }
        if outer.rank == 0 {
            outer.rank = 1;
            outer.size[0] = 1;
        }
        let (rows, cols) = (self.size[row], self.size[0]);
        let (row_tiles, col_tiles) = (rows.div_ceil(side), cols.div_ceil(side));
        let blocks = row_tiles.checked_mul(col_tiles)?.checked_mul(outer.count())?;
        if outer.rank > MAX_DIMS || blocks >= INDEX_LIMIT || rows >= INDEX_LIMIT || cols >= INDEX_LIMIT {
            return None;
        }
        let inputs = OPERANDS - 1;
        let swapped = (0..inputs).filter(|&k| self.swapped_dimension(k) == Some(row)).fold(0, |bits, k| bits | 1 << k);
        let along = |d: usize| std::array::from_fn(|k| self.stride[k][d]);
        let tiled = Tiled {
            rows: rows as u32,
            cols: cols as u32,
            swapped,
            unused: 0,
            row_tiles: Divider::new(row_tiles),
            col_tiles: Divider::new(col_tiles),
            row_stride: along(row),
            col_stride: along(0),
            outer: outer.pack(),
        };
        Some((tiled, blocks as u32))
    }
}

crate::shared::shared! {
    ["MAX_DIMS": MAX_DIMS]
    "Divider": Divider { divisor, magic, shift }
    "Strided1": Strided<1> { rank, count, size, stride }
    "Strided4": Strided<4> { rank, count, size, stride }
    "Tiled4": Tiled<4> { rows, cols, swapped, row_tiles, col_tiles, row_stride, col_stride, outer }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dimension_is_innermost() {
        assert_eq!(row_major(&[2, 3, 4])[..4], [12, 4, 1, 0]);
        assert_eq!(row_major(&[5, 0, 4])[..3], [0, 4, 1]);
        assert_eq!(row_major(&[]), [0; MAX_RANK]);
    }

    fn quotient(divider: Divider, n: u32) -> u32 {
        // In 32 bits, as the kernels do it.
        let high = ((u64::from(n) * u64::from(divider.magic)) >> 32) as u32;
        high.wrapping_add(n) >> divider.shift
    }

    #[test]
    fn dividers_divide() {
        let mut numbers: Vec<u32> =
            (0..32).flat_map(|k| [1u32 << k, (1u32 << k).wrapping_sub(1), (1 << k) | 1]).collect();
        numbers.extend([3, 5, 7, 10, 100, 641, 6_700_417, 1_000_000_007, 2_147_483_647]);
        for &divisor in numbers.iter().filter(|&&d| d > 0 && u64::from(d) <= INDEX_LIMIT) {
            let divider = Divider::new(u64::from(divisor));
            for &n in numbers.iter().filter(|&&n| u64::from(n) < INDEX_LIMIT) {
                assert_eq!(quotient(divider, n), n / divisor, "{n} / {divisor}");
            }
        }
    }

    #[test]
    fn contiguous_dimensions_become_one() {
        let shape = Shape::collapse(&[2, 1, 3, 4], &[&[12, 99, 4, 1], &[12, 12, 4, 1]]);
        assert_eq!((shape.rank, shape.size[0]), (1, 24));
        assert!(shape.is_contiguous(0) && shape.is_contiguous(1));
    }

    #[test]
    fn a_broadcast_keeps_its_dimension() {
        let shape = Shape::collapse(&[2, 3, 4], &[&[12, 4, 1], &[0, 0, 1]]);
        assert_eq!((shape.rank, &shape.size[..2]), (2, &[4, 6][..]));
        assert_eq!((&shape.stride[0][..2], &shape.stride[1][..2]), (&[1, 4][..], &[1, 0][..]));
    }

    #[test]
    fn parts_cover_a_large_shape_once() {
        let big = 3_000_000_000usize;
        for (dims, strides) in [
            (vec![big], vec![1usize]),
            (vec![3, big], vec![1, 3]),
            (vec![70_000, 50_000], vec![1, 70_000]),
            (vec![2; 12], (0..12).map(|d| 3usize.pow(d)).collect()),
        ] {
            let shape = Shape::collapse(&dims, &[&strides]);
            let mut total = 0;
            let mut ends = Vec::new();
            shape
                .cut(&mut |part, start| {
                    assert!(part.count() < PART_LIMIT && part.rank <= MAX_DIMS && part.count() > 0);
                    total += part.count();
                    ends.push(start[0]);
                    Ok::<(), ()>(())
                })
                .unwrap();
            assert_eq!(total, dims.iter().map(|&d| d as u64).product::<u64>(), "{dims:?}");
            let parts = ends.len();
            ends.sort_unstable();
            ends.dedup();
            assert_eq!(ends.len(), parts, "two parts start at one place: {dims:?}");
        }
    }

    #[test]
    fn nothing_has_no_parts() {
        let shape = Shape::collapse(&[0, 5], &[&[5, 1]]);
        shape.cut(&mut |_, _| Err("called")).unwrap();
    }
}
