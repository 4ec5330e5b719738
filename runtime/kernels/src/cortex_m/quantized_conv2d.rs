//! `cortex_m::quantized_conv2d.out`, `quantized_conv2d_nhwc.out`: convolution of images.
//!
//! | argument                  | type               | shape                     |
//! |---------------------------|--------------------|---------------------------|
//! | `input`                   | i8 tensor          | image, channels last      |
//! | `weight`                  | i8 tensor          | `[o, kh, kw, c / groups]` |
//! | `bias`                    | optional i32 tensor | `[o]`                    |
//! | `stride`                  | 1 or 2 ints        |                           |
//! | `padding`                 | 1 or 2 ints        |                           |
//! | `dilation`                | 1 or 2 ints        |                           |
//! | `input_offset`            | int, -127 to 128   |                           |
//! | `output_offset`           | int                |                           |
//! | `requantize_multipliers`  | i32 tensor         | `[o]`                     |
//! | `requantize_shifts`       | i32 tensor         | `[o]`                     |
//! | `activation_min`, `_max`  | ints of 8 bits     |                           |
//! | `scratch`                 | written            | any                       |
//! | `out`                     | i8 tensor          | image, channels last      |
//!
//! Sums `(x + input_offset) · w` and the bias, requantizes with the multiplier and the shift of the
//! channel, adds `output_offset` and clamps. Exact. The sizes of an image are `[n, c, h, w]`, those
//! of `_nhwc` `[n, h, w, c]`; channels are last in memory.
//! Errors: sizes that do not fit, other dtypes or memory orders.
//! Source: CMSIS-NN `arm_convolve_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{elements, invalid},
    columns::Columns,
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
    Arg::Tensor,
    Arg::Tensor,
    Arg::Int,
    Arg::Int,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("cortex_m::quantized_conv2d.out", ARGS, |cx, args| {
        conv2d(cx, args, Layout::ChannelsLast)
    }),
    Kernel::new("cortex_m::quantized_conv2d_nhwc.out", ARGS, |cx, args| {
        conv2d(cx, args, Layout::Nhwc)
    }),
];

fn conv2d(cx: &mut KernelContext<'_>, args: &mut Args<'_>, layout: Layout) -> Result<(), Error> {
    let (image, input) = layout.input(args, 0)?;
    let weight = args.tensor(1)?;
    let &[filters, height, width, channels] = weight.sizes() else {
        return Err(invalid(1, "four dimensions"));
    };
    let window = Window::of_conv(args, 3, [height, width])?;
    let groups = image.channels.checked_div(channels).unwrap_or(0);
    let len = height * width * channels;
    if !weight.is_contiguous() || len == 0 || groups * channels != image.channels {
        return Err(invalid(1, "row-major filters whose channels divide those of the input"));
    }
    if groups == 0 || filters % groups != 0 {
        return Err(invalid(1, "as many filters for each group"));
    }
    let parameters = PerChannel::from_args(args, 6, filters)?;
    let weights = elements(weight, 1)?;
    let output =
        window.output(image.size, false).ok_or(invalid(0, "an image of at least the window"))?;
    let [mut scratch, mut out] = args.outs([12, 13])?;
    layout.resize(&mut out, Image { batch: image.batch, size: output, channels: filters }, 13)?;
    let filters = parameters.filters(weights, len);
    let zero = parameters.zero;
    let columns = Columns::<false> { input, image, output, window, channels, zero };
    let words = columns.words(len) + filters.packed_words();
    let memory = product::scratch(cx, &mut scratch, words)?;
    columns.multiply(&filters, memory, out.data_mut::<i8>()?);
    Ok(())
}
