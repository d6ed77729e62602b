//! Stable Diffusion's parts, small and with random weights: a UNet with cross attention on the way down and up, with an odd
//! image size that needs its special upsampling, and the variational autoencoder both ways.

use super::{assert_close, random, rocm};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::stable_diffusion::unet_2d::{
    BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig,
};
use candle_transformers::models::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};

fn denoise(device: &Device, (height, width): (usize, usize)) -> Result<Tensor> {
    let block = |out_channels, use_cross_attn| BlockConfig { out_channels, use_cross_attn, attention_head_dim: 4 };
    let config = UNet2DConditionModelConfig {
        blocks: vec![block(32, Some(1)), block(64, None)],
        layers_per_block: 1,
        norm_num_groups: 8,
        cross_attention_dim: 24,
        ..UNet2DConditionModelConfig::default()
    };
    let model = UNet2DConditionModel::new(random::weights(device), 4, 4, false, config)?;
    let latents = random::uniform("latents", (2, 4, height, width))?.to_device(device)?;
    let text = random::uniform("text", (2, 7, 24))?.to_device(device)?;
    model.forward(&latents, 321., &text)
}

#[test]
fn a_unet_denoises_as_on_the_cpu() -> Result<()> {
    for size in [(8, 8), (9, 6)] {
        let what = format!("UNet on latents of {size:?}");
        assert_close(&what, &denoise(&Device::Cpu, size)?, &denoise(&rocm(), size)?, 1e-3)?;
    }
    Ok(())
}

fn encode_and_decode(device: &Device) -> Result<[Tensor; 2]> {
    let config = AutoEncoderKLConfig {
        block_out_channels: vec![32, 64],
        layers_per_block: 1,
        norm_num_groups: 8,
        ..AutoEncoderKLConfig::default()
    };
    // An encoding can only be sampled. The upper half of the encoder's channels is the logarithm of the variance: with so
    // little of it, every sample is the mean.
    let weights = random::weights_but(device, |name, parameter| match name {
        "quant_conv.bias" => Tensor::cat(&[parameter.narrow(0, 0, 4)?, (parameter.narrow(0, 4, 4)? - 60.)?], 0),
        _ => Ok(parameter),
    });
    let model = AutoEncoderKL::new(weights, 3, 3, config)?;
    let image = random::uniform("image", (1, 3, 16, 16))?.to_device(device)?;
    let latents = model.encode(&image)?.sample()?;
    let decoded = model.decode(&latents)?;
    Ok([latents, decoded])
}

#[test]
fn an_autoencoder_codes_as_on_the_cpu() -> Result<()> {
    for ((name, on_cpu), on_rocm) in ["autoencoder's encoder", "autoencoder's decoder"]
        .iter()
        .zip(encode_and_decode(&Device::Cpu)?)
        .zip(encode_and_decode(&rocm())?)
    {
        assert_close(name, &on_cpu, &on_rocm, 1e-3)?;
    }
    Ok(())
}
