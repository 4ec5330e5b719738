//! Programs and packages.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use afferent_core::ScalarType;
use afferent_inspect::{EtDumpRecorder, InstructionProfile};
use afferent_package::ModelPackage;
use afferent_runtime::{
    Input, Model as RuntimeModel, ModelFile, ModelOptions, ModelOutputs, Output, RunOptions,
    TensorSpec,
};
use afferent_simd::pool;
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    app,
    array::{self, Argument},
    error, lock, not_forked,
};

/// A program (.pte) or a model package.
///
/// Arrays go in without a copy if they are contiguous and have the type of the input. Outputs are
/// new arrays, which a later run does not change.
#[pyclass(frozen, module = "afferent")]
pub(crate) struct Model {
    model: Mutex<RuntimeModel>,
    file: Arc<ModelFile>,
    methods: Vec<Method>,
    package: Option<ModelPackage>,
}

/// Times of a run that are wanted.
#[derive(Clone, Copy)]
enum Times<'t> {
    /// Mean time of each instruction.
    Mean(&'t Mutex<InstructionProfile>),
    /// An ETDump of a run that starts at this time.
    EtDump(Instant, &'t Mutex<Vec<u8>>),
}

/// Contract of a method.
struct Method {
    name: String,
    inputs: Vec<Option<TensorSpec>>,
    outputs: Vec<Option<TensorSpec>>,
}

#[pymethods]
impl Model {
    /// Opens the program or package at `path`.
    ///
    /// `data` are files of external weights (.ptd). `threads` run its kernels.
    /// `weight_cache` is a folder for packed weights, so that the next start maps them.
    #[new]
    #[pyo3(signature = (path, *, data=vec![], threads=1, weight_cache=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        data: Vec<PathBuf>,
        threads: usize,
        weight_cache: Option<PathBuf>,
    ) -> PyResult<Self> {
        if !(1..=usize::from(pool::MAX_THREADS)).contains(&threads) {
            let most = pool::MAX_THREADS;
            return Err(error::argument(format!("threads={threads}: must be 1 to {most}")));
        }
        let options = match weight_cache {
            Some(folder) => app().clone().weight_cache(&folder).models().clone(),
            None => app().models().clone(),
        };
        let options = ModelOptions { workers: pool::workers(threads), ..options };
        py.detach(|| Self::open(path, &data, options))
    }

    /// Path of the program file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// Fields of model.yaml that say what the model is: name, task, license; None for a program alone.
    #[getter]
    fn package<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(package) = &self.package else { return Ok(None) };
        let dict = PyDict::new(py);
        let manifest = &package.manifest;
        dict.set_item("name", &manifest.name)?;
        dict.set_item("task", &manifest.task)?;
        dict.set_item("contract", &manifest.contract)?;
        dict.set_item("labels", PyList::new(py, &manifest.labels)?)?;
        Ok(Some(dict))
    }

    /// Methods, with the shapes and types of their inputs and outputs:
    /// `{"forward": {"inputs": [...], "outputs": [...]}}`.
    ///
    /// An item is `{"shape": (1, 3, 224, 224), "dtype": "float32", "is_dynamic": False}`, or None if
    /// it is not a tensor. The shape of a dynamic tensor has the greatest sizes.
    #[getter]
    fn methods<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for method in &self.methods {
            let item = PyDict::new(py);
            item.set_item("inputs", specs(py, &method.inputs)?)?;
            item.set_item("outputs", specs(py, &method.outputs)?)?;
            dict.set_item(&method.name, item)?;
        }
        Ok(dict)
    }

    /// Values of the methods that only return constants, such as `get_max_seq_len`.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let file = &self.file;
        for plan in file.program().methods().filter(|plan| plan.num_instructions() == 0) {
            let name = plan.name();
            match file.metadata_ints(name).as_deref() {
                Some([value]) => dict.set_item(name, value)?,
                Some(values) => dict.set_item(name, values)?,
                None => match file.metadata_float(name) {
                    Some(value) => dict.set_item(name, value)?,
                    None => continue,
                },
            }
        }
        Ok(dict)
    }

    /// Runs a method. Returns its output, or a tuple if it has several.
    #[pyo3(signature = (*inputs, method="forward"))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, inputs, method, None)
    }

    #[pyo3(signature = (*inputs, method="forward"))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, inputs, method, None)
    }

    /// Sets the state of the model, such as a KV cache, to what it was after loading.
    fn reset(&self, py: Python<'_>) {
        py.detach(|| lock(&self.model).reset());
    }

    /// Runs a method `runs` times and returns its output and the mean time of each instruction:
    /// `[{"instruction": 0, "name": "aten::add.out", "calls": 10, "mean_us": 1.5}, ...]`.
    #[pyo3(signature = (*inputs, method="forward", runs=10))]
    fn profile<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
        runs: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let profile = Mutex::new(InstructionProfile::default());
        let mut output = py.None().into_bound(py);
        for _ in 0..runs.max(1) {
            output = self.call(py, inputs, method, Some(Times::Mean(&profile)))?;
        }
        let plan = self.file.method(method).map_err(|error| error::model(&error))?;
        let times = PyList::empty(py);
        for time in lock(&profile).mean_times(&plan).instructions {
            let item = PyDict::new(py);
            item.set_item("instruction", time.instruction)?;
            item.set_item("name", time.name)?;
            item.set_item("calls", time.calls)?;
            item.set_item("mean_us", time.mean_us)?;
            times.append(item)?;
        }
        Ok((output, times))
    }

    /// Runs a method `runs` times on the same inputs and returns the seconds of each run, without
    /// those of Python.
    #[pyo3(signature = (*inputs, method="forward", runs=100))]
    fn time<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
        runs: usize,
    ) -> PyResult<Vec<f64>> {
        let arguments = self.arguments(inputs, method)?;
        let inputs = arguments.iter().map(Argument::input).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut model = lock(&self.model);
            let run = |_| {
                let start = Instant::now();
                model.run(method, &inputs).map_err(|error| error::model(&error))?;
                Ok(start.elapsed().as_secs_f64())
            };
            (0..runs).map(run).collect()
        })
    }

    /// Runs a method once and returns its profile as bytes of an ETDump, for ExecuTorch's Inspector.
    #[pyo3(signature = (*inputs, method="forward"))]
    fn etdump<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
    ) -> PyResult<Vec<u8>> {
        let bytes = Mutex::default();
        self.call(py, inputs, method, Some(Times::EtDump(Instant::now(), &bytes)))?;
        Ok(std::mem::take(&mut *lock(&bytes)))
    }

    fn __repr__(&self) -> String {
        let methods: Vec<_> = self.methods.iter().map(|method| method.name.as_str()).collect();
        format!(
            "Model({:?}, methods: {})",
            self.file.path().display().to_string(),
            methods.join(", ")
        )
    }
}

impl Model {
    fn open(path: PathBuf, data: &[PathBuf], options: ModelOptions) -> PyResult<Self> {
        let (model, package) = if path.is_dir() {
            let package = ModelPackage::open(&path).map_err(|error| error::package(&error))?;
            let model = package.open_main(&options).map_err(|error| error::package(&error))?;
            (model, Some(package))
        } else {
            let file = ModelFile::open_with(&path, data, options.file_access);
            (RuntimeModel::new(file.map_err(|error| error::model(&error))?, options), None)
        };
        let file = model.file().clone();
        let mut methods = Vec::new();
        for plan in file.program().methods().filter(|plan| plan.num_instructions() > 0) {
            let name = plan.name();
            let signature = file.signature(name).map_err(|error| error::model(&error))?;
            let (inputs, outputs) = (signature.inputs, signature.outputs);
            methods.push(Method { name: name.to_owned(), inputs, outputs });
        }
        let mut model = model;
        // Errors of a program are those of the constructor.
        if let [method] = &*methods {
            model.load_method(&method.name).map_err(|error| error::model(&error))?;
        }
        Ok(Self { model: Mutex::new(model), file, methods, package })
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
        times: Option<Times<'_>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = self.arguments(inputs, method)?;
        let inputs = arguments.iter().map(Argument::input).collect::<PyResult<Vec<_>>>()?;
        // The lock is taken without the interpreter, which its holder waits for.
        let values = py.detach(|| {
            let mut model = lock(&self.model);
            let ModelOptions { instruction_limit, workers, .. } = *model.options();
            let options = RunOptions { instruction_limit, workers, ..RunOptions::default() };
            let outputs = match times {
                None => model.run_with(method, &inputs, &options),
                Some(Times::Mean(profile)) => {
                    let options = RunOptions { observer: Some(&*lock(profile)), ..options };
                    model.run_with(method, &inputs, &options)
                }
                Some(Times::EtDump(start, bytes)) => {
                    let recorder = EtDumpRecorder::new(start, start);
                    let options = RunOptions { observer: Some(&recorder), ..options };
                    let outputs = model.run_with(method, &inputs, &options);
                    recorder.end_run(start);
                    let plan = self.file.method(method).map_err(|error| error::model(&error))?;
                    *lock(bytes) = recorder.to_bytes(&plan).map_err(error::argument)?;
                    outputs
                }
            };
            let outputs = outputs.map_err(|error| error::model(&error))?;
            Python::attach(|py| results(py, &outputs).map(Bound::unbind))
        });
        Ok(values?.into_bound(py))
    }

    /// Arguments of a call, with the number and the types that the method takes.
    fn arguments<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        method: &str,
    ) -> PyResult<Vec<Argument<'py>>> {
        not_forked()?;
        let contract = self.method(method)?;
        if inputs.len() != contract.inputs.len() {
            let (found, needed) = (inputs.len(), contract.inputs.len());
            let counted = if needed == 1 { "1 input" } else { &format!("{needed} inputs") };
            return Err(error::argument(format!("{method} takes {counted}, not {found}")));
        }
        let specs = contract.inputs.iter();
        let arguments = inputs.iter().zip(specs).enumerate().map(|(index, (value, spec))| {
            let argument = Argument::read(&value, spec.as_ref().map(|spec| spec.dtype));
            argument.and_then(|argument| fits(index, argument, spec.as_ref()))
        });
        arguments.collect()
    }

    fn method(&self, name: &str) -> PyResult<&Method> {
        self.methods.iter().find(|method| method.name == name).ok_or_else(|| {
            let names: Vec<_> = self.methods.iter().map(|method| method.name.as_str()).collect();
            let names = names.join(", ");
            error::argument(format!("there is no method {name:?}; the program has {names}"))
        })
    }
}

/// Returns `argument` if its type is that of `spec`.
fn fits<'py>(
    index: usize,
    argument: Argument<'py>,
    spec: Option<&TensorSpec>,
) -> PyResult<Argument<'py>> {
    if let (Some(spec), Ok(Input::Tensor(view))) = (spec, argument.input())
        && view.dtype() != spec.dtype
    {
        let name = |dtype: ScalarType| array::numpy_name(dtype).unwrap_or(dtype.name());
        let (found, needed) = (name(view.dtype()), name(spec.dtype));
        return Err(error::argument(format!(
            "input {index} is an array of {found}, but the method takes {needed}: use \
             x.astype(\"{needed}\")"
        )));
    }
    Ok(argument)
}

/// The output, or a tuple of several.
fn results<'py>(py: Python<'py>, outputs: &ModelOutputs<'_>) -> PyResult<Bound<'py, PyAny>> {
    let value = |index| match outputs.get(index).map_err(error::argument)? {
        Output::Tensor(view) => array::copied(py, &view),
        Output::Int(value) => Ok(value.into_pyobject(py)?.into_any()),
        Output::Double(value) => Ok(value.into_pyobject(py)?.into_any()),
        Output::Bool(value) => Ok(value.into_pyobject(py)?.to_owned().into_any()),
        Output::Str(value) => Ok(value.into_pyobject(py)?.into_any()),
        Output::None => Ok(py.None().into_bound(py)),
    };
    if outputs.len() == 1 {
        return value(0);
    }
    let values = (0..outputs.len()).map(value).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, values)?.into_any())
}

fn specs<'py>(py: Python<'py>, specs: &[Option<TensorSpec>]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for spec in specs {
        let Some(spec) = spec else {
            list.append(py.None())?;
            continue;
        };
        let item = PyDict::new(py);
        item.set_item("shape", PyTuple::new(py, &spec.sizes)?)?;
        item.set_item("dtype", array::numpy_name(spec.dtype).unwrap_or(spec.dtype.name()))?;
        item.set_item("is_dynamic", !spec.is_static)?;
        list.append(item)?;
    }
    Ok(list)
}
