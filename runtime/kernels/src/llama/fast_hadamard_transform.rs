//! `llama::fast_hadamard_transform.out`: Walsh-Hadamard transform of each row.
//!
//! | argument | type                  | shape                                    |
//! |----------|-----------------------|------------------------------------------|
//! | `mat`    | floating-point tensor | `[…, n]`, row-major; n = 2^k or 28 · 2^k |
//! | `out`    | as `mat`              | as `mat`, row-major                      |
//!
//! Computes `H x / √(2^k)`, where `H` is the Hadamard matrix in natural order. A row of length 28 ·
//! 2^k consists of 28 rows of length 2^k. They are transformed separately and then multiplied by
//! the 28 × 28 Hadamard matrix of Williamson (from N. J. A. Sloane's library) without another scale
//! factor. Half types compute in `f32`. Tolerance: 1e-6 relative to the largest element.
//! Errors: other lengths and dim orders are [`Error::InvalidArgument`]; other dtypes are
//! [`Error::InvalidType`].
//! Source: ExecuTorch `op_fast_hadamard_transform.cpp`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Accumulator, Float, check_dtype, with_float_accumulator},
    dim_apply::map_slices,
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "llama::fast_hadamard_transform.out",
    &[Arg::Tensor, Arg::Out],
    fast_hadamard_transform_out,
)];

fn fast_hadamard_transform_out(
    cx: &mut KernelContext<'_>,
    args: &mut Args<'_>,
) -> Result<(), Error> {
    let x = args.tensor(0)?;
    let mut out = args.out(1)?;
    check_dtype(out.dtype(), x.dtype(), 1)?;
    for (index, is_contiguous) in [(0, x.is_contiguous()), (1, out.is_contiguous())] {
        if !is_contiguous {
            return Err(Error::InvalidArgument { index, expected: "a row-major tensor" });
        }
    }
    let len = x.sizes().last().copied().unwrap_or(1);
    let has_factor_28 = len.is_multiple_of(HADAMARD_28_ROWS) && len > 0;
    let block_len = if has_factor_28 { len / HADAMARD_28_ROWS } else { len };
    if block_len > 0 && !block_len.is_power_of_two() {
        let expected = "rows of length 2^k or 28 * 2^k";
        return Err(Error::InvalidArgument { index: 0, expected });
    }
    let dim = x.rank().saturating_sub(1);
    with_float_accumulator!(x.dtype(), 0, A => {
        let scale = A::ONE / A::from_double(block_len as f64).sqrt();
        map_slices::<A>(cx, x, dim, &mut out, 1, |row| {
            for block in row.chunks_mut(block_len.max(1)) {
                transform(block);
                block.iter_mut().for_each(|x| *x *= scale);
            }
            if has_factor_28 {
                multiply_28(row);
            }
        })
    })
}

/// Unnormalized transform of `data`, of a power-of-two length.
fn transform<A: Float>(data: &mut [A]) {
    let mut half = 1;
    while half < data.len() {
        for pair in data.chunks_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// Rows of [`HADAMARD_28`].
const HADAMARD_28_ROWS: usize = 28;

/// 28 × 28 Hadamard matrix: one bit per column, lowest bit first, set if the element is -1.
const HADAMARD_28: [u32; HADAMARD_28_ROWS] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43,
    0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0x0ff66ca,
    0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
    0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c,
];

/// Multiplies [`HADAMARD_28`] by `data`, a matrix of 28 rows, in place.
fn multiply_28<A: Float>(data: &mut [A]) {
    let columns = data.len() / HADAMARD_28_ROWS;
    for column in 0..columns {
        let mut input = [A::default(); HADAMARD_28_ROWS];
        for (x, &from) in input.iter_mut().zip(data[column..].iter().step_by(columns)) {
            *x = from;
        }
        for (signs, to) in HADAMARD_28.iter().zip(data[column..].iter_mut().step_by(columns)) {
            *to = A::default();
            for (at, &x) in input.iter().enumerate() {
                *to = if signs >> at & 1 == 1 { *to - x } else { *to + x };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use afferent_core::{Argument, Call, ScalarType, Tensor};

    use super::*;

    #[track_caller]
    fn check(x: &[f32], expected: Result<&[f32], Error>) {
        let x = Tensor::from_slice(x);
        let mut out = Tensor::zeros(ScalarType::Float, &[0]);
        let result =
            Call::new(&KERNELS[0]).run(&mut [Argument::Tensor(&x), Argument::Out(&mut out)]);
        assert_eq!(result.map(|()| out.data().unwrap()), expected);
    }

    #[test]
    fn values() {
        check(&[3.0], Ok(&[3.0]));
        check(&[1.0, 2.0, 3.0, 6.0], Ok(&[6.0, -2.0, -3.0, 1.0]));
        check(&[], Ok(&[]));
    }

    #[test]
    fn the_28_by_28_matrix_is_orthogonal() {
        for (a, signs) in HADAMARD_28.iter().enumerate() {
            for (b, other) in HADAMARD_28.iter().enumerate() {
                let differ = (signs ^ other).count_ones();
                assert_eq!(differ, if a == b { 0 } else { 14 }, "{a} {b}");
            }
        }
    }

    #[test]
    fn other_lengths_are_rejected() {
        let expected = "rows of length 2^k or 28 * 2^k";
        let error = Error::InvalidArgument { index: 0, expected };
        check(&[0.0; 3], Err(error));
        check(&[0.0; 84], Err(error));
    }
}
