//! Convolutions and fully connected layers of integers, summed up exactly in pairs of 16 bits.
//!
//! Inputs are integers already (static quantisation), or numbers whose rows or pictures are
//! quantised here: the scale is the range of the numbers and zero by 255, the zero point nudged to
//! an integer so that the greater of the errors at both ends is the smaller one.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    indirect::{Bytes, Indirect, Place, Places, Scaled, pack, packed_len},
};

use super::{
    Cx, Input, Op,
    conv::Sizes,
    elements,
    linear::{connected, padded},
    only, some, zeros,
};
use crate::shape::{MISFIT, Shape, TOO_LARGE};

/// Which sums are computed.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// Of rows with so many numbers, so many columns.
    Rows { inner: usize, cols: usize },
    /// Of patches.
    Patches(Sizes),
}

/// Weights and what belongs to the columns of one group.
struct Group {
    weights: Vec<i32>,
    /// Factor of each column.
    scale: Vec<f32>,
    integer_bias: Vec<i32>,
    bias: Vec<f32>,
}

/// How inputs are quantised and results stored.
pub(crate) enum Stored {
    /// Integers in and out; bounds are without the zero point.
    Static { from: i32, clamp: (f32, f32), to: i32 },
    /// Numbers in and out; so many last dimensions are quantised together.
    Dynamic { clamp: (f32, f32) },
}

/// A convolution or a fully connected layer.
pub(crate) struct Integer {
    layout: Layout,
    stored: Stored,
    /// Of a fully connected layer one for each block of a row.
    groups: Vec<Group>,
    /// Input channels of a group, or numbers of a block.
    inputs: usize,
    zeros: Vec<i32>,
    input: Shape,
    places: Vec<u32>,
}

/// Weights with their scales.
pub(crate) struct Weights<'w> {
    pub(crate) integers: &'w [i8],
    pub(crate) zero_point: i32,
    /// Of each output channel, of fully connected layers of each block of each.
    pub(crate) scales: &'w [f32],
    /// Numbers of a block; those of a row, when it is one block.
    pub(crate) block: usize,
    /// Whether those of a fully connected layer are input channels by output channels.
    pub(crate) transposed: bool,
}

/// What is added to the sums.
pub(crate) enum Bias<'b> {
    None,
    Integers(&'b [i32]),
    Numbers(&'b [f32]),
}

impl Layout {
    /// Groups, outputs of a group, taps, inputs of a group.
    fn parts(&self, block: usize) -> (usize, usize, usize, usize) {
        match *self {
            Self::Rows { inner, cols } => (inner / block.max(1), cols, 1, block),
            Self::Patches(sizes) => {
                (sizes.groups, sizes.outputs, sizes.window.taps(), sizes.inputs)
            }
        }
    }
}

impl Integer {
    pub(crate) fn new(
        layout: Layout,
        weights: &Weights<'_>,
        bias: &Bias<'_>,
        stored: Stored,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let (groups, outputs, taps, inputs) = layout.parts(weights.block);
        let half = inputs.div_ceil(2);
        let inner = taps.checked_mul(half).ok_or(TOO_LARGE)?;
        let integer = |group: usize, col: usize, tap: usize, input: usize| {
            if input >= inputs {
                return 0;
            }
            let at = match layout {
                Layout::Patches(sizes) => sizes.weight(group, col, tap, input),
                Layout::Rows { cols, .. } if weights.transposed => {
                    (group * inputs + input) * cols + col
                }
                Layout::Rows { inner, .. } => col * inner + group * inputs + input,
            };
            i32::from(weights.integers[at]) - weights.zero_point
        };
        let is_rows = matches!(layout, Layout::Rows { .. });
        let make = |group: usize| {
            let len = packed_len(isa, inner, outputs).ok_or(TOO_LARGE)?;
            let mut packed = zeros(len)?;
            let pair = |k: usize, col: usize| {
                let (tap, input) = (k / half, k % half * 2);
                let [low, high] = [0, 1].map(|more| integer(group, col, tap, input + more));
                (low & 0xffff) | (high << 16)
            };
            pack(isa, (inner, outputs), pair, &mut packed);
            let scale: Vec<f32> = (0..outputs)
                .map(|col| {
                    weights.scales
                        [if is_rows { col * groups + group } else { group * outputs + col }]
                })
                .collect();
            // The bias of a fully connected layer is added with its first block.
            let first = if is_rows { 0 } else { group * outputs };
            let with_bias = !is_rows || group == 0;
            let mut made = Group {
                weights: packed,
                scale: padded(isa, outputs, Some(&scale)),
                integer_bias: padded::<i32>(isa, outputs, None),
                bias: padded::<f32>(isa, outputs, None),
            };
            match bias {
                Bias::Integers(bias) if with_bias => {
                    made.integer_bias = padded(isa, outputs, Some(&bias[first..][..outputs]));
                }
                Bias::Numbers(bias) if with_bias => {
                    made.bias = padded(isa, outputs, Some(&bias[first..][..outputs]));
                }
                _ => {}
            }
            Ok(made)
        };
        let groups = (0..groups).map(make).collect::<Result<_, Error>>()?;
        let zeros = vec![0; half];
        Ok(Self { layout, stored, groups, inputs, zeros, input: Shape::default(), places: vec![] })
    }

    /// Words of a pixel or a row.
    fn step(&self) -> usize {
        self.groups.len() * self.inputs.div_ceil(2)
    }

    fn places(&self) -> Places<'_> {
        match self.layout {
            Layout::Patches(sizes) if !sizes.is_direct() => {
                Places::Taps { at: &self.places, taps: sizes.window.taps() }
            }
            _ => Places::Rows { step: self.step() },
        }
    }

    fn run_static(
        &self,
        cx: &mut Cx<'_>,
        x: &[i8],
        out: &mut [i8],
        (from, clamp, to): (i32, (f32, f32), i32),
    ) -> Result<(), Error> {
        let inputs = self.inputs;
        let half = inputs.div_ceil(2);
        let words = some(&mut cx.scratch.words, x.len() / inputs * half)?;
        let halves: &mut [i16] = bytemuck::cast_slice_mut(words);
        cx.isa.call(|| widen(x, from as i16, inputs, halves));
        let (_, cols, _, _) = self.layout.parts(inputs);
        let step = if matches!(self.layout, Layout::Rows { .. }) {
            cols
        } else {
            cols * self.groups.len()
        };
        let rows = out.len() / step;
        for (number, group) in self.groups.iter().enumerate() {
            let product = self.product(words, number, rows, cols);
            let (bias, scale) = (&group.integer_bias[..], &group.scale[..]);
            let end = Bytes { bias, scale, clamp, zero_point: to };
            let place = Place { data: &mut *out, at: number * cols, step };
            product.write(cx.isa, &end, place, cx.workers).ok_or(MISFIT)?;
        }
        Ok(())
    }

    fn product<'p>(
        &'p self,
        words: &'p [i32],
        group: usize,
        rows: usize,
        cols: usize,
    ) -> Indirect<'p, i32> {
        let half = self.inputs.div_ceil(2);
        Indirect {
            x: words.get(group * half..).unwrap_or_default(),
            zeros: &self.zeros,
            places: self.places(),
            rows,
            channels: half,
            weights: &self.groups[group].weights,
            cols,
        }
    }

    fn run_dynamic(
        &self,
        cx: &mut Cx<'_>,
        x: &[f32],
        out: &mut [f32],
        clamp: (f32, f32),
    ) -> Result<(), Error> {
        let (_, cols, _, _) = self.layout.parts(self.inputs);
        let is_rows = matches!(self.layout, Layout::Rows { .. });
        let step = if is_rows { cols } else { cols * self.groups.len() };
        let rows = out.len() / step;
        let units = if is_rows { rows } else { self.input[0] };
        let half = self.inputs.div_ceil(2);
        let words = some(&mut cx.scratch.words, x.len() / self.inputs * half)?;
        let scales = some(&mut cx.scratch.floats, rows)?;
        if units == 0 || rows == 0 || x.is_empty() {
            return Ok(());
        }
        let len = (x.len() / units, words.len() / units, rows / units);
        for (unit, x) in x.chunks_exact(len.0).enumerate() {
            let halves = bytemuck::cast_slice_mut(&mut words[unit * len.1..][..len.1]);
            let scale = cx.isa.call(|| quantise(x, self.inputs, halves));
            scales[unit * len.2..][..len.2].fill(scale);
        }
        let open = (f32::NEG_INFINITY, f32::INFINITY);
        for (number, group) in self.groups.iter().enumerate() {
            let product = self.product(words, number, rows, cols);
            let is_last = !is_rows || number + 1 == self.groups.len();
            let end = Scaled {
                rows: scales,
                cols: &group.scale,
                bias: &group.bias,
                clamp: if is_last { clamp } else { open },
                adds: is_rows && number > 0,
            };
            let at = if is_rows { 0 } else { number * cols };
            let place = Place { data: &mut *out, at, step };
            product.write(cx.isa, &end, place, cx.workers).ok_or(MISFIT)?;
        }
        Ok(())
    }
}

impl Op for Integer {
    fn shape(&mut self, inputs: &[Shape]) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let out = match self.layout {
            Layout::Rows { inner, cols } => connected(input, inner, cols)?,
            Layout::Patches(sizes) => {
                let out = sizes.output(input)?;
                if !sizes.is_direct() && self.input != *input {
                    let step = self.step();
                    self.input = Shape::default();
                    sizes.places(input, step, &mut self.places)?;
                }
                out
            }
        };
        self.input = *input;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        if self.inputs == 0 || out.is_empty() {
            return Ok(());
        }
        match self.stored {
            Stored::Static { from, clamp, to } => {
                self.run_static(cx, input.data()?, elements(out)?, (from, clamp, to))
            }
            Stored::Dynamic { clamp } => self.run_dynamic(cx, input.data()?, elements(out)?, clamp),
        }
    }
}

/// Integers less their zero point; a group of channels ends with a whole pair.
#[inline(always)]
fn widen(x: &[i8], zero_point: i16, inputs: usize, to: &mut [i16]) {
    if inputs.is_multiple_of(2) {
        x.iter().zip(to).for_each(|(x, to)| *to = i16::from(*x) - zero_point);
        return;
    }
    for (x, to) in x.chunks_exact(inputs).zip(to.chunks_exact_mut(inputs + 1)) {
        x.iter().zip(&mut *to).for_each(|(x, to)| *to = i16::from(*x) - zero_point);
        to[inputs] = 0;
    }
}

/// Quantises numbers to integers of 8 bits, writes these less their zero point, and returns what
/// one of them stands for.
#[inline(always)]
fn quantise(x: &[f32], inputs: usize, to: &mut [i16]) -> f32 {
    let (mut low, mut high) = ([0.0_f32; 16], [0.0_f32; 16]);
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            low[lane] = if chunk[lane] < low[lane] { chunk[lane] } else { low[lane] };
            high[lane] = if chunk[lane] > high[lane] { chunk[lane] } else { high[lane] };
        }
    }
    let low = low.into_iter().chain(rest.iter().copied()).fold(0.0, f32::min);
    let high = high.into_iter().chain(rest.iter().copied()).fold(0.0, f32::max);
    let scale = if low == high { 1.0 } else { 255.0 / (high - low) };
    let (low, high) = (low * scale, high * scale);
    let (least, most) = (-128.0, 127.0);
    let zero_point = if (least + low) + (most + high) > 0.0 { least - low } else { most - high };
    let zero_point = zero_point.clamp(least, most).round_ties_even();
    let one =
        |x: f32| (x * scale).clamp(least - zero_point, most - zero_point).round_ties_even() as i16;
    if inputs.is_multiple_of(2) {
        x.iter().zip(to).for_each(|(x, to)| *to = one(*x));
    } else {
        for (x, to) in x.chunks_exact(inputs).zip(to.chunks_exact_mut(inputs + 1)) {
            x.iter().zip(&mut *to).for_each(|(x, to)| *to = one(*x));
            to[inputs] = 0;
        }
    }
    1.0 / scale
}
