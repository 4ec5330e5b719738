//! Planned memory that the methods of a model share, and the state in it.

#![expect(unsafe_code, reason = "methods of one model share planned memory")]

use core::ptr::NonNull;

use afferent_core::AlignedBytes;

use super::{ModelError, ModelFile};
use crate::{
    LoadError, PlannedBuffer, Problem,
    initial::{Initial, initial},
    load::{BLOCK, WORK},
};

/// The planned buffers of a model from the second on. They are made when a method needs them.
#[derive(Default)]
pub(super) struct Shared {
    buffers: Vec<SharedBuffer>,
}

/// Memory that neither moves nor shrinks.
struct SharedBuffer {
    data: NonNull<u8>,
    len: usize,
    /// Owns what `data` points to.
    _bytes: AlignedBytes,
}

// SAFETY: the bytes are reached only through the methods of the model that owns the buffer,
// which run under an exclusive borrow of the model.
unsafe impl Send for SharedBuffer {}

impl Shared {
    /// Buffers of `sizes`, or larger ones, for method `name`.
    ///
    /// New ones get at once what the state of all methods holds at first: a method that is loaded
    /// later finds the state as the others left it.
    ///
    /// # Errors
    /// [`ModelError::NoMemory`], and [`ModelError::Load`] when there are more initial values than can
    /// be written.
    pub(super) fn buffers(
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
            self.write_initial(file, first);
        }
        Ok(self.buffers.iter().take(sizes.len()).map(SharedBuffer::planned).collect())
    }

    /// Returns the state to what it is at first.
    pub(super) fn reset(&mut self, file: &ModelFile) {
        for buffer in &self.buffers {
            buffer.planned().zero();
        }
        self.write_initial(file, 0);
    }

    /// Writes what the state of all methods holds at first into the buffers from `first` on.
    fn write_initial(&mut self, file: &ModelFile, first: usize) {
        for (at, Initial { allocation, bytes }) in initial_values(file) {
            if let Some(buffer) = self.buffers.get(at).filter(|_| at >= first) {
                buffer.planned().write(allocation.offset, bytes);
            }
        }
    }
}

/// What the state in shared buffers holds at first, with the number of the buffer among them.
fn initial_values(file: &ModelFile) -> impl Iterator<Item = (usize, Initial<'_>)> {
    let plans = file.program().methods();
    let all = plans.flat_map(move |plan| initial(plan, move |key| file.named_data(key)));
    all.filter_map(|initial| Some((initial.allocation.buffer_index.checked_sub(1)?, initial)))
}

/// Tensors may share their initial value, so that a small file asks for endless copies.
fn check_work(file: &ModelFile, name: &str) -> Result<(), ModelError> {
    let work = initial_values(file).map(|(_, initial)| 1 + initial.bytes.len() / BLOCK);
    if work.fold(0, usize::saturating_add) <= WORK as usize {
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
    /// Zeros; `None` when the system does not give them.
    fn new(len: usize) -> Option<Self> {
        let mut bytes = AlignedBytes::try_zeroed(len)?;
        let data = NonNull::from(bytes.as_mut_slice()).cast();
        Some(Self { data, len, _bytes: bytes })
    }

    /// The buffer for one method. The model drops its methods before its buffers.
    fn planned(&self) -> PlannedBuffer<'static> {
        // SAFETY: the bytes live as long as the model, whose methods run one at a time.
        unsafe { PlannedBuffer::shared(self.data, self.len) }
    }
}
