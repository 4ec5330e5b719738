//! A checked graph: values, and nodes in the order in which they run.

use afferent_simd::Activation;

use crate::shape::{Shape, Window};

/// A graph whose every reference was checked: nodes read only constants, inputs and what earlier
/// nodes wrote, and write each value once.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) values: Vec<Value<'a>>,
    pub(crate) nodes: Vec<Node>,
    /// Arguments of the delegate that are inputs; outputs follow.
    pub(crate) inputs: usize,
}

/// What the elements of a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dtype {
    F32,
    F16,
    Bf16,
    /// Integers of 8 bits.
    I8,
    /// Integers of 4 bits, two in a byte, the first in the lower half; zero is 8.
    I4,
    /// Integers of 32 bits.
    I32,
    /// Integers of 8 bits whose scales are found at run time.
    Dynamic,
}

/// How integers stand for numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Quant {
    /// They stand for themselves.
    None,
    /// Of the whole tensor.
    Tensor { scale: f32, zero_point: i32 },
    /// A scale for each place along a dimension.
    Channel { scales: Vec<f32>, dim: usize },
    /// A scale for each block of a row: `scales[row * blocks + block]`.
    Blocks { scales: Vec<f32>, size: usize },
    /// Of each part of so many last dimensions, found at run time.
    Dynamic { dims: usize },
}

/// A tensor.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    pub(crate) dtype: Dtype,
    /// Of a constant exact, else the largest.
    pub(crate) shape: Shape,
    pub(crate) data: Option<&'a [u8]>,
    pub(crate) quant: Quant,
    pub(crate) role: Role,
    /// An input that is used as integers whose scales are found at run time.
    pub(crate) quantised: bool,
}

/// Where a value comes from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Inner,
    /// The argument with this number.
    Input(usize),
    /// The argument with this number.
    Output(usize),
}

impl Role {
    /// The argument that it comes from.
    pub(crate) fn input(self) -> Option<usize> {
        if let Self::Input(argument) = self { Some(argument) } else { None }
    }

    /// The argument that it goes to.
    pub(crate) fn output(self) -> Option<usize> {
        if let Self::Output(argument) = self { Some(argument) } else { None }
    }
}

/// Bounds that bound nothing.
pub(crate) const OPEN: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

/// A node, with the numbers of its values.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its number in the blob.
    pub(crate) index: u32,
    pub(crate) kind: Kind,
    pub(crate) inputs: Vec<usize>,
    pub(crate) output: usize,
    /// The second output, of positions.
    pub(crate) positions: Option<usize>,
    /// Bounds of the result.
    pub(crate) clamp: (f32, f32),
    /// Whether hardswish of what is within the bounds is the result.
    pub(crate) hardswish: bool,
}

impl Node {
    /// What follows the sums of products.
    pub(crate) fn activation(&self) -> Activation {
        Activation { clamp: self.clamp, hardswish: self.hardswish }
    }
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unary {
    Abs,
    Ceiling,
    Clamp,
    Copy,
    Cos,
    Elu(f32),
    Exp,
    Floor,
    Gelu,
    Hardswish,
    LeakyRelu(f32),
    Log,
    Negate,
    ReciprocalSquareRoot,
    Sigmoid,
    /// `x · sigmoid(x)`, made of two nodes.
    Silu,
    Sin,
    Square,
    SquareRoot,
    Tanh,
}

/// A function of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Divide,
    /// Silu of the first times the second, made of two nodes.
    Gate,
    Maximum,
    Minimum,
    Multiply,
    Prelu,
    Subtract,
}

/// The kind of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvKind {
    /// Weights: output channels, rows, columns, input channels of a group.
    Plain,
    /// Weights: 1, rows, columns, output channels.
    Depthwise,
    /// Weights as of a plain one; so many rows and columns are added to the result.
    Transposed([usize; 2]),
}

/// What a node does. Convolutions and fully connected layers read input, weights and perhaps bias.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Unary(Unary),
    Binary(Binary),
    Convert,
    Softmax,
    FullyConnected {
        /// Whether the weights are input channels by output channels.
        transposed: bool,
    },
    MatrixMultiply {
        transposed: bool,
    },
    Conv {
        kind: ConvKind,
        window: Window,
        groups: usize,
        /// Input channels of a group.
        inputs: usize,
        /// Output channels of a group.
        outputs: usize,
    },
    AveragePool(Window),
    MaxPool(Window),
    ArgMaxPool(Window),
    GlobalAveragePool {
        keeps_dims: bool,
    },
    Transpose(Vec<usize>),
    /// A size of 0 is what the others leave.
    Reshape(Shape),
    Pad {
        before: Shape,
        after: Shape,
        value: f32,
    },
    /// A size of 0 reaches to the end; offsets from the end are negative.
    Slice {
        offsets: Vec<i64>,
        sizes: Vec<usize>,
    },
    Concatenate {
        axis: usize,
    },
    Resize {
        size: [usize; 2],
        align_corners: bool,
        half_pixels: bool,
    },
}
