//! Instructions of a method.

use afferent_core::ScalarType;

use crate::{
    error::{ErrorKind, FieldResult},
    plan::MethodPlan,
    schema::*,
    value::ValueType,
};
use afferent_flatbuffer::{Field, Table, Vector, to_u32};

/// Instruction of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Instruction<'a> {
    /// Runs a kernel.
    Kernel {
        /// Operator index.
        operator: u32,
        /// Value indices, in the order of the operator's schema.
        args: Vector<'a, u32>,
    },
    /// Runs a delegate.
    Delegate {
        /// Delegate index.
        delegate: u32,
        /// Value indices: the delegate's inputs, then its outputs.
        args: Vector<'a, u32>,
    },
    /// Assigns value `from` to value `to`. Both have the same type, or both are scalars or none.
    /// Loading a method rejects moves of tensor lists.
    Move {
        /// Source value index.
        from: u32,
        /// Destination value index.
        to: u32,
    },
    /// Jumps if the condition is false. A tensor of bools is false if any element is false.
    JumpFalse {
        /// Value index of the condition: a tensor of bools, or a scalar that is a bool at run time.
        condition: u32,
        /// Index of the next instruction; the number of instructions ends the method.
        destination: u32,
    },
    /// Frees the memory of a tensor that the runtime has allocated.
    Free {
        /// Value index of the tensor.
        value: u32,
    },
}

impl<'a> Instruction<'a> {
    /// Checks everything except the entries of `args`.
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> FieldResult<Self> {
        let table = plan.instruction_tables().get(index)?;
        let code = table.scalar::<u8>(INSTRUCTION_TYPE)?;
        let table = INSTRUCTION_ARGS.required(table.table(INSTRUCTION_ARGS)?)?;
        let value = |field: Field| field.index(table.scalar::<i32>(field)?, plan.num_values());
        let call = |field: Field, len| field.index(table.scalar::<i32>(field)?, len);
        Ok(match code {
            1 => Self::Kernel {
                operator: call(KERNEL_CALL_OP_INDEX, plan.num_operators())?,
                args: args(&table, KERNEL_CALL_ARGS)?.convert(to_u32),
            },
            2 => Self::Delegate {
                delegate: call(DELEGATE_CALL_DELEGATE_INDEX, plan.num_delegates())?,
                args: args(&table, DELEGATE_CALL_ARGS)?.convert(to_u32),
            },
            3 => {
                let (from, to) = (value(MOVE_CALL_FROM)?, value(MOVE_CALL_TO)?);
                check_move(plan, from, to)?;
                Self::Move { from, to }
            }
            4 => {
                let condition = value(JUMP_FALSE_CONDITION)?;
                let ends = plan.num_instructions().saturating_add(1);
                let destination = call(JUMP_FALSE_DESTINATION, ends)?;
                check_condition(plan, condition)?;
                Self::JumpFalse { condition, destination }
            }
            5 => {
                let value = value(FREE_CALL_VALUE)?;
                if ValueType::read(plan, value)? != ValueType::Tensor {
                    return Err(FREE_CALL_VALUE
                        .error(ErrorKind::WrongValueType { value, expected: "a tensor" }));
                }
                Self::Free { value }
            }
            code => {
                return Err(INSTRUCTION_TYPE.error(ErrorKind::UnknownCode { code: code.into() }));
            }
        })
    }
}

fn args<'a>(table: &Table<'a>, field: Field) -> FieldResult<Vector<'a, i32>> {
    field.required(table.vector(field)?)
}

fn check_move(plan: &MethodPlan<'_>, from: u32, to: u32) -> FieldResult<()> {
    let (source, target) = (ValueType::read(plan, from)?, ValueType::read(plan, to)?);
    if source == target || (source.is_scalar() && target.is_scalar()) {
        return Ok(());
    }
    let expected = "of the type of the source value";
    Err(MOVE_CALL_TO.error(ErrorKind::WrongValueType { value: to, expected }))
}

/// Checks that a value can be a condition. The exporter writes 0 for a bool that an instruction
/// computes, so the type of a scalar is known only at run time.
fn check_condition(plan: &MethodPlan<'_>, value: u32) -> FieldResult<()> {
    let evalue = plan.value_tables().get(value as usize)?;
    let is_valid = match ValueType::of(&evalue)? {
        ValueType::Tensor => {
            let tensor = EVALUE_VAL.required(evalue.table(EVALUE_VAL)?)?;
            tensor.scalar::<u8>(TENSOR_SCALAR_TYPE)? == ScalarType::Bool as u8
        }
        other => other.is_scalar(),
    };
    let expected = "a scalar or a tensor of bools";
    let error = JUMP_FALSE_CONDITION.error(ErrorKind::WrongValueType { value, expected });
    if is_valid { Ok(()) } else { Err(error) }
}
