//! Operators of the namespace `cortex_m`: 8-bit networks for microcontrollers.
//!
//! Programs of ExecuTorch's Cortex-M backend use them. The results are those of CMSIS-NN on every
//! processor. The argument lists are those of ExecuTorch 1.5.1; programs with other ones fail to
//! load and must be exported again.

use afferent_core::Kernel;

mod dequantize_per_tensor;
mod maximum;
mod minimum;
mod pad;
mod quantize_per_tensor;
mod quantized_activation;
mod quantized_add;
mod quantized_avg_pool2d;
mod quantized_batch_matmul;
mod quantized_conv2d;
mod quantized_depthwise_conv2d;
mod quantized_div;
mod quantized_linear;
mod quantized_max_pool2d;
mod quantized_mul;
mod quantized_transpose_conv2d;
mod softmax;
mod transpose;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    dequantize_per_tensor::KERNELS,
    maximum::KERNELS,
    minimum::KERNELS,
    pad::KERNELS,
    quantize_per_tensor::KERNELS,
    quantized_activation::KERNELS,
    quantized_add::KERNELS,
    quantized_avg_pool2d::KERNELS,
    quantized_batch_matmul::KERNELS,
    quantized_conv2d::KERNELS,
    quantized_depthwise_conv2d::KERNELS,
    quantized_div::KERNELS,
    quantized_linear::KERNELS,
    quantized_max_pool2d::KERNELS,
    quantized_mul::KERNELS,
    quantized_transpose_conv2d::KERNELS,
    softmax::KERNELS,
    transpose::KERNELS,
];
