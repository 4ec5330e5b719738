//! `cortex_m::quantized_transpose_conv2d.out`, `quantized_transpose_conv2d_nhwc.out`: transposed
//! convolution of images.
//!
//! | argument                    | type                | shape                |
//! |-----------------------------|---------------------|----------------------|
//! | `input`                     | i8 tensor           | image, channels last |
//! | `weight`                    | i8 tensor           | `[o, kh, kw, c]`     |
//! | `bias`                      | optional i32 tensor | `[o]`                |
//! | `stride`                    | 1 or 2 ints         |                      |
//! | `padding`                   | 1 or 2 ints         |                      |
//! | `output_padding`            | 1 or 2 ints         |                      |
//! | `dilation`                  | 1 or 2 ints         |                      |
//! | `input_offset`              | int, -127 to 128    |                      |
//! | `output_offset`             | int                 |                      |
//! | `requantize_multipliers`    | i32 tensor          | `[o]`                |
//! | `requantize_shifts`         | i32 tensor          | `[o]`                |
//! | `activation_min`, `_max`    | ints of 8 bits      |                      |
//! | `scratch`, `output_scratch` | written             | any                  |
//! | `out`                       | i8 tensor           | image, channels last |
//!
//! Adds `(x + input_offset) · w` to the positions that each input position spreads to, and
//! requantizes as `quantized_conv2d`. Exact. Memory order and sizes as there.
//! Errors: sizes that do not fit, other dtypes or memory orders.
//! Source: CMSIS-NN `arm_transpose_conv_s8`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::int8::{
    arguments::{elements, invalid, pair},
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
    Arg::IntList,
    Arg::Int,
    Arg::Int,
    Arg::Tensor,
    Arg::Tensor,
    Arg::Int,
    Arg::Int,
    Arg::Out,
    Arg::Out,
    Arg::Out,
];

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("cortex_m::quantized_transpose_conv2d.out", ARGS, |cx, args| {
        transpose_conv2d(cx, args, Layout::ChannelsLast)
    }),
    Kernel::new("cortex_m::quantized_transpose_conv2d_nhwc.out", ARGS, |cx, args| {
        transpose_conv2d(cx, args, Layout::Nhwc)
    }),
];

fn transpose_conv2d(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
    layout: Layout,
) -> Result<(), Error> {
    let (image, input) = layout.input(args, 0)?;
    let weight = args.tensor(1)?;
    let &[filters, height, width, channels] = weight.sizes() else {
        return Err(invalid(1, "four dimensions"));
    };
    let window = Window {
        kernel: [height, width],
        stride: pair(args, 3, 1)?,
        padding: pair(args, 4, 0)?,
        dilation: pair(args, 6, 1)?,
    };
    let len = height * width * channels;
    if !weight.is_contiguous() || len == 0 || channels != image.channels {
        return Err(invalid(1, "row-major filters with the channels of the input"));
    }
    let parameters = PerChannel::from_args(args, 7, filters)?;
    let weights = elements(weight, 1)?;
    let output = window.transposed_output(image.size, pair(args, 5, 0)?);
    let output = output.ok_or(invalid(0, "an image whose output is not empty"))?;
    let [mut scratch, _, mut out] = args.outs([13, 14, 15])?;
    layout.resize(&mut out, Image { batch: image.batch, size: output, channels: filters }, 15)?;
    let filters = parameters.filters(weights, len);
    let zero = parameters.zero;
    let columns = Columns::<true> { input, image, output, window, channels, zero };
    let words = columns.words(len) + filters.packed_words();
    let memory = product::scratch(cx, &mut scratch, words)?;
    columns.multiply(&filters, memory, out.data_mut::<i8>()?);
    Ok(())
}
