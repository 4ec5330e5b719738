//! The operators of ATen.

use afferent_core::Kernel;

mod adaptive_avg_pool2d;
mod addmm;
mod amax;
mod amin;
mod any;
mod argmax;
mod argmin;
mod avg_pool2d;
mod bmm;
mod cdist_forward;
mod convolution;
mod cumsum;
mod embedding;
mod grid_sampler_2d;
mod linear;
mod log_softmax;
mod max;
mod max_pool2d_with_indices;
mod mean;
mod min;
mod mm;
mod native_batch_norm_legit;
mod native_batch_norm_legit_no_training;
mod native_group_norm;
mod native_layer_norm;
mod pdist_forward;
mod pixel_shuffle;
mod pixel_unshuffle;
mod prod;
mod softmax;
mod sum;
mod topk;
mod upsample_bilinear2d;
mod upsample_bilinear2d_aa;
mod upsample_nearest2d;
mod var;

/// Every kernel of the namespace, one slice per operator file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    adaptive_avg_pool2d::KERNELS,
    addmm::KERNELS,
    amax::KERNELS,
    amin::KERNELS,
    any::KERNELS,
    argmax::KERNELS,
    argmin::KERNELS,
    avg_pool2d::KERNELS,
    bmm::KERNELS,
    cdist_forward::KERNELS,
    convolution::KERNELS,
    cumsum::KERNELS,
    embedding::KERNELS,
    grid_sampler_2d::KERNELS,
    linear::KERNELS,
    log_softmax::KERNELS,
    max::KERNELS,
    max_pool2d_with_indices::KERNELS,
    mean::KERNELS,
    min::KERNELS,
    mm::KERNELS,
    native_batch_norm_legit::KERNELS,
    native_batch_norm_legit_no_training::KERNELS,
    native_group_norm::KERNELS,
    native_layer_norm::KERNELS,
    pdist_forward::KERNELS,
    pixel_shuffle::KERNELS,
    pixel_unshuffle::KERNELS,
    prod::KERNELS,
    softmax::KERNELS,
    sum::KERNELS,
    topk::KERNELS,
    upsample_bilinear2d::KERNELS,
    upsample_bilinear2d_aa::KERNELS,
    upsample_nearest2d::KERNELS,
    var::KERNELS,
];
