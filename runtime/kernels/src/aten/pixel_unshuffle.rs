//! `aten::pixel_unshuffle.out`: rearrangement of blocks of pixels to channels.
//!
//! | argument           | type              | shape                  |
//! |--------------------|-------------------|------------------------|
//! | `self`             | tensor, any dtype | `[…, c, h · r, w · r]` |
//! | `downscale_factor` | int `r`, positive |                        |
//! | `out`              | as `self`         | `[…, c · r², h, w]`    |
//!
//! Tolerance: exact.
//! Errors: a rank below 3, a height or width that is not a multiple of `r`. Source: ATen
//! `pixel_unshuffle`.

use afferent_core::{Arg, Args, Dims, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    element_copy::copy_elements,
    loop_nest::{LoopNest, out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::pixel_unshuffle.out",
    &[Arg::Tensor, Arg::Int, Arg::Out],
    pixel_unshuffle_out,
)];

fn pixel_unshuffle_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let factor = usize::try_from(args.int(1)?).ok().filter(|&factor| factor > 0);
    let factor = factor.ok_or(invalid(1, "a positive factor"))?;
    let square = factor.checked_mul(factor).ok_or(invalid(1, "a smaller factor"))?;
    let &[ref leading @ .., channels, height, width] = x.sizes() else {
        return Err(invalid(0, "a tensor [..., c, h, w]"));
    };
    if !height.is_multiple_of(factor) || !width.is_multiple_of(factor) {
        return Err(invalid(0, "a height and width that are multiples of r"));
    }
    let (height, width) = (height / factor, width / factor);
    let too_large = invalid(1, "a smaller factor");
    let mut sizes = Dims::new(leading).ok_or(too_large)?;
    sizes.push(channels.checked_mul(square).ok_or(too_large)?)?;
    sizes.push(height)?;
    sizes.push(width)?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), x.dtype(), 2)?;
    out.resize(&sizes)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, to_strides) = (strides_of(&x), out_strides(&out));
    let c = leading.len();
    let mut loops = LoopNest::new();
    for (dim, &size) in leading.iter().enumerate() {
        loops.push(size, [x_strides[dim], to_strides[dim]])?;
    }
    loops.push(channels, [x_strides[c], square * to_strides[c]])?;
    loops.push(factor, [x_strides[c + 1], factor * to_strides[c]])?;
    loops.push(factor, [x_strides[c + 2], to_strides[c]])?;
    loops.push(height, [factor * x_strides[c + 1], to_strides[c + 1]])?;
    loops.push(width, [factor * x_strides[c + 2], to_strides[c + 2]])?;
    copy_elements(loops, x.bytes(), out.bytes_mut()?, x.dtype().size());
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, Scalar, ScalarType, Tensor};

    use super::*;

    #[test]
    fn values() {
        let x = Tensor::new(&[1, 2, 4], &[1_u8, 3, 2, 4, 5, 7, 6, 8]).unwrap();
        let mut out = Tensor::zeros(ScalarType::Byte, &[0, 0, 0]);
        let mut arguments =
            [Argument::Tensor(&x), Argument::Scalar(Scalar::Int(2)), Argument::Out(&mut out)];
        Call::new(&KERNELS[0]).run(&mut arguments).unwrap();
        assert_eq!(out.sizes(), [4, 1, 2]);
        assert_eq!(out.data::<u8>(), Ok(&[1, 2, 3, 4, 5, 6, 7, 8][..]));
    }
}
