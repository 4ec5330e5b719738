//! SIMD fast paths for `f32`, and the choice of the instruction set. They need the feature `std`.

pub(crate) mod conv;
pub(crate) mod gemm;

use afferent_core::{Args, ScalarType, TensorMut, TensorView};
use afferent_simd::{
    Isa,
    norm::{Norm, NormOutput},
    softmax::Axis,
};

use crate::shared::accumulator::Operand;

#[cfg(feature = "std")]
std::thread_local! {
    /// Instruction set that [`with_isa`] selected on this thread.
    static SELECTED: core::cell::Cell<Option<Option<Isa>>> = const { core::cell::Cell::new(None) };
}

/// Runs `f` with `isa` as the instruction set of all kernels on this thread, or with portable code
/// if `isa` is `None`, for comparisons. The default is the fastest instruction set of the
/// processor.
#[cfg(feature = "std")]
pub fn with_isa<T>(isa: Option<Isa>, f: impl FnOnce() -> T) -> T {
    let before = SELECTED.replace(Some(isa));
    let result = f();
    SELECTED.set(before);
    result
}

/// Instruction set of the SIMD fast paths; `None` for portable code, and always without `std`, to
/// keep the code small.
pub(crate) fn isa() -> Option<Isa> {
    #[cfg(feature = "std")]
    return SELECTED.get().unwrap_or_else(|| Some(Isa::best()));
    #[cfg(not(feature = "std"))]
    None
}

/// Instruction set for kernels without a portable implementation.
pub(crate) fn isa_or_fallback() -> Isa {
    isa().unwrap_or(if cfg!(feature = "std") { Isa::SCALAR } else { Isa::best() })
}

/// Operands of a SIMD softmax along `dim`: instruction set, sizes outside, along and inside of
/// `dim`, input and output elements. A 0-d tensor counts as 1-d.
///
/// Returns `None` unless `x` and `out` are row-major, non-empty `f32` tensors of the same sizes, or
/// if there is no instruction set.
pub(crate) fn softmax_operands<'a, 'o>(
    x: &TensorView<'a>,
    dim: usize,
    out: &'o mut TensorMut<'_, '_>,
) -> Option<(Isa, Axis, &'a [f32], &'o mut [f32])> {
    let isa = isa()?;
    let is_supported = x.is_contiguous() && out.is_contiguous() && x.sizes() == out.sizes();
    let (from, to) = (x.data().ok()?, out.data_mut().ok()?);
    if !is_supported || to.is_empty() {
        return None;
    }
    let product = |sizes: &[usize]| sizes.iter().product();
    let (outer, rest) = x.sizes().split_at_checked(dim)?;
    let (len, inner) = rest.split_first().unwrap_or((&1, &[]));
    Some((isa, Axis { outer: product(outer), len: *len, inner: product(inner) }, from, to))
}

/// Weight and bias in the optional arguments `indices`; `None` if one is not a row-major `f32`
/// tensor.
pub(crate) fn affine_params<'a>(
    args: &Args<'a>,
    indices: [usize; 2],
) -> Option<[Option<&'a [f32]>; 2]> {
    let mut params = [None; 2];
    for (param, index) in params.iter_mut().zip(indices) {
        if let Some(tensor) = args.opt_tensor(index).ok()? {
            *param = Some(tensor.data().ok().filter(|_| tensor.is_contiguous())?);
        }
    }
    Some(params)
}

/// Normalizes the rows of `x` into `outs`: output, mean, reciprocal standard deviation.
///
/// Returns false and does nothing unless all are row-major, non-empty `f32` tensors, or if there is
/// no instruction set.
pub(crate) fn normalize(
    norm: Norm<'_>,
    x: &TensorView<'_>,
    outs: [&mut TensorMut<'_, '_>; 3],
) -> bool {
    let is_supported = x.is_contiguous() && outs.iter().all(|out| out.is_contiguous());
    let [out, mean, rstd] = outs.map(|out| out.data_mut::<f32>());
    match (isa(), x.data::<f32>(), out, mean, rstd) {
        (Some(isa), Ok(from), Ok(to), Ok(mean), Ok(rstd)) if is_supported && !from.is_empty() => {
            afferent_simd::norm::normalize(isa, norm, from, NormOutput { out: to, mean, rstd });
            true
        }
        _ => false,
    }
}

/// `data` as `f32`; `None` for other dtypes, or without an instruction set.
fn as_f32<T: Operand>(data: &[T]) -> Option<&[f32]> {
    bytemuck::try_cast_slice(data).ok().filter(|_| uses_simd::<T>())
}

/// Like [`as_f32`], mutable.
fn as_f32_mut<T: Operand>(data: &mut [T]) -> Option<&mut [f32]> {
    bytemuck::try_cast_slice_mut(data).ok().filter(|_| uses_simd::<T>())
}

/// Returns true if elements of `T` have a SIMD fast path.
fn uses_simd<T: Operand>() -> bool {
    isa().is_some() && T::DTYPE == ScalarType::Float
}
