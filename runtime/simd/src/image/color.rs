//! Components to normalized channels.

use super::{Channels, Source, Target};
use crate::{Float, Isa, Routine, Simd};

/// Luma of red, green and blue in ITU-R BT.601.
const LUMA: [f64; 3] = [0.299, 0.587, 0.114];

/// Arithmetic of each channel of the output.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    channels: [Channel; 3],
    /// Value of white in the components.
    white: f32,
}

/// Arithmetic of a channel: a weighted sum of the components, and its normalization.
pub(super) struct Row {
    pub weights: [f32; 3],
    pub constant: f32,
    pub factor: f32,
    pub offset: f32,
}

/// Arithmetic of a channel: a value from the components, its limits, and its normalization.
#[derive(Debug, Clone, Copy)]
struct Channel {
    value: Value,
    /// Largest value.
    high: f32,
    factor: f32,
    offset: f32,
    pad: f32,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    /// The component with this index.
    Component(usize),
    /// Weighted sum of three components, and a constant.
    Sum([f32; 3], f32),
}

impl Recipe {
    /// Prepares components in which white is `white`, a power of two times 255.
    pub(super) fn new(source: &Source, target: &Target, white: f32) -> Self {
        // Factors are multiplied by a power of two, which does not change how results are rounded.
        let unit = 255.0 / white;
        let values = values(source, target.channels);
        let channels = std::array::from_fn(|at| {
            let factor = (target.scale / target.std[at]) as f32;
            let offset = (-target.mean[at] / target.std[at]) as f32;
            let pad = target.pad * factor + offset;
            let (value, high, factor) = match values[at] {
                Value::Component(_) => (values[at], white, factor * unit),
                Value::Sum(weights, constant) => {
                    (Value::Sum(weights.map(|weight| weight * unit), constant), 255.0, factor)
                }
            };
            Channel { value, high, factor, offset, pad }
        });
        Self { channels, white }
    }

    /// Arithmetic of channel `channel` as a weighted sum.
    pub(super) fn row(&self, channel: usize) -> Row {
        let Channel { value, factor, offset, .. } = self.channels[channel];
        let (weights, constant) = match value {
            Value::Component(at) => {
                (std::array::from_fn(|other| if other == at { 1.0 } else { 0.0 }), 0.0)
            }
            Value::Sum(weights, constant) => (weights, constant),
        };
        Row { weights, constant, factor, offset }
    }

    /// Normalized padding of channel `channel`.
    pub(super) fn pad(&self, channel: usize) -> f32 {
        self.channels[channel].pad
    }

    /// Computes channel `channel` for as many pixels as `out` has.
    pub(super) fn channel(
        &self,
        isa: Isa,
        channel: usize,
        components: &[Vec<f32>; 3],
        out: &mut [f32],
    ) {
        let Channel { value, high, factor, offset, .. } = self.channels[channel];
        debug_assert!(high <= self.white);
        let normalize = Normalize { high, factor, offset };
        match value {
            Value::Component(at) => {
                isa.run(Copy { component: &components[at], normalize, out });
            }
            Value::Sum(weights, constant) => {
                isa.run(Sum { components, weights, constant, normalize, out });
            }
        }
    }
}

/// Values of the three channels, for components from 0 to 255.
fn values(source: &Source, channels: Channels) -> [Value; 3] {
    let order = match channels {
        Channels::Rgb | Channels::Gray => [0, 1, 2],
        Channels::Bgr => [2, 1, 0],
    };
    let sum = |weights: [f64; 3], constant: f64| {
        Value::Sum(weights.map(|weight| weight as f32), constant as f32)
    };
    if source.format.components().len() == 1 {
        return [Value::Component(0); 3];
    }
    if !source.format.is_yuv() {
        return match channels {
            Channels::Gray => [sum(LUMA, 0.0); 3],
            _ => order.map(Value::Component),
        };
    }
    let [red, blue] = source.yuv.weights;
    let green = 1.0 - red - blue;
    let (luma, black, chroma) = match source.yuv.is_full_range {
        true => (1.0, 0.0, 1.0),
        false => (255.0 / 219.0, 16.0, 255.0 / 224.0),
    };
    let (from_u, from_v) = (2.0 * (1.0 - blue) * chroma, 2.0 * (1.0 - red) * chroma);
    let rows = match channels {
        Channels::Gray => [[luma, 0.0, 0.0]; 3],
        _ => [
            [luma, 0.0, from_v],
            [luma, -from_u * blue / green, -from_v * red / green],
            [luma, from_u, 0.0],
        ],
    };
    order.map(|at| sum(rows[at], -black * rows[at][0] - 128.0 * (rows[at][1] + rows[at][2])))
}

#[derive(Clone, Copy)]
struct Normalize {
    high: f32,
    factor: f32,
    offset: f32,
}

impl Normalize {
    /// Limits and normalizes `value`.
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, value: S::F32) -> S::F32 {
        let value = value.max(simd.zero()).min(simd.splat(self.high));
        value * simd.splat(self.factor) + simd.splat(self.offset)
    }
}

struct Copy<'a> {
    component: &'a [f32],
    normalize: Normalize,
    out: &'a mut [f32],
}

impl Routine for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { component, normalize, out } = self;
        for (x, out) in component.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            store(simd, normalize.apply(simd, simd.load(x)), out);
        }
    }
}

struct Sum<'a> {
    components: &'a [Vec<f32>; 3],
    weights: [f32; 3],
    constant: f32,
    normalize: Normalize,
    out: &'a mut [f32],
}

impl Routine for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { components: [x, y, z], weights, constant, normalize, out } = self;
        let [a, b, c] = weights.map(|weight| simd.splat(weight));
        let constant = simd.splat(constant);
        let vectors = x.chunks(S::LANES).zip(y.chunks(S::LANES)).zip(z.chunks(S::LANES));
        for (((x, y), z), out) in vectors.zip(out.chunks_mut(S::LANES)) {
            let sum = simd.load(x) * a + simd.load(y) * b + simd.load(z) * c + constant;
            store(simd, normalize.apply(simd, sum), out);
        }
    }
}

/// Stores a vector, or the lanes that `out` has.
#[inline(always)]
fn store<S: Simd>(simd: S, value: S::F32, out: &mut [f32]) {
    if out.len() == S::LANES {
        simd.store(value, out);
    } else {
        simd.store_partial(value, out);
    }
}
