//! The one walk over everything that a file can give.

use crate::{
    delegate::{DelegatePlan, Operator},
    error::{At, Defect, Fault, FileKind, Place, ProgramError, Read},
    instruction::Instruction,
    plan::MethodPlan,
    program::Program,
    schema::*,
    segments::NamedData,
    tensor::TensorMeta,
    value::{Kind, Value, list},
};
use afferent_flatbuffer::{Field, List, Number, Table};

/// How much work a file may cause.
///
/// Objects of a flatbuffer may be shared, so that a small file can describe a huge program. Each
/// byte of the file pays for as many entries or bytes as stand here; what the exporter writes
/// costs less than one.
const WORK_PER_BYTE: u64 = 4;

/// The work that is left.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new(file_len: usize) -> Self {
        Self((file_len as u64).saturating_mul(WORK_PER_BYTE))
    }

    /// Takes `work` for reading `field`.
    pub(crate) fn spend(&mut self, field: Field, work: usize) -> Read<()> {
        let left = self.0.checked_sub(work as u64);
        self.0 = left.ok_or(field.fault(Fault::Budget))?;
        Ok(())
    }
}

/// Checks what `program`, whose flatbuffer has `len` bytes, can give.
pub(crate) fn program(program: &Program<'_>, len: usize) -> Result<(), ProgramError> {
    let mut budget = Budget::new(len);
    let place = Place::File(FileKind::Program);
    whole_file(program, &mut budget).map_err(|defect| defect.at(place))?;
    segments(program, &mut budget)?;
    for index in 0..program.num_methods() {
        let place = Place::Method(number(index));
        let at = |defect: Defect| defect.at(place);
        let plan = MethodPlan::read(program, index).map_err(at)?;
        own_name(program, index, plan.name().as_bytes(), &mut budget).map_err(at)?;
        Check { plan, method: number(index), budget: &mut budget }.plan()?;
    }
    Ok(())
}

/// Checks that no method before number `index` has its `name`.
fn own_name(program: &Program<'_>, index: usize, name: &[u8], budget: &mut Budget) -> Read<()> {
    budget.spend(PLAN_NAME, 1 + name.len())?;
    for earlier in 0..index {
        budget.spend(PLAN_NAME, 1)?;
        let earlier = program.plans().get(earlier)?.bytes(PLAN_NAME)?.unwrap_or_default();
        // Only names of one length are compared byte by byte.
        if earlier.len() != name.len() {
            continue;
        }
        budget.spend(PLAN_NAME, name.len())?;
        if earlier == name {
            return Err(PLAN_NAME.invalid("is the name of another method, too"));
        }
    }
    Ok(())
}

/// `index` for a message; there are never more entries than this can count.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn whole_file(program: &Program<'_>, budget: &mut Budget) -> Read<()> {
    let root = program.root();
    if root.number::<u32>(PROGRAM_VERSION)? != 0 {
        let what = "a schema version other than 0; export the model again";
        return Err(PROGRAM_VERSION.fault(Fault::NotSupported { what }));
    }
    let inline = root.tables_or_empty(PROGRAM_CONSTANT_BUFFER)?;
    let segment = root.table(PROGRAM_CONSTANT_SEGMENT)?;
    let offsets = match segment {
        Some(segment) => segment.list::<u64>(SUBSEGMENT_OFFSETS)?.map_or(0, |list| list.len()),
        None => 0,
    };
    // The first entry is reserved for tensors that are no constants, and stands there always.
    if !inline.is_empty() && offsets > 1 {
        let reason = "and Program.constant_segment hold constants; only one of them may";
        return Err(PROGRAM_CONSTANT_BUFFER.invalid(reason));
    }
    budget.spend(PROGRAM_SEGMENTS, program.segments().table.len())
}

/// Checks the segments, and the data in them that has names.
fn segments(program: &Program<'_>, budget: &mut Budget) -> Result<(), ProgramError> {
    let (file, segments) = (FileKind::Program, program.segments());
    for index in (0..segments.table.len()).map(number) {
        let segment = segments.get(PROGRAM_SEGMENTS, index);
        segment.map_err(|defect| defect.at(Place::Segment(index)))?;
    }
    named_data(&program.named_entries(), file, budget, |_, _| Ok(()))
}

/// Checks named data of a `file`, and each entry also with `check`.
pub(crate) fn named_data<'a>(
    named: &NamedData<'a>,
    file: FileKind,
    budget: &mut Budget,
    check: impl Fn(&Table<'a>, &'a [u8]) -> Read<()>,
) -> Result<(), ProgramError> {
    for index in 0..named.entries.len() {
        let entry = named.get(index).and_then(|(key, table, data)| {
            budget.spend(named.entries.field, 1 + key.len())?;
            check(&table, data)
        });
        entry.map_err(|defect| defect.at(Place::Entry { file, entry: number(index) }))?;
    }
    Ok(())
}

struct Check<'a, 'b> {
    plan: MethodPlan<'a>,
    method: u32,
    budget: &'b mut Budget,
}

impl<'a> Check<'a, '_> {
    fn plan(&mut self) -> Result<(), ProgramError> {
        let (plan, method) = (self.plan, self.method);
        self.tables().map_err(|defect| defect.at(Place::Method(method)))?;
        for index in 0..plan.num_values() {
            let place = Place::Value { method, value: number(index) };
            self.value(index).map_err(|defect| defect.at(place))?;
        }
        self.ends().map_err(|defect| defect.at(Place::Method(method)))?;
        for index in 0..plan.num_operators() {
            let place = Place::Operator { method, operator: number(index) };
            self.operator(index).map_err(|defect| defect.at(place))?;
        }
        for index in 0..plan.num_delegates() {
            let place = Place::Delegate { method, delegate: number(index) };
            self.delegate(index).map_err(|defect| defect.at(place))?;
        }
        for index in 0..plan.num_instructions() {
            let place = Place::Instruction { method, instruction: number(index) };
            self.instruction(index).map_err(|defect| defect.at(place))?;
        }
        Ok(())
    }

    fn spend(&mut self, field: Field, work: usize) -> Read<()> {
        self.budget.spend(field, work)
    }

    fn tables(&mut self) -> Read<()> {
        let table = self.plan.table();
        if table.tables_or_empty(PLAN_CHAINS)?.len() > 1 {
            let what = "more than one chain of instructions";
            return Err(PLAN_CHAINS.fault(Fault::NotSupported { what }));
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
            if device?.number::<u8>(BUFFER_DEVICE_TYPE)? != 0 {
                let what = "planned memory on another device than the CPU";
                return Err(BUFFER_DEVICE_TYPE.fault(Fault::NotSupported { what }));
            }
        }
        let container = self.plan.table().table(PLAN_CONTAINER_META_TYPE)?;
        for field in [CONTAINER_ENCODED_INP_STR, CONTAINER_ENCODED_OUT_STR] {
            let Some(container) = container else { continue };
            self.text(&container, field)?;
        }
        Ok(())
    }

    /// Checks a string of any length, and pays before reading it.
    fn text(&mut self, table: &Table<'a>, field: Field) -> Read<()> {
        self.spend(field, table.bytes(field)?.map_or(0, <[u8]>::len))?;
        table.text(field).map(|_| ())
    }

    fn value(&mut self, index: usize) -> Read<()> {
        self.spend(PLAN_VALUES, 1)?;
        let kind = Kind::read(&self.plan, number(index))?;
        if kind != Kind::None {
            let table = self.plan.value_tables().get(index)?.table(EVALUE_VAL)?;
            let table = EVALUE_VAL.required(table)?;
            self.items(kind, &table)?;
        }
        if let Value::Tensor(tensor) = Value::read(&self.plan, index)? {
            self.tensor(&tensor)?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &TensorMeta<'a>) -> Read<()> {
        let name = tensor.fully_qualified_name.map_or(0, str::len);
        self.spend(EXTRA_FULLY_QUALIFIED_NAME, tensor.layout.sizes.len() + name)
    }

    /// Checks what is in a list or a string.
    fn items(&mut self, kind: Kind, table: &Table<'a>) -> Read<()> {
        match kind {
            Kind::Str => self.text(table, STRING_VAL),
            Kind::IntList => {
                let is_int = |kind| matches!(kind, Kind::Int | Kind::Bool | Kind::None);
                self.list(INT_LIST_ITEMS, list::<i64>(table, INT_LIST_ITEMS)?, "an int", is_int)
            }
            Kind::TensorList => {
                let items = list::<i32>(table, TENSOR_LIST_ITEMS)?;
                let is_tensor = |kind| kind == Kind::Tensor;
                self.list(TENSOR_LIST_ITEMS, items, "a tensor", is_tensor)
            }
            Kind::OptionalTensorList => {
                let items = list::<i32>(table, OPTIONAL_TENSOR_LIST_ITEMS)?;
                let is_tensor = |kind| matches!(kind, Kind::Tensor | Kind::None);
                self.list(OPTIONAL_TENSOR_LIST_ITEMS, items, "a tensor or none", is_tensor)
            }
            // Values may share a list, and each has its own table of numbers when it is loaded.
            Kind::DoubleList => {
                self.spend(DOUBLE_LIST_ITEMS, list::<f64>(table, DOUBLE_LIST_ITEMS)?.len())
            }
            _ => Ok(()),
        }
    }

    /// Checks that each of `items` is the number of a value whose kind is accepted.
    fn list<T: Number + Into<i64>>(
        &mut self,
        field: Field,
        items: List<'a, T>,
        wanted: &'static str,
        accepts: fn(Kind) -> bool,
    ) -> Read<()> {
        self.spend(field, items.len())?;
        for item in items.iter().map(Into::<i64>::into) {
            if item == -1 && field.1 == OPTIONAL_TENSOR_LIST_ITEMS.1 {
                continue;
            }
            let value = field.index(item, self.plan.num_values())?;
            if !accepts(Kind::read(&self.plan, value)?) {
                return Err(field.fault(Fault::Kind { value, wanted }));
            }
        }
        Ok(())
    }

    /// Checks inputs and outputs.
    fn ends(&mut self) -> Read<()> {
        let (inputs, outputs) = (self.plan.input_numbers(), self.plan.output_numbers());
        self.list(PLAN_INPUTS, inputs, "", |_| true)?;
        self.list(PLAN_OUTPUTS, outputs, "", |_| true)?;
        for input in self.plan.inputs() {
            if Kind::read(&self.plan, input)? != Kind::Tensor {
                continue;
            }
            let Value::Tensor(tensor) = Value::read(&self.plan, input as usize)? else { continue };
            self.tensor(&tensor)?;
            if tensor.is_constant() {
                let wanted = "a tensor that a caller may set";
                return Err(PLAN_INPUTS.fault(Fault::Kind { value: input, wanted }));
            }
        }
        Ok(())
    }

    fn operator(&mut self, index: usize) -> Read<()> {
        let operator = Operator::read(&self.plan.operator_tables().get(index)?)?;
        self.spend(PLAN_OPERATORS, 1 + operator.name.len() + operator.overload.len())
    }

    fn delegate(&mut self, index: usize) -> Read<()> {
        let delegate = DelegatePlan::read(&self.plan, index)?;
        self.spend(PLAN_DELEGATES, 1 + delegate.id.len())?;
        for index in 0..delegate.num_compile_specs() {
            let spec = delegate.read_compile_spec(index)?;
            self.spend(DELEGATE_COMPILE_SPECS, 1 + spec.key.len())?;
        }
        Ok(())
    }

    fn instruction(&mut self, index: usize) -> Read<()> {
        self.spend(CHAIN_INSTRUCTIONS, 1)?;
        let args = match Instruction::read(&self.plan, index)? {
            Instruction::Kernel { args, .. } => (KERNEL_CALL_ARGS, args),
            Instruction::Delegate { args, .. } => (DELEGATE_CALL_ARGS, args),
            _ => return Ok(()),
        };
        self.list(args.0, args.1, "", |_| true)
    }
}
