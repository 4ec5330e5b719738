//! Kernels, kernel lists, and the context of a kernel call.

#![expect(unsafe_code, reason = "`Workers` is an unsafe trait: kernels rely on its contract")]

use core::mem::size_of;

use bytemuck::Pod;

use crate::{Args, Error};

/// Kind of an argument in an operator's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// An input tensor.
    Tensor,
    /// An input tensor, or none.
    OptTensor,
    /// A list of input tensors.
    TensorList,
    /// A list of input tensors; elements may be absent.
    OptTensorList,
    /// An integer, a floating-point number or a boolean.
    Scalar,
    /// As `Scalar`, or none.
    OptScalar,
    /// An integer.
    Int,
    /// An integer, or none.
    OptInt,
    /// A floating-point number; an integer is converted.
    Double,
    /// As `Double`, or none.
    OptDouble,
    /// A boolean.
    Bool,
    /// A boolean, or none.
    OptBool,
    /// A string.
    Str,
    /// A string, or none.
    OptStr,
    /// Integers.
    IntList,
    /// Integers, or none.
    OptIntList,
    /// Floating-point numbers, or none.
    OptDoubleList,
    /// Booleans.
    BoolList,
    /// The code of a dtype, or none.
    OptDtype,
    /// A layout, device, memory format or generator, which a CPU kernel ignores.
    Ignored,
    /// An output tensor. It shares no memory with the inputs.
    Out,
    /// A list of output tensors.
    OutList,
    /// A tensor that is read and written in place.
    InOut,
    /// A tensor that becomes a view of another one.
    View,
    /// An output scalar.
    OutScalar,
}

impl Arg {
    /// Returns true if the call writes this argument.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Out | Self::OutList | Self::InOut | Self::View | Self::OutScalar)
    }
}

/// Data dependence of the result of an operator on its arguments, for graph rewrites.
///
/// Counterpart of TVM's `OpPatternKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpPattern {
    /// Unknown: each element may depend on all elements of all arguments.
    Opaque,
    /// Each element depends on the elements at its position in the operands, which broadcast.
    Elementwise,
    /// Each row along the last dimension depends on the same row of the first argument and on all
    /// elements of the other arguments.
    RowWise,
    /// Each element depends on the elements of the first argument that differ from its position
    /// only in the reduced dimensions. These are removed, or kept with size one.
    Reduction {
        /// Index of the argument that lists the reduced dimensions.
        dims: usize,
        /// Index of the boolean argument that keeps them with size one.
        keepdim: usize,
    },
    /// Each element depends on the elements of the first argument that differ from its position
    /// only in the normalized dimensions, which are the last ones, and on all elements of the other
    /// arguments.
    Normalization {
        /// Index of the argument that lists the sizes of the normalized dimensions.
        dims: usize,
    },
    /// The result is one position along one dimension of the first argument.
    Select {
        /// Index of the argument with the dimension.
        dim: usize,
        /// Index of the argument with the position.
        index: usize,
    },
}

/// Entry point of a kernel.
pub type KernelFn = fn(&mut KernelContext<'_>, &mut Args<'_>) -> Result<(), Error>;

/// One operator overload and the function that runs it.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Operator with overload, for example `aten::gelu.out`.
    pub name: &'static str,
    /// Kinds of the arguments, in the order of the schema.
    pub args: &'static [Arg],
    /// The function.
    pub run: KernelFn,
    /// Data dependence of the result.
    pub pattern: OpPattern,
}

impl Kernel {
    /// Entry of a kernel list.
    pub const fn new(name: &'static str, args: &'static [Arg], run: KernelFn) -> Self {
        Self { name, args, run, pattern: OpPattern::Opaque }
    }

    /// The same kernel with a known data dependence.
    #[must_use]
    pub const fn with_pattern(self, pattern: OpPattern) -> Self {
        Self { pattern, ..self }
    }
}

/// Kernel lists: one for each namespace, made of one for each file. The first entry with a name
/// wins, so an optimized list comes before the portable one.
pub type KernelLists<'a> = &'a [&'a [&'a [Kernel]]];

/// Finds the kernel of operator `name` and `overload`, for example `aten::add` and `out`.
pub fn find_kernel<'a>(lists: KernelLists<'a>, name: &str, overload: &str) -> Option<&'a Kernel> {
    let mut all = lists.iter().flat_map(|list| list.iter()).flat_map(|file| file.iter());
    all.find(|kernel| match kernel.name.strip_prefix(name) {
        Some("") => overload.is_empty(),
        Some(rest) => rest.strip_prefix('.') == Some(overload),
        None => false,
    })
}

/// Selective build: the kernels called `names`, each with its overload. Only these are linked.
///
/// ```
/// use afferent_core::{Kernel, KernelLists, select_kernels};
///
/// const ALL: KernelLists<'static> = &[&[&[Kernel::new("a::x.out", &[], |_, _| Ok(()))]]];
/// static SELECTED: [Kernel; 1] = select_kernels(ALL, ["a::x.out"]);
/// assert_eq!(SELECTED[0].name, "a::x.out");
/// ```
///
/// # Panics
/// If a name is in no list. In a constant this is a compile error.
pub const fn select_kernels<const N: usize>(
    lists: KernelLists<'static>,
    names: [&str; N],
) -> [Kernel; N] {
    let mut selected = [Kernel::new("", &[], |_, _| Ok(())); N];
    let mut at = 0;
    while at < N {
        selected[at] = match select_kernel(lists, names[at]) {
            Some(kernel) => kernel,
            None => panic!("no kernel has this name"),
        };
        at += 1;
    }
    selected
}

const fn select_kernel(lists: KernelLists<'static>, name: &str) -> Option<Kernel> {
    let (mut list, mut file, mut kernel) = (0, 0, 0);
    while list < lists.len() {
        if file == lists[list].len() {
            (list, file) = (list + 1, 0);
        } else if kernel == lists[list][file].len() {
            (file, kernel) = (file + 1, 0);
        } else if str_equal(lists[list][file][kernel].name, name) {
            return Some(lists[list][file][kernel]);
        } else {
            kernel += 1;
        }
    }
    None
}

/// `a == b` in a constant function.
const fn str_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

/// Worker threads that share the work of one kernel call.
///
/// # Safety
/// [`Workers::run`] calls `work` at most once with each index, with no index outside `0..tasks`,
/// and all calls have returned when it returns or panics. Callers write to disjoint memory in each
/// task and rely on this.
pub unsafe trait Workers: Sync {
    /// Number of threads, including the calling thread.
    fn threads(&self) -> usize;

    /// Calls `work` once with each index in `0..tasks`, on several threads, and returns after all
    /// calls have returned. A task should take at least about ten microseconds.
    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync));

    /// Announces work: for a bounded time the threads wait for it without sleeping. The executor
    /// calls this at the start of a run.
    fn wake(&self) {}
}

/// Context of a kernel call: scratch memory, worker threads, and the observer of a profile.
#[derive(Default)]
pub struct KernelContext<'a> {
    scratch: &'a mut [u8],
    workers: Option<&'a dyn Workers>,
    observer: Option<&'a dyn DelegateObserver>,
}

/// Receiver of the times of the parts of a delegate, such as shaders.
pub trait DelegateObserver {
    /// A part with this name took `nanos` nanoseconds. Parts are told in the order of their runs.
    fn part(&self, name: &str, nanos: u64);
}

impl<'a> KernelContext<'a> {
    /// Context with scratch memory and no worker threads.
    pub fn new(scratch: &'a mut [u8]) -> Self {
        Self { scratch, workers: None, observer: None }
    }

    /// The same context with worker threads.
    #[must_use]
    pub fn with_workers(self, workers: Option<&'a dyn Workers>) -> Self {
        Self { workers, ..self }
    }

    /// Worker threads that the call may use, if any.
    pub fn workers(&self) -> Option<&'a dyn Workers> {
        self.workers
    }

    /// The same context with an observer of the parts of a delegate.
    #[must_use]
    pub fn with_observer(self, observer: Option<&'a dyn DelegateObserver>) -> Self {
        Self { observer, ..self }
    }

    /// Observer of the parts of a delegate, if the run is profiled. It may make the call slower.
    pub fn observer(&self) -> Option<&'a dyn DelegateObserver> {
        self.observer
    }

    /// Borrows `len` elements of scratch memory with arbitrary contents. The next call of this
    /// function returns the same memory.
    ///
    /// A kernel calls this before it writes any output: if memory is missing, the executor provides
    /// it, if it can, and calls the kernel again.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] if there is not enough memory.
    pub fn scratch<T: Pod>(&mut self, len: usize) -> Result<&mut [T], Error> {
        let missing = |bytes| Error::OutOfResources { bytes };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(missing(usize::MAX))?;
        let skip = self.scratch.as_ptr().align_offset(align_of::<T>());
        let end = skip.checked_add(bytes).ok_or(missing(usize::MAX))?;
        let memory = self.scratch.get_mut(skip..end).ok_or(missing(end))?;
        let cast = bytemuck::try_cast_slice_mut(memory);
        cast.map_err(|_| Error::Internal { reason: "scratch memory is aligned" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: &[Kernel] = &[
        Kernel::new("aten::add.out", &[], |_, _| Ok(())),
        Kernel::new("prim::x", &[], |_, _| Ok(())),
    ];

    #[test]
    fn find_kernel_matches_whole_names() {
        let found = |name, overload| find_kernel(&[&[KERNELS]], name, overload).is_some();
        assert!(found("aten::add", "out"));
        assert!(found("prim::x", ""));
        for (name, overload) in [
            ("aten::ad", "d.out"),
            ("aten::add", ""),
            ("aten::add", "Scalar_out"),
            ("prim::x", "y"),
        ] {
            assert!(!found(name, overload), "{name} {overload}");
        }
    }

    #[test]
    fn missing_scratch_memory_is_reported_in_bytes() {
        let mut memory = [0_u8; 64];
        let mut cx = KernelContext::new(&mut memory);
        assert_eq!(cx.scratch::<f32>(8).map(|s| s.len()), Ok(8));
        let Err(Error::OutOfResources { bytes }) = cx.scratch::<f64>(64) else { panic!() };
        assert!((512..520).contains(&bytes));
        assert!(cx.scratch::<f64>(usize::MAX).is_err());
    }
}
