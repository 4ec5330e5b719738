//! What runs a delegated part of a method.

#[cfg(feature = "alloc")]
use alloc::{boxed::Box, sync::Arc};
use core::ops::{Deref, DerefMut};

use crate::{Args, Error, KernelContext};

/// Turns the compiled blobs of a program into runnable delegates.
///
/// Counterpart of ExecuTorch `BackendInterface`; the handle that it returned is an owned
/// [`Delegate`] here, so `destroy` is `Drop`.
pub trait Backend: Send + Sync {
    /// Name, as in the program.
    fn name(&self) -> &'static str;

    /// Whether this machine can run it.
    fn is_available(&self) -> bool;

    /// The number of the layout of constants that it prepares, and the instruction set that they are
    /// prepared for: what they depend on besides their source and form.
    fn layout(&self) -> (u32, &'static str) {
        (0, "any")
    }

    /// Prepares a blob for execution.
    ///
    /// # Errors
    /// [`Error::DelegateInvalidCompatibility`] when the blob is not one that this backend reads.
    fn init<'a>(&self, source: &DelegateSource<'a, '_>) -> Result<DelegateHandle<'a>, Error>;
}

/// One setting that the exporter recorded for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileSpec<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value, in the backend's own encoding.
    pub value: &'a [u8],
}

/// What a backend gets to prepare one delegate.
#[derive(Clone, Copy)]
pub struct DelegateSource<'a, 'c> {
    /// The compiled blob.
    pub blob: &'a [u8],
    /// The settings, by place; `None` past the end.
    pub spec: &'c dyn Fn(usize) -> Option<CompileSpec<'a>>,
    /// Named data of the program and of external files.
    pub named_data: &'c dyn Fn(&str) -> Option<&'a [u8]>,
    /// Bytes that it may take for values between its operations, and as many for what it makes of
    /// constants and shares with nobody.
    pub memory_limit: usize,
    /// Keeps what the backend makes of constants.
    #[cfg(feature = "alloc")]
    pub prepared: Option<&'c dyn Prepared>,
}

/// Bytes that several owners share, aligned to 64.
#[cfg(feature = "alloc")]
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Keeps what backends make of the constants of a file, so that it is made once for all who use
/// the file at a time, and perhaps for those who use it later.
#[cfg(feature = "alloc")]
pub trait Prepared: Sync {
    /// The `len` bytes that were made of `source`, which is a part of the file, in this form.
    /// Where nobody has made them yet, `make` does, of zeros. Equal forms of equal sources are
    /// equal bytes.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] when there is no memory, and those of `make`.
    fn get(
        &self,
        source: &[u8],
        form: u64,
        len: usize,
        make: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<SharedBytes, Error>;
}

/// One part of a method that a backend runs.
pub trait Delegate: Send {
    /// How many of the arguments are inputs; the others are outputs.
    fn inputs(&self) -> usize;

    /// Whether each row along dimension `dim` of the results, which all have `rank` dimensions, depends
    /// on that row alone of the inputs that have as many, and of no input whose dimensions, counted
    /// from the last one, reach to `dim` otherwise.
    fn keeps_rows(&self, _rank: usize, _dim: usize) -> bool {
        false
    }

    /// Runs it once.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a shape does not fit.
    fn execute(&mut self, cx: &mut KernelContext<'_>, args: &mut Args<'_>) -> Result<(), Error>;
}

/// A delegate, boxed or in memory of the caller.
pub enum DelegateHandle<'a> {
    /// It lies in static or borrowed memory.
    Borrowed(&'a mut (dyn Delegate + 'a)),
    /// It lies on the heap.
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
