//! A checked XNNPACK subgraph: values, and nodes in execution order.

use afferent_simd::Activation;

use crate::{conv2d_params::Conv2dParams, shape::Shape, window::Window};

/// A subgraph with valid references: a node reads only constants, inputs and values that earlier
/// nodes wrote, and each value is written once.
#[derive(Debug)]
pub(crate) struct Subgraph<'a> {
    pub(crate) values: Vec<Value<'a>>,
    pub(crate) nodes: Vec<Node>,
    /// Number of delegate arguments that are inputs. The other arguments are outputs and follow.
    pub(crate) inputs: usize,
}

/// Datatype of a value (`xnn_datatype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Datatype {
    Fp32,
    Fp16,
    Bf16,
    /// `qint8` and `qcint8`.
    Qint8,
    /// `qcint4` and `qbint4`: two in a byte, the first in the low half, with zero point 8.
    Qint4,
    /// `int32`, `qint32` and `qcint32`.
    Int32,
    /// `qdint8`: dynamically quantized int8.
    Qdint8,
}

/// Quantization of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quantization {
    None,
    PerTensor {
        scale: f32,
        zero_point: i32,
    },
    /// One scale for each index along `dim`.
    PerChannel {
        scales: Vec<f32>,
        dim: usize,
    },
    /// One scale for each block of a row: `scales[row * blocks_per_row + block]`.
    Blockwise {
        scales: Vec<f32>,
        block_size: usize,
    },
    /// Scale and zero point are computed at run time for each slice of the last `dims` dimensions.
    Dynamic {
        dims: usize,
    },
}

/// A tensor of the subgraph.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    pub(crate) datatype: Datatype,
    /// Exact shape of a constant; upper bound of any other value.
    pub(crate) shape: Shape,
    /// Data of a constant.
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) quantization: Quantization,
    pub(crate) role: Role,
    /// True for a floating-point input that its consumers quantize dynamically.
    pub(crate) is_dynamically_quantized: bool,
}

impl Value<'_> {
    /// True if elements are floating-point numbers.
    pub(crate) fn is_float(&self) -> bool {
        matches!(self.datatype, Datatype::Fp32 | Datatype::Fp16 | Datatype::Bf16)
    }
}

/// Relation of a value to the arguments of the delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Internal,
    /// Input, with its argument index.
    Input(usize),
    /// Output, with its argument index.
    Output(usize),
}

impl Role {
    /// Argument index of an input.
    pub(crate) fn input(self) -> Option<usize> {
        if let Self::Input(argument) = self { Some(argument) } else { None }
    }

    /// Argument index of an output.
    pub(crate) fn output(self) -> Option<usize> {
        if let Self::Output(argument) = self { Some(argument) } else { None }
    }
}

/// Output range of a node that does not clamp.
pub(crate) const UNCLAMPED: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// A node. Inputs and outputs are indices into [`Subgraph::values`].
#[derive(Debug)]
pub(crate) struct Node {
    /// Index of the node in the blob.
    pub(crate) index: u32,
    /// Schema name, such as `XNNConv2d`.
    pub(crate) type_name: &'static str,
    pub(crate) kind: NodeKind,
    pub(crate) inputs: Vec<usize>,
    pub(crate) output: usize,
    /// Second output of `XNNArgMaxPooling2d`: the indices.
    pub(crate) index_output: Option<usize>,
    /// Minimum and maximum of the output.
    pub(crate) clamp: (f32, f32),
    /// True if hardswish is applied to the clamped result.
    pub(crate) hardswish: bool,
}

impl Node {
    /// Activation that a GEMM or a convolution fuses into its epilogue.
    pub(crate) fn activation(&self) -> Activation {
        Activation { clamp: self.clamp, hardswish: self.hardswish }
    }
}

/// Unary elementwise operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum UnaryOperator {
    Abs,
    Ceiling,
    Clamp,
    Copy,
    Cosine,
    /// With its `alpha`.
    Elu(f32),
    Exp,
    Floor,
    Gelu,
    Hardswish,
    /// With its negative slope.
    LeakyRelu(f32),
    Log,
    Negate,
    ReciprocalSquareRoot,
    Sigmoid,
    /// `x * sigmoid(x)`. Fusion creates it from two nodes.
    Silu,
    Sine,
    Square,
    SquareRoot,
    Tanh,
}

/// Binary elementwise operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Add,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Prelu,
    /// `silu(a) * b`. Fusion creates it from two nodes.
    SiluMultiply,
    Subtract,
}

/// Node type with its parameters. The inputs of a convolution and of a fully connected layer are
/// input, filter, and optionally bias.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    Unary(UnaryOperator),
    Binary(BinaryOperator),
    Convert,
    Softmax,
    FullyConnected {
        /// True if the filter is `[input channels, output channels]`, false if it is
        /// `[output channels, input channels]`.
        transposed: bool,
    },
    BatchMatrixMultiply {
        /// True if the right operand is `[.., columns, inner]`, false if it is
        /// `[.., inner, columns]`.
        transposed: bool,
    },
    Conv2d(Conv2dParams),
    AvgPooling2d(Window),
    MaxPooling2d(Window),
    ArgMaxPooling2d(Window),
    GlobalAvgPooling2d {
        keeps_dims: bool,
    },
    StaticTranspose(Vec<usize>),
    /// One size may be 0: it is inferred from the number of elements.
    StaticReshape(Shape),
    StaticConstantPad {
        before: Shape,
        after: Shape,
        value: f32,
    },
    /// A size of 0 extends to the end. A negative offset counts from the end.
    StaticSlice {
        offsets: Vec<i64>,
        sizes: Vec<usize>,
    },
    Concatenate {
        axis: usize,
    },
    StaticResizeBilinear2d {
        size: [usize; 2],
        align_corners: bool,
        half_pixel_centers: bool,
    },
}
