//! `llama::fast_hadamard_transform.out`: the Walsh-Hadamard transform of each row.
//!
//! | argument | type                  | shape                                           |
//! |----------|-----------------------|-------------------------------------------------|
//! | `mat`    | floating-point tensor | `[…, n]`, row-major; n = 2^k or 28 · 2^k        |
//! | `out`    | as `mat`              | as `mat`, row-major                             |
//!
//! Computes `H x / √(2^k)`, where H is the Hadamard matrix in natural order. A row of 28 · 2^k is 28
//! rows of 2^k, which are transformed each by itself and then mixed by a Hadamard matrix of 28 rows
//! (Williamson's, as in N. J. A. Sloane's library), without a further factor. Half types compute in
//! `f32`. Tolerance: 1e-6 relative to the largest element.
//! Errors: other lengths and dim orders are [`Error::InvalidArgument`], other dtypes
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
    let is_mixed = len.is_multiple_of(MIXED) && len > 0;
    let part = if is_mixed { len / MIXED } else { len };
    if part > 0 && !part.is_power_of_two() {
        let expected = "rows of a power of two elements, or 28 times one";
        return Err(Error::InvalidArgument { index: 0, expected });
    }
    let along = x.rank().saturating_sub(1);
    with_float_accumulator!(x.dtype(), 0, A => {
        let scale = A::ONE / A::from_double(part as f64).sqrt();
        map_slices::<A>(cx, x, along, &mut out, 1, |line| {
            for part in line.chunks_mut(part.max(1)) {
                transform(part);
                part.iter_mut().for_each(|x| *x *= scale);
            }
            if is_mixed {
                mix(line);
            }
        })
    })
}

/// The transform without a factor; there are a power of two elements.
fn transform<A: Float>(line: &mut [A]) {
    let mut half = 1;
    while half < line.len() {
        for pair in line.chunks_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// Rows of [`SIGNS`].
const MIXED: usize = 28;

/// A Hadamard matrix: a bit for each column, the first one lowest, set where the element is -1.
const SIGNS: [u32; MIXED] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43,
    0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0x0ff66ca,
    0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4,
    0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c,
];

/// Multiplies [`SIGNS`] with the matrix of as many rows that `line` is.
fn mix<A: Float>(line: &mut [A]) {
    let columns = line.len() / MIXED;
    for column in 0..columns {
        let mut before = [A::default(); MIXED];
        for (x, &from) in before.iter_mut().zip(line[column..].iter().step_by(columns)) {
            *x = from;
        }
        for (signs, to) in SIGNS.iter().zip(line[column..].iter_mut().step_by(columns)) {
            *to = A::default();
            for (at, &x) in before.iter().enumerate() {
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
    fn the_large_matrix_is_orthogonal() {
        for (a, signs) in SIGNS.iter().enumerate() {
            for (b, other) in SIGNS.iter().enumerate() {
                let differ = (signs ^ other).count_ones();
                assert_eq!(differ, if a == b { 0 } else { 14 }, "{a} {b}");
            }
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        let expected = "rows of a power of two elements, or 28 times one";
        let error = Error::InvalidArgument { index: 0, expected };
        check(&[0.0; 3], Err(error));
        check(&[0.0; 84], Err(error));
    }
}
