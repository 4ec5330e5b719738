//! `aten::grid_sampler_2d.out`: images sampled at the coordinates of a grid.
//!
//! | argument             | type                                        | shape            |
//! |----------------------|---------------------------------------------|------------------|
//! | `input`              | floating-point tensor                       | `[n, c, h, w]`   |
//! | `grid`               | as `input`: x and y in -1 to 1              | `[n, h', w', 2]` |
//! | `interpolation_mode` | int: 0 bilinear, 1 nearest, 2 bicubic       |                  |
//! | `padding_mode`       | int: 0 zeros, 1 border, 2 reflection        |                  |
//! | `align_corners`      | bool: -1 and 1 are pixel centers, not edges |                  |
//! | `out`                | as `input`                                  | `[n, c, h', w']` |
//!
//! A NaN coordinate is outside the image. Half types are computed in `f32`. Tolerance: 1e-4.
//! Errors: other modes, mismatched sizes, an empty image. Source: ATen `grid_sampler_2d`.

use afferent_core::{Arg, Args, Error, Kernel, KernelContext};

use crate::shared::{
    accumulator::{Float, check_dtype, with_float_accumulator},
    elements::{Reader, Writer},
    loop_nest::{out_strides, strides_of},
};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::new(
    "aten::grid_sampler_2d.out",
    &[Arg::Tensor, Arg::Tensor, Arg::Int, Arg::Int, Arg::Bool, Arg::Out],
    grid_sampler_2d_out,
)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interpolation {
    Bilinear,
    Nearest,
    Bicubic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// One dimension of the picture.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: usize,
    padding: Padding,
    aligned: bool,
}

/// Up to four positions along one dimension, with their shares; those outside are none.
type Taps<A> = [(Option<usize>, A); 4];

fn grid_sampler_2d_out(_cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let dtype = args.tensor(0)?.dtype();
    check_dtype(args.tensor(1)?.dtype(), dtype, 1)?;
    check_dtype(args.out(5)?.dtype(), dtype, 5)?;
    with_float_accumulator!(dtype, 0, A => grid_sampler_2d::<A>(args))
}

fn grid_sampler_2d<A: Float>(args: &mut Args<'_>) -> Result<(), Error> {
    let (x, grid) = (args.tensor(0)?, args.tensor(1)?);
    let invalid = |index, expected| Error::InvalidArgument { index, expected };
    let &[batch, channels, height, width] = x.sizes() else {
        return Err(invalid(0, "a batch of pictures"));
    };
    let &[grid_batch, rows, columns, 2] = grid.sizes() else {
        return Err(invalid(1, "pairs of coordinates for each picture"));
    };
    if grid_batch != batch || height == 0 || width == 0 {
        return Err(invalid(1, "as many grids as pictures, which are not empty"));
    }
    let interpolation = match args.int(2)? {
        0 => Interpolation::Bilinear,
        1 => Interpolation::Nearest,
        2 => Interpolation::Bicubic,
        _ => return Err(invalid(2, "0, 1 or 2")),
    };
    let padding = match args.int(3)? {
        0 => Padding::Zeros,
        1 => Padding::Border,
        2 => Padding::Reflection,
        _ => return Err(invalid(3, "0, 1 or 2")),
    };
    let aligned = args.bool(4)?;
    let mut out = args.out(5)?;
    out.resize(&[batch, channels, rows, columns])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (from, at, to) = (strides_of(&x), strides_of(&grid), out_strides(&out));
    let (x, grid) = (Reader::<A>::new(x, 0)?, Reader::<A>::new(grid, 1)?);
    let mut out = Writer::new(&mut out, 5)?;
    let [vertical, horizontal] = [height, width].map(|size| Axis { size, padding, aligned });
    for item in 0..batch {
        for row in 0..rows {
            for column in 0..columns {
                let place = item * at[0] + row * at[1] + column * at[2];
                let across = horizontal.taps(grid.get(place), interpolation);
                let down = vertical.taps(grid.get(place + at[3]), interpolation);
                for channel in 0..channels {
                    let first = item * from[0] + channel * from[1];
                    let sample = sample(&x, first, [from[2], from[3]], &down, &across);
                    let to = item * to[0] + channel * to[1] + row * to[2] + column * to[3];
                    out.set(to, sample);
                }
            }
        }
    }
    Ok(())
}

/// The sum of the pixels at the taps, each times its shares.
fn sample<A: Float>(
    x: &Reader<'_, A>,
    first: usize,
    steps: [usize; 2],
    down: &Taps<A>,
    across: &Taps<A>,
) -> A {
    let mut total = A::default();
    for &(row, row_share) in down {
        let Some(row) = row else { continue };
        let mut sum = A::default();
        for &(column, share) in across {
            if let Some(column) = column {
                sum = sum + x.get(first + row * steps[0] + column * steps[1]) * share;
            }
        }
        total = total + sum * row_share;
    }
    total
}

impl Axis {
    /// The pixels that make up the sample at `coordinate`.
    fn taps<A: Float>(&self, coordinate: A, interpolation: Interpolation) -> Taps<A> {
        let mut taps = [(None, A::default()); 4];
        let size = A::from_double(self.size as f64);
        let half = A::from_double(0.5);
        let place = if self.aligned {
            (coordinate + A::ONE) * half * (size - A::ONE)
        } else {
            ((coordinate + A::ONE) * size - A::ONE) * half
        };
        match interpolation {
            Interpolation::Nearest => {
                taps[0] = (self.pixel(round(self.inside(place))), A::ONE);
            }
            Interpolation::Bilinear => {
                let place = self.inside(place);
                let first = place.floor();
                let share = place - first;
                taps[0] = (self.pixel(first), A::ONE - share);
                taps[1] = (self.pixel(first + A::ONE), share);
            }
            Interpolation::Bicubic => {
                let first = place.floor();
                for ((offset, share), tap) in (-1_i8..).zip(cubic(place - first)).zip(&mut taps) {
                    let place = first + A::from_double(f64::from(offset));
                    *tap = (self.pixel(round(self.inside(place))), share);
                }
            }
        }
        taps
    }

    /// The pixel at `place`, if there is one.
    fn pixel<A: Float>(&self, place: A) -> Option<usize> {
        let inside = place >= A::default() && place < A::from_double(self.size as f64);
        inside.then(|| place.to_double() as usize).filter(|&place| place < self.size)
    }

    /// The place that stands for `place` where that lies outside.
    fn inside<A: Float>(&self, place: A) -> A {
        let last = A::from_double((self.size - 1) as f64);
        let clip = |place: A| {
            if place > last {
                last
            } else if place < A::default() {
                A::default()
            } else {
                place
            }
        };
        match self.padding {
            Padding::Zeros => place,
            Padding::Border => clip(place),
            Padding::Reflection if self.aligned => clip(reflect(place, A::default(), last)),
            Padding::Reflection => clip(reflect(place, A::from_double(-0.5), last + A::ONE)),
        }
    }
}

/// `place` reflected at `low` and at `low + span` until it lies between.
fn reflect<A: Float>(place: A, low: A, span: A) -> A {
    if span == A::default() {
        return span;
    }
    let distance = (place - low).abs();
    let flips = (distance / span).floor();
    let rest = distance - flips * span;
    let is_even = (flips * A::from_double(0.5)).floor() * A::from_double(2.0) == flips;
    if is_even { rest + low } else { span - rest + low }
}

/// The nearest integer, the even one of two.
fn round<A: Float>(x: A) -> A {
    let (low, half) = (x.floor(), A::from_double(0.5));
    let rest = x - low;
    let is_even = (low * half).floor() * A::from_double(2.0) == low;
    if rest < half || (rest == half && is_even) { low } else { low + A::ONE }
}

/// The shares of four neighbours with cubic convolution, `a = -¾`.
fn cubic<A: Float>(t: A) -> [A; 4] {
    let n = A::from_double;
    let a = n(-0.75);
    let near = |x: A| ((a + n(2.0)) * x - (a + n(3.0))) * x * x + A::ONE;
    let far = |x: A| ((a * x - n(5.0) * a) * x + n(8.0) * a) * x - n(4.0) * a;
    [far(t + A::ONE), near(t), near(A::ONE - t), far(n(2.0) - t)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_modes() {
        let check = |padding, aligned, place: f32, expected: f32| {
            assert_eq!(Axis { size: 4, padding, aligned }.inside(place), expected, "{place}");
        };
        check(Padding::Zeros, false, -7.0, -7.0);
        check(Padding::Border, false, -7.0, 0.0);
        check(Padding::Border, false, 7.0, 3.0);
        check(Padding::Reflection, true, -1.0, 1.0);
        check(Padding::Reflection, true, 4.0, 2.0);
        check(Padding::Reflection, false, -1.0, 0.0);
        check(Padding::Reflection, false, 4.5, 2.5);
    }

    #[test]
    fn cubic_weights_sum_to_one() {
        for t in [0.0_f64, 0.3, 0.5, 0.99] {
            assert!((cubic(t).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn rounds_half_to_even() {
        for (x, expected) in [(0.5_f32, 0.0), (1.5, 2.0), (-0.5, 0.0), (2.4, 2.0), (-1.6, -2.0)] {
            assert_eq!(round(x), expected);
        }
    }
}
