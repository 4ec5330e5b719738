//! Convolution by im2col: a matrix product of the weights with patches of the input.

use afferent_core::{Error, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Operand},
    conv::{Geometry, Operands, Strides},
    matmul::{Matmul, Matrix},
};

/// Elements of scratch memory for patches. At least 8 patches are gathered at a time, even if they
/// are larger.
const MAX_PATCH_ELEMENTS: usize = 16_384;

/// Layout of patches in scratch memory: patch by patch, or element by element.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Stride between elements of a patch.
    element_stride: usize,
    /// Stride between patches.
    patch_stride: usize,
}

/// Returns true if [`forward`] supports the strides of this convolution.
pub(crate) fn supports<T>(g: &Geometry, tensors: &Operands<'_, T>, to: Strides) -> bool {
    let inner = g.inner();
    // The elements of a patch have the order of the weights of one output channel.
    inner > 0
        && (tensors.weight_strides.outer == inner || g.groups * g.out_channels == 1)
        && to.uniform_spatial(g.output).is_some()
}

/// Writes the convolution to `out`.
pub(crate) fn forward<T: Operand>(
    cx: &mut KernelContext<'_>,
    g: &Geometry,
    tensors: &Operands<'_, T>,
    out: &mut [T],
    to: Strides,
) -> Result<(), Error> {
    let (inner, positions) = (g.inner(), g.positions());
    let position = to.uniform_spatial(g.output);
    let position =
        position.ok_or(Error::Internal { reason: "output positions have no common stride" })?;
    let matrix_strides = as_matrix(g, tensors);
    let is_channels_last = tensors.x_strides.channel == 1 && g.in_channels > 1;
    let count = (MAX_PATCH_ELEMENTS / inner / 8 * 8).clamp(8, 64).min(positions);
    let layout = if is_channels_last || count < 8 {
        Layout { element_stride: 1, patch_stride: inner }
    } else {
        Layout { element_stride: count, patch_stride: 1 }
    };
    let scratch_len = if matrix_strides.is_some() { 0 } else { count.saturating_mul(inner) };
    let scratch = cx.scratch::<T>(scratch_len)?;
    for item in 0..g.batch {
        for group in 0..g.groups {
            let first = group * g.out_channels;
            let weight = &tensors.weight[first * tensors.weight_strides.outer..];
            let x_at =
                item * tensors.x_strides.outer + group * g.in_channels * tensors.x_strides.channel;
            let x = &tensors.x[x_at..];
            let chunk = if matrix_strides.is_some() { positions } else { count };
            for start in (0..positions).step_by(chunk) {
                let cols = chunk.min(positions - start);
                let b = if let Some((row_stride, col_stride)) = matrix_strides {
                    Matrix { data: x, row_stride, col_stride }
                } else {
                    gather(g, tensors, x, start..start + cols, layout, scratch);
                    Matrix {
                        data: &*scratch,
                        row_stride: layout.element_stride,
                        col_stride: layout.patch_stride,
                    }
                };
                let bias = tensors.bias.and_then(|bias| bias.get(first..));
                let product = Matmul {
                    a: Matrix { data: weight, row_stride: inner, col_stride: 1 },
                    b,
                    rows: g.out_channels,
                    inner,
                    cols,
                    alpha: T::Acc::ONE,
                    addend: bias
                        .map(|data| (Matrix { data, row_stride: 1, col_stride: 0 }, T::Acc::ONE)),
                };
                let at = item * to.outer + first * to.channel + start * position;
                product.write_portable(&mut out[at..], to.channel, position)?;
            }
        }
    }
    Ok(())
}

/// Row and column strides of the input if it already is the matrix of patches: the kernel is 1×1×1
/// with stride 1 and no padding.
fn as_matrix<T>(g: &Geometry, tensors: &Operands<'_, T>) -> Option<(usize, usize)> {
    let is_pointwise = g.kernel == [1; 3] && g.stride == [1; 3] && g.padding == [0; 3];
    let col = tensors.x_strides.uniform_spatial(g.input).filter(|_| is_pointwise)?;
    Some((tensors.x_strides.channel, col))
}

/// Copies the patches of the output positions `range`. `x` starts at the first input channel.
fn gather<T: Operand>(
    g: &Geometry,
    tensors: &Operands<'_, T>,
    x: &[T],
    range: core::ops::Range<usize>,
    layout: Layout,
    patches: &mut [T],
) {
    let (x_strides, weight_strides) = (tensors.x_strides, tensors.weight_strides);
    let is_channels_last = x_strides.channel == 1 && g.in_channels > 1;
    let mut at = range.start;
    while at < range.end {
        let (rest, width) = (at / g.output[2], at % g.output[2]);
        let outer = [rest / g.output[1], rest % g.output[1]];
        let run = (g.output[2] - width).min(range.end - at);
        let to = (at - range.start) * layout.patch_stride;
        for_each_tap(g, |tap| {
            let row = source(g, 0, tap[0], outer[0]).zip(source(g, 1, tap[1], outer[1]));
            let from = row.map(|(d, h)| d * x_strides.spatial[0] + h * x_strides.spatial[1]);
            let to = to
                + layout.element_stride
                    * tap.iter().zip(weight_strides.spatial).map(|(t, s)| t * s).sum::<usize>();
            if is_channels_last {
                for i in 0..run {
                    let from = from.zip(source(g, 2, tap[2], width + i));
                    let from = from.map(|(from, x)| from + x * x_strides.spatial[2]);
                    let to = &mut patches[to + i * layout.patch_stride..];
                    let to_stride = weight_strides.channel * layout.element_stride;
                    let source = from.and_then(|from| x.get(from..));
                    copy(to, to_stride, source, 1, g.in_channels);
                }
            } else {
                let first =
                    (g.padding[2].saturating_sub(tap[2] * g.dilation[2])).div_ceil(g.stride[2]);
                let end = (g.input[2] + g.padding[2]).saturating_sub(tap[2] * g.dilation[2]);
                let end = end.div_ceil(g.stride[2]).clamp(width, width + run);
                let first = first.clamp(width, end);
                for channel in 0..g.in_channels {
                    let to = &mut patches
                        [to + channel * weight_strides.channel * layout.element_stride..];
                    let Some(from) = from.filter(|_| first < end) else {
                        copy(to, layout.patch_stride, None, 1, run);
                        continue;
                    };
                    let inside = first * g.stride[2] + tap[2] * g.dilation[2] - g.padding[2];
                    let from = from + channel * x_strides.channel + inside * x_strides.spatial[2];
                    let stride = g.stride[2].saturating_mul(x_strides.spatial[2]);
                    copy(to, layout.patch_stride, None, 1, first - width);
                    let to = &mut to[(first - width) * layout.patch_stride..];
                    copy(to, layout.patch_stride, x.get(from..), stride, end - first);
                    if end < width + run {
                        let to = &mut to[(end - first) * layout.patch_stride..];
                        copy(to, layout.patch_stride, None, 1, width + run - end);
                    }
                }
            }
        });
        at += run;
    }
}

/// Copies `len` elements; writes zeros if `from` is `None`.
fn copy<T: Operand>(to: &mut [T], to_stride: usize, from: Option<&[T]>, stride: usize, len: usize) {
    match (from, to_stride, stride) {
        (Some(from), 1, 1) => {
            for (to, from) in to.iter_mut().zip(from).take(len) {
                *to = *from;
            }
        }
        (Some(from), _, _) => {
            let from = from.iter().step_by(stride.max(1)).take(len);
            for (to, from) in to.iter_mut().step_by(to_stride.max(1)).zip(from) {
                *to = *from;
            }
        }
        (None, _, _) => {
            to.iter_mut().step_by(to_stride.max(1)).take(len).for_each(|to| *to = T::default());
        }
    }
}

fn for_each_tap(g: &Geometry, mut f: impl FnMut([usize; 3])) {
    for depth in 0..g.kernel[0] {
        for height in 0..g.kernel[1] {
            for width in 0..g.kernel[2] {
                f([depth, height, width]);
            }
        }
    }
}

/// Input position in dimension `dim` under kernel element `tap` at output position `at`; `None` in
/// the padding.
fn source(g: &Geometry, dim: usize, tap: usize, at: usize) -> Option<usize> {
    let padded = at * g.stride[dim] + tap * g.dilation[dim];
    padded.checked_sub(g.padding[dim]).filter(|&at| at < g.input[dim])
}
