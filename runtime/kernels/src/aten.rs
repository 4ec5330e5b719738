//! The operators of ATen.

use afferent_core::Kernel;

mod addmm;
mod amax;
mod amin;
mod any;
mod argmax;
mod argmin;
mod bmm;
mod convolution;
mod cumsum;
mod linear;
mod log_softmax;
mod max;
mod mean;
mod min;
mod mm;
mod native_batch_norm_legit;
mod native_batch_norm_legit_no_training;
mod native_group_norm;
mod native_layer_norm;
mod prod;
mod softmax;
mod sum;
mod var;

/// Every kernel of the namespace, one slice per operator file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    addmm::KERNELS,
    amax::KERNELS,
    amin::KERNELS,
    any::KERNELS,
    argmax::KERNELS,
    argmin::KERNELS,
    bmm::KERNELS,
    convolution::KERNELS,
    cumsum::KERNELS,
    linear::KERNELS,
    log_softmax::KERNELS,
    max::KERNELS,
    mean::KERNELS,
    min::KERNELS,
    mm::KERNELS,
    native_batch_norm_legit::KERNELS,
    native_batch_norm_legit_no_training::KERNELS,
    native_group_norm::KERNELS,
    native_layer_norm::KERNELS,
    prod::KERNELS,
    softmax::KERNELS,
    sum::KERNELS,
    var::KERNELS,
];
