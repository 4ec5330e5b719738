//! Convolutions of `f32` over pictures whose channels lie together: products of packed weights
//! with patches that are found by their places.

use afferent_core::{Error, Workers};
use afferent_simd::{
    Activation, Isa,
    conv::winograd::{self, Kind, WinogradF32},
    epilogue::BiasActivation,
    igemm::{InputRows, OutputRows, PADDING_OFFSET},
};

use super::{
    Cx, Input, Op, elements,
    keep::{Form, Keep},
    linear::Packed,
    narrow::Patches,
    only, some,
};
use crate::{
    graph::ConvKind,
    shape::{MISFIT, MOST_BYTES, Room, Shape, TOO_LARGE, Window},
};

/// Sizes of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) kind: ConvKind,
    pub(crate) window: Window,
    pub(crate) groups: usize,
    /// Input channels of a group.
    pub(crate) inputs: usize,
    /// Output channels of a group.
    pub(crate) outputs: usize,
}

impl Sizes {
    /// Where the weight of output channel `output` of `group` lies that meets channel `input` at
    /// position `tap`, in weights as a graph has them.
    pub(crate) fn weight(&self, group: usize, output: usize, tap: usize, input: usize) -> usize {
        let channel = group * self.outputs + output;
        match self.kind {
            ConvKind::Depthwise => tap * self.groups * self.outputs + channel,
            _ => (channel * self.window.taps() + tap) * self.inputs + input,
        }
    }

    /// The sizes that weights must have.
    pub(crate) fn filter(&self) -> Option<Shape> {
        let [rows, cols] = self.window.kernel;
        let channels = self.groups.checked_mul(self.outputs)?;
        Some(match self.kind {
            ConvKind::Depthwise => Shape::of([1, rows, cols, channels]),
            _ => Shape::of([channels, rows, cols, self.inputs]),
        })
    }

    /// The result of the convolution of pictures of this shape.
    pub(crate) fn output(&self, input: &Shape) -> Result<Shape, Error> {
        let [batch, height, width, channels] = input.picture()?;
        if channels != self.groups * self.inputs {
            return Err(MISFIT);
        }
        let [height, width] = match self.kind {
            ConvKind::Transposed(more) => self.window.transposed([height, width], more)?,
            _ => self.window.output([height, width])?,
        };
        let out = Shape::of([batch, height, width, self.groups * self.outputs]);
        out.numel()?;
        Ok(out)
    }

    /// Whether each result depends on the input at its own position alone.
    pub(crate) fn is_direct(&self) -> bool {
        let Window { kernel, stride, before, after, .. } = self.window;
        let plain = !matches!(self.kind, ConvKind::Transposed(more) if more != [0; 2]);
        plain && (kernel, stride, before, after) == ([1; 2], [1; 2], [0; 2], [0; 2])
    }

    /// Whether the taps of each result lie one after the other in a picture of this shape, and
    /// results equally far apart.
    fn is_line(&self, input: &Shape) -> bool {
        let Window { kernel, dilation, before, after, .. } = self.window;
        !matches!(self.kind, ConvKind::Transposed(_))
            && self.groups == 1
            && (kernel[1], dilation[0], before, after) == (1, 1, [0; 2], [0; 2])
            && (input[0], input[2]) == (1, 1)
    }

    /// Whether minimal filtering computes it.
    pub(crate) fn can_filter(&self) -> bool {
        let Window { kernel, stride, dilation, .. } = self.window;
        self.kind == ConvKind::Plain
            && self.groups == 1
            && (kernel, stride, dilation) == ([3; 2], [1; 2], [1; 2])
    }

    /// The sizes of the convolution of pictures of this shape where minimal filtering computes it,
    /// and faster.
    pub(crate) fn filtering(
        &self,
        kind: Kind,
        input: &Shape,
        output: &Shape,
    ) -> Result<Option<winograd::ConvShape>, Error> {
        let before = self.window.before;
        let ([batch, height, width, channels], [_, rows, columns, cols]) =
            (input.picture()?, output.picture()?);
        let (input, output) = ([height, width], [rows, columns]);
        let sizes = winograd::ConvShape {
            batch,
            input,
            output,
            padding: before,
            in_channels: channels,
            out_channels: cols,
        };
        let pays = |sizes: &winograd::ConvShape| {
            self.can_filter() && sizes.is_profitable(kind, Isa::best())
        };
        Ok(Some(sizes).filter(pays))
    }
}

/// Where the taps of all results of a convolution lie, in pictures of one shape.
#[derive(Default)]
pub(crate) struct Table {
    input: Shape,
    at: Vec<u32>,
}

impl Table {
    pub(crate) fn at(&self) -> &[u32] {
        &self.at
    }

    /// Finds the places for pictures whose pixels are `step` numbers long.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn find(
        &mut self,
        sizes: &Sizes,
        input: &Shape,
        step: usize,
        room: &mut Room,
    ) -> Result<(), Error> {
        let [batch, height, width, _] = input.picture()?;
        let [_, rows, cols, _] = sizes.output(input)?.picture()?;
        let numbers = batch.checked_mul(height * width).and_then(|pixels| pixels.checked_mul(step));
        numbers.filter(|numbers| *numbers < MOST_BYTES - 1).ok_or(TOO_LARGE)?;
        let Sizes { kind, window, .. } = sizes;
        let all = (batch * rows).checked_mul(cols).and_then(|all| all.checked_mul(window.taps()));
        let all = all.ok_or(TOO_LARGE)?;
        room.take::<u32>(all)?;
        if self.input == *input {
            return Ok(());
        }
        self.input = Shape::default();
        self.at.clear();
        self.at.try_reserve_exact(all).map_err(|_| TOO_LARGE)?;
        let source = |dim, at, tap, size| match kind {
            ConvKind::Transposed(_) => window.back(dim, at, tap, size),
            _ => window.source(dim, at, tap, size),
        };
        for item in 0..batch {
            for row in 0..rows {
                for col in 0..cols {
                    for i in 0..window.kernel[0] {
                        let y = source(0, row, i, height);
                        self.at.extend((0..window.kernel[1]).map(|j| {
                            match (y, source(1, col, j, width)) {
                                (Some(y), Some(x)) => {
                                    (((item * height + y) * width + x) * step) as u32
                                }
                                _ => PADDING_OFFSET,
                            }
                        }));
                    }
                }
            }
        }
        self.input = *input;
        Ok(())
    }
}

/// A convolution.
pub(crate) struct Conv {
    pub(crate) sizes: Sizes,
    then: Activation,
    /// Of each group.
    packed: Vec<Packed>,
    zeros: Vec<f32>,
    table: Table,
    /// For pictures of the last shape.
    filtering: Option<winograd::ConvShape>,
}

impl Conv {
    pub(crate) fn new(
        keep: &Keep<'_>,
        sizes: Sizes,
        filter: &[f32],
        bias: Option<&[f32]>,
        then: Activation,
    ) -> Result<Self, Error> {
        let Sizes { groups, inputs, outputs, window, .. } = sizes;
        let inner = window.taps().checked_mul(inputs).ok_or(TOO_LARGE)?;
        let pack = |group: usize| {
            let weight =
                |k: usize, col: usize| filter[sizes.weight(group, col, k / inputs, k % inputs)];
            let bias = bias.map(|bias| &bias[group * outputs..][..outputs]);
            if sizes.kind == ConvKind::Depthwise {
                return Packed::new(keep, (Form::Taps, group), (inner, outputs), weight, bias);
            }
            Packed::of_columns(keep, (inner, outputs), group * inner * outputs, filter, bias)
        };
        keep.take::<Packed>(groups)?;
        let packed = (0..groups).map(pack).collect::<Result<_, _>>()?;
        keep.take::<f32>(inputs)?;
        let zeros = vec![0.0; inputs];
        Ok(Self { sizes, then, packed, zeros, table: Table::default(), filtering: None })
    }
}

impl Conv {
    /// The convolution of some pixels of a picture, where each result depends on its own pixel
    /// alone and there is one group.
    pub(crate) fn pixels(
        &self,
        workers: Option<&dyn Workers>,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        let Sizes { inputs, outputs, .. } = self.sizes;
        let rows = out.len() / outputs.max(1);
        let out = OutputRows { data: out, offset: 0, row_stride: outputs };
        let packed = self.packed.first().ok_or(MISFIT)?;
        packed.write_part(
            workers,
            (x, rows, InputRows::Strided { stride: inputs }),
            &[],
            self.then,
            out,
        )
    }

    /// The convolution by minimal filtering.
    fn filter(
        &self,
        cx: &mut Cx<'_>,
        sizes: winograd::ConvShape,
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), Error> {
        let (isa, threads) = (Isa::best(), cx.workers.map_or(1, Workers::threads));
        let packed = self.packed.first().ok_or(MISFIT)?;
        let (weights, bias) = (packed.numbers()?, &packed.bias);
        let len = sizes.scratch_len(Kind::F32, isa, threads).ok_or(TOO_LARGE)?;
        let scratch = some(&mut cx.scratch.floats, len, &mut cx.scratch.room)?;
        let epilogue = BiasActivation { bias, activation: self.then };
        let conv = WinogradF32 { x, zeros: &self.zeros, weights, epilogue };
        conv.run(&sizes, isa, out, scratch, cx.workers).or(Err(MISFIT))
    }
}

impl Patches for Conv {
    type Number = f32;

    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn zero(&self) -> f32 {
        0.0
    }

    fn memory(&self, _: usize) -> usize {
        0
    }

    fn patches(
        &self,
        x: &[f32],
        count: usize,
        places: InputRows<'_>,
        out: OutputRows<'_, f32>,
        _: &mut [i32],
    ) -> Result<(), Error> {
        let packed = self.packed.first().ok_or(MISFIT)?;
        packed.write_part(None, (x, count, places), x, self.then, out)
    }
}

impl Op for Conv {
    fn shape(&mut self, inputs: &[Shape], room: &mut Room) -> Result<Shape, Error> {
        let input = only(inputs)?;
        let out = self.sizes.output(input)?;
        self.filtering = self.sizes.filtering(Kind::F32, input, &out)?;
        let needs_table = !self.sizes.is_direct() && !self.sizes.is_line(input);
        if needs_table && self.filtering.is_none() {
            self.table.find(&self.sizes, input, input[3], room)?;
        }
        Ok(out)
    }

    fn run(&self, cx: &mut Cx<'_>, inputs: &[Input<'_>], out: &mut [u8]) -> Result<(), Error> {
        let input = only(inputs)?;
        let (x, data) = (input.data::<f32>()?, elements::<f32>(out)?);
        if let Some(sizes) = self.filtering {
            return self.filter(cx, sizes, x, data);
        }
        let Sizes { groups, inputs, outputs, window, .. } = self.sizes;
        let places = if self.sizes.is_direct() {
            InputRows::Strided { stride: groups * inputs }
        } else if self.sizes.is_line(input.shape) {
            InputRows::Strided { stride: window.stride[0] * inputs }
        } else {
            InputRows::Indirect { offsets: self.table.at(), taps: window.taps() }
        };
        let step = groups * outputs;
        let rows = data.len() / step;
        for (group, packed) in self.packed.iter().enumerate() {
            let x = x.get(group * inputs..).unwrap_or_default();
            let out = OutputRows { data: &mut *data, offset: group * outputs, row_stride: step };
            packed.write(cx, (x, rows, places), &self.zeros, self.then, out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::trial::{computed, filterable, numbers};

    #[test]
    fn filtering_gives_what_patches_give() {
        // Channels before and after; pictures of several sizes, one after the other.
        for (inputs, outputs) in [(64, 64), (40, 100), (128, 24)] {
            let sizes = filterable(inputs, outputs);
            let (weights, bias) = (numbers(inputs * outputs * 9), numbers(outputs));
            let then = Activation { clamp: (-9.0, 100.0), hardswish: outputs == 100 };
            let mut conv = Conv::new(&Keep::default(), sizes, &weights, Some(&bias), then).unwrap();
            for (picture, filters) in [([1, 30, 33], true), ([2, 2, 3], false), ([3, 17, 16], true)]
            {
                let [batch, height, width] = picture;
                let shape = Shape::of([batch, height, width, inputs]);
                let x = numbers(shape.numel().unwrap());
                let mut room = Room::of(usize::MAX);
                let out = conv.shape(&[shape], &mut room).unwrap();
                assert_eq!(conv.filtering.is_some(), filters, "{inputs} {picture:?}");
                let run =
                    |conv: &Conv, threads| computed(conv, &x, [shape, out], f32::NAN, threads);
                let found = [1, 2, 3].map(|threads| run(&conv, threads));
                conv.filtering = None;
                conv.table.find(&sizes, &shape, inputs, &mut room).unwrap();
                let expected = run(&conv, 1);
                let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
                let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * largest;
                assert!(found.iter().all(|found| found.iter().zip(&expected).all(close)));
            }
        }
    }
}
