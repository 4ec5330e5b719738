//! Operators of the namespace `llama`: attention with a KV cache and other operators of language
//! models.

use afferent_core::Kernel;

mod channelwise_gated_delta_rule;
mod custom_quantized_sdpa;
mod custom_sdpa;
mod fallback;
mod fast_hadamard_transform;
mod gated_delta_rule;
mod quantized_moe_ffn;
mod sdpa_with_kv_cache;
mod update_cache;
mod update_cache_with_indices;

/// Kernels of the namespace, one slice per file, in alphabetical order.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    channelwise_gated_delta_rule::KERNELS,
    custom_quantized_sdpa::KERNELS,
    custom_sdpa::KERNELS,
    fallback::KERNELS,
    fast_hadamard_transform::KERNELS,
    gated_delta_rule::KERNELS,
    quantized_moe_ffn::KERNELS,
    sdpa_with_kv_cache::KERNELS,
    update_cache::KERNELS,
    update_cache_with_indices::KERNELS,
];
