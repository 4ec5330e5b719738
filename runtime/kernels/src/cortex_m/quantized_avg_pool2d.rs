//! `cortex_m::quantized_avg_pool2d.out`, `quantized_avg_pool2d_nhwc.out`: average of windows.
//!
//! | argument              | type                                 | shape                |
//! |-----------------------|--------------------------------------|----------------------|
//! | `input`               | i8 tensor                            | image, channels last |
//! | `kernel_size`         | 1 or 2 ints                          |                      |
//! | `stride`              | 1 or 2 ints                          |                      |
//! | `padding`             | 1 or 2 ints, at most half the window |                      |
//! | `ceil_mode`           | bool                                 |                      |
//! | `zero_point`          | not used                             |                      |
//! | `multiplier`, `shift` | not used                             |                      |
//! | `scratch`             | written                              | any                  |
//! | `out`                 | i8 tensor                            | image, channels last |
//!
//! Sum of the elements of a window, without padding, divided by their number. Rounds half away from
//! zero. Input and output have one scale. Exact.
//! Errors: sizes that do not fit, other dtypes or memory orders. Source: CMSIS-NN `arm_avgpool_s8`.

use afferent_core::{Arg, Args, Error, Kernel};

use crate::shared::int8::{
    arguments::invalid,
    image::{Image, Layout},
    pooling::Pool,
    window::Window,
};

const ARGS: &[Arg] = &[
    Arg::Tensor,
    Arg::IntList,
    Arg::IntList,
    Arg::IntList,
    Arg::Bool,
    Arg::Int,
    Arg::Int,
    Arg::Int,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("cortex_m::quantized_avg_pool2d.out", ARGS, |_, args| {
        avg_pool2d(args, Layout::ChannelsLast)
    }),
    Kernel::new("cortex_m::quantized_avg_pool2d_nhwc.out", ARGS, |_, args| {
        avg_pool2d(args, Layout::Nhwc)
    }),
];

fn avg_pool2d(args: &mut Args<'_>, layout: Layout) -> Result<(), Error> {
    let (image, input) = layout.input(args, 0)?;
    let window = Window::of_pool(args, 1)?;
    let output = window.output(image.size, args.bool(4)?);
    let output = output.ok_or(invalid(0, "an image of at least the window"))?;
    let mut out = args.out(9)?;
    layout.resize(&mut out, Image { size: output, ..image }, 9)?;
    let out = out.data_mut::<i8>()?;
    Pool { input, image, output, window }.run(out, 0, i32::wrapping_add, |sum, count| {
        let half = if sum > 0 { count / 2 } else { -(count / 2) };
        (sum.wrapping_add(half).wrapping_div(count.max(1))).clamp(-128, 127) as i8
    });
    Ok(())
}
