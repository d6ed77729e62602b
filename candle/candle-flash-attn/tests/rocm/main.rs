//! All eleven functions on the ROCm device against f64: random sizes, grouped heads, windows, alibi, softcap, packed sequences, pages,
//! prefix ranges, layouts. Bad input is in `refused.rs`. Everything runs again in checked mode, on waves of 32 and of 64.

mod reference;
mod refused;

#[allow(dead_code)] // Each program uses a part.
#[path = "../../../candle-core/tests/suite/mod.rs"]
mod suite;

use candle::{DType, Device, Result, Tensor};
use candle_flash_attn as flash;
use reference::{attend, Rows, Rule, Sequence};
use std::collections::BTreeSet;

/// Numbers that look random, the same in every run.
pub struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Of a dtype, on the device, now and then not contiguous.
    fn tensor(&mut self, dims: &[usize], dtype: DType) -> Result<Tensor> {
        let device = Device::new_rocm(0)?;
        let rank = dims.len();
        let (mut made, transposed) = (dims.to_vec(), self.one_in(2));
        if transposed {
            made.swap(rank - 3, rank - 2);
        }
        let count: usize = made.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.below(2001) as f32 / 1000.0 - 1.0).collect();
        let tensor = Tensor::from_vec(values, made, &Device::Cpu)?.to_dtype(dtype)?.to_device(&device)?;
        if transposed {
            tensor.transpose(rank - 3, rank - 2)
        } else {
            Ok(tensor)
        }
    }

    fn rule(&mut self, heads: usize, dim: usize) -> Rule {
        let mut rule = Rule { scale: 1.5 / (dim as f32).sqrt(), ..Rule::default() };
        match self.below(4) {
            0 => {}
            1 => rule.right = Some(0),
            2 => rule.left = Some(self.below(12)),
            _ => (rule.left, rule.right) = (Some(self.below(12)), Some(self.below(12))),
        }
        rule.slopes = self.one_in(2).then(|| (0..heads).map(|_| self.below(100) as f32 / 200.0).collect());
        rule.softcap = self.one_in(3).then_some(2.5);
        rule
    }
}

const DTYPES: [(DType, f64); 3] = [(DType::F16, 3e-3), (DType::BF16, 2e-2), (DType::F32, 1e-5)];

/// Fails where the device's result differs from the reference.
fn assert_close(got: &Tensor, want: &[f64], tolerance: f64, what: &str) -> Result<()> {
    let got: Vec<f64> = got.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance, "{what}: element {at} is {got}, but should be {want}");
    }
    Ok(())
}

fn slopes_tensor(rule: &Rule) -> Result<Option<Tensor>> {
    rule.slopes.as_deref().map(|slopes| Tensor::new(slopes, &Device::new_rocm(0)?)).transpose()
}

/// The plainest function that does what the rule says, and its name.
fn attend_batches(q: &Tensor, k: &Tensor, v: &Tensor, rule: &Rule) -> Result<(Tensor, &'static str)> {
    let Rule { scale, left, right, softcap, .. } = *rule;
    let causal = left.is_none() && right == Some(0);
    let plain = causal || left.is_none() && right.is_none();
    let slopes = slopes_tensor(rule)?;
    Ok(match (&slopes, softcap, plain) {
        (slopes, Some(cap), _) => (
            flash::flash_attn_alibi_windowed_softcap(q, k, v, slopes.as_ref(), scale, left, right, cap)?,
            "alibi_windowed_softcap",
        ),
        (None, None, true) => (flash::flash_attn(q, k, v, scale, causal)?, "plain"),
        (None, None, false) => (flash::flash_attn_windowed(q, k, v, scale, left, right)?, "windowed"),
        (Some(slopes), None, true) => (flash::flash_attn_alibi(q, k, v, slopes, scale, causal)?, "alibi"),
        (Some(slopes), None, false) => {
            (flash::flash_attn_alibi_windowed(q, k, v, slopes, scale, left, right)?, "alibi_windowed")
        }
    })
}

#[test]
fn batches() -> Result<()> {
    let mut used = BTreeSet::new();
    for (dtype, tolerance) in DTYPES {
        let mut random = Random(1 + dtype as u64);
        for round in 0..24 {
            let dim = [8, 16, 40, 64, 72, 128, 20, 264][random.below(8)];
            let (batch, kv_heads, group) = (1 + random.below(2), 1 + random.below(2), 1 + random.below(3));
            let (queries, keys) = ([1, 3, 17, 40][random.below(4)], 1 + random.below(60));
            let heads = kv_heads * group;
            let q = random.tensor(&[batch, queries, heads, dim], dtype)?;
            let k = random.tensor(&[batch, keys, kv_heads, dim], dtype)?;
            let v = random.tensor(&[batch, keys, kv_heads, dim], dtype)?;
            let mut rule = random.rule(heads, dim);
            if queries > keys {
                // What a one-sided window shows there is told apart in a test of its own.
                (rule.left, rule.right) = (None, rule.right.map(|_| 0));
            }
            let sequences: Vec<_> = (0..batch)
                .map(|b| Sequence {
                    queries: (b * queries..(b + 1) * queries).collect(),
                    keys: (b * keys..(b + 1) * keys).collect(),
                    ranges: Vec::new(),
                })
                .collect();
            let want = attend(&Rows::of(&q)?, &Rows::of(&k)?, &Rows::of(&v)?, batch * queries, &sequences, &rule);
            let (got, function) = attend_batches(&q, &k, &v, &rule)?;
            assert_eq!((got.dims(), got.dtype()), (q.dims(), dtype));
            assert!(got.is_contiguous());
            used.insert(function);
            let what = format!("{function} {dtype:?} round {round}: q {:?}, k {:?}, {rule:?}", q.dims(), k.dims());
            assert_close(&got, &want, tolerance, &what)?;
        }
    }
    assert_eq!(used.len(), 5, "{used:?}");
    Ok(())
}

/// Packed sequences, some of them empty: lengths, and where each begins.
struct Packed {
    lengths: Vec<(usize, usize)>,
    starts: [Vec<u32>; 2],
    tensors: [Tensor; 2],
}

impl Packed {
    fn random(random: &mut Random) -> Result<Self> {
        let lengths: Vec<_> = (0..1 + random.below(4)).map(|_| (random.below(20), random.below(50))).collect();
        let starts = |pick: fn(&(usize, usize)) -> usize, first: u32| {
            let mut starts = vec![first];
            lengths.iter().for_each(|length| starts.push(starts[starts.len() - 1] + pick(length) as u32));
            starts
        };
        // Rows before the first query belong to nobody.
        let starts = [starts(|length| length.0, 2), starts(|length| length.1, 0)];
        let device = Device::new_rocm(0)?;
        let tensors = [Tensor::new(starts[0].as_slice(), &device)?, Tensor::new(starts[1].as_slice(), &device)?];
        Ok(Self { lengths, starts, tensors })
    }

    /// Rows of all queries with two behind them, and of all keys.
    fn rows(&self) -> (usize, usize) {
        let end = |starts: &[u32]| starts[starts.len() - 1] as usize;
        (end(&self.starts[0]) + 2, end(&self.starts[1]).max(1))
    }

    fn longest(&self) -> (usize, usize) {
        let longest = |pick: fn(&(usize, usize)) -> usize| self.lengths.iter().map(pick).max().unwrap_or(0);
        (longest(|length| length.0), longest(|length| length.1))
    }

    fn queries(&self, sequence: usize) -> Vec<usize> {
        (self.starts[0][sequence] as usize..self.starts[0][sequence + 1] as usize).collect()
    }
}

/// The plainest function for packed sequences that does what the rule says, and its name.
fn attend_packed(
    [q, k, v]: [&Tensor; 3],
    packed: &Packed,
    slopes: Option<&Tensor>,
    rule: &Rule,
) -> Result<(Tensor, &'static str)> {
    let Rule { scale, left, right, softcap, .. } = *rule;
    let causal = left.is_none() && right == Some(0);
    let plain = causal || left.is_none() && right.is_none();
    let ([sq, sk], (mq, mk)) = (&packed.tensors, packed.longest());
    use flash::*;
    Ok(match (slopes, softcap, plain) {
        (slopes, Some(cap), _) => (
            flash_attn_varlen_alibi_windowed_softcap(q, k, v, slopes, sq, sk, mq, mk, scale, left, right, cap)?,
            "varlen_alibi_windowed_softcap",
        ),
        (None, None, true) => (flash_attn_varlen(q, k, v, sq, sk, mq, mk, scale, causal)?, "varlen"),
        (None, None, false) => {
            (flash_attn_varlen_windowed(q, k, v, sq, sk, mq, mk, scale, left, right)?, "varlen_windowed")
        }
        (Some(slopes), None, true) => {
            (flash_attn_varlen_alibi(q, k, v, slopes, sq, sk, mq, mk, scale, causal)?, "varlen_alibi")
        }
        (Some(slopes), None, false) => (
            flash_attn_varlen_alibi_windowed(q, k, v, slopes, sq, sk, mq, mk, scale, left, right)?,
            "varlen_alibi_windowed",
        ),
    })
}

#[test]
fn packed_sequences() -> Result<()> {
    let mut used = BTreeSet::new();
    for (dtype, tolerance) in DTYPES {
        let mut random = Random(50 + dtype as u64);
        for round in 0..20 {
            let (dim, kv_heads) = ([8, 64, 96][random.below(3)], 1 + random.below(2));
            let heads = kv_heads * (1 + random.below(3));
            let packed = Packed::random(&mut random)?;
            let (rows, key_rows) = packed.rows();
            let q = random.tensor(&[rows, heads, dim], dtype)?;
            let k = random.tensor(&[key_rows, kv_heads, dim], dtype)?;
            let v = random.tensor(&[key_rows, kv_heads, dim], dtype)?;
            let mut rule = random.rule(heads, dim);
            if packed.lengths.iter().any(|(queries, keys)| queries > keys) {
                (rule.left, rule.right) = (rule.left.map(|_| 3), Some(0));
            }
            let sequences: Vec<_> = (0..packed.lengths.len())
                .map(|s| Sequence {
                    queries: packed.queries(s),
                    keys: (packed.starts[1][s] as usize..packed.starts[1][s + 1] as usize).collect(),
                    ranges: Vec::new(),
                })
                .collect();
            let want = attend(&Rows::of(&q)?, &Rows::of(&k)?, &Rows::of(&v)?, rows, &sequences, &rule);
            let slopes = slopes_tensor(&rule)?;
            let (got, function) = attend_packed([&q, &k, &v], &packed, slopes.as_ref(), &rule)?;
            assert_eq!((got.dims(), got.dtype()), (q.dims(), dtype));
            used.insert(function);
            let what = format!("{function} {dtype:?} round {round}: {:?}, {rule:?}", packed.lengths);
            assert_close(&got, &want, tolerance, &what)?;
        }
    }
    assert_eq!(used.len(), 5, "{used:?}");
    Ok(())
}

#[test]
fn pages() -> Result<()> {
    let device = Device::new_rocm(0)?;
    for (dtype, tolerance) in DTYPES {
        let mut random = Random(90 + dtype as u64);
        for round in 0..12 {
            let (dim, page, kv_heads) = ([64, 256][random.below(2)], [32, 16, 5][random.below(3)], 2);
            let heads = kv_heads * (1 + random.below(3));
            let packed = Packed::random(&mut random)?;
            let count = packed.lengths.len();
            let most = packed.longest().1.div_ceil(page).max(1);
            let needed: usize = packed.lengths.iter().map(|length| length.1.div_ceil(page)).sum();
            let pages = needed + 3;
            // From the last page to the first.
            let (mut table, mut next) = (vec![0u32; count * most], pages);
            for (sequence, (_, keys)) in packed.lengths.iter().enumerate() {
                for place in &mut table[sequence * most..][..keys.div_ceil(page)] {
                    next -= 1;
                    *place = next as u32;
                }
            }
            let (rows, _) = packed.rows();
            let q = random.tensor(&[rows, heads, dim], dtype)?;
            let k = random.tensor(&[pages, page, kv_heads, dim], dtype)?;
            let v = random.tensor(&[pages, page, kv_heads, dim], dtype)?;
            let rule = Rule { slopes: None, left: Some(9), right: Some(0), ..random.rule(heads, dim) };
            let with_ranges = random.one_in(2);
            let ranges: Vec<[(usize, usize); 2]> =
                (0..count).map(|_| [(random.below(8), random.below(24)), (0, 0)]).collect();
            let sequences: Vec<_> = (0..count)
                .map(|s| Sequence {
                    queries: packed.queries(s),
                    keys: (0..packed.lengths[s].1)
                        .map(|key| table[s * most + key / page] as usize * page + key % page)
                        .collect(),
                    ranges: if with_ranges { ranges[s].to_vec() } else { Vec::new() },
                })
                .collect();
            let want = attend(&Rows::of(&q)?, &Rows::of(&k)?, &Rows::of(&v)?, rows, &sequences, &rule);

            let table = Tensor::from_vec(table, (count, most), &device)?;
            let table = if random.one_in(2) { table.to_dtype(DType::I32)? } else { table };
            let ends = ranges.iter().flatten().flat_map(|&(first, end)| [first as i32, end as i32]).collect();
            let ends = Tensor::from_vec::<_, i32>(ends, (count, 2, 2), &device)?;
            let ([sq, sk], (mq, mk)) = (&packed.tensors, packed.longest());
            let Rule { scale, left, right, softcap, .. } = rule;
            let ranges = with_ranges.then_some(&ends);
            let got = flash::flash_attn_varlen_paged_windowed(
                &q, &k, &v, sq, sk, &table, ranges, mq, mk, scale, left, right, page, softcap,
            )?;
            let what =
                format!("pages of {page} {dtype:?} round {round}: {:?}, {rule:?}, {with_ranges}", packed.lengths);
            assert_close(&got, &want, tolerance, &what)?;
        }
    }
    Ok(())
}

/// v may have other heads than q and k; queries without keys get zeros.
#[test]
fn odd_shapes() -> Result<()> {
    let mut random = Random(7);
    let q = random.tensor(&[1, 5, 2, 16], DType::F32)?;
    let k = random.tensor(&[1, 3, 1, 16], DType::F32)?;
    let v = random.tensor(&[1, 3, 1, 24], DType::F32)?;
    let rule = Rule { scale: 0.5, right: Some(0), ..Rule::default() };
    let sequences = [Sequence { queries: (0..5).collect(), keys: (0..3).collect(), ranges: Vec::new() }];
    let want = attend(&Rows::of(&q)?, &Rows::of(&k)?, &Rows::of(&v)?, 5, &sequences, &rule);
    let got = flash::flash_attn(&q, &k, &v, 0.5, true)?;
    assert_eq!(got.dims(), [1, 5, 2, 24]);
    assert!(want[..2 * 2 * 24].iter().all(|&x| x == 0.0), "the first two queries are before all keys");
    assert_close(&got, &want, 1e-5, "more queries than keys")?;
    // A window of more keys than there are is no window, as on CUDA.
    let wide = flash::flash_attn_windowed(&q, &k, &v, 0.5, Some(4), Some(4))?;
    let all = flash::flash_attn(&q, &k, &v, 0.5, false)?;
    assert_eq!(wide.flatten_all()?.to_vec1::<f32>()?, all.flatten_all()?.to_vec1::<f32>()?);
    // A softcap of nothing is none.
    let capped = flash::flash_attn_alibi_windowed_softcap(&q, &k, &v, None, 0.5, None, None, 0.0)?;
    assert_eq!(capped.flatten_all()?.to_vec1::<f32>()?, all.flatten_all()?.to_vec1::<f32>()?);
    let none = flash::flash_attn(&q.narrow(1, 0, 0)?, &k, &v, 0.5, false)?;
    assert_eq!(none.dims(), [1, 0, 2, 24]);
    Ok(())
}

#[test]
fn checked_on_waves_of_32_and_64() {
    let tests = suite::tests(|name| name != "checked_on_waves_of_32_and_64");
    for wave in ["32", "64"] {
        suite::run_again(&tests, &[("HIP_HOST_CHECKED", "1"), ("HIP_HOST_WAVE", wave)]);
    }
}
