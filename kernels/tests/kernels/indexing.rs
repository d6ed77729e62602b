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

        // Sums: several elements for one destination.
        let small = whole::<T>(&mut random, left * size * right);
        let added = whole::<T>(&mut random, left * count * right);
        let values = bench.contiguous(&added, &many_dims);
        let mut want = small.clone();
        for (l, i, r) in positions() {
            if let Some(at) = target(l, many[place(l, i, r)], r) {
                want[at] = add(want[at], added[place(l, i, r)]);
            }
        }
        let mut sum = bench.contiguous(&small, dims);
        kernels.scatter_add(&mut sum.operand_mut(), &ids.operand(), &values.operand(), dim).unwrap();
        assert_same(&sum.download::<T>(), &want, || what("scatter_add"));

        let ids = bench.contiguous(&row_ids, &[count]);
        let mut want = small.clone();
        for (l, i, r) in positions() {
            if let Some(at) = target(l, row_ids[i], r) {
                want[at] = add(want[at], added[place(l, i, r)]);
            }
        }
        let mut sum = bench.contiguous(&small, dims);
        kernels.index_add(&mut sum.operand_mut(), &ids.operand(), &values.operand(), dim).unwrap();
        assert_same(&sum.download::<T>(), &want, || what("index_add"));

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

fn by_all_ids<T: Element>(bench: &Bench) {
    check::<T, u8>(bench);
    check::<T, u32>(bench);
    check::<T, i64>(bench);
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
    refused(bench.kernels.gather(&x.operand(), &ids.operand(), 0, &mut out), &["gather", "[2, 2]", "[3, 4]"]);
    refused(bench.kernels.gather(&swapped.operand(), &ids.operand(), 0, &mut out), &["gather", "contiguous"]);
}

pub fn family(bench: &Bench) {
    for_types!(by_all_ids(bench) over all);
    ids_out_of_range(bench);
    bad_shapes_are_refused(bench);
}
