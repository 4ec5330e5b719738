//! Operators that treat each line of elements along one dimension by itself.

use afferent_core::{Error, KernelContext, TensorMut, TensorView};

use crate::shared::{
    accumulator::Accumulator,
    elements::{Reader, Writer},
    loop_nest::{LoopNest, out_strides, strides_of},
};

/// The lines of a tensor `x` along dimension `along`, and those of a tensor `out` that differs from
/// it in that dimension at most.
pub(crate) struct DimSlices {
    others: LoopNest<2>,
    /// Length of a line of `x`.
    pub(crate) len: usize,
    /// Steps along a line.
    pub(crate) steps: [usize; 2],
}

impl DimSlices {
    pub(crate) fn new(
        x: &TensorView<'_>,
        out: &TensorMut<'_, '_>,
        along: usize,
    ) -> Result<Self, Error> {
        let (from, to) = (strides_of(x), out_strides(out));
        let mut others = LoopNest::new();
        for (dim, &size) in x.sizes().iter().enumerate() {
            if dim != along {
                others.push(size, [from[dim], to[dim]])?;
            }
        }
        let step = |strides: &[usize]| strides.get(along).copied().unwrap_or(1);
        let len = x.sizes().get(along).copied().unwrap_or(1);
        Ok(Self { others, len, steps: [step(&from), step(&to)] })
    }

    /// Calls `f` with the positions of the first elements of each line.
    pub(crate) fn for_each(&self, f: impl FnMut([usize; 2])) {
        self.others.for_each([0, 0], f);
    }
}

/// Reads each line of argument 0 along `along`, lets `f` change it, and writes it to `out`, the
/// argument `index`, which gets the same sizes.
pub(crate) fn map_slices<A: Accumulator>(
    cx: &mut KernelContext<'_>,
    x: TensorView<'_>,
    along: usize,
    out: &mut TensorMut<'_, '_>,
    index: u8,
    mut f: impl FnMut(&mut [A]),
) -> Result<(), Error> {
    out.resize(x.sizes())?;
    if out.numel() == 0 {
        return Ok(());
    }
    let lines = DimSlices::new(&x, out, along)?;
    let line = cx.scratch::<A>(lines.len)?;
    let (x, mut out) = (Reader::<A>::new(x, 0)?, Writer::new(out, index)?);
    lines.for_each(|[from, to]| {
        x.read(from, lines.steps[0], line);
        f(line);
        out.write(to, lines.steps[1], line);
    });
    Ok(())
}
