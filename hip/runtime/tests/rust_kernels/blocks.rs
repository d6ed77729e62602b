//! What threads do together: shared memory, barriers, waves, atomic operations, grids of three dimensions, structures, generics.

use crate::streams;
use hip::LaunchConfig;

#[hip::kernels]
mod together {
    use bytemuck::{Pod, Zeroable};

    pub const BLOCK: usize = 64;
    const TILE: usize = 8;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub struct Point {
        pub x: f32,
        pub y: f32,
        pub tag: u32,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable)]
    pub struct Affine {
        pub matrix: [f32; 4],
        pub shift: Point,
    }

    #[device]
    fn apply(affine: &Affine, p: Point) -> Point {
        let m = affine.matrix;
        Point {
            x: m[0] * p.x + m[1] * p.y + affine.shift.x,
            tag: p.tag + affine.shift.tag,
            y: m[2] * p.x + m[3] * p.y + affine.shift.y,
        }
    }

    #[device]
    fn turn(p: &mut Point, times: u32) {
        for _ in 0..times {
            (p.x, p.y) = (-p.y, p.x);
        }
    }

    #[kernel]
    pub fn transform(affine: Affine, points: &mut GlobalMut<Point>) {
        let i = global_x();
        if i < points.len() {
            let mut p = apply(&affine, points[i]);
            let times = p.tag;
            turn(&mut p, times);
            points[i] = p;
            points[i].tag += 100;
        }
    }

    /// The sum of the elements that a thread of the block holds, by halves.
    #[device]
    fn block_sum(scratch: &mut Shared<[f32; BLOCK]>, mine: f32) -> f32 {
        let t = thread_x();
        scratch[t] = mine;
        barrier();
        let mut width = BLOCK / 2;
        while width > 0 {
            if t < width {
                scratch[t] += scratch[t + width];
            }
            barrier();
            width /= 2;
        }
        scratch[0]
    }

    #[kernel]
    pub fn sums(x: &[f32], out: &mut GlobalMut<f32>) {
        let mut scratch = Shared::<[f32; BLOCK]>::new();
        let i = global_x();
        let mine = if i < x.len() { x[i] } else { 0.0 };
        let sum = block_sum(&mut scratch, mine);
        if thread_x() == 0 {
            out[block_x()] = sum;
        }
    }

    #[kernel]
    pub fn transpose(x: &[u32], out: &mut GlobalMut<u32>, rows: usize, columns: usize) {
        let mut tile: Shared<[[u32; TILE]; TILE]> = Shared::new();
        let (r, c) = (block_y() * TILE + thread_y(), block_x() * TILE + thread_x());
        if r < rows && c < columns {
            tile[thread_y()][thread_x()] = x[r * columns + c];
        }
        barrier();
        let (r, c) = (block_x() * TILE + thread_y(), block_y() * TILE + thread_x());
        if r < columns && c < rows {
            out[r * rows + c] = tile[thread_x()][thread_y()];
        }
    }

    #[kernel]
    pub fn waves(x: &[i64], out: &mut GlobalMut<i64>) {
        let i = global_x();
        let mut sum = x[i];
        let mut mask = wave_size() / 2;
        while mask > 0 {
            sum += shuffle_xor(sum, mask);
            mask /= 2;
        }
        let below = shuffle_up(x[i], 1);
        let above = shuffle_down(x[i], 1);
        let first = shuffle(x[i], 0);
        let odd = ballot(x[i] % 2 == 1).count_ones() as i64;
        out[4 * i] = sum;
        out[4 * i + 1] = below * 1000 + above;
        out[4 * i + 2] = first;
        out[4 * i + 3] = odd
            + if any(x[i] == 70) { 1000 } else { 0 }
            + if all(x[i] < 64) { 2000 } else { 0 }
            + 10_000 * lane() as i64;
    }

    #[kernel]
    pub fn small_shuffles(x: &[f16], y: &[u8], out: &mut GlobalMut<f32>) {
        let i = global_x();
        out[i] = shuffle_xor(x[i], 1).to_f32() + shuffle_xor(y[i], 2) as f32;
    }

    #[kernel]
    pub fn histogram(x: &[u32], out: &mut GlobalMut<u32>) {
        let mut local = Shared::<[u32; 16]>::new();
        if thread_x() < 16 {
            local[thread_x()] = 0;
        }
        barrier();
        for i in (global_x()..x.len()).step_by(threads_x()) {
            local.atomic_add((x[i] % 16) as usize, 1);
        }
        barrier();
        if thread_x() < 16 {
            out.atomic_add(thread_x(), local[thread_x()]);
        }
    }

    #[kernel]
    pub fn atomics(out: &mut GlobalMut<i32>, sum: &mut GlobalMut<f64>) {
        let n = global_x() as i32;
        out.atomic_add(0, n);
        out.atomic_sub(1, n);
        out.atomic_min(2, n - 50);
        out.atomic_max(3, n - 50);
        out.atomic_or(4, 1 << (n & 15));
        out.atomic_and(5, !(1 << (n & 15)));
        out.atomic_xor(6, n);
        if out.atomic_compare_exchange(7, 0, n + 1) == 0 {
            out.set(8, out.get(7));
        }
        if out.atomic_exchange(9, 1) == 0 {
            out.atomic_add(10, 1);
        }
        sum.atomic_add(0, n as f64 * 0.5);
    }

    #[device]
    fn dot<T: Number>(a: &[T], b: &[T]) -> T {
        let mut sum = T::ZERO;
        for i in 0..a.len() {
            sum += a[i] * b[i];
        }
        sum
    }

    #[kernel(T = [f32, f64, i32, u8, f16])]
    pub fn generic<T: Number>(a: &[T], b: &[T], out: &mut GlobalMut<T>, k: T) {
        let local = [k; 2];
        let i = global_x();
        out[i] = dot(a, b) * k + T::from_f32(2.0) + dot(&local, &local) + dot::<T>(b, b);
    }

    #[device]
    fn bump(a: &mut u32, by: &u32) {
        *a += *by;
    }

    #[device]
    fn bump_twice(a: &mut u32, by: &u32) {
        bump(a, by);
        bump(a, by);
    }

    #[device]
    fn divide(n: u32, by: u32) -> (u32, (u32, bool)) {
        (n / by, (n % by, n % by == 0))
    }

    #[device]
    fn put(out: &mut GlobalMut<[u32; 2]>, at: usize, r#type: u32) {
        out[at][1] = r#type;
    }

    #[device]
    fn weigh(weights: [f32; 3], rows: &[[f32; 3]], at: usize) -> f32 {
        let row = rows[at];
        weights[0] * row[0] + weights[1] * row[1] + weights[2] * rows[at][2]
    }

    #[kernel]
    pub fn helpers(weights: [f32; 3], rows: &[[f32; 3]], small: u8, out: &mut GlobalMut<[u32; 2]>) {
        const PRIMES: [u32; 4] = [2, 3, 5, 7];
        let mut n = small as u32;
        let by = PRIMES[thread_x() % 4];
        bump_twice(&mut n, &by);
        let (whole, (rest, even)) = divide(n, 3);
        put(out, thread_x(), whole * 10 + rest + if even { 100 } else { 0 });
        out[thread_x()][0] = weigh(weights, rows, thread_x()) as u32;
    }

    /// Takes no memory at all.
    #[kernel]
    pub fn nothing() {
        barrier();
    }

    #[kernel]
    pub fn places(out: &mut GlobalMut<usize>) {
        let (x, y, z) = (global_x(), global_y(), global_z());
        let at = (z * (block_dim_y() * grid_dim_y()) + y) * threads_x() + x;
        out[at] =
            ((block_z() * 10 + thread_z()) * 100 + block_y() * 10 + thread_y()) * 100 + block_x() * 10 + thread_x();
    }
}

use together::{Affine, Point};

#[test]
fn structures_by_value_and_by_reference() {
    for stream in streams() {
        let points: Vec<Point> = (0..100u32).map(|n| Point { x: n as f32, y: 1.0, tag: n % 4 }).collect();
        let affine = Affine { matrix: [2.0, 0.0, 1.0, -1.0], shift: Point { x: 0.5, y: 0.25, tag: 1 } };
        let mut buffer = stream.upload(&points).unwrap();
        together::transform(&stream, LaunchConfig::for_elements(100, 64), affine, &mut buffer).unwrap();
        let expected = points.iter().map(|p| {
            let (mut x, mut y, tag) = (2.0 * p.x + 0.5, p.x - p.y + 0.25, p.tag + 1);
            (0..tag).for_each(|_| (x, y) = (-y, x));
            Point { x, y, tag: tag + 100 }
        });
        assert_eq!(buffer.to_vec().unwrap(), expected.collect::<Vec<_>>());
    }
}

#[test]
fn sums_of_blocks_through_shared_memory() {
    for stream in streams() {
        let x: Vec<f32> = (0..1000).map(|n| (n % 17) as f32).collect();
        let (input, mut out) = (stream.upload(&x).unwrap(), stream.zeros(16).unwrap());
        together::sums(&stream, LaunchConfig::new(16, together::BLOCK as u32), &input, &mut out).unwrap();
        let expected: Vec<f32> = x.chunks(together::BLOCK).map(|chunk| chunk.iter().sum()).collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    }
}

#[test]
fn a_transpose_through_a_tile() {
    let (rows, columns) = (20usize, 13usize);
    for stream in streams() {
        let x: Vec<u32> = (0..(rows * columns) as u32).collect();
        let (input, mut out) = (stream.upload(&x).unwrap(), stream.zeros(x.len()).unwrap());
        together::transpose(&stream, LaunchConfig::new((2, 3), (8, 8)), &input, &mut out, rows, columns).unwrap();
        let expected: Vec<u32> = (0..columns).flat_map(|c| (0..rows).map(move |r| (r * columns + c) as u32)).collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    }
}

#[test]
fn waves_exchange_and_vote() {
    for stream in streams() {
        let wave = stream.device().wave_size() as usize;
        let x: Vec<i64> = (0..128).collect();
        let (input, mut out) = (stream.upload(&x).unwrap(), stream.zeros(4 * 128).unwrap());
        together::waves(&stream, LaunchConfig::new(1, 128), &input, &mut out).unwrap();
        let out = out.to_vec().unwrap();
        for (i, got) in out.chunks(4).enumerate() {
            let lanes: Vec<i64> = x.chunks(wave).nth(i / wave).unwrap().to_vec();
            let (lane, n) = (i % wave, i as i64);
            let below = if lane == 0 { n } else { n - 1 };
            let above = if lane + 1 == wave { n } else { n + 1 };
            let votes = lanes.iter().filter(|n| **n % 2 == 1).count() as i64
                + if lanes.contains(&70) { 1000 } else { 0 }
                + if lanes.iter().all(|n| *n < 64) { 2000 } else { 0 }
                + 10_000 * lane as i64;
            assert_eq!(got, [lanes.iter().sum(), below * 1000 + above, lanes[0], votes], "thread {i}, waves of {wave}");
        }
    }
}

#[test]
fn small_types_are_exchanged_too() {
    use half::f16;
    for stream in streams() {
        let x = stream.upload(&(0..64).map(|n| f16::from_f32(n as f32 * 0.5)).collect::<Vec<_>>()).unwrap();
        let y = stream.upload(&(0..64).map(|n| 200 - n as u8).collect::<Vec<_>>()).unwrap();
        let mut out = stream.zeros(64).unwrap();
        together::small_shuffles(&stream, LaunchConfig::new(1, 64), &x, &y, &mut out).unwrap();
        let expected: Vec<f32> = (0..64u32).map(|n| (n ^ 1) as f32 * 0.5 + (200 - (n ^ 2)) as f32).collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    }
}

#[test]
fn atomic_operations_of_memory_and_shared_memory() {
    for stream in streams() {
        let x: Vec<u32> = (0..500).map(|n| n * n).collect();
        let (input, mut out) = (stream.upload(&x).unwrap(), stream.zeros(16).unwrap());
        together::histogram(&stream, LaunchConfig::new(3, 32), &input, &mut out).unwrap();
        let mut expected = [0u32; 16];
        x.iter().for_each(|n| expected[*n as usize % 16] += 1);
        assert_eq!(out.to_vec().unwrap(), expected);

        let (mut out, mut sum) =
            (stream.upload(&[0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0]).unwrap(), stream.zeros(1).unwrap());
        together::atomics(&stream, LaunchConfig::new(2, 64), &mut out, &mut sum).unwrap();
        let out = out.to_vec().unwrap();
        assert_eq!(out[..7], [8128, -8128, -50, 77, 0xffff, !0xffff, 0], "{out:?}");
        assert_eq!((out[7] > 0, out[8] == out[7], out[10]), (true, true, 1), "{out:?}");
        assert_eq!(sum.to_vec().unwrap(), [4064.0]);
    }
}

#[test]
fn one_kernel_for_several_types() {
    macro_rules! generic {
        ($stream:ident $($type:ty: $number:expr;)*) => {$(
            let values: Vec<$type> = [1u8, 2, 3].map(|n| $number(n)).to_vec();
            let a = $stream.upload(&values).unwrap();
            let mut out = $stream.zeros(1).unwrap();
            together::generic(&$stream, LaunchConfig::new(1, 1), &a, &a, &mut out, $number(2u8)).unwrap();
            assert_eq!(out.to_vec().unwrap(), [$number(14 * 2 + 2 + 8 + 14u8)], stringify!($type));
        )*};
    }
    for stream in streams() {
        generic!(stream f32: f32::from; f64: f64::from; i32: i32::from; u8: u8::from; half::f16: |n: u8| half::f16::from_f32(f32::from(n)););
    }
}

#[test]
fn grids_of_three_dimensions() {
    for stream in streams() {
        let mut out = stream.zeros(6 * 4 * 4).unwrap();
        together::places(&stream, LaunchConfig::new((2, 2, 2), (3, 2, 2)), &mut out).unwrap();
        let place = |n: usize, block: usize| n / block * 10 + n % block;
        let expected = (0..4).flat_map(|z| {
            (0..4).flat_map(move |y| (0..6).map(move |x| (place(z, 2) * 100 + place(y, 2)) * 100 + place(x, 3)))
        });
        assert_eq!(out.to_vec().unwrap(), expected.collect::<Vec<_>>());
    }
}

#[test]
fn helpers_take_references_arrays_and_memory() {
    for stream in streams() {
        let rows: Vec<[f32; 3]> = (0..8).map(|n| [n as f32, 1.0, 2.0]).collect();
        let (input, mut out) = (stream.upload(&rows).unwrap(), stream.zeros(8).unwrap());
        together::helpers(&stream, LaunchConfig::new(1, 8), [1.0, 2.0, 3.0], &input, 5, &mut out).unwrap();
        together::nothing(&stream, LaunchConfig::new(2, 64)).unwrap();
        let expected = (0..8usize).map(|t| {
            let n = 5 + 2 * [2, 3, 5, 7][t % 4];
            [t as u32 + 8, n / 3 * 10 + n % 3 + if n % 3 == 0 { 100 } else { 0 }]
        });
        assert_eq!(out.to_vec().unwrap(), expected.collect::<Vec<_>>());
    }
}
