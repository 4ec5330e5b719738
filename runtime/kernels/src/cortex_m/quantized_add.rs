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
    sum::Sum,
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

fn add(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sum = Sum {
        zero_points: [int32(args, 1)?, int32(args, 5)?],
        scales: [Requantizer::from_args(args, 2)?, Requantizer::from_args(args, 6)?],
        scale: Requantizer::from_args(args, 9)?,
        range: OutputRange::from_args(args, int32(args, 8)?, 11, 12)?,
    };
    channelwise(args, [0, 4, 13], |a, b, out| sum.run(a, b, out))
}
