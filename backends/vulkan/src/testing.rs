//! Runs small graphs in unit tests, in the forms of the shaders for CPU devices and for GPUs.

use std::{cell::RefCell, sync::OnceLock};

use afferent_core::{
    Arg, Argument, Call as KernelCall, Delegate, Element, Error, Kernel, KernelContext, Tensor,
};
use afferent_gpu::{DeviceKind, Gpu, GpuOptions};

use crate::{
    delegate::VulkanDelegate,
    fusion,
    graph::{Call, DataType, Graph, TensorSpec, Value},
    op,
    recorder::DeviceLimits,
};

/// Device of the tests; prints why they are skipped if there is none.
pub(crate) fn gpu() -> Option<Gpu> {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    let gpu = GPU.get_or_init(|| Gpu::new(GpuOptions::from_env()));
    match gpu.device() {
        Ok(_) => Some(gpu.clone()),
        Err(error) => {
            println!("skipped: no Vulkan device: {error}");
            None
        }
    }
}

/// Deterministic test data from -1 to 1.
pub(crate) fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect()
}

/// Asserts equality within `tolerance`.
pub(crate) fn close(name: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        let is_close = (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b;
        assert!(is_close || (a.is_nan() && b.is_nan()), "{name}: element {at}: {a}, expected {b}");
    }
}

/// Graph under construction.
#[derive(Default)]
pub(crate) struct Net {
    values: Vec<Value<'static>>,
    calls: Vec<Call>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

impl Net {
    pub(crate) fn value(&mut self, value: Value<'static>) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    pub(crate) fn tensor(&mut self, datatype: DataType, dims: &[usize]) -> usize {
        self.value(Value::Tensor(TensorSpec { datatype, dims: dims.to_vec(), constant: None }))
    }

    pub(crate) fn constant<T: bytemuck::NoUninit>(
        &mut self,
        datatype: DataType,
        dims: &[usize],
        elements: &[T],
    ) -> usize {
        let bytes: &'static [u8] = bytemuck::cast_slice(elements).to_vec().leak();
        let constant = Some(bytes);
        self.value(Value::Tensor(TensorSpec { datatype, dims: dims.to_vec(), constant }))
    }

    pub(crate) fn input(&mut self, datatype: DataType, dims: &[usize]) -> usize {
        let input = self.tensor(datatype, dims);
        self.inputs.push(input);
        input
    }

    pub(crate) fn output(&mut self, datatype: DataType, dims: &[usize]) -> usize {
        let output = self.tensor(datatype, dims);
        self.outputs.push(output);
        output
    }

    /// Makes `value` a further output.
    pub(crate) fn return_value(&mut self, value: usize) {
        self.outputs.push(value);
    }

    pub(crate) fn ints(&mut self, ints: &[i64]) -> usize {
        self.value(Value::IntList(ints.to_vec()))
    }

    pub(crate) fn int(&mut self, int: i64) -> usize {
        self.value(Value::Int(int))
    }

    pub(crate) fn double(&mut self, double: f64) -> usize {
        self.value(Value::Double(double))
    }

    pub(crate) fn null(&mut self) -> usize {
        self.value(Value::Null)
    }

    pub(crate) fn call(&mut self, name: &str, args: &[usize]) {
        let operator = op::find(name).unwrap_or_else(|| panic!("no operator {name}"));
        assert!(operator.args == args.len() || operator.args == op::ANY, "{name}");
        let index = self.calls.len();
        self.calls.push(Call {
            operator,
            index,
            args: args.to_vec(),
            epilogue: vec![],
            clamp: None,
        });
    }

    /// Graph after all passes.
    pub(crate) fn graph(self) -> Graph<'static> {
        let Self { values, calls, inputs, outputs } = self;
        let mut graph = Graph { values, calls, inputs, outputs };
        fusion::run(&mut graph);
        graph
    }
}

/// A loaded graph.
pub(crate) struct Runner {
    pub(crate) delegate: VulkanDelegate<'static>,
}

impl Runner {
    /// Loads `graph` with the forms of the shaders for `kind`.
    pub(crate) fn new(gpu: Gpu, graph: Graph<'static>, kind: DeviceKind) -> Result<Self, Error> {
        let has_subgroups = gpu.device()?.has_subgroups();
        Self::with_subgroups(gpu, graph, kind, has_subgroups)
    }

    /// As [`Runner::new`], with or without subgroups.
    pub(crate) fn with_subgroups(
        gpu: Gpu,
        graph: Graph<'static>,
        kind: DeviceKind,
        has_subgroups: bool,
    ) -> Result<Self, Error> {
        let device = gpu.device()?;
        // So few scores that attention has several blocks.
        let limits =
            DeviceLimits { kind, has_subgroups, max_scores: 32, ..DeviceLimits::of(device) };
        let delegate = VulkanDelegate::with_limits(gpu.clone(), graph, limits, 1 << 30)?;
        Ok(Self { delegate })
    }

    /// Runs the graph. The outputs have the dtypes and ranks of `outs`.
    pub(crate) fn run(self, inputs: &[Tensor], outs: &mut [Tensor]) -> (Self, Result<(), Error>) {
        thread_local! {
            static DELEGATE: RefCell<Option<VulkanDelegate<'static>>> = const { RefCell::new(None) };
        }
        DELEGATE.set(Some(self.delegate));
        let kinds = vec![Arg::Tensor; inputs.len()];
        let kinds = [kinds, vec![Arg::Out; outs.len()]].concat().leak();
        let kernel = Kernel::new("test::delegate", kinds, |_, args| {
            DELEGATE.with_borrow_mut(|delegate| {
                let delegate = delegate.as_mut().expect("a delegate");
                delegate.execute(&mut KernelContext::default(), args)
            })
        });
        let mut args: Vec<_> = inputs.iter().map(Argument::Tensor).collect();
        args.extend(outs.iter_mut().map(Argument::Out));
        let result = KernelCall::new(&kernel).run(&mut args);
        let delegate = DELEGATE.take().expect("a delegate");
        (Self { delegate }, result)
    }
}

/// Runs a graph with one output of type `T` and rank `rank` in all forms, and returns its sizes
/// and elements, which must be close to each other.
pub(crate) fn run<T: Element>(
    net: impl Fn() -> Net,
    inputs: &[Tensor],
    rank: usize,
) -> Option<(Vec<usize>, Vec<T>)> {
    let gpu = gpu()?;
    let mut results = vec![];
    let has_subgroups = gpu.device().is_ok_and(|device| device.has_subgroups());
    let forms =
        [(DeviceKind::Cpu, false), (DeviceKind::Gpu, false), (DeviceKind::Gpu, has_subgroups)];
    for (kind, subgroups) in forms {
        let runner = Runner::with_subgroups(gpu.clone(), net().graph(), kind, subgroups);
        let runner = runner.expect("a valid graph");
        let mut outs = [Tensor::zeros(T::DTYPE, &vec![0; rank])];
        runner.run(inputs, &mut outs).1.expect("a run");
        results.push((outs[0].sizes().to_vec(), outs[0].data::<T>().expect("the dtype").to_vec()));
    }
    let (cpu, others) = results.split_first()?;
    let near = |(a, b): (&T, &T)| a == b || format!("{a:?}") == format!("{b:?}") || is_near(a, b);
    for gpu in others {
        assert_eq!(cpu.0, gpu.0);
        assert!(cpu.1.iter().zip(&gpu.1).all(near), "{:?} and {:?}", cpu.1, gpu.1);
    }
    results.pop()
}

fn is_near<T: Element>(a: &T, b: &T) -> bool {
    let as_f32 = |value: &T| bytemuck::bytes_of(value).try_into().map(f32::from_le_bytes);
    match (T::DTYPE, as_f32(a), as_f32(b)) {
        (afferent_core::ScalarType::Float, Ok(a), Ok(b)) => {
            (a - b).abs() <= 1e-4 * b.abs().max(1.0)
        }
        _ => false,
    }
}
