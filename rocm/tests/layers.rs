//! Layers of the embedded device against plain loops in f64: convolutions over random shapes, and everything else with its gradients,
//! which are compared with differences of the forward pass.

mod common;

use common::{assert_close, stream, Random};
use half::{bf16, f16};
use rocm::miopen::*;

fn miopen(stream: &hip::Stream) -> hip::Result<Miopen> {
    Ok(Miopen::new(stream)?.expect("the embedded device has it built in"))
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

fn count(sizes: &Sizes) -> usize {
    sizes.iter().product()
}

/// Adds up `visit`'s products: places in image, weights and result that go together.
fn for_each_term(c: &Convolution, x: &Sizes, w: &Sizes, y: &Sizes, mut visit: impl FnMut(usize, usize, usize)) {
    let outputs = w[0] / c.groups;
    for at in 0..count(y) {
        let (n, k, oy, ox) = (at / (y[1] * y[2] * y[3]), at / (y[2] * y[3]) % y[1], at / y[3] % y[2], at % y[3]);
        for tap in 0..w[1] * w[2] * w[3] {
            let (channel, ky, kx) = (tap / (w[2] * w[3]), tap / w[3] % w[2], tap % w[3]);
            let row = (oy * c.stride[0] + ky * c.dilation[0]) as isize - c.padding[0] as isize;
            let column = (ox * c.stride[1] + kx * c.dilation[1]) as isize - c.padding[1] as isize;
            if (0..x[2] as isize).contains(&row) && (0..x[3] as isize).contains(&column) {
                let plane = n * x[1] + k / outputs * w[1] + channel;
                visit((plane * x[2] + row as usize) * x[3] + column as usize, k * w[1] * w[2] * w[3] + tap, at);
            }
        }
    }
}

#[test]
fn convolutions_agree_with_plain_loops_in_all_directions() -> hip::Result<()> {
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(9));
    for _ in 0..40 {
        let groups = 1 + random.below(3);
        let convolution = Convolution {
            padding: [random.below(3), random.below(3)],
            stride: [1 + random.below(3), 1 + random.below(2)],
            dilation: [1 + random.below(2), 1 + random.below(2)],
            groups,
        };
        let w = [groups * (1 + random.below(4)), 1 + random.below(4), 1 + random.below(3), 1 + random.below(3)];
        let x = [1 + random.below(3), groups * w[1], 5 + random.below(8), 5 + random.below(8)];
        let y = convolution.result_sizes(&x, &w)?;
        let (image, weights, slope) = (random.values(count(&x)), random.values(count(&w)), random.values(count(&y)));
        let (xb, wb, gb) = (stream.upload(&image)?, stream.upload(&weights)?, stream.upload(&slope)?);
        let (xt, wt, gt) = (Tensor::new(&xb, &x)?, Tensor::new(&wb, &w)?, Tensor::new(&gb, &y)?);
        let (mut yb, mut dxb, mut dwb) =
            (stream.alloc::<f32>(count(&y))?, stream.alloc::<f32>(count(&x))?, stream.alloc::<f32>(count(&w))?);
        miopen.convolution_forward(&convolution, &xt, &wt, &mut TensorMut::new(&mut yb, &y)?)?;
        miopen.convolution_backward_data(&convolution, &gt, &wt, &mut TensorMut::new(&mut dxb, &x)?)?;
        miopen.convolution_backward_weights(&convolution, &gt, &xt, &mut TensorMut::new(&mut dwb, &w)?)?;
        let (image, weights, slope) = (wide(&image), wide(&weights), wide(&slope));
        let (mut ye, mut dxe, mut dwe) = (vec![0.0; count(&y)], vec![0.0; count(&x)], vec![0.0; count(&w)]);
        for_each_term(&convolution, &x, &w, &y, |i, j, k| {
            ye[k] += image[i] * weights[j];
            dxe[i] += slope[k] * weights[j];
            dwe[j] += slope[k] * image[i];
        });
        let what = format!("{convolution:?} {x:?} {w:?}");
        assert_close(&yb.to_vec()?, &ye, 1e-4, &what);
        assert_close(&dxb.to_vec()?, &dxe, 1e-4, &what);
        assert_close(&dwb.to_vec()?, &dwe, 1e-4, &what);
    }
    Ok(())
}

#[test]
fn half_precision_rounds_the_result_once() -> hip::Result<()> {
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(10));
    let (x, w, convolution) = ([2, 3, 7, 6], [4, 3, 3, 3], Convolution { padding: [1, 1], ..Default::default() });
    let y = convolution.result_sizes(&x, &w)?;
    macro_rules! check {
        ($type:ty, $epsilon:expr) => {{
            let narrow = |values: Vec<f32>| values.into_iter().map(<$type>::from_f32).collect::<Vec<_>>();
            let (image, weights) = (narrow(random.values(count(&x))), narrow(random.values(count(&w))));
            let (xb, wb, mut yb) =
                (stream.upload(&image)?, stream.upload(&weights)?, stream.alloc::<$type>(count(&y))?);
            let (xt, wt) = (Tensor::new(&xb, &x)?, Tensor::new(&wb, &w)?);
            miopen.convolution_forward(&convolution, &xt, &wt, &mut TensorMut::new(&mut yb, &y)?)?;
            let mut expected = vec![0.0; count(&y)];
            for_each_term(&convolution, &x, &w, &y, |i, j, k| expected[k] += image[i].to_f64() * weights[j].to_f64());
            let got: Vec<f32> = yb.to_vec()?.into_iter().map(<$type>::to_f32).collect();
            assert_close(&got, &expected, $epsilon, stringify!($type));
        }};
    }
    check!(f16, 1e-3);
    check!(bf16, 8e-3);
    Ok(())
}

#[test]
fn pooling_agrees_with_plain_loops_both_ways() -> hip::Result<()> {
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(11));
    for case in 0..30 {
        let window = [Window::Max, Window::Average, Window::AverageWithPadding][case % 3];
        let size = [1 + random.below(3), 1 + random.below(3)];
        let padding = [random.below(size[0]), random.below(size[1])];
        let pooling = Pooling { window, size, padding, stride: [1 + random.below(3), 1 + random.below(3)] };
        let x = [1 + random.below(2), 1 + random.below(3), 4 + random.below(6), 4 + random.below(6)];
        let y = pooling.result_sizes(&x)?;
        let (image, slope) = (random.values(count(&x)), random.values(count(&y)));
        let (xb, gb) = (stream.upload(&image)?, stream.upload(&slope)?);
        let (mut yb, mut dxb) = (stream.alloc::<f32>(count(&y))?, stream.alloc::<f32>(count(&x))?);
        let xt = Tensor::new(&xb, &x)?;
        let places = miopen.pooling_forward(&pooling, &xt, &mut TensorMut::new(&mut yb, &y)?)?;
        let of = (&xt, &Tensor::new(&yb, &y)?, &places);
        miopen.pooling_backward(&pooling, of, &Tensor::new(&gb, &y)?, &mut TensorMut::new(&mut dxb, &x)?)?;
        let (mut ye, mut dxe) = (vec![0.0; count(&y)], vec![0.0; count(&x)]);
        for at in 0..count(&y) {
            let (plane, oy, ox) = (at / (y[2] * y[3]), at / y[3] % y[2], at % y[3]);
            let mut inside = Vec::new();
            for ky in 0..size[0] {
                for kx in 0..size[1] {
                    let row = (oy * pooling.stride[0] + ky) as isize - padding[0] as isize;
                    let column = (ox * pooling.stride[1] + kx) as isize - padding[1] as isize;
                    if (0..x[2] as isize).contains(&row) && (0..x[3] as isize).contains(&column) {
                        inside.push((plane * x[2] + row as usize) * x[3] + column as usize);
                    }
                }
            }
            let slope = f64::from(slope[at]);
            let divisor = if window == Window::Average { inside.len() } else { size[0] * size[1] } as f64;
            if window == Window::Max {
                let best =
                    inside.into_iter().reduce(|a, b| if image[b] > image[a] { b } else { a }).expect("an element");
                ye[at] = image[best].into();
                dxe[best] += slope;
            } else {
                ye[at] = inside.iter().map(|&at| f64::from(image[at])).sum::<f64>() / divisor;
                inside.into_iter().for_each(|place| dxe[place] += slope / divisor);
            }
        }
        assert_close(&yb.to_vec()?, &ye, 1e-5, &format!("{pooling:?}"));
        assert_close(&dxb.to_vec()?, &dxe, 1e-5, &format!("{pooling:?} backwards"));
    }
    Ok(())
}

#[test]
fn activations_have_their_formulas_and_slopes() -> hip::Result<()> {
    type Formula = fn(f64) -> f64;
    let table: [(Activation, Formula); 9] = [
        (Activation::Logistic, |x| 1.0 / (1.0 + (-x).exp())),
        (Activation::Tanh { alpha: 0.5, beta: 2.0 }, |x| 2.0 * (0.5 * x).tanh()),
        (Activation::Relu, |x| x.max(0.0)),
        (Activation::SoftRelu, |x| (1.0 + x.exp()).ln()),
        (Activation::Abs, f64::abs),
        (Activation::Power { alpha: 3.0, beta: 0.5, gamma: 2.0 }, |x| (3.0 + 0.5 * x).powi(2)),
        (Activation::ClippedRelu(0.5), |x| x.clamp(0.0, 0.5)),
        (Activation::LeakyRelu(0.1), |x| if x > 0.0 { x } else { 0.1 * x }),
        (Activation::Elu(0.7), |x| if x > 0.0 { x } else { 0.7 * (x.exp() - 1.0) }),
    ];
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(12));
    let sizes = [2, 3, 4, 5];
    for (activation, formula) in table {
        // Away from the corners, where a difference says nothing about a slope.
        let off = |x: &f32| [0.0, 0.5].iter().all(|corner| (x - corner).abs() > 1e-3);
        let (x, slope) =
            (random.values(4000).into_iter().filter(off).take(120).collect::<Vec<_>>(), random.values(120));
        let (xb, gb, mut yb, mut dxb) =
            (stream.upload(&x)?, stream.upload(&slope)?, stream.alloc::<f32>(120)?, stream.alloc::<f32>(120)?);
        let xt = Tensor::new(&xb, &sizes)?;
        miopen.activation_forward(activation, &xt, &mut TensorMut::new(&mut yb, &sizes)?)?;
        let of = (&xt, &Tensor::new(&yb, &sizes)?);
        miopen.activation_backward(
            activation,
            of,
            &Tensor::new(&gb, &sizes)?,
            &mut TensorMut::new(&mut dxb, &sizes)?,
        )?;
        let expected: Vec<f64> = wide(&x).into_iter().map(formula).collect();
        assert_close(&yb.to_vec()?, &expected, 1e-6, &format!("{activation:?}"));
        let difference = |x: f64| (formula(x + 1e-5) - formula(x - 1e-5)) / 2e-5;
        let expected: Vec<f64> = wide(&x).into_iter().zip(wide(&slope)).map(|(x, dy)| difference(x) * dy).collect();
        assert_close(&dxb.to_vec()?, &expected, 1e-5, &format!("slope of {activation:?}"));
    }
    Ok(())
}

/// Batch normalisation in f64, and the loss that the slopes are of.
fn normalized(x: &[f64], sizes: &Sizes, scale: &[f64], bias: &[f64], epsilon: f64) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let pixels = sizes[2] * sizes[3];
    let (mut y, mut means, mut variances) = (vec![0.0; x.len()], Vec::new(), Vec::new());
    for channel in 0..sizes[1] {
        let places: Vec<usize> = (0..x.len()).filter(|at| at / pixels % sizes[1] == channel).collect();
        let mean = places.iter().map(|&at| x[at]).sum::<f64>() / places.len() as f64;
        let variance = places.iter().map(|&at| (x[at] - mean).powi(2)).sum::<f64>() / places.len() as f64;
        places
            .iter()
            .for_each(|&at| y[at] = scale[channel] * (x[at] - mean) / (variance + epsilon).sqrt() + bias[channel]);
        means.push(mean);
        variances.push(variance);
    }
    (y, means, variances)
}

#[test]
fn batch_normalisation_trains_infers_and_goes_backwards() -> hip::Result<()> {
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(13));
    let (sizes, epsilon) = ([3, 4, 5, 2], 1e-3);
    let (x, dy) = (random.values(count(&sizes)), random.values(count(&sizes)));
    let (scale, bias) = (random.values(4), random.values(4));
    let (xb, gb, sb, bb) = (stream.upload(&x)?, stream.upload(&dy)?, stream.upload(&scale)?, stream.upload(&bias)?);
    let normalization = BatchNormalization { scale: sb.view(), bias: bb.view(), epsilon };
    let (mut yb, mut dxb) = (stream.alloc::<f32>(x.len())?, stream.alloc::<f32>(x.len())?);
    let (mut running_mean, mut running_variance) = (stream.upload(&[1f32; 4])?, stream.upload(&[2f32; 4])?);
    let xt = Tensor::new(&xb, &sizes)?;
    let running = (&mut running_mean, &mut running_variance);
    let saved = miopen.batch_normalization_training(
        &normalization,
        &xt,
        &mut TensorMut::new(&mut yb, &sizes)?,
        running,
        0.25,
    )?;
    let (xw, sw, bw) = (wide(&x), wide(&scale), wide(&bias));
    let (expected, means, variances) = normalized(&xw, &sizes, &sw, &bw, epsilon);
    assert_close(&yb.to_vec()?, &expected, 1e-5, "training");
    assert_close(&saved.mean.to_vec()?, &means, 1e-6, "mean");
    let moved: Vec<f64> = means.iter().map(|mean| 0.75 + 0.25 * mean).collect();
    assert_close(&running_mean.to_vec()?, &moved, 1e-6, "running mean");
    let moved: Vec<f64> = variances.iter().map(|variance| 1.5 + 0.25 * variance * 30.0 / 29.0).collect();
    assert_close(&running_variance.to_vec()?, &moved, 1e-6, "running variance");

    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<f32>>();
    let (mb, vb) = (stream.upload(&narrow(&means))?, stream.upload(&narrow(&variances))?);
    let known = (mb.view(), vb.view());
    miopen.batch_normalization_inference(&normalization, known, &xt, &mut TensorMut::new(&mut yb, &sizes)?)?;
    assert_close(&yb.to_vec()?, &expected, 1e-5, "inference");

    let (mut dsb, mut dbb) = (stream.alloc::<f32>(4)?, stream.alloc::<f32>(4)?);
    let (of, slopes) = ((&xt, &Tensor::new(&gb, &sizes)?), (&mut dsb, &mut dbb));
    miopen.batch_normalization_backward(&normalization, &saved, of, &mut TensorMut::new(&mut dxb, &sizes)?, slopes)?;
    let loss = |x: &[f64], scale: &[f64], bias: &[f64]| -> f64 {
        normalized(x, &sizes, scale, bias, epsilon).0.iter().zip(&dy).map(|(y, dy)| y * f64::from(*dy)).sum()
    };
    let slope = |values: &[f64], loss: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        (0..values.len())
            .map(|at| {
                let (mut up, mut down) = (values.to_vec(), values.to_vec());
                (up[at], down[at]) = (up[at] + 1e-5, down[at] - 1e-5);
                (loss(&up) - loss(&down)) / 2e-5
            })
            .collect()
    };
    assert_close(&dxb.to_vec()?, &slope(&xw, &|x| loss(x, &sw, &bw)), 1e-4, "slope of x");
    assert_close(&dsb.to_vec()?, &slope(&sw, &|scale| loss(&xw, scale, &bw)), 1e-4, "slope of the scale");
    assert_close(&dbb.to_vec()?, &slope(&bw, &|bias| loss(&xw, &sw, bias)), 1e-4, "slope of the bias");
    Ok(())
}

#[test]
fn softmax_agrees_with_plain_loops_both_ways() -> hip::Result<()> {
    let stream = stream()?;
    let (miopen, mut random) = (miopen(&stream)?, Random(14));
    let sizes = [2, 6, 3, 2];
    let pixels = 6;
    let (x, dy): (Vec<f32>, Vec<f32>) = (random.values(72).iter().map(|x| 20.0 * x).collect(), random.values(72));
    for form in [Softmax::Plain, Softmax::Log] {
        let (xb, gb, mut yb, mut dxb) =
            (stream.upload(&x)?, stream.upload(&dy)?, stream.alloc::<f32>(72)?, stream.alloc::<f32>(72)?);
        miopen.softmax_forward(form, &Tensor::new(&xb, &sizes)?, &mut TensorMut::new(&mut yb, &sizes)?)?;
        let (yt, gt) = (Tensor::new(&yb, &sizes)?, Tensor::new(&gb, &sizes)?);
        miopen.softmax_backward(form, &yt, &gt, &mut TensorMut::new(&mut dxb, &sizes)?)?;
        let (mut ye, mut dxe) = (vec![0.0; 72], vec![0.0; 72]);
        for at in 0..2 * pixels {
            let places: Vec<usize> = (0..6).map(|c| (at / pixels * 6 + c) * pixels + at % pixels).collect();
            let sum: f64 = places.iter().map(|&p| f64::from(x[p]).exp()).sum();
            let share = |p: usize| f64::from(x[p]).exp() / sum;
            for &p in &places {
                ye[p] = if form == Softmax::Log { share(p).ln() } else { share(p) };
                // The whole matrix of slopes: of y at q with respect to x at p.
                dxe[p] = places
                    .iter()
                    .map(|&q| {
                        let same = if p == q { 1.0 } else { 0.0 };
                        let slope = if form == Softmax::Log { same - share(p) } else { share(q) * (same - share(p)) };
                        f64::from(dy[q]) * slope
                    })
                    .sum();
            }
        }
        assert_close(&yb.to_vec()?, &ye, 1e-5, &format!("{form:?}"));
        assert_close(&dxb.to_vec()?, &dxe, 1e-5, &format!("{form:?} backwards"));
    }
    Ok(())
}

#[test]
fn bad_input_is_refused_with_a_sentence_and_the_next_call_works() -> hip::Result<()> {
    let (stream, other) = (stream()?, stream()?);
    let miopen = miopen(&stream)?;
    let (xb, wb, foreign) = (stream.zeros::<f32>(16)?, stream.zeros::<f32>(4)?, other.zeros::<f32>(16)?);
    let mut yb = stream.zeros::<f32>(16)?;
    let said = |outcome: hip::Result<()>, words: &str| {
        let text = outcome.expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    };
    said(Tensor::new(&xb, &[1, 1, 5, 4]).map(drop), "sizes [1, 1, 5, 4]");
    said(Tensor::new(&xb, &[0, 1, 5, 4]).map(drop), "no empty ones");
    let (x, w, plain) = (Tensor::new(&xb, &[1, 1, 4, 4])?, Tensor::new(&wb, &[1, 1, 2, 2])?, Convolution::default());
    said(miopen.convolution_forward(&plain, &x, &w, &mut TensorMut::new(&mut yb, &[1, 1, 4, 4])?), "same sizes");
    let wide = Convolution { dilation: [9, 9], ..plain };
    said(miopen.convolution_forward(&wide, &x, &w, &mut TensorMut::new(&mut yb, &[1, 1, 3, 3])?), "does not fit");
    let far = Tensor::new(&foreign, &[1, 1, 4, 4])?;
    said(miopen.convolution_forward(&plain, &far, &w, &mut TensorMut::new(&mut yb, &[1, 1, 3, 3])?), "another stream");
    // A shape that was not searched for yet cannot be captured; the next try, after the search, can.
    let shape = Convolution { padding: [1, 1], ..plain };
    let mut out = stream.alloc::<f32>(25)?;
    let mut run = || miopen.convolution_forward(&shape, &x, &w, &mut TensorMut::new(&mut out, &[1, 1, 5, 5])?);
    said(stream.capture(|_| run()).map(drop), "before the capture");
    run()?;
    stream.capture(|_| run())?.launch(&stream)?;
    assert_eq!(out.to_vec()?, [0.0; 25]);
    Ok(())
}

#[test]
fn a_start_that_finds_no_memory_gets_what_the_pools_keep() -> hip::Result<()> {
    let stream = hip::Platform::named("host")?.device(0)?.new_stream()?;
    drop(stream.alloc::<u8>(64 << 20)?);
    let kept = stream.pool_stats().reserved_bytes;
    assert!(kept >= 64 << 20);
    const ALLOC_FAILED: i32 = 4;
    let armed = hip_host::inject::fail("miopenCreateWithStream", 1, ALLOC_FAILED);
    miopen(&stream)?;
    assert!(armed.fired() && stream.pool_stats().reserved_bytes < kept, "the pool gave back what it kept");
    Ok(())
}
