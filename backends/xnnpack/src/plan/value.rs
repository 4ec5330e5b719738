//! Values of a plan: element type, location, and relation to the arguments.

use std::borrow::Cow;

use crate::{
    shape::Shape,
    subgraph::{Datatype, Role, Value},
};

/// Element type of a value during a run. fp16 and bf16 are computed in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComputeType {
    F32,
    I8,
    I32,
}

impl ComputeType {
    pub(crate) fn of(value: &Value<'_>) -> Self {
        match value.datatype {
            Datatype::Qint8 => Self::I8,
            Datatype::Int32 if value.data.is_none() => Self::I32,
            _ => Self::F32,
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        if self == Self::I8 { 1 } else { 4 }
    }
}

/// True if the elements of both values have the same bytes for the same numbers.
pub(crate) fn is_same_encoding(a: &Value<'_>, b: &Value<'_>) -> bool {
    let compute_type = ComputeType::of(a);
    compute_type == ComputeType::of(b)
        && (compute_type != ComputeType::I8 || a.quantization == b.quantization)
}

/// A value of the subgraph as the steps of a plan use it.
pub(crate) struct PlannedValue<'a> {
    pub(crate) compute_type: ComputeType,
    /// Datatype of the argument, if the value is one.
    pub(crate) datatype: Datatype,
    pub(crate) shape: Shape,
    pub(crate) location: Location<'a>,
    pub(crate) role: Role,
}

impl PlannedValue<'_> {
    pub(crate) fn new(value: &Value<'_>) -> Self {
        Self {
            compute_type: ComputeType::of(value),
            datatype: value.datatype,
            shape: value.shape,
            location: Location::Unused,
            role: value.role,
        }
    }

    /// Bytes for the shape in the blob.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.compute_type.size()
    }

    /// True if steps can read or write the argument without conversion.
    pub(crate) fn is_direct_argument(&self) -> bool {
        matches!(self.datatype, Datatype::Fp32 | Datatype::Qint8)
    }
}

/// Location of the elements of a value during a run.
#[derive(Debug, Clone)]
pub(crate) enum Location<'a> {
    /// No step reads or writes the value.
    Unused,
    /// int8 constant.
    ConstantI8(&'a [u8]),
    /// f32 constant, borrowed from the program or converted.
    ConstantF32(Cow<'a, [f32]>),
    /// Input argument of the delegate, by index.
    InputArgument(usize),
    /// Output argument of the delegate, by index.
    OutputArgument(usize),
    /// Slot of the memory plan.
    Slot(usize),
}
