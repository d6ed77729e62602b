//! Batch normalisation over batch, height and width. Means and variances are kept in f64 until they are stored.

use super::*;

/// The elements of each channel, by their places in row-major order.
fn channels([n, c, h, w]: [usize; 4]) -> impl Iterator<Item = Vec<usize>> {
    let pixels = h * w;
    (0..c).map(move |channel| {
        (0..n).flat_map(|image| (0..pixels).map(move |p| (image * c + channel) * pixels + p)).collect()
    })
}

fn spatial(mode: miopenBatchNormMode_t) -> Outcome {
    (mode == miopenBatchNormMode_t::miopenBNSpatial).then_some(()).ok_or(NOT_IMPLEMENTED)
}

const PLAIN: (f32, f32) = (1.0, 0.0);

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn training(
    handle: miopenHandle_t,
    mode: miopenBatchNormMode_t,
    alpha: *mut c_void,
    beta: *mut c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *mut c_void,
    _parameters: miopenTensorDescriptor_t,
    scale: *mut c_void,
    bias: *mut c_void,
    factor: f64,
    running_mean: *mut c_void,
    running_variance: *mut c_void,
    epsilon: f64,
    mean: *mut c_void,
    inverse: *mut c_void,
) -> miopenStatus_t {
    let act = || {
        spatial(mode)?;
        let (from, to) = (Placed::new(x_is, x)?, Placed::new(y_is, y)?);
        require(from.sizes() == to.sizes())?;
        let parameter = |at| Placed::parameters(from.sizes()[1], at);
        let (scale, bias) = (parameter(scale)?, parameter(bias)?);
        let (running_mean, running_variance) = (parameter(running_mean)?, parameter(running_variance)?);
        let (mean, inverse) = (parameter(mean)?, parameter(inverse)?);
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to, &running_mean, &running_variance, &mean, &inverse], move || {
            let (x, scale, bias, mut y) = (from.read(), scale.read(), bias.read(), vec![0.0; to.count()]);
            let (mut means, mut inverses) = (running_mean.read(), running_variance.read());
            let (mut moved_means, mut moved_variances) = (means.clone(), inverses.clone());
            for (channel, places) in channels(from.sizes()).enumerate() {
                let count = places.len() as f64;
                let center = places.iter().map(|&at| f64::from(x[at])).sum::<f64>() / count;
                let variance = places.iter().map(|&at| (f64::from(x[at]) - center).powi(2)).sum::<f64>() / count;
                let inverse = 1.0 / (variance + epsilon).sqrt();
                for &at in &places {
                    let normal = (f64::from(x[at]) - center) * inverse;
                    y[at] = (f64::from(scale[channel]) * normal + f64::from(bias[channel])) as f32;
                }
                (means[channel], inverses[channel]) = (center as f32, inverse as f32);
                // What a sample says about the whole: one element less counts.
                let unbiased = variance * count / (count - 1.0).max(1.0);
                let moved = |before: f32, now: f64| ((1.0 - factor) * f64::from(before) + factor * now) as f32;
                moved_means[channel] = moved(moved_means[channel], center);
                moved_variances[channel] = moved(moved_variances[channel], unbiased);
            }
            to.write(y, blend);
            for (target, values) in
                [(mean, means), (inverse, inverses), (running_mean, moved_means), (running_variance, moved_variances)]
            {
                target.write(values, PLAIN);
            }
        })
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn inference(
    handle: miopenHandle_t,
    mode: miopenBatchNormMode_t,
    alpha: *mut c_void,
    beta: *mut c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    y_is: miopenTensorDescriptor_t,
    y: *mut c_void,
    _parameters: miopenTensorDescriptor_t,
    scale: *mut c_void,
    bias: *mut c_void,
    mean: *mut c_void,
    variance: *mut c_void,
    epsilon: f64,
) -> miopenStatus_t {
    let act = || {
        spatial(mode)?;
        let (from, to) = (Placed::new(x_is, x)?, Placed::new(y_is, y)?);
        require(from.sizes() == to.sizes())?;
        let parameter = |at| Placed::parameters(from.sizes()[1], at);
        let parameters = [parameter(scale)?, parameter(bias)?, parameter(mean)?, parameter(variance)?];
        // SAFETY: the caller passes two floats.
        let blend = unsafe { blend(alpha, beta) }?;
        queue(handle, &[&to], move || {
            let (mut values, [scale, bias, mean, variance]) =
                (from.read(), parameters.map(|parameter| parameter.read()));
            for (channel, places) in channels(from.sizes()).enumerate() {
                let factor = f64::from(scale[channel]) / (f64::from(variance[channel]) + epsilon).sqrt();
                for at in places {
                    let centered = f64::from(values[at]) - f64::from(mean[channel]);
                    values[at] = (factor * centered + f64::from(bias[channel])) as f32;
                }
            }
            to.write(values, blend);
        })
    };
    answer(act())
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn backward(
    handle: miopenHandle_t,
    mode: miopenBatchNormMode_t,
    alpha_data: *const c_void,
    beta_data: *const c_void,
    alpha_parameters: *const c_void,
    beta_parameters: *const c_void,
    x_is: miopenTensorDescriptor_t,
    x: *const c_void,
    dy_is: miopenTensorDescriptor_t,
    dy: *const c_void,
    dx_is: miopenTensorDescriptor_t,
    dx: *mut c_void,
    _parameters: miopenTensorDescriptor_t,
    scale: *const c_void,
    d_scale: *mut c_void,
    d_bias: *mut c_void,
    _epsilon: f64,
    mean: *const c_void,
    inverse: *const c_void,
) -> miopenStatus_t {
    let act = || {
        spatial(mode)?;
        let (at, slope, to) = (Placed::new(x_is, x)?, Placed::new(dy_is, dy)?, Placed::new(dx_is, dx)?);
        require(at.sizes() == to.sizes() && slope.sizes() == to.sizes())?;
        let parameter = |at| Placed::parameters(to.sizes()[1], at);
        let saved = [parameter(scale)?, parameter(mean)?, parameter(inverse)?];
        let (d_scale, d_bias) = (parameter(d_scale)?, parameter(d_bias)?);
        // SAFETY: the caller passes four floats.
        let (of_data, of_parameters) =
            unsafe { (blend(alpha_data, beta_data)?, blend(alpha_parameters, beta_parameters)?) };
        queue(handle, &[&to, &d_scale, &d_bias], move || {
            let (x, dy, [scale, mean, inverse]) = (at.read(), slope.read(), saved.map(|parameter| parameter.read()));
            let (mut dx, mut scales, mut biases) =
                (vec![0.0; to.count()], vec![0.0; scale.len()], vec![0.0; scale.len()]);
            for (channel, places) in channels(to.sizes()).enumerate() {
                let (center, inverse) = (f64::from(mean[channel]), f64::from(inverse[channel]));
                let normal = |at: usize| (f64::from(x[at]) - center) * inverse;
                let of_bias: f64 = places.iter().map(|&at| f64::from(dy[at])).sum();
                let of_scale: f64 = places.iter().map(|&at| f64::from(dy[at]) * normal(at)).sum();
                let count = places.len() as f64;
                for &at in &places {
                    let rest = f64::from(dy[at]) - (of_bias + normal(at) * of_scale) / count;
                    dx[at] = (f64::from(scale[channel]) * inverse * rest) as f32;
                }
                (scales[channel], biases[channel]) = (of_scale as f32, of_bias as f32);
            }
            to.write(dx, of_data);
            d_scale.write(scales, of_parameters);
            d_bias.write(biases, of_parameters);
        })
    };
    answer(act())
}
