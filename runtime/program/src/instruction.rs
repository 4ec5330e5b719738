//! The instructions of a method.

use afferent_core::ScalarType;

use crate::{
    error::{Fault, Read},
    plan::MethodPlan,
    schema::*,
    value::Kind,
};
use afferent_flatbuffer::{Field, List, Table, to_u32};

/// One step of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Instruction<'a> {
    /// Runs a kernel.
    Kernel {
        /// Number of the operator.
        operator: u32,
        /// Numbers of the values, in the order of the operator's schema.
        args: List<'a, u32>,
    },
    /// Runs a delegate.
    Delegate {
        /// Number of the delegate.
        delegate: u32,
        /// Numbers of the values: the delegate's inputs, then its outputs.
        args: List<'a, u32>,
    },
    /// Lets value `to` be what value `from` is. Both are tensors, or both are numbers or none, or
    /// both are of the same other kind; a list of tensors is refused when the method is loaded.
    Move {
        /// Read.
        from: u32,
        /// Replaced.
        to: u32,
    },
    /// Goes on elsewhere when the condition is false: a bool, or a tensor of bools of which one
    /// is false.
    JumpFalse {
        /// Number of the value.
        condition: u32,
        /// Number of the next instruction; the number of instructions ends the method.
        destination: u32,
    },
    /// Gives back the memory of a tensor that the runtime provided.
    Free {
        /// Number of the value, a tensor.
        value: u32,
    },
}

impl<'a> Instruction<'a> {
    /// All of it is checked but the entries of `args`.
    pub(crate) fn read(plan: &MethodPlan<'a>, index: usize) -> Read<Self> {
        let table = plan.instruction_tables().get(index)?;
        let code = table.number::<u8>(INSTRUCTION_TYPE)?;
        let table = INSTRUCTION_ARGS.required(table.table(INSTRUCTION_ARGS)?)?;
        let value = |field: Field| field.index(table.number::<i32>(field)?, plan.num_values());
        let call = |field: Field, len| field.index(table.number::<i32>(field)?, len);
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
                movable(plan, from, to)?;
                Self::Move { from, to }
            }
            4 => {
                let condition = value(JUMP_FALSE_CONDITION)?;
                let ends = plan.num_instructions().saturating_add(1);
                let destination = call(JUMP_FALSE_DESTINATION, ends)?;
                bools(plan, condition)?;
                Self::JumpFalse { condition, destination }
            }
            5 => {
                let value = value(FREE_CALL_VALUE)?;
                if Kind::read(plan, value)? != Kind::Tensor {
                    return Err(FREE_CALL_VALUE.fault(Fault::Kind { value, wanted: "a tensor" }));
                }
                Self::Free { value }
            }
            code => {
                return Err(INSTRUCTION_TYPE.fault(Fault::UnknownCode { code: code.into() }));
            }
        })
    }
}

fn args<'a>(table: &Table<'a>, field: Field) -> Read<List<'a, i32>> {
    field.required(table.list(field)?)
}

fn movable(plan: &MethodPlan<'_>, from: u32, to: u32) -> Read<()> {
    let (kind, target) = (Kind::read(plan, from)?, Kind::read(plan, to)?);
    if kind == target || (kind.is_scalar() && target.is_scalar()) {
        return Ok(());
    }
    let wanted = "of the kind of the value that replaces it";
    Err(MOVE_CALL_TO.fault(Fault::Kind { value: to, wanted }))
}

fn bools(plan: &MethodPlan<'_>, value: u32) -> Read<()> {
    let evalue = plan.value_tables().get(value as usize)?;
    let is_bool = match Kind::of(&evalue)? {
        Kind::Bool => true,
        Kind::Tensor => {
            let tensor = EVALUE_VAL.required(evalue.table(EVALUE_VAL)?)?;
            tensor.number::<u8>(TENSOR_SCALAR_TYPE)? == ScalarType::Bool as u8
        }
        _ => false,
    };
    let wanted = "a bool or a tensor of bools";
    let fault = JUMP_FALSE_CONDITION.fault(Fault::Kind { value, wanted });
    if is_bool { Ok(()) } else { Err(fault) }
}
