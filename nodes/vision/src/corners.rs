//! Color of an image in its corners.

use afferent_messages::{Affine, Image};
use afferent_package::Color;
use afferent_simd::{
    Isa,
    image::{Channels, Order, Plan, Sampling, Source, Target},
};

use crate::pixels::{source_of, with_planes};

/// Part of the shorter side that a corner has, as in react-native-executorch.
const CORNERS_PER_SIDE: usize = 30;

/// Computes the mean color of four squares in the corners of images.
#[derive(Debug, Default)]
pub(crate) struct Corners {
    /// Tables for the last size of images, and the channels.
    plans: Option<(Source, Channels, [Plan; 4])>,
    pixels: Vec<f32>,
}

impl Corners {
    /// Mean of each channel of `color`, from 0 to 255, rounded down. For gray, all three are equal.
    pub(crate) fn color(
        &mut self,
        image: &Image,
        color: Option<Color>,
    ) -> Result<[f32; 3], String> {
        let source = source_of(image)?;
        let channels = match color {
            Some(Color::Gray) => Channels::Gray,
            Some(Color::Bgr) => Channels::Bgr,
            Some(Color::Rgb) | None => Channels::Rgb,
        };
        let side = (image.width().min(image.height()) / CORNERS_PER_SIDE).max(1);
        let is_known = |(known, order, _): &(Source, Channels, [Plan; 4])| {
            *known == source && *order == channels
        };
        let (.., plans) = match self.plans.take_if(|plans| is_known(plans)) {
            Some(plans) => self.plans.insert(plans),
            None => self.plans.insert((source, channels, corner_plans(source, channels, side)?)),
        };
        let area = side * side;
        self.pixels.resize(area * channels.count(), 0.0);
        let (mut sums, pixels) = ([0.0_f64; 3], &mut self.pixels);
        for plan in plans {
            with_planes(image, |planes| plan.run(Isa::best(), planes, pixels.as_mut_slice()))?;
            for (sum, plane) in sums.iter_mut().zip(pixels.chunks_exact(area)) {
                *sum += plane.iter().copied().map(f64::from).sum::<f64>();
            }
        }
        if channels == Channels::Gray {
            sums = [sums[0]; 3];
        }
        Ok(sums.map(|sum| (sum / (4 * area) as f64).floor() as f32))
    }
}

/// Tables that copy the four corners of `side` pixels.
fn corner_plans(source: Source, channels: Channels, side: usize) -> Result<[Plan; 4], String> {
    let target = Target {
        width: side,
        height: side,
        channels,
        order: Order::Nchw,
        pad: 0.0,
        scale: 1.0,
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    let (right, bottom) = ((source.width - side) as f64, (source.height - side) as f64);
    let plan = |x: f64, y: f64| {
        let corner = Affine::scale_and_shift([1.0; 2], [x, y]);
        Plan::new(source, target, corner.0, Sampling::Nearest).map_err(|error| error.to_string())
    };
    Ok([plan(0.0, 0.0)?, plan(right, 0.0)?, plan(0.0, bottom)?, plan(right, bottom)?])
}
