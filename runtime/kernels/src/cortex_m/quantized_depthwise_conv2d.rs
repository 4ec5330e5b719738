//! `cortex_m::quantized_depthwise_conv2d.out`, `quantized_depthwise_conv2d_nhwc.out`: convolution
//! of each channel of an image.
//!
//! | argument                 | type                | shape                                 |
//! |--------------------------|---------------------|---------------------------------------|
//! | `input`                  | i8 tensor           | image, channels last                  |
//! | `weight`                 | i8 tensor           | `[1, kh, kw, c · depth_multiplier]`   |
//! | `bias`                   | optional i32 tensor | `[c · depth_multiplier]`              |
//! | `stride`                 | 1 or 2 ints         |                                       |
//! | `padding`                | 1 or 2 ints         |                                       |
//! | `dilation`               | 1 or 2 ints         |                                       |
//! | `depth_multiplier`       | int                 |                                       |
//! | `input_offset`           | int, -127 to 128    |                                       |
//! | `output_offset`          | int                 |                                       |
//! | `requantize_multipliers` | i32 tensor          | as `bias`                             |
//! | `requantize_shifts`      | i32 tensor          | as `bias`                             |
//! | `activation_min`, `_max` | ints of 8 bits      |                                       |
//! | `scratch`                | written             | any                                   |
//! | `out`                    | i8 tensor           | image, channels last                  |
//!
//! Output channel `o` reads input channel `o / depth_multiplier`. Otherwise as `quantized_conv2d`.
//! Exact.
//! Errors: sizes that do not fit, other dtypes or memory orders.
//! Source: CMSIS-NN `arm_depthwise_conv_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{elements, int32, invalid},
    depthwise::Depthwise,
    image::{Image, Layout},
    per_channel::PerChannel,
    product,
    window::Window,
};

const ARGS: &[Arg] = &[
    Arg::Tensor,
    Arg::Tensor,
    Arg::OptTensor,
    Arg::IntList,
    Arg::IntList,
    Arg::IntList,
    Arg::Int,
    Arg::Int,
    Arg::Int,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Int,
    Arg::Int,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("cortex_m::quantized_depthwise_conv2d.out", ARGS, |cx, args| {
        depthwise_conv2d(cx, args, Layout::ChannelsLast)
    }),
    Kernel::new("cortex_m::quantized_depthwise_conv2d_nhwc.out", ARGS, |cx, args| {
        depthwise_conv2d(cx, args, Layout::Nhwc)
    }),
];

fn depthwise_conv2d(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
    layout: Layout,
) -> Result<(), Error> {
    let (image, input) = layout.input(args, 0)?;
    let weight = args.tensor(1)?;
    let &[1, height, width, channels] = weight.sizes() else {
        return Err(invalid(1, "four dimensions, the first of size one"));
    };
    let multiplier = usize::try_from(int32(args, 6)?).unwrap_or(0);
    if !weight.is_contiguous() || image.channels.checked_mul(multiplier) != Some(channels) {
        return Err(invalid(1, "row-major weights with `depth_multiplier` times the channels"));
    }
    let window = Window::of_conv(args, 3, [height, width])?;
    let parameters = PerChannel::from_args(args, 7, channels)?;
    let weights = elements(weight, 1)?;
    let output =
        window.output(image.size, false).ok_or(invalid(0, "an image of at least the window"))?;
    let [mut scratch, mut out] = args.outs([13, 14])?;
    layout.resize(&mut out, Image { batch: image.batch, size: output, channels }, 14)?;
    let depthwise = Depthwise { input, image, output, window, weights, multiplier, parameters };
    let memory = product::scratch(cx, &mut scratch, depthwise.words())?;
    depthwise.run(out.data_mut::<i8>()?, memory);
    Ok(())
}
