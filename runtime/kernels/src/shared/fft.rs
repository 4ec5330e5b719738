//! Fourier transforms along a dimension of a tensor.
//!
//! The transforms are those of `afferent_simd::fft`. With the feature `std`, each thread keeps the
//! tables of the lengths that it used last. Without it, a call computes them in its scratch memory.

pub(crate) mod args;
#[cfg(feature = "std")]
mod cache;

use afferent_core::{Element, Error, KernelContext};
use afferent_simd::fft::{
    Kind, MAX_BATCH, Real, Signals, Tables, batch_len, scratch_len, tables_len, transform,
};

#[cfg(feature = "std")]
use crate::shared::fft::cache::Cache;
use crate::shared::{accumulator::Float, loop_nest::LoopNest, simd::isa_or_fallback};

/// Element of a transform: `f32` or `f64`.
pub(crate) trait Component: Float + Element + Real {
    /// Tables that this thread keeps.
    #[cfg(feature = "std")]
    fn with_cache<T>(f: impl FnOnce(&mut Cache<Self>) -> T) -> T;
}

macro_rules! component {
    ($rust:ident) => {
        impl Component for $rust {
            #[cfg(feature = "std")]
            fn with_cache<T>(f: impl FnOnce(&mut Cache<Self>) -> T) -> T {
                std::thread_local! {
                    static CACHE: core::cell::RefCell<Cache<$rust>> =
                        const { core::cell::RefCell::new(Cache::new()) };
                }
                CACHE.with_borrow_mut(f)
            }
        }
    };
}

component!(f32);
component!(f64);

const TOO_LONG: Error = Error::OutOfResources { bytes: usize::MAX };

/// Transforms of one length.
#[derive(Clone, Copy)]
pub(crate) struct Fft {
    kind: Kind,
    len: usize,
}

impl Fft {
    /// Transforms of signals of length `len`, at least 1.
    pub(crate) fn new(kind: Kind, len: usize) -> Self {
        Self { kind, len }
    }

    /// Numbers of scratch memory that [`Fft::run`] needs, as `A`.
    pub(crate) fn scratch_len<A: Component>(self) -> Result<usize, Error> {
        let tables = if cfg!(feature = "std") {
            0
        } else {
            let pairs = tables_len(self.len, self.kind.is_real());
            pairs.and_then(|pairs| pairs.checked_mul(2)).ok_or(TOO_LONG)?
        };
        let buffers = scratch_len::<A>(isa_or_fallback(), self.kind, self.len);
        buffers.and_then(|len| len.checked_add(tables)).ok_or(TOO_LONG)
    }

    /// Runs the transforms of all signals that start at the offsets of `signals`, in numbers, and
    /// multiplies the results by `scale`. `strides` are the distances of the elements of a signal
    /// in `from` and in `to`, in numbers.
    pub(crate) fn run<A: Component>(
        self,
        signals: &LoopNest<2>,
        (from, to): (&[A], &mut [A]),
        strides: [usize; 2],
        scale: A,
        scratch: &mut [A],
    ) -> Result<(), Error> {
        let mut run = |tables: &[[A; 2]], scratch: &mut [A]| {
            let tables = Tables::new(self.len, self.kind.is_real(), tables);
            self.run_batches(signals, (from, to), strides, (tables, scale), scratch);
        };
        #[cfg(feature = "std")]
        return A::with_cache(|cache| {
            run(cache.get(self.len, self.kind.is_real())?, scratch);
            Ok(())
        });
        #[cfg(not(feature = "std"))]
        {
            let pairs = tables_len(self.len, self.kind.is_real()).ok_or(TOO_LONG)?;
            let (tables, scratch) = scratch.split_at_mut_checked(2 * pairs).ok_or(TOO_LONG)?;
            let tables = bytemuck::cast_slice_mut(tables);
            afferent_simd::fft::fill_tables(self.len, self.kind.is_real(), tables);
            run(tables, scratch);
            Ok(())
        }
    }

    fn run_batches<A: Component>(
        self,
        signals: &LoopNest<2>,
        (from, to): (&[A], &mut [A]),
        strides: [usize; 2],
        (tables, scale): (Tables<'_, A>, A),
        scratch: &mut [A],
    ) {
        let isa = isa_or_fallback();
        let size = batch_len::<A>(isa);
        let (mut starts, mut count) = ([[0; MAX_BATCH]; 2], 0);
        let mut run = |starts: &[[usize; MAX_BATCH]; 2], count: usize| {
            let from = Signals { data: from, starts: &starts[0][..count], stride: strides[0] };
            let to = Signals { data: &mut *to, starts: &starts[1][..count], stride: strides[1] };
            transform(isa, self.kind, tables, (from, to), scale, scratch);
        };
        signals.for_each([0, 0], |offsets| {
            (starts[0][count], starts[1][count]) = (offsets[0], offsets[1]);
            count += 1;
            if count == size {
                run(&starts, count);
                count = 0;
            }
        });
        if count > 0 {
            run(&starts, count);
        }
    }
}

/// Loops over the signals along `dim` of tensors with these sizes and strides, in numbers.
pub(crate) fn signals(
    sizes: &[usize],
    strides: [&[usize]; 2],
    dim: usize,
    numbers: [usize; 2],
) -> Result<LoopNest<2>, Error> {
    let mut loops = LoopNest::new();
    for (other, &size) in sizes.iter().enumerate() {
        if other != dim {
            let stride = |side: usize| strides[side][other].saturating_mul(numbers[side]);
            loops.push(size, [stride(0), stride(1)])?;
        }
    }
    Ok(loops)
}

/// Complex numbers in place: transforms `data`, with these sizes and strides of complex elements,
/// along each of `dims`. `copy` has the length of `data` if `dims` is not empty.
pub(crate) fn transform_dims<A: Component>(
    kind: Kind,
    (data, copy): (&mut [A], &mut [A]),
    (sizes, strides): (&[usize], &[usize]),
    dims: &[usize],
    scratch: &mut [A],
) -> Result<(), Error> {
    for &dim in dims {
        copy.copy_from_slice(data);
        let signals = signals(sizes, [strides, strides], dim, [2, 2])?;
        let stride = 2 * strides[dim].max(1);
        let fft = Fft::new(kind, sizes[dim]);
        fft.run(&signals, (copy, data), [stride, stride], A::ONE, scratch)?;
    }
    Ok(())
}

/// Scratch memory: a buffer of `buffer_len` numbers, and memory for each of `transforms`.
pub(crate) fn scratch<'c, A: Component>(
    cx: &'c mut KernelContext<'_>,
    buffer_len: usize,
    transforms: impl Iterator<Item = Fft>,
) -> Result<(&'c mut [A], &'c mut [A]), Error> {
    let mut transform_len = 0;
    for fft in transforms {
        transform_len = transform_len.max(fft.scratch_len::<A>()?);
    }
    let memory = cx.scratch::<A>(buffer_len.checked_add(transform_len).ok_or(TOO_LONG)?)?;
    Ok(memory.split_at_mut(buffer_len))
}
