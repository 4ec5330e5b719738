//! Arithmetic on 8-bit quantized tensors, with the results of CMSIS-NN.
//!
//! A real value is `(q - zero_point) · scale`. Ratios of scales are fixed-point numbers
//! ([`requantize::Requantizer`]). Convolutions and linear layers are products of rows and filters
//! ([`product`]), for which there are three instruction sets: portable code, the DSP extension of
//! Armv7E-M, and MVE. `build.rs` selects one.

pub(crate) mod arguments;
pub(crate) mod broadcast;
pub(crate) mod columns;
pub(crate) mod depthwise;
pub(crate) mod dsp;
pub(crate) mod image;
#[cfg(afferent_mve)]
pub(crate) mod mve;
pub(crate) mod per_channel;
pub(crate) mod pooling;
pub(crate) mod product;
pub(crate) mod requantize;
pub(crate) mod sum;
pub(crate) mod window;
