//! Order of elements in sorting operators.

use core::cmp::Ordering;

use afferent_core::{Error, KernelContext, ScalarType, TensorMut, TensorView};

use crate::shared::{
    accumulator::{Accumulator, check_dtype},
    dim_apply::DimSlices,
    elements::{Reader, Writer},
    loop_nest::out_strides,
};

/// Compares in ascending order. NaN compares greater than any number and equal to NaN.
fn ascending<A: Accumulator>(a: A, b: A) -> Ordering {
    a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
}

/// Compares the elements of `slice` at two indices in ascending order, or in descending order if
/// `descending` is true, then the indices.
pub(crate) fn by_element<A: Accumulator>(
    slice: &[A],
    descending: bool,
) -> impl Fn(&u64, &u64) -> Ordering {
    move |a, b| {
        let [x, y] = [*a, *b].map(|index| slice[index as usize]);
        if descending { ascending(y, x) } else { ascending(x, y) }.then(a.cmp(b))
    }
}

/// Fills `order` with the indices 0, 1, ….
pub(crate) fn fill_indices(order: &mut [u64]) {
    (0..).zip(order).for_each(|(index, to)| *to = index);
}

/// Returns an error for argument `index` if elements of `dtype` cannot be compared as `i64`.
pub(crate) fn check_ordered(dtype: ScalarType, index: u8) -> Result<(), Error> {
    if dtype == ScalarType::UInt64 {
        Err(Error::InvalidType { index, found: dtype })
    } else {
        Ok(())
    }
}

/// Scratch memory for a slice of `len` elements, and for `len` indices.
pub(crate) fn slice_scratch<'c, A: Accumulator>(
    cx: &'c mut KernelContext<'_>,
    len: usize,
) -> Result<(&'c mut [A], &'c mut [u64]), Error> {
    let words = len.checked_mul(2).ok_or(Error::OutOfResources { bytes: usize::MAX })?;
    let (order, elements) = cx.scratch::<u64>(words)?.split_at_mut(len);
    let elements: &mut [A] = bytemuck::cast_slice_mut(elements);
    Ok((&mut elements[..len], order))
}

/// Outputs with an element and an index for each position: arguments `index` and `index + 1`.
pub(crate) struct IndexedOutputs<'o, 's, 'a> {
    pub(crate) values: &'o mut TensorMut<'s, 'a>,
    pub(crate) indices: &'o mut TensorMut<'s, 'a>,
    pub(crate) index: u8,
}

impl IndexedOutputs<'_, '_, '_> {
    /// Checks the dtypes, resizes both outputs to `sizes`, and checks that their layouts are equal.
    pub(crate) fn resize(&mut self, dtype: ScalarType, sizes: &[usize]) -> Result<(), Error> {
        check_dtype(self.values.dtype(), dtype, self.index)?;
        check_dtype(self.indices.dtype(), ScalarType::Long, self.index + 1)?;
        self.values.resize(sizes)?;
        self.indices.resize(sizes)?;
        if *out_strides(self.values) != *out_strides(self.indices) {
            return Err(Error::NotSupported { what: "outputs with different dim orders" });
        }
        Ok(())
    }

    /// For each slice of `x`, argument 0, along `dim`, calls `f` with its elements and scratch
    /// memory, which returns the indices of the elements of the output slice.
    pub(crate) fn fill<A: Accumulator>(
        self,
        cx: &mut KernelContext<'_>,
        x: &TensorView<'_>,
        dim: usize,
        mut f: impl for<'f> FnMut(&[A], &'f mut [u64]) -> &'f [u64],
    ) -> Result<(), Error> {
        if self.values.numel() == 0 {
            return Ok(());
        }
        let slices = DimSlices::new(x, self.values, dim)?;
        let (slice, order) = slice_scratch::<A>(cx, slices.len)?;
        let reader = Reader::<A>::new(*x, 0)?;
        let mut values = Writer::<A>::new(self.values, self.index)?;
        let mut indices = Writer::<i64>::new(self.indices, self.index + 1)?;
        slices.for_each(|[from, to]| {
            reader.read(from, slices.strides[0], slice);
            for (at, &index) in f(slice, order).iter().enumerate() {
                let to = to + at * slices.strides[1];
                values.set(to, slice[index as usize]);
                indices.set(to, index as i64);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_greatest() {
        let slice = [1.0, f32::NAN, -1.0, f32::INFINITY, f32::NAN, -0.0, 0.0];
        let mut order = [0; 7];
        fill_indices(&mut order);
        order.sort_unstable_by(by_element(&slice, false));
        assert_eq!(order, [2, 5, 6, 0, 3, 1, 4]);
        order.sort_unstable_by(by_element(&slice, true));
        assert_eq!(order, [1, 4, 3, 0, 5, 6, 2]);
    }
}
