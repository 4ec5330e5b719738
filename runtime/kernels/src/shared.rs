//! Building blocks of kernels.
//!
//! Data movement starts from [`strided_view`], arithmetic on elements from [`pointwise`], and
//! reductions from [`reduce`]. Most other kernels read and write through [`elements`].

pub(crate) mod accumulator;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod cast;
pub(crate) mod complex;
pub(crate) mod conv;
pub(crate) mod dim_apply;
pub(crate) mod dim_args;
pub(crate) mod distance;
pub(crate) mod division;
pub(crate) mod dtype;
pub(crate) mod element_copy;
pub(crate) mod elements;
pub(crate) mod fft;
pub(crate) mod indexing;
pub(crate) mod int8;
pub(crate) mod loop_nest;
pub(crate) mod matmul;
pub(crate) mod min_max;
pub(crate) mod norm;
pub(crate) mod order;
pub(crate) mod packed_weights;
pub(crate) mod padding;
pub(crate) mod pointwise;
pub(crate) mod pooling;
pub(crate) mod quantize;
pub(crate) mod reduce;
pub(crate) mod search;
pub(crate) mod simd;
pub(crate) mod strided_copy;
pub(crate) mod strided_view;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod upsample;
