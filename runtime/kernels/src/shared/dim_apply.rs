//! Application of a function to each 1-D slice of a tensor along one dimension.

use afferent_core::{Error, KernelContext, TensorMut, TensorView};

use crate::shared::{
    accumulator::Accumulator,
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// 1-D slices of an input and an output tensor along dimension `dim`. Their sizes differ in that
/// dimension at most.
pub(crate) struct DimSlices {
    outer: LoopNest<2>,
    /// Length of a slice of the input.
    pub(crate) len: usize,
    /// Strides along `dim`: input, output.
    pub(crate) strides: [usize; 2],
}

impl DimSlices {
    pub(crate) fn new(
        x: &TensorView<'_>,
        out: &TensorMut<'_, '_>,
        dim: usize,
    ) -> Result<Self, Error> {
        let (from, to) = (strides_of(x), out_strides(out));
        let mut outer = LoopNest::new();
        for (other, &size) in x.sizes().iter().enumerate() {
            if other != dim {
                outer.push(size, [from[other], to[other]])?;
            }
        }
        let stride = |strides: &[usize]| strides.get(dim).copied().unwrap_or(1);
        let len = x.sizes().get(dim).copied().unwrap_or(1);
        Ok(Self { outer, len, strides: [stride(&from), stride(&to)] })
    }

    /// Calls `f` with the offsets of the first elements of each slice: input, output.
    pub(crate) fn for_each(&self, f: impl FnMut([usize; 2])) {
        self.outer.for_each([0, 0], f);
    }
}

/// Copies each 1-D slice of `x`, argument 0, along `dim` to scratch memory, applies `f` to it
/// in place, and writes it to `out`, argument `index`, which is resized to the sizes of `x`.
pub(crate) fn map_slices<A: Accumulator>(
    cx: &mut KernelContext<'_>,
    x: TensorView<'_>,
    dim: usize,
    out: &mut TensorMut<'_, '_>,
    index: u8,
    mut f: impl FnMut(&mut [A]),
) -> Result<(), Error> {
    out.resize(x.sizes())?;
    if out.numel() == 0 {
        return Ok(());
    }
    let slices = DimSlices::new(&x, out, dim)?;
    let slice = cx.scratch::<A>(slices.len)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(out, index)?);
    slices.for_each(|[from, to]| {
        x.read(from, slices.strides[0], slice);
        f(slice);
        out.write(to, slices.strides[1], slice);
    });
    Ok(())
}
