//! Rotary embeddings against f64, with angles shared by the batches and with angles of their own.

use crate::bench::Bench;
use crate::element::{Element, Random};
use crate::for_types;
use crate::sums::{assert_sums, Terms};
use candle_rocm_kernels::{DType, Output, Rope};
use half::{bf16, f16};

/// (batch, heads, time, dim): one time, odd halves, halves around a vector, whole vectors.
const SHAPES: [[usize; 4]; 6] = [[1, 1, 1, 2], [2, 3, 1, 6], [2, 3, 5, 14], [1, 2, 7, 64], [3, 2, 4, 32], [2, 0, 3, 8]];

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(71);
    for [batch, heads, time, dim] in SHAPES {
        let half = dim / 2;
        for kind in Rope::ALL {
            for batched in [false, true] {
                let thd = kind == Rope::HalvesThd;
                let dims = if thd { [batch, time, heads, dim] } else { [batch, heads, time, dim] };
                let data = random.plain::<T>(dims.iter().product());
                // Shared angles may go on for times that are not asked for.
                let angle_dims = if batched { vec![batch, time, half] } else { vec![time + 2, half] };
                let count = angle_dims.iter().product();
                let turns: Vec<f64> = (0..count).map(|_| random.between(-3.0, 3.0)).collect();
                let cos: Vec<T> = turns.iter().map(|x| T::from_f64(x.cos())).collect();
                let sin: Vec<T> = turns.iter().map(|x| T::from_f64(x.sin())).collect();
                let mut want = vec![Terms::NONE; data.len()];
                for place in 0..batch * heads * time {
                    let (b, t) = if thd {
                        (place / heads / time, place / heads % time)
                    } else {
                        (place / time / heads, place % time)
                    };
                    for pair in 0..half {
                        let (i, j) = match kind {
                            Rope::Interleaved => (2 * pair, 2 * pair + 1),
                            _ => (pair, pair + half),
                        };
                        let (i, j) = (place * dim + i, place * dim + j);
                        let angle = t * half + pair + if batched { b * time * half } else { 0 };
                        let (x, y, c, s) =
                            (data[i].to_f64(), data[j].to_f64(), cos[angle].to_f64(), sin[angle].to_f64());
                        want[i].add(x * c);
                        want[i].add(-y * s);
                        want[j].add(x * s);
                        want[j].add(y * c);
                    }
                }
                let input = bench.contiguous(&data, &dims);
                let (cos, sin) = (bench.contiguous(&cos, &angle_dims), bench.contiguous(&sin, &angle_dims));
                for start in [0, 1] {
                    let got = bench.result_at::<T>(start, data.len(), |out| {
                        bench.kernels.rope(kind, &input.operand(), &cos.operand(), &sin.operand(), out)
                    });
                    assert_sums(&got, &want, || {
                        format!("{kind:?} of {} {dims:?}, batched angles: {batched}", T::DTYPE)
                    });
                }
            }
        }
    }
}

fn refused(bench: &Bench) {
    let input = bench.contiguous(&[1f32; 12], &[1, 2, 3, 2]);
    let short = bench.contiguous(&[1f32; 2], &[2, 1]);
    let right = bench.contiguous(&[1f32; 3], &[3, 1]);
    let mut memory = bench.stream.zeros::<u8>(48).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 12).unwrap();
    let error = bench.kernels.rope(Rope::Halves, &input.operand(), &short.operand(), &right.operand(), &mut out);
    assert!(error.unwrap_err().to_string().contains("cos"), "two times for three");
    let odd = bench.contiguous(&[1f32; 12], &[1, 2, 2, 3]);
    assert!(bench.kernels.rope(Rope::Halves, &odd.operand(), &right.operand(), &right.operand(), &mut out).is_err());
    bench
        .kernels
        .rope(Rope::Halves, &input.operand(), &right.operand(), &right.operand(), &mut out)
        .expect("the next call works");
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over bf16 f16 f32 f64);
    refused(bench);
}
