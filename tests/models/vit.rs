//! A vision transformer, small and with random weights.

use super::{assert_close, random, rocm};
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::vit::{Config, Model};

fn classify(device: &Device) -> Result<Tensor> {
    let config = Config {
        hidden_size: 64,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        intermediate_size: 128,
        hidden_act: candle_nn::Activation::Gelu,
        layer_norm_eps: 1e-12,
        image_size: 32,
        patch_size: 8,
        num_channels: 3,
        qkv_bias: true,
    };
    let model = Model::new(&config, 10, random::weights(device))?;
    model.forward(&random::uniform("images", (2, 3, 32, 32))?.to_device(device)?)
}

#[test]
fn a_vision_transformer_sees_what_the_cpu_sees() -> Result<()> {
    assert_close("vision transformer", &classify(&Device::Cpu)?, &classify(&rocm())?, 1e-4)
}
