//! What a kernel is, and how the executor finds one.

#![expect(unsafe_code, reason = "declares what threads promise that share the work of a call")]

use core::mem::size_of;

use bytemuck::Pod;

use crate::{Args, Error};

/// What an operator takes at one place of its argument list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg {
    /// A tensor to read.
    Tensor,
    /// A tensor to read, or none.
    OptTensor,
    /// Tensors to read.
    TensorList,
    /// Tensors to read, some of them absent.
    OptTensorList,
    /// An integer, a floating-point number or a truth value.
    Scalar,
    /// As `Scalar`, or none.
    OptScalar,
    /// An integer.
    Int,
    /// An integer, or none.
    OptInt,
    /// A floating-point number; an integer stands for one.
    Double,
    /// As `Double`, or none.
    OptDouble,
    /// A truth value.
    Bool,
    /// A truth value, or none.
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
    /// Truth values.
    BoolList,
    /// The number of a dtype, or none.
    OptDtype,
    /// The number of a layout, device, memory format or generator, which a CPU kernel ignores.
    Ignored,
    /// A tensor to write; it shares no memory with what the call reads.
    Out,
    /// Tensors to write.
    OutList,
    /// A tensor to read and write in place.
    InOut,
    /// A tensor that becomes a view of another one.
    View,
    /// A scalar to write.
    OutScalar,
}

impl Arg {
    /// Whether the call writes through this argument.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Out | Self::OutList | Self::InOut | Self::View | Self::OutScalar)
    }
}

/// What the results of a call depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// On everything, as far as is known.
    Mixed,
    /// Each element on those at its place in the operands, which broadcast.
    Elements,
    /// Each row along the last dimension on that row of the first argument, and on all of the others.
    Lines,
    /// Each element on those in the first argument whose place differs in the dimensions of the list at
    /// `dims` alone; these are gone, or of size one if `keepdim` says so.
    Reduced {
        /// Which argument the dimensions are.
        dims: usize,
        /// Which argument tells whether they stay.
        keepdim: usize,
    },
    /// Each element on those in the first argument at its place in all dimensions but the last ones,
    /// of which the list at `dims` has the sizes; and on all of the other arguments.
    Normalized {
        /// Which argument the sizes are.
        dims: usize,
    },
    /// On one position of a dimension of the first argument.
    Selected {
        /// Which argument the dimension is.
        dim: usize,
        /// Which argument the position is.
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
    /// What it takes, in the order of its schema.
    pub args: &'static [Arg],
    /// The function.
    pub run: KernelFn,
    /// What its results depend on.
    pub rows: Rows,
}

impl Kernel {
    /// An entry of a kernel list.
    pub const fn new(name: &'static str, args: &'static [Arg], run: KernelFn) -> Self {
        Self { name, args, run, rows: Rows::Mixed }
    }

    /// The same, of whose results this is known.
    #[must_use]
    pub const fn with_rows(self, rows: Rows) -> Self {
        Self { rows, ..self }
    }
}

/// Lists of kernels: of each crate, of each file. The first that holds a name wins, so an
/// optimized list stands before the portable one.
pub type KernelLists<'a> = &'a [&'a [&'a [Kernel]]];

/// Finds `name` with `overload`: `aten::add` and `out`.
pub fn find_kernel<'a>(lists: KernelLists<'a>, name: &str, overload: &str) -> Option<&'a Kernel> {
    let mut all = lists.iter().flat_map(|list| list.iter()).flat_map(|file| file.iter());
    all.find(|kernel| match kernel.name.strip_prefix(name) {
        Some("") => overload.is_empty(),
        Some(rest) => rest.strip_prefix('.') == Some(overload),
        None => false,
    })
}

/// The kernels called `names`, with their overloads: a list for a build that links no other.
///
/// ```
/// use afferent_core::{Kernel, KernelLists, pick_kernels};
///
/// const ALL: KernelLists<'static> = &[&[&[Kernel::new("a::x.out", &[], |_, _| Ok(()))]]];
/// static PICKED: [Kernel; 1] = pick_kernels(ALL, ["a::x.out"]);
/// assert_eq!(PICKED[0].name, "a::x.out");
/// ```
///
/// # Panics
/// When a name is in no list; in a constant that is an error of the compiler.
pub const fn pick_kernels<const N: usize>(
    lists: KernelLists<'static>,
    names: [&str; N],
) -> [Kernel; N] {
    let mut picked = [Kernel::new("", &[], |_, _| Ok(())); N];
    let mut at = 0;
    while at < N {
        picked[at] = match pick_kernel(lists, names[at]) {
            Some(kernel) => kernel,
            None => panic!("no kernel has this name"),
        };
        at += 1;
    }
    picked
}

const fn pick_kernel(lists: KernelLists<'static>, name: &str) -> Option<Kernel> {
    let (mut list, mut file, mut kernel) = (0, 0, 0);
    while list < lists.len() {
        if file == lists[list].len() {
            (list, file) = (list + 1, 0);
        } else if kernel == lists[list][file].len() {
            (file, kernel) = (file + 1, 0);
        } else if same(lists[list][file][kernel].name, name) {
            return Some(lists[list][file][kernel]);
        } else {
            kernel += 1;
        }
    }
    None
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    a.len() == b.len() && at == a.len()
}

/// Threads that share the work of one call.
///
/// # Safety
/// [`Workers::run`] calls `work` with no number twice and with none from `pieces` on, and no call
/// is under way when it returns or panics: each number stands for a part of memory to write.
pub unsafe trait Workers: Sync {
    /// Threads, the calling one included.
    fn threads(&self) -> usize;

    /// Calls `work` with each number below `pieces`, once, on several threads, and returns when
    /// all calls are over. A piece should be worth some ten microseconds.
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync));

    /// The threads will be wanted soon: they wait for work without sleeping, for a bounded time. The
    /// executor says so at the start of a run.
    fn wake(&self) {}
}

/// What the executor gives to a kernel call besides its arguments.
#[derive(Default)]
pub struct KernelContext<'a> {
    scratch: &'a mut [u8],
    workers: Option<&'a dyn Workers>,
}

impl<'a> KernelContext<'a> {
    /// A context with scratch memory.
    pub fn new(scratch: &'a mut [u8]) -> Self {
        Self { scratch, workers: None }
    }

    /// The same with threads that kernels may use.
    #[must_use]
    pub fn with_workers(self, workers: Option<&'a dyn Workers>) -> Self {
        Self { workers, ..self }
    }

    /// The threads that the call may use besides its own, if any.
    pub fn workers(&self) -> Option<&'a dyn Workers> {
        self.workers
    }

    /// `len` elements of scratch memory with arbitrary contents, until the next call of this.
    ///
    /// A kernel asks before it writes anything: where memory is missing, the executor provides it
    /// if it can, and calls the kernel again.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] when there is not enough.
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
    fn names_match_whole() {
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
    fn scratch_says_how_much_is_missing() {
        let mut memory = [0_u8; 64];
        let mut cx = KernelContext::new(&mut memory);
        assert_eq!(cx.scratch::<f32>(8).map(|s| s.len()), Ok(8));
        let Err(Error::OutOfResources { bytes }) = cx.scratch::<f64>(64) else { panic!() };
        assert!((512..520).contains(&bytes));
        assert!(cx.scratch::<f64>(usize::MAX).is_err());
    }
}
