//! A node → the operation that does it.

use std::{borrow::Cow, cell::RefCell};

use afferent_core::{BlobEntry, Error, WeightCache};
use afferent_simd::qgemm::q4::CHUNK_LEN;

use super::{Step, Store, blocks, store};
use crate::{
    graph::{Binary, ConvKind, Dtype, Graph, Kind, Node, OPEN, Quant, Unary, Value},
    op::{
        Op,
        binary::Combine,
        block::Block,
        bytes,
        conv::{Conv, Sizes},
        depthwise::{Depthwise, IntegerDepthwise},
        integer::{self, Bias, Integer, Layout, StaticPatches, Weights},
        keep::Keep,
        linear::{Layer, Linear, Packed, Product},
        max_pool::MaxPool,
        moves::{Change, Concatenate, Fill, Move},
        narrow::{self, Narrow},
        nibbles::{self, Nibbles},
        pool::{ArgMaxPool, AveragePool, GlobalMean, Resize},
        quantised::{self, ByNumbers, MOST_INPUTS, bounds, to_integer},
        unary::{Map, Softmax},
        weights::{integers, numbers},
    },
    shape::{Room, Shape},
};

/// Makes steps of the nodes of a graph.
#[derive(Clone, Copy)]
pub(super) struct Prepare<'g, 'a> {
    pub(super) graph: &'g Graph<'a>,
    pub(super) prepared: Option<&'g dyn WeightCache>,
    /// For what is made of constants and shared with nobody.
    pub(super) room: &'g RefCell<Room>,
}

impl<'g, 'a> Prepare<'g, 'a> {
    fn at(&self, index: usize) -> One<'g, 'a> {
        let Self { graph, prepared, room } = *self;
        One { graph, node: &graph.nodes[index], prepared, room }
    }

    /// Appends the steps of the node at `index`.
    pub(super) fn steps(
        &self,
        index: usize,
        renames: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        let (node, cx) = (&self.graph.nodes[index], self.at(index));
        if node.inputs.len() > MOST_INPUTS {
            return Err(cx.unsupported("more than five inputs"));
        }
        let (op, inputs) = cx.op(renames)?;
        let inputs = node.inputs[..inputs].to_vec();
        if let (Some(output), Kind::ArgMaxPool(window)) = (node.positions, &node.kind) {
            let op = Box::new(ArgMaxPool { window: *window });
            if cx.stored(0) != Store::F32 || store(&self.graph.values[output]) != Store::I32 {
                return Err(cx.unsupported("the types of the largest and its place"));
            }
            let inputs = inputs.clone();
            steps.push(Step { node: node.index, op, inputs, output, renames: false });
        }
        steps.push(Step { node: node.index, op, inputs, output: node.output, renames });
        Ok(())
    }

    /// The step of convolutions that follow each other.
    pub(super) fn block(
        &self,
        expand: Option<usize>,
        middle: usize,
        last: usize,
    ) -> Result<Step, Error> {
        let Self { graph, .. } = *self;
        let sizes = |index: usize| {
            let sizes = blocks::sizes(graph, index);
            sizes.ok_or(Error::Internal { reason: "blocks are of convolutions" })
        };
        let first = expand.map(|index| self.at(index).number_conv(sizes(index)?)).transpose()?;
        let deep = self.at(middle).number_depthwise(sizes(middle)?)?;
        let project = self.at(last).number_conv(sizes(last)?)?;
        let op = Block::new(first, deep, project);
        let input = graph.nodes[expand.unwrap_or(middle)].inputs[0];
        let &Node { index: node, output, .. } = &graph.nodes[last];
        Ok(Step { node, op: Box::new(op), inputs: vec![input], output, renames: false })
    }
}

/// Makes a step of one node.
struct One<'g, 'a> {
    graph: &'g Graph<'a>,
    node: &'g Node,
    prepared: Option<&'g dyn WeightCache>,
    room: &'g RefCell<Room>,
}

impl<'a> One<'_, 'a> {
    /// Where what is made of the weights is kept.
    fn keep(&self) -> Keep<'_> {
        Keep::of(self.prepared, self.input(1), self.room)
    }

    fn unsupported(&self, what: &'static str) -> Error {
        Error::UnsupportedBlob { entry: BlobEntry::Node, index: self.node.index, what }
    }

    fn invalid(&self, field: &'static str, reason: &'static str) -> Error {
        Error::InvalidBlob { entry: BlobEntry::Node, index: self.node.index, field, reason }
    }

    fn input(&self, at: usize) -> &Value<'a> {
        &self.graph.values[self.node.inputs[at]]
    }

    fn output(&self) -> &Value<'a> {
        &self.graph.values[self.node.output]
    }

    fn stored(&self, input: usize) -> Store {
        store(self.input(input))
    }

    /// The operation, and how many of the node's inputs it reads at run time.
    fn op(&self, renames: bool) -> Result<(Box<dyn Op>, usize), Error> {
        let op: Box<dyn Op> = match &self.node.kind {
            Kind::FullyConnected { transposed } => return self.fully_connected(*transposed),
            Kind::Conv { kind, window, groups, inputs, outputs } => {
                let sizes = Sizes {
                    kind: *kind,
                    window: *window,
                    groups: *groups,
                    inputs: *inputs,
                    outputs: *outputs,
                };
                return Ok((self.conv(sizes)?, 1));
            }
            Kind::Reshape(_) | Kind::Transpose(_) | Kind::Pad { .. } | Kind::Slice { .. } => {
                return Ok((self.moved()?, 1));
            }
            Kind::Unary(Unary::Copy) | Kind::Convert if renames || self.is_same() => {
                self.move_of(Change::Same)
            }
            Kind::Concatenate { axis } if self.is_same() => {
                let width = store(self.output()).width();
                Box::new(Concatenate { axis: *axis, width })
            }
            Kind::MaxPool(window) if self.is_same() && self.stored(0) == Store::I8 => {
                let (scale, zero_point) = self.steps(self.output())?;
                let (low, high) = bounds(self.node.clamp, scale, zero_point);
                let zero_point = zero_point as f32;
                let clamp = (low + zero_point, high + zero_point);
                Box::new(MaxPool::<i8>::new(*window, clamp))
            }
            kind => match self.of_bytes(kind)? {
                Some(op) => op,
                None => self.numeric(kind)?,
            },
        };
        Ok((op, self.node.inputs.len()))
    }

    fn steps(&self, value: &Value<'_>) -> Result<(f32, i32), Error> {
        let what = match value.quant {
            Quant::Channel { .. } => "this operation with scales for each channel",
            _ => "this combination of types",
        };
        quantised::steps(value).ok_or(self.unsupported(what))
    }

    /// Whether all inputs are stored as the output is.
    fn is_same(&self) -> bool {
        let output = self.output();
        let inputs = self.node.inputs.iter().map(|input| &self.graph.values[*input]);
        inputs.into_iter().all(|input| super::same(input, output))
    }

    fn move_of(&self, change: Change) -> Box<dyn Op> {
        let fill = if store(self.output()) == Store::I8 { Fill::Byte(0) } else { Fill::Word(0.0) };
        Box::new(Move::new(change, fill))
    }

    /// Elements that only move; requantised when they are stored otherwise afterwards.
    fn moved(&self) -> Result<Box<dyn Op>, Error> {
        let (change, value) = match &self.node.kind {
            Kind::Reshape(shape) => (Change::Reshape(*shape), 0.0),
            Kind::Transpose(order) => (Change::Transpose(order.clone()), 0.0),
            Kind::Pad { before, after, value } => {
                (Change::Pad { before: *before, after: *after }, *value)
            }
            Kind::Slice { offsets, sizes } => {
                (Change::Slice { offsets: offsets.clone(), sizes: sizes.clone() }, 0.0)
            }
            _ => (Change::Same, 0.0),
        };
        if !self.is_same() {
            return self.by_numbers(Box::new(Move::new(change, Fill::Word(value))));
        }
        let fill = match store(self.output()) {
            Store::I8 => {
                let (scale, zero_point) = self.steps(self.output())?;
                Fill::Byte(to_integer(value, scale, zero_point))
            }
            Store::I32 => Fill::Word(f32::from_bits((value as i32).cast_unsigned())),
            Store::F32 => Fill::Word(value),
        };
        Ok(Box::new(Move::new(change, fill)))
    }

    /// An operation of integers or from or to them that needs no numbers in memory, if there is
    /// one for these types.
    fn of_bytes(&self, kind: &Kind) -> Result<Option<Box<dyn Op>>, Error> {
        let is_integer = |value: &Value<'_>| store(value) == Store::I8;
        let inputs = || self.node.inputs.iter().map(|input| &self.graph.values[*input]);
        let rounded = || {
            let (scale, zero_point) = self.steps(self.output())?;
            let (low, high) = bounds(self.node.clamp, scale, zero_point);
            let zero = zero_point as f32;
            Ok(bytes::Rounded { quantum: (scale, zero_point), bounds: (low + zero, high + zero) })
        };
        let to_integers = is_integer(self.output());
        let op: Box<dyn Op> = match kind {
            Kind::Convert if to_integers && self.stored(0) == Store::F32 => {
                Box::new(bytes::Quantise { to: rounded()? })
            }
            Kind::Convert if store(self.output()) == Store::F32 && is_integer(self.input(0)) => {
                Box::new(bytes::Dequantise { from: self.steps(self.input(0))? })
            }
            Kind::Unary(Unary::Clamp) if to_integers && self.is_same() => {
                let (low, high) = rounded()?.bounds;
                Box::new(bytes::Bounded { low: low as i8, high: high as i8 })
            }
            Kind::Unary(_) | Kind::Convert if to_integers && is_integer(self.input(0)) => {
                let function =
                    if let Kind::Unary(function) = kind { *function } else { Unary::Copy };
                let clamp = if *kind == Kind::Convert { OPEN } else { self.node.clamp };
                let (from, to) = (self.steps(self.input(0))?, self.steps(self.output())?);
                Box::new(bytes::Table::new(function, clamp, from, to))
            }
            Kind::Binary(function @ (Binary::Add | Binary::Subtract | Binary::Multiply))
                if to_integers && self.node.inputs.len() == 2 && inputs().all(is_integer) =>
            {
                Box::new(bytes::Pairs {
                    combine: Combine::new(*function, OPEN),
                    function: *function,
                    from: [self.steps(self.input(0))?, self.steps(self.input(1))?],
                    to: rounded()?,
                })
            }
            Kind::GlobalAveragePool { keeps_dims } if to_integers && inputs().all(is_integer) => {
                Box::new(bytes::Mean {
                    inner: GlobalMean { keeps_dims: *keeps_dims, clamp: OPEN },
                    from: self.steps(self.input(0))?,
                    to: rounded()?,
                })
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    /// An operation on numbers, or on integers by way of numbers.
    fn numeric(&self, kind: &Kind) -> Result<Box<dyn Op>, Error> {
        let clamp = self.node.clamp;
        let op: Box<dyn Op> = match kind {
            Kind::Unary(function) => Box::new(Map { function: *function, clamp }),
            Kind::Convert => Box::new(Map { function: Unary::Copy, clamp: OPEN }),
            Kind::Binary(function) => {
                Box::new(Combine::new(*function, self.binary_clamp(*function)))
            }
            Kind::Softmax => Box::new(Softmax),
            Kind::MatrixMultiply { transposed } => {
                Box::new(Product::new(*transposed, false, None, clamp))
            }
            Kind::AveragePool(window) => Box::new(AveragePool { window: *window, clamp }),
            Kind::MaxPool(window) | Kind::ArgMaxPool(window) => {
                Box::new(MaxPool::<f32>::new(*window, clamp))
            }
            Kind::GlobalAveragePool { keeps_dims } => {
                Box::new(GlobalMean { keeps_dims: *keeps_dims, clamp })
            }
            Kind::Concatenate { axis } => Box::new(Concatenate { axis: *axis, width: 4 }),
            Kind::Resize { size, align_corners, half_pixels } => Box::new(Resize {
                size: *size,
                align_corners: *align_corners,
                half_pixels: *half_pixels,
            }),
            _ => return Err(self.unsupported("this operation")),
        };
        self.by_numbers(op)
    }

    fn binary_clamp(&self, function: Binary) -> (f32, f32) {
        match function {
            Binary::Maximum | Binary::Minimum | Binary::Prelu => OPEN,
            _ => self.node.clamp,
        }
    }

    /// `inner`, with integers as the numbers that they stand for.
    fn by_numbers(&self, inner: Box<dyn Op>) -> Result<Box<dyn Op>, Error> {
        let steps = |value: &Value<'_>| match store(value) {
            Store::F32 => Ok(None),
            Store::I8 => self.steps(value).map(Some),
            Store::I32 => Err(self.unsupported("this operation on integers of 32 bits")),
        };
        let values = self.node.inputs.iter().map(|input| &self.graph.values[*input]);
        let inputs = values.map(steps).collect::<Result<Vec<_>, _>>()?;
        let output = steps(self.output())?;
        if output.is_none() && inputs.iter().all(Option::is_none) {
            return Ok(inner);
        }
        Ok(Box::new(ByNumbers { inner, inputs, output }))
    }

    /// The bias as numbers, of so many outputs.
    fn bias(&self, outputs: usize) -> Result<Option<Cow<'a, [f32]>>, Error> {
        let Some(bias) = self.node.inputs.get(2) else { return Ok(None) };
        let bias = &self.graph.values[*bias];
        if bias.data.is_none() {
            return Err(self.unsupported("a bias that is computed"));
        }
        let numbers = numbers(bias)?;
        if numbers.len() != outputs {
            return Err(self.invalid("bias_id", "has another size than the outputs"));
        }
        Ok(Some(numbers))
    }

    fn fully_connected(&self, transposed: bool) -> Result<(Box<dyn Op>, usize), Error> {
        let (input, filter) = (self.input(0), self.input(1));
        let &[m, n] = &*filter.shape else {
            return Err(self.invalid("filter_id", "is no matrix"));
        };
        let (inner, cols) = if transposed { (m, n) } else { (n, m) };
        let clamp = self.node.clamp;
        if filter.data.is_none() {
            if self.stored(0) != Store::F32
                || self.stored(1) != Store::F32
                || store(self.output()) != Store::F32
            {
                return Err(self.unsupported("integer weights that are computed"));
            }
            let bias = self.bias(cols)?.map(Cow::into_owned);
            self.keep().take::<f32>(bias.as_ref().map_or(0, Vec::len))?;
            return Ok((Box::new(Product::new(!transposed, true, bias, clamp)), 2));
        }
        if m.min(n) == 0 {
            return Err(self.invalid("filter_id", "is empty"));
        }
        if self.is_integer(input, filter) {
            let layout = Layout::Rows { inner, cols };
            return Ok((self.integer(layout, transposed, (inner, cols))?, 1));
        }
        self.expect_numbers()?;
        let (weights, bias) = (numbers(filter)?, self.bias(cols)?);
        let (rows, ..) = input.shape.around(input.shape.len().saturating_sub(1));
        let layer = Layer { weights: &weights, transposed, inner, cols, rows };
        let packed = Packed::of_layer(&self.keep(), layer, bias.as_deref())?;
        Ok((Box::new(Linear { packed, then: self.node.activation() }), 1))
    }

    fn expect_numbers(&self) -> Result<(), Error> {
        if self.stored(0) != Store::F32 || store(self.output()) != Store::F32 {
            return Err(self.unsupported("this combination of types"));
        }
        Ok(())
    }

    /// Whether sums are of integers.
    fn is_integer(&self, input: &Value<'_>, filter: &Value<'_>) -> bool {
        let dynamic = input.dtype == Dtype::Dynamic || input.quantised;
        matches!(filter.dtype, Dtype::I8 | Dtype::I4) && (dynamic || input.dtype == Dtype::I8)
    }

    fn conv(&self, sizes: Sizes) -> Result<Box<dyn Op>, Error> {
        let (input, filter) = (self.input(0), self.input(1));
        if filter.data.is_none() {
            return Err(self.unsupported("a convolution with weights that are computed"));
        }
        self.expect_filter(sizes)?;
        let outputs = sizes.groups * sizes.outputs;
        if self.is_integer(input, filter) {
            return self.integer(Layout::Patches(sizes), false, (sizes.inputs, outputs));
        }
        if sizes.kind == ConvKind::Depthwise && sizes.outputs == 1 {
            return Ok(Box::new(self.number_depthwise(sizes)?));
        }
        let conv = self.number_conv(sizes)?;
        Ok(if narrow::fits(&sizes) { Box::new(Narrow::new(conv)) } else { Box::new(conv) })
    }

    fn expect_filter(&self, sizes: Sizes) -> Result<(), Error> {
        if sizes.filter() != Some(self.input(1).shape) {
            return Err(self.invalid("filter_id", "has other sizes than the convolution"));
        }
        Ok(())
    }

    fn number_conv(&self, sizes: Sizes) -> Result<Conv, Error> {
        self.expect_filter(sizes)?;
        self.expect_numbers()?;
        let outputs = sizes.groups * sizes.outputs;
        let (weights, bias) = (numbers(self.input(1))?, self.bias(outputs)?);
        Conv::new(&self.keep(), sizes, &weights, bias.as_deref(), self.node.activation())
    }

    /// A convolution with one output for each channel.
    fn number_depthwise(&self, sizes: Sizes) -> Result<Depthwise, Error> {
        self.expect_filter(sizes)?;
        self.expect_numbers()?;
        let outputs = sizes.groups * sizes.outputs;
        let (weights, bias) = (numbers(self.input(1))?, self.bias(outputs)?);
        Depthwise::new(&self.keep(), sizes, &weights, bias.as_deref(), self.node.activation())
    }

    /// A convolution or a fully connected layer of integers with so many outputs.
    fn integer(
        &self,
        layout: Layout,
        transposed: bool,
        (inner, outputs): (usize, usize),
    ) -> Result<Box<dyn Op>, Error> {
        let (input, filter, output) = (self.input(0), self.input(1), self.output());
        let dim = match layout {
            Layout::Patches(sizes) if sizes.kind == ConvKind::Depthwise => 3,
            Layout::Rows { .. } if transposed => 1,
            _ => 0,
        };
        let (scales, zero_point, block) = match &filter.quant {
            Quant::Tensor { scale, zero_point } => (vec![*scale; outputs], *zero_point, inner),
            Quant::Channel { scales, dim: of } if *of == dim => (scales.clone(), 0, inner),
            Quant::Blocks { scales, size }
                if !transposed && matches!(layout, Layout::Rows { .. }) =>
            {
                (scales.clone(), 0, *size)
            }
            _ => return Err(self.unsupported("weights with scales along this dimension")),
        };
        if zero_point != 0 {
            return Err(self.unsupported("weights whose zero is not stored as zero"));
        }
        let clamp = self.node.clamp;
        let dynamic = match (&input.quant, input.quantised) {
            (Quant::Dynamic { dims }, _) => Some(*dims),
            (_, true) => Some(1),
            _ => None,
        };
        if let Some(dims) = dynamic {
            let wanted = if matches!(layout, Layout::Rows { .. }) { 1 } else { 3 };
            if dims != wanted || store(output) != Store::F32 {
                return Err(self.unsupported("this kind of dynamic quantisation"));
            }
            let layout = match layout {
                // As XNNPACK does: pixels become rows, each with a scale of its own.
                Layout::Patches(sizes)
                    if (sizes.kind, sizes.groups) == (ConvKind::Plain, 1) && sizes.is_direct() =>
                {
                    Layout::Rows { inner: sizes.inputs, cols: sizes.outputs }
                }
                _ => layout,
            };
            if let (Dtype::I4, Layout::Rows { inner, cols }) = (filter.dtype, layout) {
                return self.nibbles((inner, cols), &scales, block, transposed);
            }
            let bias = self.bias(outputs)?;
            let bias = bias.as_deref().map_or(Bias::None, Bias::Numbers);
            let stored = integer::Stored::Dynamic { clamp };
            let weights = Weights { integers: &integers(filter)?, scales: &scales, transposed };
            return Ok(Box::new(Integer::new(&self.keep(), layout, &weights, &bias, stored)?));
        }
        let (from, from_zero) = self.steps(input)?;
        let from_zero = i8::try_from(from_zero).map_err(|_| {
            self.invalid("input1_id", "has a zero point that is no integer of 8 bits")
        })?;
        let (to, to_zero) = self.steps(output)?;
        if block != inner {
            return Err(self.unsupported("blocks of weights with static quantisation"));
        }
        let factors: Vec<f32> = scales.iter().map(|scale| from * scale / to).collect();
        let clamp = bounds(clamp, to, to_zero);
        let bias = self.integer_bias(outputs, from, &scales)?;
        let all = integers(filter)?;
        if let Layout::Patches(sizes) = layout
            && sizes.kind == ConvKind::Depthwise
            && sizes.outputs == 1
        {
            let parts = (&*all, &*factors, &*bias);
            let zeros = (from_zero, to_zero);
            return Ok(Box::new(IntegerDepthwise::new(&self.keep(), sizes, parts, zeros, clamp)?));
        }
        let weights = Weights { integers: &all, scales: &factors, transposed };
        let stored = integer::Stored::Static { from: from_zero, clamp, to: to_zero };
        let op = Integer::new(&self.keep(), layout, &weights, &Bias::Integers(&bias), stored)?;
        if let Layout::Patches(sizes) = layout
            && narrow::fits(&sizes)
        {
            let patches = StaticPatches { of: op, sizes, from: from_zero, clamp, to: to_zero };
            return Ok(Box::new(Narrow::new(patches)));
        }
        Ok(Box::new(op))
    }

    /// A fully connected layer with weights of 4 bits, so many of which have a scale in common.
    fn nibbles(
        &self,
        (inner, cols): (usize, usize),
        scales: &[f32],
        block: usize,
        transposed: bool,
    ) -> Result<Box<dyn Op>, Error> {
        if block != inner && !block.is_multiple_of(CHUNK_LEN) {
            return Err(self.unsupported("blocks that are no multiple of 32 weights"));
        }
        let bytes = self.input(1).data.unwrap_or_default();
        let weights = nibbles::Weights { bytes, scales, block, transposed };
        let (bias, clamp) = (self.bias(cols)?, self.node.clamp);
        let op = Nibbles::new(&self.keep(), (inner, cols), &weights, bias.as_deref(), clamp)?;
        Ok(Box::new(op.ok_or(self.unsupported("scales of blocks that are no bf16"))?))
    }

    /// The bias in steps of the products.
    fn integer_bias(&self, outputs: usize, from: f32, scales: &[f32]) -> Result<Vec<i32>, Error> {
        let Some(bias) = self.node.inputs.get(2) else { return Ok(vec![0; outputs]) };
        let value = &self.graph.values[*bias];
        if value.dtype == Dtype::I32
            && let Some(data) = value.data
        {
            if value.shape != Shape::of([outputs]) {
                return Err(self.invalid("bias_id", "has another size than the outputs"));
            }
            return Ok(data.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect());
        }
        let bias = self.bias(outputs)?.unwrap_or_default();
        let steps = scales.iter().map(|scale| from * scale);
        Ok(bias
            .iter()
            .zip(steps)
            .map(|(bias, step)| (bias / step).round_ties_even() as i32)
            .collect())
    }
}
