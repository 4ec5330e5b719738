//! Planned buffers that the methods of a model share, for common mutable buffers.

#![expect(unsafe_code, reason = "methods of one model share planned memory")]

use core::ptr::NonNull;

use afferent_core::AlignedBytes;

use super::{ModelError, ModelFile};
use crate::{
    LoadError, PlannedBuffer, Problem,
    initial_value::{InitialValue, initial_values},
    load::{COPY_BYTES_PER_WORK, MAX_WORK},
};

/// All planned buffers of a model except the first. They are allocated when a method needs them.
#[derive(Default)]
pub(super) struct SharedBuffers {
    buffers: Vec<SharedBuffer>,
}

/// Memory that neither moves nor shrinks.
struct SharedBuffer {
    data: NonNull<u8>,
    len: usize,
    /// Owner of the memory at `data`.
    _bytes: AlignedBytes,
}

// SAFETY: only the methods of the model that owns the buffer access the bytes, and they run under
// an exclusive borrow of the model.
unsafe impl Send for SharedBuffer {}

impl SharedBuffers {
    /// Buffers of at least `sizes` for method `name`.
    ///
    /// A new buffer gets the initial values of all methods at once, so a method that is loaded
    /// later sees the changes that other methods have made.
    ///
    /// # Errors
    /// [`ModelError::NoMemory`]; [`ModelError::Load`] if writing the initial values exceeds the
    /// work limit.
    pub(super) fn get(
        &mut self,
        file: &ModelFile,
        name: &str,
        sizes: &[usize],
    ) -> Result<Vec<PlannedBuffer<'static>>, ModelError> {
        let first = self.buffers.len();
        let new = sizes.get(first..).unwrap_or_default();
        if !new.is_empty() {
            check_work(file, name)?;
            let new = new.iter().map(|&len| SharedBuffer::new(len).ok_or(len));
            let new = new.collect::<Result<Vec<_>, _>>();
            self.buffers.extend(new.map_err(|needed| ModelError::no_memory(file, name, needed))?);
            self.write_initial_values(file, first);
        }
        Ok(self.buffers.iter().take(sizes.len()).map(SharedBuffer::planned).collect())
    }

    /// All buffers.
    pub(super) fn planned(&self) -> impl Iterator<Item = PlannedBuffer<'static>> {
        self.buffers.iter().map(SharedBuffer::planned)
    }

    /// Resets all mutable buffers to their initial values.
    pub(super) fn reset(&mut self, file: &ModelFile) {
        for buffer in &self.buffers {
            buffer.planned().zero();
        }
        self.write_initial_values(file, 0);
    }

    /// Writes the initial values of all methods into the buffers with index `first` or greater.
    fn write_initial_values(&mut self, file: &ModelFile, first: usize) {
        for (at, InitialValue { allocation, bytes }) in shared_initial_values(file) {
            if let Some(buffer) = self.buffers.get(at).filter(|_| at >= first) {
                buffer.planned().write(allocation.offset, bytes);
            }
        }
    }
}

/// Initial values in shared buffers, with the index of the shared buffer.
fn shared_initial_values(file: &ModelFile) -> impl Iterator<Item = (usize, InitialValue<'_>)> {
    let plans = file.program().methods();
    let all = plans.flat_map(move |plan| initial_values(plan, move |key| file.named_data(key)));
    all.filter_map(|initial| Some((initial.allocation.buffer_index.checked_sub(1)?, initial)))
}

/// Checks the work of writing the initial values. Tensors may share an initial value, so a small
/// file can cause unlimited copies.
fn check_work(file: &ModelFile, name: &str) -> Result<(), ModelError> {
    let values = shared_initial_values(file);
    let work = values.map(|(_, value)| 1 + value.bytes.len() / COPY_BYTES_PER_WORK);
    if work.fold(0, usize::saturating_add) <= MAX_WORK as usize {
        return Ok(());
    }
    let problem = Problem::TooMuchWork;
    Err(ModelError::Load {
        path: file.path().to_owned(),
        method: name.to_owned(),
        error: LoadError::Problems { count: 1, code: problem.code() },
        problems: vec![problem.to_string()],
    })
}

impl SharedBuffer {
    /// Zeroed buffer; `None` if the allocation fails.
    fn new(len: usize) -> Option<Self> {
        let mut bytes = AlignedBytes::try_zeroed(len)?;
        let data = NonNull::from(bytes.as_mut_slice()).cast();
        Some(Self { data, len, _bytes: bytes })
    }

    /// Planned buffer for one method. The model drops its methods before its buffers.
    fn planned(&self) -> PlannedBuffer<'static> {
        // SAFETY: the bytes live as long as the model, whose methods run one at a time.
        unsafe { PlannedBuffer::shared(self.data, self.len) }
    }
}
