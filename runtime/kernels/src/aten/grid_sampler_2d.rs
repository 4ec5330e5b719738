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

/// Height or width of the image, and the sampling parameters.
#[derive(Debug, Clone, Copy)]
struct ImageDim {
    size: usize,
    padding: Padding,
    align_corners: bool,
}

/// Up to four pixels in one dimension with their weights; `None` outside the image.
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
        return Err(invalid(0, "a tensor [n, c, h, w]"));
    };
    let &[grid_batch, rows, columns, 2] = grid.sizes() else {
        return Err(invalid(1, "a tensor [n, h, w, 2]"));
    };
    if grid_batch != batch || height == 0 || width == 0 {
        return Err(invalid(1, "the batch size of `input`, whose images are not empty"));
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
    let align_corners = args.bool(4)?;
    let mut out = args.out(5)?;
    out.resize(&[batch, channels, rows, columns])?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (x_strides, grid_strides) = (strides_of(&x), strides_of(&grid));
    let to_strides = out_strides(&out);
    let (x, grid) = (Reader::<A>::new(x, 0)?, Reader::<A>::new(grid, 1)?);
    let mut out = Writer::new(&mut out, 5)?;
    let [vertical, horizontal] =
        [height, width].map(|size| ImageDim { size, padding, align_corners });
    for item in 0..batch {
        for row in 0..rows {
            for column in 0..columns {
                let x_offset =
                    item * grid_strides[0] + row * grid_strides[1] + column * grid_strides[2];
                let y_offset = x_offset + grid_strides[3];
                let columns = horizontal.taps(grid.get(x_offset), interpolation);
                let rows = vertical.taps(grid.get(y_offset), interpolation);
                let pixels = Pixels::new(&rows, &columns, [x_strides[2], x_strides[3]]);
                let to = item * to_strides[0] + row * to_strides[2] + column * to_strides[3];
                for channel in 0..channels {
                    let from = item * x_strides[0] + channel * x_strides[1];
                    out.set(to + channel * to_strides[1], pixels.sum(&x, from));
                }
            }
        }
    }
    Ok(())
}

/// Pixels inside the image with their weights.
struct Pixels<A> {
    all: [(usize, A); 16],
    count: usize,
}

impl<A: Float> Pixels<A> {
    /// Pixels at all `rows` and `columns` of an image with these strides.
    fn new(rows: &Taps<A>, columns: &Taps<A>, strides: [usize; 2]) -> Self {
        let mut pixels = Self { all: [(0, A::default()); 16], count: 0 };
        for &(row, row_weight) in rows {
            let Some(row) = row else { continue };
            for &(column, weight) in columns {
                let Some(column) = column else { continue };
                let offset = row * strides[0] + column * strides[1];
                pixels.all[pixels.count] = (offset, row_weight * weight);
                pixels.count += 1;
            }
        }
        pixels
    }

    /// Weighted sum of the pixels of the channel at offset `from`.
    fn sum(&self, x: &Reader<'_, A>, from: usize) -> A {
        let products = self.all[..self.count].iter().map(|&(at, weight)| {
            let pixel = match x.all() {
                Some(data) => data.get(from + at).copied().unwrap_or_default(),
                None => x.get(from + at),
            };
            pixel * weight
        });
        products.fold(A::default(), |sum, product| sum + product)
    }
}

impl ImageDim {
    /// Pixels and weights of the sample at `coordinate`, which is -1 to 1 inside the image.
    fn taps<A: Float>(&self, coordinate: A, interpolation: Interpolation) -> Taps<A> {
        let mut taps = [(None, A::default()); 4];
        let size = A::from_double(self.size as f64);
        let half = A::from_double(0.5);
        let position = if self.align_corners {
            (coordinate + A::ONE) * half * (size - A::ONE)
        } else {
            ((coordinate + A::ONE) * size - A::ONE) * half
        };
        match interpolation {
            Interpolation::Nearest => {
                taps[0] = (self.pixel(self.pad(position).rint()), A::ONE);
            }
            Interpolation::Bilinear => {
                let position = self.pad(position);
                let first = position.floor();
                let weight = position - first;
                taps[0] = (self.pixel(first), A::ONE - weight);
                taps[1] = (self.pixel(first + A::ONE), weight);
            }
            Interpolation::Bicubic => {
                let first = position.floor();
                let weights = cubic_weights(position - first);
                for ((offset, weight), tap) in (-1_i8..).zip(weights).zip(&mut taps) {
                    let position = first + A::from_double(f64::from(offset));
                    *tap = (self.pixel(self.pad(position).rint()), weight);
                }
            }
        }
        taps
    }

    /// Pixel at `position`; `None` outside the image.
    fn pixel<A: Float>(&self, position: A) -> Option<usize> {
        let is_inside = position >= A::default() && position < A::from_double(self.size as f64);
        is_inside.then(|| position.to_double() as usize).filter(|&pixel| pixel < self.size)
    }

    /// Applies the padding mode to `position`.
    fn pad<A: Float>(&self, position: A) -> A {
        let last = A::from_double((self.size - 1) as f64);
        let clip = |position: A| {
            if position > last {
                last
            } else if position < A::default() {
                A::default()
            } else {
                position
            }
        };
        match self.padding {
            Padding::Zeros => position,
            Padding::Border => clip(position),
            Padding::Reflection if self.align_corners => {
                clip(reflect(position, A::default(), last))
            }
            Padding::Reflection => clip(reflect(position, A::from_double(-0.5), last + A::ONE)),
        }
    }
}

/// Reflects `position` at `low` and `low + span` until it is between them.
fn reflect<A: Float>(position: A, low: A, span: A) -> A {
    if span == A::default() {
        return span;
    }
    let distance = (position - low).abs();
    let flips = (distance / span).floor();
    let rest = distance - flips * span;
    let is_even = (flips * A::from_double(0.5)).floor() * A::from_double(2.0) == flips;
    if is_even { rest + low } else { span - rest + low }
}

/// Weights of four adjacent pixels in cubic convolution with `a = -¾`. `t` is the distance of the
/// sample from the second pixel.
fn cubic_weights<A: Float>(t: A) -> [A; 4] {
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
        let check = |padding, align_corners, position: f32, expected: f32| {
            let dim = ImageDim { size: 4, padding, align_corners };
            assert_eq!(dim.pad(position), expected, "{position}");
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
            assert!((cubic_weights(t).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}
