//! Validation of a file: reads every field once and bounds the total work.

use crate::{
    delegate::{DelegatePlan, Operator},
    error::{AtLocation, ErrorKind, FieldError, FieldResult, FileKind, Location, ProgramError},
    instruction::Instruction,
    plan::MethodPlan,
    program::Program,
    schema::*,
    segments::NamedData,
    tensor::{TensorMeta, check_device},
    value::{Value, ValueType, required_vector},
};
use afferent_flatbuffer::{Field, Scalar, Table, Vector};

/// Work allowed for each byte of the file: entries read plus bytes compared or copied.
///
/// FlatBuffers may share objects, and a small file can therefore describe a huge program. Files
/// written by the exporter need less than one unit for each byte.
const WORK_PER_BYTE: u64 = 4;

/// Remaining work.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new(file_len: usize) -> Self {
        Self((file_len as u64).saturating_mul(WORK_PER_BYTE))
    }

    /// Deducts `work` for `field`.
    ///
    /// # Errors
    /// [`ErrorKind::WorkLimit`] if less than `work` remains.
    pub(crate) fn spend(&mut self, field: Field, work: usize) -> FieldResult<()> {
        let left = self.0.checked_sub(work as u64);
        self.0 = left.ok_or(field.error(ErrorKind::WorkLimit))?;
        Ok(())
    }
}

/// Checks all of `program`, whose flatbuffer has `flatbuffer_len` bytes.
pub(crate) fn check_program(
    program: &Program<'_>,
    flatbuffer_len: usize,
) -> Result<(), ProgramError> {
    let mut budget = Budget::new(flatbuffer_len);
    let location = Location::File(FileKind::Program);
    check_root(program, &mut budget).map_err(|error| error.at(location))?;
    check_segments(program, &mut budget)?;
    for index in 0..program.num_methods() {
        let location = Location::Method(to_u32(index));
        let at = |error: FieldError| error.at(location);
        let plan = MethodPlan::read(program, index).map_err(at)?;
        check_unique_name(program, index, plan.name().as_bytes(), &mut budget).map_err(at)?;
        MethodCheck { plan, method: to_u32(index), budget: &mut budget }.check()?;
    }
    Ok(())
}

/// Checks that no method before `index` has the same `name`.
fn check_unique_name(
    program: &Program<'_>,
    index: usize,
    name: &[u8],
    budget: &mut Budget,
) -> FieldResult<()> {
    budget.spend(PLAN_NAME, 1 + name.len())?;
    for earlier in 0..index {
        budget.spend(PLAN_NAME, 1)?;
        let earlier = program.plans().get(earlier)?.bytes(PLAN_NAME)?.unwrap_or_default();
        // Only names of equal length are compared byte by byte.
        if earlier.len() != name.len() {
            continue;
        }
        budget.spend(PLAN_NAME, name.len())?;
        if earlier == name {
            return Err(PLAN_NAME.invalid("is the name of an earlier method; names must be unique"));
        }
    }
    Ok(())
}

/// Converts `index` for error messages. FlatBuffers have fewer than 2³² entries.
fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn check_root(program: &Program<'_>, budget: &mut Budget) -> FieldResult<()> {
    let root = program.root();
    if root.scalar::<u32>(PROGRAM_VERSION)? != 0 {
        let feature = "a schema version other than 0; export the model again";
        return Err(PROGRAM_VERSION.error(ErrorKind::NotSupported { feature }));
    }
    let inline = root.tables_or_empty(PROGRAM_CONSTANT_BUFFER)?;
    let segment = root.table(PROGRAM_CONSTANT_SEGMENT)?;
    let offsets = match segment {
        Some(segment) => segment.vector::<u64>(SUBSEGMENT_OFFSETS)?.map_or(0, |v| v.len()),
        None => 0,
    };
    // The first entry always exists; it is reserved for tensors that are not constants.
    if !inline.is_empty() && offsets > 1 {
        let reason = "and Program.constant_segment both contain constants; only one of them may";
        return Err(PROGRAM_CONSTANT_BUFFER.invalid(reason));
    }
    budget.spend(PROGRAM_SEGMENTS, program.segments().table.len())
}

/// Checks the segments and the named data.
fn check_segments(program: &Program<'_>, budget: &mut Budget) -> Result<(), ProgramError> {
    let (file, segments) = (FileKind::Program, program.segments());
    for index in (0..segments.table.len()).map(to_u32) {
        let segment = segments.get(PROGRAM_SEGMENTS, index);
        segment.map_err(|error| error.at(Location::Segment(index)))?;
    }
    check_named_data(&program.named_entries(), file, budget, |_, _| Ok(()))
}

/// Checks the named data of `file`, and calls `check` for each entry.
pub(crate) fn check_named_data<'a>(
    named: &NamedData<'a>,
    file: FileKind,
    budget: &mut Budget,
    check: impl Fn(&Table<'a>, &'a [u8]) -> FieldResult<()>,
) -> Result<(), ProgramError> {
    for index in 0..named.entries.len() {
        let entry = named.get(index).and_then(|(key, table, data)| {
            budget.spend(named.entries.field, 1 + key.len())?;
            check(&table, data)
        });
        entry.map_err(|error| error.at(Location::Entry { file, entry: to_u32(index) }))?;
    }
    Ok(())
}

/// Validation of one method.
struct MethodCheck<'a, 'b> {
    plan: MethodPlan<'a>,
    method: u32,
    budget: &'b mut Budget,
}

impl<'a> MethodCheck<'a, '_> {
    fn check(&mut self) -> Result<(), ProgramError> {
        let (plan, method) = (self.plan, self.method);
        self.method_fields().map_err(|error| error.at(Location::Method(method)))?;
        for index in 0..plan.num_values() {
            let location = Location::Value { method, value: to_u32(index) };
            self.value(index).map_err(|error| error.at(location))?;
        }
        self.inputs_and_outputs().map_err(|error| error.at(Location::Method(method)))?;
        for index in 0..plan.num_operators() {
            let location = Location::Operator { method, operator: to_u32(index) };
            self.operator(index).map_err(|error| error.at(location))?;
        }
        for index in 0..plan.num_delegates() {
            let location = Location::Delegate { method, delegate: to_u32(index) };
            self.delegate(index).map_err(|error| error.at(location))?;
        }
        for index in 0..plan.num_instructions() {
            let location = Location::Instruction { method, instruction: to_u32(index) };
            self.instruction(index).map_err(|error| error.at(location))?;
        }
        Ok(())
    }

    fn spend(&mut self, field: Field, work: usize) -> FieldResult<()> {
        self.budget.spend(field, work)
    }

    fn method_fields(&mut self) -> FieldResult<()> {
        let table = self.plan.table();
        if table.tables_or_empty(PLAN_CHAINS)?.len() > 1 {
            let feature = "more than one chain";
            return Err(PLAN_CHAINS.error(ErrorKind::NotSupported { feature }));
        }
        let sizes = self.plan.buffer_sizes();
        self.spend(PLAN_BUFFER_SIZES, sizes.len())?;
        for size in sizes.iter() {
            let size = u64::try_from(size).map_err(|_| PLAN_BUFFER_SIZES.invalid("is negative"))?;
            PLAN_BUFFER_SIZES.to_usize(size)?;
        }
        let devices = self.plan.table().tables_or_empty(PLAN_BUFFER_DEVICE)?;
        self.spend(PLAN_BUFFER_DEVICE, devices.len())?;
        for device in devices.iter() {
            check_device(BUFFER_DEVICE_TYPE, device?.scalar(BUFFER_DEVICE_TYPE)?)?;
        }
        let container = self.plan.table().table(PLAN_CONTAINER_META_TYPE)?;
        for field in [CONTAINER_ENCODED_INP_STR, CONTAINER_ENCODED_OUT_STR] {
            let Some(container) = container else { continue };
            self.string(&container, field)?;
        }
        Ok(())
    }

    /// Checks a string of any length; deducts its length before reading it.
    fn string(&mut self, table: &Table<'a>, field: Field) -> FieldResult<()> {
        self.spend(field, table.bytes(field)?.map_or(0, <[u8]>::len))?;
        table.string(field).map(|_| ())
    }

    fn value(&mut self, index: usize) -> FieldResult<()> {
        self.spend(PLAN_VALUES, 1)?;
        let value_type = ValueType::read(&self.plan, to_u32(index))?;
        if value_type != ValueType::None {
            let table = self.plan.value_tables().get(index)?.table(EVALUE_VAL)?;
            let table = EVALUE_VAL.required(table)?;
            self.items(value_type, &table)?;
        }
        if let Value::Tensor(tensor) = Value::read(&self.plan, index)? {
            self.tensor(&tensor)?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &TensorMeta<'a>) -> FieldResult<()> {
        let name = tensor.fully_qualified_name.map_or(0, str::len);
        self.spend(EXTRA_FULLY_QUALIFIED_NAME, tensor.layout.sizes.len() + name)
    }

    /// Checks the contents of a list or a string.
    fn items(&mut self, value_type: ValueType, table: &Table<'a>) -> FieldResult<()> {
        match value_type {
            ValueType::Str => self.string(table, STRING_VAL),
            ValueType::IntList => {
                let items = required_vector::<i64>(table, INT_LIST_ITEMS)?;
                let is_int = |t| matches!(t, ValueType::Int | ValueType::Bool | ValueType::None);
                self.indices(INT_LIST_ITEMS, items, "an int", is_int)
            }
            ValueType::TensorList => {
                let items = required_vector::<i32>(table, TENSOR_LIST_ITEMS)?;
                let is_tensor = |t| t == ValueType::Tensor;
                self.indices(TENSOR_LIST_ITEMS, items, "a tensor", is_tensor)
            }
            ValueType::OptionalTensorList => {
                let items = required_vector::<i32>(table, OPTIONAL_TENSOR_LIST_ITEMS)?;
                let is_tensor = |t| matches!(t, ValueType::Tensor | ValueType::None);
                self.indices(OPTIONAL_TENSOR_LIST_ITEMS, items, "a tensor or none", is_tensor)
            }
            // Values may share a list, but loading copies it for each of them.
            ValueType::DoubleList => {
                let items = required_vector::<f64>(table, DOUBLE_LIST_ITEMS)?;
                self.spend(DOUBLE_LIST_ITEMS, items.len())
            }
            _ => Ok(()),
        }
    }

    /// Checks that each item is the index of a value whose type is accepted.
    fn indices<T: Scalar + Into<i64>>(
        &mut self,
        field: Field,
        items: Vector<'a, T>,
        expected: &'static str,
        accepts: fn(ValueType) -> bool,
    ) -> FieldResult<()> {
        self.spend(field, items.len())?;
        for item in items.iter().map(Into::<i64>::into) {
            if item == -1 && field.1 == OPTIONAL_TENSOR_LIST_ITEMS.1 {
                continue;
            }
            let value = field.index(item, self.plan.num_values())?;
            if !accepts(ValueType::read(&self.plan, value)?) {
                return Err(field.error(ErrorKind::WrongValueType { value, expected }));
            }
        }
        Ok(())
    }

    fn inputs_and_outputs(&mut self) -> FieldResult<()> {
        let (inputs, outputs) = (self.plan.input_indices(), self.plan.output_indices());
        self.indices(PLAN_INPUTS, inputs, "", |_| true)?;
        self.indices(PLAN_OUTPUTS, outputs, "", |_| true)?;
        for input in self.plan.inputs() {
            if ValueType::read(&self.plan, input)? != ValueType::Tensor {
                continue;
            }
            let Value::Tensor(tensor) = Value::read(&self.plan, input as usize)? else { continue };
            self.tensor(&tensor)?;
            if tensor.is_constant() {
                let expected = "a mutable tensor";
                return Err(PLAN_INPUTS.error(ErrorKind::WrongValueType { value: input, expected }));
            }
        }
        Ok(())
    }

    fn operator(&mut self, index: usize) -> FieldResult<()> {
        let operator = Operator::read(&self.plan.operator_tables().get(index)?)?;
        self.spend(PLAN_OPERATORS, 1 + operator.name.len() + operator.overload.len())
    }

    fn delegate(&mut self, index: usize) -> FieldResult<()> {
        let delegate = DelegatePlan::read(&self.plan, index)?;
        self.spend(PLAN_DELEGATES, 1 + delegate.id.len())?;
        for index in 0..delegate.num_compile_specs() {
            let spec = delegate.read_compile_spec(index)?;
            self.spend(DELEGATE_COMPILE_SPECS, 1 + spec.key.len())?;
        }
        Ok(())
    }

    fn instruction(&mut self, index: usize) -> FieldResult<()> {
        self.spend(CHAIN_INSTRUCTIONS, 1)?;
        let args = match Instruction::read(&self.plan, index)? {
            Instruction::Kernel { args, .. } => (KERNEL_CALL_ARGS, args),
            Instruction::Delegate { args, .. } => (DELEGATE_CALL_ARGS, args),
            _ => return Ok(()),
        };
        self.indices(args.0, args.1, "", |_| true)
    }
}
