//! Execution plan of a method: values, inputs, outputs, instructions, planned memory.

use crate::{
    delegate::{DelegatePlan, Operator},
    error::FieldResult,
    instruction::Instruction,
    program::Program,
    schema::*,
    value::Value,
};
use afferent_flatbuffer::{Table, TableVector, Vector, to_u32, to_usize};

/// Checked method of a [`Program`], as ExecuTorch `ExecutionPlan`.
#[derive(Debug, Clone, Copy)]
pub struct MethodPlan<'a> {
    program: Program<'a>,
    table: Table<'a>,
    name: &'a str,
    values: TableVector<'a>,
    inputs: Vector<'a, i32>,
    outputs: Vector<'a, i32>,
    instructions: TableVector<'a>,
    operators: TableVector<'a>,
    delegates: TableVector<'a>,
    buffer_sizes: Vector<'a, i64>,
}

impl<'a> MethodPlan<'a> {
    pub(crate) fn read(program: &Program<'a>, index: usize) -> FieldResult<Self> {
        let table = program.plans().get(index)?;
        let chains = PLAN_CHAINS.required(table.tables(PLAN_CHAINS)?)?;
        if chains.is_empty() {
            return Err(PLAN_CHAINS.invalid("is empty, but a method needs one chain"));
        }
        let instructions = chains.get(0)?.tables(CHAIN_INSTRUCTIONS)?;
        Ok(Self {
            program: *program,
            table,
            name: PLAN_NAME.required(table.name(PLAN_NAME)?)?,
            values: PLAN_VALUES.required(table.tables(PLAN_VALUES)?)?,
            inputs: PLAN_INPUTS.required(table.vector(PLAN_INPUTS)?)?,
            outputs: PLAN_OUTPUTS.required(table.vector(PLAN_OUTPUTS)?)?,
            instructions: CHAIN_INSTRUCTIONS.required(instructions)?,
            operators: table.tables_or_empty(PLAN_OPERATORS)?,
            delegates: table.tables_or_empty(PLAN_DELEGATES)?,
            buffer_sizes: PLAN_BUFFER_SIZES.required(table.vector(PLAN_BUFFER_SIZES)?)?,
        })
    }

    /// Name, such as `forward`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Program that contains the method.
    pub fn program(&self) -> &Program<'a> {
        &self.program
    }

    /// Number of values.
    pub fn num_values(&self) -> usize {
        self.values.len()
    }

    /// Value at `index`; [`Value::None`] if `index` is out of range.
    pub fn value(&self, index: usize) -> Value<'a> {
        Value::read(self, index).unwrap_or(Value::None)
    }

    /// Values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_values()).map(move |index| plan.value(index))
    }

    /// Value indices of the inputs: mutable tensors, scalars, strings or none.
    pub fn inputs(&self) -> Vector<'a, u32> {
        self.inputs.convert(to_u32)
    }

    /// Value indices of the outputs.
    pub fn outputs(&self) -> Vector<'a, u32> {
        self.outputs.convert(to_u32)
    }

    /// Number of instructions.
    pub fn num_instructions(&self) -> usize {
        self.instructions.len()
    }

    /// Instruction at `index`.
    pub fn instruction(&self, index: usize) -> Option<Instruction<'a>> {
        Instruction::read(self, index).ok()
    }

    /// Instructions in order.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_instructions()).filter_map(move |index| plan.instruction(index))
    }

    /// Number of operators.
    pub fn num_operators(&self) -> usize {
        self.operators.len()
    }

    /// Operator at `index`.
    pub fn operator(&self, index: usize) -> Option<Operator<'a>> {
        self.operators.get(index).and_then(|table| Operator::read(&table)).ok()
    }

    /// Operators in order.
    pub fn operators(&self) -> impl Iterator<Item = Operator<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_operators()).filter_map(move |index| plan.operator(index))
    }

    /// Number of delegates.
    pub fn num_delegates(&self) -> usize {
        self.delegates.len()
    }

    /// Delegate at `index`.
    pub fn delegate(&self, index: usize) -> Option<DelegatePlan<'a>> {
        DelegatePlan::read(self, index).ok()
    }

    /// Delegates in order.
    pub fn delegates(&self) -> impl Iterator<Item = DelegatePlan<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_delegates()).filter_map(move |index| plan.delegate(index))
    }

    /// Size of each planned buffer in bytes; an [`Allocation`](crate::Allocation) refers to a buffer
    /// by its index in this list.
    ///
    /// The list omits the first entry of `non_const_buffer_sizes`, which is reserved.
    pub fn planned_buffer_sizes(&self) -> Vector<'a, usize> {
        self.buffer_sizes.skip_first().convert(to_usize)
    }

    /// PyTorch `TreeSpec` of the inputs.
    pub fn encoded_inp_str(&self) -> Option<&'a str> {
        let container = self.table.table(PLAN_CONTAINER_META_TYPE).ok().flatten();
        container.and_then(|table| table.string(CONTAINER_ENCODED_INP_STR).ok().flatten())
    }

    /// PyTorch `TreeSpec` of the outputs.
    pub fn encoded_out_str(&self) -> Option<&'a str> {
        let container = self.table.table(PLAN_CONTAINER_META_TYPE).ok().flatten();
        container.and_then(|table| table.string(CONTAINER_ENCODED_OUT_STR).ok().flatten())
    }

    pub(crate) fn table(&self) -> &Table<'a> {
        &self.table
    }

    pub(crate) fn value_tables(&self) -> TableVector<'a> {
        self.values
    }

    pub(crate) fn instruction_tables(&self) -> TableVector<'a> {
        self.instructions
    }

    pub(crate) fn operator_tables(&self) -> TableVector<'a> {
        self.operators
    }

    pub(crate) fn delegate_tables(&self) -> TableVector<'a> {
        self.delegates
    }

    pub(crate) fn input_indices(&self) -> Vector<'a, i32> {
        self.inputs
    }

    pub(crate) fn output_indices(&self) -> Vector<'a, i32> {
        self.outputs
    }

    pub(crate) fn buffer_sizes(&self) -> Vector<'a, i64> {
        self.buffer_sizes
    }
}
