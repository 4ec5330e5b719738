//! A method: values, inputs, outputs, instructions, planned memory.

use crate::{
    delegate::{DelegatePlan, Operator},
    error::Read,
    instruction::Instruction,
    program::Program,
    schema::*,
    value::Value,
};
use afferent_flatbuffer::{List, Table, Tables, to_u32, to_usize};

/// A checked method of a [`Program`], as ExecuTorch `ExecutionPlan`.
#[derive(Debug, Clone, Copy)]
pub struct MethodPlan<'a> {
    program: Program<'a>,
    table: Table<'a>,
    name: &'a str,
    values: Tables<'a>,
    inputs: List<'a, i32>,
    outputs: List<'a, i32>,
    instructions: Tables<'a>,
    operators: Tables<'a>,
    delegates: Tables<'a>,
    buffer_sizes: List<'a, i64>,
}

impl<'a> MethodPlan<'a> {
    pub(crate) fn read(program: &Program<'a>, index: usize) -> Read<Self> {
        let table = program.plans().get(index)?;
        let chains = PLAN_CHAINS.required(table.tables(PLAN_CHAINS)?)?;
        if chains.is_empty() {
            return Err(PLAN_CHAINS.invalid("holds no chain of instructions"));
        }
        let instructions = chains.get(0)?.tables(CHAIN_INSTRUCTIONS)?;
        Ok(Self {
            program: *program,
            table,
            name: PLAN_NAME.required(table.name(PLAN_NAME)?)?,
            values: PLAN_VALUES.required(table.tables(PLAN_VALUES)?)?,
            inputs: PLAN_INPUTS.required(table.list(PLAN_INPUTS)?)?,
            outputs: PLAN_OUTPUTS.required(table.list(PLAN_OUTPUTS)?)?,
            instructions: CHAIN_INSTRUCTIONS.required(instructions)?,
            operators: table.tables_or_empty(PLAN_OPERATORS)?,
            delegates: table.tables_or_empty(PLAN_DELEGATES)?,
            buffer_sizes: PLAN_BUFFER_SIZES.required(table.list(PLAN_BUFFER_SIZES)?)?,
        })
    }

    /// Its name, for example `forward`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The program that it belongs to.
    pub fn program(&self) -> &Program<'a> {
        &self.program
    }

    /// Number of values.
    pub fn num_values(&self) -> usize {
        self.values.len()
    }

    /// The value at `index`; [`Value::None`] past the end.
    pub fn value(&self, index: usize) -> Value<'a> {
        Value::read(self, index).unwrap_or(Value::None)
    }

    /// All values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_values()).map(move |index| plan.value(index))
    }

    /// Numbers of the values that are inputs: tensors that are no constants, numbers, strings or
    /// none.
    pub fn inputs(&self) -> List<'a, u32> {
        self.inputs.convert(to_u32)
    }

    /// Numbers of the values that are outputs.
    pub fn outputs(&self) -> List<'a, u32> {
        self.outputs.convert(to_u32)
    }

    /// Number of instructions.
    pub fn num_instructions(&self) -> usize {
        self.instructions.len()
    }

    /// The instruction at `index`, if there is one.
    pub fn instruction(&self, index: usize) -> Option<Instruction<'a>> {
        Instruction::read(self, index).ok()
    }

    /// All instructions in order.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_instructions()).filter_map(move |index| plan.instruction(index))
    }

    /// Number of operators.
    pub fn num_operators(&self) -> usize {
        self.operators.len()
    }

    /// The operator at `index`, if there is one.
    pub fn operator(&self, index: usize) -> Option<Operator<'a>> {
        self.operators.get(index).and_then(|table| Operator::read(&table)).ok()
    }

    /// All operators in order.
    pub fn operators(&self) -> impl Iterator<Item = Operator<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_operators()).filter_map(move |index| plan.operator(index))
    }

    /// Number of delegates.
    pub fn num_delegates(&self) -> usize {
        self.delegates.len()
    }

    /// The delegate at `index`, if there is one.
    pub fn delegate(&self, index: usize) -> Option<DelegatePlan<'a>> {
        DelegatePlan::read(self, index).ok()
    }

    /// All delegates in order.
    pub fn delegates(&self) -> impl Iterator<Item = DelegatePlan<'a>> + Clone + use<'a> {
        let plan = *self;
        (0..self.num_delegates()).filter_map(move |index| plan.delegate(index))
    }

    /// Bytes of each memory that the program planned; a [`Placement`](crate::Placement) refers to
    /// them by place.
    ///
    /// The file's list starts with an entry that is reserved; it is left out here.
    pub fn planned_buffer_sizes(&self) -> List<'a, usize> {
        self.buffer_sizes.rest().convert(to_usize)
    }

    /// How the exporter flattened the inputs, in PyTorch's own words.
    pub fn encoded_inp_str(&self) -> Option<&'a str> {
        let container = self.table.table(PLAN_CONTAINER_META_TYPE).ok().flatten();
        container.and_then(|table| table.text(CONTAINER_ENCODED_INP_STR).ok().flatten())
    }

    /// How the exporter flattened the outputs, in PyTorch's own words.
    pub fn encoded_out_str(&self) -> Option<&'a str> {
        let container = self.table.table(PLAN_CONTAINER_META_TYPE).ok().flatten();
        container.and_then(|table| table.text(CONTAINER_ENCODED_OUT_STR).ok().flatten())
    }

    pub(crate) fn table(&self) -> &Table<'a> {
        &self.table
    }

    pub(crate) fn value_tables(&self) -> Tables<'a> {
        self.values
    }

    pub(crate) fn instruction_tables(&self) -> Tables<'a> {
        self.instructions
    }

    pub(crate) fn operator_tables(&self) -> Tables<'a> {
        self.operators
    }

    pub(crate) fn delegate_tables(&self) -> Tables<'a> {
        self.delegates
    }

    pub(crate) fn input_numbers(&self) -> List<'a, i32> {
        self.inputs
    }

    pub(crate) fn output_numbers(&self) -> List<'a, i32> {
        self.outputs
    }

    pub(crate) fn buffer_sizes(&self) -> List<'a, i64> {
        self.buffer_sizes
    }
}
