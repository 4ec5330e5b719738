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
mod max;
mod mean;
mod min;
mod mm;
mod prod;
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
    max::KERNELS,
    mean::KERNELS,
    min::KERNELS,
    mm::KERNELS,
    prod::KERNELS,
    sum::KERNELS,
    var::KERNELS,
];
