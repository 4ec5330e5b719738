//! The checked graph of a blob: values and calls of operators.

use crate::op::Operator;

/// Element type of a tensor in the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataType {
    Bool,
    U8,
    I8,
    I32,
    F16,
    F32,
    F64,
    I64,
}

/// Element type of a tensor on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DeviceType {
    /// Four elements of one byte in a word; 0 is false.
    Bool,
    /// Four elements in a word.
    U8,
    /// Four elements in a word.
    I8,
    I32,
    F32,
}

impl DataType {
    /// Bytes of an element in the constants of the program. The exporter stores `I64` as `I32` and
    /// `F64` as `F32`.
    pub(crate) fn constant_bytes(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::F32 | Self::F64 | Self::I64 => 4,
        }
    }

    pub(crate) fn on_device(self) -> DeviceType {
        match self {
            Self::Bool => DeviceType::Bool,
            Self::U8 => DeviceType::U8,
            Self::I8 => DeviceType::I8,
            Self::I32 | Self::I64 => DeviceType::I32,
            Self::F16 | Self::F32 | Self::F64 => DeviceType::F32,
        }
    }
}

impl DeviceType {
    /// True if four elements share a word.
    pub(crate) fn is_packed(self) -> bool {
        matches!(self, Self::Bool | Self::U8 | Self::I8)
    }

    /// Words of `numel` elements.
    pub(crate) fn words(self, numel: usize) -> usize {
        if self.is_packed() { numel.div_ceil(4) } else { numel }
    }
}

/// Tensor of a graph. Its elements are in row-major order.
#[derive(Debug, Clone)]
pub(crate) struct TensorSpec<'a> {
    pub(crate) datatype: DataType,
    /// Upper bounds of the sizes.
    pub(crate) dims: Vec<usize>,
    /// Bytes of a constant.
    pub(crate) constant: Option<&'a [u8]>,
}

impl TensorSpec<'_> {
    /// Words for the upper bounds of the sizes.
    pub(crate) fn words(&self) -> usize {
        self.datatype.on_device().words(self.dims.iter().product())
    }
}

/// Value of a graph.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Double(f64),
    Bool(bool),
    Tensor(TensorSpec<'a>),
    IntList(Vec<i64>),
    DoubleList(Vec<f64>),
    BoolList(Vec<bool>),
    /// Indices of values.
    List(Vec<usize>),
    Str(&'a str),
    /// Integer that is known when the delegate runs, and its value at export.
    SymInt(i64),
}

/// Unary function that a call applies to its result.
#[derive(Debug, Clone)]
pub(crate) struct Epilogue {
    pub(crate) operator: &'static Operator,
    /// Arguments of the call that was fused: its input, numbers, its output.
    pub(crate) args: Vec<usize>,
}

/// Call of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) operator: &'static Operator,
    /// Index in the blob.
    pub(crate) index: usize,
    /// Values: the arguments of the schema, then the output.
    pub(crate) args: Vec<usize>,
    /// Functions of the result, in order.
    pub(crate) epilogue: Vec<Epilogue>,
    /// Limits of an int8 result, in quanta.
    pub(crate) clamp: Option<(i32, i32)>,
}

/// Checked graph.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(crate) values: Vec<Value<'a>>,
    pub(crate) calls: Vec<Call>,
    /// Values of the input arguments.
    pub(crate) inputs: Vec<usize>,
    /// Values of the output arguments.
    pub(crate) outputs: Vec<usize>,
}

impl Graph<'_> {
    /// Tensors and SymInts among the elements of the value at `index`.
    pub(crate) fn leaves(&self, index: usize) -> Vec<usize> {
        match &self.values[index] {
            Value::Tensor(_) | Value::SymInt(_) => vec![index],
            Value::List(items) => {
                // The blob has no list of lists.
                items.iter().copied().filter(|item| self.is_leaf(*item)).collect()
            }
            _ => vec![],
        }
    }

    /// Calls whose results are constant, and values whose memory is. `is_state` is true for values that
    /// a call changes in place.
    pub(crate) fn constants(&self, is_state: &[bool]) -> (Vec<bool>, Vec<bool>) {
        let constant =
            |value: &Value<'_>| matches!(value, Value::Tensor(spec) if spec.constant.is_some());
        let mut values: Vec<bool> = self.values.iter().map(constant).collect();
        for (is_constant, is_state) in values.iter_mut().zip(is_state) {
            *is_constant &= !is_state;
        }
        let mut calls = vec![];
        for call in &self.calls {
            let (output, inputs) = call.args.split_last().unwrap_or((&0, &[]));
            let outputs = self.leaves(*output);
            let is_tensor = |value: &usize| self.tensor(*value).is_some();
            let mut inputs = inputs.iter().flat_map(|input| self.leaves(*input));
            let is_constant = call.operator.writes.is_empty()
                && !outputs.is_empty()
                && outputs.iter().all(|output| is_tensor(output) && !is_state[*output])
                && inputs.all(|input| is_tensor(&input) && values[input]);
            if is_constant {
                for output in outputs {
                    values[output] = true;
                }
            }
            calls.push(is_constant);
        }
        (calls, values)
    }

    fn is_leaf(&self, index: usize) -> bool {
        matches!(self.values[index], Value::Tensor(_) | Value::SymInt(_))
    }

    pub(crate) fn tensor(&self, index: usize) -> Option<&TensorSpec<'_>> {
        match &self.values[index] {
            Value::Tensor(spec) => Some(spec),
            _ => None,
        }
    }
}
