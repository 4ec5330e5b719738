//! `cortex_m::quantized_mul.out`: product of quantized tensors.
//!
//! | argument                                     | type      | shape                               |
//! |----------------------------------------------|-----------|-------------------------------------|
//! | `self`                                       | i8 tensor | any                                 |
//! | `self_zero_point`                            | int       |                                     |
//! | `other`                                      | i8 tensor | as `self`, or one element a channel |
//! | `other_zero_point`                           | int       |                                     |
//! | `output_zero_point`, `_multiplier`, `_shift` | ints      |                                     |
//! | `out`                                        | i8 tensor | of the larger one                   |
//!
//! Requantizes `(a - a_zero_point) · (b - b_zero_point)`, adds `output_zero_point` and clamps to i8.
//! Shapes as `quantized_add`. Exact.
//! Errors: other sizes, memory orders or dtypes.
//! Source: CMSIS-NN `arm_elementwise_mul_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::int32,
    broadcast::{channelwise, each},
    requantize::{OutputRange, Requantizer},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "cortex_m::quantized_mul.out",
    &[Arg::Tensor, Arg::Int, Arg::Tensor, Arg::Int, Arg::Int, Arg::Int, Arg::Int, Arg::Out],
    mul,
)];

fn mul(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let zero_points = [int32(args, 1)?, int32(args, 3)?];
    let range = OutputRange::full(int32(args, 4)?);
    let scale = Requantizer::from_args(args, 5)?;
    let product = |a, b| {
        let operand = |at: usize, x: i8| i32::from(x).wrapping_sub(zero_points[at]);
        range.quantize(scale.apply(operand(0, a).wrapping_mul(operand(1, b))))
    };
    channelwise(args, [0, 2, 7], |a, b, out| each(a, b, out, product))
}
