//! Nodes of a graph.

use afferent_core::Error;
use afferent_flatbuffer::{Field, Table};

use super::{Entry, NONE, Reader, schema::*};
use crate::{
    graph::{Binary, ConvKind, Kind, Node, OPEN, Unary},
    shape::{MOST_DIMS, Shape, Window},
};

const FLAG_TRANSPOSE_WEIGHTS: u32 = 1;
const FLAG_SAME_PADDING: u32 = 4;
const FLAG_LEGACY_RESIZE: u32 = 4;
const FLAG_ALIGN_CORNERS: u32 = 8;
const FLAG_KEEP_DIMS: u32 = 64;

/// The greatest size of a window, its steps and its paddings.
const MOST_WINDOW: u32 = 1 << 16;

/// The table of a node, and how its fields are read.
struct Fields<'r, 'a, 'c> {
    reader: &'r Reader<'a, 'c>,
    at: Entry,
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

    /// The place of a value.
    fn value(&self, field: usize, name: &'static str) -> Result<usize, Error> {
        let field = Field(field, name);
        let id = self.word(field)?;
        let place = self.reader.ids.get(&id).copied();
        place.ok_or(self.at.fault(field, "is not a value"))
    }

    /// The place of a value that may be absent.
    fn optional(&self, field: usize, name: &'static str) -> Result<Option<usize>, Error> {
        if self.word(Field(field, name))? == NONE {
            Ok(None)
        } else {
            self.value(field, name).map(Some)
        }
    }

    /// A size of a window, of a picture or of channels.
    fn size(&self, field: Field, least: u32) -> Result<usize, Error> {
        let size = self.word(field)?;
        let fine = (least..=MOST_WINDOW).contains(&size);
        self.at.expect(fine, field, "is too large or empty")?;
        Ok(size as usize)
    }

    /// The window whose paddings start at `first`: top, right, bottom, left, then sizes of the
    /// kernel, and perhaps steps and distances of its elements.
    fn window(&self, first: usize, steps: bool) -> Result<Window, Error> {
        let size = |field: usize, least| self.size(Field(first + field, "the window"), least);
        let kernel = [size(4, 1)?, size(5, 1)?];
        let window = Window {
            kernel,
            stride: if steps { [size(6, 1)?, size(7, 1)?] } else { kernel },
            // Average pools have no distance; it is written as 0.
            dilation: if steps { [size(8, 0)?.max(1), size(9, 0)?.max(1)] } else { [1, 1] },
            before: [size(0, 0)?, size(3, 0)?],
            after: [size(2, 0)?, size(1, 0)?],
        };
        let few = window.taps() <= MOST_WINDOW as usize;
        self.at.expect(few, Field(0, "the window"), "is too large or empty")?;
        Ok(window)
    }

    fn list(&self, field: usize, name: &'static str) -> Result<Vec<u32>, Error> {
        let field = Field(field, name);
        let list = self.at.read(self.table.vector::<u32>(field))?;
        let list = self.at.read(field.required(list))?;
        self.at.expect(list.len() <= MOST_DIMS, field, "has more than six entries")?;
        Ok(list.iter().collect())
    }

    fn shape(&self, field: usize, name: &'static str) -> Result<Shape, Error> {
        let sizes: Vec<usize> =
            self.list(field, name)?.into_iter().map(|size| size as usize).collect();
        Ok(Shape::new(&sizes).unwrap_or_default())
    }

    fn one(&self, kind: Kind, first: usize) -> Result<Node, Error> {
        let (input, output) = (self.value(first, "input_id")?, self.value(first + 1, "output_id")?);
        Ok(node(kind, vec![input], output))
    }

    fn two(&self, kind: Kind) -> Result<Node, Error> {
        let inputs = vec![self.value(0, "input1_id")?, self.value(1, "input2_id")?];
        Ok(node(kind, inputs, self.value(2, "output_id")?))
    }

    fn no_same_padding(&self, field: usize) -> Result<(), Error> {
        if self.flag(field, FLAG_SAME_PADDING)? {
            return Err(self.at.unsupported("padding as TensorFlow computes it"));
        }
        Ok(())
    }

    fn fully_connected(&self) -> Result<Node, Error> {
        let transposed = self.flag(4, FLAG_TRANSPOSE_WEIGHTS)?;
        let mut inputs = vec![self.value(0, "input1_id")?, self.value(1, "filter_id")?];
        inputs.extend(self.optional(2, "bias_id")?);
        Ok(node(Kind::FullyConnected { transposed }, inputs, self.value(3, "output_id")?))
    }

    fn conv(&self, kind: ConvKind) -> Result<Node, Error> {
        self.no_same_padding(19)?;
        let window = self.window(0, true)?;
        let kind = match kind {
            ConvKind::Transposed(_) => ConvKind::Transposed([
                self.size(Field(13, "adjustment_height"), 0)?,
                self.size(Field(14, "adjustment_width"), 0)?,
            ]),
            kind => kind,
        };
        let mut values = vec![self.value(15, "input1_id")?, self.value(16, "filter_id")?];
        values.extend(self.optional(17, "bias_id")?);
        let inputs = self.size(Field(10, "group_input_channels"), 1)?;
        let outputs = self.size(Field(11, "group_output_channels"), 1)?;
        let groups = self.size(Field(12, "groups"), 1)?;
        if kind == ConvKind::Depthwise {
            self.at.expect(inputs == 1, Field(10, "group_input_channels"), "is not 1")?;
        }
        let kind = Kind::Conv { kind, window, groups, inputs, outputs };
        Ok(node(kind, values, self.value(18, "output_id")?))
    }

    fn pool(&self, kind: fn(Window) -> Kind) -> Result<Node, Error> {
        self.no_same_padding(12)?;
        self.one(kind(self.window(0, true)?), 10)
    }

    fn arg_max_pool(&self) -> Result<Node, Error> {
        let window = self.window(0, false)?;
        let values = [self.value(6, "input_id")?, self.value(7, "output_value_id")?];
        let positions = Some(self.value(8, "output_index_id")?);
        Ok(Node { positions, ..node(Kind::ArgMaxPool(window), vec![values[0]], values[1]) })
    }

    fn concatenate(&self, count: usize) -> Result<Node, Error> {
        let axis = self.word(Field(0, "axis"))?;
        // A negative axis counts from the end; only its bits are there.
        let axis = axis.cast_signed();
        let mut inputs = Vec::new();
        for field in [1, 2, 3, 4, 7].into_iter().take(count) {
            inputs.push(self.value(field, "an input")?);
        }
        let dims = self.reader.values[inputs[0]].shape.len();
        let from_end = if axis < 0 { i64::try_from(dims).unwrap_or(0) } else { 0 };
        let axis = usize::try_from(i64::from(axis) + from_end).ok();
        let axis = axis.filter(|axis| *axis < MOST_DIMS);
        let axis = axis.ok_or(self.at.fault(Field(0, "axis"), "is no dimension"))?;
        Ok(node(Kind::Concatenate { axis }, inputs, self.value(5, "output_id")?))
    }

    fn slice(&self) -> Result<Node, Error> {
        let (offsets, sizes) = (self.list(1, "offsets")?, self.list(2, "sizes")?);
        let same = offsets.len() == sizes.len();
        self.at.expect(same, Field(2, "sizes"), "are not as many as offsets")?;
        let offsets = offsets.into_iter().map(|offset| i64::from(offset.cast_signed())).collect();
        let sizes = sizes.into_iter().map(|size| size as usize).collect();
        self.one(Kind::Slice { offsets, sizes }, 3)
    }

    fn transpose(&self) -> Result<Node, Error> {
        let order: Vec<usize> = self.list(1, "perm")?.into_iter().map(|dim| dim as usize).collect();
        let is_order = (0..order.len()).all(|dim| order.contains(&dim));
        self.at.expect(is_order, Field(1, "perm"), "is no order of dimensions")?;
        self.one(Kind::Transpose(order), 2)
    }

    fn pad(&self) -> Result<Node, Error> {
        let (before, after) = (self.shape(0, "pre_paddings")?, self.shape(1, "post_paddings")?);
        let same = before.len() == after.len();
        self.at.expect(same, Field(1, "post_paddings"), "are not as many as pre_paddings")?;
        let value = self.float(Field(2, "padding_value"))?;
        self.one(Kind::Pad { before, after, value }, 3)
    }

    fn resize(&self) -> Result<Node, Error> {
        let align_corners = self.flag(4, FLAG_ALIGN_CORNERS)?;
        let half_pixels = !align_corners && !self.flag(4, FLAG_LEGACY_RESIZE)?;
        let size = [self.size(Field(0, "new_height"), 1)?, self.size(Field(1, "new_width"), 1)?];
        self.one(Kind::Resize { size, align_corners, half_pixels }, 2)
    }
}

fn node(kind: Kind, inputs: Vec<usize>, output: usize) -> Node {
    Node { index: 0, kind, inputs, output, positions: None, clamp: OPEN, hardswish: false }
}

/// Reads a node.
pub(super) fn read<'a>(
    reader: &Reader<'a, '_>,
    at: Entry,
    outer: &Table<'a>,
) -> Result<Node, Error> {
    let code = usize::from(at.read(outer.scalar::<u8>(UNION_TYPE))?);
    let table = at.read(outer.table(UNION_VALUE))?;
    let table = at.read(UNION_VALUE.required(table))?;
    let fields = Fields { reader, at, table };
    let unary = |function| fields.one(Kind::Unary(function), 0);
    let binary = |function| fields.two(Kind::Binary(function));
    let with_number = |function: fn(f32) -> Unary, name| {
        fields.one(Kind::Unary(function(fields.float(Field(0, name))?)), 1)
    };
    let mut node = match code {
        1 => binary(Binary::Add),
        2 => fields.fully_connected(),
        3 => fields.one(Kind::Softmax, 0),
        4 => unary(Unary::Sigmoid),
        5 => fields.transpose(),
        6 => unary(Unary::Clamp),
        7 => fields.conv(ConvKind::Plain),
        8 => binary(Binary::Divide),
        9 => fields.resize(),
        10 => fields.pad(),
        11 => fields.pool(Kind::AveragePool),
        12 => binary(Binary::Minimum),
        13 => fields.conv(ConvKind::Depthwise),
        14 => fields.pool(Kind::MaxPool),
        15 => binary(Binary::Multiply),
        16 => binary(Binary::Subtract),
        17 => unary(Unary::Floor),
        18 => fields.one(Kind::Convert, 0),
        19 => {
            let keeps_dims = fields.flag(2, FLAG_KEEP_DIMS)?;
            fields.one(Kind::GlobalAveragePool { keeps_dims }, 0)
        }
        20 => fields.one(Kind::Reshape(fields.shape(1, "new_shape")?), 2),
        21 => fields.arg_max_pool(),
        22 => unary(Unary::SquareRoot),
        23 => unary(Unary::Ceiling),
        24 => unary(Unary::Hardswish),
        25 => with_number(Unary::LeakyRelu, "negative_slope"),
        26 => binary(Binary::Maximum),
        27 => unary(Unary::Negate),
        28 => unary(Unary::Square),
        29 => with_number(Unary::Elu, "alpha"),
        30 => unary(Unary::Abs),
        31 => binary(Binary::Prelu),
        32..=34 => fields.concatenate(code - 30),
        35 => fields.slice(),
        37 => {
            let transposed = fields.flag(3, FLAG_TRANSPOSE_WEIGHTS)?;
            fields.two(Kind::MatrixMultiply { transposed })
        }
        38 => fields.concatenate(5),
        39 => fields.conv(ConvKind::Transposed([0; 2])),
        40 => unary(Unary::ReciprocalSquareRoot),
        41 => unary(Unary::Log),
        42 => unary(Unary::Gelu),
        43 => unary(Unary::Tanh),
        44 => unary(Unary::Exp),
        45 => unary(Unary::Sin),
        46 => unary(Unary::Copy),
        47 => unary(Unary::Cos),
        code => Err(at.unsupported(NODE_NAMES.get(code).unwrap_or(&"a node of no known kind"))),
    }?;
    node.index = at.index;
    if let Some(bounds) = at.read(outer.table(NODE_MIN_MAX))? {
        let (low, high) = (at.read(bounds.scalar(MIN))?, at.read(bounds.scalar(MAX))?);
        at.expect(low <= high, NODE_MIN_MAX, "are no bounds")?;
        node.clamp = (low, high);
    }
    Ok(node)
}
