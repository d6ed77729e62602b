//! Batch normalisation: in training, with a known mean and variance, and backwards.

use super::*;
use hip::Buffer;

/// Batch normalisation over batch, height and width: each channel has a scale and a bias.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormalization<'a> {
    /// A factor for each channel.
    pub scale: View<'a, f32>,
    /// A summand for each channel.
    pub bias: View<'a, f32>,
    /// Added to the variance.
    pub epsilon: f64,
}

/// What training leaves for the backward pass, a number for each channel.
#[derive(Debug)]
pub struct BatchStatistics {
    /// The mean.
    pub mean: Buffer<f32>,
    /// One over the square root of the variance and epsilon.
    pub inverse_deviation: Buffer<f32>,
}

const SPATIAL: miopenBatchNormMode_t = miopenBatchNormMode_t::miopenBNSpatial;

impl Miopen {
    /// The address of one number for each channel, in memory of the stream.
    fn channels<'a>(&self, what: &str, count: usize, memory: impl Into<View<'a, f32>>) -> Result<*mut c_void> {
        let memory = memory.into();
        if memory.len() != count {
            return Err(Error::refused(format!(
                "{what} has one number for each of {count} channels, not {}",
                memory.len()
            )));
        }
        self.stream.uses(memory)?;
        Ok(memory.ptr().as_raw())
    }

    /// Normalises a batch with its own mean and variance, and moves the running ones towards them by `factor`.
    pub fn batch_normalization_training<T: Element>(
        &self,
        normalization: &BatchNormalization<'_>,
        x: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
        running: (&mut Buffer<f32>, &mut Buffer<f32>),
        factor: f64,
    ) -> Result<BatchStatistics> {
        same_sizes("batch normalisation", &x.sizes, &y.sizes)?;
        let count = x.sizes[1];
        let statistics =
            BatchStatistics { mean: self.stream.alloc(count)?, inverse_deviation: self.stream.alloc(count)? };
        let parameters = self.describe(f32::TYPE, &[1, count, 1, 1])?;
        let scale = self.channels("the scale", count, normalization.scale)?;
        let bias = self.channels("the bias", count, normalization.bias)?;
        let running_mean = self.channels("the running mean", count, &*running.0)?;
        let running_variance = self.channels("the running variance", count, &*running.1)?;
        let mean = self.channels("the mean", count, &statistics.mean)?;
        let inverse = self.channels("the deviation", count, &statistics.inverse_deviation)?;
        let (x, y) = (self.input(x)?, self.output(y)?);
        // SAFETY: tensors and parameters belong to the stream, and sizes were checked to go together.
        self.call("miopenBatchNormalizationForwardTraining", |table, handle| unsafe {
            (table.miopenBatchNormalizationForwardTraining)(
                handle,
                SPATIAL,
                scalar(&ONE).cast_mut(),
                scalar(&ZERO).cast_mut(),
                x.is.handle,
                x.at,
                y.is.handle,
                y.at,
                parameters.handle,
                scale,
                bias,
                factor,
                running_mean,
                running_variance,
                normalization.epsilon,
                mean,
                inverse,
            )
        })?;
        Ok(statistics)
    }

    /// Normalises with a mean and a variance that are known.
    pub fn batch_normalization_inference<T: Element>(
        &self,
        normalization: &BatchNormalization<'_>,
        (mean, variance): (View<'_, f32>, View<'_, f32>),
        x: &Tensor<'_, T>,
        y: &mut TensorMut<'_, T>,
    ) -> Result<()> {
        same_sizes("batch normalisation", &x.sizes, &y.sizes)?;
        let count = x.sizes[1];
        let parameters = self.describe(f32::TYPE, &[1, count, 1, 1])?;
        let scale = self.channels("the scale", count, normalization.scale)?;
        let bias = self.channels("the bias", count, normalization.bias)?;
        let (mean, variance) =
            (self.channels("the mean", count, mean)?, self.channels("the variance", count, variance)?);
        let (x, y) = (self.input(x)?, self.output(y)?);
        // SAFETY: tensors and parameters belong to the stream, and sizes were checked to go together.
        self.call("miopenBatchNormalizationForwardInference", |table, handle| unsafe {
            (table.miopenBatchNormalizationForwardInference)(
                handle,
                SPATIAL,
                scalar(&ONE).cast_mut(),
                scalar(&ZERO).cast_mut(),
                x.is.handle,
                x.at,
                y.is.handle,
                y.at,
                parameters.handle,
                scale,
                bias,
                mean,
                variance,
                normalization.epsilon,
            )
        })
    }

    /// The gradients of the argument, of the scale and of the bias.
    pub fn batch_normalization_backward<T: Element>(
        &self,
        normalization: &BatchNormalization<'_>,
        statistics: &BatchStatistics,
        (x, dy): (&Tensor<'_, T>, &Tensor<'_, T>),
        dx: &mut TensorMut<'_, T>,
        (d_scale, d_bias): (&mut Buffer<f32>, &mut Buffer<f32>),
    ) -> Result<()> {
        same_sizes("batch normalisation", &x.sizes, &dy.sizes)?;
        same_sizes("batch normalisation", &x.sizes, &dx.sizes)?;
        let count = x.sizes[1];
        let parameters = self.describe(f32::TYPE, &[1, count, 1, 1])?;
        let scale = self.channels("the scale", count, normalization.scale)?;
        let mean = self.channels("the mean", count, &statistics.mean)?;
        let inverse = self.channels("the deviation", count, &statistics.inverse_deviation)?;
        let d_scale = self.channels("the scale's gradient", count, &*d_scale)?;
        let d_bias = self.channels("the bias's gradient", count, &*d_bias)?;
        let (x, dy, dx) = (self.input(x)?, self.input(dy)?, self.output(dx)?);
        // SAFETY: tensors and parameters belong to the stream, and sizes were checked to go together.
        self.call("miopenBatchNormalizationBackward", |table, handle| unsafe {
            (table.miopenBatchNormalizationBackward)(
                handle,
                SPATIAL,
                scalar(&ONE),
                scalar(&ZERO),
                scalar(&ONE),
                scalar(&ZERO),
                x.is.handle,
                x.at,
                dy.is.handle,
                dy.at,
                dx.is.handle,
                dx.at,
                parameters.handle,
                scale,
                d_scale,
                d_bias,
                normalization.epsilon,
                mean,
                inverse,
            )
        })
    }
}
