//! Convolutions and fully connected layers of integers of 8 bits, summed up exactly.
//!
//! Inputs are integers already (static quantisation), or numbers whose rows or pictures are
//! quantised first.

use afferent_core::Error;
use afferent_simd::{
    Isa,
    conv::winograd::{self, Kind, WinogradQ8},
    epilogue::Epilogue,
    igemm::{InputRows, OutputRows, WeightShape},
    qgemm::{
        q8::{Q8Gemm, ZeroPoint, interleave, pack, packed_len, panel_cols, scratch_len},
        requantize::{DequantizeF32, RequantizeInt8},
    },
};

use super::{
    Cx, Input, Op, Scratch,
    conv::{Sizes, Table},
    elements,
    keep::{Form, Keep, Kept},
    linear::connected,
    narrow::Patches,
    only,
    quantise::quantise,
    some,
};
use crate::{
    graph::ConvKind,
    shape::{MISFIT, Room, Shape, TOO_LARGE},
};

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
    weights: Kept<i8>,
    /// Factor of each column, zipped.
    scale: Vec<f32>,
    integer_bias: Vec<i32>,
    bias: Vec<f32>,
}

/// How inputs are quantised and results stored.
pub(crate) enum Stored {
    /// Integers in and out; bounds are without the zero point.
    Static { from: i8, clamp: (f32, f32), to: i32 },
    /// Numbers in and out; so many last dimensions are quantised together.
    Dynamic { clamp: (f32, f32) },
}

/// A convolution or a fully connected layer.
pub(crate) struct Integer {
    layout: Layout,
    stored: Stored,
    groups: Vec<Group>,
    /// What zero of each input channel is stored as, where minimal filtering may compute it.
    zeros: Vec<i8>,
    input: Shape,
    table: Table,
    /// For pictures of the last shape.
    filtering: Option<winograd::ConvShape>,
}

/// Weights with their scales.
pub(crate) struct Weights<'w> {
    pub(crate) integers: &'w [i8],
    /// Of each output channel, of fully connected layers of each block of each.
    pub(crate) scales: &'w [f32],
    /// Whether those of a fully connected layer are input channels by output channels.
    pub(crate) transposed: bool,
}

/// What is added to the sums.
pub(crate) enum Bias<'b> {
    None,
    Integers(&'b [i32]),
    Numbers(&'b [f32]),
}

/// Groups, outputs of a group, taps, inputs of a group.
struct Parts {
    groups: usize,
    outputs: usize,
    taps: usize,
    inputs: usize,
}

impl Layout {
    fn parts(&self) -> Parts {
        match *self {
            Self::Rows { inner, cols } => {
                Parts { groups: 1, outputs: cols, taps: 1, inputs: inner }
            }
            Self::Patches(Sizes { groups, outputs, window, inputs, .. }) => {
                Parts { groups, outputs, taps: window.taps(), inputs }
            }
        }
    }
}

/// The values of some columns, zipped and with zeros up to whole panels.
fn zipped<T: Copy + Default>(keep: &Keep<'_>, columns: &[T]) -> Result<Vec<T>, Error> {
    let isa = Isa::best();
    let len = columns.len().next_multiple_of(panel_cols(isa));
    keep.take::<T>(len)?;
    let mut all = vec![T::default(); len];
    interleave(isa, columns, &mut all);
    Ok(all)
}

impl Integer {
    pub(crate) fn new(
        keep: &Keep<'_>,
        layout: Layout,
        weights: &Weights<'_>,
        bias: &Bias<'_>,
        stored: Stored,
    ) -> Result<Self, Error> {
        let isa = Isa::best();
        let Parts { groups, outputs, taps, inputs } = layout.parts();
        let inner = taps.checked_mul(inputs).ok_or(TOO_LARGE)?;
        let make = |group: usize| {
            let len = packed_len(isa, WeightShape { inner, cols: outputs }).ok_or(TOO_LARGE)?;
            let form = if weights.transposed { Form::IntegerRows } else { Form::Integers };
            let all = weights.integers;
            let column = |col: usize, first: usize, to: &mut [i8]| match layout {
                Layout::Patches(sizes) if sizes.kind == ConvKind::Depthwise => {
                    for (k, to) in (first..).zip(to) {
                        *to = all[sizes.weight(group, col, k / inputs, k % inputs)];
                    }
                }
                Layout::Rows { cols, .. } if weights.transposed => {
                    (first..).zip(to).for_each(|(k, to)| *to = all[k * cols + col]);
                }
                _ => {
                    let from = (group * outputs + col) * inner + first;
                    to.copy_from_slice(&all[from..][..to.len()]);
                }
            };
            let packed = keep.numbers(form, &[group, inputs, outputs], len, |to| {
                pack(isa, WeightShape { inner, cols: outputs }, column, to);
                Ok(())
            })?;
            let of_group = group * outputs..(group + 1) * outputs;
            Ok(Group {
                weights: packed,
                scale: zipped(keep, &weights.scales[of_group.clone()])?,
                integer_bias: match bias {
                    Bias::Integers(bias) => zipped(keep, &bias[of_group.clone()])?,
                    _ => vec![],
                },
                bias: match bias {
                    Bias::None => zipped(keep, &vec![0.0; outputs])?,
                    Bias::Integers(_) => vec![],
                    Bias::Numbers(bias) => zipped(keep, &bias[of_group])?,
                },
            })
        };
        keep.take::<Group>(groups)?;
        let groups = (0..groups).map(make).collect::<Result<_, Error>>()?;
        let zeros = match (&layout, &stored) {
            (Layout::Patches(sizes), Stored::Static { from, .. })
                if sizes.can_filter()
                    && winograd::supports_channels(inputs)
                    && weights
                        .integers
                        .chunks_exact(inner.max(1))
                        .all(|column| winograd::is_exact(isa, column)) =>
            {
                keep.take::<i8>(inputs)?;
                vec![*from; inputs]
            }
            _ => vec![],
        };
        let (input, table, filtering) = Default::default();
        Ok(Self { layout, stored, groups, zeros, input, table, filtering })
    }

    /// Integers of a pixel or a row.
    fn step(&self) -> usize {
        let Parts { groups, inputs, .. } = self.layout.parts();
        groups * inputs
    }

    fn places(&self) -> InputRows<'_> {
        match self.layout {
            Layout::Patches(sizes) if !sizes.is_direct() => {
                InputRows::Indirect { offsets: self.table.at(), taps: sizes.window.taps() }
            }
            _ => InputRows::Strided { stride: self.step() },
        }
    }

    /// Computes what group `number` adds to the result.
    fn write<E: Epilogue>(
        &self,
        cx: &mut Cx<'_>,
        (x, zero): (&[i8], ZeroPoint<'_>),
        number: usize,
        end: &E,
        out: &mut [E::Out],
    ) -> Result<(), Error> {
        let Parts { groups, outputs, taps, inputs } = self.layout.parts();
        let step = groups * outputs;
        let rows = out.len() / step;
        let threads = cx.workers.map_or(1, |workers| workers.threads());
        let len =
            scratch_len(cx.isa, WeightShape { inner: taps * inputs, cols: outputs }, rows, threads);
        let product = Q8Gemm {
            x: x.get(number * inputs..).unwrap_or_default(),
            zero_point: zero,
            input_rows: self.places(),
            rows,
            channels: inputs,
            weights: &self.groups[number].weights,
            cols: outputs,
        };
        let place = OutputRows { data: out, offset: number * outputs, row_stride: step };
        let words = some(&mut cx.scratch.words, len, &mut cx.scratch.room)?;
        product.run(cx.isa, end, place, words, cx.workers).or(Err(MISFIT))
    }

    /// The same, by minimal filtering.
    fn filter<E: Epilogue>(
        &self,
        cx: &mut Cx<'_>,
        (x, sizes): (&[i8], &winograd::ConvShape),
        group: &Group,
        end: &E,
        out: &mut [E::Out],
    ) -> Result<(), Error> {
        let threads = cx.workers.map_or(1, |workers| workers.threads());
        let len = sizes.scratch_len(Kind::Q8, cx.isa, threads).ok_or(TOO_LARGE)?;
        let scratch = some(&mut cx.scratch.floats, len, &mut cx.scratch.room)?;
        let (zero_points, weights) = (&self.zeros[..], &group.weights[..]);
        let conv = WinogradQ8 { x, zero_points, weights, epilogue: end };
        conv.run(sizes, cx.isa, out, scratch, cx.workers).or(Err(MISFIT))
    }

    fn run_static(
        &self,
        cx: &mut Cx<'_>,
        x: &[i8],
        out: &mut [i8],
        (from, clamp, to): (i8, (f32, f32), i32),
    ) -> Result<(), Error> {
        for (number, group) in self.groups.iter().enumerate() {
            let (bias, scale) = (&group.integer_bias[..], &group.scale[..]);
            let end = RequantizeInt8 { bias, scale, clamp, zero_point: to };
            if let Some(sizes) = &self.filtering {
                return self.filter(cx, (x, sizes), group, &end, out);
            }
            self.write(cx, (x, ZeroPoint::PerTensor(from)), number, &end, out)?;
        }
        Ok(())
    }

    fn run_dynamic(
        &self,
        cx: &mut Cx<'_>,
        x: &[f32],
        out: &mut [f32],
        clamp: (f32, f32),
    ) -> Result<(), Error> {
        let Parts { groups, outputs, .. } = self.layout.parts();
        let rows = out.len() / (groups * outputs);
        let units = if matches!(self.layout, Layout::Rows { .. }) { rows } else { self.input[0] };
        if units == 0 || rows == 0 || x.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(MISFIT) };
        }
        let mut bytes = std::mem::take(&mut cx.scratch.bytes);
        let result = self.quantised(cx, (x, units), out, clamp, &mut bytes);
        cx.scratch.bytes = bytes;
        result
    }

    fn quantised(
        &self,
        cx: &mut Cx<'_>,
        (x, units): (&[f32], usize),
        out: &mut [f32],
        clamp: (f32, f32),
        bytes: &mut Vec<i8>,
    ) -> Result<(), Error> {
        let Parts { groups, outputs, .. } = self.layout.parts();
        let rows = out.len() / (groups * outputs);
        let bytes = some(bytes, x.len(), &mut cx.scratch.room)?;
        let mut zeros = std::mem::take(&mut cx.scratch.zeros);
        let mut steps = std::mem::take(&mut cx.scratch.floats);
        let room = &mut cx.scratch.room;
        let (zero, step) = (some(&mut zeros, rows, room)?, some(&mut steps, rows, room)?);
        let (len, share) = (x.len() / units, rows / units);
        for (unit, x) in x.chunks_exact(len).enumerate() {
            let to = &mut bytes[unit * len..][..len];
            let (scale, zero_point) = cx.isa.call(|| quantise(x, to));
            zero[unit * share..][..share].fill(zero_point as i8);
            step[unit * share..][..share].fill(scale);
        }
        let mut result = Ok(());
        for (number, group) in self.groups.iter().enumerate() {
            let (scale, bias) = (&group.scale[..], &group.bias[..]);
            let end = DequantizeF32 { row_scale: step, scale, bias, clamp };
            result =
                result.and(self.write(cx, (bytes, ZeroPoint::PerRow(zero)), number, &end, out));
        }
        let Scratch { zeros: of_rows, floats, .. } = cx.scratch;
        (*of_rows, *floats) = (zeros, steps);
        result
    }
}

/// A convolution of one group, of integers that have the same scale before, and after.
pub(crate) struct StaticPatches {
    pub(crate) of: Integer,
    pub(crate) sizes: Sizes,
    /// What zero is stored as before.
    pub(crate) from: i8,
    /// Bounds, without the zero point.
    pub(crate) clamp: (f32, f32),
    /// What zero is stored as after.
    pub(crate) to: i32,
}

impl Patches for StaticPatches {
    type Number = i8;

    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn zero(&self) -> i8 {
        self.from
    }

    fn memory(&self, count: usize) -> usize {
        let Sizes { window, inputs, outputs, .. } = self.sizes;
        let shape = WeightShape { inner: window.taps() * inputs, cols: outputs };
        scratch_len(Isa::best(), shape, count, 1)
    }

    fn patches(
        &self,
        x: &[i8],
        rows: usize,
        places: InputRows<'_>,
        out: OutputRows<'_, i8>,
        memory: &mut [i32],
    ) -> Result<(), Error> {
        let Sizes { window, inputs, outputs, .. } = self.sizes;
        let taps = if let InputRows::Indirect { taps, .. } = places { taps } else { 1 };
        let group = self.of.groups.first().ok_or(MISFIT)?;
        let product = Q8Gemm {
            x,
            zero_point: ZeroPoint::PerTensor(self.from),
            input_rows: places,
            rows,
            channels: window.taps() * inputs / taps,
            weights: &group.weights,
            cols: outputs,
        };
        let (bias, scale) = (&group.integer_bias[..], &group.scale[..]);
        let end = RequantizeInt8 { bias, scale, clamp: self.clamp, zero_point: self.to };
        product.run(Isa::best(), &end, out, memory, None).or(Err(MISFIT))
    }
}

impl Op for Integer {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let out = match self.layout {
            Layout::Rows { inner, cols } => connected(input, inner, cols)?,
            Layout::Patches(sizes) => {
                let out = sizes.output(input)?;
                self.filtering = if self.zeros.is_empty() {
                    None
                } else {
                    sizes.filtering(Kind::Q8, input, &out)?
                };
                if !sizes.is_direct() && self.filtering.is_none() {
                    let step = self.step();
                    self.table.find(&sizes, input, step, room)?;
                }
                out
            }
        };
        self.input = *input;
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        if self.layout.parts().inputs == 0 || out.is_empty() {
            return if out.is_empty() { Ok(()) } else { Err(MISFIT) };
        }
        match self.stored {
            Stored::Static { from, clamp, to } => {
                self.run_static(cx, input.data()?, elements(out)?, (from, clamp, to))
            }
            Stored::Dynamic { clamp } => self.run_dynamic(cx, input.data()?, elements(out)?, clamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::trial::{self, computed};

    #[test]
    fn filtering_gives_what_patches_give() {
        let bytes = |len: usize| (0..len).map(|at| (at * 7919 + 13) as i8).collect::<Vec<_>>();
        // Channels before and after, what the weights are divided by; with all bits, sums of 512
        // channels may be too large.
        for (inputs, outputs, divisor, exact) in
            [(64, 64, 1, true), (128, 100, 1, true), (512, 64, 1, false), (512, 64, 4, true)]
        {
            let sizes = trial::filterable(inputs, outputs);
            let integers: Vec<i8> =
                bytes(inputs * outputs * 9).into_iter().map(|weight| weight / divisor).collect();
            let (scales, bias) = (vec![1e-4; outputs], vec![9; outputs]);
            let weights = Weights { integers: &integers, scales: &scales, transposed: false };
            let stored = Stored::Static { from: -128, clamp: (-100.0, 90.0), to: 5 };
            let (keep, layout) = (Keep::default(), Layout::Patches(sizes));
            let mut conv =
                Integer::new(&keep, layout, &weights, &Bias::Integers(&bias), stored).unwrap();
            for (picture, filters) in [([1, 30, 33], true), ([2, 2, 3], false), ([3, 17, 16], true)]
            {
                let [batch, height, width] = picture;
                let shape = Shape::of([batch, height, width, inputs]);
                let x = bytes(shape.numel().unwrap());
                let mut room = Room::of(usize::MAX);
                let out = conv.shape(&[shape], &mut room).unwrap();
                assert_eq!(conv.filtering.is_some(), filters && exact, "{inputs} {picture:?}");
                let run = |conv: &Integer, threads| computed(conv, &x, [shape, out], 0_i8, threads);
                let found = [1, 2, 3].map(|threads| run(&conv, threads));
                conv.filtering = None;
                conv.table.find(&sizes, &shape, inputs, &mut room).unwrap();
                let expected = run(&conv, 1);
                assert!(found.iter().all(|found| *found == expected));
            }
        }
    }
}
