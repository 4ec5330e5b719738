//! Backends, delegates, and the weight cache.

#[cfg(feature = "alloc")]
use alloc::{boxed::Box, string::String, sync::Arc};
use core::ops::{Deref, DerefMut};

use crate::{Args, Error, KernelContext};

/// Initializes delegates from the compiled blobs of a program.
///
/// Counterpart of ExecuTorch `BackendInterface`. The handle that it returned is an owned
/// [`Delegate`] here, so `destroy` is `Drop`.
pub trait Backend: Send + Sync {
    /// Name, as in the program.
    fn name(&self) -> &'static str;

    /// Returns true if the backend can run on this machine.
    fn is_available(&self) -> bool;

    /// Reason why the backend cannot run on this machine, as a clause with the fix; `None` if it can,
    /// or there is nothing to add.
    #[cfg(feature = "alloc")]
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Version of the layout of packed constants, and the instruction set that they are packed for.
    /// With the source bytes and the packing id they determine the packed bytes.
    fn layout(&self) -> (u32, &'static str) {
        (0, "any")
    }

    /// Initializes a delegate.
    ///
    /// # Errors
    /// [`Error::DelegateInvalidCompatibility`] if this backend cannot read the blob.
    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error>;
}

/// Setting that the exporter recorded for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileSpec<'a> {
    /// Name of the setting.
    pub key: &'a str,
    /// Value in the backend's own encoding.
    pub value: &'a [u8],
}

/// Input of [`Backend::init`].
#[derive(Clone, Copy)]
pub struct DelegateSource<'a, 'c> {
    /// Compiled blob.
    pub blob: &'a [u8],
    /// Compile spec at an index; `None` past the end.
    pub spec: &'c dyn Fn(usize) -> Option<CompileSpec<'a>>,
    /// Named data of the program and of its data files.
    pub named_data: &'c dyn Fn(&str) -> Option<&'a [u8]>,
    /// Reports the name of an operator of the blob that the backend does not implement. A backend
    /// calls it once for each, then returns an error.
    pub missing_operator: &'c dyn Fn(&str),
    /// Limit in bytes of the memory for intermediate values, and a second one, just as large, of
    /// the memory for packed constants that are not shared.
    pub memory_limit: usize,
    /// Cache for packed constants.
    #[cfg(feature = "alloc")]
    pub weight_cache: Option<&'c dyn WeightCache>,
}

/// Bytes with shared ownership, aligned to 64.
#[cfg(feature = "alloc")]
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Cache of packed constants of a file. All delegates that use the file share them, and an
/// implementation may store them for later processes.
///
/// Counterpart of XNNPACK `xnn_weights_cache_provider`.
#[cfg(feature = "alloc")]
pub trait WeightCache: Sync {
    /// Returns the `len` packed bytes of `source`, which is a range of the file. Calls `pack` with
    /// zeroed memory if they are not in the cache.
    ///
    /// `packing` identifies the packed layout: equal sources with equal packing ids have equal
    /// packed bytes.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] if the allocation fails, and errors of `pack`.
    fn get_or_pack(
        &self,
        source: &[u8],
        packing: u64,
        len: usize,
        pack: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<SharedBytes, Error>;
}

/// Part of a method that a backend runs.
pub trait Delegate: Send {
    /// Number of arguments that are inputs. The others are outputs.
    fn num_inputs(&self) -> usize;

    /// Returns true if slices along dimension `dim` of tensors of rank `rank` are independent.
    ///
    /// That is: all outputs have rank `rank`; each of their slices depends only on the same slice
    /// of the inputs of that rank; and no other input has a dimension that broadcasts to `dim`,
    /// counted from the last dimension.
    fn is_independent_along(&self, _rank: usize, _dim: usize) -> bool {
        false
    }

    /// Runs the delegate.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the shape of an argument is not supported.
    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error>;
}

/// Delegate on the heap or in memory of the caller.
pub enum DelegateHandle<'a> {
    /// Delegate in static or borrowed memory.
    Borrowed(&'a mut (dyn Delegate + 'a)),
    /// Delegate on the heap.
    #[cfg(feature = "alloc")]
    Owned(Box<dyn Delegate + 'a>),
}

impl<'a> Deref for DelegateHandle<'a> {
    type Target = dyn Delegate + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Borrowed(delegate) => &**delegate,
            #[cfg(feature = "alloc")]
            Self::Owned(delegate) => &**delegate,
        }
    }
}

impl DerefMut for DelegateHandle<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Borrowed(delegate) => &mut **delegate,
            #[cfg(feature = "alloc")]
            Self::Owned(delegate) => &mut **delegate,
        }
    }
}
