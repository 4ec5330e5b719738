//! Inputs of a run and their binding to the tensors of the method.

#![expect(unsafe_code, reason = "tensors borrow memory of the caller")]

use afferent_core::{Dynamism, EValue, Error, TensorMut, TensorView};
#[cfg(feature = "alloc")]
use afferent_core::{Residence, Tensor};
use afferent_program::Value;

use crate::{Method, RunError};

/// Input of a run.
#[derive(Debug, Clone, Copy)]
pub enum Input<'i> {
    /// A tensor.
    Tensor(TensorView<'i>),
    /// A tensor whose elements may be on a device. They stay there if the method allows it.
    #[cfg(feature = "alloc")]
    Owned(&'i Tensor),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Bool(bool),
    /// An absent optional.
    None,
}

impl<'i> Input<'i> {
    /// Elements of a tensor, which are read back if they are on a device.
    fn view(&self) -> Option<TensorView<'i>> {
        match *self {
            Self::Tensor(view) => Some(view),
            #[cfg(feature = "alloc")]
            Self::Owned(tensor) => Some(tensor.view()),
            _ => None,
        }
    }
}

impl<'i> From<TensorView<'i>> for Input<'i> {
    fn from(view: TensorView<'i>) -> Self {
        Self::Tensor(view)
    }
}

#[cfg(feature = "alloc")]
impl<'i> From<&'i Tensor> for Input<'i> {
    fn from(tensor: &'i Tensor) -> Self {
        Self::Owned(tensor)
    }
}

/// Binding of an input to a value of the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// The tensor borrows the caller's memory.
    Borrow { slot: u32 },
    /// The elements are copied, because the method writes the tensor.
    Copy { slot: u32 },
    /// The input is not a tensor.
    Scalar { value: u32 },
}

/// View of an input that the exporter resolved in the memory plan: static size and offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputAlias {
    /// Slot of the view.
    pub(crate) slot: u32,
    /// Index of the input.
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
            let Some(view) = inputs.get(index).and_then(Input::view) else { continue };
            self.bind_alias(alias, view).map_err(|error| RunError::Input { index, error })?;
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
        // SAFETY: no call is active, so nothing else accesses the slots.
        let tensor = unsafe { &mut *cell.get() };
        #[cfg(feature = "alloc")]
        if let Input::Owned(given) = input
            && tensor.residence() != Residence::Host
            && given.device_memory().is_some()
        {
            return self.bind_device_tensor(index, given, slot);
        }
        #[cfg(feature = "alloc")]
        if let Input::Owned(given) = input {
            given.fetch().map_err(|error| RunError::Input { index, error })?;
        }
        let Some(view) = &input.view() else {
            let (found, needed) = (kind(input), tensor.dtype().name());
            return Err(RunError::InputKind { index, found, needed });
        };
        if view.dtype() != tensor.dtype() {
            let (found, needed) = (view.dtype().name(), tensor.dtype().name());
            return Err(RunError::InputKind { index, found, needed });
        }
        let failed = |error| RunError::Input { index, error };
        if view.rank() == tensor.sizes().len()
            && !same_layout(view.sizes(), view.dim_order(), tensor.dim_order())
        {
            let reason = "its dim order differs from the method's";
            return Err(failed(Error::InvalidTensor { reason }));
        }
        let sizes = view.sizes();
        tensor.set_sizes(sizes).map_err(|error| self.size_error(index, sizes, error))?;
        if copy {
            // SAFETY: as above; the elements are in planned memory, not in the caller's.
            let mut tensor = unsafe { TensorMut::new(cell) };
            tensor.bytes_mut().map_err(failed)?.copy_from_slice(view.bytes());
            return Ok(());
        }
        // SAFETY: the signature of `run` makes the inputs outlive the outputs, and every run
        // rebinds the tensor before anything reads it.
        unsafe { tensor.borrow(view.bytes()) }.map_err(failed)
    }

    /// Binds a tensor on a device without reading it back.
    #[cfg(feature = "alloc")]
    fn bind_device_tensor(
        &mut self,
        index: usize,
        given: &Tensor,
        slot: u32,
    ) -> Result<(), RunError> {
        // SAFETY: no call is active, so nothing else accesses the slots.
        let tensor = unsafe { &mut *self.slots[slot as usize].get() };
        if given.dtype() != tensor.dtype() {
            let (found, needed) = (given.dtype().name(), tensor.dtype().name());
            return Err(RunError::InputKind { index, found, needed });
        }
        let sizes = given.sizes();
        let failed = |error| RunError::Input { index, error };
        if sizes.len() == tensor.sizes().len()
            && !same_layout(sizes, given.dim_order(), tensor.dim_order())
        {
            let reason = "its dim order differs from the method's";
            return Err(failed(Error::InvalidTensor { reason }));
        }
        tensor.set_sizes(sizes).map_err(|error| self.size_error(index, sizes, error))?;
        // The memory of the last input may be gone.
        tensor.clear();
        let Some(elements) = given.device_memory() else { return Ok(()) };
        tensor.put_on_device(elements.clone()).map_err(failed)
    }

    /// Explains why an input with sizes `found` was rejected with `error`: compares them with the
    /// sizes in the program.
    #[cold]
    fn size_error(&self, index: usize, found: &[usize], error: Error) -> RunError {
        let value = self.plan.inputs().get(index).map(|value| self.plan.value(value as usize));
        let Some(Value::Tensor(meta)) = value else { return RunError::Input { index, error } };
        let planned = meta.layout.sizes;
        if found.len() != planned.len() {
            return RunError::InputRank { index, found: found.len(), needed: planned.len() };
        }
        let is_static = meta.dynamism == Dynamism::Static;
        let mut dims = found.iter().copied().zip(planned.iter()).enumerate();
        let mismatch =
            dims.find(|(_, (found, planned))| found > planned || (is_static && found < planned));
        match mismatch {
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
            #[cfg(feature = "alloc")]
            Input::Owned(tensor) => {
                let (found, needed) = (tensor.dtype().name(), "a scalar");
                return Err(RunError::InputKind { index, found, needed });
            }
        };
        let constant = match self.plan.value(value as usize) {
            Value::Int(value) => EValue::Int(value),
            Value::Double(value) => EValue::Double(value),
            Value::Bool(value) => EValue::Bool(value),
            // The exporter writes `None` for an integer that may have any value.
            _ => given,
        };
        if constant != given {
            return Err(RunError::InputFixed { index });
        }
        self.values[value as usize].set(given);
        Ok(())
    }

    fn bind_alias(&mut self, alias: &InputAlias, view: TensorView<'_>) -> Result<(), Error> {
        // SAFETY: no call is active, so nothing else accesses the slots.
        let tensor = unsafe { &mut *self.slots[alias.slot as usize].get() };
        let end = alias.offset.saturating_add(tensor.nbytes());
        let bytes = view.bytes().get(alias.offset..end);
        let bytes = bytes.ok_or(Error::InvalidTensor { reason: "it is smaller than planned" })?;
        // SAFETY: as for the input itself.
        unsafe { tensor.borrow(bytes) }
    }
}

/// Returns true if two dim orders lay out `sizes` equally: dimensions of size one do not count.
fn same_layout(sizes: &[usize], found: &[u8], dim_order: &[u8]) -> bool {
    let counts = |dim: &&u8| sizes.get(usize::from(**dim)).is_some_and(|&size| size != 1);
    found == dim_order || found.iter().filter(counts).eq(dim_order.iter().filter(counts))
}

fn kind(input: &Input<'_>) -> &'static str {
    match input {
        Input::Tensor(_) => "a tensor",
        #[cfg(feature = "alloc")]
        Input::Owned(_) => "a tensor",
        Input::Int(_) => "an int",
        Input::Double(_) => "a double",
        Input::Bool(_) => "a bool",
        Input::None => "none",
    }
}
