//! The operators of the namespace `aten`.

use afferent_core::Kernel;

mod arange;
mod as_strided_copy;
mod cat;
mod clone;
mod constant_pad_nd;
mod copy;
mod diagonal_copy;
mod empty;
mod expand_copy;
mod flip;
mod full;
mod gather;
mod index;
mod index_put;
mod index_select;
mod masked_scatter;
mod masked_select;
mod narrow_copy;
mod nonzero;
mod permute_copy;
mod rand;
mod reflection_pad;
mod repeat;
mod repeat_interleave;
mod replication_pad;
mod roll;
mod scalar_tensor;
mod scatter;
mod scatter_add;
mod select_copy;
mod select_scatter;
mod slice_copy;
mod slice_scatter;
mod split_copy;
mod split_with_sizes_copy;
mod squeeze_copy;
mod stack;
mod t_copy;
mod to_copy;
mod transpose_copy;
mod tril;
mod unbind_copy;
mod unfold_copy;
mod unsqueeze_copy;
mod view_as_real_copy;
mod view_copy;
mod zeros;

/// One slice a file, alphabetical.
pub(crate) const KERNELS: &[&[Kernel]] = &[
    arange::KERNELS,
    as_strided_copy::KERNELS,
    cat::KERNELS,
    clone::KERNELS,
    constant_pad_nd::KERNELS,
    copy::KERNELS,
    diagonal_copy::KERNELS,
    empty::KERNELS,
    expand_copy::KERNELS,
    flip::KERNELS,
    full::KERNELS,
    gather::KERNELS,
    index::KERNELS,
    index_put::KERNELS,
    index_select::KERNELS,
    masked_scatter::KERNELS,
    masked_select::KERNELS,
    narrow_copy::KERNELS,
    nonzero::KERNELS,
    permute_copy::KERNELS,
    rand::KERNELS,
    reflection_pad::KERNELS,
    repeat::KERNELS,
    repeat_interleave::KERNELS,
    replication_pad::KERNELS,
    roll::KERNELS,
    scalar_tensor::KERNELS,
    scatter::KERNELS,
    scatter_add::KERNELS,
    select_copy::KERNELS,
    select_scatter::KERNELS,
    slice_copy::KERNELS,
    slice_scatter::KERNELS,
    split_copy::KERNELS,
    split_with_sizes_copy::KERNELS,
    squeeze_copy::KERNELS,
    stack::KERNELS,
    t_copy::KERNELS,
    to_copy::KERNELS,
    transpose_copy::KERNELS,
    tril::KERNELS,
    unbind_copy::KERNELS,
    unfold_copy::KERNELS,
    unsqueeze_copy::KERNELS,
    view_as_real_copy::KERNELS,
    view_copy::KERNELS,
    zeros::KERNELS,
];
