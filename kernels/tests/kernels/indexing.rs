//! Reads and writes through ids, against loops in the order of the CPU backend; ids that mean "none", ids out of range.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use candle_rocm_kernels::{DType, Kernels, Operand, OperandMut, Output};

/// Tensor shape, dimension, number of ids along it.
const SHAPES: [(&[usize], usize, usize); 9] = [
    (&[5], 0, 9),
    (&[7, 3], 0, 4),
    (&[4, 6], 1, 11),
    (&[2, 5, 64], 1, 3),
    (&[9, 16], 0, 300),
    (&[3, 4, 5], 2, 7),
    (&[2, 3, 2, 8], 1, 5),
    (&[6, 2], 0, 0),
    (&[1, 40, 33], 1, 70),
];

/// Ids below `size`, one in twelve of them "none".
fn some_ids<I: Element>(random: &mut Random, count: usize, size: usize) -> Vec<I> {
    (0..count)
        .map(|_| if random.below(12) == 0 { none::<I>() } else { I::from_bits(random.below(size) as u64) })
        .collect()
}

fn none<I: Element>() -> I {
    I::from_bits(match I::DTYPE {
        DType::U8 => u64::from(u8::MAX),
        DType::U32 => u64::from(u32::MAX),
        DType::I16 => i16::MAX as u64,
        DType::I32 => i32::MAX as u64,
        _ => i64::MAX as u64,
    })
}

fn with_dim(dims: &[usize], dim: usize, size: usize) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims[dim] = size;
    dims
}

/// Small whole numbers: sums of them are exact in every dtype and in any order.
fn whole<T: Element>(random: &mut Random, count: usize) -> Vec<T> {
    (0..count).map(|_| T::from_f64(random.below(2) as f64)).collect()
}

fn add<T: Element>(a: T, b: T) -> T {
    T::from_f64(a.to_f64() + b.to_f64())
}

fn check<T: Element, I: Element>(bench: &Bench) {
    let mut random = Random::new(43);
    let kernels = &bench.kernels;
    for (dims, dim, count) in SHAPES {
        let (left, size, right): (usize, usize, usize) =
            (dims[..dim].iter().product(), dims[dim], dims[dim + 1..].iter().product());
        let what = |op: &str| format!("{op} of {} by {} in {dims:?}, {count} along {dim}", T::DTYPE, I::DTYPE);
        let src = random.awkward::<T>(left * size * right);
        let zero = T::from_bits(0);

        // Rows by ids with a gap between them.
        let spread = some_ids::<I>(&mut random, 2 * count + 1, size);
        let row_ids: Vec<I> = (0..count).map(|i| spread[1 + 2 * i]).collect();
        let source = bench.contiguous(&src, dims);
        let ids = bench.tensor(&spread, 1, &[count], &[2]);
        let mut want = Vec::new();
        for l in 0..left {
            for id in &row_ids {
                for r in 0..right {
                    let at = |id: &I| (l * size + id.bits() as usize) * right + r;
                    want.push(if *id == none() { zero } else { src[at(id)] });
                }
            }
        }
        let got =
            bench.result::<T>(want.len(), |out| kernels.index_select(&source.operand(), &ids.operand(), dim, out));
        assert_same(&got, &want, || what("index_select"));

        // One id an element.
        let many_dims = with_dim(dims, dim, count);
        let many = some_ids::<I>(&mut random, left * count * right, size);
        let ids = bench.contiguous(&many, &many_dims);
        let place = |l: usize, i: usize, r: usize| (l * count + i) * right + r;
        let positions = || (0..left).flat_map(|l| (0..count).flat_map(move |i| (0..right).map(move |r| (l, i, r))));
        let target = |l: usize, id: I, r: usize| (id != none()).then(|| (l * size + id.bits() as usize) * right + r);
        let want: Vec<T> =
            positions().map(|(l, i, r)| target(l, many[place(l, i, r)], r).map_or(zero, |at| src[at])).collect();
        let got = bench.result::<T>(want.len(), |out| kernels.gather(&source.operand(), &ids.operand(), dim, out));
        assert_same(&got, &want, || what("gather"));

        // Writes: no two elements for one destination, since then the winner would not be defined.
        let distinct: Vec<I> = positions()
            .map(|(_, i, r)| if i < size { I::from_bits(((i + r) % size) as u64) } else { none() })
            .collect();
        let ids = bench.contiguous(&distinct, &many_dims);
        let mut want = src.clone();
        let values_data = random.awkward::<T>(left * count * right);
        let values = bench.contiguous(&values_data, &many_dims);
        for (l, i, r) in positions() {
            if let Some(at) = target(l, distinct[place(l, i, r)], r) {
                want[at] = values_data[place(l, i, r)];
            }
        }
        let mut written = bench.contiguous(&src, dims);
        kernels.scatter(&mut written.operand_mut(), &ids.operand(), &values.operand(), dim).unwrap();
        assert_same(&written.download::<T>(), &want, || what("scatter"));
    }
    kernels.check(&bench.stream).expect("all ids were in range");
}

/// Sums, several elements for one destination, by ids of one dtype.
fn check_sums<T: Element, I: Element>(bench: &Bench) {
    let mut random = Random::new(47);
    let kernels = &bench.kernels;
    for (dims, dim, count) in SHAPES {
        let (left, size, right): (usize, usize, usize) =
            (dims[..dim].iter().product(), dims[dim], dims[dim + 1..].iter().product());
        let what = |op: &str| format!("{op} of {} by {} in {dims:?}, {count} along {dim}", T::DTYPE, I::DTYPE);
        let place = |l: usize, i: usize, r: usize| (l * count + i) * right + r;
        let positions = || (0..left).flat_map(|l| (0..count).flat_map(move |i| (0..right).map(move |r| (l, i, r))));
        let target = |l: usize, id: I, r: usize| (id != none()).then(|| (l * size + id.bits() as usize) * right + r);
        let sums = |start: &[T], added: &[T], id: &dyn Fn(usize, usize, usize) -> I| {
            let mut sums = start.to_vec();
            for (l, i, r) in positions() {
                if let Some(at) = target(l, id(l, i, r), r) {
                    sums[at] = add(sums[at], added[place(l, i, r)]);
                }
            }
            sums
        };
        let many_dims = with_dim(dims, dim, count);
        let start = whole::<T>(&mut random, left * size * right);
        let added = whole::<T>(&mut random, left * count * right);
        let values = bench.contiguous(&added, &many_dims);

        let many = some_ids::<I>(&mut random, left * count * right, size);
        let ids = bench.contiguous(&many, &many_dims);
        let mut sum = bench.contiguous(&start, dims);
        kernels.scatter_add(&mut sum.operand_mut(), &ids.operand(), &values.operand(), dim).unwrap();
        let want = sums(&start, &added, &|l, i, r| many[place(l, i, r)]);
        assert_same(&sum.download::<T>(), &want, || what("scatter_add"));

        // Ids with a gap between them.
        let spread = some_ids::<I>(&mut random, 2 * count + 1, size);
        let ids = bench.tensor(&spread, 1, &[count], &[2]);
        let mut sum = bench.contiguous(&start, dims);
        kernels.index_add(&mut sum.operand_mut(), &ids.operand(), &values.operand(), dim).unwrap();
        let want = sums(&start, &added, &|_, i, _| spread[1 + 2 * i]);
        assert_same(&sum.download::<T>(), &want, || what("index_add"));
    }
    kernels.check(&bench.stream).expect("all ids were in range");
}

/// Fewer ids than elements along the first dimension and along the one behind.
fn gather_from_more(bench: &Bench) {
    let mut random = Random::new(53);
    let shapes: [(&[usize], &[usize], usize); 6] = [
        (&[7, 5], &[3, 9], 1),
        (&[4, 6], &[9, 2], 0),
        (&[5, 4, 6], &[2, 3, 5], 1),
        (&[5, 4, 6, 3], &[2, 9, 4, 3], 1),
        (&[3, 70, 33], &[3, 200, 1], 1),
        (&[3, 5, 4], &[0, 5, 2], 1),
    ];
    for (dims, ids_dims, dim) in shapes {
        let src = random.awkward::<f32>(dims.iter().product());
        let ids_data = some_ids::<u32>(&mut random, ids_dims.iter().product(), dims[dim]);
        let (source, ids) = (bench.contiguous(&src, dims), bench.contiguous(&ids_data, ids_dims));
        let want: Vec<f32> = (0..ids_data.len())
            .map(|i| {
                // The position of the id, taken apart by the ids' shape and put together by the source's.
                let (mut left, mut at, mut stride) = (i, 0, 1);
                for d in (0..dims.len()).rev() {
                    let position = if d == dim { ids_data[i] as usize } else { left % ids_dims[d] };
                    left /= ids_dims[d];
                    at += position * stride;
                    stride *= dims[d];
                }
                if ids_data[i] == u32::MAX {
                    0.0
                } else {
                    src[at]
                }
            })
            .collect();
        let got =
            bench.result::<f32>(want.len(), |out| bench.kernels.gather(&source.operand(), &ids.operand(), dim, out));
        assert_same(&got, &want, || format!("gather by {ids_dims:?} from {dims:?} along {dim}"));
    }
}

fn by_all_ids<T: Element>(bench: &Bench) {
    check::<T, u8>(bench);
    check::<T, u32>(bench);
    check::<T, i64>(bench);
    check_sums::<T, u8>(bench);
    check_sums::<T, u32>(bench);
    check_sums::<T, i16>(bench);
    check_sums::<T, i32>(bench);
    check_sums::<T, i64>(bench);
}

/// An id out of range: the error names the operation, the id and the size; the memory around is untouched, which
/// the checked device watches over; the next operation works.
fn ids_out_of_range(bench: &Bench) {
    let stream = bench.kernels.device().new_stream().unwrap();
    let (kernels, other) = (Kernels::new(&stream).unwrap(), bench.kernels.device().new_stream().unwrap());
    let source = stream.upload(&[10.0f32, 20.0, 30.0]).unwrap();
    let src = Operand::new(&source, DType::F32, 0, &[3], &[1]).unwrap();
    for id in [3i64, -1, i64::MIN, 1 << 40] {
        let ids = stream.upload(&[0i64, id, 2]).unwrap();
        let ids = Operand::new(&ids, DType::I64, 0, &[3], &[1]).unwrap();
        let mut target = stream.upload(&[1.0f32, 1.0, 1.0]).unwrap();
        let expect = |operation: &str| {
            let error = kernels.check(&stream).unwrap_err().to_string();
            assert!(
                error.contains(operation) && error.contains(&id.to_string()) && error.contains("size 3"),
                "{operation} with {id}: {error}"
            );
            kernels.check(&stream).expect("reported once");
        };
        kernels.index_select(&src, &ids, 0, &mut Output::new(&mut target, DType::F32, 0, 3).unwrap()).unwrap();
        kernels.check(&other).expect("the work of another stream");
        expect("index-select");
        assert_eq!(target.to_vec().unwrap(), [10.0, 0.0, 30.0]);
        kernels.gather(&src, &ids, 0, &mut Output::new(&mut target, DType::F32, 0, 3).unwrap()).unwrap();
        expect("gather");
        type Write = fn(&Kernels, &mut OperandMut<'_>, &Operand<'_>, &Operand<'_>, usize) -> hip::Result<()>;
        let writes: [(&str, Write); 3] =
            [("scatter", Kernels::scatter), ("scatter-add", Kernels::scatter_add), ("index-add", Kernels::index_add)];
        for (operation, write) in writes {
            let mut dst = OperandMut::new(&mut target, DType::F32, 0, &[3], &[1]).unwrap();
            write(&kernels, &mut dst, &ids, &src, 0).unwrap();
            expect(operation);
        }
    }
}

fn bad_shapes_are_refused(bench: &Bench) {
    let x = bench.contiguous(&[0.0f32; 12], &[3, 4]);
    let swapped = bench.tensor(&[0.0f32; 12], 0, &[4, 3], &[1, 4]);
    let ids = bench.contiguous(&[0u32; 4], &[2, 2]);
    let float_ids = bench.contiguous(&[0.0f32; 2], &[2]);
    let mut memory = bench.stream.zeros::<f32>(8).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 8).unwrap();
    let refused = |error: hip::Result<()>, words: &[&str]| {
        let error = error.unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(bench.kernels.index_select(&x.operand(), &ids.operand(), 0, &mut out), &["index-select", "one dimension"]);
    refused(bench.kernels.index_select(&x.operand(), &float_ids.operand(), 2, &mut out), &["dimension 2", "[3, 4]"]);
    refused(bench.kernels.index_select(&x.operand(), &float_ids.operand(), 0, &mut out), &["is", "f32"]);
    let long = bench.contiguous(&[0u32; 10], &[2, 5]);
    refused(bench.kernels.gather(&x.operand(), &long.operand(), 0, &mut out), &["gather", "[2, 5]", "[3, 4]"]);
    let short_ids = bench.contiguous(&[0i16; 8], &[2, 4]);
    refused(bench.kernels.gather(&x.operand(), &short_ids.operand(), 0, &mut out), &["gather", "i16"]);
    refused(bench.kernels.gather(&swapped.operand(), &ids.operand(), 0, &mut out), &["gather", "contiguous"]);
}

pub fn family(bench: &Bench) {
    for_types!(by_all_ids(bench) over all);
    gather_from_more(bench);
    ids_out_of_range(bench);
    bad_shapes_are_refused(bench);
}
