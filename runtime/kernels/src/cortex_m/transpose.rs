//! `cortex_m::transpose.out`: permutation of dimensions.
//!
//! | argument | type                 | shape                |
//! |----------|----------------------|----------------------|
//! | `input`  | tensor of real dtype | any                  |
//! | `perm`   | ints, a permutation  |                      |
//! | `out`    | as `input`           | permuted sizes       |
//!
//! Dimension `d` of the output is dimension `perm[d]` of the input. Exact.
//! Errors: `perm` is not a permutation, other dtypes. Source: CMSIS-NN `arm_transpose_s8`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext};

use crate::shared::{element_copy::copy_permuted, int8::arguments::invalid};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("cortex_m::transpose.out", &[Arg::Tensor, Arg::IntList, Arg::Out], transpose)];

fn transpose(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let input = args.tensor(0)?;
    let (list, rank) = (args.int_list(1)?, input.rank());
    let own = input.strides();
    let mut sizes = Dims::filled(rank, 0);
    let mut strides = Dims::filled(rank, 0);
    let mut seen = 0_u32;
    for (dim, from) in list.iter().enumerate().take(rank) {
        // A negative dimension counts from the end.
        let from = if from < 0 { from.wrapping_add(rank as i64) } else { from };
        let from = usize::try_from(from).ok().filter(|&from| from < rank);
        let from = from.ok_or(invalid(1, "a permutation of the dimensions"))?;
        seen |= 1 << from;
        (sizes[dim], strides[dim]) = (input.sizes()[from], own[from]);
    }
    if list.len() != rank || seen.count_ones() as usize != rank {
        return Err(invalid(1, "a permutation of the dimensions"));
    }
    let mut out = args.out(2)?;
    if out.dtype() != input.dtype() {
        return Err(Error::InvalidType { index: 2, found: out.dtype() });
    }
    out.resize(&sizes)?;
    copy_permuted(&mut out, &input, &strides, 0)
}
