//! Recording of a graph for the sizes of its inputs: live sizes, SymInts, shader runs.
//!
//! The operators record themselves twice: at load for the upper bounds of all sizes, which decides
//! about memory, and again when an input has other sizes. Pipelines are kept by their source, which
//! holds no sizes, so new sizes compile nothing.

use std::collections::HashMap;

use afferent_core::Error;
use afferent_gpu::{Access, Device, DeviceKind};

use crate::{
    blob::Entry,
    graph::{Call, DataType, DeviceType, Graph, TensorSpec, Value},
    op,
    shape::numel,
};

/// Result of an operator: an error is a clause that follows the name of the operator.
pub(crate) type OpResult<T = ()> = Result<T, &'static str>;

/// Limit of the multiplications of a run: about two minutes of a device of this kind.
fn max_work(kind: DeviceKind) -> u64 {
    match kind {
        DeviceKind::Cpu => 1 << 41,
        _ => 1 << 46,
    }
}

/// Memory that a shader uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// Memory of a value that is no alias.
    Value(usize),
    /// Memory that one call uses: call, index among its temporaries.
    Temporary(usize, usize),
    /// Constants that one call keeps in a layout of its own: call, index among them.
    Packed(usize, usize),
}

/// One run of a shader.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Position of the call in the graph.
    pub(crate) call: usize,
    pub(crate) source: String,
    pub(crate) bindings: Vec<(Target, Access)>,
    /// True if it runs at load only.
    pub(crate) is_once: bool,
    /// Numbers of the shader, which are its last binding.
    pub(crate) params: Vec<u32>,
    pub(crate) workgroups: [u32; 3],
}

impl Step {
    /// Bytes of the numbers of the shader, which are an array of vectors of four.
    pub(crate) fn param_bytes(&self) -> u64 {
        16 * self.params.len().div_ceil(4).max(1) as u64
    }
}

/// Limits of the device that shape a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceLimits {
    pub(crate) kind: DeviceKind,
    pub(crate) has_subgroups: bool,
    pub(crate) max_workgroups: u32,
    pub(crate) max_bindings: usize,
    /// Most scores of an attention in memory, in words. More are computed by blocks of queries.
    pub(crate) max_scores: usize,
}

impl DeviceLimits {
    /// Limits of `device`.
    pub(crate) fn of(device: &Device) -> Self {
        Self {
            kind: device.kind(),
            has_subgroups: device.has_subgroups(),
            max_workgroups: device.max_workgroups(),
            max_bindings: device.max_bindings(),
            max_scores: 1 << 22,
        }
    }
}

/// State of a recording.
pub(crate) struct Recorder<'g, 'a> {
    pub(crate) graph: &'g Graph<'a>,
    pub(crate) limits: DeviceLimits,
    /// Live sizes of each tensor that has been written.
    pub(crate) sizes: Vec<Option<Vec<usize>>>,
    /// Value of each SymInt.
    pub(crate) ints: Vec<i64>,
    /// Value that holds the memory of each value.
    pub(crate) roots: Vec<usize>,
    /// True for values that a call reads or the delegate returns.
    is_read: Vec<bool>,
    /// Values whose memory is state, which a call changes.
    pub(crate) is_state: Vec<bool>,
    /// Elements of integer inputs.
    pub(crate) host: HashMap<usize, Vec<i64>>,
    pub(crate) steps: Vec<Step>,
    /// Words of each temporary of the call that is recorded.
    pub(crate) temporaries: HashMap<(usize, usize), usize>,
    /// Words of each packed constant.
    pub(crate) packed: HashMap<(usize, usize), usize>,
    /// True for calls whose results are constant.
    pub(crate) is_constant_call: Vec<bool>,
    /// True for values whose memory is constant.
    pub(crate) is_constant: Vec<bool>,
    /// True for constants that stay in half precision on the device.
    is_half: Vec<bool>,
    position: usize,
    next_temporary: usize,
    work: u64,
}

impl<'g, 'a> Recorder<'g, 'a> {
    /// Recorder with the upper bounds of inputs and constants.
    pub(crate) fn new(graph: &'g Graph<'a>, limits: DeviceLimits) -> Self {
        let count = graph.values.len();
        let (mut is_state, mut is_read) = (vec![false; count], vec![false; count]);
        for &output in &graph.outputs {
            is_read[output] = true;
        }
        for call in &graph.calls {
            for index in call.operator.writes {
                is_state[call.args[*index]] = true;
            }
            let inputs = call.args.iter().rev().skip(1);
            for leaf in inputs.flat_map(|input| graph.leaves(*input)) {
                is_read[leaf] = true;
            }
        }
        // A prepacked constant is another name of the constant.
        for call in graph.calls.iter().filter(|call| call.operator.name == op::PREPACK) {
            is_state[call.args[0]] |= is_state[call.args[1]];
        }
        let sizes = graph.values.iter().map(|value| match value {
            Value::Tensor(spec) if spec.constant.is_some() => Some(spec.dims.clone()),
            _ => None,
        });
        let ints = graph.values.iter().map(|value| match value {
            Value::SymInt(value) => *value,
            _ => 0,
        });
        let (mut sizes, ints): (Vec<_>, _) = (sizes.collect(), ints.collect());
        for &input in &graph.inputs {
            sizes[input] = graph.tensor(input).map(|spec| spec.dims.clone());
        }
        let (is_constant_call, is_constant) = graph.constants(&is_state);
        let is_half = (0..count).map(|value| {
            let is_half =
                |spec: &TensorSpec<'_>| spec.constant.is_some() && spec.datatype == DataType::F16;
            graph.tensor(value).is_some_and(is_half)
                && !is_state[value]
                && !graph.outputs.contains(&value)
        });
        let is_half = is_half.collect();
        Self {
            graph,
            limits,
            sizes,
            ints,
            roots: (0..count).collect(),
            is_read,
            is_state,
            host: HashMap::new(),
            steps: vec![],
            temporaries: HashMap::new(),
            packed: HashMap::new(),
            is_constant_call,
            is_constant,
            is_half,
            position: 0,
            next_temporary: 0,
            work: 0,
        }
    }

    /// Records the calls for which `wanted` holds.
    ///
    /// # Errors
    /// With the call that is at fault.
    pub(crate) fn record(&mut self, wanted: &dyn Fn(usize) -> bool) -> Result<(), Error> {
        let graph = self.graph;
        for (position, call) in graph.calls.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            (self.position, self.next_temporary) = (position, 0);
            let recorded = (call.operator.record)(self, call);
            let at = Entry::node(call.index);
            recorded.map_err(|reason| at.invalid(call.operator.name, reason))?;
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, mut step: Step) {
        step.call = self.position;
        self.steps.push(step);
    }

    /// Counts multiplications.
    pub(crate) fn count_work(&mut self, work: &[usize]) -> OpResult {
        let product = work.iter().fold(1_u64, |product, n| product.saturating_mul(*n as u64));
        self.work = self.work.saturating_add(product);
        match self.work <= max_work(self.limits.kind) {
            true => Ok(()),
            false => Err("needs more multiplications than the device does in two minutes"),
        }
    }

    /// Memory of `words` words until the end of the call.
    pub(crate) fn temporary(&mut self, words: usize) -> Target {
        let key = (self.position, self.next_temporary);
        self.next_temporary += 1;
        let size = self.temporaries.entry(key).or_default();
        *size = words.max(*size);
        Target::Temporary(key.0, key.1)
    }

    /// Memory of `words` words for another layout of the tensor `value`, and true if `value` is
    /// constant: then the steps that fill the memory run once. They must not depend on sizes of inputs,
    /// since the memory of a constant that later steps do not read is free after them.
    pub(crate) fn packed(&mut self, value: usize, words: usize) -> (Target, bool) {
        if !self.is_constant[self.roots[value]] {
            return (self.temporary(words), false);
        }
        let key = (self.position, self.next_temporary);
        self.next_temporary += 1;
        self.packed.insert(key, words);
        (Target::Packed(key.0, key.1), true)
    }

    /// True if the memory of the value holds elements in half precision, two in a word.
    pub(crate) fn is_half(&self, value: usize) -> bool {
        self.is_half[self.roots[value]]
    }

    /// Words of a tensor for the upper bounds of its sizes.
    pub(crate) fn words(&self, value: usize) -> usize {
        match self.graph.tensor(value) {
            Some(spec) if self.is_half(value) => spec.dims.iter().product::<usize>().div_ceil(2),
            spec => spec.map_or(0, TensorSpec::words),
        }
    }

    pub(crate) fn target(&self, value: usize) -> Target {
        Target::Value(self.roots[value])
    }

    pub(crate) fn spec(&self, value: usize) -> OpResult<&'g TensorSpec<'a>> {
        match &self.graph.values[value] {
            Value::Tensor(spec) => Ok(spec),
            _ => Err("has an argument that is no tensor"),
        }
    }

    /// Element type of a tensor on the device.
    pub(crate) fn ty(&self, value: usize) -> OpResult<DeviceType> {
        Ok(self.spec(value)?.datatype.on_device())
    }

    /// Live sizes of a tensor.
    pub(crate) fn sizes(&self, value: usize) -> OpResult<Vec<usize>> {
        self.spec(value)?;
        self.sizes[value].clone().ok_or("reads a tensor without sizes")
    }

    pub(crate) fn numel(&self, value: usize) -> OpResult<usize> {
        numel(&self.sizes(value)?).ok_or("has a tensor of more than four gigabytes")
    }

    /// True if a call reads the value or the delegate returns it.
    pub(crate) fn is_read(&self, value: usize) -> bool {
        self.is_read[value]
    }

    /// Sets the live sizes of an output.
    pub(crate) fn set_sizes(&mut self, value: usize, sizes: &[usize]) -> OpResult {
        let spec = self.spec(value)?;
        let numel = numel(sizes).ok_or("has a result of more than four gigabytes")?;
        if sizes.len() != spec.dims.len() {
            return Err("has a result of another rank than its output");
        }
        if numel > spec.dims.iter().product() {
            return Err("has a result that exceeds the dims of its output");
        }
        self.sizes[value] = Some(sizes.to_vec());
        Ok(())
    }

    /// Makes `output` another name of the memory of `input`, which has as many elements.
    pub(crate) fn alias(&mut self, output: usize, input: usize, sizes: &[usize]) -> OpResult {
        if self.numel(input)? != numel(sizes).unwrap_or(usize::MAX) {
            return Err("changes the number of elements");
        }
        self.set_sizes(output, sizes)?;
        self.roots[output] = self.roots[input];
        Ok(())
    }

    /// The value of an argument.
    pub(crate) fn value(&self, call: &Call, arg: usize) -> &'g Value<'a> {
        &self.graph.values[call.args[arg]]
    }

    pub(crate) fn is_null(&self, call: &Call, arg: usize) -> bool {
        matches!(self.value(call, arg), Value::Null)
    }

    /// Tensor at argument `arg`.
    pub(crate) fn tensor(&self, call: &Call, arg: usize) -> OpResult<usize> {
        self.spec(call.args[arg]).map(|_| call.args[arg])
    }

    pub(crate) fn opt_tensor(&self, call: &Call, arg: usize) -> OpResult<Option<usize>> {
        if self.is_null(call, arg) { Ok(None) } else { self.tensor(call, arg).map(Some) }
    }

    /// The output, which is the last argument.
    pub(crate) fn output(&self, call: &Call) -> OpResult<usize> {
        self.tensor(call, call.args.len() - 1)
    }

    /// Values of the list at argument `arg`. A tensor is a list of one.
    pub(crate) fn list(&self, call: &Call, arg: usize) -> OpResult<Vec<usize>> {
        match self.value(call, arg) {
            Value::List(items) => Ok(items.clone()),
            Value::Tensor(_) => Ok(vec![call.args[arg]]),
            _ => Err("has an argument that is no list of tensors"),
        }
    }

    fn int_of(&self, value: usize) -> Option<i64> {
        match &self.graph.values[value] {
            Value::Int(value) => Some(*value),
            Value::Bool(value) => Some(i64::from(*value)),
            Value::SymInt(_) => Some(self.ints[value]),
            // Equal numbers share a value, whatever their type.
            Value::Double(value) if value.fract() == 0.0 => Some(*value as i64),
            _ => None,
        }
    }

    pub(crate) fn int(&self, call: &Call, arg: usize) -> OpResult<i64> {
        self.int_of(call.args[arg]).ok_or("has an argument that is no integer")
    }

    pub(crate) fn opt_int(&self, call: &Call, arg: usize) -> OpResult<Option<i64>> {
        if self.is_null(call, arg) { Ok(None) } else { self.int(call, arg).map(Some) }
    }

    pub(crate) fn double(&self, call: &Call, arg: usize) -> OpResult<f64> {
        match self.value(call, arg) {
            Value::Double(value) => Ok(*value),
            _ => self.int(call, arg).map(|value| value as f64),
        }
        .map_err(|_| "has an argument that is no number")
    }

    pub(crate) fn opt_double(&self, call: &Call, arg: usize) -> OpResult<Option<f64>> {
        if self.is_null(call, arg) { Ok(None) } else { self.double(call, arg).map(Some) }
    }

    pub(crate) fn bool(&self, call: &Call, arg: usize) -> OpResult<bool> {
        self.int(call, arg).map(|value| value != 0)
    }

    /// Integers at argument `arg`; a list with a SymInt is a list of values.
    pub(crate) fn ints(&self, call: &Call, arg: usize) -> OpResult<Vec<i64>> {
        let reason = "has an argument that is no list of integers";
        match self.value(call, arg) {
            Value::IntList(items) => Ok(items.clone()),
            Value::BoolList(items) => Ok(items.iter().map(|item| i64::from(*item)).collect()),
            Value::List(items) => {
                items.iter().map(|item| self.int_of(*item).ok_or(reason)).collect()
            }
            _ => self.int(call, arg).map(|value| vec![value]).map_err(|_| reason),
        }
    }

    /// Sizes at argument `arg`.
    pub(crate) fn dims(&self, call: &Call, arg: usize) -> OpResult<Vec<usize>> {
        let dims = self.ints(call, arg)?;
        let dims = dims.into_iter().map(usize::try_from);
        dims.collect::<Result<_, _>>().map_err(|_| "has a negative size")
    }

    /// Numbers at argument `arg`.
    pub(crate) fn doubles(&self, call: &Call, arg: usize) -> OpResult<Vec<f64>> {
        match self.value(call, arg) {
            Value::DoubleList(items) => Ok(items.clone()),
            _ => Ok(self.ints(call, arg)?.into_iter().map(|item| item as f64).collect()),
        }
    }

    /// Sets the SymInt `value`.
    pub(crate) fn set_int(&mut self, value: usize, int: i64) -> OpResult {
        if !matches!(self.graph.values[value], Value::SymInt(_)) {
            return Err("has an output that is no SymInt");
        }
        self.ints[value] = int;
        Ok(())
    }
}
