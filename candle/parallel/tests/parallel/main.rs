//! Ranks on embedded devices against one device, Candle's CPU: collectives of tensors, data parallel steps, tensor parallel layers.

mod collectives;
mod data;
mod ranks;
mod tensor;
