//! Parses the nodes of a subgraph.

use afferent_core::Error;
use afferent_flatbuffer::{Field, FieldError, Table};

use super::{
    entry::Entry,
    reader::Reader,
    schema::{INVALID_VALUE_ID, MAX, MIN, NODE_MIN_MAX, NODE_TYPES, UNION_TYPE, UNION_VALUE},
};
use crate::{
    conv2d_params::{Conv2dKind, Conv2dParams},
    shape::{MAX_TENSOR_DIMS, Shape},
    subgraph::{BinaryOperator, Node, NodeKind, UNCLAMPED, UnaryOperator},
    window::Window,
};

/// `XNN_FLAG_TRANSPOSE_WEIGHTS`.
const FLAG_TRANSPOSE_WEIGHTS: u32 = 1;
/// `XNN_FLAG_TENSORFLOW_SAME_PADDING`.
const FLAG_SAME_PADDING: u32 = 4;
/// `XNN_FLAG_TENSORFLOW_LEGACY_MODE`, of a resize.
const FLAG_LEGACY_RESIZE: u32 = 4;
/// `XNN_FLAG_ALIGN_CORNERS`.
const FLAG_ALIGN_CORNERS: u32 = 8;
/// `XNN_FLAG_KEEP_DIMS`.
const FLAG_KEEP_DIMS: u32 = 64;

/// Maximum of kernel size, stride, dilation, padding, channels and image size.
const MAX_WINDOW_SIZE: u32 = 1 << 16;

/// Field name of a window in messages.
const WINDOW: &str = "kernel, stride, dilation or padding";

/// Table of a node, with accessors for its fields.
struct Fields<'r, 'a, 'c> {
    reader: &'r Reader<'a, 'c>,
    at: Entry,
    type_name: &'static str,
    table: Table<'a>,
}

impl Fields<'_, '_, '_> {
    fn word(&self, field: Field) -> Result<u32, Error> {
        self.at.read(self.table.scalar(field))
    }

    fn float(&self, field: Field) -> Result<f32, Error> {
        self.at.read(self.table.scalar(field))
    }

    fn flag(&self, field: usize, flag: u32) -> Result<bool, Error> {
        Ok(self.word(Field(field, "flags"))? & flag != 0)
    }

    /// Index of the value whose id the field holds.
    fn value(&self, field: usize, name: &'static str) -> Result<usize, Error> {
        let field = Field(field, name);
        let id = self.word(field)?;
        let index = self.reader.ids.get(&id).copied();
        index.ok_or(self.at.invalid(field, "is not the id of a value"))
    }

    /// As [`Fields::value`]; `None` for `XNN_INVALID_VALUE_ID`.
    fn optional_value(&self, field: usize, name: &'static str) -> Result<Option<usize>, Error> {
        if self.word(Field(field, name))? == INVALID_VALUE_ID {
            Ok(None)
        } else {
            self.value(field, name).map(Some)
        }
    }

    /// Reads a size between `min` and [`MAX_WINDOW_SIZE`].
    fn size(&self, field: Field, min: u32) -> Result<usize, Error> {
        let size = self.word(field)?;
        let is_in_range = (min..=MAX_WINDOW_SIZE).contains(&size);
        self.at.expect(is_in_range, field, "is zero or exceeds 65536")?;
        Ok(size as usize)
    }

    /// Reads the window in the slots from `first` on: padding top, right, bottom, left, kernel
    /// height and width, and, if `has_stride`, stride and dilation.
    fn window(&self, first: usize, has_stride: bool) -> Result<Window, Error> {
        let size = |slot: usize, min| self.size(Field(first + slot, WINDOW), min);
        let kernel = [size(4, 1)?, size(5, 1)?];
        let window = Window {
            kernel,
            stride: if has_stride { [size(6, 1)?, size(7, 1)?] } else { kernel },
            // Average pooling has no dilation: the field is 0.
            dilation: if has_stride { [size(8, 0)?.max(1), size(9, 0)?.max(1)] } else { [1, 1] },
            padding_before: [size(0, 0)?, size(3, 0)?],
            padding_after: [size(2, 0)?, size(1, 0)?],
        };
        let is_small = window.taps() <= MAX_WINDOW_SIZE as usize;
        self.at.expect(is_small, Field(0, "kernel"), "has more than 65536 elements")?;
        Ok(window)
    }

    fn list(&self, field: usize, name: &'static str) -> Result<Vec<u32>, Error> {
        let field = Field(field, name);
        let list = self.at.read(self.table.vector::<u32>(field))?;
        let list = self.at.read(field.required(list))?;
        self.at.expect(list.len() <= MAX_TENSOR_DIMS, field, "has more than 6 entries")?;
        Ok(list.iter().collect())
    }

    fn shape(&self, field: usize, name: &'static str) -> Result<Shape, Error> {
        let sizes: Vec<usize> =
            self.list(field, name)?.into_iter().map(|size| size as usize).collect();
        Ok(Shape::new(&sizes).unwrap_or_default())
    }

    fn node(&self, kind: NodeKind, inputs: Vec<usize>, output: usize) -> Node {
        Node {
            index: self.at.index,
            type_name: self.type_name,
            kind,
            inputs,
            output,
            index_output: None,
            clamp: UNCLAMPED,
            hardswish: false,
        }
    }

    /// Node with one input, whose id is in slot `first`, followed by the id of the output.
    fn unary_node(&self, kind: NodeKind, first: usize) -> Result<Node, Error> {
        let (input, output) = (self.value(first, "input_id")?, self.value(first + 1, "output_id")?);
        Ok(self.node(kind, vec![input], output))
    }

    fn binary_node(&self, kind: NodeKind) -> Result<Node, Error> {
        let inputs = vec![self.value(0, "input1_id")?, self.value(1, "input2_id")?];
        Ok(self.node(kind, inputs, self.value(2, "output_id")?))
    }

    fn unary(&self, operator: UnaryOperator) -> Result<Node, Error> {
        self.unary_node(NodeKind::Unary(operator), 0)
    }

    fn binary(&self, operator: BinaryOperator) -> Result<Node, Error> {
        self.binary_node(NodeKind::Binary(operator))
    }

    /// Unary node with one float parameter.
    fn parametric_unary(
        &self,
        operator: fn(f32) -> UnaryOperator,
        parameter: &'static str,
    ) -> Result<Node, Error> {
        self.unary_node(NodeKind::Unary(operator(self.float(Field(0, parameter))?)), 1)
    }

    fn expect_explicit_padding(&self, flags: usize) -> Result<(), Error> {
        if self.flag(flags, FLAG_SAME_PADDING)? {
            let what = "with TensorFlow SAME padding; export with explicit padding";
            return Err(self.at.unsupported(self.type_name, what));
        }
        Ok(())
    }

    fn fully_connected(&self) -> Result<Node, Error> {
        let transposed = self.flag(4, FLAG_TRANSPOSE_WEIGHTS)?;
        let mut inputs = vec![self.value(0, "input1_id")?, self.value(1, "filter_id")?];
        inputs.extend(self.optional_value(2, "bias_id")?);
        let output = self.value(3, "output_id")?;
        Ok(self.node(NodeKind::FullyConnected { transposed }, inputs, output))
    }

    fn conv2d(&self, kind: Conv2dKind) -> Result<Node, Error> {
        self.expect_explicit_padding(19)?;
        let window = self.window(0, true)?;
        let kind = match kind {
            Conv2dKind::Transposed { .. } => Conv2dKind::Transposed {
                adjustment: [
                    self.size(Field(13, "adjustment_height"), 0)?,
                    self.size(Field(14, "adjustment_width"), 0)?,
                ],
            },
            kind => kind,
        };
        let mut values = vec![self.value(15, "input1_id")?, self.value(16, "filter_id")?];
        values.extend(self.optional_value(17, "bias_id")?);
        let input_channels = Field(10, "group_input_channels");
        let group_input_channels = self.size(input_channels, 1)?;
        let group_output_channels = self.size(Field(11, "group_output_channels"), 1)?;
        let groups = self.size(Field(12, "groups"), 1)?;
        if kind == Conv2dKind::Depthwise {
            self.at.expect(group_input_channels == 1, input_channels, "must be 1")?;
        }
        let params =
            Conv2dParams { kind, window, groups, group_input_channels, group_output_channels };
        Ok(self.node(NodeKind::Conv2d(params), values, self.value(18, "output_id")?))
    }

    fn pooling(&self, kind: fn(Window) -> NodeKind) -> Result<Node, Error> {
        self.expect_explicit_padding(12)?;
        self.unary_node(kind(self.window(0, true)?), 10)
    }

    fn arg_max_pooling(&self) -> Result<Node, Error> {
        let window = self.window(0, false)?;
        let values = [self.value(6, "input_id")?, self.value(7, "output_value_id")?];
        let index_output = Some(self.value(8, "output_index_id")?);
        let node = self.node(NodeKind::ArgMaxPooling2d(window), vec![values[0]], values[1]);
        Ok(Node { index_output, ..node })
    }

    fn concatenate(&self, count: usize) -> Result<Node, Error> {
        let field = Field(0, "axis");
        // The field is unsigned but holds a signed number. A negative axis counts from the end.
        let axis = self.word(field)?.cast_signed();
        let mut inputs = Vec::new();
        for slot in [1, 2, 3, 4, 7].into_iter().take(count) {
            inputs.push(self.value(slot, "an input")?);
        }
        let rank = self.reader.values[inputs[0]].shape.len();
        let from_end = if axis < 0 { i64::try_from(rank).unwrap_or(0) } else { 0 };
        let axis = usize::try_from(i64::from(axis) + from_end).ok();
        let axis = axis.filter(|axis| *axis < MAX_TENSOR_DIMS);
        let axis = axis.ok_or(self.at.invalid(field, "is not a dimension of the inputs"))?;
        Ok(self.node(NodeKind::Concatenate { axis }, inputs, self.value(5, "output_id")?))
    }

    fn slice(&self) -> Result<Node, Error> {
        let (offsets, sizes) = (self.list(1, "offsets")?, self.list(2, "sizes")?);
        let is_same_len = offsets.len() == sizes.len();
        self.at.expect(is_same_len, Field(2, "sizes"), "must be as long as `offsets`")?;
        let offsets = offsets.into_iter().map(|offset| i64::from(offset.cast_signed())).collect();
        let sizes = sizes.into_iter().map(|size| size as usize).collect();
        self.unary_node(NodeKind::StaticSlice { offsets, sizes }, 3)
    }

    fn transpose(&self) -> Result<Node, Error> {
        let perm: Vec<usize> = self.list(1, "perm")?.into_iter().map(|dim| dim as usize).collect();
        let is_permutation = (0..perm.len()).all(|dim| perm.contains(&dim));
        self.at.expect(is_permutation, Field(1, "perm"), "is not a permutation")?;
        self.unary_node(NodeKind::StaticTranspose(perm), 2)
    }

    fn pad(&self) -> Result<Node, Error> {
        let (before, after) = (self.shape(0, "pre_paddings")?, self.shape(1, "post_paddings")?);
        let is_same_len = before.len() == after.len();
        let reason = "must be as long as `pre_paddings`";
        self.at.expect(is_same_len, Field(1, "post_paddings"), reason)?;
        let value = self.float(Field(2, "padding_value"))?;
        self.unary_node(NodeKind::StaticConstantPad { before, after, value }, 3)
    }

    fn resize_bilinear(&self) -> Result<Node, Error> {
        let align_corners = self.flag(4, FLAG_ALIGN_CORNERS)?;
        let half_pixel_centers = !align_corners && !self.flag(4, FLAG_LEGACY_RESIZE)?;
        let size = [self.size(Field(0, "new_height"), 1)?, self.size(Field(1, "new_width"), 1)?];
        let kind = NodeKind::StaticResizeBilinear2d { size, align_corners, half_pixel_centers };
        self.unary_node(kind, 2)
    }

    /// Reads the node of union type `code`.
    fn read(&self, code: usize) -> Result<Node, Error> {
        match code {
            1 => self.binary(BinaryOperator::Add),
            2 => self.fully_connected(),
            3 => self.unary_node(NodeKind::Softmax, 0),
            4 => self.unary(UnaryOperator::Sigmoid),
            5 => self.transpose(),
            6 => self.unary(UnaryOperator::Clamp),
            7 => self.conv2d(Conv2dKind::Standard),
            8 => self.binary(BinaryOperator::Divide),
            9 => self.resize_bilinear(),
            10 => self.pad(),
            11 => self.pooling(NodeKind::AvgPooling2d),
            12 => self.binary(BinaryOperator::Minimum),
            13 => self.conv2d(Conv2dKind::Depthwise),
            14 => self.pooling(NodeKind::MaxPooling2d),
            15 => self.binary(BinaryOperator::Multiply),
            16 => self.binary(BinaryOperator::Subtract),
            17 => self.unary(UnaryOperator::Floor),
            18 => self.unary_node(NodeKind::Convert, 0),
            19 => {
                let keeps_dims = self.flag(2, FLAG_KEEP_DIMS)?;
                self.unary_node(NodeKind::GlobalAvgPooling2d { keeps_dims }, 0)
            }
            20 => self.unary_node(NodeKind::StaticReshape(self.shape(1, "new_shape")?), 2),
            21 => self.arg_max_pooling(),
            22 => self.unary(UnaryOperator::SquareRoot),
            23 => self.unary(UnaryOperator::Ceiling),
            24 => self.unary(UnaryOperator::Hardswish),
            25 => self.parametric_unary(UnaryOperator::LeakyRelu, "negative_slope"),
            26 => self.binary(BinaryOperator::Maximum),
            27 => self.unary(UnaryOperator::Negate),
            28 => self.unary(UnaryOperator::Square),
            29 => self.parametric_unary(UnaryOperator::Elu, "alpha"),
            30 => self.unary(UnaryOperator::Abs),
            31 => self.binary(BinaryOperator::Prelu),
            32..=34 => self.concatenate(code - 30),
            35 => self.slice(),
            37 => {
                let transposed = self.flag(3, FLAG_TRANSPOSE_WEIGHTS)?;
                self.binary_node(NodeKind::BatchMatrixMultiply { transposed })
            }
            38 => self.concatenate(5),
            39 => self.conv2d(Conv2dKind::Transposed { adjustment: [0; 2] }),
            40 => self.unary(UnaryOperator::ReciprocalSquareRoot),
            41 => self.unary(UnaryOperator::Log),
            42 => self.unary(UnaryOperator::Gelu),
            43 => self.unary(UnaryOperator::Tanh),
            44 => self.unary(UnaryOperator::Exp),
            45 => self.unary(UnaryOperator::Sine),
            46 => self.unary(UnaryOperator::Copy),
            47 => self.unary(UnaryOperator::Cosine),
            _ => {
                let what = "as a node type; exclude it from the XNNPACK partition";
                Err(self.at.unsupported(self.type_name, what))
            }
        }
    }
}

/// Reads a node.
pub(super) fn read<'a>(
    reader: &Reader<'a, '_>,
    index: usize,
    outer: Result<Table<'a>, FieldError>,
) -> Result<Node, Error> {
    let at = Entry::node(index);
    let outer = at.read(outer)?;
    let code = usize::from(at.read(outer.scalar::<u8>(UNION_TYPE))?);
    let type_name = NODE_TYPES.get(code).copied().unwrap_or("an unknown number");
    let table = at.read(outer.table(UNION_VALUE))?;
    let table = at.read(UNION_VALUE.required(table))?;
    let mut node = Fields { reader, at, type_name, table }.read(code)?;
    if let Some(range) = at.read(outer.table(NODE_MIN_MAX))? {
        let (low, high) = (at.read(range.scalar(MIN))?, at.read(range.scalar(MAX))?);
        at.expect(low <= high, NODE_MIN_MAX, "must have `output_min` <= `output_max`")?;
        node.clamp = (low, high);
    }
    Ok(node)
}
