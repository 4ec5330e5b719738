//! Operators of the namespace `quantized_decomposed`.

use afferent_core::Kernel;

mod add;
mod choose_qparams;
mod choose_qparams_per_token_asymmetric;
mod dequantize_per_channel;
mod dequantize_per_tensor;
mod dequantize_per_token;
mod embedding_2bit;
mod embedding_4bit;
mod embedding_byte;
mod mixed_linear;
mod mixed_mm;
mod quantize_per_channel;
mod quantize_per_tensor;
mod quantize_per_token;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    add::KERNELS,
    choose_qparams::KERNELS,
    choose_qparams_per_token_asymmetric::KERNELS,
    dequantize_per_channel::KERNELS,
    dequantize_per_tensor::KERNELS,
    dequantize_per_token::KERNELS,
    embedding_2bit::KERNELS,
    embedding_4bit::KERNELS,
    embedding_byte::KERNELS,
    mixed_linear::KERNELS,
    mixed_mm::KERNELS,
    quantize_per_channel::KERNELS,
    quantize_per_tensor::KERNELS,
    quantize_per_token::KERNELS,
];
