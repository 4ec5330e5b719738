//! `cortex_m::quantized_add.out`: sum of quantized tensors.
//!
//! | argument                                         | type           | shape              |
//! |--------------------------------------------------|----------------|--------------------|
//! | `self`                                           | i8 tensor      | any                |
//! | `self_zero_point`, `_multiplier`, `_shift`       | ints           |                    |
//! | `other`                                          | i8 tensor      | as `self`, or one element a channel |
//! | `other_zero_point`, `_multiplier`, `_shift`      | ints           |                    |
//! | `output_zero_point`, `_multiplier`, `_shift`     | ints           |                    |
//! | `activation_min`, `activation_max`               | ints of 8 bits |                    |
//! | `out`                                            | i8 tensor      | of the larger one  |
//!
//! Requantizes `(x - zero_point) · 2²⁰` of both tensors, adds the results, requantizes the sum, adds
//! `output_zero_point` and clamps. Either tensor may have one element for each channel of the other,
//! an image with channels last. Exact.
//! Errors: other sizes, memory orders or dtypes.
//! Source: CMSIS-NN `arm_elementwise_add_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::int32,
    broadcast::channelwise,
    requantize::{OutputRange, Requantizer},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_add.out",
    &[
        Arg::Tensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Tensor,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Int,
        Arg::Out,
    ],
    add,
)];

/// Fraction bits of an operand.
const FRACTION_BITS: u32 = 20;

fn add(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let zero_points = [int32(args, 1)?, int32(args, 5)?];
    let scales = [Requantizer::from_args(args, 2)?, Requantizer::from_args(args, 6)?];
    let range = OutputRange::from_args(args, int32(args, 8)?, 11, 12)?;
    let scale = Requantizer::from_args(args, 9)?;
    channelwise(args, [0, 4, 13], |a, b| {
        let operand = |at: usize, x: i8| {
            let x = i32::from(x).wrapping_sub(zero_points[at]).wrapping_shl(FRACTION_BITS);
            scales[at].apply(x)
        };
        range.quantize(scale.apply(operand(0, a).wrapping_add(operand(1, b))))
    })
}
