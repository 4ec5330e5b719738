//! `cortex_m::quantized_max_pool2d.out`, `quantized_max_pool2d_nhwc.out`: maximum of windows.
//!
//! | argument                                | type                                 | shape                |
//! |-----------------------------------------|--------------------------------------|----------------------|
//! | `input`                                 | i8 tensor                            | image, channels last |
//! | `kernel_size`                           | 1 or 2 ints                          |                      |
//! | `stride`                                | 1 or 2 ints                          |                      |
//! | `padding`                               | 1 or 2 ints, at most half the window |                      |
//! | `dilation`                              | ones                                 |                      |
//! | `ceil_mode`                             | false                                |                      |
//! | `input_zero_point`, `output_zero_point` | equal ints                           |                      |
//! | `activation_min`, `activation_max`      | ints of 8 bits                       |                      |
//! | `out`                                   | i8 tensor                            | image, channels last |
//!
//! Largest element of a window, without padding, clamped. Exact.
//! Errors: sizes that do not fit, other dtypes or memory orders. Source: CMSIS-NN `arm_max_pool_s8`.

use afferent_core::{Arg, Args, Error, Kernel};

use crate::shared::int8::{
    arguments::{invalid, pair},
    image::{Image, Layout},
    pooling::Pool,
    requantize::OutputRange,
    window::Window,
};

const ARGS: &[Arg] = &[
    Arg::Tensor,
    Arg::IntList,
    Arg::IntList,
    Arg::IntList,
    Arg::IntList,
    Arg::Bool,
    Arg::Int,
    Arg::Int,
    Arg::Int,
    Arg::Int,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("cortex_m::quantized_max_pool2d.out", ARGS, |_, args| {
        max_pool2d(args, Layout::ChannelsLast)
    }),
    Kernel::new("cortex_m::quantized_max_pool2d_nhwc.out", ARGS, |_, args| {
        max_pool2d(args, Layout::Nhwc)
    }),
];

fn max_pool2d(args: &mut Args<'_>, layout: Layout) -> Result<(), Error> {
    let (image, input) = layout.input(args, 0)?;
    let window = Window::of_pool(args, 1)?;
    if pair(args, 4, 1)? != [1, 1] {
        return Err(Error::NotSupported { what: "max pools with dilation" });
    }
    if args.bool(5)? {
        return Err(Error::NotSupported { what: "max pools with `ceil_mode`" });
    }
    if args.int(6)? != args.int(7)? {
        return Err(invalid(7, "the zero point of the input"));
    }
    let range = OutputRange::from_args(args, 0, 8, 9)?;
    let output = window.output(image.size, false);
    let output = output.ok_or(invalid(0, "an image of at least the window"))?;
    let mut out = args.out(10)?;
    layout.resize(&mut out, Image { size: output, ..image }, 10)?;
    let out = out.data_mut::<i8>()?;
    Pool { input, image, output, window }.run(out, -128, i32::max, |max, _| range.quantize(max));
    Ok(())
}
