//! What attention should give, from its definition, in f64.

use candle::{DType, Device, Result, Tensor};

/// Rows of heads, (rows, heads, dim) whatever the tensor's own dimensions were: those before the last two are counted through.
pub struct Rows {
    values: Vec<f64>,
    pub heads: usize,
    pub dim: usize,
}

impl Rows {
    pub fn of(tensor: &Tensor) -> Result<Self> {
        let &[.., heads, dim] = tensor.dims() else { candle::bail!("a tensor of rows, heads and elements") };
        let values = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
        Ok(Self { values, heads, dim })
    }

    pub fn at(&self, row: usize, head: usize) -> &[f64] {
        &self.values[(row * self.heads + head) * self.dim..][..self.dim]
    }
}

/// Where the rows of a sequence lie.
pub struct Sequence {
    pub queries: Vec<usize>,
    pub keys: Vec<usize>,
    /// Within them everything is seen.
    pub ranges: Vec<(usize, usize)>,
}

/// What scores are made of.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub scale: f32,
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub slopes: Option<Vec<f32>>,
    pub softcap: Option<f32>,
}

impl Rule {
    fn score(&self, q: &[f64], k: &[f64], head: usize, position: isize, key: isize) -> f64 {
        let mut score = q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() * f64::from(self.scale);
        if let Some(cap) = self.softcap {
            score = f64::from(cap) * (score / f64::from(cap)).tanh();
        }
        if let Some(slopes) = &self.slopes {
            score -= f64::from(slopes[head]) * (position - key).abs() as f64;
        }
        score
    }

    fn sees(&self, position: isize, key: isize, ranges: &[(usize, usize)]) -> bool {
        let within = |at: isize, &(first, end): &(usize, usize)| at >= first as isize && at < end as isize;
        self.left.is_none_or(|left| key >= position - left as isize)
            && self.right.is_none_or(|right| key <= position + right as isize)
            || ranges.iter().any(|range| within(position, range) && within(key, range))
    }
}

/// The result for `rows` rows, (rows, heads of q, dim of v); zeros where nothing is seen.
pub fn attend(q: &Rows, k: &Rows, v: &Rows, rows: usize, sequences: &[Sequence], rule: &Rule) -> Vec<f64> {
    let mut result = vec![0.0; rows * q.heads * v.dim];
    for sequence in sequences {
        let offset = sequence.keys.len() as isize - sequence.queries.len() as isize;
        for (i, &row) in sequence.queries.iter().enumerate() {
            for head in 0..q.heads {
                let (position, kv_head) = (i as isize + offset, head / (q.heads / k.heads));
                let seen: Vec<(f64, usize)> = (0..sequence.keys.len())
                    .filter(|&j| rule.sees(position, j as isize, &sequence.ranges))
                    .map(|j| {
                        let key = sequence.keys[j];
                        (rule.score(q.at(row, head), k.at(key, kv_head), head, position, j as isize), key)
                    })
                    .collect();
                let largest = seen.iter().fold(f64::NEG_INFINITY, |largest, (score, _)| largest.max(*score));
                let total: f64 = seen.iter().map(|(score, _)| (score - largest).exp()).sum();
                let out = &mut result[(row * q.heads + head) * v.dim..][..v.dim];
                for (score, key) in seen {
                    let weight = (score - largest).exp() / total;
                    out.iter_mut().zip(v.at(key, kv_head)).for_each(|(out, v)| *out += weight * v);
                }
            }
        }
    }
    result
}
