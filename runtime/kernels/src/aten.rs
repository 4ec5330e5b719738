//! The operators of ATen.

use afferent_core::Kernel;

mod amax;
mod amin;
mod any;
mod argmax;
mod argmin;
mod cumsum;
mod max;
mod mean;
mod min;
mod prod;
mod sum;
mod var;

/// Every kernel of the namespace, one slice per operator file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    amax::KERNELS,
    amin::KERNELS,
    any::KERNELS,
    argmax::KERNELS,
    argmin::KERNELS,
    cumsum::KERNELS,
    max::KERNELS,
    mean::KERNELS,
    min::KERNELS,
    prod::KERNELS,
    sum::KERNELS,
    var::KERNELS,
];
