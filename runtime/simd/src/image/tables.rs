//! Tables of a transform for another processor, such as a GPU.

use std::ops::Range;

use super::{
    Channels, Sampling, Source, Target, check_side,
    color::{Recipe, Row},
    filter::Weights,
    position::{self, Line, Tap},
};
use crate::SizeError;

/// Tables of a transform: what [`Plan::run`](super::Plan::run) computes, for another processor.
///
/// Component `c` of an output pixel is the sum over its rows and columns of the bytes at
/// `offset + step * column` in row `row` of plane `plane`, times both weights. A channel is the sum of
/// `weights[c]` times component `c`, plus `constant`, limited to 0 to 255, times `factor`, plus
/// `offset`. Outside of `columns` and `rows`, it is `pad`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    /// Output columns that lie in the source.
    pub columns: Range<usize>,
    /// Output rows that lie in the source.
    pub rows: Range<usize>,
    /// Components of the source: one or three.
    pub components: Vec<Component>,
    /// Channels of the output: one or three.
    pub channels: Vec<Channel>,
}

/// Values of a component, and how they are sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Index of the plane.
    pub plane: usize,
    /// Offset of the first value in a row, in bytes.
    pub offset: usize,
    /// Distance between two values, in bytes.
    pub step: usize,
    /// Binary logarithm of the columns and rows of pixels that share a value.
    pub shift: [u32; 2],
    /// Values of each of `columns`.
    pub horizontal: Taps,
    /// Rows of each of `rows`.
    pub vertical: Taps,
}

/// Weights of consecutive values, for each output pixel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taps {
    /// Index of the first value of each pixel.
    pub starts: Vec<usize>,
    /// End of the weights of each pixel; they begin where those of the pixel before it end.
    pub ends: Vec<usize>,
    /// Weights.
    pub weights: Vec<f32>,
}

/// Arithmetic of a channel of the output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Weight of each component.
    pub weights: [f32; 3],
    /// Constant of the sum.
    pub constant: f32,
    /// Factor of the limited sum.
    pub factor: f32,
    /// Constant of the result.
    pub offset: f32,
    /// Value outside of the source.
    pub pad: f32,
}

impl Tables {
    /// Tables of the transform that [`Plan::new`](super::Plan::new) prepares.
    ///
    /// # Errors
    /// As [`Plan::new`](super::Plan::new), and for a transform that rotates.
    pub fn new(
        source: Source,
        target: Target,
        to_source: [[f64; 3]; 2],
        sampling: Sampling,
    ) -> Result<Self, SizeError> {
        source.check()?;
        target.check()?;
        check_side("target.width", target.width)?;
        let is_upright = to_source[0][1] == 0.0 && to_source[1][0] == 0.0;
        SizeError::check_parameter("to_source", "without rotation for tables", is_upright)?;
        let [x, y] = position::positions(to_source, [target.width, target.height])?;
        let (x, y) = (x.columns(0), y.rows(0));
        let columns = x.inside(source.width, target.width);
        let rows = y.inside(source.height, target.height);
        let taps = |pixels: &Range<usize>, line: Line, axis: usize, size: usize, shift: u32| {
            let is_nearest = sampling == Sampling::Nearest;
            match sampling {
                Sampling::Nearest | Sampling::Bilinear => {
                    let tap = |at| Tap::at(line.position(at).fixed(is_nearest), size);
                    Taps::of(pixels.clone().map(tap), shift)
                }
                Sampling::AntialiasBilinear | Sampling::AntialiasBicubic => {
                    let (scale, origin) = (to_source[axis][axis], to_source[axis][2]);
                    let centers = pixels.clone().map(|at| (at as f64 + 0.5) * scale + origin);
                    let cubic = sampling == Sampling::AntialiasBicubic;
                    Weights::new(centers, scale, size, shift, cubic).into_taps()
                }
            }
        };
        let component = |part: &super::format::Component| Component {
            plane: part.plane,
            offset: part.offset,
            step: part.step,
            shift: part.shift,
            horizontal: taps(&columns, x, 0, source.width, part.shift[0]),
            vertical: taps(&rows, y, 1, source.height, part.shift[1]),
        };
        let components = source.format.components().iter().map(component).collect();
        Ok(Self { columns, rows, components, channels: channels(&source, &target) })
    }

    /// As [`Tables::new`], for transforms with rotation: without the taps, which the other processor
    /// finds for each pixel.
    ///
    /// # Errors
    /// As [`Plan::new`](super::Plan::new).
    pub fn without_taps(source: Source, target: Target) -> Result<Self, SizeError> {
        source.check()?;
        target.check()?;
        let component = |part: &super::format::Component| Component {
            plane: part.plane,
            offset: part.offset,
            step: part.step,
            shift: part.shift,
            horizontal: Taps::default(),
            vertical: Taps::default(),
        };
        let components = source.format.components().iter().map(component).collect();
        let (columns, rows) = (0..target.width, 0..target.height);
        Ok(Self { columns, rows, components, channels: channels(&source, &target) })
    }

    /// Tables that convert an image to red, green and blue from 0 to 255, without another size.
    ///
    /// # Errors
    /// As [`Plan::new`](super::Plan::new).
    pub fn rgb(source: Source) -> Result<Self, SizeError> {
        let target = Target::rgb(source.width, source.height);
        Self::new(source, target, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], Sampling::Nearest)
    }
}

fn channels(source: &Source, target: &Target) -> Vec<Channel> {
    let recipe = Recipe::new(source, target, 255.0);
    let channels = (0..target.channels.count()).map(|at| {
        let Row { weights, constant, factor, offset } = recipe.row(at);
        Channel { weights, constant, factor, offset, pad: recipe.pad(at) }
    });
    channels.collect()
}

impl Target {
    /// Red, green and blue from 0 to 255, pixel after pixel.
    pub fn rgb(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            channels: Channels::Rgb,
            order: super::Order::Nhwc,
            pad: 0.0,
            scale: 1.0,
            mean: [0.0; 3],
            std: [1.0; 3],
        }
    }
}

impl Taps {
    fn of(taps: impl Iterator<Item = Tap>, shift: u32) -> Self {
        let mut all = Self { starts: vec![], ends: vec![], weights: vec![] };
        for Tap { first, second, weight } in taps {
            let second_share = weight as f32 / position::ONE as f32;
            let (first, second) = (first >> shift, second >> shift);
            all.starts.push(first);
            match first == second || weight == 0 {
                true => all.weights.push(1.0),
                false => all.weights.extend([1.0 - second_share, second_share]),
            }
            all.ends.push(all.weights.len());
        }
        all
    }

    /// Index of the first value of a pixel, and its weights.
    pub fn get(&self, pixel: usize) -> (usize, &[f32]) {
        let begin = pixel.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.starts[pixel], &self.weights[begin..self.ends[pixel]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Isa,
        image::{Format, Order, Plan, Plane, Yuv},
    };

    /// Applies the tables as another processor does.
    fn apply(tables: &Tables, target: &Target, planes: &[Plane<'_>]) -> Vec<f32> {
        let mut out = vec![];
        for (row, column, channel) in (0..target.height).flat_map(|row| {
            (0..target.width).flat_map(move |column| (0..3).map(move |at| (row, column, at)))
        }) {
            let Channel { weights, constant, factor, offset, pad } = tables.channels[channel];
            if !tables.rows.contains(&row) || !tables.columns.contains(&column) {
                out.push(pad);
                continue;
            }
            let mut sum = constant;
            for (part, weight) in tables.components.iter().zip(weights) {
                let (top, rows) = part.vertical.get(row - tables.rows.start);
                let (left, columns) = part.horizontal.get(column - tables.columns.start);
                let plane = planes[part.plane];
                for (y, by_row) in rows.iter().enumerate() {
                    for (x, by_column) in columns.iter().enumerate() {
                        let byte =
                            (top + y) * plane.row_stride + part.offset + part.step * (left + x);
                        sum += f32::from(plane.bytes[byte]) * by_row * by_column * weight;
                    }
                }
            }
            out.push(sum.clamp(0.0, 255.0) * factor + offset);
        }
        out
    }

    #[test]
    fn tables_give_what_a_plan_gives() {
        let bytes: Vec<u8> = (0..64 * 72 * 4).map(|at| (at * 37 % 251) as u8).collect();
        let target = Target {
            width: 21,
            height: 17,
            channels: Channels::Bgr,
            order: Order::Nhwc,
            pad: 114.0,
            scale: 1.0 / 255.0,
            mean: [0.5, 0.4, 0.3],
            std: [0.2, 0.3, 0.4],
        };
        for format in [Format::Rgb8, Format::Rgba8, Format::Yuyv, Format::Nv12, Format::I420] {
            let source = Source { format, width: 64, height: 48, yuv: Yuv::BT601 };
            let strides = match format {
                Format::Rgb8 => [192, 0, 0],
                Format::Rgba8 => [256, 0, 0],
                Format::Yuyv => [128, 0, 0],
                Format::Nv12 => [64, 64, 0],
                _ => [64, 32, 32],
            };
            let used = strides.iter().filter(|stride| **stride > 0).count();
            let planes = strides.map(|row_stride| Plane { bytes: &bytes, row_stride });
            let planes = &planes[..used];
            for sampling in [
                Sampling::Nearest,
                Sampling::Bilinear,
                Sampling::AntialiasBilinear,
                Sampling::AntialiasBicubic,
            ] {
                // A letterbox: rows at the top and the bottom are padding.
                let to_source = [[64.0 / 21.0, 0.0, 0.0], [0.0, 64.0 / 21.0, -2.5]];
                let mut plan = Plan::new(source, target, to_source, sampling).unwrap();
                let mut expected = vec![0.0_f32; 21 * 17 * 3];
                plan.run(Isa::best(), planes, &mut expected).unwrap();
                let tables = Tables::new(source, target, to_source, sampling).unwrap();
                for (at, (a, b)) in
                    apply(&tables, &target, planes).iter().zip(&expected).enumerate()
                {
                    assert!((a - b).abs() < 2e-3, "{format:?} {sampling:?} {at}: {a}, not {b}");
                }
            }
        }
        let source = Source { format: Format::Rgb8, width: 64, height: 48, yuv: Yuv::BT601 };
        let turned = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]];
        assert!(Tables::new(source, target, turned, Sampling::Bilinear).is_err());
    }
}
