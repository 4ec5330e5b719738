//! Inputs of a run, and how they reach the tensors of the method.

#![expect(unsafe_code, reason = "lets tensors read memory of the caller")]

use afferent_core::{Dynamism, EValue, Error, TensorMut, TensorView};
use afferent_program::Value;

use crate::{Method, RunError};

/// One input of a run.
#[derive(Debug, Clone, Copy)]
pub enum Input<'i> {
    /// A tensor.
    Tensor(TensorView<'i>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Nothing, for an absent optional.
    None,
}

impl<'i> From<TensorView<'i>> for Input<'i> {
    fn from(view: TensorView<'i>) -> Self {
        Self::Tensor(view)
    }
}

/// How an input reaches the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// The tensor reads the caller's memory.
    Borrow { slot: u32 },
    /// The elements are copied, because the method changes them.
    Copy { slot: u32 },
    /// The input is not a tensor.
    Scalar { value: u32 },
}

/// A tensor that the exporter laid over an input without an instruction: a view of static size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alias {
    /// The tensor.
    pub(crate) slot: u32,
    /// Place of the input.
    pub(crate) input: u32,
    /// Bytes from the start of the input.
    pub(crate) offset: usize,
}

impl Method<'_> {
    pub(crate) fn bind_inputs(&mut self, inputs: &[Input<'_>]) -> Result<(), RunError> {
        if inputs.len() != self.inputs.len() {
            return Err(RunError::InputCount { found: inputs.len(), needed: self.inputs.len() });
        }
        for (index, (input, binding)) in inputs.iter().zip(self.inputs).enumerate() {
            match *binding {
                Binding::Borrow { slot } => self.bind_tensor(index, input, slot, false)?,
                Binding::Copy { slot } => self.bind_tensor(index, input, slot, true)?,
                Binding::Scalar { value } => self.bind_scalar(index, input, value)?,
            }
        }
        for alias in self.aliases {
            let index = alias.input as usize;
            let Some(Input::Tensor(view)) = inputs.get(index) else { continue };
            self.bind_alias(alias, *view).map_err(|error| RunError::Input { index, error })?;
        }
        Ok(())
    }

    fn bind_tensor(
        &mut self,
        index: usize,
        input: &Input<'_>,
        slot: u32,
        copy: bool,
    ) -> Result<(), RunError> {
        let cell = &self.slots[slot as usize];
        // SAFETY: no call is under way, so nothing else reaches the slots.
        let tensor = unsafe { &mut *cell.get() };
        let Input::Tensor(view) = input else {
            let (found, needed) = (kind(input), tensor.dtype().name());
            return Err(RunError::InputKind { index, found, needed });
        };
        if view.dtype() != tensor.dtype() {
            let (found, needed) = (view.dtype().name(), tensor.dtype().name());
            return Err(RunError::InputKind { index, found, needed });
        }
        let failed = |error| RunError::Input { index, error };
        if view.rank() == tensor.sizes().len() && !same_layout(view, tensor.dim_order()) {
            let reason = "its dim order differs from the method's";
            return Err(failed(Error::InvalidTensor { reason }));
        }
        let sizes = view.sizes();
        tensor.set_sizes(sizes).map_err(|error| self.misfit(index, sizes, error))?;
        if copy {
            // SAFETY: as above; the elements lie in planned memory, not in that of the caller.
            let mut tensor = unsafe { TensorMut::new(cell) };
            tensor.bytes_mut().map_err(failed)?.copy_from_slice(view.bytes());
            return Ok(());
        }
        // SAFETY: `run` demands that the inputs outlive the outputs, and every run binds anew
        // before anything reads the tensor.
        unsafe { tensor.borrow(view.bytes()) }.map_err(failed)
    }

    /// Why an input of the sizes `found` is refused with `error`, in terms of the sizes that the
    /// program was exported with.
    #[cold]
    fn misfit(&self, index: usize, found: &[usize], error: Error) -> RunError {
        let value = self.plan.inputs().get(index).map(|value| self.plan.value(value as usize));
        let Some(Value::Tensor(meta)) = value else { return RunError::Input { index, error } };
        let planned = meta.layout.sizes;
        if found.len() != planned.len() {
            return RunError::InputRank { index, found: found.len(), needed: planned.len() };
        }
        let is_static = meta.dynamism == Dynamism::Static;
        let mut dims = found.iter().copied().zip(planned.iter()).enumerate();
        let fault =
            dims.find(|(_, (found, planned))| found > planned || (is_static && found < planned));
        match fault {
            Some((dim, (found, needed))) if is_static => {
                RunError::InputSize { index, dim, found, needed }
            }
            Some((dim, (found, limit))) => RunError::InputTooLarge { index, dim, found, limit },
            None => RunError::Input { index, error },
        }
    }

    fn bind_scalar(&mut self, index: usize, input: &Input<'_>, value: u32) -> Result<(), RunError> {
        let given = match *input {
            Input::Int(value) => EValue::Int(value),
            Input::Double(value) => EValue::Double(value),
            Input::Bool(value) => EValue::Bool(value),
            Input::None => EValue::None,
            Input::Tensor(view) => {
                let (found, needed) = (view.dtype().name(), "a scalar");
                return Err(RunError::InputKind { index, found, needed });
            }
        };
        let fixed = match self.plan.value(value as usize) {
            Value::Int(value) => EValue::Int(value),
            Value::Double(value) => EValue::Double(value),
            Value::Bool(value) => EValue::Bool(value),
            // The exporter writes none for an integer that may take any value.
            _ => given,
        };
        if fixed != given {
            return Err(RunError::InputFixed { index });
        }
        self.values[value as usize].set(given);
        Ok(())
    }

    fn bind_alias(&mut self, alias: &Alias, view: TensorView<'_>) -> Result<(), Error> {
        // SAFETY: no call is under way, so nothing else reaches the slots.
        let tensor = unsafe { &mut *self.slots[alias.slot as usize].get() };
        let end = alias.offset.saturating_add(tensor.bytes_needed());
        let bytes = view.bytes().get(alias.offset..end);
        let bytes = bytes.ok_or(Error::InvalidTensor { reason: "it is smaller than planned" })?;
        // SAFETY: as for the input itself.
        unsafe { tensor.borrow(bytes) }
    }
}

/// Whether `view` lies in memory as `dim_order` says; dimensions of size one lie anywhere.
fn same_layout(view: &TensorView<'_>, dim_order: &[u8]) -> bool {
    let sizes = view.sizes();
    let long = |dim: &&u8| sizes.get(usize::from(**dim)).is_some_and(|&size| size != 1);
    view.dim_order() == dim_order
        || view.dim_order().iter().filter(long).eq(dim_order.iter().filter(long))
}

fn kind(input: &Input<'_>) -> &'static str {
    match input {
        Input::Tensor(_) => "a tensor",
        Input::Int(_) => "an int",
        Input::Double(_) => "a double",
        Input::Bool(_) => "a bool",
        Input::None => "none",
    }
}
