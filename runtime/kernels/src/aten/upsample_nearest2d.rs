//! `aten::upsample_nearest2d.vec_out`: image resize with nearest-neighbor interpolation.
//!
//! | argument        | type               | shape            |
//! |-----------------|--------------------|------------------|
//! | `input`         | tensor, any dtype  | `[n, c, h, w]`   |
//! | `output_size`   | optional 2 ints    |                  |
//! | `scale_factors` | optional 2 doubles |                  |
//! | `out`           | as `input`         | `[n, c, h', w']` |
//!
//! Exactly one of `output_size` and `scale_factors` is given. The source index of output `i` is `⌊i
//! · scale⌋` in `f32`, where `scale` is `1 / scale_factor` or `h / h'`. It is `i` in a dimension
//! that keeps its size and `⌊i / 2⌋` in one that doubles, for any scale factor. ATen has these two
//! cases only if `h' + w'` is at most 128, or for more than 3 channels in channels-last order.
//! Otherwise ATen, and ExecuTorch always, uses `⌊i · scale⌋`, which differs only for fractional
//! scale factors. Tolerance: exact.
//! Scratch: indices of the columns.
//! Errors: an empty image, other ranks. Source: ATen `upsample_nearest2d`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    element_copy::copy_elements,
    loop_nest::{LoopNest, out_strides, strides_of},
    strided_copy::with_element_size,
    upsample::OutputSize,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::upsample_nearest2d.vec_out",
    &[Arg::Tensor, Arg::OptIntList, Arg::OptDoubleList, Arg::Out],
    upsample_nearest2d_out,
)];

fn upsample_nearest2d_out(cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let &[batch, channels, height, width] = x.sizes() else {
        return Err(Error::InvalidArgument { index: 0, expected: "a tensor [n, c, h, w]" });
    };
    let target = OutputSize::new(args, 2)?;
    let mut out = args.out(3)?;
    check_dtype(out.dtype(), x.dtype(), 3)?;
    let [rows, columns] = target.sizes;
    out.resize(&[batch, channels, rows, columns])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let mut planes = LoopNest::new();
    planes.push(batch, [x_strides[0], to_strides[0]])?;
    planes.push(channels, [x_strides[1], to_strides[1]])?;
    let scales = [target.scale::<f32>(0, height), target.scale::<f32>(1, width)];
    let element_size = x.dtype().size();
    if x.is_contiguous() && out.is_contiguous() {
        let pixels = cx.scratch::<u64>(columns)?;
        for (column, pixel) in pixels.iter_mut().enumerate() {
            *pixel = source_index(column, scales[1], width, columns) as u64;
        }
        let in_row = |row| source_index(row, scales[0], height, rows);
        let (source, target) = (x.bytes(), out.bytes_mut()?);
        return with_element_size!(element_size, N => {
            let source = source.as_chunks::<N>().0.chunks_exact(height * width);
            let target = target.as_chunks_mut::<N>().0.chunks_exact_mut(rows * columns);
            for (source, target) in source.zip(target) {
                resize_plane(source, width, target, (&*pixels, in_row));
            }
            Ok(())
        });
    }
    let (source, target) = (x.bytes(), out.bytes_mut()?);
    for row in 0..rows {
        let in_row = source_index(row, scales[0], height, rows);
        for column in 0..columns {
            let in_column = source_index(column, scales[1], width, columns);
            let from = in_row * x_strides[2] + in_column * x_strides[3];
            let to = row * to_strides[2] + column * to_strides[3];
            let source = source.get(from * element_size..).unwrap_or(&[]);
            let target = target.get_mut(to * element_size..).unwrap_or(&mut []);
            copy_elements(planes, source, target, element_size);
        }
    }
    Ok(())
}

/// Resizes a row-major plane. Pixel `j` of row `i` of the target is pixel `pixels[j]` of row
/// `in_row(i)` of the source.
fn resize_plane<T: Copy>(
    source: &[T],
    width: usize,
    target: &mut [T],
    (pixels, in_row): (&[u64], impl Fn(usize) -> usize),
) {
    let columns = pixels.len();
    let mut previous = None;
    for row in 0..target.len() / columns {
        let from = in_row(row);
        if previous == Some(from) {
            target.copy_within((row - 1) * columns..row * columns, row * columns);
            continue;
        }
        previous = Some(from);
        let source = &source[from * width..][..width];
        for (to, &pixel) in target[row * columns..][..columns].iter_mut().zip(pixels) {
            *to = source[pixel as usize];
        }
    }
}

/// Index of the input pixel, out of `size`, for output pixel `at` out of `out_size`.
fn source_index(at: usize, scale: f32, size: usize, out_size: usize) -> usize {
    if out_size == size {
        at
    } else if out_size == 2 * size {
        at / 2
    } else {
        (libm::floorf(at as f32 * scale) as usize).min(size - 1)
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(sizes: Argument<'_>, factors: Argument<'_>, expected: &[u8]) {
        let x = Tensor::new(&[1, 1, 1, 3], &[0_u8, 1, 2]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Byte, &[0, 0, 0, 0]);
        let mut arguments = [Argument::Tensor(&x), sizes, factors, Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.data::<u8>().unwrap(), expected);
    }

    #[test]
    fn values() {
        check(Argument::Ints(vec![1, 4]), Argument::None, &[0, 0, 1, 2]);
        check(Argument::None, Argument::Doubles(vec![1.7, 2.6]), &[0, 0, 0, 1, 1, 1, 2]);
        check(Argument::None, Argument::Doubles(vec![2.0, 1.0]), &[0, 1, 2, 0, 1, 2]);
        check(Argument::None, Argument::Doubles(vec![1.0, 1.3]), &[0, 1, 2]);
        check(Argument::None, Argument::Doubles(vec![1.0, 2.2]), &[0, 0, 1, 1, 2, 2]);
    }
}
