//! Reads and writes through ids, sorting, and what moves whole pieces of tensors: joining, caches, rotary embeddings.

use super::super::case::{ids, label, random, Cases, Work};
use candle_core::{DType, Tensor};
use candle_transformers::utils::repeat_kv;

pub fn add_to(cases: &mut Cases) {
    select(cases);
    scatter(cases);
    sort(cases);
    pieces(cases);
}

fn select(cases: &mut Cases) {
    let (vocabulary, width, rows) = cases.size.choose((128256, 4096, 2048), (8016, 256, 512), (8016, 4096, 256));
    let bytes = 2 * rows * width * DType::F16.size_in_bytes() + 4 * rows;
    let name = format!("index_select {}, {rows} rows", label(DType::F16, &[vocabulary, width]));
    cases.op("indexing", name, Work::new(bytes, 0).over(rows * width), move |device| {
        let (table, at) = (random(device, DType::F16, (vocabulary, width))?, ids(device, rows, vocabulary)?);
        Ok(move || table.index_select(&at, 0))
    });
    let (height, width, rows) = cases.size.choose((8192, 4096, 2048), (512, 256, 128), (512, 4096, 128));
    let name = format!("index_add {}, {rows} rows", label(DType::F32, &[height, width]));
    // The result is a copy of the whole, into which the rows are added.
    let bytes = 4 * (2 * height * width + 3 * rows * width);
    cases.op("indexing", name, Work::new(bytes, rows * width).over(height * width), move |device| {
        let x = random(device, DType::F32, (height, width))?;
        let (at, source) = (ids(device, rows, height)?, random(device, DType::F32, (rows, width))?);
        Ok(move || x.index_add(&at, &source, 0))
    });
}

fn scatter(cases: &mut Cases) {
    let (height, width, columns) = cases.size.choose((4096, 4096, 1024), (256, 512, 128), (256, 4096, 1024));
    let suffix = format!("{}, {height}x{columns} ids, dim 1", label(DType::F32, &[height, width]));
    let touched = height * columns;
    cases.op("indexing", format!("gather {suffix}"), Work::new(12 * touched, 0).over(touched), move |device| {
        let (x, at) = (random(device, DType::F32, (height, width))?, ids(device, (height, columns), width)?);
        Ok(move || x.gather(&at, 1))
    });
    let bytes = 4 * (2 * height * width + 4 * touched);
    let work = Work::new(bytes, touched).over(height * width);
    cases.op("indexing", format!("scatter_add {suffix}"), work, move |device| {
        let (x, at) = (random(device, DType::F32, (height, width))?, ids(device, (height, columns), width)?);
        let source = random(device, DType::F32, (height, columns))?;
        Ok(move || x.scatter_add(&at, &source, 1))
    });
}

fn sort(cases: &mut Cases) {
    for (dtype, dims) in cases.size.choose(
        [(DType::F32, [32, 8192]), (DType::F32, [32, 128256]), (DType::F16, [4096, 1024]), (DType::U32, [1 << 16, 64])],
        [(DType::F32, [4, 8192]), (DType::F32, [1, 32064]), (DType::F16, [64, 1024]), (DType::U32, [256, 64])],
        [(DType::F32, [8, 8192]), (DType::F32, [4, 128256]), (DType::F16, [128, 1024]), (DType::U32, [2048, 64])],
    ) {
        let count: usize = dims.iter().product();
        let work = Work::new(count * (dtype.size_in_bytes() + 4), 0).over(count);
        cases.op("sort", format!("arg_sort {}", label(dtype, &dims)), work, move |device| {
            let x = random(device, dtype, dims.as_slice())?;
            Ok(move || x.arg_sort_last_dim(true))
        });
    }
}

fn pieces(cases: &mut Cases) {
    let (rows, columns) = cases.size.choose((4096, 4096), (256, 512), (256, 4096));
    let halves = label(DType::F16, &[rows, columns]);
    let both = 2 * 2 * rows * columns * DType::F16.size_in_bytes();
    for dim in [0, 1] {
        let work = Work::new(both, 0).over(2 * rows * columns);
        cases.op("pieces", format!("cat of two {halves}, dim {dim}"), work, move |device| {
            let (a, b) = (random(device, DType::F16, (rows, columns))?, random(device, DType::F16, (rows, columns))?);
            Ok(move || Tensor::cat(&[&a, &b], dim))
        });
    }
    let [batch, heads, length, width] = cases.size.choose([4, 8, 4096, 128], [1, 4, 128, 64], [1, 4, 1024, 128]);
    let cache = label(DType::F16, &[batch, heads, length, width]);
    let half = length / 2;
    let bytes = 2 * batch * heads * half * width * DType::F16.size_in_bytes();
    let work = Work::new(bytes, 0).over(batch * heads * half * width);
    cases.op("pieces", format!("slice_set of half of {cache}, dim 2"), work, move |device| {
        let to = random(device, DType::F16, (batch, heads, length, width))?;
        let from = random(device, DType::F16, (batch, heads, half, width))?;
        Ok(move || to.slice_set(&from, 2, half / 2).map(|()| to.clone()))
    });
    let bytes = 5 * batch * heads * length * width * DType::F16.size_in_bytes();
    let work = Work::new(bytes, 0).over(4 * batch * heads * length * width);
    cases.op("pieces", format!("repeat_kv x4 {cache}"), work, move |device| {
        let x = random(device, DType::F16, (batch, heads, length, width))?;
        Ok(move || repeat_kv(x.clone(), 4))
    });
    let count = batch * heads * length * width;
    let work = Work::new(2 * count * DType::F16.size_in_bytes(), 3 * count).over(count);
    cases.op("pieces", format!("rope {cache}"), work, move |device| {
        let x = random(device, DType::F16, (batch, heads, length, width))?;
        let (cos, sin) =
            (random(device, DType::F16, (length, width / 2))?, random(device, DType::F16, (length, width / 2))?);
        Ok(move || candle_nn::rotary_emb::rope(&x, &cos, &sin))
    });
}
