//! Attention against f64: grouped heads, windows, masks, softcap, alibi, packed sequences, pages, layouts, head sizes, and keys that
//! are cut into parts. Everything a kernel does not own must stay as it was.

use crate::bench::{Bench, Tensor};
use crate::element::{Element, Random, TOLERANCES};
use crate::for_types;
use candle_rocm_kernels::{AttentionMask, AttentionOptions, AttentionWindow, DType, Output, Planning, Sequences};
use half::{bf16, f16};

/// A tensor of four dimensions, as it lies in memory and as the reference reads it.
struct Rows<T> {
    data: Vec<T>,
    tensor: Tensor,
}

/// How (batch, heads, rows, dim) lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In order.
    Plain,
    /// As (batch, rows, heads, dim).
    HeadsInside,
    /// A part of longer rows, and of more of them.
    Narrowed,
    /// From an odd place on.
    Odd,
    /// The last dimension is not contiguous.
    Transposed,
    /// All batches are the first.
    Shared,
}

const PLACES: [Place; 6] =
    [Place::Plain, Place::HeadsInside, Place::Narrowed, Place::Odd, Place::Transposed, Place::Shared];

impl Place {
    /// Where element 0 is, the strides, and how much memory that takes.
    fn layout(self, [b, h, m, d]: [usize; 4]) -> (usize, [usize; 4], usize) {
        let (start, strides) = match self {
            Place::Plain => (0, [h * m * d, m * d, d, 1]),
            Place::HeadsInside => (0, [m * h * d, d, h * d, 1]),
            Place::Narrowed => (16, [h * (m + 3) * (d + 24), (m + 3) * (d + 24), d + 24, 1]),
            Place::Odd => (3, [h * m * d, m * d, d, 1]),
            Place::Transposed => (0, [h * d * m, d * m, 1, m]),
            Place::Shared => (0, [0, m * d, d, 1]),
        };
        let last: usize = [b, h, m, d].iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        (start, strides, start + last + 1)
    }
}

impl<T: Element> Rows<T> {
    fn random(bench: &Bench, random: &mut Random, dims: [usize; 4], place: Place) -> Self {
        let (start, strides, count) = place.layout(dims);
        let data: Vec<T> = (0..count).map(|_| T::from_f64(random.between(-1.0, 1.0))).collect();
        let tensor = bench.tensor(&data, start, &dims, &strides);
        Self { data, tensor }
    }

    fn at(&self, index: [usize; 4]) -> f64 {
        let offset: usize = index.iter().zip(&self.tensor.strides).map(|(i, s)| i * s).sum();
        self.data[self.tensor.start + offset].to_f64()
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    kv_heads: usize,
    group: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    width: usize,
    places: [Place; 4],
    window: AttentionWindow,
    softcap: Option<f32>,
    alibi: bool,
    mask: Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    None,
    /// Of the queries' dtype, one for all heads.
    Own,
    /// f32, for all batches, transposed in memory.
    F32,
    /// Bytes, for all heads and batches.
    Fill,
}

impl Case {
    fn simple(queries: usize, keys: usize, depth: usize) -> Self {
        Self {
            batch: 1,
            kv_heads: 1,
            group: 1,
            queries,
            keys,
            depth,
            width: depth,
            places: [Place::Plain; 4],
            window: AttentionWindow::default(),
            softcap: None,
            alibi: false,
            mask: Mask::None,
        }
    }

    fn random(random: &mut Random, most: usize) -> Self {
        let one_in = |random: &mut Random, n| random.below(n) == 0;
        let maybe = |random: &mut Random| (random.below(2) == 0).then(|| random.below(20));
        let depth = [8, 16, 24, 33, 40, 64, 72, 80, 96, 128, 160, 200, 256, 512][random.below(14)];
        let width = if one_in(random, 4) { 8 * (1 + random.below(16)) } else { depth };
        let most_queries = if one_in(random, 3) { 4 } else { 90 };
        let most_keys = if one_in(random, 3) { 400 } else { 90 };
        let mut case = Self {
            batch: 1 + random.below(2),
            kv_heads: 1 + random.below(2),
            group: [1, 1, 2, 3, 4, 7][random.below(6)],
            queries: 1 + random.below(most_queries),
            keys: 1 + random.below(most_keys),
            depth,
            width,
            places: std::array::from_fn(|_| PLACES[random.below(PLACES.len())]),
            window: AttentionWindow::default(),
            softcap: one_in(random, 4).then_some(3.0),
            alibi: one_in(random, 4),
            mask: [Mask::None, Mask::None, Mask::Own, Mask::F32, Mask::Fill][random.below(5)],
        };
        if !one_in(random, 3) {
            let offset = one_in(random, 3).then(|| random.below(40) as isize - 20);
            case.window = AttentionWindow { left: maybe(random), right: maybe(random), offset };
        }
        if matches!(case.places[3], Place::Shared | Place::Transposed) {
            case.places[3] = Place::HeadsInside; // nobody writes one place twice, and the last dimension is contiguous
        }
        while case.batch * case.kv_heads * case.group * case.queries * case.keys * (case.depth + case.width) > most {
            case.queries = case.queries.div_ceil(2);
            case.keys = (case.keys * 2).div_ceil(3);
        }
        case
    }

    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn offset(&self) -> isize {
        self.window.offset.unwrap_or(self.keys as isize - self.queries as isize)
    }
}

/// What a row should be: each element with the sum of magnitudes that rounding goes by, and the logarithm of the sum.
struct Wanted {
    row: Vec<(f64, f64)>,
    lse: f64,
}

/// `scores` of the keys that are seen, with the values of these keys.
fn softmax_row(scores: &[f64], width: usize, value: impl Fn(usize, usize) -> f64) -> Wanted {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return Wanted { row: vec![(0.0, 0.0); width], lse: largest };
    }
    let powers: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let total: f64 = powers.iter().sum();
    let row = (0..width).map(|d| {
        let terms = powers.iter().enumerate().map(|(j, p)| p / total * value(j, d));
        terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()))
    });
    Wanted { row: row.collect(), lse: largest + total.ln() }
}

/// How far from the reference, relative to the magnitude of what was added up: f32 scores are off by some units in the last place, and
/// weights are rounded to the dtype.
fn tolerance<T: Element>() -> (f64, f64) {
    let &(_, relative, absolute) = TOLERANCES.iter().find(|(dtype, ..)| *dtype == T::DTYPE).expect("a row");
    (if T::DTYPE == DType::F32 { 4e-6 } else { 1.5 * relative }, absolute)
}

fn assert_row<T: Element>(got: &[f64], lse: f32, want: &Wanted, what: &dyn Fn() -> String) {
    let (relative, absolute) = tolerance::<T>();
    for (d, (got, (sum, magnitude))) in got.iter().zip(&want.row).enumerate() {
        let close = (got - sum).abs() <= absolute + relative * magnitude;
        assert!(close, "{}: element {d} is {got}, but should be {sum}", what());
    }
    let close = f64::from(lse) == want.lse || (f64::from(lse) - want.lse).abs() <= 2e-5 * (1.0 + want.lse.abs());
    assert!(close, "{}: the logarithm of the sum is {lse}, but should be {}", what(), want.lse);
}

fn check_case<T: Element>(bench: &Bench, case: &Case, seed: u64) {
    let Case { batch, kv_heads, queries, keys, depth, width, .. } = *case;
    let heads = case.heads();
    let mut random = Random::new(seed);
    let q = Rows::<T>::random(bench, &mut random, [batch, heads, queries, depth], case.places[0]);
    let k = Rows::<T>::random(bench, &mut random, [batch, kv_heads, keys, depth], case.places[1]);
    let v = Rows::<T>::random(bench, &mut random, [batch, kv_heads, keys, width], case.places[2]);
    let mut out = Rows::<T>::random(bench, &mut random, [batch, heads, queries, width], case.places[3]);
    let slopes: Vec<f32> = (0..heads).map(|_| random.between(0.0, 0.5) as f32).collect();
    let slopes_memory = bench.contiguous(&slopes, &[heads]);
    let hidden = |random: &mut Random| random.below(4) == 0;
    let own: Vec<T> = (0..batch * queries * keys)
        .map(|_| T::from_f64(if hidden(&mut random) { f64::NEG_INFINITY } else { random.between(-2.0, 2.0) }))
        .collect();
    let wide: Vec<f32> = (0..heads * queries * keys)
        .map(|i| if i % 5 == 0 { f32::MIN } else { random.between(-2.0, 2.0) as f32 })
        .collect();
    let bytes: Vec<u8> = (0..queries * keys).map(|_| u8::from(hidden(&mut random))).collect();
    let own_memory = bench.contiguous(&own, &[batch, 1, queries, keys]);
    let wide_memory = bench.tensor(&wide, 0, &[1, heads, queries, keys], &[0, queries * keys, 1, queries]);
    let bytes_memory = bench.contiguous(&bytes, &[1, 1, queries, keys]);

    let scale = 1.7 / (depth as f32).sqrt();
    let options = AttentionOptions {
        scale,
        softcap: case.softcap,
        window: case.window,
        mask: match case.mask {
            Mask::None => None,
            Mask::Own => Some(AttentionMask::Add(own_memory.operand())),
            Mask::F32 => Some(AttentionMask::Add(wide_memory.operand())),
            Mask::Fill => Some(AttentionMask::Fill(bytes_memory.operand(), f32::NEG_INFINITY)),
        },
        slopes: case.alibi.then(|| slopes_memory.operand()),
        ..AttentionOptions::default()
    };
    let lse = bench.result::<f32>(batch * heads * queries, |lse| {
        let mut result = out.tensor.operand_mut();
        bench.kernels.attention(
            &q.tensor.operand(),
            &k.tensor.operand(),
            &v.tensor.operand(),
            &options,
            &mut result,
            Some(lse),
        )
    });
    let before = std::mem::take(&mut out.data);
    out.data = out.tensor.download::<T>();
    let mut written = vec![false; before.len()];
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                let position = i as isize + case.offset();
                let low = case.window.left.map_or(0, |left| position - left as isize);
                let high = case.window.right.map_or(keys as isize, |right| position + right as isize);
                let scores: Vec<f64> = (0..keys)
                    .map(|j| {
                        if (j as isize) < low || j as isize > high {
                            return f64::NEG_INFINITY;
                        }
                        let kv = h / case.group;
                        let mut score: f64 = (0..depth).map(|d| q.at([b, h, i, d]) * k.at([b, kv, j, d])).sum();
                        score *= f64::from(scale);
                        if let Some(cap) = case.softcap {
                            score = f64::from(cap) * (score / f64::from(cap)).tanh();
                        }
                        if case.alibi {
                            score -= f64::from(slopes[h]) * (position - j as isize).abs() as f64;
                        }
                        match case.mask {
                            Mask::None => score,
                            Mask::Own => score + own[(b * queries + i) * keys + j].to_f64(),
                            Mask::F32 => score + f64::from(wide[(h * keys + j) * queries + i]),
                            Mask::Fill if bytes[i * keys + j] != 0 => f64::NEG_INFINITY,
                            Mask::Fill => score,
                        }
                    })
                    .collect();
                // Where nothing but the least number is left, all of these are alike.
                let scores: Vec<f64> =
                    scores.into_iter().map(|s| if s < -1e7 && s.is_finite() { -1e7 } else { s }).collect();
                let want = softmax_row(&scores, width, |j, d| v.at([b, h / case.group, j, d]));
                let got: Vec<f64> = (0..width).map(|d| out.at([b, h, i, d])).collect();
                let what = || format!("{case:?} of {}, seed {seed}, row {b} {h} {i}", T::DTYPE);
                assert_row::<T>(&got, lse[(b * heads + h) * queries + i], &want, &what);
                let start: usize = [b, h, i].iter().zip(&out.tensor.strides).map(|(n, s)| n * s).sum();
                (0..width).for_each(|d| written[out.tensor.start + start + d * out.tensor.strides[3]] = true);
            }
        }
    }
    for (at, (before, after)) in before.iter().zip(&out.data).enumerate() {
        assert!(
            written[at] || before.bits() == after.bits(),
            "{case:?}: something was written beside the result, at {at}"
        );
    }
}

/// Packed sequences; in pages or one behind the other, some empty, and rows that belong to none.
fn check_sequences<T: Element>(bench: &Bench, page: Option<usize>, seed: u64) {
    let mut random = Random::new(seed);
    let (heads, kv_heads, depth) = (4, 2, 40);
    let lengths: Vec<(usize, usize)> = vec![(3, 7), (0, 5), (40, 70), (1, 33), (6, 0), (5, 3)];
    let starts = |pick: fn(&(usize, usize)) -> usize, first: usize| {
        let mut all = vec![first as u32];
        lengths.iter().for_each(|length| all.push(all[all.len() - 1] + pick(length) as u32));
        all
    };
    let (query_starts, key_starts) = (starts(|l| l.0, 2), starts(|l| l.1, 0));
    let rows = *query_starts.last().expect("some") as usize + 3;
    let all_keys = *key_starts.last().expect("some") as usize;
    let most_pages = 70usize.div_ceil(page.unwrap_or(1));
    let (batch, key_rows) = match page {
        Some(page) => (lengths.iter().map(|l| l.1.div_ceil(page)).sum::<usize>() + 3, page),
        None => (1, all_keys),
    };
    let q = Rows::<T>::random(bench, &mut random, [1, heads, rows, depth], Place::HeadsInside);
    let k = Rows::<T>::random(bench, &mut random, [batch, kv_heads, key_rows, depth], Place::HeadsInside);
    let v = Rows::<T>::random(bench, &mut random, [batch, kv_heads, key_rows, depth], Place::HeadsInside);
    let mut out = Rows::<T>::random(bench, &mut random, [1, heads, rows, depth], Place::HeadsInside);
    let mut table = vec![0u32; lengths.len() * most_pages];
    let mut used = batch;
    for (sequence, (_, keys)) in lengths.iter().enumerate() {
        for p in 0..page.map_or(0, |page| keys.div_ceil(page)) {
            used -= 1;
            table[sequence * most_pages + p] = used as u32;
        }
    }
    // Where key j of a sequence lies: (batch, row).
    let place = |sequence: usize, j: usize| match page {
        Some(page) => (table[sequence * most_pages + j / page] as usize, j % page),
        None => (0, key_starts[sequence] as usize + j),
    };
    let ranges = [[1i32, 4], [0, 0], [10, 30], [0, 9], [0, 9], [0, 9]];
    let (starts_q, starts_k) =
        (bench.contiguous(&query_starts, &[query_starts.len()]), bench.contiguous(&key_starts, &[key_starts.len()]));
    let table_memory = bench.contiguous(&table, &[lengths.len(), most_pages]);
    let ranges_memory = bench.contiguous(&ranges.concat(), &[lengths.len(), 1, 2]);
    let window = AttentionWindow { left: Some(20), right: Some(0), offset: None };
    let scale = 0.3f32;
    for prefixes in [false, true] {
        let options = AttentionOptions {
            scale,
            window,
            sequences: Some(Sequences {
                query_starts: starts_q.operand(),
                key_starts: starts_k.operand(),
                longest: (40, 70),
            }),
            pages: page.map(|_| table_memory.operand()),
            prefixes: prefixes.then(|| ranges_memory.operand()),
            ..AttentionOptions::default()
        };
        let lse = bench.result::<f32>(heads * rows, |lse| {
            let mut result = out.tensor.operand_mut();
            bench.kernels.attention(
                &q.tensor.operand(),
                &k.tensor.operand(),
                &v.tensor.operand(),
                &options,
                &mut result,
                Some(lse),
            )
        });
        bench.kernels.check(&bench.stream).expect("no fault");
        out.data = out.tensor.download::<T>();
        for row in 0..rows {
            let sequence = (0..lengths.len()).find(|&s| (query_starts[s]..query_starts[s + 1]).contains(&(row as u32)));
            for h in 0..heads {
                let got: Vec<f64> = (0..depth).map(|d| out.at([0, h, row, d])).collect();
                let what = || format!("pages of {page:?}, {}, row {row}, head {h}", T::DTYPE);
                let want = match sequence {
                    None => softmax_row(&[], depth, |_, _| 0.0),
                    Some(s) => {
                        let (queries, keys) = lengths[s];
                        let position = (row as isize - query_starts[s] as isize) + keys as isize - queries as isize;
                        let [from, to] = ranges[s].map(|end| end as isize);
                        let scores: Vec<f64> = (0..keys)
                            .map(|j| {
                                let (at, inside) = (j as isize, from..to);
                                let shown = prefixes && inside.contains(&at) && inside.contains(&position);
                                if !shown && (at > position || at < position - 20) {
                                    return f64::NEG_INFINITY;
                                }
                                let (b, r) = place(s, j);
                                let dot: f64 = (0..depth).map(|d| q.at([0, h, row, d]) * k.at([b, h / 2, r, d])).sum();
                                dot * f64::from(scale)
                            })
                            .collect();
                        softmax_row(&scores, depth, |j, d| {
                            let (b, r) = place(s, j);
                            v.at([b, h / 2, r, d])
                        })
                    }
                };
                assert_row::<T>(&got, lse[h * rows + row], &want, &what);
            }
        }
    }
}

/// Starts and pages that are not there are reported, nothing else is touched, and the next call works.
fn faults(bench: &Bench) {
    let data = vec![f16::from_f64(0.5); 4 * 8];
    let q = bench.contiguous(&data, &[1, 1, 4, 8]);
    let paged = bench.contiguous(&data, &[2, 1, 2, 8]);
    let mut out = bench.contiguous(&data, &[1, 1, 4, 8]);
    let mut run = |starts: [u32; 2], pages: Option<[u32; 2]>, longest: (usize, usize)| {
        let memory = bench.contiguous(&starts, &[2]);
        let keys = bench.contiguous(&[0u32, 4], &[2]);
        let table = bench.contiguous(&pages.unwrap_or_default(), &[1, 2]);
        let sequences = Sequences { query_starts: memory.operand(), key_starts: keys.operand(), longest };
        let options = AttentionOptions {
            sequences: Some(sequences),
            pages: pages.map(|_| table.operand()),
            ..AttentionOptions::scaled(1.0)
        };
        let k = if pages.is_some() { &paged } else { &q };
        let mut result = out.operand_mut();
        bench
            .kernels
            .attention(&q.operand(), &k.operand(), &k.operand(), &options, &mut result, None)
            .expect("a launch");
        bench.kernels.check(&bench.stream).map_err(|error| error.to_string())
    };
    let error = run([0, 9], None, (4, 4)).unwrap_err();
    assert!(error.contains("sequences") && error.contains('9'), "{error}");
    run([0, 4], None, (4, 4)).expect("good starts");
    for longest in [(3, 4), (4, 3)] {
        let error = run([0, 4], None, longest).unwrap_err();
        assert!(error.contains("a sequence of 4 rows is longer than 3"), "{error}");
    }
    let error = run([0, 4], Some([1, 2]), (4, 4)).unwrap_err();
    assert!(error.contains("pages") && error.contains('2'), "{error}");
    run([0, 4], Some([1, 0]), (4, 4)).expect("good pages");
}

fn refused(bench: &Bench) {
    let tensor = |dims: [usize; 4]| bench.contiguous(&vec![0f32; dims.iter().product()], &dims);
    let options = AttentionOptions::scaled(1.0);
    let refusal = |q: &Tensor, k: &Tensor, options: &AttentionOptions<'_>| {
        let mut out = bench.contiguous(&vec![0f32; q.dims.iter().product()], &q.dims);
        let mut result = out.operand_mut();
        let outcome = bench.kernels.attention(&q.operand(), &k.operand(), &k.operand(), options, &mut result, None);
        outcome.expect_err("bad input").to_string()
    };
    let q = tensor([1, 3, 4, 8]);
    assert!(refusal(&q, &tensor([1, 2, 4, 8]), &options).contains("3 heads"));
    assert!(refusal(&q, &tensor([1, 3, 4, 16]), &options).contains("do not go together"));
    assert!(refusal(&tensor([1, 1, 1, 520]), &tensor([1, 1, 1, 520]), &options).contains("520"));
    let mask = tensor([1, 2, 4, 4]);
    let masked = AttentionOptions { mask: Some(AttentionMask::Add(mask.operand())), ..options };
    assert!(refusal(&q, &q, &masked).contains("broadcast"));
    let capped = AttentionOptions { softcap: Some(0.0), ..options };
    assert!(refusal(&q, &q, &capped).contains("softcap"));
    assert!(refusal(&tensor([1, 1, 2, 0]), &tensor([1, 1, 2, 0]), &options).contains("at least one"));
    // Nothing to attend to, and nobody who attends; heads that are whole pieces of 16 bytes, and others.
    for depth in [5, 8] {
        let (q, none) = (tensor([1, 3, 4, depth]), tensor([1, 3, 0, depth]));
        let mut out = bench.contiguous(&vec![1f32; q.dims.iter().product()], &q.dims);
        bench
            .kernels
            .attention(&q.operand(), &none.operand(), &none.operand(), &options, &mut out.operand_mut(), None)
            .expect("zeros");
        assert!(out.download::<f32>().iter().all(|&x| x == 0.0));
    }
    let mut out = tensor([1, 3, 4, 8]);
    let none = tensor([1, 3, 0, 8]);
    let nan = AttentionOptions { nan_rows: true, ..options };
    bench
        .kernels
        .attention(&q.operand(), &none.operand(), &none.operand(), &nan, &mut out.operand_mut(), None)
        .expect("NaN");
    assert!(out.download::<f32>().iter().all(|x| x.is_nan()));
}

fn check<T: Element>(bench: &Bench) {
    let emulated = bench.kernels.device().is_gpu();
    let (rounds, most) = if emulated { (6, 100_000) } else { (40, 400_000) };
    for gpu in [true, false] {
        let bench = &bench.planned(Planning { as_on_a_gpu: gpu, ..Default::default() });
        // Every kernel, with rows and keys that fill tiles and that do not.
        for depth in [64, 128, 256, 512] {
            check_case::<T>(bench, &Case { window: AttentionWindow::CAUSAL, ..Case::simple(70, 70, depth) }, 1);
        }
        // Parts of the keys.
        check_case::<T>(bench, &Case { group: 2, ..Case::simple(3, 1200, 32) }, 2);
        let mut random = Random::new(77 + T::DTYPE as u64);
        for seed in 0..rounds {
            check_case::<T>(bench, &Case::random(&mut random, most), seed);
        }
        check_sequences::<T>(bench, None, 3);
        check_sequences::<T>(bench, Some(16), 4);
        check_sequences::<T>(bench, Some(5), 5);
    }
}

/// A hundred thousand keys that all count the same: neither the sum of weights nor that of values may lose any of them.
fn many_keys<T: Element>(bench: &Bench) {
    let (keys, depth) = (100_000, 8);
    let zeros = |count: usize| vec![T::from_f64(0.0); count];
    let q = bench.contiguous(&zeros(depth), &[1, 1, 1, depth]);
    let k = bench.contiguous(&zeros(keys * depth), &[1, 1, keys, depth]);
    let mut random = Random::new(9);
    let values: Vec<T> = (0..keys * depth).map(|_| T::from_f64(random.between(0.0, 1000.0))).collect();
    let v = bench.contiguous(&values, &[1, 1, keys, depth]);
    for gpu in [true, false] {
        let bench = bench.as_on_a_gpu(gpu);
        let mut out = bench.contiguous(&zeros(depth), &[1, 1, 1, depth]);
        let mut lse = bench.stream.zeros::<f32>(1).expect("memory");
        let mut logs = Output::new(&mut lse, DType::F32, 0, 1).expect("it fits");
        let (q, k, v, options) = (q.operand(), k.operand(), v.operand(), AttentionOptions::scaled(1.0));
        bench.kernels.attention(&q, &k, &v, &options, &mut out.operand_mut(), Some(&mut logs)).expect("a launch");
        for (d, got) in out.download::<T>().into_iter().enumerate() {
            let mean = values.iter().skip(d).step_by(depth).map(|x| x.to_f64()).sum::<f64>() / keys as f64;
            let off = (got.to_f64() - mean).abs() / mean;
            let allowed = if T::DTYPE == DType::F32 { 5e-5 } else { tolerance::<T>().0 };
            assert!(off < allowed, "{}: {got:?} should be {mean}", T::DTYPE);
        }
        let lse = lse.to_vec().expect("a copy")[0];
        assert!((f64::from(lse) - (keys as f64).ln()).abs() < 1e-5, "{lse}");
    }
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over bf16 f16 f32);
    for_types!(many_keys(bench) over f16 f32);
    faults(bench);
    refused(bench);
}
