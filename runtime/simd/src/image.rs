//! Images to tensors in one pass: affine sampling, color conversion, normalization and layout.
//!
//! A [`Plan`] holds the tables for one size of image and one transform; [`Plan::run`] applies it to
//! images of that size. Results are bit-equal on every instruction set, so the arithmetic is done in
//! this order, without fused multiplication:
//!
//! 1. Position: the center of an output pixel is mapped to the source in fixed point of 32
//!    fractional bits. A position outside of the source gives the padding.
//! 2. Sampling: components are interpolated as they are stored. [`Sampling::Bilinear`] weights two
//!    columns with integers of 14 bits, then two rows with `f32`. A value of chroma counts for all
//!    pixels that share it.
//! 3. Color: a matrix of `f32`, then limits of 0 and 255.
//! 4. Normalization: `value * (scale / std) - mean / std`, then rounding to the element type.
//!
//! | module | holds |
//! |---|---|
//! | `position` | positions in the source, and the output pixels that lie in it |
//! | `format` | components of pixel formats |
//! | `taps`, `bilinear` | sampling by transforms without rotation, a vector of pixels at a time |
//! | `rotated`, `map`, `gather` | sampling by other transforms, and at positions of each pixel |
//! | `filter` | antialiased sampling |
//! | `tables` | the same for another processor |
//! | `color` | components to normalized channels |
//! | `element` | element types of the output |

use std::ops::Range;

use crate::{Isa, SizeError};

mod bilinear;
mod color;
mod element;
mod filter;
mod format;
mod gather;
mod map;
mod position;
mod rotated;
mod tables;
mod taps;
#[cfg(test)]
mod tests;

pub use element::Element;
pub use format::{Format, Plane, Source, Yuv};
pub use tables::{Channel, Component, Tables, Taps};

use bilinear::Bilinear;
use color::Recipe;
use filter::Filter;
use map::Map;
use rotated::Rotated;

/// Channels of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channels {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Luma; that of ITU-R BT.601 if the source has red, green and blue.
    Gray,
}

impl Channels {
    /// Number of channels.
    pub const fn count(self) -> usize {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Gray => 1,
        }
    }
}

/// Order of the elements of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Channel after channel.
    Nchw,
    /// Pixel after pixel.
    Nhwc,
}

/// Selection of source pixels for an output pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// The pixel at the position.
    Nearest,
    /// Linear interpolation between the four pixels around the position at any scale, as
    /// `INTER_LINEAR` of OpenCV.
    Bilinear,
    /// A triangle that is at least as wide as two output pixels, as `BILINEAR` of Pillow and
    /// `bilinear` of PyTorch with `antialias=True`. The transform must not rotate.
    AntialiasBilinear,
    /// A cubic curve that is at least as wide as four output pixels, as `BICUBIC` of Pillow and
    /// `bicubic` of PyTorch with `antialias=True`. The transform must not rotate.
    AntialiasBicubic,
}

/// An output that is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Channels.
    pub channels: Channels,
    /// Order of the elements.
    pub order: Order,
    /// Value of all channels outside of the source, from 0 to 255. It is normalized like a pixel.
    pub pad: f32,
    /// Factor of the values 0 to 255, before the mean is subtracted.
    pub scale: f64,
    /// Mean of each channel, in the order of the output.
    pub mean: [f64; 3],
    /// Divisor of each channel, in the order of the output.
    pub std: [f64; 3],
}

/// Tables for images of one size, and memory for rows.
#[derive(Debug, Clone)]
pub struct Plan {
    source: Source,
    target: Target,
    sampler: Sampler,
    recipe: Recipe,
    /// Rows of the components, from the first pixel that lies in the source.
    components: [Vec<f32>; 3],
    /// Rows of the channels, where they are not written to the output at once.
    channels: [Vec<f32>; 3],
}

#[derive(Debug, Clone)]
enum Sampler {
    Bilinear(Bilinear),
    Rotated(Rotated),
    Filter(Filter),
    Map(Map),
}

/// Number that the length of component rows is a multiple of, so that vectors are whole.
const MAX_LANES: usize = 16;

impl Plan {
    /// Largest width and height of sources and outputs, in pixels.
    pub const MAX_SIDE: usize = 1 << 16;

    /// Prepares the transform `to_source`, two rows of a matrix that maps `[x, y, 1]` in the output
    /// to the source. The center of the first pixel is (0.5, 0.5) in both.
    ///
    /// # Errors
    /// [`SizeError::Parameter`] names the invalid field and what is accepted.
    pub fn new(
        source: Source,
        target: Target,
        to_source: [[f64; 3]; 2],
        sampling: Sampling,
    ) -> Result<Self, SizeError> {
        source.check()?;
        target.check()?;
        let [x, y] = position::positions(to_source, [target.width, target.height])?;
        let is_upright = to_source[0][1] == 0.0 && to_source[1][0] == 0.0;
        let is_nearest = sampling == Sampling::Nearest;
        let cubic = match sampling {
            Sampling::AntialiasBicubic => Some(true),
            Sampling::AntialiasBilinear => Some(false),
            Sampling::Nearest | Sampling::Bilinear => None,
        };
        let expected = "without rotation for antialiased sampling";
        SizeError::check_parameter("to_source", expected, is_upright || cubic.is_none())?;
        let upright = (x.columns(0), y.rows(0));
        let bilinear = || Bilinear::new(&source, &target, upright, is_nearest);
        let sampler = match cubic {
            Some(cubic) => {
                Sampler::Filter(Filter::new(&source, &target, to_source, cubic, upright))
            }
            None => match is_upright.then(bilinear).flatten() {
                Some(bilinear) => Sampler::Bilinear(bilinear),
                None => Sampler::Rotated(Rotated::new(&source, [x, y], target.width, is_nearest)),
            },
        };
        // Sampled values of 255 have this size.
        let white = if cubic.is_some() { 255.0 } else { 255.0 * position::ONE as f32 };
        Ok(Self::with_sampler(source, target, sampler, white))
    }

    /// Prepares any other mapping: `position` is called with the column and row of each output pixel,
    /// and returns the position of its center in the source. Positions outside of the source are
    /// limited to its edge.
    ///
    /// # Errors
    /// [`SizeError::Parameter`] names the invalid field and what is accepted. Antialiased sampling is
    /// not supported.
    pub fn with_map(
        source: Source,
        target: Target,
        sampling: Sampling,
        position: impl FnMut([usize; 2]) -> [f64; 2],
    ) -> Result<Self, SizeError> {
        source.check()?;
        target.check()?;
        let is_local = matches!(sampling, Sampling::Nearest | Sampling::Bilinear);
        SizeError::check_parameter("sampling", "nearest or bilinear for a map", is_local)?;
        let map = Map::new(&source, &target, sampling == Sampling::Nearest, position);
        let white = 255.0 * position::ONE as f32;
        Ok(Self::with_sampler(source, target, Sampler::Map(map), white))
    }

    fn with_sampler(source: Source, target: Target, sampler: Sampler, white: f32) -> Self {
        let row = target.width.next_multiple_of(MAX_LANES);
        let rows =
            |count| std::array::from_fn(|at| if at < count { vec![0.0; row] } else { Vec::new() });
        Self {
            source,
            target,
            sampler,
            recipe: Recipe::new(&source, &target, white),
            components: rows(source.format.components().len()),
            channels: rows(target.channels.count()),
        }
    }

    /// Images that the plan is for.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Outputs that the plan writes.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Writes the output for the image in `planes`, which are as [`Format`] says.
    ///
    /// # Errors
    /// [`SizeError`] if a plane is missing or too short, or `out` does not have one element for each
    /// channel of each pixel.
    pub fn run<E: Element>(
        &mut self,
        isa: Isa,
        planes: &[Plane<'_>],
        out: &mut [E],
    ) -> Result<(), SizeError> {
        self.source.check_planes(planes)?;
        SizeError::check_exact("out", out.len(), self.target.elements())?;
        for row in 0..self.target.height {
            let Self { source, target, sampler, components, .. } = self;
            let columns = match sampler {
                Sampler::Bilinear(sampler) => sampler.sample(isa, source, planes, row, components),
                Sampler::Rotated(sampler) => sampler.sample(isa, source, planes, row, components),
                Sampler::Filter(sampler) => sampler.sample(isa, source, planes, row, components),
                Sampler::Map(map) => map.sample(isa, source, target, planes, row, components),
            };
            match self.target.order {
                Order::Nchw => self.write_planes(isa, row, columns, out),
                Order::Nhwc => self.write_pixels(isa, row, columns, out),
            }
        }
        Ok(())
    }

    /// Writes row `row` of each channel. `columns` lie in the source; the others are padding.
    fn write_planes<E: Element>(
        &mut self,
        isa: Isa,
        row: usize,
        columns: Range<usize>,
        out: &mut [E],
    ) {
        let Self { target, recipe, components, channels, .. } = self;
        for (at, scratch) in channels.iter_mut().enumerate().take(target.channels.count()) {
            let line = &mut out[(at * target.height + row) * target.width..][..target.width];
            let pad = E::from_f32(recipe.pad(at));
            line[..columns.start].fill(pad);
            line[columns.end..].fill(pad);
            let line = &mut line[columns.clone()];
            match E::as_f32(line) {
                Some(line) => recipe.channel(isa, at, components, line),
                None => {
                    let scratch = &mut scratch[..line.len()];
                    recipe.channel(isa, at, components, scratch);
                    isa.call(|| E::convert(scratch, line));
                }
            }
        }
    }

    /// Writes row `row` of pixels. `columns` lie in the source; the others are padding.
    fn write_pixels<E: Element>(
        &mut self,
        isa: Isa,
        row: usize,
        columns: Range<usize>,
        out: &mut [E],
    ) {
        let Self { target, recipe, components, channels, .. } = self;
        let count = target.channels.count();
        for (at, scratch) in channels.iter_mut().enumerate().take(count) {
            recipe.channel(isa, at, components, &mut scratch[..columns.len()]);
        }
        let row_len = target.width * count;
        let line = &mut out[row * row_len..][..row_len];
        let (before, rest) = line.split_at_mut(columns.start * count);
        let (line, after) = rest.split_at_mut(columns.len() * count);
        let [first, second, third] = &*channels;
        if count == 1 {
            isa.call(|| E::convert(&first[..columns.len()], line));
        } else {
            isa.call(|| E::interleave([first, second, third], line));
        }
        let pad: [E; 3] = std::array::from_fn(|at| E::from_f32(recipe.pad(at)));
        for pixel in before.chunks_exact_mut(count).chain(after.chunks_exact_mut(count)) {
            pixel.copy_from_slice(&pad[..count]);
        }
    }
}

impl Target {
    /// Number of elements; `None` if it overflows.
    pub fn elements(&self) -> Option<usize> {
        self.width.checked_mul(self.height)?.checked_mul(self.channels.count())
    }

    fn check(&self) -> Result<(), SizeError> {
        check_side("target.width", self.width)?;
        check_side("target.height", self.height)?;
        SizeError::check_parameter(
            "target.pad",
            "from 0 to 255",
            (0.0..=255.0).contains(&self.pad),
        )?;
        let is_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        SizeError::check_parameter("target.scale", "finite", self.scale.is_finite())?;
        SizeError::check_parameter("target.mean", "finite", is_finite(&self.mean))?;
        let is_divisor = is_finite(&self.std) && !self.std.contains(&0.0);
        SizeError::check_parameter("target.std", "finite and not zero", is_divisor)
    }
}

/// Checks a width or a height.
fn check_side(parameter: &'static str, side: usize) -> Result<(), SizeError> {
    SizeError::check_parameter(parameter, "from 1 to 65536", (1..=Plan::MAX_SIDE).contains(&side))
}
