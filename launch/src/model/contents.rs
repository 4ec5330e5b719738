//! What is in a program, as data: for `afferent model info`.

use std::collections::{BTreeMap, BTreeSet};

use afferent_core::{Arg, CompileSpec, Dynamism, KernelLists, find_kernel};
use afferent_runtime::{
    Method, ModelFile, ModelOptions,
    program::{DelegatePlan, Instruction, MethodPlan, TensorData, TensorMeta, Value},
};
use serde::Serialize;

use super::input::describe;

/// What is in a program file.
#[derive(Serialize)]
pub(super) struct Contents {
    pub(super) file: String,
    /// Bytes of the file.
    pub(super) bytes: usize,
    /// Bytes of the program's flatbuffer: its methods, and constants of old exporters.
    pub(super) flatbuffer_bytes: usize,
    /// Bytes of each segment after it: constants, named data, blobs of delegates.
    pub(super) segment_bytes: Vec<usize>,
    pub(super) methods: Vec<MethodContents>,
    /// Metadata methods: name and what each returns.
    pub(super) metadata: BTreeMap<String, Vec<String>>,
    pub(super) named_data: Vec<Named>,
    /// Test cases for each method, of a bundled program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) test_cases: Vec<TestCases>,
}

/// Something with a name and bytes.
#[derive(Serialize)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) bytes: usize,
}

#[derive(Serialize)]
pub(super) struct TestCases {
    pub(super) method: String,
    pub(super) cases: usize,
}

#[derive(Serialize)]
pub(super) struct MethodContents {
    pub(super) name: String,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) values: usize,
    pub(super) instructions: usize,
    pub(super) operators: Vec<OperatorContents>,
    pub(super) delegates: Vec<DelegateContents>,
    /// Bytes that the program plans, by memory id, which counts from 1.
    pub(super) planned_bytes: BTreeMap<usize, usize>,
    /// Bytes of the tables that loading makes.
    pub(super) table_bytes: usize,
    /// Tensors that never change and lie in the program; views of one count once.
    pub(super) constants: Total,
    /// Tensors that lie in named data or in another file.
    pub(super) external: Vec<Named>,
    /// State that stays from run to run.
    pub(super) mutable_buffers: Vec<Buffer>,
    /// Bytes that the method takes once it is loaded: tables, planned memory, constants and blobs.
    pub(super) bytes: usize,
}

/// How many, and how many bytes.
#[derive(Serialize, Default)]
pub(super) struct Total {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// An input or an output.
#[derive(Serialize)]
pub(super) struct Port {
    /// In words, such as `f32[1, 576]`.
    pub(super) what: String,
    /// Of a tensor: its layout.
    #[serde(flatten)]
    pub(super) tensor: Option<TensorContents>,
}

#[derive(Serialize)]
pub(super) struct TensorContents {
    pub(super) dtype: &'static str,
    /// The largest ones, where they may change.
    pub(super) sizes: Vec<usize>,
    /// `static`, `bounded` or `unbounded`.
    pub(super) shape: &'static str,
    /// The dimensions from the outermost in memory to the innermost.
    pub(super) dim_order: Vec<u8>,
    pub(super) bytes: usize,
    /// Where the program plans it: memory id and offset.
    pub(super) planned_at: Option<(usize, usize)>,
    /// Its name in the exported module.
    pub(super) name: Option<String>,
}

#[derive(Serialize)]
pub(super) struct OperatorContents {
    pub(super) name: String,
    pub(super) calls: usize,
    /// Whether this build has a kernel for it.
    pub(super) kernel: bool,
}

#[derive(Serialize)]
pub(super) struct DelegateContents {
    pub(super) backend: String,
    /// Of its blob.
    pub(super) bytes: usize,
    pub(super) calls: usize,
    pub(super) compile_specs: Vec<Spec>,
    /// Whether this build has the backend and this machine can run it.
    pub(super) available: bool,
}

#[derive(Serialize)]
pub(super) struct Spec {
    pub(super) key: String,
    pub(super) bytes: usize,
    /// The value, where it is short text or a small number.
    pub(super) value: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Buffer {
    /// Its name in the exported module, where the exporter kept it.
    pub(super) name: Option<String>,
    pub(super) what: String,
    pub(super) bytes: usize,
    /// Whether it starts with values of the program; otherwise with zeros.
    pub(super) initialized: bool,
}

impl Contents {
    pub(super) fn of(file: &ModelFile, models: &ModelOptions) -> Self {
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
            |(name, data): (&str, &[u8])| Named { name: name.to_owned(), bytes: data.len() };
        let suites = file.bundled().into_iter().flat_map(|bundled| bundled.suites());
        Self {
            file: file.path().display().to_string(),
            bytes: file.size(),
            flatbuffer_bytes: program.flatbuffer_len(),
            segment_bytes: program.segment_entries().map(<[u8]>::len).collect(),
            methods: methods.iter().map(|plan| MethodContents::of(plan, models)).collect(),
            metadata: metadata.collect(),
            named_data: program.named_data_entries().map(named).collect(),
            test_cases: suites
                .map(|suite| TestCases {
                    method: suite.method.to_owned(),
                    cases: suite.cases().len(),
                })
                .collect(),
        }
    }
}

impl MethodContents {
    fn of(plan: &MethodPlan<'_>, models: &ModelOptions) -> Self {
        let mut contents = Self {
            name: plan.name().to_owned(),
            inputs: plan.inputs().iter().map(|value| Port::of(plan, value)).collect(),
            outputs: plan.outputs().iter().map(|value| Port::of(plan, value)).collect(),
            values: plan.num_values(),
            instructions: plan.num_instructions(),
            operators: Vec::new(),
            delegates: Vec::new(),
            planned_bytes: (1..).zip(plan.planned_buffer_sizes().iter()).collect(),
            table_bytes: Method::table_bytes(plan),
            constants: Total::default(),
            external: Vec::new(),
            mutable_buffers: Vec::new(),
            bytes: 0,
        };
        contents.count_calls(plan, models);
        contents.sort_tensors(plan, models);
        let blobs: usize = contents.delegates.iter().map(|delegate| delegate.bytes).sum();
        let external: usize = contents.external.iter().map(|named| named.bytes).sum();
        let planned: usize = contents.planned_bytes.values().sum();
        let constants = contents.constants.bytes;
        contents.bytes = contents.table_bytes + planned + constants + external + blobs;
        contents
    }

    fn count_calls(&mut self, plan: &MethodPlan<'_>, models: &ModelOptions) {
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
            let kernel = find_kernel(models.kernels, operator.name, operator.overload).is_some();
            OperatorContents { name: operator.to_string(), calls, kernel }
        });
        self.operators = operators.collect();
        let delegates = plan.delegates().zip(delegate_calls);
        self.delegates = delegates
            .map(|(delegate, calls)| DelegateContents::of(&delegate, calls, models))
            .collect();
    }

    fn sort_tensors(&mut self, plan: &MethodPlan<'_>, models: &ModelOptions) {
        let (kept, mut seen) = (kept(plan, models.kernels), BTreeSet::new());
        for (at, value) in plan.values().enumerate() {
            let Value::Tensor(meta) = value else { continue };
            let bytes = meta.layout.nbytes;
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let initialized = match meta.data {
                TensorData::Constant(data) => {
                    if seen.insert(data.as_ptr()) {
                        self.constants.count += 1;
                        self.constants.bytes += bytes;
                    }
                    continue;
                }
                TensorData::External { name, allocation: None } => {
                    self.external.push(Named { name: name.to_owned(), bytes });
                    continue;
                }
                TensorData::External { .. } | TensorData::Planned { initial: Some(_), .. } => true,
                TensorData::Planned { initial: None, .. } if kept.contains(&at) => false,
                TensorData::Planned { .. } | TensorData::Unplanned => continue,
            };
            let name = meta.fully_qualified_name.map(str::to_owned);
            let what = describe(plan, at);
            self.mutable_buffers.push(Buffer { name, what, bytes, initialized });
        }
    }
}

/// Values that a run keeps for the next one: they are read before an instruction writes them, and
/// are no inputs.
fn kept(plan: &MethodPlan<'_>, kernels: KernelLists<'static>) -> BTreeSet<u32> {
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
                // What stands behind the arguments repeats the results.
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
    fn of(delegate: &DelegatePlan<'_>, calls: usize, models: &ModelOptions) -> Self {
        let spec = |spec: CompileSpec<'_>| Spec {
            key: spec.key.to_owned(),
            bytes: spec.value.len(),
            value: short_value(spec.value),
        };
        Self {
            backend: delegate.id.to_owned(),
            bytes: delegate.blob.len(),
            calls,
            compile_specs: delegate.compile_specs().map(spec).collect(),
            available: models.backends.iter().any(|b| b.name() == delegate.id && b.is_available()),
        }
    }
}

/// A value of a compile spec as text, where it is short and can be one; one byte is a number.
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

impl Port {
    fn of(plan: &MethodPlan<'_>, value: u32) -> Self {
        let tensor = match plan.value(value as usize) {
            Value::Tensor(meta) => Some(TensorContents::of(&meta)),
            _ => None,
        };
        Self { what: describe(plan, value), tensor }
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
