//! Contents of a program as data.

use std::collections::{BTreeMap, BTreeSet};

use afferent_core::{Arg, CompileSpec, Dynamism, KernelLists, find_kernel};
use afferent_runtime::{
    Method, ModelFile, ModelOptions,
    program::{DelegatePlan, Instruction, MethodPlan, TensorData, TensorMeta, Value},
};
use serde::Serialize;

use crate::describe;

/// Contents of a program file.
#[derive(Debug, Serialize)]
pub struct ProgramContents {
    /// Path of the file.
    pub file: String,
    /// Size of the file in bytes.
    pub bytes: usize,
    /// Bytes of the program's flatbuffer: its methods, and the constants of old exporters.
    pub flatbuffer_bytes: usize,
    /// Bytes of each segment: constants, named data, blobs of delegates.
    pub segment_bytes: Vec<usize>,
    /// Methods with inputs or instructions.
    pub methods: Vec<MethodContents>,
    /// Constant methods (metadata): name, and outputs as text.
    pub metadata: BTreeMap<String, Vec<String>>,
    /// Named data.
    pub named_data: Vec<NamedBytes>,
    /// Number of bundled test cases of each method.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub test_cases: Vec<TestCaseCount>,
}

/// Size of a named object.
#[derive(Debug, Serialize)]
pub struct NamedBytes {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
}

/// Number of bundled test cases of a method.
#[derive(Debug, Serialize)]
pub struct TestCaseCount {
    /// Name of the method.
    pub method: String,
    /// Number of cases.
    pub cases: usize,
}

/// Contents of a method.
#[derive(Debug, Serialize)]
pub struct MethodContents {
    /// Name of the method.
    pub name: String,
    /// Inputs.
    pub inputs: Vec<ValueContents>,
    /// Outputs.
    pub outputs: Vec<ValueContents>,
    /// Number of values.
    pub values: usize,
    /// Number of instructions.
    pub instructions: usize,
    /// Operators.
    pub operators: Vec<OperatorContents>,
    /// Delegates.
    pub delegates: Vec<DelegateContents>,
    /// Bytes of each planned buffer, by memory id. Ids start at 1.
    pub planned_bytes: BTreeMap<usize, usize>,
    /// Bytes of the tables of the loaded method.
    pub table_bytes: usize,
    /// Constants in the program. Several views of one constant count once.
    pub constants: ByteTotal,
    /// Constants in named data or in a data file.
    pub external: Vec<NamedBytes>,
    /// Mutable buffers.
    pub mutable_buffers: Vec<MutableBufferContents>,
    /// Bytes of the loaded method: tables, planned buffers, constants and blobs. Saturates.
    pub bytes: usize,
}

/// Number of objects and their total size.
#[derive(Debug, Serialize, Default)]
pub struct ByteTotal {
    /// Number of objects.
    pub count: usize,
    /// Total size in bytes.
    pub bytes: usize,
}

/// Input or output of a method.
#[derive(Debug, Serialize)]
pub struct ValueContents {
    /// Description, such as `f32[1, 576]`.
    pub description: String,
    /// Layout, if it is a tensor.
    #[serde(flatten)]
    pub tensor: Option<TensorContents>,
}

/// Layout of a tensor.
#[derive(Debug, Serialize)]
pub struct TensorContents {
    /// Short name of the dtype.
    pub dtype: &'static str,
    /// Sizes; the maximum of those that may change.
    pub sizes: Vec<usize>,
    /// Shape dynamism: `static`, `bounded` or `unbounded`.
    pub shape: &'static str,
    /// Dimensions in memory order, outermost first.
    pub dim_order: Vec<u8>,
    /// Size in bytes.
    pub bytes: usize,
    /// Memory id and offset in the memory plan.
    pub planned_at: Option<(usize, usize)>,
    /// Fully qualified name in the exported module.
    pub name: Option<String>,
}

/// Operator of a method.
#[derive(Debug, Serialize)]
pub struct OperatorContents {
    /// Name and overload.
    pub name: String,
    /// Number of instructions that call it.
    pub calls: usize,
    /// True if the kernel lists have a kernel for it.
    pub kernel: bool,
}

/// Delegate of a method.
#[derive(Debug, Serialize)]
pub struct DelegateContents {
    /// Name of the backend.
    pub backend: String,
    /// Size of the blob in bytes.
    pub bytes: usize,
    /// Number of instructions that call it.
    pub calls: usize,
    /// Compile specs.
    pub compile_specs: Vec<CompileSpecContents>,
    /// True if the backend is in the list and can run on this machine.
    pub available: bool,
}

/// Compile spec of a delegate.
#[derive(Debug, Serialize)]
pub struct CompileSpecContents {
    /// Key.
    pub key: String,
    /// Size of the value in bytes.
    pub bytes: usize,
    /// Value, if it is short text or one byte.
    pub value: Option<String>,
}

/// Mutable buffer of a method.
#[derive(Debug, Serialize)]
pub struct MutableBufferContents {
    /// Fully qualified name in the exported module, if the exporter has recorded it.
    pub name: Option<String>,
    /// Description, such as `f32[1, 576]`.
    pub description: String,
    /// Size in bytes.
    pub bytes: usize,
    /// True if the program has an initial value. Otherwise the buffer starts with zeros.
    pub initialized: bool,
}

impl ProgramContents {
    /// Reads the contents of `file`. `options` provides the kernel lists and backends for
    /// [`OperatorContents::kernel`] and [`DelegateContents::available`].
    pub fn of(file: &ModelFile, options: &ModelOptions) -> Self {
        let program = file.program();
        let is_metadata = |plan: &MethodPlan<'_>| {
            plan.num_instructions() == 0 && plan.inputs().is_empty() && !plan.outputs().is_empty()
        };
        let (metadata, methods): (Vec<_>, Vec<_>) = program.methods().partition(is_metadata);
        let metadata = metadata.iter().map(|plan| {
            let values = plan.outputs().iter().map(|value| describe(plan, value)).collect();
            (plan.name().to_owned(), values)
        });
        let named =
            |(name, data): (&str, &[u8])| NamedBytes { name: name.to_owned(), bytes: data.len() };
        let suites = file.bundled().into_iter().flat_map(|bundled| bundled.suites());
        Self {
            file: file.path().display().to_string(),
            bytes: file.size(),
            flatbuffer_bytes: program.flatbuffer_len(),
            segment_bytes: program.segment_entries().map(<[u8]>::len).collect(),
            methods: methods.iter().map(|plan| MethodContents::of(plan, options)).collect(),
            metadata: metadata.collect(),
            named_data: program.named_data_entries().map(named).collect(),
            test_cases: suites
                .map(|suite| TestCaseCount {
                    method: suite.method.to_owned(),
                    cases: suite.cases().len(),
                })
                .collect(),
        }
    }
}

impl MethodContents {
    fn of(plan: &MethodPlan<'_>, options: &ModelOptions) -> Self {
        let mut contents = Self {
            name: plan.name().to_owned(),
            inputs: plan.inputs().iter().map(|value| ValueContents::of(plan, value)).collect(),
            outputs: plan.outputs().iter().map(|value| ValueContents::of(plan, value)).collect(),
            values: plan.num_values(),
            instructions: plan.num_instructions(),
            operators: Vec::new(),
            delegates: Vec::new(),
            planned_bytes: (1..).zip(plan.planned_buffer_sizes().iter()).collect(),
            table_bytes: Method::table_bytes(plan),
            constants: ByteTotal::default(),
            external: Vec::new(),
            mutable_buffers: Vec::new(),
            bytes: 0,
        };
        contents.count_calls(plan, options);
        contents.classify_tensors(plan, options);
        let sizes = [contents.table_bytes, contents.constants.bytes].into_iter();
        let sizes = sizes.chain(contents.planned_bytes.values().copied());
        let sizes = sizes.chain(contents.external.iter().map(|named| named.bytes));
        let sizes = sizes.chain(contents.delegates.iter().map(|delegate| delegate.bytes));
        contents.bytes = sizes.fold(0, usize::saturating_add);
        contents
    }

    fn count_calls(&mut self, plan: &MethodPlan<'_>, options: &ModelOptions) {
        let mut operator_calls = vec![0; plan.num_operators()];
        let mut delegate_calls = vec![0; plan.num_delegates()];
        for instruction in plan.instructions() {
            let calls = match instruction {
                Instruction::Kernel { operator, .. } => operator_calls.get_mut(operator as usize),
                Instruction::Delegate { delegate, .. } => delegate_calls.get_mut(delegate as usize),
                _ => None,
            };
            if let Some(calls) = calls {
                *calls += 1;
            }
        }
        let operators = plan.operators().zip(operator_calls).map(|(operator, calls)| {
            let kernel = find_kernel(options.kernels, operator.name, operator.overload).is_some();
            OperatorContents { name: operator.to_string(), calls, kernel }
        });
        self.operators = operators.collect();
        let delegates = plan.delegates().zip(delegate_calls);
        self.delegates = delegates
            .map(|(delegate, calls)| DelegateContents::of(&delegate, calls, options))
            .collect();
    }

    fn classify_tensors(&mut self, plan: &MethodPlan<'_>, options: &ModelOptions) {
        let (buffers, mut seen) = (mutable_buffer_values(plan, options.kernels), BTreeSet::new());
        for (at, value) in plan.values().enumerate() {
            let Value::Tensor(meta) = value else { continue };
            let bytes = meta.layout.nbytes;
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let initialized = match meta.data {
                TensorData::Constant(data) => {
                    if seen.insert(data.as_ptr()) {
                        self.constants.count += 1;
                        self.constants.bytes = self.constants.bytes.saturating_add(bytes);
                    }
                    continue;
                }
                TensorData::External { name, allocation: None } => {
                    self.external.push(NamedBytes { name: name.to_owned(), bytes });
                    continue;
                }
                TensorData::External { .. } | TensorData::Planned { initial: Some(_), .. } => true,
                TensorData::Planned { initial: None, .. } if buffers.contains(&at) => false,
                TensorData::Planned { .. } | TensorData::Unplanned => continue,
            };
            let name = meta.fully_qualified_name.map(str::to_owned);
            let description = describe(plan, at);
            let buffer = MutableBufferContents { name, description, bytes, initialized };
            self.mutable_buffers.push(buffer);
        }
    }
}

/// Values that keep their contents between runs: an instruction reads them before any writes them,
/// and they are not inputs.
fn mutable_buffer_values(plan: &MethodPlan<'_>, kernels: KernelLists<'static>) -> BTreeSet<u32> {
    let (mut read_first, mut written) = (BTreeSet::new(), BTreeSet::new());
    let mut visit = |value: u32, reads: bool, writes: bool| {
        if reads && !written.contains(&value) {
            read_first.insert(value);
        }
        if writes {
            written.insert(value);
        }
    };
    for instruction in plan.instructions() {
        match instruction {
            Instruction::Kernel { operator, args } => {
                let operator = plan.operator(operator as usize);
                let kernel = operator.and_then(|op| find_kernel(kernels, op.name, op.overload));
                let kinds = kernel.map_or(&[][..], |kernel| kernel.args);
                // The values after the arguments repeat the outputs.
                for (value, kind) in args.iter().zip(kinds) {
                    visit(value, !kind.is_written() || *kind == Arg::InOut, kind.is_written());
                }
            }
            Instruction::Move { from, to } => {
                visit(from, true, false);
                visit(to, false, true);
            }
            _ => {}
        }
    }
    let inputs: BTreeSet<u32> = plan.inputs().iter().collect();
    read_first.retain(|value| written.contains(value) && !inputs.contains(value));
    read_first
}

impl DelegateContents {
    fn of(delegate: &DelegatePlan<'_>, calls: usize, options: &ModelOptions) -> Self {
        let spec = |spec: CompileSpec<'_>| CompileSpecContents {
            key: spec.key.to_owned(),
            bytes: spec.value.len(),
            value: short_value(spec.value),
        };
        Self {
            backend: delegate.id.to_owned(),
            bytes: delegate.blob.len(),
            calls,
            compile_specs: delegate.compile_specs().map(spec).collect(),
            available: options.has_backend(delegate.id),
        }
    }
}

/// Value of a compile spec as text, if it is short printable text or one byte.
fn short_value(bytes: &[u8]) -> Option<String> {
    match bytes {
        [] => None,
        [byte] if !byte.is_ascii_graphic() => Some(byte.to_string()),
        _ => {
            let text = str::from_utf8(bytes).ok()?.trim_end_matches('\0');
            let fits = text.len() <= 64 && text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
            fits.then(|| text.to_owned())
        }
    }
}

impl ValueContents {
    fn of(plan: &MethodPlan<'_>, value: u32) -> Self {
        let tensor = match plan.value(value as usize) {
            Value::Tensor(meta) => Some(TensorContents::of(&meta)),
            _ => None,
        };
        Self { description: describe(plan, value), tensor }
    }
}

impl TensorContents {
    fn of(meta: &TensorMeta<'_>) -> Self {
        let planned_at = match meta.data {
            TensorData::Planned { allocation, .. } => {
                Some((allocation.buffer_index + 1, allocation.offset))
            }
            _ => None,
        };
        Self {
            dtype: meta.layout.dtype.name(),
            sizes: meta.layout.sizes.iter().collect(),
            shape: match meta.dynamism {
                Dynamism::Static => "static",
                Dynamism::Bounded => "bounded",
                Dynamism::Unbounded => "unbounded",
            },
            dim_order: meta.layout.dim_order.to_vec(),
            bytes: meta.layout.nbytes,
            planned_at,
            name: meta.fully_qualified_name.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_of_huge_planned_buffers_saturates() {
        let mut bytes =
            include_bytes!("../../../tests/conformance/data/programs/shared_state/model.pte")
                .to_vec();
        // `non_const_buffer_sizes` of the first method.
        let sizes = [0_i64, 48, 16].map(i64::to_le_bytes).concat();
        let at = bytes.windows(sizes.len()).position(|window| window == sizes).unwrap();
        for size in bytes[at + 8..][..16].as_chunks_mut().0 {
            *size = i64::MAX.to_le_bytes();
        }
        let file = ModelFile::from_bytes("model.pte", &bytes).unwrap();
        let contents = ProgramContents::of(&file, &ModelOptions::new(&[]));
        let method = &contents.methods[0];
        assert_eq!(method.planned_bytes, [(1, i64::MAX as usize), (2, i64::MAX as usize)].into());
        assert_eq!(method.bytes, usize::MAX);
    }
}
