//! Where kernels compute in the vectors of the processor: with the feature `std`.

pub(crate) mod conv;
pub(crate) mod gemm;

use afferent_core::{Args, ScalarType, TensorMut, TensorView, Workers};
use afferent_simd::{Isa, norm::Norm, softmax::Along};

use crate::shared::accumulator::Operand;

#[cfg(feature = "std")]
std::thread_local! {
    /// What kernels compute with on this thread, if it was chosen.
    static CHOSEN: core::cell::Cell<Option<Option<Isa>>> = const { core::cell::Cell::new(None) };
}

/// Runs `f` with kernels that compute with `isa` on this thread, or with portable code alone if
/// there is none, so that their results can be compared. Kernels compute with the fastest one else.
#[cfg(feature = "std")]
pub fn with_isa<T>(isa: Option<Isa>, f: impl FnOnce() -> T) -> T {
    let before = CHOSEN.replace(Some(isa));
    let result = f();
    CHOSEN.set(before);
    result
}

/// The fastest instruction set; none without `std`, where portable code has to be small.
pub(crate) fn isa() -> Option<Isa> {
    #[cfg(feature = "std")]
    return CHOSEN.get().unwrap_or_else(|| Some(Isa::best()));
    #[cfg(not(feature = "std"))]
    None
}

/// The instruction set of kernels that have no other code.
pub(crate) fn isa_or_fallback() -> Isa {
    isa().unwrap_or(if cfg!(feature = "std") { Isa::SCALAR } else { Isa::best() })
}

/// The elements before, along and after the dimension `dim`, which counts as one that is missing
/// in a tensor without dimensions; the instruction set; and the elements. None if `x` and `out` are
/// not row-major `f32` tensors of the same sizes, or there are no vectors.
pub(crate) fn softmax_operands<'a, 'o>(
    x: &TensorView<'a>,
    dim: usize,
    out: &'o mut TensorMut<'_, '_>,
) -> Option<(Isa, Along, &'a [f32], &'o mut [f32])> {
    let isa = isa()?;
    let is_plain = x.is_contiguous() && out.is_contiguous() && x.sizes() == out.sizes();
    let (from, to) = (x.data().ok()?, out.data_mut().ok()?);
    if !is_plain || to.is_empty() {
        return None;
    }
    let product = |sizes: &[usize]| sizes.iter().product();
    let (before, rest) = x.sizes().split_at_checked(dim)?;
    let (len, after) = rest.split_first().unwrap_or((&1, &[]));
    Some((isa, Along { outer: product(before), len: *len, inner: product(after) }, from, to))
}

/// The tensors at `indices`, if each is a row-major `f32` tensor or none.
pub(crate) fn affine_params<'a>(
    args: &Args<'a>,
    indices: [usize; 2],
) -> Option<[Option<&'a [f32]>; 2]> {
    let mut factors = [None; 2];
    for (factor, index) in factors.iter_mut().zip(indices) {
        if let Some(tensor) = args.opt_tensor(index).ok()? {
            *factor = Some(tensor.data().ok().filter(|_| tensor.is_contiguous())?);
        }
    }
    Some(factors)
}

/// Normalises the rows of `x` into `outs`: results, means and factors. Does nothing and returns
/// false if they are not row-major `f32` tensors with elements, or there are no vectors.
pub(crate) fn normalize(
    norm: Norm<'_>,
    x: &TensorView<'_>,
    outs: [&mut TensorMut<'_, '_>; 3],
) -> bool {
    let is_plain = x.is_contiguous() && outs.iter().all(|out| out.is_contiguous());
    let [out, mean, rstd] = outs.map(|out| out.data_mut::<f32>());
    match (isa(), x.data::<f32>(), out, mean, rstd) {
        (Some(isa), Ok(from), Ok(to), Ok(mean), Ok(rstd)) if is_plain && !from.is_empty() => {
            afferent_simd::norm::normalize(isa, norm, from, to, [mean, rstd]);
            true
        }
        _ => false,
    }
}

/// The elements as `f32`, if they are that and vectorised code is there.
fn as_f32<T: Operand>(data: &[T]) -> Option<&[f32]> {
    bytemuck::try_cast_slice(data).ok().filter(|_| uses_simd::<T>())
}

fn as_f32_mut<T: Operand>(data: &mut [T]) -> Option<&mut [f32]> {
    bytemuck::try_cast_slice_mut(data).ok().filter(|_| uses_simd::<T>())
}

fn uses_simd<T: Operand>() -> bool {
    isa().is_some() && T::DTYPE == ScalarType::Float
}

fn threads(workers: Option<&dyn Workers>) -> usize {
    workers.map_or(1, Workers::threads)
}
