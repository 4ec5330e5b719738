//! Models of one or more programs, whose methods are called by their role.

use std::path::{Path, PathBuf};

use afferent_core::ScalarType;
use afferent_graph::{NodeError, OpenCx};
use afferent_package::{ModelPackage, TOKENIZER_FILES};
use afferent_runtime::{
    Input, Model, ModelFile, ModelOptions, ModelOutputs, RunOptions, Signature,
};
use afferent_text::Tokenizer;

/// The programs of a package.
pub(crate) struct Programs {
    path: PathBuf,
    pub(crate) package: ModelPackage,
    /// Programs by their role; the role of a single program is empty.
    models: Vec<(String, Model)>,
}

/// A method of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    program: usize,
    method: String,
    pub(crate) signature: Signature,
}

impl Programs {
    /// Opens the programs of the package, folder or program at `path`, which must have the task `task`.
    pub(crate) fn open(path: &Path, task: &'static str, cx: &OpenCx) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Model { path: path.to_owned(), reason };
        let package = ModelPackage::open(path).map_err(|error| failed(error.to_string()))?;
        package.expect_task(task).map_err(|error| failed(error.to_string()))?;
        let models = package.open_all(cx.services.need::<ModelOptions>()?);
        let models = models.map_err(|error| failed(error.to_string()))?;
        Ok(Self { path: path.to_owned(), package, models })
    }

    /// The error `reason` about this model.
    pub(crate) fn error(&self, reason: impl Into<String>) -> NodeError {
        NodeError::Model { path: self.path.clone(), reason: reason.into() }
    }

    /// The method with one of `names`, or else the method `forward` of the program with one of the
    /// names as its role.
    pub(crate) fn find(&self, names: &[&str]) -> Option<Step> {
        Step::find(&self.files(), names)
    }

    /// Files of the programs, by their role.
    pub(crate) fn files(&self) -> Vec<(&str, &ModelFile)> {
        self.models.iter().map(|(role, model)| (role.as_str(), &**model.file())).collect()
    }

    /// Checks that `model.yaml`, if there is one, has the contract that was told from the programs.
    pub(crate) fn expect_contract(&self, contract: &'static str) -> Result<(), NodeError> {
        let checked = self.package.expect_contract(contract);
        checked.map_err(|error| self.error(error.to_string()))
    }

    /// Methods of the program with the role `role` whose names begin with `start`.
    pub(crate) fn methods_of(&self, role: &str, start: &str) -> Vec<Step> {
        let all = self.models.iter().enumerate();
        let mut found = Vec::new();
        for (program, (_, model)) in all.filter(|(_, (known, _))| known == role) {
            let names =
                model.file().program().method_names().filter(|name| name.starts_with(start));
            found.extend(names.filter_map(|name| {
                let signature = model.file().signature(name).ok()?;
                Some(Step { program, method: name.to_owned(), signature })
            }));
        }
        found
    }

    /// Opens the tokenizer of the package.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, NodeError> {
        let Some(name) = &self.package.manifest.tokenizer else {
            let folder = self.package.folder().display();
            return Err(self.error(format!(
                "the model needs a tokenizer: put one of {} into {folder}",
                TOKENIZER_FILES.join(", ")
            )));
        };
        let tokenizer = Tokenizer::open(self.package.folder().join(name));
        tokenizer.map_err(|error| self.error(error.to_string()))
    }

    /// Methods with their inputs and outputs, for messages.
    pub(crate) fn methods(&self) -> String {
        let mut lines = Vec::new();
        for (role, model) in &self.models {
            for name in model.file().program().method_names() {
                let plan = model.file().program().method(name);
                let is_constant = plan.is_none_or(|plan| plan.num_instructions() == 0);
                let Ok(signature) = model.file().signature(name) else { continue };
                if !is_constant {
                    let of = if role.is_empty() { String::new() } else { format!("{role}.") };
                    lines.push(format!("{of}{name}{}", describe(&signature)));
                }
            }
        }
        lines.join(", ")
    }

    /// Loads the method of `step`.
    pub(crate) fn load(&mut self, step: &Step) -> Result<(), NodeError> {
        let loaded = self.models[step.program].1.load_method(&step.method);
        loaded.map_err(|error| self.error(error.to_string()))
    }

    /// The program of `step`, without the others.
    pub(crate) fn into_model(mut self, step: &Step) -> Model {
        self.models.swap_remove(step.program).1
    }

    /// Integer that a constant method of any program returns.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.models.iter().find_map(|(_, model)| model.file().metadata_int(name))
    }

    /// Size that a constant method of any program returns, above zero.
    pub(crate) fn size(&self, name: &str) -> Option<usize> {
        self.int(name).and_then(|value| usize::try_from(value).ok()).filter(|&value| value > 0)
    }

    /// Number that a constant method of any program returns.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        self.models.iter().find_map(|(_, model)| model.file().metadata_float(name))
    }

    /// Resets the state of all programs.
    pub(crate) fn reset(&mut self) {
        self.models.iter_mut().for_each(|(_, model)| model.reset());
    }

    /// Runs the method of `step`.
    pub(crate) fn run<'s>(
        &'s mut self,
        step: &Step,
        inputs: &[Input<'s>],
    ) -> Result<ModelOutputs<'s>, NodeError> {
        let Self { path, models, .. } = self;
        let model = &mut models[step.program].1;
        let options = RunOptions {
            instruction_limit: model.options().instruction_limit,
            workers: model.options().workers,
            ..RunOptions::default()
        };
        let outputs = model.run_with(&step.method, inputs, &options);
        outputs.map_err(|error| NodeError::Model { path: path.clone(), reason: error.to_string() })
    }
}

impl Step {
    /// The method with one of `names`, or else the method `forward` of the program with one of the
    /// names as its role.
    pub(crate) fn find(programs: &[(&str, &ModelFile)], names: &[&str]) -> Option<Self> {
        let has = |file: &ModelFile, name: &str| file.program().method(name).is_some();
        let methods = names.iter().flat_map(|name| {
            let all = programs.iter().enumerate();
            all.filter(move |(_, (_, file))| has(file, name)).map(move |(at, _)| (at, *name))
        });
        let roles = names.iter().flat_map(|name| {
            let all = programs.iter().enumerate();
            all.filter(move |(_, (role, file))| role == name && has(file, "forward"))
                .map(|(at, _)| (at, "forward"))
        });
        let (program, method) = methods.chain(roles).next()?;
        let signature = programs[program].1.signature(method).ok()?;
        Some(Self { program, method: method.to_owned(), signature })
    }

    /// True if the inputs have these types (i: integers, f: floating-point) and ranks, such as `i2`.
    pub(crate) fn has_inputs(&self, forms: &[&str]) -> bool {
        let Some(inputs) = self.inputs() else { return false };
        let form = |(dtype, sizes, _): &(ScalarType, &[usize], bool)| match *dtype {
            ScalarType::Long | ScalarType::Int => format!("i{}", sizes.len()),
            dtype if is_float(dtype) => format!("f{}", sizes.len()),
            _ => String::new(),
        };
        inputs.iter().map(form).eq(forms.iter().map(|form| (*form).to_owned()))
    }

    /// Tensor specifications of the inputs, if all are tensors.
    pub(crate) fn inputs(&self) -> Option<Vec<(ScalarType, &[usize], bool)>> {
        let inputs = self.signature.tensor_inputs()?;
        Some(inputs.into_iter().map(|spec| (spec.dtype, &*spec.sizes, spec.is_static)).collect())
    }

    /// Type of the elements of input `index`.
    pub(crate) fn input_dtype(&self, index: usize) -> ScalarType {
        let spec = self.signature.inputs.get(index).and_then(Option::as_ref);
        spec.map_or(ScalarType::Float, |spec| spec.dtype)
    }

    /// Largest sizes of input `index`; empty if it is not a tensor.
    pub(crate) fn input_sizes(&self, index: usize) -> &[usize] {
        let spec = self.signature.inputs.get(index).and_then(Option::as_ref);
        spec.map_or(&[], |spec| &*spec.sizes)
    }

    /// Largest sizes of output `index`; empty if it is not a tensor.
    pub(crate) fn output_sizes(&self, index: usize) -> &[usize] {
        let spec = self.signature.outputs.get(index).and_then(Option::as_ref);
        spec.map_or(&[], |spec| &*spec.sizes)
    }
}

/// Refuses parameters that are set, with `reason`.
pub(crate) fn reject_set(
    parameters: &[(&'static str, bool)],
    reason: &str,
) -> Result<(), NodeError> {
    match parameters.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => {
            Err(NodeError::InvalidParam { name: (*name).into(), reason: reason.to_owned() })
        }
        None => Ok(()),
    }
}

/// Inputs and outputs of a method, such as `(i64[1, 1], f32[1, 1500, 384]) -> (f32[1, 1, 51865])`.
fn describe(signature: &Signature) -> String {
    let list = |values: &[Option<afferent_runtime::TensorSpec>]| {
        let values = values.iter().map(|value| match value {
            Some(tensor) => format!("{}{:?}", tensor.dtype.name(), tensor.sizes),
            None => "scalar".to_owned(),
        });
        values.collect::<Vec<_>>().join(", ")
    };
    format!("({}) -> ({})", list(&signature.inputs), list(&signature.outputs))
}

/// True if `dtype` is a floating-point type that models use.
pub(crate) fn is_float(dtype: ScalarType) -> bool {
    matches!(dtype, ScalarType::Float | ScalarType::Half | ScalarType::BFloat16)
}

/// Index of the greatest value; the first of several.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
