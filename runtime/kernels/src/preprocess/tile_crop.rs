//! `preprocess::tile_crop.out`: split of an image into square tiles.
//!
//! | argument    | type              | shape                                               |
//! |-------------|-------------------|-----------------------------------------------------|
//! | `input`     | tensor, any dtype | `[channels, rows · tile_size, columns · tile_size]` |
//! | `tile_size` | int, positive     |                                                     |
//! | `out`       | as `input`        | `[rows · columns, channels, tile_size, tile_size]`  |
//!
//! The tiles are in row-major order. Exact.
//! Errors: another rank, and a height or width that `tile_size` does not divide, are
//! [`Error::InvalidArgument`]; another dtype is [`Error::InvalidType`].
//! Source: ExecuTorch `op_tile_crop.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::check_dtype,
    element_copy::copy_elements,
    loop_nest::{LoopNest, out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::new("preprocess::tile_crop.out", &[Arg::Tensor, Arg::Int, Arg::Out], tile_crop_out)];

fn tile_crop_out(_: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let wrong = |index, expected| Error::InvalidArgument { index, expected };
    let &[channels, height, width] = x.sizes() else {
        return Err(wrong(0, "an image [channels, height, width]"));
    };
    let tile_size = usize::try_from(args.int(1)?).ok().filter(|&tile_size| tile_size > 0);
    let tile_size = tile_size.ok_or(wrong(1, "a positive size"))?;
    if !height.is_multiple_of(tile_size) || !width.is_multiple_of(tile_size) {
        return Err(wrong(1, "a size that divides height and width"));
    }
    let (rows, columns) = (height / tile_size, width / tile_size);
    let tiles = rows.checked_mul(columns).ok_or(wrong(1, "a larger size"))?;
    let mut out = args.out(2)?;
    check_dtype(out.dtype(), x.dtype(), 2)?;
    out.resize(&[tiles, channels, tile_size, tile_size])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (from, to) = (strides_of(&x), out_strides(&out));
    let mut loops = LoopNest::new();
    loops.push(rows, [tile_size * from[1], columns * to[0]])?;
    loops.push(columns, [tile_size * from[2], to[0]])?;
    loops.push(channels, [from[0], to[1]])?;
    loops.push(tile_size, [from[1], to[2]])?;
    loops.push(tile_size, [from[2], to[3]])?;
    copy_elements(loops, x.bytes(), out.bytes_mut()?, x.dtype().size());
    Ok(())
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Scalar};

    use super::*;
    use crate::shared::testing::{check, iota};

    #[test]
    fn values() {
        let x = iota(&[1, 2, 4]);
        let run = |tile_size: i64, expected| {
            let tile_size = Argument::Scalar(Scalar::Int(tile_size));
            check(&KERNELS[0], vec![Argument::Tensor(&x), tile_size], expected);
        };
        run(2, Ok((&[2, 1, 2, 2], &[0, 1, 4, 5, 2, 3, 6, 7])));
        run(1, Ok((&[8, 1, 1, 1], &[0, 1, 2, 3, 4, 5, 6, 7])));
        for tile_size in [3, 4] {
            let expected = "a size that divides height and width";
            run(tile_size, Err(Error::InvalidArgument { index: 1, expected }));
        }
        for tile_size in [0, -2, i64::MIN] {
            run(tile_size, Err(Error::InvalidArgument { index: 1, expected: "a positive size" }));
        }
    }
}
